//! Compares CPU contexts with plain loops over the same samples.

use std::collections::BTreeMap;

use super::*;
use crate::profile::{CHUNK, FrameId, Loss};
use crate::query::staged::Staged;
use crate::session::MapId;
use proptest::prelude::*;

/// Samples as (time in ms, CPU, kernel stack). Those without a stack are of the idle task.
fn recorded(samples: &[(u64, u16, &[&str])]) -> Staged {
    let mut staged = Staged::default();
    for (ms, cpu, stack) in samples {
        let node = staged.stack_in("kernel", stack);
        let site = staged.site_at(if stack.is_empty() { 0 } else { 7 }, node);
        staged.profile.push(ms * 1_000_000, site, 1, *cpu, 0);
    }
    staged
}

const TIMER: &[&str] = &["x", "__do_softirq", "run_timer_softirq", "call_timer_fn", "est"];

#[test]
fn samples_by_context_and_the_function_behind() {
    let leaf = [TIMER, &["find_bit"]].concat();
    let mut samples: Vec<(u64, u16, &[&str])> = vec![(0, 3, &["main"]), (50, 3, &[])];
    samples.extend((0..8).map(|i| (100 + i, 3, leaf.as_slice())));
    samples.extend([(108, 3, TIMER), (109, 3, TIMER), (200, 0, &["main"])]);
    let recorded = recorded(&samples);
    let data = recorded.data();
    let mut counts = CpuCounts::new(0, false);
    (0..=data.profile.end()).for_each(|until| counts.update(data, until));
    let answer = counts.answer(data, Some(3));
    let row = answer.row(3).expect("there");
    let timer = of_vector(1);
    assert_eq!((row.counts[KERNEL], row.counts[IDLE], row.counts[timer], row.total()), (1, 1, 10, 12));
    assert_eq!((row.vector(), row.peak), (Some(1), 100.0));
    assert_eq!(row.history, [0.0, 100.0, 0.0]);
    assert!(dispatches("__netif_receive_skb_core.constprop.0") && !dispatches("br_handle_frame"));
    let est = SlotFunction { slot: timer, samples: 10, name: "est".into() };
    assert_eq!(answer.behind(3, timer), Some(&est));
    assert_eq!((answer.behind(0, timer), answer.rows.len()), (None, 2));
}

#[test]
fn a_long_recording_has_longer_buckets_and_a_live_one_forgets() {
    let samples: Vec<(u64, u16, &[&str])> = (0..1000).map(|i| (i * 100, 0, TIMER)).collect();
    let recorded = recorded(&samples);
    let data = recorded.data();
    let count = |sliding| {
        let mut counts = CpuCounts::new(0, sliding);
        counts.update(data, u64::MAX);
        let answer = counts.answer(data, None);
        (answer.rows[0].total(), answer.rows[0].history.len(), answer.window)
    };
    assert_eq!(count(false), (1000, 250, 99_900_000_000));
    assert_eq!(count(true).0, 100);
}

#[test]
fn lost_records_count_for_their_cpu_in_the_window() {
    let samples: Vec<(u64, u16, &[&str])> = (0..1000).map(|i| (i * 100, (i % 2) as u16, TIMER)).collect();
    let mut recorded = recorded(&samples);
    for (ms, samples, cpu) in [(9, 5000, Some(0)), (95_000, 300, Some(1)), (99_000, 40, Some(1)), (99_500, 7, None)] {
        recorded.profile.losses.push(Loss { time: ms * 1_000_000, samples, cpu, host: Default::default() });
    }
    let mut counts = CpuCounts::new(0, true);
    counts.update(recorded.data(), u64::MAX);
    let answer = counts.answer(recorded.data(), None);
    assert_eq!(answer.rows.iter().map(|row| row.lost).collect::<Vec<_>>(), [7, 347]);
}

