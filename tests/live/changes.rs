//! Changes of a live session: events are added, removed and modified on the real kernel, and each hit counts exactly
//! once.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::process::{Running, Stops};
use crate::common::{self, Nature, absent, allowed, has, program, skipped};
use perfprof_tui::engine::{Engine, IntakeOptions, Notice, Options, Request};
use perfprof_tui::event::spec::{LookupPaths, Rate};
use perfprof_tui::event::{CallGraph, Event, Interpreters, parse};
use perfprof_tui::filter::Filter;
use perfprof_tui::kernel::limits::Rights;
use perfprof_tui::kernel::sys::RealSys;
use perfprof_tui::query::answer::EventInfo;
use perfprof_tui::query::{Answer, Question};
use perfprof_tui::source::live::attr::Exclude;
use perfprof_tui::source::live::{LiveConfig, LiveSource, Target};
use perfprof_tui::source::{Change, Control, RunState};
use perfprof_tui::symbols::SymbolOptions;

// A static probe of this test program in the format of sdt.h: a note with the address, a semaphore that counts the
// tracers, and the operand.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .probes, \"aw\", @progbits",
    ".balign 2",
    ".globl perfprof_test_semaphore",
    "perfprof_test_semaphore: .short 0",
    ".popsection",
    ".pushsection .text.perfprof_test_fire, \"ax\", @progbits",
    ".globl perfprof_test_fire",
    ".type perfprof_test_fire, @function",
    "perfprof_test_fire:",
    "mov rax, rdi",
    // Not at the start of the function: two probes at one address must agree on the semaphore.
    "990: nop",
    "ret",
    ".size perfprof_test_fire, . - perfprof_test_fire",
    ".popsection",
    ".pushsection .note.stapsdt, \"?\", \"note\"",
    ".balign 4",
    ".long 992f-991f, 994f-993f, 3",
    "991: .asciz \"stapsdt\"",
    "992: .balign 4",
    "993: .quad 990b, 0, perfprof_test_semaphore",
    ".asciz \"perfprof\"",
    ".asciz \"fired\"",
    ".asciz \"8@%rdi\"",
    "994: .balign 4",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    safe fn perfprof_test_fire(value: u64) -> u64;
    safe static perfprof_test_semaphore: std::sync::atomic::AtomicU16;
}

/// A generous timeout; a passing test does not wait for it.
const WATCHDOG: Duration = Duration::from_secs(180);

/// A system call that only this test makes in large numbers.
const HIT: &str = "syscalls:sys_enter_getppid";

/// Threads that make the call and count their calls, until dropped.
struct Load {
    hits: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tid: i32,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let (hits, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stopped) = (hits.clone(), stop.clone());
        let (tid, its_tid) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tid.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("heard");
            while !stopped.load(Ordering::Relaxed) {
                let _ = rustix::process::getppid();
                counted.fetch_add(1, Ordering::Relaxed);
                let then = Instant::now();
                while then.elapsed() < Duration::from_micros(20) {}
            }
        });
        Self { hits, stop, tid: its_tid.recv().expect("started"), thread: Some(thread) }
    }

    fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Ends the threads and returns the number of calls.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("runs").join().expect("ends");
        self.hits()
    }
}

fn engine(events: Vec<Event>, target: Target) -> Engine {
    engine_with(events, target, true)
}

fn engine_with(events: Vec<Event>, target: Target, force: bool) -> Engine {
    engine_of(LiveConfig { force, ..config(events, target) })
}

fn config(events: Vec<Event>, target: Target) -> LiveConfig {
    LiveConfig {
        extras: Default::default(),
        events,
        rate: Rate::Frequency(99),
        chains: perfprof_tui::event::CallGraph::Fp,
        walks_later: false,
        cgroups: true,
        exclude: Exclude::default(),
        inherit: false,
        pages: Some(512),
        delay: Duration::ZERO,
        target,
        cpus: None,
        command: None,
        force: true,
        tables: 64 << 20,
        interpreters: Default::default(),
        off_cpu_time: false,
    }
}

fn engine_of(config: LiveConfig) -> Engine {
    let source = LiveSource::start(config, Box::new(RealSys), Rights::read()).expect("opens");
    let options = Options {
        symbols: SymbolOptions::live(),
        memory: 256 << 20,
        keep: None,
        watched: None,
        own_pid: None,
        wants: IntakeOptions::default(),
        refresh: Duration::from_millis(50),
        per_sample: None,
        realtime: None,
        no_inline: true,
    };
    Engine::spawn(Box::new(source), options).expect("spawns")
}

