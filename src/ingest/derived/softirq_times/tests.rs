//! Tests with tracepoints written by hand.

use super::*;
use crate::record::open_spans::DEPTH;
use proptest::prelude::*;

fn seen(which: SoftirqEvent, number: u32) -> SoftirqRecord<'static> {
    SoftirqRecord { which, number, name: None }
}

#[test]
fn runs_that_are_cut_off_count_for_the_share() {
    let mut pairs = Pairs::default();
    pairs.begin(1000);
    pairs.add(0, 3000, seen(SoftirqEvent::Raise, 7));
    pairs.add(0, 5000, seen(SoftirqEvent::Exit, 1));
    pairs.add(0, 9000, seen(SoftirqEvent::Entry, 1));
    pairs.add(1, 9000, seen(SoftirqEvent::IrqEntry, 4));
    pairs.until(11_000);
    let times = pairs.snapshot();
    let time = |cpu, what| times.get(cpu, what).map(|t| (t.runs.n, t.total()));
    assert_eq!(time(0, Handler::Softirq(1)), Some((0, 6000)));
    assert_eq!(time(1, Handler::Irq(4)), Some((0, 2000)));
    assert_eq!(times.percent(0, Handler::Softirq(1)), 60.0);
    // A second exit without an entry means that its entry was lost.
    pairs.add(0, 12_000, seen(SoftirqEvent::Exit, 2));
    assert_eq!(pairs.snapshot().percent(0, Handler::Softirq(2)), 0.0);
}

/// The kernel does not nest softirqs: an entry during a run means that the exit was lost.
#[test]
fn an_entry_within_a_run_begins_anew() {
    let mut pairs = Pairs::default();
    pairs.add(0, 1000, seen(SoftirqEvent::Entry, 1));
    pairs.add(0, 2000, seen(SoftirqEvent::Entry, 3));
    // That vector is not running now, and the run has ended.
    pairs.add(0, 2500, seen(SoftirqEvent::Exit, 1));
    pairs.add(0, 2600, seen(SoftirqEvent::Exit, 3));
    assert_eq!((pairs.times.unpaired, pairs.times.list.len()), (3, 0));
    pairs.add(0, 3000, seen(SoftirqEvent::Entry, 1));
    pairs.add(0, 4000, seen(SoftirqEvent::Entry, 1));
    pairs.add(0, 4700, seen(SoftirqEvent::Exit, 1));
    let runs = &pairs.times.list[&(0, Handler::Softirq(1))].runs;
    assert_eq!((runs.n, runs.sum, runs.max, pairs.times.unpaired), (1, 700, 700, 4));
}

/// Interrupts may nest: each is paired with its own end, which also ends those inside it.
#[test]
fn interrupts_within_interrupts() {
    let mut pairs = Pairs::default();
    for (time, which, line) in [
        (100, SoftirqEvent::IrqEntry, 4),
        (110, SoftirqEvent::IrqEntry, 5),
        (130, SoftirqEvent::IrqExit, 5),
        (170, SoftirqEvent::IrqExit, 4),
        (200, SoftirqEvent::IrqEntry, 4),
        (210, SoftirqEvent::IrqEntry, 5),
        (290, SoftirqEvent::IrqExit, 4),
        (295, SoftirqEvent::IrqExit, 5),
    ] {
        pairs.add(2, time, seen(which, line));
    }
    let runs = |line| &pairs.times.list[&(2, Handler::Irq(line))].runs;
    assert_eq!(((runs(4).n, runs(4).sum), (runs(5).n, runs(5).sum)), ((2, 70 + 90), (1, 20)));
    assert_eq!(pairs.times.unpaired, 1);
}

