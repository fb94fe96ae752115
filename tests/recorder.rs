//! The flight recorder on the running kernel: what is kept, and what triggers save by themselves.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{allowed, program, run, skipped};
use perfprof_tui::engine::{Engine, Options, Wants};
use perfprof_tui::event::parse;
use perfprof_tui::event::spec::{Places, Rate};
use perfprof_tui::kernel::limits::Rights;
use perfprof_tui::kernel::sys::RealSys;
use perfprof_tui::query::Answer;
use perfprof_tui::source::live::attr::Exclude;
use perfprof_tui::source::live::{Config, LiveSource, Target};
use perfprof_tui::symbols::resolver;

/// A system call that nothing makes by the thousand but these tests.
const HIT: &str = "syscalls:sys_enter_getppid";

fn may(test: &str) -> bool {
    if !allowed(test) {
        return false;
    }
    let known = parse(HIT, &Places::system()).is_ok();
    if !known {
        skipped(test, "this kernel has no syscall tracepoints");
    }
    known
}

/// Makes the call so many times a second for some time.
fn calls(a_second: u32, time: Duration) -> u64 {
    let (start, pause) = (Instant::now(), Duration::from_secs(1) / a_second);
    let mut made = 0;
    while start.elapsed() < time {
        let next = start + pause * made as u32;
        while Instant::now() < next {}
        let _ = rustix::process::getppid();
        made += 1;
    }
    made
}

