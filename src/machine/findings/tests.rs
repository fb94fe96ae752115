//! Tests with CPUs written by hand, and the anomalies among them.

use super::*;
use crate::ingest::derived::softirq_times::{Pairs, SoftirqEvent, SoftirqRecord};

fn host(soft: &[f32]) -> HostView {
    let row = |(cpu, soft): (u32, &f32)| CpuRow { cpu, online: true, soft_window: *soft, ..CpuRow::default() };
    HostView { rows: (0..).zip(soft).map(row).collect(), ..HostView::default() }
}

fn facts<'a>(host: &'a HostView, samples: Option<&'a CpuAnswer>) -> FindingInput<'a> {
    FindingInput { host: Some(host), samples, times: None, own: 0.0, points: 10.0, before: &[] }
}

fn row(cpu: u16, counts: &[(usize, u64)]) -> CpuSamples {
    let mut row = CpuSamples { cpu, ..CpuSamples::default() };
    counts.iter().for_each(|(slot, n)| row.counts[*slot] = *n);
    row
}

/// Returns the samples of a second, at a rate of a thousand per second.
fn answer(rows: Vec<CpuSamples>) -> CpuAnswer {
    CpuAnswer { rows, window: 1_000_000_000, frequency: 1000, whole: true, ..CpuAnswer::default() }
}

/// Peers at 10, 12, 14, 16 and 98: their median is 14, their MAD 2, their mean 30. 3.5·2/0.6745 is 10.38.
#[test]
fn an_outlier_is_so_many_deviations_from_the_median() {
    let others = [16.0, 10.0, 98.0, 12.0, 14.0];
    assert_eq!([24.37, 24.38].map(|value| above(value, &others, 5.0)), [None, Some(14.0)]);
    assert_eq!([28.9, 29.0].map(|value| above(value, &others, 15.0)), [None, Some(14.0)]);
    // For an even number, the median is between two values: 2.5, with deviations of 0.5, 0.5, 1.5 and 7.5: a MAD of 1.
    let even = [10.0, 1.0, 3.0, 2.0];
    assert_eq!([7.68, 7.69].map(|value| above(value, &even, 1.0)), [None, Some(2.5)]);
    // If all values are equal, their spread counts as one point: 3.5/0.6745 is 5.19.
    assert_eq!([10.18, 10.19].map(|value| above(value, &[5.0; 3], 1.0)), [None, Some(5.0)]);
    assert_eq!((above(99.0, &[], 1.0), above(-99.0, &[5.0; 3], 1.0)), (None, None));
}

#[test]
fn far_above_its_peers() {
    let texts =
        |soft: &[f32]| -> Vec<String> { findings(facts(&host(soft), None)).into_iter().map(|f| f.text).collect() };
    assert_eq!(texts(&[1.0, 2.0, 40.0, 0.0]), ["CPU 2 softirq 40 %, peers 1 %"]);
    // A single other CPU is too few peers: loads on loopback are uneven.
    assert_eq!(texts(&[0.0, 25.0]), ["CPU 1 softirq 25 %, the other CPU 0 %"]);
    assert!(texts(&[15.0, 22.0]).is_empty() && texts(&[3.0, 22.9]).is_empty());
    assert!(texts(&[40.0, 42.0, 38.0, 45.0]).is_empty(), "all alike");
    assert!(texts(&[0.0, 5.0, 0.0]).is_empty(), "too little to speak of");
    assert_eq!(texts(&[50.0]), ["CPU 0 softirq 50 %"]);
    assert!(texts(&[15.0]).is_empty(), "no peers and no past");
    let nine = host(&[0.0, 9.0, 1.0]);
    let known = findings(facts(&host(&[0.0, 25.0]), None));
    assert!(findings(facts(&nine, None)).is_empty());
    assert_eq!(findings(FindingInput { before: &known, ..facts(&nine, None) }).len(), 1, "it stays a while");
    assert!(findings(FindingInput { host: None, ..facts(&host(&[]), None) }).is_empty());
}

