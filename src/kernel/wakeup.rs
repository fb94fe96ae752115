//! A signal to a thread that also waits for other file descriptors (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// The signal. It has one waiting thread; any thread may wake it.
#[derive(Debug)]
pub(crate) struct WakeSignal {
    fd: OwnedFd,
    /// Whether it was signaled since the last wait, so that further signals need no system call.
    is_pending: AtomicBool,
}

impl WakeSignal {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd, is_pending: AtomicBool::new(false) })
    }

    /// Ends the current or the next wait. The waiting thread then sees all that the caller did before.
    pub(crate) fn wake(&self) {
        if !self.is_pending.swap(true, Ordering::AcqRel) {
            // It fails only if the counter is full, and then the wait ends, too.
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }

    /// Waits for a signal, for another descriptor that can be read, or for the end of this time.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, time: Duration) {
        let mut is_signaled = self.is_pending.load(Ordering::Acquire);
        if !is_signaled && !time.is_zero() {
            let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
            let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut all = [of(self.fd.as_fd()), of(other.unwrap_or(self.fd.as_fd()))];
            // A wait that is interrupted or fails ends early.
            let _ = poll(&mut all, Some(&timeout));
            is_signaled = !all[0].revents().is_empty() || self.is_pending.load(Ordering::Acquire);
        }
        if is_signaled {
            // The flag falls after the counter: a later signal counts again. If the counter of a signal follows its
            // flag, the next wait ends early.
            let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
            self.is_pending.swap(false, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_signal_ends_one_wait() {
        let wakeup = WakeSignal::new().expect("a descriptor");
        wakeup.wake();
        wakeup.wake();
        wakeup.wait(None, LONG);
        let is_left = wakeup.is_pending.load(Ordering::Acquire) || rustix::io::read(&wakeup.fd, &mut [0_u8; 8]).is_ok();
        assert!(!is_left, "both signals are of the first wait");
    }

    #[test]
    fn another_thread_and_another_descriptor_end_a_wait() {
        let wakeup = Arc::new(WakeSignal::new().expect("a descriptor"));
        let other = wakeup.clone();
        let waker = std::thread::spawn(move || (0..100).for_each(|_| other.wake()));
        wakeup.wait(None, LONG);
        waker.join().expect("ends");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&writer, b"x").expect("written");
        wakeup.wait(Some(reader.as_fd()), Duration::ZERO);
        wakeup.wait(Some(reader.as_fd()), LONG);
    }
}
