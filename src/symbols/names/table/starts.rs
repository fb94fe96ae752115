//! Sorted addresses in four bytes each: distances from the start of their run.

/// The limit of runs; more would need distances larger than any program has.
const MAX_RUNS: usize = 1024;

/// A run begins with an address 4 GiB or more after the start of the previous run.
#[derive(Debug, Default)]
pub(crate) struct NameStarts {
    distances: Vec<u32>,
    /// The first entry of each run: index and address.
    runs: Vec<(u32, u64)>,
}

impl NameStarts {
    pub(crate) fn len(&self) -> usize {
        self.distances.len()
    }

    /// Adds an address greater than all others; returns `false` if there is no room.
    pub(crate) fn push(&mut self, start: u64) -> bool {
        let near = self.runs.last().and_then(|(_, base)| u32::try_from(start - base).ok());
        if near.is_none() && self.runs.len() >= MAX_RUNS {
            return false;
        }
        if near.is_none() {
            self.runs.push((self.len() as u32, start));
        }
        self.distances.push(near.unwrap_or(0));
        true
    }

    pub(crate) fn get(&self, i: usize) -> Option<u64> {
        let distance = *self.distances.get(i)?;
        let run = match self.runs.len() {
            1 => 0,
            _ => self.runs.partition_point(|(first, _)| *first as usize <= i).checked_sub(1)?,
        };
        Some(self.runs[run].1 + u64::from(distance))
    }

    /// Returns how many addresses are at or before `addr`.
    pub(crate) fn up_to(&self, addr: u64) -> usize {
        let next = self.runs.partition_point(|(_, base)| *base <= addr);
        let Some((first, base)) = next.checked_sub(1).map(|run| self.runs[run]) else { return 0 };
        let (first, end) = (first as usize, self.runs.get(next).map_or(self.len(), |(first, _)| *first as usize));
        first + self.distances[first..end].partition_point(|distance| u64::from(*distance) <= addr - base)
    }

    pub(crate) fn shrink(&mut self) {
        self.distances.shrink_to_fit();
        self.runs.shrink_to_fit();
    }

    pub(crate) fn memory(&self) -> usize {
        4 * self.distances.capacity() + size_of::<(u32, u64)>() * self.runs.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn they_are_found_as_in_a_plain_list(
            list in proptest::collection::btree_set(prop_oneof![0..1u64 << 34, (u64::MAX - (1 << 33))..=u64::MAX], 1..80),
            asked in any::<u64>(),
        ) {
            let list: Vec<u64> = list.into_iter().collect();
            let mut starts = NameStarts::default();
            prop_assert!(list.iter().all(|start| starts.push(*start)));
            let around = list.iter().flat_map(|start| [start.wrapping_sub(1), *start, start.wrapping_add(1)]);
            for addr in around.chain([asked, asked >> 30, u64::MAX]) {
                prop_assert_eq!(starts.up_to(addr), list.iter().filter(|start| **start <= addr).count());
            }
            let held: Vec<Option<u64>> = (0..=list.len()).map(|i| starts.get(i)).collect();
            let plain: Vec<Option<u64>> = list.iter().copied().map(Some).chain([None]).collect();
            prop_assert_eq!(held, plain);
        }
    }

    #[test]
    fn what_lies_too_far_apart_too_often_is_left_out() {
        let mut starts = NameStarts::default();
        let taken = (0..2 * MAX_RUNS as u64).filter(|i| starts.push(i << 33)).count();
        assert_eq!((taken, starts.len(), starts.push(((MAX_RUNS as u64 - 1) << 33) + 5)), (MAX_RUNS, MAX_RUNS, true));
        assert_eq!(starts.up_to(u64::MAX), MAX_RUNS + 1);
    }
}
