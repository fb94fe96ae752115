//! Kernel-side stack walks by unwind tables, of programs whose correct call chains are known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object, ObjectSection};
use perfprof_tui::kernel::walk::Walker;

use crate::common::process::{Running, until, with_time};
use crate::common::{allowed, data, environment, installed, program, run, skipped};

/// Twenty nested functions with frames of different sizes, 600 kB in main, and below them work, file reads or a signal
/// handler. It runs for a number of seconds of CPU time, so that other load costs no samples, and at least a number of
/// rounds.
const CHAIN: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static int fd, what;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void handler(int s) { work(200000); sink++; }
__attribute__((noinline)) void f0(int n) {
  char b[4096];
  if (what == 'r') for (int i = 0; i < 50; i++) { if (pread(fd, b, sizeof b, 0) < 0) exit(1); }
  else if (what == 's') { raise(SIGUSR1); }
  else work(20000 + n);
  sink++;
}
#define F(a, b) __attribute__((noinline)) void f##a(int n) { volatile char pad[8 * (a % 5) + 8]; pad[0] = 1; f##b(n + pad[0]); sink++; }
F(1,0) F(2,1) F(3,2) F(4,3) F(5,4) F(6,5) F(7,6) F(8,7) F(9,8) F(10,9) F(11,10) F(12,11) F(13,12) F(14,13) F(15,14) F(16,15) F(17,16) F(18,17) F(19,18) F(20,19)
int main(int argc, char **argv) {
  volatile char wide[600000];
  wide[argc] = 1;
  what = argv[1][0];
  fd = open("/proc/self/exe", O_RDONLY);
  signal(SIGUSR1, handler);
  alarm(600);
  struct timespec now, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  end.tv_sec += atoi(argv[2]);
  do {
    for (int i = 0; i < (argc > 3 ? atoi(argv[3]) : what == 'v' ? 100 : 1); i++) f20(1);
    if (what == 'v') { pid_t p = vfork(); if (p == 0) { execl("/bin/true", "true", (char *)0); _exit(1); } waitpid(p, 0, 0); }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec < end.tv_sec);
  return 0;
}
"#;

struct Stage {
    dir: tempfile::TempDir,
    chain: PathBuf,
}

fn stage() -> Option<Stage> {
    if !allowed() || !installed("cc") || !installed("perf") {
        return None;
    }
    let dir = tempfile::tempdir().expect("dir");
    let (source, chain) = (dir.path().join("chain.c"), dir.path().join("chain"));
    std::fs::write(&source, CHAIN).expect("source");
    run(Command::new("cc")
        .args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-w", "-o"])
        .args([&chain, &source]));
    Some(Stage { dir, chain })
}

impl Stage {
    /// Records the chain for a number of seconds of CPU time.
    fn record(&self, mode: &str, what: &str, seconds: u32, more: &[&str]) -> PathBuf {
        let file = self.dir.path().join(format!("{mode}-{what}.data"));
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "--call-graph", mode, "-o"]).arg(&file).args(more);
        run(record.arg("--").arg(&self.chain).args([what, &seconds.to_string()]));
        file
    }
}

/// The stacks of a recording from perf, leaf first, in order of time.
fn stacks(file: &Path) -> Vec<Vec<String>> {
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-F", "time,ip,sym", "-i"]).arg(file).stdin(Stdio::null());
    let text = String::from_utf8_lossy(&run(&mut script).stdout).into_owned();
    let name = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let one = |block: &str| block.lines().filter(|line| !line.trim().is_empty()).skip(1).map(name).collect();
    text.split("\n\n").filter(|block| !block.trim().is_empty()).map(one).collect()
}

/// The second half of the stacks with one of these functions.
///
/// Early samples have frame pointers only, because the tables are not loaded yet, which takes longer under load.
fn later(file: &Path, leaf: &str) -> Vec<Vec<String>> {
    let mut with = stacks(file);
    with.retain(|stack| stack.iter().any(|name| name == leaf));
    with.split_off(with.len() / 2)
}

