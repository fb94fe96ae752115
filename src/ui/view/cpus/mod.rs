//! The CPUs and their softirqs: its state, what changes that, and how it is drawn.

pub(crate) mod commands;
pub(crate) mod describe;
pub(crate) mod draw;
pub(crate) mod state;
pub(crate) mod update;