/// Sends a control request and returns the reply.
fn control(engine: &Engine, control: Control) -> Result<String, String> {
    engine.send(Request::Control(control));
    let until = Instant::now() + WATCHDOG;
    while let Ok(notice) = engine.notices().recv_deadline(until) {
        if let Notice::Reply(reply) = notice {
            return reply;
        }
    }
    panic!("no reply");
}

fn change(engine: &Engine, event: usize, change: Change) -> Result<String, String> {
    control(engine, Control::Event(event, change))
}

/// Waits for an answer that meets a condition.
fn wait(engine: &Engine, what: &str, holds: impl Fn(&Answer) -> bool) -> Arc<Answer> {
    let until = Instant::now() + WATCHDOG;
    loop {
        let answer = engine.answer();
        if holds(&answer) {
            return answer;
        }
        assert!(Instant::now() < until, "{what}: {:?}", answer.events);
        let _ = engine.notices().recv_timeout(Duration::from_millis(50));
    }
}

fn event(answer: &Answer, name: &str) -> EventInfo {
    let found = answer.events.iter().find(|e| e.name == name);
    found.unwrap_or_else(|| panic!("{name}: {:?}", answer.events)).clone()
}

fn samples(answer: &Answer, name: &str) -> u64 {
    answer.events.iter().find(|e| e.name == name).map_or(0, |e| e.total.samples)
}

fn run_of(answer: &Answer, at: usize) -> Option<RunState> {
    Some(answer.events.get(at)?.meter.as_ref()?.state.run.clone())
}

fn tracepoint(name: &str) -> Option<Vec<Event>> {
    if !allowed() {
        return None;
    }
    let events = parse(name, &LookupPaths::system());
    if events.is_err() {
        skipped("this kernel has no system call tracepoints");
    }
    events.ok()
}