/// Returns the number of later stacks with one of these functions, and how many of them are complete up to the start.
fn complete(file: &Path, leaf: &str) -> (usize, usize) {
    let own: Vec<String> = (0..=20).map(|i| format!("f{i}")).chain(["main".to_owned()]).collect();
    let with = later(file, leaf);
    let whole = |stack: &&Vec<String>| {
        let from = stack.iter().position(|name| name == "f0");
        let chain = from.and_then(|from| stack.get(from..from + own.len()));
        chain == Some(&own) && stack.last().is_some_and(|name| name == "_start")
    };
    (with.len(), with.iter().filter(whole).count())
}

fn nearly_all((all, whole): (usize, usize), of: &str) -> Result<(), String> {
    println!("{of}: {whole} of {all} stacks are complete");
    let is_right = all > 100 && whole * 100 >= all * 99;
    if is_right { Ok(()) } else { Err(format!("{of}: {whole} of {all}")) }
}

/// Asserts that stacks with this function are complete once the tables are loaded.
fn walked(stage: &Stage, what: &str, leaf: &str, more: &[&str]) {
    with_time(&[2, 8, 30], |seconds| nearly_all(complete(&stage.record("tables", what, seconds, more), leaf), what));
}

#[test]
fn a_program_without_frame_pointers_has_whole_stacks() {
    let Some(stage) = stage() else { return };
    let (all, whole) = complete(&stage.record("fp", "w", 1, &[]), "work");
    assert!(all > 100 && whole * 50 < all, "frame pointers find {whole} of {all}");
    walked(&stage, "w", "work", &[]);
}

/// Processes that block in functions of different depth: in a mutex, a pipe, a sleep and a poll.
const BLOCKS: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t *lock;
static int pipes[2], to[2];
static volatile int sink;
#define CALL(a, b) __attribute__((noinline)) void a(void) { volatile char pad[40]; pad[0] = 1; b(); sink += pad[0]; }
__attribute__((noinline)) void in_lock(void) { pthread_mutex_lock(lock); usleep(3000); pthread_mutex_unlock(lock); }
__attribute__((noinline)) void in_pipe(void) { char c; if (read(pipes[0], &c, 1) != 1) exit(1); sink++; }
__attribute__((noinline)) void in_write(void) { char c = 1; usleep(2000); if (write(pipes[1], &c, 1) != 1) exit(1); sink++; }
__attribute__((noinline)) void in_sleep(void) { struct timespec t = { 0, 3000000 }; clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0); sink++; }
__attribute__((noinline)) void in_poll(void) { struct pollfd p = { to[0], POLLIN, 0 }; poll(&p, 1, 3); sink++; }
CALL(lock1, in_lock) CALL(lock2, lock1) CALL(pipe1, in_pipe) CALL(pipe2, pipe1) CALL(write1, in_write) CALL(write2, write1)
CALL(sleep1, in_sleep) CALL(sleep2, sleep1) CALL(poll1, in_poll) CALL(poll2, poll1)
int main(void) {
  void (*const all[])(void) = { lock2, lock2, pipe2, write2, sleep2, poll2 };
  pthread_mutexattr_t shared;
  int i;
  lock = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(lock, &shared);
  if (pipe(pipes) || pipe(to)) return 1;
  for (i = 0; i < 5 && fork(); i++);
  if (i < 5) prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(600);
  for (;;) all[i]();
}
"#;

/// Records the processes that block, and checks the callers of each event in the second half of the recording.
fn callers_are_whole(stage: &Stage, events: &str, target: &[&str]) {
    let file = stage.dir.path().join("blocks.data");
    with_time(&[1, 4, 16], |seconds| {
        let mut record = program();
        record.args(["record", "-q", "-e", events, "-g", "-o"]).arg(&file).args(target);
        run(record.args(["--", "sleep", &seconds.to_string()]));
        let found = ["lock", "pipe", "write", "sleep", "poll"].map(|kind| whole_callers(&file, kind));
        println!("{events} {target:?}: {found:?} are complete");
        let is_right = found.iter().all(|(all, whole)| *all > 10 && whole * 100 >= all * 99);
        if is_right { Ok(()) } else { Err(format!("{events} {target:?}: {found:?}")) }
    });
}

