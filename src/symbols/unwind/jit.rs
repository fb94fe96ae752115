//! Unwind tables of a JIT's code, from its jitdump file.
//! A record of tables precedes the record of its code (tools/perf/Documentation/jitdump-specification.txt).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use gimli::RunTimeEndian;

use crate::kernel::walk::rule::Rule;
use crate::symbols::jit::jitdump::{CODE_HEAD, FileHead, HEAD, LOAD, MOVE, RecordHead, word};
use crate::symbols::unwind::rows;

const UNWINDING: u32 = 4;
/// Bytes of a table record before the tables.
const TABLES_HEAD: usize = 24;
const MAX_TABLES: u64 = 1 << 16;
/// The limits of code pieces kept, and of records read at a time.
const MAX_PIECES: usize = 1 << 17;
const MAX_RECORDS: usize = 1 << 14;

/// The code searched for in memory. Its sizes, its alignment, and the limit of different sizes.
const COPIED: std::ops::RangeInclusive<usize> = 8..=256;
const ALIGNED: usize = 16;
const MAX_KINDS: usize = 8;

#[derive(Debug)]
pub(crate) struct JitRows {
    file: File,
    /// Bytes processed; `None` once reading has ended.
    upto: Option<u64>,
    is_arm: bool,
    /// The byte order of the file.
    order: RunTimeEndian,
    /// The tables of the next code record, and where `.eh_frame` ends in them.
    tables: Option<(Vec<u8>, usize)>,
    pieces: BTreeMap<u64, Piece>,
    /// The last rows created: most pieces have the same.
    last: Option<Arc<[u64]>>,
}

#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    /// Offsets from the start of the piece.
    rows: Arc<[u64]>,
}

impl JitRows {
    pub(crate) fn new(file: File) -> Self {
        let order = RunTimeEndian::default();
        Self { file, upto: Some(0), is_arm: false, order, tables: None, pieces: BTreeMap::new(), last: None }
    }

    /// Reads some of the new records. Returns `true` if code with tables was among them.
    pub(crate) fn read_on(&mut self) -> bool {
        let mut has_grown = false;
        for _ in 0..MAX_RECORDS {
            match self.next_record() {
                Ok(Some(came)) => has_grown |= came,
                Ok(None) => break,
                Err(_) => {
                    self.upto = None;
                    break;
                }
            }
        }
        has_grown
    }

    /// Reads a record; `None` if it is not complete yet.
    fn next_record(&mut self) -> std::io::Result<Option<bool>> {
        let Some(upto) = self.upto else { return Ok(None) };
        let len = self.file.metadata()?.len();
        if upto == 0 {
            let Some(head) = FileHead::read(&self.file, len)? else { return Ok(None) };
            self.is_arm = match head.machine {
                // CPython writes 0: the code is for this machine.
                0 => cfg!(target_arch = "aarch64"),
                machine => machine == u32::from(object::elf::EM_AARCH64.0),
            };
            (self.upto, self.order) = (Some(head.size), head.order);
            return Ok(Some(false));
        }
        let record = RecordHead::read(&self.file, upto, len, self.order)?;
        let Some(RecordHead { kind, size, .. }) = record else { return Ok(None) };
        self.upto = Some(upto + size);
        let wanted = match kind {
            LOAD | MOVE => CODE_HEAD as u64 + 8,
            UNWINDING => MAX_TABLES,
            _ => return Ok(Some(false)),
        };
        let mut body = vec![0; wanted.min(size - HEAD) as usize];
        self.file.read_exact_at(&mut body, upto + HEAD)?;
        Ok(Some(self.take(kind, &body)))
    }

    fn take(&mut self, kind: u32, body: &[u8]) -> bool {
        let order = self.order;
        let word = |i| word(body, i, order);
        match (kind, word(0), word(1), word(2), word(3), word(4)) {
            // The size of the tables, and of the search table at their end.
            (UNWINDING, Some(size), Some(searched), ..) => {
                let tables = body.get(TABLES_HEAD..).unwrap_or_default();
                let tables = usize::try_from(size).ok().and_then(|size| tables.get(..size));
                let frames = tables.zip(usize::try_from(searched).ok());
                self.tables =
                    frames.and_then(|(tables, searched)| Some((tables.to_vec(), tables.len().checked_sub(searched)?)));
                false
            }
            // PID and TID, the code's address when written, its address when run, its size.
            (LOAD, _, _, Some(address), Some(size), _) => {
                let tables = self.tables.take();
                self.forget(address, size);
                let rows = tables.and_then(|(tables, end)| rows::of_code(&tables[..end], size, self.is_arm, order));
                rows.is_some_and(|rows| self.put(address, size, &rows))
            }
            // PID and TID, address when written, old address, new address, size.
            (MOVE, _, _, Some(from), Some(to), Some(size)) => {
                let Some(piece) = self.pieces.remove(&from) else { return false };
                self.forget(to, size);
                self.put(to, size, &piece.rows)
            }
            _ => false,
        }
    }

