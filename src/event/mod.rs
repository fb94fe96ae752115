//! Event names: the `-e` grammar, the names that perf knows, PMUs in sysfs, tracepoints in tracefs.

pub mod fault;
pub mod format;
pub mod names;
pub mod pmu;
pub mod print;
pub mod spec;
pub mod tracepoint;

pub use fault::Fault;
pub use spec::{Event, parse};
