//! The machine and its parts: CPUs, cgroups, identity.

pub mod cgroup;
pub mod cpus;
pub mod host;
pub mod identity;
pub mod sockets;
