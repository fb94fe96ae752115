//! The machine's CPUs: what samples, counters and tracepoints say of each, as a table with findings; and the triggers
//! that watch them.

pub mod columns;
pub mod coverage;
pub mod findings;
pub mod sampler;
pub mod softirq;
pub mod table;
pub mod trigger;
