//! Tests with samples written by hand: which are kept, where, and in how many bytes.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::record::Record;
use crate::record::kinds::{Mmap, TaskRecord, misc};
use crate::record::sample::{
    CONTEXT_CUT, CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER,
};
use crate::session::{MapId, Origin};

fn chain(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn path(p: &Profile, mut node: NodeId) -> Vec<(u64, bool)> {
    let mut out = Vec::new();
    while node != NodeId::ROOT {
        let frame = p.frames.get(p.trie.frame(node));
        out.push((frame.ip, frame.caller));
        node = p.trie.parent(node);
    }
    out
}

fn add(p: &mut Profile, s: &mut Session, time: u64, words: &[u64]) {
    let bytes = chain(words);
    let ip = words.iter().copied().find(|word| *word < CONTEXT_MAX).unwrap_or_default();
    let sample = Sample { pid: 5, tid: 5, ip, time, period: 10, chain: &bytes, ..Sample::default() };
    p.add(s, &sample, misc::USER, 0, TraceId::default());
}

#[test]
fn a_stack_keeps_its_addresses_and_which_are_return_addresses() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    add(&mut p, &mut s, 1, &[CONTEXT_KERNEL, 0xffff_0001, 0xffff_0002, CONTEXT_USER, 0x10, 0x20]);
    add(&mut p, &mut s, 2, &[CONTEXT_KERNEL, 0xffff_0001, 0xffff_0002, CONTEXT_USER, 0x10, 0x20]);
    add(&mut p, &mut s, 3, &[CONTEXT_USER, 0x10, 0x20]);
    assert_eq!((p.len(), p.sites.len(), p.trie.len()), (3, 2, 5));
    let site = p.sites.get(SiteId(0));
    assert_eq!(path(&p, site.stack), [(0xffff_0001, false), (0xffff_0002, true), (0x10, false), (0x20, true)]);
    let sample = Sample { pid: 5, tid: 5, ip: 0x99, ..Sample::default() };
    p.add(&mut s, &sample, misc::KERNEL, 0, TraceId::default());
    let (chunk, _) = p.between(3, 4).next().expect("chunk");
    assert_eq!((chunk.weight[3], p.trie.len()), (0, 6));
}

#[test]
fn a_sample_without_a_chain_is_where_its_task_its_text_and_its_address_say() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    let texts = ["a", "b"].map(|text| p.sites.trace(text));
    let check = |p: &mut Profile, s: &mut Session, tid: i32, ip: u64, trace: TraceId| {
        let sample = Sample { pid: 5, tid, ip, ..Sample::default() };
        let id = p.add(s, &sample, misc::USER, 0, trace);
        let site = p.sites.get(id);
        assert_eq!((s.tasks()[site.task.0 as usize].tid, site.trace), (tid, trace));
        assert_eq!(path(p, site.stack), [(ip, false)]);
    };
    for round in 0..3 {
        let all = [5, 6].into_iter().flat_map(|tid| [0x10, 0x20].into_iter().map(move |ip| (tid, ip)));
        all.flat_map(|(tid, ip)| texts.map(|text| (tid, ip, text))).for_each(|(tid, ip, text)| {
            check(&mut p, &mut s, tid, ip, text);
        });
        assert_eq!((p.sites.len(), p.trie.len(), p.len()), (8, 3, 8 * (round + 1)));
    }
    // A removed stack is not found again under its old number.
    p.clear(&mut s);
    check(&mut p, &mut s, 6, 0x20, TraceId::default());
    assert_eq!((p.sites.len(), p.trie.len()), (1, 2));
}

#[test]
fn the_same_addresses_mean_something_else_after_an_exec() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    add(&mut p, &mut s, 1, &[CONTEXT_USER, 0x10]);
    s.apply(&Record::Comm { pid: 5, tid: 5, exec: true, name: b"b" }, 2);
    let map = Mmap { pid: 5, tid: 5, start: 0, len: 0x100, prot: 5, name: b"/b", ..Mmap::default() };
    s.apply(&Record::Mmap(map), 2);
    add(&mut p, &mut s, 3, &[CONTEXT_USER, 0x10]);
    assert_eq!(p.sites.len(), 2);
    assert_ne!(p.frames.get(FrameId(0)).map, p.frames.get(FrameId(1)).map);
}

