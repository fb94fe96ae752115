//! Compares heat maps with plain loops over the samples.

use std::sync::Arc;

use super::super::SECOND;
use super::*;
use crate::filter::Filter;
use crate::perfdata::{EventDesc, EventUnit};
use crate::profile::{CHUNK, Loss, NodeId, Site};
use crate::query::staged::Staged;
use proptest::prelude::*;

fn spec(by: HeatBy, page: Option<u64>, columns: usize, rows: usize) -> HeatSpec {
    HeatSpec { by, length: SECOND, page, columns, rows, lit: None }
}

/// The map of samples given as (time, CPU, process, weight).
fn map(samples: &[(u64, u16, i32, u64)], spec: &HeatSpec) -> Heat {
    mapped(samples, spec, None, true)
}

fn filtered(samples: &[(u64, u16, i32, u64)], spec: &HeatSpec, kept: Option<Arc<Filter>>) -> Heat {
    mapped(samples, spec, kept, true)
}

fn mapped(samples: &[(u64, u16, i32, u64)], spec: &HeatSpec, kept: Option<Arc<Filter>>, durations: bool) -> Heat {
    let mut staged = Staged::default();
    for (time, cpu, pid, weight) in samples {
        let site = staged.site(*pid, &[]);
        staged.profile.push(START + time, site, *weight, *cpu, 0);
    }
    if durations {
        staged.profile.learn_event(0, &crate::perfdata::EventDesc::derived("off-cpu"));
    }
    asked(&staged, 0, spec, kept, u64::MAX, &mut SiteLanes::default())
}

const START: u64 = 500;

/// The map of an event's samples before a position.
fn asked(
    staged: &Staged,
    event: usize,
    spec: &HeatSpec,
    kept: Option<Arc<Filter>>,
    end: u64,
    leaves: &mut SiteLanes,
) -> Heat {
    let data = Data { start: START, ..staged.data() };
    let mut fold = Aggregate::new(event, kept);
    fold.update(data, 0..end);
    let mut lit = spec.lit.clone().map(FilterEvaluator::new);
    lit.iter_mut().for_each(|judge| _ = judge.update(data));
    build(
        HeatInput { data, of: CountedSamples { event, wall: None }, aggregate: &fold, lit: lit.as_ref(), end },
        spec,
        &[],
        leaves,
    )
}

fn filter(text: &str) -> Option<Arc<Filter>> {
    Some(Arc::new(Filter::parse(text).expect(text)))
}

/// Profiles of a store have a sum for each stack and time: they are more samples than those that are stored.
#[test]
fn sums_are_the_samples_that_they_stand_for() {
    let mut staged = Staged::default();
    for (time, weight) in [(0, 30), (SECOND, 10), (SECOND + 1, 9)] {
        let site = staged.site(1, &[]);
        staged.profile.push(START + time, site, weight, 0, 0);
    }
    staged.profile.learn_event(0, &EventDesc::imported("cpu", EventUnit::Nanoseconds).of_sums(10));
    let spec = spec(HeatBy::Offset, Some(0), 2, 1);
    let heat = asked(&staged, 0, &spec, None, u64::MAX, &mut SiteLanes::default());
    assert_eq!((heat.cells, heat.total), (vec![3, 2], 4));
}

/// Stacks of a store whose samples cannot be counted are as heavy as their values.
#[test]
fn sums_of_unknown_samples_are_weighed_by_their_values() {
    let map = |factor: u64| {
        let mut staged = Staged::default();
        for (time, weight) in [(0, 30), (SECOND, 10), (SECOND + 1, 10)] {
            let site = staged.site(1, &[]);
            staged.profile.push(START + time, site, weight * factor, 0, 0);
        }
        staged.profile.learn_event(0, &EventDesc::imported("cpu", EventUnit::Nanoseconds).of_sums(0));
        asked(&staged, 0, &spec(HeatBy::Offset, Some(0), 2, 1), None, u64::MAX, &mut SiteLanes::default())
    };
    let small = map(1);
    assert_eq!((small.cells, small.total, small.value), (vec![30, 20], 50, Some(1)));
    let large = map(1 << 40);
    let one = large.value.expect("values");
    assert_eq!(large.total, (50 << 40) / one);
    assert!((large.cells[0] * 2).abs_diff(large.cells[1] * 3) <= 8, "{:?}", large.cells);
}

