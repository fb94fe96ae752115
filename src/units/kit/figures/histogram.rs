//! Quantiles of many values in bounded memory.
//!
//! A value below 64 has its own bucket; each larger power of two is divided into 32 buckets (log-linear, like
//! HdrHistogram: <http://hdrhistogram.org>). A quantile is the middle of its bucket, so its relative error is at most
//! 1/64 (1.6 %). Minimum, maximum, sum and count are exact.

use crate::query::heat::half_octave;

/// log2 of the buckets per power of two.
const BITS: u32 = 5;
/// Smaller values are exact.
const EXACT: u64 = 2 << BITS;

/// Count, sum, extremes and quantiles of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of values.
    pub n: u64,
    /// The sum, saturating.
    pub sum: u64,
    pub(crate) min: u64,
    /// The maximum; 0 without values.
    pub max: u64,
    /// Number of values above the threshold.
    pub(crate) than: u64,
    /// (bucket, count), sorted.
    buckets: Vec<(u16, u64)>,
}

fn bucket(value: u64) -> u16 {
    if value < EXACT {
        return value as u16;
    }
    let shift = value.ilog2() - BITS;
    ((shift << BITS) as u64 + (value >> shift)) as u16
}

/// The half-open bounds of a bucket.
fn bounds(bucket: u16) -> (u64, u128) {
    let bucket = u64::from(bucket);
    if bucket < EXACT {
        return (bucket, u128::from(bucket) + 1);
    }
    let shift = (bucket >> BITS) - 1;
    let from = (bucket - (shift << BITS)) << shift;
    (from, u128::from(from) + (1u128 << shift))
}

impl Stats {
    pub(crate) fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    pub(crate) fn add_than(&mut self, value: u64, above: bool) {
        self.add(value);
        self.than += u64::from(above);
    }

    pub(crate) fn add_many(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.min = if self.n == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.n += n;
        self.sum = self.sum.saturating_add(value.saturating_mul(n));
        self.put(bucket(value), n);
    }

    fn put(&mut self, bucket: u16, n: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(own, _)| *own) {
            Ok(at) => self.buckets[at].1 += n,
            Err(at) => self.buckets.insert(at, (bucket, n)),
        }
    }

    /// Returns the figures of values that were summed elsewhere, with the same buckets in ascending order.
    pub(crate) fn of_sum(n: u64, sum: u64, (min, max): (u64, u64), than: u64, buckets: Vec<(u16, u64)>) -> Self {
        if n == 0 { Self::default() } else { Self { n, sum, min, max, than, buckets } }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.than += other.than;
        if other.n == 0 {
            return;
        }
        self.min = if self.n == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.n += other.n;
        self.sum = self.sum.saturating_add(other.sum);
        other.buckets.iter().for_each(|(bucket, n)| self.put(*bucket, *n));
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.n.max(1) as f64
    }

    /// Returns the quantile of a share from 0 to 1 (nearest rank).
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.n as f64).ceil() as u64).clamp(1, self.n.max(1));
        let mut seen = 0;
        for (bucket, n) in &self.buckets {
            seen += n;
            if seen >= rank {
                let (from, to) = bounds(*bucket);
                let middle = (u128::from(from) + (to - 1)) / 2;
                return (middle as u64).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Counts per power of two: (from, to, count), from the first non-empty one to the last.
    pub(crate) fn powers(&self) -> Vec<(u64, u64, u64)> {
        if self.n == 0 {
            return Vec::new();
        }
        let of = |value: u64| if value == 0 { 0 } else { 1 + value.ilog2() };
        let (first, last) = (of(self.min), of(self.max));
        let mut out: Vec<(u64, u64, u64)> = (first..=last)
            .map(|power| match power {
                0 => (0, 1, 0),
                64 => (1 << 63, u64::MAX, 0),
                power => (1 << (power - 1), 1 << power, 0),
            })
            .collect();
        for (bucket, n) in &self.buckets {
            out[(of(bounds(*bucket).0).clamp(first, last) - first) as usize].2 += n;
        }
        out
    }

    /// Counts per half octave, from the first non-empty one to the last.
    /// A bucket across two is counted where its middle lies.
    pub(crate) fn half_octaves(&self) -> Vec<(u32, u64)> {
        let middle = |bucket: u16| {
            let (from, to) = bounds(bucket);
            half_octave(((u128::from(from) + to - 1) / 2) as u64)
        };
        let mut out: Vec<(u32, u64)> = Vec::new();
        for (bucket, n) in &self.buckets {
            let half = middle(*bucket);
            let next = out.last().map_or(half, |(last, _)| last + 1);
            out.extend((next..=half).map(|half| (half, 0)));
            out.last_mut().into_iter().for_each(|(_, own)| *own += n);
        }
        out
    }

    /// Counts in `steps` linear steps up to the 99th percentile. The last step includes all larger values.
    pub(crate) fn steps(&self, steps: u64) -> Vec<(u64, u64, u64)> {
        if self.n == 0 {
            return Vec::new();
        }
        let top = self.quantile(0.99).max(self.min);
        let step = nice((top - self.min) / steps.max(1) + 1);
        let first = self.min / step * step;
        let n = ((top - first) / step + 1) as usize;
        let mut out: Vec<(u64, u64, u64)> =
            (0..n as u64).map(|i| (first + i * step, (first + (i + 1) * step), 0)).collect();
        out.push((first + n as u64 * step, self.max.saturating_add(1).max(first + n as u64 * step + 1), 0));
        for (bucket, count) in &self.buckets {
            let (from, to) = bounds(*bucket);
            let middle = ((u128::from(from) + to - 1) / 2) as u64;
            let at = (middle.clamp(self.min, self.max) - first) / step;
            out[(at as usize).min(n)].2 += count;
        }
        if out.last().is_some_and(|bar| bar.2 == 0) {
            out.pop();
        }
        out
    }
}

impl<'a> std::iter::Sum<&'a Stats> for Stats {
    fn sum<I: Iterator<Item = &'a Stats>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, stats| {
            sum.merge(stats);
            sum
        })
    }
}

