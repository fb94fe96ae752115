//! Callers without `.eh_frame`, in programs whose correct call chains are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::process::with_time;
use crate::common::{Nature, allowed, has, installed, program, run, traced};

/// Returns whether a folded stack has a frame of this name.
fn has_frame(stack: &str, name: &str) -> bool {
    stack.split(';').any(|frame| frame == name)
}

/// Nested functions; the innermost one works for some seconds of CPU time.
const NESTED: &str = r#"
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void inner(long n) { work(n); sink++; }
__attribute__((noinline)) void middle(long n) {
  volatile char room[200];
  room[n & 7] = 1;
  switch (n % 9) {
  case 0: inner(n + 1); break;
  case 1: sink += 3; inner(n + 3); break;
  case 2: sink += 5; inner(n + 5); break;
  case 3: sink += 7; inner(n + 7); break;
  case 4: sink += 9; inner(n + 9); break;
  case 5: sink *= 3; inner(n + 11); break;
  default: inner(n + room[n & 7]);
  }
  sink++;
}
__attribute__((noinline)) void outer(long n) { middle(n); sink++; }
__attribute__((noinline)) long deep(long d) { if (d == 0) { work(20000); return 1; } return deep(d - 1) + 1; }
int main(int argc, char **argv) {
  struct timespec now, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  end.tv_sec += atoi(getenv("CPU_SECONDS"));
  do {
    if (argc > 1) sink += deep(300);
    else for (long n = 20000; n < 20009; n++) outer(n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
  return 0;
}
"#;

/// The nested functions in a folded stack.
const NEST: &str = ";main;outer;middle;inner;work";

struct Stage {
    dir: tempfile::TempDir,
}

fn stage() -> Option<Stage> {
    let may = allowed() && installed("cc");
    may.then(|| Stage { dir: tempfile::tempdir().expect("dir") })
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Builds a program without frame pointers, with additional options.
    fn build(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (file, built) = (self.path(&format!("{name}.c")), self.path(name));
        std::fs::write(&file, source).expect("source");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-w"]).args(options);
        run(cc.arg("-o").args([&built, &file]));
        built
    }

    /// Runs a program under the recorder for some seconds of CPU time, and returns its folded stacks with their weights.
    fn folded(&self, mode: &str, seconds: u32, command: &[&Path]) -> Vec<(String, f64)> {
        let data = self.path("data");
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "999", "--call-graph", mode, "-o"]).arg(&data);
        run(record.env("CPU_SECONDS", seconds.to_string()).arg("--").args(command));
        later(&data)
    }

    /// Asserts that nearly all stacks of a program are right once its tables are loaded, which takes longer under load.
    fn mostly(&self, mode: &str, command: &[&Path], is_right: impl Fn(&str) -> bool) {
        with_time(&[1, 4, 16], |seconds| most(&self.folded(mode, seconds, command), mode, &is_right));
    }
}

/// The folded stacks of the second half of a recording, with their weights.
///
/// The first samples are taken before the unwind tables are loaded, and have frame pointers only.
fn later(data: &Path) -> Vec<(String, f64)> {
    let mut export = program();
    export.args(["export", "--time", "50%-100%", "--to", "folded", "-o", "-"]).arg(data);
    let text = String::from_utf8_lossy(&run(&mut export).stdout).into_owned();
    let one = |line: &str| line.rsplit_once(' ').and_then(|(stack, n)| Some((stack.to_owned(), n.parse().ok()?)));
    text.lines().filter_map(one).collect()
}

/// Fails unless at least 95 % of the weight has correct stacks.
fn most(stacks: &[(String, f64)], what: &str, is_right: impl Fn(&str) -> bool) -> Result<(), String> {
    let all: f64 = stacks.iter().map(|(_, weight)| weight).sum();
    let right: f64 = stacks.iter().filter(|(stack, _)| is_right(stack)).map(|(_, weight)| weight).sum();
    println!("{what}: {:.1} % of {} stacks", 100.0 * right / all, stacks.len());
    let is_right = all > 0.0 && right >= 0.95 * all;
    if is_right { Ok(()) } else { Err(format!("{what}: {right} of {all}: {stacks:#?}")) }
}

/// A return probe of a function, enabled until dropped.
struct ReturnProbe {
    group: String,
}

impl ReturnProbe {
    const TRACING: &str = "/sys/kernel/tracing";

