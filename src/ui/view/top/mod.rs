//! The table of functions and their call chains: its state, what changes that, and how it is drawn.

pub mod beside;
pub mod columns;
pub mod commands;
pub mod details;
pub mod draw;
pub mod hit;
pub mod split;
pub mod state;
pub mod update;
