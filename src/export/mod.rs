//! Profiles in the formats of other tools. Each works on a [`crate::engine::Moment`], so a live
//! session goes on while it is written.

pub mod perfdata;
pub mod side;
