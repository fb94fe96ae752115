//! Frames (an address in a mapping) and their symbols.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::session::dso::Dsos;
use crate::session::{Dso, DsoId, DsoKind, MapId};
use crate::symbols::Symbolized;
use crate::symbols::jit::reuse::untagged;
use crate::symbols::lines::{InlinedFrame, SourceLine};
use crate::symbols::objects::unmarked;

use super::index::HashIndex;
use super::marks::{MarkedSet, Marks};
use super::renames::Journal;
use super::{Segments, SharedSegments};
pub use sym::Sym;
pub(crate) use sym::SymState;
use sym::{ANY_CODE, in_memory};

mod sym;

/// Index into [`Frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Index into the symbols of [`Frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymId(pub u32);

/// An address of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The mapping that it is in; `[unknown]` if there is none.
    pub map: MapId,
    /// Whether `ip` is a return address, so that the call is just before it.
    pub caller: bool,
    /// The sampled address, in its process or in the kernel; the address of a variable is marked
    /// ([`crate::symbols::objects::data_address`]).
    pub ip: u64,
}

impl Frame {
    /// Returns its DSO, and the address there that is symbolized: for a caller, that of the call.
    pub(crate) fn place(&self, dsos: &Dsos) -> (DsoId, u64) {
        let map = dsos.map_of(self.map);
        (map.dso, map.to_dso(self.ip.wrapping_sub(u64::from(self.caller))))
    }
}

type SymKey = (u32, u64, Arc<str>);

/// All frames, and their symbols.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    list: SharedSegments<Frame>,
    index: HashIndex,
    sym: Segments<u32>,
    syms: Vec<Sym>,
    sym_ids: HashMap<SymKey, SymId>,
    /// The symbol that was found last: names often arrive in runs of one function.
    last_named: Option<(SymKey, SymId)>,
    /// Symbols without a function, by DSO label, address, and whether the function is still being looked up.
    nameless: FxHashMap<(u32, u64, bool), SymId>,
    /// Addresses of DSOs that have the same function as a frame: their ends and the frame, by their first address.
    same: FxHashMap<DsoId, BTreeMap<u64, (u64, FrameId)>>,
    label_of: Vec<u32>,
    dso_labels: HashMap<Arc<str>, u32>,
    asked: usize,
    /// Frames whose symbol changed.
    journal: Journal,
    /// Changes when inlined functions are shown or hidden, or are all looked up again.
    inlines: u64,
    /// The functions inlined at a frame, outermost first, for frames that have any.
    inlined: FxHashMap<u32, Box<[u32]>>,
    lines: FxHashMap<u32, SourceLine>,
    lined: Vec<bool>,
    /// Frames before this one must be symbolized again.
    again: usize,
    /// Whether files were searched again for other functions, so that results for the same addresses differ.
    are_found_again: bool,
    /// Whether inlined functions are not shown as separate frames.
    hide_inlined: bool,
    /// Whether functions of the same name and file name are merged, regardless of their start.
    by_name: bool,
    /// Whether the kernel's return addresses without a function are shown as they were sampled.
    unknown_as_sampled: bool,
    /// The positions of frames that come from a text.
    texts: FxHashMap<u32, TextPlace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPlace {
    pub(crate) ip: u64,
    pub(crate) offset: Option<u64>,
}

/// The suffix of an inlined function's name, as in perf's call chains.
pub(crate) const INLINED: &str = " (inlined)";

/// The frame has no symbol yet, not even a provisional one.
const NONE: u32 = u32::MAX;

