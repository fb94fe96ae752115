//! Tests of chains that arrive late, never, or damaged.

use super::*;
use crate::ingest::{Ingest, IntakeOptions};
use crate::kernel::attr::{Attr, TYPE_SOFTWARE, sample};
use crate::record::kinds::misc;
use crate::record::kinds::tests::bytes;
use crate::record::sample::{CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED};
use crate::session::Origin;
use crate::source::{Batch, Info};

const KERNEL: u64 = 0xffff_ffff_8100_0100;

fn event() -> EventDesc {
    let mut attr = Attr { kind: TYPE_SOFTWARE, ..Attr::default() };
    attr.sample_type = sample::IP | sample::TID | sample::TIME | sample::CALLCHAIN | sample::RAW;
    attr.set(Flag::DeferCallchain, true);
    attr.set(Flag::SampleIdAll, true);
    EventDesc { name: "cpu-clock".into(), attr, ids: Vec::new() }
}

/// Appends a sample of thread 7 with raw data after its chain.
fn sampled(out: &mut Vec<u8>, time: u64, chain: &[u64]) {
    sampled_in(out, 7, time, chain);
}

fn sampled_in(out: &mut Vec<u8>, tid: u64, time: u64, chain: &[u64]) {
    let head = bytes(&[KERNEL, tid << 32 | 7, time, chain.len() as u64]);
    let parts = [head, bytes(chain), vec![4, 0, 0, 0, 1, 2, 3, 4]];
    encode(out, types::SAMPLE, misc::KERNEL, |out| out.extend(parts.concat())).expect("fits");
}

fn came(out: &mut Vec<u8>, time: u64, cookie: u64, words: &[u64]) {
    came_in(out, 7, time, cookie, words);
}

fn came_in(out: &mut Vec<u8>, tid: u64, time: u64, cookie: u64, words: &[u64]) {
    let body = [bytes(&[cookie, words.len() as u64]), bytes(words), bytes(&[tid << 32 | 7, time])].concat();
    encode(out, types::CALLCHAIN_DEFERRED, misc::USER, |out| out.extend(body)).expect("fits");
}

/// Returns the samples' stacks, leaf first, in the order in which they were applied, and the number of incomplete ones.
fn taken(records: &[u8], room: usize) -> (Vec<(u64, Vec<u64>)>, u64) {
    let info = Info { events: vec![event()], ..Info::new(Origin::Recorded) };
    let mut ingest = Ingest::new(&info, None, IntakeOptions { addresses: true, ..IntakeOptions::default() });
    ingest.deferred.room = room;
    let mut batch = Batch { bytes: records.to_vec(), complete_until: Some(u64::MAX), ..Batch::default() };
    ingest.feed(&mut batch);
    let profile = &ingest.core().profile;
    let mut out = Vec::new();
    for (chunk, range) in profile.between(0, u64::MAX) {
        for row in range {
            let stack = profile.sites.all()[chunk.site[row] as usize].stack;
            let ips = profile.trie.walk(stack).map(|frame| profile.frames.get(frame).ip).collect();
            out.push((chunk.time[row], ips));
        }
    }
    (out, profile.ledger.unjoined)
}

#[test]
fn a_sample_gets_the_chain_that_its_cookie_brings() {
    let mut records = Vec::new();
    let lacking = |cookie| [CONTEXT_KERNEL, KERNEL, KERNEL + 0x100, CONTEXT_USER_DEFERRED, cookie];
    sampled(&mut records, 10, &lacking(1));
    // Two samples of one kernel entry share a cookie, with another thread's records in between.
    sampled(&mut records, 11, &lacking(2));
    sampled(&mut records, 12, &lacking(1));
    sampled(&mut records, 13, &[CONTEXT_KERNEL, KERNEL, CONTEXT_USER, 0x500]);
    came(&mut records, 14, 1, &[CONTEXT_USER, 0x200, 0x300]);
    came(&mut records, 15, 9, &[CONTEXT_USER, 0x900]);
    sampled(&mut records, 16, &lacking(3));
    let whole = vec![KERNEL, KERNEL + 0x100, 0x200, 0x300];
    let cut = vec![KERNEL, KERNEL + 0x100];
    let want =
        vec![(10, whole.clone()), (11, cut.clone()), (12, whole.clone()), (13, vec![KERNEL, 0x500]), (16, cut.clone())];
    assert_eq!(taken(&records, ROOM), (want.clone(), 2));
    // Without memory, the oldest samples are applied incomplete, in order.
    let (hurried, lacks) = taken(&records, 0);
    assert_eq!(hurried.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [10, 11, 12, 13, 16]);
    assert_eq!((hurried[0].1.clone(), lacks), (cut, 4));
}

/// Threads may use the same number at the same time.
#[test]
fn a_cookie_is_of_its_thread_alone() {
    let lacking = [CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, 1];
    let mut records = Vec::new();
    sampled_in(&mut records, 7, 10, &lacking);
    sampled_in(&mut records, 8, 11, &lacking);
    came_in(&mut records, 9, 12, 1, &[CONTEXT_USER, 0x900]);
    came_in(&mut records, 8, 13, 1, &[CONTEXT_USER, 0x800]);
    came_in(&mut records, 7, 14, 1, &[CONTEXT_USER, 0x700]);
    let want = vec![(10, vec![KERNEL, 0x700]), (11, vec![KERNEL, 0x800])];
    assert_eq!(taken(&records, ROOM), (want, 0));
}

#[test]
fn damaged_chains_are_no_chains() {
    let lacking = [CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, 1];
    for body in [vec![], bytes(&[1]), bytes(&[1, 5, CONTEXT_USER]), bytes(&[1, u64::MAX]), bytes(&[1, 1 << 61])] {
        let mut records = Vec::new();
        sampled(&mut records, 10, &lacking);
        encode(&mut records, types::CALLCHAIN_DEFERRED, misc::USER, |out| out.extend(&body)).expect("fits");
        assert_eq!(taken(&records, ROOM), (vec![(10, vec![KERNEL])], 1), "{body:?}");
    }
    // A chain that makes a record too long for its header is not added.
    let mut records = Vec::new();
    let long: Vec<u64> =
        lacking[..2].iter().copied().chain((0..4100).map(|i| KERNEL + i)).chain([CONTEXT_USER_DEFERRED, 1]).collect();
    sampled(&mut records, 10, &long);
    came(&mut records, 11, 1, &vec![0x200; 4096]);
    let (stacks, lacks) = taken(&records, ROOM);
    assert_eq!((stacks.len(), lacks), (1, 1));
    // Within a user chain, the number is an address like any other that an unwinder may find.
    let mut records = Vec::new();
    sampled(&mut records, 10, &[CONTEXT_USER, 0x200, CONTEXT_USER_DEFERRED, 1]);
    assert_eq!(taken(&records, ROOM).1, 0);
}
