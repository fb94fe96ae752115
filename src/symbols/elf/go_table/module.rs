//! The runtime's description of a Go program (`moduledata` of runtime/symtab.go), which the linker writes into its data.
//! It has what the table of functions lacks: where the text begins, and where the trees of inlined calls are.

use gimli::RunTimeEndian;
use object::elf::Rela64;
use object::{LittleEndian, Object, ObjectSegment};

use super::{GoTable, Layout};
use crate::symbols::elf::{Elf, plt};

/// Words that are read.
const WORDS: usize = 48;
/// The word with the start of the text.
const TEXT: usize = 22;
/// The word with the start of the trees, and whether the end of the table follows it: Go 1.18, 1.20, 1.26 and 1.27.
const TREES: [(usize, bool); 4] = [(38, false), (40, false), (40, true), (43, true)];
/// The limit of sections of text. The next words are their list, by which versions are distinguished.
const MAX_TEXTS: u64 = 4096;
/// The limit of places that are looked at.
const MAX_PLACES: usize = 8;

pub(super) struct GoModule {
    pub(super) text: u64,
    pub(super) trees: Option<u64>,
}

impl GoModule {
    /// Finds the description by its first two words, which point to the table and to the names in it.
    pub(super) fn of(file: &Elf<'_>, table: &GoTable) -> Option<Self> {
        let linked = |at: usize| table.segments.to_address(at as u64);
        let first = [linked(table.at)?, linked(table.names)?];
        let is_little = table.endian == RunTimeEndian::Little;
        let mut wanted =
            if table.wide { first[0].to_be_bytes().to_vec() } else { (first[0] as u32).to_be_bytes().to_vec() };
        if is_little {
            wanted.reverse();
        }
        // The loader writes words that the file does not have.
        let moved = if table.wide && is_little { plt::relocations(file, ".rela.dyn") } else { &[] };
        let mut places = Vec::new();
        for segment in file.segments().filter(|segment| segment.permissions().writable()).take(16) {
            let (from, len) = segment.file_range();
            let (Ok(from), Ok(len)) = (usize::try_from(from), usize::try_from(len)) else { continue };
            let content = from.checked_add(len).and_then(|end| table.bytes.get(from..end)).unwrap_or_default();
            let found = memchr::memmem::find_iter(content, &wanted).take(MAX_PLACES);
            places.extend(found.map(|at| segment.address().wrapping_add(at as u64)));
        }
        let to_table = moved.iter().filter(|one| one.r_addend.get(LittleEndian) as u64 == first[0]);
        places.extend(to_table.map(|one| one.r_offset.get(LittleEndian)).take(MAX_PLACES));
        places.into_iter().find_map(|at| Self::at(table, at, first, moved))
    }

    fn at(table: &GoTable, at: u64, first: [u64; 2], moved: &[Rela64<LittleEndian>]) -> Option<Self> {
        let offset = usize::try_from(table.segments.to_offset(at)?).ok()?;
        let size = if table.wide { 8 } else { 4 };
        let word = |i: usize| table.pointer(offset.checked_add(i * size)?);
        let mut words = (0..WORDS).map(word).collect::<Option<Vec<u64>>>()?;
        for one in moved {
            let into = one.r_offset.get(LittleEndian).wrapping_sub(at);
            if into % 8 == 0
                && let Some(word) = usize::try_from(into / 8).ok().and_then(|i| words.get_mut(i))
            {
                *word = one.r_addend.get(LittleEndian) as u64;
            }
        }
        let is_mapped = |at: u64| table.segments.to_offset(at).is_some();
        if words[..2] != first || !is_mapped(words[TEXT]) {
            return None;
        }
        let is_it = |&&(trees, has_end): &&(usize, bool)| {
            let texts = trees + 1 + usize::from(has_end);
            let [start, len, room] = [words[texts], words[texts + 1], words[texts + 2]];
            (1..=MAX_TEXTS).contains(&len)
                && len == room
                && is_mapped(start)
                && is_mapped(words[trees])
                && (!has_end || words[trees + 1] > first[1])
        };
        let versions = if table.layout == Layout::Go118 { &TREES[..1] } else { &TREES[1..] };
        let trees = versions.iter().find(is_it).map(|(trees, _)| words[*trees]);
        Some(Self { text: words[TEXT], trees })
    }
}
