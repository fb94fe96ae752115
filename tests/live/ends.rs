//! `offcpu` of programs whose threads or processes wait for the end of others.

use std::process::Command;

use serde_json::Value;

use crate::common::process::with_time;
use crate::common::{installed, skipped, traced};
use crate::compiled::{CompiledProgram, unit_answer};

/// Two threads fight for a lock a number of times, while the main thread joins them.
const FIGHT: &str = r#"
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void nap(void) { struct timespec t = {0, 2000000}; nanosleep(&t, 0); }
static void *fight(void *a) {
  for (int i = 0; i < 100; i++) { pthread_mutex_lock(&lock); nap(); pthread_mutex_unlock(&lock); }
  return a;
}
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, fight, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;

const THREADS: &str = r#"
import sys, threading, time
lock = threading.Lock()
def fight():
    for i in range(int(sys.argv[1])):
        with lock:
            time.sleep(0.002)
threads = [threading.Thread(target=fight) for i in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"#;

fn blocked(answer: &Value) -> &Value {
    let panels = answer["panels"].as_array().expect("panels");
    panels.iter().find(|panel| panel["title"] == "Blocked").expect("a panel")
}

fn is(row: &Value, column: &str, part: &str) -> bool {
    row[column].as_str().is_some_and(|text| text.contains(part))
}

/// Checks that waits for a lock come first, and then those for the end of a thread. Fails if the program was too short
/// for its stacks to be known.
fn lock_comes_first(answer: &Value) -> Result<(), String> {
    const LONG_NS: u64 = 50_000_000;
    let blocked = blocked(answer);
    let rows = blocked["rows"].as_array().expect("rows");
    let is_long = |row: &Value| row["blocked_ns"].as_u64() > Some(LONG_NS);
    let is_end = |row: &&Value| is(row, "class", "until another thread ends");
    if !rows.iter().filter(is_end).any(is_long) {
        return Err(format!("no join: {blocked}"));
    }
    assert!(is(&rows[0], "class", "not known: ") && is_long(&rows[0]), "{blocked}");
    // Waits for the lock do not belong to the end of the thread that releases it.
    let times: u64 = rows.iter().filter(is_end).filter_map(|row| row["times"].as_u64()).sum();
    assert!(times <= 4, "{blocked}");
    let shares = rows.iter().chain([&blocked["rest"]["sum"]]).filter_map(|row| row["share_pct"].as_f64());
    let sum: f64 = shares.sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum}: {blocked}");
    assert!(is(blocked, "note", "Woken by"), "{blocked}");
    Ok(())
}

#[test]
fn the_lock_comes_before_the_join() {
    let Some(fight) = CompiledProgram::of("fight", FIGHT, &["-O1", "-g", "-pthread", "-fno-omit-frame-pointer"]) else {
        return;
    };
    let answer = unit_answer(&["offcpu"], |command| {
        command.arg("--").arg(&fight.path);
    });
    lock_comes_first(&answer).expect("the kernel shows the end");
}

/// Python's join waits for a lock that the thread releases at its end.
#[test]
fn the_lock_of_a_python_program_comes_before_the_join() {
    needs!(traced());
    if !installed("python3") {
        return skipped("needs Python");
    }
    with_time(&[200, 1000, 4000], |rounds| {
        let answer = unit_answer(&["offcpu"], |command| {
            command.args(["--", "python3", "-c", THREADS]).arg(rounds.to_string());
        });
        lock_comes_first(&answer)
    });
}

/// A part of the child's sleep: on a busy machine, the shell waits for other things first.
const SHORT_NS: u64 = 100_000_000;

/// A shell waits for its children.
#[test]
fn a_shell_waits_for_the_end_of_its_children() {
    needs!(traced());
    let answer = unit_answer(&["offcpu"], |command: &mut Command| {
        command.args(["--", "sh", "-c", "sleep 0.3; exit 0"]);
    });
    let blocked = blocked(&answer);
    let rows = blocked["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| is(row, "class", "until another process ends")).expect("the wait of the shell");
    assert!(row["blocked_ns"].as_u64() > Some(SHORT_NS) && is(row, "wakers", "sleep"), "{blocked}");
}

/// The end of the child closes the pipe from which the shell reads its output.
#[test]
fn a_shell_that_reads_the_output_of_a_child_waits_for_its_end() {
    needs!(traced());
    let answer = unit_answer(&["offcpu"], |command: &mut Command| {
        command.args(["--", "sh", "-c", "x=$(sleep 0.3); exit 0"]);
    });
    let blocked = blocked(&answer);
    let rows = blocked["rows"].as_array().expect("rows");
    let reads = |row: &&Value| is(row, "class", "until another process ends") && is(row, "stack", "read");
    let row = rows.iter().find(reads).unwrap_or_else(|| panic!("{blocked}"));
    assert!(row["blocked_ns"].as_u64() > Some(SHORT_NS) && is(row, "wakers", "sleep"), "{blocked}");
}

const IDLE_JAVA: &str = r#"
public class Idle {
    public static void main(String[] args) throws Exception { Thread.sleep(Integer.parseInt(args[0]) * 1000L); }
}
"#;

/// The end of the program wakes HotSpot's own threads one by one. None of them was held up.
#[test]
fn an_idle_jvm_waits_for_work_until_its_end() {
    needs!(traced());
    if !["java", "javac"].into_iter().all(installed) {
        return skipped("needs Java");
    }
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("Idle.java"), IDLE_JAVA).expect("written");
    let compiled = Command::new("javac").arg("Idle.java").current_dir(dir.path()).status();
    assert!(compiled.is_ok_and(|status| status.success()));
    with_time(&[3, 10, 30], |seconds| {
        let answer = unit_answer(&["offcpu"], |command| {
            command.args(["--", "java", "-XX:+UseG1GC", "-cp"]).arg(dir.path()).args(["Idle", &seconds.to_string()]);
        });
        let blocked = blocked(&answer);
        let rows = blocked["rows"].as_array().expect("rows");
        // On a busy machine, the first stacks are broken.
        let is_whole = |row: &Value| is(row, "stack", "thread_native_entry");
        let is_long = |row: &Value| row["blocked_ns"].as_u64() > Some(SHORT_NS);
        let is_idle = |row: &Value| is_long(row) && is_whole(row) && is(row, "stack", "G1ServiceThread::");
        let is_large = |row: &Value| row["share_pct"].as_f64() > Some(1.0);
        let is_unknown = |row: &Value| is_whole(row) && is_large(row) && is(row, "class", "woken by each other");
        let idle = blocked["rest"]["rows"].as_array().expect("waits for work");
        match idle.iter().any(is_idle) && !rows.iter().any(is_unknown) {
            true => Ok(()),
            false => Err(blocked.to_string()),
        }
    });
}
