//! The timeline: the number of samples over time for the whole session, including evicted ones. Its size is bounded:
//! the length of its spans doubles as the session grows.

/// The maximum number of spans, and their initial length.
const SPANS: usize = 4096;
const SHORTEST_NS: u64 = 10_000_000;

/// The latest time, in centuries; later times are counted there.
const LATEST: u64 = 1 << 62;

/// Samples and losses by span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Nanoseconds of a span.
    pub length: u64,
    /// Samples of each span.
    pub counts: Vec<u32>,
    /// Lost samples of each span; shorter than `counts` without losses in the newest spans.
    pub(crate) lost: Vec<u32>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { length: SHORTEST_NS, counts: Vec::new(), lost: Vec::new() }
    }
}

impl Timeline {
    /// Counts samples at `after` nanoseconds since the session's start.
    pub(crate) fn count(&mut self, after: u64, samples: u32) {
        let at = self.place(after);
        add(&mut self.counts, at, samples);
    }

    pub(crate) fn lose(&mut self, after: u64, samples: u64) {
        let at = self.place(after);
        add(&mut self.lost, at, u32::try_from(samples).unwrap_or(u32::MAX));
    }

    fn place(&mut self, after: u64) -> usize {
        let after = after.min(LATEST);
        while after / self.length >= SPANS as u64 {
            self.length *= 2;
            for list in [&mut self.counts, &mut self.lost] {
                *list = list.chunks(2).map(|pair| pair.iter().fold(0, |sum, n| n.saturating_add(sum))).collect();
            }
        }
        (after / self.length) as usize
    }

    /// Returns samples and losses of at most `cells` equally long parts. While the timeline still `grows`, the length
    /// of a part is a power of two times a fixed length, so that parts keep their position on the screen.
    pub(crate) fn parts(&self, until: u64, cells: usize, grows: bool) -> TimelineParts {
        let (until, cells) = (until.min(LATEST), cells.max(1) as u64);
        let mut each = (until / self.length) / cells + 1;
        if grows {
            each = each.next_power_of_two();
        }
        let length = self.length * each;
        let (each, n) = (each as usize, (until / length) as usize + 1);
        let sums = |list: &[u32]| -> Vec<u64> {
            let mut sums: Vec<u64> = list.chunks(each).map(|part| part.iter().map(|n| u64::from(*n)).sum()).collect();
            sums.resize(n, 0);
            sums
        };
        TimelineParts { length, counts: sums(&self.counts), lost: sums(&self.lost) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimelineParts {
    pub(crate) length: u64,
    pub(crate) counts: Vec<u64>,
    pub(crate) lost: Vec<u64>,
}

fn add(list: &mut Vec<u32>, at: usize, n: u32) {
    if list.len() <= at {
        list.resize(at + 1, 0);
    }
    list[at] = list[at].saturating_add(n);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        /// Doubling spans keeps all samples, and the size does not grow with the session.
        #[test]
        fn all_samples_stay_counted(
            times in proptest::collection::vec(prop_oneof![0u64..1 << 36, 0u64..1 << 50, any::<u64>()], 0..100),
            cells in 1usize..300, grows: bool,
        ) {
            let mut timeline = Timeline::default();
            times.iter().for_each(|t| timeline.count(*t, 1));
            prop_assert!(timeline.counts.len() <= SPANS);
            let until = times.iter().copied().max().unwrap_or(0);
            let parts = timeline.parts(until, cells, grows);
            prop_assert!(parts.counts.len() <= cells);
            prop_assert_eq!(parts.counts.iter().sum::<u64>(), times.len() as u64);
        }
    }

    #[test]
    fn parts_stay_where_they_are_while_time_goes_on() {
        let mut timeline = Timeline::default();
        let at = |t: &Timeline, until| t.parts(until, 8, true).counts;
        (0..100).for_each(|i| timeline.count(i * 1_000_000, 1));
        assert_eq!(at(&timeline, 70_000_000), [10, 10, 10, 10, 10, 10, 10, 10]);
        assert_eq!(at(&timeline, 99_000_000), [20, 20, 20, 20, 20]);
        timeline.lose(0, 3);
        assert_eq!(timeline.parts(99_000_000, 8, true).lost, [3, 0, 0, 0, 0]);
    }
}
