//! A sorted table of functions, with perf's rules for duplicates and missing sizes.

mod names;
mod starts;

use std::cmp::Ordering;

use crate::perfdata::unpack::{UnpackBudget, UnpackError};
use crate::symbols::bytes::Bytes;
use names::{Names, cut};
use starts::NameStarts;

/// Longer names are cut.
pub(crate) const MAX_NAME: usize = 16 << 10;
/// Names are compared up to this length.
const LONG: usize = 1024;

/// A symbol before it is added to a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) start: u64,
    /// 0 if unknown.
    pub(crate) size: u64,
    /// Ends at the first zero byte.
    pub(crate) name: &'a [u8],
    pub(crate) binding: Binding,
}

impl<'a> Raw<'a> {
    pub(crate) fn name(&self) -> &'a [u8] {
        cut(self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Local,
    Global,
    Weak,
}

/// A function's range and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    pub start: u64,
    pub(crate) end: u64,
    pub name: &'a [u8],
}

/// Functions sorted by address. Compact: eight bytes each if no function has a size, else twelve, plus the names.
#[derive(Debug, Default)]
pub struct SymbolTable {
    starts: NameStarts,
    /// Empty if all sizes are unknown. A function of size 0 ends where the next one begins.
    sizes: Vec<u32>,
    names_at: Vec<u32>,
    names: Names,
}

/// How many entries are searched backwards for an enclosing function if the nearest one ends before the address.
const NESTING: usize = 16;

/// Builds a table from symbols that are mostly sorted by address. It does not hold them twice.
#[derive(Debug, Default)]
pub(crate) struct SymbolTableBuilder {
    table: SymbolTable,
    /// Size, binding and name of the last symbol. Another one may have the same address.
    last: Option<(u64, Binding, Vec<u8>)>,
    /// Whether the last of the symbols at an address is kept, instead of the best.
    last_wins: bool,
    /// Symbols out of order, and their names.
    strays: Vec<Stray>,
    stray_names: Names,
}

/// A symbol whose name is stored elsewhere.
#[derive(Clone, Copy, Debug)]
struct Stray {
    start: u64,
    size: u64,
    name: u32,
    binding: Binding,
}

impl SymbolTableBuilder {
    /// Creates a builder for kallsyms, without sizes: as in perf, only the last symbol at an address is found.
    pub(crate) fn last_wins() -> Self {
        Self { last_wins: true, ..Self::default() }
    }

    pub(crate) fn push(&mut self, raw: Raw<'_>) {
        match self.table.starts.last() {
            Some(last) if raw.start < last => {
                let Raw { start, size, binding, .. } = raw;
                let name = self.stray_names.place(raw.name);
                return self.strays.push(Stray { start, size, name, binding });
            }
            Some(last) if raw.start == last => {
                let replaces = self.last_wins
                    || self.last.as_ref().is_some_and(|(size, binding, name)| {
                        better(&Raw { start: raw.start, size: *size, name, binding: *binding }, &raw).is_gt()
                    });
                if !replaces {
                    return;
                }
                self.table.take_back();
            }
            _ => {}
        }
        if !self.last_wins {
            let (size, binding, name) = self.last.get_or_insert((0, Binding::Local, Vec::new()));
            (*size, *binding) = (raw.size, raw.binding);
            name.clear();
            name.extend_from_slice(raw.name());
        }
        self.table.append(&raw);
    }

    pub(crate) fn finish(mut self) -> SymbolTable {
        let mut table = if self.strays.is_empty() { std::mem::take(&mut self.table) } else { self.merged() };
        table.shrink();
        table
    }

    fn merged(mut self) -> SymbolTable {
        // A stable sort: of two equally good symbols, the first one wins.
        self.strays.sort_by_key(|stray| stray.start);
        let strays = std::mem::take(&mut self.strays);
        let mut all = SymbolTable { names: std::mem::take(&mut self.table.names), ..SymbolTable::default() };
        let mut groups = strays.chunk_by(|a, b| a.start == b.start).peekable();
        for i in 0..=self.table.len() {
            let start = self.table.starts.get(i);
            while let Some(group) = groups.next_if(|group| start.is_none_or(|start| group[0].start < start)) {
                self.choose(&mut all, None, group);
            }
            let Some(start) = start else { break };
            let same = groups.next_if(|group| group[0].start == start).unwrap_or_default();
            self.choose(&mut all, Some(i), same);
        }
        all
    }

    /// Adds one of the symbols at an address. Candidates are one of the table, then others.
    fn choose(&self, all: &mut SymbolTable, in_order: Option<usize>, strays: &[Stray]) {
        let stray =
            |s: &Stray| Raw { start: s.start, size: s.size, name: self.stray_names.get(s.name), binding: s.binding };
        let best = match (in_order, self.last_wins) {
            (_, true) => strays.last().map(stray),
            (None, false) => strays.iter().map(stray).min_by(better),
            (Some(i), false) => {
                let (start, size) = (self.table.starts.get(i).unwrap_or(0), self.table.size(i).into());
                let name = all.names.get(self.table.names_at[i]);
                let own = Raw { start, size, name, binding: Binding::Global };
                strays.iter().map(stray).min_by(better).filter(|stray| better(stray, &own).is_lt())
            }
        };
        match (best, in_order) {
            (Some(raw), _) => all.append(&raw),
            (None, Some(i)) => {
                let start = self.table.starts.get(i).unwrap_or(0);
                all.append_at(start, self.table.size(i), self.table.names_at[i]);
            }
            (None, None) => {}
        }
    }
}

