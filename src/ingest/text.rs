//! Samples of texts: their frames are names, and each line is a stack.

use crate::profile::{FrameId, NodeId, Profile, Site, SiteId, TraceId};
use crate::session::Session;
use crate::source::{NamedFrame, NamedSample};

/// The names of a text that have come.
#[derive(Debug, Default)]
pub struct Texts {
    /// The frame of each named frame.
    named: Vec<FrameId>,
    /// The last stack: the profile's epoch then, its frames root first and their nodes.
    last: (u64, Vec<(u32, NodeId)>),
}

impl Texts {
    /// A name that samples will have in their stacks.
    pub(crate) fn name(&mut self, name: &NamedFrame, session: &mut Session, profile: &mut Profile) {
        let dso = session.dsos.named(&name.dso, name.kind);
        let frame = profile.frames.intern_named(self.named.len() as u64);
        match name.ip {
            Some(ip) => profile.frames.set_unknown(frame, &dso, ip),
            None => profile.frames.set_named(frame, &dso, name.name.clone()),
        }
        self.named.push(frame);
    }

    /// The site of a sample.
    pub(crate) fn site(
        &mut self,
        sample: &NamedSample,
        frames: &[u32],
        session: &mut Session,
        profile: &mut Profile,
    ) -> SiteId {
        let task = session.named_task(sample.pid, sample.tid, &sample.comm);
        let stack = self.stack(frames, profile);
        profile.sites.intern(Site { task, stack, trace: TraceId::default() })
    }

    /// The stack of named frames, leaf first, from where it leaves the one before it.
    fn stack(&mut self, frames: &[u32], profile: &mut Profile) -> NodeId {
        let last = &mut self.last;
        if last.0 != profile.epoch() {
            *last = (profile.epoch(), Vec::new());
        }
        let same = last.1.iter().zip(frames.iter().rev()).take_while(|((a, _), b)| a == *b).count();
        last.1.truncate(same);
        let mut node = last.1.last().map_or(NodeId::ROOT, |(_, node)| *node);
        for id in frames.iter().rev().skip(same) {
            let Some(frame) = self.named.get(*id as usize) else { continue };
            node = profile.trie.child(node, *frame);
            last.1.push((*id, node));
        }
        node
    }
}
