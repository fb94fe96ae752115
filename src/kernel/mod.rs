//! The kernel interface: `perf_event_open`, ring buffers, /proc, /sys and tracefs reads.
//!
//! All `unsafe` of the program lives here, each block with its reason. Nothing here knows what a
//! profile is: bytes and numbers go up, requests come down.

pub mod attr;
pub mod bpf;
pub mod btf;
pub mod cgroup;
pub mod cpus;
#[cfg(test)]
pub mod fake;
pub mod host;
pub mod limits;
pub mod procfs;
pub mod ring;
pub mod spawn;
pub mod sys;
pub mod tty;

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of every event that we open.
pub fn monotonic_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// Nanoseconds since the epoch.
pub fn wall_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Realtime))
}

/// CPU time that this process has used so far, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

/// CPU time that the calling thread has used so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

fn timespec_ns(t: rustix::time::Timespec) -> u64 {
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}
