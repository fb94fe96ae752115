//! The page of `digest` on a known load.

use crate::common::process::Running;
use crate::common::{allowed, program, run};

/// A process that keeps one CPU busy in its own code is the only process of its page, with its function.
#[test]
fn the_page_of_a_process_has_its_function_and_cpus() {
    needs!(allowed());
    let spin = crate::common::data("bin/spin");
    let child = Running(std::process::Command::new(spin).spawn().expect("starts"));
    let pid = child.pid().to_string();
    let args = ["digest", "-p", &pid, "--for", "2s", "--format", "json"];
    let page: serde_json::Value = serde_json::from_slice(&run(program().args(args)).stdout).expect("JSON");
    let processes = page["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 1, "{page}");
    assert_eq!(processes[0]["pid"], child.pid(), "{page}");
    assert!(processes[0]["pct"] == 100.0 && processes[0]["cpus"].as_f64() > Some(0.01), "{page}");
    assert_eq!(page["more"], format!("perfprof-tui --pid={pid}, key 1"));
    assert!(!page["paths"].as_array().expect("a list").is_empty(), "{page}");
}
