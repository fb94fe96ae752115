//! Compaction: frees stacks, sites and tasks that no kept sample uses. Kept entries are marked, and move down into the
//! freed places in their own order. So parents stay before their children, and entries stay unique.

use std::sync::Arc;

use crate::session::{Session, TaskId};

use super::marks::{MarkedSet, Marks};
use super::stack_cache::StackCache;
use super::{Chunk, Profile, Site, SiteId};

impl Profile {
    /// Removes all samples, and the stacks that only they used.
    pub fn clear(&mut self, session: &mut Session) {
        self.evicted = self.end();
        self.sealed.clear();
        (self.raw_bytes, self.weights) = (0, 0);
        self.current = Chunk::default();
        self.compact(session);
    }

    /// Renumbers stacks, sites and tasks to those that kept samples use.
    pub fn compact(&mut self, session: &mut Session) {
        (self.memory, self.leaves) = (StackCache::default(), StackCache::default());
        self.last.clear();
        let sites = self.kept_sites();
        let nodes = self.kept_nodes(&sites);
        let mut frames = Marks::none(self.frames.len());
        nodes.iter().skip(1).for_each(|node| frames.mark(self.trie.columns().1[node as usize]));
        let frames = frames.count();
        self.trie.keep(&nodes, &frames);
        self.frames.keep(&frames);
        self.keep_sites(session, &sites, &nodes);
        self.pins.renumber(&nodes);
        session.forget_unused(self.frames.maps());
        self.births.forget();
        self.epoch += 1;
    }

    fn kept_sites(&self) -> MarkedSet {
        let mut sites = Marks::none(self.sites.len());
        let chunks = self.sealed.iter().map(|chunk| &**chunk).chain([&self.current]);
        chunks.flat_map(|chunk| &chunk.site).for_each(|site| sites.mark(*site));
        sites.count()
    }

    /// Returns the nodes of kept sites and of pinned stacks, with all their ancestors; the root is the first.
    fn kept_nodes(&self, sites: &MarkedSet) -> MarkedSet {
        let mut nodes = Marks::none(self.trie.len());
        nodes.mark(0);
        sites.iter().for_each(|site| nodes.mark(self.sites.get(SiteId(site)).stack.0));
        self.pins.nodes().for_each(|node| nodes.mark(node.0));
        let (parents, _) = self.trie.columns();
        for node in (1..parents.len()).rev() {
            if nodes.has(node as u32) {
                nodes.mark(parents[node]);
            }
        }
        nodes.count()
    }

    fn keep_sites(&mut self, session: &mut Session, sites: &MarkedSet, nodes: &MarkedSet) {
        let old_tasks = session.renew_tasks();
        let mut tasks: Vec<Option<TaskId>> = vec![None; old_tasks.len()];
        self.sites.keep(sites, |site| {
            let old = site.task.0 as usize;
            let task = *tasks[old].get_or_insert_with(|| session.keep_task(&old_tasks[old]));
            Site { task, stack: nodes.node(site.stack), trace: site.trace }
        });
        let mut number = |site: SiteId| SiteId(sites.number(site.0).unwrap_or(0));
        self.sealed.iter_mut().for_each(|chunk| Arc::make_mut(chunk).renumber(&mut number));
        self.current.renumber(&mut number);
    }
}
