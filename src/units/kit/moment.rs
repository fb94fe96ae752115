//! A point in time for which panels are made, with the thread names and stacks known then.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::panel::stacks::FrameName;
use crate::panel::stacks::Stack;
use crate::panel::{Measure, Panel};
use crate::profile::{FrameId, NodeId, Profile, RetainedStack, SymId};
use crate::query::tree::symbol_stacks::name_in;
use crate::session::{self, DsoKind, Session};

use crate::units::kit::tables::stack_labels;
use crate::units::kit::{ThreadNames, ThreadRef, ViewState};

/// The state from which panels are made.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Threads, processes and mappings.
    pub session: &'a Session,
    /// The profile with the retained stacks and their symbols.
    pub profile: &'a Profile,
    /// The latest thread names.
    pub names: &'a ThreadNames,
    /// The start of the session, by the session's clock.
    pub start: u64,
    /// The start of the interval.
    pub since: u64,
    /// The time up to which records are complete.
    pub now: u64,
    /// The visible part of the unit.
    pub look: &'a ViewState,
}

/// A static variable that contains an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, demangled.
    pub name: Arc<str>,
    /// The bytes from its start to the address.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Moment<'_> {
    /// Returns the selected row of a panel by its index.
    pub fn selected(&self, panel: usize) -> Option<u64> {
        self.look.selected.get(panel).copied().flatten()
    }

    /// Returns the nanoseconds since the session's start.
    pub fn after(&self, time: u64) -> u64 {
        time.saturating_sub(self.start)
    }

    /// Returns the length of the interval in seconds.
    pub fn seconds(&self) -> f64 {
        (self.now.saturating_sub(self.since).max(1)) as f64 / 1e9
    }

    /// Returns the latest name of a thread.
    pub fn comm(&self, thread: impl Into<ThreadRef>) -> Arc<str> {
        self.names.known(self.session, thread)
    }

    /// Returns the name of a thread's process, which is that of its main thread; the thread's own if it is unknown.
    pub fn program(&self, thread: impl Into<ThreadRef>) -> Arc<str> {
        self.names.program(self.session, thread)
    }

    /// Returns `comm-tid`, or `:tid` for a thread without a name.
    pub fn task(&self, thread: impl Into<ThreadRef>) -> Arc<str> {
        let thread = thread.into();
        let (comm, tid) = (self.comm(thread), thread.tid());
        if session::is_unnamed(tid, &comm) {
            return comm;
        }
        format!("{comm}-{tid}").into()
    }

    /// Returns the variable at an address of data that [`super::Unit::pin_data`] has kept, once its name is known.
    pub fn variable(&self, pin: RetainedStack) -> Option<Variable> {
        let (name, offset, size) = self.kept_symbol(pin)?;
        Some(Variable { name, offset, size })
    }

    /// Returns the function at an address of the kernel that [`super::Unit::pin_data`] has kept, and the offset in it,
    /// once its name is known.
    pub(crate) fn kernel_function(&self, pin: RetainedStack) -> Option<(Arc<str>, u64)> {
        self.kept_symbol(pin).map(|(name, offset, _)| (name, offset))
    }

    /// Returns the name of a kept address's symbol, the offset in it, and its size.
    fn kept_symbol(&self, pin: RetainedStack) -> Option<(Arc<str>, u64, u64)> {
        let node = self.profile.pins.node(pin);
        if node == NodeId::ROOT {
            return None;
        }
        let (frame, frames) = (self.profile.trie.frame(node), &self.profile.frames);
        if frames.syms()[frame.0 as usize] == u32::MAX {
            return None;
        }
        let (sym, (_, at)) = (frames.sym(frames.sym_of(frame)), frames.get(frame).place(&self.session.dsos));
        Some((sym.function.clone()?, at.wrapping_sub(sym.start), sym.size))
    }

    /// Returns the functions of a stack, root first.
    pub fn frames(&self, pin: RetainedStack) -> Vec<FrameName> {
        self.frames_with(pin, |_, name| name)
    }

    /// Returns the functions of a stack with the address's offset in each.
    pub(crate) fn addressed_frames(&self, pin: RetainedStack) -> Vec<FrameName> {
        self.frames_with(pin, |frame, name| {
            // The end of a broken stack has no address.
            if name.kind == DsoKind::Cut {
                return name;
            }
            let (_, address) = self.profile.frames.get(frame).place(&self.session.dsos);
            let sym = self.profile.frames.sym(self.profile.frames.sym_of(frame));
            // Without a symbol, only the address is known.
            let start = if sym.function.is_some() { sym.start } else { 0 };
            let text = format!("{}+{:#x}", name.text, address.wrapping_sub(start)).into();
            FrameName { text, ..name }
        })
    }

    /// Returns the functions of a stack, root first. `written` formats those that are not inlined.
    fn frames_with(&self, pin: RetainedStack, written: impl Fn(FrameId, FrameName) -> FrameName) -> Vec<FrameName> {
        let mut frames = Vec::new();
        let mut node = self.profile.pins.node(pin);
        while node != NodeId::ROOT {
            let frame = self.profile.trie.frame(node);
            // The innermost inlined function is nearest to the leaf.
            frames.extend(
                self.profile.frames.inlined(frame.0).iter().rev().map(|sym| shown_name(self.profile, SymId(*sym))),
            );
            if self.profile.frames.syms()[frame.0 as usize] != u32::MAX {
                let name = shown_name(self.profile, self.profile.frames.sym_of(frame));
                frames.push(written(frame, name));
            }
            node = self.profile.trie.parent(node);
        }
        frames.reverse();
        frames
    }

    /// Returns a stack as a line, the leaf first.
    pub fn line(&self, pin: RetainedStack) -> Arc<str> {
        stack_labels::line(&self.frames(pin)).into()
    }

    /// Returns a thread's stack for a flame graph.
    pub fn stack(&self, comm: Arc<str>, pin: RetainedStack, weight: u64, count: u64) -> Stack {
        Stack::of(comm, self.frames(pin), (weight, count))
    }

    /// Makes a flame graph of (thread, stack, weight, count). Threads of one program are merged.
    pub fn flame<K: Into<ThreadRef>>(
        &self,
        title: &str,
        measure: Measure,
        stacks: impl IntoIterator<Item = (K, RetainedStack, u64, u64)>,
    ) -> Panel {
        let mut by_comm: BTreeMap<(Arc<str>, RetainedStack), (u64, u64)> = BTreeMap::new();
        for (thread, pin, weight, count) in stacks {
            let sums = by_comm.entry((self.program(thread), pin)).or_default();
            *sums = (sums.0 + weight, sums.1 + count);
        }
        let stacks = by_comm.into_iter().map(|((comm, pin), (weight, count))| self.stack(comm, pin, weight, count));
        Panel::flame(title, measure, stacks.collect())
    }
}

/// Returns a symbol's name. Without a function it is the file in brackets, or a name that has brackets itself; folded
/// stacks have two pairs around such a name.
fn shown_name(profile: &Profile, sym: SymId) -> FrameName {
    let name = name_in(profile, sym);
    let single = name.text.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]"));
    let single: Option<Arc<str>> = single.map(|inner| format!("[{inner}]").into());
    match single {
        Some(text) => FrameName { text, ..name },
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Frame;
    use crate::session::{MapId, Origin};

    #[test]
    fn a_file_has_one_pair_of_brackets() {
        let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
        for (path, kind, text) in
            [("[kernel.kallsyms]", DsoKind::Kernel, "[kernel.kallsyms]"), ("/bin/app", DsoKind::File, "[app]")]
        {
            let dso = session.dsos.named(path, kind);
            let frame = profile.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: text.len() as u64 });
            profile.frames.set(frame, &dso, 0x10, None);
            assert_eq!(&*shown_name(&profile, profile.frames.sym_of(frame)).text, text);
        }
    }
}
