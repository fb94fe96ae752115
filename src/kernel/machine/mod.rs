//! The machine and its parts: CPUs, cgroups, identity.

pub mod cgroup;
pub mod cpus;
pub mod host;
pub mod identity;
mod inet_diag;
pub mod peers;
pub mod services;
mod sock_diag;
pub mod sockets;
