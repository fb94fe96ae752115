//! The latency profile, compared with perf 7.3's of the same recording.

use std::path::Path;

use perfprof_tui::kernel::attr::Flag;
use perfprof_tui::record::kinds::encode;

use crate::common::harness::Harness;
use crate::common::made::{ALPHA, BETA, MAIN, event, has, write_records};
use crate::common::{data, program, run, symfs};

fn report(args: &[&str]) -> String {
    let root = symfs();
    let mut command = program();
    command.arg("report").arg(data("corpus/p73-latency.data")).args(args);
    let command = command.arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms"));
    String::from_utf8(run(command).stdout).expect("utf8")
}

/// Lines without the tip of the day, and without the end of the line of dots, whose width depends on the longest title.
fn lines(text: &str) -> Vec<String> {
    let rows =
        text.lines().filter(|line| !line.trim_start_matches('#').trim().is_empty() && !line.starts_with("# (Tip"));
    rows.filter(|line| !line.starts_with("# ..")).map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn tables_are_those_of_perf() {
    for (name, sort) in [("latency", "comm,dso,sym"), ("parallel", "parallelism,comm")] {
        let theirs = std::fs::read_to_string(data(&format!("corpus/p73-latency.{name}.txt"))).expect("read");
        let ours = report(&["--stdio", "--no-children", "--latency", "-n", "-s", sort]);
        assert_eq!(lines(&ours), lines(&theirs), "{name}");
    }
}

#[test]
fn parallelism_is_a_column_and_a_filter() {
    let total = |text: &str| -> u64 {
        let report: serde_json::Value = serde_json::from_str(text).expect("json");
        report["events"][0]["rows"].as_array().expect("rows").iter().filter_map(|row| row["samples"].as_u64()).sum()
    };
    let all = total(&report(&["--format", "json"]));
    let one = total(&report(&["--format", "json", "--where", "parallelism == 1"]));
    let more = total(&report(&["--format", "json", "--where", "parallelism > 1"]));
    assert!(all == 153 && one > 100 && one + more == all, "{one} {more} {all}");
    // perf's option; its shares are those of all samples.
    assert_eq!(total(&report(&["--format", "json", "--parallelism", "1"])), one);
    assert_eq!(total(&report(&["--format", "json", "--parallelism", "1,2-64"])), all);
    let rows = report(&["--event", "latency", "-s", "comm_nodigit", "--format", "csv"]);
    assert_eq!(rows.lines().filter(|line| line.ends_with("w<N>-ph<N>")).count(), 1, "{rows}");
}

#[test]
fn a_recording_without_switches_says_so() {
    for option in ["--latency", "--parallelism=1"] {
        let output = program().args(["report", option]).arg(data("fp-spin.data")).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("record --latency"), "{said}"); // words: ok
    }
}

const MS: u64 = 1_000_000;

/// Writes a recording of process 77: a second of one thread in burn_alpha, then a second of two threads in burn_beta.
/// The second thread starts 4 ms later; before, its CPU runs another process. With `lost`, records were lost when the two
/// threads had run for half a second.
fn alone_and_together(path: &Path, lost: bool) {
    let mut clock = event("cycles", 0, has::ALWAYS);
    clock.attr.set(Flag::ContextSwitch, true);
    let mut records: Vec<(u64, Vec<u8>)> = Vec::new();
    let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let mut add = |time: u64, kind: u32, misc: u16, words: &[u64]| {
        let mut out = Vec::new();
        encode(&mut out, kind, misc, |body| body.extend(bytes(words))).expect("fits");
        records.push((time, out));
    };
    // The fields after other records: thread, time, CPU, event.
    let trailer = |pid: u64, tid: u64, time: u64, cpu: u64| [tid << 32 | pid, time, cpu, 100];
    let runs = [(77, 77, 0, 1, ALPHA), (88, 88, 1, 1, MAIN), (77, 77, 0, 1001, BETA), (77, 78, 1, 1005, BETA)];
    for (pid, tid, cpu, start, ip) in runs {
        let (begin, end) = (start * MS, (start + 1000) * MS);
        add(begin, 14, 0, &trailer(pid, tid, begin, cpu));
        for time in (0..1000).map(|n| begin + n * MS + MS / 2) {
            add(time, 9, 2, &[100, ip, tid << 32 | pid, time, cpu, MS]);
        }
        add(end - 1, 14, 1 << 13, &trailer(pid, tid, end - 1, cpu));
    }
    if lost {
        let time = 1500 * MS;
        add(time, 2, 0, &[&[100, 3][..], &trailer(77, 77, time, 0)[..]].concat());
    }
    records.sort_by_key(|(time, _)| *time);
    write_records(path, &[clock], &records.into_iter().flat_map(|(_, record)| record).collect::<Vec<u8>>());
}

