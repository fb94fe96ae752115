//! An address space: finds the mapping of an address. Copies are cheap, because forks make many.

use std::ops::Range;
use std::sync::Arc;

use super::MapId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpaceEntry<M> {
    pub start: u64,
    pub end: u64,
    pub map: M,
}

/// Mappings in address order. A newer one replaces the parts that it overlaps, because unmapping leaves no record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AddressSpace<M = MapId> {
    entries: Arc<Vec<SpaceEntry<M>>>,
    /// The mappings that an exec has replaced, while its system call still runs: until it returns, the call's user
    /// address belongs to the old program.
    before: Option<Arc<Vec<SpaceEntry<M>>>>,
    generation: u32,
}

impl<M> Default for AddressSpace<M> {
    fn default() -> Self {
        Self { entries: Arc::default(), before: None, generation: 0 }
    }
}

impl<M: Copy + PartialEq> AddressSpace<M> {
    pub(crate) fn empty(generation: u32) -> Self {
        Self { entries: Arc::default(), before: None, generation }
    }

    /// Returns the space of a program that replaces another one.
    pub(crate) fn after_exec(old: Option<&Self>, generation: u32) -> Self {
        Self { before: old.map(|s| s.entries.clone()), ..Self::empty(generation) }
    }

    pub(crate) fn is_in_exec(&self) -> bool {
        self.before.is_some()
    }

    pub(crate) fn settle(&mut self, generation: u32) {
        self.before = None;
        self.generation = generation;
    }

    /// Returns whether the mapping at an address exists only since the exec in progress.
    pub(crate) fn is_new(&self, ip: u64) -> bool {
        find(&self.entries, ip).is_some() && self.before.as_ref().is_none_or(|before| find(before, ip).is_none())
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.before.as_ref().is_none_or(|before| before.is_empty())
    }

    pub(crate) fn find(&self, ip: u64) -> Option<M> {
        self.around(ip).1
    }

    /// Returns the mapping that contains an address, with the range of addresses around it in the mapping.
    pub(crate) fn around(&self, ip: u64) -> (Range<u64>, Option<M>) {
        let after = self.entries.partition_point(|e| e.start <= ip);
        let below = after.checked_sub(1).map(|i| self.entries[i]);
        match (below, &self.before) {
            (Some(entry), _) if ip < entry.end => (entry.start..entry.end, Some(entry.map)),
            (_, Some(before)) => (ip..ip, find(before, ip)),
            (below, None) => {
                let next = self.entries.get(after).map_or(u64::MAX, |e| e.start);
                (below.map_or(0, |e| e.end)..next, None)
            }
        }
    }

    /// Returns the mappings that begin at or before an address, the nearest first.
    pub(super) fn maps_before(&self, ip: u64) -> impl Iterator<Item = M> + '_ {
        let after = self.entries.partition_point(|e| e.start <= ip);
        self.entries[..after].iter().rev().map(|e| e.map)
    }

    /// Returns the mappings, each once, in address order.
    pub(crate) fn maps(&self) -> impl Iterator<Item = M> + '_ {
        let mut last = None;
        self.entries.iter().map(|e| e.map).filter(move |map| last.replace(*map) != Some(*map))
    }

    pub(crate) fn before(&self) -> impl Iterator<Item = M> + '_ {
        self.before.iter().flat_map(|entries| entries.iter().map(|e| e.map))
    }

    pub(super) fn parts(&self) -> (&[SpaceEntry<M>], Option<&[SpaceEntry<M>]>) {
        (&self.entries, self.before.as_ref().map(|before| before.as_slice()))
    }

    /// Returns the space with these [`Self::parts`].
    pub(super) fn of_parts(entries: Vec<SpaceEntry<M>>, before: Option<Vec<SpaceEntry<M>>>) -> Self {
        Self { entries: Arc::new(entries), before: before.map(Arc::new), generation: 0 }
    }

    pub(crate) fn insert(&mut self, start: u64, end: u64, map: M, generation: u32) {
        self.generation = generation;
        let entries = Arc::make_mut(&mut self.entries);
        let first = entries.partition_point(|e| e.end <= start);
        let last = entries.partition_point(|e| e.start < end);
        let mut fresh = Vec::with_capacity(3);
        if let Some(left) = entries.get(first).filter(|e| e.start < start) {
            fresh.push(SpaceEntry { end: start, ..*left });
        }
        fresh.push(SpaceEntry { start, end, map });
        if let Some(right) = last.checked_sub(1).and_then(|i| entries.get(i)).filter(|e| e.end > end) {
            fresh.push(SpaceEntry { start: end, ..*right });
        }
        entries.splice(first..last.max(first), fresh);
    }
}

