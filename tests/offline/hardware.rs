//! Synthetic recordings of PMU events: instructions per cycle, branches, memory accesses, transactions.
//!
//! Compared with the output of perf 6.1 for the same files (`tests/data/hardware`; `UPDATE_PERF=1` records it again
//! where perf is installed).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::harness::Harness;
use crate::common::made::{ALPHA, BETA, DATA, GAMMA, MAIN, MIDDLE, Taken, event, has, write};
use crate::common::transcript::Transcript;
use crate::common::{data, installed, program, run};
use perfprof_tui::ui::Level;

/// `burn_alpha` waits for memory, `burn_beta` computes, and `burn_gamma` has too few samples.
fn two_events(dir: &tempfile::TempDir) -> PathBuf {
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
    perfprof_tui::query::rows::partner::LEAST as usize - 1
}

fn report(path: &Path, more: &[&str]) -> String {
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
        assert_eq!(ipc("burn_gamma.constprop.0"), (None, None), "nine samples are too few");
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
    assert_eq!(order("ipc"), ("burn_alpha", "burn_beta", "burn_gamma"), "with the default keys");
    let csv = report(&path, &["--format", "csv", "--event", "cycles", "--no-children"]);
    assert!(csv.starts_with("self_pct,samples,period,ipc,sym\r\n50.0000,60,60000,0.1500,burn_alpha\r\n"), "{csv}");
    let alone = run(program().arg("report").arg(data("fp-spin.data")).args(["--format", "json", "-s", "sym"]));
    let alone: serde_json::Value = serde_json::from_slice(&alone.stdout).expect("json");
    assert!(alone["events"][0]["rows"][0].get("ipc").is_none(), "a recording of one event has no IPC");
}

/// The same events in another order, and one without samples: commands that use one event choose the same one.
#[test]
fn one_event_is_chosen_by_one_rule_and_paired_by_its_name() {
    let dir = tempfile::tempdir().expect("dir");
    let kind = has::ALWAYS | has::CALLCHAIN;
    let of = |name: &str, events: &[(&str, u64)], samples: &[(usize, usize)]| {
        let path = dir.path().join(name);
        let events: Vec<_> = events.iter().map(|(name, config)| event(name, *config, kind)).collect();
        let taken = |event| Taken { event, ip: ALPHA, period: 1, chain: vec![ALPHA, MAIN], ..Taken::default() };
        let samples: Vec<_> = samples.iter().flat_map(|(event, n)| std::iter::repeat_n(taken(*event), *n)).collect();
        write(&path, &events, &samples);
        path
    };
    // The first sample belongs to the second event.
    let old = of("old.data", &[("ref-cycles", 9), ("cycles:u", 0), ("branches", 4)], &[(2, 3), (1, 5)]);
    let new = of("new.data", &[("branches", 4), ("cycles", 0)], &[(0, 7), (1, 2)]);
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    let mut words = |args: &[&str], files: &[&PathBuf]| {
        let mut command = program();
        let out = transcript.add(command.args(args).args(files).arg("--symfs").arg(data("bin")));
        assert!(out.status.success(), "{args:?}");
        String::from_utf8(out.stdout).expect("text")
    };
    let folded = ["export", "--to", "folded", "-o", "-"];
    let weight = |text: String| text.trim_end().rsplit(' ').next().map(str::to_owned);
    assert_eq!(weight(words(&folded, &[&old])).as_deref(), Some("5"));
    assert_eq!(weight(words(&folded, &[&new])).as_deref(), Some("7"));
    // The heads of the tables name both sides' samples and events.
    let mut heads = String::new();
    for args in [&["diff"][..], &["diff", "--event", "branches"]] {
        let table = words(args, &[&old, &new]);
        heads.extend(table.lines().filter(|line| line.starts_with('#')).take(2).map(|line| format!("{line}\n")));
    }
    let csv = words(&["report", "--format", "csv", "-s", "sym", "--no-children"], &[&new]);
    let rows =
        ["event,self_pct,samples,period,sym", "branches,100.0000,7,7,burn_alpha", "cycles,100.0000,2,2,burn_alpha"];
    assert_eq!(csv.lines().collect::<Vec<_>>(), rows);
    let heads = heads.replace(&*dir.path().to_string_lossy(), "DIR");
    insta::assert_snapshot!("chosen-events", format!("{}{heads}", transcript.text()));
}

