//! Forgetting: stacks, sites and tasks that no kept sample has any more give their places back.

use std::sync::Arc;

use crate::session::Session;

use super::memory::Memory;
use super::{Chunk, FrameId, Frames, NodeId, Profile, Site, SiteId, Sites, Trie};

impl Profile {
    /// Forgets all samples and the stacks that only they had.
    pub fn clear(&mut self, session: &mut Session) {
        self.evicted = self.end();
        self.sealed.clear();
        self.raw_bytes = 0;
        self.current = Chunk::default();
        self.compact(session);
    }

    /// Renumbers stacks, sites and tasks to those that the kept samples still have.
    pub fn compact(&mut self, session: &mut Session) {
        let mut sites = Sites::default();
        let mut trie = Trie::default();
        let mut frames = Frames::default();
        let mut new_site = vec![u32::MAX; self.sites.len()];
        let mut new_node = vec![u32::MAX; self.trie.len()];
        let mut new_frame = vec![u32::MAX; self.frames.len()];
        new_node[0] = 0;
        sites.take_traces(&self.sites);
        let old_tasks = session.renew_tasks();
        let mut path = Vec::new();
        let (old_sites, old_trie, old_frames) = (&self.sites, &self.trie, &self.frames);
        let mut move_stack = |old: NodeId| -> NodeId {
            let mut node = old;
            path.clear();
            while new_node[node.0 as usize] == u32::MAX {
                path.push(node);
                node = old_trie.parent(node);
            }
            for node in path.drain(..).rev() {
                let frame = old_trie.frame(node);
                let slot = &mut new_frame[frame.0 as usize];
                if *slot == u32::MAX {
                    *slot = frames.take(old_frames, frame).0;
                }
                let parent = NodeId(new_node[old_trie.parent(node).0 as usize]);
                new_node[node.0 as usize] = trie.child(parent, FrameId(*slot)).0;
            }
            NodeId(new_node[old.0 as usize])
        };
        self.pins.renumber(&mut move_stack);
        let mut renumber = |old: SiteId| -> SiteId {
            let slot = old.0 as usize;
            if new_site[slot] == u32::MAX {
                let site = old_sites.get(old);
                let stack = move_stack(site.stack);
                let task = session.keep_task(&old_tasks[site.task.0 as usize]);
                new_site[slot] = sites.intern(Site { task, stack, trace: site.trace }).0;
            }
            SiteId(new_site[slot])
        };
        for chunk in &mut self.sealed {
            Arc::make_mut(chunk).renumber(&mut renumber);
        }
        self.current.renumber(&mut renumber);
        frames.finish_taking(old_frames);
        (self.sites, self.trie, self.frames) = (sites, trie, frames);
        session.forget_unused(self.frames.maps());
        self.memory = Memory::default();
        self.last.clear();
        self.epoch += 1;
    }
}