#[test]
fn a_burst_in_every_second_is_a_line_across() {
    let ms = SECOND / 1000;
    let samples: Vec<_> =
        (0..6).flat_map(|s| [(s * SECOND + 250 * ms, 0, 1, 1), (s * SECOND + 251 * ms, 1, 2, 1)]).collect();
    let page = spec(HeatBy::Offset, Some(1), 4, 20);
    let heat = map(&samples, &page);
    for column in 0..4 {
        let hit: Vec<usize> = (0..20).filter(|row| heat.cell(column, *row) > 0).collect();
        assert_eq!((hit, heat.cell(column, 5)), (vec![5], 2));
    }
    assert_eq!((heat.sum(0..80), heat.time(25), heat.total), (8, 2 * SECOND + 250 * ms, 12));
    assert_eq!(filtered(&samples, &page, filter("cpu == 1")).sum(0..80), 4);
    let lit = map(&samples, &HeatSpec { lit: filter("pid == 2"), ..page.clone() });
    assert_eq!((lit.cell(0, 5), lit.lit(0, 5), heat.lit(0, 5)), (2, 1, 0));
    let newest = map(&samples, &HeatSpec { page: None, ..page.clone() });
    assert_eq!((newest.first, newest.sum(0..80), newest.until / SECOND), (2, 8, 5));
    assert_eq!(map(&[], &page).cells.len(), 0);
    assert_eq!(map(&samples, &HeatSpec { page: Some(u64::MAX), ..page }).sum(0..80), 0);
}

#[test]
fn rows_are_what_was_asked_for() {
    let samples = [(0, 3, 7, 1500), (1, 7, 7, 90_000), (SECOND, 3, 8, 1500), (SECOND, 3, 9, 1500)];
    let labels = |heat: &Heat| heat.lanes.iter().map(|l| l.label.to_string()).collect::<Vec<_>>().join("|");
    let cpus = map(&samples, &spec(HeatBy::Cpu, Some(0), 2, 9));
    assert_eq!((labels(&cpus).as_str(), &cpus.cells[..]), ("CPU 3|CPU 7", &[1, 1, 2, 0][..]));
    assert_eq!(labels(&map(&samples, &spec(HeatBy::Cpu, Some(0), 2, 1))), "CPU 3-7");
    let tasks = map(&samples, &spec(HeatBy::Process, Some(0), 2, 2));
    assert_eq!((tasks.lanes.len(), &tasks.cells[..]), (2, &[2, 0, 0, 2][..]));
    assert_eq!(tasks.lanes[0].expression.as_deref(), Some("pid == 7"));
    let took = map(&samples, &spec(HeatBy::Latency, Some(0), 2, 40));
    assert_eq!((took.rows, took.cell(0, 0), took.cell(0, took.rows - 1)), (12, 1, 1));
    assert_eq!(mapped(&samples, &spec(HeatBy::Latency, Some(0), 2, 40), None, false).rows, 0);
}

#[test]
fn samples_out_of_order_and_a_recording_of_years() {
    let late = [(9 * SECOND, 0, 1, 1), (SECOND, 0, 1, 1), (5 * SECOND, 0, 1, 1)];
    let heat = map(&late, &spec(HeatBy::Offset, None, 4, 2));
    assert_eq!((heat.from, heat.until, heat.first, heat.sum(0..usize::MAX)), (SECOND, 9 * SECOND, 6, 1));
    let year = 365 * 86_400 * SECOND;
    let long = [(0, 0, 1, 1), (40 * year, 0, 1, 1), (40 * year + 1, 0, 1, 1)];
    let years = HeatSpec { length: year, ..spec(HeatBy::Offset, None, 50, 20) };
    let heat = map(&long, &years);
    assert_eq!((heat.first, heat.cell(0, 0), heat.cell(40, 0)), (0, 1, 2));
    let seconds = map(&long, &spec(HeatBy::Offset, None, 50, 20));
    assert_eq!((seconds.first, seconds.sum(0..usize::MAX)), (40 * year / SECOND - 49, 2));
}

