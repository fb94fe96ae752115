//! The distinct mappings of a session, and which of them map the same part of the same file.

use hashbrown::HashMap;

/// Index into [`super::Dsos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DsoId(pub u32);

/// A distinct mapping: a DSO at an address. Shared by all processes with the same mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapId(pub(crate) u32);

impl MapId {
    /// Addresses without a known mapping.
    pub const UNKNOWN: Self = Self(0);
    /// Kernel addresses outside modules.
    pub(crate) const KERNEL: Self = Self(1);
    /// Guest addresses, seen from the host.
    pub(crate) const GUEST: Self = Self(2);
    /// The marker for the missing callers of a stack whose copy was too short.
    pub(crate) const CUT: Self = Self(3);
    /// The marker for the missing callers of a stack whose next word is not an address of code.
    pub(crate) const BROKEN: Self = Self(4);
    /// The only frame of a stack that was not walked.
    pub(crate) const NOT_WALKED: Self = Self(5);
    const FIXED: usize = 6;
}

/// A mapping in a history: its representative, and the start in its process. For exited processes only this is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub(crate) map: MapId,
    pub(crate) start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Map {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) pgoff: u64,
    pub(crate) dso: DsoId,
}

impl Map {
    /// Returns the address inside the DSO: a file offset for files, the address itself for the kernel.
    pub(crate) fn to_dso(self, ip: u64) -> u64 {
        ip.wrapping_sub(self.start).wrapping_add(self.pgoff)
    }

    fn part(&self) -> (DsoId, u64, u64) {
        (self.dso, self.pgoff, self.len)
    }
}

/// The minimum number of mappings that justifies a search for unused ones.
const RIPE: usize = 10_000;

/// The table of mappings. With address space randomization, each process has its own. The first mapping of a part of a
/// file represents the others, so that samples of the same code are counted together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps {
    list: Vec<Map>,
    ids: HashMap<Map, MapId>,
    stand_in: Vec<MapId>,
    /// For each mapping, whether it is or was a representative of others, to which histories still refer.
    stood: Vec<bool>,
    by_part: HashMap<(DsoId, u64, u64), MapId>,
    free: Vec<MapId>,
    /// The number of used mappings at the last search.
    kept: usize,
}

impl Maps {
    /// Returns the id of a mapping. For a new one, `alone` decides whether it needs to be its own representative,
    /// because its process maps that part elsewhere as well, so that sharing would make the two ambiguous.
    pub(crate) fn id(&mut self, map: Map, alone: impl FnOnce(&Self, MapId) -> bool) -> MapId {
        if let Some(id) = self.ids.get(&map) {
            return *id;
        }
        let next = MapId(self.list.len() as u32);
        let id = self.free.pop().unwrap_or(next);
        let first = self.by_part.get(&map.part()).copied().filter(|first| !alone(self, *first));
        let stand_in = first.unwrap_or(id);
        if id == next {
            self.list.push(map);
            self.stand_in.push(stand_in);
            self.stood.push(false);
        } else {
            (self.list[id.0 as usize], self.stand_in[id.0 as usize]) = (map, stand_in);
        }
        self.stood[stand_in.0 as usize] |= stand_in != id;
        self.ids.insert(map, id);
        self.by_part.entry(map.part()).or_insert(id);
        id
    }

    pub(crate) fn get(&self, id: MapId) -> Map {
        self.list[id.0 as usize]
    }

    pub(crate) fn stand_in(&self, id: MapId) -> MapId {
        self.stand_in[id.0 as usize]
    }

    /// Returns whether enough mappings were added since the last search to justify another one.
    pub(crate) fn are_ripe(&self) -> bool {
        self.ids.len() > (2 * self.kept).max(RIPE)
    }

    pub(crate) fn memory(&self) -> usize {
        let listed = size_of::<Map>() + 2 * size_of::<MapId>() + size_of::<bool>();
        let indexed = size_of::<(Map, MapId)>() + 1;
        self.list.capacity() * listed + (self.ids.capacity() + self.by_part.capacity()) * 8 / 7 * indexed
    }

