//! The cgroups of a machine: their paths and containers by id, and the cgroups of its processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::containers::{self, Container, NamedContainer};

/// The first of our own ids, for groups whose id no record has. The kernel's ids are inode numbers.
const OURS: u64 = 1 << 63;
/// The maximum number of processes whose cgroup is cached.
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
    found: FxHashMap<i32, Option<u64>>,
    /// Names by the path of the container.
    named: BTreeMap<Arc<str>, NamedContainer>,
    /// The number of updates of names.
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

    /// Returns whether an id is of a group other than the root of its hierarchy.
    pub fn says_something(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|group| group.path.len() > 1)
    }

    /// Returns the cached cgroup of a process, if it was looked up.
    pub fn found(&self, pid: i32) -> Option<Option<u64>> {
        self.found.get(&pid).copied()
    }

    /// Sets the cgroup of a process. Returns its id, and whether it is new.
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

    /// Drops the cached cgroup of a process that may have moved.
    pub fn moved(&mut self, pid: i32) {
        self.found.remove(&pid);
    }

    /// Adds names; returns whether an existing group's name changed.
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

    /// Returns the innermost named container of a path, else the one that the path itself identifies.
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
