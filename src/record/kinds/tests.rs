//! Tests of records and their bodies, byte by byte.

use super::written::put_name;
use super::*;
use crate::damage;
use proptest::prelude::*;

pub(crate) fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = (HEADER + body.len()) as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

fn decode(bytes: &[u8]) -> (Header, &[u8]) {
    let (header, body, rest) = split(bytes).expect("record").expect("one");
    assert!(rest.is_empty());
    (header, body)
}

#[test]
fn sizes_are_not_believed() {
    assert_eq!(split(&[1, 0, 0]), Ok(None));
    assert_eq!(split(&[9, 0, 0, 0, 0, 0, 4, 0]), Err(RecordError::TooSmall { kind: 9, size: 4 }));
    assert_eq!(split(&[9, 0, 0, 0, 0, 0, 64, 0]), Err(RecordError::Truncated { kind: 9, missing: 56 }));
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn mmap_round_trip(pid in 1i32.., start: u64, len: u64, pgoff: u64, id in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..=20)), name in proptest::collection::vec(1u8.., 0..200)) {
        let file = match id {
            Some(id) => FileId::BuildId(BuildId::new(&id).expect("id")),
            None => FileId::Inode { major: 1, minor: 2, inode: start, generation: len },
        };
        let map = Mmap { pid, tid: pid, start, len, pgoff, file, prot: 5, flags: 2, name: &name };
        let mut bytes = Vec::new();
        map.encode(&mut bytes, &[7; 16]).expect("fits");
        let (header, body) = decode(&bytes);
        prop_assert_eq!(Record::decode(header, body, true), Ok(Record::Mmap(map)));
    }
}

/// Words as in records: counts, contexts of a chain, letters, arbitrary values.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![4 => 0u64..6, 1 => u64::MAX - 4096.., 1 => Just(u64::from_le_bytes(*b"/bin/a\0\0")), 1 => any::<u64>()];
    let words = proptest::collection::vec(word, 0..40);
    (words, 0usize..8).prop_map(|(words, short)| {
        let mut bytes = bytes(&words);
        bytes.truncate(bytes.len().saturating_sub(if short < 4 { 0 } else { short }));
        bytes
    })
}

#[test]
fn any_bytes_decode_or_fail_cleanly() {
    let bits = prop_oneof![Just(0u64), Just(0x1ff), any::<u64>(), Just(u64::MAX)];
    damage::reaching(
        1024,
        20,
        (0u32..30, any::<u16>(), any_body(), bits, 0u64..32),
        |(kind, misc, body, bits, read_format)| {
            let header = Header { kind, misc, size: (body.len() + HEADER) as u16 };
            let decoded = Record::decode(header, &body, misc & 1 == 0).is_ok();
            let layout =
                crate::record::Layout { sample_type: bits, read_format, id_all: true, regs_user: bits, branches: bits };
            let _ = layout.trailer(&body);
            decoded && layout.sample(header, &body).is_ok()
        },
    );
}

fn body(words: &[u32], longs: &[u64], rest: &[u8]) -> Vec<u8> {
    let words = words.iter().flat_map(|w| w.to_le_bytes());
    words.chain(bytes(longs)).chain(rest.iter().copied()).collect()
}

