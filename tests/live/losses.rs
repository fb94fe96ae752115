//! Losses at the end of a command: no record follows, so that the kernel does not report them.

use std::process::{Command, Output, Stdio};

use crate::common::{absent, installed, program, run, skipped};
use crate::compiled::{CompiledProgram, unit_answer};

const CALLS: u64 = 100_000;

/// Stops the profiler, its parent, after half of the calls until it has ended, so that the last ones are lost however fast
/// they are read.
const LOAD: &str = r#"
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
  int ended[2], parent = 0;
  char c;
  if (pipe(ended)) return 1;
  for (int i = 0; i < 100000; i++) {
    parent = syscall(SYS_getppid);
    if (i != 50000) continue;
    if (fork() == 0) {
      close(ended[1]);
      _exit(read(ended[0], &c, 1) != 0 || kill(parent, SIGCONT) != 0);
    }
    if (kill(parent, SIGSTOP)) return 1;
  }
  return 0;
}
"#;

/// The number of `getppid` (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
const GETPPID: u64 = if cfg!(target_arch = "aarch64") { 173 } else { 110 };

/// Each call of threads that are chosen by name is two records. Rings of 32 KiB lose many of them, also those of the last calls.
#[test]
fn calls_at_the_end_are_counted_or_lost() {
    let Some(load) = CompiledProgram::of("calls", LOAD, &["-O1"]) else { return };
    let answer =
        unit_answer(&["syscalls", "-m", "8", "--comm", "calls"], |command| _ = command.arg("--").arg(&load.path));
    let rows = answer["panels"][0]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["call"] == "getppid").unwrap_or_else(|| panic!("{answer}"));
    let (calls, lost) = (row["calls"].as_u64().expect("calls"), answer["lost"].as_u64().expect("a number"));
    println!("{calls} calls, {lost} records lost");
    assert!(lost > 0, "nothing was lost");
    // A gap between two records may begin with the return of a call and end with the begin of another.
    assert!(2 * calls + lost >= 2 * CALLS * 99 / 100, "{calls} calls, {lost} lost");
}

/// The file has a record of each loss, and the number of lost samples, which `perf report` shows.
#[test]
fn a_recording_has_all_losses() {
    let Some(load) = CompiledProgram::of("calls", LOAD, &["-O1"]) else { return };
    let file = load.dir.path().join("lost.data");
    let mut record = program();
    let filter = format!("id == {GETPPID}");
    record.args(["record", "-e", "raw_syscalls:sys_enter", "--filter", &filter, "-m", "4", "--call-graph", "no"]);
    let Output { stderr, .. } = run(record.arg("-o").arg(&file).arg("--").arg(&load.path));
    println!("{}", String::from_utf8_lossy(&stderr));
    let reported = |mut command: Command, of: &str| {
        let Output { stdout, .. } = run(command.stdin(Stdio::null()));
        let text = String::from_utf8(stdout).expect("text");
        let lines = text.lines().filter(|line| line.contains(of));
        let numbers = lines.filter_map(|line| line.rsplit([':', ' ']).find_map(|word| word.parse::<u64>().ok()));
        numbers.sum::<u64>()
    };
    let mut report = program();
    report.args(["report", "--format", "json", "-i"]).arg(&file);
    let Output { stdout, .. } = run(report.stdin(Stdio::null()));
    let answer: serde_json::Value = serde_json::from_slice(&stdout).expect("JSON");
    let event = &answer["events"][0];
    let (samples, lost) = (event["samples"].as_u64().expect("samples"), event["lost"].as_u64().expect("a number"));
    assert!(lost > 0, "nothing was lost");
    assert_eq!(samples + lost, CALLS, "{event}");
    if installed("perf") {
        let perf = |words: &[&str]| {
            let mut perf = Command::new("perf");
            perf.args(words).arg("-i").arg(&file);
            perf
        };
        // Records of losses also count other records than samples.
        let recorded = reported(perf(&["report", "-D"]), "PERF_RECORD_LOST:");
        println!("{samples} samples, {lost} lost, {recorded} in records");
        assert!(recorded >= lost, "{recorded} of {lost}");
        assert_eq!(reported(perf(&["report", "--stdio"]), "Total Lost Samples"), lost);
    }
}

/// perf counts the losses of each event at the end. No record reports those after the last one.
#[test]
fn recordings_of_perf_have_the_losses_at_their_end() {
    let Some(load) = CompiledProgram::of("calls", LOAD, &["-O1"]) else { return };
    if !installed("perf") {
        return skipped("needs perf");
    }
    let file = load.dir.path().join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "raw_syscalls:sys_enter,raw_syscalls:sys_exit", "-m", "8", "-o"]);
    run(perf.arg(&file).arg("--").arg(&load.path).stdin(Stdio::null()));
    let answer = unit_answer(&["syscalls"], |command| _ = command.arg(&file));
    let rows = answer["panels"][0]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["call"] == "getppid").unwrap_or_else(|| panic!("{answer}"));
    let (calls, lost) = (row["calls"].as_u64().expect("calls"), answer["lost"].as_u64().expect("a number"));
    println!("{calls} calls, {lost} records lost");
    let version = run(Command::new("perf").arg("--version")).stdout;
    let numbers: Vec<u32> = String::from_utf8_lossy(&version)
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    if numbers < vec![6, 1] {
        return absent("perf before 6.1 does not count losses");
    }
    assert!(lost > 0, "nothing was lost");
    assert!(2 * calls + lost >= 2 * CALLS * 99 / 100, "{calls} calls, {lost} lost");
}