#[test]
fn what_the_samples_say_where_the_ticks_do_not() {
    let quiet = host(&[0.0; 34]);
    let mut rows: Vec<CpuSamples> = (0..32).map(|cpu| row(cpu, &[(cpus::IDLE, 900)])).collect();
    rows.push(row(32, &[(cpus::of_vector(1), 400), (cpus::IDLE, 600)]));
    let behind = cpus::SlotFunction { slot: cpus::of_vector(1), samples: 400, name: "estimation_timer".into() };
    let answer = CpuAnswer { cpu: Some(32), behind: vec![behind], ..answer(rows) };
    let found = findings(facts(&quiet, Some(&answer)));
    assert_eq!(found[0].text, "CPU 32 softirq 40 %, peers 0 %; TIMER (estimation_timer)");
    assert_eq!((found.len(), found[0].vector), (1, Some(1)));
}

#[test]
fn missing_ticks_and_samples_and_its_own_past() {
    let mut view = host(&[0.0]);
    let past = |soft, busy| CpuInterval { soft, busy, ..CpuInterval::default() };
    view.rows[0].history = vec![CpuInterval { missing: 38.0, ..past(1.0, 50.0) }; 50];
    view.rows[0].missing_window = 38.0;
    let answer = |n| CpuAnswer { window: 10_000_000_000, ..answer(vec![row(0, &[(0, n)])]) };
    let kinds = |view: &HostView, n| -> Vec<FindingKind> {
        findings(facts(view, Some(&answer(n)))).into_iter().map(|f| f.kind).collect()
    };
    assert_eq!(kinds(&view, 5000), [FindingKind::MissingTicks]);
    assert_eq!(kinds(&view, 1000), [FindingKind::MissingSamples], "what was counted is more than what ran");
    let few = answer(1000);
    let but_for_us = FindingInput { own: 45.0, ..facts(&view, Some(&few)) };
    assert!(findings(but_for_us).is_empty(), "1000 samples are more than half of 5 % of the time");
    let mut lossy = few.clone();
    lossy.rows[0].lost = 1600;
    assert!(findings(facts(&view, Some(&lossy))).is_empty(), "the rest was taken, and lost in the ring");
    view.rows[0].missing_window = 0.0;
    view.rows[0].soft_window = 30.0;
    let found = findings(facts(&view, None));
    assert_eq!(found[0].text, "CPU 0 softirq 30 %, before 1 %");
}

/// 200 are expected in the window; a CPU with fewer than a tenth of that is not evaluated.
#[test]
fn a_few_samples_say_nothing_of_shares() {
    let with = |frequency: u64, soft: u64, user: u64| {
        let busy = |cpu| row(cpu, &[(cpus::USER, 1000)]);
        let rows = vec![busy(0), row(1, &[(cpus::of_vector(3), soft), (cpus::USER, user)]), busy(2)];
        let answer = CpuAnswer { window: 2_000_000_000, frequency, ..answer(rows) };
        findings(FindingInput { host: None, samples: Some(&answer), times: None, own: 0.0, points: 10.0, before: &[] })
            .len()
    };
    assert_eq!([with(100, 10, 10), with(100, 10, 9)], [1, 0], "20 of 200 are enough");
    assert_eq!([with(5000, 50, 50), with(5000, 50, 49)], [1, 0], "and so are 100 of any number");
    assert_eq!([with(0, 25, 25), with(0, 25, 24)], [1, 0], "50 if the rate is unknown");
}

#[test]
fn interrupts_and_softirqs_by_what_tells_more() {
    let mut view = host(&[0.0, 0.0, 0.0]);
    view.rows[2].soft_window = 50.0;
    let text = |view: &HostView, samples: Option<&CpuAnswer>| findings(facts(view, samples))[0].text.clone();
    (view.rows[2].shares[Ticks::IRQ], view.rows[2].shares[Ticks::SOFTIRQ]) = (30.0, 20.0);
    assert_eq!(text(&view, None), "CPU 2 interrupts 50 %, peers 0 %");
    (view.rows[2].shares[Ticks::IRQ], view.rows[2].shares[Ticks::SOFTIRQ]) = (25.0, 25.0);
    assert_eq!(text(&view, None), "CPU 2 softirq 50 %, peers 0 %");
    let answer = |irq: u64, soft: u64, idle: u64| {
        answer(vec![row(2, &[(cpus::IRQ, irq), (cpus::of_vector(3), soft), (cpus::IDLE, idle)])])
    };
    // Samples of at least that share determine the kind and the vector.
    assert_eq!(text(&view, Some(&answer(300, 200, 500))), "CPU 2 interrupts 50 %, peers 0 %");
    assert_eq!(text(&view, Some(&answer(200, 300, 500))), "CPU 2 softirq 50 %, peers 0 %; NET_RX");
    // If samples show less than the ticks, the ticks determine it.
    assert_eq!(text(&view, Some(&answer(300, 100, 600))), "CPU 2 softirq 50 %, peers 0 %; NET_RX");
    assert_eq!(text(&view, Some(&answer(250, 250, 500))), "CPU 2 softirq 50 %, peers 0 %; NET_RX");
}

