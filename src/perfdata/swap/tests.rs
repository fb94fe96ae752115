//! Tests with records of machines of either byte order.

use super::*;
use crate::record::Record;
use crate::record::kinds::{Header, Mmap, split};

/// A record of a big-endian machine, encoded by hand.
#[test]
fn a_mapping_from_a_big_endian_machine() {
    let mut big = Vec::new();
    big.extend_from_slice(&[0u8; HEADER]);
    for word in [7u32, 8] {
        big.extend(word.to_be_bytes());
    }
    for word in [0x1000u64, 0x2000, 0x30] {
        big.extend(word.to_be_bytes());
    }
    big.extend_from_slice(b"/bin/a\0\0");
    big.extend(7u32.to_be_bytes());
    big.extend(8u32.to_be_bytes());
    big.extend(99u64.to_be_bytes());
    let size = big.len() as u16;
    big[..4].copy_from_slice(&types::MMAP.to_le_bytes());
    big[6..8].copy_from_slice(&size.to_le_bytes());
    let layout = Layout { sample_type: 0b110, id_all: true, ..Layout::default() };
    Swapper::new([(layout, vec![])].into_iter(), false).body(types::MMAP, 2, &mut big);
    let (header, body, _) = split(&big).expect("record").expect("one");
    let Ok(Record::Mmap(Mmap { pid, tid, start, len, pgoff, name, .. })) = Record::decode(header, body, false) else {
        panic!()
    };
    assert_eq!((pid, tid, start, len, pgoff, name), (7, 8, 0x1000, 0x2000, 0x30, &b"/bin/a"[..]));
    assert_eq!(layout.trailer(body).map(|t| (t.pid, t.time)), Some((7, 99)));
}

#[test]
fn a_sample_with_a_chain_and_raw_bytes() {
    let layout = Layout { sample_type: 0b110 | bit::CALLCHAIN | bit::RAW, ..Layout::default() };
    let mut big = vec![0; HEADER];
    big.extend(1u32.to_be_bytes());
    big.extend(2u32.to_be_bytes());
    for word in [5u64, 2, 0xaa, 0xbb] {
        big.extend(word.to_be_bytes());
    }
    big.extend(4u32.to_be_bytes());
    big.extend([1, 2, 3, 4]);
    Swapper::new([(layout, vec![])].into_iter(), false).body(types::SAMPLE, 2, &mut big);
    let header = Header { kind: types::SAMPLE, misc: 2, size: 0 };
    let s = layout.sample(header, &big[HEADER..]).expect("sample");
    assert_eq!((s.pid, s.tid, s.time, s.raw), (1, 2, 5, &[1, 2, 3, 4][..]));
    assert_eq!(s.chain().collect::<Vec<_>>(), [0xaa, 0xbb]);
}

