//! Reads that another process can delay for ever, such as those of its memory (userfaultfd(2)).

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Reads that take longer at a time: each leaves a thread behind until its process ends.
const MOST: usize = 4;

/// Returns the result of a read on another thread, or an error if it takes longer than `patience`, or too many reads of
/// the same kind do already. `running` counts them.
pub(super) fn in_time<T: Send + 'static>(
    running: &'static AtomicUsize,
    patience: Duration,
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if running.fetch_add(1, Ordering::Relaxed) >= MOST {
        running.fetch_sub(1, Ordering::Relaxed);
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (done, result) = channel();
    let work = move || {
        // The caller may have given up.
        let _ = done.send(read());
        running.fetch_sub(1, Ordering::Relaxed);
    };
    if let Err(error) = super::thread("memory", work) {
        running.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    result.recv_timeout(patience).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn reads_that_are_delayed_end_and_are_few() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static BLOCKED: Mutex<()> = Mutex::new(());
        let kind = |result: io::Result<i32>| result.map_err(|error| error.kind());
        assert_eq!(kind(in_time(&RUNNING, LONG, || Ok(7))), Ok(7));
        while RUNNING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let blocked = BLOCKED.lock();
        for _ in 0..MOST {
            let read = || BLOCKED.lock().map(|_| 1).map_err(|_| io::ErrorKind::Other.into());
            assert_eq!(kind(in_time(&RUNNING, Duration::ZERO, read)), Err(io::ErrorKind::TimedOut));
        }
        assert_eq!(kind(in_time(&RUNNING, LONG, || Ok(7))), Err(io::ErrorKind::TimedOut), "too many");
        drop(blocked);
        while RUNNING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(kind(in_time(&RUNNING, LONG, || Ok(7))), Ok(7));
    }
}
