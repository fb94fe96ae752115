//! The CPUs and their softirqs: screens of the founding incident, and figures against what others say
//! of the same recording or the same moment.

mod common;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::harness::Harness;
use common::{allowed, data, program, run, skipped};
use perfprof_tui::analysis::softirq::{Pairs, Seen, What, Which};
use perfprof_tui::engine::Wants;
use perfprof_tui::engine::offline;
use perfprof_tui::source::recording;
use perfprof_tui::symbols::resolver::Options;

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

/// Columns in which nothing was to be seen give way, and the cursor is on the CPU that stands out.
#[test]
fn what_is_active_is_shown_from_the_start() {
    let text = incident(120, 40).host("ipvs-busy").keys("4").text();
    let head = text.lines().find(|line| line.contains("usr")).expect("a heading");
    assert!(head.contains("TIMER") && !head.contains("gst") && !head.contains('›'), "{head}");
    assert!(text.lines().any(|line| line.starts_with("›!  32 ")), "{text}");
}

#[test]
fn what_a_recording_tells() {
    insta::assert_snapshot!(incident(80, 24).keys("4").text());
    assert!(incident(80, 24).keys("4t").text().contains("not in this recording: irq:softirq_entry"));
}

/// From the start: `!` to the CPU that stands out, Enter to its functions.
#[test]
fn two_keys_lead_to_the_guilty_function() {
    let start = incident(120, 30).host("ipvs-busy");
    assert!(start.text().contains("CPU 32 softirq 43 %, peers 0 %; TIMER (estimation_timer)"), "{}", start.text());
    let harness = start.keys("!");
    let text = harness.text();
    assert!(text.contains("TIMER on CPU 32: 43.0 % of its samples, top: estimation_timer 43.0 %"), "{text}");
    let harness = harness.keys("<ret>");
    let text = harness.text();
    assert!(text.contains("all › CPU 32 TIMER"), "{text}");
    assert_eq!(harness.app.answer.total.samples, 3856);
    let here = harness.app.line().expect("a row");
    assert_eq!((&*here.sym, here.depth), ("estimation_timer", 0));
    // The graph shows just that, too, and one key goes back.
    assert!(harness.keys("2").text().contains("CPU 32 TIMER"));
    assert!(!incident(120, 30).host("ipvs-busy").keys("!<ret><bs>").text().contains("CPU 32 TIMER"));
}

#[test]
fn order_columns_and_every_key_on_it() {
    let harness = incident(80, 24).host("ipvs-busy").keys("4<right><right><right><right>s");
    assert!(harness.text().contains("si▾"), "{}", harness.text());
    let row = harness.text().lines().nth(5).expect("rows").to_owned();
    assert!(row.contains(" 32 "), "the most softirqs come first: {row}");
    assert!(harness.keys("<tab>").text().contains("matrix: softirqs a second"));
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
    let buffer = incident(80, 24).host("ipvs-busy").keys("4!").buffer_in(Depth::None);
    let reversed = buffer.content.iter().filter(|c| c.modifier.contains(ratatui::style::Modifier::REVERSED)).count();
    assert!(reversed >= 4, "{reversed} cells");
}

