//! The machine's CPUs: what /proc counts of them, and how they stand to each other.

pub mod proc;
pub mod topology;

pub use proc::{Matrix, Pressure, Softnet, Stat, Ticks};
pub use topology::{Place, Topology};