#[test]
fn what_a_cpu_was_busy_with() {
    let mut row = CpuSamples { cpu: 5, counts: std::array::from_fn(|slot| 1 << slot), ..CpuSamples::default() };
    assert_eq!((row.total(), row.softirqs(), row.vector()), (0x7fff, 0x7ff0, Some(9)));
    assert_eq!((row.percent(0x7fff), row.soft()), (100.0, row.percent(0x7ff8)));
    row.counts[SOFTIRQ + 1..].fill(3);
    assert_eq!(row.vector(), Some(0), "the first of equal ones");
    row.counts[SOFTIRQ + 1..].fill(0);
    assert_eq!((row.vector(), row.percent(31 * 3)), (None, 300.0));
    assert_eq!(CpuSamples::default().percent(2), 200.0);
    let behind = vec![SlotFunction { slot: IRQ, samples: 4, name: "nvme_irq".into() }];
    let rows = vec![row.clone(), CpuSamples { cpu: 9, counts: [2; SLOTS], ..CpuSamples::default() }];
    let answer = CpuAnswer { rows, window: 2_500_000_000, frequency: 99, cpu: Some(5), behind, ..CpuAnswer::default() };
    assert_eq!((answer.expected(), answer.at_work()), (247.5, 31 - 4 + 30 - 2));
    assert_eq!([5, 9, 70_000].map(|cpu| answer.row(cpu).map(CpuSamples::total)), [Some(31), Some(30), None]);
    assert_eq!(
        [(5, IRQ), (5, IDLE), (9, IRQ)].map(|(cpu, slot)| answer.behind(cpu, slot).is_some()),
        [true, false, false]
    );
}

/// The functions responsible for the slots of samples of kernel stacks.
fn found(stacks: &[(usize, &[&str])]) -> Vec<(usize, u64, String)> {
    let times = stacks.iter().flat_map(|(n, stack)| std::iter::repeat_n(*stack, *n));
    let samples: Vec<(u64, u16, &[&str])> = times.enumerate().map(|(i, stack)| (i as u64, 3, stack)).collect();
    let recorded = recorded(&samples);
    let data = recorded.data();
    let mut counts = CpuCounts::new(0, false);
    counts.update(data, u64::MAX);
    counts.answer(data, Some(3)).behind.into_iter().map(|b| (b.slot, b.samples, b.name)).collect()
}

const NET: usize = SOFTIRQ + 1 + 3;

#[test]
fn behind_a_slot_is_what_was_registered_there() {
    let net = |rest: &'static [&'static str]| [&["x", "__do_softirq", "net_rx_action"], rest].concat();
    let [a, b, deep, back] =
        [&["poll_a"][..], &["poll_b", "deep"], &["poll_b", "deep", "leaf"], &["poll_c", "mid", "poll_c"]].map(net);
    let one = |n: u64, name: &str| vec![(NET, n, name.to_owned())];
    assert_eq!(
        found(&[(3, a.as_slice()), (4, b.as_slice()), (3, deep.as_slice())]),
        one(7, "poll_b"),
        "of equally deep ones the most frequent"
    );
    assert_eq!(found(&[(5, back.as_slice())]), one(5, "mid"), "a recursive function counts at its deepest occurrence");
    let others: Vec<Vec<&str>> = ["a", "b", "c", "d", "e", "f", "g"].map(|f| [&net(&[])[..], &[f]].concat()).into();
    let with = |n: usize| {
        let others = others.iter().map(|stack| (1, stack.as_slice()));
        found(&std::iter::once((n, a.as_slice())).chain(others).collect::<Vec<_>>())
    };
    assert_eq!(with(3), one(3, "poll_a"), "three of ten are enough");
    assert_eq!(with(2), one(9, "net_rx_action"), "two of nine are too few, and all have one caller");
}

#[test]
fn behind_a_slot_is_else_the_deepest_that_has_nearly_all() {
    let leaves: Vec<String> = (0..20).map(|i| format!("leaf_{i}")).collect();
    let of = |strays: usize| {
        let stacks: Vec<Vec<&str>> = (0..20)
            .map(|i| {
                let inner = if i < strays { "do_IRQ" } else { "common_interrupt" };
                vec!["asm_common_interrupt", inner, &leaves[i]]
            })
            .collect();
        found(&stacks.iter().map(|stack| (1, stack.as_slice())).collect::<Vec<_>>())
    };
    assert_eq!(of(1), [(IRQ, 19, "common_interrupt".into())], "19 of 20");
    assert_eq!(of(2), [(IRQ, 20, "asm_common_interrupt".into())], "18 of 20 are not nearly all");
    let apart: Vec<Vec<&str>> =
        (0..8).map(|i| vec![if i < 4 { "do_IRQ" } else { "gic_handle_irq" }, &leaves[i]]).collect();
    assert_eq!(found(&apart.iter().map(|stack| (1, stack.as_slice())).collect::<Vec<_>>()), []);
}

