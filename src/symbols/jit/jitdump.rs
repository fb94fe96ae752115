//! jitdump files, in which a JIT reports the code that it creates (tools/perf/Documentation/jitdump-specification.txt).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use gimli::{Endianity, RunTimeEndian};

use super::functions::{JitFunctions, MAX_NAME};
use super::slice::{VisitBudget, VisitEnd};

/// "JiTD", written as a number: its bytes show the byte order of the machine that wrote the file.
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
    let Some((len, order)) = begin(file, upto, told)? else { return Ok(VisitEnd::All) };
    while let Some(head) = RecordHead::read(file, *upto, len, order)? {
        let Some(read) = take(file, *upto, head, order, told)? else { return Ok(VisitEnd::Full) };
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
    let Some((len, order)) = begin(file, upto, told)? else { return Ok(VisitEnd::All) };
    let most = told.most() / size_of::<(u64, u64)>();
    let mut all: Vec<(u64, u64)> = Vec::new();
    let end = loop {
        match RecordHead::read(file, *upto, len, order) {
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
        let Some(head) = RecordHead::read(file, at, len, order)? else { continue };
        if take(file, at, head, order, told)?.is_none() {
            return Ok(VisitEnd::Full);
        }
    }
    end
}

/// Reads the file's header; returns the file's size and byte order, or `None` if the header is not complete yet.
fn begin(file: &File, upto: &mut u64, told: &mut JitFunctions) -> io::Result<Option<(u64, RunTimeEndian)>> {
    let len = file.metadata()?.len();
    let Some(head) = FileHead::read(file, len)? else { return Ok(None) };
    if *upto == 0 {
        *upto = head.size;
        told.is_foreign_clock = head.flags & ARCH_TIMESTAMP != 0;
    }
    Ok(Some((len, head.order)))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHead {
    pub(crate) size: u64,
    /// The machine of the code, as in ELF files.
    pub(crate) machine: u32,
    /// The byte order of that machine, in which the file is written.
    pub(crate) order: RunTimeEndian,
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
        let mut orders = [RunTimeEndian::Little, RunTimeEndian::Big].into_iter();
        let Some(order) = orders.find(|order| order.read_u32(&head) == MAGIC) else {
            return Err(io::Error::other("not a jitdump file"));
        };
        let size = u64::from(order.read_u32(&head[8..])).max(head.len() as u64);
        Ok(Some(Self { size, machine: order.read_u32(&head[12..]), order, flags: order.read_u64(&head[32..]) }))
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
    pub(crate) fn read(file: &File, at: u64, len: u64, order: RunTimeEndian) -> io::Result<Option<Self>> {
        if at.saturating_add(HEAD) > len {
            return Ok(None);
        }
        let mut head = [0; HEAD as usize];
        file.read_exact_at(&mut head, at)?;
        let (kind, size) = (order.read_u32(&head), u64::from(order.read_u32(&head[4..])));
        if size < HEAD {
            return Err(io::Error::other(format!("damaged at byte {at}")));
        }
        Ok((at.saturating_add(size) <= len).then_some(Self { kind, size, time: order.read_u64(&head[8..]) }))
    }
}

/// Adds the function of a record. Returns the bytes that were read, or `None` if the table is full.
fn take(
    file: &File,
    at: u64,
    head: RecordHead,
    order: RunTimeEndian,
    told: &mut JitFunctions,
) -> io::Result<Option<usize>> {
    let mut body = [0; CODE_HEAD + MAX_NAME];
    let body = &mut body[..(head.size - HEAD).min((CODE_HEAD + MAX_NAME) as u64) as usize];
    file.read_exact_at(body, at + HEAD)?;
    Ok(take_body(head, body, order, told).then_some(body.len()))
}

fn take_body(head: RecordHead, body: &[u8], order: RunTimeEndian, told: &mut JitFunctions) -> bool {
    let (time, word) = (head.time, |i| word(body, i, order));
    match (head.kind, word(1), word(2), word(3), word(4)) {
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
pub(crate) fn word(body: &[u8], i: usize, order: RunTimeEndian) -> Option<u64> {
    body.get(8 * i..)?.first_chunk::<8>().map(|word| order.read_u64(word))
}

#[cfg(test)]
mod tests {
    use super::super::functions::Collected;
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

    /// A file as a machine of either byte order writes it.
    fn dump_of(order: RunTimeEndian) -> Vec<u8> {
        let half = |number: u32| if order.is_little_endian() { number.to_le_bytes() } else { number.to_be_bytes() };
        let word = |number: u64| if order.is_little_endian() { number.to_le_bytes() } else { number.to_be_bytes() };
        let mut out = [MAGIC, 1, 48, 62, 0, 7].map(half).concat();
        out.extend([900, ARCH_TIMESTAMP, 0].map(word).concat());
        let mut add = |kind: u32, time: u64, words: &[u64], rest: &[u8]| {
            out.extend([kind, (16 + 8 * words.len() + rest.len()) as u32].map(half).concat());
            out.extend(std::iter::once(&time).chain(words).flat_map(|number| word(*number)));
            out.extend(rest);
        };
        add(LOAD, 20, &[7 << 32 | 7, 0x2000, 0x2000, 4, 2], b"later\0code");
        add(LOAD, 10, &[7 << 32 | 7, 0x1000, 0x1000, 0x40, 1], b"moved\0");
        add(MOVE, 30, &[7 << 32 | 7, 0x1000, 0x1000, 0x8000, 0x40, 1], b"");
        out
    }

    #[test]
    fn a_file_of_either_byte_order_has_the_same_functions() {
        let of = |order: RunTimeEndian, by_time: bool| {
            let mut file = tempfile::tempfile().expect("file");
            file.write_all(&dump_of(order)).expect("write");
            let (mut all, mut upto) = (JitFunctions::with_changes(1 << 20, Collected::All), 0);
            let end = match by_time {
                true => read_by_time(&file, &mut upto, &mut all),
                false => read_on(&file, &mut upto, &mut all, &mut VisitBudget::default()),
            };
            assert_eq!(end.expect("read"), VisitEnd::All);
            let named = |at: u64| all.find_newest(at).map(|found| (found.start, found.end, found.name.to_vec()));
            let found = [0x1000, 0x2003, 0x2004, 0x803f].map(named);
            (found, upto, all.is_foreign_clock, all.take_changes())
        };
        for by_time in [false, true] {
            let little = of(RunTimeEndian::Little, by_time);
            assert_eq!(little.0[1], Some((0x2000, 0x2004, b"later".to_vec())));
            assert_eq!(little.0[3], Some((0x8000, 0x8040, b"moved".to_vec())));
            assert!(little.0[0].is_none() && little.0[2].is_none() && little.2 && little.3.len() == 4);
            assert_eq!(of(RunTimeEndian::Big, by_time), little);
        }
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