#[test]
fn pairs_on_each_cpu() {
    let mut pairs = Pairs::default();
    pairs.add(0, 1000, seen(SoftirqEvent::Exit, 1));
    pairs.add(0, 2000, seen(SoftirqEvent::Raise, 1));
    pairs.add(0, 2500, seen(SoftirqEvent::Raise, 1));
    pairs.add(0, 3000, seen(SoftirqEvent::Entry, 1));
    pairs.add(1, 3100, seen(SoftirqEvent::Entry, 1));
    pairs.add(0, 3200, SoftirqRecord { which: SoftirqEvent::IrqEntry, number: 9, name: Some(b"eth0\0junk") });
    pairs.add(0, 3300, seen(SoftirqEvent::IrqExit, 9));
    pairs.add(0, 5000, seen(SoftirqEvent::Exit, 1));
    pairs.add(1, 11_000, seen(SoftirqEvent::Exit, 1));
    let time = |cpu, what| pairs.times.get(cpu, what).expect("there").clone();
    let timer = time(0, Handler::Softirq(1));
    assert_eq!((timer.runs.n, timer.runs.sum, timer.delays.sum), (1, 2000, 1000));
    assert_eq!((time(0, Handler::Irq(9)).runs.sum, &*pairs.times.devices[&9]), (100, "eth0"));
    assert_eq!((pairs.times.unpaired, pairs.times.elapsed), (1, 10_000));
    assert_eq!(pairs.times.percent(0, Handler::Softirq(1)), 20.0);
    assert_eq!((format!("{:.1}", pairs.times.sum(1, true)), pairs.times.sum(0, true)), ("0.0".to_owned(), 1.0));
    pairs.add(0, 3_500_000_000, seen(SoftirqEvent::Raise, 2));
    let map = &pairs.times.list[&(0, Handler::Softirq(1))].map;
    let runs: Vec<u32> = map.iter().map(|second| second.values().sum()).collect();
    assert_eq!(runs, [1, 0, 0, 0]);
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn any_order_of_events_is_survived(list in proptest::collection::vec((0u32..3, prop_oneof![0u64..5_000_000_000, u64::MAX - 9..=u64::MAX], 0usize..5, 0u32..12), 0..100)) {
        let mut pairs = Pairs::default();
        for (cpu, time, which, number) in list {
            pairs.add(cpu, time, seen(SoftirqEvent::ALL[which], number));
        }
        pairs.snapshot();
    }
}

#[test]
fn what_a_recording_says_is_bounded() {
    let mut pairs = Pairs::default();
    for (cpu, number) in [(MAX_CPUS, 1), (0, MAX_VECTORS), (u32::MAX, 0)] {
        pairs.add(cpu, 10, seen(SoftirqEvent::Entry, number));
    }
    assert_eq!((pairs.times.unpaired, pairs.times.elapsed, pairs.seen.len()), (3, 0, 0));
    // Interrupt lines have any number.
    pairs.add(MAX_CPUS - 1, 10, seen(SoftirqEvent::IrqEntry, MAX_VECTORS));
    pairs.add(MAX_CPUS - 1, 15, seen(SoftirqEvent::IrqExit, MAX_VECTORS));
    pairs.add(MAX_CPUS - 1, 20, seen(SoftirqEvent::Entry, MAX_VECTORS - 1));
    pairs.add(MAX_CPUS - 1, 27, seen(SoftirqEvent::Exit, MAX_VECTORS - 1));
    assert_eq!((pairs.times.unpaired, pairs.times.list.len()), (3, 2));
    for i in 0..DEPTH as u64 + 1 {
        pairs.add(0, 100 + i, seen(SoftirqEvent::IrqEntry, 7));
    }
    assert_eq!(pairs.irqs.iter().count(), 1, "so deep is nothing");
    for line in 0..MAX_LINES as u32 + 9 {
        pairs.add(1, 200, SoftirqRecord { which: SoftirqEvent::IrqEntry, number: line, name: Some(b"a") });
        pairs.add(1, 200, SoftirqRecord { which: SoftirqEvent::IrqExit, number: line, name: Some(b"a") });
    }
    assert_eq!(pairs.times.devices.len(), MAX_LINES);
}

