//! The event screen: state, updates and drawing.

pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod state;
pub(crate) mod update;
