//! The flame graph: its state, what changes that, and how it is drawn.

pub(crate) mod commands;
pub(crate) mod draw;
pub mod state;
pub(crate) mod update;