#[test]
fn the_table_and_the_flame_graph_show_instructions_a_cycle() {
    let dir = tempfile::tempdir().expect("dir");
    let path = two_events(&dir);
    let open = || Harness::open(&path.to_string_lossy(), "kallsyms", 120, 24);
    let table = open().text();
    insta::assert_snapshot!("ipc-120x24", table);
    // Two columns to the right of Self.
    let by_ipc = open().keys(">>").text();
    let column = by_ipc.split_whitespace().find(|word| word.starts_with("IPC")).map(|word| word.len() > 3);
    assert_eq!(column, Some(true), "the column has no mark of the order: {by_ipc}");
    assert_eq!(&*open().keys(">>").app.model.line().expect("a row").sym, "burn_alpha");
    insta::assert_snapshot!("ipc-flame-120x24", open().keys("2ei").text());
    assert_eq!(open().keys("2eiei").quiet().text(), open().keys("2").text());
    let lacks = Harness::open("fp-spin.data", "kallsyms", 120, 24).keys("2ei");
    assert_eq!(lacks.level(), Some(Level::Info));
    insta::assert_snapshot!("ipc-message", lacks.message().map_or("", |(_, text)| text));
}

/// The rows of a table, with `|` between fields.
fn rows(text: &str) -> Vec<Vec<String>> {
    let shown = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    shown.map(|line| line.split('|').map(|field| field.trim().to_owned()).collect()).collect()
}

/// perf's report of a file: rows with samples and the keys.
fn perfs(golden: &str, path: &Path, args: &[&str]) -> Vec<Vec<String>> {
    let golden = data("hardware").join(golden);
    if std::env::var_os("UPDATE_PERF").is_some() {
        let mut perf = std::process::Command::new("perf");
        perf.args(["report", "--stdio", "--no-children", "-g", "none", "-n", "-t", "|", "--symfs"]).arg(data("bin"));
        let text = String::from_utf8(run(perf.args(args).arg("-i").arg(path)).stdout).expect("text");
        let lines: Vec<String> = rows(&text).iter().map(|row| row.join("|") + "\n").collect();
        std::fs::write(&golden, lines.concat()).expect("written");
    }
    let mut list = rows(&std::fs::read_to_string(golden).expect("golden"));
    for row in &mut list {
        row.remove(0);
        // Symbols have their privilege level as prefix: `[.]`.
        row.iter_mut().for_each(|field| *field = field.split_once("] ").map_or(&**field, |(_, name)| name).to_owned());
    }
    list.sort();
    list
}

/// Our report in the same form.
fn ours(path: &Path, args: &[&str]) -> Vec<Vec<String>> {
    let output =
        run(program().arg("report").arg(path).args(args).args(["--format", "csv", "--symfs"]).arg(data("bin")));
    let text = String::from_utf8(output.stdout).expect("text");
    // Fields with a comma are quoted.
    let field = |(n, part): (usize, &str)| if n % 2 == 0 { part.replace(',', "|") } else { part.to_owned() };
    let text: String = text.split('"').enumerate().map(field).collect();
    let mut list: Vec<Vec<String>> = rows(&text).into_iter().skip(1).collect();
    for row in &mut list {
        row.remove(0);
        row.remove(1);
    }
    list.sort();
    list
}

