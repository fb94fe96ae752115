//! The CPU screen: state, updates and drawing.

pub(crate) mod charts;
pub(crate) mod commands;
pub(crate) mod describe;
pub(crate) mod draw;
pub(crate) mod state;
pub(crate) mod update;
