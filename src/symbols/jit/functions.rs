//! The functions that a JIT reports one by one, within a memory limit.

use std::collections::BTreeMap;

use crate::lang::counted;

use super::reuse::{CodeChange, Occupied, tagged, untagged};
use crate::symbols::names::table::Symbol;

/// How many entries are searched backwards for an enclosing function.
const NESTING: usize = 16;
/// Longer names are cut.
pub(crate) const MAX_NAME: usize = 4096;
/// Bytes of a block of names: blocks are never copied to grow.
const BLOCK: usize = 1 << 16;
/// The limit of bytes that block numbers can address.
const MOST: usize = BLOCK << 15;
/// Bytes per function without its name, in minimally filled B-tree nodes: 288 of a leaf for five, and a share above.
const ENTRY: usize = 80;

#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    block: u16,
    at: u16,
    len: u16,
}

/// The longest accepted function: whole code caches are at most twice that.
const MOST_CODE: u64 = 1 << 30;

/// Returns the end of a function. `None` if it is too long or would end after the last address.
fn end_of(start: u64, size: u64) -> Option<u64> {
    start.checked_add(size).filter(|_| size <= MOST_CODE)
}

/// Entries of JITs' files that were left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    pub(crate) entries: u64,
    first: String,
}

impl LeftOut {
    pub(crate) fn add(&mut self, entry: &[u8]) {
        if self.entries == 0 {
            self.first = String::from_utf8_lossy(&entry[..entry.len().min(60)]).into_owned();
        }
        self.entries += 1;
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} of its JIT left out: no hexadecimal address and size of at most 1 GiB, then a name; \
             the first begins \"{}\"",
            counted(self.entries, "entry"),
            self.first
        )
    }
}

/// The changes of code that a table collects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Collected {
    #[default]
    Nothing,
    /// Those at addresses that held other code before.
    Reused,
    /// All, so that samples from before the first code at an address have no name.
    All,
}

/// Functions by address; a later one replaces an earlier one.
#[derive(Debug, Default)]
pub struct JitFunctions {
    pub(crate) left_out: LeftOut,
    list: BTreeMap<u64, Entry>,
    names: Vec<Vec<u8>>,
    /// Bytes of all names, and of those still in use.
    written: usize,
    live: usize,
    most: usize,
    /// The newest function at each address, for functions with known times.
    occupied: Occupied,
    /// Where moved code was loaded, by its tagged address.
    origins: BTreeMap<u64, u64>,
    changes: Vec<CodeChange>,
    collected: Collected,
    /// Whether these times are of a clock that nothing else uses.
    pub(crate) is_foreign_clock: bool,
}

impl JitFunctions {
    /// Creates an empty table with a limit in bytes.
    pub fn new(most: usize) -> Self {
        Self { most: most.min(MOST), ..Self::default() }
    }

    /// Creates an empty table that collects changes.
    pub(crate) fn with_changes(most: usize, collected: Collected) -> Self {
        Self { collected, ..Self::new(most) }
    }

    pub(crate) fn take_changes(&mut self) -> Vec<CodeChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the limit in bytes.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Adds a function that exists from a time on. Returns `false` if the table is full.
    pub(crate) fn load(&mut self, time: u64, start: u64, size: u64, name: &[u8]) -> bool {
        let Some(end) = end_of(start, size) else { return self.leave_out(start, size, name) };
        if let Some((known, generation)) = self.occupied.beginning(start)
            && known == end
            && self.list.get(&tagged(start, generation)).is_some_and(|entry| self.name(*entry) == name)
        {
            return true;
        }
        let at = self.change(time, start, end, None);
        self.put(at, size, name)
    }

    /// Moves a function at a time. Returns `false` if the table is full.
    pub(crate) fn relocate(&mut self, time: u64, from: u64, to: u64, size: u64) -> bool {
        let Some((end, generation)) = self.occupied.beginning(from) else { return true };
        let old = tagged(from, generation);
        let Some(entry) = self.list.get(&old).copied() else { return true };
        let Some(new_end) = end_of(to, size) else { return true };
        let name = self.name(entry).to_vec();
        let origin = self.origins.get(&old).copied().unwrap_or(old);
        self.change(time, from, end, None);
        let new = self.change(time, to, new_end, Some(origin));
        self.origins.insert(new, origin);
        self.put(new, size, &name)
    }

    /// Records that the code at some addresses changes; returns the tagged address of the new code.
    fn change(&mut self, time: u64, start: u64, end: u64, origin: Option<u64>) -> u64 {
        let generation = self.occupied.take(start, end);
        let tagged = tagged(start, generation);
        let is_collected = match self.collected {
            Collected::Nothing => false,
            Collected::Reused => generation > 1 || origin.is_some(),
            Collected::All => generation > 0,
        };
        if is_collected {
            self.changes.push(CodeChange { time, start, end, at: origin.unwrap_or(tagged) });
        }
        tagged
    }

