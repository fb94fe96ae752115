//! The event screen, of what is measured and what could be: its state, what changes that, and how it is drawn.

pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod state;
pub(crate) mod update;
