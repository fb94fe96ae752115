//! One file's functions, with the demangled names of those that were requested.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::demangle::{NameForm, demangle, is_mangled};
use super::table::SymbolTable;
use crate::perfdata::unpack::UnpackBudget;
use crate::record::kinds::BuildId;
use crate::session::Dso;
use crate::symbols::debug_image::{Functions, Image, NameSource};
use crate::symbols::elf::bounds::Bounds;
use crate::symbols::options::SymbolOptions;
use crate::symbols::problem::Problem;
use crate::symbols::trust::isolated::run_isolated;

/// Bytes of a demangled name without its letters: its place in the map, which may be half empty, and its count.
const ENTRY: usize = 80;

/// Bytes of a known function without a symbol.
const BARE: usize = 40;

/// The limit of addresses that are known to be outside all functions, and the bytes of each.
const MAX_OUTSIDE: usize = 1 << 12;
const OUTSIDE: usize = 16;

/// A function that holds an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbolized {
    /// Its first address in the DSO.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// As shown: demangled, unless that was switched off.
    pub name: Arc<str>,
    /// Whether the name is a symbol's; else it is the function's linked start address.
    pub is_symbol: bool,
}

impl Symbolized {
    pub(crate) fn whole(dso: &Dso) -> Self {
        Self { start: 0, end: u64::MAX, name: dso.path.clone(), is_symbol: true }
    }
}

#[derive(Debug, Default)]
struct Shown {
    names: FxHashMap<u64, Arc<str>>,
    bytes: usize,
}

impl Shown {
    fn name(&mut self, start: u64, fresh: impl FnOnce() -> String) -> Arc<str> {
        let bytes = &mut self.bytes;
        let fresh = || {
            let name = fresh();
            *bytes += ENTRY + name.len();
            name.into()
        };
        self.names.entry(start).or_insert_with(fresh).clone()
    }
}

/// A file's tables, searched in order.
#[derive(Debug, Default)]
pub(crate) struct LoadedFiles {
    tables: Vec<SymbolTable>,
    shown: Shown,
    /// Bounds of functions that no table has.
    pub(crate) bounds: Option<Bounds>,
    /// Those looked up so far: start in the file to end and linked start.
    bare: BTreeMap<u64, (u64, u64)>,
    /// Addresses that were looked up and that no function holds.
    outside: FxHashSet<u64>,
    /// The difference from the tables' addresses to the recorded ones.
    pub(crate) moved: u64,
    /// Whether labels name the code after them, also within functions: in the kernel.
    pub(crate) has_labels: bool,
}

impl LoadedFiles {
    pub(crate) fn new(tables: Vec<SymbolTable>) -> Self {
        Self { tables, ..Self::default() }
    }

    /// Returns the function that holds an address. If the parser of a stripped file's bounds fails, the bounds are
    /// dropped and the error is returned.
    pub(crate) fn find(&mut self, addr: u64, form: NameForm) -> Result<Option<Symbolized>, String> {
        let labels = self.has_labels;
        let holder = |table| if labels { SymbolTable::find_label(table, addr) } else { SymbolTable::find(table, addr) };
        let Some(symbol) = self.tables.iter().find_map(holder) else { return self.bounded(addr) };
        let name = self.shown.name(symbol.start, || demangle(symbol.name, form));
        Ok(Some(Symbolized { start: symbol.start, end: symbol.end, name, is_symbol: true }))
    }

    /// Returns the addresses around one that have the same function.
    pub(crate) fn same(&self, addr: u64) -> Option<Range<u64>> {
        if self.has_labels {
            return None;
        }
        // A function of the first table precedes those of the others.
        self.tables.first().and_then(|table| table.same(addr)).or_else(|| {
            let (bare, _) = self.bare_at(addr)?;
            self.tables.iter().try_fold(bare, |range, table| {
                let gap = table.gap(addr)?;
                Some(range.start.max(gap.start)..range.end.min(gap.end))
            })
        })
    }

    /// Returns whether a look-up among the bounds would not find anything new.
    fn is_looked_up(&self, addr: u64) -> bool {
        self.bare_at(addr).is_some() || self.outside.contains(&addr)
    }

    fn bounded(&mut self, addr: u64) -> Result<Option<Symbolized>, String> {
        if !self.is_looked_up(addr) {
            self.look_for(vec![addr])?;
        }
        let Some((Range { start, end }, linked)) = self.bare_at(addr) else { return Ok(None) };
        let name = self.shown.name(start, || format!("{linked:#x}"));
        Ok(Some(Symbolized { start, end, name, is_symbol: false }))
    }

    fn bare_at(&self, addr: u64) -> Option<(Range<u64>, u64)> {
        let (start, (end, linked)) = self.bare.range(..=addr).next_back()?;
        (addr < *end).then_some((*start..*end, *linked))
    }

    fn look_for(&mut self, addrs: Vec<u64>) -> Result<(), String> {
        let Some(mut bounds) = self.bounds.take() else { return Ok(()) };
        let (bounds, found) = run_isolated(move || {
            let found: Vec<_> = addrs.into_iter().map(|addr| (addr, bounds.find(addr))).collect();
            (bounds, found)
        })?;
        self.bounds = Some(bounds);
        if self.outside.len() + found.len() > MAX_OUTSIDE {
            self.outside.clear();
        }
        for (addr, found) in found {
            match found {
                Some((range, linked)) => _ = self.bare.insert(range.start, (range.end, linked)),
                None => _ = self.outside.insert(addr),
            }
        }
        Ok(())
    }

