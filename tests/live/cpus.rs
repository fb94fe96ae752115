//! CPU and softirq figures of the running machine, compared with other tools.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::process::{PATIENCE, Stops};
use crate::common::{allowed, installed, program, run};

fn json(args: &[&str]) -> Vec<serde_json::Value> {
    let out = run(program().arg("cpus").args(["--format", "json"]).args(args));
    let text = String::from_utf8(out.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Our figures and those of mpstat over the same seconds.
///
/// Both read /proc/stat at slightly different times, so under a changing load they may differ once by the seconds that
/// only one of them saw, but not repeatedly.
#[test]
fn shares_are_those_of_mpstat() {
    needs!(installed("mpstat"));
    let differ: Vec<String> = (0..5).map_while(|_| beside_mpstat().err()).collect();
    assert!(differ.len() < 5, "{differ:?}");
}

/// Returns the difference from mpstat over three seconds, if any.
fn beside_mpstat() -> Result<(), String> {
    let mpstat = Command::new("mpstat").args(["-P", "ALL", "-o", "JSON", "1", "3"]).stdout(Stdio::piped()).spawn();
    let mpstat = mpstat.expect("mpstat");
    let ours = json(&["-n", "3"]);
    let out = mpstat.wait_with_output().expect("mpstat");
    let theirs: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let intervals = theirs["sysstat"]["hosts"][0]["statistics"].as_array().expect("intervals");
    assert_eq!(ours.len(), 3);
    let mean = |list: &[&serde_json::Value], name: &str| {
        list.iter().map(|v| v[name].as_f64().expect("number")).sum::<f64>() / list.len() as f64
    };
    let of_cpu = |list: Vec<&serde_json::Value>, key: &str| -> Vec<serde_json::Value> {
        list.into_iter().map(|v| v[key].clone()).collect()
    };
    let one = of_cpu(ours.iter().collect(), "cpus");
    let two = of_cpu(intervals.iter().collect(), "cpu-load");
    for (at, row) in one[0].as_array().expect("CPUs").iter().enumerate() {
        let cpu = row["cpu"].as_u64().expect("number").to_string();
        let mine: Vec<_> = one.iter().map(|list| &list[at]).collect();
        let other: Vec<_> = two
            .iter()
            .map(|list| list.as_array().expect("CPUs").iter().find(|v| v["cpu"] == *cpu).expect("the same CPU"))
            .collect();
        for (ours, theirs) in
            [("user", "usr"), ("system", "sys"), ("softirq", "soft"), ("steal", "steal"), ("idle", "idle")]
        {
            let (a, b) = (mean(&mine, ours), mean(&other, theirs));
            if (a - b).abs() >= 15.0 {
                return Err(format!("CPU {cpu} {ours}: {a} and {b}"));
            }
        }
    }
    Ok(())
}

#[test]
fn the_time_in_softirqs_is_measured_live() {
    needs!(allowed());
    let lines = json(&["-i", "0.5", "-n", "3", "--softirq-time"]);
    let last = &lines[2]["cpus"];
    let timer = |cpu: &serde_json::Value| cpu["time_timer"].as_f64().unwrap_or(-1.0);
    for cpu in last.as_array().expect("CPUs") {
        assert!((0.0..100.0).contains(&timer(cpu)), "{cpu}");
    }
    let sum: f64 =
        last.as_array().expect("CPUs").iter().map(|c| timer(c) + c["time_sched"].as_f64().unwrap_or(0.0)).sum();
    assert!(sum > 0.0, "no softirq in half a second: {last}");
}

/// Runs a command until a line has the wanted value.
fn said_by<T>(args: &[&str], pick: impl Fn(&str) -> Option<T>) -> T {
    let mut child = program().arg("cpus").args(args).stdout(Stdio::piped()).spawn().expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let (begun, mut last) = (Instant::now(), String::new());
    let mut lines = lines.take_while(|_| begun.elapsed() < PATIENCE).inspect(|line| last.clone_from(line));
    let found = lines.find_map(|line| pick(&line));
    drop(lines);
    let _ = child.kill().and_then(|()| child.wait().map(drop));
    found.unwrap_or_else(|| panic!("not found: {last}"))
}

/// Packets that one CPU sends to itself: text and JSON output name the softirq vector and the function, and no keys.
#[test]
fn a_softirq_is_named_where_there_is_no_screen() {
    needs!(allowed());
    let cpu = *perfprof_tui::kernel::cpus::online().expect("CPUs").last().expect("a CPU");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut own = rustix::thread::CpuSet::new();
            own.set(cpu as usize);
            rustix::thread::sched_setaffinity(None, &own).expect("pinned");
            let (from, to) = ["127.0.0.1:0"; 2].map(|at| UdpSocket::bind(at).expect("a socket")).into();
            from.connect(to.local_addr().expect("an address")).expect("connected");
            while !stop.load(Ordering::Relaxed) {
                let _ = from.send(&[0; 1000]);
            }
        });
        let _stops = Stops(&stop);
        let found = said_by(&["-i", "0.5", "--threshold", "1", "--format", "json"], |line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let is_it = |finding: &&serde_json::Value| {
                finding["cpu"] == cpu && finding["vector"] == "NET_RX" && finding["function"].is_string()
            };
            line["findings"].as_array().expect("findings").iter().find(is_it).cloned()
        });
        let head = format!("! CPU {cpu} softirq");
        let told = said_by(&["-i", "0.5", "--threshold", "1", "--softirq-time"], |line| {
            (line.starts_with(&head) && line.contains("; NET_RX (")).then(|| line.to_owned())
        });
        let words = format!("NET_RX ({})", found["function"].as_str().expect("a name"));
        assert!(found["text"].as_str().is_some_and(|text| text.contains(&words)), "{found}");
        assert!(!found["advice"].as_str().is_some_and(|advice| advice.contains("Enter")), "{found}");
        assert!(!told.contains("--softirq-time") && !told.contains("Enter"), "{told}");
    });
}

#[test]
fn formats_and_faults_of_the_command() {
    let out = run(program().args(["cpus", "-i", "0.2", "-n", "2", "--format", "csv", "-C", "0"]));
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(text.starts_with("time,cpu,user,nice,system,"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    for args in [
        &["-C", "60000"][..],
        &["-C", "x"],
        &["-i", "0"],
        &["-i", "nan"],
        &["--threshold", "0"],
        &["--threshold", "nan"],
    ] {
        let out = program().arg("cpus").args(args).output().expect("runs");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(!out.stderr.is_empty());
    }
}
