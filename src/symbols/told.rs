//! Functions that a JIT told of, one by one, in as many bytes as it may take.

use std::collections::BTreeMap;

use super::table::Symbol;

/// How far back a covering function is searched.
const NESTING: usize = 16;
/// A longer name is cut.
pub const MAX_NAME: usize = 4096;
/// Bytes of a block of names: there is none to be copied into a larger one.
const BLOCK: usize = 1 << 16;
/// More than this has no place in the numbers of blocks.
const MOST: usize = BLOCK << 15;
/// Bytes that a function takes beside its name in a B-tree whose nodes are as empty as they may be:
/// 288 of a leaf for five of them, and a part of the nodes above.
const ENTRY: usize = 80;

/// Where a function ends, and where its name is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    block: u16,
    at: u16,
    len: u16,
}

/// Functions by address; a later one takes an earlier one's place.
#[derive(Debug)]
pub struct Told {
    list: BTreeMap<u64, Entry>,
    names: Vec<Vec<u8>>,
    /// Bytes of names, and of those that are still somebody's.
    written: usize,
    live: usize,
    most: usize,
}

impl Told {
    /// That may take so many bytes.
    pub fn new(most: usize) -> Self {
        Self { list: BTreeMap::new(), names: Vec::new(), written: 0, live: 0, most: most.min(MOST) }
    }

    /// Adds a function. `false` when there is no more room.
    pub fn put(&mut self, start: u64, size: u64, name: &[u8]) -> bool {
        let name = &name[..name.len().min(MAX_NAME)];
        let end = start.saturating_add(size);
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

    /// Takes a function out; its end and its name.
    pub fn remove(&mut self, start: u64) -> Option<(u64, Vec<u8>)> {
        let entry = self.list.remove(&start)?;
        let name = self.name(entry).to_vec();
        self.live -= name.len();
        Some((entry.end, name))
    }

    pub fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        let before = self.list.range(..=addr).rev().take(NESTING);
        let (start, entry) = before.into_iter().find(|(_, entry)| addr < entry.end)?;
        Some(Symbol { start: *start, end: entry.end, name: self.name(*entry) })
    }

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        self.names.iter().map(Vec::capacity).sum::<usize>() + self.list.len() * ENTRY
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

    /// Writes a name behind the others. The first block grows as it is needed: most processes tell little.
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

    /// Writes the names that are still somebody's anew, block by block.
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

    #[test]
    fn later_functions_take_the_place_of_earlier_ones() {
        let mut told = Told::new(1 << 20);
        assert!(told.put(0x1000, 0x10, b"first") && told.put(0x1000, 0x20, b"second") && told.put(0x2000, 8, b""));
        assert_eq!(told.find(0x101f).map(|s| s.name), Some(&b"second"[..]));
        assert_eq!(told.find(0x1020), None);
        assert_eq!(told.remove(0x1000), Some((0x1020, b"second".to_vec())));
        assert_eq!(told.find(0x1000), None);
        assert_eq!(told.remove(0x1000), None);
        assert!(told.put(0, 1, &[b'x'; MAX_NAME + 1]));
        assert_eq!(told.find(0).map(|s| s.name.len()), Some(MAX_NAME));
    }

    /// Whoever writes one function over and over again takes no more room than for one.
    #[test]
    fn names_that_are_nobodys_any_more_take_no_room() {
        let mut told = Told::new(1 << 20);
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
            let mut told = Told::new(1 << 20);
            let taken = (0u64..).take_while(|i| told.put(i * 16, 16, &vec![b'n'; len])).count();
            assert!(told.memory() <= 1 << 20 && taken * (ENTRY + len) > (1 << 20) * 3 / 4, "{len}: {taken}");
            assert_eq!(told.find(16 * 5 + 3).map(|s| s.name.len()), Some(len));
        }
    }
}
