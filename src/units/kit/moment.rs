//! The moment that panels are made of: names of threads and stacks as they are known then.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::panel::stacks::Stack;
use crate::panel::{Measure, Panel};
use crate::profile::{FrameId, NodeId, Profile, RetainedStack, SymId};
use crate::query::symbol_stacks::{Name, name_in};
use crate::session::{DsoKind, Session};

use super::{ThreadNames, ViewState, alike};

/// The moment that panels are made of.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The threads, processes and mappings.
    pub session: &'a Session,
    /// The profile that has the stacks which the unit holds, and their names.
    pub profile: &'a Profile,
    /// The names of threads, as they were last told.
    pub names: &'a ThreadNames,
    /// Start of the session and of the interval, and up to when all is known, by the session's clock.
    pub start: u64,
    /// The start of the interval.
    pub since: u64,
    /// The time up to which all is known.
    pub now: u64,
    /// What of the unit is looked at.
    pub look: &'a ViewState,
}

impl Moment<'_> {
    /// The row that is chosen in a panel, by the panel's place.
    pub fn selected(&self, panel: usize) -> Option<u64> {
        self.look.selected.get(panel).copied().flatten()
    }

    /// Nanoseconds since the session's start.
    pub fn after(&self, time: u64) -> u64 {
        time.saturating_sub(self.start)
    }

    /// Seconds of the interval.
    pub fn seconds(&self) -> f64 {
        (self.now.saturating_sub(self.since).max(1)) as f64 / 1e9
    }

    /// The name of a thread, as it was last known.
    pub fn comm(&self, tid: i32) -> Arc<str> {
        self.names.known(self.session, tid)
    }

    /// The name of a thread's process, which is that of its first thread; the thread's own where no process is known.
    pub fn program(&self, tid: i32) -> Arc<str> {
        let first = self.session.process_of(tid).filter(|pid| *pid != tid);
        let name = first.map(|pid| (pid, self.comm(pid))).filter(|(pid, name)| !is_number_of(*pid, name));
        name.map_or_else(|| self.comm(tid), |(_, name)| name)
    }

    /// `comm-tid`; `:tid` alone of a thread that nothing names.
    pub fn task(&self, tid: i32) -> Arc<str> {
        let comm = self.comm(tid);
        if is_number_of(tid, &comm) {
            return comm;
        }
        format!("{comm}-{tid}").into()
    }

    /// The functions of a stack, root first.
    pub fn frames(&self, pin: RetainedStack) -> Vec<Name> {
        self.frames_with(pin, |_, name| name)
    }

    /// The same, each with how far into it the stack's address lies.
    pub(crate) fn addressed_frames(&self, pin: RetainedStack) -> Vec<Name> {
        self.frames_with(pin, |frame, name| {
            // The end of a broken stack is no place.
            if name.kind == DsoKind::Cut {
                return name;
            }
            let (_, address) = self.profile.frames.get(frame).place(&self.session.dsos);
            let sym = self.profile.frames.sym(self.profile.frames.sym_of(frame));
            // Of what has no name the address is all that is known.
            let start = if sym.function.is_some() { sym.start } else { 0 };
            let text = format!("{}+{:#x}", name.text, address.wrapping_sub(start)).into();
            Name { text, ..name }
        })
    }

    /// The functions of a stack, root first; those that are not inlined as `written` makes them.
    fn frames_with(&self, pin: RetainedStack, written: impl Fn(FrameId, Name) -> Name) -> Vec<Name> {
        let mut frames = Vec::new();
        let mut node = self.profile.pins.node(pin);
        while node != NodeId::ROOT {
            let frame = self.profile.trie.frame(node);
            // The innermost function stands nearest to the leaf.
            frames.extend(
                self.profile.frames.inlined(frame.0).iter().rev().map(|sym| name_in(self.profile, SymId(*sym))),
            );
            if self.profile.frames.syms()[frame.0 as usize] != u32::MAX {
                let name = name_in(self.profile, self.profile.frames.sym_of(frame));
                frames.push(written(frame, name));
            }
            node = self.profile.trie.parent(node);
        }
        frames.reverse();
        frames
    }

    /// A stack in one line, the leaf first.
    pub fn line(&self, pin: RetainedStack) -> Arc<str> {
        alike::line(&self.frames(pin)).into()
    }

    /// A thread's stack for a flame graph.
    pub fn stack(&self, comm: Arc<str>, pin: RetainedStack, weight: u64, count: u64) -> Stack {
        Stack::of(comm, self.frames(pin), (weight, count))
    }

    /// A flame graph of what threads weigh in their stacks, as (thread, stack, weight, how many things that is);
    /// threads of one program are one.
    pub fn flame(
        &self,
        title: &str,
        measure: Measure,
        stacks: impl IntoIterator<Item = (i32, RetainedStack, u64, u64)>,
    ) -> Panel {
        let mut by_comm: BTreeMap<(Arc<str>, RetainedStack), (u64, u64)> = BTreeMap::new();
        for (tid, pin, weight, count) in stacks {
            let sums = by_comm.entry((self.program(tid), pin)).or_default();
            *sums = (sums.0 + weight, sums.1 + count);
        }
        let stacks = by_comm.into_iter().map(|((comm, pin), (weight, count))| self.stack(comm, pin, weight, count));
        Panel::flame(title, measure, stacks.collect())
    }
}

/// Whether a thread is called by its number, as nothing names it.
fn is_number_of(tid: i32, comm: &str) -> bool {
    comm.strip_prefix(':').is_some_and(|rest| rest.parse() == Ok(tid))
}