#[test]
fn eviction_and_compaction_keep_what_is_left() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    for i in 0..CHUNK as u64 {
        add(&mut p, &mut s, i, &[CONTEXT_USER, 0x1000 + i, 0x20]);
    }
    add(&mut p, &mut s, 99_999, &[CONTEXT_USER, 0x7, 0x20]);
    let n_frames = p.frames.len();
    let sought = p.frames.wanted(&s.dsos);
    assert_eq!((sought.len(), p.frames.n_syms()), (n_frames, 1));
    // Each address has its own symbol, because there is no function.
    for frame in sought {
        let (dso, at) = p.frames.get(frame).place(&s.dsos);
        p.frames.set(frame, s.dsos.get(dso), at, None);
    }
    assert_eq!(p.frames.n_syms(), 1 + n_frames);
    let name = p.frames.sym(p.frames.sym_of(FrameId(n_frames as u32 - 1))).name().into_owned();
    let evicted = p.evict().expect("one sealed");
    let epoch = p.epoch();
    assert_eq!((evicted.len(), p.first(), p.len()), (CHUNK, CHUNK as u64, 1));
    assert_eq!(p.ledger.evicted, CHUNK as u64);
    p.compact(&mut s);
    assert!(p.epoch() != epoch && p.sites.len() > 0);
    assert_eq!((p.sites.len(), p.trie.len(), p.frames.len(), p.frames.n_syms()), (1, 3, 2, 2));
    let names: Vec<String> = p.frames.syms().iter().map(|sym| p.frames.sym(SymId(*sym)).name().into_owned()).collect();
    assert!(names.contains(&name), "{names:?} {name}");
    let (chunk, range) = p.between(0, u64::MAX).next().expect("chunk");
    let start = range.start;
    assert_eq!(path(&p, p.sites.get(SiteId(chunk.site[start])).stack), [(0x7, false), (0x20, true)]);
    add(&mut p, &mut s, 100_000, &[CONTEXT_USER, 0x7, 0x20]);
    assert_eq!(p.sites.len(), 1);
    assert!(p.evict().is_none());
    p.clear(&mut s);
    assert_eq!((p.len(), p.sites.len(), p.trie.len()), (0, 0, 1));
    assert_eq!(p.first(), p.end());
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn what_is_kept_stays_what_it_was(
        samples in proptest::collection::vec((proptest::collection::vec(1u64..9, 1..7), 0u8..4, 0u8..6), 1..80),
        pinned in proptest::collection::vec(1u64..9, 1..7),
    ) {
        let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
        let words = |ips: &[u64]| chain(&[&[CONTEXT_USER], ips].concat());
        let of = |ips: &[u64]| (0..).zip(ips).map(|(i, ip)| (*ip, i > 0)).collect::<Vec<(u64, bool)>>();
        let bytes = words(&pinned);
        let pin = p.pin(&s, &Sample { ip: pinned[0], chain: &bytes, ..Sample::default() }, misc::USER);
        let pinned = of(&pinned);
        let mut kept: VecDeque<(Vec<(u64, bool)>, String)> = VecDeque::new();
        for (ips, text, then) in samples {
            let (text, bytes) = (format!("text {text}"), words(&ips));
            let trace = p.sites.trace(&text);
            let sample = Sample { pid: 5, tid: 5, ip: ips[0], chain: &bytes, ..Sample::default() };
            p.add(&mut s, &sample, misc::USER, 0, trace);
            kept.push_back((of(&ips), text));
            match then {
                0 => p.seal(),
                1 => if let Some(chunk) = p.evict() {
                    kept.drain(..chunk.len());
                },
                2 => p.compact(&mut s),
                _ => {}
            }
        }
        p.compact(&mut s);
        let chunks = p.sealed.iter().map(|chunk| &**chunk).chain([&p.current]);
        let sites: Vec<Site> = chunks.flat_map(|chunk| &chunk.site).map(|site| p.sites.get(SiteId(*site))).collect();
        prop_assert_eq!(sites.len(), kept.len());
        for (site, (ips, text)) in sites.iter().zip(&kept) {
            prop_assert_eq!(&path(&p, site.stack), ips);
            prop_assert_eq!(&*p.sites.traces()[site.trace.0 as usize], text.as_str());
        }
        let (sites, traces) = (sites.iter().collect::<HashSet<_>>(), kept.iter().map(|(_, text)| text).collect::<HashSet<_>>());
        prop_assert_eq!((p.sites.len(), p.sites.traces().len()), (sites.len(), 1 + traces.len()));
        prop_assert_eq!(&path(&p, p.pins.node(pin)), &pinned);
        let (parents, _) = p.trie.columns();
        prop_assert!((1..parents.len()).all(|node| (parents[node] as usize) < node));
        // No unused entries, and no duplicates.
        let paths: HashSet<_> = (1..parents.len() as u32).map(|node| path(&p, NodeId(node))).collect();
        prop_assert_eq!(paths.len(), parents.len() - 1);
        let has = |path: &Vec<(u64, bool)>| kept.iter().map(|(ips, _)| ips).chain([&pinned]).any(|ips| ips.ends_with(path));
        prop_assert!(paths.iter().all(has));
    }
}

