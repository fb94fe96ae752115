//! The cgroups of one machine: their paths and containers by id, and which processes were found in which.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::containers::{self, Container, NamedContainer};

/// From here on ids are ours: of groups whose id no record told. The kernel's are inode numbers.
const OURS: u64 = 1 << 63;
/// Processes that are remembered.
const MAX_FOUND: usize = 1 << 17;

#[derive(Debug)]
pub(super) struct Group {
    pub path: Arc<str>,
    pub container: Arc<Container>,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    by_id: FxHashMap<u64, Group>,
    ours: FxHashMap<Arc<str>, u64>,
    /// Where processes were found; `None` where they are in no group.
    found: FxHashMap<i32, Option<u64>>,
    /// Names by the path that is the container's.
    named: BTreeMap<Arc<str>, NamedContainer>,
    /// How often names were told.
    pub told: u64,
}

impl Groups {
    pub fn get(&self, id: u64) -> Option<&Group> {
        self.by_id.get(&id)
    }

    pub fn insert(&mut self, id: u64, path: Arc<str>) {
        let container = self.container_of(&path);
        self.by_id.insert(id, Group { path, container });
    }

    /// True if an id is of a group that is not the root of its tree.
    pub fn says_something(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|group| group.path.len() > 1)
    }

    /// The cgroup where a process was found, if it was looked for.
    pub fn found(&self, pid: i32) -> Option<Option<u64>> {
        self.found.get(&pid).copied()
    }

    /// A process is there; the id of that group, and whether it is a new one.
    pub fn find(&mut self, pid: i32, path: Option<&Arc<str>>) -> (Option<u64>, bool) {
        if self.found.len() >= MAX_FOUND {
            self.found.clear();
        }
        let known = path.and_then(|path| self.ours.get(path).copied());
        let id = known.or_else(|| path.map(|_| OURS + self.ours.len() as u64));
        self.found.insert(pid, id);
        if let (None, Some(id), Some(path)) = (known, id, path) {
            self.ours.insert(path.clone(), id);
            self.insert(id, path.clone());
        }
        (id, known.is_none())
    }

    /// A process may be in another group by now.
    pub fn moved(&mut self, pid: i32) {
        self.found.remove(&pid);
    }

    /// Learns names; whether a group that is there has another one by that.
    pub fn name(&mut self, list: Vec<NamedContainer>) -> bool {
        self.told += 1;
        self.named.extend(list.into_iter().map(|named| (named.root.clone(), named)));
        let mut changed = false;
        for id in self.by_id.keys().copied().collect::<Vec<_>>() {
            let Some(path) = self.by_id.get(&id).map(|group| group.path.clone()) else { continue };
            let container = self.container_of(&path);
            if let Some(group) = self.by_id.get_mut(&id).filter(|group| group.container != container) {
                group.container = container;
                changed = true;
            }
        }
        changed
    }

    pub fn named(&self) -> impl Iterator<Item = &NamedContainer> {
        self.named.values()
    }

    /// The innermost container of a path whose names were told, else what the path itself says.
    pub fn container_of(&self, path: &str) -> Arc<Container> {
        let inner = path.rmatch_indices('/').map(|(at, _)| at).filter(|end| *end > 0);
        let told = [path.len()].into_iter().chain(inner).find_map(|end| self.named.get(&path[..end]));
        match (told, containers::places(path).first()) {
            (Some(named), _) => named.container.clone(),
            (None, Some(place)) => Arc::new(place.container()),
            (None, None) => Arc::default(),
        }
    }
}