/// The later stacks of processes that block in one way, and the complete ones among them.
fn whole_callers(file: &Path, kind: &str) -> (usize, usize) {
    let leaf = format!("in_{kind}");
    let callers = [format!("{kind}1"), format!("{kind}2"), "main".to_owned()];
    let is_whole = |stack: &&Vec<String>| {
        let at = stack.iter().position(|name| *name == leaf).unwrap_or(0);
        stack.get(at + 1..at + 4) == Some(&callers) && stack.last().is_some_and(|name| name == "_start")
    };
    let with = later(file, &leaf);
    (with.len(), with.iter().filter(is_whole).count())
}

fn start_blocks(stage: &Stage) -> Running {
    let (source, blocks) = (stage.dir.path().join("blocks.c"), stage.dir.path().join("blocks"));
    std::fs::write(&source, BLOCKS).expect("source");
    let options = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-w", "-o"];
    run(Command::new("cc").args(options).args([&blocks, &source]));
    Running(Command::new(&blocks).stdout(Stdio::null()).spawn().expect("starts"))
}

/// The callers of blocked threads, whose library has no frame pointers: on the whole machine, and of a target.
#[test]
fn blocked_threads_have_whole_stacks() {
    let Some(stage) = stage() else { return };
    let child = start_blocks(&stage);
    callers_are_whole(&stage, "sched:sched_switch", &["-a"]);
    callers_are_whole(&stage, "sched:sched_switch", &["--pid", &child.0.id().to_string()]);
}

/// The same for wake-ups, system calls and timers, and where another perf user has sampled the tracepoint before: then
/// the kernel writes each walk behind its sample.
#[test]
fn traced_events_have_whole_stacks() {
    let Some(stage) = stage() else { return };
    let _child = start_blocks(&stage);
    let events = "sched:sched_waking,syscalls:sys_enter_read,syscalls:sys_exit_poll,timer:hrtimer_start";
    callers_are_whole(&stage, events, &["-a"]);
    let theirs = stage.dir.path().join("theirs.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-a", "-e", "raw_syscalls:sys_enter", "-e", "sched:sched_switch", "-o"]).arg(&theirs);
    // It ends when its input does.
    let begun = stage.dir.path().join("begun");
    perf.args(["--", "sh", "-c", "touch $0; cat"]).arg(&begun).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut perf = perf.spawn().expect("perf");
    until("perf has started", || begun.exists());
    callers_are_whole(&stage, "raw_syscalls:sys_enter,sched:sched_switch", &["-a"]);
    drop(perf.stdin.take());
    assert!(perf.wait().expect("ends").success());
    let script = run(Command::new("perf").args(["script", "-F", "comm", "-i"]).arg(&theirs).stdin(Stdio::null()));
    let hits = String::from_utf8_lossy(&script.stdout).lines().filter(|line| line.trim() == "blocks").count();
    assert!(hits > 100, "perf has {hits} hits of its own");
}

/// Runs a command to its end, and returns its process number.
fn ended(command: &mut Command) -> u32 {
    let mut child = command.stdout(Stdio::null()).spawn().expect("starts");
    assert!(child.wait().expect("ends").success());
    child.id()
}

