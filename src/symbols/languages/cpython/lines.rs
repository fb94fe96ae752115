//! The lines of functions of CPython, from the tables in their code objects (Objects/lnotab_notes.txt, PEP 626;
//! from 3.11 on Objects/locations.md).

use super::super::ProcessMemory;
use super::super::line_table::{FunctionLines, LineTable, cookie};
use super::super::strings::decode;
use crate::kernel::walk::runtime::{RuntimeLayout, StringBytes};
use crate::record::interpreted::FunctionSource;

/// How the lines of a code object are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpythonLines {
    pub(super) layout: RuntimeLayout,
    pub(super) format: TableFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableFormat {
    /// 3.8 and 3.9: pairs of steps of bytes and of lines.
    Steps,
    /// 3.10: pairs of a length in bytes and a step of lines.
    Ranges,
    /// Since 3.11: entries of a length in instructions, with numbers of 6 bits a byte.
    Locations,
}

/// The length of an object of variable size, the characters of a string of bytes, and the most that are read of a table
/// and of a path.
const SIZE: u64 = 16;
const BYTES: u64 = 32;
const MOST: u64 = 1 << 18;
const MOST_OF_PATH: u64 = 4096;

impl CpythonLines {
    /// Returns the lines of the function whose code object is at an address and has this hash in walks; `None` if
    /// another is there now, or its table is not understood. `pid` and `uid` are of its process.
    pub(crate) fn of(
        &self,
        (code, cookie): (u64, u32),
        (pid, uid): (i32, u32),
        memory: &impl ProcessMemory,
    ) -> Option<FunctionLines> {
        let is_it = || self.cookie(code, memory) == Some(cookie);
        is_it().then_some(())?;
        let at = |offset: u64| code.wrapping_add(offset);
        let half = |offset: u64| Some(memory.word(at(offset))? as u32);
        let first = half(self.layout.first_line.into()).filter(|line| *line > 0)?;
        let pointer = memory.word(at(self.layout.line_table.into()))?;
        let size = memory.word(pointer.wrapping_add(SIZE)).filter(|size| *size <= MOST)?;
        let mut bytes = vec![0; size as usize];
        memory.read(pointer.wrapping_add(BYTES), &mut bytes)?;
        let table = match self.format {
            TableFormat::Locations => locations(&bytes, first),
            TableFormat::Ranges => ranges(&bytes, first),
            TableFormat::Steps => {
                /// The offset of the bytecode's pointer.
                const CODE: u64 = 48;
                let len = memory.word(memory.word(at(CODE))?.wrapping_add(SIZE))?;
                steps(&bytes, first, u32::try_from(len).ok()?)
            }
        };
        let file = self.path(memory.word(at(self.layout.file.into()))?, memory)?.into();
        let last = table.last()?.max(first);
        // Its memory may have been used again meanwhile.
        is_it().then_some(())?;
        let step = if self.layout.is_index && self.format == TableFormat::Ranges { 2 } else { 1 };
        let start = if self.layout.is_index { 0 } else { self.layout.start.into() };
        Some(FunctionLines { source: FunctionSource { file, first, last, pid, uid }, start, step, table })
    }

    /// Returns the hash of what identifies a code object, as the kernel's walk computes it.
    fn cookie(&self, code: u64, memory: &impl ProcessMemory) -> Option<u32> {
        cookie(&self.layout, code, memory, |name| self.string(name, memory))
    }

    /// Reads the lines of the bytes at the first address as a function.
    pub(super) fn read_untrusted(&self, memory: &impl ProcessMemory) {
        if let Some(lines) = self.cookie(0, memory).and_then(|cookie| self.of((0, cookie), (1, 0), memory)) {
            let _ = (0..256).filter_map(|at| lines.at(at)).count();
        }
    }

    /// Returns the number of a string's bytes, and where they are.
    fn string(&self, at: u64, memory: &impl ProcessMemory) -> Option<(u64, u64)> {
        let (len, state) = (memory.word(at.wrapping_add(SIZE))?, self.state(at, memory)?);
        let characters = if state & 16 == 0 { self.layout.wide } else { self.layout.ascii };
        Some((len << ((state & 7) >> 1), at.wrapping_add(characters.into())))
    }