/// An event that changes what addresses mean, or a sample.
#[derive(Clone, Debug)]
enum ChainOp {
    Sample { pid: i32, thread: i32, mode: u16, ip: u64, words: Vec<u64> },
    Map { pid: i32, start: u64, name: u8 },
    Exec(i32),
    Fork(i32),
    Compact,
    Evict,
}

fn chain_ops() -> impl Strategy<Value = Vec<ChainOp>> {
    let address = prop_oneof![8 => 0x1000u64..0x1004, 4 => 0x2000u64..0x2003, 1 => Just(0x9000), 1 => Just(u64::MAX)];
    let marker = prop::sample::select(vec![CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_GUEST, CONTEXT_CUT]);
    let leaf = prop::collection::vec(prop_oneof![4 => address.clone(), 1 => marker], 0..4);
    // Few roots, so that chains share them.
    let root = prop::sample::select(vec![
        vec![CONTEXT_USER, 0x1001, 0x1002, 0x2001, 0x1003],
        vec![CONTEXT_USER, 0x1000, 0x1002, 0x2001, 0x1003],
        vec![CONTEXT_USER, 0x1000, 0x9000, 0x2001, 0x1003],
        vec![CONTEXT_KERNEL, 0x1000, 0x1002, 0x2001, 0x1003],
        vec![CONTEXT_USER, 0x1001, 0x1002, CONTEXT_CUT],
        vec![CONTEXT_USER, 0x1002, 0x1003, 0x1001, 0x1001, 0x1001],
        vec![],
    ]);
    let mode = prop::sample::select(vec![misc::USER, misc::KERNEL]);
    let sample = (1i32..3, 0i32..2, mode, address, leaf, root, any::<bool>()).prop_map(
        |(pid, thread, mode, ip, leaf, root, after)| {
            let (head, rest) = root.split_at(root.len().min(1));
            let words = if after { [head, &leaf, rest].concat() } else { [&leaf, head, rest].concat() };
            ChainOp::Sample { pid, thread, mode, ip, words }
        },
    );
    let op = prop_oneof![
        20 => sample,
        2 => (1i32..3, prop::sample::select(vec![0x1000u64, 0x2000, 0x2002]), 0u8..3)
            .prop_map(|(pid, start, name)| ChainOp::Map { pid, start, name }),
        1 => (1i32..3).prop_map(ChainOp::Exec),
        1 => (1i32..3).prop_map(ChainOp::Fork),
        1 => Just(ChainOp::Compact),
        1 => Just(ChainOp::Evict),
    ];
    prop::collection::vec(op, 1..120)
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    /// A profile without any earlier chain looks up each address.
    #[test]
    fn a_chain_is_the_same_whatever_came_before_it(ops in chain_ops(), most in prop::option::of(1usize..6), keeps: bool) {
        let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
        let alone = || {
            let mut alone = Profile::default();
            (alone.chain.most, alone.chain.keeps_words) = (most, keeps);
            alone
        };
        (p.chain.most, p.chain.keeps_words) = (most, keeps);
        let frames = |p: &Profile, site: SiteId| {
            let frames = p.trie.walk(p.sites.get(site).stack);
            frames.map(|frame| p.frames.get(frame)).collect::<Vec<Frame>>()
        };
        for op in ops {
            match op {
                ChainOp::Sample { pid, thread, mode, ip, words } => {
                    let bytes = chain(&words);
                    let sample = Sample { pid, tid: 10 * pid + thread, ip, chain: &bytes, ..Sample::default() };
                    s.seen(pid, 0, mode == misc::USER, &bytes);
                    let site = p.add(&mut s, &sample, mode, 0, TraceId::default());
                    let mut alone = alone();
                    let want = alone.add(&mut s, &sample, mode, 0, TraceId::default());
                    prop_assert_eq!(frames(&p, site), frames(&alone, want));
                }
                ChainOp::Map { pid, start, name } => {
                    let name = [b'/', b'a' + name];
                    let map = Mmap { pid, tid: pid, start, len: 0x3, prot: 5, name: &name, ..Mmap::default() };
                    s.apply(&Record::Mmap(map), 0);
                }
                ChainOp::Exec(pid) => s.apply(&Record::Comm { pid, tid: pid, exec: true, name: b"x" }, 0),
                ChainOp::Fork(pid) => {
                    let task = TaskRecord { pid: 3 - pid, ppid: pid, tid: 3 - pid, ptid: pid, time: 0 };
                    s.apply(&Record::Fork(task), 0);
                }
                ChainOp::Compact => p.compact(&mut s),
                ChainOp::Evict => {
                    p.seal();
                    p.evict();
                }
            }
        }
    }
}

