//! A complete copy of a session at one moment, cheap because chunks are shared: what saving and
//! exporting work on while the session goes on.

use std::sync::Arc;

use crate::perfdata::EventDesc;
use crate::profile::{Chunk, Frames, Ledger, Losses, Sites, Trie};
use crate::session::{Dsos, SideLog, Task, TimeMark};

/// The state of a session.
#[derive(Clone, Debug)]
pub struct Moment {
    pub chunks: Vec<Arc<Chunk>>,
    pub trie: Trie,
    pub frames: Frames,
    pub sites: Sites,
    pub tasks: Vec<Task>,
    pub dsos: Dsos,
    pub log: SideLog,
    pub events: Vec<EventDesc>,
    pub ledger: Ledger,
    /// Whether times are of this machine's CLOCK_MONOTONIC.
    pub live: bool,
    /// Header features that describe the recorded machine; none when live.
    pub machine: Vec<(u8, Vec<u8>)>,
    /// For each event whether what its tracepoint said is kept.
    pub has_raw: Vec<bool>,
    pub marks: Vec<TimeMark>,
    pub losses: Losses,
}

impl super::ingest::Core {
    /// Copies the state.
    pub fn moment(&self) -> Moment {
        Moment {
            chunks: self.profile.share_chunks(),
            trie: self.profile.trie.clone(),
            frames: self.profile.frames.clone(),
            sites: self.profile.sites.clone(),
            tasks: self.session.tasks().to_vec(),
            dsos: self.session.dsos.clone(),
            log: self.session.log.clone(),
            has_raw: (0..self.events.len()).map(|event| self.profile.format(event as u16).is_some()).collect(),
            events: self.events.clone(),
            ledger: self.profile.ledger.clone(),
            machine: self.machine.clone(),
            marks: self.marks.clone(),
            losses: self.profile.losses.clone(),
            live: self.session.origin() == crate::session::Origin::Live,
        }
    }
}

impl Moment {
    /// How many samples it holds.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
