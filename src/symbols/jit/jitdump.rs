//! jitdump files, in which a JIT reports the code that it creates (tools/perf/Documentation/jitdump-specification.txt).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::functions::{JitFunctions, MAX_NAME};
use super::slice::{VisitBudget, VisitEnd};

/// "JiTD" as a little-endian machine writes it.
const MAGIC: u32 = 0x4a69_5444;
pub(crate) const LOAD: u32 = 0;
pub(crate) const MOVE: u32 = 1;
/// The flag of a file whose times are CPU counter values. Its name is `JITDUMP_FLAGS_ARCH_TIMESTAMP`.
const ARCH_TIMESTAMP: u64 = 1;
/// Bytes of a record's header: type, size, time.
pub(crate) const HEAD: u64 = 16;
/// Bytes of a code record before the name.
pub(crate) const CODE_HEAD: usize = 40;
/// The charge for a record in addition to its bytes: two reads.
const RECORD: usize = 64;

/// Reads the new complete records in the order of the file; skips the code itself.
///
/// # Errors
/// If the file is not a jitdump file, or a record is damaged.
pub fn read_on(file: &File, upto: &mut u64, told: &mut JitFunctions, slice: &mut VisitBudget) -> io::Result<VisitEnd> {
    let Some(len) = begin(file, upto, told)? else { return Ok(VisitEnd::All) };
    while let Some(head) = RecordHead::read(file, *upto, len)? {
        let Some(read) = take(file, *upto, head, told)? else { return Ok(VisitEnd::Full) };
        *upto += head.size;
        if !slice.take(RECORD + read) {
            return Ok(VisitEnd::Part);
        }
    }
    Ok(VisitEnd::All)
}

/// Reads all complete records in the order of their times: threads of a JIT may write them in another one. Fails if the
/// file is not a jitdump file, or a record is damaged; the records before it are read.
pub(crate) fn read_by_time(file: &File, upto: &mut u64, told: &mut JitFunctions) -> io::Result<VisitEnd> {
    let Some(len) = begin(file, upto, told)? else { return Ok(VisitEnd::All) };
    let most = told.most() / size_of::<(u64, u64)>();
    let mut all: Vec<(u64, u64)> = Vec::new();
    let end = loop {
        match RecordHead::read(file, *upto, len) {
            Ok(Some(head)) if all.len() < most => {
                if matches!(head.kind, LOAD | MOVE) {
                    all.push((head.time, *upto));
                }
                *upto += head.size;
            }
            Ok(Some(_)) => break Ok(VisitEnd::Full),
            Ok(None) => break Ok(VisitEnd::All),
            Err(error) => break Err(error),
        }
    };
    // Records of one time stay in the order of the file.
    all.sort_by_key(|(time, _)| *time);
    for (_, at) in all {
        let Some(head) = RecordHead::read(file, at, len)? else { continue };
        if take(file, at, head, told)?.is_none() {
            return Ok(VisitEnd::Full);
        }
    }
    end
}

/// Reads the file's header if not yet done; returns the file's size, or `None` if the header is not complete yet.
fn begin(file: &File, upto: &mut u64, told: &mut JitFunctions) -> io::Result<Option<u64>> {
    let len = file.metadata()?.len();
    if *upto == 0 {
        let Some(head) = FileHead::read(file, len)? else { return Ok(None) };
        *upto = head.size;
        told.is_foreign_clock = head.flags & ARCH_TIMESTAMP != 0;
    }
    Ok(Some(len))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHead {
    pub(crate) size: u64,
    /// The machine of the code, as in ELF files.
    pub(crate) machine: u32,
    flags: u64,
}

impl FileHead {
    /// Reads the header; `None` if it is not complete yet.
    pub(crate) fn read(file: &File, len: u64) -> io::Result<Option<Self>> {
        let mut head = [0; 40];
        if len < head.len() as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut head, 0)?;
        if u32_at(&head, 0) != MAGIC {
            return Err(io::Error::other("not a jitdump file of this machine's byte order"));
        }
        let size = u64::from(u32_at(&head, 8)).max(head.len() as u64);
        Ok(Some(Self { size, machine: u32_at(&head, 12), flags: u64_at(&head, 32) }))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    pub(crate) kind: u32,
    /// Bytes of the record with this header.
    pub(crate) size: u64,
    time: u64,
}

impl RecordHead {
    /// Reads the header at a position; `None` if the record is not complete yet.
    pub(crate) fn read(file: &File, at: u64, len: u64) -> io::Result<Option<Self>> {
        if at.saturating_add(HEAD) > len {
            return Ok(None);
        }
        let mut head = [0; HEAD as usize];
        file.read_exact_at(&mut head, at)?;
        let (kind, size) = (u32_at(&head, 0), u64::from(u32_at(&head, 4)));
        if size < HEAD {
            return Err(io::Error::other(format!("damaged at byte {at}")));
        }
        Ok((at.saturating_add(size) <= len).then_some(Self { kind, size, time: u64_at(&head, 8) }))
    }
}

/// Adds the function of a record. Returns the bytes that were read, or `None` if the table is full.
fn take(file: &File, at: u64, head: RecordHead, told: &mut JitFunctions) -> io::Result<Option<usize>> {
    let mut body = [0; CODE_HEAD + MAX_NAME];
    let body = &mut body[..(head.size - HEAD).min((CODE_HEAD + MAX_NAME) as u64) as usize];
    file.read_exact_at(body, at + HEAD)?;
    Ok(take_body(head.kind, head.time, body, told).then_some(body.len()))
}

fn take_body(kind: u32, time: u64, body: &[u8], told: &mut JitFunctions) -> bool {
    let word = |i| word(body, i);
    match (kind, word(1), word(2), word(3), word(4)) {
        // PID and TID, address when written, address when run, size, number; then the name and the code.
        (LOAD, Some(_), Some(address), Some(size), Some(_)) => {
            let rest = body.get(CODE_HEAD..).unwrap_or_default();
            let name = &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())];
            told.load(time, address, size, name)
        }
        // PID and TID, address when written, old address, new address, size.
        (MOVE, Some(_), Some(from), Some(to), Some(size)) => told.relocate(time, from, to, size),
        _ => true,
    }
}