/// Memory of the heap and stacks is mostly far from the code, and takes no room.
#[test]
fn only_addresses_near_code_are_kept_as_data() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    let map = Mmap { pid: 5, tid: 5, start: 0x1000, len: 0x1000, prot: 5, name: b"/b", ..Mmap::default() };
    s.apply(&Record::Mmap(map), 0);
    let near = p.pin_data(&s, 5, 0x3000);
    assert_ne!(near, RetainedStack::NONE);
    assert_eq!(p.pin_data(&s, 5, 0x3000), near);
    assert_eq!([0, 0x7fff_0000_0000].map(|addr| p.pin_data(&s, 5, addr)), [RetainedStack::NONE; 2]);
    let function = p.pin_data(&s, 5, 0xffff_ffff_8100_0010);
    let frame = p.frames.get(p.trie.frame(p.pins.node(function)));
    assert_eq!((frame.map, frame.ip), (MapId::KERNEL, 0xffff_ffff_8100_0010), "a function of the kernel");
}

#[test]
fn each_context_has_its_own_addresses() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    let map = Mmap { pid: 5, tid: 5, start: 0x1000, len: 0x1000, prot: 5, name: b"/b", ..Mmap::default() };
    s.apply(&Record::Mmap(map), 0);
    let of = |p: &mut Profile, s: &Session, mode: u16, words: &[u64]| -> Vec<MapId> {
        let bytes = chain(words);
        let sample = Sample {
            pid: 5,
            tid: 5,
            ip: words.iter().copied().find(|w| *w < CONTEXT_MAX).unwrap_or(0x1001),
            chain: &bytes,
            ..Sample::default()
        };
        let pin = p.pin(s, &sample, mode);
        p.trie.walk(p.pins.node(pin)).map(|frame| p.frames.get(frame).map).collect()
    };
    let user = s.user_map(5, 0x1001);
    assert_ne!(user, MapId::UNKNOWN);
    let all = [
        CONTEXT_KERNEL,
        0x1001,
        CONTEXT_USER,
        0x1001,
        CONTEXT_GUEST,
        0x1001,
        CONTEXT_GUEST_USER,
        0x1001,
        CONTEXT_GUEST_KERNEL,
        0x1001,
        CONTEXT_CUT,
    ];
    let maps = of(&mut p, &s, misc::USER, &all);
    assert_eq!(maps, [MapId::KERNEL, user, MapId::GUEST, MapId::GUEST, MapId::GUEST, MapId::CUT]);
    // Other markers have no meaning here.
    assert_eq!(of(&mut p, &s, misc::USER, &[-4094i64 as u64, 0x1001]), [MapId::UNKNOWN]);
    // Without a marker, the record's mode decides.
    assert_eq!(of(&mut p, &s, misc::USER, &[0x1001]), [user]);
    assert_eq!(of(&mut p, &s, misc::KERNEL, &[0x1001]), [MapId::KERNEL]);
    assert_eq!(of(&mut p, &s, misc::GUEST_KERNEL, &[0x1001]), [MapId::GUEST]);
    assert_eq!(of(&mut p, &s, misc::GUEST_USER, &[0x1001]), [MapId::GUEST]);
    assert_eq!(of(&mut p, &s, misc::USER, &[0x9001]), [MapId::UNKNOWN], "nothing is mapped there");
    assert_eq!(of(&mut p, &s, misc::USER, &[]), [user], "without a chain its address is all");
}

