//! The flight recorder on the running kernel: retention and snapshots by triggers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{allowed, program, run, skipped};
use perfprof_tui::engine::{Engine, IntakeOptions, Options};
use perfprof_tui::event::parse;
use perfprof_tui::event::spec::{LookupPaths, Rate};
use perfprof_tui::kernel::limits::Rights;
use perfprof_tui::kernel::sys::RealSys;
use perfprof_tui::query::Answer;
use perfprof_tui::source::live::attr::Exclude;
use perfprof_tui::source::live::{LiveConfig, LiveSource, Target};
use perfprof_tui::symbols::SymbolOptions;

/// A system call that only these tests make in large numbers.
const HIT: &str = "syscalls:sys_enter_getpriority";

/// A generous timeout; a passing test does not wait for it.
const WATCHDOG: Duration = Duration::from_secs(180);

fn may() -> bool {
    if !allowed() {
        return false;
    }
    let known = parse(HIT, &LookupPaths::system()).is_ok();
    if !known {
        skipped("this kernel has no syscall tracepoints");
    }
    known
}

/// Makes the call a number of times, at this rate or, on a slow machine, at a lower one.
fn calls(a_second: u32, number: u32) {
    let (start, pause) = (Instant::now(), Duration::from_secs(1) / a_second);
    for made in 0..number {
        let next = start + pause * made;
        while Instant::now() < next {}
        let _ = rustix::process::getpriority_process(None);
    }
}

/// Samples older than the horizon are evicted, newer ones stay.
#[test]
fn the_last_seconds_are_kept_whole() {
    needs!(may());
    const KEEP: u64 = 1_000_000_000;
    let config = LiveConfig {
        extras: Default::default(),
        events: parse(HIT, &LookupPaths::system()).expect("known"),
        rate: Rate::Frequency(99),
        chains: perfprof_tui::event::CallGraph::None,
        walks_later: false,
        cgroups: false,
        exclude: Exclude::default(),
        inherit: false,
        pages: Some(1024),
        delay: Duration::ZERO,
        target: Target::Threads(vec![rustix::thread::gettid().as_raw_nonzero().get()]),
        cpus: None,
        command: None,
        force: true,
        tables: 64 << 20,
        interpreters: Default::default(),
        off_cpu_time: false,
    };
    let source = LiveSource::start(config, Box::new(RealSys), Rights::read()).expect("opens");
    let options = Options {
        no_inline: true,
        symbols: SymbolOptions::live(),
        memory: 256 << 20,
        keep: Some(KEEP),
        watched: None,
        own_pid: None,
        wants: IntakeOptions::default(),
        refresh: Duration::from_millis(50),
        per_sample: None,
        realtime: None,
    };
    let engine = Engine::spawn(Box::new(source), options).expect("spawns");
    // 30,000 per second: a chunk is half a second.
    let made = 90_000;
    calls(30_000, made);
    let made = u64::from(made);
    let until = Instant::now() + WATCHDOG;
    // The kernel's counter includes the lost samples.
    let counted = |answer: &Answer| answer.events[0].meter.as_ref().map_or(0, |meter| meter.count);
    let seen = |answer: &Answer| answer.ledger.received + answer.ledger.lost();
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
    assert!(ledger.evicted > 0, "nothing was evicted in three seconds");
    assert_eq!(answer.unfiltered.samples, ledger.received - ledger.evicted);
    let newest = answer.timeline.counts.len() as u64 * answer.timeline.length;
    assert!(
        answer.kept_from + KEEP <= newest,
        "{} of {newest}: samples newer than the horizon are gone",
        answer.kept_from
    );
    assert!(answer.kept_from > 0, "the header shows no start of the kept samples");
    // The timeline still includes evicted samples.
    assert_eq!(answer.timeline.counts.iter().map(|n| u64::from(*n)).sum::<u64>(), ledger.received);
    engine.stop();
}