/// At a probe of the session, whose function has not set up its frame. Without tables no stack of the program is whole.
#[test]
fn probed_functions_have_their_callers() {
    let Some(stage) = stage() else { return };
    let _child = start_blocks(&stage);
    let event = format!("uprobe:in_sleep@\"{}\"//stack/", stage.dir.path().join("blocks").display());
    // Under load the tables of a debug build take long.
    with_time(&[1, 4, 16], |seconds| {
        let folded = stage.dir.path().join(format!("probed{seconds}"));
        let mut trace = program();
        trace
            .args(["trace", "-e", &event, "--batch", "--duration", &seconds.to_string(), "--flame-graph"])
            .arg(&folded);
        let group = format!("perfprof_{}/", ended(&mut trace));
        let probes = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
        assert!(!probes.contains(&group), "probes are left: {probes}");
        let text = std::fs::read_to_string(folded.with_extension("folded")).expect("folded stacks");
        let of = |end: &str| -> u64 {
            let counts =
                text.lines().filter_map(|line| line.rsplit_once(' ')).filter(|(stack, _)| stack.ends_with(end));
            counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
        };
        let (all, whole) = (of("in_sleep"), of(";main;sleep2;sleep1;in_sleep"));
        println!("{whole} of {all} stacks are complete");
        let is_right = all > 50 && whole * 2 > all;
        if is_right { Ok(()) } else { Err(format!("{whole} of {all}")) }
    });
}

/// Tables are loaded within a millisecond or two of the first sample, not when the ring buffers are read: such a
/// program has ended by then.
#[test]
fn programs_of_some_milliseconds_have_their_callers() {
    let Some(stage) = stage() else { return };
    let file = stage.dir.path().join("short.data");
    // The builder of tables competes for a CPU on a busy machine.
    with_time(&[40, 40, 40], |rounds| {
        let script = format!("i=0; while [ $((i += 1)) -le {rounds} ]; do \"$0\" w 0 500; done");
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "--call-graph", "tables", "-o"]).arg(&file);
        run(record.args(["--", "sh", "-c", &script]).arg(&stage.chain));
        let mut with = stacks(&file);
        with.retain(|stack| stack.iter().any(|name| name == "f0"));
        let whole = with.iter().filter(|stack| stack.last().is_some_and(|name| name == "_start")).count();
        println!("{whole} of {} stacks are complete", with.len());
        if with.len() > 100 && whole * 2 > with.len() { Ok(()) } else { Err(format!("{whole} of {}", with.len())) }
    });
}

/// Counts the stacks of plugins that had a complete stack before, and the complete ones among them.
fn stacks_of_known_plugins(stacks: &[Vec<String>]) -> (usize, usize) {
    let (mut known, mut all, mut complete) = (BTreeSet::new(), 0, 0);
    for stack in stacks {
        let Some(at) = stack.iter().position(|name| name.ends_with("_kernel")) else { continue };
        let has_callers = stack.get(at + 1..at + 4).is_some_and(|callers| callers == ["plug_run", "one", "main"]);
        let is_complete = has_callers && stack.last().is_some_and(|name| name == "_start");
        if known.contains(&stack[at]) {
            (all, complete) = (all + 1, complete + usize::from(is_complete));
        } else if is_complete {
            known.insert(&stack[at]);
        }
    }
    (all, complete)
}

/// Plugins that take turns at one address are walked by their own tables, although each is mapped for only some
/// milliseconds and its mmap record is read later.
#[test]
fn plugins_that_take_turns_have_whole_stacks() {
    let Some(stage) = stage() else { return };
    let file = stage.dir.path().join("turns.data");
    // Under load the tables of a debug build take long: a longer run has stacks after they are built.
    for milliseconds in ["1500", "4000", "16000"] {
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "--call-graph", "tables", "-o"]).arg(&file);
        run(record.arg("--").arg(data("bin/dlchurn")).arg(milliseconds));
        let (all, whole) = stacks_of_known_plugins(&stacks(&file));
        println!("{whole} of {all} stacks are complete");
        if all > 50 {
            assert!(whole * 50 >= all * 49, "{whole} of {all}");
            return;
        }
    }
    panic!("no tables were built");
}

