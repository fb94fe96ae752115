//! The map of time: its state, what changes that, and how it is drawn.

pub mod commands;
pub mod draw;
pub mod heat;
pub mod layout;
pub mod state;
pub mod update;
