//! The scheduling of the calling thread (sched(7)).

use std::io;

/// First come, first served, before all ordinary threads (1 is the least, 99 the most), or as an ordinary thread.
/// Either way what it starts is ordinary, and no nicer than anybody's.
pub(crate) fn set_realtime(priority: Option<i32>) -> io::Result<()> {
    let policy = if priority.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    // The kernel's structure is this number alone; musl's has more in it, and its function does nothing.
    let param = priority.unwrap_or(0);
    // SAFETY: the kernel reads the number, which is ours, and 0 is the calling thread.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy | libc::SCHED_RESET_ON_FORK, &raw const param) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// True if the calling thread is served before all ordinary ones.
#[cfg(test)]
pub(crate) fn is_realtime() -> bool {
    // SAFETY: no memory is handed over, and 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int;
    policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO
}
