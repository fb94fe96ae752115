//! The total of an event's samples in the times of a question. It ignores the filter, and is the base of shares.

use std::ops::Range;

use crate::profile::{Acc, Chunk};

use crate::query::data::Data;
use crate::query::wall_time::CountedSamples;

/// A sum over positions, updated as they move.
#[derive(Debug, Default)]
pub(crate) struct ShownTotal {
    of: CountedSamples,
    counted: Range<u64>,
    sum: Acc,
}

impl ShownTotal {
    /// Returns the samples that count at these absolute positions.
    pub(crate) fn of(&mut self, data: Data<'_>, of: CountedSamples, wanted: Range<u64>) -> Acc {
        let first = wanted.start.max(data.profile.first());
        let wanted = first..wanted.end.min(data.profile.end()).max(first);
        let kept = &self.counted;
        if of != self.of || wanted.start < kept.start || wanted.start > kept.end || wanted.end < kept.end {
            *self = Self { of, counted: wanted.start..wanted.start, sum: Acc::default() };
        }
        let (gone, new) = (self.counted.start..wanted.start, self.counted.end..wanted.end);
        self.sum -= sum(data, of, gone);
        self.sum += sum(data, of, new);
        self.counted = wanted;
        self.sum
    }

    pub(crate) fn forget(&mut self, data: Data<'_>, chunk: &Chunk) {
        let first = data.profile.first();
        let base = first - chunk.len() as u64;
        let part = self.counted.start.clamp(base, first) - base..self.counted.end.clamp(base, first) - base;
        self.sum -= sum_of(chunk, self.of, part.start as usize..part.end as usize);
        self.counted = self.counted.start.max(first)..self.counted.end.max(first);
    }
}

fn sum(data: Data<'_>, of: CountedSamples, positions: Range<u64>) -> Acc {
    data.profile.between(positions.start, positions.end).map(|(chunk, part)| sum_of(chunk, of, part)).sum()
}

fn sum_of(chunk: &Chunk, of: CountedSamples, part: Range<usize>) -> Acc {
    let mut sum = Acc::default();
    for (event, period) in chunk.event[part.clone()].iter().zip(&chunk.weight[part]) {
        if let Some(weight) = of.weight(*event, *period) {
            sum.samples += 1;
            sum.period += weight;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;

    #[test]
    fn what_moves_on_is_what_counting_anew_gives() {
        let of = |event| CountedSamples { event, wall: None };
        let mut staged = Staged::default();
        let mut seen = ShownTotal::default();
        for n in 1..=300u64 {
            staged.sample(1, 1, &["main"], n);
            let end = staged.data().profile.end();
            for wanted in [end.saturating_sub(40)..end, end.saturating_sub(20)..end + 7, 3..end.max(3)] {
                let anew = ShownTotal::default().of(staged.data(), of(0), wanted.clone());
                assert_eq!(seen.of(staged.data(), of(0), wanted.clone()), anew, "{wanted:?}");
            }
        }
        assert_eq!(seen.of(staged.data(), of(0), 298..300), Acc { samples: 2, period: 299 + 300 });
        assert_eq!(seen.of(staged.data(), of(1), 0..300), Acc::default(), "another event");
    }
}
