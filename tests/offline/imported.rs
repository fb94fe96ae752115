//! Profiles of other tools, compared with what those tools print for the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use perfprof_tui::query::ColumnKey;
use perfprof_tui::query::rows::top_table::TopField;
use perfprof_tui::source::imported::messages::{Function, Line, Location, Mapping, Profile, Sample, ValueType};
use perfprof_tui::ui::Start;
use prost::Message;

use crate::common::harness::Harness;
use crate::common::store::decoded;
use crate::common::{copy_program, data, is_root, program, run};

fn imported(name: &str) -> PathBuf {
    data("imported").join(name)
}

/// Periods by function of one event, with those of all samples under the empty name.
fn periods(file: &str, event: &str, args: &[&str]) -> BTreeMap<String, u64> {
    let mut command = program();
    command.arg("report").arg(imported(file)).args([
        "--event",
        event,
        "--format",
        "json",
        "-s",
        "sym",
        "--no-children",
    ]);
    let output = run(command.args(args));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let event = &report["events"][0];
    let period = |of: &serde_json::Value| of["period"].as_u64().expect("a period");
    let rows = event["rows"].as_array().expect("rows").iter();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        *found.entry(row["sym"].as_str().expect("a name").to_owned()).or_default() += period(row);
    }
    found.retain(|_, period| *period > 0);
    found.insert(String::new(), found.values().sum());
    found
}

/// The flat values of `go tool pprof -top -nodecount=20 -nodefraction=0`, and the total under the empty name.
fn flat(file: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(imported(file)).expect("read");
    let number = |word: &str| word.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["Showing", "nodes", "accounting", "for", .., total, "total"] = words[..] {
            found.insert(String::new(), number(total).expect("a total"));
        }
        let [flat, percent, _, _, _, name, ..] = words[..] else { continue };
        if let Some(flat) = number(flat).filter(|flat| *flat > 0 && percent.ends_with('%')) {
            found.insert(name.to_owned(), flat);
        }
    }
    found
}

#[test]
fn go_profiles_have_the_rows_of_go_tool_pprof() {
    for (file, event) in [
        ("go-cpu", "cpu"),
        ("go-heap", "inuse_space"),
        ("go-heap", "alloc_space"),
        ("go-heap", "alloc_objects"),
        ("go-mutex", "delay"),
        ("go-mutex", "contentions"),
        ("go-block", "delay"),
    ] {
        let theirs = flat(&format!("{file}.{event}.top.txt"));
        assert!(theirs.len() > 1, "{file} {event}");
        assert_eq!(periods(&format!("{file}.pprof"), event, &[]), theirs, "{file} {event}");
    }
}

#[test]
fn labels_filter_samples() {
    let of = |args: &[&str]| periods("go-cpu.pprof", "cpu", args)[""];
    let (all, one, other) = (of(&[]), of(&["--where", "http_path == \"/a\""]), of(&["--where", "http_path != \"/a\""]));
    assert!(one > 0 && other > 0 && one + other == all, "{one} {other} {all}");
    let mut command = program();
    command.arg("report").arg(imported("go-cpu.pprof")).args(["-s", "cpu.http_path", "--format", "csv"]);
    let text = String::from_utf8(run(&mut command).stdout).expect("utf8");
    assert!(text.lines().any(|line| line.split(',').any(|cell| cell == "/b")), "{text}");
}

/// Filters of the screen know labels, both when they are typed and at the start.
#[test]
fn labels_filter_samples_on_the_screen() {
    let file = imported("go-cpu.pprof");
    let open = || Harness::open(file.to_str().expect("utf-8"), "kallsyms", 100, 14);
    let typed = open().keys("fhttp_path == \"/a\"<ret>");
    let started = open().restart(Start { filter: Some("http_path == \"/a\"".to_owned()), ..Start::default() });
    let rows = |screen: &Harness| screen.text().lines().skip(4).take(6).map(str::to_owned).collect::<Vec<_>>();
    for screen in [&typed, &started] {
        assert!(screen.filter().is_some_and(|filter| filter.contains("http_path")), "{}", screen.text());
        assert_eq!(rows(screen), rows(&started));
        assert_ne!(rows(screen), rows(&open()));
    }
    // Rows by a label, of the event that is shown.
    let labels = open().keys("<tab>").text();
    assert!(labels.contains("http_path") && labels.contains(" /a") && labels.contains(" /b"), "{labels}");
}

