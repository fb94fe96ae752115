//! The parts of the model that all screens share.

pub(crate) mod banner;
pub(crate) mod context;
pub(crate) mod environment;
pub(crate) mod lag;
pub(crate) mod list_cursor;
pub(crate) mod range;
pub(crate) mod scene;
pub(crate) mod selection;
pub mod start;
pub mod tab;
