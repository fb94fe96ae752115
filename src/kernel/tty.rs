//! Detection of a terminal that goes away. crossterm's reader spins when its pty vanishes. A profiler left behind by a
//! dropped ssh connection must not use a CPU, so the hang-up ends the process in order.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;
use rustix::termios::{Action, QueueSelector, tcflow, tcflush, tcgetwinsize};
use rustix::time::Timespec;

/// Blocks until the terminal on standard output hangs up; `false` without a terminal, or when `stop` returns true.
pub(crate) fn wait_for_hangup(stop: &dyn Fn() -> bool) -> bool {
    rustix::termios::isatty(rustix::stdio::stdout()) && wait_for_reader(stop)
}

/// Blocks until the reader of the pipe on standard output has gone; `false` without a pipe.
pub(crate) fn wait_for_closed_pipe() -> bool {
    let is_pipe = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    rustix::fs::fstat(rustix::stdio::stdout()).is_ok_and(is_pipe) && wait_for_reader(&|| false)
}

/// Blocks until standard output has no reader; `false` when `stop` returns true.
fn wait_for_reader(stop: &dyn Fn() -> bool) -> bool {
    let out = rustix::stdio::stdout();
    while !stop() {
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut fds, Some(&second)) {
            Ok(n) if n > 0 && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Discards output that the terminal on standard output has not read yet, and resumes it if it is stopped (Ctrl-S).
pub(crate) fn discard_output() {
    let tty = rustix::stdio::stdout();
    let _ = tcflush(tty, QueueSelector::OFlush);
    // Flushing a pseudo-terminal frees space but does not wake its writer (pty_flush_buffer in drivers/tty/pty.c);
    // starting a stopped one does (__start_tty).
    let _ = tcflow(tty, Action::OOff);
    let _ = tcflow(tty, Action::OOn);
}

/// Returns the columns of the terminal on standard error; `None` without a terminal or its size.
pub(crate) fn error_columns() -> Option<usize> {
    tcgetwinsize(rustix::stdio::stderr()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes a final message to standard error, without allocating.
pub(crate) fn report(text: &[u8]) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text);
}

/// Ends the process at once, without destructors: the terminal that they would restore is gone.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

pub(crate) fn stop_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
