//! A cache of recent results by fingerprint: most samples of a program repeat a stack, which then needs no lookup.

use super::chain::Fingerprint;

const SLOTS: usize = 1 << 16;

/// The cache: each fingerprint has one slot, and the newest entry replaces an older one.
#[derive(Debug)]
pub(crate) struct StackCache<T> {
    slots: Vec<(u64, u64, Option<T>)>,
}

impl<T> Default for StackCache<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T: Copy> StackCache<T> {
    pub(crate) fn get(&self, key: Fingerprint) -> Option<T> {
        let (one, two, found) = self.slots.get(slot(key))?;
        found.filter(|_| Fingerprint(*one, *two) == key)
    }

    /// Returns how many of a chain's first words have a result, and that result. `prints` are the fingerprints up to each
    /// word. Results of most chains were inserted word by word, so that few places need to be looked at.
    pub(crate) fn longest(&self, prints: &[Fingerprint]) -> Option<(usize, T)> {
        let all = self.get(*prints.last()?).map(|found| (prints.len(), found));
        let (mut best, mut from, mut until) = (all, 0, prints.len() - usize::from(all.is_none()));
        while all.is_none() && from < until {
            let middle = from.midpoint(until);
            match self.get(prints[middle]) {
                Some(found) => (best, from) = (Some((middle + 1, found)), middle + 1),
                None => until = middle,
            }
        }
        best
    }

    pub(crate) fn insert(&mut self, key: Fingerprint, found: T) {
        if self.slots.is_empty() {
            self.slots = vec![(0, 0, None); SLOTS];
        }
        self.slots[slot(key)] = (key.0, key.1, Some(found));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(u64, u64, Option<T>)>()
    }
}

fn slot(key: Fingerprint) -> usize {
    key.1 as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::super::NodeId;
    use super::*;

    #[test]
    fn the_newest_takes_the_place_of_another() {
        let mut memory = StackCache::default();
        let zero = Fingerprint(0, 0);
        assert_eq!((memory.get(zero), memory.bytes()), (None, 0));
        let (a, b, other) = (Fingerprint(1, 5), Fingerprint(2, 5 + SLOTS as u64), Fingerprint(3, 6));
        memory.insert(a, NodeId(4));
        memory.insert(other, NodeId(5));
        assert_eq!([a, b, other, zero].map(|key| memory.get(key)), [Some(NodeId(4)), None, Some(NodeId(5)), None]);
        memory.insert(b, NodeId(6));
        assert_eq!([a, b, other].map(|key| memory.get(key)), [None, Some(NodeId(6)), Some(NodeId(5))]);
        let chain = [a, other, b, Fingerprint(8, 8)];
        assert_eq!(memory.longest(&chain[..3]), Some((3, NodeId(6))));
        assert_eq!(memory.longest(&chain[1..]), Some((2, NodeId(6))));
        assert_eq!([memory.longest(&[]), memory.longest(&chain[3..])], [None, None]);
        for half in [Fingerprint(2, a.1), Fingerprint(a.0, b.1)] {
            assert_eq!(memory.get(half), None);
        }
        assert_eq!(memory.bytes(), 24 * SLOTS);
    }
}
