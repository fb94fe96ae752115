//! Runs parsers of untrusted files on a helper thread, one per calling thread.
//! If a parser panics, its thread parks forever: its memory is leaked and never used again, and the panic becomes an
//! error of its file. So the program does not need unwinding.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::kernel::process::own_memory;
pub(crate) use crate::kernel::process::own_memory::before_the_end;

/// The result of a job, or a panic's message.
type Outcome = Result<Box<dyn Any + Send>, String>;
type Job = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

struct Reader {
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
}

/// Failed readers, whose memory is leaked.
static FAILED: AtomicUsize = AtomicUsize::new(0);
/// A reader that took longer returns its freed memory to the system.
const LONG: Duration = Duration::from_millis(5);
/// After this many failures, no files are read.
const MOST_FAILED: usize = 64;

thread_local! {
    /// The helper of this thread, started on first use.
    static READER: RefCell<Option<Reader>> = const { RefCell::new(None) };
    /// The thread that waits for this one, if this is a helper.
    static WAITING: Cell<Option<Sender<Outcome>>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl Reader {
    /// Starts a helper with the name and rights of the calling thread.
    fn start() -> std::io::Result<Self> {
        let (jobs, work) = bounded::<Job>(1);
        let (done, outcomes) = bounded(1);
        let own = std::thread::current();
        crate::kernel::thread(own.name().unwrap_or("reader"), move || {
            INSIDE.set(true);
            WAITING.set(Some(done.clone()));
            for job in work {
                let begun = Instant::now();
                if done.send(Ok(job())).is_err() {
                    return;
                }
                // Freed memory stays in this thread's arena, which may be idle for long.
                if begun.elapsed() > LONG {
                    own_memory::give_back();
                }
            }
        })?;
        Ok(Self { jobs, outcomes })
    }

    fn run(&self, job: Job) -> Outcome {
        let _ = self.jobs.send(job);
        // A thread that was unwound, as in tests, does not send an outcome.
        self.outcomes.recv().unwrap_or_else(|_| Err(String::new()))
    }
}

/// Runs a parser of untrusted data. If it panics, its captures leak, and the error has the message and location.
pub(crate) fn run_isolated<R: Send + 'static>(read: impl FnOnce() -> R + Send + 'static) -> Result<R, String> {
    if is_inside() {
        return Ok(read());
    }
    if FAILED.load(Ordering::Relaxed) >= MOST_FAILED {
        return Err(format!("{MOST_FAILED} file parsers failed already, so no more files are read"));
    }
    let outcome = READER.with_borrow_mut(|slot| {
        let reader = match slot.take() {
            Some(reader) => reader,
            None => Reader::start().map_err(|error| format!("cannot start a thread to read it: {error}"))?,
        };
        match reader.run(Box::new(move || Box::new(read()))) {
            Ok(read) => {
                *slot = Some(reader);
                Ok(read)
            }
            Err(said) => {
                FAILED.fetch_add(1, Ordering::Relaxed);
                Err(format!("its parser failed{}{said}", if said.is_empty() { "" } else { ": " }))
            }
        }
    })?;
    outcome.downcast().map(|read| *read).map_err(|_| "its parser returned another type".to_owned())
}

/// Returns whether a panic of this thread is contained.
fn is_inside() -> bool {
    INSIDE.get()
}

/// Installs a hook that ends the program on every panic of an uncontained thread. No part runs on without another. The
/// hook must not be replaced later: a failed reader never returns from it, and replacing it would wait for the reader.
pub(crate) fn end_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if is_inside() {
            stand_still(info);
        }
        let last = own_memory::last();
        last.iter().for_each(|last| last());
        before(info);
        if last.is_some() {
            #[allow(clippy::disallowed_methods, reason = "panics do not unwind to main")]
            std::process::exit(1);
        }
        std::process::abort();
    }));
}

/// Sends a panic's message to the waiting thread, and parks.
fn stand_still(info: &PanicHookInfo<'_>) -> ! {
    let words = info.payload_as_str().unwrap_or("a panic");
    let file = info.location().map(|at| (at.file().rsplit('/').next().unwrap_or_default(), at.line()));
    let place = file.map(|(name, line)| format!(" ({name}:{line})")).unwrap_or_default();
    if let Some(waiting) = WAITING.take() {
        let _ = waiting.send(Err(format!("{words}{place}")));
    }
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_an_error_and_the_thread_goes_on() {
        let list = [1, 2];
        let failed = run_isolated(move || list[std::hint::black_box(7)]);
        assert!(failed.is_err_and(|why| why.starts_with("its parser failed")));
        assert!(!is_inside());
        assert_eq!(run_isolated(|| (is_inside(), run_isolated(is_inside), is_inside())), Ok((true, Ok(true), true)));
    }

    #[test]
    fn what_is_read_comes_back() {
        let list = (0..1000).map(|i| run_isolated(move || (i, std::thread::current().id())).expect("read"));
        let (numbers, threads): (Vec<i32>, Vec<_>) = list.unzip();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        assert!(threads.iter().all(|id| *id == threads[0] && *id != std::thread::current().id()));
    }

    const PASSED: i32 = 7;

    #[test]
    fn a_reader_that_fails_stands_still_and_says_why() {
        let mut own = std::process::Command::new(std::env::current_exe().expect("a path"));
        let own = own.args(["--ignored", "--exact", "symbols::trust::isolated::tests::with_the_programs_hook"]);
        assert_eq!(own.output().expect("it runs").status.code(), Some(PASSED));
    }

    #[test]
    #[ignore = "runs in a separate process, which the hook ends on a failure"]
    fn with_the_programs_hook() {
        end_on_panic();
        for n in 0..2 {
            let failed =
                run_isolated(move || assert!(std::hint::black_box(n) > 7, "damaged {n}")).expect_err("it fails");
            assert!(failed.starts_with(&format!("its parser failed: damaged {n} (isolated.rs:")), "{failed}");
            assert_eq!(run_isolated(move || n + 1), Ok(n + 1));
        }
        #[allow(clippy::disallowed_methods, reason = "the harness would remove the hook, and wait for the readers")]
        std::process::exit(PASSED);
    }
}
