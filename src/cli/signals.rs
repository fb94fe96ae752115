//! Signals and the end of the terminal, as screens and commands are told of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};

use crate::kernel::{self, tty};
use crate::ui::run::OutsideEvent;

/// The signals that ask us to end. Under nohup the end of a terminal is no reason to.
fn ending() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !kernel::is_ignored(SIGHUP))
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

/// Ends the process when the terminal is gone: nobody can see or stop it any more.
pub(crate) fn watch_hangup() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let watch = move || {
        if tty::wait_for_hangup(&|| seen.load(Ordering::Relaxed)) {
            tty::exit_now(1);
        }
    };
    // Without the watchdog a lost terminal still ends us by SIGHUP; only a blocked one would not.
    let _ = crate::kernel::thread("hangup", watch);
    stop
}

/// Tells the screen of signals.
pub(crate) fn watch_signals(outside: Sender<OutsideEvent>) -> anyhow::Result<()> {
    outlive_others()?;
    let mut signals = signal_hook::iterator::Signals::new(ending().chain([SIGCONT]))?;
    crate::kernel::thread("signals", move || {
        for signal in signals.forever() {
            let what = match signal {
                // Our own suspension takes the terminal back itself.
                SIGCONT if SUSPENDED.load(Ordering::Acquire) => continue,
                SIGCONT => OutsideEvent::Continued,
                _ => OutsideEvent::Stop,
            };
            if outside.send(what).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// True if we are stopping ourselves right now.
pub(crate) static SUSPENDED: AtomicBool = AtomicBool::new(false);