#[test]
fn a_cpu_alone_needs_twice_the_points_and_a_past_needs_time() {
    let alone = |soft| findings(facts(&host(&[soft]), None)).len();
    assert_eq!([alone(19.9), alone(20.0)], [0, 1]);
    // All but the newest seconds of its own past count, if there are twice as many.
    let past = |seconds: usize| {
        let mut view = host(&[15.0]);
        view.rows[0].history = vec![CpuInterval { soft: 1.0, ..CpuInterval::default() }; seconds];
        findings(facts(&view, None)).len()
    };
    assert_eq!([past(2 * WINDOW - 1), past(2 * WINDOW)], [0, 1]);
    let mut view = host(&[15.0]);
    // The newest ten seconds have the same share, but do not belong to the past.
    view.rows[0].history =
        [[CpuInterval::default(); WINDOW], [CpuInterval { soft: 15.0, ..CpuInterval::default() }; WINDOW]].concat();
    assert_eq!(findings(facts(&view, None))[0].text, "CPU 0 softirq 15 %, before 0 %");
    let offline = HostView { rows: vec![CpuRow { soft_window: 90.0, ..CpuRow::default() }], ..HostView::default() };
    assert!(findings(facts(&offline, None)).is_empty());
}

#[test]
fn missing_ticks_from_their_points_on() {
    let ran = sampled(&[500]);
    let of = |seconds: usize, missing: f32, before: &[CpuFinding]| {
        let mut view = host(&[0.0]);
        (view.rows[0].history, view.rows[0].missing_window) = (vec![CpuInterval::default(); seconds], missing);
        findings(FindingInput { before, ..facts(&view, Some(&ran)) })
    };
    assert_eq!([of(3, 10.0, &[]).len(), of(3, 9.9, &[]).len(), of(2, 50.0, &[]).len()], [1, 0, 0]);
    let known = of(3, 10.0, &[]);
    assert_eq!((known[0].text.as_str(), known[0].share), ("CPU 0: 10 % of its ticks are missing", 10.0));
    // An existing finding stays until it is below six tenths of that; findings of another kind or CPU do not matter.
    assert_eq!([of(3, 6.0, &known).len(), of(3, 5.9, &known).len()], [1, 0]);
    let others =
        [CpuFinding { cpu: Some(1), ..known[0].clone() }, CpuFinding { kind: FindingKind::Soft, ..known[0].clone() }];
    assert!(of(3, 6.0, &others).is_empty());
}

#[test]
fn missing_samples_against_how_busy_it_was() {
    // Half busy: 1000 per second for ten seconds are 5000 samples.
    let of = |seconds: usize, busy: f32, own: f64, came: u64, idle: u64| {
        let mut view = host(&[0.0]);
        view.rows[0].history = vec![CpuInterval { busy, ..CpuInterval::default() }; seconds];
        let rows = vec![row(0, &[(cpus::USER, came), (cpus::IDLE, idle)])];
        let answer = CpuAnswer { window: 10_000_000_000, ..answer(rows) };
        findings(FindingInput { own, ..facts(&view, Some(&answer)) })
            .into_iter()
            .map(|f| (f.text, f.share))
            .collect::<Vec<_>>()
    };
    let told = |came, expected, share| vec![(format!("CPU 0: {came} of {expected} samples came"), share)];
    assert_eq!(of(WINDOW, 50.0, 0.0, 2500, 700), told(2500, 5000, 25.0));
    assert_eq!(of(WINDOW, 50.0, 0.0, 2501, 700), vec![]);
    assert_eq!(of(WINDOW - 1, 50.0, 0.0, 100, 0), vec![], "too short a time");
    assert_eq!(of(WINDOW, 50.0, 30.0, 1000, 0), told(1000, 2000, 10.0));
    assert_eq!(of(WINDOW, 1.0, 0.0, 50, 0), told(50, 100, 0.5));
    assert_eq!(of(WINDOW, 0.99, 0.0, 10, 0), vec![], "fewer than a hundred are not expected");
    assert_eq!(of(WINDOW, 20.0, 30.0, 0, 9), vec![]);
}

