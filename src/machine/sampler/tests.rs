//! Tests with readings of /proc written by hand, and with the founding incident.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn stat(cpus: &[(u32, [u64; 10])]) -> Stat {
    Stat {
        cpus: cpus.iter().map(|(cpu, t)| (*cpu, Ticks(*t))).collect(),
        running: 1,
        blocked: 0,
        switches: 0,
        forks: 0,
    }
}

/// The founding incident in /proc: ten seconds on a CPU that is busy a third of the time.
#[test]
fn the_founding_incident_by_its_missing_ticks() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/");
    let read = |name: &str| std::fs::read(format!("{dir}{name}")).expect("readable");
    let (mut before, mut after) = (Stat::default(), Stat::default());
    before.parse(&read("ipvs-idle.proc_stat.before"));
    after.parse(&read("ipvs-idle.proc_stat.after"));
    assert_eq!(before.cpus.len(), 34);
    let mut cpus = CpuSampler::new(100, Topology::default());
    cpus.tick(SECOND, &before);
    cpus.cut(SECOND, &SlowReadings::default());
    let other = after.cpus[0].1.since(&before.cpus[0].1).total();
    // The neighbour's ticks show the elapsed time.
    let end = SECOND + other * SECOND / 100;
    cpus.tick(end, &after);
    let (mut first, mut last) = (Matrix::default(), Matrix::default());
    first.parse(&read("ipvs-idle.proc_softirqs.before"));
    last.parse(&read("ipvs-idle.proc_softirqs.after"));
    assert_eq!(first.cpus.len(), 128, "all that could be there");
    cpus.softirqs.update(&first, SECOND);
    let view = cpus.cut(end, &SlowReadings { softirqs: last, ..SlowReadings::default() });
    let (hot, cool) = (view.row(32).expect("there"), view.row(31).expect("there"));
    assert_eq!(hot.shares[Ticks::SOFTIRQ], 0.0);
    assert!(hot.shares[Ticks::IDLE] > 99.0, "{hot:?}");
    assert!((36.0..40.0).contains(&hot.missing), "{}", hot.missing);
    assert!(cool.missing < 2.0, "{cool:?}");
    let timer = view.vectors.iter().position(|v| &**v == "TIMER").expect("TIMER");
    assert!(hot.vectors[timer] < 3.0, "counts do not show it: {}", hot.vectors[timer]);
    assert_eq!(view.rows.len(), 34);
}

#[test]
fn shares_are_of_the_ticks_and_guests_are_users() {
    let mut cpus = CpuSampler::new(100, Topology::default());
    cpus.tick(SECOND, &stat(&[(0, [0; 10])]));
    cpus.cut(SECOND, &SlowReadings::default());
    let mut ticks = [0u64; 10];
    for tenth in 1..=10u64 {
        // A burst in one tenth of the second.
        ticks[Ticks::SOFTIRQ] += if tenth == 4 { 9 } else { 0 };
        ticks[Ticks::USER] += 3;
        ticks[Ticks::GUEST] += 1;
        ticks[Ticks::IDLE] += if tenth == 4 { 0 } else { 7 };
        cpus.tick(SECOND + tenth * SECOND / 10, &stat(&[(0, ticks)]));
    }
    let view = cpus.cut(2 * SECOND, &SlowReadings::default());
    let row = &view.rows[0];
    let share = |i: usize| (row.shares[i] * 1.02).round();
    assert_eq!([share(Ticks::USER), share(Ticks::GUEST), share(Ticks::SOFTIRQ)], [20.0, 10.0, 9.0]);
    assert_eq!((row.peak, row.missing), (90.0, 0.0));
    assert_eq!(row.history.len(), 1);
}

