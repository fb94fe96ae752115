//! What is printed as JSON, against the schema that `help json` prints.

use serde_json::Value;

use crate::common::scenes::scene;
use crate::common::schema::{assert_keeps_to, printed};
use crate::common::{data, program, run};
use perfprof_tui::units::UNITS;

/// Each object that a command prints, a line or all of its output.
fn said(args: &[&str], files: &[&str]) -> Vec<Value> {
    let output = run(program().args(args).args(files.iter().map(|file| data(file))));
    let text = String::from_utf8(output.stdout).expect("text");
    match serde_json::from_str(&text) {
        Ok(whole) => vec![whole],
        Err(_) => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
    }
}

#[test]
fn what_recordings_are_printed_as_keeps_to_the_schema() {
    let schema = printed();
    let commands: &[(&str, &[&str], &[&str])] = &[
        ("report", &["report", "--format", "json"], &["fp-spin.data"]),
        (
            "report",
            &["report", "--format", "json", "-s", "cpu,comm,pid,tid,cgroup,container,dso,sym"],
            &["multi3.data"],
        ),
        ("report", &["report", "--format", "json", "-s", "comm,trace"], &["units/sched.data"]),
        ("report", &["report", "--format", "json", "-g", "caller", "--show-cpu-utilization"], &["fp-spin.data"]),
        ("report", &["report", "--format", "json", "-s", "comm", "-p", "main"], &["fp-spin.data"]),
        ("report_list", &["report", "--format", "json", "--tasks"], &["fp-spin.data"]),
        ("report_list", &["report", "--format", "json", "--mmaps"], &["fp-spin.data"]),
        ("report_list", &["report", "--format", "json", "--stats"], &["multi3.data"]),
        ("diff", &["diff", "--format", "json"], &["fp-spin.data", "fp-sysmix.data"]),
        ("probe", &["usdt", "list", "--format", "json"], &["units/usdt"]),
        ("unit", &["rundelay", "--format", "json"], &["units/sched.data"]),
        ("unit", &["task-state", "--format", "json", "-i", "0.2"], &["units/sched.data"]),
        ("unit", &["syscalls", "--per-thread", "--format", "json"], &["units/syscalls.data"]),
    ];
    for (definition, args, files) in commands {
        let values = said(args, files);
        assert!(!values.is_empty(), "{args:?}");
        values.iter().for_each(|value| assert_keeps_to(&schema, definition, value));
    }
}

#[test]
fn what_every_unit_says_keeps_to_the_schema() {
    let schema = printed();
    for spec in UNITS {
        for panel in scene(spec.name).panels() {
            assert_keeps_to(&schema, "panel", &panel.to_json());
        }
    }
}

#[test]
fn the_schema_of_a_command_is_part_of_the_whole() {
    let one: Value = serde_json::from_slice(&run(program().args(["help", "json", "rundelay"])).stdout).expect("JSON");
    assert_eq!(one["anyOf"][0]["$ref"], "#/$defs/unit");
    assert_eq!(one["$defs"]["unit"], printed()["$defs"]["unit"]);
    let output = program().args(["help", "json", "rundelai"]).output().expect("runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nearest: rundelay"), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
}