#[test]
fn the_most_frequent_slot_comes_first() {
    let [irq, other, vector] =
        [&["asm_common_interrupt", "nvme_irq"][..], &["__do_softirq", "own"], &["__do_softirq", "rcu_core", "free_it"]];
    let slots = found(&[(2, irq), (3, vector), (2, other), (9, &["main"])]);
    assert_eq!(slots, [(of_vector(9), 3, "free_it".into()), (IRQ, 2, "nvme_irq".into()), (SOFTIRQ, 2, "own".into())]);
}

/// Process and slot of each stack.
const STACKS: [(i32, &[&str], usize); 8] = [
    (0, &[], IDLE),
    (7, &[], USER),
    (7, &["kernel:main"], KERNEL),
    (7, &["kernel:main", "main"], USER),
    (7, &["kernel:x", "kernel:__do_softirq"], SOFTIRQ),
    (0, &["kernel:x", "kernel:__do_softirq", "kernel:net_rx_action", "kernel:poll"], NET),
    (0, &["kernel:asm_common_interrupt", "kernel:nvme_irq"], IRQ),
    (0, &["kernel:do_idle"], IDLE),
];

/// Time in milliseconds, CPU, stack, event.
type One = (u64, u16, usize, u16);

fn staged(samples: &[One]) -> Staged {
    let mut staged = Staged::default();
    for (ms, cpu, stack, event) in samples {
        let site = staged.site(STACKS[*stack].0, STACKS[*stack].1);
        staged.profile.push(ms * 1_000_000, site, 1, *cpu, *event);
    }
    staged
}

/// Counts in a plain loop, in buckets. `start` and `length` of the buckets are in milliseconds.
fn plain(samples: &[&One], start: u64, length: u64, shown: usize) -> (Vec<CpuSamples>, u64) {
    let place = |one: &One| (one.0.saturating_sub(start) / length) as usize;
    let n = samples.iter().map(|one| place(one) + 1).max().unwrap_or(0);
    let skip = n.saturating_sub(shown);
    let mut rows: BTreeMap<u16, (CpuSamples, Vec<[u32; 2]>)> = BTreeMap::new();
    for one in samples.iter().filter(|one| place(one) >= skip) {
        let (row, history) = rows.entry(one.1).or_default();
        history.resize(n - skip, [0; 2]);
        row.cpu = one.1;
        let slot = STACKS[one.2].2;
        row.counts[slot] += 1;
        let bucket = &mut history[place(one) - skip];
        *bucket = [bucket[0] + 1, bucket[1] + u32::from(slot >= IRQ)];
    }
    let finish = |(mut row, history): (CpuSamples, Vec<[u32; 2]>)| {
        let share = |[all, soft]: &[u32; 2]| 100.0 * *soft as f32 / (*all).max(1) as f32;
        row.history = history.iter().map(share).collect();
        row.peak = history.iter().filter(|[all, _]| *all >= 10).map(share).fold(0.0, f32::max);
        row
    };
    (rows.into_values().map(finish).collect(), start + skip as u64 * length)
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn counts_are_what_a_plain_loop_counts(
        samples in proptest::collection::vec(
            (prop_oneof![0u64..90, 0u64..9_000, 0u64..120_000], 0u16..3, 0usize..8, 0u16..2), 1..200),
        sliding: bool, cut in 1usize..200,
    ) {
        let mut samples: Vec<One> = samples;
        if sliding {
            samples.sort();
        }
        let cut = cut.min(samples.len());
        let staged = staged(&samples);
        let mut counts = CpuCounts::new(1, sliding);
        counts.update(staged.data(), cut as u64);
        counts.update(staged.data(), u64::MAX);
        let answer = counts.answer(staged.data(), None);

        let old = samples[cut - 1].0.saturating_sub(25_600);
        let counted: Vec<&One> =
            samples.iter().filter(|one| one.3 == 1 && !(sliding && one.0 < old)).collect();
        let start = counted.first().map_or(0, |one| one.0);
        let latest = counted.iter().map(|one| one.0).max().unwrap_or(0) - start;
        let length = if sliding { 100 } else { (0..).map(|n| 100 << n).find(|length| latest / length < 256).expect("some") };
        let (rows, begin) = plain(&counted, start, length, if sliding { 100 } else { usize::MAX });
        let window = samples[samples.len() - 1].0.saturating_sub(begin) * 1_000_000;
        prop_assert_eq!((answer.rows, answer.window), (rows, window));
    }
}