/// This program got no CPU for half a minute: one ring's loss is not reported yet, or all samples are old.
#[test]
fn late_samples_are_not_missing() {
    let mut view = host(&[0.0, 0.0]);
    view.at = 100_000_000_000;
    view.rows
        .iter_mut()
        .for_each(|row| row.history = vec![CpuInterval { busy: 100.0, ..CpuInterval::default() }; WINDOW]);
    let found = |lost: u64, until: u64| {
        let rows = vec![CpuSamples { lost, ..row(0, &[(cpus::USER, 20_000)]) }, row(1, &[(cpus::USER, 9067)])];
        let answer = CpuAnswer { window: 24_000_000_000, until, ..answer(rows) };
        findings(facts(&view, Some(&answer))).into_iter().map(|found| found.text).collect::<Vec<_>>()
    };
    assert_eq!(found(0, view.at), ["CPU 1: 9067 of 24000 samples came"]);
    assert_eq!(found(22_000, view.at), Vec::<String>::new());
    assert_eq!(found(0, view.at - LATE_NS + 1).len(), 1);
    assert_eq!(found(0, view.at - LATE_NS), Vec::<String>::new());
}

#[test]
fn the_worst_is_first_and_ties_are_broken() {
    let mut view = host(&[0.0, 40.0, 0.0, 40.0, 0.0, 60.0]);
    (view.rows[3].missing_window, view.rows[3].history) = (40.0, vec![CpuInterval::default(); 3]);
    let ran = sampled(&[0, 0, 0, 500]);
    let order: Vec<_> = findings(facts(&view, Some(&ran))).into_iter().filter_map(|f| Some((f.cpu?, f.kind))).collect();
    assert_eq!(
        order,
        [(5, FindingKind::Soft), (1, FindingKind::Soft), (3, FindingKind::Soft), (3, FindingKind::MissingTicks)]
    );
}

/// Returns samples of user code, this many of a thousand on each CPU; the others are from idle time.
fn sampled(user: &[u64]) -> CpuAnswer {
    let row = |(cpu, user): (u16, &u64)| row(cpu, &[(cpus::USER, *user), (cpus::IDLE, 1000 - user)]);
    answer((0..).zip(user).map(row).collect())
}

/// This many milliseconds of each second in a vector of a CPU, for half a minute.
fn timed(list: &[(u32, u32, u64)]) -> HandlerTimes {
    let mut pairs = Pairs::default();
    pairs.begin(0);
    for second in 0..30 {
        for (nth, (cpu, vector, ms)) in (0..).zip(list) {
            let at = second * 1_000_000_000 + nth * 1_000_000;
            let seen = |which| SoftirqRecord { which, number: *vector, name: None };
            pairs.add(*cpu, at, seen(SoftirqEvent::Entry));
            pairs.add(*cpu, at + ms * 1_000_000, seen(SoftirqEvent::Exit));
        }
    }
    pairs.until(30_000_000_000);
    pairs.snapshot()
}

