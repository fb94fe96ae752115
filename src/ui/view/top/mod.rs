//! The table of functions and their call chains: its state, what changes that, and how it is drawn.

pub mod beside;
pub mod columns;
pub mod draw;
pub mod state;
pub mod update;
