//! Samples as columns in chunks of fixed size. A chunk has one writer until it is full, and is read-only afterwards.

use std::ops::Range;

use crate::perfdata::SampleCount;

use super::SiteId;

/// Rows of a full chunk, the unit of eviction. The stacks of its samples may take thirty times as much memory.
pub const CHUNK: usize = 4096;

/// A number of samples and the sum of their periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acc {
    /// The number of samples, independent of their periods.
    pub samples: u64,
    /// The sum of their periods: nanoseconds of clocks, hits of other events.
    pub period: u64,
}

impl Acc {
    pub(crate) fn one(period: u64) -> Self {
        Self { samples: 1, period }
    }

    /// Returns the number of samples of an event's weight, and their noun. If each stored one is the sum of an unknown
    /// number of samples, the stored stacks are counted.
    pub(crate) fn counted(&self, count: SampleCount) -> (u64, &'static str) {
        match count {
            SampleCount::One => (self.samples, "sample"),
            SampleCount::PerPeriod(one) => (self.period / one.max(1), "sample"),
            SampleCount::Unknown => (self.samples, "stack"),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.samples == 0
    }

    /// Returns the share of a whole by period, in percent; 0 if the whole is 0.
    pub(crate) fn percent_of(&self, whole: &Self) -> f64 {
        if whole.period == 0 { 0.0 } else { 100.0 * self.period as f64 / whole.period as f64 }
    }
}

impl std::ops::AddAssign for Acc {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.period = self.period.wrapping_add(other.period);
    }
}

impl std::ops::SubAssign for Acc {
    fn sub_assign(&mut self, other: Self) {
        // The sum may have been capped.
        self.samples = self.samples.saturating_sub(other.samples);
        self.period = self.period.wrapping_sub(other.period);
    }
}

impl std::iter::Sum for Acc {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// A run of samples in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Nanoseconds of the session's clock.
    pub time: Vec<u64>,
    pub(crate) site: Vec<u32>,
    /// The period of the sample.
    pub weight: Vec<u64>,
    pub(crate) cpu: Vec<u16>,
    pub(crate) event: Vec<u16>,
    /// The lowest and the highest timestamp: samples of different rings may be out of order.
    span: Option<(u64, u64)>,
    /// The raw data of tracepoint samples, concatenated, and each row's end. Rows past the last end have no data.
    raw: Vec<u8>,
    raw_ends: Vec<u32>,
}

impl Chunk {
    pub(crate) const ROW: usize = 24;

    pub(crate) fn push(&mut self, time: u64, site: SiteId, weight: u64, cpu: u16, event: u16) {
        self.time.push(time);
        self.span = Some(self.span.map_or((time, time), |(low, high)| (low.min(time), high.max(time))));
        self.site.push(site.0);
        self.weight.push(weight);
        self.cpu.push(cpu);
        self.event.push(event);
    }

    pub(crate) fn push_raw(&mut self, raw: &[u8]) {
        self.raw_ends.resize(self.len() - 1, self.raw.len() as u32);
        self.raw.extend_from_slice(raw);
        self.raw_ends.push(self.raw.len() as u32);
    }

    /// Returns the raw data of a tracepoint's row; empty for other events.
    pub(crate) fn raw(&self, row: usize) -> &[u8] {
        let end = |row: usize| self.raw_ends.get(row).map(|end| *end as usize);
        let start = row.checked_sub(1).map_or(Some(0), end);
        match (start, end(row)) {
            (Some(start), Some(end)) => &self.raw[start..end],
            _ => &[],
        }
    }

    /// Returns the bytes in addition to the rows.
    pub(super) fn raw_memory(&self) -> usize {
        self.raw.capacity() + 4 * self.raw_ends.capacity()
    }

    /// Frees unused capacity of a full chunk.
    pub(super) fn seal(&mut self) {
        self.raw.shrink_to_fit();
    }

    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Returns whether the range of its timestamps overlaps these times. It may also have samples outside of them.
    pub(crate) fn meets(&self, times: &Range<u64>) -> bool {
        self.span.is_some_and(|(low, high)| high >= times.start && low < times.end)
    }

    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.time.capacity() * Self::ROW + self.raw_memory()
    }

    pub(super) fn renumber(&mut self, new: &mut impl FnMut(SiteId) -> SiteId) {
        for site in &mut self.site {
            *site = new(SiteId(*site)).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_the_least_and_the_greatest() {
        let mut chunk = Chunk::default();
        assert!(!chunk.meets(&(0..u64::MAX)));
        [30, 50, 40].iter().for_each(|time| chunk.push(*time, SiteId(0), 1, 0, 0));
        assert_eq!(chunk.times(), Some((30, 50)));
        let meets = [20..30, 20..31, 35..36, 50..60, 51..60].map(|times| chunk.meets(&times));
        assert_eq!(meets, [false, true, true, true, false]);
    }

    #[test]
    fn a_full_chunk_has_no_room_to_spare() {
        let mut chunk = Chunk::default();
        assert_eq!((chunk.len(), chunk.memory()), (0, 0));
        for _ in 0..100 {
            chunk.push(1, SiteId(0), 1, 0, 0);
            chunk.push_raw(b"abc");
        }
        chunk.raw.reserve(10_000);
        chunk.seal();
        let raw = 300 + 4 * chunk.raw_ends.capacity();
        assert_eq!((chunk.raw_memory(), chunk.memory()), (raw, raw + 24 * chunk.time.capacity()));
    }

    #[test]
    fn rows_keep_what_their_tracepoint_said() {
        let mut chunk = Chunk::default();
        for raw in [&b""[..], b"abc", b"", b"", b"de", b""] {
            chunk.push(1, SiteId(0), 1, 0, 0);
            if !raw.is_empty() {
                chunk.push_raw(raw);
            }
        }
        let rows: Vec<&[u8]> = (0..7).map(|row| chunk.raw(row)).collect();
        assert_eq!(rows, [&b""[..], b"abc", b"", b"", b"de", b"", b""]);
    }
}