/// Each change opens a new event while the old one is open: every hit counts once.
#[test]
fn no_hit_is_missed_or_doubled_while_an_event_changes() {
    let Some(events) = tracepoint(HIT) else { return };
    // The load waits until the events are open, so that all hits are seen.
    let load = Load::start();
    let engine = engine(events, Target::Threads(vec![load.tid]));
    wait(&engine, "first samples", |a| samples(a, HIT) > 0);
    let before = load.hits();
    for i in 0..20 {
        change(&engine, 0, Change::Chains(i % 2 == 1)).expect("changed");
        change(&engine, 0, Change::Filter((i % 2 == 0).then(|| "common_pid > 0".to_owned()))).expect("filtered");
        let until = Instant::now() + Duration::from_secs(5);
        let target = load.hits() + 30;
        while load.hits() < target && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(load.hits() > before + 500, "the load went on meanwhile");
    change(&engine, 0, Change::Filter(None)).expect("unfiltered");
    let hits = load.end();
    // The event missed the first hits before it was opened. The kernel's counter, summed over all changes, shows how
    // many it saw.
    let answer = wait(&engine, "the end", |a| a.ended.is_some());
    let seen = event(&answer, HIT);
    let count = seen.meter.as_ref().map_or(0, |m| m.count);
    assert!(answer.ledger.malformed == 0 && answer.ledger.lost() < hits / 4, "lost {}", answer.ledger.lost());
    // A machine whose CPUs are all busy may leave a ring buffer full; the kernel counts what it lost then.
    let samples = seen.total.samples + answer.ledger.lost();
    assert!(samples <= hits && hits - samples < before + 50, "{samples} of {hits}");
    // Counters are read one after the other, so a hit between two reads may be missed or counted twice.
    assert!(count.abs_diff(samples) <= 41 * 2, "counted {count}, sampled {samples}");
    engine.stop();
}

/// Group members count on CPUs from the start, and again after a pause.
#[test]
fn members_of_a_group_count_and_go_on() {
    needs!(allowed());
    // Each program that the loop runs maps new pages.
    let load = "while [ -e /proc/$PPID ]; do /bin/true; done";
    let _faulting = Running(std::process::Command::new("sh").args(["-c", load]).spawn().expect("sh"));
    for group in ["{cpu-clock,page-faults}", "{cpu-clock,page-faults}:S"] {
        let events = parse(group, &LookupPaths::system()).expect("known");
        let engine = engine(events, Target::System);
        // The kernel adapts the period: if the first faults come close together, it may choose a period of hundreds of
        // thousands of faults, and samples come late.
        let counts = |a: &Answer| {
            let faults = a.events.iter().find(|e| e.name == "page-faults");
            faults.is_some_and(|e| e.total.samples > 0 && e.meter.as_ref().is_some_and(|m| m.rate > 0.0))
        };
        wait(&engine, group, counts);
        change(&engine, 1, Change::Pause(true)).expect("paused");
        wait(&engine, "nothing comes", |a| event(a, "page-faults").meter.is_some_and(|m| m.rate == 0.0));
        change(&engine, 1, Change::Pause(false)).expect("goes on");
        wait(&engine, "more", counts);
        engine.stop();
    }
}

/// A session that starts without an event to unwind loads the program with the first one.
#[test]
fn an_event_that_is_added_is_unwound_by_tables() {
    needs!(allowed());
    let events = parse("cpu-clock/call-graph=no/", &LookupPaths::system()).expect("known");
    let chains = perfprof_tui::event::CallGraph::Auto;
    let engine = engine_of(LiveConfig { chains, ..config(events, Target::System) });
    control(&engine, Control::Add("page-faults".to_owned())).expect("added");
    let by_tables = perfprof_tui::event::CallGraph::Tables;
    wait(&engine, "its call graph mode", |a| {
        let added = a.events.iter().find(|event| event.name == "page-faults");
        added.and_then(|event| event.meter.as_ref()).is_some_and(|meter| meter.state.chains == by_tables)
    });
    engine.stop();
}

/// Samples of a whole session with paused, stopped and rejected events.
#[test]
fn events_come_rest_and_go_while_it_runs() {
    let Some(mut events) = tracepoint("cpu-clock") else { return };
    if tracepoint(HIT).is_none() {
        return;
    }
    events.truncate(1);
    let load = Load::start();
    let engine = engine(events, Target::System);
    control(&engine, Control::Add(HIT.to_owned())).expect("added");
    wait(&engine, "its samples", |a| a.events.len() > 1 && event(a, HIT).total.samples > 100);
    let twice = control(&engine, Control::Add(HIT.to_owned())).expect_err("twice");
    let typo = control(&engine, Control::Add("sched:sched_swich".to_owned())).expect_err("a typo");
    insta::assert_snapshot!("refused-events", format!("{twice}\n{typo}"));

    change(&engine, 1, Change::Pause(true)).expect("paused");
    wait(&engine, "said paused", |a| run_of(a, 1) == Some(RunState::Paused));
    let rest = wait(&engine, "nothing comes", |a| event(a, HIT).meter.is_some_and(|m| m.rate == 0.0));
    change(&engine, 1, Change::Pause(false)).expect("goes on");
    wait(&engine, "more", |a| event(a, HIT).total.samples > event(&rest, HIT).total.samples);

    change(&engine, 1, Change::Rate(Rate::Period(10))).expect("more seldom");
    let answer = wait(&engine, "one in ten", |a| {
        event(a, HIT).meter.is_some_and(|m| {
            m.state.rate == Rate::Period(10) && m.rate > 0.0 && m.sampled > 0.0 && m.sampled < m.rate / 5.0
        })
    });
    // Each sample counts for ten hits.
    assert!(event(&answer, HIT).total.period > event(&answer, HIT).total.samples);

    change(&engine, 1, Change::Rate(Rate::Period(0))).expect("counted only");
    wait(&engine, "no more samples", |a| event(a, HIT).meter.is_some_and(|m| m.sampled == 0.0 && m.rate > 0.0));
    change(&engine, 1, Change::Stop).expect("stopped");
    wait(&engine, "said stopped", |a| run_of(a, 1) == Some(RunState::Stopped));
    control(&engine, Control::Add(HIT.to_owned())).expect("again");
    let answer = wait(&engine, "runs again", |a| run_of(a, 1) == Some(RunState::Running));
    assert_eq!(answer.events.iter().filter(|e| e.name == HIT).count(), 1, "in its previous row");

    control(&engine, Control::Pause(true)).expect("all");
    wait(&engine, "all rest", |a| (0..2).all(|i| run_of(a, i) == Some(RunState::Paused)));
    control(&engine, Control::Pause(false)).expect("all");
    wait(&engine, "all go on", |a| (0..2).all(|i| run_of(a, i) == Some(RunState::Running)));
    for (bad, words) in [
        (Change::Modifiers("z".into()), "modifiers are"),
        (Change::Rate(Rate::Frequency(1 << 40)), "max_sample_rate"),
        (Change::Filter(Some("nr2 == 1".into())), "no field nr2"),
    ] {
        let error = change(&engine, 1, bad.clone()).expect_err("refused");
        assert!(error.contains(words), "{bad:?}: {error}");
    }
    assert_eq!(run_of(&engine.answer(), 1), Some(RunState::Running), "running events keep running");
    assert!(change(&engine, 99, Change::Stop).is_err());
    load.end();
    engine.stop();
}

/// Off-CPU time is measured from the time that its tracepoint is added.
#[test]
fn switches_that_are_added_tell_the_time_off_the_cpus() {
    let Some(events) = tracepoint("cpu-clock") else { return };
    let engine = engine(events, Target::System);
    control(&engine, Control::Add("sched:sched_switch".to_owned())).expect("added");
    let answer = wait(&engine, "absences", |a| a.events.iter().any(|e| e.name == "off-cpu" && e.total.samples > 10));
    // An event added after the derived event has its own samples.
    control(&engine, Control::Add("sched:sched_wakeup".to_owned())).expect("added");
    let later =
        wait(&engine, "wakeups", |a| a.events.iter().any(|e| e.name == "sched:sched_wakeup" && e.total.samples > 0));
    assert_eq!((answer.events.len(), later.events.len()), (3, 4));
    let error = change(&engine, 2, Change::Pause(true)).expect_err("a derived event");
    insta::assert_snapshot!("refused-for-a-derived-event", error);
    change(&engine, 3, Change::Stop).expect("its own place");
    wait(&engine, "stopped", |a| run_of(a, 3) == Some(RunState::Stopped) && run_of(a, 1) == Some(RunState::Running));
    engine.stop();
}

/// A filter of the same shape only stores new parameters into the BPF program: no event is reopened, and samples
/// follow at once.
#[test]
fn a_filter_of_the_same_shape_is_only_a_store() {
    let Some(events) = tracepoint("cpu-clock") else { return };
    let load = Load::start();
    let engine = engine(events, Target::Threads(vec![load.tid]));
    wait(&engine, "samples", |a| samples(a, "cpu-clock") > 3);
    let filter = |text: &str| change(&engine, 0, Change::Filter(Some(text.to_owned())));
    let none = format!("tid == {}", load.tid + 1);
    if let Err(why) = filter(&none) {
        assert!(why.contains("BPF"), "{why}");
        return skipped(&why);
    }
    // Once a whole second has no samples, no later second has samples either.
    let past = |a: &Answer| event(a, "cpu-clock").meter.map_or(0, |m| m.history.len());
    let set = past(&engine.answer());
    let quiet = |a: &Answer| event(a, "cpu-clock").meter.is_some_and(|m| m.sampled == 0.0 && m.rate > 0.0);
    let still = |a: &Answer| past(a) > set + 1 && quiet(a);
    let answer = wait(&engine, "nothing passes", still);
    let (rest, seconds) = (samples(&answer, "cpu-clock"), past(&answer));
    let later = |a: &Answer| past(a) > seconds + 1;
    assert_eq!(samples(&wait(&engine, "two seconds more", later), "cpu-clock"), rest);
    filter(&format!("tid == {}", load.tid)).expect("stored");
    wait(&engine, "samples again", |a| samples(a, "cpu-clock") > rest + 3);
    let error = filter("stack ~ x").expect_err("not in the kernel");
    insta::assert_snapshot!("refused-in-the-kernel", error);
    let answer = wait(&engine, "the old filter stays", |a| !a.events.is_empty());
    assert_eq!(event(&answer, "cpu-clock").filter, Some(format!("tid == {}", load.tid)));
    load.end();
    engine.stop();
}

/// A probe of a function hits once per call, with its argument, and is removed with the session.
#[test]
#[cfg(target_arch = "x86_64")]
fn probes_of_functions_and_static_ones_hit_and_go() {
    let Some(events) = tracepoint("cpu-clock") else { return };
    needs!(has(Nature::Uprobes));
    let places = LookupPaths::system();
    let Ok(root) = places.tracefs else { return skipped("tracefs is not available") };
    if !root.join("uprobe_events").exists() {
        return skipped("the list of probes is not readable");
    }
    let own = std::env::current_exe().expect("path");
    let listed = common::run(common::program().args(["probe", "-x"]).arg(&own).arg("-l"));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("perfprof:fired") && !listed.contains("perfprof_test_fire"), "{listed}");
    let engine = engine(events, Target::Processes(vec![std::process::id() as i32]));
    let probe = |text: &str| control(&engine, Control::Probe(format!("-x {} {text}", own.display())));
    assert!(perfprof_test_semaphore.load(Ordering::Relaxed) == 0);
    probe("perfprof_test_fire n=arg1:u64").expect("a function");
    probe("perfprof_test_fire%return $retval").expect("its return");
    probe("perfprof:fired").expect("a static probe");
    assert!(perfprof_test_semaphore.load(Ordering::Relaxed) > 0, "the program sees the tracer");
    for (bad, words) in [
        ("perfprof_test_fier", "nearest: perfprof_test_fire"),
        ("perfprof_test_fire+0x4000", "bytes long"),
        ("perfprof_test_fire", "exists already"),
        ("x=perfprof_test_fire size", "are unknown"),
    ] {
        let error = probe(bad).expect_err(bad);
        assert!(error.contains(words), "{bad}: {error}");
    }
    let kernel = control(&engine, Control::Probe("tcp_sendmsg size".to_owned()));
    if !root.join("kprobe_events").exists() {
        assert!(kernel.expect_err("no kprobes").contains("CONFIG_KPROBES"));
    }
    let group = format!("perfprof_{}", std::process::id());
    // From here on the function's probe passes odd arguments only; the return probe and the static probe pass all.
    change(&engine, 1, Change::Filter(Some("n & 1".to_owned()))).expect("filtered by an argument");
    for n in 0..100 {
        assert_eq!(perfprof_test_fire(n), n);
    }
    let answer = wait(&engine, "all hits", |a| {
        samples(a, &format!("{group}:fired")) >= 100
            && samples(a, &format!("{group}:perfprof_test_fire__return")) >= 100
    });
    let of = |name: &str| samples(&answer, &format!("{group}:{name}"));
    assert_eq!((of("perfprof_test_fire"), of("perfprof_test_fire__return"), of("fired")), (50, 100, 100));
    let there = || {
        let known = std::fs::read_to_string(root.join("uprobe_events")).expect("list");
        known.lines().filter(|line| line.contains(&group)).count()
    };
    assert_eq!(there(), 3);
    engine.stop();
    assert_eq!((there(), perfprof_test_semaphore.load(Ordering::Relaxed)), (0, 0), "nothing is left");
    a_static_probe_stays_until_it_is_taken_away();
}

