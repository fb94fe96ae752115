//! Tests of samples and trailers, word by word.

use super::*;
use crate::record::kinds::tests::bytes as body;

const HEAD: Header = Header { kind: types::SAMPLE, misc: 2, size: 0 };

#[test]
fn fields_in_the_order_of_the_manual() {
    let layout = Layout { sample_type: 0x1_01af | 1 << 10, id_all: true, ..Layout::default() };
    let mut bytes = body(&[42, 0x1000, 7 | 8 << 32, 99, 0xadd, 3, 1001, 2, CONTEXT_USER, 0x1000]);
    bytes.extend_from_slice(&[4, 0, 0, 0, 1, 2, 3, 4]);
    let s = layout.sample(HEAD, &bytes).expect("sample");
    assert_eq!((s.id, s.ip, s.pid, s.tid, s.time, s.addr, s.cpu, s.period), (42, 0x1000, 7, 8, 99, 0xadd, 3, 1001));
    assert_eq!(s.chain().collect::<Vec<_>>(), [CONTEXT_USER, 0x1000]);
    assert_eq!(s.raw, [1, 2, 3, 4]);
    assert_eq!(layout.time_offset(), Some(24));
    assert_eq!(Layout::identifier(types::SAMPLE, &bytes), Some(42));
}

#[test]
fn branches_registers_and_the_stack() {
    let sample_type = 1 | 1 << 11 | 1 << 12 | 1 << 13;
    let layout = Layout { sample_type, regs_user: 0b1_0100_0001, branches: 1 << 17, ..Layout::default() };
    let mut words = vec![0x10, 1, 7, 0xa, 0xb, 0, 2, 11, 22, 33, 16, 0x1111, 0x2222, 8];
    let s = layout.sample(HEAD, &body(&words)).map(|s| (s.branches.len(), s.user.abi)).expect("sample");
    assert_eq!(s, (24, 2));
    let bytes = body(&words);
    let user = layout.sample(HEAD, &bytes).expect("sample").user;
    assert_eq!([0, 6, 8, 7].map(|place| user.register(place)), [Some(11), Some(22), Some(33), None]);
    assert_eq!((user.stack, user.is_full()), (&0x1111u64.to_le_bytes()[..], false));
    words[13] = 16;
    let bytes = body(&words);
    assert!(layout.sample(HEAD, &bytes).expect("sample").user.is_full());
    // A kernel thread has neither.
    let bytes = body(&[0x10, 0, 7, 0, 0]);
    let s = layout.sample(HEAD, &bytes).expect("sample");
    assert_eq!((s.user, s.branches), (UserState::default(), &[][..]));
    assert!(layout.sample(HEAD, &body(&[0x10, 0, 7, 0, u64::MAX])).is_err());
}