/// An exported profile has the labels of the imported one with their keys, and no numbers that are unknown.
#[test]
fn labels_survive_an_export() {
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("out.pb.gz");
    run(program().arg("export").arg(imported("go-cpu.pprof")).args(["--to", "pprof", "-o"]).arg(&out));
    let table = |file: &Path| {
        let report =
            run(program().arg("report").arg(file).args(["-e", "cpu", "-s", "cpu.http_path", "--format", "csv"]));
        String::from_utf8(report.stdout).expect("UTF-8")
    };
    assert_eq!(table(&out), table(&imported("go-cpu.pprof")));
    let profile = decoded(&std::fs::read(&out).expect("written"));
    let keys: BTreeSet<&str> = profile
        .sample
        .iter()
        .flat_map(|sample| &sample.label)
        .map(|label| profile.strings[label.key as usize].as_str())
        .collect();
    assert!(keys.contains("http.path") && !keys.contains("pid") && !keys.contains("tid"), "{keys:?}");
    for to in ["speedscope", "firefox"] {
        let text = run(program().arg("export").arg(imported("go-cpu.pprof")).args(["-o", "-", "--to", to])).stdout;
        assert!(!String::from_utf8_lossy(&text).contains(" -1"), "{to}");
    }
}

/// Threads without numbers are as many as they have names.
#[test]
fn threads_without_numbers_stay_apart_in_exports() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("two.json");
    let of = |name: &str, weight: u64| {
        format!(
            r#"{{"type":"sampled","name":"{name}","unit":"bytes","startValue":0,"endValue":9,"samples":[[0]],"weights":[{weight}]}}"#
        )
    };
    let profiles = [of("one", 7), of("two", 3)].join(",");
    let text = format!(r#"{{"shared":{{"frames":[{{"name":"main"}}]}},"profiles":[{profiles}]}}"#);
    std::fs::write(&file, text).expect("written");
    let exported = |to: &str| -> serde_json::Value {
        let text = run(program().arg("export").arg(&file).args(["-o", "-", "--to", to])).stdout;
        serde_json::from_slice(&text).expect("JSON")
    };
    let list = |of: &serde_json::Value, weights: &dyn Fn(&serde_json::Value) -> serde_json::Value| {
        let one = |of: &serde_json::Value| (of["name"].as_str().expect("a name").to_owned(), weights(of)[0].as_u64());
        let mut all: Vec<(String, Option<u64>)> = of.as_array().expect("a list").iter().map(one).collect();
        all.sort();
        all
    };
    let want = [("one".to_owned(), Some(7)), ("two".to_owned(), Some(3))];
    assert_eq!(list(&exported("firefox")["threads"], &|of| of["samples"]["weight"].clone()), want);
    assert_eq!(list(&exported("speedscope")["profiles"], &|of| of["weights"].clone()), want);
}

/// Our reader of V8's files against sums computed from the JSON alone.
#[test]
fn node_profiles_have_their_sums() {
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(imported(name)).expect("read")).expect("json")
    };
    let heap = json("node.heapprofile");
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut open = vec![&heap["head"]];
    while let Some(node) = open.pop() {
        let call = &node["callFrame"];
        let name = match call["functionName"].as_str().expect("a name") {
            "" => {
                let file = call["url"].as_str().expect("a file").rsplit('/').next().expect("a name");
                format!("(anonymous {file}:{})", call["lineNumber"].as_i64().expect("a line") + 1)
            }
            name => name.to_owned(),
        };
        let size = node["selfSize"].as_u64().expect("a size");
        if size > 0 {
            *sums.entry(name).or_default() += size;
            *sums.entry(String::new()).or_default() += size;
        }
        open.extend(node["children"].as_array().expect("children"));
    }
    assert_eq!(periods("node.heapprofile", "size", &[]), sums);
    let cpu = json("node.cpuprofile");
    let numbers = |name: &str| -> Vec<u64> {
        cpu[name].as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).collect()
    };
    let (samples, deltas) = (numbers("samples"), numbers("timeDeltas"));
    let rest =
        cpu["endTime"].as_u64().expect("end") - cpu["startTime"].as_u64().expect("start") - deltas.iter().sum::<u64>();
    let spans = deltas[1..].iter().chain([&rest]);
    // Samples of the root are outside all functions.
    let inside: u64 = samples.iter().zip(spans).filter(|(node, _)| **node != 1).map(|(_, span)| span).sum();
    let ours = periods("node.cpuprofile", "cpu", &[]);
    assert_eq!(ours[""], inside * 1000);
    assert!(ours["fib"] > ours[""] / 4, "{ours:?}");
}