#[derive(Clone, Copy, Debug)]
enum Part {
    H(u16),
    W(u32),
    L(u64),
    B(&'static [u8]),
}
use Part::{B, H, L, W};

fn written(parts: &[Part], big: bool) -> Vec<u8> {
    let order = |mut bytes: Vec<u8>| {
        if big {
            bytes.reverse();
        }
        bytes
    };
    let one = |part: &Part| match part {
        H(n) => order(n.to_le_bytes().to_vec()),
        W(n) => order(n.to_le_bytes().to_vec()),
        L(n) => order(n.to_le_bytes().to_vec()),
        B(bytes) => bytes.to_vec(),
    };
    let body: Vec<u8> = parts.iter().flat_map(one).collect();
    [&[0; HEADER][..], &body].concat()
}

fn is_turned(swapper: &Swapper, kind: u32, misc: u16, parts: &[Part]) {
    let (mut big, little) = (written(parts, true), written(parts, false));
    swapper.body(kind, misc, &mut big);
    assert_eq!(big, little, "type {kind}: {parts:x?}");
}

const ONE: u64 = 0x0102_0304_0506_0708;
const TWO: u32 = 0x1112_1314;

#[test]
fn each_type_is_turned_by_its_layout() {
    let layout = Layout { sample_type: 0b110 | bit::CPU | 1 << 9 | 1 << 6, id_all: true, ..Layout::default() };
    let trailer = [W(TWO), W(TWO + 1), L(ONE), L(ONE + 1), L(ONE + 2), W(TWO + 2), W(0)];
    let plain = Layout::default();
    let bodies: &[(u32, u16, &[Part])] = &[
        (types::MMAP, 0, &[W(TWO), W(7), L(ONE), L(2), L(3), B(b"/bin/a\0\0")]),
        (
            types::MMAP2,
            0,
            &[W(TWO), W(7), L(ONE), L(2), L(3), W(8), W(9), L(ONE + 9), L(5), W(5), W(6), B(b"/bin/a\0\0")],
        ),
        (
            types::MMAP2,
            misc::MMAP_BUILD_ID,
            &[W(TWO), W(7), L(ONE), L(2), L(3), B(b"\x14\0\0\0abcdefghijklmnopqrst"), W(5), W(6), B(b"/bin/a\0\0")],
        ),
        (types::COMM, 0, &[W(TWO), W(7), B(b"name\0\0\0\0")]),
        (types::SWITCH_CPU_WIDE, 0, &[W(TWO), W(7)]),
        (types::ITRACE_START, 0, &[W(TWO), W(7)]),
        (types::FORK, 0, &[W(TWO), W(1), W(2), W(3), L(ONE)]),
        (types::EXIT, 0, &[W(TWO), W(1), W(2), W(3), L(ONE)]),
        (types::READ, 0, &[W(TWO), W(1), L(ONE), L(2)]),
        (types::READ, 0, &[W(TWO), W(1), L(1), L(2), L(3), L(4), L(5), L(6), L(7), L(8), L(ONE)]),
        (types::NAMESPACES, 0, &[W(TWO), W(1), L(1), L(2), L(3), L(4), L(5), L(6), L(7), L(8), L(ONE)]),
        (types::AUX, 0, &[L(1), L(2), L(3), L(4), L(5), L(6), L(7), L(8), L(ONE)]),
        (types::LOST, 0, &[L(ONE), L(2)]),
        (types::LOST_SAMPLES, 0, &[L(ONE)]),
        (types::THROTTLE, 0, &[L(ONE), L(2), L(3)]),
        (types::UNTHROTTLE, 0, &[L(ONE), L(2), L(3)]),
        (types::AUX, 0, &[L(ONE), L(2), L(3)]),
        (types::NAMESPACES, 0, &[W(TWO), W(1), L(2), L(ONE), L(4)]),
        (types::KSYMBOL, 0, &[L(ONE), W(TWO), H(0x2122), H(1), B(b"symbol\0\0")]),
        (types::BPF_EVENT, 0, &[H(0x2122), H(1), W(TWO), B(b"atag1234")]),
        (types::CGROUP, 0, &[L(ONE), B(b"/a/b/c\0\0")]),
        (types::TEXT_POKE, 0, &[L(ONE), H(0x0102), H(3), B(b"old code")]),
        (types::SWITCH, 0, &[]),
    ];
    for (kind, misc, parts) in bodies {
        is_turned(&Swapper::new([(plain, vec![])].into_iter(), true), *kind, *misc, parts);
        is_turned(&Swapper::new([(layout, vec![])].into_iter(), true), *kind, *misc, &[parts, &trailer[..]].concat());
    }
    // A kernel that sets the flag without a request for build ids has written an inode.
    let inode = [W(TWO), W(7), L(ONE), L(2), L(3), W(8), W(9), L(ONE + 9), L(5), W(5), W(6), B(b"/bin/a\0\0")];
    is_turned(&Swapper::new([(plain, vec![])].into_iter(), false), types::MMAP2, misc::MMAP_BUILD_ID, &inode);
    // perf's own records have no trailer.
    is_turned(
        &Swapper::new([(layout, vec![])].into_iter(), true),
        types::USER_START,
        0,
        &[B(b"sixty-four bytes of text that no order of bytes is to be seen in.")],
    );
    is_turned(&Swapper::new([(layout, vec![])].into_iter(), true), types::USER_START - 1, 0, &trailer);
    is_turned(&Swapper::default(), types::COMM, 0, &[W(TWO), W(7), B(b"name\0\0\0\0")]);
}

#[test]
fn samples_are_turned_by_the_fields_they_have() {
    let of = |sample_type: u64, read_format: u64, parts: &[Part]| {
        let layout = Layout { sample_type, read_format, ..Layout::default() };
        is_turned(&Swapper::new([(layout, vec![])].into_iter(), true), types::SAMPLE, 0, parts);
    };
    of(0b111 | 1 << 3 | bit::IDENTIFIER, 0, &[L(ONE), L(ONE + 1), W(TWO), W(7), L(ONE + 2), L(9)]);
    of(bit::CPU | 1 << 8 | 1 << 6 | 1 << 9, 0, &[L(ONE), L(ONE + 1), W(TWO), W(7), L(ONE + 2)]);
    let raw = [W(4), B(&[1, 2, 3, 4])];
    for (format, words) in [(0, 1), (1, 2), (2, 2), (3, 3), (4, 2), (16, 2), (1 | 2 | 4 | 16, 5)] {
        let values: Vec<Part> = (0..words).map(|i| L(ONE + i)).collect();
        of(bit::READ | bit::RAW, format, &[&values[..], &raw].concat());
    }
    for (format, words) in [(8, 3), (8 | 1, 4), (8 | 2, 4), (8 | 4, 6), (8 | 16, 6), (8 | 1 | 2 | 4 | 16, 11)] {
        let values: Vec<Part> = (0..words).map(|i| L(ONE + i)).collect();
        of(bit::READ | bit::RAW, format, &[&[L(3)][..], &values, &raw].concat());
    }
    of(bit::CALLCHAIN | bit::RAW, 0, &[L(2), L(ONE), L(ONE + 1), W(4), B(&[1, 2, 3, 4])]);
    let long: Vec<Part> = (0..0x203).map(|i| L(ONE + i)).collect();
    of(bit::CALLCHAIN | bit::RAW, 0, &[&[L(0x203)][..], &long, &raw, &long].concat());
    // Words follow.
    of(bit::RAW | 1 << 14 | 1 << 15, 0, &[W(4), B(&[1, 2, 3, 4]), L(ONE), L(ONE + 1)]);
    // If a size is too large, only existing bytes are swapped.
    of(bit::CALLCHAIN, 0, &[L(u64::MAX), L(ONE)]);
    of(bit::RAW, 0, &[W(u32::MAX), B(&[1, 2, 3])]);
}

#[test]
fn events_of_different_layouts_are_told_apart_by_their_ids() {
    let with = |bits: u64| Layout { sample_type: bit::IDENTIFIER | bits, id_all: true, ..Layout::default() };
    let events = [(with(1), vec![11, 12]), (with(bit::TID), vec![21])];
    let swapper = Swapper::new(events.into_iter(), true);
    is_turned(&swapper, types::SAMPLE, 0, &[L(12), L(ONE)]);
    is_turned(&swapper, types::SAMPLE, 0, &[L(21), W(TWO), W(7)]);
    is_turned(&swapper, types::SAMPLE, 0, &[L(99), L(ONE)]);
    // Other records carry it at their end.
    is_turned(&swapper, types::LOST, 0, &[L(ONE), L(2), L(12)]);
    is_turned(&swapper, types::CGROUP, 0, &[L(ONE), B(b"/a/b/c\0\0"), W(TWO), W(7), L(21)]);
    is_turned(&swapper, types::CGROUP, 0, &[L(ONE), B(b"/a/b/c\0\0"), L(11)]);
    // Without an identifier, all events have the layout of the first.
    let alike = |bits: u64| Layout { sample_type: bits, id_all: true, ..Layout::default() };
    let swapper = Swapper::new([(alike(bit::TID), vec![11]), (alike(1), vec![21])].into_iter(), true);
    is_turned(&swapper, types::SAMPLE, 0, &[W(0), W(21)]);
}

#[test]
fn whose_order_it_is() {
    assert!(is_foreign(b"2ELIFREP") && !is_foreign(b"PERFILE2") && !is_foreign(b"2ELIFRE") && !is_foreign(b""));
}