/// A function that the program moves to memory without a file, as some do to have their text in huge pages.
const MOVED: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline, aligned(4096), section(".moved"))) void work(int n) { for (int i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void inner(int n) { volatile char pad[72]; pad[0] = 1; work(n + pad[0]); sink++; }
__attribute__((noinline)) void outer(int n) { volatile char pad[200]; pad[0] = 1; inner(n + pad[0]); sink++; }
int main(int argc, char **argv) {
  char *copy = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(copy, (void *)work, 4096);
  mprotect(copy, 4096, PROT_READ | PROT_EXEC);
  if (mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)work) == MAP_FAILED) return 1;
  struct timespec now, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  end.tv_sec += atoi(argv[1]);
  do { outer(100000); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); } while (now.tv_sec < end.tv_sec);
  return 0;
}
"#;

/// The moved function has no name after the program has ended, but its callers do.
#[test]
fn code_that_was_moved_has_whole_stacks() {
    let Some(stage) = stage() else { return };
    let [source, moved, file] = ["moved.c", "moved", "moved.data"].map(|name| stage.dir.path().join(name));
    std::fs::write(&source, MOVED).expect("source");
    run(Command::new("cc").args(["-O2", "-fomit-frame-pointer", "-w", "-o"]).args([&moved, &source]));
    with_time(&[2, 8, 30], |seconds| {
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "--call-graph", "tables", "-o"]).arg(&file);
        run(record.arg("--").arg(&moved).arg(seconds.to_string()));
        let with = stacks(&file);
        let later = &with[with.len() / 2..];
        // The program also reads its clock, in `main`.
        let reads_clock = |stack: &&Vec<String>| stack.iter().any(|name| name.contains("clock_gettime"));
        let moved: Vec<_> = later.iter().filter(|stack| !reads_clock(stack)).collect();
        assert!(moved.len() * 10 > later.len() * 9, "{} of {}", moved.len(), later.len());
        let is_whole = |stack: &&&Vec<String>| {
            stack.windows(3).any(|three| three == ["inner", "outer", "main"])
                && stack.last().is_some_and(|name| name == "_start")
        };
        nearly_all((moved.len(), moved.iter().filter(is_whole).count()), "moved code")
    });
}

/// The first writer after a full ring buffer reports the loss, which may be the BPF program.
#[test]
fn perf_reads_what_is_left_where_a_ring_was_full() {
    let Some(stage) = stage() else { return };
    let file = stage.dir.path().join("full.data");
    let mut record = program();
    record.args(["record", "-q", "--force", "-F", "20000", "-m", "1", "-e", "cpu-clock:u,cpu-clock:k", "-o"]);
    run(record.arg(&file).args(["--call-graph", "tables", "--"]).arg(&stage.chain).args(["r", "1"]));
    let dump = run(Command::new("perf").args(["report", "-D", "-i"]).arg(&file).stdin(Stdio::null()));
    assert!(String::from_utf8_lossy(&dump.stdout).contains("PERF_RECORD_LOST"), "nothing was lost");
    // perf warns and exits with 0.
    let report = run(Command::new("perf").args(["report", "--stdio", "-i"]).arg(&file).stdin(Stdio::null()));
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(!said.contains("failed to process"), "{said}");
}

/// A function without a table row, whose frame pointer leads to an invalid caller: each of its samples has a reason to
/// request tables.
#[cfg(target_arch = "x86_64")]
const NOWHERE: &str = r#"
__asm__(".text\n.globl nowhere\n.type nowhere,@function\nnowhere:\npush %rbp\nmov %rdi,%rbp\nmov $0xd0000000,%eax\n"
        "1: dec %rax\njnz 1b\npop %rbp\nret\n.size nowhere,.-nowhere\n");