/// Returns a word of a record's body.
pub(crate) fn word(body: &[u8], i: usize) -> Option<u64> {
    body.get(8 * i..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    word(bytes, at / 8).unwrap_or(0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::super::reuse::tagged;
    use super::*;
    use std::io::Write;

    fn record(kind: u32, words: &[u64], name: &[u8], code: usize) -> Vec<u8> {
        let mut body: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        body.extend_from_slice(name);
        body.resize(body.len() + code, 0x90);
        let mut out = [kind.to_le_bytes(), (body.len() as u32 + 16).to_le_bytes()].concat();
        out.extend_from_slice(&9u64.to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    #[test]
    fn code_is_loaded_moved_and_read_on() {
        let mut file = tempfile::tempfile().expect("file");
        let mut head = [0; 40];
        head[..4].copy_from_slice(&MAGIC.to_le_bytes());
        head[8] = 40;
        file.write_all(&head).expect("write");
        file.write_all(&record(LOAD, &[0, 0x1000, 0x1000, 0x40, 1], b"Foo.bar(I)V\0", 0x40)).expect("write");
        let (mut all, mut upto) = (JitFunctions::new(1 << 20), 0);
        let mut read = |file: &File, all: &mut JitFunctions| read_on(file, &mut upto, all, &mut VisitBudget::default());
        assert_eq!(read(&file, &mut all).expect("read"), VisitEnd::All);
        assert_eq!(all.find_newest(0x103f).expect("function").name, b"Foo.bar(I)V");
        let moved = record(MOVE, &[0, 0x1000, 0x1000, 0x8000, 0x40, 1], b"", 0);
        file.write_all(&moved[..20]).expect("half");
        assert_eq!(read(&file, &mut all).expect("read"), VisitEnd::All);
        file.write_all(&moved[20..]).expect("rest");
        assert_eq!(read(&file, &mut all).expect("read"), VisitEnd::All);
        assert!(all.find_newest(0x1000).is_none());
        // Samples taken before the move keep its name.
        assert_eq!(all.find(tagged(0x1000, 1)).expect("function").name, b"Foo.bar(I)V");
        assert_eq!(all.find_newest(0x8000).expect("function").name, b"Foo.bar(I)V");
        file.write_all(&[0; 16]).expect("damage");
        assert!(read(&file, &mut all).is_err());
    }

    #[test]
    fn what_is_none_is_an_error() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&[1; 100]).expect("write");
        assert!(read_on(&file, &mut 0, &mut JitFunctions::new(1 << 20), &mut VisitBudget::default()).is_err());
    }

    #[test]
    fn a_visit_to_many_records_ends_with_its_slice() {
        let mut file = tempfile::tempfile().expect("file");
        let mut head = [0; 40];
        head[..4].copy_from_slice(&MAGIC.to_le_bytes());
        head[8] = 40;
        file.write_all(&head).expect("write");
        file.write_all(&record(9, &[], b"", 0).repeat(100_000)).expect("write");
        let mut upto = 0;
        let mut visit =
            || read_on(&file, &mut upto, &mut JitFunctions::new(1 << 20), &mut VisitBudget::default()).expect("read");
        assert_eq!((visit(), visit()), (VisitEnd::Part, VisitEnd::Part));
        assert!(upto < 2 * 5000 * 16, "{upto}");
        let long = [9u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        (0..4).for_each(|i| file.write_all_at(&long, 40 + i * u64::from(u32::MAX)).expect("write"));
        file.set_len(1 << 40).expect("a sparse file");
        let why = read_on(&file, &mut 0, &mut JitFunctions::new(1 << 20), &mut VisitBudget::default())
            .expect_err("damaged")
            .to_string();
        assert!(why.contains("damaged at byte 17179869220"), "{why}");
    }
}
