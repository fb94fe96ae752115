//! Tests of cells and descriptions, with CPUs written by hand.

use super::*;
use crate::filter::Filter;
use crate::ingest::derived::softirq_times::{Pairs, SoftirqEvent, SoftirqRecord};
use crate::machine::sampler::{NetRates, Work};
use crate::session::machine::topology::CpuPlace;

#[test]
fn a_cpu_in_words_and_every_cell_leads_to_a_filter() {
    let mut counts = [0; cpus::SLOTS];
    (counts[cpus::of_vector(1)], counts[cpus::of_vector(3)], counts[cpus::IDLE]) = (48, 9, 43);
    let row = CpuSamples { cpu: 32, counts, ..CpuSamples::default() };
    let behind = cpus::SlotFunction { slot: cpus::of_vector(1), samples: 44, name: "estimation_timer".into() };
    let answer = CpuAnswer {
        rows: vec![row],
        window: 1_000_000_000,
        until: 0,
        frequency: 200,
        whole: true,
        busy: None,
        sampled: 0,
        cpu: Some(32),
        behind: vec![behind],
    };
    let facts = CpuFacts { samples: Some(&answer), ..CpuFacts::default() };
    assert_eq!(
        facts.cpu_text(32),
        "CPU 32: 57.0 % softirq = 48.0 % TIMER (estimation_timer 44.0 %) + 9.0 % NET_RX, 0.0 % irq; \
         100 samples of 200 at full load"
    );
    assert_eq!(facts.cell(CpuColumn::Share(Ticks::SOFTIRQ), 32), Cell::Number(57.0));
    assert_eq!(facts.cell(CpuColumn::Mhz, 32), Cell::Empty);
    assert_eq!(facts.cpus(), [32]);
    for column in [CpuColumn::Cpu, CpuColumn::Sampled(1), CpuColumn::Share(Ticks::IRQ), CpuColumn::Rate(77)] {
        let (label, filter) = column.drill(32);
        assert!(Filter::parse(&filter).is_ok() && label.starts_with("CPU 32"), "{filter}");
    }
}

fn host() -> HostView {
    let mut shares = [0.0; Ticks::N];
    (shares[Ticks::USER], shares[Ticks::IDLE]) = (12.5, 87.5);
    let row = CpuRow {
        cpu: 1,
        online: true,
        shares,
        missing: 3.0,
        peak: 44.0,
        ksoftirqd: Some(7.0),
        vectors: vec![1.5, 2.5],
        net: Some(NetRates { processed: 1.0, dropped: 2.0, squeezed: 3.0, rps: 4.0 }),
        mhz: Some(2400),
        work: Some(Work { cycles: 3e9, ipc: Some(0.5), ghz: None }),
        throttled: Some(12_345),
        place: CpuPlace { node: Some(0), package: Some(2), die: None, core: Some(5), siblings: "1,9".into() },
        isolated: true,
        ..CpuRow::default()
    };
    let offline = CpuRow {
        cpu: 2,
        nohz_full: true,
        place: CpuPlace { siblings: "2".into(), ..CpuPlace::default() },
        throttled: Some(0),
        ..CpuRow::default()
    };
    let line = |label: &str, about: &str, rates: &[f32]| IrqLine {
        label: label.into(),
        about: about.into(),
        total: 9,
        rates: rates.to_vec(),
    };
    HostView {
        rows: vec![row, offline],
        vectors: vec!["HI".into(), "TIMER".into()],
        lines: vec![
            line("24", "PCI-MSI edge eth0-rx", &[8.0]),
            line("LOC", "Local timer interrupts", &[100.0]),
            line("25", "", &[]),
        ],
        line_cpus: vec![1],
        ..HostView::default()
    }
}