void nowhere(void *record);
int main(void) { unsigned long record[2] = { 0, 0x123456789000 }; nowhere(record); return 0; }
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn who_always_has_a_reason_asks_for_tables_less_and_less_often() {
    let Some(stage) = stage() else { return };
    let path = |name: &str| stage.dir.path().join(name);
    let (source, nowhere, file) = (path("nowhere.c"), path("nowhere"), path("nowhere.data"));
    std::fs::write(&source, NOWHERE).expect("source");
    run(Command::new("cc").args(["-O2", "-w", "-o"]).args([&nowhere, &source]));
    let mut record = program();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "--call-graph", "tables", "-o"]).arg(&file);
    let mut record = record.arg("--").arg(&nowhere).spawn().expect("runs");
    // How often the thread that reads the requests woke up during its lifetime, also for other reasons.
    let mut woken = 0;
    while record.try_wait().expect("waited for").is_none() {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", record.id())).into_iter().flatten().flatten();
        for task in tasks.filter(|task| std::fs::read(task.path().join("comm")).is_ok_and(|comm| comm == b"tables\n")) {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let times = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            woken = times.and_then(|times| times.trim().parse().ok()).unwrap_or(woken);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let samples = stacks(&file).iter().filter(|stack| stack.iter().any(|name| name == "nowhere")).count();
    println!("{samples} samples, {woken} times woken");
    assert!(samples > 500 && (1..100).contains(&woken), "{samples} samples, {woken} times woken");
}

/// Functions of Go that call no others have no frame: frame pointers alone skip their callers.
const GO: &str = r#"
package main
import "syscall"
var sink int
//go:noinline
func spin(n int) int { for i := 0; i < 1000000; i++ { n = (n*31 + i) % 1000003 }; return n }
//go:noinline
func caller(n int) int { return spin(n) + 1 }
func main() {
  var used syscall.Rusage
  for used.Utime.Sec < 5 { sink += caller(sink); syscall.Getrusage(syscall.RUSAGE_SELF, &used) }
}
"#;

#[test]
fn functions_of_go_without_a_frame_have_their_callers() {
    if !cfg!(target_arch = "x86_64") || !allowed() || !installed("go") || !installed("perf") {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let (source, spin, file) = (dir.path().join("main.go"), dir.path().join("spin"), dir.path().join("go.data"));
    std::fs::write(&source, GO).expect("source");
    let mut build = Command::new("go");
    build.env("HOME", dir.path()).env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
    run(build.args(["build", "-ldflags=-w", "-o"]).args([&spin, &source]));
    let mut record = program();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", "tables", "-o"]).arg(&file);
    run(record.arg("--").arg(&spin));
    let stacks = later(&file, "main.spin");
    let chain = ["main.spin", "main.caller", "main.main", "runtime.main"];
    let is_whole = |stack: &&Vec<String>| {
        let from = stack.iter().position(|name| name == "main.spin").unwrap_or_default();
        stack[from..].iter().map(String::as_str).take(4).eq(chain)
            && stack.last().is_some_and(|l| l.starts_with("runtime.goexit"))
    };
    nearly_all((stacks.len(), stacks.iter().filter(is_whole).count()), "Go").expect("whole stacks");
}

#[test]
fn samples_in_system_calls_and_signal_handlers_have_whole_stacks() {
    let Some(stage) = stage() else { return };
    walked(&stage, "r", "f0", &[]);
    walked(&stage, "s", "handler", &[]);
}

/// A 32-bit program: start calls outer, which calls inner, which counts; all of them have frames. It ends when its CPU
/// time is over.
const NARROW: &str = r#"
.globl _start
_start: xor %ebp, %ebp
  call outer
.globl outer
outer: push %ebp
  mov %esp, %ebp
again: call inner
  jmp again
.globl inner
inner: push %ebp
  mov %esp, %ebp
  mov $1000000, %ecx
count: dec %ecx
  jnz count
  mov $20, %eax
  int $0x80
  pop %ebp
  ret
"#;

/// Without unwind tables, frame pointers lead through 32-bit code. Compilers omit them by default, so such a stack is
/// marked as broken, although this one is whole.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_of_32_bits_has_stacks_by_frame_pointers() {
    let Some(stage) = stage() else { return };
    let path = |name: &str| stage.dir.path().join(name);
    std::fs::write(path("narrow.s"), NARROW).expect("source");
    run(Command::new("as").arg("--32").arg("-o").args([path("narrow.o"), path("narrow.s")]));
    run(Command::new("ld").args(["-m", "elf_i386", "-o"]).args([path("narrow"), path("narrow.o")]));
    let whole = |mode: &str| {
        let file = path(mode);
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "--call-graph", mode, "-o"]).arg(&file);
        let limited = format!("ulimit -t 2; exec {}", path("narrow").display());
        // The CPU limit ends it with a signal.
        let _ = record.args(["--", "sh", "-c", &limited]).output().expect("runs");
        let stacks = later(&file, "again");
        // perf names return addresses, after the calls.
        let marker = (mode == "tables").then_some("[unknown]");
        let own: Vec<String> = ["count", "again", "outer"].into_iter().chain(marker).map(str::to_owned).collect();
        let whole = stacks.iter().filter(|stack| stack.ends_with(&own)).count();
        println!("{mode}: {whole} of {} stacks", stacks.len());
        (stacks.len(), whole)
    };
    let ((all_fp, by_fp), (all, by_tables)) = (whole("fp"), whole("tables"));
    assert!(all_fp > 100 && by_fp * 100 >= all_fp * 95, "{by_fp} of {all_fp}");
    assert!(all > 100 && by_tables * 100 >= all * 95, "{by_tables} of {all}");
}