/// Flags of `struct perf_branch_entry`.
fn flags(mispredicted: bool, in_transaction: bool, abort: bool, cycles: u64) -> u64 {
    u64::from(mispredicted)
        | u64::from(!mispredicted) << 1
        | u64::from(in_transaction) << 2
        | u64::from(abort) << 3
        | cycles << 4
}

fn branches(dir: &tempfile::TempDir, kind: u64) -> PathBuf {
    let path = dir.path().join("branches.data");
    let chain = |leaf: u64| vec![leaf, MIDDLE, MAIN];
    let taken = |ip: u64, branches: &[[u64; 3]]| Taken {
        ip,
        period: 1000,
        chain: chain(ip),
        branches: branches.to_vec(),
        ..Taken::default()
    };
    let one = taken(
        ALPHA,
        &[
            [MIDDLE, ALPHA, flags(false, false, false, 5)],
            [ALPHA + 8, ALPHA, flags(false, false, false, 2)],
            [MAIN, MIDDLE, flags(true, false, false, 9)],
        ],
    );
    let two = taken(
        BETA,
        &[[BETA + 4, BETA, flags(false, true, false, 0)], [GAMMA, BETA, flags(true, true, true, 0)], [0x1234, BETA, 0]],
    );
    let samples = [vec![one; 20], vec![two; 10]].concat();
    write(&path, &[event("cycles", 0, has::ALWAYS | has::BRANCH_STACK | kind)], &samples);
    path
}

