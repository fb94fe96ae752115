//! The time off the CPUs that a live session keeps, of a program that measures how long it waits.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::process::{PATIENCE, Running, with_time};
use crate::common::session::Session;
use crate::compiled::CompiledProgram;
use perfprof_tui::engine::{Engine, IntakeOptions, Options, Request};
use perfprof_tui::event::spec::{LookupPaths, Rate};
use perfprof_tui::event::{CallGraph, parse};
use perfprof_tui::filter::Filter;
use perfprof_tui::kernel::limits::Rights;
use perfprof_tui::kernel::sys::RealSys;
use perfprof_tui::query::{Answer, Question, WallTime};
use perfprof_tui::source::RunState;
use perfprof_tui::source::live::{LiveConfig, LiveSource, Target};
use perfprof_tui::symbols::SymbolOptions;

/// Waits in `gate` until a file exists. Then the thread waits in turns for a pipe and for a mutex of another thread,
/// writes down how long, and waits in `end`.
const SLEEPER: &str = r#"
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], reply[2];
static volatile int sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static void rest(int ms) { struct timespec t = {0, ms * 1000000}; nanosleep(&t, 0); sink++; }
__attribute__((noinline)) void gate(char *path) { while (access(path, F_OK)) rest(10); sink++; }
__attribute__((noinline)) void wait_for_pipe(void) {
  char c = 'p';
  if (write(ask[1], &c, 1) != 1 || read(reply[0], &c, 1) != 1) exit(1);
  sink++;
}
__attribute__((noinline)) void wait_for_lock(void) { pthread_mutex_lock(&kept); pthread_mutex_unlock(&kept); sink++; }
__attribute__((noinline)) void handle_order(void) { volatile char pad[3000]; pad[0] = 1; wait_for_pipe(); sink++; }
__attribute__((noinline)) void handle_money(void) { volatile char pad[500]; pad[0] = 1; wait_for_lock(); sink++; }
__attribute__((noinline)) void end(void) { for (;;) rest(20); }
static void *other(void *a) {
  char c;
  prctl(PR_SET_NAME, "other");
  while (read(ask[0], &c, 1) == 1) {
    if (c == 'l') { pthread_mutex_lock(&kept); if (write(reply[1], &c, 1) != 1) break; rest(15); pthread_mutex_unlock(&kept); }
    else { rest(8); if (write(reply[1], &c, 1) != 1) break; }
  }
  return a;
}
int main(int argc, char **argv) {
  pthread_t thread;
  double piped = 0, locked = 0, x;
  char c;
  FILE *truth;
  alarm(600);
  if (pipe(ask) || pipe(reply)) return 1;
  pthread_create(&thread, 0, other, 0);
  prctl(PR_SET_NAME, "sleeper");
  gate(argv[1]);
  for (int i = 0; i < atoi(argv[3]); i++) {
    x = now(); handle_order(); piped += now() - x;
    c = 'l';
    if (write(ask[1], &c, 1) != 1 || read(reply[0], &c, 1) != 1) return 1;
    x = now(); handle_money(); locked += now() - x;
  }
  truth = fopen(argv[2], "w");
  fprintf(truth, "%f %f", piped, locked);
  fclose(truth);
  end();
}
"#;

/// Events of the session: the clock, and the time off the CPUs.
const OFF_CPU: usize = 1;

fn engine(target: Target) -> Engine {
    let events = parse("cpu-clock", &LookupPaths::system()).expect("known");
    let config = LiveConfig {
        events,
        rate: Rate::Frequency(499),
        chains: CallGraph::Auto,
        cgroups: true,
        target,
        force: true,
        tables: 64 << 20,
        off_cpu_time: true,
        ..LiveConfig::default()
    };
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

/// Waits for an answer that meets a condition.
fn wait(engine: &Engine, what: &str, holds: impl Fn(&Answer) -> bool) -> Arc<Answer> {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = engine.answer();
        if holds(&answer) {
            return answer;
        }
        assert!(Instant::now() < until, "{what}: {:?} {:?}", answer.events, answer.notes);
        let _ = engine.notices().recv_timeout(Duration::from_millis(50));
    }
}

/// Returns the time of the event, or of wall time, in samples that pass a filter.
fn time(engine: &Engine, generation: u64, event: usize, wall: Option<WallTime>, filter: &str) -> u64 {
    let filter = Some(Arc::new(Filter::parse(filter).expect(filter)));
    engine.send(Request::Ask(Arc::new(Question { generation, event, wall, filter, ..Question::default() })));
    wait(engine, "an answer", |answer| answer.question.generation == generation).view.total.period
}

/// Waits until the program's stacks are walked by its tables.
fn wait_for(engine: &Engine, generation: u64, function: &str) {
    let filter = Some(Arc::new(Filter::parse(&format!("stack == {function} && stack == main")).expect("a filter")));
    let question = Question { generation, event: OFF_CPU, filter, ..Question::default() };
    engine.send(Request::Ask(Arc::new(question)));
    wait(engine, function, |answer| answer.question.generation == generation && answer.view.total.period > 0);
}