#[test]
fn cpus_come_and_go_and_counters_start_anew() {
    let topology = Topology { offline: vec![1], ..Topology::default() };
    let mut cpus = CpuSampler::new(100, topology);
    let idle = |n| [0, 0, 0, n, 0, 0, 0, 0, 0, 0];
    cpus.tick(SECOND, &stat(&[(0, idle(1000)), (1, idle(5))]));
    cpus.tick(2 * SECOND, &stat(&[(0, idle(3))]));
    let view = cpus.cut(2 * SECOND, &SlowReadings::default());
    assert_eq!(view.rows.iter().map(|r| (r.cpu, r.online)).collect::<Vec<_>>(), [(0, true), (1, false)]);
    cpus.tick(3 * SECOND, &stat(&[(0, idle(103)), (1, idle(9))]));
    let view = cpus.cut(3 * SECOND, &SlowReadings::default());
    // Counts before the reset do not belong to the interval of the reset.
    let mut reset = CpuSampler::new(100, Topology::default());
    reset.tick(SECOND, &stat(&[(0, [900, 0, 0, 0, 0, 0, 0, 0, 0, 0])]));
    reset.tick(2 * SECOND, &stat(&[(0, [20, 0, 0, 30, 0, 0, 0, 0, 0, 0])]));
    reset.tick(3 * SECOND, &stat(&[(0, [40, 0, 0, 110, 0, 0, 0, 0, 0, 0])]));
    let row = &reset.cut(3 * SECOND, &SlowReadings::default()).rows[0];
    assert_eq!((row.shares[Ticks::USER], row.shares[Ticks::IDLE], row.missing), (20.0, 80.0, 0.0));
    assert_eq!((view.rows[0].shares[Ticks::IDLE], view.rows[0].missing), (100.0, 0.0));
    assert!(view.rows[1].online && view.rows[1].history.is_empty());
    assert_eq!((rise(5, 7), rise((1 << 32) - 2, 3), rise(1000, 3), rise(u64::MAX, 0)), (2, 5, 0, 0));
}

#[test]
fn a_cpu_whose_ticks_stand_still_has_shares_of_nothing() {
    let mut cpus = CpuSampler::new(100, Topology::default());
    cpus.tick(SECOND, &stat(&[(0, [7; 10])]));
    cpus.tick(2 * SECOND, &stat(&[(0, [7; 10])]));
    let row = &cpus.cut(2 * SECOND, &SlowReadings::default()).rows[0];
    assert_eq!((row.shares, row.missing), ([0.0; 10], 100.0));
}

/// Returns a hundred ticks per second for a CPU that uses all of them, by kind.
fn spent(at: u64, kinds: &[(usize, u64)]) -> [u64; 10] {
    let mut ticks = [0; 10];
    kinds.iter().for_each(|(kind, share)| ticks[*kind] = at * share);
    ticks
}

#[test]
fn shares_peaks_and_what_is_missing_over_the_window() {
    let mut cpus = CpuSampler::new(100, Topology::default());
    cpus.tick(SECOND, &stat(&[(3, [0; 10])]));
    cpus.cut(SECOND, &SlowReadings::default());
    // Twelve seconds of 60 idle, 10 waiting, 20 user, 10 softirq; in the last two, 20 of 100 ticks are missing.
    let kinds = [(Ticks::IDLE, 60), (Ticks::IOWAIT, 10), (Ticks::USER, 20), (Ticks::SOFTIRQ, 6), (Ticks::IRQ, 4)];
    let mut view = HostView::default();
    for second in 1..=10u64 {
        cpus.tick((1 + second) * SECOND, &stat(&[(3, spent(second, &kinds))]));
        view = cpus.cut((1 + second) * SECOND, &SlowReadings::default());
    }
    let row = view.row(3).expect("there").clone();
    assert_eq!((row.cpu, row.online, row.busy(), row.soft(), row.missing), (3, true, 30.0, 10.0, 0.0));
    assert_eq!((row.soft_window, row.missing_window, row.peak, row.history.len()), (10.0, 0.0, 10.0, 10));
    assert_eq!(row.history[9], CpuInterval { busy: 30.0, soft: 10.0, missing: 0.0, peak: 10.0 });
    assert_eq!((view.at, view.interval), (11 * SECOND, SECOND));
    let mut ticks = spent(10, &kinds);
    for second in 11..=12u64 {
        ticks[Ticks::IDLE] += 60;
        ticks[Ticks::USER] += 20;
        cpus.tick((1 + second) * SECOND, &stat(&[(3, ticks)]));
        view = cpus.cut((1 + second) * SECOND, &SlowReadings::default());
    }
    let row = view.row(3).expect("there");
    assert_eq!((row.missing, row.missing_window, row.soft(), row.soft_window), (20.0, 4.0, 0.0, 8.0));
    assert_eq!((row.busy(), row.peak), (25.0, 10.0));
    // One and a half missing ticks are rounding.
    ticks[Ticks::IDLE] += 99;
    cpus.tick(14 * SECOND, &stat(&[(3, ticks)]));
    assert_eq!(cpus.cut(14 * SECOND, &SlowReadings::default()).rows[0].missing, 0.0);
    ticks[Ticks::IDLE] += 98;
    cpus.tick(15 * SECOND, &stat(&[(3, ticks)]));
    assert_eq!(cpus.cut(15 * SECOND, &SlowReadings::default()).rows[0].missing, 2.0);
    for second in 15..100u64 {
        ticks[Ticks::IDLE] += 100;
        cpus.tick((1 + second) * SECOND, &stat(&[(3, ticks)]));
        view = cpus.cut((1 + second) * SECOND, &SlowReadings::default());
    }
    assert_eq!(view.rows[0].history.len(), HISTORY);
    // Without a reading in between, an interval has no new figures.
    let before = view.rows[0].clone();
    assert_eq!(cpus.cut(101 * SECOND, &SlowReadings::default()).rows[0], before);
}