/// Processes have other ids in a PID namespace than in the kernel: stacks are still walked by tables, filters compare
/// ids of the namespace, and processes outside it are shown as such.
#[test]
fn tables_and_filters_hold_in_a_pid_namespace_of_its_own() {
    let Some(stage) = stage() else { return };
    let inside = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.env_clear().envs(environment()).args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--mount",
            "sh",
            "-c",
        ]);
        let out = unshare.arg(script).output().expect("unshare (util-linux)");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        said
    };
    let outside = Running(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"));
    let (perf, chain) = (env!("CARGO_BIN_EXE_perfprof-tui"), stage.chain.display());
    let [all, one] = ["all", "one"].map(|name| stage.dir.path().join(name));
    let record = format!("{perf} record -e cpu-clock -F 999 --call-graph tables -a");
    let said = inside(&format!("exec {record} -o {} -- {chain} w 6", all.display()));
    assert!(said.contains("[outside]") && said.contains("hostPID"), "{said}");
    inside(&format!("{chain} w 60 & {record} --filter \"pid == $!\" -o {} -- sleep 2; kill $!", one.display()));
    drop(outside);
    nearly_all(complete(&all, "work"), "in a namespace of its own").expect("whole stacks");
    let rows = |file: &Path| {
        let out = run(program().arg("report").arg(file).args(["-s", "comm,pid", "--format", "json"])).stdout;
        let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let rows = json["events"][0]["rows"].as_array().expect("rows").clone();
        let row = |row: &serde_json::Value| {
            (row["comm"].as_str().unwrap_or_default().to_owned(), row["samples"].as_u64().unwrap_or(0))
        };
        rows.iter().map(row).collect::<Vec<(String, u64)>>()
    };
    let found = rows(&all);
    assert!(found.iter().any(|(comm, n)| comm == "[outside]" && *n > 100), "{found:?}");
    let filtered = rows(&one);
    assert!(matches!(&*filtered, [(comm, n)] if comm == "chain" && *n > 100), "{filtered:?}");
}

/// The filter runs first, and passing samples are walked.
#[test]
fn a_filter_and_tables_work_together() {
    let Some(stage) = stage() else { return };
    walked(&stage, "w", "work", &["--filter", "comm == chain"]);
    let file = stage.record("tables", "w", 1, &["--filter", "comm == absent"]);
    assert!(stacks(&file).is_empty(), "samples passed the filter");
}

/// Processes start and end faster than tables are built; a process that stays has its stacks.
#[test]
fn a_storm_of_processes_breaks_nothing() {
    let Some(stage) = stage() else { return };
    with_time(&[3, 8, 30], |seconds| {
        let (all, whole) = complete(&stage.record("tables", "v", seconds, &["-a"]), "f20");
        println!("during a storm: {whole} of {all} stacks are complete");
        if all > 100 && whole * 100 >= all * 95 { Ok(()) } else { Err(format!("{whole} of {all}")) }
    });
}