    /// Forgets code that other code overlaps now.
    fn forget(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        let before = self.pieces.range(..address).next_back().filter(|(_, piece)| piece.end > address);
        let mut gone: Vec<u64> = before.map(|(at, _)| *at).into_iter().collect();
        gone.extend(self.pieces.range(address..end).map(|(at, _)| *at));
        gone.iter().for_each(|at| drop(self.pieces.remove(at)));
    }

    fn put(&mut self, address: u64, size: u64, rows: &[u64]) -> bool {
        let Some(end) = address.checked_add(size).filter(|_| self.pieces.len() < MAX_PIECES) else { return false };
        let rows = match &self.last {
            Some(last) if **last == *rows => last.clone(),
            _ => Arc::from(rows),
        };
        self.last = Some(rows.clone());
        self.pieces.insert(address, Piece { end, rows });
        true
    }

    /// Searches memory from an address on for copies of code with known rows.
    /// JITs write records late, and some write the same code for all functions. Returns `true` if there were some.
    pub(crate) fn find_copies(&mut self, start: u64, memory: &[u8]) -> bool {
        let bytes = |at: u64, len: usize| memory.get(usize::try_from(at - start).ok()?..)?.get(..len);
        let mut known: Vec<(&[u8], Arc<[u64]>)> = Vec::new();
        for (at, piece) in self.pieces.range(start..start.saturating_add(memory.len() as u64)) {
            let Some(own) = usize::try_from(piece.end - at).ok().and_then(|len| bytes(*at, len)) else { continue };
            if COPIED.contains(&own.len()) && known.len() < MAX_KINDS && known.iter().all(|(other, _)| *other != own) {
                known.push((own, piece.rows.clone()));
            }
        }
        let mut has_found = false;
        for at in (0..memory.len() as u64).step_by(ALIGNED).map(|at| start + at) {
            let is_known = self.pieces.range(..=at).next_back().is_some_and(|(_, piece)| at < piece.end);
            let copy = known.iter().filter(|_| !is_known).find(|(own, _)| bytes(at, own.len()) == Some(own));
            if let Some((own, rows)) = copy {
                has_found |= self.put(at, own.len() as u64, rows);
            }
        }
        has_found
    }

    pub(crate) fn rule(&self, address: u64) -> Rule {
        let piece = self.pieces.range(..=address).next_back().filter(|(_, piece)| address < piece.end);
        let Some((start, piece)) = piece else { return Rule::Gap };
        rows::rule_in(&piece.rows, address - start)
    }

    /// Returns the rows of the code in a range of addresses, relative to its start.
    pub(crate) fn rows(&self, start: u64, end: u64) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for (at, piece) in self.pieces.range(start..end) {
            for row in piece.rows.iter() {
                let Ok(at) = u32::try_from(at - start + u64::from(*row as u32)) else { return all };
                // A gap ends each piece; the next piece may begin there.
                if all.last().is_some_and(|last| *last as u32 == at) {
                    all.pop();
                }
                if all.last().is_none_or(|last| last >> 32 != row >> 32) {
                    all.push(row >> 32 << 32 | u64::from(at));
                }
            }
        }
        all
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;
    use crate::kernel::walk::rule::{Caller, Cfa, Saved};

    const LITTLE: RunTimeEndian = RunTimeEndian::Little;

