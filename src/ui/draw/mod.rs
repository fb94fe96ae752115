//! Drawing: functions from the model to cells, without side effects.

pub(crate) mod choose;
pub(crate) mod footer;
pub(crate) mod header;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod layout;
pub(crate) mod popups;
pub(crate) mod screen;
mod tour;
