//! Requests to end by signals and closed pipes: one ends a measurement, which is then reported; any other ends the
//! program without a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Shared by the thread that receives signals, the reader of a source, and the work on its records.
#[derive(Clone, Debug, Default)]
pub struct EndRequests {
    /// Set by a signal handler, until the signal is taken.
    arrived: Arc<AtomicBool>,
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

    /// Returns the flag for signal handlers.
    pub(crate) fn arrived(&self) -> Arc<AtomicBool> {
        self.arrived.clone()
    }

    /// Takes a signal that has arrived. Returns whether the program shall end at once.
    pub(crate) fn take_signal(&self, code: u8) -> bool {
        // The end of the measurement may have taken it: Ctrl-C also ends a command that is measured.
        if !self.arrived.swap(false, Ordering::SeqCst) {
            return false;
        }
        if self.measuring.load(Ordering::SeqCst) && !self.stop.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.give_up(code);
        true
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
        if self.measuring.swap(false, Ordering::SeqCst) && self.arrived.swap(false, Ordering::SeqCst) {
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

    fn signal(ends: &EndRequests) -> bool {
        ends.arrived().store(true, Ordering::SeqCst);
        ends.take_signal(143)
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
        ends.arrived().store(true, Ordering::SeqCst);
        ends.end_measuring();
        assert!(!ends.take_signal(130) && ends.is_stopped() && ends.given_up().is_none());
    }
}