    fn half(order: RunTimeEndian, number: u32) -> [u8; 4] {
        if order == LITTLE { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    fn word(order: RunTimeEndian, number: u64) -> [u8; 8] {
        if order == LITTLE { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    fn record(kind: u32, words: &[u64], rest: &[u8]) -> Vec<u8> {
        record_of(LITTLE, kind, words, rest)
    }

    fn record_of(order: RunTimeEndian, kind: u32, words: &[u64], rest: &[u8]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|number| word(order, *number)).chain(rest.iter().copied()).collect();
        let head = [half(order, kind), half(order, body.len() as u32 + 16)].concat();
        [&head[..], &word(order, 9), &body].concat()
    }

    /// Tables of a function that pushes a word in its first four bytes and pops it at its tenth, like CPython's.
    fn tables_of(order: RunTimeEndian, code_size: u64) -> Vec<u8> {
        let half = |number: u32| half(order, number);
        let mut out = [0x14, 0].map(half).concat();
        out.extend([1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b]);
        out.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
        let from = -(code_size.next_multiple_of(8) as i32 + out.len() as i32 + 8);
        out.extend([0x14, 0x1c, from as u32, code_size as u32].map(half).concat());
        out.extend([0, 0x44, 0x0e, 16, 0x46, 0x0e, 8, 0]);
        out.extend([0; 4]);
        // The search table, which is not read.
        [out, vec![1; 20]].concat()
    }

    /// A jitdump file with functions of 16 bytes at these addresses.
    pub(crate) fn dump(functions: &[u64]) -> Vec<u8> {
        dump_of(LITTLE, functions, 16, u32::from(object::elf::EM_X86_64.0))
    }

    fn dump_of(order: RunTimeEndian, functions: &[u64], size: u64, machine: u32) -> Vec<u8> {
        let mut out = [0x4a69_5444, 1, 40, machine].map(|number| half(order, number)).concat();
        out.resize(40, 0);
        for at in functions {
            let tables = tables_of(order, size);
            out.extend(record_of(order, UNWINDING, &[tables.len() as u64, 20, 0], &tables));
            out.extend(record_of(order, LOAD, &[0, *at, *at, size, 1], b"py::f\0"));
        }
        out
    }

    #[test]
    fn a_file_of_either_byte_order_has_the_same_rows() {
        let rows_of = |order: RunTimeEndian| {
            let mut file = tempfile::tempfile().expect("file");
            let dump = dump_of(order, &[0x5000, 0x5010, 0x5040], 16, u32::from(object::elf::EM_X86_64.0));
            let moved = record_of(order, MOVE, &[0, 0x5040, 0x5040, 0x5080, 16, 1], b"");
            file.write_all(&[dump, moved].concat()).expect("write");
            let mut rows = JitRows::new(file);
            assert!(rows.read_on(), "{order:?}");
            rows.rows(0x5000, 0x6000)
        };
        let rows = rows_of(LITTLE);
        assert_eq!((rows.len(), rows_of(RunTimeEndian::Big)), (10, rows));
    }

    #[test]
    fn code_has_the_rows_of_the_tables_before_it() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&dump(&[0x5000, 0x5010, 0x5040])).expect("write");
        let mut rows = JitRows::new(file.try_clone().expect("the same"));
        assert!(rows.read_on() && !rows.read_on());
        let frame = |n| Rule::Frame { cfa: Cfa::Sp(n), saved: Saved::Same, caller: Caller::OnTop };
        let at = [0x4fff, 0x5000, 0x5004, 0x500a, 0x5010, 0x5014, 0x5020, 0x5044].map(|at| rows.rule(at));
        let (plain, deep, gap) = (frame(8), frame(16), Rule::Gap);
        assert_eq!(at, [gap, plain, deep, plain, plain, deep, gap, deep]);
        let all: Vec<(u32, u32)> =
            rows.rows(0x5000, 0x6000).iter().map(|row| (*row as u32, (row >> 32) as u32)).collect();
        let (plain, deep, gap) = (plain.bits(), deep.bits(), gap.bits());
        let expected = [
            (0, plain),
            (4, deep),
            (10, plain),
            (0x14, deep),
            (0x1a, plain),
            (0x20, gap),
            (0x40, plain),
            (0x44, deep),
            (0x4a, plain),
            (0x50, gap),
        ];
        assert_eq!(all, expected);
        // Other code at the same place, without tables; moved code keeps its rows.
        file.write_all(&record(LOAD, &[0, 0x5008, 0x5008, 16, 1], b"g\0")).expect("write");
        file.write_all(&record(MOVE, &[0, 0x5040, 0x5040, 0x7000, 16, 1], b"")).expect("write");
        assert!(rows.read_on());
        let at = [0x5004, 0x500a, 0x5014, 0x5044, 0x7004].map(|at| rows.rule(at));
        assert_eq!(at, [Rule::Gap, Rule::Gap, Rule::Gap, Rule::Gap, frame(16)]);
    }

    #[test]
    fn copies_of_known_code_have_its_rows() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&dump(&[0x5000])).expect("write");
        let mut rows = JitRows::new(file);
        assert!(rows.read_on());
        let code: Vec<u8> = (1..17).collect();
        let memory = [&code[..], &[0; 16], &code, &code[..8]].concat();
        assert!(rows.find_copies(0x5000, &memory) && !rows.find_copies(0x5000, &memory));
        let at = [0x5004, 0x5014, 0x5024, 0x5034].map(|at| rows.rule(at) != Rule::Gap);
        assert_eq!(at, [true, false, true, false]);
    }

    /// CPython's functions have 11 bytes, and its files do not name the machine.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn copies_of_cpythons_code_have_its_rows() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&dump_of(LITTLE, &[0x5000], 11, 0)).expect("write");
        let mut rows = JitRows::new(file);
        let code = [0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3, 0, 0, 0, 0, 0];
        assert!(rows.read_on() && rows.find_copies(0x5000, &code.repeat(3)));
        let deep = Rule::Frame { cfa: Cfa::Sp(16), saved: Saved::Same, caller: Caller::OnTop };
        assert_eq!([0x5004, 0x5014, 0x5024].map(|at| rows.rule(at)), [deep; 3]);
    }

    #[test]
    fn damage_is_read_no_further() {
        let whole = dump(&[0x5000]);
        for len in 0..whole.len() {
            let mut file = tempfile::tempfile().expect("file");
            file.write_all(&whole[..len]).expect("write");
            JitRows::new(file).read_on();
        }
        let mut seed = 1u64;
        for _ in 0..500 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut broken = whole.clone();
            let at = (seed >> 33) as usize % whole.len();
            broken[at] = (seed >> 20) as u8;
            let mut file = tempfile::tempfile().expect("file");
            file.write_all(&broken).expect("write");
            let mut rows = JitRows::new(file);
            rows.read_on();
            rows.rows(0, u64::MAX);
        }
    }
}