/// Rounds up to 1, 2, 5, 10, 20…
fn nice(value: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(n) if n >= value => return n,
                None => return value,
                _ => {}
            }
        }
        match power.checked_mul(10) {
            Some(next) => power = next,
            None => return value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The program that sums system calls has the buckets below 134 ms, by the same rule.
    #[test]
    fn sums_made_elsewhere_have_the_figures_of_their_values() {
        let values = [0, 5, 64, 99, 100, 5_000, (1 << 27) - 1];
        let mut stats = Stats::default();
        values.iter().for_each(|value| stats.add(*value));
        let buckets = values.iter().map(|value| (bucket(*value), 1)).collect();
        let sum = Stats::of_sum(7, values.iter().sum(), (0, (1 << 27) - 1), 0, buckets);
        assert_eq!(sum, stats);
        assert_eq!(bucket((1 << 27) - 1), 735);
        assert_eq!(Stats::of_sum(0, 0, (0, 0), 0, Vec::new()), Stats::default());
    }

    #[test]
    fn buckets_are_without_gaps() {
        let mut end = 0u128;
        for i in 0..=bucket(u64::MAX) {
            let (from, to) = bounds(i);
            assert_eq!(u128::from(from), end, "{i}");
            assert_eq!((bucket(from), bucket((to - 1) as u64)), (i, i));
            end = to;
        }
        assert_eq!(end, 1 << 64);
    }

    #[test]
    fn histograms_hold_all_values() {
        let mut stats = Stats::default();
        [0, 1, 3, 1000, 1023, 1024, 5_000_000].into_iter().for_each(|v| stats.add(v));
        let powers = stats.powers();
        assert_eq!(powers[0], (0, 1, 1));
        assert_eq!(powers.iter().find(|(from, ..)| *from == 512), Some(&(512, 1024, 2)));
        let halves = stats.half_octaves();
        assert_eq!((halves.first(), halves.last()), (Some(&(0, 2)), Some(&(44, 1))));
        assert_eq!(halves.iter().filter(|(half, n)| *half == 19 && *n == 2 || *half == 20 && *n == 1).count(), 2);
        assert!(halves.windows(2).all(|w| w[0].0 + 1 == w[1].0) && Stats::default().half_octaves().is_empty());
        for bars in [powers, stats.steps(20)] {
            assert_eq!(bars.iter().map(|bar| bar.2).sum::<u64>(), 7);
            assert!(bars.windows(2).all(|w| w[0].1 == w[1].0), "{bars:?}");
        }
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn quantiles_are_near(mut values in proptest::collection::vec((0u64..10_000_000_000, 0u32..34).prop_map(|(n, by)| n >> by), 1..400), share in 0.0f64..1.0) {
            let (mut stats, mut halves) = (Stats::default(), [Stats::default(), Stats::default()]);
            for (i, value) in values.iter().enumerate() {
                stats.add(*value);
                halves[i % 2].add(*value);
            }
            let [mut merged, other] = halves;
            merged.merge(&other);
            prop_assert_eq!(&merged, &stats);
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let error = stats.quantile(share).abs_diff(exact);
            prop_assert!(error as f64 <= exact as f64 / 64.0, "{} of {exact}", stats.quantile(share));
        }
    }
}
