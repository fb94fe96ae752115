//! Events that are only counted: how often they are read.

use std::time::Duration;

use crate::kernel::monotonic_ns;
use crate::source::Batch;

use super::LiveSource;
use super::event_slot::Slot;

/// The longest interval of reading events that are only counted, and the shortest.
pub(super) const COUNT_NS: u64 = 200_000_000;
const MIN_COUNT_NS: u64 = 10_000_000;

impl LiveSource {
    /// Has counts read so often that an interval ends with a reading.
    pub(crate) fn count_for(&mut self, interval: Duration) {
        let interval = (interval.as_nanos() as u64).max(MIN_COUNT_NS);
        self.count_ns = (interval / interval.div_ceil(COUNT_NS)).max(MIN_COUNT_NS);
    }

    /// True if there are events that are only counted.
    pub(super) fn is_counting(&self) -> bool {
        self.attachment.slots.iter().any(Slot::is_counted)
    }

    /// Reads them; the next time is a whole number of steps away, however long this one took.
    pub(super) fn read_counts(&mut self, batch: &mut Batch) {
        let late = monotonic_ns().saturating_sub(self.next_counts);
        self.next_counts += (late / self.count_ns + 1) * self.count_ns;
        if self.is_counting() {
            batch.cpu_counts.append(&mut self.attachment.cpu_counts());
        }
    }
}