    /// Returns the bits of a string's state, from its kind on.
    fn state(&self, at: u64, memory: &impl ProcessMemory) -> Option<u32> {
        let mut state = [0; 4];
        memory.read(at.wrapping_add(SIZE + 16), &mut state)?;
        Some(u32::from_le_bytes(state) >> self.layout.kind_shift)
    }

    fn path(&self, at: u64, memory: &impl ProcessMemory) -> Option<String> {
        let state = self.state(at, memory)?;
        let (bytes, characters) = self.string(at, memory)?;
        let mut text = vec![0; bytes.min(MOST_OF_PATH) as usize];
        memory.read(characters, &mut text)?;
        let len = u32::try_from(bytes >> ((state & 7) >> 1)).ok()?;
        decode(StringBytes { len, state, bytes: &text }, 0, false)
    }
}

fn moved(line: u32, by: i32) -> u32 {
    // A line that cannot be is above all lines of the function, which have a limit.
    line.checked_add_signed(by).unwrap_or(u32::MAX)
}

fn steps(bytes: &[u8], first: u32, len: u32) -> LineTable {
    let (mut table, mut line, mut at) = (LineTable::default(), first, 0);
    for [by, lines] in bytes.as_chunks::<2>().0 {
        table.push(u32::from(*by), Some(line));
        at += u32::from(*by);
        line = moved(line, i32::from(*lines as i8));
    }
    table.push(len.saturating_sub(at), Some(line));
    table
}

fn ranges(bytes: &[u8], first: u32) -> LineTable {
    /// The range has no line.
    const NONE: i8 = -128;
    let (mut table, mut line) = (LineTable::default(), first);
    for [len, lines] in bytes.as_chunks::<2>().0 {
        let step = *lines as i8;
        let has_line = step != NONE;
        if has_line {
            line = moved(line, step.into());
        }
        table.push(u32::from(*len), has_line.then_some(line));
    }
    table
}

fn locations(bytes: &[u8], first: u32) -> LineTable {
    let (mut table, mut line, mut rest) = (LineTable::default(), first, bytes);
    while let Some((head, after)) = rest.split_first() {
        // Only the first byte of an entry has this bit.
        let end = after.iter().position(|byte| byte & 0x80 != 0).unwrap_or(after.len());
        let (own, next) = after.split_at(end);
        let kind = head >> 3 & 15;
        line = match kind {
            13 | 14 => moved(line, signed(own)),
            10..=12 => moved(line, i32::from(kind) - 10),
            _ => line,
        };
        table.push(2 * (u32::from(head & 7) + 1), (kind != 15).then_some(line));
        rest = next;
    }
    table
}