#[test]
fn each_field_at_its_place() {
    let decode = |bits: u64, words: &[u64]| {
        let layout = Layout { sample_type: bits, ..Layout::default() };
        let bytes = body(words);
        layout
            .sample(HEAD, &bytes)
            .map(|s| (s.id, s.ip, s.time, s.addr, s.cpu, s.period, s.weight, s.data_src, s.cgroup))
    };
    let zero = (0, 0, 0, 0, 0, 0, 0, 0, 0);
    let plus = 1u64 << 40 | 5;
    assert_eq!(decode(bit::IDENTIFIER, &[plus]), Ok((plus, 0, 0, 0, 0, 0, 0, 0, 0)));
    assert_eq!(decode(bit::IP, &[plus]), Ok((0, plus, 0, 0, 0, 0, 0, 0, 0)));
    assert_eq!(decode(bit::TIME, &[plus]), Ok((0, 0, plus, 0, 0, 0, 0, 0, 0)));
    assert_eq!(decode(bit::ADDR, &[plus]), Ok((0, 0, 0, plus, 0, 0, 0, 0, 0)));
    assert_eq!(decode(bit::ID, &[plus]), Ok((plus, 0, 0, 0, 0, 0, 0, 0, 0)));
    assert_eq!(decode(bit::STREAM_ID | bit::CPU, &[1, plus]), Ok((0, 0, 0, 0, 5, 0, 0, 0, 0)));
    assert_eq!(decode(bit::PERIOD, &[plus]), Ok((0, 0, 0, 0, 0, plus, 0, 0, 0)));
    assert_eq!(decode(bit::WEIGHT, &[plus]), Ok((0, 0, 0, 0, 0, 0, plus, 0, 0)));
    // The first of the three weights in a word.
    assert_eq!(decode(bit::WEIGHT_STRUCT, &[plus]), Ok((0, 0, 0, 0, 0, 0, 5, 0, 0)));
    assert_eq!(decode(bit::DATA_SRC, &[plus]), Ok((0, 0, 0, 0, 0, 0, 0, plus, 0)));
    assert_eq!(decode(bit::CGROUP, &[plus]), Ok((0, 0, 0, 0, 0, 0, 0, 0, plus)));
    for bits in
        [bit::IDENTIFIER, bit::IP, bit::TID, bit::TIME, bit::ADDR, bit::ID, bit::STREAM_ID, bit::CPU, bit::PERIOD]
    {
        assert!(decode(bits, &[]).is_err());
    }
    assert_eq!(decode(bit::DATA_PAGE_SIZE, &[]), Ok(zero), "what is not read need not be there");
    // The cgroup is located from the end, after fields that are not read.
    let last = |bits: u64, words: &[u64]| decode(bits, words).map(|s| s.8);
    assert_eq!(last(bit::IP | bit::CGROUP, &[1, 2, 3]), Ok(3));
    assert_eq!(last(bit::IP | bit::CGROUP | bit::DATA_PAGE_SIZE, &[1, 2, 3]), Ok(2));
    assert_eq!(last(bit::IP | bit::CGROUP | bit::CODE_PAGE_SIZE, &[1, 2, 3]), Ok(2));
    assert_eq!(last(bit::IP | bit::CGROUP | bit::CODE_PAGE_SIZE | bit::DATA_PAGE_SIZE, &[1, 2, 3, 4]), Ok(2));
    assert_eq!(last(bit::IP | bit::CGROUP | bit::DATA_PAGE_SIZE, &[1, 2]), Ok(0), "it is not the address");
    assert_eq!(last(bit::IP | bit::CGROUP | bit::AUX, &[1, 2, 3]), Ok(0), "how much there is before it is not known");
    assert_eq!(last(bit::IP, &[1, 2, 3]), Ok(0));
}

#[test]
fn counter_values_are_stepped_over() {
    // (format, words): the value; with time enabled, running, id, lost; in groups of two.
    let single = [(0, 1), (1, 2), (2, 2), (4, 2), (16, 2), (1 | 2 | 4 | 16, 5)];
    let groups = [(8, 2), (8 | 1, 3), (8 | 2, 3), (8 | 4, 4), (8 | 16, 4), (8 | 1 | 2 | 4 | 16, 8)];
    for (format, words) in single.into_iter().chain(groups) {
        let layout = Layout { sample_type: bit::READ | bit::CALLCHAIN, read_format: format, ..Layout::default() };
        let size: &[u64] = if format & read_format::GROUP != 0 { &[2] } else { &[] };
        let list = [size, &vec![9; words], &[1, 0x77]].concat();
        let chain = layout.sample(HEAD, &body(&list)).map(|s| s.chain().collect::<Vec<_>>());
        assert_eq!(chain, Ok(vec![0x77]), "{format}");
    }
    let layout = Layout { sample_type: bit::READ, read_format: 8 | 4, ..Layout::default() };
    assert!(layout.sample(HEAD, &body(&[u64::MAX / 2 + 2, 0, 0])).is_err(), "the size of a group is not trusted");
}