#[test]
fn a_peak_is_of_a_tenth_and_no_shorter() {
    let mut cpus = CpuSampler::new(1000, Topology::default());
    let soft = |n| spent(n, &[(Ticks::SOFTIRQ, 1)]);
    cpus.tick(SECOND, &stat(&[(0, soft(0))]));
    cpus.cut(SECOND, &SlowReadings::default());
    // Readings within 49 ms are ignored; those after 50 ms are not.
    cpus.tick(SECOND + SHORTEST_NS - 1, &stat(&[(0, soft(20))]));
    cpus.tick(SECOND + SHORTEST_NS, &stat(&[(0, soft(20))]));
    cpus.tick(SECOND + 2 * SHORTEST_NS, &stat(&[(0, soft(25))]));
    let row = cpus.cut(SECOND + 2 * SHORTEST_NS, &SlowReadings::default()).rows[0].clone();
    assert_eq!(row.peak, 40.0, "20 of 50 ticks");
    // More ticks than elapsed time count as 100 %.
    cpus.tick(SECOND + 3 * SHORTEST_NS, &stat(&[(0, soft(99))]));
    assert_eq!(cpus.cut(SECOND + 3 * SHORTEST_NS, &SlowReadings::default()).rows[0].peak, 100.0);
}

fn matrix(cpus: &[u32], rows: &[(&str, &[u64])]) -> Matrix {
    let row = |(label, counts): &(&str, &[u64])| MatrixRow {
        label: label.as_bytes().to_vec(),
        about: b"chip eth0".to_vec(),
        counts: counts.to_vec(),
    };
    Matrix { cpus: cpus.to_vec(), rows: rows.iter().map(row).collect() }
}

#[test]
fn counters_become_rates() {
    let mut cpus = CpuSampler::new(100, Topology::default());
    let busy = |n| stat(&[(0, spent(n, &[(Ticks::USER, 100)])), (1, spent(n, &[(Ticks::USER, 100)]))]);
    let softnet = |cpu, n: u64| Softnet { cpu, processed: 10 * n, dropped: n, squeezed: 2 * n, rps: 3 * n };
    cpus.tick(SECOND, &busy(0));
    let first = (matrix(&[0, 1], &[("TIMER", &[100, 200]), ("RCU", &[5, 5])]), matrix(&[0, 1], &[("24", &[1, 2])]));
    cpus.cut(
        SECOND,
        &SlowReadings {
            softirqs: first.0,
            interrupts: first.1,
            softnet: vec![softnet(1, 1), softnet(0, 0)],
            ksoftirqd: vec![(1, 0)],
            drops: (10, 20),
            ..SlowReadings::default()
        },
    );
    cpus.tick(3 * SECOND, &busy(2));
    let second = (
        matrix(&[0, 1], &[("TIMER", &[300, 200]), ("RCU", &[5, 5])]),
        matrix(&[1, 0], &[("9", &[7, 7]), ("24", &[6, 1])]),
    );
    let view = cpus.cut(
        3 * SECOND,
        &SlowReadings {
            softirqs: second.0,
            interrupts: second.1,
            softnet: vec![softnet(0, 4), softnet(5, 9)],
            ksoftirqd: vec![(1, SECOND), (0, SECOND)],
            work: Vec::new(),
            mhz: vec![(1, 2400)],
            throttled: vec![(0, 7)],
            pressure: vec![("cpu", Pressure { some: 1.5, full: 0.5 })],
            drops: (14, 20),
        },
    );
    assert_eq!(view.vectors.iter().map(|v| &**v).collect::<Vec<_>>(), ["TIMER", "RCU"]);
    assert_eq!((&view.rows[0].vectors[..], &view.rows[1].vectors[..]), (&[100.0, 0.0][..], &[0.0, 0.0][..]));
    // The columns have another order than before, and a line is new.
    assert_eq!((view.line_cpus.clone(), view.lines[1].total, &*view.lines[1].about), (vec![1, 0], 7, "chip eth0"));
    assert_eq!(
        [(0, 1), (0, 0), (1, 1), (1, 0)].map(|(line, cpu)| view.line_rate(line, cpu)),
        [Some(0.0), Some(0.0), Some(2.0), Some(0.0)]
    );
    assert_eq!((view.line_rate(1, 7), view.line_rate(9, 0)), (None, None));
    let net = view.rows[0].net.expect("counted");
    assert_eq!((net.processed, net.dropped, net.squeezed, net.rps), (20.0, 2.0, 4.0, 6.0));
    assert_eq!(view.rows[1].net, None, "its line did not come again");
    assert_eq!((view.rows[0].ksoftirqd, view.rows[1].ksoftirqd), (None, Some(50.0)));
    assert_eq!(
        (view.rows[0].mhz, view.rows[1].mhz, view.rows[0].throttled, view.rows[1].throttled),
        (None, Some(2400), Some(7), None)
    );
    assert_eq!((view.drops, view.pressure.len(), view.running, view.blocked), ((2.0, 0.0), 1, 1, 0));
    // Figures end when they are not read.
    let view = cpus.cut(4 * SECOND, &SlowReadings { drops: (14, 20), ..SlowReadings::default() });
    assert_eq!((view.drops, view.rows[0].vectors.len(), view.rows.len()), ((0.0, 0.0), 2, 2));
}

