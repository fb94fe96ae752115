//! The machine: its CPUs, their counters in /proc and their topology, and its disks.

mod disks;
pub mod proc;
pub mod quota;
pub(crate) mod resources;
pub mod topology;

pub(crate) use crate::kernel::cpus::parse_list as cpu_list;
pub(crate) use disks::inflight;
pub use disks::{block_device, block_device_of, block_devices};
pub use proc::{Matrix, Pressure, Softnet, Stat, Ticks};
pub use topology::{CpuPlace, Topology};
