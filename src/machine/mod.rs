//! The running machine: CPUs as figures and a table with findings, triggers, and the threads that read them.

pub mod columns;
pub mod coverage;
pub mod culprits;
pub mod deadlocks;
pub mod findings;
pub mod host;
pub mod lock_waits;
pub mod memory_limits;
mod pace;
pub mod processes;
mod quotas;
pub mod resources;
pub mod sampler;
mod scripts;
pub mod sockets;
pub mod softirqs;
pub mod table;
pub mod triage;
pub mod trigger;
mod work;
