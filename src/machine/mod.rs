//! The running machine: CPUs as figures and a table with findings, triggers, and the threads that read them.

pub mod columns;
pub mod coverage;
pub mod findings;
pub mod host;
mod quotas;
pub mod sampler;
pub mod softirqs;
pub mod table;
pub mod trigger;
mod work;
