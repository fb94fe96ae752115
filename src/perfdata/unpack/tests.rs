//! Tests of compressed content that is valid, damaged, or over the budget.

use super::*;
use std::io::Write;

const SIZE: usize = 16 << 20;

fn refused(result: Result<Vec<u8>, UnpackError>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn what_unpacks_to_more_than_its_share_is_refused_by_name() {
    let packed = ::zstd::bulk::compress(&vec![0; SIZE], 3).expect("packed");
    let mut purse = UnpackBudget::new(SIZE + 1);
    assert_eq!(zstd("a table", &packed, &mut purse).expect("fits").len(), SIZE);
    assert_eq!((purse.taken(), purse.left()), (SIZE, 1));
    let why = refused(zstd("a table", &packed, &mut purse));
    assert!(why.starts_with("a table would take 1 MB, more than its share"), "{why}");
    let mut xzs = Vec::new();
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut writer = lzma_rust2::XzWriter::new(&mut xzs, options).expect("xz");
    writer.write_all(&vec![0; SIZE]).expect("write");
    writer.finish().expect("finish");
    assert_eq!(xz("mini", &xzs, &mut UnpackBudget::new(SIZE + 1)).expect("fits").len(), SIZE);
    let mut small = UnpackBudget::new(SIZE / 4);
    assert!(refused(xz("mini", &xzs, &mut small)).contains("more than its share"));
    assert!(small.taken() <= SIZE / 4);
    assert!(refused(xz("mini", b"no xz at all", &mut UnpackBudget::new(SIZE))).contains("cannot be unpacked"));
    assert!(refused(zstd("x", b"no zstd at all", &mut UnpackBudget::new(SIZE))).contains("cannot be unpacked"));
}

/// A block of an xz file that requests a dictionary of 4 GiB, which is not allocated.
#[test]
fn a_dictionary_is_bounded() {
    let mut xzs = Vec::new();
    let mut writer = lzma_rust2::XzWriter::new(&mut xzs, lzma_rust2::XzOptions::with_preset(1)).expect("xz");
    writer.write_all(b"little").expect("write");
    writer.finish().expect("finish");
    // The header of the first block follows that of the stream: its size, flags, the filter, its one property.
    assert_eq!(xzs[12..16], [2, 0, 0x21, 1]);
    xzs[16] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&xzs[12..20]);
    xzs[20..24].copy_from_slice(&crc.sum().to_le_bytes());
    let why = refused(xz("mini", &xzs, &mut UnpackBudget::new(1 << 30)));
    assert!(why.contains("memory"), "{why}");
}

#[test]
fn a_purse_gives_no_more_than_it_has() {
    let purse = |purse: &UnpackBudget| (purse.left(), purse.taken());
    let mut p = UnpackBudget::new(100);
    p.take("a", 30).expect("there");
    p.take("b", 20).expect("there");
    assert_eq!(purse(&p), (50, 50));
    assert!(p.take("c", 51).is_err() && purse(&p) == (50, 50));
    p.give_back(15);
    assert_eq!(purse(&p), (65, 35));
    // No more is returned than was taken.
    p.give_back(1000);
    assert_eq!(purse(&p), (100, 0));
    p.take("a", 7).expect("there");
    let kept = p.attempt(|p| p.take("b", 10).map(|()| "made"));
    assert_eq!((kept.ok(), purse(&p)), (Some("made"), (83, 17)));
    let failed: Result<(), UnpackError> = p.attempt(|p| p.take("b", 23).and_then(|()| p.take("c", 1000)));
    assert_eq!((failed.is_err(), purse(&p)), (true, (83, 17)));
    let why = p.take("a table", (5 << 20) + 1).expect_err("too much").to_string();
    assert!(why.starts_with("a table would take 6 MB"), "{why}");
}