impl Frames {
    /// Returns the id of a frame, adding it if it is new.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        let (list, next) = (&self.list, self.list.len() as u32);
        let rehash = |i: u32| FxBuildHasher.hash_one(list[i as usize]);
        let id = self.index.find_or(FxBuildHasher.hash_one(frame), next, |i| list[i as usize] == frame, rehash);
        if id == next {
            self.list.push(frame);
            self.sym.push(NONE);
        }
        FrameId(id)
    }

    pub(crate) fn get(&self, id: FrameId) -> Frame {
        self.list[id.0 as usize]
    }

    pub(crate) fn all(&self) -> &SharedSegments<Frame> {
        &self.list
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = MapId> + '_ {
        self.list.iter().map(|frame| frame.map)
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the symbol id of each frame. Every frame that [`Self::wanted`] has returned has one.
    pub(crate) fn syms(&self) -> &Segments<u32> {
        &self.sym
    }

    pub(crate) fn sym_of(&self, frame: FrameId) -> SymId {
        SymId(self.sym[frame.0 as usize])
    }

    pub(crate) fn sym(&self, id: SymId) -> &Sym {
        &self.syms[id.0 as usize]
    }

    pub(crate) fn n_syms(&self) -> usize {
        self.syms.len()
    }

    pub(crate) fn n_dso_labels(&self) -> usize {
        self.dso_labels.len()
    }

    /// Returns how often frames got another name or other inlined functions. Callers that keep what they read of frames
    /// must call this at that time: the journal leaves out frames that nothing has read.
    pub(crate) fn names(&self) -> u64 {
        self.journal.view(self.list.len() as u32)
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns a counter that changes when inlined functions are shown or hidden, or are all looked up again.
    pub(crate) fn inlines(&self) -> u64 {
        self.inlines
    }

    /// Returns the new frames that need a name. A provisional symbol lets each be counted and shown at once.
    pub(crate) fn wanted(&mut self, dsos: &Dsos) -> Vec<FrameId> {
        let from = std::mem::replace(&mut self.asked, self.list.len());
        let again = std::mem::take(&mut self.again);
        let named = |i: &usize| self.sym[*i] != NONE && self.syms[self.sym[*i] as usize].state != SymState::Sought;
        let renamed = |i: &usize| *i < again && self.list[*i].map != MapId::UNKNOWN;
        let open: Vec<usize> = (from..self.list.len()).filter(|i| !named(i) || renamed(i)).collect();
        let mut wanted = Vec::with_capacity(open.len());
        for i in open {
            if self.sym[i] == NONE {
                let (dso, at) = self.list[i].place(dsos);
                if let Some(sym) = self.known_at(dso, at) {
                    self.sym[i] = sym.0;
                    continue;
                }
                self.sym[i] = self.nameless(dsos.get(dso), at, SymState::Sought).0;
            }
            wanted.push(FrameId(i as u32));
        }
        wanted
    }

    /// Returns the function of an address of a DSO, if it is known from another frame.
    fn known_at(&self, dso: DsoId, at: u64) -> Option<SymId> {
        let (_, (end, frame)) = self.same.get(&dso)?.range(..=at).next_back()?;
        let sym = SymId(self.sym[frame.0 as usize]);
        let state = self.syms.get(sym.0 as usize)?.state;
        (at < *end && matches!(state, SymState::Known | SymState::Bounded)).then_some(sym)
    }

    /// Gives later frames at these addresses of a frame's DSO the function of that frame, without a lookup.
    pub(crate) fn know_same(&mut self, dsos: &Dsos, frame: FrameId, addresses: Range<u64>) {
        const MANY: usize = 1 << 13;
        let Some(one) = self.list.get(frame.0 as usize).filter(|_| !self.are_found_again) else { return };
        let of_dso = self.same.entry(one.place(dsos).0).or_default();
        if of_dso.len() == MANY {
            of_dso.clear();
        }
        of_dso.insert(addresses.start, (addresses.end, frame));
    }

    /// Sets a frame's function, or marks it as unknown.
    pub fn set(&mut self, frame: FrameId, dso: &Dso, at: u64, found: Option<Symbolized>) {
        let id = match found {
            Some(f) => {
                let state = if f.is_symbol { SymState::Known } else { SymState::Bounded };
                self.known(dso, f.start..f.end, f.name, state)
            }
            None if dso.kind == DsoKind::Anon && unmarked(at).is_none() => {
                self.nameless(dso, ANY_CODE, SymState::Unknown)
            }
            None => {
                let is_moved = self.unknown_as_sampled && dso.kind.is_kernel() && self.get(frame).caller;
                self.nameless(dso, untagged(at).wrapping_add(u64::from(is_moved)), SymState::Unknown)
            }
        };
        self.give(frame, id);
    }

    /// Returns the frame for a name of a text, by the name's number.
    pub(crate) fn intern_named(&mut self, number: u64) -> FrameId {
        self.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: number })
    }

    /// Sets the position of a frame in its text.
    pub(crate) fn set_text_place(&mut self, frame: FrameId, place: TextPlace) {
        self.texts.insert(frame.0, place);
    }

    /// Returns the position of a frame in its text; `None` for frames of recordings, and if addresses are not kept.
    pub(crate) fn text_place(&self, frame: FrameId) -> Option<TextPlace> {
        self.texts.get(&frame.0).copied()
    }

    pub(crate) fn set_unknown(&mut self, frame: FrameId, dso: &Dso, ip: u64) {
        let id = self.nameless(dso, ip, SymState::Unknown);
        self.give(frame, id);
        self.asked = self.asked.max(frame.0 as usize + 1);
    }

    /// Sets a frame's symbol by name alone, for sources without addresses.
    pub fn set_named(&mut self, frame: FrameId, dso: &Dso, name: Arc<str>) {
        let id = self.known(dso, 0..0, name, SymState::Known);
        self.give(frame, id);
        self.asked = self.asked.max(frame.0 as usize + 1);
    }

    fn give(&mut self, frame: FrameId, id: SymId) {
        let slot = &mut self.sym[frame.0 as usize];
        let before = std::mem::replace(slot, id.0);
        // A frame without a symbol has not been counted yet.
        if before != id.0 && before != NONE {
            self.journal.note(frame.0, before, None);
        }
    }

    /// Merges functions of the same name and file name, because each machine has its own kernel and files.
    pub(crate) fn merge_by_name(&mut self, on: bool) {
        self.by_name = on;
    }

    /// Shows the kernel's return addresses without a function as they were sampled, like perf, and not those of calls.
    pub(crate) fn show_unknown_as_sampled(&mut self, on: bool) {
        self.unknown_as_sampled = on;
    }

    fn known(&mut self, dso: &Dso, code: Range<u64>, name: Arc<str>, state: SymState) -> SymId {
        let start = code.start;
        let label = self.label(dso);
        let next = self.syms.len() as u32;
        // A JIT's function that is loaded again at its address stays one function.
        let key = if self.by_name { 0 } else { in_memory(dso.kind, start) };
        if let Some(((of, at, known), id)) = &self.last_named
            && (*of, *at) == (label, key)
            && Arc::ptr_eq(known, &name)
        {
            return *id;
        }
        let id = *self.sym_ids.entry((label, key, name.clone())).or_insert(SymId(next));
        if id.0 == next {
            self.push(dso, label, code, Some(name.clone()), state);
        }
        self.last_named = Some(((label, key, name), id));
        id
    }

    fn nameless(&mut self, dso: &Dso, at: u64, state: SymState) -> SymId {
        let label = self.label(dso);
        // All pending functions share one symbol; otherwise each address would be a row.
        let at = if state == SymState::Sought { 0 } else { at };
        let next = self.syms.len() as u32;
        let id = *self.nameless.entry((label, at, state == SymState::Sought)).or_insert(SymId(next));
        if id.0 == next {
            self.push(dso, label, at..at, None, state);
        }
        id
    }

    fn push(&mut self, dso: &Dso, dso_label: u32, code: Range<u64>, function: Option<Arc<str>>, state: SymState) {
        self.syms.push(Sym {
            dso: dso.id,
            kind: dso.kind,
            dso_name: dso.short.clone(),
            function,
            start: code.start,
            size: code.end.saturating_sub(code.start),
            state,
            dso_label,
        });
    }

    fn label(&mut self, dso: &Dso) -> u32 {
        let slot = dso.id.0 as usize;
        if self.label_of.len() <= slot {
            self.label_of.resize(slot + 1, NONE);
        }
        if self.label_of[slot] == NONE {
            let next = self.dso_labels.len() as u32;
            self.label_of[slot] = *self.dso_labels.entry(dso.short.clone()).or_insert(next);
        }
        self.label_of[slot]
    }

    /// Returns the frames without any symbol, for callers that name them at once without a provisional one.
    pub(crate) fn unnamed(&mut self) -> impl Iterator<Item = FrameId> + use<> {
        let from = std::mem::replace(&mut self.asked, self.list.len());
        let list: Vec<u32> = (from..self.list.len()).filter(|i| self.sym[*i] == NONE).map(|i| i as u32).collect();
        list.into_iter().map(FrameId)
    }

    pub(crate) fn inlined(&self, frame: u32) -> &[u32] {
        if self.inlined.is_empty() || self.hide_inlined {
            return &[];
        }
        self.inlined.get(&frame).map_or(&[], |list| list)
    }

    /// Returns the part of a list of inlined functions that is shown.
    pub(crate) fn shown_inlined<'a>(&self, list: &'a [u32]) -> &'a [u32] {
        if self.hide_inlined { &[] } else { list }
    }

    pub(crate) fn line(&self, frame: FrameId) -> Option<&SourceLine> {
        self.lines.get(&frame.0)
    }

    pub(crate) fn show_inlined(&mut self, show: bool) {
        self.inlines += u64::from(self.hide_inlined == show);
        self.hide_inlined = !show;
    }

    /// Returns those frames of wanted symbols whose line has not been requested yet, and marks them as requested.
    pub(crate) fn lineless(&mut self, of: impl Iterator<Item = u32>, wanted: impl Fn(SymId) -> bool) -> Vec<FrameId> {
        self.lined.resize(self.list.len(), false);
        let (lined, sym) = (&mut self.lined, &self.sym);
        let mut open = Vec::new();
        for frame in of {
            let (lined, sym) = (&mut lined[frame as usize], sym[frame as usize]);
            if !*lined && sym != NONE && wanted(SymId(sym)) {
                *lined = true;
                open.push(FrameId(frame));
            }
        }
        open
    }

    pub(crate) fn forget_asked_lines(&mut self) {
        self.lined.clear();
    }

    /// Sets the functions inlined at a frame, innermost first; the last one is that of its symbol.
    pub(crate) fn set_places(&mut self, frame: FrameId, dso: &Dso, places: &[InlinedFrame]) {
        let Some((_, inlined)) = places.split_last() else { return };
        if let Some(line) = places.iter().find_map(|p| p.line.clone()) {
            self.lines.insert(frame.0, line);
        }
        let list: Box<[u32]> = inlined.iter().rev().map(|place| self.inlined_sym(dso, place)).collect();
        if list.is_empty() || self.inlined.get(&frame.0) == Some(&list) {
            return;
        }
        let before = self.inlined.insert(frame.0, list).unwrap_or_default();
        self.journal.note(frame.0, self.sym[frame.0 as usize], Some(before));
    }

    fn inlined_sym(&mut self, dso: &Dso, place: &InlinedFrame) -> u32 {
        let name = place.function.as_deref().unwrap_or("[unknown]");
        self.known(dso, 0..0, format!("{name}{INLINED}").into(), SymState::Known).0
    }

    /// Returns the frames in some mappings, whose lines will be requested again.
    pub(crate) fn of_dso(&mut self, is: impl Fn(MapId) -> bool) -> Vec<FrameId> {
        self.are_found_again = true;
        self.same.clear();
        let list: Vec<FrameId> =
            (0..self.list.len()).filter(|i| is(self.list[*i].map)).map(|i| FrameId(i as u32)).collect();
        for frame in &list {
            if let Some(lined) = self.lined.get_mut(frame.0 as usize) {
                *lined = false;
            }
        }
        list
    }

    /// Requests all names again, because their format changes.
    pub(crate) fn rename(&mut self) {
        (self.asked, self.again) = (0, self.list.len());
        self.same.clear();
        self.inlined.clear();
        self.lined.clear();
        self.inlines += 1;
    }

    /// Removes all frames except `kept`, and the symbols that only they used. Unnamed frames are requested again.
    pub(super) fn keep(&mut self, kept: &MarkedSet) {
        self.same.clear();
        self.list.keep(kept, |frame| frame);
        self.sym.keep(kept, |sym| sym);
        let list = &self.list;
        self.index.renumber(|frame| kept.number(frame), |frame| FxBuildHasher.hash_one(list[frame as usize]));
        self.inlined = renumbered(std::mem::take(&mut self.inlined), kept);
        self.lines = renumbered(std::mem::take(&mut self.lines), kept);
        self.texts = renumbered(std::mem::take(&mut self.texts), kept);
        let lined = &self.lined;
        self.lined = kept.iter().map_while(|frame| lined.get(frame as usize).copied()).collect();
        self.keep_syms();
        self.journal = Journal::after(&self.journal, self.list.len() as u32);
        self.inlines += 1;
        self.again = 0;
        let sought = |s: &u32| *s == NONE || self.syms[*s as usize].state == SymState::Sought;
        self.asked = self.sym.iter().position(sought).unwrap_or(self.list.len());
    }

    fn keep_syms(&mut self) {
        let mut used = Marks::none(self.syms.len());
        let inlined = self.inlined.values().flatten();
        self.sym.iter().filter(|sym| **sym != NONE).chain(inlined).for_each(|sym| used.mark(*sym));
        let used = used.count();
        let new = |sym: u32| used.number(sym).unwrap_or(NONE);
        self.sym.iter_mut().chain(self.inlined.values_mut().flatten()).for_each(|sym| *sym = new(*sym));
        let stays = |id: &mut SymId| used.number(id.0).map(|new| id.0 = new).is_some();
        self.sym_ids.retain(|_, id| stays(id));
        self.last_named = None;
        self.nameless.retain(|_, id| stays(id));
        let mut at = 0..;
        self.syms.retain(|_| at.next().is_some_and(|at| used.number(at).is_some()));
    }

    pub(super) fn memory(&self) -> usize {
        let same = self.same.values().map(BTreeMap::len).sum::<usize>();
        self.list.memory() + self.sym.memory() + self.index.memory() + self.syms.len() * 120 + same * 40
    }
}

fn renumbered<T>(old: FxHashMap<u32, T>, kept: &MarkedSet) -> FxHashMap<u32, T> {
    old.into_iter().filter_map(|(frame, of)| Some((kept.number(frame)?, of))).collect()
}

#[cfg(test)]
mod tests;
