//! Unwind tables of program text that was moved to memory without a file, such as huge pages.

use std::os::unix::fs::FileExt;

use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::Mark;
use crate::session::dso::is_anonymous;
use crate::symbols::bytes::Bytes;
use crate::symbols::moved_text::text_offset;
use crate::symbols::trust::find_file;

/// Memory in the middle of a program's mappings, which probably has its text.
#[derive(Debug)]
pub(super) struct MovedCode {
    /// A mapping of the program's file.
    pub(super) neighbour: ProcMapping,
    /// The memory, as if the file was mapped there.
    pub(super) map: ProcMapping,
    /// A word of the text. Walks check that it is in the memory.
    pub(super) mark: Mark,
}

impl MovedCode {
    /// Returns the program's text that memory probably has, given all mappings of the process.
    pub(super) fn of(pid: i32, memory: &ProcMapping, maps: &[ProcMapping]) -> Option<Self> {
        /// Bytes of the text in which a mark is searched.
        const START: usize = 4096;
        let neighbour = surrounding(memory, maps)?;
        let file = find_file::of_mapping(pid, neighbour).ok()?;
        let offset = text_offset(&Bytes::of(&file).ok()?, neighbour, memory.start)?;
        let map = ProcMapping { start: memory.start, end: memory.end, offset, ..neighbour.clone() };
        let mut text = vec![0; START];
        let len = file.read_at(&mut text, offset).ok()?.min((memory.end - memory.start) as usize);
        Some(Self { neighbour: neighbour.clone(), map, mark: mark(&text[..len], memory.start)? })
    }
}

/// Returns the mapping below memory, if the nearest files below and above are one.
fn surrounding<'a>(memory: &ProcMapping, maps: &'a [ProcMapping]) -> Option<&'a ProcMapping> {
    let at = maps.partition_point(|map| map.start < memory.start);
    let is_file = |map: &&ProcMapping| map.inode != 0 && !is_anonymous(&map.name);
    let (below, above) = (maps[..at].iter().rfind(is_file)?, maps[at..].iter().find(is_file)?);
    let file = |map: &ProcMapping| (map.major, map.minor, map.inode);
    (file(below) == file(above)).then_some(below)
}

/// Returns a word of text at an address that other memory hardly has: the one with the most different bytes.
fn mark(text: &[u8], address: u64) -> Option<Mark> {
    const LEAST: usize = 4;
    let different = |word: &[u8; 8]| (0..8).filter(|i| !word[..*i].contains(&word[*i])).count();
    let words = text.as_chunks::<8>().0.iter().enumerate().filter(|(_, word)| different(word) >= LEAST);
    let (at, word) = words.max_by_key(|(_, word)| different(word))?;
    Some(Mark { address: address + 8 * at as u64, word: u64::from_le_bytes(*word), is_strict: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::procfs;

    #[test]
    fn memory_in_a_program_has_its_text() {
        let lines = [
            "400000-401000 r--p 00000000 08:01 7 /bin/a",
            "401000-402000 r-xp 00000000 00:0e 5 /anon_hugepage (deleted)",
            "402000-403000 r--p 00002000 08:01 7 /bin/a",
            "500000-501000 rwxp 00000000 00:00 0",
            "600000-601000 r-xp 00000000 08:01 8 /lib/b",
            "700000-701000 rwxp 00000000 00:00 0",
        ];
        let maps = lines.map(|line| procfs::parse_maps_line(line.as_bytes()).expect("a line"));
        let around = |at: usize| surrounding(&maps[at], &maps).map(|map| map.start);
        assert_eq!([1, 3, 5].map(around), [Some(0x40_0000), None, None]);
    }

    #[test]
    fn a_mark_is_a_word_of_different_bytes() {
        let text = [[0x90; 8], [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 1]].concat();
        let found = mark(&text, 0x1000).expect("the second one");
        assert_eq!((found.address, found.word, found.is_strict), (0x1008, 0x0807_0605_0403_0201, true));
        assert_eq!(mark(&text[..15], 0), None);
    }
}