#[test]
fn a_group_says_what_each_of_its_events_counted() {
    let of = |format: u64, words: &[u64]| {
        let layout = Layout { sample_type: bit::READ, read_format: format, ..Layout::default() };
        let bytes = body(words);
        let sample = layout.sample(HEAD, &bytes).expect("sample");
        layout.readings(&sample).map(|r| (r.id, r.value, r.at)).collect::<Vec<_>>()
    };
    // The value; with the times, its id and the lost samples.
    assert_eq!(of(4, &[70, 5]), [(5, 70, 0)]);
    assert_eq!(of(1 | 2 | 4 | 16, &[70, 8, 9, 5, 3]), [(5, 70, 0)]);
    assert_eq!(of(8 | 4, &[2, 70, 5, 80, 6]), [(5, 70, 8), (6, 80, 24)]);
    assert_eq!(of(8 | 1 | 4, &[2, 9, 70, 5, 80, 6]), [(5, 70, 16), (6, 80, 32)]);
    assert_eq!(of(8 | 1 | 2 | 4 | 16, &[2, 8, 9, 70, 5, 3, 80, 6, 4]), [(5, 70, 24), (6, 80, 48)]);
    for format in [0, 1, 8, 8 | 16] {
        assert_eq!(of(format, &[1, 70, 5, 5]), [], "{format}: the counts have no ids");
    }
}

#[test]
fn an_event_without_addresses_was_where_its_chain_begins() {
    let layout = Layout { sample_type: bit::CALLCHAIN, ..Layout::default() };
    let bytes = body(&[3, CONTEXT_USER, 0x77, 0x88]);
    assert_eq!(layout.sample(HEAD, &bytes).map(|s| s.ip), Ok(0x77));
    for absurd in [u64::MAX, 3] {
        assert!(layout.sample(HEAD, &body(&[absurd, 1])).is_err());
    }
}

#[test]
fn branches_with_what_stands_beside_them() {
    let of = |branches: u64, words: &[u64]| {
        let layout = Layout { sample_type: bit::BRANCH_STACK | bit::WEIGHT, branches, ..Layout::default() };
        let bytes = body(words);
        layout.sample(HEAD, &bytes).map(|s| (s.branches.len(), s.weight))
    };
    let two = [1, 2, 3, 4, 5, 6];
    assert_eq!(of(0, &[&[2][..], &two, &[77]].concat()), Ok((48, 77)));
    assert_eq!(of(1 << 17, &[&[2, 9][..], &two, &[77]].concat()), Ok((48, 77)));
    assert_eq!(of(branch::COUNTERS, &[&[2][..], &two, &[8, 8], &[77]].concat()), Ok((48, 77)));
    assert_eq!(of(branch::COUNTERS | 1 << 17, &[&[0, 9][..], &[77]].concat()), Ok((0, 77)));
    assert!(of(0, &[3, 1, 2, 3, 4, 5, 6]).is_err() && of(0, &[u64::MAX]).is_err());
}

#[test]
fn a_stack_is_as_long_as_was_used_of_it() {
    let layout = Layout { sample_type: bit::STACK_USER | bit::WEIGHT, ..Layout::default() };
    let of = |words: &[u64]| {
        let bytes = body(words);
        layout.sample(HEAD, &bytes).map(|s| (s.user.stack.len(), s.user.asked, s.weight))
    };
    assert_eq!(of(&[16, 1, 2, 8, 77]), Ok((8, 16, 77)));
    assert_eq!(of(&[16, 1, 2, 17, 77]), Ok((16, 16, 77)), "more than was copied is all of it");
    assert_eq!(of(&[0, 77]), Ok((0, 0, 77)));
    assert!(of(&[u64::MAX, 1]).is_err());
    let state = |asked, n| UserState { asked, stack: &[0; 24][..n], ..UserState::default() };
    assert!(state(16, 16).is_full() && state(16, 24).is_full() && !state(16, 15).is_full() && !state(0, 0).is_full());
}

#[test]
fn where_the_time_stands() {
    for (bits, at) in [
        (bit::TIME, Some(0)),
        (bit::TIME | bit::IP, Some(8)),
        (bit::TIME | bit::IP | bit::TID | bit::IDENTIFIER, Some(24)),
        (bit::TIME | bit::ADDR | bit::ID, Some(0)),
        (bit::IP | bit::TID, None),
    ] {
        assert_eq!(Layout { sample_type: bits, ..Layout::default() }.time_offset(), at);
    }
}