/// Counts, sums and maxima of a recording's softirqs and interrupts, against those computed from what
/// `perf script --ns` prints of it.
#[test]
fn times_in_softirqs_are_what_perf_script_adds_up_to() {
    let mut source = recording::open(&[data("softirqs.data")]).expect("open");
    let options = Options { same_kernel: false, ..Options::live() };
    let loaded = offline::load(&mut *source, options, Wants::default()).expect("load");
    let times = loaded.ingest.core().derived().times().expect("tracepoints");
    let ours: BTreeMap<(u32, String, u32), (u64, u64, u64)> = times
        .list
        .iter()
        .filter(|(_, time)| time.runs.n > 0)
        .map(|((cpu, what), time)| {
            let (kind, number) = match what {
                What::Softirq(v) => ("softirq", *v),
                What::Irq(line) => ("irq", *line),
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
    // Tracepoints are no clock: their samples are no shares of time.
    assert_eq!(source.info().clock(), None);
}

fn json(args: &[&str]) -> Vec<serde_json::Value> {
    let out = run(program().arg("cpus").args(["--format", "json"]).args(args));
    let text = String::from_utf8(out.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Our figures and those of mpstat over the same seconds. Each begins when it gets a CPU and reads /proc/stat at moments
/// of its own, so where the load changes they may differ once, by the seconds that only one of them saw, but not always.
#[test]
fn shares_are_those_of_mpstat() {
    if Command::new("mpstat").arg("-V").output().is_err() {
        return skipped("shares_are_those_of_mpstat", "mpstat is not installed");
    }
    let differ: Vec<String> = (0..5).map_while(|_| beside_mpstat().err()).collect();
    assert!(differ.len() < 5, "{differ:?}");
}

/// How they differ in three seconds, where they do.
fn beside_mpstat() -> Result<(), String> {
    let mpstat = Command::new("mpstat").args(["-P", "ALL", "-o", "JSON", "1", "3"]).stdout(Stdio::piped()).spawn();
    let mpstat = mpstat.expect("mpstat");
    let ours = json(&["-n", "3"]);
    let out = mpstat.wait_with_output().expect("mpstat");
    let theirs: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let intervals = theirs["sysstat"]["hosts"][0]["statistics"].as_array().expect("intervals");
    assert_eq!(ours.len(), 3);
    let mean = |list: &[&serde_json::Value], name: &str| {
        list.iter().map(|v| v[name].as_f64().expect("number")).sum::<f64>() / list.len() as f64
    };
    let of_cpu = |list: Vec<&serde_json::Value>, key: &str| -> Vec<serde_json::Value> {
        list.into_iter().map(|v| v[key].clone()).collect()
    };
    let one = of_cpu(ours.iter().collect(), "cpus");
    let two = of_cpu(intervals.iter().collect(), "cpu-load");
    for (at, row) in one[0].as_array().expect("CPUs").iter().enumerate() {
        let cpu = row["cpu"].as_u64().expect("number").to_string();
        let mine: Vec<_> = one.iter().map(|list| &list[at]).collect();
        let other: Vec<_> = two
            .iter()
            .map(|list| list.as_array().expect("CPUs").iter().find(|v| v["cpu"] == *cpu).expect("the same CPU"))
            .collect();
        for (ours, theirs) in
            [("user", "usr"), ("system", "sys"), ("softirq", "soft"), ("steal", "steal"), ("idle", "idle")]
        {
            let (a, b) = (mean(&mine, ours), mean(&other, theirs));
            if (a - b).abs() >= 15.0 {
                return Err(format!("CPU {cpu} {ours}: {a} and {b}"));
            }
        }
    }
    Ok(())
}

#[test]
fn the_time_in_softirqs_is_measured_live() {
    if !allowed("the_time_in_softirqs_is_measured_live") {
        return;
    }
    let lines = json(&["-n", "3", "--softirq-time"]);
    let last = &lines[2]["cpus"];
    let timer = |cpu: &serde_json::Value| cpu["time_timer"].as_f64().unwrap_or(-1.0);
    for cpu in last.as_array().expect("CPUs") {
        assert!((0.0..100.0).contains(&timer(cpu)), "{cpu}");
    }
    let sum: f64 =
        last.as_array().expect("CPUs").iter().map(|c| timer(c) + c["time_sched"].as_f64().unwrap_or(0.0)).sum();
    assert!(sum > 0.0, "no softirq in three seconds: {last}");
}

/// While the time in softirqs is measured, the vector that takes most of it is named, and no longer than that.
#[test]
fn the_vector_that_takes_most_time_is_named_while_it_is_measured() {
    let mut pairs = Pairs::default();
    pairs.begin(0);
    for (second, (vector, ms)) in (0..20).flat_map(|second| [(second, (1, 40)), (second, (8, 400))]) {
        let seen = |which| Seen { which, number: vector, name: None };
        let at = second * 1_000_000_000 + u64::from(vector) * 50_000_000;
        pairs.add(32, at, seen(Which::Entry));
        pairs.add(32, at + ms * 1_000_000, seen(Which::Exit));
    }
    let mut harness = incident(120, 30).host("ipvs-busy");
    let named = |harness: &Harness| harness.app.findings.first().and_then(|finding| finding.vector);
    assert_eq!(named(&harness), Some(1));
    harness.app.tracing = true;
    harness.app.set_times(Some(pairs.snapshot().into()));
    harness = harness.host("ipvs-busy");
    assert_eq!(named(&harness), Some(8));
    assert!(harness.text().contains("peers 0 %; HRTIMER"), "{}", harness.text());
    harness.app.tracing = false;
    assert_eq!(named(&harness.host("ipvs-busy")), Some(1));
}

/// Packets that one CPU sends to itself: text and JSON name vector and function, and no keys.
#[test]
fn a_softirq_is_named_where_there_is_no_screen() {
    const NAME: &str = "a_softirq_is_named_where_there_is_no_screen";
    if !allowed(NAME) {
        return;
    }
    let cpu = *perfprof_tui::kernel::cpus::online().expect("CPUs").last().expect("a CPU");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut own = rustix::thread::CpuSet::new();
            own.set(cpu as usize);
            rustix::thread::sched_setaffinity(None, &own).expect("pinned");
            let (from, to) = ["127.0.0.1:0"; 2].map(|at| UdpSocket::bind(at).expect("a socket")).into();
            from.connect(to.local_addr().expect("an address")).expect("connected");
            // It ends by itself where what looks at it fails.
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !stop.load(Ordering::Relaxed) && std::time::Instant::now() < end {
                let _ = from.send(&[0; 1000]);
            }
        });
        let is_it = |finding: &&serde_json::Value| {
            finding["cpu"] == cpu && finding["vector"] == "NET_RX" && finding["function"].is_string()
        };
        let found = || {
            let lines = json(&["-n", "5", "--threshold", "1"]);
            lines.iter().flat_map(|line| line["findings"].as_array().expect("findings")).find(is_it).cloned()
        };
        let told = || {
            let out = run(program().args(["cpus", "-n", "5", "--threshold", "1", "--softirq-time"]));
            let text = String::from_utf8(out.stdout).expect("text");
            let head = format!("! CPU {cpu} softirq");
            text.lines().find(|line| line.starts_with(&head) && line.contains("; NET_RX (")).map(str::to_owned)
        };
        let (found, told) = ((0..5).find_map(|_| found()), (0..5).find_map(|_| told()));
        stop.store(true, Ordering::Relaxed);
        let found = found.expect("a finding");
        let words = format!("NET_RX ({})", found["function"].as_str().expect("a name"));
        assert!(found["text"].as_str().is_some_and(|text| text.contains(&words)), "{found}");
        assert!(!found["advice"].as_str().is_some_and(|advice| advice.contains("Enter")), "{found}");
        assert!(told.is_some_and(|line| !line.contains("--softirq-time") && !line.contains("Enter")));
    });
}

#[test]
fn formats_and_faults_of_the_command() {
    let out = run(program().args(["cpus", "-i", "0.2", "-n", "2", "--format", "csv", "-C", "0"]));
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(text.starts_with("time,cpu,user,nice,system,"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    for args in [
        &["-C", "60000"][..],
        &["-C", "x"],
        &["-i", "0"],
        &["-i", "nan"],
        &["--threshold", "0"],
        &["--threshold", "nan"],
    ] {
        let out = program().arg("cpus").args(args).output().expect("runs");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(!out.stderr.is_empty());
    }
}
