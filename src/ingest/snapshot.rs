//! A copy of a session at one moment, cheap because chunks are shared; saved and exported while it continues.

use std::sync::Arc;

use crate::event::CallGraph;
use crate::perfdata::EventDesc;
use crate::profile::{Chunk, Losses, SiteId, StackColumns};
use crate::session::containers::NamedContainer;
use crate::session::hosts::{HostId, PerHost};
use crate::session::{Dsos, SideLog, Task, TimeMark};

/// The state of a session.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The samples in the order of their arrival, in chunks.
    pub chunks: Vec<Arc<Chunk>>,
    /// All stacks.
    pub stacks: StackColumns,
    pub(crate) tasks: Vec<Task>,
    pub(crate) dsos: Dsos,
    /// The machines of the samples.
    pub hosts: PerHost<HostSnapshot>,
    pub(crate) events: Vec<EventDesc>,
    /// The last call graph mode of each event of a live session.
    pub(crate) call_graph_modes: Vec<CallGraph>,
    /// Whether timestamps are of this machine's CLOCK_MONOTONIC.
    pub(crate) live: bool,
    pub(crate) has_raw: Vec<bool>,
    /// The profiler's own process, which took the snapshot; analysis units ignore its threads.
    pub(crate) own_pid: Option<i32>,
    /// The marked moments, in order of time.
    pub marks: Vec<TimeMark>,
    pub(crate) losses: Losses,
    /// Alive while the snapshot is in use.
    pub(crate) held: Arc<()>,
}

/// The part of a snapshot that belongs to one machine.
#[derive(Clone, Debug)]
pub struct HostSnapshot {
    /// The name given by the user, or the host name.
    pub name: Arc<str>,
    pub(crate) log: SideLog,
    /// Header features that describe it, of a recording; empty when live.
    pub(crate) machine: Vec<(u8, Vec<u8>)>,
    pub(crate) containers: Vec<NamedContainer>,
}

impl Snapshot {
    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.len()).sum()
    }

    pub(crate) fn host_of(&self, chunk: &Chunk, row: usize) -> HostId {
        if !self.hosts.are_many() {
            return HostId::default();
        }
        self.tasks[self.stacks.site(SiteId(chunk.site[row])).task.0 as usize].host
    }
}
