//! A sorted table of functions, built by perf's rules for duplicates and missing sizes, so that
//! our rows are perf's rows.

use std::cmp::Ordering;

/// A symbol before it is put into a table.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub start: u64,
    /// 0 when the source does not say.
    pub size: u64,
    pub name: &'a [u8],
    pub binding: Binding,
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

/// Functions in address order. Compact: 20 bytes each and one block of names.
#[derive(Debug, Default)]
pub struct SymbolTable {
    starts: Vec<u64>,
    ends: Vec<u64>,
    names_at: Vec<u32>,
    names: Vec<u8>,
}

/// How far back a covering function is searched when the nearest one ends before the address.
const NESTING: usize = 16;

impl SymbolTable {
    pub fn build(mut raw: Vec<Raw<'_>>) -> Self {
        raw.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| better(a, b)));
        raw.dedup_by_key(|s| s.start);
        let mut table = Self::default();
        table.starts.reserve_exact(raw.len());
        table.ends.reserve_exact(raw.len());
        table.names_at.reserve_exact(raw.len());
        table.names.reserve_exact(raw.iter().map(|s| s.name.len() + 1).sum());
        for (i, s) in raw.iter().enumerate() {
            let end = match (s.size, raw.get(i + 1)) {
                (0, Some(next)) => next.start,
                // perf gives the last one the rest of its page and the next page.
                (0, None) => (s.start | 0xfff).saturating_add(1 + 0x1000),
                (size, _) => s.start.saturating_add(size),
            };
            table.starts.push(s.start);
            table.ends.push(end);
            table.names_at.push(table.names.len() as u32);
            table.names.extend_from_slice(s.name);
            table.names.push(0);
        }
        table
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn get(&self, i: usize) -> Symbol<'_> {
        let from = self.names_at[i] as usize;
        let to = self.names_at.get(i + 1).map_or(self.names.len(), |n| *n as usize) - 1;
        Symbol { start: self.starts[i], end: self.ends[i], name: &self.names[from..to] }
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
    let underscores = |s: &Raw<'_>| s.name.iter().take_while(|c| **c == b'_').count();
    let alias = |s: &Raw<'_>| s.name.starts_with(b"SyS") || s.name.starts_with(b"compat_SyS");
    (a.size == 0)
        .cmp(&(b.size == 0))
        .then((a.binding == Binding::Weak).cmp(&(b.binding == Binding::Weak)))
        .then((b.binding == Binding::Global).cmp(&(a.binding == Binding::Global)))
        .then(underscores(a).cmp(&underscores(b)))
        .then(b.name.len().cmp(&a.name.len()))
        .then(alias(a).cmp(&alias(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(start: u64, size: u64, name: &str, binding: Binding) -> Raw<'_> {
        Raw { start, size, name: name.as_bytes(), binding }
    }

    fn name(table: &SymbolTable, addr: u64) -> Option<&str> {
        table.find(addr).map(|s| std::str::from_utf8(s.name).expect("utf8"))
    }

    #[test]
    fn aliases_sizes_and_nesting() {
        use Binding::{Global, Local, Weak};
        let table = SymbolTable::build(vec![
            raw(0x100, 0x10, "__malloc", Global),
            raw(0x100, 0x10, "malloc", Global),
            raw(0x100, 0, "zero_sized_but_longer", Global),
            raw(0x200, 0x100, "outer", Local),
            raw(0x220, 0x10, "inner", Local),
            raw(0x400, 0, "asm_label", Local),
            raw(0x440, 0, "last", Weak),
            raw(0x440, 0, "local", Local),
        ]);
        assert_eq!(name(&table, 0x10f), Some("malloc"));
        assert_eq!(name(&table, 0x110), None);
        assert_eq!(name(&table, 0x225), Some("inner"));
        assert_eq!(name(&table, 0x250), Some("outer"));
        assert_eq!(name(&table, 0x43f), Some("asm_label"));
        assert_eq!(name(&table, 0x440), Some("local"));
        assert_eq!(name(&table, 0x1fff), Some("local"));
        assert_eq!(name(&table, 0x2000), None);
        assert_eq!(name(&table, 0), None);
        assert_eq!(SymbolTable::default().find(0), None);
    }
}
