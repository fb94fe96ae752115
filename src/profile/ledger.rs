//! The ledger of what did not arrive, shown by every view.

/// Samples of one event that the kernel could not write, as it tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// By LOST records, which tell when; they name the event that wrote next to the ring, and count any record.
    pub recorded: u64,
    /// By the event's own counter (PERF_FORMAT_LOST): the same losses once more, and of samples alone.
    pub counted: u64,
    /// In the hardware's buffer, of which neither of the two knows.
    pub hardware: u64,
}

/// Losses and shortfalls of a session. All are totals since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By event.
    pub(crate) losses: Vec<Lost>,
    /// Times that the kernel throttled an event.
    pub(crate) throttled: u64,
    /// Rounds in which our queue was full, so that records stayed in the rings.
    pub(crate) queue_full: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Samples whose user's call chain was deferred and never came.
    pub(crate) unjoined: u64,
    /// Samples whose weight was cut, as sums of more than 64 bits are not counted.
    pub(crate) cut_weights: u64,
    /// Samples dropped on purpose: the profiler's own.
    pub(crate) own: u64,
    /// Samples given up for the memory budget, oldest first.
    pub evicted: u64,
    /// Samples that F × CPUs × seconds would give of the clock, when every CPU were busy.
    pub(crate) expected: u64,
    /// Samples that came, and those of them that stand for time.
    pub received: u64,
    /// Those of [`Ledger::received`] whose event is a clock or counts the CPU's work.
    pub timed: u64,
}

impl Ledger {
    /// The losses of an event, to be added to.
    pub(crate) fn losses_of(&mut self, event: u16) -> &mut Lost {
        let at = usize::from(event);
        if self.losses.len() <= at {
            self.losses.resize(at + 1, Lost::default());
        }
        &mut self.losses[at]
    }

    /// Samples of an event that were lost: by the events' counters, where these say anything, else by records.
    pub(crate) fn lost_of(&self, event: usize) -> u64 {
        let counted = self.losses.iter().any(|lost| lost.counted > 0);
        let of = |lost: &Lost| lost.hardware.saturating_add(if counted { lost.counted } else { lost.recorded });
        self.losses.get(event).map_or(0, of)
    }

    /// The number of samples lost of all events.
    pub fn lost(&self) -> u64 {
        (0..self.losses.len()).fold(0, |sum, event| sum.saturating_add(self.lost_of(event)))
    }

    /// The lost share of all samples, in percent.
    pub(crate) fn lost_percent(&self) -> f64 {
        let lost = self.lost();
        let all = lost.saturating_add(self.received);
        if all == 0 { 0.0 } else { 100.0 * lost as f64 / all as f64 }
    }

    /// The share of what busy CPUs would have given that came, in percent; `None` when that is not known.
    /// Some kernels sample idle CPUs, too.
    pub(crate) fn timed_percent(&self) -> Option<f64> {
        (self.expected > 0).then(|| 100.0 * self.timed as f64 / self.expected as f64)
    }
}
