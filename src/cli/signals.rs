//! Signals and the end of the terminal, as screens and commands are told of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};

use crate::kernel::spawn::Fate;
use crate::kernel::{self, tty};
use crate::ui::run::OutsideEvent;

use super::output::complain;

/// The signals that ask us to end. Under nohup the end of a terminal is no reason to.
fn ending() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGQUIT, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !kernel::is_ignored(SIGHUP))
}

/// Set when a signal asks us to end.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    outlive_others()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ending() {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// The number of a signal that asks us to end; 0 before one does.
pub(crate) fn stop_signal() -> std::io::Result<Arc<AtomicUsize>> {
    outlive_others()?;
    let stop = Arc::new(AtomicUsize::new(0));
    for signal in ending() {
        signal_hook::flag::register_usize(signal, stop.clone(), signal as usize)?;
    }
    Ok(stop)
}

/// Has the signals that are for anything, and the one of a file that is too large, change nothing where nobody waits for
/// them: what was measured would be lost, a command left behind, the terminal left as a screen has it. They are taken
/// and not ignored, as a command that we start would have that from us.
fn outlive_others() -> std::io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    [SIGUSR1, SIGUSR2, SIGXFSZ]
        .into_iter()
        .try_for_each(|signal| signal_hook::flag::register(signal, unread.clone()).map(drop))
}

/// The end of a screen, step by step, as the threads that watch over it see it.
#[derive(Debug, Default)]
struct Steps {
    /// The terminal was given back.
    left: AtomicBool,
    /// Events, probes and commands are gone, too.
    ended: AtomicBool,
}

/// The watch over a screen: it is told of signals and of the end of its terminal, and ends then whatever the terminal
/// does. Dropped when all is over.
#[derive(Debug)]
pub(crate) struct ScreenWatch(Arc<Steps>);

impl ScreenWatch {
    /// Begins; the screen is told by a channel.
    pub(crate) fn start(outside: Sender<OutsideEvent>) -> anyhow::Result<Self> {
        outlive_others()?;
        let steps: Arc<Steps> = Arc::default();
        let mut signals = signal_hook::iterator::Signals::new(ending().chain([SIGCONT]))?;
        let (told, seen) = (outside.clone(), steps.clone());
        kernel::thread("signals", move || {
            for signal in signals.forever() {
                let what = match signal {
                    // Our own suspension takes the terminal back itself.
                    SIGCONT if SUSPENDED.load(Ordering::Acquire) => continue,
                    SIGCONT => OutsideEvent::Continued,
                    _ => OutsideEvent::Stop,
                };
                let ends = what == OutsideEvent::Stop;
                let _ = told.send(what);
                if ends {
                    return seen.let_go();
                }
            }
        })?;
        let seen = steps.clone();
        let watch = move || {
            if tty::wait_for_hangup(&|| seen.ended.load(Ordering::Relaxed)) {
                let _ = outside.send(OutsideEvent::Stop);
                seen.end_without_terminal();
            }
        };
        // Without this thread a lost terminal still ends us by SIGHUP; only a blocked one would not.
        let _ = kernel::thread("hangup", watch);
        Ok(Self(steps))
    }

    /// Says that the terminal was given back.
    pub(crate) fn left(&self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

impl Drop for ScreenWatch {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// The time for a frame that is being written when the end comes.
const LAST_FRAME: Duration = Duration::from_secs(2);
/// The time for all that is to be taken away at the end: a command has five seconds to end.
const TAKE_AWAY: Duration = Duration::from_secs(20);
/// Between two looks at how far the end is.
const LOOK: Duration = Duration::from_millis(50);

impl Steps {
    /// Waits for the end, and throws away what a terminal does not take: one that was stopped (Ctrl-S), or whose other
    /// side does not read, would keep us for ever.
    fn let_go(&self) {
        let begun = Instant::now();
        while !self.ended.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            let patience = if self.left.load(Ordering::Relaxed) { TAKE_AWAY } else { LAST_FRAME };
            if begun.elapsed() > patience {
                tty::discard_output();
            }
        }
    }

    /// Waits until events, probes and commands are gone, as after any other end, and no longer than that should take:
    /// without a terminal nobody sees or stops the process any more.
    fn end_without_terminal(&self) {
        let begun = Instant::now();
        while !self.ended.load(Ordering::Relaxed) {
            if begun.elapsed() > TAKE_AWAY {
                tty::exit_now(1);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// True if we are stopping ourselves right now.
pub(crate) static SUSPENDED: AtomicBool = AtomicBool::new(false);

/// Reports a command that takes its time to end, and one that does not end, while what started it is ended by a call.
pub(crate) fn farewell<R>(fate: &Fate, end: impl FnOnce() -> R) -> R {
    let over = Arc::new(AtomicBool::new(false));
    let (fate_seen, seen) = (fate.clone(), over.clone());
    let watch = move || {
        let begun = Instant::now();
        while begun.elapsed() < LATE && !seen.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        if let Some(pid) = fate_seen.running().filter(|_| !seen.load(Ordering::Relaxed)) {
            complain(&format!("waiting for the command (process {pid}) to end"));
        }
    };
    // Without it the wait is silent.
    let watched = fate.running().and_then(|_| kernel::thread("farewell", watch).ok());
    let result = end();
    over.store(true, Ordering::Relaxed);
    watched.map(std::thread::JoinHandle::join);
    if let Some(pid) = fate.running() {
        complain(&format!(
            "the command (process {pid}) still runs: it does not heed SIGTERM; kill -KILL {pid} ends it"
        ));
    }
    result
}

/// The time after which a wait for a command's end is reported.
const LATE: Duration = Duration::from_secs(1);
