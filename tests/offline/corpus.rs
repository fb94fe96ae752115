//! A corpus of real recordings compared with perf's output for each: rows, folded stacks, script text, and the file
//! saved again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::transcript::Transcript;
use crate::common::{
    Rows, data, installed, our_figures, our_rows, perf_figures, perf_rows, program, run, skipped, symfs,
};

/// Recordings whose rows are grouped by tracepoint text: (comm, text).
const TRACED: &[&str] = &["tp-raw", "tp-read-filter", "uprobe-malloc"];

fn corpus() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(data("corpus"))
        .expect("corpus")
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".data").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 35, "{}", names.len());
    names
}

/// Recordings outside the corpus.
fn others() -> Vec<(String, PathBuf)> {
    let paths = std::fs::read_dir(data("")).expect("data").flatten().map(|entry| entry.path());
    let recordings = paths.filter(|path| path.extension().is_some_and(|extension| extension == "data"));
    recordings.map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path)).collect()
}

fn file(name: &str, extension: &str) -> PathBuf {
    data("corpus").join(format!("{name}.{extension}"))
}

fn names(command: &mut std::process::Command, root: &Path) {
    command.arg("--symfs").arg(root).arg("--kallsyms").arg(data("kallsyms"));
}

/// Our rows of a file.
fn report(path: &Path, traced: bool, root: &Path) -> Rows {
    let mut command = program();
    let keys = if traced { "comm,trace" } else { "comm,dso,sym" };
    command.arg("report").arg(path).args(["--format", "json", "--no-demangle", "--no-children", "-s", keys]);
    names(&mut command, root);
    // Addresses without symbols have one row each, as in perf.
    let output = run(command.arg("--no-bounds"));
    if !traced {
        return our_rows(&output.stdout);
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let mut rows = Rows::new();
    for row in report["events"].as_array().expect("events").iter().flat_map(|e| e["rows"].as_array().expect("rows")) {
        let text = |key: &str| row[key].as_str().expect("text").trim().to_owned();
        *rows.entry((text("comm"), String::new(), text("trace"))).or_default() += row["samples"].as_u64().expect("n");
    }
    rows
}

fn perf_said(name: &str) -> Option<Rows> {
    // perf rejects this file. It equals another one except for longer attrs.
    let path = if name == "synth-attr200" { data("fp-spin.tsv") } else { file(name, "tsv") };
    let text = std::fs::read_to_string(path).ok()?;
    if !TRACED.contains(&name) {
        return Some(perf_rows(&text));
    }
    let mut rows = Rows::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [_, samples, _, comm, trace] = fields[..] else { continue };
        *rows.entry((comm.to_owned(), String::new(), trace.to_owned())).or_default() +=
            samples.parse::<u64>().expect("n");
    }
    Some(rows)
}

/// Libraries of the recorded machine are not included, so their rows are compared by DSO only.
fn by_what_is_shipped(rows: Rows) -> Rows {
    let mut out = Rows::new();
    for ((comm, dso, sym), n) in rows {
        let system = (dso.split('.').any(|part| part == "so") && !dso.starts_with("libplug")) || dso == "[vdso]";
        *out.entry((comm, dso, if system { String::new() } else { sym })).or_default() += n;
    }
    out
}

