//! The N largest values.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The largest values with their data; among equal values, the first ones.
#[derive(Clone, Debug)]
pub(crate) struct TopN<T> {
    keep: usize,
    arrived: u64,
    list: BTreeMap<(u64, Reverse<u64>), T>,
}

impl<T> TopN<T> {
    pub(crate) fn new(keep: usize) -> Self {
        Self { keep, arrived: 0, list: BTreeMap::new() }
    }

    pub(crate) fn at_most(self, most: usize) -> Self {
        Self { keep: self.keep.min(most), ..self }
    }

    /// Whether a value would be kept, so that its data need be created.
    pub(crate) fn takes(&self, value: u64) -> bool {
        self.list.len() < self.keep || self.list.first_key_value().is_some_and(|((least, _), _)| value > *least)
    }

    pub(crate) fn add(&mut self, value: u64, what: T) {
        if !self.takes(value) {
            return;
        }
        self.arrived += 1;
        self.list.insert((value, Reverse(self.arrived)), what);
        if self.list.len() > self.keep {
            self.list.pop_first();
        }
    }

    /// Iterates from the largest value, with stable ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        self.list.iter().rev().map(|((value, Reverse(id)), what)| (*value, *id, what))
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_stay() {
        let mut slowest = TopN::new(2);
        for (value, name) in [(5, 'a'), (1, 'b'), (7, 'c'), (7, 'd'), (2, 'e')] {
            slowest.add(value, name);
        }
        assert_eq!(slowest.iter().map(|(v, _, n)| (v, *n)).collect::<Vec<_>>(), [(7, 'c'), (7, 'd')]);
        assert!(!slowest.takes(7) && slowest.takes(8));
    }
}
