//! An annotated function: state, updates and drawing.

pub(crate) mod draw;
pub(crate) mod state;
pub(crate) mod update;
