//! The parts of the model that all screens share.

pub(crate) mod banner;
pub(crate) mod comparison;
pub(crate) mod context;
pub(crate) mod effect;
pub(crate) mod environment;
pub(crate) mod lag;
pub(crate) mod list_cursor;
pub(crate) mod model;
pub(crate) mod range;
pub(crate) mod sampling;
pub(crate) mod selection;
pub(crate) mod settings;
pub(crate) mod shown_time;
pub mod start;
pub mod tab;

pub(crate) use context::{ProgramCall, SavedFilters, SessionContext};
pub(crate) use effect::{Effect, OutsideRequest};
pub(crate) use environment::{Environment, Level};
pub(crate) use list_cursor::ListCursor;
pub(crate) use model::{MIN, Model};
pub(crate) use selection::{
    BannerSubject, BaselineSource, ComparedWith, Selection, WINDOWS, Zoom, ZoomTarget, describe_age,
};
pub(crate) use start::{Start, StartupAction};
pub(crate) use tab::Tab;