#[test]
fn it_ends_with_the_last_sample_while_it_stands_still() {
    let mut staged = Staged::default();
    let site = staged.site(1, &[]);
    [100, 900, 400, 2000].iter().for_each(|time| staged.profile.push(START + time, site, 1, 0, 0));
    let page = HeatSpec { length: 10, ..spec(HeatBy::Offset, None, 30, 1) };
    let at = |end| {
        let heat = asked(&staged, 0, &page, None, end, &mut SiteLanes::default());
        (heat.from, heat.until, heat.first, heat.sum(0..30), heat.total)
    };
    assert_eq!(at(3), (100, 400, 11, 1, 3), "the last sample");
    assert_eq!(at(4), (100, 2000, 171, 1, 4));
    staged.profile.push(START + 700, site, 1, 0, 0);
    let whole = asked(&staged, 0, &page, None, 5, &mut SiteLanes::default());
    assert_eq!((whole.until, whole.total), (2000, 5), "a complete map ends with the newest sample");
}

#[test]
fn losses_are_where_they_were() {
    let mut staged = Staged::default();
    let site = staged.site(1, &[]);
    [(0, 3), (2000, 7), (4999, 7)].iter().for_each(|(time, cpu)| staged.profile.push(START + time, site, 1, *cpu, 0));
    let lost = [
        (2000, 3, Some(7)),
        (4999, 11, Some(7)),
        (3000, 7, Some(3)),
        (1999, 1, None),
        (5000, 13, Some(3)),
        (2999, 5, None),
        (3100, 2, Some(3)),
    ];
    for (time, samples, cpu) in lost {
        staged.profile.losses.push(Loss { time: START + time, samples, cpu, host: Default::default() });
    }
    staged.profile.gaps.rest(START + 40, true);
    staged.profile.gaps.rest(START + 70, false);
    let page = |by| {
        let spec = HeatSpec { length: 1000, ..spec(by, Some(2), 3, 4) };
        asked(&staged, 0, &spec, None, u64::MAX, &mut SiteLanes::default())
    };
    let cpus = page(HeatBy::Cpu);
    assert_eq!((cpus.lost, cpus.lost_cells, cpus.rows), (vec![8, 9, 11], vec![1, 2, 5], 2));
    let offsets = page(HeatBy::Offset);
    assert_eq!((offsets.lost, offsets.lost_cells, offsets.gaps), (vec![8, 9, 11], vec![0, 3, 4, 11], vec![(40, 70)]));
    assert_eq!((page(HeatBy::Process).lost, page(HeatBy::Process).lost_cells), (vec![8, 9, 11], vec![]));
}

#[test]
fn rows_of_neighbours_and_of_what_is_shorter() {
    let samples: Vec<_> = [3, 7, 8, 9, 20].iter().map(|cpu| (u64::from(*cpu), *cpu, 1, u64::from(*cpu))).collect();
    let of = |by, rows| {
        let heat = map(&samples, &HeatSpec { length: 100, ..spec(by, Some(0), 1, rows) });
        let lane = |lane: HeatLane| format!("{}: {}", lane.label, lane.expression.unwrap_or_default());
        (heat.lanes.into_iter().map(lane).collect::<Vec<_>>().join("; "), heat.cells)
    };
    assert_eq!(of(HeatBy::Cpu, 2), ("CPU 3-8: cpu in 3-8; CPU 9-20: cpu in 9-20".into(), vec![3, 2]));
    assert_eq!(
        of(HeatBy::Cpu, 3),
        ("CPU 3-7: cpu in 3-7; CPU 8-9: cpu in 8-9; CPU 20: cpu in 20".into(), vec![2, 2, 1])
    );
    let took =
        "16 ns: period >= 16 && period < 23; 12 ns: period >= 12 && period < 16; 8 ns: period >= 0 && period < 12";
    assert_eq!(of(HeatBy::Latency, 3), (took.into(), vec![1, 0, 4]));
    assert_eq!(of(HeatBy::Latency, 9).1, [1, 0, 2, 1, 0, 1]);
}