/// Compares what is kept of the program with what it measured; `target` returns the target for its process.
fn compare(sleeper: &CompiledProgram, rounds: u32, target: impl Fn(u32) -> Target) -> Result<(), String> {
    let dir = sleeper.dir.path();
    let [gate, truth] = ["gate", "truth"].map(|name| dir.join(name));
    let _ = (std::fs::remove_file(&gate), std::fs::remove_file(&truth));
    let mut command = Command::new(&sleeper.path);
    command.args([&gate, &truth]).arg(rounds.to_string()).stdout(Stdio::null());
    let running = Running(command.spawn().expect("starts"));
    let engine = engine(target(running.pid()));
    wait_for(&engine, 1, "gate");
    std::fs::write(&gate, "").expect("opened");
    wait_for(&engine, 2, "end");
    let mut generation = 2;
    let mut time = |event: usize, wall: Option<WallTime>, filter: &str| {
        generation += 1;
        time(&engine, generation, event, wall, filter)
    };
    let text = std::fs::read_to_string(&truth).expect("written before the end");
    let own: Vec<f64> = text.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let off =
        |time: &mut dyn FnMut(usize, Option<WallTime>, &str) -> u64, filter: &str| time(OFF_CPU, None, filter) as f64;
    let mut wrong = Vec::new();
    for (name, own) in ["handle_order", "handle_money"].into_iter().zip(own) {
        let kept = off(&mut time, &format!("comm == sleeper && stack == {name}"));
        let whole = off(&mut time, &format!("comm == sleeper && stack == {name} && stack == main"));
        if (kept - own).abs() > 0.05 * own || whole < 0.99 * kept {
            wrong.push(format!("{name}: {kept} ns, {whole} ns below main, {own} ns by its own clock"));
        }
    }
    let unwalked = off(&mut time, "sym == \"[stack not walked]\"");
    let all = off(&mut time, "time >= 0");
    if unwalked > 0.02 * all {
        wrong.push(format!("{unwalked} of {all} ns without a stack"));
    }
    let others = off(&mut time, "comm != sleeper && comm != other");
    let wall = Some(WallTime { off_cpu: OFF_CPU, sample_ns: None });
    let main = "comm == sleeper && stack == main && !(stack == gate) && !(stack == end)";
    // The last records before the end may arrive between the questions.
    let begun = Instant::now();
    let (parts, together) = loop {
        let parts = |time: &mut dyn FnMut(usize, Option<WallTime>, &str) -> u64| {
            time(0, None, main) + time(OFF_CPU, None, main)
        };
        let before = parts(&mut time);
        let together = time(0, wall, main);
        if parts(&mut time) == before {
            break (before, together);
        }
        assert!(begun.elapsed() < PATIENCE, "the times do not settle");
    };
    engine.stop();
    assert_eq!(others, 0.0, "only the target is measured");
    assert_eq!(parts, together, "wall time is the sum");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

#[test]
fn kept_sleep_is_what_a_program_without_frame_pointers_measures() {
    let options = ["-O2", "-g", "-pthread", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(sleeper) = CompiledProgram::of("sleeper", SLEEPER, &options) else { return };
    let target = |pid: u32| Target::Processes(vec![pid as i32]);
    with_time(&[60, 120, 240], |rounds| compare(&sleeper, rounds, target));
}

/// A cgroup that ends with the test.
struct Cgroup(std::path::PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The sleep of a cgroup's processes is kept, and not that of others.
#[test]
fn sleep_in_a_cgroup_is_kept() {
    needs!(crate::common::allowed());
    let Some(sleeper) = CompiledProgram::of("sleeper", SLEEPER, &["-O2", "-g", "-pthread"]) else { return };
    let name = format!("perfprof-sleep-{}", std::process::id());
    let root = perfprof_tui::kernel::cgroup::tree();
    let unified = root.filter(|root| root.join("cgroup.controllers").exists());
    let Some(dir) = unified.map(|root| root.join(&name)).filter(|dir| std::fs::create_dir(dir).is_ok()) else {
        return crate::common::skipped("no cgroup of version 2 can be made");
    };
    let group = Cgroup(dir);
    let target = |pid: u32| {
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).expect("moved");
        Target::Cgroups(vec![(name.clone(), group.0.clone())])
    };
    with_time(&[60, 120, 240], |rounds| compare(&sleeper, rounds, target));
}

#[test]
fn only_the_machine_and_tasks_are_measured() {
    needs!(crate::common::allowed());
    let engine = engine(Target::System);
    let run = |answer: &Answer| Some(answer.events.get(OFF_CPU)?.meter.as_ref()?.state.run.clone());
    wait(&engine, "samples", |answer| answer.events.get(OFF_CPU).is_some_and(|event| event.total.samples > 0));
    assert_eq!(run(&engine.answer()), Some(RunState::Running));
    let count = |answer: &Answer| Some(answer.events.get(OFF_CPU)?.meter.as_ref()?.count);
    wait(&engine, "a count", |answer| count(answer) > Some(0));
    engine.stop();
}

#[test]
fn a_key_turns_the_table_to_wall_time_and_to_time_off_the_cpus() {
    needs!(crate::common::traced());
    let options = ["-O2", "-g", "-pthread", "-fomit-frame-pointer"];
    let Some(sleeper) = CompiledProgram::of("sleeper", SLEEPER, &options) else { return };
    let [gate, truth] = ["gate", "truth"].map(|name| sleeper.dir.path().join(name));
    let running = Running(Command::new(&sleeper.path).args([&gate, &truth]).arg("9").spawn().expect("starts"));
    let mut session = Session::start(&["-p", &running.pid().to_string()], 24, 100);
    session.wait_for("[1 Top]");
    session.keys("5").wait_for("off-cpu-time");
    session.keys("1").wait_for("[1 Top]");
    // The sleep comes first, because the program does hardly anything else.
    session.keys("\x0f").wait_for("wall time").wait_for("schedule");
    session.keys("\x0f").wait_for("off-cpu-time").wait_for("schedule");
    session.keys("3").wait_for("ms of threads");
    session.keys("2").wait_for("gate");
    session.keys("u1").wait_for("wall time");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
}
