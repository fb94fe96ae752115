//! A sorted table of functions, built by perf's rules for duplicates and missing sizes, so that
//! our rows are perf's rows.

use std::cmp::Ordering;

use super::bytes::Bytes;
use crate::perfdata::unpack::{Purse, Refused};

/// A longer name is cut.
pub const MAX_NAME: usize = 16 << 10;
/// Longer names are as good as each other.
const LONG: usize = 1024;

/// A symbol before it is put into a table.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub start: u64,
    /// 0 when the source does not say.
    pub size: u64,
    /// Up to its first zero byte.
    pub name: &'a [u8],
    pub binding: Binding,
}

impl<'a> Raw<'a> {
    fn name(&self) -> &'a [u8] {
        let name = &self.name[..self.name.len().min(MAX_NAME)];
        &name[..memchr::memchr(0, name).unwrap_or(name.len())]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    Local,
    Global,
    Weak,
}

/// A function's place and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    pub start: u64,
    pub end: u64,
    pub name: &'a [u8],
}

/// Functions in address order. Compact: 20 bytes each, and names in one block or in the file itself.
#[derive(Debug, Default)]
pub struct SymbolTable {
    starts: Vec<u64>,
    ends: Vec<u64>,
    names_at: Vec<u32>,
    names: Names,
}

/// Where names are: each ends with a zero byte.
#[derive(Debug)]
enum Names {
    Own(Vec<u8>),
    /// In a file, from a place on.
    In(Bytes, usize),
}

impl Default for Names {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Names {
    fn all(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::In(bytes, base) => bytes.get(*base..).unwrap_or_default(),
        }
    }

    /// Where a name is to be found; one of its own is added.
    fn place(&mut self, name: &[u8]) -> u32 {
        match self {
            Self::Own(bytes) => {
                let at = bytes.len() as u32;
                let name = &name[..name.len().min(MAX_NAME)];
                bytes.extend_from_slice(&name[..memchr::memchr(0, name).unwrap_or(name.len())]);
                bytes.push(0);
                at
            }
            Self::In(bytes, base) => {
                (name.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize).wrapping_sub(*base) as u32
            }
        }
    }
}

/// How far back a covering function is searched when the nearest one ends before the address.
const NESTING: usize = 16;

/// Builds a table from symbols that mostly come in order of address, without holding them twice.
#[derive(Debug, Default)]
pub struct Builder {
    table: SymbolTable,
    /// Size, binding and name of the last symbol, while another may claim its address.
    last: Option<(u64, Binding, Vec<u8>)>,
    /// Of symbols at one address the last is kept, instead of the best.
    last_wins: bool,
    /// Symbols that came out of order.
    strays: Vec<(u64, u64, Binding, Vec<u8>)>,
}

impl Builder {
    /// For kallsyms, whose symbols have no size: perf leaves all but the last at an address empty,
    /// so that only the last can be found.
    pub fn last_wins() -> Self {
        Self { last_wins: true, ..Self::default() }
    }

    pub fn push(&mut self, raw: Raw<'_>) {
        match self.table.starts.last() {
            Some(last) if raw.start < *last => {
                return self.strays.push((raw.start, raw.size, raw.binding, raw.name().to_vec()));
            }
            Some(last) if raw.start == *last => {
                let replaces = self.last_wins
                    || self.last.as_ref().is_some_and(|(size, binding, name)| {
                        better(&Raw { start: raw.start, size: *size, name, binding: *binding }, &raw).is_gt()
                    });
                if replaces {
                    let at = self.table.names_at.pop().unwrap_or(0);
                    if let Names::Own(names) = &mut self.table.names {
                        names.truncate(at as usize);
                    }
                    self.table.starts.pop();
                    self.table.ends.pop();
                } else {
                    return;
                }
            }
            _ => {}
        }
        let (size, binding) = (raw.size, raw.binding);
        match &mut self.last {
            Some((s, b, name)) => {
                (*s, *b) = (size, binding);
                name.clear();
                name.extend_from_slice(raw.name());
            }
            None => self.last = Some((size, binding, raw.name().to_vec())),
        }
        self.table.append(&raw);
    }