#[test]
fn a_process_is_called_after_its_main_thread() {
    let mut staged = Staged::default();
    for (pid, tid, name) in [(5, 5, "old"), (5, 6, "thread"), (8, 9, "alone"), (-1, -1, "gone")] {
        staged.comm(pid, tid, false, name);
        staged.session.task(pid, tid);
    }
    staged.comm(5, 5, false, "main");
    for (time, (pid, tid)) in
        [(5, 6), (5, 6), (5, 5), (8, 9), (8, 9), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (-1, -1), (5, 7)]
            .iter()
            .enumerate()
    {
        let task = staged.session.task(*pid, *tid);
        let site = staged.profile.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
        staged.profile.push(START + time as u64, site, 1, 0, 0);
    }
    let heat = asked(&staged, 0, &spec(HeatBy::Process, Some(0), 1, 9), None, u64::MAX, &mut SiteLanes::default());
    let lanes: Vec<_> = heat.lanes.iter().map(|lane| (&*lane.label, lane.expression.as_deref())).collect();
    let want =
        [("swapper", Some("pid == 0")), ("main 5", Some("pid == 5")), ("alone 8", Some("pid == 8")), ("gone -1", None)];
    assert_eq!((lanes, heat.cells), (want.to_vec(), vec![5, 4, 2, 1]));
}

