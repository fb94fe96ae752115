//! perf's spellings of options.

use crate::common::{data, program};

/// perf's abbreviated and negated option names mean the same as the full names.
#[test]
fn names_may_be_cut_and_taken_back_as_in_perf() {
    let file = data("fp-spin.data");
    let of = |args: &[&str]| program().args(args).arg(&file).output().expect("runs");
    let text = |args: &[&str]| String::from_utf8(of(args).stdout).expect("text");
    let (whole, own) = (text(&["report", "--children"]), text(&["report", "--no-children"]));
    assert_ne!(whole, own);
    assert_eq!(own, text(&["report", "--child", "--no-child"]));
    assert_eq!(whole, text(&["report", "--no-children", "--children"]));
    assert_eq!(text(&["report", "-g", "caller"]), text(&["report", "--call", "caller"]));
    assert_eq!(whole, text(&["report", "--children", "--call-graph", "--no-call-graph"]));
    assert_eq!(text(&["report", "--stdio", "-gnone"]), text(&["report", "--stdio", "--no-call-graph"]));
    assert_eq!(text(&["report", "--stdio"]), text(&["report", "--stdio", "--no-call-graph", "--call-graph"]));
    assert_eq!(text(&["script", "-F", "comm,ip"]), text(&["script", "--fie=comm,ip"]));
    let refused = of(&["report", "--sym", "main"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(["--symbols", "--symbol-filter", "--symfs"].iter().all(|name| said.contains(name)), "{said}");
}

#[test]
fn lists_of_events_without_descriptions() {
    let of = |args: &[&str]| {
        let output = program().arg("list").args(args).output().expect("runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let (whole, short) = (of(&["sw"]), of(&["--no-desc", "sw"]));
    // The names are the same, and lines are shorter.
    let names =
        |text: &str| text.lines().map(|line| line.split_whitespace().next().map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(names(&whole), names(&short));
    assert!(short.len() < whole.len() && names(&short).contains(&Some("cpu-clock".to_owned())), "{short}");
}

/// perf 7's spelling of deferred chains.
#[test]
fn deferred_chains_are_requested_as_in_perf() {
    let code = |way: &str| {
        let output = program().args(["record", "--dry-run", "--call-graph", way, "--", "true"]).output();
        output.expect("runs").status.code()
    };
    assert_eq!(["fp", "fp,defer", "tables,defer", "fp,deferred"].map(code), [Some(0), Some(0), Some(2), Some(2)]);
}
