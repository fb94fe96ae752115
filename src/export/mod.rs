//! Profiles in the formats of other tools. Saving works on a [`crate::engine::Snapshot`], so a live
//! session goes on while it is written; the others work on what queries read.

pub mod copy;
pub mod firefox;
pub mod folded;
pub mod ids;
pub mod otlp;
pub mod perfdata;
pub mod pprof;
pub mod side;
pub mod speedscope;
pub mod svg;
pub mod tables;