/// The fast path accepts exactly a tracepoint's fields, and does not trust sizes.
#[test]
fn the_short_way_by_hand() {
    let mut bytes = body(&[42, 0x1000, 7 | 8 << 32, 99, 3 | 9 << 32, 1001]);
    bytes.extend_from_slice(&[4, 0, 0, 0, 1, 2, 3, 4, 5]);
    let s = traced(&bytes).expect("a sample");
    assert_eq!(
        (s.id, s.ip, s.pid, s.tid, s.time, s.cpu, s.period, s.raw),
        (42, 0x1000, 7, 8, 99, 3, 1001, &[1, 2, 3, 4][..])
    );
    bytes[48] = 5;
    assert_eq!(traced(&bytes).map(|s| s.raw.len()), Some(5));
    bytes[48] = 6;
    assert_eq!(traced(&bytes), None);
    bytes[49] = 1;
    assert_eq!(traced(&bytes), None);
}

#[test]
fn trailers_of_every_shape() {
    for bits in [
        bit::TID,
        bit::TIME,
        bit::ID,
        bit::STREAM_ID | bit::ID,
        bit::CPU,
        bit::IDENTIFIER,
        bit::IP,
        bit::TID | bit::CPU,
        bit::TID | bit::TIME | bit::ID | bit::CPU | bit::IDENTIFIER,
    ] {
        let layout = Layout { sample_type: bits, id_all: true, ..Layout::default() };
        let id = SampleId { pid: 1, tid: 2, time: 3, id: 9, cpu: 4 };
        let bytes = [&[0xee; 16][..], &layout.encode_trailer(&id)].concat();
        assert_eq!(bytes.len() - 16, layout.trailer_len());
        let has = |bit: u64| bits & bit != 0;
        let want = SampleId {
            pid: i32::from(has(bit::TID)),
            tid: 2 * i32::from(has(bit::TID)),
            time: 3 * u64::from(has(bit::TIME)),
            id: 9 * u64::from(has(bit::ID | bit::IDENTIFIER)),
            cpu: 4 * u32::from(has(bit::CPU)),
        };
        assert_eq!(layout.trailer(&bytes), (bits != bit::IP).then_some(want));
        assert_eq!(Layout { id_all: false, ..layout }.trailer(&bytes), None);
    }
    let layout = Layout { sample_type: bit::TIME | bit::IDENTIFIER, id_all: true, ..Layout::default() };
    assert_eq!((layout.trailer(&[0; 15]), layout.trailer(&[0; 16])), (None, Some(SampleId::default())));
    assert!(Layout { id_all: false, ..layout }.encode_trailer(&SampleId::default()).is_empty());
    assert_eq!(Layout::identifier(types::COMM, &body(&[1, 2, 3])), Some(3));
    assert_eq!(Layout::identifier(types::SAMPLE, &body(&[1, 2, 3])), Some(1));
    assert_eq!(Layout::identifier(types::COMM, &[0; 7]), None);
}

/// Both paths decode the same sample.
#[test]
fn a_tracepoints_sample_either_way() {
    let mut bytes = body(&[42, 0x1000, 7 | 8 << 32, 99, 3, 1001]);
    bytes.extend_from_slice(&[4, 0, 0, 0, 1, 2, 3, 4]);
    let short = Layout { sample_type: TRACED, ..Layout::default() };
    let sample = short.sample(HEAD, &bytes).expect("sample");
    // The same fields and an additional empty one take the general path.
    let long = Layout { sample_type: TRACED | bit::WEIGHT, ..Layout::default() };
    let mut with = bytes.clone();
    with.extend_from_slice(&[0; 8]);
    assert_eq!(long.sample(HEAD, &with), Ok(sample));
    assert_eq!((sample.pid, sample.tid, sample.cpu, sample.raw), (7, 8, 3, &[1, 2, 3, 4][..]));
    assert!(short.sample(HEAD, &bytes[..50]).is_err() && short.sample(HEAD, &bytes[..54]).is_err());
}
