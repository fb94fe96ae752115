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

pub(crate) use context::{ProgramCall, SavedFilters, SessionContext};
pub(crate) use environment::{Environment, Level};
pub(crate) use list_cursor::ListCursor;
pub(crate) use scene::{MIN, Scene};
pub(crate) use selection::{
    BannerSubject, BaselineSource, ComparedWith, Selection, WINDOWS, Zoom, ZoomTarget, describe_age,
};
pub(crate) use start::{Start, StartupAction};
pub(crate) use tab::Tab;
