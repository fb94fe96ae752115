//! Signals and the loss of the terminal, for screens and commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};

use crate::kernel::spawn::ExitOutcome;
use crate::kernel::{self, EndRequests, tty};
use crate::ui::terminal::run::OutsideEvent;

use super::output::complain;

/// Returns the signals that request the end. Under nohup, SIGHUP is not one of them.
fn ending() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGQUIT, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !kernel::is_ignored(SIGHUP))
}

/// Set when a signal requests the end.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    outlive_others()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ending() {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Watches for signals in a command that prepares a report after its measurement. With `prints`, the reader of standard
/// output also counts: without one, the report is of no use.
pub(crate) fn end_requests(prints: bool) -> std::io::Result<EndRequests> {
    outlive_others()?;
    let ends = EndRequests::default();
    for signal in ending() {
        signal_hook::flag::register_usize(signal, ends.arrived(), signal as usize)?;
    }
    let mut signals = signal_hook::iterator::Signals::new(ending())?;
    let of_signals = ends.clone();
    kernel::thread("signals", move || of_signals.take_signals(signals.forever(), |code| end_soon(code)))?;
    let of_pipe = ends.clone();
    let watch = move || {
        if tty::wait_for_closed_pipe() {
            of_pipe.give_up(0);
            end_soon(0);
        }
    };
    // Without this thread, the program ends when it prints.
    let _ = prints.then(|| kernel::thread("output", watch));
    Ok(ends)
}

/// Time for removing events, probes and the command, unless the work does not end.
const ORDERLY_END: Duration = Duration::from_secs(5);

/// Ends the process if it does not end in order, as while a large file is parsed.
fn end_soon(code: u8) -> ! {
    std::thread::sleep(ORDERLY_END);
    tty::exit_now(i32::from(code))
}

/// Number of the signal that requested the end; 0 before.
pub(crate) fn stop_signal() -> std::io::Result<Arc<AtomicUsize>> {
    outlive_others()?;
    let stop = Arc::new(AtomicUsize::new(0));
    for signal in ending() {
        signal_hook::flag::register_usize(signal, stop.clone(), signal as usize)?;
    }
    Ok(stop)
}

/// Makes SIGUSR1, SIGUSR2 and SIGXFSZ harmless by default: their default action would lose the measurement, leave the
/// command behind and leave the terminal in the screen's mode. They get a handler instead of being ignored, because a
/// started command would inherit that.
fn outlive_others() -> std::io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    [SIGUSR1, SIGUSR2, SIGXFSZ]
        .into_iter()
        .try_for_each(|signal| signal_hook::flag::register(signal, unread.clone()).map(drop))
}

/// Steps of a screen's end, for the threads that watch it.
#[derive(Debug, Default)]
struct Steps {
    /// The terminal was restored.
    left: AtomicBool,
    /// Events, probes and commands were removed, too.
    ended: AtomicBool,
}

/// Watch over a screen: forwards signals and the loss of the terminal, and ends the screen even if the terminal blocks.
#[derive(Debug)]
pub(crate) struct ScreenWatch(Arc<Steps>);

impl ScreenWatch {
    pub(crate) fn start(outside: Sender<OutsideEvent>) -> anyhow::Result<Self> {
        outlive_others()?;
        let steps: Arc<Steps> = Arc::default();
        let mut signals = signal_hook::iterator::Signals::new(ending().chain([SIGCONT]))?;
        let (told, seen) = (outside.clone(), steps.clone());
        kernel::thread("signals", move || {
            for signal in signals.forever() {
                let what = match signal {
                    // When the program suspends itself, it takes the terminal back itself.
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
        // Without this thread, SIGHUP still ends the program when the terminal is lost, but not when it blocks.
        let _ = kernel::thread("hangup", watch);
        Ok(Self(steps))
    }

    pub(crate) fn left(&self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

impl Drop for ScreenWatch {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// Time for a frame that is being written at the end.
const LAST_FRAME: Duration = Duration::from_secs(2);
/// Time for removing everything at the end; a command has five seconds to end.
const TAKE_AWAY: Duration = Duration::from_secs(20);
/// Interval of checks for the end.
const LOOK: Duration = Duration::from_millis(50);

impl Steps {
    /// Waits for the end, and discards output that the terminal does not accept: a stopped terminal (Ctrl-S), or one
    /// whose other side does not read, would block forever.
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

    /// Waits until events, probes and commands are removed, with a time limit, because without a terminal the user
    /// cannot see or stop the process.
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

/// Whether the program is just suspending itself.
pub(crate) static SUSPENDED: AtomicBool = AtomicBool::new(false);

/// Reports a command that is slow to end or does not end, while `end` runs.
pub(crate) fn farewell<R>(fate: &ExitOutcome, end: impl FnOnce() -> R) -> R {
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
    // Without this thread the wait is silent.
    let watched = fate.running().and_then(|_| kernel::thread("farewell", watch).ok());
    let result = end();
    over.store(true, Ordering::Relaxed);
    watched.map(std::thread::JoinHandle::join);
    if let Some(pid) = fate.running() {
        complain(&format!("the command (process {pid}) still runs: it ignores SIGTERM; end it with kill -KILL {pid}"));
    }
    result
}

/// Time after which waiting for a command is reported.
const LATE: Duration = Duration::from_secs(1);
