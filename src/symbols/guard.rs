//! A fence around readers of foreign files: each thread has them run by another one, and where one of them panics, that
//! other thread stands still for good. What it holds is lost to the program, and nobody looks at it again; the panic is
//! an error of its file, and not the end of the program. So nothing has to be unwound, and no code is made for that.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::kernel::own_memory;

/// What was read, or what a panic said.
type Outcome = Result<Box<dyn Any + Send>, String>;
type Job = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// The thread that reads for another one.
struct Reader {
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
}

/// Readers that failed: what they hold is not given back.
static FAILED: AtomicUsize = AtomicUsize::new(0);
/// The time after which what was taken to read is given back.
const LONG: Duration = Duration::from_millis(5);
/// After so many nothing is read any more.
const MOST_FAILED: usize = 64;

thread_local! {
    /// Who reads for this thread, once something is to be read.
    static READER: RefCell<Option<Reader>> = const { RefCell::new(None) };
    /// Who waits for what this thread reads, where it is a reader.
    static WAITING: Cell<Option<Sender<Outcome>>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl Reader {
    /// It has the name and the rights of the thread that it reads for.
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
                // What it took meanwhile lies with this thread, which may have nothing to do for long.
                if begun.elapsed() > LONG {
                    own_memory::give_back();
                }
            }
        })?;
        Ok(Self { jobs, outcomes })
    }

    fn run(&self, job: Job) -> Outcome {
        let _ = self.jobs.send(job);
        // A thread that was unwound, as a test's may be, says nothing.
        self.outcomes.recv().unwrap_or_else(|_| Err(String::new()))
    }
}

/// Reads what others have written. What the reader was given is gone when it fails.
///
/// # Errors
/// What a panic said, and where.
pub(crate) fn guarded<R: Send + 'static>(read: impl FnOnce() -> R + Send + 'static) -> Result<R, String> {
    if is_inside() {
        return Ok(read());
    }
    if FAILED.load(Ordering::Relaxed) >= MOST_FAILED {
        return Err(format!("{MOST_FAILED} readers of files have failed before, and no more are read"));
    }
    let outcome = READER.with_borrow_mut(|slot| {
        let reader = match slot.take() {
            Some(reader) => reader,
            None => Reader::start().map_err(|error| format!("no thread can be started to read it: {error}"))?,
        };
        match reader.run(Box::new(move || Box::new(read()))) {
            Ok(read) => {
                *slot = Some(reader);
                Ok(read)
            }
            Err(said) => {
                FAILED.fetch_add(1, Ordering::Relaxed);
                Err(format!("its reader failed{}{said}", if said.is_empty() { "" } else { ": " }))
            }
        }
    })?;
    outcome.downcast().map(|read| *read).map_err(|_| "its reader read something else".to_owned())
}

/// True if a panic of this thread ends nothing.
fn is_inside() -> bool {
    INSIDE.get()
}

/// What is to be done before a panic's message is printed, which ends the program.
static LAST: OnceLock<fn()> = OnceLock::new();

/// Has something done first when a panic, or the end of memory, ends the program, which is a failure of a command then and not a crash.
pub(crate) fn before_the_end(last: fn()) {
    let _ = LAST.set(last);
    own_memory::before_the_end(last);
}

/// Has every panic outside of a fence end the program, whatever thread it is in: no part of it goes on without another.
/// Nobody sets a hook later: a reader that failed never returns from this one, and whoever sets another would wait for
/// that.
pub(crate) fn end_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if is_inside() {
            stand_still(info);
        }
        let last = LAST.get();
        last.iter().for_each(|last| last());
        before(info);
        if last.is_some() {
            #[allow(clippy::disallowed_methods, reason = "nobody unwinds to main")]
            std::process::exit(1);
        }
        std::process::abort();
    }));
}

/// Tells who waits for this thread what a panic says, and does nothing more.
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
        let failed = guarded(move || list[std::hint::black_box(7)]);
        assert!(failed.is_err_and(|why| why.starts_with("its reader failed")));
        assert!(!is_inside());
        assert_eq!(guarded(|| (is_inside(), guarded(is_inside), is_inside())), Ok((true, Ok(true), true)));
    }

    /// One reader reads for a thread, and has what it was given back to it.
    #[test]
    fn what_is_read_comes_back() {
        let list = (0..1000).map(|i| guarded(move || (i, std::thread::current().id())).expect("read"));
        let (numbers, threads): (Vec<i32>, Vec<_>) = list.unzip();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        assert!(threads.iter().all(|id| *id == threads[0] && *id != std::thread::current().id()));
    }

    /// The code with which the process of that test ends.
    const PASSED: i32 = 7;

    #[test]
    fn a_reader_that_fails_stands_still_and_says_why() {
        let mut own = std::process::Command::new(std::env::current_exe().expect("a path"));
        let own = own.args(["--ignored", "--exact", "symbols::guard::tests::with_the_programs_hook"]);
        assert_eq!(own.output().expect("it runs").status.code(), Some(PASSED));
    }

    #[test]
    #[ignore = "in a process of its own: the hook ends it with the first test that fails"]
    fn with_the_programs_hook() {
        end_on_panic();
        for n in 0..2 {
            let failed = guarded(move || assert!(std::hint::black_box(n) > 7, "damaged {n}")).expect_err("it fails");
            assert!(failed.starts_with(&format!("its reader failed: damaged {n} (guard.rs:")), "{failed}");
            assert_eq!(guarded(move || n + 1), Ok(n + 1));
        }
        #[allow(clippy::disallowed_methods, reason = "the harness would take the hook away, and wait for the readers")]
        std::process::exit(PASSED);
    }
}