#[test]
fn what_is_special_about_a_cpu() {
    let places = vec![CpuPlace::default(), CpuPlace { core: Some(7), ..CpuPlace::default() }];
    let topology =
        Topology { offline: vec![0, 2], isolated: vec![1], nohz_full: vec![2], places, ..Topology::default() };
    let mut cpus = CpuSampler::new(100, Topology::default());
    cpus.set_topology(topology);
    assert_eq!(cpus.topology().offline, [0, 2]);
    cpus.tick(SECOND, &stat(&[(1, [0; 10])]));
    cpus.tick(2 * SECOND, &stat(&[(1, spent(1, &[(Ticks::USER, 100)]))]));
    let view = cpus.cut(2 * SECOND, &SlowReadings { mhz: vec![(1, 5)], ..SlowReadings::default() });
    let rows: Vec<_> =
        view.rows.iter().map(|row| (row.cpu, row.online, row.isolated, row.nohz_full, row.mhz)).collect();
    assert_eq!(rows, [(0, false, false, false, None), (1, true, true, false, Some(5)), (2, false, false, true, None)]);
    assert_eq!([0, 1, 2].map(|at| view.rows[at].place.core), [None, Some(7), None]);
    assert_eq!((view.row(1).map(|row| row.cpu), view.row(9).map(|row| row.cpu)), (Some(1), None));
}

#[test]
fn counters_that_turn_and_that_are_reset() {
    const TURN: u64 = 1 << 32;
    for (before, now, rise_by) in [
        (5, 5, 0),
        (0, 7, 7),
        (TURN - 1, 0, 1),
        (TURN - 1, TURN / 2 - 2, TURN / 2 - 1),
        (TURN - 1, TURN / 2 - 1, 0),
        (TURN, 0, 0),
        (TURN + 5, 3, 0),
    ] {
        assert_eq!(rise(before, now), rise_by, "{before} {now}");
    }
}

#[test]
fn what_a_pmu_counts_becomes_ratios() {
    let mut cpus = CpuSampler::new(100, Topology::default());
    cpus.tick(SECOND, &stat(&[(0, [0; 10]), (1, [0; 10]), (2, [0; 10])]));
    cpus.cut(SECOND, &SlowReadings::default());
    let half = spent(1, &[(Ticks::USER, 100), (Ticks::IDLE, 100)]);
    cpus.tick(3 * SECOND, &stat(&[(0, half), (1, spent(1, &[(Ticks::IDLE, 200)])), (2, half)]));
    let work = vec![
        (0, WorkDone { cycles: 3_000_000_000, instructions: Some(1_500_000_000) }),
        (1, WorkDone { cycles: 4_000, instructions: None }),
    ];
    let view = cpus.cut(3 * SECOND, &SlowReadings { work, ..SlowReadings::default() });
    let of = |cpu: u32| view.row(cpu).expect("a row").work;
    let near = |a: f64, b: f64| (a - b).abs() < 0.02 * b;
    // Three billion in two seconds; it was busy for one of them.
    let busy = of(0).expect("counted");
    assert!(
        near(busy.cycles, 1.5e9) && busy.ipc == Some(0.5) && busy.ghz.is_some_and(|ghz| near(ghz, 3.0)),
        "{busy:?}"
    );
    assert_eq!(of(1), Some(Work { cycles: 2000.0, ipc: None, ghz: None }), "it was idle");
    assert_eq!((of(2), view.counts_work()), (None, true));
    let later = cpus.cut(4 * SECOND, &SlowReadings::default());
    assert!(!later.counts_work(), "counting has ended");
}
