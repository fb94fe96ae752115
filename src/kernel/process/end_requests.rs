//! Requests to end by signals and closed pipes: one ends a measurement, which is then reported; any other ends the
//! program without a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Shared by the thread that receives signals, the reader of a source, and the work on its records.
#[derive(Clone, Debug, Default)]
pub struct EndRequests {
    /// The signal that a handler was called for, until it is taken; 0 for none.
    arrived: Arc<AtomicUsize>,
    measuring: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    /// The exit code plus one; 0 without a request.
    at_once: Arc<AtomicU32>,
}

impl EndRequests {
    /// Returns requests that only end the measurement, by a flag.
    pub(crate) fn by_flag(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Returns the place in which signal handlers store their signal.
    pub(crate) fn arrived(&self) -> Arc<AtomicUsize> {
        self.arrived.clone()
    }

    /// Takes a signal that has arrived. Returns the exit code, if the program shall end at once.
    pub(crate) fn take_signal(&self) -> Option<u8> {
        // The end of the measurement may have taken it: Ctrl-C also ends a command that is measured.
        let signal = self.arrived.swap(0, Ordering::SeqCst);
        if signal == 0 || self.measuring.load(Ordering::SeqCst) && !self.stop.swap(true, Ordering::SeqCst) {
            return None;
        }
        let code = 128 + signal as u8;
        self.give_up(code);
        Some(code)
    }

    /// Takes signals as they come, from an iterator that waits for each, and calls `end` if the program shall end at
    /// once. The first one may have arrived before the iterator existed.
    pub(crate) fn take_signals(&self, come: impl IntoIterator<Item = i32>, end: impl Fn(u8)) {
        self.take_signal().into_iter().for_each(&end);
        come.into_iter().filter_map(|_| self.take_signal()).for_each(end);
    }

    /// Requests the end without a report.
    pub(crate) fn give_up(&self, code: u8) {
        self.at_once.store(u32::from(code) + 1, Ordering::SeqCst);
    }

    /// Returns the exit code, if the program shall end without a report.
    pub(crate) fn given_up(&self) -> Option<u8> {
        let code = self.at_once.load(Ordering::Relaxed).checked_sub(1)?;
        u8::try_from(code).ok()
    }

    pub(crate) fn begin_measuring(&self) {
        self.measuring.store(true, Ordering::SeqCst);
    }

    /// Ends the measurement: from now on, a signal ends the program.
    pub(crate) fn end_measuring(&self) {
        if self.measuring.swap(false, Ordering::SeqCst) && self.arrived.swap(0, Ordering::SeqCst) != 0 {
            self.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Returns whether the measurement shall end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.given_up().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGTERM: usize = 15;

    fn signal(ends: &EndRequests) -> bool {
        ends.arrived().store(SIGTERM, Ordering::SeqCst);
        ends.take_signal().is_some()
    }

    #[test]
    fn one_signal_ends_the_measurement_and_another_the_program() {
        let ends = EndRequests::default();
        ends.begin_measuring();
        assert!(!signal(&ends) && ends.is_stopped() && ends.given_up().is_none());
        ends.end_measuring();
        assert!(signal(&ends) && ends.given_up() == Some(143));
    }

    #[test]
    fn a_signal_before_or_after_the_measurement_ends_the_program() {
        let ends = EndRequests::default();
        assert!(signal(&ends) && ends.is_stopped(), "before");
        let ends = EndRequests::default();
        ends.begin_measuring();
        ends.end_measuring();
        assert!(!ends.is_stopped() && signal(&ends), "after");
    }

    /// The command of the measurement ended by the same Ctrl-C.
    #[test]
    fn a_signal_that_the_end_of_the_measurement_has_taken_counts_once() {
        let ends = EndRequests::default();
        ends.begin_measuring();
        ends.arrived().store(SIGTERM, Ordering::SeqCst);
        ends.end_measuring();
        assert!(ends.take_signal().is_none() && ends.is_stopped() && ends.given_up().is_none());
    }

    /// On a busy machine, a process may lose the CPU between its handler and what waits for signals.
    #[test]
    fn a_signal_before_anything_waits_for_signals_is_not_lost() {
        let (ends, codes) = (EndRequests::default(), std::cell::RefCell::new(Vec::new()));
        ends.arrived().store(SIGTERM, Ordering::SeqCst);
        ends.take_signals([15], |code| codes.borrow_mut().push(code));
        assert_eq!((codes.take(), ends.given_up()), (vec![143], Some(143)));
    }
}
