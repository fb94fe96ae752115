//! JSON output of commands on the running machine, validated against the schema of `help json`.

use crate::common::schema::{assert_keeps_to, printed};
use crate::common::{allowed, program, run};

#[test]
fn what_the_machine_is_printed_as_keeps_to_the_schema() {
    needs!(allowed());
    let schema = printed();
    let commands: &[(&str, &[&str])] = &[
        ("stat", &["stat", "-e", "task-clock,context-switches,cycles", "--format", "json", "sleep", "0.1"]),
        ("stat", &["stat", "-a", "-A", "-r", "2", "-e", "task-clock", "--format", "json", "sleep", "0.1"]),
        ("stat_interval", &["stat", "-I", "100", "-e", "task-clock", "--format", "json", "sleep", "0.25"]),
        ("cpus", &["cpus", "-i", "0.2", "-n", "2", "--format", "json"]),
        ("digest", &["digest", "--for", "0.3", "--format", "json"]),
        ("list", &["list", "sw", "--format", "json"]),
        ("list_containers", &["list", "containers", "--format", "json"]),
        ("doctor", &["doctor", "--format", "json"]),
        ("unit", &["percpu-stat", "-i", "0.2", "-n", "1", "--format", "json"]),
        ("unit", &["offcpu", "--duration", "0.3", "--format", "json"]),
    ];
    for (definition, args) in commands {
        let text = String::from_utf8(run(program().args(*args)).stdout).expect("text");
        let values: Vec<serde_json::Value> = match serde_json::from_str(&text) {
            Ok(whole) => vec![whole],
            Err(_) => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        };
        assert!(!values.is_empty(), "{args:?}");
        values.iter().for_each(|value| assert_keeps_to(&schema, definition, value));
    }
}