/// Returns an ELF file whose section `.data` is compressed as `kind` and claims `claimed` bytes (elf(5), `Elf64_Chdr`).
fn program(kind: Option<u32>, claimed: u64, packed: &[u8]) -> Vec<u8> {
    let half = |n: u16| n.to_le_bytes().to_vec();
    let word = |n: u32| n.to_le_bytes().to_vec();
    let long = |n: u64| n.to_le_bytes().to_vec();
    let names = b"\0.data\0\0";
    let head = kind.map(|kind| [word(kind), word(0), long(claimed), long(1)].concat()).unwrap_or_default();
    let content = [&head[..], packed].concat();
    let table = 64 + names.len() + content.len();
    let mut out = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9]].concat();
    out.extend([half(1), half(62), word(1), long(0), long(0), long(table as u64), word(0)].concat());
    out.extend([half(64), half(0), half(0), half(64), half(3), half(2)].concat());
    out.extend([&names[..], &content].concat());
    let section = |name: u32, kind: u32, flags: u64, at: usize, size: usize| {
        let place = [long(at as u64), long(size as u64)].concat();
        [word(name), word(kind), long(flags), long(0), place, long(0), long(1), long(0)].concat()
    };
    out.extend([0; 64]);
    out.extend(section(1, 1, if kind.is_some() { 1 << 11 } else { 0 }, 64 + names.len(), content.len()));
    out.extend(section(7, 3, 0, 64, names.len()));
    out
}

/// Returns the section's content or the error, and the rest of a budget of 4096 bytes.
fn unpacked(kind: Option<u32>, claimed: u64, packed: &[u8]) -> (Result<Vec<u8>, String>, usize) {
    use object::Object;
    let mut purse = UnpackBudget::new(4096);
    let program = program(kind, claimed, packed);
    let file = object::File::parse(&*program).expect("a program");
    let one = file.section_by_name(".data").expect("a section");
    let result = section(&one, &mut purse).map(Cow::into_owned).map_err(|why| why.to_string());
    (result, purse.left())
}

#[test]
fn a_section_is_unpacked_into_what_it_says_it_is() {
    let plain: Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&plain).expect("packed");
    let zlib = zlib.finish().expect("packed");
    let zstd = ::zstd::bulk::compress(&plain, 3).expect("packed");
    assert_eq!(unpacked(None, 0, &plain), (Ok(plain.clone()), 4096));
    for (kind, packed) in [(1, &zlib), (2, &zstd)] {
        assert_eq!(unpacked(Some(kind), 3000, packed), (Ok(plain.clone()), 1096), "{kind}");
        let (result, left) = unpacked(Some(kind), 4097, packed);
        assert!(result.is_err_and(|why| why.starts_with(".data would take 1 MB")) && left == 4096);
        let more = unpacked(Some(kind), 3001, packed).0.expect_err("less than it says");
        assert!(more.contains(".data cannot be unpacked: it has 3000 bytes instead of 3001"), "{more}");
        let damaged = unpacked(Some(kind), 3000, b"no packed bytes").0;
        assert!(damaged.is_err_and(|why| why.contains(".data cannot be unpacked")), "{kind}");
    }
    assert!(unpacked(Some(2), 2999, &zstd).0.is_err_and(|why| why.contains("cannot be unpacked")));
    let (result, left) = unpacked(Some(77), 3000, &zlib);
    assert!(result.is_err_and(|why| why.contains(".data cannot be unpacked")) && left == 4096);
}

struct Zeros {
    left: usize,
}

impl Read for Zeros {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = out.len().min(self.left).min(1000);
        out[..n].fill(0);
        self.left -= n;
        Ok(n)
    }
}

#[test]
fn room_for_what_does_not_say_how_much_it_is_is_taken_by_and_by() {
    let drained = |size: usize, share: usize| {
        let mut purse = UnpackBudget::new(share);
        let out = drain("zeros", Zeros { left: size }, &mut purse);
        (out.map(|out| out.len()).ok(), purse.taken())
    };
    // Memory that was charged but not needed is returned.
    for size in [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP] {
        assert_eq!(drained(size, SIZE), (Some(size), size), "{size}");
    }
    // Detecting the end takes a read past it, which needs a byte.
    assert_eq!(drained(99, 100), (Some(99), 99));
    assert_eq!(drained(100, 100), (None, 100));
    // First a step, then twice the previous size.
    assert_eq!(drained(3 * STEP, 3 * STEP - 1), (None, 3 * STEP - 1));
    assert_eq!(drained(usize::MAX, 4 * STEP), (None, 4 * STEP));
}

/// A window larger than the rest of the budget is accepted up to the size that distributions use.
#[test]
fn windows_are_as_large_as_what_is_left() {
    let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 3).expect("zstd");
    encoder.window_log(24).expect("a window");
    encoder.write_all(&vec![0; 20 << 20]).expect("packed");
    let packed = encoder.finish().expect("packed");
    assert_eq!(zstd("t", &packed, &mut UnpackBudget::new(40 << 20)).expect("fits").len(), 20 << 20);
    assert!(refused(zstd("t", &packed, &mut UnpackBudget::new(4 << 20))).contains("cannot be unpacked"));
}
