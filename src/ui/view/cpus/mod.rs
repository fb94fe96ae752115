//! The CPUs and their softirqs: its state, what changes that, and how it is drawn.

pub mod commands;
pub mod describe;
pub mod draw;
pub mod state;
pub mod update;
