//! The heat map of time: state, updates and drawing.

pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod heat;
pub(crate) mod layout;
pub(crate) mod state;
pub(crate) mod update;
