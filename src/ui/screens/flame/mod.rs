//! The flame graph: state, updates and drawing.

pub(crate) mod commands;
pub(crate) mod draw;
pub mod state;
pub(crate) mod update;