    fn write(file: &str, text: &str) -> std::io::Result<()> {
        let file = std::fs::File::options().append(true).open(format!("{}/{file}", Self::TRACING));
        std::io::Write::write_all(&mut file?, text.as_bytes())
    }

    fn of(program: &Path, function: &str) -> Self {
        let symbols = run(Command::new("nm").arg(program)).stdout;
        let symbols = String::from_utf8_lossy(&symbols).into_owned();
        let address = symbols.lines().find_map(|line| line.strip_suffix(&format!(" T {function}"))).expect("a symbol");
        let group = format!("perfprof_callers_{}", std::process::id());
        let line = format!("r:{group}/returns {}:0x{address}\n", program.display());
        Self::write("uprobe_events", &line).expect("a probe");
        let probe = Self { group };
        Self::write(&format!("events/{}/returns/enable", probe.group), "1").expect("enabled");
        probe
    }
}

impl Drop for ReturnProbe {
    fn drop(&mut self) {
        let _ = Self::write(&format!("events/{}/returns/enable", self.group), "0");
        let _ = Self::write("uprobe_events", &format!("-:{}/returns\n", self.group));
    }
}

/// A return probe replaces the return address of the probed function.
#[test]
fn a_pending_return_probe_hides_no_caller() {
    needs!(traced(), has(Nature::Uprobes), has(Nature::Btf), installed("nm"));
    let Some(stage) = stage() else { return };
    // A PIE: addresses equal file offsets, which tracefs expects.
    let built = stage.build("probed", NESTED, &["-pie", "-fPIE"]);
    let _probe = ReturnProbe::of(&built, "inner");
    stage.mostly("tables", &[&built], |stack| has_frame(stack, "_start") && stack.ends_with(NEST));
    // On AArch64 the position of the return address on the stack is unknown.
    let is_known = cfg!(target_arch = "x86_64");
    stage.mostly("dwarf", &[&built], |stack| {
        stack.ends_with(NEST) || !is_known && stack.ends_with("[broken];inner;work")
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_without_tables_has_its_callers() {
    let Some(stage) = stage() else { return };
    let options = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let built = stage.build("bare", NESTED, &options);
    let is_whole = |stack: &str| has_frame(stack, "_start") && stack.ends_with(NEST);
    ["tables", "dwarf"].iter().for_each(|mode| stage.mostly(mode, &[&built], is_whole));
}

/// A program whose `.eh_frame` covers only the startup files.
#[test]
fn the_tables_of_debuggers_are_used_where_there_are_no_others() {
    let Some(stage) = stage() else { return };
    let options = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-g"];
    let built = stage.build("debugged", NESTED, &options);
    let is_whole = |stack: &str| has_frame(stack, "_start") && stack.ends_with(NEST);
    ["tables", "dwarf"].iter().for_each(|mode| stage.mostly(mode, &[&built], is_whole));
}

/// The kernel runs programs without section headers.
#[test]
fn a_program_without_section_headers_has_whole_stacks() {
    let Some(stage) = stage() else { return };
    let built = stage.build("headless", NESTED, &[]);
    let mut bytes = std::fs::read(&built).expect("read");
    bytes[0x28..0x30].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(&built, bytes).expect("written");
    for mode in ["tables", "dwarf"] {
        stage.mostly(mode, &[&built], |stack| !has_frame(stack, "[broken]") && stack.split(';').count() >= 7);
    }
}

/// The kernel walks at most 127 frames.
#[test]
fn a_stack_that_is_too_deep_is_marked_in_a_recording() {
    let Some(stage) = stage() else { return };
    let built = stage.build("deep", NESTED, &[]);
    with_time(&[1, 4, 16], |seconds| {
        let stacks = stage.folded("tables", seconds, &[&built, Path::new("deep")]);
        assert!(stacks.iter().all(|(stack, _)| !stack.starts_with("deep;deep;")), "{stacks:#?}");
        most(&stacks, "tables", |stack| stack.starts_with("deep;[truncated];deep;"))
    });
}

/// A JIT with unwind tables: one function that allocates a stack frame and calls its argument.
#[cfg(target_arch = "x86_64")]
const JIT: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void called(void) { work(20000); sink++; }
static const unsigned char pushed[16] = { 0x55, 0x48, 0x83, 0xec, 0x10, 0x31, 0xed, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3 };
/* After push %rbp 16, after room 32, after that is given back 16, after pop 8. */
static const unsigned char frames[] = {
  0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
  0x1c, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0,
  0x41, 0x0e, 16, 0x86, 2, 0x44, 0x0e, 32, 0x48, 0x0e, 16, 0x41, 0x0e, 8, 0xc6, 0, 0, 0, 0, 0, 0, 0, 0 };
static void record(int fd, uint32_t type, const void *a, size_t an, const void *b, size_t bn) {
  uint32_t head[2] = { type, 16 + an + bn };
  uint64_t time = 1;
  write(fd, head, 8); write(fd, &time, 8); write(fd, a, an); write(fd, b, bn);
}
int main(int argc, char **argv) {
  void (*jit)(void (*)(void)) = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy((void *)jit, pushed, sizeof pushed);
  char name[200];
  sprintf(name, "%s/jit-%d.dump", argv[1], getpid());
  int fd = open(name, O_CREAT | O_RDWR, 0600);
  uint32_t head[10] = { 0x4a695444, 1, 40, 62, 0, getpid() };
  write(fd, head, 40);
  mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  unsigned char tables[64];
  memcpy(tables, frames, 64);
  *(int32_t *)(tables + 32) = -(16 + 32);
  uint64_t unwinding[3] = { 64, 0, 0 };
  record(fd, 4, unwinding, 24, tables, 64);
  uint64_t load[5] = { 0, (uint64_t)jit, (uint64_t)jit, 16, 1 };
  record(fd, 0, load, 40, "compiled", 9);
  struct timespec now, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  end.tv_sec += atoi(getenv("CPU_SECONDS"));
  do {
    for (int i = 0; i < 10; i++) { jit(called); sink++; }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
  return 0;
}
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn a_jits_tables_lead_to_its_callers() {
    let Some(stage) = stage() else { return };
    let built = stage.build("jit", JIT, &[]);
    for mode in ["tables", "dwarf"] {
        let is_whole = |stack: &str| has_frame(stack, "_start") && stack.ends_with(";main;compiled;called;work");
        stage.mostly(mode, &[&built, stage.dir.path()], is_whole);
    }
}

/// A 32-bit program without frame pointers, with unwind tables: start calls outer, which calls inner, which counts. It
/// ends when its CPU time is over.
#[cfg(target_arch = "x86_64")]
const NARROW: &str = r#"
.type _start, @function
.type outer, @function
.type inner, @function
.globl _start
_start: .cfi_startproc
  .cfi_undefined %eip
  call outer
  .cfi_endproc
.globl outer
outer: .cfi_startproc
  sub $28, %esp
  .cfi_adjust_cfa_offset 28
again: call inner
  jmp again
  .cfi_endproc
.globl inner
inner: .cfi_startproc
  push %ebp
  .cfi_adjust_cfa_offset 4
  .cfi_rel_offset %ebp, 0
  mov $1000000, %ebp
count: dec %ebp
  jnz count
  mov $20, %eax
  int $0x80
  pop %ebp
  .cfi_adjust_cfa_offset -4
  .cfi_restore %ebp
  ret
  .cfi_endproc
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_of_32_bits_is_walked_by_its_tables() {
    let Some(stage) = stage() else { return };
    std::fs::write(stage.path("narrow.s"), NARROW).expect("source");
    run(Command::new("as").arg("--32").arg("-o").args([stage.path("narrow.o"), stage.path("narrow.s")]));
    run(Command::new("ld").args(["-m", "elf_i386", "-o"]).args([stage.path("narrow"), stage.path("narrow.o")]));
    let folded = |mode: &str, seconds: u32| {
        let data = stage.path(mode);
        let limited = format!("ulimit -t {seconds}; exec {}", stage.path("narrow").display());
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "999", "--call-graph", mode, "-o"]).arg(&data);
        // The CPU limit ends it with a signal.
        let _ = record.args(["--", "sh", "-c", &limited]).output().expect("runs");
        let mut stacks = later(&data);
        stacks.retain(|(stack, _)| stack.ends_with("inner"));
        stacks
    };
    with_time(&[1, 4, 16], |seconds| {
        most(&folded("tables", seconds), "32 bits", |stack| stack == "narrow;_start;outer;inner")
    });
    // Copied stacks of 32-bit programs are not unwound, and are marked as broken.
    with_time(&[1, 4, 16], |seconds| {
        most(&folded("dwarf", seconds), "32 bits, copied", |stack| stack == "narrow;[broken];inner")
    });
}
