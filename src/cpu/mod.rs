//! The machine's CPUs: a table of figures from samples, counters and tracepoints, with findings; and triggers on them.

pub mod columns;
pub mod coverage;
pub mod findings;
pub mod sampler;
pub mod softirq;
pub mod table;
pub mod trigger;
