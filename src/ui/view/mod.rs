//! The screens, a folder for each.

pub mod annotate;
pub mod cpus;
pub mod events;
pub mod flame;
pub mod time;
pub mod top;
pub mod units;
