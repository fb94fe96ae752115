//! An allocator of ranges in arrays that BPF programs read. A range is reused only when no program reads it.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::kernel::bpf::calls::{self, MappedValue};
use crate::kernel::perf_event::sys::Errno;

/// The time for which a freed range may still be read: a program runs for microseconds.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) array: u32,
    pub(crate) first: u32,
    pub(crate) n: u32,
}

/// Arrays of the same size, each of `units` units of `unit_words` words.
#[derive(Debug)]
pub(crate) struct Pool {
    arrays: Vec<MappedValue>,
    units: u32,
    unit_words: usize,
    bytes: usize,
    most: usize,
    free: Vec<Range>,
    resting: VecDeque<(Instant, Range)>,
}

impl Pool {
    /// Returns a pool whose arrays have `bytes` each. It grows to as many arrays as fit into `limit`, at least one.
    pub(crate) fn new(units: u32, unit_words: usize, bytes: usize, limit: usize, slots: usize) -> Self {
        let most = (limit / bytes).clamp(1, slots);
        Self { arrays: Vec::new(), units, unit_words, bytes, most, free: Vec::new(), resting: VecDeque::new() }
    }

    /// Allocates `n` units: the first free range that is long enough, else a new array. `None` if there is no room.
    pub(crate) fn get(&mut self, n: u32, maps: BorrowedFd<'_>) -> Result<Option<Range>, Errno> {
        self.settle();
        if self.longest() < n && n <= self.units && self.arrays.len() < self.most {
            self.grow(maps)?;
        }
        let Some(at) = self.free.iter().position(|range| range.n >= n) else { return Ok(None) };
        let free = &mut self.free[at];
        let found = Range { n, ..*free };
        (free.first, free.n) = (free.first + n, free.n - n);
        self.free.retain(|range| range.n > 0);
        Ok(Some(found))
    }

    /// Returns the units of the longest range available without another array.
    pub(crate) fn longest(&self) -> u32 {
        self.free.iter().map(|range| range.n).max().unwrap_or(0)
    }

    fn grow(&mut self, maps: BorrowedFd<'_>) -> Result<(), Errno> {
        let array = self.arrays.len() as u32;
        let shared = MappedValue::new(self.bytes)?;
        calls::put(maps, array, [shared.fd().as_raw_fd() as u32, 0, 0, 0])?;
        self.arrays.push(shared);
        self.free.push(Range { array, first: 0, n: self.units });
        Ok(())
    }

    pub(crate) fn give_back(&mut self, range: Range) {
        self.resting.push_back((Instant::now(), range));
    }

    /// Reclaims freed ranges that no program reads; adjacent ranges are merged.
    fn settle(&mut self) {
        let before = self.free.len();
        while let Some((_, range)) = self.resting.pop_front_if(|(since, _)| since.elapsed() >= GRACE) {
            self.free.push(range);
        }
        if self.free.len() == before {
            return;
        }
        self.free.sort_unstable();
        self.free.dedup_by(|next, last| {
            let joins = last.array == next.array && last.first + last.n == next.first;
            if joins {
                last.n += next.n;
            }
            joins
        });
    }

    pub(crate) fn store(&self, array: u32, at: usize, words: impl Iterator<Item = u64>) {
        let shared = &self.arrays[array as usize];
        for (i, word) in words.enumerate() {
            shared.word(at + i).store(word, Ordering::Relaxed);
        }
    }

    /// Stores 32-bit halves after `behind` words, starting at half `first`. There is no other writer of these halves.
    pub(crate) fn index(&self, array: u32, behind: usize, first: u32, halves: impl Iterator<Item = u32>) {
        let shared = &self.arrays[array as usize];
        for (i, half) in (first as usize..).zip(halves) {
            let (word, shift) = (shared.word(behind + i / 2), 32 * (i % 2));
            let other = word.load(Ordering::Relaxed) & !(0xffff_ffff << shift);
            word.store(other | u64::from(half) << shift, Ordering::Relaxed);
        }
    }

    pub(crate) fn at(&self, range: Range) -> usize {
        range.first as usize * self.unit_words
    }

    pub(crate) fn held(&self) -> usize {
        self.arrays.len() * self.bytes
    }
}
