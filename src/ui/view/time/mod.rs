//! The map of time: its state, what changes that, and how it is drawn.

pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod heat;
pub(crate) mod layout;
pub(crate) mod state;
pub(crate) mod update;
