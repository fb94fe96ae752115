//! Divides the memory budget of names among the users who own the files. Chooses what to evict.

use std::hash::Hash;

use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug)]
struct Held {
    user: u32,
    bytes: usize,
    /// The count of lookups at its last use.
    used: u64,
}

/// The ledger of one budget. A user's items are never evicted for a user who holds more.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    whole: usize,
    count: usize,
    held: FxHashMap<K, Held>,
    total: usize,
    asked: u64,
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// Creates a ledger with a limit of bytes and of items.
    pub(crate) fn new(whole: usize, count: usize) -> Self {
        Self { whole, count, held: FxHashMap::default(), total: 0, asked: 0 }
    }

    /// Returns the limit of one item, which leaves room for another user's.
    pub(crate) fn most(&self) -> usize {
        self.whole / 2
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Records a use of an item.
    pub(crate) fn ask(&mut self, key: K) {
        self.asked += 1;
        if let Some(held) = self.held.get_mut(&key) {
            held.used = self.asked;
        }
    }

    pub(crate) fn hold(&mut self, key: K, user: u32, bytes: usize) {
        self.asked += 1;
        let held = self.held.entry(key).or_insert(Held { user, bytes: 0, used: self.asked });
        self.total = self.total - held.bytes + bytes;
        (held.user, held.bytes) = (user, bytes);
    }

    pub(crate) fn update(&mut self, key: K, bytes: usize) {
        if let Some(held) = self.held.get_mut(&key) {
            self.total = self.total - held.bytes + bytes;
            held.bytes = bytes;
        }
    }

    pub(crate) fn give_back(&mut self, key: K) {
        self.total -= self.held.remove(&key).map_or(0, |held| held.bytes);
    }

    /// Removes and returns items above the budget: the least recently used ones of the user who holds most.
    pub(crate) fn excess(&mut self) -> Vec<K> {
        let mut gone = Vec::new();
        while self.total > self.whole || self.held.len() > self.count {
            let by_bytes = self.total > self.whole;
            let Some(key) = self.oldest_of_most(|held| if by_bytes { held.bytes } else { 1 }) else { break };
            self.give_back(key);
            gone.push(key);
        }
        gone
    }

    fn oldest_of_most(&self, weight: impl Fn(&Held) -> usize) -> Option<K> {
        let mut sums = FxHashMap::<u32, usize>::default();
        self.held.values().for_each(|held| *sums.entry(held.user).or_default() += weight(held));
        let (user, _) = sums.into_iter().max_by_key(|(user, sum)| (*sum, *user))?;
        let of_user = self.held.iter().filter(|(_, held)| held.user == user && weight(held) > 0);
        of_user.min_by_key(|(_, held)| held.used).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_who_holds_most_gives_way() {
        let mut shares = Shares::new(100, 10);
        shares.hold("libc", 0, 30);
        for (name, bytes) in [("a", 40), ("b", 20)] {
            shares.hold(name, 1000, bytes);
        }
        assert_eq!((shares.excess(), shares.total()), (Vec::new(), 90));
        // The most recently used item stays, and so does another user's least recently used one.
        shares.ask("a");
        shares.hold("c", 1000, 30);
        assert_eq!((shares.excess(), shares.total()), (vec!["b"], 100));
        shares.update("c", 31);
        assert_eq!((shares.excess(), shares.total()), (vec!["a"], 61));
        shares.hold("c", 1000, 5);
        shares.give_back("libc");
        shares.give_back("libc");
        assert_eq!(shares.total(), 5);
    }

    #[test]
    fn many_small_things_push_out_nobody_elses() {
        let mut shares = Shares::new(1000, 5);
        shares.hold(0, 0, 900);
        (1..=10).for_each(|thing| shares.hold(thing, 1000, 1));
        assert_eq!(shares.excess(), [1, 2, 3, 4, 5, 6]);
        let mut one = Shares::new(10, 5);
        one.hold(1, 1000, 11);
        assert_eq!((one.excess(), one.excess()), (vec![1], vec![]));
    }
}