impl SymbolTable {
    /// Bytes that a function takes without its name.
    pub(crate) const ENTRY: usize = 12;

    /// Charges for names that [`Self::build`] copies. Fails if the budget is too small.
    pub(crate) fn charge_names(raw: &[Raw<'_>], what: &str, purse: &mut UnpackBudget) -> Result<(), UnpackError> {
        raw.iter().try_for_each(|raw| purse.take(what, raw.name().len() as u64 + 1))
    }

    pub(crate) fn build(mut raw: Vec<Raw<'_>>) -> Self {
        // A stable sort: of two equally good symbols, the first in the file wins.
        raw.sort_by_key(|s| s.start);
        Self::of_sorted(raw.len(), |i| raw[i], Names::default())
    }

    /// Builds the table without copying names. All of them are in `file`, less than 4 GiB after `base`. `list` has each
    /// symbol's address, and its index for `raw`.
    pub(crate) fn build_in<'a>(
        mut list: Vec<(u64, u32)>,
        raw: impl Fn(u32) -> Raw<'a>,
        file: &Bytes,
        base: usize,
    ) -> Self {
        list.sort_unstable();
        Self::of_sorted(list.len(), |i| Raw { start: list[i].0, ..raw(list[i].1) }, Names::In(file.clone(), base))
    }

    /// Builds a table from sorted symbols, with the best symbol at each address.
    fn of_sorted<'a>(count: usize, raw: impl Fn(usize) -> Raw<'a>, names: Names) -> Self {
        let mut table = Self { names, ..Self::default() };
        let mut best: Option<Raw<'_>> = None;
        for next in (0..count).map(raw) {
            best = match best {
                Some(same) if same.start == next.start => Some(if better(&same, &next).is_gt() { next } else { same }),
                before => {
                    before.iter().for_each(|raw| table.append(raw));
                    Some(next)
                }
            };
        }
        best.iter().for_each(|raw| table.append(raw));
        table.shrink();
        table
    }

    fn append(&mut self, raw: &Raw<'_>) {
        let place = self.names.place(raw.name);
        // Functions are shorter than this limit.
        self.append_at(raw.start, u32::try_from(raw.size).unwrap_or(u32::MAX), place);
    }

    fn append_at(&mut self, start: u64, size: u32, place: u32) {
        if !self.starts.push(start) {
            return;
        }
        if size > 0 || !self.sizes.is_empty() {
            self.sizes.resize(self.names_at.len(), 0);
            self.sizes.push(size);
        }
        self.names_at.push(place);
    }

    fn take_back(&mut self) {
        self.starts.pop();
        self.sizes.truncate(self.starts.len());
        let place = self.names_at.pop();
        place.into_iter().for_each(|place| self.names.take_back(place));
    }

    fn shrink(&mut self) {
        self.starts.shrink();
        self.sizes.shrink_to_fit();
        self.names_at.shrink_to_fit();
        self.names.shrink();
    }

    /// Returns the bytes of memory that this holds itself.
    pub(crate) fn memory(&self) -> usize {
        self.starts.memory() + 4 * (self.sizes.capacity() + self.names_at.capacity()) + self.names.memory()
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn size(&self, i: usize) -> u32 {
        self.sizes.get(i).copied().unwrap_or(0)
    }

    fn get(&self, i: usize) -> Option<Symbol<'_>> {
        let start = self.starts.get(i)?;
        let end = match (self.size(i), self.starts.get(i + 1)) {
            (0, Some(next)) => next,
            // perf gives the last symbol the rest of its page and the next page.
            (0, None) => (start | 0xfff).saturating_add(1 + 0x1000),
            (size, _) => start.saturating_add(size.into()),
        };
        Some(Symbol { start, end, name: self.names.get(self.names_at[i]) })
    }

    pub(crate) fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        let after = self.starts.up_to(addr);
        let mut before = (after.saturating_sub(NESTING)..after).rev().filter_map(|i| self.get(i));
        before.find(|symbol| addr < symbol.end && !symbol.name.is_empty())
    }

    /// Iterates over all functions, sorted by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// Compares two symbols at one address. The better one names it: named before unnamed, sized before unsized, strong
/// before weak, global before local, fewer leading underscores, the longer name; then not an obsolete `SyS_` alias.
fn better(a: &Raw<'_>, b: &Raw<'_>) -> Ordering {
    let name = |s: &Raw<'_>| Raw { name: &s.name[..s.name.len().min(LONG)], ..*s }.name().len();
    let underscores = |s: &Raw<'_>| s.name.iter().take(LONG).take_while(|c| **c == b'_').count();
    let alias = |s: &Raw<'_>| s.name.starts_with(b"SyS") || s.name.starts_with(b"compat_SyS");
    let is_empty = |s: &Raw<'_>| s.name.first().is_none_or(|first| *first == 0);
    is_empty(a)
        .cmp(&is_empty(b))
        .then((a.size == 0).cmp(&(b.size == 0)))
        .then((a.binding == Binding::Weak).cmp(&(b.binding == Binding::Weak)))
        .then((b.binding == Binding::Global).cmp(&(a.binding == Binding::Global)))
        .then_with(|| underscores(a).cmp(&underscores(b)))
        .then_with(|| name(b).cmp(&name(a)))
        .then(alias(a).cmp(&alias(b)))
}

#[cfg(test)]
mod tests;
