//! A complete copy of a session at one moment, cheap because chunks are shared: what saving and
//! exporting work on while the session goes on.

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
    /// The samples in the order in which they came, chunk after chunk.
    pub chunks: Vec<Arc<Chunk>>,
    /// All stacks.
    pub stacks: StackColumns,
    pub(crate) tasks: Vec<Task>,
    pub(crate) dsos: Dsos,
    /// The machines that samples are of.
    pub hosts: PerHost<HostSnapshot>,
    pub(crate) events: Vec<EventDesc>,
    /// For each event, of a running machine, how its samples' call chains were taken last.
    pub(crate) ways: Vec<CallGraph>,
    /// Whether times are of this machine's CLOCK_MONOTONIC.
    pub(crate) live: bool,
    /// For each event whether what its tracepoint said is kept.
    pub(crate) has_raw: Vec<bool>,
    /// The process whose threads are nobody's figures, and which took it.
    pub(crate) own_pid: Option<i32>,
    /// The marked moments, in order of time.
    pub marks: Vec<TimeMark>,
    pub(crate) losses: Losses,
    /// It is there as long as somebody works on it.
    pub(crate) held: Arc<()>,
}

/// The part of a snapshot that is one machine's own.
#[derive(Clone, Debug)]
pub struct HostSnapshot {
    /// As the user named it, or as it calls itself.
    pub name: Arc<str>,
    pub(crate) log: SideLog,
    /// Header features that describe it, of a recording; none when live.
    pub(crate) machine: Vec<(u8, Vec<u8>)>,
    /// What its containers are called.
    pub(crate) containers: Vec<NamedContainer>,
}

impl Snapshot {
    /// The number of samples it holds.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.len()).sum()
    }

    /// The machine of a sample.
    pub(crate) fn host_of(&self, chunk: &Chunk, row: usize) -> HostId {
        if !self.hosts.are_many() {
            return HostId::default();
        }
        self.tasks[self.stacks.site(SiteId(chunk.site[row])).task.0 as usize].host
    }
}