/// Without the right to load BPF programs, auto uses frame pointers and names the remedy; an explicit request is
/// rejected.
#[test]
fn without_rights_there_are_frame_pointers_and_the_remedy() {
    needs!(allowed(), installed("setpriv"));
    let copy = tempfile::Builder::new().prefix("perfprof").tempdir().expect("dir");
    let own = copy.path().join("program");
    crate::common::copy_program(env!("CARGO_BIN_EXE_perfprof-tui"), &own);
    for path in [copy.path(), &own] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("mode");
    }
    let said = |mode: &str| {
        let mut command = Command::new("setpriv");
        // All capabilities for sampling, without CAP_BPF.
        let caps = "-all,+perfmon,+syslog,+dac_override";
        command
            .args(["--bounding-set", caps, "--inh-caps", caps, "--ambient-caps", caps, "--reuid", "65534"])
            .arg(&own);
        command
            .args(["record", "-e", "cpu-clock", "--call-graph", mode, "-o"])
            .arg(copy.path().join("data"))
            .args(["--", "true"]);
        let out = command.output().expect("runs");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (taken, words) = said("auto");
    assert!(taken && words.contains("by frame pointers, not by tables") && words.contains("cap_bpf"), "{words}");
    let (taken, words) = said("tables");
    assert!(!taken && words.contains("cannot be loaded") && words.contains("--call-graph fp"), "{words}");
}

/// The verifier gives up at 1,000,000 instructions; its count differs considerably between kernels.
#[test]
fn the_verifier_has_little_work() {
    needs!(allowed());
    let walker = match Walker::load(0) {
        Ok(walker) => walker,
        Err(error) if error.log.is_empty() => {
            return skipped(&format!("the kernel says {:?}", error.errno));
        }
        Err(error) => panic!("{error:?}"),
    };
    let verified = walker.program().verified().expect("what the kernel says of it");
    assert!(verified > 0 && verified < 50_000, "verified instructions: {verified}");
}

fn sections(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let file = object::File::parse(bytes).expect("an object");
    let all = file.sections().map(|s| (s.name().unwrap_or_default().to_owned(), s.data().unwrap_or_default().to_vec()));
    all.collect()
}

#[test]
fn the_object_is_what_its_source_compiles_to() {
    needs!(installed("clang-14"));
    are_compiled("walk", &["perf_event", ".text"]);
    are_compiled("hit_sums", &["perf_event"]);
    are_compiled("call_sums", &["sys_enter", "sys_exit", "sched_process_fork", "sched_process_exec"]);
    are_compiled("dns_messages", &["net_dev_queue", "sock_recv_length", "consume_skb"]);
    are_compiled("switch_batches", &["sched_switch", "sched_wakeup", "sched_waking", "sched_wakeup_new"]);
}

/// Compares the objects in a folder of `src/kernel` with what their source compiles to.
fn are_compiled(program: &str, programs: &[&str]) {
    let dir = tempfile::tempdir().expect("folder");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel").join(program);
    let built = Command::new(folder.join("build")).arg(dir.path()).status().expect("runs");
    assert!(built.success());
    let relocations: Vec<String> = programs.iter().map(|program| format!(".rel{program}")).collect();
    let relocations = relocations.iter().map(String::as_str);
    let common = [".text", "maps", "license", ".BTF", ".BTF.ext"];
    let all: Vec<&str> = common.into_iter().chain(programs.iter().copied()).chain(relocations).collect();
    for name in ["x86_64", "aarch64"].map(|arch| format!("{program}.{arch}.o")) {
        let fresh = std::fs::read(dir.path().join(&name)).expect("built");
        let kept = std::fs::read(folder.join(&name)).expect("kept");
        let (fresh, kept) = (sections(&fresh), sections(&kept));
        for section in all.iter().copied() {
            assert!(fresh.contains_key(section), "{name} has {section}");
            assert!(
                fresh.get(section) == kept.get(section),
                "{section} of {name}: run {}",
                folder.join("build").display()
            );
        }
    }
}
