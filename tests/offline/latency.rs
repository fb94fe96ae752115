//! The latency profile, compared with perf 7.3's of the same recording.

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
    let rows = report(&["--event", "latency", "-s", "comm_nodigit", "--format", "csv"]);
    assert_eq!(rows.lines().filter(|line| line.ends_with("w<N>-ph<N>")).count(), 1, "{rows}");
}

#[test]
fn a_recording_without_switches_says_so() {
    let output = program().args(["report", "--latency"]).arg(data("fp-spin.data")).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("record --latency"), "{said}"); // words: ok
}
