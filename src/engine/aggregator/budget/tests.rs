//! Tests of a worker without threads: samples are added, and those that are kept are counted.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;

use super::*;
use crate::engine::Notice;
use crate::engine::aggregator::{AggregatorLinks, used_buffers};
use crate::engine::{IntakeOptions, Options, symbolizer};
use crate::perfdata::EventDesc;
use crate::profile::{CHUNK, FrameId, NodeId, Site, SiteId};
use crate::record::Record;
use crate::record::kinds::{Mmap, TaskRecord};
use crate::session::Origin;
use crate::source::{Batch, Info, Waker};
use crate::symbols::SymbolOptions;

/// Bytes of a full chunk: 24 per row.
const BYTES: usize = CHUNK * 24;
const SECOND: u64 = 1_000_000_000;

fn worker(memory: usize, keep: Option<u64>) -> Aggregator {
    let events = vec![EventDesc { name: "cycles".into(), attr: Default::default(), ids: vec![] }];
    let info = Info { events, ..Info::new(Origin::Recorded) };
    let symbols = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
    let options = Options {
        symbols: symbols.clone(),
        memory,
        keep,
        watched: None,
        own_pid: None,
        wants: IntakeOptions::default(),
        refresh: Duration::from_secs(1),
        per_sample: None,
        realtime: None,
        no_inline: true,
    };
    let links = AggregatorLinks {
        batches: unbounded().1,
        recycle: unbounded().0,
        requests: unbounded().1,
        controls: unbounded().0,
        waker: Waker::default(),
        notices: unbounded().0,
        shared: Arc::default(),
        symbolizer: symbolizer::spawn(symbols, Arc::default()).expect("threads"),
        fetcher: None,
    };
    Aggregator::new(&info, options, links)
}

impl Aggregator {
    /// Adds full chunks, one per second, each with its own process.
    fn fill(&mut self, chunks: std::ops::Range<u64>) {
        for chunk in chunks {
            let core = self.ingest.core_mut();
            let pid = chunk as i32 + 1;
            core.session.apply(&Record::Comm { pid, tid: pid, exec: false, name: b"app" }, chunk * SECOND);
            let task = core.session.task(pid, pid);
            let site = core.profile.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
            for _ in 0..CHUNK {
                core.profile.push((chunk + 1) * SECOND, site, 2, 0, 0);
            }
        }
    }

    fn kept(&self) -> (u64, u64) {
        (self.ingest.core().profile.first(), self.ingest.core().profile.end())
    }
}

/// A worker that was late frees the buffers of the records that waited for it.
#[test]
fn buffers_of_a_backlog_are_freed() {
    let mut worker = worker(usize::MAX, None);
    let (recycle, recycled) = used_buffers();
    worker.links.recycle = recycle;
    for nth in 1..=60 {
        // The records of the first batches are complete with the twentieth.
        let complete_until = (nth >= 20).then_some(nth * SECOND);
        worker.batch(Batch { bytes: Vec::with_capacity(1 << 10), complete_until, ..Batch::default() });
    }
    assert!(!recycled.is_empty() && recycled.len() < 8, "{}", recycled.len());
    assert_eq!(worker.ingest.spare(), None);
}

#[test]
fn within_the_bound_nothing_goes() {
    let mut worker = worker(100 * BYTES, None);
    worker.fill(0..200);
    worker.keep_within(100 * BYTES);
    assert_eq!((worker.kept(), worker.notes.len()), ((0, 200 * CHUNK as u64), 0));
}