    /// Looks up several addresses in one call of a parser, which costs as much as a hundred lookups.
    pub(crate) fn prepare(&mut self, addrs: impl Iterator<Item = u64>, form: NameForm) -> Result<(), String> {
        let (mut mangled, mut bare) = (BTreeMap::new(), Vec::new());
        for addr in addrs {
            match self.tables.iter().find_map(|table| table.find(addr)) {
                Some(symbol) if is_mangled(symbol.name) && !self.shown.names.contains_key(&symbol.start) => {
                    mangled.entry(symbol.start).or_insert_with(|| symbol.name.to_vec());
                }
                None if !self.is_looked_up(addr) => bare.push(addr),
                _ => {}
            }
        }
        let is_any = !mangled.is_empty();
        let readable = move || mangled.into_iter().map(|(start, name)| (start, demangle(&name, form))).collect();
        // If the batch fails, each name is tried alone later.
        let names: Vec<(u64, String)> = if is_any { run_isolated(readable).unwrap_or_default() } else { Vec::new() };
        for (start, name) in names {
            self.shown.name(start, || name);
        }
        if bare.is_empty() { Ok(()) } else { self.look_for(bare) }
    }

    /// Drops demangled names, so that they are made again.
    pub(crate) fn forget_shown(&mut self) {
        self.shown = Shown::default();
    }

    pub(crate) fn memory(&self) -> usize {
        self.tables.iter().map(SymbolTable::memory).sum::<usize>()
            + self.shown.bytes
            + self.bounds.as_ref().map_or(0, Bounds::memory)
            + self.bare.len() * BARE
            + self.outside.len() * OUTSIDE
    }
}

/// The names of a file that was just read.
pub(crate) struct FileRead {
    pub(crate) build_id: Option<BuildId>,
    /// A user who could have written it.
    pub(crate) user: u32,
    /// Whether these are all of its names.
    pub(crate) whole: bool,
    pub(crate) problems: Vec<Problem>,
    /// Its functions and where they come from, or why there are none.
    pub(crate) names: Result<(LoadedFiles, NameSource), String>,
}

impl FileRead {
    pub(crate) fn of(dso: &Dso, options: &SymbolOptions, purse: &mut UnpackBudget) -> Result<Self, Problem> {
        let image = Image::open(dso, options)?;
        let functions = image.functions(purse);
        // All symbols of a large file were read, but few of its names will be.
        image.rest();
        let whole = functions.as_ref().is_ok_and(|functions| functions.whole);
        let mut problems = Vec::new();
        if image.is_cut() {
            let words =
                "read in part: files that other users can change exceed their share of memory; increase --memory";
            problems.push(words.to_owned().into());
        }
        if !image.proven {
            problems.push(Problem::unproven());
        }
        let bounds = options.bounds.then(|| Bounds::of(&image.bytes, &image.segments));
        let names = match functions {
            Ok(Functions { tables, from, .. }) => Ok((tables, from)),
            Err(why) if bounds.is_none() => Err(why.to_string()),
            Err(why) => {
                problems.push(why.to_string().into());
                Ok((Vec::new(), NameSource::unusual("none, only bounds of functions (it is stripped)")))
            }
        };
        let names = names.map(|(tables, from)| {
            let mut loaded = LoadedFiles::new(tables);
            loaded.bounds = bounds;
            (loaded, from)
        });
        Ok(Self { build_id: image.build_id, user: image.user, whole, problems, names })
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Binding, Raw, SymbolTableBuilder};
    use super::*;
    use crate::symbols::bytes::Bytes;

    #[test]
    fn what_was_prepared_is_found_as_it_would_be() {
        let own = std::fs::File::open(std::env::current_exe().expect("a path")).expect("opens");
        let bytes = Bytes::of(&own).expect("mapped");
        let segments = crate::symbols::elf::program::ElfProgram::of(&bytes).expect("an ELF file").places();
        let loaded = || {
            let mut builder = SymbolTableBuilder::default();
            for (start, name) in [(16, "_ZN3foo3barEv"), (32, "main"), (48, "_ZN4core3fmt5write17h0123456789abcdefE")] {
                builder.push(Raw { start, size: 16, name: name.as_bytes(), binding: Binding::Global });
            }
            let mut loaded = LoadedFiles::new(vec![builder.finish()]);
            loaded.bounds = Some(Bounds::of(&bytes, &segments));
            loaded
        };
        let here = what_was_prepared_is_found_as_it_would_be as fn() as usize as u64;
        let maps = crate::kernel::procfs::exec_maps(std::process::id() as i32);
        let map = maps.iter().find(|map| (map.start..map.end).contains(&here)).expect("it runs");
        let offset = here - map.start + map.offset;
        let addrs = [16, 17, 35, 50, offset, offset + 1, u64::MAX];
        let (mut alone, mut together) = (loaded(), loaded());
        together.prepare(addrs.into_iter(), NameForm::Plain).expect("read");
        let read = together.shown.names.len();
        let find = |one: &mut LoadedFiles| addrs.map(|addr| one.find(addr, NameForm::Plain).expect("read"));
        let found = find(&mut together);
        assert_eq!(found, find(&mut alone));
        let name = |at: usize| found[at].as_ref().map(|one| &*one.name);
        assert_eq!((name(0), name(2), name(3)), (Some("foo::bar"), Some("main"), Some("core::fmt::write")));
        assert!(found[4] == found[5] && found[4].as_ref().is_some_and(|one| !one.is_symbol));
        // Later addresses of a function need no look-up, and neither does an address outside of all functions.
        let same = |addr| together.same(addr);
        assert!(same(offset).is_some_and(|range| range.contains(&offset) && range.contains(&(offset + 1))));
        assert_eq!((same(16), same(u64::MAX)), (Some(16..32), None));
        assert!(together.is_looked_up(u64::MAX) && !together.is_looked_up(u64::MAX - 1));
        assert_eq!((read, found[6].clone(), alone.memory()), (2, None, together.memory()));
    }
}