#[test]
fn positions_and_times() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    let task = s.task(1, 1);
    let site = p.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
    assert_eq!((p.span(), p.time_before(0), p.position_at(5), p.len(), p.oldest_until()), (None, 0, 0, 0, None));
    let n = 2 * CHUNK as u64 + 10;
    (0..n).for_each(|i| p.push(10 * (i + 1), site, 1, 0, 0));
    assert_eq!((p.end(), p.len()), (n, n as usize));
    assert_eq!(p.span(), Some((10, 10 * n)));
    assert_eq!(p.oldest_until(), Some(10 * CHUNK as u64));
    let edge = CHUNK as u64;
    for at in [1, 2, edge - 1, edge, edge + 1, 2 * edge, 2 * edge + 1, n] {
        assert_eq!(p.time_before(at), 10 * at, "{at}");
        assert_eq!((p.position_at(10 * at), p.position_at(10 * at + 1)), (at - 1, at), "{at}");
    }
    assert_eq!((p.position_at(0), p.position_at(u64::MAX)), (0, n));
    let parts = |p: &Profile, from, until| p.between(from, until).map(|(_, range)| range.len()).collect::<Vec<_>>();
    assert_eq!(parts(&p, edge - 3, 2 * edge + 2), [3, CHUNK, 2]);
    assert_eq!(parts(&p, 5, 5), [0usize; 0]);
    assert_eq!(parts(&p, 0, u64::MAX), [CHUNK, CHUNK, 10]);
    p.losses.push(Loss { time: 10 * edge - 1, samples: 1, cpu: None, host: Default::default() });
    p.losses.push(Loss { time: 10 * edge, samples: 1, cpu: None, host: Default::default() });
    p.evict().expect("a full one");
    assert_eq!((p.first(), p.end(), p.len()), (edge, n, n as usize - CHUNK));
    assert_eq!(p.losses.all().map(|loss| loss.time).collect::<Vec<_>>(), [10 * edge]);
    assert_eq!((p.time_before(edge + 1), p.position_at(10 * (edge + 1))), (10 * (edge + 1), edge));
    assert_eq!((p.time_before(edge), p.position_at(0)), (0, edge));
    assert_eq!(parts(&p, 0, edge + 4), [4]);
    assert_eq!(p.share_chunks().iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [CHUNK, 10]);
}

