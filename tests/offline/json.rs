//! JSON output, validated against the schema of `help json`.

use serde_json::Value;

use crate::common::scenes::scene;
use crate::common::schema::{assert_keeps_to, printed};
use crate::common::{data, program, run, symfs};
use perfprof_tui::units::UNITS;

/// The JSON objects that a command prints, one per line or one in total.
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
        ("report", &["report", "--format", "json", "-s", "time,symbol_size", "-g", "address"], &["fp-spin.data"]),
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
fn annotated_functions_keep_to_the_schema() {
    let (schema, root) = (printed(), symfs());
    let of = |args: &[&str]| {
        said(&[&["annotate", "--format", "json", "--symfs", root.path().to_str().expect("text")], args].concat(), &[])
    };
    let file = |name: &str| {
        data(&if name == "inline" { format!("corpus/{name}.data") } else { format!("{name}.data") })
            .to_str()
            .expect("text")
            .to_owned()
    };
    let lines = of(&[&file("inline"), "process_all"]);
    let plain = of(&[&file("multi3")]);
    lines.iter().chain(&plain).for_each(|value| assert_keeps_to(&schema, "annotate", value));
    let code = |values: &[Value]| {
        values.iter().flat_map(|one| one["instructions"].as_array().expect("code").clone()).collect::<Vec<_>>()
    };
    let (lines, plain) = (code(&lines), code(&plain));
    assert!(lines.iter().any(|one| one["line"].is_u64()), "lines of sources");
    assert!(plain.iter().any(|one| one["callee"].is_string()) && plain.iter().any(|one| one["line"].is_null()));
    assert!(plain.iter().any(|one| one["samples"] != 0), "samples");
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
    let mut transcript = crate::common::transcript::Transcript::new();
    let output = transcript.add(program().args(["help", "json", "rundelai"]));
    insta::assert_snapshot!("unknown-unit", transcript.text());
    assert_eq!(output.status.code(), Some(2));
}
