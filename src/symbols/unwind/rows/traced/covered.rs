//! Functions with tables, in order of their starts, and an index by address: symbols and calls are looked up at random.

/// The functions, and how many of them start before each part of the address range.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Start and end.
    functions: Vec<(u64, u64)>,
    /// Address bits of a part. There are at most as many parts as functions, and one at the end.
    shift: u32,
    before: Vec<u32>,
}

impl Covered {
    pub(super) fn new(mut functions: Vec<(u64, u64)>) -> Self {
        functions.sort_unstable();
        let (first, last) = (functions.first().map_or(0, |f| f.0), functions.last().map_or(0, |f| f.0));
        let parts = u64::try_from(functions.len()).unwrap_or(u64::MAX).max(1);
        let shift = ((last - first) / parts).checked_ilog2().map_or(0, |bits| bits + 1);
        let mut before = Vec::with_capacity(functions.len() + 2);
        for (at, (start, _)) in (0u32..).zip(&functions) {
            before.resize(((start - first) >> shift) as usize + 1, at);
        }
        before.push(functions.len() as u32);
        Self { functions, shift, before }
    }

    /// Returns the index of the first function that starts after an address.
    pub(super) fn after(&self, at: u64) -> usize {
        let Some(distance) = self.functions.first().and_then(|(first, _)| at.checked_sub(*first)) else { return 0 };
        let part = usize::try_from(distance >> self.shift).unwrap_or(usize::MAX);
        let Some(until) = part.checked_add(1).and_then(|next| self.before.get(next)) else {
            return self.functions.len();
        };
        let (from, until) = (self.before[part] as usize, *until as usize);
        from + self.functions[from..until].partition_point(|(start, _)| *start <= at)
    }

    /// Returns whether the last function that starts at or before an address contains it.
    pub(super) fn contains(&self, at: u64) -> bool {
        self.after(at).checked_sub(1).is_some_and(|i| at < self.functions[i].1)
    }
}

impl std::ops::Deref for Covered {
    type Target = [(u64, u64)];

    fn deref(&self) -> &Self::Target {
        &self.functions
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn the_index_finds_what_a_search_finds(
            starts in prop::collection::vec(prop_oneof![0u64..200, Just(0), Just(u64::MAX), any::<u64>()], 0..40),
            at in prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 1..20),
        ) {
            let all = Covered::new(starts.iter().map(|start| (*start, start.saturating_add(5))).collect());
            prop_assert!(all.before.len() <= all.len() + 2);
            for at in at.into_iter().chain(starts).flat_map(|at| [at.saturating_sub(1), at, at.saturating_add(1)]) {
                let want = all.partition_point(|(start, _)| *start <= at);
                prop_assert_eq!(all.after(at), want);
                prop_assert_eq!(all.contains(at), want.checked_sub(1).is_some_and(|i| at < all[i].1));
            }
        }
    }
}
