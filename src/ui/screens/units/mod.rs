//! The unit screen: state, updates and drawing.

pub(crate) mod chooser;
pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod layout;
pub(crate) mod notes;
pub(crate) mod panel_view;
pub(crate) mod panels;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod update;
