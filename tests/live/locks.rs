//! `locks` on programs that know how long they waited, and for whom.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::process::{Running, until, with_time};
use crate::common::{program, run};
use crate::compiled::{CompiledProgram, unit_answer};

/// Thread "holder" burns CPU time with a mutex, two threads want it, and write down how long they waited. Or two threads
/// take two mutexes in opposite orders.
const LOCKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static double until, waited[2];
static volatile int sink;
static unsigned delay;
static double clock_of(clockid_t id) { struct timespec t; clock_gettime(id, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static double now(void) { return clock_of(CLOCK_MONOTONIC); }
__attribute__((noinline)) void hold_burn(double ms) {
  double end = clock_of(CLOCK_THREAD_CPUTIME_ID) + ms;
  while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end) for (int i = 0; i < 1000; i++) sink += i;
}
__attribute__((noinline)) void want_lock(int i) {
  double begin = now();
  pthread_mutex_lock(&one);
  waited[i] += now() - begin;
  pthread_mutex_unlock(&one);
}
static void *holder(void *a) {
  prctl(PR_SET_NAME, "holder");
  while (now() < until) { pthread_mutex_lock(&one); hold_burn(10); pthread_mutex_unlock(&one); usleep(1000); }
  return a;
}
static void *waiter(void *a) {
  prctl(PR_SET_NAME, "waiter");
  while (now() < until) { want_lock((long)a); usleep(500); }
  return a;
}
__attribute__((noinline)) void take_other(void) { pthread_mutex_lock(&other); sink++; }
__attribute__((noinline)) void take_one(void) { pthread_mutex_lock(&one); sink++; }
static void *poster(void *a) { prctl(PR_SET_NAME, "poster"); pthread_mutex_lock(&one); usleep(delay); take_other(); return a; }
static void *auditor(void *a) { prctl(PR_SET_NAME, "auditor"); pthread_mutex_lock(&other); usleep(delay); take_one(); return a; }
int main(int argc, char **argv) {
  pthread_t threads[3];
  FILE *truth;
  alarm(600);
  if (!strcmp(argv[1], "deadlock")) {
    delay = atof(argv[2]) * 1e6;
    pthread_create(&threads[0], 0, poster, 0);
    pthread_create(&threads[1], 0, auditor, 0);
    for (;;) pause();
  }
  until = now() + atof(argv[2]) * 1000;
  pthread_create(&threads[0], 0, holder, 0);
  for (long i = 0; i < 2; i++) pthread_create(&threads[i + 1], 0, waiter, (void *)i);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  truth = fopen(argv[3], "w");
  fprintf(truth, "%.3f", waited[0] + waited[1]);
  return fclose(truth);
}
"#;

fn locks() -> Option<CompiledProgram> {
    CompiledProgram::of("contend", LOCKS, &["-O2", "-g", "-fno-optimize-sibling-calls", "-pthread"])
}

/// Returns the panels of the unit.
fn panels(args: &[&str]) -> Vec<Value> {
    let answer = unit_answer(&["locks"], |command| {
        command.args(args);
    });
    answer["panels"].as_array().expect("panels").clone()
}

fn begins(value: &Value, start: &str) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(start))
}

/// Returns whether a text has a word that begins so.
fn names(text: &str, start: &str) -> bool {
    text.split(' ').any(|word| word.starts_with(start))
}

fn read(path: &Path) -> f64 {
    std::fs::read_to_string(path).expect("the truth").trim().parse().expect("a number")
}

/// Waits, holder and what it did, as the threads measured it themselves.
#[test]
fn a_mutex_has_its_waits_and_its_holder() {
    let Some(locks) = locks() else { return };
    let (truth, contend) = (locks.dir.path().join("truth"), locks.path.display().to_string());
    with_time(&[2, 6, 15], |seconds| {
        let seconds = seconds.to_string();
        let panels = panels(&["--", &contend, "mutex", &seconds, &truth.display().to_string()]);
        let rows = panels[0]["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["lock"] == "one").ok_or(format!("{rows:?}"))?;
        let waited = row["waited_ns"].as_f64().unwrap_or(0.0) / 1e6;
        let expected = read(&truth);
        let is_right = (waited / expected - 1.0).abs() < 0.02
            && row["kind"] == "mutex"
            && begins(&row["holder"], "holder-")
            && begins(&row["holder_in"], "ran in ")
            && row["holder_in"].as_str().is_some_and(|work| work.split(' ').any(|word| word == "hold_burn"));
        let holders = panels[3]["rows"].as_array().expect("rows");
        let share: f64 =
            holders.iter().filter(|row| row["comm"] == "holder").filter_map(|row| row["share_pct"].as_f64()).sum();
        println!("{waited} of {expected} ms, holder {share} %: {row}");
        if is_right && share >= 97.0 {
            Ok(())
        } else {
            Err(format!("{waited} of {expected} ms, {share} %: {panels:?}"))
        }
    });
}

/// Two threads wait for each other since before the measurement, and in it.
#[test]
fn a_deadlock_is_found_also_if_it_is_old() {
    let Some(locks) = locks() else { return };
    let start = |delay: &str| {
        let mut command = Command::new(&locks.path);
        Running(command.args(["deadlock", delay]).stdout(Stdio::null()).spawn().expect("starts"))
    };
    let child = start("0.05");
    let pid = child.0.id();
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waits = |path: &Path| std::fs::read_to_string(path.join("wchan")).is_ok_and(|place| place.starts_with("futex"));
    until("both wait", || threads().filter(|thread| waits(&thread.path())).count() == 2);
    with_time(&[1, 4, 10], |seconds| {
        let panels = panels(&["-p", &pid.to_string(), "--duration", &seconds.to_string()]);
        let note = panels[0]["note"].as_str().unwrap_or_default();
        let names_locks = panels[0]["rows"]
            .as_array()
            .is_some_and(|rows| ["one", "other"].iter().all(|lock| rows.iter().any(|row| row["lock"] == *lock)));
        let is_right = note.starts_with("deadlock: ") && names(note, "poster-") && names(note, "auditor-");
        if is_right && names_locks { Ok(()) } else { Err(format!("{panels:?}")) }
    });
    // Without the unit, the figures of /proc have it.
    with_time(&[4, 10, 20], |seconds| {
        let page = run(program().args(["digest", "--for", &format!("{seconds}s"), "--format", "json"])).stdout;
        let page: Value = serde_json::from_slice(&page).expect("JSON");
        let findings = page["findings"].as_array().expect("a list");
        let is_it = |one: &Value| {
            let figure = one["figure"].as_str().unwrap_or_default();
            one["cause"] == "deadlock" && names(figure, "poster-") && names(figure, "auditor-")
        };
        if findings.iter().any(is_it) { Ok(()) } else { Err(format!("{findings:?}")) }
    });
    drop(child);
    with_time(&[4, 10, 20], |seconds| {
        // The threads begin to wait in the second half.
        let child = start(&(seconds / 2).to_string());
        let panels = panels(&["-p", &child.0.id().to_string(), "--duration", &seconds.to_string()]);
        let note = panels[0]["note"].as_str().unwrap_or_default();
        let rows = panels[0]["rows"].as_array().expect("rows");
        let has = |holder: &str| rows.iter().any(|row| begins(&row["holder"], holder));
        let is_right = note.starts_with("deadlock: ") && has("auditor-") && has("poster-");
        if is_right { Ok(()) } else { Err(format!("{panels:?}")) }
    });
}
