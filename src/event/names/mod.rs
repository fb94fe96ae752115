//! The names of events: the `-e` grammar, perf's names, PMUs in sysfs, the catalogue.

pub(crate) mod branches;
pub mod callgraph;
pub mod catalogue;
pub(crate) mod perf_names;
pub(crate) mod pmu;
pub(crate) mod registers;
pub mod spec;
pub(crate) mod state;
pub(crate) mod supported;
