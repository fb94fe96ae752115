//! The screen: a model, commands that change it, and functions that draw it. Knows questions,
//! answers and panels; nothing of the kernel.

pub mod act;
pub mod app;
pub mod command;
pub mod commands;
pub mod complete;
pub mod context;
pub mod draw;
pub mod footer_keys;
pub mod frame;
pub mod frame_pacer;
pub mod fuzzy;
pub mod key_lookup;
pub mod keymap;
pub mod keys;
pub mod lag;
pub mod notice;
pub mod paint;
pub mod popup;
pub mod prompt;
pub mod range;
pub mod run;
pub mod scene;
pub mod selection;
pub mod start;
pub mod tab;
pub mod term;
pub mod term_query;
pub mod theme;
pub mod tour;
pub mod view;
pub mod widget;

pub use app::{App, Effect};
pub use command::Invocation;
pub use start::Start;