#[test]
fn beyond_it_the_oldest_quarter_goes() {
    let mut worker = worker(usize::MAX, None);
    worker.fill(0..100);
    let used = worker.used();
    let (notices, told) = unbounded();
    (worker.links.notices, worker.live) = (notices, true);
    // Other data takes the same amount, and the total exceeds the limit by ten chunks.
    worker.options.memory = 2 * used - 10 * BYTES;
    worker.keep_within(2 * used);
    let room = used - 10 * BYTES;
    let (first, end) = worker.kept();
    let left = (end - first) / CHUNK as u64;
    assert!(worker.used() <= room / 8 * 7 && worker.used() + 2 * BYTES > room / 4 * 3, "{left}");
    assert!(
        worker.notes.len() == 1 && worker.notes[0].ends_with("the oldest samples are dropped"),
        "{:?}",
        worker.notes
    );
    worker.keep_within(3 * used);
    let said: Vec<_> = told.try_iter().filter(|notice| matches!(notice, Notice::Reply(Ok(_)))).collect();
    assert_eq!((said.len(), worker.notes.len()), (1, 1), "it is reported once");
    let (first, end) = worker.kept();
    let left = (end - first) / CHUNK as u64;
    assert_eq!(worker.events.total(0).samples, left * CHUNK as u64);
    assert_eq!(worker.events.total(0).period, 2 * left * CHUNK as u64);
    assert_eq!(worker.ingest.core().profile.ledger.evicted, first);
    assert_eq!((worker.ingest.core().profile.sites.len() as u64, worker.budget.gone), (left, 0));
}

#[test]
fn whoever_takes_the_rest_a_sixth_is_for_samples() {
    let mut worker = worker(usize::MAX, None);
    worker.fill(0..200);
    worker.options.memory = 600 * BYTES;
    worker.keep_within(usize::MAX);
    let least = 100 * BYTES;
    assert!(worker.used() <= least / 8 * 7 && worker.used() > least / 4 * 3 - 2 * BYTES, "{}", worker.used() / BYTES);
    let kept = worker.kept();
    worker.keep_within(usize::MAX);
    assert_eq!(worker.kept(), kept, "dropping samples does not help");
}

/// Stacks get new numbers and all views are rebuilt when samples are dropped: at the limit, that must be seldom.
#[test]
fn at_the_limit_stacks_are_renumbered_seldom() {
    let mut worker = worker(usize::MAX, None);
    worker.fill(0..100);
    worker.options.memory = worker.used();
    for chunk in 100..200 {
        worker.fill(chunk..chunk + 1);
        worker.keep_within(worker.used());
    }
    let epoch = worker.ingest.core().profile.epoch();
    assert!((4..=8).contains(&epoch), "{epoch} times while as much came as there is room for");
    let (first, end) = worker.kept();
    assert!((end - first) as usize / CHUNK >= 70, "{}", (end - first) as usize / CHUNK);
}

#[test]
fn what_the_program_has_is_looked_at_every_tenth_of_a_second() {
    let mut worker = worker(1 << 20, None);
    worker.fill(0..100);
    worker.keep_budget();
    let first = worker.kept().0;
    assert!(first > 0, "a test has more than a megabyte");
    worker.fill(100..200);
    worker.budget.next_look = u64::MAX;
    worker.keep_budget();
    assert_eq!(worker.kept().0, first);
    worker.budget.next_look = 0;
    worker.keep_budget();
    assert!(worker.kept().0 > first);
}

#[test]
fn what_is_told_of_memory_is_what_is_there() {
    let mut worker = worker(1 << 30, None);
    let memory = worker.memory();
    assert!(memory.bound == Some(1 << 30) && memory.private > 1 << 20 && !memory.is_exceeded());
    worker.fill(0..100);
    let after = worker.memory();
    let of = |memory: &Memory, name| memory.parts.iter().find(|part| part.name == name).map_or(0, |part| part.bytes);
    assert_eq!(of(&after, "samples") - of(&memory, "samples"), 100 * BYTES);
    assert_eq!(after.rest(), after.private - after.parts.iter().map(|part| part.bytes).sum::<usize>());
    worker.options.memory = usize::MAX;
    assert_eq!(worker.memory().bound, None);
    let mut small = Memory { bound: Some(64 << 20), private: 94 << 20, parts: Vec::new() };
    assert!(!small.is_exceeded());
    small.private += 1 << 20;
    assert!(small.is_exceeded());
}

