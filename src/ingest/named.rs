//! Samples of texts: their frames are names, and each line is a stack.

use crate::profile::{FrameId, NodeId, Site, TraceId};
use crate::source::{NamedFrame, NamedSample};

use super::Core;

/// The names of a text that have come.
#[derive(Debug, Default)]
pub struct Texts {
    /// The frame of each named frame.
    named: Vec<FrameId>,
    /// The last stack: the profile's epoch then, its frames root first and their nodes.
    last: (u64, Vec<(u32, NodeId)>),
}

impl Core {
    pub(super) fn name(&mut self, name: &NamedFrame) {
        let dso = self.session.dsos.named(&name.dso, name.kind);
        let frame = self.profile.frames.intern_named(self.texts.named.len() as u64);
        match name.ip {
            Some(ip) => self.profile.frames.set_unknown(frame, &dso, ip),
            None => self.profile.frames.set_named(frame, &dso, name.name.clone()),
        }
        self.texts.named.push(frame);
    }

    pub(super) fn named_sample(&mut self, sample: &NamedSample, frames: &[u32]) {
        let task = self.session.named_task(sample.pid, sample.tid, &sample.comm);
        let stack = self.named_stack(frames);
        let site = self.profile.sites.intern(Site { task, stack, trace: TraceId::default() });
        self.count(sample.time, sample.event);
        self.profile.push(sample.time, site, sample.period, sample.cpu as u16, sample.event);
    }

    /// The stack of named frames, leaf first, from where it leaves the one before it.
    fn named_stack(&mut self, frames: &[u32]) -> NodeId {
        let last = &mut self.texts.last;
        if last.0 != self.profile.epoch() {
            *last = (self.profile.epoch(), Vec::new());
        }
        let same = last.1.iter().zip(frames.iter().rev()).take_while(|((a, _), b)| a == *b).count();
        last.1.truncate(same);
        let mut node = last.1.last().map_or(NodeId::ROOT, |(_, node)| *node);
        for id in frames.iter().rev().skip(same) {
            let Some(frame) = self.texts.named.get(*id as usize) else { continue };
            node = self.profile.trie.child(node, *frame);
            last.1.push((*id, node));
        }
        node
    }
}
