//! Reports of real recordings compared with perf's, row by row.

use crate::common::{self, data, our_rows, perf_rows, program, run, symfs};

/// Libraries of the recorded machine are not included, so their rows are compared by DSO only.
fn by_what_is_shipped(rows: common::Rows) -> common::Rows {
    let mut out = common::Rows::new();
    for ((comm, dso, sym), n) in rows {
        let system = dso.split('.').any(|part| part == "so") || dso == "[vdso]";
        let sym = if system { String::new() } else { sym };
        *out.entry((comm, dso, sym)).or_default() += n;
    }
    out
}

fn check(name: &str) {
    let root = symfs();
    let output = run(program()
        .arg("report")
        .arg(data(&format!("{name}.data")))
        .args(["--format", "json", "--no-demangle", "-s", "comm,dso,sym"])
        .arg("--symfs")
        .arg(root.path())
        .arg("--kallsyms")
        .arg(data("kallsyms")));
    let perf = std::fs::read_to_string(data(&format!("{name}.tsv"))).expect("tsv");
    let (ours, perf) = (by_what_is_shipped(our_rows(&output.stdout)), by_what_is_shipped(perf_rows(&perf)));
    assert!(!perf.is_empty());
    assert_eq!(ours, perf, "{name}");
}

#[test]
fn call_chains_of_a_c_program() {
    check("fp-spin");
}

#[test]
fn chains_across_the_kernel_boundary() {
    check("fp-sysmix");
}

#[test]
fn threads_that_rename_themselves() {
    check("threads12");
}

#[test]
fn a_storm_of_forks_and_execs() {
    check("forker-g");
}

#[test]
fn several_events() {
    check("multi3");
}

#[test]
fn kernel_samples_only() {
    check("flat-k");
}

/// perf's Children column, for functions whose names do not depend on system libraries.
#[test]
fn children_are_counted_once_a_sample() {
    let root = symfs();
    let output = run(program()
        .arg("report")
        .arg(data("fp-spin.data"))
        .args(["--format", "json"])
        .arg("--symfs")
        .arg(root.path())
        .arg("--kallsyms")
        .arg(data("kallsyms")));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    let perf = std::fs::read_to_string(data("fp-spin.children.txt")).expect("text");
    let mut compared = 0;
    for line in perf.lines().filter(|l| !l.starts_with('#') && (l.contains(" spin  ") || l.contains("[k]"))) {
        let sym = line.rsplit("] ").next().expect("symbol").trim();
        let Some(children) = line.split_whitespace().next().and_then(|p| p.trim_end_matches('%').parse::<f64>().ok())
        else {
            continue;
        };
        if sym.starts_with("0x") {
            continue;
        }
        let row = rows.iter().find(|r| r["sym"] == sym).unwrap_or_else(|| panic!("{sym}"));
        let ours = row["children_pct"].as_f64().expect("number");
        assert!((ours - children).abs() < 0.006, "{sym}: ours {ours}, perf {children}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}

/// The ipvs incident: the leaf is a bit search, its caller is the cause.
#[test]
fn the_founding_incident_is_seen() {
    let output = run(program()
        .arg("report")
        .arg(data("ipvs-cpu32.data"))
        .args(["--format", "json", "-s", "sym", "--where", "!idle"])
        .arg("--kallsyms")
        .arg(data("ipvs-cpu32.kallsyms")));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows[0]["sym"], "_find_next_bit");
    assert_eq!(rows[0]["samples"], 3535);
    let culprit = rows.iter().find(|r| r["sym"] == "estimation_timer").expect("row");
    let share = culprit["children_pct"].as_f64().expect("number");
    assert!((65.0..67.5).contains(&share), "{share} % of the samples that are not idle");
}

#[test]
fn a_filter_from_the_command_line_and_csv() {
    let output = run(program()
        .arg("report")
        .arg(data("multi3.data"))
        .args(["--format", "csv", "-s", "cpu,comm", "--no-children", "--where", "kernel", "--limit", "1"])
        .arg("--kallsyms")
        .arg(data("kallsyms")));
    let text = String::from_utf8(output.stdout).expect("utf8");
    assert!(text.starts_with("event,self_pct,samples,period,cpu,comm\r\n"), "{text}");
    let events: Vec<&str> = text.lines().skip(1).map(|row| row.split(',').next().expect("a cell")).collect();
    assert_eq!(events, ["cpu-clock", "page-faults", "context-switches"]);
}

#[test]
fn each_cpu_against_its_rate() {
    let output = run(program().arg("report").arg(data("ipvs-cpu32.data")).arg("--coverage"));
    let text = String::from_utf8(output.stdout).expect("utf8");
    assert_eq!(crate::common::cells::row(&text, "32")[..4], ["32", "8,971", "11,267", "79.6 %"]);
}

/// Text output escapes names of profiled processes; JSON output keeps them.
#[test]
fn hostile_names_are_made_harmless_in_text_and_kept_in_json() {
    let report = |format: &str| {
        let mut command = program();
        command.arg("report").arg(data("comm-hostile.data")).args(["--format", format, "-s", "comm"]);
        run(command.arg("--kallsyms").arg(data("kallsyms"))).stdout
    };
    let text = String::from_utf8(report("text")).expect("utf8");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    let json: serde_json::Value = serde_json::from_slice(&report("json")).expect("json");
    let comms: Vec<&str> =
        json["events"][0]["rows"].as_array().expect("rows").iter().filter_map(|r| r["comm"].as_str()).collect();
    assert!(comms.contains(&"new\nline"), "{comms:?}");
}

/// The kernel's address changes at each boot: a kallsyms file of another boot still works.
#[test]
fn a_kernel_that_was_loaded_elsewhere_is_moved_back() {
    let dir = tempfile::tempdir().expect("dir");
    let moved = dir.path().join("kallsyms");
    let text = std::fs::read_to_string(data("kallsyms")).expect("kallsyms");
    let shift = |line: &str| {
        let (address, rest) = line.split_once(' ').expect("line");
        format!("{:016x} {rest}\n", u64::from_str_radix(address, 16).expect("hex").wrapping_sub(0x1a0_0000))
    };
    std::fs::write(&moved, text.lines().map(shift).collect::<String>()).expect("write");
    let rows = |kallsyms: &std::path::Path| {
        let mut command = program();
        command.arg("report").arg(data("flat-k.data")).args(["--format", "json", "-s", "comm,dso,sym"]);
        our_rows(&run(command.arg("--kallsyms").arg(kallsyms)).stdout)
    };
    assert_eq!(rows(&moved), rows(&data("kallsyms")));
}
