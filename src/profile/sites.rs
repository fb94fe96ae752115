//! Sites: a task and a stack. A sample has one id for both: decisions on both are made once per site.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::session::TaskId;

use super::index::HashIndex;
use super::marks::{MarkedSet, Marks};
use super::{NodeId, SharedSegments};

/// Index into [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteId(pub u32);

/// A task and a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The thread, by its index in [`Session::tasks`](crate::session::Session::tasks).
    pub task: TaskId,
    /// The stack, by the index of its leaf in [`Trie`](super::Trie).
    pub stack: NodeId,
    /// The text of a tracepoint's sample; the first, empty one if texts are not kept.
    pub trace: TraceId,
}

/// The text of a tracepoint's sample, where such texts are kept. Index into [`Sites::traces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct TraceId(pub u32);

/// All distinct sites.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    list: SharedSegments<Site>,
    index: HashIndex,
    /// The first one is empty: no text.
    traces: Vec<Arc<str>>,
    trace_ids: HashMap<Arc<str>, u32>,
}

impl Sites {
    /// Returns the id of a site, adding it if it is new.
    pub fn intern(&mut self, site: Site) -> SiteId {
        let (list, next) = (&self.list, self.list.len() as u32);
        let rehash = |i: u32| FxBuildHasher.hash_one(list[i as usize]);
        let id = self.index.find_or(FxBuildHasher.hash_one(site), next, |i| list[i as usize] == site, rehash);
        if id == next {
            self.list.push(site);
        }
        SiteId(id)
    }

    pub(crate) fn trace(&mut self, text: &str) -> TraceId {
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

    pub(crate) fn traces(&self) -> &[Arc<str>] {
        &self.traces
    }

    /// Removes all sites except `sites`, which are converted by `new`, and the texts that only they used.
    pub(super) fn keep(&mut self, sites: &MarkedSet, mut new: impl FnMut(Site) -> Site) {
        let mut traces = Marks::none(self.traces.len().max(1));
        traces.mark(0);
        sites.iter().for_each(|site| traces.mark(self.list[site as usize].trace.0));
        let traces = traces.count();
        self.list.keep(sites, |site| Site { trace: TraceId(traces.number(site.trace.0).unwrap_or(0)), ..new(site) });
        self.index.clear();
        let hash = |i: u32| FxBuildHasher.hash_one(self.list[i as usize]);
        for i in 0..self.list.len() as u32 {
            self.index.find_or(hash(i), i, |_| false, hash);
        }
        self.index.fit(hash);
        let mut at = 0..;
        self.traces.retain(|_| at.next().is_some_and(|at| traces.number(at).is_some()));
        self.trace_ids.retain(|_, id| traces.number(*id).map(|new| *id = new).is_some());
    }

    pub(crate) fn get(&self, id: SiteId) -> Site {
        self.list[id.0 as usize]
    }

    pub(crate) fn all(&self) -> &SharedSegments<Site> {
        &self.list
    }

    /// Returns the number of sites; all ids are lower.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.list.memory() + self.traces.len() * 100 + self.index.memory()
    }
}
