//! The shares of memory: the limit of each part of the program, and the memory that parts of other threads use.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::own_memory;
use crate::query::answer::MemoryShare;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit(pub usize);

impl MemoryLimit {
    /// Returns whether there is a limit. Without one, no data is dropped: a recording is kept whole.
    pub(crate) fn is_bounded(self) -> bool {
        self.0 != usize::MAX
    }

    pub(crate) fn holds(self, private: usize) -> bool {
        private <= self.0
    }

    /// Returns the share of symbol tables; those of lines and of unwinding are parts of it.
    pub(crate) fn tables(self) -> usize {
        self.0 / 4
    }

    /// Returns the share of copies of files that others can change.
    pub(crate) fn copies(self) -> usize {
        self.0 / 4
    }

    /// Returns the share of records that wait during a long answer. Further ones wait in the kernel's rings.
    pub(crate) fn waiting(self) -> usize {
        (self.0 / 16).min(MOST_WAITING)
    }

    /// Returns the minimum share of samples and stacks, so that the newest are kept even if other parts use too much.
    pub(crate) fn least_samples(self) -> usize {
        self.0 / 6
    }
}

/// Records that a long answer delays may take this much memory; further ones stay in the rings.
const MOST_WAITING: usize = 32 << 20;

/// Bytes that other threads report to use.
#[derive(Debug, Default)]
pub struct ThreadMemory {
    pub(crate) tables: AtomicUsize,
    /// Debug information for lines and inlined functions: of the code view, and of stacks.
    pub(crate) listings: AtomicUsize,
    pub(crate) lines: AtomicUsize,
    /// Records in transit.
    pub waiting: AtomicUsize,
    /// The recent peak of private memory, which a long answer may have used and freed.
    peak: AtomicUsize,
}

impl ThreadMemory {
    /// Samples the private memory, from a thread other than the one that keeps the limit and cannot see its own peaks.
    pub(crate) fn look(&self) {
        self.peak.fetch_max(own_memory::private().unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn parts(&self) -> [MemoryShare; 3] {
        let now = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed);
        [
            MemoryShare { name: "tables of functions", bytes: now(&self.tables) },
            MemoryShare { name: "lines", bytes: now(&self.listings) + now(&self.lines) },
            MemoryShare { name: "waiting records", bytes: now(&self.waiting) },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bounds_have_small_parts() {
        let [small, large] = [MemoryLimit(64 << 20), MemoryLimit(8 << 30)];
        assert_eq!([small.tables(), small.copies(), small.waiting()].map(|bytes| bytes >> 20), [16, 16, 4]);
        assert_eq!((small.least_samples() >> 20, large.waiting() >> 20), (10, 32));
        assert!(small.is_bounded() && !MemoryLimit(usize::MAX).is_bounded());
    }

    #[test]
    fn a_peak_is_told_once() {
        let held = ThreadMemory::default();
        held.look();
        let block = std::hint::black_box(vec![1u8; 48 << 20]);
        held.look();
        drop(block);
        held.look();
        assert!(held.take_peak() > 48 << 20);
        assert_eq!(held.take_peak(), 0);
        held.tables.store(5, Ordering::Relaxed);
        held.lines.store(7, Ordering::Relaxed);
        held.listings.store(9, Ordering::Relaxed);
        assert_eq!(held.parts().map(|part| part.bytes), [5, 16, 0]);
    }
}
