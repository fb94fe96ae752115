//! The distinct mappings of a session, and which of them are the same part of the same file.

use hashbrown::HashMap;

/// Index into [`super::Dsos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DsoId(pub u32);

/// A distinct mapping: one DSO at one address. Shared by all processes that have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapId(pub(crate) u32);

impl MapId {
    /// Addresses that no mapping is known for.
    pub const UNKNOWN: Self = Self(0);
    /// Kernel addresses outside modules.
    pub(crate) const KERNEL: Self = Self(1);
    /// Guest addresses, seen from the host.
    pub(crate) const GUEST: Self = Self(2);
    /// The mapping of what would come before a stack that was copied in part.
    pub(crate) const CUT: Self = Self(3);
    /// The mapping of what comes before a stack of which the next word is no address of code.
    pub(crate) const BROKEN: Self = Self(4);
    /// The number of them that are always there.
    const FIXED: usize = 5;
}

/// A mapping as a history has it: the one that stands for it, and where its process had it. Nothing else is kept of what
/// a process had mapped that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub(crate) map: MapId,
    pub(crate) start: u64,
}

/// A mapping of a DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Map {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) pgoff: u64,
    pub(crate) dso: DsoId,
}

impl Map {
    /// The address inside the DSO: a file offset for files, the address itself for the kernel.
    pub(crate) fn to_dso(self, ip: u64) -> u64 {
        ip.wrapping_sub(self.start).wrapping_add(self.pgoff)
    }

    /// The part of a file that is mapped, wherever it is.
    fn part(&self) -> (DsoId, u64, u64) {
        (self.dso, self.pgoff, self.len)
    }
}

/// So many are worth no look at which of them are used.
const RIPE: usize = 10_000;

/// The table of mappings. Where addresses are made random, each process has its own; the first one of a part of a
/// file stands for the others, so that what runs there is the same to all who count it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps {
    list: Vec<Map>,
    ids: HashMap<Map, MapId>,
    /// For each mapping the one that stands for it.
    stand_in: Vec<MapId>,
    /// For each mapping whether it stands, or stood, for others: histories go on telling of them.
    stood: Vec<bool>,
    by_part: HashMap<(DsoId, u64, u64), MapId>,
    /// Ids whose mappings nobody had any more.
    free: Vec<MapId>,
    /// How many were used when that was last looked at.
    kept: usize,
}

impl Maps {
    /// The id of a mapping. `alone` is asked, once for each, whether another one may not stand for it: because its
    /// process has that part elsewhere as well, and the two could not be told apart again.
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

    /// True if there are so many more than were last found to be used that it is worth its time to look again.
    pub(crate) fn are_ripe(&self) -> bool {
        self.ids.len() > (2 * self.kept).max(RIPE)
    }

    /// Bytes in use, near enough for a budget.
    pub(crate) fn memory(&self) -> usize {
        let listed = size_of::<Map>() + 2 * size_of::<MapId>() + size_of::<bool>();
        let indexed = size_of::<(Map, MapId)>() + 1;
        self.list.capacity() * listed + (self.ids.capacity() + self.by_part.capacity()) * 8 / 7 * indexed
    }

    /// For each id whether it stands for itself: no history and no frame tells of any other.
    pub(crate) fn standing(&self) -> Vec<bool> {
        let mut standing: Vec<bool> = self.stand_in.iter().zip(0..).map(|(own, id)| own.0 == id).collect();
        self.free.iter().for_each(|id| standing[id.0 as usize] = false);
        standing
    }

    /// For each id whether it is among `used`, to be filled in.
    pub(crate) fn none_used(&self) -> Vec<bool> {
        vec![false; self.list.len()]
    }

    /// True if a mapping stands for others, those that are forgotten included: an address in it is that of none of them.
    pub(crate) fn is_shared(&self, id: MapId) -> bool {
        self.stood[id.0 as usize]
    }

    /// Gives the ids of mappings that are not `used` to those that come; what stands for a used one stays.
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
        // What they grew to in a storm of processes is given back after it, but for what the next one takes at once.
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
        // A free one stands for itself, so that it keeps no other.
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
        // What stands for a used one is there; the places of the others are taken again.
        assert_eq!((maps.get(a), maps.stand_in(b)), (map(0x1000, 0), a));
        // What had the others' places told of them, as the history of who had them does.
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
