//! The lines of functions of PHP, which each of their operations has.

use super::super::ProcessMemory;
use super::super::line_table::{FunctionLines, LineTable, cookie};
use super::super::strings::bytes;
use crate::kernel::walk::runtime::{RuntimeLayout, StringBytes};
use crate::record::interpreted::FunctionSource;

/// How the lines of a function are found: `zend_op_array` has the number of its operations, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpLines {
    pub(super) layout: RuntimeLayout,
    pub(super) operations: u8,
    pub(super) list: u8,
}

/// Bytes of an operation, and where it has its line; a function's type, that of the language's own functions.
const OPERATION: u32 = 32;
const LINE: usize = 24;
const USER: u8 = 2;
/// Operations that are read at most, and characters of a path.
const MOST: u32 = 1 << 15;
const MOST_OF_PATH: u64 = 4096;

/// Returns where a function has the number of its operations, and their list.
pub(super) fn known(version: (u8, u8)) -> Option<(u8, u8)> {
    Some(match version {
        (7, 4) => (60, 64),
        (8, 0 | 1) => (68, 72),
        (8, 2) => (80, 88),
        (8, 3) => (76, 80),
        (8, 4) => (96, 104),
        _ => return None,
    })
}

impl PhpLines {
    /// Reads the lines of the bytes at the first address as a function.
    pub(super) fn read_untrusted(&self, memory: &impl ProcessMemory) {
        if let Some(lines) = self.cookie(0, memory).and_then(|cookie| self.of((0, cookie), (1, 0), memory)) {
            let _ = (0..256).filter_map(|at| lines.at(at)).count();
        }
    }

    fn cookie(&self, code: u64, memory: &impl ProcessMemory) -> Option<u32> {
        cookie(&self.layout, code, memory, |at| string(at, memory))
    }

    /// Returns the lines of the function that is at an address and has this hash in walks; `None` if another is there now,
    /// or it is not understood. `pid` and `uid` are of its process.
    pub(crate) fn of(
        &self,
        (code, hash): (u64, u32),
        (pid, uid): (i32, u32),
        memory: &impl ProcessMemory,
    ) -> Option<FunctionLines> {
        let is_it = || self.cookie(code, memory) == Some(hash);
        is_it().then_some(())?;
        let word = |offset: u8| memory.word(code.wrapping_add(offset.into()));
        let half = |offset: u8| Some(word(offset)? as u32);
        (word(0)? as u8 == USER).then_some(())?;
        let (first, last) = (half(self.layout.first_line)?, half(self.layout.first_line + 4)?);
        let list = word(self.list)?;
        let mut operations = vec![0; (half(self.operations).filter(|n| *n <= MOST)? * OPERATION) as usize];
        memory.read(list, &mut operations)?;
        let mut table = LineTable::default();
        for operation in operations.as_chunks::<{ OPERATION as usize }>().0 {
            let line = u32::from_le_bytes(operation[LINE..LINE + 4].try_into().ok()?);
            // An operation's line is one of its function.
            table.push(OPERATION, Some(line).filter(|line| (first..=last).contains(line)));
        }
        let (len, characters) = string(word(self.layout.file)?, memory)?;
        let mut path = vec![0; len.min(MOST_OF_PATH) as usize];
        memory.read(characters, &mut path)?;
        let file = bytes(StringBytes { len: u32::try_from(len).ok()?, state: 0, bytes: &path }, false).into();
        // Its memory may have been used again meanwhile.
        is_it().then_some(())?;
        let start = list.wrapping_sub(code) as u32;
        let source = FunctionSource { file, first, last, pid, uid };
        (first > 0 && first <= last).then_some(FunctionLines { source, start, step: 1, table })
    }
}

/// Returns the number of a string's bytes, and where they are.
fn string(at: u64, memory: &impl ProcessMemory) -> Option<(u64, u64)> {
    Some((memory.word(at.wrapping_add(16))?, at.wrapping_add(24)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::cpython::tests::Pieces;
    use super::*;

    const CODE: u64 = 0x7000_1000;
    const LIST: u64 = 0x7000_0000;

    /// A function in lines 3 to 5 of `/srv/app.php`, without a name if it is the code of a file.
    fn process(lines: &PhpLines, name: Option<&str>) -> BTreeMap<u64, Vec<u8>> {
        let mut pieces = BTreeMap::new();
        let mut code = vec![0; 256];
        let mut put = |at: u8, bytes: &[u8]| code[usize::from(at)..][..bytes.len()].copy_from_slice(bytes);
        put(0, &[USER]);
        put(lines.layout.first_line, &[3, 0, 0, 0, 5, 0, 0, 0]);
        put(lines.layout.name, &name.map_or(0u64, |_| 0x2000).to_le_bytes());
        put(lines.layout.file, &0x3000u64.to_le_bytes());
        put(lines.operations, &4u32.to_le_bytes());
        put(lines.list, &LIST.to_le_bytes());
        pieces.insert(CODE, code);
        for (at, text) in [(0x2000, name.unwrap_or_default()), (0x3000, "/srv/app.php")] {
            let mut string = vec![0; 128];
            string[16] = text.len() as u8;
            string[24..24 + text.len()].copy_from_slice(text.as_bytes());
            pieces.insert(at, string);
        }
        let list = [3u8, 4, 4, 9].iter().flat_map(|line| {
            let mut operation = [0; OPERATION as usize];
            operation[LINE] = *line;
            operation
        });
        pieces.insert(LIST, list.collect());
        pieces
    }

    #[test]
    fn the_lines_of_a_function_are_those_of_its_operations() {
        for version in [(7, 4), (8, 0), (8, 1), (8, 2), (8, 3), (8, 4)] {
            let layout = super::super::known(version).expect("known");
            let (operations, list) = known(version).expect("known");
            assert!(list + 8 <= layout.file && operations + 4 <= list);
            let lines = PhpLines { layout, operations, list };
            for name in [Some("spin"), None] {
                let mut pieces = process(&lines, name);
                let hash = lines.cookie(CODE, &Pieces(pieces.clone())).expect("readable");
                let of = |hash, pieces: &BTreeMap<_, _>| lines.of((CODE, hash), (7, 1000), &Pieces(pieces.clone()));
                let found = of(hash, &pieces).expect("known");
                assert_eq!((&*found.source.file, found.source.first, found.source.last), ("/srv/app.php", 3, 5));
                // As the kernel writes them: where an operation is, less the function.
                let at = |operation: u64| found.at((LIST + operation).wrapping_sub(CODE) as u32).unwrap_or(0);
                assert_eq!([0, 32, 64, 96, 128].map(at), [3, 4, 4, 0, 0], "outside of its lines, and behind it");
                assert_eq!(found.at(1u32.wrapping_sub(CODE as u32)), None, "not known in the kernel");
                assert_eq!(of(hash ^ 1, &pieces), None);
                // A function that is written in C.
                pieces.get_mut(&CODE).expect("there")[0] = 1;
                assert_eq!(of(hash, &pieces), None);
            }
        }
    }
}