/// The job takes two seconds: half of them is the code that runs alone.
#[test]
fn a_second_alone_weighs_as_much_as_a_second_on_two_threads() {
    let dir = tempfile::tempdir().expect("dir");
    for lost in [false, true] {
        let path = dir.path().join(format!("made-{lost}.data"));
        alone_and_together(&path, lost);
        let table = |event: &str| -> Vec<(String, u64, u64)> {
            let mut command = program();
            command.arg("report").arg(&path).args(["--no-children", "-s", "sym", "--where", "pid == 77"]);
            let output = run(command.args(["--format", "json", "--event", event, "--symfs"]).arg(data("bin")));
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
            let rows = report["events"][0]["rows"].as_array().expect("rows").iter();
            let number = |row: &serde_json::Value, key: &str| row[key].as_u64().expect("a number");
            let name = |row: &serde_json::Value| row["sym"].as_str().expect("a name").trim().to_owned();
            rows.map(|row| (name(row), number(row, "samples"), number(row, "period"))).collect()
        };
        let of = |rows: &[(String, u64, u64)], function: &str| {
            let row = rows.iter().find(|row| row.0.starts_with(function)).unwrap_or_else(|| panic!("{rows:?}"));
            (row.1, row.2)
        };
        let (cpu, latency) = (table("cycles"), table("latency"));
        assert_eq!([of(&cpu, "burn_alpha"), of(&cpu, "burn_beta")], [(1000, 1000 * MS), (2000, 2000 * MS)], "{lost}");
        let [alone, together] = ["burn_alpha", "burn_beta"].map(|function| of(&latency, function).1 as f64);
        let share = 100.0 * alone / (alone + together);
        assert!((48.0..=52.0).contains(&share), "{lost}: {share} % alone");
        // The weights of flame graphs and exports.
        let mut export = program();
        export.arg("export").arg(&path).args(["--event", "latency", "--to", "folded", "-o", "-", "--symfs"]);
        let folded = String::from_utf8(run(export.arg(data("bin"))).stdout).expect("text");
        let weight = folded.lines().find_map(|line| line.strip_prefix("spin;burn_alpha ")?.parse::<f64>().ok());
        assert_eq!(weight, Some(alone), "{folded}");
        let shown = run(program().args(["report", "--latency", "-s", "sym", "--symfs"]).arg(data("bin")).arg(&path));
        let said = String::from_utf8_lossy(&shown.stderr);
        assert_eq!(said.contains("records were lost 1 time"), lost, "{said}");
    }
}

/// The line of a screen that begins with this word, without it.
fn line_of(text: &str, word: &str) -> Option<String> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(word)).map(|rest| rest.trim().to_owned())
}

#[test]
fn the_map_of_time_has_a_line_of_running_threads() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("made.data");
    alone_and_together(&path, false);
    for (width, height) in [(80, 24), (200, 60)] {
        let open = |file: &str| Harness::open(file, "kallsyms", width, height).keys("3");
        let h = open(path.to_str().expect("utf-8"));
        let heat = h.app.model.context.answer.view.heat.clone().expect("a map");
        let counts: Vec<f64> = (0..heat.columns).filter_map(|column| heat.threads(column..column + 1)).collect();
        assert!(counts[0] < 1.05 && counts.iter().any(|n| *n > 1.95) && counts.iter().all(|n| *n < 2.05), "{counts:?}");
        let text = h.text();
        let line = line_of(&text, "threads").unwrap_or_else(|| panic!("{text}"));
        assert!(line.starts_with('1') && line.contains('2'), "{line}");
        // At the end, one of the two threads runs for some milliseconds more.
        let last = ["1.00 threads", "1.20 threads"];
        assert!(last.iter().any(|words| text.contains(words)), "the number under the cursor: {text}");
        assert_eq!(line_of(&open("fp-spin.data").text(), "threads"), None);
    }
}

/// A pool of threads is one row on the screen.
#[test]
fn pools_of_threads_are_rows() {
    let text = Harness::open("corpus/p73-latency.data", "kallsyms", 100, 24).keys(":sort comm_nodigit<ret>").text();
    assert!(text.contains("w<N>-ph<N>") && !text.contains("w00-ph") && !text.contains("w01-ph"), "{text}");
}
