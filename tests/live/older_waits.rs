//! `offcpu` of threads that were blocked before it started, and of those that stay so.

use std::process::{Command, Stdio};

use crate::common::process::{Running, until, with_time};
use crate::compiled::{CompiledProgram, unit_answer};

/// A thread waits for a mutex that the main thread holds until its input ends.
const STUCK: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int sink;
__attribute__((noinline)) void want_lock(void) { volatile char pad[900]; pad[0] = 1; pthread_mutex_lock(&lock); sink++; }
__attribute__((noinline)) void handle_order(void) { volatile char pad[3000]; pad[0] = 1; want_lock(); sink++; }
static void *serve(void *a) { handle_order(); return a; }
__attribute__((noinline)) void hold_lock(void) { char c; while (read(0, &c, 1) > 0) sink++; sink++; }
int main(void) {
  pthread_t thread;
  pthread_mutex_lock(&lock);
  pthread_create(&thread, 0, serve, 0);
  hold_lock();
  pthread_mutex_unlock(&lock);
  return 0;
}
"#;

/// No event shows the stack of a thread that is blocked all the time: it is in the thread's memory.
#[test]
fn a_thread_that_is_stuck_before_the_start_has_its_whole_stack() {
    if cfg!(not(target_arch = "x86_64")) {
        return crate::common::skipped("needs tables of x86-64");
    }
    let options = ["-O2", "-g", "-pthread", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(stuck) = CompiledProgram::of("stuck", STUCK, &options) else { return };
    let child = Command::new(&stuck.path).stdin(Stdio::piped()).spawn().expect("starts");
    let child = Running(child);
    let pid = child.0.id();
    let is_blocked = |tid: &str, call: i64| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
        line.starts_with(&format!("{call} "))
    };
    let tids = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("running").flatten();
        tasks.map(|task| task.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    until("a blocked thread", || tids().iter().any(|tid| *tid != pid.to_string() && is_blocked(tid, libc::SYS_futex)));
    with_time(&[1, 4, 16], |seconds| {
        let answer = unit_answer(&["offcpu", "--duration", &seconds.to_string()], |measured| {
            measured.args(["-p", &pid.to_string()]);
        });
        let panels = answer["panels"].as_array().expect("panels");
        let of = |title: &str| panels.iter().find(|panel| panel["title"] == title).expect("a panel");
        let rows = of("Blocked")["rest"]["rows"].as_array().cloned().unwrap_or_default();
        let stacks: Vec<&str> = rows.iter().filter_map(|row| row["stack"].as_str()).collect();
        let has = |words: &[&str]| stacks.iter().any(|stack| words.iter().all(|word| stack.contains(word)));
        let is_whole = has(&["lll_lock_wait", "want_lock < handle_order < serve < start_thread"]);
        if is_whole && has(&["read < hold_lock < main < "]) { Ok(()) } else { Err(format!("{stacks:?}")) }
    });
}
