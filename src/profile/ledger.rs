//! The ledger of losses, which every view shows.

/// Samples of an event that the kernel could not write, as it reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// From LOST records, which have timestamps. They name the event that wrote to the ring next, and count records of
    /// any type.
    pub recorded: u64,
    /// From the event's own counter (PERF_FORMAT_LOST): the same losses, but of samples alone.
    pub counted: u64,
    /// Lost in the hardware's buffer; neither of the other two includes them.
    pub hardware: u64,
}

/// Losses and deficits of a session. All are totals since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By event.
    pub(crate) losses: Vec<Lost>,
    /// Whether the kernel may have lost more records, without a report and without a counter.
    pub(crate) has_unknown_losses: bool,
    pub(crate) throttled: u64,
    /// Rounds in which our queue was full, so that records stayed in the rings.
    pub(crate) queue_full: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Samples whose user call chain was deferred and never arrived.
    pub(crate) unjoined: u64,
    /// Losses of records, perhaps of context switches; running threads are learned again after each.
    pub(crate) parallelism_gaps: u64,
    /// The unit of weights is two to the power of this, so that their sum fits in 64 bits.
    pub(crate) scale: u32,
    /// Samples of the profiler itself, which are dropped.
    pub(crate) own: u64,
    /// Samples evicted for the memory budget, oldest first.
    pub evicted: u64,
    /// Samples that a clock would produce if every CPU were busy: F × CPUs × seconds.
    pub(crate) expected: u64,
    /// Samples received.
    pub received: u64,
    /// Those of [`Ledger::received`] whose event is a clock or counts the CPU's work.
    pub timed: u64,
    /// Records received of events that only units read; [`Ledger::received`] does not include them.
    pub(crate) unit_records: u64,
    /// The part of [`Ledger::lost`] that are records of events that only units read.
    pub(crate) lost_of_units: u64,
}

impl Ledger {
    pub(crate) fn losses_of(&mut self, event: u16) -> &mut Lost {
        let at = usize::from(event);
        if self.losses.len() <= at {
            self.losses.resize(at + 1, Lost::default());
        }
        &mut self.losses[at]
    }

    /// Returns the lost samples of an event: by the events' counters if any of them is set, else by records.
    pub(crate) fn lost_of(&self, event: usize) -> u64 {
        let counted = self.losses.iter().any(|lost| lost.counted > 0);
        let of = |lost: &Lost| lost.hardware.saturating_add(if counted { lost.counted } else { lost.recorded });
        self.losses.get(event).map_or(0, of)
    }

    /// Returns the number of lost samples of all events, including those that only units read.
    pub fn lost(&self) -> u64 {
        (0..self.losses.len()).fold(0, |sum, event| sum.saturating_add(self.lost_of(event)))
    }

    /// Returns the lost samples of the events that the table shows, and their share in percent.
    pub(crate) fn lost_samples(&self) -> (u64, f64) {
        with_share(self.lost().saturating_sub(self.lost_of_units), self.received)
    }

    /// Returns the lost records of the events that only units read, and their share in percent.
    pub(crate) fn lost_unit_records(&self) -> (u64, f64) {
        with_share(self.lost_of_units, self.unit_records)
    }

    /// Returns the losses that the events' counters know and no record reported, of all events.
    pub(crate) fn unreported(&self) -> u64 {
        let [counted, recorded] = [|lost: &Lost| lost.counted, |lost: &Lost| lost.recorded]
            .map(|of| self.losses.iter().map(of).fold(0, u64::saturating_add));
        counted.saturating_sub(recorded)
    }

    /// Returns the suffix of a number of losses that is a lower limit.
    pub(crate) fn or_more(&self) -> &'static str {
        or_more(self.has_unknown_losses)
    }

    /// Returns the share of the samples of busy CPUs that arrived, in percent; `None` if that is not known. Some
    /// kernels also sample idle CPUs.
    pub(crate) fn timed_percent(&self) -> Option<f64> {
        (self.expected > 0).then(|| 100.0 * self.timed as f64 / self.expected as f64)
    }
}

/// Returns a number of lost records with its percentage of those lost and received.
fn with_share(lost: u64, received: u64) -> (u64, f64) {
    let all = lost.saturating_add(received);
    (lost, if all == 0 { 0.0 } else { 100.0 * lost as f64 / all as f64 })
}

/// Returns the suffix of a number of losses, which is a lower limit if more may be lost.
pub(crate) fn or_more(may_be_more: bool) -> &'static str {
    if may_be_more { " or more" } else { "" }
}
