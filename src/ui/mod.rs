//! The screen: a model, commands that change it, and functions that draw it. Does not use the kernel interface.

pub(crate) mod act;
pub mod app;
pub mod command;
pub mod commands;
pub(crate) mod complete;
pub(crate) mod context;
pub(crate) mod draw;
pub(crate) mod footer_keys;
pub(crate) mod frame;
pub(crate) mod frame_pacer;
pub(crate) mod fuzzy;
pub(crate) mod key_lookup;
pub(crate) mod keymap;
pub(crate) mod keys;
pub(crate) mod lag;
pub(crate) mod notice;
pub(crate) mod paint;
pub(crate) mod popup;
pub(crate) mod prompt;
pub(crate) mod range;
pub mod run;
pub(crate) mod scene;
pub(crate) mod selection;
pub mod start;
pub mod tab;
pub(crate) mod term;
pub(crate) mod term_query;
pub mod theme;
pub(crate) mod tour;
pub mod view;
pub(crate) mod widget;

pub use app::{App, Effect};
pub use context::ProgramCall;
pub use frame::Level;
pub use start::Start;
