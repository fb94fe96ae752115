//! CPUs and their softirqs: screens of the ipvs incident, and figures compared with other tools on the same recording.

use std::collections::BTreeMap;

use crate::common::data;
use crate::common::harness::{Harness, messages};
use perfprof_tui::engine::IntakeOptions;
use perfprof_tui::engine::offline;
use perfprof_tui::ingest::derived::softirq_times::{Handler, Pairs, SoftirqEvent, SoftirqRecord};
use perfprof_tui::source::recording;
use perfprof_tui::symbols::SymbolOptions;
use perfprof_tui::ui::Level;
use perfprof_tui::ui::state::tab::Tab;

fn incident(width: u16, height: u16) -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", width, height)
}

#[test]
fn the_founding_incident_at_each_size() {
    for (width, height) in [(80, 24), (120, 40), (200, 60), (20, 6), (30, 9)] {
        let harness = incident(width, height).host("ipvs-busy").keys("4!");
        insta::assert_snapshot!(format!("cpus-{width}x{height}"), harness.text());
    }
}

/// Empty columns are hidden first, and the cursor is on the CPU that stands out.
#[test]
fn what_is_active_is_shown_from_the_start() {
    let text = incident(120, 40).host("ipvs-busy").keys("4").text();
    let head = text.lines().find(|line| line.split_whitespace().any(|word| word == "usr")).expect("a heading");
    insta::assert_snapshot!("active-columns", head);
    assert!(text.lines().any(|line| line.starts_with("›!  32 ")), "{text}");
}

#[test]
fn what_a_recording_tells() {
    insta::assert_snapshot!(incident(80, 24).keys("4").text());
    assert_eq!(incident(80, 24).keys("4t").level(), Some(Level::Info));
    insta::assert_snapshot!("messages", messages(|| incident(80, 24), &["4t"]));
}

/// From the first screen, `!` goes to the CPU that stands out and Enter to its functions.
#[test]
fn two_keys_lead_to_the_guilty_function() {
    let start = incident(120, 30).host("ipvs-busy");
    let harness = start.keys("!");
    assert_eq!(harness.app.model.frame.tab, Tab::Cpus);
    insta::assert_snapshot!("anomaly-120x30", harness.text());
    let harness = harness.keys("<ret>");
    insta::assert_snapshot!("anomaly-path", harness.text().lines().take(4).collect::<Vec<_>>().join("\n"));
    assert_eq!(harness.app.model.context.answer.view.total.samples, 3856);
    let here = harness.app.model.line().expect("a row");
    assert_eq!((&*here.sym, here.depth), ("estimation_timer", 0));
    // The flame graph shows the same selection, and one key goes back.
    let filter = harness.filter().map(str::to_owned);
    assert_eq!(harness.keys("2").filter().map(str::to_owned), filter);
    let back = incident(120, 30).host("ipvs-busy").keys("!<ret><bs>");
    assert!(back.app.model.selection.zooms.is_empty());
}

#[test]
fn order_columns_and_every_key_on_it() {
    let harness = incident(80, 24).host("ipvs-busy").keys("4<right><right><right>s");
    let text = harness.text();
    assert!(text.split_whitespace().any(|word| word == "si▾"), "{text}");
    let first = text.lines().nth(5).expect("rows").trim_start_matches(['›', '!', ' ']).split(' ').next();
    assert_eq!(first, Some("32"), "the CPU with the most softirqs is not first");
    insta::assert_snapshot!("matrix-80x24", harness.keys("<tab>").text());
    let mut seed = 11u32;
    let mut harness = incident(80, 24).host("ipvs-busy").keys("4");
    let keys =
        ["<up>", "<down>", "<left>", "<right>", "v", "s", "R", "!", "G", "<home>", "<ret>", "4", "<bs>", "1", "2", "t"];
    for i in 0..300 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        harness = harness.keys(keys[(seed >> 8) as usize % keys.len()]);
        if i % 5 == 0 {
            harness.size = (1 + (seed >> 20) as u16 % 220, 1 + (seed >> 9) as u16 % 70);
            harness.app.resize(harness.size.0, harness.size.1);
            harness.settle();
        }
        harness.text();
    }
}