/// Returns times: CPU 1 ran TIMER for 3 of 10 µs in two runs, raised 1 µs before the first, and line 24 for 1 µs.
fn times() -> HandlerTimes {
    let mut pairs = Pairs::default();
    pairs.begin(0);
    for (time, which, number) in [
        (1000, SoftirqEvent::Raise, 1),
        (2000, SoftirqEvent::Entry, 1),
        (4000, SoftirqEvent::Exit, 1),
        (5000, SoftirqEvent::Entry, 1),
        (6000, SoftirqEvent::Exit, 1),
        (7000, SoftirqEvent::IrqEntry, 24),
        (8000, SoftirqEvent::IrqExit, 24),
        (8000, SoftirqEvent::IrqEntry, 30),
        (8500, SoftirqEvent::IrqExit, 30),
    ] {
        let name = (number == 24).then_some(&b"eth0-rx"[..]);
        pairs.add(1, time, SoftirqRecord { which, number, name });
    }
    pairs.until(10_000);
    pairs.snapshot()
}

fn samples() -> CpuAnswer {
    let mut counts = [0; cpus::SLOTS];
    (counts[cpus::of_vector(1)], counts[cpus::USER], counts[cpus::KERNEL], counts[cpus::IDLE], counts[cpus::IRQ]) =
        (50, 20, 10, 15, 5);
    let behind = cpus::SlotFunction { slot: cpus::of_vector(1), samples: 40, name: "run_timers".into() };
    let row = CpuSamples { cpu: 1, counts, peak: 66.0, ..CpuSamples::default() };
    CpuAnswer {
        rows: vec![row],
        window: 2_000_000_000,
        frequency: 100,
        whole: true,
        cpu: Some(1),
        behind: vec![behind],
        ..CpuAnswer::default()
    }
}

#[test]
fn niced_tasks_count_as_user_time_where_they_have_no_column() {
    let mut host = host();
    host.rows[0].shares[Ticks::NICE] = 4.5;
    let facts = |nice_is_user| CpuFacts { host: Some(&host), nice_is_user, ..CpuFacts::default() };
    let user = CpuColumn::Share(Ticks::USER);
    assert_eq!([false, true].map(|nice| facts(nice).value(user, 1)), [Some(12.5), Some(17.0)]);
}