/// Reads a number of 6 bits a byte, the lowest first, whose lowest bit is its sign.
fn signed(bytes: &[u8]) -> i32 {
    let mut sum = 0u32;
    for (i, byte) in (0..6).zip(bytes) {
        sum |= u32::from(byte & 0x3f) << (6 * i);
        if byte & 0x40 == 0 {
            break;
        }
    }
    let size = (sum >> 1) as i32;
    if sum & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::known;
    use super::super::tests::Pieces;
    use super::*;

    fn found(table: &LineTable, at: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let lines = FunctionLines { table: table.clone(), ..FunctionLines::made("", 0..=0, &[]) };
        at.into_iter().map(|at| lines.at(at).unwrap_or(0)).collect()
    }

    /// The tables of each version for the same function, as its compiler writes them:
    /// `def spin(n):`, `for i in range(n):`, `n += (i *`, `n)`, `return n` in lines 4 to 8.
    #[test]
    fn each_version_has_its_table() {
        // 3.9: bytes 0..12 line 5, ..16 line 6, ..18 line 7, ..26 line 6, .. line 8.
        let of_39 = steps(&[0, 1, 12, 1, 4, 1, 2, 0xff, 8, 2], 4, 30);
        assert_eq!(found(&of_39, [0, 10, 12, 14, 16, 18, 24, 26, 28, 30]), [5, 5, 6, 6, 7, 6, 6, 8, 8, 0]);
        let of_310 = ranges(&[12, 1, 4, 1, 2, 1, 8, 0xff, 2, 0x80, 4, 2], 4);
        assert_eq!(found(&of_310, [0, 12, 16, 18, 24, 26, 28, 30, 32]), [5, 6, 7, 6, 6, 0, 8, 8, 0]);
        // RESUME in line 4, a long entry to line 5, one of a line to 6, one without columns back to 5, one without a line.
        let entries = [0x80, 0, 0xf3, 2, 2, 9, 10, 0xd9, 8, 9, 0xe8, 3, 0xf8, 0x80, 0];
        let of_311 = locations(&entries, 4);
        assert_eq!(found(&of_311, [0, 2, 8, 10, 12, 14, 16, 18, 20]), [4, 5, 5, 6, 6, 5, 0, 5, 0]);
        assert_eq!(found(&of_311, [1, 3]), [0, 0], "walks have odd bytes where an instruction is not known");
        assert_eq!([of_39.last(), of_310.last(), of_311.last()], [Some(8), Some(8), Some(6)]);
    }

    #[test]
    fn numbers_have_six_bits_a_byte() {
        assert_eq!([signed(&[2]), signed(&[3]), signed(&[0x40, 1]), signed(&[0x41, 1])], [1, -1, 32, -32]);
        assert_eq!((signed(&[]), signed(&[0x7f; 9])), (0, -i32::MAX));
    }

    const CODE: u64 = 0x1000;

    /// A code object of 3.11 with `spin` in `/srv/app.py`, whose first instructions are in lines 4 and 5.
    fn process(lines: &CpythonLines) -> BTreeMap<u64, Vec<u8>> {
        let mut pieces = BTreeMap::new();
        let mut code = vec![0; 256];
        let mut put = |at: usize, bytes: &[u8]| code[at..at + bytes.len()].copy_from_slice(bytes);
        put(lines.layout.first_line.into(), &4u32.to_le_bytes());
        put(lines.layout.name.into(), &0x2000u64.to_le_bytes());
        put(lines.layout.file.into(), &0x3000u64.to_le_bytes());
        put(lines.layout.line_table.into(), &0x4000u64.to_le_bytes());
        pieces.insert(CODE, code);
        for (at, text) in [(0x2000, "spin"), (0x3000, "/srv/app.py")] {
            let mut string = vec![0; 128];
            string[16..24].copy_from_slice(&(text.len() as u64).to_le_bytes());
            // Compact, of ASCII characters of one byte.
            string[32] = 1 << 6 | 1 << 5 | 1 << 2;
            string[usize::from(lines.layout.ascii)..][..text.len()].copy_from_slice(text.as_bytes());
            pieces.insert(at, string);
        }
        let mut table = vec![0; 64];
        table[16] = 4;
        table[32..36].copy_from_slice(&[0x80, 0, 0xd8, 0]);
        pieces.insert(0x4000, table);
        pieces
    }

    #[test]
    fn the_lines_of_a_code_object_are_those_of_its_memory() {
        let (layout, _) = known(11).expect("known");
        let lines = CpythonLines { layout, format: TableFormat::Locations };
        let mut pieces = process(&lines);
        let cookie = lines.cookie(CODE, &Pieces(pieces.clone())).expect("readable");
        let of = |cookie, pieces: &BTreeMap<_, _>| lines.of((CODE, cookie), (7, 1000), &Pieces(pieces.clone()));
        let found = of(cookie, &pieces).expect("known");
        let source = FunctionSource { file: "/srv/app.py".into(), first: 4, last: 5, pid: 7, uid: 1000 };
        assert_eq!(found.source, source);
        let start = u32::from(layout.start);
        let at = [0, start - 1, start, start + 2, start + 4, u32::MAX].map(|at| found.at(at).unwrap_or(0));
        assert_eq!(at, [0, 0, 4, 5, 0, 0]);
        // Another function is there now.
        assert_eq!(of(cookie ^ 1, &pieces), None);
        pieces.get_mut(&0x2000).expect("there")[usize::from(layout.ascii)] = b'S';
        assert_eq!(of(cookie, &pieces), None);
        assert_eq!(lines.of((0x9000, cookie), (7, 1000), &Pieces(pieces)), None);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn any_table_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..80), first in any::<u32>(), at in any::<u32>()) {
            for table in [steps(&bytes, first, at), ranges(&bytes, first), locations(&bytes, first)] {
                found(&table, [at, at % 256]);
            }
        }
    }
}
