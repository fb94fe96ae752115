//! Tests with chains written by hand: the words that become frames, and the mapping of each.

use super::*;
use crate::record::Record;
use crate::record::kinds::Mmap;
use crate::session::{Origin, Session};

fn chain(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn session() -> Session {
    let mut session = Session::new(Origin::Recorded);
    for (start, name) in [(0x1000, &b"/a"[..]), (0x5000, b"//anon")] {
        let map = Mmap { pid: 5, tid: 5, start, len: 0x1000, prot: 5, name, ..Mmap::default() };
        session.apply(&Record::Mmap(map), 0);
    }
    session
}

/// Returns the mapping and the address of each frame, leaf first.
fn frames(chain_of: &mut Chain, session: &Session, pid: i32, mode: u16, words: &[u64]) -> Vec<(MapId, u64)> {
    let bytes = chain(words);
    let ip = words.iter().copied().find(|word| *word < CONTEXT_MAX).unwrap_or_default();
    let sample = Sample { pid, ip, chain: &bytes, ..Sample::default() };
    chain_of.decode(&sample, mode, SharedWords::default());
    chain_of.frames(session.places(pid), usize::MAX).iter().map(|frame| (frame.map, frame.ip)).collect()
}

fn decoded(sample: &Sample<'_>, mode: u16) -> Vec<Word> {
    let mut chain = Chain::default();
    assert_eq!(chain.decode(sample, mode, SharedWords::default()), 0);
    chain.words().to_vec()
}

fn fingerprint(sample: &Sample<'_>, space: u32, kernel: u32, mode: u16) -> Fingerprint {
    let words = decoded(sample, mode);
    words.iter().rev().fold(Fingerprint::new(MapGenerations { space, kernel }), Fingerprint::with)
}

#[test]
fn a_word_where_no_code_is_mapped_is_no_frame() {
    let session = session();
    let (file, jit) = (session.user_map(5, 0x1000), session.user_map(5, 0x5000));
    let (mut taken, unknown, broken) = (Chain::default(), MapId::UNKNOWN, (MapId::BROKEN, 0));
    let mut of = |pid, mode, words: &[u64]| frames(&mut taken, &session, pid, mode, words);
    let user = CONTEXT_USER;
    // Nor do those after it. Memory of a JIT compiler is mapped.
    assert_eq!(of(5, misc::USER, &[user, 0x1001, 0x5001, 0x9000, 0x1002]), [(file, 0x1001), (jit, 0x5001), broken]);
    assert_eq!(of(5, misc::USER, &[user, 0x1001, 0]), [(file, 0x1001), broken]);
    assert_eq!(of(5, misc::USER, &[user, 0x1001, 0x2000]), [(file, 0x1001), broken]);
    assert_eq!(of(5, misc::USER, &[user, 0x1001, 0x1fff]), [(file, 0x1001), (file, 0x1fff)]);
    assert_eq!(of(5, misc::USER, &[user, 0x1001, u64::MAX, 0x1002]), [(file, 0x1001), broken], "no marker");
    // The sampled address and the place of a system call come from the registers.
    assert_eq!(of(5, misc::USER, &[user, 0x9000, 0x9001, 0x9002]), [(unknown, 0x9000), broken]);
    let kernel = (MapId::KERNEL, 0xffff_8000_0000_0000);
    let called = [CONTEXT_KERNEL, kernel.1, kernel.1, user, 0x9000, 0x1001, 0x9001];
    assert_eq!(of(5, misc::KERNEL, &called), [kernel, kernel, (unknown, 0x9000), (file, 0x1001), broken]);
    // Guests have their own mappings, and a process without known mappings is not checked.
    assert_eq!(of(5, misc::GUEST_USER, &[CONTEXT_GUEST_USER, 1, 2]), [(MapId::GUEST, 1), (MapId::GUEST, 2)]);
    assert_eq!(of(6, misc::USER, &[user, 0x1001, 0x9001]), [(unknown, 0x1001), (unknown, 0x9001)]);
    taken.keeps_words = true;
    let kept = frames(&mut taken, &session, 5, misc::USER, &[user, 0x1001, 0x9000, 0x1002]);
    assert_eq!(kept, [(file, 0x1001), (unknown, 0x9000), (file, 0x1002)]);
    taken.most = Some(2);
    let cut = frames(&mut taken, &session, 5, misc::USER, &[user, 0x1001, 0x9000, 0x1002]);
    assert_eq!(cut, [(file, 0x1001), (unknown, 0x9000)], "from the leaf on");
}

#[test]
fn a_chain_that_was_cut_ends_in_a_frame_of_its_own() {
    let session = session();
    let last = |words: &[u64]| {
        let found = frames(&mut Chain::default(), &session, 5, misc::USER, words);
        (found.len(), found[found.len() - 1])
    };
    assert_eq!(last(&[CONTEXT_USER, 0x1001, 0x1002, CONTEXT_CUT]), (3, (MapId::CUT, 0)));
    let sample = Sample { ip: NOT_WALKED, ..Sample::default() };
    assert_eq!(decoded(&sample, misc::KERNEL), [Word { ip: 0, context: NOT_WALKED, caller: false }]);
    let broken = last(&[CONTEXT_USER, 0x1001, 0x9000, 0x1002, CONTEXT_CUT]);
    assert_eq!(broken, (2, (MapId::BROKEN, 0)), "it is broken before");
}

#[test]
fn marks_of_cuts_do_not_exceed_the_depth() {
    let words = [&[CONTEXT_USER, 1][..], &[CONTEXT_CUT; 3000]].concat();
    assert_eq!(decoded(&Sample { ip: 1, chain: &chain(&words), ..Sample::default() }, misc::USER).len(), MAX_DEPTH + 1);
}

#[test]
fn the_first_of_each_context_is_exact_and_the_deepest_are_cut() {
    let callers = |words: &[u64]| {
        let ip = words.iter().copied().find(|word| *word < CONTEXT_MAX).unwrap_or(9);
        let words = decoded(&Sample { ip, chain: &chain(words), ..Sample::default() }, misc::USER);
        words.into_iter().map(|word| (word.ip, word.caller)).collect::<Vec<_>>()
    };
    assert_eq!(callers(&[1, 2, CONTEXT_KERNEL, 3, 4]), [(1, false), (2, true), (3, false), (4, true)]);
    assert_eq!(callers(&[1, CONTEXT_CUT, 2]), [(1, false), (0, false), (2, true)]);
    let deep: Vec<u64> = (1..=MAX_DEPTH as u64 + 5).collect();
    assert_eq!(callers(&deep).len(), MAX_DEPTH);
    assert_eq!(callers(&deep).last(), Some(&(MAX_DEPTH as u64, true)));
    assert_eq!(callers(&[CONTEXT_MAX - 1, CONTEXT_KERNEL, 7]), [(CONTEXT_MAX - 1, false), (7, false)]);
    assert_eq!(callers(&[CONTEXT_MAX, 7, CONTEXT_MAX]), [(7, false)], "marks nothing that is known");
    assert_eq!(callers(&[7, CONTEXT_MAX, 8]), [(7, false), (CONTEXT_MAX, true), (8, true)], "not a marker");
}

#[test]
fn both_halves_of_a_fingerprint_tell_long_chains_apart() {
    let mut seen = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let mut random = 7u64;
    for n in 0..2000 {
        let words = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 20
        });
        let words: Vec<u64> = words.take(1 + n % 30).collect();
        let print = fingerprint(&Sample { ip: words[0], chain: &chain(&words), ..Sample::default() }, 1, 1, misc::USER);
        assert!(seen.0.insert(print.0) && seen.1.insert(print.1), "{n}");
    }
}