#[test]
fn each_type_by_hand() {
    let of = |kind: u32, misc: u16, body: &[u8]| {
        let header = Header { kind, misc, size: 0 };
        format!("{:?}", Record::decode(header, body, true).expect("decodes"))
    };
    let is = |record: Record<'_>| format!("{record:?}");
    let task = TaskRecord { pid: 1, ppid: 2, tid: 3, ptid: 4, time: 5 };
    assert_eq!(of(types::FORK, 0, &body(&[1, 2, 3, 4], &[5], &[])), is(Record::Fork(task)));
    assert_eq!(of(types::EXIT, 0, &body(&[1, 2, 3, 4], &[5], &[])), is(Record::Exit(task)));
    let comm = |exec| Record::Comm { pid: 7, tid: 8, exec, name: b"ab" };
    assert_eq!(of(types::COMM, misc::COMM_EXEC, &body(&[7, 8], &[], b"ab\0\0c")), is(comm(true)));
    assert_eq!(of(types::COMM, !misc::COMM_EXEC, &body(&[7, 8], &[], b"ab")), is(comm(false)));
    assert_eq!(of(types::LOST, 0, &body(&[], &[1, 2], &[])), is(Record::Lost { id: 1, lost: 2 }));
    assert_eq!(of(types::LOST_SAMPLES, 0, &body(&[], &[2], &[])), is(Record::LostSamples { lost: 2 }));
    assert_eq!(of(types::THROTTLE, 0, &body(&[], &[9, 1, 5], &[])), is(Record::Throttle { time: 9, id: 1 }));
    assert_eq!(of(types::UNTHROTTLE, 0, &body(&[], &[9, 1, 5], &[])), is(Record::Unthrottle { time: 9, id: 1 }));
    assert_eq!(of(types::CGROUP, 0, &body(&[], &[77], b"/a\0b")), is(Record::Cgroup { id: 77, path: b"/a" }));
    for (flags, unregister) in [(0u32, false), (1 << 16, true), (2 << 16, false), (3 << 16, true), (1, false)] {
        let bytes = [&body(&[], &[0xabc], &[])[..], &body(&[64, flags], &[], b"f\0")].concat();
        let want = Record::Ksymbol { addr: 0xabc, len: 64, unregister, name: b"f", source: b"" };
        assert_eq!(of(types::KSYMBOL, 0, &bytes), is(want));
    }
    for (kind, unload) in [(1u32, false), (2, true), (3, false), (2 | 7 << 16, true), (1 | 2 << 16, false)] {
        let want = Record::Bpf { unload, id: 5, tag: *b"abcdefgh" };
        assert_eq!(of(types::BPF_EVENT, 0, &body(&[kind, 5], &[], b"abcdefgh")), is(want));
    }
    let poke = [&body(&[], &[0xabc], &[])[..], &body(&[2 | 3 << 16], &[], b"oldnew")].concat();
    assert_eq!(of(types::TEXT_POKE, 0, &poke), is(Record::TextPoke { addr: 0xabc, old: b"ol", new: b"dne" }));
    let map = |prot, file, flags| {
        is(Record::Mmap(Mmap { pid: 1, tid: 2, start: 3, len: 4, pgoff: 5, file, prot, flags, name: b"x" }))
    };
    let old = body(&[1, 2], &[3, 4, 5], b"x\0");
    assert_eq!(of(types::MMAP, 0, &old), map(4, FileId::None, 0));
    assert_eq!(of(types::MMAP, misc::MMAP_DATA, &old), map(0, FileId::None, 0));
    let inode = FileId::Inode { major: 8, minor: 9, inode: 10, generation: 11 };
    let new = [&old[..32], &body(&[8, 9], &[10, 11], &[]), &body(&[5, 2], &[], b"x\0")].concat();
    assert_eq!(of(types::MMAP2, misc::MMAP_DATA, &new), map(5, inode, 2));
    let id = [&old[..32], &[3, 0, 0, 0], &[0xaa; 20], &body(&[5, 2], &[], b"x\0")].concat();
    let known = FileId::BuildId(BuildId::new(&[0xaa; 3]).expect("an id"));
    assert_eq!(of(types::MMAP2, misc::MMAP_BUILD_ID, &id), map(5, known, 2));
    assert_eq!(of(types::SWITCH, 0, &[]), is(Record::Other));
}

/// Every field is required: the error of a shorter body names it.
#[test]
fn what_is_too_short_says_for_what() {
    for (kind, fields) in [
        (types::FORK, &[("pid", 4), ("ppid", 4), ("tid", 4), ("ptid", 4), ("time", 8)][..]),
        (types::COMM, &[("pid", 4), ("tid", 4)]),
        (types::LOST, &[("id", 8), ("count", 8)]),
        (types::THROTTLE, &[("time", 8), ("id", 8)]),
        (types::KSYMBOL, &[("address", 8), ("length", 4), ("flags", 4)]),
        (types::BPF_EVENT, &[("type", 4), ("id", 4), ("tag", 8)]),
        (types::TEXT_POKE, &[("address", 8), ("lengths", 4)]),
        (types::MMAP, &[("pid", 4), ("tid", 4), ("address", 8), ("length", 8), ("offset", 8)]),
    ] {
        let mut at = 0;
        for (field, size) in fields {
            for len in at..at + size {
                let header = Header { kind, misc: 0, size: 0 };
                let zeros = vec![0; len];
                let got = Record::decode(header, &zeros, true);
                assert_eq!(got, Err(RecordError::Short { kind, field }), "{kind} {len}");
            }
            at += size;
        }
    }
}

