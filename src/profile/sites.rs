//! Sites: who (task) was where (stack). A sample carries one id for both, so what does not depend
//! on the single sample is decided once for each site.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;

use crate::session::TaskId;

use super::NodeId;

/// Index into [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteId(pub u32);

/// A task at a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    pub task: TaskId,
    pub stack: NodeId,
    pub trace: TraceId,
}

/// The text of a tracepoint's sample, where such texts are kept. Index into [`Sites::traces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct TraceId(pub u32);

/// All sites that were ever sampled.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    list: Vec<Site>,
    index: HashTable<u32>,
    /// The first is empty: no text.
    traces: Vec<Arc<str>>,
    trace_ids: HashMap<Arc<str>, u32>,
}

impl Sites {
    pub fn intern(&mut self, site: Site) -> SiteId {
        let list = &self.list;
        let next = list.len() as u32;
        let id = *self
            .index
            .entry(
                FxBuildHasher.hash_one(site),
                |i| list[*i as usize] == site,
                |i| FxBuildHasher.hash_one(list[*i as usize]),
            )
            .or_insert(next)
            .get();
        if id == next {
            self.list.push(site);
        }
        SiteId(id)
    }

    /// The id of a trace text.
    pub fn trace(&mut self, text: &str) -> TraceId {
        if self.traces.is_empty() {
            self.traces.push("".into());
        }
        if let Some(id) = self.trace_ids.get(text) {
            return TraceId(*id);
        }
        let (id, text) = (self.traces.len() as u32, Arc::<str>::from(text));
        self.traces.push(text.clone());
        self.trace_ids.insert(text, id);
        TraceId(id)
    }

    /// All trace texts; none when they are not kept.
    pub fn traces(&self) -> &[Arc<str>] {
        &self.traces
    }

    /// Takes over the texts of a profile that is compacted.
    pub(super) fn take_traces(&mut self, old: &Self) {
        self.traces = old.traces.clone();
        self.trace_ids = old.trace_ids.clone();
    }

    pub fn get(&self, id: SiteId) -> Site {
        self.list[id.0 as usize]
    }

    pub fn all(&self) -> &[Site] {
        &self.list
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Site>() + self.traces.len() * 100 + self.index.capacity() * 5
    }
}
