//! The screen: a model, commands that change it, and functions that draw it. Does not use the kernel interface.
//!
//! A key press goes through [`terminal`] (the event loop), [`input`] (which command a key means), [`app`] (which changes
//! the state), then [`draw`] and [`screens`], which draw it.

pub mod app;
pub(crate) mod draw;
pub mod input;
pub(crate) mod popups;
pub mod screens;
pub mod state;
pub mod terminal;
pub mod theme;
pub(crate) mod widgets;

pub use app::App;
pub use state::context::ProgramCall;
pub use state::effect::{Effect, OutsideRequest};
pub use state::environment::Level;
pub use state::model::Model;
pub use state::start::Start;
