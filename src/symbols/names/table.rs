//! A sorted table of functions, with perf's rules for duplicates and missing sizes.

mod names;
mod order;
mod starts;

use std::cmp::Ordering;
use std::ops::Range;

use crate::perfdata::unpack::{UnpackBudget, UnpackError};
pub(crate) use names::Names;
use names::cut;
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
/// How many entries these may be among, with the labels within functions.
const LABELS: usize = 256;

/// Builds a table from symbols in any order.
#[derive(Debug, Default)]
pub(crate) struct SymbolTableBuilder {
    list: Vec<ListedSymbol>,
    names: Names,
    /// Whether the last of the symbols at an address is kept, instead of the best.
    last_wins: bool,
}

/// A symbol with the position of its name.
#[derive(Clone, Copy, Debug)]
struct ListedSymbol {
    start: u64,
    /// Functions are shorter than this limit.
    size: u32,
    name: u32,
    binding: Binding,
}

impl SymbolTableBuilder {
    /// Creates a builder for kallsyms, without sizes: as in perf, only the last symbol at an address is found.
    pub(crate) fn last_wins() -> Self {
        Self { last_wins: true, ..Self::default() }
    }

    pub(crate) fn push(&mut self, raw: Raw<'_>) {
        let size = u32::try_from(raw.size).unwrap_or(u32::MAX);
        let name = self.names.place(raw.name);
        self.list.push(ListedSymbol { start: raw.start, size, name, binding: raw.binding });
    }

    pub(crate) fn finish(self) -> SymbolTable {
        let Self { list, names, last_wins } = self;
        let order = order::by_address(list.iter().map(|symbol| symbol.start));
        let symbol = |at: &u32| &list[*at as usize];
        let mut table = SymbolTable { names, ..SymbolTable::default() };
        for same in order.chunk_by(|a, b| symbol(a).start == symbol(b).start) {
            let raw = |at: &u32| {
                let ListedSymbol { start, size, name, binding } = *symbol(at);
                // The ends of names are searched only where they decide.
                Raw { start, size: size.into(), name: table.names.rest(name), binding }
            };
            let best = match same {
                [one] => Some(one),
                several if last_wins => several.last(),
                // Of two equally good symbols, the first one wins.
                several => several.iter().min_by(|a, b| better(&raw(a), &raw(b))),
            };
            best.into_iter().for_each(|at| table.append(symbol(at)));
        }
        table.shrink();
        table
    }
}

impl SymbolTable {
    /// Bytes that a function takes without its name.
    pub(crate) const ENTRY: usize = 12;

    /// Charges for names that are copied. Fails if the budget is too small.
    pub(crate) fn charge_names<'a>(
        mut symbols: impl Iterator<Item = Raw<'a>>,
        what: &str,
        purse: &mut UnpackBudget,
    ) -> Result<(), UnpackError> {
        symbols.try_for_each(|raw| purse.take(what, raw.name().len() as u64 + 1))
    }

    pub(crate) fn build<'a>(symbols: impl IntoIterator<Item = Raw<'a>>) -> Self {
        let mut builder = SymbolTableBuilder::default();
        symbols.into_iter().for_each(|raw| builder.push(raw));
        builder.finish()
    }

    /// Builds a table of up to `count` symbols, whose names are copied or stay in their file. Fails if the budget is
    /// too small for the table and the list that it is built from.
    pub(crate) fn charged<'a>(
        symbols: impl Iterator<Item = Raw<'a>>,
        count: u64,
        names: Names,
        what: &str,
        purse: &mut UnpackBudget,
    ) -> Result<Self, UnpackError> {
        let passing = count * size_of::<ListedSymbol>() as u64;
        purse.take(what, count * Self::ENTRY as u64 + passing)?;
        let list = Vec::with_capacity(count as usize);
        let mut builder = SymbolTableBuilder { list, names, last_wins: false };
        symbols.for_each(|raw| builder.push(raw));
        purse.give_back(passing);
        Ok(builder.finish())
    }

    fn append(&mut self, symbol: &ListedSymbol) {
        if !self.starts.push(symbol.start) {
            return;
        }
        if symbol.size > 0 || !self.sizes.is_empty() {
            self.sizes.resize(self.names_at.len(), 0);
            self.sizes.push(symbol.size);
        }
        self.names_at.push(symbol.name);
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

    /// Returns start and end of a function.
    fn range(&self, i: usize) -> Option<(u64, u64)> {
        let start = self.starts.get(i)?;
        let end = match self.size(i) {
            // perf gives the last symbol the rest of its page and the next page.
            0 => self.starts.get(i + 1).unwrap_or((start | 0xfff).saturating_add(1 + 0x1000)),
            size => start.saturating_add(size.into()),
        };
        Some((start, end))
    }

    fn get(&self, i: usize) -> Option<Symbol<'_>> {
        let (start, end) = self.range(i)?;
        Some(Symbol { start, end, name: self.names.get(self.names_at[i]) })
    }

    /// Returns the function that holds an address. A label within a function, which has no size, is not one.
    pub(crate) fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        self.find_sized(addr).or_else(|| self.find_label(addr))
    }

    /// Returns the nearest symbol at or before an address, function or label, that holds it. The kernel's entry code has
    /// functions whose parts are known by their labels, like `entry_SYSCALL_64_after_hwframe`.
    pub(crate) fn find_label(&self, addr: u64) -> Option<Symbol<'_>> {
        self.find_among(addr, |_| true)
    }

    /// Like [`Self::find`], but without the symbols whose size is unknown.
    pub(crate) fn find_sized(&self, addr: u64) -> Option<Symbol<'_>> {
        if self.sizes.is_empty() {
            return None;
        }
        self.find_among(addr, |i| self.size(i) > 0)
    }

    fn find_among(&self, addr: u64, is_wanted: impl Fn(usize) -> bool) -> Option<Symbol<'_>> {
        let after = self.starts.up_to(addr);
        let nearest = (after.saturating_sub(LABELS)..after).rev().filter(|i| is_wanted(*i)).take(NESTING);
        // Only the name of a function that holds the address is read.
        let mut holders = nearest.filter(|i| self.range(*i).is_some_and(|(_, end)| addr < end));
        holders.find_map(|i| self.get(i).filter(|symbol| !symbol.name.is_empty()))
    }

    /// Returns the addresses around one for which [`Self::find`] returns the same function: if that is the nearest symbol
    /// and has a size, up to the next symbol.
    pub(crate) fn same(&self, addr: u64) -> Option<Range<u64>> {
        let next = self.starts.up_to(addr);
        let nearest = next.checked_sub(1).filter(|i| self.size(*i) > 0)?;
        let is_named = self.names.rest(self.names_at[nearest]).first().is_some_and(|first| *first != 0);
        let (start, end) = self.range(nearest).filter(|_| is_named)?;
        let range = start..self.starts.get(next).map_or(end, |next| next.min(end));
        range.contains(&addr).then_some(range)
    }

    /// Returns the addresses around one without a function for which [`Self::find`] does not return any either; `None` if
    /// the address may have one.
    pub(crate) fn gap(&self, addr: u64) -> Option<Range<u64>> {
        let next = self.starts.up_to(addr);
        let ends = (next.saturating_sub(LABELS)..next).filter_map(|i| self.range(i)).map(|(_, end)| end);
        let range = ends.max().unwrap_or(0)..self.starts.get(next).unwrap_or(u64::MAX);
        range.contains(&addr).then_some(range)
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
