//! Lines of methods, from their compressed tables (compressedStream.hpp, constMethod.hpp).

use std::sync::Arc;

use super::layout::ConstantLayout;
use super::scopes::number;
use crate::symbols::languages::ProcessMemory;

/// The method has lines behind its bytecode.
const HAS_LINES: u16 = 1;
/// Bytes of a table that are read.
const TABLE: usize = 1 << 14;
/// Bytes that are read at a time: the next ones may not be there.
const STEP: usize = 64;

/// The lines of a method: the bytecode's index at the start of each, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MethodLines {
    pub(super) source: Arc<str>,
    pub(super) starts: Vec<(u32, u32)>,
}

impl MethodLines {
    /// Returns the line of an index of bytecode; 0 if it is not known.
    pub(super) fn at(&self, index: u32) -> u32 {
        let after = self.starts.partition_point(|(start, _)| *start <= index);
        after.checked_sub(1).map_or(0, |i| self.starts[i].1)
    }
}

impl ConstantLayout {
    /// Returns the lines of a method, given its constant part; none if it was compiled without them, or they are damaged.
    pub(super) fn lines(&self, constant: u64, version: u8, memory: &impl ProcessMemory) -> MethodLines {
        self.read_lines(constant, version, memory).unwrap_or_default()
    }

    fn read_lines(&self, constant: u64, version: u8, memory: &impl ProcessMemory) -> Option<MethodLines> {
        let layout = self.lines?;
        let short = |at: u64| memory.word(at).map(|word| word as u16);
        let (flags, len) =
            (short(constant.checked_add(layout.flags)?)?, short(constant.checked_add(layout.code_size)?)?);
        (flags & HAS_LINES != 0).then_some(())?;
        let pool = memory.word(constant.checked_add(self.constants)?)?;
        let source = short(pool.checked_add(layout.source)?).filter(|index| *index > 0)?;
        let length = memory.word(pool.checked_add(self.pool_length)?)? as u32;
        (u32::from(source) < length).then_some(())?;
        let source = memory.word(pool.checked_add(self.pool_size + 8 * u64::from(source))?)?;
        let source = self.symbol(source, memory)?.into();
        let table = table(constant.checked_add(layout.constant_size)?.checked_add(len.into())?, version, memory)?;
        // The table is not always in order of the bytecode.
        let mut starts: Vec<(u32, u32)> = table.into_iter().filter(|(start, _)| *start < u32::from(len)).collect();
        starts.sort_by_key(|(start, _)| *start);
        starts.dedup_by_key(|(start, _)| *start);
        Some(MethodLines { source, starts })
    }
}

/// Reads a table up to its end; `None` without an end.
fn table(at: u64, version: u8, memory: &impl ProcessMemory) -> Option<Vec<(u32, u32)>> {
    let mut bytes = Vec::new();
    while bytes.len() < TABLE {
        let from = at.checked_add(bytes.len() as u64)?;
        // No read leaves a page.
        let step = STEP.min(4096 - (from % 4096) as usize);
        let before = bytes.len();
        bytes.resize(before + step, 0);
        memory.read(from, &mut bytes[before..])?;
        if let Some(lines) = decode(&bytes, version) {
            return Some(lines);
        }
    }
    None
}

/// Returns the indexes and lines of a table; `None` if its end is not there. A byte has both steps, or two numbers follow.
fn decode(bytes: &[u8], version: u8) -> Option<Vec<(u32, u32)>> {
    const NUMBERS: u8 = 0xff;
    let (mut out, mut rest, mut index, mut line) = (Vec::new(), bytes, 0u32, 0u32);
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        let steps = match *first {
            0 => return Some(out),
            NUMBERS => [number(&mut rest, version)?, number(&mut rest, version)?].map(signed),
            both => [i32::from(both >> 3), i32::from(both & 7)],
        };
        index = index.wrapping_add_signed(steps[0]);
        line = line.wrapping_add_signed(steps[1]);
        out.push((index, line));
    }
}

fn signed(number: u32) -> i32 {
    (number >> 1) as i32 ^ -((number & 1) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_lines_are_read() {
        // Lines 102 from 0 on (two numbers), 104 from 3 on, 103 from 9 on (two numbers).
        for (version, unused) in [(17, 0), (25, 1)] {
            // A number with a byte from 192 on has another one.
            let table = [0xff, unused, 204 + unused, unused, 3 << 3 | 2, 0xff, 12 + unused, 1 + unused, 0];
            let found = decode(&table, version).expect("whole");
            assert_eq!(found, [(0, 102), (3, 104), (9, 103)]);
            (0..table.len()).for_each(|len| assert_eq!(decode(&table[..len], version), None));
            let lines = MethodLines { starts: found, ..MethodLines::default() };
            assert_eq!([0, 2, 3, 8, 9, 99].map(|index| lines.at(index)), [102, 102, 104, 104, 103, 103]);
        }
        assert_eq!(decode(&[0], 17), Some(Vec::new()));
        assert_eq!(MethodLines::default().at(0), 0);
    }
}
