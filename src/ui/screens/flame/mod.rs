//! The flame graph: state, updates and drawing.

pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod screen;
pub mod state;
pub(crate) mod update;
