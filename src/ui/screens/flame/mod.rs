//! The flame graph: state, updates and drawing.

pub(crate) mod blocks;
pub(crate) mod commands;
mod details;
pub(crate) mod draw;
pub mod state;
pub(crate) mod update;
