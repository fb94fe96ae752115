//! Mappings of processes that ran when the session or its target began. They are used if such a process has ended when
//! its first record is applied.

use rustc_hash::FxHashMap;

use crate::kernel::procfs::ProcMapping;

/// The limit of mappings, of some hundred bytes each.
const MOST: usize = 1 << 16;

/// The mappings, and the processes whose mappings have not been read yet.
#[derive(Debug, Default)]
pub(super) struct EarlierMaps {
    maps: FxHashMap<i32, Vec<ProcMapping>>,
    held: usize,
    /// The next one is the last: the newest processes are the likeliest to end soon.
    left: Vec<i32>,
}

impl EarlierMaps {
    /// Replaces the list of processes to read.
    pub(super) fn begin(&mut self, mut pids: Vec<i32>) {
        pids.retain(|pid| !self.maps.contains_key(pid));
        pids.sort_unstable();
        self.left = pids;
    }

    /// Returns the next process to read; `None` if there is none, or no room.
    pub(super) fn next(&mut self) -> Option<i32> {
        self.left.pop().filter(|_| self.held < MOST)
    }

    pub(super) fn put(&mut self, pid: i32, maps: Vec<ProcMapping>) {
        self.take(pid);
        self.held += maps.len();
        self.maps.insert(pid, maps);
    }

    /// Removes the mappings of a process: it is known from now on, or its number belongs to another one.
    pub(super) fn take(&mut self, pid: i32) -> Vec<ProcMapping> {
        let maps = self.maps.remove(&pid).unwrap_or_default();
        self.held -= maps.len();
        maps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::procfs::parse_maps_line;

    #[test]
    fn the_newest_processes_are_read_first_up_to_a_limit() {
        let map = parse_maps_line(b"1000-2000 r-xp 00000000 08:01 12 /bin/cat").expect("a mapping");
        let mut earlier = EarlierMaps::default();
        earlier.begin(vec![7, 90, 8]);
        assert_eq!(earlier.next(), Some(90));
        earlier.put(90, vec![map.clone(); MOST]);
        assert_eq!(earlier.next(), None, "no room");
        earlier.begin(vec![7, 90]);
        assert_eq!(earlier.take(90).len(), MOST);
        assert_eq!((earlier.next(), earlier.next()), (Some(7), None), "read ones are not read again");
        earlier.put(7, vec![map.clone()]);
        earlier.put(7, vec![map.clone(), map]);
        assert_eq!((earlier.held, earlier.take(7).len(), earlier.held), (2, 2, 0));
        assert!(earlier.take(7).is_empty());
    }
}