#[test]
fn the_selection_is_seen_without_colours() {
    use perfprof_tui::ui::theme::Depth;
    let buffer = incident(80, 24).host("ipvs-busy").keys("4!").buffer_in(Depth::NoColor);
    let reversed = buffer.content.iter().filter(|c| c.modifier.contains(ratatui::style::Modifier::REVERSED)).count();
    assert!(reversed >= 4, "{reversed} cells");
}

/// Counts, sums and maxima of a recording's softirqs and interrupts, compared with those computed from `perf script
/// --ns`.
#[test]
fn times_in_softirqs_are_what_perf_script_adds_up_to() {
    let mut source = recording::open(&[data("softirqs.data")]).expect("open");
    let options = SymbolOptions { same_kernel: false, ..SymbolOptions::live() };
    let loaded = offline::load(&mut *source, options, IntakeOptions::default()).expect("load");
    let times = loaded.ingest.core().softirq_times().expect("tracepoints");
    let ours: BTreeMap<(u32, String, u32), (u64, u64, u64)> = times
        .list
        .iter()
        .filter(|(_, time)| time.runs.n > 0)
        .map(|((cpu, what), time)| {
            let (kind, number) = match what {
                Handler::Softirq(v) => ("softirq", *v),
                Handler::Irq(line) => ("irq", *line),
            };
            ((*cpu, kind.to_owned(), number), (time.runs.n, time.runs.sum, time.runs.max))
        })
        .collect();
    let text = std::fs::read_to_string(data("softirqs.tsv")).expect("readable");
    let number = |word: Option<&str>| -> u64 { word.and_then(|w| w.parse().ok()).expect("number") };
    let theirs: BTreeMap<_, _> = text
        .lines()
        .map(|line| {
            let mut words = line.split('\t');
            let (cpu, kind) = (number(words.next()) as u32, words.next().expect("kind").to_owned());
            let vector = number(words.next()) as u32;
            let figures = (number(words.next()), number(words.next()), number(words.next()));
            ((cpu, kind, vector), figures)
        })
        .collect();
    assert_eq!(ours, theirs);
    assert!(times.list.values().any(|time| time.delays.n > 0), "raises are paired with runs");
    let name = times.devices.values().next().expect("a device");
    assert!(!name.is_empty());
    // Tracepoints are not a clock: their samples are not shares of time.
    assert_eq!(source.info().clock(), None);
}

/// While softirq time is measured, the vector with the most time is named, and only then.
#[test]
fn the_vector_that_takes_most_time_is_named_while_it_is_measured() {
    let mut pairs = Pairs::default();
    pairs.begin(0);
    for (second, (vector, ms)) in (0..20).flat_map(|second| [(second, (1, 40)), (second, (8, 400))]) {
        let seen = |which| SoftirqRecord { which, number: vector, name: None };
        let at = second * 1_000_000_000 + u64::from(vector) * 50_000_000;
        pairs.add(32, at, seen(SoftirqEvent::Entry));
        pairs.add(32, at + ms * 1_000_000, seen(SoftirqEvent::Exit));
    }
    let mut harness = incident(120, 30).host("ipvs-busy");
    let named = |harness: &Harness| harness.app.model.context.findings.first().and_then(|finding| finding.vector);
    assert_eq!(named(&harness), Some(1));
    harness.app.model.context.tracing = true;
    harness.app.set_times(Some(pairs.snapshot().into()));
    harness = harness.host("ipvs-busy");
    assert_eq!(named(&harness), Some(8));
    insta::assert_snapshot!("measured-vector", harness.text().lines().nth(2).unwrap_or_default());
    harness.app.model.context.tracing = false;
    assert_eq!(named(&harness.host("ipvs-busy")), Some(1));
}