#[test]
fn branches_are_rows_as_perf_has_them() {
    let dir = tempfile::tempdir().expect("dir");
    let path = branches(&dir, 0);
    let perf = perfs("branches.txt", &path, &[]);
    assert_eq!(perf.len(), 6);
    assert_eq!(ours(&path, &["-b"]), perf);
    // perf 6.1 crashes if such a key is first, so the expected rows come from the recording.
    let told = ours(&path, &["-b", "-s", "symbol_to,mispredict,in_tx,abort"]);
    let want: [[&str; 5]; 5] = [
        ["10", "burn_beta.constprop.0", "N", "T", "."],
        ["10", "burn_beta.constprop.0", "N/A", ".", "."],
        ["10", "burn_beta.constprop.0", "Y", "T", "A"],
        ["20", "middle_one", "Y", ".", "."],
        ["40", "burn_alpha", "N", ".", "."],
    ];
    assert_eq!(told, want);
    let json = run(program().arg("report").arg(&path).args([
        "-b",
        "-s",
        "dso_from,cycles",
        "--format",
        "json",
        "--limit",
        "1",
    ]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("json");
    let event = &json["events"][0];
    assert_eq!((event["samples"].as_u64(), event["rows"][0]["cycles"].as_str()), (Some(90), Some("-")));
    let lines = ["-s", "sym,srcline_from,srcline_to"];
    assert_eq!(ours(&path, &lines), perfs("branch_lines.txt", &path, &lines));
    // perf truncates long names.
    let told = ours(&path, &["-s", "addr_from,addr_to"]);
    let want: [[&str; 3]; 6] = [
        ["10", "0x0000000000001234", "burn_beta.constprop.0+0x10"],
        ["10", "burn_beta.constprop.0+0x14", "burn_beta.constprop.0+0x10"],
        ["10", "burn_gamma.constprop.0+0x10", "burn_beta.constprop.0+0x10"],
        ["20", "burn_alpha+0x18", "burn_alpha+0x10"],
        ["20", "main+0x10", "middle_one+0x8"],
        ["20", "middle_one+0x8", "burn_alpha+0x10"],
    ];
    assert_eq!(told, want);
    // A filter selects samples, with all of their branches.
    assert_eq!(ours(&path, &["-b", "-s", "symbol_from", "--where", "sym == burn_alpha"]).len(), 3);
}

/// A branch's weight is the cycle count of the sample's newest branch, or one; other fields are those of the sample.
#[test]
fn branches_have_what_samples_of_any_kind_have_as_perf_has_it() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("branches_in_full.data");
    let taken = |ip: u64, latency: u64, transaction: u64, code_page: u64, branches: &[[u64; 3]]| {
        let chain = vec![ip, MIDDLE, MAIN];
        let branches = branches.to_vec();
        Taken {
            ip,
            period: 1000,
            chain,
            branches,
            weight: 77 | latency << 32,
            transaction,
            code_page,
            ..Taken::default()
        }
    };
    let cost = |cycles: u64| flags(false, false, false, cycles);
    let one =
        taken(ALPHA, 9, 0x15, 4096, &[[MIDDLE, ALPHA, cost(5)], [ALPHA + 8, ALPHA, cost(0)], [MAIN, MIDDLE, cost(5)]]);
    let two = taken(BETA, 0, 0, 2 << 20, &[[BETA + 4, BETA, cost(300)], [GAMMA, BETA, cost(5)]]);
    let three = taken(BETA, 0, 0, 4096, &[[GAMMA, BETA, cost(0)], [BETA + 4, BETA, cost(5)]]);
    let kind = has::ALWAYS | has::BRANCH_STACK | has::WEIGHT_STRUCT | has::TRANSACTION | has::CODE_PAGE_SIZE;
    write(&path, &[event("cycles", 0, kind)], &[vec![one; 20], vec![two; 10], vec![three; 5]].concat());
    for (golden, keys) in [
        ("branch_weights.txt", "comm,weight,local_weight"),
        ("branch_latencies.txt", "sym,ins_lat,local_ins_lat"),
        ("branch_pages.txt", "sym,code_page_size,transaction"),
    ] {
        let mut perf = perfs(golden, &path, &["-s", keys]);
        for row in &mut perf {
            row.retain(|field| !field.starts_with("-  "));
        }
        perf.sort();
        assert!(perf.len() > 2, "{keys}: {perf:?}");
        assert_eq!(ours(&path, &["-b", "-s", keys]), perf, "{keys}");
        assert_eq!(ours(&path, &["-s", keys]), perf, "{keys}, of a recording that is of branches");
    }
}

#[test]
fn a_recording_of_branches_is_shown_by_them() {
    let dir = tempfile::tempdir().expect("dir");
    let path = branches(&dir, has::CALLCHAIN);
    let perf = perfs("branches.txt", &path, &[]);
    assert_eq!(ours(&path, &[]), perf);
    assert_eq!(ours(&path, &["--no-branch-stack", "-b"]), perf, "the last option wins");
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    let of_branches = transcript.add(program().arg("report").arg(&path)).stdout;
    insta::assert_snapshot!("table-of-branches", transcript.text());
    // Options of function tables select a table of functions: its JSON has no branches.
    let json = |file: &Path, options: &[&str]| {
        let text = run(program().arg("report").arg(file).args(options).args(["--format", "json"])).stdout;
        serde_json::from_slice::<serde_json::Value>(&text).expect("json")["events"][0]["samples"].as_u64()
    };
    for options in
        [&["--no-branch-stack"][..], &["--children"], &["-g", "caller"], &["-s", "sym,srcline"], &["-F", "sym"]]
    {
        assert_eq!((json(&path, options), json(&path, &[])), (Some(30), Some(90)), "{options:?}");
        let text = run(program().arg("report").arg(&path).args(options)).stdout;
        assert_ne!(text, of_branches, "{options:?}");
    }
    // Branches that were recorded only for call chains do not select a table of branches.
    let plain = dir.path().join("plain.data");
    let kind = has::ALWAYS | has::CALLCHAIN;
    let sample = Taken { ip: ALPHA, period: 1000, chain: vec![ALPHA, MIDDLE, MAIN], ..Taken::default() };
    write(&plain, &[event("cycles", 0, kind)], &[sample]);
    let text = run(program().arg("report").arg(&plain)).stdout;
    assert_eq!(text, run(program().arg("report").arg(&plain).arg("--no-branch-stack")).stdout);
}

/// `script` prints branches and accesses like perf, line by line.
#[test]
fn script_prints_branches_and_accesses_as_perf_does() {
    needs!(installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    let branches = branches(&dir, 0);
    let accesses = accesses(&dir).0;
    let lines = [
        (&branches, "-F +brstack"),
        (&branches, "-F +brstacksym"),
        (&branches, "-F +brstacksym,-dso"),
        (&branches, "-F comm,brstack"),
        (&branches, "-D"),
        (&accesses, "-F +addr,+data_src,+weight"),
        (&accesses, "-F comm,tid,ip,sym,weight"),
        (&accesses, "-D"),
    ];
    for (file, options) in lines {
        let text = |mut command: Command| {
            command.args(["script", "-f", "--no-inline", "-i"]).arg(file).arg("--symfs").arg(data("bin"));
            let out = command.args(options.split(' ')).output().expect("runs").stdout;
            String::from_utf8_lossy(&out).into_owned()
        };
        let (ours, theirs) = (text(program()), text(Command::new("perf")));
        // perf limits the length of the text about memory, and truncates it.
        let cut = |line: &'_ str| line.split("|LCK").next().unwrap_or_default().to_owned();
        for (i, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(cut(a), cut(b), "{options}, line {}", i + 1);
        }
        assert!(ours.lines().count() == theirs.lines().count() && ours.lines().count() > 10, "{options}");
    }
}

#[test]
fn branches_begin_call_chains() {
    let dir = tempfile::tempdir().expect("dir");
    let path = branches(&dir, has::CALLCHAIN);
    let json = |more: &[&str]| -> serde_json::Value {
        let output = run(program()
            .arg("report")
            .arg(&path)
            .args(["-s", "sym", "--format", "json", "--symfs"])
            .arg(data("bin"))
            .args(more));
        serde_json::from_slice(&output.stdout).expect("json")
    };
    let children = |json: &serde_json::Value, sym: &str| {
        let rows = json["events"][0]["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["sym"] == sym).map(|row| (row["self_pct"].as_f64(), row["children_pct"].as_f64()))
    };
    let history = json(&["--branch-history"]);
    // From `perf report --branch-history` of the same file.
    let third = (Some(0.0), Some(33.3333));
    for (sym, want) in [
        ("main", (Some(0.0), Some(100.0))),
        ("burn_alpha", (Some(66.6667), Some(66.6667))),
        ("burn_beta.constprop.0", (Some(33.3333), Some(33.3333))),
        ("burn_gamma.constprop.0", third),
        ("0x0000000000001234", third),
    ] {
        assert_eq!(children(&history, sym), Some(want), "{sym}");
    }
    let without = json(&["--no-branch-stack"]);
    assert_eq!(children(&without, "burn_gamma.constprop.0"), None, "without branches, the function is unknown");
}

/// Builds a `union perf_mem_data_src` from values and their bit offsets.
fn source(parts: &[(u64, u32)]) -> u64 {
    parts.iter().fold(2, |word, (value, at)| word | value << at)
}

/// Memory accesses of all kinds, and the number of kinds.
fn accesses(dir: &tempfile::TempDir) -> (PathBuf, usize) {
    let path = dir.path().join("memory.data");
    const LEVEL: u32 = 5;
    const SNOOP: u32 = 19;
    const LOCK: u32 = 24;
    const TLB: u32 = 26;
    const NUMBER: u32 = 33;
    const REMOTE: u32 = 37;
    const MORE: u32 = 38;
    const BLOCK: u32 = 40;
    const HOPS: u32 = 43;
    let l1 = source(&[(2 | 8, LEVEL), (2, SNOOP), (1, LOCK), (2 | 8, TLB), (1, NUMBER)]);
    let list = [
        (ALPHA, DATA + 0x28, 7, l1),
        (ALPHA, DATA + 0x20, 300, source(&[(2 | 0x80, LEVEL), (2, SNOOP), (1, LOCK), (4 | 0x20, TLB), (0xd, NUMBER)])),
        (
            BETA,
            0x7fff_1234_5678,
            12,
            source(&[(4 | 0x10, LEVEL), (12, SNOOP), (2, LOCK), (1, TLB), (0xc, NUMBER), (1, REMOTE), (2, BLOCK)]),
        ),
        (BETA, DATA, 0, source(&[(2 | 0x40, LEVEL), (16, SNOOP), (1, LOCK), (2 | 16, TLB), (1, MORE), (4, BLOCK)])),
        (GAMMA, 0, 9, 0),
        (
            GAMMA,
            DATA + 0x20,
            9,
            source(&[(1, LEVEL), (1, SNOOP), (1, TLB), (1, BLOCK), (1, HOPS), (1, REMOTE), (3, NUMBER)]),
        ),
        (GAMMA, ALPHA, 9, source(&[(2 | 0x200, LEVEL), (2, HOPS), (1, REMOTE), (0xb, NUMBER), (6, BLOCK), (2, MORE)])),
        (GAMMA, DATA, 5, source(&[(2 | 0x3000, LEVEL), (8, SNOOP), (2 | 0x58, TLB), (7, NUMBER)])),
    ];
    let taken = |(ip, addr, weight, data_src): (u64, u64, u64, u64)| Taken {
        ip,
        addr,
        weight,
        data_src,
        period: 1000,
        ..Taken::default()
    };
    let samples: Vec<Taken> = list.iter().enumerate().flat_map(|(n, one)| vec![taken(*one); n + 1]).collect();
    let kind = has::ALWAYS | has::ADDR | has::WEIGHT | has::DATA_SRC;
    write(&path, &[event("mem-loads", 0x1cd, kind)], &samples);
    (path, list.len())
}

#[test]
fn accesses_to_memory_are_rows_as_perf_has_them() {
    let dir = tempfile::tempdir().expect("dir");
    let (path, kinds) = accesses(&dir);
    let mut perf = perfs("accesses.txt", &path, &["--mem-mode"]);
    // perf writes 0 without 0x.
    perf.iter_mut()
        .flatten()
        .filter(|field| **field == "0000000000000000")
        .for_each(|field| *field = format!("0x{field}"));
    assert_eq!(perf.len(), kinds);
    assert_eq!(ours(&path, &["--mem-mode"]), {
        perf.sort();
        perf
    });
    let output = run(program().arg("report").arg(&path).args(["--mem-mode", "-s", "symbol_daddr", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(json["events"][0]["period"].as_u64(), Some(849), "accesses are not weighted by latency");
}

/// Memory accesses with all fields: latency, physical address, page sizes.
fn told_in_full(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("full.data");
    let list = [
        (ALPHA, DATA + 0x28, 7 | 9 << 32, 0x1234_5678, 4096, 4096),
        (ALPHA, DATA + 0x20, 300 | 9 << 32, 0x1234, 2 << 20, 4096),
        (BETA, 0x7fff_1234_5678, 12, 0, 0, 0),
        (BETA, DATA, 0, 0xffff, 1 << 30, 2 << 20),
        (GAMMA, DATA + 0x60, 7, 0x40, 1 << 16, 4096),
    ];
    let taken = |(ip, addr, weight, phys_addr, data_page, code_page)| {
        let data_src = source(&[(2 | 8, 5), (2, 19), (1, 24), (2 | 8, 26), (1, 33)]);
        Taken { ip, addr, weight, data_src, phys_addr, data_page, code_page, period: 1000, ..Taken::default() }
    };
    let samples: Vec<Taken> = list.iter().enumerate().flat_map(|(n, one)| vec![taken(*one); n + 1]).collect();
    let pages = has::PHYS_ADDR | has::DATA_PAGE_SIZE | has::CODE_PAGE_SIZE;
    let kind = has::ALWAYS | has::ADDR | has::WEIGHT_STRUCT | has::DATA_SRC | pages;
    write(&path, &[event("mem-loads", 0x1cd, kind)], &samples);
    path
}

#[test]
fn costs_pages_and_lines_of_accesses_are_rows_as_perf_has_them() {
    let dir = tempfile::tempdir().expect("dir");
    let path = told_in_full(&dir);
    for (golden, options) in [
        ("weights.txt", &["-s", "weight,sym"][..]),
        ("local_weights.txt", &["-s", "local_weight,sym"]),
        ("latencies.txt", &["-s", "ins_lat,sym"]),
        ("local_latencies.txt", &["-s", "local_ins_lat,sym"]),
        ("code_pages.txt", &["-s", "code_page_size"]),
        ("pages.txt", &["--mem-mode", "-s", "phys_daddr,data_page_size,code_page_size,symbol_iaddr"]),
        ("costs.txt", &["--mem-mode", "-s", "weight,ins_lat,local_weight"]),
    ] {
        let mut perf = perfs(golden, &path, options);
        // perf writes 0 without 0x, and has an additional column after symbols.
        for row in &mut perf {
            row.iter_mut().filter(|field| **field == "0".repeat(16)).for_each(|field| field.insert_str(0, "0x"));
            row.retain(|field| !field.starts_with("-  "));
        }
        perf.sort();
        assert_eq!(ours(&path, options), perf, "{options:?}");
    }
    // perf 6.1 computes the offset in an object from its file offset instead of its address, so its cache lines of
    // objects are wrong; the lines below are the expected ones.
    let lines = ours(&path, &["--mem-mode", "-s", "dcacheline"]);
    let perf = perfs("cache_lines.txt", &path, &["--mem-mode", "-s", "dcacheline"]);
    let counts = |rows: &[Vec<String>]| rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    assert_eq!(counts(&lines), counts(&perf));
    let want = [["3", "0x00007fff12345640"], ["5", "0x0000555555554040"], ["7", "_GLOBAL_OFFSET_TABLE_+0x18"]];
    assert_eq!(lines, want);
}

#[test]
fn transactions_are_rows_as_perf_has_them() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("transactions.data");
    let words = [0, 0x15, 0xab << 32 | 0xea, 0xab << 32 | 1, 0x14, 0x3f, 7 << 32];
    let taken = |(n, word): (usize, &u64)| {
        vec![Taken { ip: ALPHA, period: 1000, weight: n as u64, transaction: *word, ..Taken::default() }; n + 1]
    };
    let samples: Vec<Taken> = words.iter().enumerate().flat_map(taken).collect();
    write(&path, &[event("cycles", 0, has::ALWAYS | has::WEIGHT | has::TRANSACTION)], &samples);
    let keys = ["-s", "transaction,local_weight,sym"];
    let perf = perfs("transactions.txt", &path, &keys);
    assert_eq!(perf.len(), words.len());
    assert_eq!(ours(&path, &keys), perf);
}

#[test]
fn what_samples_do_not_tell_is_refused() {
    let mut transcript = Transcript::new();
    for args in [
        &["-b"][..],
        &["--mem-mode"],
        &["-b", "--mem-mode"],
        &["-s", "mem"],
        &["-b", "-s", "tlb"],
        &["-s", "transaction,cycles"],
        &["--no-branch-stack", "-s", "transaction,cycles"],
        &["-s", "symbol_from"],
        &["-s", "dcacheline"],
        &["-s", "code_page_size"],
        &["-s", "p_stage_cyc"],
        &["-b", "-s", "nope"],
    ] {
        let output = transcript.add(program().arg("report").arg(data("fp-spin.data")).args(args));
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    insta::assert_snapshot!("refused", transcript.text());
}