#[test]
fn what_began_before_measuring_and_what_runs_still() {
    let mut pairs = Pairs::default();
    pairs.begin(1000);
    pairs.add(0, 1500, seen(SoftirqEvent::IrqExit, 4));
    pairs.add(0, 1700, seen(SoftirqEvent::IrqExit, 4));
    pairs.add(0, 1800, seen(SoftirqEvent::Exit, 2));
    pairs.add(0, 2000, seen(SoftirqEvent::IrqEntry, 5));
    pairs.add(0, 2500, seen(SoftirqEvent::Entry, 3));
    pairs.until(3000);
    let times = pairs.snapshot();
    let partial = |what| times.get(0, what).map(|time| (time.partial, time.runs.n, time.total()));
    // Only the first of each kind can have started before.
    assert_eq!(partial(Handler::Irq(4)), Some((500, 0, 500)));
    assert_eq!(partial(Handler::Softirq(2)), Some((800, 0, 800)));
    assert_eq!((partial(Handler::Irq(5)), partial(Handler::Softirq(3))), (Some((1000, 0, 1000)), Some((500, 0, 500))));
    assert_eq!((times.elapsed, times.unpaired), (2000, 3));
    assert_eq!((times.sum(0, false), times.sum(0, true), times.sum(1, true)), (65.0, 75.0, 0.0));
    assert_eq!((times.percent(0, Handler::Irq(5)), times.percent(0, Handler::Irq(9))), (50.0, 0.0));
    assert_eq!(pairs.times.list.len(), 2, "what runs counts for the snapshot only");
    // After a loss no handler is running, and an end after it does not belong to a run before the measurement.
    pairs.lose(7);
    pairs.add(0, 4000, seen(SoftirqEvent::Exit, 3));
    pairs.add(0, 4100, seen(SoftirqEvent::IrqExit, 5));
    assert_eq!((pairs.times.lost, pairs.times.unpaired), (7, 5));
    assert_eq!([Handler::Softirq(3), Handler::Irq(5)].map(|what| pairs.snapshot().percent(0, what)), [0.0, 0.0]);
}

#[test]
fn runs_by_the_second_in_which_they_ended() {
    const SECOND: u64 = 1_000_000_000;
    let mut pairs = Pairs::default();
    pairs.begin(SECOND);
    let run = |pairs: &mut Pairs, from: u64, ns: u64| {
        pairs.add(0, from, seen(SoftirqEvent::Entry, 1));
        pairs.add(0, from + ns, seen(SoftirqEvent::Exit, 1));
    };
    run(&mut pairs, SECOND + 10, 100);
    run(&mut pairs, 2 * SECOND - 50, 49);
    run(&mut pairs, 2 * SECOND - 1, 1);
    run(&mut pairs, 4 * SECOND, 100);
    let map = |pairs: &Pairs| -> Vec<Vec<(u8, u32)>> {
        let map = &pairs.times.list[&(0, Handler::Softirq(1))].map;
        map.iter().map(|second| second.iter().map(|(bucket, n)| (*bucket, *n)).collect()).collect()
    };
    let hundred = half_octave(100) as u8;
    assert_eq!(map(&pairs), [vec![(half_octave(49) as u8, 1), (hundred, 1)], vec![(0, 1)], vec![], vec![(hundred, 1)]]);
    pairs.until(4 * SECOND + 57 * SECOND);
    assert_eq!((map(&pairs).len(), map(&pairs)[0].len()), (SECONDS, 1), "the first one has gone");
    pairs.until(500 * SECOND);
    assert!(map(&pairs).len() == SECONDS && map(&pairs).iter().all(Vec::is_empty));
}

/// Forty milliseconds in each of the first 20 seconds, then ten: recent shares cover the newest ten seconds.
#[test]
fn shares_of_late_forget_what_was_before() {
    let mut pairs = Pairs::default();
    pairs.begin(0);
    let mut run = |second: u64, vector: u32, ms: u64| {
        let seen = |which| SoftirqRecord { which, number: vector, name: None };
        pairs.add(1, second * SECOND + 1, seen(SoftirqEvent::Entry));
        pairs.add(1, second * SECOND + 1 + ms * 1_000_000, seen(SoftirqEvent::Exit));
        pairs.until(second * SECOND + SECOND / 2);
        pairs.snapshot()
    };
    let first = run(0, 3, 40);
    assert_eq!(first.recent(1, Handler::Softirq(3)), 8.0, "of the half second that there is");
    for second in 1..20 {
        run(second, 3, 40);
    }
    for second in 20..30 {
        run(second, 8, 10);
    }
    let times = run(30, 8, 10);
    // Nine and a half seconds.
    assert_eq!(times.recent(1, Handler::Softirq(8)), 100.0 * 0.1 / 9.5);
    assert_eq!((times.recent(1, Handler::Softirq(3)), times.vector(1)), (0.0, Some((8, 100.0 * 0.1 / 9.5))));
    assert_eq!((times.recent_sum(1, false), times.recent_sum(1, true)), (100.0 * 0.1 / 9.5, 0.0));
    assert_eq!((times.vector(0), times.recent(0, Handler::Softirq(8))), (None, 0.0));
}