#[test]
fn functions_are_looked_up_once_until_names_change() {
    let (mut staged, mut leaves) = (Staged::default(), SiteLanes::default());
    let mut of = |staged: &Staged, by| {
        let heat = asked(staged, 0, &spec(by, Some(0), 1, 9), None, u64::MAX, &mut leaves);
        let lane = |(lane, n): (&HeatLane, &u32)| {
            format!("{n} {}", lane.expression.as_ref().unwrap_or(&lane.label.to_string()))
        };
        (heat.lanes.iter().zip(&heat.cells).map(lane).collect::<Vec<_>>().join(", "), heat.lanes[0].label.clone())
    };
    for stack in [&["old"][..], &["old"], &["old"], &["main", "lib:work"], &["main", "lib:work"], &[]] {
        staged.sample(START, 1, stack, 1);
    }
    let (first, label) = of(&staged, HeatBy::Function);
    assert_eq!(first, r#"3 sym == "old", 2 sym == "work", 1 [unknown]"#);
    staged.sample(START, 1, &["main"], 1);
    let (second, same) = of(&staged, HeatBy::Function);
    assert_eq!(second, r#"3 sym == "old", 2 sym == "work", 1 [unknown], 1 sym == "main""#);
    assert!(Arc::ptr_eq(&label, &same), "not looked up again");
    let app = staged.session.dsos.all().iter().find(|dso| &*dso.short == "app").expect("app").clone();
    staged.profile.frames.set_named(crate::profile::FrameId(0), &app, "new".into());
    assert_eq!(of(&staged, HeatBy::Function).0, r#"3 sym == "new", 2 sym == "work", 1 [unknown], 1 sym == "main""#);
    assert_eq!(of(&staged, HeatBy::Dso).0, r#"4 dso == "app", 2 dso == "lib", 1 [unknown]"#);
}

#[test]
fn a_map_has_bounds() {
    let of = |columns, rows| {
        let heat = map(&[(0, 0, 1, 1)], &spec(HeatBy::Offset, None, columns, rows));
        (heat.by, heat.columns, heat.rows, heat.cells.len())
    };
    assert_eq!((of(0, 0), of(5000, 5000)), ((HeatBy::Offset, 1, 1, 1), (HeatBy::Offset, 4096, 1024, 4096 * 1024)));
    assert_eq!(map(&[(0, 0, 1, 1)], &spec(HeatBy::Cpu, None, 3, 0)).by, HeatBy::Cpu);
}

#[test]
fn what_threads_count_is_added_up() {
    let mut staged = Staged::default();
    let site = staged.site(1, &[]);
    let n = 33 * CHUNK as u64;
    (0..n).for_each(|i| staged.profile.push(START + i, site, 1, (i % 5) as u16, u16::from(i % 7 == 0)));
    let page = HeatSpec { length: n / 4, lit: filter("cpu in 2-9"), ..spec(HeatBy::Cpu, Some(0), 4, 9) };
    let heat = asked(&staged, 0, &page, None, u64::MAX, &mut SiteLanes::default());
    let mut want = vec![0; 20];
    (0..n).filter(|i| i % 7 != 0).for_each(|i| want[(i * 4 / n) as usize * 5 + (i % 5) as usize] += 1);
    let lit: Vec<u32> = want.iter().enumerate().map(|(cell, n)| if cell % 5 < 2 { 0 } else { *n }).collect();
    assert_eq!((heat.cells, heat.lit), (want, lit));
}

/// A sample: (time, CPU, process, weight, stack, event).
type One = (u64, u16, i32, u64, usize, u16);

/// A filter, and its result for a sample.
type Clause = (&'static str, fn(&One) -> bool);

const STACKS: [&[&str]; 4] = [&[], &["main", "lib:work"], &["main"], &["main", "lib:work", "lib:poll"]];

fn label(by: HeatBy, one: &One) -> String {
    match by {
        HeatBy::Cpu => format!("CPU {}", one.1),
        HeatBy::Process if one.2 == 0 => "swapper".into(),
        HeatBy::Process => format!(":{0} {0}", one.2),
        HeatBy::Function => ["[unknown]", "work", "main", "poll"][one.4].into(),
        HeatBy::Dso => ["[unknown]", "lib", "app", "lib"][one.4].into(),
        HeatBy::Offset | HeatBy::Latency => String::new(),
    }
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn cells_sum_to_samples(
        samples in proptest::collection::vec((0u64..9 * SECOND, 0u16..40, 1i32..30, 1u64..1_000_000), 0..200),
        rows in 1usize..50, cut in 0usize..400, upto in 0usize..400,
    ) {
        for (by, _) in HeatBy::ALL {
            let heat = map(&samples, &spec(*by, Some(0), 9, rows));
            prop_assert_eq!(heat.sum(0..usize::MAX), samples.len() as u64, "{:?}", by);
            prop_assert!(heat.rows <= rows);
        }
        let heat = map(&samples, &spec(HeatBy::Offset, Some(0), 9, rows));
        if !samples.is_empty() {
            let (from, until) = (cut.min(upto).min(9 * rows), cut.max(upto).min(9 * rows));
            let clause = format!("time >= {}ns && time < {}ns", heat.time(from), heat.time(until));
            let filtered = filtered(&samples, &spec(HeatBy::Offset, Some(0), 9, rows), filter(&clause));
            prop_assert_eq!(heat.sum(from..until), filtered.total);
            prop_assert_eq!(filtered.sum(0..usize::MAX), filtered.total);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..crate::damage::kept() })]

    #[test]
    fn a_map_is_a_plain_count(
        samples in proptest::collection::vec((0u64..3000, 0u16..4, 0i32..5, 1u64..900, 0usize..4, 0u16..2), 1..120),
        (length, page, columns, rows) in (1u64..900, 0u64..4, 1usize..6, 4usize..8),
        (clause, lit) in (0usize..4, 0usize..4),
    ) {
        const CLAUSES: [Clause; 4] = [
            ("cpu != 2", |one| one.1 != 2),
            ("sym != work", |one| one.4 != 1),
            ("stack == main", |one| one.4 > 0),
            ("period < 300 && pid > 1", |one| one.3 < 300 && one.2 > 1),
        ];
        let mut staged = Staged::default();
        for (time, cpu, pid, weight, stack, event) in &samples {
            let site = staged.site(*pid, STACKS[*stack]);
            staged.profile.push(START + time, site, *weight, *cpu, *event);
        }
        let mut leaves = SiteLanes::default();
        for (by, _) in HeatBy::ALL.iter().filter(|(by, _)| *by != HeatBy::Latency) {
            let spec = HeatSpec { by: *by, length, page: Some(page), columns, rows, lit: filter(CLAUSES[lit].0) };
            let heat = asked(&staged, 1, &spec, filter(CLAUSES[clause].0), u64::MAX, &mut leaves);
            let kept: Vec<&One> = samples.iter().filter(|one| one.5 == 1 && CLAUSES[clause].1(one)).collect();
            prop_assert_eq!(heat.total, kept.len() as u64);
            let mut sums = std::collections::BTreeMap::<String, u64>::new();
            kept.iter().for_each(|one| *sums.entry(label(*by, one)).or_default() += 1);
            let mut order: Vec<_> = sums.into_iter().map(|(label, n)| (std::cmp::Reverse(n), label)).collect();
            order.sort();
            let mut labels: Vec<String> = order.into_iter().map(|(_, label)| label).collect();
            if *by == HeatBy::Offset {
                labels.clear();
            } else if *by == HeatBy::Cpu {
                let cpus: std::collections::BTreeSet<String> = samples.iter().map(|one| label(*by, one)).collect();
                labels = cpus.into_iter().collect();
            } else if labels.len() > rows {
                labels.truncate(rows - 1);
                labels.push("others".into());
            }
            prop_assert_eq!(heat.lanes.iter().map(|lane| lane.label.to_string()).collect::<Vec<_>>(), labels.clone());
            let n = if *by == HeatBy::Offset { rows } else { labels.len() };
            let (mut cells, mut bright) = (vec![0; columns * n], vec![0; columns * n]);
            for one in kept {
                let Some(after) = one.0.checked_sub(page * length).filter(|after| *after < length * columns as u64) else {
                    continue;
                };
                let row = match by {
                    HeatBy::Offset => (after % length) as usize * rows / length as usize,
                    _ => labels.iter().position(|l| *l == label(*by, one)).unwrap_or(n - 1),
                };
                let cell = (after / length) as usize * n + row;
                cells[cell] += 1;
                bright[cell] += u32::from(CLAUSES[lit].1(one));
            }
            prop_assert_eq!((heat.cells, heat.lit), (cells, bright), "{:?}", by);
        }
    }
}

#[test]
fn running_threads_are_cpu_time_by_latency() {
    use crate::perfdata::LATENCY;
    let mut staged = Staged { events: ["faults", "cycles", LATENCY].map(str::to_owned).to_vec(), ..Staged::default() };
    let (one, other) = (staged.site(1, &[]), staged.site(2, &[]));
    // In the first second one thread of process 1 runs; then two, while process 2 has one.
    for (time, site, threads) in [(0, one, 1), (1, one, 1), (SECOND, one, 2), (SECOND + 1, one, 2), (SECOND, other, 1)]
    {
        staged.profile.push(START + time, site, 600, 0, 1);
        staged.profile.push(START + time, site, 600 / threads, 0, 2);
    }
    staged.profile.push(START + 2 * SECOND, one, 5, 0, 0);
    let of = |staged: &Staged, event: usize, kept: Option<Arc<Filter>>| {
        let page = spec(HeatBy::Offset, Some(0), 3, 4);
        asked(staged, event, &page, kept, u64::MAX, &mut SiteLanes::default())
    };
    for event in 0..3 {
        let heat = of(&staged, event, filter("pid == 1"));
        assert_eq!(heat.running, [(1200, 1200), (1200, 600), (0, 0)], "{event}");
        assert_eq!([heat.threads(0..1), heat.threads(1..2), heat.threads(2..3)], [Some(1.0), Some(2.0), None]);
        assert_eq!((heat.threads(0..3), heat.sum(0..12)), (Some(2400.0 / 1800.0), [1, 4, 4][event]));
        assert_eq!(heat.columns_of(&(3..5)), 0..2);
    }
    assert_eq!(of(&staged, 1, None).running[1], (1800, 1200));
    staged.events.truncate(2);
    assert_eq!(of(&staged, 1, None).running, []);
}