#[test]
fn every_cell_has_its_value() {
    let (host, times, samples) = (host(), times(), samples());
    let facts = CpuFacts { host: Some(&host), samples: Some(&samples), times: Some(&times), nice_is_user: false };
    assert_eq!(facts.cpus(), [1, 2]);
    for (column, value) in [
        (CpuColumn::Cpu, Some(1.0)),
        (CpuColumn::Share(Ticks::USER), Some(12.5)),
        (CpuColumn::Share(Ticks::IDLE), Some(87.5)),
        (CpuColumn::Missing, Some(3.0)),
        (CpuColumn::Peak, Some(44.0)),
        (CpuColumn::Ksoftirqd, Some(7.0)),
        (CpuColumn::Samples, Some(100.0)),
        (CpuColumn::Given, Some(50.0)),
        (CpuColumn::Sampled(1), Some(50.0)),
        (CpuColumn::Timed(1), Some(30.0)),
        (CpuColumn::IrqTimed, Some(15.0)),
        (CpuColumn::Rate(1), Some(2.5)),
        (CpuColumn::Rate(7), None),
        (CpuColumn::Line(0), Some(8.0)),
        (CpuColumn::Line(2), Some(0.0)),
        (CpuColumn::NetProcessed, Some(1.0)),
        (CpuColumn::NetDropped, Some(2.0)),
        (CpuColumn::NetSqueezed, Some(3.0)),
        (CpuColumn::NetRps, Some(4.0)),
        (CpuColumn::Mhz, Some(2400.0)),
        (CpuColumn::Cycles, Some(3e9)),
        (CpuColumn::Ipc, Some(0.5)),
        (CpuColumn::Ghz, None),
        (CpuColumn::Throttled, Some(12_345.0)),
        (CpuColumn::Node, Some(0.0)),
        (CpuColumn::Package, Some(2.0)),
        (CpuColumn::Core, Some(5.0)),
        (CpuColumn::Siblings, None),
        (CpuColumn::Marks, None),
    ] {
        assert_eq!(facts.value(column, 1), value, "{column:?}");
    }
    // An offline CPU has only a position.
    for column in [
        CpuColumn::Share(0),
        CpuColumn::Missing,
        CpuColumn::Peak,
        CpuColumn::Samples,
        CpuColumn::Given,
        CpuColumn::Rate(0),
        CpuColumn::NetRps,
    ] {
        assert_eq!(facts.value(column, 2), None, "{column:?}");
    }
    assert_eq!(facts.value(CpuColumn::Throttled, 2), Some(0.0));
    let cells: Vec<Cell> = [
        CpuColumn::Cpu,
        CpuColumn::Siblings,
        CpuColumn::Marks,
        CpuColumn::Samples,
        CpuColumn::Mhz,
        CpuColumn::Throttled,
        CpuColumn::Node,
        CpuColumn::Package,
        CpuColumn::Core,
        CpuColumn::Missing,
        CpuColumn::Rate(7),
    ]
    .map(|column| facts.cell(column, 1))
    .to_vec();
    let text = |text: &str| Cell::Text(text.into());
    assert_eq!(
        cells,
        [
            Cell::Id(1),
            text("1,9"),
            text("isolated"),
            Cell::Count(100),
            Cell::Count(2400),
            Cell::Count(12_345),
            Cell::Id(0),
            Cell::Id(2),
            Cell::Id(5),
            Cell::Number(3.0),
            Cell::Empty
        ]
    );
    assert_eq!(facts.cell(CpuColumn::Marks, 2), text("offline nohz_full"));
    assert_eq!(facts.cell(CpuColumn::Marks, 7), Cell::Empty);
    let table = facts.table(&[CpuColumn::Cpu, CpuColumn::Missing], &[1, 2]);
    assert_eq!(
        (table.columns.len(), table.rows),
        (2, vec![vec![Cell::Id(1), Cell::Number(3.0)], vec![Cell::Id(2), Cell::Empty]])
    );
    let titles = [
        CpuColumn::Line(0),
        CpuColumn::Line(1),
        CpuColumn::Line(2),
        CpuColumn::Line(9),
        CpuColumn::Rate(1),
        CpuColumn::Rate(9),
    ]
    .map(|column| facts.title(column).to_string());
    assert_eq!(titles, ["eth0-rx", "LOC", "25", "", "TIMER", ""]);
}

#[test]
fn samples_stand_in_where_nothing_was_read() {
    let samples = samples();
    let facts = CpuFacts { samples: Some(&samples), ..CpuFacts::default() };
    for (share, value) in [
        (Ticks::USER, Some(20.0)),
        (Ticks::SYSTEM, Some(10.0)),
        (Ticks::IDLE, Some(15.0)),
        (Ticks::IRQ, Some(5.0)),
        (Ticks::SOFTIRQ, Some(50.0)),
        (Ticks::STEAL, None),
    ] {
        assert_eq!(facts.value(CpuColumn::Share(share), 1), value);
    }
    assert_eq!((facts.value(CpuColumn::Peak, 1), facts.value(CpuColumn::Peak, 2)), (Some(66.0), None));
    assert_eq!(facts.value(CpuColumn::Given, 1), Some(50.0));
    let unknown = CpuAnswer { frequency: 0, ..samples.clone() };
    let facts = CpuFacts { samples: Some(&unknown), ..CpuFacts::default() };
    assert_eq!(facts.value(CpuColumn::Given, 1), None);
    assert!(!facts.cpu_text(1).contains("at full load"));
}