/// Our exports are read again with the same figures.
#[test]
fn exports_are_read_again() {
    let folded = |file: &Path, event: &str| {
        let mut command = program();
        command.arg("export").arg(file).args(["--event", event, "--to", "folded", "-o", "-"]);
        let text = String::from_utf8(run(&mut command).stdout).expect("utf8");
        let mut lines: Vec<String> =
            text.lines().map(|line| line.split_once(';').map_or(line, |(_, rest)| rest).to_owned()).collect();
        lines.sort();
        lines
    };
    let dir = tempfile::tempdir().expect("dir");
    let first = imported("go-heap.pprof");
    for (to, event) in [("pprof", "alloc_space"), ("speedscope", "bytes"), ("firefox", "bytes")] {
        let path = dir.path().join(to);
        let mut command = program();
        run(command.arg("export").arg(&first).args(["--event", "alloc_space", "--to", to, "-o"]).arg(&path));
        assert_eq!(folded(&path, event), folded(&first, "alloc_space"), "{to}");
    }
}

/// The number of samples of a sum, its duration and its fractions were lost on the way to pprof and Firefox.
#[test]
fn exports_have_the_figures_of_sums() {
    let dir = tempfile::tempdir().expect("dir");
    let export = |from: &Path, event: &str, to: &str| {
        let path = dir.path().join(format!("{event}.{to}"));
        run(program().arg("export").arg(from).args(["--event", event, "--to", to, "-o"]).arg(&path));
        path
    };
    // Samples, period and unit of each event.
    let events = |file: &Path| -> Vec<(String, u64, u64, String)> {
        let output = run(program().arg("report").arg(file).args(["--format", "json"]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        let one = |of: &serde_json::Value| {
            (text(&of["name"]), number(&of["samples"]), number(&of["period"]), text(&of["unit"]))
        };
        report["events"].as_array().expect("events").iter().map(one).collect()
    };
    let event = |name: &str, samples: u64, period: u64, unit: &str| (name.to_owned(), samples, period, unit.to_owned());
    let cpu = cpu_profile(&dir.path().join("cpu"), [30, 10]);
    let both = [event("cpu", 40, 400_000_000, "nanoseconds"), event("samples", 40, 40, "count")];
    assert_eq!(events(&export(&cpu, "cpu", "pprof")), both);
    assert_eq!(events(&export(&cpu, "cpu", "firefox")), [event("samples", 40, 40, "count")]);
    let objects = |to| events(&export(&imported("go-heap.pprof"), "alloc_objects", to))[0].2;
    assert_eq!((objects("pprof"), objects("firefox")), (307, 307));
    let delay = events(&export(&imported("go-mutex.pprof"), "delay", "firefox"));
    assert_eq!((delay[0].2, &*delay[0].3), (65_352_829, "nanoseconds"));
    let seconds = |file: &Path| {
        let mut command = program();
        let output = run(command.arg("diff").args([file, file]).args(["--per", "second", "--format", "json"]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        report["new"]["seconds"].as_f64()
    };
    let go = imported("go-cpu.pprof");
    assert_eq!(seconds(&export(&go, "cpu", "pprof")), seconds(&go));
    let fractions = dir.path().join("fractions");
    std::fs::write(&fractions, "a;b 0.004\na;c 0.006\n").expect("written");
    let again = events(&export(&fractions, "samples", "pprof"));
    assert!(again.contains(&event("samples#2", 2, 10, "count/1000")), "{again:?}");
}

/// Profiles without times refuse a range of time instead of ignoring it.
#[test]
fn a_profile_without_times_has_no_ranges() {
    for file in [imported("go-heap.pprof"), imported("node.heapprofile"), data("corpus/fp-spin.folded")] {
        let output = program().arg("report").arg(&file).args(["--time", "10%-20%"]).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("--time"), "{said}"); // words: ok
    }
}

/// Functions of texts and other tools' profiles have names, but no distances from their starts.
#[test]
fn functions_without_lines_have_no_offsets() {
    for (file, function) in [
        (imported("go-cpu.pprof"), "main.inner"),
        (imported("node.cpuprofile"), "fib"),
        (data("corpus/fp-spin.folded"), "burn_alpha"),
    ] {
        let mut command = program();
        let output = run(command.arg("report").arg(&file).args(["-s", "srcline", "--no-children", "--format", "json"]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        let rows = report["events"][0]["rows"].as_array().expect("rows");
        let places: Vec<&str> = rows.iter().map(|row| row["srcline"].as_str().expect("a place")).collect();
        assert!(places.contains(&function) && !places.iter().any(|place| place.contains('+')), "{places:?}");
    }
}

/// Samples of an event by thread and stack, from `jfr print` of this recording.
fn printed(event: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(imported("load.jfr.print.txt")).expect("read");
    let mut found = BTreeMap::new();
    for sample in text.split("\n}").filter(|sample| sample.trim_start().starts_with(event)) {
        let thread = sample.split('"').nth(1).expect("a thread");
        let stack = sample.split_once("stackTrace = [").expect("a stack").1;
        let mut frames: Vec<&str> = stack.lines().filter_map(|line| Some(line.trim().split_once('(')?.0)).collect();
        frames.reverse();
        *found.entry([&[thread][..], &frames[..]].concat().join(";")).or_default() += 1;
    }
    found
}

#[test]
fn recordings_of_java_have_the_samples_of_jfr_print() {
    let mut samples = 0;
    for event in ["jdk.ExecutionSample", "jdk.NativeMethodSample"] {
        let mut command = program();
        command.arg("export").arg(imported("load.jfr.gz")).args(["--event", event, "--to", "folded", "-o", "-"]);
        let text = String::from_utf8(run(&mut command).stdout).expect("utf8");
        let line = |line: &str| {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            (stack.to_owned(), count.parse::<u64>().expect("a number"))
        };
        let ours: BTreeMap<String, u64> = text.lines().map(line).collect();
        assert_eq!(ours, printed(event));
        samples += ours.values().sum::<u64>();
    }
    assert_eq!(samples, 63);
    let math = periods("load.jfr.gz", "jdk.ExecutionSample", &["--comms", "worker-1"]);
    assert_eq!((math["Load.math"], math[""]), (2, 2));
    // Samples have times.
    let late = periods("load.jfr.gz", "jdk.ExecutionSample", &["--time", "50%-100%"])[""];
    assert!((1..62).contains(&late), "{late}");
}

/// Rates of profiles whose samples have no times were refused, although the files have their durations.
#[test]
fn rates_of_a_profile_are_of_its_duration() {
    let dir = tempfile::tempdir().expect("dir");
    let (old, new) = (cpu_profile(&dir.path().join("cpu"), [30, 10]), imported("go-cpu.pprof"));
    let diff = |args: &[&str]| {
        let mut command = program();
        let output = run(command.arg("diff").args([&old, &new]).args(["--per", "second", "-s", "sym"]).args(args));
        String::from_utf8(output.stdout).expect("utf8")
    };
    let report: serde_json::Value = serde_json::from_str(&diff(&["--format", "json"])).expect("json");
    let seconds = report["new"]["seconds"].as_f64().expect("a number");
    // As `go tool pprof` prints it.
    let theirs = std::fs::read_to_string(imported("go-cpu.cpu.top.txt")).expect("read");
    assert!(theirs.contains(&format!("Duration: {seconds:.2}s")), "{seconds} {theirs}");
    let rows = report["rows"].as_array().expect("rows");
    for (function, side, expected) in [("main.inner", "new", 230_000_000.0 / seconds), ("hot", "old", 150_000_000.0)] {
        let row = rows.iter().find(|row| row["sym"] == function).expect("a row");
        let rate = row[side].as_f64().expect("a number");
        assert!((rate - expected).abs() < 1.0, "{rate} {expected}");
    }
    assert!(diff(&[]).contains(", 1.3 s\n"), "{}", diff(&[]));
    // Heap profiles do not have a duration.
    let heap = imported("go-heap.pprof");
    let output = program().args(["diff", "--per", "second"]).args([&heap, &heap]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn two_profiles_are_compared() {
    let mut command = program();
    command.arg("diff").arg(imported("go-cpu.pprof")).arg(data("fp-spin.data")).args(["--format", "json", "-s", "sym"]);
    let output = run(&mut command);
    let text = String::from_utf8(output.stdout).expect("utf8");
    let report: serde_json::Value = serde_json::from_str(&text).expect("json");
    let samples = |side: &str| report[side]["samples"].as_u64();
    assert!(text.contains("main.burn") && samples("old") > Some(0) && samples("new") > Some(0), "{text}"); // words: ok
}

/// Sums of other tools' profiles have units; they are neither samples nor counts of an event.
#[test]
fn headings_name_units_and_totals() {
    let dir = tempfile::tempdir().expect("dir");
    let folded = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let printed = |args: &[&str], files: &[&Path]| {
        let output = run(program().args(args).args(files));
        String::from_utf8(output.stdout).expect("utf8")
    };
    let (heap, fractions) = (imported("go-heap.pprof"), folded("fractions", "a;b 0.004\na;c 0.006\n"));
    let [of_heap, of_fractions] = [&heap, &fractions].map(|file| printed(&["report", "-i"], &[file.as_path()]));
    let head = "# event inuse_space: 2 stacks, total 6,295,763 bytes, lost 0, sorted by Self\nChildren    Self  Stacks";
    assert!(of_heap.starts_with(head), "{of_heap}");
    assert!(of_fractions.starts_with("# event samples: 2 stacks, total 0.01, lost 0"), "{of_fractions}");
    let rows: Vec<&str> = of_fractions.lines().skip(2).filter_map(|line| line.split_whitespace().nth(5)).collect();
    assert_eq!(rows, ["0.006", "0.004"], "{of_fractions}");
    let as_perf = |file: &Path| -> Vec<String> {
        let text = printed(&["report", "--stdio", "-g", "none", "-i"], &[file]);
        let lines = text.lines().filter(|line| line.contains(": ") && !line.contains("Lost"));
        lines.take(2).map(str::to_owned).collect()
    };
    assert_eq!(as_perf(&heap), ["# Stacks: 2  of event 'inuse_space'", "# Total: 6295763 bytes"]);
    assert_eq!(as_perf(&fractions), ["# Stacks: 2  of event 'samples'", "# Total: 0.01"]);

    // Counts of another number of decimals.
    let ones = folded("ones", "a;b 1\na;c 2\n");
    let diff = printed(&["diff", "-s", "sym", "--per", "nothing"], &[&fractions, &ones]);
    let heads: Vec<&str> =
        diff.lines().take(2).filter_map(|line| line.rsplit_once(": ")).map(|(_, told)| told).collect();
    assert_eq!(heads, ["2 stacks of samples, total 0.01", "2 stacks of samples, total 3"], "{diff}");
    let rows: Vec<Vec<&str>> = diff.lines().skip(4).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["+1.99", "▲", "0.006", "2", "1", "1", "c"], ["+0.996", "▲", "0.004", "1", "1", "1", "b"]]);
    let mut command = program();
    let output = command.args(["diff", "--per", "second"]).args([&fractions, &ones]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("span no time"), "{said}");
}

/// Samples of one stack are stored as their sum: the number of samples is not that of stacks.
#[test]
fn headings_count_the_samples_of_sums() {
    let output = run(program().args(["report", "--stdio", "-g", "none", "-i"]).arg(imported("go-cpu.pprof")));
    let text = String::from_utf8(output.stdout).expect("utf8");
    assert!(text.contains("# Samples: 49  of event 'cpu'\n# Total: 490000000 nanoseconds\n"), "{text}");
}

/// Writes a profile of two seconds like Go's, of two functions below another one, with their samples of 10 ms as sums.
fn cpu_profile(path: &Path, samples: [i64; 2]) -> PathBuf {
    let location = |id| Location { id, line: vec![Line { function: id, line: 1 }], ..Location::default() };
    let sample = |(id, n): (u64, i64)| Sample { location: vec![id, 3], value: vec![n * 10_000_000], label: Vec::new() };
    let profile = Profile {
        sample_type: vec![ValueType { kind: 1, unit: 2 }],
        sample: (1..).zip(samples).map(sample).collect(),
        location: (1..=3).map(location).collect(),
        function: (1..=3).map(|id| Function { id, name: id as i64 + 2, ..Function::default() }).collect(),
        period_type: Some(ValueType { kind: 1, unit: 2 }),
        period: 10_000_000,
        duration_nanos: 2_000_000_000,
        strings: ["", "cpu", "nanoseconds", "hot", "cold", "main"].map(str::to_owned).to_vec(),
        ..Profile::default()
    };
    std::fs::write(path, profile.encode_to_vec()).expect("written");
    path.to_owned()
}

/// The table's columns and call chains had the stored sums instead of the file's figures.
#[test]
fn columns_and_chains_have_the_figures_of_the_file() {
    let dir = tempfile::tempdir().expect("dir");
    let (cpu, fractions) = (cpu_profile(&dir.path().join("cpu"), [30, 10]), dir.path().join("fractions"));
    std::fs::write(&fractions, "a;main;hot 0.006\na;main;cold 0.004\n").expect("written");

    let shown = |file: &Path| {
        let columns = vec![TopField::Samples, TopField::Period, TopField::Key(ColumnKey::Sym)];
        let screen = Harness::open(file.to_str().expect("utf-8"), "kallsyms", 100, 12);
        screen.restart(Start { columns, ..Start::default() }).text()
    };
    let has = |screen: &str, row: &[&str]| {
        let words: Vec<&str> = screen.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).collect();
        words.windows(row.len()).any(|words| words == row)
    };
    let screen = shown(&cpu);
    assert!(["Samples", "Period", "Symbol"].iter().all(|title| screen.contains(title)), "{screen}");
    assert!(has(&screen, &["30", "300,000,000", "hot"]) && has(&screen, &["10", "100,000,000", "cold"]), "{screen}");
    let screen = shown(&fractions);
    assert!(screen.contains("Stacks  "), "{screen}");
    assert!(has(&screen, &["1", "0.006", "hot"]) && has(&screen, &["1", "0.004", "cold"]), "{screen}");

    // The line below the table has the value where samples cannot be counted.
    let details = |file: &Path| Harness::open(file.to_str().expect("utf-8"), "kallsyms", 100, 12).text();
    assert!(details(&cpu).contains("(30 samples)"), "{}", details(&cpu));
    assert!(details(&fractions).contains("(0.006)  total 60.0 % (0.006 in 1 stack)"), "{}", details(&fractions));
    let heap = details(&imported("go-heap.pprof"));
    assert!(heap.contains("(6.3 MB)  total 99.9 % (6.3 MB in 1 stack)"), "{heap}");

    let chains = |file: &Path, value: &str, layout: &[&str]| -> Vec<String> {
        let mut command = program();
        let output = run(command.arg("report").arg(file).args(["-g", value]).args(layout));
        let text = String::from_utf8(output.stdout).expect("utf8");
        let words = |line: &str| -> Vec<String> {
            let words = line.split([' ', '-', '|']).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        // The chains of main have two parts; in our layout their files follow.
        let entries = text.lines().filter(|line| line.starts_with("            ")).map(words);
        entries.filter(|words| words.len() >= 2).map(|words| words[..2].join(" ")).collect()
    };
    for layout in [&[][..], &["--stdio"][..]] {
        let entries = chains(&cpu, "count,caller", layout);
        assert!(["30 hot", "10 cold"].iter().all(|entry| entries.contains(&(*entry).to_owned())), "{entries:?}");
        let entries = chains(&fractions, "period,caller", layout);
        assert!(["0.006 hot", "0.004 cold"].iter().all(|entry| entries.contains(&(*entry).to_owned())), "{entries:?}");
    }
    let mut command = program();
    let output = run(command.arg("report").arg(&cpu).args(["-g", "caller", "--format", "json"]));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    let main = rows.iter().find(|row| row["sym"] == "main").expect("main");
    assert_eq!(main["callees"][0]["samples"], 30);
}

/// Differences of sums are tested with the numbers of samples that the sums stand for.
#[test]
fn differences_of_sums_are_tested_by_their_samples() {
    let dir = tempfile::tempdir().expect("dir");
    let folded = |name: &str, weights: [i64; 2]| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("a;hot {}\na;cold {}\n", weights[0], weights[1])).expect("written");
        path
    };
    let verdicts = |old: &Path, new: &Path| -> Vec<String> {
        let mut command = program();
        let output = run(command.arg("diff").args([old, new]).args(["--format", "json", "-s", "sym"]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        let rows = report["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["verdict"].as_str().expect("a verdict").to_owned()).collect()
    };
    let pprof = |name: &str, weights| cpu_profile(&dir.path().join(name), weights);
    let (few, many) = (pprof("few", [50, 50]), pprof("many", [5000, 5000]));
    assert_eq!(verdicts(&few, &pprof("few-now", [60, 40])), ["noise", "noise"]);
    assert_eq!(verdicts(&many, &pprof("many-now", [6000, 4000])), ["shrank", "grew"]);
    assert_eq!(verdicts(&folded("old", [5000, 5000]), &folded("new", [6000, 4000])), ["shrank", "grew"]);
}

/// The build ids of programs in tests/data/bin.
const SPIN: &str = "6c6e4bd86fc91ee478d02a4638a35c48da1e7b5d";
const SPIN_NOPIE: &str = "2abece7344fc340027115f39fc0e371a851863cc";

/// Writes a profile as samply does: with addresses relative to the first segments of programs, here of three samples.
fn samply(path: &Path, libs: [(PathBuf, &str); 3]) {
    let libs = libs.map(|(lib, id)| format!(r#"{{"path":"{}","codeId":"{id}"}}"#, lib.display())).join(",");
    let text = format!(
        r#"{{"meta":{{"preprocessedProfileVersion":49}},"libs":[{libs}],"threads":[{{"name":"t",
            "samples":{{"stack":[0,1,2],"time":[1,2,3]}},"stackTable":{{"prefix":[null,null,null],"frame":[0,1,2]}},
            "frameTable":{{"func":[0,1,2]}},"funcTable":{{"name":[0,1,0],"resource":[0,1,2]}},
            "resourceTable":{{"lib":[0,1,2]}},"stringArray":["0x1204","0x11f4"]}}]}}"#
    );
    std::fs::write(path, text).expect("written");
}

#[test]
fn addresses_have_the_names_of_files_with_their_build_ids() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("samply.json");
    let bin = |name: &str| data("bin").join(name);
    // One of the files is another build.
    samply(&path, [(bin("spin"), SPIN), (bin("spin-nopie"), SPIN_NOPIE), (bin("deep"), SPIN)]);
    let rows = periods(path.to_str().expect("utf-8"), "samples", &[]);
    let expected = [("", 3), ("0x1204", 1), ("burn_alpha", 2)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(rows, BTreeMap::from(expected));
    let output = run(program().arg("report").arg(&path));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("bin/deep") && said.contains(SPIN) && !said.contains("bin/spin"), "{said}");
    // A directory with the files of another machine.
    let elsewhere = |name: &str| Path::new("/elsewhere").join(name);
    samply(&path, [(elsewhere("spin"), SPIN), (elsewhere("spin-nopie"), SPIN_NOPIE), (elsewhere("deep"), SPIN)]);
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("elsewhere")).expect("made");
    for name in ["spin", "spin-nopie", "deep"] {
        copy_program(bin(name), root.join("elsewhere").join(name));
    }
    let there = periods(path.to_str().expect("utf-8"), "samples", &["--symfs", root.to_str().expect("utf-8")]);
    assert_eq!(there, rows);
}

/// The owner of a profile chooses the files that are read, so they must be readable for this user.
#[test]
fn a_profile_names_files_for_its_owner_alone() {
    needs!(is_root());
    let dir = tempfile::tempdir().expect("dir");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changed");
    };
    let (path, own) = (dir.path().join("samply.json"), dir.path().join("spin"));
    copy_program(data("bin/spin"), &own);
    samply(&path, [(own.clone(), SPIN), (data("bin/deep"), SPIN), (data("bin/forker"), SPIN)]);
    std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("owned");
    mode(dir.path(), 0o755);
    let names = || periods(path.to_str().expect("utf-8"), "samples", &[]).get("burn_alpha").copied();
    mode(&own, 0o600);
    assert_eq!(names(), None);
    mode(&own, 0o644);
    assert_eq!(names(), Some(1));
}

