//! Processes that map the same files at other addresses: aggregated together, and saved with their own addresses.

use std::path::Path;

use crate::common::data;
use perfprof_tui::engine::{IntakeOptions, Snapshot, offline};
use perfprof_tui::export::perfdata;
use perfprof_tui::record::kinds::{split, types};
use perfprof_tui::session::hosts::HostId;
use perfprof_tui::source::{Batch, Progress, recording};
use perfprof_tui::symbols::SymbolOptions;

fn load(file: &Path, addresses: bool) -> offline::Offline {
    let mut source = recording::open(&[file.to_owned()]).expect("opens");
    let symbols = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
    offline::load(&mut *source, symbols, IntakeOptions { addresses, ..IntakeOptions::default() }).expect("loads")
}

/// The raw samples of a recording between two times: time, thread, address, call chain.
fn samples(file: &Path, times: std::ops::Range<u64>) -> Vec<(u64, i32, u64, Vec<u64>)> {
    let mut source = recording::open(&[file.to_owned()]).expect("opens");
    let layout = source.info().events[0].layout();
    let mut found = Vec::new();
    loop {
        let mut batch = Batch::default();
        let step = source.next(&mut batch).expect("reads");
        let mut rest = &batch.bytes[..];
        while let Ok(Some((header, body, after))) = split(rest) {
            rest = after;
            if header.kind == types::SAMPLE {
                let sample = layout.sample(header, body).expect("a sample");
                let words = sample.chain.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8")));
                let one = (sample.time, sample.tid, sample.ip, words.collect());
                found.extend(Some(one).filter(|one| times.contains(&one.0)));
            }
        }
        if matches!(step, Progress::End(_)) {
            break;
        }
    }
    found.sort();
    found
}

#[test]
fn a_snapshot_has_the_addresses_of_each_process() {
    // Many short processes of the same few programs, at random addresses, started by fork and exec.
    let file = data("forker-g.data");
    let (shared, apart) = (load(&file, false), load(&file, true));
    let counts = |loaded: &offline::Offline| {
        let profile = &loaded.ingest.core().profile;
        (profile.len(), profile.frames.len(), profile.trie.len())
    };
    let (with, without) = (counts(&shared), counts(&apart));
    assert_eq!(with.0, without.0);
    assert!(with.1 * 3 < without.1 * 2 && with.2 < without.2, "frames and stacks are shared: {with:?} {without:?}");
    let dir = tempfile::tempdir().expect("dir");
    let saved = dir.path().join("saved.data");
    let moment = shared.ingest.core().moment();
    addresses_are_as_recorded(&file, &moment, &saved);
    // Compaction removes the mapping between shared and own addresses of evicted samples.
    let mut ingest = shared.ingest;
    let core = ingest.core_mut();
    core.profile.compact(&mut core.session);
    addresses_are_as_recorded(&file, &core.moment(), &saved);
}

fn addresses_are_as_recorded(file: &Path, moment: &Snapshot, saved: &Path) {
    let times = moment.chunks.iter().flat_map(|chunk| chunk.time.iter().copied());
    let (first, last) = times.fold((u64::MAX, 0), |(first, last), time| (first.min(time), last.max(time)));
    // For parts as well: data of earlier samples is not in those files.
    for from in (first..=last).step_by(((last - first) / 7) as usize) {
        perfdata::save(moment, HostId::default(), saved, &[], Some((from, u64::MAX))).expect("saved");
        let (before, after) = (samples(file, from..u64::MAX), samples(saved, 0..u64::MAX));
        assert!(!before.is_empty() && before.len() == after.len());
        let mut cut = 0;
        for ((time, tid, ip, chain), saved) in before.iter().zip(&after) {
            assert_eq!((time, tid, ip), (&saved.0, &saved.1, &saved.2));
            if chain != &saved.3 {
                // A word outside of the process's code ends the chain: it becomes 0, and the frames before it stay.
                let (last, callees) = saved.3.split_last().expect("a chain");
                assert!(*last == 0 && chain.starts_with(callees), "{chain:x?} was saved as {:x?}", saved.3);
                cut += 1;
            }
        }
        assert!(cut * 20 < before.len(), "{cut} of {} chains were cut", before.len());
    }
}

#[test]
fn what_nobody_has_any_more_is_forgotten() {
    let loaded = load(&data("forker-g.data"), false);
    let mut ingest = loaded.ingest;
    let core = ingest.core_mut();
    let tasks = core.session.tasks().len();
    core.profile.clear(&mut core.session);
    assert!(tasks > 20 && core.session.tasks().is_empty());
}
