//! A hash index of numbers that consists of many small tables, so that growing one of them needs little extra memory.

use hashbrown::HashTable;

const TABLES: usize = 64;

/// The index. The items are stored elsewhere: callers pass hashes and a comparison.
#[derive(Clone, Debug)]
pub struct HashIndex {
    tables: Vec<HashTable<u32>>,
    room: usize,
}

impl Default for HashIndex {
    fn default() -> Self {
        Self { tables: (0..TABLES).map(|_| HashTable::new()).collect(), room: 0 }
    }
}

impl HashIndex {
    pub(crate) fn find_or(
        &mut self,
        hash: u64,
        next: u32,
        same: impl Fn(u32) -> bool,
        rehash: impl Fn(u32) -> u64,
    ) -> u32 {
        let table = &mut self.tables[table_of(hash)];
        let before = table.capacity();
        let id = *table.entry(hash, |id| same(*id), |id| rehash(*id)).or_insert(next).get();
        self.room += table.capacity() - before;
        id
    }

    pub(crate) fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        self.tables[table_of(hash)].find(hash, |id| same(*id)).copied()
    }

    /// Returns the bytes in use.
    pub(crate) fn memory(&self) -> usize {
        // An eighth of the slots stays free.
        self.room * 8 / 7 * 5
    }

    pub(crate) fn clear(&mut self) {
        self.tables.iter_mut().for_each(HashTable::clear);
    }

    /// Removes some numbers and changes the others; the items' hashes stay the same.
    pub(crate) fn renumber(&mut self, new: impl Fn(u32) -> Option<u32>, rehash: impl Fn(u32) -> u64) {
        for table in &mut self.tables {
            table.retain(|id| new(*id).map(|new| *id = new).is_some());
        }
        self.fit(rehash);
    }

    /// Shrinks tables that are mostly empty.
    pub(crate) fn fit(&mut self, rehash: impl Fn(u32) -> u64) {
        for table in self.tables.iter_mut().filter(|table| table.len() < table.capacity() / 4) {
            table.shrink_to_fit(|id| rehash(*id));
        }
        self.room = self.tables.iter().map(HashTable::capacity).sum();
    }
}

/// Selects a table by bits that the table does not use: it finds slots by the lowest bits of a hash, and compares the
/// highest. FxHash's best bits, the highest of the product, are below the 26th.
fn table_of(hash: u64) -> usize {
    (hash >> 20) as usize % TABLES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustc_hash::{FxBuildHasher, FxHashMap};
    use std::hash::BuildHasher;

    fn hash(value: u64) -> u64 {
        FxBuildHasher.hash_one(value)
    }

    fn put(index: &mut HashIndex, all: &mut Vec<u64>, value: u64) -> u32 {
        let next = all.len() as u32;
        let id = index.find_or(hash(value), next, |id| all[id as usize] == value, |id| hash(all[id as usize]));
        if id == next {
            all.push(value);
        }
        id
    }

    #[test]
    fn no_table_is_large_beside_all() {
        let (mut index, mut all) = (HashIndex::default(), Vec::new());
        assert_eq!(index.memory(), 0);
        for value in 0..100_000 {
            put(&mut index, &mut all, value);
        }
        let most = index.tables.iter().map(HashTable::capacity).max().unwrap_or(0);
        assert_eq!(index.room, index.tables.iter().map(HashTable::capacity).sum::<usize>());
        assert!(most * 16 < index.room, "{most} of {}", index.room);
        assert!(index.memory() > 500_000 && index.memory() < 1_400_000, "{}", index.memory());
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn what_is_kept_is_found_under_its_new_number(values in proptest::collection::vec(0u64..500, 0..600), part in 1u64..9) {
            let (mut index, mut all, mut ids) = (HashIndex::default(), Vec::new(), FxHashMap::default());
            for value in values {
                let id = put(&mut index, &mut all, value);
                prop_assert_eq!(*ids.entry(value).or_insert(id), id);
            }
            let kept: Vec<u64> = all.iter().copied().filter(|value| value % part == 0).collect();
            let new = |id: u32| kept.iter().position(|value| *value == all[id as usize]).map(|i| i as u32);
            index.renumber(new, |id| hash(kept[id as usize]));
            let mut now = kept.clone();
            for value in all {
                let id = put(&mut index, &mut now, value);
                prop_assert_eq!(now[id as usize], value);
            }
            prop_assert_eq!(now.len(), ids.len());
            prop_assert!(now.starts_with(&kept));
        }
    }
}
