//! One file's functions, with the names that were asked for already made readable.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bounds::Bounds;
use super::demangle::{NameForm, demangle};
use super::table::SymbolTable;
use crate::session::Dso;

/// Bytes of a readable name beside its letters: its place in the map, which may be half empty, and its count.
const ENTRY: usize = 80;

/// A function that holds an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbolized {
    /// Its first address in the DSO.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// As shown: demangled, unless that was switched off.
    pub name: Arc<str>,
    /// Whether that is a symbol's name; else it is the address where the function starts, as linked.
    pub is_symbol: bool,
}

impl Symbolized {
    /// A DSO that is one function.
    pub(super) fn whole(dso: &Dso) -> Self {
        Self { start: 0, end: u64::MAX, name: dso.path.clone(), is_symbol: true }
    }
}

/// A file's tables, asked one after the other.
#[derive(Debug)]
pub(crate) struct LoadedFiles {
    tables: Vec<SymbolTable>,
    names: FxHashMap<u64, Arc<str>>,
    /// Bytes of these.
    shown: usize,
    /// Of those that no table has.
    pub(crate) bounds: Option<Bounds>,
    /// What is to be added to the tables' addresses to get the recorded ones.
    pub(crate) moved: u64,
}

impl LoadedFiles {
    pub(crate) fn new(tables: Vec<SymbolTable>) -> Self {
        Self { tables, names: FxHashMap::default(), shown: 0, bounds: None, moved: 0 }
    }

    pub(crate) fn find(&mut self, addr: u64, form: NameForm) -> Option<Symbolized> {
        let Some(symbol) = self.tables.iter().find_map(|table| table.find(addr)) else { return self.bounded(addr) };
        let shown = &mut self.shown;
        let fresh = || -> Arc<str> {
            let name: Arc<str> = demangle(symbol.name, form).into();
            *shown += ENTRY + name.len();
            name
        };
        let name = self.names.entry(symbol.start).or_insert_with(fresh).clone();
        Some(Symbolized { start: symbol.start, end: symbol.end, name, is_symbol: true })
    }

    fn bounded(&mut self, addr: u64) -> Option<Symbolized> {
        let (Range { start, end }, linked) = self.bounds.as_mut()?.find(addr)?;
        let shown = &mut self.shown;
        let fresh = || -> Arc<str> {
            let name: Arc<str> = format!("{linked:#x}").into();
            *shown += ENTRY + name.len();
            name
        };
        let name = self.names.entry(start).or_insert_with(fresh).clone();
        Some(Symbolized { start, end, name, is_symbol: false })
    }

    /// Has names made readable anew.
    pub(crate) fn forget_shown(&mut self) {
        self.names = FxHashMap::default();
        self.shown = 0;
    }

    /// Bytes of memory that it holds of its own.
    pub(crate) fn memory(&self) -> usize {
        self.tables.iter().map(SymbolTable::memory).sum::<usize>()
            + self.shown
            + self.bounds.as_ref().map_or(0, Bounds::memory)
    }
}
