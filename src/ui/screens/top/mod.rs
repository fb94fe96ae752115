//! The table of functions and their call chains: state, updates and drawing.

pub(crate) mod beside;
pub(crate) mod columns;
pub(crate) mod commands;
pub(crate) mod details;
pub(crate) mod draw;
pub(crate) mod screen;
pub(crate) mod split;
pub(crate) mod state;
pub(crate) mod update;
