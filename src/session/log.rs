//! The history of side-band facts, kept compactly, so that any moment can be written as a
//! recording that a reader follows just as we did.

use std::sync::Arc;

use crate::record::kinds::Task;

use super::MapId;
use super::space::Space;

/// One fact. Mappings are shared table entries, names are interned.
#[derive(Clone, Debug)]
pub enum Side {
    /// New memory that holds code.
    Map {
        /// The process; -1 for the kernel's own code.
        pid: i32,
        /// The thread that mapped it.
        tid: i32,
        /// The mapping in the session's table of them, which has its addresses and its file.
        map: MapId,
        /// `PROT_*` bits, as the record had them.
        prot: u32,
        /// `MAP_*` bits, as the record had them.
        flags: u32,
    },
    /// A new name of a thread.
    Comm {
        /// The process that it is a thread of.
        pid: i32,
        /// The thread that has the name.
        tid: i32,
        /// Whether an exec gave it.
        exec: bool,
        /// The name, bytes that are no UTF-8 replaced.
        comm: Arc<str>,
    },
    /// Apart, as it is large and seldom.
    Fork(Box<Fork>),
    /// The end of a thread.
    Exit(Task),
    /// The path of a cgroup's id.
    Cgroup {
        /// The id that samples carry of it.
        id: u64,
        /// The path from the root of its hierarchy on.
        path: Arc<str>,
    },
    /// An exec of the process is over: the new program was seen.
    Ran {
        /// The process whose mappings before the exec are void.
        pid: i32,
    },
}

/// A new thread; for a new process, with the mappings that it took over.
#[derive(Clone, Debug)]
pub struct Fork {
    pub(crate) task: Task,
    pub(crate) inherited: Space,
}

impl Side {
    /// The process that this is about.
    pub(crate) fn pid(&self) -> i32 {
        match self {
            Self::Map { pid, .. } | Self::Comm { pid, .. } | Self::Ran { pid } => *pid,
            Self::Fork(fork) => fork.task.pid,
            Self::Exit(task) => task.pid,
            Self::Cgroup { .. } => 0,
        }
    }
}

/// Facts in the order in which they came; those of time 0 were there before the session.
#[derive(Clone, Debug, Default)]
pub struct SideLog {
    entries: Vec<(u64, Side)>,
    forks: usize,
    trimmed_at: usize,
}

impl SideLog {
    pub(crate) fn push(&mut self, time: u64, side: Side) {
        self.forks += usize::from(matches!(side, Side::Fork(_)));
        self.entries.push((time, side));
    }

    pub(crate) fn entries(&self) -> &[(u64, Side)] {
        &self.entries
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, Side)>() + self.forks * size_of::<Fork>()
    }

    /// Calls `each` for the mappings that it tells of.
    pub(crate) fn each_map(&self, mut each: impl FnMut(MapId)) {
        for (_, side) in &self.entries {
            match side {
                Side::Map { map, .. } => each(*map),
                Side::Fork(fork) => fork.inherited.maps().chain(fork.inherited.before()).for_each(&mut each),
                _ => {}
            }
        }
    }

    /// True if it has doubled since it was last trimmed, and trimming is worth its time.
    pub(crate) fn is_ripe(&self) -> bool {
        self.entries.len() > 20_000 && self.entries.len() > 2 * self.trimmed_at
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(i32) -> bool) {
        self.entries.retain(|(_, side)| keep(side.pid()));
        self.forks = self.entries.iter().filter(|(_, side)| matches!(side, Side::Fork(_))).count();
        // What it grew to in a storm is given back after it.
        self.entries.shrink_to(2 * self.entries.len());
        self.trimmed_at = self.entries.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_takes_what_its_facts_do() {
        let mut log = SideLog::default();
        let mut inherited = Space::empty(1);
        inherited.insert(0x1000, 0x2000, MapId(5), 1);
        let inherited = Space::after_exec(Some(&inherited), 2);
        let fork = |pid| {
            let task = Task { pid, ppid: 1, tid: pid, ptid: 1, time: 0 };
            Side::Fork(Box::new(Fork { task, inherited: inherited.clone() }))
        };
        for pid in 0..1000 {
            log.push(1, Side::Ran { pid });
        }
        log.push(2, Side::Map { pid: 7, tid: 7, map: MapId(9), prot: 5, flags: 2 });
        [7, 2000, 8].into_iter().for_each(|pid| log.push(2, fork(pid)));
        let fact = size_of::<(u64, Side)>();
        assert_eq!(log.memory(), log.entries.capacity() * fact + 3 * size_of::<Fork>());
        log.retain(|pid| pid < 100);
        assert_eq!((log.entries().len(), log.forks), (103, 2));
        assert_eq!(log.memory(), 206 * fact + 2 * size_of::<Fork>());
        let mut maps = Vec::new();
        log.each_map(|map| maps.push(map));
        assert_eq!(maps, [MapId(9), MapId(5), MapId(5)]);
    }
}