fn find<M: Copy>(entries: &[SpaceEntry<M>], ip: u64) -> Option<M> {
    let after = entries.partition_point(|e| e.start <= ip);
    let entry = entries.get(after.checked_sub(1)?)?;
    (ip < entry.end).then_some(entry.map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        /// Compared with a plain array of bytes, each set by the newest mapping.
        #[test]
        fn the_newest_mapping_wins(maps in proptest::collection::vec((0u64..100, 1u64..40), 0..20)) {
            let mut space = AddressSpace::default();
            let mut painted = [None; 160];
            for (i, (start, len)) in maps.iter().enumerate() {
                space.insert(*start, start + len, MapId(i as u32), i as u32);
                painted[*start as usize..(start + len) as usize].fill(Some(MapId(i as u32)));
            }
            for (ip, want) in painted.iter().enumerate() {
                prop_assert_eq!(space.find(ip as u64), *want);
                let (range, map) = space.around(ip as u64);
                prop_assert!(range.contains(&(ip as u64)) && map == *want);
                prop_assert!((range.start..range.end.min(160)).all(|near| painted[near as usize] == *want));
            }
            prop_assert_eq!(space.generation(), maps.len().saturating_sub(1) as u32);
            // A mapping that a newer one splits is on both sides of it.
            let mut runs: Vec<MapId> = painted.iter().flatten().copied().collect();
            runs.dedup();
            prop_assert_eq!(space.maps().collect::<Vec<_>>(), runs);
        }
    }

    #[test]
    fn an_exec_replaces_what_was_before_it() {
        let mut old = AddressSpace::empty(3);
        assert_eq!(old.generation(), 3);
        old.insert(0x1000, 0x2000, MapId(7), 4);
        old.insert(0x3000, 0x4000, MapId(8), 5);
        let mut new = AddressSpace::after_exec(Some(&old), 6);
        new.insert(0x3800, 0x5000, MapId(9), 7);
        let found = |space: &AddressSpace| {
            [0x1000, 0x1fff, 0x2000, 0x37ff, 0x3800, 0x4fff, 0x5000].map(|ip| space.find(ip).map(|id| id.0))
        };
        assert_eq!(found(&new), [Some(7), Some(7), None, Some(8), Some(9), Some(9), None]);
        assert_eq!((new.is_in_exec(), new.before().collect::<Vec<_>>()), (true, vec![MapId(7), MapId(8)]));
        assert_eq!(new.maps().collect::<Vec<_>>(), [MapId(9)]);
        // A mapping in both programs is not necessarily new.
        assert_eq!(
            [0x1000, 0x3800, 0x3fff, 0x4000, 0x5000].map(|ip| new.is_new(ip)),
            [false, false, false, true, false]
        );
        new.settle(8);
        assert_eq!(found(&new), [None, None, None, None, Some(9), Some(9), None]);
        assert_eq!((new.is_in_exec(), new.before().count(), new.generation()), (false, 0, 8));
        assert_eq!([&old, &new, &AddressSpace::after_exec(Some(&old), 9)].map(AddressSpace::is_empty), [false; 3]);
        assert_eq!(
            [AddressSpace::<MapId>::empty(1), AddressSpace::after_exec(Some(&AddressSpace::empty(1)), 2)]
                .map(|s| s.is_empty()),
            [true; 2]
        );
        assert!(new.is_new(0x3800) && !new.is_new(0x1000));
        assert!(!AddressSpace::<MapId>::after_exec(None, 1).is_in_exec());
    }
}