/// The period of a group member's sample is the difference of its counter values.
#[test]
fn periods_of_groups_agree_with_perf() {
    let root = symfs();
    let mut compared = 0;
    for name in corpus().iter().filter(|name| name.starts_with("group-") || name.starts_with("read-")) {
        let mut command = program();
        command.arg("report").arg(file(name, "data")).args(["--format", "json", "--no-demangle", "--no-children"]);
        command.args(["-s", "comm,dso,sym"]);
        self::names(&mut command, root.path());
        let output = run(&mut command);
        let perf = std::fs::read_to_string(file(name, "tsv")).expect("tsv");
        let ours = by_what_is_shipped(our_figures(&output.stdout, "period"));
        assert_eq!(ours, by_what_is_shipped(perf_figures(&perf, 2)), "{name}");
        // By event, in the order in which perf prints them.
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let events = report["events"].as_array().expect("events").iter();
        let periods: Vec<u64> = events.map(|event| event["period"].as_u64().expect("a period")).collect();
        let counts = perf.lines().filter_map(|line| line.strip_prefix("# Event count (approx.): "));
        assert_eq!(periods, counts.map(|n| n.parse().expect("a count")).collect::<Vec<u64>>(), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 7);
}

/// A recording with half of the samples of such a group: perf takes the differences of the remaining samples.
#[test]
fn a_part_of_a_group_stands_for_what_it_did() {
    let dir = tempfile::tempdir().expect("dir");
    let part = dir.path().join("part.data");
    let periods = |file: &Path, filter: &str| -> Vec<u64> {
        let mut command = program();
        let output = run(command.arg("report").arg(file).args(["--format", "json", "--where", filter]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["events"].as_array().expect("events").iter().map(|e| e["period"].as_u64().expect("period")).collect()
    };
    let whole = file("group-read", "data");
    let mut copy = program();
    run(copy.arg("export").arg(&whole).args(["--to", "perfdata", "--where", "kernel", "-o"]).arg(&part));
    let kernel = periods(&whole, "kernel");
    assert!(kernel.iter().zip(periods(&whole, "kernel || user")).all(|(kernel, all)| *kernel < all), "{kernel:?}");
    assert_eq!(periods(&part, "kernel || user"), kernel);
    if let Ok(said) =
        std::process::Command::new("perf").arg("report").arg("-i").arg(&part).args(["--stdio", "--no-group"]).output()
    {
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let counts = said.lines().filter_map(|line| line.strip_prefix("# Event count (approx.): "));
        assert_eq!(counts.map(|n| n.parse().expect("a count")).collect::<Vec<u64>>(), kernel, "{said}");
    } else {
        skipped("perf is not installed");
    }
}

/// The kernel reports losses twice: in LOST records and in the events' counters.
#[test]
fn losses_are_of_their_events_and_counted_once() {
    let output = run(program().arg("report").arg(file("lost-twice", "data")).args(["--format", "json"]));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let events = report["events"].as_array().expect("events").iter();
    let lost: Vec<(&str, u64)> =
        events.map(|e| (e["name"].as_str().expect("a name"), e["lost"].as_u64().expect("a number"))).collect();
    assert_eq!(lost, [("cpu-clock", 461), ("sched:sched_switch", 6)]);
}

/// perf's columns of tracepoints are only a default; explicit columns override them.
#[test]
fn columns_that_were_typed_are_the_columns() {
    for (typed, column) in [(None, "trace"), (Some("comm,dso,sym"), "sym"), (Some("cpu"), "cpu")] {
        let mut command = program();
        command.arg("report").arg(file("tp-raw", "data")).args(["--format", "json"]);
        if let Some(keys) = typed {
            command.args(["-s", keys]);
        }
        let report: serde_json::Value = serde_json::from_slice(&run(&mut command).stdout).expect("JSON");
        let row = &report["events"][0]["rows"][0];
        let columns = ["trace", "sym", "cpu"].map(|name| !row[name].is_null());
        assert_eq!(columns, ["trace", "sym", "cpu"].map(|name| name == column), "{typed:?}: {row}");
    }
}

/// Derived samples such as off-CPU time are not written: a filter on them keeps the records that they derive from.
#[test]
fn a_part_of_a_recording_of_switches_has_what_was_asked_for() {
    let dir = tempfile::tempdir().expect("dir");
    let part = dir.path().join("part.data");
    let samples = |file: &Path, filter: &str| -> BTreeMap<String, u64> {
        let output = run(program().arg("report").arg(file).args(["--format", "json", "--where", filter]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let events = report["events"].as_array().expect("events").iter();
        let count = |e: &serde_json::Value| (e["name"].as_str().expect("a name").to_owned(), e["samples"].as_u64());
        let recorded = events.map(count).filter(|(name, _)| name != "off-cpu");
        recorded.map(|(name, n)| (name, n.expect("a number"))).collect()
    };
    let whole = data("switches.data");
    let all = samples(&whole, "cpu >= 0");
    for filter in ["cpu == 0", "cpu == 1"] {
        run(program().arg("export").arg(&whole).args(["--to", "perfdata", "--where", filter, "-o"]).arg(&part));
        let wanted = samples(&whole, filter);
        assert!(wanted.values().sum::<u64>() > 0 && wanted.values().sum::<u64>() < all.values().sum(), "{filter}");
        assert_eq!(samples(&part, "cpu >= 0"), wanted, "{filter}");
    }
}

/// Errors in options are reported before the recording is opened.
#[test]
fn a_mistake_in_options_is_the_first_thing_said() {
    let mut transcript = Transcript::new();
    for (command, options) in [
        ("report", &["--time", "50%-20%"][..]),
        ("script", &["--time", "2,1"]),
        ("report", &["--time", "soon"]),
        ("report", &["--pid", "x"]),
        ("annotate", &["main", "--where", "comm =="]),
    ] {
        let output = transcript.add(program().args([command, "/nonexistent"]).args(options));
        assert_eq!(output.status.code(), Some(2), "{command} {options:?}");
    }
    // A missing file has another exit code.
    assert_eq!(transcript.add(program().args(["report", "/nonexistent"])).status.code(), Some(1));
    let output = transcript.add(program().arg("script").arg(file("flat-99", "data")).args(["-C", "0"]));
    assert!(!output.status.success());
    insta::assert_snapshot!("wrong-options", transcript.text());
}

#[test]
fn rows_agree_with_perf() {
    let root = symfs();
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in corpus() {
        let Some(perf) = perf_said(&name) else { continue };
        let ours = report(&file(&name, "data"), TRACED.contains(&&*name), root.path());
        assert_eq!(ours.values().sum::<u64>(), perf.values().sum::<u64>(), "total of {name}");
        if by_what_is_shipped(ours) != by_what_is_shipped(perf) {
            wrong.push(name);
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(compared >= 30, "{compared}");
}

/// A line of folded stacks, with a mark where the kernel's limit of 127 frames removed the outer callers.
fn marked_where_cut(line: &str) -> String {
    let frames = line.split(';').count() - 1;
    match line.split_once(';') {
        Some((comm, stack)) if frames == 127 => format!("{comm};[truncated];{stack}"),
        _ => line.to_owned(),
    }
}

/// Equal line by line.
///
/// Other recordings of the corpus have stacks with system libraries.
#[test]
fn folded_stacks_are_stackcollapses() {
    let root = symfs();
    for name in [
        "fp-deep",
        "fp-nofp",
        "fp-spin",
        "inject-b",
        "inline",
        "nopie",
        "overwrite",
        "pid-attach",
        "pipe",
        "stripped",
        "all-user",
    ] {
        let input = if name == "fp-spin" { data("fp-spin.data") } else { file(name, "data") };
        let mut command = program();
        command.arg("export").arg(input).args(["--to", "folded", "-o", "-", "--no-bounds"]);
        if name == "all-user" {
            // stackcollapse selects the event of the first sample.
            command.args(["--event", "page-faults"]);
        }
        names(&mut command, root.path());
        let ours = String::from_utf8(run(&mut command).stdout).expect("utf8");
        let theirs = std::fs::read_to_string(file(name, "folded")).expect("folded");
        // A stack with an unknown caller is broken in our output. The registers show how the kernel was entered.
        let broken = |line: &str| match line.rsplit_once(";[unknown];") {
            Some((behind, stack)) if !stack.starts_with("entry_") => {
                format!("{};[broken];{stack}\n", behind.split(';').next().unwrap_or_default())
            }
            _ => format!("{line}\n"),
        };
        let theirs: String = theirs.lines().map(broken).map(|line| marked_where_cut(&line)).collect();
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&ours), sorted(&theirs), "{name}");
    }
}

/// Equal line by line, or listed with a reason.
#[test]
fn script_text_is_perfs() {
    const DIFFERENT: [(&str, &str); 9] = [
        ("jitmap", "perf reads perf maps from /tmp only, also with --symfs"),
        ("p612-fp", "perf 6.1 refuses attributes of a later version's size"),
        ("p73-fp", "perf 6.1 refuses attributes of a later version's size"),
        ("p73-latency", "perf 6.1 refuses attributes of a later version's size"),
        ("synth-attr200", "perf 6.1 refuses attributes of a later version's size"),
        ("stat-record", "counts, which perf prints as a table"),
        ("burst", "its kernel map ends before its last functions, so perf finds no DSO for them"),
        ("comm-hostile", "perf prints a comm's control characters"),
        ("switches", "perf stops at its switch records"),
    ];
    needs!(installed("perf"));
    let root = symfs();
    let mut compared = 0;
    for (name, path) in corpus().iter().map(|name| (name.clone(), file(name, "data"))).chain(others()) {
        if DIFFERENT.iter().any(|(other, _)| *other == name) {
            continue;
        }
        let mut ours = program();
        ours.arg("script").arg(&path).arg("--ns");
        names(&mut ours, root.path());
        let mut perf = std::process::Command::new("perf");
        perf.args(["script", "-f", "--ns", "--no-inline", "-i"]).arg(&path);
        names(&mut perf, root.path());
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (ours, theirs) = (text(run(&mut ours).stdout), text(perf.output().expect("perf").stdout));
        for (i, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(a, b, "{name}, line {}", i + 1);
        }
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{name}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

/// perf's script text opens as the same profile as the recording.
#[test]
fn perfs_text_opens_as_the_recording_does() {
    let root = symfs();
    for name in ["fields-cpu", "flat-99", "pipe", "overwrite"] {
        let text = by_what_is_shipped(report(&file(name, "script.txt"), false, root.path()));
        let recording = by_what_is_shipped(report(&file(name, "data"), false, root.path()));
        let sums = |rows: &Rows| {
            let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
            for ((comm, dso, _), n) in rows {
                *sums.entry((comm.clone(), dso.clone())).or_default() += n;
            }
            sums
        };
        assert_eq!(sums(&text), sums(&recording), "{name}");
        let known = |rows: Rows| rows.into_iter().filter(|((_, _, sym), _)| !sym.starts_with("0x")).collect::<Rows>();
        assert_eq!(known(text), known(recording), "{name}");
    }
}

/// So does our own script text.
#[test]
fn our_text_opens_as_the_recording_does() {
    let root = symfs();
    let dir = tempfile::tempdir().expect("dir");
    for name in ["fp-spin", "threads12", "multi3"] {
        let mut command = program();
        command.arg("script").arg(data(&format!("{name}.data"))).args(["--ns", "--no-demangle"]);
        names(&mut command, root.path());
        let path = dir.path().join("text");
        std::fs::write(&path, run(&mut command).stdout).expect("write");
        let known = |rows: Rows| rows.into_iter().filter(|((_, _, sym), _)| !sym.starts_with("0x")).collect::<Rows>();
        let original = known(report(&data(&format!("{name}.data")), false, root.path()));
        assert!(!original.is_empty());
        assert_eq!(known(report(&path, false, root.path())), original, "{name}");
    }
}

fn perf_report(path: &Path, root: &Path) -> Option<String> {
    let output = std::process::Command::new("perf")
        .args([
            "--buildid-dir",
            "/nonexistent",
            "report",
            "--stdio",
            "--no-inline",
            "--no-group",
            "-n",
            "--percent-limit",
            "0",
        ])
        .args(["--no-children", "-g", "none", "-s", "comm,dso,sym", "-t", "\t", "--no-demangle", "-i"])
        .arg(path)
        .arg("--symfs")
        .arg(root)
        .arg("--kallsyms")
        .arg(data("kallsyms"))
        .output()
        .expect("runs");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Each file that we save again has the same counts in perf and the same rows in our report.
#[test]
fn saved_again_nothing_changes() {
    let root = symfs();
    let dir = tempfile::tempdir().expect("dir");
    let oracle = installed("perf");
    let mut seen_by_perf = 0;
    for name in corpus() {
        let traced = TRACED.contains(&&*name);
        let copy = dir.path().join(format!("{name}.data"));
        run(program().arg("export").arg(file(&name, "data")).args(["--to", "perfdata", "-o"]).arg(&copy));
        let (before, after) = (report(&file(&name, "data"), traced, root.path()), report(&copy, traced, root.path()));
        assert_eq!(before, after, "{name}");
        if !oracle || traced {
            continue;
        }
        let again = perf_report(&copy, root.path()).unwrap_or_else(|| panic!("perf refuses our {name}"));
        match perf_report(&file(&name, "data"), root.path()) {
            Some(first) if perf_rows(&first).values().sum::<u64>() > 0 => {
                assert_eq!(perf_rows(&again), perf_rows(&first), "{name}");
                seen_by_perf += 1;
            }
            // This perf rejects the original, but reads our copy.
            _ => assert_eq!(perf_rows(&again).values().sum::<u64>(), before.values().sum::<u64>(), "{name}"),
        }
    }
    assert!(!oracle || seen_by_perf >= 20, "{seen_by_perf}");
}
