//! The kernel interface: `perf_event_open`, ring buffers, /proc, /sys and tracefs reads. All `unsafe` of the program is
//! here, each block with its reason. This module does not know about profiles: it returns bytes and numbers to its
//! callers, and takes their requests.

pub(crate) mod blocked;
pub mod bpf;
pub(crate) mod call_sums;
pub(crate) mod dns_messages;
pub(crate) mod file_error;
pub mod files;
pub(crate) mod hit_sums;
mod in_time;
pub(crate) mod kernel_symbols;
pub mod machine;
pub mod perf_event;
pub mod process;
pub mod procfs;
mod procmap;
mod shared;
pub(crate) mod switch_batches;
pub(crate) mod tty;
pub(crate) mod wakeup;
pub mod walk;

pub use bpf::btf;
pub(crate) use bpf::strings;
pub(crate) use files::mapped;
pub use machine::{cgroup, cpus, host, identity, peers, services, sockets};
pub(crate) use perf_event::ring;
#[cfg(test)]
pub(crate) use perf_event::tests as fake;
pub use perf_event::{attr, sys};
pub use process::end_requests::EndRequests;
pub use process::thread_priority::ThreadPriority;
pub(crate) use process::thread_priority::thread_wanted_cpu_ns;
pub use process::{limits, own_memory, privilege, thread_priority};
pub(crate) use process::{sched, spawn};

/// Starts a thread with this name. If a limit forbids it, the error names the thread and the limits.
pub(crate) fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| not_started(name, &error))
}

pub(crate) fn scoped_thread<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<std::thread::ScopedJoinHandle<'scope, T>> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    started.map_err(|error| not_started(name, &error))
}

fn not_started(name: &str, error: &std::io::Error) -> std::io::Error {
    let remedy = "raise the limit on processes (ulimit -u, a cgroup's pids.max) or on address space (ulimit -v)";
    std::io::Error::new(error.kind(), format!("the thread {name} cannot be started: {error}; {remedy}"))
}

/// Returns nanoseconds of `CLOCK_MONOTONIC`, the clock of every event that we open.
pub fn monotonic_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// Returns nanoseconds since the epoch.
pub(crate) fn wall_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Realtime))
}

/// Returns the time of boot in nanoseconds since the epoch.
pub(crate) fn boot_wall_ns() -> u64 {
    wall_ns().saturating_sub(timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)))
}

/// Returns the generation that distinguishes an inode from earlier ones of the same number; `None` on file
/// systems without generations.
pub(crate) fn inode_generation(file: &std::fs::File) -> Option<u64> {
    use std::os::fd::AsRawFd;
    let mut generation: libc::c_long = 0;
    // SAFETY: the descriptor is open for the length of the call, and the kernel writes an int or a long to a long that
    // lives through it.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETVERSION, &raw mut generation) };
    (status == 0 && generation != 0).then_some(generation as u64 & u64::from(u32::MAX))
}

/// Returns the local time at a second since the epoch (localtime_r(3)).
pub(crate) fn local_time(seconds: i64) -> Option<jiff::civil::DateTime> {
    let mut out = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers lead to values of ours that live through the call. localtime_r writes only the second one,
    // and all zeroes are a valid value of it.
    let (filled, tm) = unsafe {
        let filled = !libc::localtime_r(&seconds, out.as_mut_ptr()).is_null();
        (filled, out.assume_init())
    };
    filled.then_some(())?;
    let part = |number: i32| i8::try_from(number).ok();
    let year = i16::try_from(tm.tm_year.checked_add(1900)?).ok()?;
    let (month, day, hour, minute) = (part(tm.tm_mon + 1)?, part(tm.tm_mday)?, part(tm.tm_hour)?, part(tm.tm_min)?);
    // A leap second is shown as the second before it.
    jiff::civil::DateTime::new(year, month, day, hour, minute, part(tm.tm_sec.min(59))?, 0).ok()
}

pub(crate) fn own_cpu_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

/// Returns the CPU time of children that have ended and were waited for, in nanoseconds: user and system.
pub(crate) fn children_cpu_ns() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure at the pointer, which is ours and of the expected size. All zeroes are a
    // valid value, should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |t: libc::timeval| t.tv_sec.max(0) as u64 * 1_000_000_000 + t.tv_usec.max(0) as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the kernel only fills the structure at the pointer, which is ours. All zeroes are a
    // valid value, should the call fail.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

pub(crate) fn thread_cpu_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

/// Does some work; returns its result and the thread's CPU time for it in nanoseconds. On a busy machine the work takes much
/// longer than that, because the thread waits for a CPU.
pub(crate) fn with_cpu_time<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = thread_cpu_ns();
    let done = work();
    (done, thread_cpu_ns().saturating_sub(before))
}

/// Returns the time that the calling thread waited for a CPU, in nanoseconds; 0 if the kernel does not report it.
pub(crate) fn thread_run_delay_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|delay| delay.parse().ok()).unwrap_or(0)
}

fn timespec_ns(t: rustix::time::Timespec) -> u64 {
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}