    /// Returns for each id whether it is its own representative; histories and frames refer only to those.
    pub(crate) fn standing(&self) -> Vec<bool> {
        let mut standing: Vec<bool> = self.stand_in.iter().zip(0..).map(|(own, id)| own.0 == id).collect();
        self.free.iter().for_each(|id| standing[id.0 as usize] = false);
        standing
    }

    /// Returns a list with `false` for each id, in which used ones can be marked.
    pub(crate) fn none_used(&self) -> Vec<bool> {
        vec![false; self.list.len()]
    }

    /// Returns whether a mapping represents or represented others, so that an address in it may belong to any of them.
    pub(crate) fn is_shared(&self, id: MapId) -> bool {
        self.stood[id.0 as usize]
    }

    /// Frees the ids of mappings that are not `used`; representatives of used ones stay.
    pub(crate) fn forget_others(&mut self, mut used: Vec<bool>) {
        used.iter_mut().take(MapId::FIXED).for_each(|used| *used = true);
        for id in 0..self.list.len() {
            if used[id] {
                used[self.stand_in[id].0 as usize] = true;
            }
        }
        self.ids.retain(|_, id| used[id.0 as usize]);
        self.by_part.retain(|_, id| used[id.0 as usize]);
        self.kept = self.ids.len();
        // Capacity from a storm of processes is freed afterwards, except what the next one needs at once.
        self.ids.shrink_to(2 * self.kept);
        self.by_part.shrink_to(2 * self.by_part.len());
        let len = used.iter().rposition(|used| *used).map_or(0, |last| last + 1);
        self.list.truncate(len);
        self.list.shrink_to(2 * len);
        self.stand_in.truncate(len);
        self.stand_in.shrink_to(2 * len);
        self.stood.truncate(len);
        self.stood.shrink_to(2 * len);
        self.free = (0..self.list.len() as u32).filter(|id| !used[*id as usize]).map(MapId).collect();
        // A free one is its own representative, so that it keeps no other one.
        for id in &self.free {
            (self.stand_in[id.0 as usize], self.stood[id.0 as usize]) = (*id, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, pgoff: u64) -> Map {
        Map { start, len: 0x1000, pgoff, dso: DsoId(9) }
    }

    #[test]
    fn one_stands_for_all_of_a_part_while_any_is_used() {
        let mut maps = Maps::default();
        for i in 0..MapId::FIXED as u64 {
            maps.id(map(i, (i + 1) << 32), |_, _| false);
        }
        let [a, b] = [0x1000, 0x5000].map(|start| maps.id(map(start, 0), |_, _| false));
        let other = maps.id(map(0x7000, 0x1000), |_, _| false);
        let twice = maps.id(map(0x9000, 0), |_, first| first == a);
        assert_eq!([a, b, other, twice].map(|id| maps.stand_in(id)), [a, a, other, twice]);
        let shared = |maps: &Maps| [a, b, other, twice].map(|id| maps.is_shared(id));
        assert_eq!(shared(&maps), [true, false, false, false]);
        let mut used = maps.none_used();
        used[b.0 as usize] = true;
        maps.forget_others(used);
        // The representative of a used mapping stays; the ids of the others are reused.
        assert_eq!((maps.get(a), maps.stand_in(b)), (map(0x1000, 0), a));
        // The history of their processes still refers to the representative.
        let mut used = maps.none_used();
        used[a.0 as usize] = true;
        maps.forget_others(used);
        assert!(maps.is_shared(a));
        let [new, newer] = [0xb000, 0xc000].map(|start| maps.id(map(start, 0x1000), |_, _| false));
        assert_eq!((maps.none_used().len(), maps.stand_in(new), maps.stand_in(newer)), (MapId::FIXED + 3, new, new));
        assert_eq!([maps.is_shared(new), maps.is_shared(newer)], [true, false]);
        let none = maps.none_used();
        maps.forget_others(none);
        let again = maps.id(map(0x1000, 0), |_, _| false);
        assert!(!maps.is_shared(again), "it was of another one");
    }
}