#[test]
fn what_is_older_than_is_kept_goes_by_whole_chunks() {
    let mut worker = worker(usize::MAX, Some(5 * SECOND));
    // Of the seconds 1 to 10: samples older than 10 - 5 are dropped.
    worker.fill(0..10);
    worker.keep_budget();
    assert_eq!((worker.kept().0, worker.notes.len(), worker.budget.gone), (4 * CHUNK as u64, 0, 4 * CHUNK));
    assert_eq!(worker.ingest.core().profile.sites.len(), 10, "their stacks stay for a while");
    worker.fill(10..14);
    worker.keep_budget();
    // More samples are dropped than kept, so their stacks are freed, too.
    assert_eq!((worker.kept().0, worker.budget.gone), (8 * CHUNK as u64, 0));
    assert_eq!(worker.ingest.core().profile.sites.len(), 6);
    assert_eq!(worker.events.total(0).samples, 6 * CHUNK as u64);
    worker.keep_budget();
    assert_eq!(worker.kept().0, 8 * CHUNK as u64);
    // As many samples are dropped as kept: not yet enough to free stacks.
    worker.fill(14..20);
    worker.options.keep = Some(6 * SECOND);
    worker.keep_budget();
    assert_eq!((worker.kept().0 / CHUNK as u64, worker.budget.gone / CHUNK), (13, 5));
    worker.fill(20..22);
    worker.keep_budget();
    assert_eq!((worker.kept().0 / CHUNK as u64, worker.budget.gone / CHUNK), (15, 7));
    assert_eq!(worker.ingest.core().profile.sites.len(), 14);
    worker.options.keep = Some(5 * SECOND);
    worker.keep_budget();
    assert_eq!((worker.kept().0 / CHUNK as u64, worker.budget.gone), (16, 0));
}

/// Moving data that a snapshot shares would copy it, and the copies would count against the limit.
#[test]
fn while_a_moment_is_saved_nothing_is_moved_nor_dropped_for_its_sake() {
    let mut worker = worker(160 << 20, Some(5 * SECOND));
    let (reply, moments) = unbounded();
    worker.request(crate::engine::Request::Save(reply));
    let moment = moments.recv().expect("a moment");
    assert_eq!(worker.limit(), MemoryLimit(180 << 20));
    worker.fill(0..14);
    worker.drop_old();
    assert_eq!((worker.budget.gone / CHUNK, worker.ingest.core().profile.sites.len()), (8, 14));
    drop(moment);
    assert_eq!(worker.limit(), MemoryLimit(160 << 20));
    worker.drop_old();
    assert_eq!((worker.budget.gone, worker.ingest.core().profile.sites.len()), (0, 6));
}

#[test]
fn stacks_that_nobody_has_go_before_samples_do() {
    let mut worker = worker(usize::MAX, None);
    worker.fill(0..40);
    (0..8).for_each(|_| assert!(worker.drop_oldest()));
    worker.options.memory = worker.used() / 3 * 4;
    let trie = &mut worker.ingest.core_mut().profile.trie;
    // As many nodes as twenty chunks take, without samples.
    (0..(20 * BYTES / 12) as u32).fold(NodeId::ROOT, |node, i| trie.child(node, FrameId(i)));
    worker.keep_within(worker.used());
    assert_eq!((worker.kept().0, worker.budget.gone), (8 * CHUNK as u64, 0));
    assert!(worker.used() <= worker.options.memory);
}

#[test]
fn the_chunk_that_is_being_filled_stays() {
    let mut worker = worker(0, None);
    worker.fill(0..2);
    worker.ingest.core_mut().profile.push(99 * SECOND, SiteId(0), 1, 0, 0);
    worker.keep_within(usize::MAX);
    assert_eq!(worker.kept(), (2 * CHUNK as u64, 2 * CHUNK as u64 + 1));
    assert!(!worker.drop_oldest());
}

