//! The latency profile of a program that runs alone and on two threads, recorded and on the live screen.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::session::Session;
use crate::common::{absent, allowed, found, program, run};
use crate::compiled::CompiledProgram;

/// Runs `alone` for 0.4 s of CPU time, then `together` on two threads for 0.4 s each, a number of times. Each thread
/// has a CPU: a busy machine would leave both on one.
const CODE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sum;
static pthread_barrier_t both;
static double used(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
__attribute__((noinline)) static void alone(void) {
  double end = used() + .4;
  while (used() < end) for (int i = 0; i < 100000; i++) sum += i;
}
__attribute__((noinline)) static void *together(void *arg) {
  cpu_set_t all, own;
  sched_getaffinity(0, sizeof all, &all);
  int cpu = -1;
  for (long left = (long)arg; left >= 0; left--) while (cpu < CPU_SETSIZE && !CPU_ISSET(++cpu, &all));
  CPU_ZERO(&own);
  CPU_SET(cpu, &own);
  sched_setaffinity(0, sizeof own, &own);
  pthread_barrier_wait(&both);
  double end = used() + .4;
  while (used() < end) for (int i = 0; i < 100000; i++) sum += i;
  return arg;
}
int main(int argc, char **argv) {
  for (int n = atoi(argv[1]); n > 0; n--) {
    pthread_t threads[2];
    alone();
    pthread_barrier_init(&both, 0, 2);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, together, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  }
}
"#;

/// Returns the samples and the weights of a function in a recording, by a further column if it is given.
fn rows(file: &Path, event: &str, column: &str) -> Vec<Value> {
    let args = ["--no-children", "-s", &format!("sym{column}"), "--format", "json", "--event", event];
    let report = run(program().arg("report").arg(file).args(args)).stdout;
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    report["events"][0]["rows"].as_array().expect("rows").clone()
}

/// Checks that each sample counts as its period divided by the number of running threads, and that these are right: one
/// for code that runs alone, two for at least some samples of two threads, which a busy machine seldom runs together.
fn check(file: &Path) {
    let by_threads = rows(file, "cpu-clock", ",parallelism");
    let is_of = |row: &Value, function: &str| row["sym"].as_str().is_some_and(|name| name.trim() == function);
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
    let samples = |function: &str, threads: f64| -> f64 {
        let all = by_threads.iter().filter(|row| is_of(row, function) && number(row, "parallelism") == threads);
        all.map(|row| number(row, "samples")).sum()
    };
    assert!(samples("together", 2.0) > 10.0 && samples("together", 3.0) == 0.0, "{by_threads:?}");
    assert!(samples("alone", 2.0) < samples("alone", 1.0) / 20.0, "{by_threads:?}");
    let latency = rows(file, "latency", "");
    for function in ["alone", "together"] {
        let all = by_threads.iter().filter(|row| is_of(row, function));
        let expected: f64 = all.map(|row| number(row, "period") / number(row, "parallelism")).sum();
        let weight: f64 = latency.iter().filter(|row| is_of(row, function)).map(|row| number(row, "period")).sum();
        assert!((weight / expected - 1.0).abs() < 0.001, "{function}: {weight} of {expected}");
    }
    let report = run(program().arg("report").arg(file).args(["-s", "sym", "--where", "parallelism == 2"])).stdout;
    let report = String::from_utf8(report).expect("text");
    assert!(report.contains("together"), "{report}");
}

fn spin() -> Option<CompiledProgram> {
    if !allowed() {
        return None;
    }
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        absent("it has one CPU");
        return None;
    }
    CompiledProgram::of("latency", CODE, &["-O1", "-pthread", "-fno-omit-frame-pointer"])
}

#[test]
fn work_on_one_thread_weighs_more_than_work_on_two() {
    let Some(spin) = spin() else { return };
    let file = spin.dir.path().join("recorded.data");
    let mut command = program();
    run(command.args(["record", "-q", "--latency", "-g", "-o"]).arg(&file).arg("--").arg(&spin.path).arg("3"));
    check(&file);
    let table = run(program().args(["report", "--latency", "-s", "sym"]).arg(&file)).stdout;
    let table = String::from_utf8(table).expect("text");
    assert!(table.contains("Latency"), "{table}");
}

#[test]
fn the_live_table_shows_latency_and_a_snapshot_keeps_it() {
    let Some(spin) = spin() else { return };
    let saved = spin.dir.path().join("saved.data");
    let words =
        ["--latency", "--output", saved.to_str().expect("utf-8"), "--", spin.path.to_str().expect("utf-8"), "3"];
    let mut session = Session::start(&words, 30, 120);
    // The command's end is the end of the session's data.
    session.wait_for("ended").wait_for_line(&["Self", "Latency", "Symbol"]).wait_for("together");
    session.keys("S");
    session.wait_for("saved");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
    check(&saved);
    let Some(perf) = found("perf") else { return };
    let perf = run(Command::new(perf).args(["report", "--stdio", "-s", "sym", "-i"]).arg(&saved));
    assert!(String::from_utf8_lossy(&perf.stdout).contains("of event 'latency'"), "{perf:?}");
}