#[test]
fn all_is_counted_anew_when_what_was_there_changed() {
    let mut staged = staged(&[(1, 0, 2, 0), (2, 0, 2, 0), (3, 0, 2, 0), (4, 1, 2, 0)]);
    let mut counts = CpuCounts::new(0, false);
    let of = |counts: &mut CpuCounts, staged: &Staged, until| {
        counts.update(staged.data(), until);
        let answer = counts.answer(staged.data(), Some(0));
        let counts = |row: &CpuSamples| (row.counts[KERNEL], row.counts[SOFTIRQ], row.total());
        (answer.rows.iter().map(counts).collect::<Vec<_>>(), answer.behind.len())
    };
    assert_eq!(of(&mut counts, &staged, 4), (vec![(3, 0, 3), (1, 0, 1)], 0));
    assert_eq!(of(&mut counts, &staged, 2), (vec![(2, 0, 2)], 0), "unchanged");
    assert_eq!(of(&mut counts, &staged, 4), (vec![(3, 0, 3), (1, 0, 1)], 0));
    let kernel = staged.session.dsos.of_map(MapId::KERNEL).clone();
    staged.profile.frames.set_named(FrameId(0), &kernel, "__do_softirq".into());
    assert_eq!(of(&mut counts, &staged, 4), (vec![(0, 3, 3), (0, 1, 1)], 1), "names changed");
    let behind = |counts: &mut CpuCounts, cpu| counts.answer(staged.data(), cpu).behind.first().map(|b| b.samples);
    assert_eq!([Some(1), Some(0), None].map(|cpu| behind(&mut counts, cpu)), [Some(1), Some(3), None]);

    let mut staged = super::tests::staged(&[]);
    let site = staged.site(7, &["kernel:main"]);
    (0..CHUNK as u64 + 5).for_each(|time| staged.profile.push(time, site, 1, 0, 0));
    assert_eq!(of(&mut counts, &staged, 10).0, [(10, 0, 10)]);
    staged.profile.evict();
    assert_eq!(of(&mut counts, &staged, u64::MAX).0, [(5, 0, 5)], "the oldest samples were dropped");
}

#[test]
fn behind_are_functions_of_the_window_the_cpu_and_the_event() {
    let mut samples = vec![(0, 0, 5, 0), (14_000, 1, 5, 0), (14_000, 0, 5, 1)];
    samples.extend([(14_000, 0, 5, 0), (14_001, 0, 5, 0), (14_002, 0, 0, 0)]);
    let staged = staged(&samples);
    for (sliding, want) in [(true, 2), (false, 3)] {
        let mut counts = CpuCounts::new(0, sliding);
        counts.update(staged.data(), u64::MAX);
        assert_eq!(
            (
                counts.event(),
                counts.answer(staged.data(), Some(0)).behind.iter().map(|b| b.samples).collect::<Vec<_>>()
            ),
            (0, vec![want])
        );
    }
}

#[test]
fn so_many_cpus_are_told_apart_and_no_more() {
    let mut staged = staged(&[]);
    let site = staged.site(7, &["kernel:main"]);
    (0..5000).for_each(|cpu| staged.profile.push(1, site, 1, cpu, 0));
    (0..5000).for_each(|cpu| staged.profile.push(1, site, 1, cpu, 0));
    let mut counts = CpuCounts::new(0, false);
    counts.update(staged.data(), u64::MAX);
    let rows = counts.answer(staged.data(), None).rows;
    assert!(rows.iter().map(|row| (row.cpu, row.total())).eq((0..4096).map(|cpu| (cpu, 2))));
}

#[test]
fn what_was_counted_stays_counted() {
    let mut recorded = staged(&[]);
    let site = recorded.site(7, &["kernel:main"]);
    let all = CHUNK as u64 + 5;
    (0..all).for_each(|time| recorded.profile.push(time, site, 1, 0, 3));
    let mut counts = CpuCounts::new(3, false);
    counts.update(recorded.data(), CHUNK as u64);
    recorded.profile.evict();
    counts.update(recorded.data(), u64::MAX);
    assert_eq!((counts.event(), counts.answer(recorded.data(), None).rows[0].total()), (3, all));

    let live = staged(&[(0, 0, 2, 0), (30_050, 0, 2, 0)]);
    let mut counts = CpuCounts::new(0, true);
    [1, 2, 2].iter().for_each(|until| counts.update(live.data(), *until));
    assert_eq!(counts.answer(live.data(), None).window, 9_950_000_000, "buckets are unchanged");
}
