//! Marks on many numbers: which ones are kept, and their new numbers once the others are gone. Two bits per number.

use super::NodeId;

#[derive(Debug)]
pub(crate) struct Marks {
    words: Vec<u64>,
}

/// The marked numbers in order, with their ranks.
#[derive(Debug)]
pub struct MarkedSet {
    words: Vec<u64>,
    /// The number of marks before each word.
    before: Vec<u32>,
    len: usize,
}

impl Marks {
    pub(crate) fn none(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)] }
    }

    pub(crate) fn mark(&mut self, at: u32) {
        self.words[at as usize / 64] |= 1 << (at % 64);
    }

    pub(crate) fn has(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 == 1
    }

    pub(crate) fn count(self) -> MarkedSet {
        let mut len = 0;
        let count = |word: &u64| {
            let before = len;
            len += word.count_ones();
            before
        };
        let before: Vec<u32> = self.words.iter().map(count).collect();
        MarkedSet { words: self.words, before, len: len as usize }
    }
}

impl MarkedSet {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn number(&self, old: u32) -> Option<u32> {
        let at = old as usize / 64;
        let (word, bit) = (*self.words.get(at)?, 1 << (old % 64));
        (word & bit != 0).then(|| self.before[at] + (word & (bit - 1)).count_ones())
    }

    pub(crate) fn node(&self, old: NodeId) -> NodeId {
        NodeId(self.number(old.0).unwrap_or(0))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn kept_numbers_follow_each_other(marked in proptest::collection::btree_set(0u32..700, 0..200)) {
            let mut marks = Marks::none(700);
            marked.iter().for_each(|at| marks.mark(*at));
            prop_assert!((0..700).all(|at| marks.has(at) == marked.contains(&at)));
            let kept = marks.count();
            prop_assert_eq!(kept.len(), marked.len());
            prop_assert!(kept.iter().eq(marked.iter().copied()));
            let numbers: Vec<u32> = (0..2000).filter_map(|at| kept.number(at)).collect();
            prop_assert!(numbers.into_iter().eq(0..marked.len() as u32));
            prop_assert!((0..700).all(|at| kept.number(at).is_some() == marked.contains(&at)));
        }
    }
}
