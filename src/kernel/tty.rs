//! The watch for a terminal that goes away. crossterm's reader spins when its pty vanishes, and a
//! profiler left by a dropped ssh must not burn a core: the hang-up ends the process, in order.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{Action, QueueSelector, tcflow, tcflush};
use rustix::time::Timespec;

/// Blocks until the terminal on standard output hangs up; `false` when there is none to watch, or
/// `stop` has become true.
pub(crate) fn wait_for_hangup(stop: &dyn Fn() -> bool) -> bool {
    let tty = rustix::stdio::stdout();
    if !rustix::termios::isatty(tty) {
        return false;
    }
    while !stop() {
        let mut fds = [PollFd::new(&tty, PollFlags::empty())];
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut fds, Some(&second)) {
            Ok(n) if n > 0 && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Throws away what the terminal on standard output has not taken, and lets it go on where it was stopped (Ctrl-S).
pub(crate) fn discard_output() {
    let tty = rustix::stdio::stdout();
    let _ = tcflush(tty, QueueSelector::OFlush);
    // Flushing a pseudo-terminal makes room and wakes no writer (pty_flush_buffer in drivers/tty/pty.c); starting one
    // that was stopped does (__start_tty).
    let _ = tcflow(tty, Action::OOff);
    let _ = tcflow(tty, Action::OOn);
}

/// Writes last words to standard error, without memory of the allocator.
pub(crate) fn report(text: &[u8]) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text);
}

/// Ends the process at once, without destructors: the terminal they would restore is gone.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Stops the process as Ctrl-Z would, until it is continued.
pub(crate) fn stop_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
