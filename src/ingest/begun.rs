//! What has begun and has not ended yet: when, and where.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::profile::SiteId;

/// Beginnings that are remembered; what never ends must not fill the memory.
const MAX: usize = 1 << 20;

/// Beginnings by what their ends are known by.
#[derive(Clone, Debug)]
pub struct Begun<K> {
    open: FxHashMap<K, (u64, SiteId)>,
    /// The profile's epoch that the sites are of: those of another one mean nothing any more.
    epoch: u64,
}

impl<K> Default for Begun<K> {
    fn default() -> Self {
        Self { open: FxHashMap::default(), epoch: 0 }
    }
}

impl<K: Eq + Hash> Begun<K> {
    /// Something begins.
    pub fn begin(&mut self, key: K, time: u64, site: SiteId, epoch: u64) {
        self.turn_to(epoch);
        if self.open.len() >= MAX {
            self.open.clear();
        }
        self.open.insert(key, (time, site));
    }

    /// It ends: where it began and how many nanoseconds ago.
    pub fn end(&mut self, key: &K, time: u64, epoch: u64) -> Option<(SiteId, u64)> {
        self.turn_to(epoch);
        let (then, site) = self.open.remove(key)?;
        Some((site, time.saturating_sub(then)))
    }

    fn turn_to(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.open.clear();
            self.epoch = epoch;
        }
    }

    /// Records were lost: what has ended meanwhile is not known.
    pub fn forget(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_find_their_beginnings_unless_those_mean_nothing_any_more() {
        let mut begun = Begun::default();
        begun.begin(1, 10, SiteId(7), 0);
        begun.begin(2, 11, SiteId(8), 0);
        assert_eq!((begun.end(&1, 15, 0), begun.end(&1, 16, 0)), (Some((SiteId(7), 5)), None));
        assert_eq!(begun.end(&2, 16, 1), None, "ids were renumbered");
        (0..MAX + 5).for_each(|key| begun.begin(key, 0, SiteId(0), 1));
        assert!(begun.open.len() <= MAX);
        begun.forget();
        assert!(begun.open.is_empty());
    }
}