fn format() -> Arc<Format> {
    let text = "name: x\nID: 1\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
    Arc::new(Format::parse("s", text, false).expect("parses"))
}

#[test]
fn memory_grows_by_what_comes() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    let task = s.task(1, 1);
    let site = p.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
    let empty = p.memory();
    (0..2 * CHUNK as u64).for_each(|i| p.push(i, site, 1, 0, 0));
    assert_eq!(p.memory() - empty, 2 * CHUNK * 24);
    p.set_format(0, format());
    let before = p.memory();
    (0..CHUNK as u64).for_each(|i| p.push_raw(i, site, 1, 0, 0, &[7; 100]));
    let raw = p.memory() - before;
    // A row, its raw data, and the end of the data.
    assert!((CHUNK * (24 + 100 + 4)..CHUNK * (24 + 100 + 9)).contains(&raw), "{raw}");
    let before = p.memory();
    (0..100_000u32).fold(NodeId::ROOT, |node, i| p.trie.child(node, FrameId(i)));
    let nodes = p.memory() - before;
    assert!((80_000 * 12..100_000 * 14).contains(&nodes), "{nodes}");
    let before = p.memory();
    for i in 0..100_000 {
        p.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: i });
    }
    let frames = p.memory() - before;
    let each = size_of::<Frame>() + 4;
    assert!((80_000 * (each + 5)..100_000 * (each + 15)).contains(&frames), "{frames}");
    let dso = s.dsos.named("/bin/app", crate::session::DsoKind::File);
    let before = p.memory();
    (0..1000).for_each(|i| p.frames.set_unknown(FrameId(i), &dso, u64::from(i)));
    assert_eq!(p.memory() - before, 1000 * 120);
    let before = p.memory();
    for i in 0..100_000 {
        p.sites.intern(Site { task, stack: NodeId(i), trace: Default::default() });
    }
    let sites = p.memory() - before;
    let each = size_of::<Site>();
    assert!((80_000 * (each + 5)..100_000 * (each + 15)).contains(&sites), "{sites}");
    let before = p.memory();
    for i in 0..100 {
        p.sites.trace(&i.to_string());
    }
    assert_eq!(p.memory() - before, 101 * 100);
    let before = p.memory();
    for i in 0..100 {
        p.pins.hold(NodeId(i));
    }
    assert_eq!(p.memory() - before, 99 * 20);
}

#[test]
fn what_a_tracepoint_says_is_kept_where_its_fields_are_known() {
    let (mut p, mut s) = (Profile::default(), Session::new(Origin::Recorded));
    p.set_format(1, format());
    for (event, raw) in [(0u16, &b"abcd"[..]), (1, b"efgh"), (1, b""), (1, b"ijkl")] {
        let sample = Sample { pid: 1, tid: 1, raw, ..Sample::default() };
        p.add(&mut s, &sample, misc::KERNEL, event, TraceId::default());
    }
    let (chunk, _) = p.between(0, 4).next().expect("a chunk");
    assert_eq!([0, 1, 2, 3].map(|row| chunk.raw(row)), [&b""[..], b"efgh", b"", b"ijkl"]);
    assert!(p.format(1).is_some() && p.format(0).is_none());
    p.learn_event(7, &crate::perfdata::EventDesc::derived("off-cpu"));
    assert!(p.has_durations(7) && !p.has_durations(1));
}

