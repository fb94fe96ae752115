//! The history of side-band facts, kept compactly, so that any moment can be written as a
//! recording that a reader follows just as we did.

use std::sync::Arc;

use crate::record::kinds::Task;

use super::MapId;
use super::space::Space;

/// One fact. Mappings are shared table entries, names are interned.
#[derive(Clone, Debug)]
pub enum Side {
    Map {
        pid: i32,
        tid: i32,
        map: MapId,
        prot: u32,
        flags: u32,
    },
    Comm {
        pid: i32,
        tid: i32,
        exec: bool,
        comm: Arc<str>,
    },
    /// A new thread; for a new process, with the mappings that it took over.
    Fork {
        task: Task,
        inherited: Space,
    },
    Exit(Task),
    Cgroup {
        id: u64,
        path: Arc<str>,
    },
}

impl Side {
    /// The process that this is about.
    pub fn pid(&self) -> i32 {
        match self {
            Self::Map { pid, .. } | Self::Comm { pid, .. } => *pid,
            Self::Fork { task, .. } | Self::Exit(task) => task.pid,
            Self::Cgroup { .. } => 0,
        }
    }
}

/// Facts in the order in which they came; those of time 0 were there before the session.
#[derive(Clone, Debug, Default)]
pub struct SideLog {
    entries: Vec<(u64, Side)>,
    trimmed_at: usize,
}

impl SideLog {
    pub fn push(&mut self, time: u64, side: Side) {
        self.entries.push((time, side));
    }

    pub fn entries(&self) -> &[(u64, Side)] {
        &self.entries
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, Side)>()
    }

    /// Whether it has doubled since it was last trimmed, and trimming is worth its time.
    pub fn is_ripe(&self) -> bool {
        self.entries.len() > 20_000 && self.entries.len() > 2 * self.trimmed_at
    }

    pub fn retain(&mut self, keep: impl Fn(i32) -> bool) {
        self.entries.retain(|(_, side)| keep(side.pid()));
        self.trimmed_at = self.entries.len();
    }
}