/// The same in pprof, whose addresses are those of the process.
#[test]
fn addresses_of_pprof_are_named_through_their_mappings() {
    let dir = tempfile::tempdir().expect("dir");
    let strings = ["", "cpu", "count", data("bin/spin").to_str().expect("utf-8"), SPIN].map(str::to_owned);
    let location = |id, address| Location { id, mapping: 1, address, line: Vec::new() };
    let sample = |id| Sample { location: vec![id], value: vec![1], label: Vec::new() };
    let profile = Profile {
        sample_type: vec![ValueType { kind: 1, unit: 2 }],
        sample: (1..=3).map(sample).collect(),
        mapping: vec![Mapping {
            id: 1,
            start: 0x5555_0000_1000,
            limit: 0x5555_0000_2000,
            offset: 0x1000,
            filename: 3,
            build_id: 4,
            ..Mapping::default()
        }],
        // The last one is outside of the mapping.
        location: vec![location(1, 0x5555_0000_1204), location(2, 0x5555_0000_1244), location(3, 0x5555_0000_0204)],
        strings: strings.to_vec(),
        ..Profile::default()
    };
    let path = dir.path().join("addresses.pprof");
    std::fs::write(&path, profile.encode_to_vec()).expect("written");
    let rows = periods(path.to_str().expect("utf-8"), "cpu", &[]);
    let named = ["burn_alpha", "burn_gamma.constprop.0"].map(|name| rows.get(name).copied());
    assert_eq!((named, rows.len(), rows[""]), ([Some(1); 2], 4, 3), "{rows:?}");
}

/// A server that answers each request with this text, which may be shorter than the length it states.
fn serve(status: &'static str, body: Vec<u8>, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    format!("http://{address}/debug/pprof/profile")
}

#[test]
fn a_server_sends_a_profile() {
    needs!(crate::common::installed("curl"));
    let profile = std::fs::read(imported("go-cpu.pprof")).expect("read");
    let length = profile.len();
    let url = serve("200 OK", profile, length);
    let mut command = program();
    let output = run(command.args(["report", &format!("{url}?seconds=1"), "-s", "sym", "--format", "json"]));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(report["events"].as_array().map(Vec::len), Some(2));
    let url = serve("404 Not Found", Vec::new(), 0);
    let output = program().args(["report", &format!("{url}?seconds=4")]).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("404"), "{said}"); // words: ok
}

#[test]
fn a_server_without_end_is_refused() {
    needs!(crate::common::installed("curl"));
    let url = serve("200 OK", Vec::new(), 300_000_000);
    let output = program().args(["report", &url]).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.to_lowercase().contains("exceeded"), "{said}"); // words: ok
}