    pub fn finish(self) -> SymbolTable {
        let Self { mut table, strays, .. } = self;
        if !strays.is_empty() {
            let sizes = std::mem::take(&mut table.ends);
            let size = |i: usize| sizes[i];
            let sorted = (0..table.len()).map(|i| {
                let s = table.symbol(i, 0);
                Raw { start: s.start, size: size(i), name: s.name, binding: Binding::Global }
            });
            let strays = strays.iter().map(|(start, size, binding, name)| Raw {
                start: *start,
                size: *size,
                name,
                binding: *binding,
            });
            return SymbolTable::build(sorted.chain(strays).collect());
        }
        let n = table.len();
        for i in 0..n {
            table.ends[i] = match (table.ends[i], table.starts.get(i + 1)) {
                (0, Some(next)) => *next,
                // perf gives the last one the rest of its page and the next page.
                (0, None) => (table.starts[i] | 0xfff).saturating_add(1 + 0x1000),
                (size, _) => table.starts[i].saturating_add(size),
            };
        }
        table.starts.shrink_to_fit();
        table.ends.shrink_to_fit();
        table.names_at.shrink_to_fit();
        if let Names::Own(names) = &mut table.names {
            names.shrink_to_fit();
        }
        table
    }
}

impl SymbolTable {
    /// Bytes that a function takes beside its name.
    pub const ENTRY: usize = 20;

    /// Charges for names that are copied, as [`Self::build`] does.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn charge_names(raw: &[Raw<'_>], what: &str, purse: &mut Purse) -> Result<(), Refused> {
        raw.iter().try_for_each(|raw| purse.take(what, raw.name().len() as u64 + 1))
    }

    pub fn build(raw: Vec<Raw<'_>>) -> Self {
        Self::build_with(raw, Names::default())
    }

    /// The same without copying the names: all of them lie in `file`, from `base` on and less than
    /// 4 GiB behind it.
    pub fn build_in(raw: Vec<Raw<'_>>, file: &Bytes, base: usize) -> Self {
        Self::build_with(raw, Names::In(file.clone(), base))
    }

    fn build_with(mut raw: Vec<Raw<'_>>, names: Names) -> Self {
        // Stable, so that of two equally good ones the first in the file comes first.
        raw.sort_by_key(|s| s.start);
        let mut table = Self { names, ..Self::default() };
        for same in raw.chunk_by(|a, b| a.start == b.start) {
            let best = same.iter().min_by(|a, b| better(a, b));
            best.into_iter().for_each(|raw| table.append(raw));
        }
        Builder { table, ..Builder::default() }.finish()
    }

    fn append(&mut self, raw: &Raw<'_>) {
        self.starts.push(raw.start);
        // The size stands here until the next start is known.
        self.ends.push(raw.size);
        let place = self.names.place(raw.name);
        self.names_at.push(place);
    }

    /// Bytes of memory that it holds of its own.
    pub fn memory(&self) -> usize {
        let names = match &self.names {
            Names::Own(names) => names.capacity(),
            Names::In(Bytes::Own(unpacked), _) => unpacked.len(),
            Names::In(..) => 0,
        };
        8 * (self.starts.capacity() + self.ends.capacity()) + 4 * self.names_at.capacity() + names
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn get(&self, i: usize) -> Symbol<'_> {
        self.symbol(i, self.ends[i])
    }

    fn symbol(&self, i: usize, end: u64) -> Symbol<'_> {
        let rest = self.names.all().get(self.names_at[i] as usize..).unwrap_or_default();
        let rest = &rest[..rest.len().min(MAX_NAME)];
        let name = &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())];
        Symbol { start: self.starts[i], end, name }
    }

    /// The function that holds an address.
    pub fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        let after = self.starts.partition_point(|s| *s <= addr);
        (after.saturating_sub(NESTING)..after).rev().find(|i| addr < self.ends[*i]).map(|i| self.get(i))
    }

    /// All functions, in address order.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// Which of two symbols at one address names it: sized before unsized, strong before weak, global
/// before local, fewer leading underscores, the longer name; then no obsolete `SyS_` alias.
fn better(a: &Raw<'_>, b: &Raw<'_>) -> Ordering {
    let name = |s: &Raw<'_>| Raw { name: &s.name[..s.name.len().min(LONG)], ..*s }.name().len();
    let underscores = |s: &Raw<'_>| s.name.iter().take(LONG).take_while(|c| **c == b'_').count();
    let alias = |s: &Raw<'_>| s.name.starts_with(b"SyS") || s.name.starts_with(b"compat_SyS");
    (a.size == 0)
        .cmp(&(b.size == 0))
        .then((a.binding == Binding::Weak).cmp(&(b.binding == Binding::Weak)))
        .then((b.binding == Binding::Global).cmp(&(a.binding == Binding::Global)))
        .then_with(|| underscores(a).cmp(&underscores(b)))
        .then_with(|| name(b).cmp(&name(a)))
        .then(alias(a).cmp(&alias(b)))
}

#[cfg(test)]
mod tests;