/// The recorder as a service, and its output.
struct Service {
    child: Child,
    words: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    start: Instant,
}

impl Service {
    fn start(dir: &Path, more: &[&str]) -> Self {
        let start = Instant::now();
        let mut child = program()
            .args([
                "record",
                "--trigger",
                "syscalls:sys_enter_getpriority > 1k",
                "--trigger-span",
                "20s,1s",
                "-F",
                "99",
            ])
            .arg("--trigger-dir")
            .arg(dir)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let words = Arc::<Mutex<String>>::default();
        let said = words.clone();
        let reader = Some(std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| *said.lock().expect("lock") += &(line + "\n"));
        }));
        Self { child, words, reader, start }
    }

    /// Makes the calls until the output contains a text, then ends the service; returns the output and run time.
    fn burst_until(mut self, what: &str) -> (String, Duration) {
        let said = || self.words.lock().expect("lock").clone();
        while !said().contains(what) {
            assert!(self.start.elapsed() < WATCHDOG, "never {what:?}: {}", said());
            calls(20_000, 10_000);
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signalled");
        self.reader.take().expect("runs").join().expect("ends");
        self.child.wait().expect("ends");
        let words = self.words.lock().expect("lock").clone();
        (words, self.start.elapsed())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(dir).expect("readable").flatten().map(|e| e.path()).collect();
    list.sort();
    list
}

/// A burst triggers a snapshot of the time before it: perf opens the file, and the message names trigger and time.
#[test]
fn a_burst_is_saved_by_a_trigger() {
    needs!(may());
    let dir = tempfile::tempdir().expect("dir");
    let shelf = dir.path().join("shelf");
    let (words, _) = Service::start(&shelf, &[]).burst_until(": saved ");
    assert!(words.contains("waiting for `syscalls:sys_enter_getpriority > 1k`"), "{words}");
    assert!(words.contains("trigger: syscalls:sys_enter_getpriority ") && words.contains(": saved "), "{words}");
    let file = &snapshots(&shelf)[0];
    let name = file.file_name().expect("named").to_string_lossy().into_owned();
    assert!(name.starts_with("perfprof-trigger-") && name.ends_with(".data"), "{name}");
    let head = run(program().args(["report", "--header"]).arg(file));
    let head = String::from_utf8_lossy(&head.stdout).into_owned();
    assert!(head.contains("trigger: syscalls:sys_enter_getpriority "), "{head}");
    let report = run(program().args(["report", "--format", "json"]).arg(file));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("json");
    // A trigger's event is counted, not sampled.
    let of_calls = |e: &&serde_json::Value| e["name"].as_str().is_some_and(|name| name.starts_with(HIT));
    let calls = report["events"].as_array().expect("events").iter().find(of_calls);
    assert!(calls.is_none_or(|e| e["samples"] == 0), "{calls:?}");
    match Command::new("perf").args(["report", "--stdio", "-i"]).arg(file).stdin(Stdio::null()).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => skipped("perf is not installed"),
    }
}

/// Snapshots are limited in number, and a pause separates them.
#[test]
fn triggers_have_limits() {
    needs!(may());
    let dir = tempfile::tempdir().expect("dir");
    let shelf = dir.path().join("shelf");
    // The burst continues until a second trigger has fired.
    let limits = ["--trigger-max", "1", "--trigger-pause", "2s"];
    let (words, ran) = Service::start(&shelf, &limits).burst_until("--trigger-max");
    assert_eq!(snapshots(&shelf).len(), 1, "{words}");
    assert!(words.contains("not saved"), "{words}");
    let fired = words.matches("trigger: ").count() as u64;
    assert!(fired >= 2 && fired <= ran.as_secs() / 2 + 1, "{fired} in {ran:?}: {words}");
}

#[test]
fn wrong_conditions_are_refused_before_anything_is_opened() {
    for (option, value, why) in [
        ("--trigger", "softirq > 3", "unknown condition softirq; available: busy%"),
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
