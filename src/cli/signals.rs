//! Signals and the end of the terminal, as screens and commands are told of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};

use crate::kernel::tty;
use crate::ui::run::OutsideEvent;

/// Set when a signal asks us to end.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
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
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCONT])?;
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