#[test]
fn records_are_written_in_whole_words_and_none_is_too_long() {
    let id = BuildId::new(&[0xab; 20]).expect("an id");
    assert_eq!((id.to_string(), BuildId::new(&[]), BuildId::new(&[1; 21])), ("ab".repeat(20), None, None));
    for len in 0..20 {
        let (mut name, text) = (Vec::new(), vec![b'x'; len]);
        put_name(&mut name, &text);
        assert_eq!(name.len(), (len / 8 + 1) * 8, "{len}");
        assert!(name.starts_with(&text) && name[len..].iter().all(|b| *b == 0));
    }
    let mut out = vec![9; 3];
    assert_eq!(encode(&mut out, 3, 4, |out| out.extend([5; 9])), Some(()));
    assert_eq!(out, [&[9; 3][..], &[3, 0, 0, 0, 4, 0, 24, 0], &[5; 9], &[0; 7]].concat());
    let mut out = vec![9; 3];
    assert_eq!(encode(&mut out, 3, 4, |out| out.extend([5; 0xffff])), None);
    assert_eq!(out, [9; 3]);
    assert_eq!(encode(&mut out, 3, 4, |out| out.extend([5; 0xfff8 - HEADER])), Some(()));
    // Mappings of the kernel itself are written in the kernel's form.
    let file = FileId::BuildId(id);
    let map = Mmap { pid: -1, tid: 0, start: 1, len: 2, pgoff: 3, file, prot: 4, flags: 0, name: b"[k]" };
    let mut out = Vec::new();
    map.encode(&mut out, &[]).expect("fits");
    let (header, _) = decode(&out);
    assert_eq!((header.kind, header.misc), (types::MMAP, misc::KERNEL));
    let mut out = Vec::new();
    Mmap { pid: 5, ..map }.encode(&mut out, &[]).expect("fits");
    let (header, _) = decode(&out);
    assert_eq!((header.kind, header.misc), (types::MMAP2, misc::USER | misc::MMAP_BUILD_ID));
    let mut out = Vec::new();
    encode_cgroup(&mut out, 77, b"/a", &[8; 8]).expect("fits");
    let (header, body) = decode(&out);
    assert_eq!((header.kind, body.len(), &body[16..]), (types::CGROUP, 24, &[8; 8][..]));
    assert_eq!(Record::decode(header, body, true), Ok(Record::Cgroup { id: 77, path: b"/a" }));
    let mut out = Vec::new();
    encode_comm(&mut out, 7, 8, true, b"a b", &[]).expect("fits");
    let (header, body) = decode(&out);
    assert_eq!(Record::decode(header, body, true), Ok(Record::Comm { pid: 7, tid: 8, exec: true, name: b"a b" }));
    let task = TaskRecord { pid: 1, ppid: 2, tid: 3, ptid: 4, time: 5 };
    for (exit, want) in [(false, Record::Fork(task)), (true, Record::Exit(task))] {
        let mut out = Vec::new();
        encode_task(&mut out, exit, &task, &[8; 8]).expect("fits");
        let (header, body) = decode(&out);
        assert_eq!((Record::decode(header, body, true), header.size), (Ok(want), 8 + 24 + 8));
    }
}

#[test]
fn a_build_id_is_believed_where_one_was_asked_for() {
    let inode = FileId::Inode { major: 8, minor: 1, inode: 77, generation: 9 };
    let map = Mmap { pid: 7, tid: 7, start: 1, len: 2, pgoff: 3, file: inode, prot: 5, flags: 2, name: b"/bin/a" };
    let told = |file| Ok(Record::Mmap(Mmap { file, ..map }));
    let mut bytes = Vec::new();
    map.encode(&mut bytes, &[]).expect("fits");
    let (header, body) = decode(&bytes);
    let marked = Header { misc: header.misc | misc::MMAP_BUILD_ID, ..header };
    assert_eq!(Record::decode(marked, body, false), told(inode));
    // The device of an inode is not a valid size of a build id.
    let mut large = body.to_vec();
    large[32] = 21;
    assert_eq!(Record::decode(marked, &large, true), told(FileId::None));
}
