//! What did not arrive, in one place, shown by every view.

/// Losses and shortfalls of a session. All are totals since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Samples that the kernel could not write, by PERF_FORMAT_LOST where there is such, else by
    /// LOST records.
    pub lost: u64,
    /// LOST records seen, in samples.
    pub lost_records: u64,
    /// Times that the kernel throttled an event.
    pub throttled: u64,
    /// Rounds in which our queue was full, so that records stayed in the rings.
    pub queue_full: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Samples dropped on purpose: the profiler's own.
    pub own: u64,
    /// Samples given up for the memory budget, oldest first.
    pub evicted: u64,
    /// Samples that F × CPUs × seconds would give of the clock, when every CPU were busy.
    pub expected: u64,
    /// Samples that came, and those of them that stand for time.
    pub received: u64,
    pub timed: u64,
}

impl Ledger {
    /// The lost share of all samples, in percent.
    pub fn lost_percent(&self) -> f64 {
        let all = self.lost.saturating_add(self.received);
        if all == 0 { 0.0 } else { 100.0 * self.lost as f64 / all as f64 }
    }

    /// The share of what busy CPUs would have given that came, in percent; `None` when that is not known.
    /// Some kernels sample idle CPUs, too.
    pub fn timed_percent(&self) -> Option<f64> {
        (self.expected > 0).then(|| 100.0 * self.timed as f64 / self.expected as f64)
    }
}
