//! The page of `digest` about recordings of known content.

use crate::common::{data, program, run};

fn page(file: &str, args: &[&str]) -> String {
    page_by("kallsyms", file, args)
}

fn page_by(kallsyms: &str, file: &str, args: &[&str]) -> String {
    let root = crate::common::symfs();
    let mut digest = program();
    digest.arg("digest").arg(data(file)).args(args).arg("--symfs").arg(root.path());
    String::from_utf8_lossy(&run(digest.arg("--kallsyms").arg(data(kallsyms))).stdout).into_owned()
}

fn without_folder(page: &str) -> String {
    page.replace(&data("").display().to_string(), "")
}

#[test]
fn a_recording_in_one_page() {
    insta::assert_snapshot!(without_folder(&page("fp-sysmix.data", &[])));
}

/// A filter changes the total, and the command for more repeats it.
#[test]
fn a_filter_selects_the_samples_of_the_page() {
    let whole: serde_json::Value = serde_json::from_str(&page("fp-sysmix.data", &["--format", "json"])).expect("JSON");
    let pid = whole["processes"][0]["pid"].to_string();
    let part = page("fp-sysmix.data", &["-p", &pid, "--where", "kernel", "--format", "json"]);
    let part: serde_json::Value = serde_json::from_str(&part).expect("JSON");
    assert!(part["samples"].as_u64() < whole["samples"].as_u64(), "{part}");
    assert_eq!(part["processes"][0]["pct"], 100.0);
    assert_eq!(part["processes"][0]["kernel_pct"], 100.0);
    assert_eq!(part["processes"].as_array().map(Vec::len), Some(1));
    let more = part["more"].as_str().expect("a text");
    assert!(more.ends_with(&format!(" --pid={pid} --where=kernel")), "{more}");
}

/// The page omits samples of idle CPUs, and contains those of softirqs that interrupt the idle task.
#[test]
fn idle_samples_are_omitted() {
    const KALLSYMS: &str = "ipvs-cpu32.kallsyms";
    let samples = |filter: &[&str]| {
        let mut report = program();
        let args = ["report", "--format", "json", "--event", "cpu-clock", "-i"];
        let report = report.args(args).arg(data("ipvs-cpu32.data")).arg("--kallsyms").arg(data(KALLSYMS)).args(filter);
        let report: serde_json::Value = serde_json::from_slice(&run(report).stdout).expect("JSON");
        report["events"][0]["samples"].as_u64().expect("a count")
    };
    let page = page_by(KALLSYMS, "ipvs-cpu32.data", &["--event", "cpu-clock", "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    let busy = samples(&["--where", "!idle"]);
    assert!(0 < busy && busy < samples(&[]));
    assert_eq!(page["samples"], busy);
}

/// The processes' shares are those of `report`, and so is the share of a path's functions.
#[test]
fn shares_are_those_of_the_table() {
    let page: serde_json::Value = serde_json::from_str(&page("fp-sysmix.data", &["--format", "json"])).expect("JSON");
    let mut report = program();
    report.args(["report", "--format", "json", "-s", "pid", "--no-children", "-i"]).arg(data("fp-sysmix.data"));
    let report: serde_json::Value = serde_json::from_slice(&run(&mut report).stdout).expect("JSON");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    let processes = page["processes"].as_array().expect("a list");
    assert!(!processes.is_empty());
    for process in processes {
        let row = rows.iter().find(|row| row["pid"] == process["pid"]).expect("the process");
        assert_eq!(row["self_pct"], process["pct"], "{process}");
    }
}

#[test]
fn wrong_input_is_refused_with_the_remedy() {
    let said = |args: &[&str]| {
        let out = program().arg("digest").args(args).output().expect("runs");
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let text = data("kallsyms").display().to_string();
    assert!(said(&["/nowhere.data"]).contains("there is no such file"));
    assert!(said(&["--time", "1,2"]).contains("need a recording"));
    assert!(said(&["--format", "csv"]).contains("use --format text or json"));
    assert!(said(&["--where", "comm ="]).contains("comm"));
    assert!(!said(&[&text]).is_empty());
}
