//! Recordings of what a PMU measures: instructions a cycle.

use crate::common::harness::Harness;
use crate::common::made::{ALPHA, BETA, GAMMA, MAIN, MIDDLE, Taken, event, has, write};
use crate::common::{data, program, run};

/// `burn_alpha` waits for memory, `burn_beta` computes; of `burn_gamma` too little is known.
fn two_events(dir: &tempfile::TempDir) -> std::path::PathBuf {
    let path = dir.path().join("ipc.data");
    let kind = has::ALWAYS | has::CALLCHAIN;
    let events = [event("cycles", 0, kind), event("instructions", 1, kind)];
    let mut samples = Vec::new();
    let mut some = |n: usize, event: usize, ip: u64, period: u64| {
        let chain = vec![ip, MIDDLE, MAIN];
        samples.extend(std::iter::repeat_n(Taken { event, ip, period, chain, ..Taken::default() }, n));
    };
    some(60, 0, ALPHA, 1000);
    some(15, 1, ALPHA, 600);
    some(40, 0, BETA, 1000);
    some(120, 1, BETA, 1000);
    some(20, 0, GAMMA, 1000);
    some(too_few(), 1, GAMMA, 1000);
    write(&path, &events, &samples);
    path
}

fn too_few() -> usize {
    perfprof_tui::query::ipc::LEAST as usize - 1
}

fn report(path: &std::path::Path, more: &[&str]) -> String {
    let output = run(program().arg("report").arg(path).args(["-s", "sym"]).args(more).arg("--symfs").arg(data("bin")));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn rows_have_instructions_a_cycle_where_both_events_are_recorded() {
    let dir = tempfile::tempdir().expect("dir");
    let path = two_events(&dir);
    let json: serde_json::Value = serde_json::from_str(&report(&path, &["--format", "json"])).expect("json");
    for event in 0..2 {
        let rows = json["events"][event]["rows"].as_array().expect("rows");
        let of = |sym: &str| rows.iter().find(|row| row["sym"] == sym).expect("a row");
        let ipc = |sym: &str| (of(sym)["ipc"].as_f64(), of(sym)["children_ipc"].as_f64());
        assert_eq!(ipc("burn_alpha"), (Some(0.15), Some(0.15)));
        assert_eq!(ipc("burn_beta.constprop.0"), (Some(3.0), Some(3.0)));
        assert_eq!(ipc("burn_gamma.constprop.0"), (None, None), "nine samples tell nothing");
        assert!(of("burn_gamma.constprop.0")["ipc"].is_null());
        // 9000 + 120000 + 9000 instructions in 120000 cycles.
        assert_eq!(ipc("main"), (None, Some(1.15)));
    }
    let order = |sort: &str| {
        let output = run(program()
            .arg("report")
            .arg(&path)
            .args(["-s", sort, "--event", "cycles", "--no-children"])
            .arg("--symfs")
            .arg(data("bin")));
        let text = String::from_utf8(output.stdout).expect("text");
        let names = ["burn_alpha", "burn_beta", "burn_gamma"];
        let mut found: Vec<_> = names.iter().map(|name| (text.find(name).expect("a row"), *name)).collect();
        found.sort_unstable();
        (found[0].1, found[1].1, found[2].1)
    };
    assert_eq!(order("sym,ipc"), ("burn_alpha", "burn_beta", "burn_gamma"));
    assert_eq!(order("ipc"), ("burn_alpha", "burn_beta", "burn_gamma"), "with the usual keys");
    let csv = report(&path, &["--format", "csv", "--event", "cycles", "--no-children"]);
    assert!(csv.starts_with("self_pct,samples,period,ipc,sym\r\n50.0000,60,60000,0.1500,burn_alpha\r\n"), "{csv}");
    let alone = run(program().arg("report").arg(data("fp-spin.data")).args(["--format", "json", "-s", "sym"]));
    assert!(!String::from_utf8_lossy(&alone.stdout).contains("ipc"), "where one event is recorded it is not there");
}

#[test]
fn the_table_and_the_flame_graph_show_instructions_a_cycle() {
    let dir = tempfile::tempdir().expect("dir");
    let path = two_events(&dir);
    let open = || Harness::open(&path.to_string_lossy(), "kallsyms", 120, 24);
    let table = open().text();
    let line = |text: &str, what: &str| text.lines().find(|line| line.contains(what)).unwrap_or_default().to_owned();
    assert!(line(&table, "Symbol").contains("IPC"), "{table}");
    assert!(line(&table, "burn_alpha").contains(" 0.15 ") && line(&table, "burn_beta").contains(" 3.00 "), "{table}");
    assert!(!line(&table, "burn_gamma").contains('.'.to_string().repeat(2).as_str()), "{table}");
    // Two columns to the right of Self.
    let by_ipc = open().keys(">>").text();
    assert!(line(&by_ipc, "Symbol").contains("IPC▼") || line(&by_ipc, "Symbol").contains("IPC▾"), "{by_ipc}");
    let first = by_ipc.lines().skip_while(|line| !line.contains("Symbol")).nth(1).unwrap_or_default();
    assert!(first.contains("burn_alpha"), "{by_ipc}");
    let flame = open().keys("2ei").text();
    assert!(
        flame.contains("instructions a cycle") && flame.contains("0.15 IPC") && flame.contains("3.00 IPC"),
        "{flame}"
    );
    let plain = open().keys("2eiei").text();
    assert!(!plain.contains("IPC"), "{plain}");
    let lacks = Harness::open("fp-spin.data", "kallsyms", 120, 24).keys("2ei").text();
    assert!(lacks.contains("need both events"), "{lacks}");
}