/// What is older than is to be kept goes, and nothing that is newer.
#[test]
fn the_last_seconds_are_kept_whole() {
    if !may("the_last_seconds_are_kept_whole") {
        return;
    }
    const KEEP: u64 = 1_000_000_000;
    let config = Config {
        events: parse(HIT, &Places::system()).expect("known"),
        rate: Rate::Frequency(99),
        chains: perfprof_tui::event::CallGraph::None,
        cgroups: false,
        exclude: Exclude::default(),
        inherit: false,
        pages: Some(1024),
        delay: Duration::ZERO,
        target: Target::Threads(vec![rustix::thread::gettid().as_raw_nonzero().get()]),
        cpus: None,
        command: None,
        force: true,
    };
    let source = LiveSource::start(config, Box::new(RealSys), Rights::read()).expect("opens");
    let options = Options {
        no_inline: true,
        symbols: resolver::Options::live(),
        memory: 256 << 20,
        keep: Some(KEEP),
        watched: None,
        own_pid: None,
        wants: Wants::default(),
        refresh: Duration::from_millis(50),
        per_sample: None,
    };
    let engine = Engine::spawn(Box::new(source), options).expect("spawns");
    // 30,000 a second: a chunk is half a second.
    let made = calls(30_000, Duration::from_secs(4));
    let until = Instant::now() + Duration::from_secs(20);
    // The kernel counts as well.
    let counted = |answer: &Answer| answer.events[0].meter.as_ref().map_or(0, |meter| meter.count);
    let seen = |answer: &Answer| answer.ledger.received + answer.ledger.lost;
    while Instant::now() < until {
        let answer = engine.answer();
        if counted(&answer) > made / 10 * 9 && counted(&answer) == seen(&answer) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = engine.answer();
    let ledger = &answer.ledger;
    assert_eq!(seen(&answer), counted(&answer));
    assert!(counted(&answer) > made / 10 * 9);
    assert!(ledger.evicted > 0, "four seconds are more than are kept");
    assert_eq!(answer.unfiltered.samples, ledger.received - ledger.evicted);
    let newest = answer.timeline.counts.len() as u64 * answer.timeline.length;
    assert!(answer.kept_from + KEEP <= newest, "{} of {newest}: newer than the horizon is gone", answer.kept_from);
    assert!(answer.kept_from > 0, "the header says how far back it reaches");
    // The strip of time still has all.
    assert_eq!(answer.timeline.counts.iter().map(|n| u64::from(*n)).sum::<u64>(), ledger.received);
    engine.stop();
}

fn service(dir: &Path, more: &[&str]) -> Child {
    program()
        .args(["record", "--trigger", "syscalls:sys_enter_getppid > 1k", "--trigger-span", "20s,1s", "-F", "99"])
        .arg("--trigger-dir")
        .arg(dir)
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(dir).expect("readable").flatten().map(|e| e.path()).collect();
    list.sort();
    list
}

/// Calls in bursts until so many snapshots are there, and the service's words after its end.
fn bursts(mut child: Child, dir: &Path, wanted: usize) -> String {
    let until = Instant::now() + Duration::from_secs(40);
    while snapshots(dir).iter().filter(|p| p.extension().is_some_and(|e| e == "data")).count() < wanted {
        assert!(Instant::now() < until, "no snapshot: {:?}", snapshots(dir));
        calls(20_000, Duration::from_millis(500));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signalled");
    let mut words = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut words).expect("read");
    child.wait().expect("ends");
    words
}

/// A burst saves what came before it, by itself: perf opens the file, and it says what fired and when.
#[test]
fn a_burst_is_saved_by_a_trigger() {
    if !may("a_burst_is_saved_by_a_trigger") {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let shelf = dir.path().join("shelf");
    std::fs::create_dir(&shelf).expect("mkdir");
    let words = bursts(service(&shelf, &[]), &shelf, 1);
    assert!(words.contains("waiting for `syscalls:sys_enter_getppid > 1k`"), "{words}");
    assert!(words.contains("trigger: syscalls:sys_enter_getppid ") && words.contains(": saved "), "{words}");
    let file = &snapshots(&shelf)[0];
    let name = file.file_name().expect("named").to_string_lossy().into_owned();
    assert!(name.starts_with("perfprof-trigger-") && name.ends_with(".data"), "{name}");
    let head = run(program().args(["report", "--header"]).arg(file));
    let head = String::from_utf8_lossy(&head.stdout).into_owned();
    assert!(head.contains("trigger: syscalls:sys_enter_getppid "), "{head}");
    let report = run(program().args(["report", "--format", "json"]).arg(file));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("json");
    // What a trigger counts is counted, not sampled.
    let of_calls = |e: &&serde_json::Value| e["name"].as_str().is_some_and(|name| name.starts_with(HIT));
    let calls = report["events"].as_array().expect("events").iter().find(of_calls);
    assert!(calls.is_none_or(|e| e["samples"] == 0), "{calls:?}");
    match Command::new("perf").args(["report", "--stdio", "-i"]).arg(file).stdin(Stdio::null()).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => skipped("a_burst_is_saved_by_a_trigger", "perf is not here to open the file"),
    }
}

/// No more are saved than there may be, and none within the pause.
#[test]
fn triggers_have_limits() {
    if !may("triggers_have_limits") {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let shelf = dir.path().join("shelf");
    let child = service(&shelf, &["--trigger-max", "1", "--trigger-pause", "2s"]);
    while !shelf.is_dir() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The burst goes on long enough for a second one to fire.
    let words = {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            while stopped.try_recv().is_err() {
                calls(20_000, Duration::from_millis(100));
            }
        });
        std::thread::sleep(Duration::from_secs(7));
        let words = bursts(child, &shelf, 1);
        stop.send(()).expect("heard");
        busy.join().expect("ends");
        words
    };
    assert_eq!(snapshots(&shelf).len(), 1, "{words}");
    assert!(words.contains("not saved") && words.contains("(--trigger-max)"), "{words}");
    let fired = words.matches("trigger: ").count();
    assert!((2..=6).contains(&fired), "{fired} in some nine seconds: {words}");
}

#[test]
fn wrong_conditions_are_refused_before_anything_is_opened() {
    for (option, value, why) in [
        ("--trigger", "softirq > 3", "is not known: busy%"),
        ("--trigger", "nosuch:event > 3", "nosuch"),
        ("--keep", "soon", "expected a time"),
    ] {
        let mut command = program();
        command.args(["record", option, value, "--", "true"]);
        let output = command.output().expect("runs");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && words.contains(why), "{option} {value}: {words}");
    }
}
