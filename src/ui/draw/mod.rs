//! Draws what is around the screens: functions from the model to cells, without side effects.

pub(crate) mod footer;
pub(crate) mod footer_keys;
pub(crate) mod header;
pub(crate) mod layout;
pub(crate) mod screen;
pub(crate) mod tabs;
