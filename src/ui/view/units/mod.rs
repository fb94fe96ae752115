//! Analysis units at work: its state, what changes that, and how it is drawn.

pub mod chooser;
pub mod commands;
pub mod draw;
pub mod panel_view;
pub mod panels;
pub mod state;
pub mod table;
pub mod update;
