//! Analysis units at work: its state, what changes that, and how it is drawn.

pub(crate) mod chooser;
pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod panel_view;
pub(crate) mod panels;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod update;
