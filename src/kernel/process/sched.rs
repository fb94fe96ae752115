//! The scheduling of the calling thread (sched(7)).

use std::io;

/// Sets the SCHED_FIFO priority (1 is the lowest, 99 the highest) of the calling thread, which then runs before all
/// ordinary threads. `None` makes it ordinary. Its children always start with SCHED_OTHER and nice value 0.
pub(crate) fn set_realtime(priority: Option<i32>) -> io::Result<()> {
    let policy = if priority.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    // The kernel's structure is this number alone. musl's structure is larger, and its function does nothing.
    let param = priority.unwrap_or(0);
    // SAFETY: the kernel reads the number, which is ours, and 0 is the calling thread.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy | libc::SCHED_RESET_ON_FORK, &raw const param) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
pub(crate) fn is_realtime() -> bool {
    // SAFETY: no memory is passed, and 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int;
    policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO
}