#[test]
fn what_was_sampled_is_at_the_samples_own_address() {
    let of = |mode, words: &[u64]| {
        let words = decoded(&Sample { ip: 50, chain: &chain(words), ..Sample::default() }, mode);
        words.into_iter().map(|word| (word.ip, word.context, word.caller)).collect::<Vec<_>>()
    };
    let (kernel, user) = ((50, CONTEXT_KERNEL, false), (50, CONTEXT_USER, false));
    assert_eq!(of(misc::KERNEL, &[]), [kernel]);
    assert_eq!(of(misc::KERNEL, &[CONTEXT_USER]), [kernel]);
    // The chain leaves out the kernel.
    assert_eq!(of(misc::KERNEL, &[CONTEXT_USER, 7, 8]), [kernel, (7, CONTEXT_USER, false), (8, CONTEXT_USER, true)]);
    assert_eq!(of(misc::KERNEL, &[CONTEXT_USER, CONTEXT_CUT]), [kernel, (0, CONTEXT_CUT, false)]);
    // The chain was recorded a few instructions later than the hardware's address.
    assert_eq!(of(misc::USER, &[CONTEXT_USER, 53, 8]), [user, (8, CONTEXT_USER, true)]);
    // A mode without a meaning.
    assert_eq!(of(0, &[CONTEXT_USER, 50, 8]), [user, (8, CONTEXT_USER, true)]);
}

#[test]
fn fingerprints_tell_everything_apart_that_matters() {
    let words =
        [(1, chain(&[1, 2])), (1, chain(&[2, 1])), (1, chain(&[1, 2, 0])), (1, chain(&[1, 3])), (2, chain(&[1, 3]))];
    let mut seen = std::collections::BTreeSet::new();
    let mut halves = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for (ip, chain) in &words {
        let sample = Sample { ip: *ip, chain, ..Sample::default() };
        for (space, kernel, mode) in [(1, 0, 2), (0, 1, 2), (2, 0, 2), (0, 0, 2), (1, 0, 1), (3, 0, 2), (0, 3, 2)] {
            let print = fingerprint(&sample, space, kernel, mode);
            assert!(seen.insert(print), "{sample:?} {space} {kernel} {mode}");
            halves.0.insert(print.0);
            halves.1.insert(print.1);
        }
    }
    assert_eq!((seen.len(), halves.0.len(), halves.1.len()), (35, 35, 35));
}

#[test]
fn shared_words_are_decoded_if_they_mean_something_else() {
    let decode = |most: Option<usize>, words: &[u64]| {
        let mut taken = Chain { most, ..Chain::default() };
        let sample = Sample { ip: 1, chain: &chain(words), ..Sample::default() };
        let shared = SharedWords { count: 2, context: CONTEXT_USER };
        (taken.decode(&sample, misc::USER, shared), taken.words().len())
    };
    assert_eq!(decode(None, &[CONTEXT_USER, 1, 7, 8]), (2, 1));
    assert_eq!(decode(None, &[CONTEXT_KERNEL, 1, CONTEXT_USER, 5, 7, 8]), (2, 2));
    // Without a leaf, the first of them is exact; in the kernel, they have other mappings.
    assert_eq!(decode(None, &[CONTEXT_KERNEL, 1, CONTEXT_USER, 7, 8]), (0, 3));
    assert_eq!(decode(None, &[CONTEXT_USER, 1, CONTEXT_KERNEL, 3, 7, 8]), (0, 4));
    assert_eq!(
        (decode(Some(3), &[CONTEXT_USER, 1, 7, 8]), decode(Some(2), &[CONTEXT_USER, 1, 7, 8])),
        ((2, 1), (0, 2))
    );
}