/// Runs short processes: `sampled` of ten have a sample each.
fn storm(worker: &mut Aggregator, count: i32, sampled: i32, from: u64) {
    for i in 0..count {
        if i % 100 == 0 {
            worker.keep_budget();
        }
        let core = worker.ingest.core_mut();
        let (pid, time) = (100 + i % 30_000, from + i as u64 * 1_000_000);
        let task = TaskRecord { pid, ppid: 1, tid: pid, ptid: 1, time };
        core.session.apply(&Record::Fork(task), time);
        core.session.apply(&Record::Comm { pid, tid: pid, exec: true, name: b"short" }, time);
        for (part, name) in ["/bin/short", "/lib/libc.6"].iter().enumerate() {
            let start = 0x7f00_0000_0000 + ((i as u64) << 24) + ((part as u64) << 20);
            let map =
                Mmap { pid, tid: pid, start, len: 0x1000, prot: 5, flags: 2, name: name.as_bytes(), ..Mmap::default() };
            core.session.apply(&Record::Mmap(map), time);
        }
        if i % 10 < sampled {
            let task = core.session.task(pid, pid);
            let site = core.profile.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
            core.profile.push(time, site, 2, 0, 0);
        }
        core.session.apply(&Record::Exit(task), time + 500_000);
    }
}

#[test]
fn a_storm_of_processes_leaves_what_was_sampled_of_them() {
    let memory = |worker: &Aggregator| worker.ingest.core().session.memory();
    let [mut none, mut few] = [0, 1].map(|_| worker(usize::MAX, None));
    [&mut none, &mut few].into_iter().for_each(|worker| worker.ingest.core_mut().session.dsos.share = true);
    storm(&mut none, 20_000, 0, SECOND);
    assert!(memory(&none) < 4 << 20, "{} without a sample", memory(&none));
    storm(&mut few, 20_000, 5, SECOND);
    assert!(memory(&few) < 8 << 20, "{} with 10,000 of them", memory(&few));
    assert_eq!((few.kept(), few.notes.len()), ((0, 10_000), 0));
    // Their stacks go with their samples.
    few.fill(1000..1010);
    few.options.keep = Some(20 * SECOND);
    few.keep_budget();
    few.compact();
    assert!(memory(&few) < 4 << 20, "{}", memory(&few));
}

#[test]
fn what_no_sample_has_goes_before_samples_and_samples_by_quarters() {
    let mut worker = worker(usize::MAX, Some(600 * SECOND));
    worker.ingest.core_mut().session.dsos.share = true;
    storm(&mut worker, 40_000, 10, SECOND);
    let (used, all) = (worker.used(), worker.kept());
    // Memory that other parts free is enough, so no sample is dropped.
    worker.options.memory = used + (10 << 20);
    worker.keep_within(used + (10 << 20));
    assert_eq!((worker.kept(), worker.notes.len()), (all, 0));
    // A single byte over the limit costs a quarter of the samples, or more where processes take most of the memory.
    let mut before = all;
    for round in 1..=2 {
        let used = worker.used();
        worker.options.memory = 2 * used - 1;
        worker.keep_within(2 * used);
        let now = worker.kept();
        let gone = now.0 - before.0;
        let kept = now.1 - now.0;
        assert!(gone > 0 && 3 * kept >= before.1 - before.0, "{round}: {gone}, {kept} kept");
        assert!(worker.used() < used);
        before = now;
    }
    assert_eq!(worker.notes.len(), 2);
    assert!(worker.notes.iter().all(|note| note.ends_with("earlier than --keep")), "{:?}", worker.notes);
}

/// The header of a stream may contain any frequency.
#[test]
fn no_frequency_is_too_high_for_what_is_expected() {
    let mut worker = worker(usize::MAX, None);
    (worker.facts.frequency, worker.facts.n_cpus) = (u64::MAX, 4);
    std::thread::sleep(Duration::from_millis(2));
    worker.count_expected();
    assert!(worker.expected.count > 1e17, "{}", worker.expected.count);
}
