//! Commands, and the keys that they are bound to.

pub(crate) mod action;
pub mod command;
pub mod commands;
pub(crate) mod key_lookup;
pub(crate) mod keymap;
pub(crate) mod keys;

pub(crate) use action::{Action, Actions};
pub(crate) use command::{Argument, ArgumentKind, Command, HintAction, Hints, Invocation};
pub(crate) use keys::shown;