#[test]
fn ticks_of_idle_cpus_are_not_missed() {
    let of = |user: u64, times: Option<&HandlerTimes>, busy: f32| {
        let mut view = host(&[0.0, 0.0]);
        let past = CpuInterval { busy, missing: 28.0, ..CpuInterval::default() };
        (view.rows[1].history, view.rows[1].missing_window) = (vec![past; 12], 28.0);
        let samples = sampled(&[0, user]);
        let found = findings(FindingInput { times, ..facts(&view, Some(&samples)) });
        found.into_iter().filter(|f| f.kind == FindingKind::MissingTicks).count()
    };
    assert_eq!([of(0, None, 0.0), of(99, None, 0.0), of(100, None, 0.0)], [0, 0, 1], "from ten points on");
    // Half of 72 % was counted as work: 36 % of the time.
    assert_eq!([of(400, None, 50.0), of(459, None, 50.0), of(460, None, 50.0)], [0, 0, 1]);
    assert_eq!([of(0, Some(&timed(&[(1, 8, 90)])), 0.0), of(0, Some(&timed(&[(1, 8, 230)])), 0.0)], [0, 1]);
}

#[test]
fn where_the_time_is_measured_it_names_the_vector() {
    let view = host(&[0.0, 45.0, 0.0]);
    let behind =
        |vector, name: &str| cpus::SlotFunction { slot: cpus::of_vector(vector), samples: 9, name: name.into() };
    let samples = CpuAnswer {
        cpu: Some(1),
        behind: vec![behind(3, "virtnet_poll"), behind(8, "tick_nohz_handler")],
        ..answer(vec![row(1, &[(cpus::of_vector(3), 450), (cpus::IDLE, 550)])])
    };
    let of =
        |times: Option<&HandlerTimes>| findings(FindingInput { times, ..facts(&view, Some(&samples)) }).swap_remove(0);
    let by_samples = of(None);
    assert_eq!(by_samples.text, "CPU 1 softirq 45 %, peers 0 %; NET_RX (virtnet_poll)");
    let by_time = of(Some(&timed(&[(1, 3, 200), (1, 8, 230)])));
    assert_eq!(by_time.text, "CPU 1 softirq 45 %, peers 0 %; HRTIMER (tick_nohz_handler)");
    assert_eq!((by_time.vector, by_time.function.as_deref()), (Some(8), Some("tick_nohz_handler")));
    // The measured time is too small a part to identify the rest.
    assert_eq!(of(Some(&timed(&[(1, 8, 100)]))).vector, Some(3));
    // Time that is not charged to any tick is an anomaly from its tracepoints alone.
    let quiet = host(&[0.0, 0.0, 0.0]);
    let times = timed(&[(2, 8, 300)]);
    let found = findings(FindingInput { times: Some(&times), ..facts(&quiet, None) });
    assert_eq!(found[0].text, "CPU 2 softirq 30 %, peers 0 %; HRTIMER");
}

#[test]
fn text_without_keys_speaks_of_none() {
    for kind in [FindingKind::Soft, FindingKind::MissingTicks, FindingKind::MissingSamples, FindingKind::Quota] {
        for timed in [false, true] {
            let found =
                CpuFinding { cpu: Some(7), kind, share: 9.0, vector: None, function: None, text: String::new() };
            let advice = found.advice(timed);
            assert!(!advice.contains("Enter") && !advice.contains("t measures"), "{advice}");
            assert!(!timed || !advice.contains("--softirq-time"), "{advice}");
        }
    }
}

#[test]
fn who_is_throttled_is_a_finding_of_no_cpu() {
    let throttled = |percent: f64| HostView {
        quotas: vec![ThrottledGroup {
            name: "shop/cart-7d9/app".into(),
            percent,
            ms: 312.4,
            ..ThrottledGroup::default()
        }],
        ..host(&[0.0, 0.0])
    };
    let found =
        |percent: f64, before: &[CpuFinding]| findings(FindingInput { before, ..facts(&throttled(percent), None) });
    let first = found(38.2, &[]);
    assert_eq!((first.len(), first[0].cpu, first[0].kind), (1, None, FindingKind::Quota));
    assert_eq!(first[0].text, "shop/cart-7d9/app throttled 38 % of periods, 312 ms/s");
    assert_eq!([found(9.0, &[]).len(), found(9.0, &first).len(), found(5.0, &first).len()], [0, 1, 0]);
    let mut foreign = throttled(38.2);
    foreign.quotas[0].of_target = Some(false);
    assert_eq!(findings(facts(&foreign, None)), [], "it is not of the target");
}
