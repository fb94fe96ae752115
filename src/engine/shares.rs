//! The shares of memory: what each part of the program may hold of what it has in all, and what those parts hold that
//! other threads own.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::own_memory;
use crate::query::answer::MemoryShare;

/// The memory that the program has in all, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit(pub usize);

impl MemoryLimit {
    /// Without a bound nothing gives way: a recording is kept whole.
    pub(crate) fn is_bounded(self) -> bool {
        self.0 != usize::MAX
    }

    /// True if it is not more than may be.
    pub(crate) fn holds(self, private: usize) -> bool {
        private <= self.0
    }

    /// Tables of functions; those of lines and of unwinding are parts of this.
    pub(crate) fn tables(self) -> usize {
        self.0 / 4
    }

    /// Copies of files that others can change.
    pub(crate) fn copies(self) -> usize {
        self.0 / 4
    }

    /// Records that wait while an answer takes long. Those that do not fit wait in the kernel's rings.
    pub(crate) fn waiting(self) -> usize {
        (self.0 / 16).min(MOST_WAITING)
    }

    /// Samples and stacks have this in any case: whoever else takes too much, the newest are there.
    pub(crate) fn least_samples(self) -> usize {
        self.0 / 6
    }
}

/// A long answer is waited for with these instead of with the rings.
const MOST_WAITING: usize = 32 << 20;

/// Bytes that other threads say they hold.
#[derive(Debug, Default)]
pub struct ThreadMemory {
    /// Tables of functions.
    pub(crate) tables: AtomicUsize,
    /// What lines and inlined functions are looked up in, by those who show code and by those who show stacks.
    pub(crate) listings: AtomicUsize,
    pub(crate) lines: AtomicUsize,
    /// Records on their way.
    pub waiting: AtomicUsize,
    /// The most that was private of late, which a long answer may have had and given back by now.
    peak: AtomicUsize,
}

impl ThreadMemory {
    /// Looks at what is private: beside the thread that gives way to others, and does not see what it takes itself.
    pub(crate) fn look(&self) {
        self.peak.fetch_max(own_memory::private().unwrap_or(0), Ordering::Relaxed);
    }

    /// The most that was seen since the last call.
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
