//! A function, instruction by instruction: its state, what changes that, and how it is drawn.

pub(crate) mod draw;
pub(crate) mod state;
pub(crate) mod update;