/// Sums of more than 64 bits would wrap around: all weights get a larger unit, so that shares stay right.
#[test]
fn weights_get_a_larger_unit_if_their_sum_has_no_room() {
    let mut p = Profile::default();
    let site = SiteId(0);
    let all = |p: &Profile| p.between(0, 8).next().map(|(chunk, _)| chunk.weight.clone());
    p.push(1, site, u64::MAX - 10, 0, 0);
    p.push(1, site, 10, 0, 0);
    assert_eq!((all(&p), p.sums_epoch()), (Some(vec![u64::MAX - 10, 10]), (0, 0)));
    p.push(1, site, u64::MAX, 0, 0);
    p.push(1, site, 1000, 0, 0);
    let whole = 1 << 56;
    assert_eq!((all(&p), p.sums_epoch()), (Some(vec![whole, 0, whole, 4]), (0, 8)));
    assert_eq!(p.weights, 2 * whole + 4);
    // Sealed chunks are divided as well, also if an answer shares them.
    let shared = p.share_chunks();
    (0..CHUNK + 300).for_each(|_| p.push(1, site, u64::MAX, 0, 0));
    assert_eq!((shared[0].weight[0], p.sums_epoch()), (whole, (0, 16)));
    let sum: u64 = p.between(0, u64::MAX).flat_map(|(chunk, range)| chunk.weight[range].to_vec()).sum();
    assert_eq!((sum, all(&p).map(|list| list[..4].to_vec())), (p.weights, Some(vec![1 << 48, 0, 1 << 48, 0])));
    let mut session = Session::new(Origin::Recorded);
    p.clear(&mut session);
    p.push(1, site, 5 << 16, 0, 0);
    assert_eq!(p.weights, 5);
}

#[test]
fn shares_of_what_came_and_was_lost() {
    let ledger = |recorded, received, expected, timed| {
        let losses = vec![Lost::default(), Lost { recorded, ..Lost::default() }];
        Ledger { losses, received, expected, timed, ..Ledger::default() }
    };
    assert_eq!(ledger(0, 0, 0, 0).lost_samples(), (0, 0.0));
    assert_eq!(ledger(1, 3, 0, 0).lost_samples(), (1, 25.0));
    assert_eq!(ledger(5, 0, 0, 9).lost_samples(), (5, 100.0));
    // Records of units are not samples of the table, received or lost.
    let with_unit = Ledger { lost_of_units: 80, unit_records: 20, ..ledger(81, 3, 0, 0) };
    assert_eq!((with_unit.lost_samples(), with_unit.lost_unit_records()), ((1, 25.0), (80, 80.0)));
    assert_eq!(with_unit.lost(), 81);
    assert_eq!((ledger(0, 0, 0, 9).timed_percent(), ledger(0, 0, 8, 2).timed_percent()), (None, Some(25.0)));
    let one = Acc { samples: 2, period: 30 };
    assert_eq!((one.percent_of(&Acc { samples: 1, period: 120 }), one.percent_of(&Acc::default())), (25.0, 0.0));
    assert!(Acc::default().is_zero() && !one.is_zero());
    let mut less = one;
    less -= Acc { samples: 5, period: 10 };
    assert_eq!(less, Acc { samples: 0, period: 20 });
}

#[test]
fn a_loss_that_is_told_twice_counts_once() {
    let mut ledger = Ledger::default();
    ledger.losses_of(2).recorded = 50;
    ledger.losses_of(0).recorded = 4;
    ledger.losses_of(0).hardware = 3;
    assert_eq!(([0, 1, 2, 3].map(|event| ledger.lost_of(event)), ledger.lost()), ([7, 0, 50, 0], 57));
    // The events' own counters assign losses to events more precisely.
    ledger.losses_of(1).counted = 47;
    assert_eq!(([0, 1, 2, 3].map(|event| ledger.lost_of(event)), ledger.lost()), ([3, 47, 0, 0], 50));
}

#[test]
fn no_more_losses_and_gaps_are_kept_than_that() {
    let mut losses = Losses::default();
    let loss = |time| Loss { time, samples: 1, cpu: None, host: Default::default() };
    (0..(1 << 16) + 3).for_each(|time| losses.push(loss(time)));
    assert_eq!((losses.all().count(), losses.all().next().map(|loss| loss.time)), (1 << 16, Some(3)));
    losses.forget(10);
    assert_eq!(losses.all().next().map(|loss| loss.time), Some(10));
    let mut gaps = Gaps::default();
    (0..1 << 18).for_each(|time| gaps.rest(time, time % 2 == 0));
    assert_eq!(gaps.all().len(), 1 << 16);
}