/// One created with `probe` is an event for every `-e`.
#[cfg(target_arch = "x86_64")]
fn a_static_probe_stays_until_it_is_taken_away() {
    let own = std::env::current_exe().expect("a path").display().to_string();
    let usdt = |words: &[&str]| {
        let output = program().arg("usdt").args(words).output().expect("runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    assert!(usdt(&["list", &own]).1.split_whitespace().any(|word| word == "perfprof:fired"));
    let (_, _, why) = usdt(&["add", &format!("perfprof:fird@{own}")]);
    insta::assert_snapshot!("unknown-static-probe", why.replace(&own, "PROGRAM"));
    assert_eq!(usdt(&["add", &format!("perfprof:fired@{own}")]).1, "perfprof:fired\n");
    let pid = std::process::id().to_string();
    let how = ["trace", "-e", "perfprof:fired", "--format", "json", "-N", "37", "-p", &pid];
    let mut trace = program().args(how).stdout(Stdio::piped()).spawn().expect("runs");
    // Fire until the tracer has seen enough hits: it opens the probe before it measures.
    let begun = Instant::now();
    for n in 0.. {
        assert_eq!(perfprof_test_fire(n), n);
        if trace.try_wait().expect("waited for").is_some() {
            break;
        }
        assert!(begun.elapsed() < WATCHDOG, "the tracer does not see the probe");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = trace.wait_with_output().expect("ends");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let log = answer["panels"][0]["rows"].as_array().expect("rows");
    let argument = |row: &serde_json::Value| {
        let text = row["text"].as_str().and_then(|text| text.split_once("arg1=")).map(|(_, rest)| rest.to_owned());
        text.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_else(|| panic!("{row}"))
    };
    // The tracer saw each hit once, with its argument.
    let seen: Vec<u64> = log.iter().map(argument).collect();
    assert!(seen.len() == 37 && seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seen:?}");
    assert_eq!(usdt(&["del", "perfprof:fired"]).1, "perfprof:fired\n");
    let (done, _, why) = usdt(&["del", "perfprof:fired"]);
    assert!(!done, "{why}");
    insta::assert_snapshot!("absent-static-probe", why);
}

/// The target changes during the session, from the machine to a task and back.
#[test]
fn other_tasks_are_sampled_while_it_runs() {
    let Some(events) = tracepoint(HIT) else { return };
    let (one, two) = (Load::start(), Load::start());
    for start in [Target::System, Target::Threads(vec![one.tid])] {
        let engine = engine(events.clone(), start);
        let attach = |to: String| control(&engine, Control::Target(to));
        wait(&engine, "samples", |a| samples(a, HIT) > 100);
        attach(format!("tid {}", two.tid)).expect("attached");
        let said = wait(&engine, "said", |a| a.target == format!("tid {}", two.tid));
        engine.send(Request::Clear);
        // Samples from before the change may still arrive.
        let others = format!("tid != {} && time > {}ns", two.tid, said.elapsed_ns);
        let others = Filter::parse(&others).expect("parses");
        let others = Question { generation: 1, filter: Some(Arc::new(others)), ..Question::default() };
        engine.send(Request::Ask(Arc::new(others)));
        let answer = wait(&engine, "its samples", |a| a.question.generation == 1 && a.unfiltered.samples > 500);
        assert_eq!(answer.view.total.samples, 0, "of others");
        assert!(answer.ledger.malformed == 0);
        let error = attach("pid 999999999".to_owned()).expect_err("no such process");
        insta::assert_snapshot!("refused-process", error);
        assert_eq!(engine.answer().target, format!("tid {}", two.tid), "as it was");
        attach("all".to_owned()).expect("the machine");
        let before = samples(&engine.answer(), HIT);
        // Both threads again: twice the rate of one.
        wait(&engine, "all", |a| a.target.is_empty() && samples(a, HIT) > before + 2000);
        engine.stop();
    }
    one.end();
    two.end();
}

/// The expected number of samples is known only while the clock runs continuously.
///
/// A pause or another target invalidates it as long as the window includes them.
#[test]
fn samples_are_expected_of_a_clock_that_runs_whole() {
    needs!(allowed());
    let load = Load::start();
    let engine = engine(vec![Event::cpu_clock()], Target::System);
    let cpus = |a: &Answer| (a.by_cpu.frequency, a.by_cpu.whole);
    wait(&engine, "steady", |a| cpus(a) == (99, true));
    change(&engine, 0, Change::Pause(true)).expect("paused");
    wait(&engine, "nothing to expect", |a| cpus(a) == (0, false));
    change(&engine, 0, Change::Pause(false)).expect("goes on");
    let answer = wait(&engine, "runs", |a| run_of(a, 0) == Some(RunState::Running));
    assert_eq!(cpus(&answer), (0, false), "the window includes the pause");
    control(&engine, Control::Target(format!("tid {}", load.tid))).expect("attached");
    let answer = wait(&engine, "attached", |a| !a.target.is_empty());
    assert_eq!(cpus(&answer), (0, false), "a single task does not represent a CPU");
    engine.stop();
    load.end();
}

/// A flood of hits is sampled at a lower rate, and the screen reports it; the samples' periods account for all hits.
#[test]
fn a_flood_is_held_back() {
    let Some(events) = tracepoint(HIT) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let _stops = Stops(&stop);
    let (tid, its_tid) = std::sync::mpsc::channel();
    let flood = std::thread::spawn(move || {
        // On one CPU: the limit applies to each CPU.
        let mut here = rustix::thread::CpuSet::new();
        here.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &here).expect("pinned");
        // At the highest priority, if allowed.
        let _ = rustix::process::setpriority_process(None, -20);
        tid.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("heard");
        let until = Instant::now() + 2 * WATCHDOG;
        while !stopped.load(Ordering::Relaxed) && Instant::now() < until {
            for _ in 0..1000 {
                let _ = rustix::process::getppid();
            }
        }
    });
    let target = Target::Threads(vec![its_tid.recv().expect("started")]);
    let engine = engine_with(events, target, false);
    // 50 % of a CPU at 1.4 µs per sample; a slow machine does not reach it.
    const MANY: f64 = 380_000.0;
    let slowed = |a: &Answer| {
        a.events.iter().any(|e| e.meter.as_ref().is_some_and(|m| matches!(m.state.rate, Rate::Period(2..))))
    };
    let rate = |a: &Answer| a.events.iter().find_map(|e| e.meter.as_ref()).map_or(0.0, |m| m.rate);
    let begun = Instant::now();
    let is_slow = |a: &Answer| begun.elapsed() > Duration::from_secs(12) && (1.0..MANY).contains(&rate(a));
    let answer = wait(&engine, "the sampling rate is reduced", |a| slowed(a) || is_slow(a));
    if !slowed(&answer) {
        absent(&format!("this machine makes only {:.0} calls per second", rate(&answer)));
    } else {
        assert!(answer.notes.iter().any(|note| note.contains("floods: one in")), "{:?}", answer.notes);
    }
    stop.store(true, Ordering::Relaxed);
    flood.join().expect("ends");
    engine.stop();
}

/// Without frame pointers stacks are broken, and a note reports it; DWARF stacks are complete.
#[test]
fn stacks_turn_to_dwarf_while_it_runs() {
    needs!(allowed());
    let child = Running::busy("spin-nofp");
    let events = parse("cpu-clock", &LookupPaths::system()).expect("parses");
    let engine = engine(events, Target::Processes(vec![child.pid() as i32]));
    control(&engine, Control::Frequency(999)).expect("faster");
    let answer = wait(&engine, "said", |a| a.broken.is_some());
    let broken = answer.broken.clone().expect("broken");
    assert!(&*broken.dso == "spin-nofp" && broken.percent > 60.0, "{broken:?}");
    let caller = |a: &Answer| a.view.lines.iter().find(|line| &*line.sym == "work_loop").map(|l| l.children.samples);
    assert!(caller(&answer).unwrap_or(0) < 10);
    control(&engine, Control::CallGraph(CallGraph::Dwarf(8192))).expect("by DWARF");
    engine.send(Request::Clear);
    // Samples with the former stacks may come after the removal.
    let nearly_all = |a: &Answer| caller(a).is_some_and(|n| n > 300 && 10 * n > 8 * a.view.total.samples);
    let answer = wait(&engine, "callers of nearly all", nearly_all);
    assert!(answer.broken.is_none() && answer.ledger.malformed == 0, "{:?}", answer.ledger);
    control(&engine, Control::CallGraph(CallGraph::Fp)).expect("back");
    engine.stop();
}

/// Table-based unwinding in the kernel also gives complete stacks while it is enabled. Enabling and disabling it loses
/// no samples.
#[test]
fn stacks_turn_to_tables_while_it_runs() {
    needs!(allowed());
    let child = Running::busy("spin-nofp");
    let events = parse("cpu-clock", &LookupPaths::system()).expect("parses");
    let engine = engine(events, Target::Processes(vec![child.pid() as i32]));
    control(&engine, Control::Frequency(999)).expect("faster");
    let caller = |a: &Answer| a.view.lines.iter().find(|line| &*line.sym == "work_loop").map(|l| l.children.samples);
    // Done twice, because tables may already be cached the second time.
    for way in [CallGraph::Tables, CallGraph::Auto] {
        control(&engine, Control::CallGraph(way)).expect("by tables");
        assert!(control(&engine, Control::CallGraph(CallGraph::Tables)).is_err(), "they are already");
        wait(&engine, "callers", |a| caller(a).is_some_and(|n| n > 100));
        engine.send(Request::Clear);
        let nearly_all = |a: &Answer| caller(a).is_some_and(|n| n > 300 && 100 * n > 98 * a.view.total.samples);
        wait(&engine, "callers of all", nearly_all);
        control(&engine, Control::CallGraph(CallGraph::Fp)).expect("by frame pointers");
        engine.send(Request::Clear);
        let answer = wait(&engine, "no callers", |a| a.view.total.samples > 300 && caller(a).unwrap_or(0) < 30);
        assert_eq!(answer.ledger.malformed, 0, "{:?}", answer.ledger);
    }
    engine.stop();
}

/// The frames of interpreters are chosen while it runs, unless the session does not look for interpreters.
#[test]
fn frames_of_interpreters_are_chosen_while_it_runs() {
    needs!(cfg!(target_arch = "x86_64"), allowed(), common::installed("python3"));
    const SPIN: &str = "def spin():\n    while True:\n        sum(range(100))\nspin()\n";
    let python = Running(Command::new("python3").args(["-c", SPIN]).spawn().expect("starts"));
    let start = |interpreters| {
        let events = parse("cpu-clock", &LookupPaths::system()).expect("parses");
        let target = Target::Processes(vec![python.pid() as i32]);
        engine_of(LiveConfig { chains: CallGraph::Tables, interpreters, ..config(events, target) })
    };
    let engine = start(Interpreters::Auto);
    control(&engine, Control::Frequency(999)).expect("faster");
    let samples = |a: &Answer, name: &str| {
        a.view.lines.iter().filter(|line| line.sym.contains(name)).map(|line| line.children.samples).sum::<u64>()
    };
    let nearly_all = |a: &Answer, name: &str| 10 * samples(a, name) > 9 * a.view.total.samples;
    let (function, interpreter) = ("spin (<string>)", "_PyEval_EvalFrameDefault");
    wait(&engine, "functions", |a| samples(a, function) > 30);
    for (shown, has_function, has_interpreter) in [
        (Interpreters::Both, true, true),
        (Interpreters::Off, false, true),
        (Interpreters::Only, true, false),
        (Interpreters::Auto, true, false),
    ] {
        control(&engine, Control::Interpreters(shown)).expect("chosen");
        engine.send(Request::Clear);
        let is_shown = |a: &Answer| {
            let is_it = |name, has| nearly_all(a, name) == has && (has || 10 * samples(a, name) < a.view.total.samples);
            a.view.total.samples > 300 && is_it(function, has_function) && is_it(interpreter, has_interpreter)
        };
        wait(&engine, shown.word(), is_shown);
    }
    engine.stop();
    let engine = start(Interpreters::Off);
    control(&engine, Control::Interpreters(Interpreters::Auto)).expect_err("it does not look for them");
    control(&engine, Control::Interpreters(Interpreters::Off)).expect("they are already");
    engine.stop();
}

/// The perf map of a running JIT names its functions.
#[test]
fn a_jits_functions_are_named_while_it_runs() {
    needs!(allowed());
    let child = Running::busy("jitmap");
    let events = parse("cpu-clock", &LookupPaths::system()).expect("parses");
    let engine = engine(events, Target::Processes(vec![child.pid() as i32]));
    let has = |a: &Answer, name: &str| a.view.lines.iter().any(|line| line.sym.contains(name));
    wait(&engine, "names", |a| has(a, "[stub] IC load; megamorphic") && has(a, "fib /app/server.js"));
    engine.stop();
    let map = format!("/tmp/perf-{}.map", child.pid());
    drop(child);
    let _ = std::fs::remove_file(map);
}

/// The busy share covers the time since samples were cleared.
#[test]
fn the_busy_share_begins_anew_with_the_samples() {
    let Some(events) = tracepoint("cpu-clock") else { return };
    let cpus = perfprof_tui::kernel::cpus::online().expect("CPUs").len();
    let loads: Vec<Load> = (0..cpus.div_ceil(2)).map(|_| Load::start()).collect();
    let engine = engine(events, Target::System);
    let busy = |a: &Answer| a.by_cpu.busy.is_some_and(|busy| busy > 35.0);
    wait(&engine, "two seconds", |a| a.elapsed_ns > 2_000_000_000 && busy(a));
    let before = engine.answer().unfiltered.samples;
    engine.send(Request::Clear);
    // Over the whole time, the share would be a seventh of that.
    let answer = wait(&engine, "new samples", |a| (30..before).contains(&a.unfiltered.samples));
    assert!(answer.by_cpu.busy.is_some_and(|busy| busy > 20.0), "{:?} of {:?}", answer.by_cpu, answer.unfiltered);
    engine.stop();
    for load in loads {
        load.end();
    }
}

/// Off-CPU time is derived from switches: a note reports that the kernel filters them.
#[test]
fn what_is_made_of_filtered_events_says_so() {
    let Some(events) = tracepoint("sched:sched_switch") else { return };
    let engine = engine(events, Target::System);
    let off = |a: &Answer| a.events.iter().find(|e| e.name == "off-cpu").cloned();
    let answer = wait(&engine, "switches", |a| off(a).is_some());
    assert!(off(&answer).is_some_and(|off| off.note.is_none() && off.filter.is_none()));
    change(&engine, 0, Change::Filter(Some("prev_pid > 7".to_owned()))).expect("filtered");
    let answer = wait(&engine, "said", |a| off(a).is_some_and(|off| off.filter.is_some()));
    let (note, filter) = off(&answer).map(|off| (off.note.unwrap_or_default(), off.filter)).expect("there");
    assert_eq!(filter.as_deref(), Some("sched:sched_switch keeps only prev_pid > 7"));
    assert!(note.contains("missing or too long"), "{note}");
    change(&engine, 0, Change::Filter(None)).expect("unfiltered");
    wait(&engine, "whole again", |a| off(a).is_some_and(|off| off.note.is_none() && off.filter.is_none()));
    engine.stop();
}

/// Processes that end before the program reads them keep their names, also in their last switch.
#[test]
fn what_has_ended_has_its_name() {
    let Some(mut events) = tracepoint("sched:sched_switch") else { return };
    events.extend(parse("cpu-clock", &LookupPaths::system()).expect("parses"));
    let engine = engine(events, Target::System);
    control(&engine, Control::Frequency(4999)).expect("faster");
    for _ in 0..300 {
        let ended = std::process::Command::new("true").status().expect("runs");
        assert!(ended.success());
    }
    let question = |generation, event, filter: &str, least: u64| {
        let filter = Some(Arc::new(Filter::parse(filter).expect("parses")));
        engine.send(Request::Ask(Arc::new(Question { generation, event, filter, ..Question::default() })));
        wait(&engine, "an answer", |a| {
            a.question.generation == generation && a.unfiltered.samples > 100 && a.view.total.samples >= least
        })
    };
    question(1, 0, "comm == true", 300);
    for (generation, event) in [(2, 0), (3, 1)] {
        let nameless = question(generation, event, "comm ~ \":*\"", 0);
        assert_eq!(nameless.view.total.samples, 0, "of {:?}: {:?}", nameless.unfiltered, nameless.view.lines);
    }
    engine.stop();
}