#[test]
fn every_cell_in_words() {
    let (host, times, samples) = (host(), times(), samples());
    let facts = CpuFacts { host: Some(&host), samples: Some(&samples), times: Some(&times), nice_is_user: false };
    for (column, words) in [
        (CpuColumn::Sampled(1), "TIMER on CPU 1: 50.0 % of its samples, top: run_timers 40.0 %   50 of 100 samples"),
        (CpuColumn::Sampled(3), "NET_RX on CPU 1: 0.0 % of its samples   0 of 100 samples"),
        (CpuColumn::Rate(1), "TIMER on CPU 1: 2.5 softirqs per second (/proc/softirqs counts)"),
        (CpuColumn::Line(0), "interrupt 24 on CPU 1: 8.0 per second   PCI-MSI edge eth0-rx"),
        (CpuColumn::Missing, "CPU 1: for 3 % of the time no tick was counted, so shares do not show it"),
        (CpuColumn::Peak, "CPU 1: softirqs and interrupts took 44 % of a tenth of a second at their peak"),
        (CpuColumn::Cpu, "CPU 1  node 0  package 2  core 5  with 1,9  2400 MHz  throttled 12,345 times  isolated"),
        (CpuColumn::Given, "CPU 1: 50 % of the samples of a fully busy CPU; idle CPUs may produce no samples"),
    ] {
        assert_eq!(facts.cell_text(column, 1), words);
    }
    let timer = facts.cell_text(CpuColumn::Timed(1), 1);
    let title = facts.title(CpuColumn::Timed(1));
    assert_eq!(
        timer,
        format!(
            "{title} on CPU 1: 30.0 % of 10.0 µs, 2 runs, avg 1.50 µs, p99 2.00 µs, max 2.00 µs, raised to run avg 1.00 µs, max 1.00 µs   top: run_timers"
        )
    );
    assert_eq!(
        facts.cell_text(CpuColumn::IrqTimed, 1),
        "interrupt 24 (eth0-rx) on CPU 1: 10.0 % of 10.0 µs, 1 run, avg 1.00 µs, p99 1.00 µs, max 1.00 µs"
    );
    assert_eq!(facts.cell_text(CpuColumn::IrqTimed, 2), "no interrupt handler has run on CPU 2 since measuring began");
    assert!(facts.cell_text(CpuColumn::Timed(3), 1).ends_with("it has not run since measuring began"));
    assert!(
        facts
            .cell_text(CpuColumn::Share(Ticks::USER), 1)
            .ends_with("on CPU 1: 12.5 % of its ticks in 0 ns (/proc/stat)")
    );
    assert!(
        facts.cell_text(CpuColumn::Mhz, 1).ends_with(" on CPU 1: 2,400")
            || facts.cell_text(CpuColumn::Mhz, 1).ends_with(" on CPU 1: 2400")
    );
    assert_eq!(facts.cell_text(CpuColumn::Cpu, 2), "CPU 2  offline nohz_full");
    let alone = CpuFacts { samples: Some(&samples), ..CpuFacts::default() };
    assert!(alone.cell_text(CpuColumn::Share(Ticks::USER), 1).ends_with("on CPU 1: 20.0 % of its samples"));
    assert!(alone.cell_text(CpuColumn::Timed(1), 1).ends_with("its time is known in a second"));
    assert!(alone.cell_text(CpuColumn::IrqTimed, 1).ends_with("its time is known in a second"));
    assert!(alone.cell_text(CpuColumn::Missing, 1).ends_with("not known here"));
    assert_eq!(alone.cell_text(CpuColumn::Cpu, 1), "CPU 1: the recording has no more details");
    assert_eq!(
        (alone.cpu_text(7), facts.irq_text(9)),
        ("CPU 7: no samples".into(), "no interrupt handler has run on CPU 9 since measuring began".into())
    );
    assert_eq!(
        facts.cpu_text(1),
        "CPU 1, samples of 2 s: 50.0 % softirq = 50.0 % TIMER (run_timers 40.0 %), 5.0 % irq; \
         100 samples of 200 at full load"
    );
}

#[test]
fn durations_as_bars() {
    let times = times();
    let facts = CpuFacts { times: Some(&times), ..CpuFacts::default() };
    assert_eq!(facts.cpus(), [1]);
    // 1000 ns is between 2^9.5 and 2^10, 2000 ns between 2^10.5 and 2^11: one run each.
    let bars = facts.histogram(CpuColumn::Timed(1), 1).expect("timed");
    assert_eq!(bars, [("725 ns".to_owned(), 7), ("1.02 µs".to_owned(), 0), ("1.45 µs".to_owned(), 7)]);
    assert_eq!(facts.histogram(CpuColumn::Sampled(1), 1), None);
    assert_eq!(facts.histogram(CpuColumn::Timed(1), 2), None);
}