    pub(crate) fn find_newest(&self, addr: u64) -> Option<Symbol<'_>> {
        let newest = tagged(addr, self.occupied.generation(addr));
        let Symbol { start, end, name } = self.find(newest)?;
        // The bounds are in the form of the address: with a tag only if it has one.
        let tag = newest - addr;
        Some(Symbol { start: start.checked_sub(tag)?, end: end.checked_sub(tag)?, name })
    }

    /// Returns the function at an address that never held another one.
    pub(crate) fn find_only(&self, addr: u64) -> Option<Symbol<'_>> {
        if self.occupied.generation(untagged(addr)) > 1 { None } else { self.find_newest(addr) }
    }

    /// Adds a function; one too long or ending after the last address counts as left out. `false` if the table is full.
    pub(crate) fn put(&mut self, start: u64, size: u64, name: &[u8]) -> bool {
        let name = &name[..name.len().min(MAX_NAME)];
        let Some(end) = end_of(start, size) else { return self.leave_out(start, size, name) };
        match self.list.get(&start).copied() {
            Some(old) if self.name(old) == name => {
                self.list.insert(start, Entry { end, ..old });
                return true;
            }
            Some(old) => {
                self.list.remove(&start);
                self.live -= usize::from(old.len);
            }
            None => {}
        }
        if self.written - self.live > self.live.max(BLOCK) {
            self.tidy();
        }
        if self.memory() + ENTRY + self.grows_by(name.len()) > self.most {
            return false;
        }
        let entry = self.write(end, name);
        self.list.insert(start, entry);
        true
    }

    /// Counts an invalid entry; returns `true`, because the table is not full.
    fn leave_out(&mut self, start: u64, size: u64, name: &[u8]) -> bool {
        let name = &name[..name.len().min(MAX_NAME)];
        self.left_out.add(format!("{start:x} {size:x} {}", String::from_utf8_lossy(name)).as_bytes());
        true
    }

    /// Returns the function that holds an address. Of nested ones the one that begins last.
    pub fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        let before = self.list.range(..=addr).rev().take(NESTING);
        let (start, entry) = before.into_iter().find(|(_, entry)| addr < entry.end)?;
        Some(Symbol { start: *start, end: entry.end, name: self.name(*entry) })
    }

    pub(crate) fn memory(&self) -> usize {
        let entries = self.list.len() + self.occupied.len() + self.origins.len() + self.changes.len();
        self.names.iter().map(Vec::capacity).sum::<usize>() + entries * ENTRY
    }

    fn name(&self, entry: Entry) -> &[u8] {
        let at = usize::from(entry.at);
        self.names.get(usize::from(entry.block)).and_then(|b| b.get(at..at + usize::from(entry.len))).unwrap_or(&[])
    }

    fn fits(block: &[u8], len: usize) -> bool {
        block.len() + len <= BLOCK
    }

    fn grows_by(&self, len: usize) -> usize {
        match self.names.last().filter(|block| Self::fits(block, len)) {
            Some(block) if block.len() + len <= block.capacity() => 0,
            Some(block) => block.capacity().max(len),
            None => BLOCK,
        }
    }

    /// Appends a name. The first block grows on demand: most processes report few functions.
    fn write(&mut self, end: u64, name: &[u8]) -> Entry {
        if !self.names.last().is_some_and(|block| Self::fits(block, name.len())) {
            let room = if self.names.is_empty() { 0 } else { BLOCK };
            self.names.push(Vec::with_capacity(room));
        }
        let block = self.names.len() - 1;
        let last = &mut self.names[block];
        let at = last.len();
        last.extend_from_slice(name);
        self.written += name.len();
        self.live += name.len();
        Entry { end, block: block as u16, at: at as u16, len: name.len() as u16 }
    }

    /// Rewrites the names still in use, block by block.
    fn tidy(&mut self) {
        let old = std::mem::take(&mut self.names);
        (self.written, self.live) = (0, 0);
        let mut list = std::mem::take(&mut self.list);
        for entry in list.values_mut() {
            let at = usize::from(entry.at);
            let name = old.get(usize::from(entry.block)).and_then(|b| b.get(at..at + usize::from(entry.len)));
            *entry = self.write(entry.end, name.unwrap_or(&[]));
        }
        self.list = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn later_functions_take_the_place_of_earlier_ones() {
        let mut told = JitFunctions::new(1 << 20);
        assert!(told.put(0x1000, 0x10, b"first") && told.put(0x1000, 0x20, b"second") && told.put(0x2000, 8, b""));
        let written = told.written;
        assert!(told.put(0x1000, 0x20, b"second") && told.put(0x2000, 9, b"") && told.written == written);
        assert_eq!(told.find(0x2008).map(|s| s.name), Some(&b""[..]));
        assert_eq!(told.find(0x101f).map(|s| s.name), Some(&b"second"[..]));
        assert_eq!(told.find(0x1020), None);
        assert!(told.put(0, 1, &[b'x'; MAX_NAME + 1]));
        assert_eq!(told.find(0).map(|s| s.name.len()), Some(MAX_NAME));
    }

    #[test]
    fn code_at_used_addresses_keeps_the_names_of_its_time() {
        let mut told = JitFunctions::with_changes(1 << 20, Collected::All);
        assert!(
            told.load(10, 0x1000, 0x40, b"a") && told.load(20, 0x1000, 0x40, b"b") && told.load(30, 0x1000, 0x40, b"b")
        );
        assert!(told.relocate(40, 0x1000, 0x8000, 0x40) && told.relocate(50, 0x5000, 0x6000, 0x40));
        let change =
            |time, start, generation| CodeChange { time, start, end: start + 0x40, at: tagged(0x1000, generation) };
        // A repeated report is not a change. Moved code keeps its first place.
        let [a, b] = [change(10, 0x1000, 1), change(20, 0x1000, 2)];
        assert_eq!(told.take_changes(), [a, b, change(40, 0x1000, 3), change(40, 0x8000, 2)]);
        let at = |generation| told.find(tagged(0x1004, generation)).map(|s| s.name);
        assert_eq!([0, 1, 2, 3].map(at), [None, Some(&b"a"[..]), Some(b"b"), None]);
        assert_eq!([0x1004, 0x8004].map(|at| told.find_newest(at).map(|s| s.name)), [None, Some(&b"b"[..])]);
        assert_eq!(told.find_newest(0x8004).map(|s| s.start..s.end), Some(0x8000..0x8040));
        // Moved back, and then other code at the place between.
        assert!(told.relocate(60, 0x8000, 0x1000, 0x40) && told.load(70, 0x8000, 0x40, b"c"));
        let away = |time, generation| CodeChange { at: tagged(0x8000, generation), ..change(time, 0x8000, 0) };
        assert_eq!(told.take_changes(), [away(60, 2), change(60, 0x1000, 2), away(70, 3)]);
    }

    #[test]
    fn only_changes_at_used_addresses_are_collected_on_request() {
        let mut told = JitFunctions::with_changes(1 << 20, Collected::Reused);
        assert!(told.load(10, 0x1000, 0x40, b"a") && told.load(20, 0x1000, 0x40, b"b"));
        let second = CodeChange { time: 20, start: 0x1000, end: 0x1040, at: tagged(0x1000, 2) };
        assert_eq!(told.take_changes(), [second]);
        let mut told = JitFunctions::new(1 << 20);
        assert!(told.load(20, 0x1000, 0x40, b"b") && told.relocate(40, 0x1000, 0x8000, 0x40));
        assert!(told.take_changes().is_empty());
        assert_eq!([0x1004, 0x8004].map(|at| told.find_only(at).map(|s| s.name)), [None, Some(&b"b"[..])]);
    }

    #[test]
    fn names_that_are_nobodys_any_more_take_no_room() {
        let mut told = JitFunctions::new(1 << 20);
        for i in 0..100_000u32 {
            assert!(told.put(0x1000, 16, format!("function_number_{i:08}_{}", "x".repeat(200)).as_bytes()), "{i}");
            assert!(told.put(0x2000, 16, b"the same"));
        }
        assert!(told.memory() < 5 * BLOCK, "{}", told.memory());
        assert!(told.find(0x1000).is_some_and(|s| s.name.starts_with(b"function_number_00099999_x")));
        assert_eq!(told.find(0x2000).map(|s| s.name), Some(&b"the same"[..]));
    }

    #[test]
    fn there_is_no_more_than_there_may_be() {
        for len in [0, 1, 20, 4096] {
            let mut told = JitFunctions::new(1 << 20);
            let taken = (0u64..).take_while(|i| told.put(i * 16, 16, &vec![b'n'; len])).count();
            assert!(told.memory() <= 1 << 20 && taken * (ENTRY + len) > (1 << 20) * 3 / 4, "{len}: {taken}");
            assert_eq!(told.find(16 * 5 + 3).map(|s| s.name.len()), Some(len));
        }
    }

    #[test]
    fn absurd_functions_name_nothing_and_are_counted() {
        let mut told = JitFunctions::new(1 << 20);
        for (start, size) in [(0x1000, u64::MAX), (0, 1 << 63), (u64::MAX - 8, 16), (0x1000, MOST_CODE + 1)] {
            assert!(told.put(start, size, b"evil"));
        }
        assert!(told.put(0x1000, MOST_CODE, b"large") && told.put(u64::MAX - 8, 8, b"last"));
        assert_eq!([0, 0xfff, 1 << 40, u64::MAX - 9].map(|at| told.find(at).is_some()), [false; 4]);
        assert_eq!((told.find(0x1000).map(|s| s.name), told.left_out.entries), (Some(&b"large"[..]), 4));
        assert!(told.left_out.to_string().ends_with("the first begins \"1000 ffffffffffffffff evil\""));
    }

    /// Long names that replace each other; the figures were computed by hand.
    #[test]
    fn names_are_written_anew_when_more_are_nobodys_than_a_block() {
        let name = |n: u8| vec![n; MAX_NAME];
        let mut told = JitFunctions::new(1 << 20);
        assert!(told.put(0x1000, 16, &name(0)));
        for n in 1..=17 {
            assert!(told.put(0x2000, 16, &name(n)));
            assert_eq!((told.written, told.live), ((usize::from(n) + 1) * MAX_NAME, 2 * MAX_NAME), "{n}");
        }
        // Sixteen names fill a block, the others are in the next.
        assert_eq!(told.names.iter().map(Vec::len).collect::<Vec<_>>(), [BLOCK, 2 * MAX_NAME]);
        assert!(told.put(0x2000, 16, &name(18)));
        assert_eq!((told.written, told.live), (2 * MAX_NAME, 2 * MAX_NAME));
        assert_eq!(told.names.iter().map(Vec::len).collect::<Vec<_>>(), [2 * MAX_NAME]);
        assert_eq!((told.find(0x1000).map(|s| s.name[9]), told.find(0x2000).map(|s| s.name[9])), (Some(0), Some(18)));
    }

    /// The first name is charged a whole block, although it takes less at first.
    #[test]
    fn room_is_there_to_the_byte() {
        let least = BLOCK + ENTRY;
        assert!(!JitFunctions::new(least - 1).put(1, 1, b"a") && JitFunctions::new(least).put(1, 1, b"a"));
        let mut told = JitFunctions::new(1 << 20);
        assert!(told.put(1, 1, b"name"));
        let grown = told.names[0].capacity();
        assert_eq!(told.memory(), grown + ENTRY);
        told.most = grown + 2 * ENTRY;
        assert!(told.put(2, 1, &vec![b'x'; grown - 4]), "there is room after it");
        assert!(!told.put(3, 1, b"y"));
        assert_eq!((told.memory(), told.list.len()), (grown + 2 * ENTRY, 2));
        // A full block doubles, or grows by the name's length if that is more.
        for (len, by) in [(1, grown), (grown, grown), (grown + 1, grown + 1), (BLOCK - grown, BLOCK - grown)] {
            assert_eq!(told.grows_by(len), by, "{len}");
        }
        assert_eq!((told.grows_by(0), told.grows_by(BLOCK - grown + 1)), (0, BLOCK));
        for (most, fits) in [(2 * grown + 3 * ENTRY - 1, false), (2 * grown + 3 * ENTRY, true)] {
            told.most = most;
            assert_eq!(told.put(3, 1, b"y"), fits);
        }
        assert_eq!(told.memory(), 2 * grown + 3 * ENTRY);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn functions_are_found_as_a_plain_map_has_them(
            puts in proptest::collection::vec((0u64..60, 0u64..30, 0usize..4, any::<u8>()), 0..60),
        ) {
            let mut told = JitFunctions::new(1 << 20);
            let mut plain: BTreeMap<u64, (u64, Vec<u8>)> = BTreeMap::new();
            for (start, size, len, byte) in puts {
                let name = vec![byte; [0, 1, 7, MAX_NAME][len]];
                prop_assert!(told.put(start, size, &name));
                plain.insert(start, (start + size, name));
                prop_assert_eq!(told.live, plain.values().map(|(_, name)| name.len()).sum::<usize>());
                prop_assert_eq!(told.written, told.names.iter().map(Vec::len).sum::<usize>());
                let blocks: usize = told.names.iter().map(Vec::capacity).sum();
                prop_assert_eq!(told.memory(), blocks + plain.len() * ENTRY);
            }
            for at in 0..100 {
                let covers = plain.range(..=at).rev().take(NESTING).find(|(_, (end, _))| at < *end);
                let found = told.find(at).map(|s| (s.start, s.end, s.name.to_vec()));
                prop_assert_eq!(found, covers.map(|(start, (end, name))| (*start, *end, name.clone())));
            }
        }
    }
}
