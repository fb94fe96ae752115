//! Samples of texts: their frames are names, and each line is a stack.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::frames::TextPlace;
use crate::profile::{FrameId, NodeId, Profile, Site, SiteId, TraceId};
use crate::session::Session;
use crate::source::{NamedFrame, NamedSample};
use crate::symbols::NameForm;
use crate::symbols::names::demangle::{demangle, is_mangled, without_go_abi};

/// The names of a text so far.
#[derive(Debug, Default)]
pub struct Texts {
    names: Vec<NamedFrame>,
    /// The frame of each name that a stack has used since frames were last renumbered.
    frames: Vec<Option<FrameId>>,
    /// The frame of each function by name and DSO, if addresses do not distinguish its frames.
    functions: FxHashMap<(Arc<str>, Arc<str>), FrameId>,
    form: NameForm,
    /// Whether addresses distinguish frames of one function.
    by_address: bool,
    traces: bool,
    epoch: u64,
    /// The last stack: its frames root first and their nodes.
    last: Vec<(u32, NodeId)>,
}

impl Texts {
    pub(crate) fn show(&mut self, form: NameForm, by_address: bool, traces: bool) {
        (self.form, self.by_address, self.traces) = (form, by_address, traces);
    }

    pub(crate) fn name(&mut self, name: NamedFrame) {
        self.names.push(name);
        self.frames.push(None);
    }

    pub(crate) fn rename(&mut self, form: NameForm, session: &mut Session, profile: &mut Profile) {
        self.form = form;
        self.follow(profile);
        for (name, frame) in self.names.iter().zip(&self.frames) {
            let Some(frame) = frame.filter(|_| is_mangled(name.name.as_bytes())) else { continue };
            let dso = session.dsos.named(&name.dso, name.kind);
            profile.frames.set_named(frame, &dso, shown(&name.name, form));
        }
    }

    pub(crate) fn site(
        &mut self,
        sample: &NamedSample,
        frames: &[u32],
        session: &mut Session,
        profile: &mut Profile,
    ) -> SiteId {
        let task = session.named_task(sample.pid, sample.tid, &sample.comm);
        let stack = self.stack(frames, session, profile);
        let trace = sample.trace.as_ref().filter(|_| self.traces);
        let trace = trace.map_or(TraceId::default(), |words| profile.sites.trace(words));
        profile.sites.intern(Site { task, stack, trace })
    }

    fn follow(&mut self, profile: &Profile) {
        if self.epoch != profile.epoch() {
            self.epoch = profile.epoch();
            self.last.clear();
            self.functions.clear();
            self.frames.fill(None);
        }
    }

    /// Returns the stack of named frames, given leaf first; adds only what differs from the previous stack.
    fn stack(&mut self, frames: &[u32], session: &mut Session, profile: &mut Profile) -> NodeId {
        self.follow(profile);
        let same = self.last.iter().zip(frames.iter().rev()).take_while(|((a, _), b)| a == *b).count();
        self.last.truncate(same);
        let mut node = self.last.last().map_or(NodeId::ROOT, |(_, node)| *node);
        for id in frames.iter().rev().skip(same) {
            let Some(frame) = self.frame(*id as usize, session, profile) else { continue };
            node = profile.trie.child(node, frame);
            self.last.push((*id, node));
        }
        node
    }

    fn frame(&mut self, id: usize, session: &mut Session, profile: &mut Profile) -> Option<FrameId> {
        let name = self.names.get(id)?;
        if let Some(known) = self.frames[id] {
            return Some(known);
        }
        let is_apart = self.by_address || name.is_unknown;
        let function = (name.name.clone(), name.dso.clone());
        if let Some(known) = self.functions.get(&function).filter(|_| !is_apart) {
            self.frames[id] = Some(*known);
            return Some(*known);
        }
        let dso = session.dsos.named(&name.dso, name.kind);
        let frame = profile.frames.intern_named(id as u64);
        if self.by_address {
            profile.frames.set_text_place(frame, TextPlace { ip: name.ip, offset: name.offset });
        }
        if name.is_unknown {
            profile.frames.set_unknown(frame, &dso, name.ip);
        } else {
            profile.frames.set_named(frame, &dso, shown(&name.name, self.form));
        }
        if !is_apart {
            self.functions.insert(function, frame);
        }
        self.frames[id] = Some(frame);
        Some(frame)
    }
}

fn shown(name: &Arc<str>, form: NameForm) -> Arc<str> {
    let is_readable = !is_mangled(name.as_bytes()) && without_go_abi(name).len() == name.len();
    if is_readable { name.clone() } else { demangle(name.as_bytes(), form).into() }
}
