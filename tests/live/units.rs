//! Analysis units on the running kernel, against known loads.
//!
//! Without the privileges to measure the machine, each test reports that it is skipped.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::process::{Running, Stops, ran, until, with_time};
use crate::common::transcript::Transcript;
use crate::common::{self, Nature, allowed, by_frame_pointers, has, program, skipped, traced};
use perfprof_tui::kernel::monotonic_ns;
use rustix::thread::CpuSet;
use serde_json::Value;

/// Returns the complete answer of a unit.
fn answer(args: &[&str]) -> Value {
    // The words after `--` are a command.
    let (unit, rest) = args.split_at(if args[0] == "unit" { 2 } else { 1 });
    let how = ["--batch", "--format", "json", "-i", "3600s"];
    let output = program().envs([by_frame_pointers()]).args(unit).args(how).args(rest).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    let text = String::from_utf8(output.stdout).expect("text");
    // A command may print its own lines.
    let line = text.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{args:?}: {text}{said}"));
    serde_json::from_str(line).expect("json")
}

fn rows<'a>(answer: &'a Value, title: &str) -> &'a Vec<Value> {
    let panels = answer["panels"].as_array().expect("panels");
    let panel = panels.iter().find(|panel| panel["title"].as_str().is_some_and(|t| t.starts_with(title)));
    panel.unwrap_or_else(|| panic!("no panel {title}"))["rows"].as_array().expect("rows")
}

/// Starts this test program as a load of some kind.
fn load(kind: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--ignored", "--exact", "units::the_load", "--nocapture"]).env("PERFPROF_LOAD", kind);
    command
}

fn run_load(kind: &str) -> Running {
    Running(load(kind).stdout(Stdio::null()).spawn().expect("starts"))
}

#[inline(never)]
fn keeps_memory() {
    for _ in 0..100 {
        std::mem::forget(black_box(vec![0u8; 7_777]));
    }
}

#[inline(never)]
fn gives_memory_back() {
    for _ in 0..100 {
        drop(black_box(vec![0u8; 6_666]));
    }
}

#[inline(never)]
fn spins_in_between() {
    // Thread CPU time, much longer than everything else here.
    let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let ns = || spent().tv_sec * 1_000_000_000 + spent().tv_nsec;
    let end = ns() + 300_000_000;
    while ns() < end {
        // A leaf call: in a function without a frame yet, the caller is hidden.
        let mut n = 0u64;
        while n < 1_000_000 {
            n += 1 + (n & 1);
        }
        black_box(n);
    }
}

/// Touches each page of a fresh mapping once.
#[inline(never)]
fn touches_pages() {
    const PAGES: usize = 3000;
    let mut memory: Vec<u8> = Vec::with_capacity(4096 * PAGES);
    for page in 0..PAGES {
        memory.spare_capacity_mut()[page * 4096].write(1);
    }
    black_box(memory);
}

/// Maps a page, touches it and unmaps it.
fn touches_a_page() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    // SAFETY: the new mapping is used only here, within its size.
    unsafe {
        let (how, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let page = mmap_anonymous(std::ptr::null_mut(), 4096, how, kind).expect("mapped");
        page.cast::<u8>().write_volatile(1);
        munmap(page, 4096).expect("unmapped");
    }
}

static mut WATCHED: u64 = 0;

/// Calls of each thread of a storm, and the rounds of ten failures of another one.
const STORM: u64 = 400_000;
const STORM_FAILURES: u64 = 200;
/// The faults of each thread of a storm.
const STORM_FAULTS: u64 = 30_000;
/// The bytes that two threads send to and fro in a storm of context switches.
const STORM_ROUNDS: u64 = 20_000;
/// The reads of a storm on a descriptor.
const STORM_READS: u64 = 60_000;

/// Not a test: a load of bounded length for other tests.
#[test]
#[ignore = "a load for the other tests"]
fn the_load() {
    let end = Instant::now() + Duration::from_secs(600);
    match std::env::var("PERFPROF_LOAD").as_deref() {
        Ok("leak") => {
            keeps_memory();
            gives_memory_back();
        }
        Ok("faults") => {
            let mut memory = vec![0u8; 0];
            memory.reserve_exact(64 << 20);
            for page in 0..2000 {
                memory.spare_capacity_mut()[page * 4096].write(1);
            }
            black_box(memory);
        }
        Ok("pairs") => {
            for round in 0..6 {
                black_box(rustix::process::getppid());
                match round {
                    2 => spins_in_between(),
                    4 => touches_pages(),
                    _ => {}
                }
                let _ = black_box(rustix::process::getpgid(None));
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok("storm") => {
            // Two threads make as many calls as they can, and a third one fails from time to time.
            let calls = || {
                for _ in 0..STORM {
                    black_box(rustix::process::getppid());
                }
            };
            let fails = || {
                for _ in 0..STORM_FAILURES {
                    std::thread::sleep(Duration::from_micros(100));
                    let all = (0..10).map(|_| rustix::process::getpgid(rustix::process::Pid::from_raw(i32::MAX)));
                    assert!(all.into_iter().all(|group| black_box(group).is_err()));
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(calls);
                scope.spawn(calls);
                scope.spawn(fails);
            });
        }
        Ok("fault-storm") => {
            // Each thread writes the number of its faults at its end, by the kernel's count.
            let faults = || {
                for _ in 0..STORM_FAULTS {
                    touches_a_page();
                }
                let stat = File::open("/proc/thread-self/stat").expect("opened");
                let mut text = [0; 1024];
                let n = (&stat).read(&mut text).expect("read");
                String::from_utf8_lossy(&text[..n]).into_owned()
            };
            std::thread::scope(|scope| {
                let spawn = |_| std::thread::Builder::new().name("toucher".to_owned()).spawn_scoped(scope, faults);
                let threads: Vec<_> = (0..2).map(spawn).collect();
                for thread in threads {
                    let stat = thread.expect("starts").join().expect("ended");
                    // The fields after the name (proc_pid_stat(5)).
                    let fields = stat.rsplit(')').next().unwrap_or_default();
                    eprintln!("\nfaults {}", fields.split_whitespace().nth(7).expect("a number"));
                }
            });
        }
        Ok("switch-storm") => {
            // Two threads send a byte to and fro. Each reads at its end how often it left its CPU, by the kernel's count.
            let pipes = || std::io::pipe().expect("made");
            let ((mut here, mut to_here), (mut there, mut to_there)) = (pipes(), pipes());
            let switches = || {
                let status = std::fs::read_to_string("/proc/thread-self/status").expect("read");
                let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
                counts.map(|(_, n)| n.trim().parse::<u64>().expect("a number")).sum::<u64>()
            };
            std::thread::scope(|scope| {
                let named = || std::thread::Builder::new().name("switcher".to_owned());
                let first = named().spawn_scoped(scope, move || {
                    for _ in 0..STORM_ROUNDS {
                        to_there.write_all(&[0]).expect("sent");
                        here.read_exact(&mut [0]).expect("answered");
                    }
                    switches()
                });
                let second = named().spawn_scoped(scope, move || {
                    for _ in 0..STORM_ROUNDS {
                        there.read_exact(&mut [0]).expect("received");
                        to_here.write_all(&[0]).expect("answered");
                    }
                    switches()
                });
                for thread in [first, second] {
                    eprintln!("\nswitches {}", thread.expect("starts").join().expect("ended"));
                }
            });
        }
        Ok("reads") => {
            let zero = File::open("/dev/zero").expect("opened");
            let mut byte = [0];
            for _ in 0..STORM_READS {
                assert_eq!((&zero).read(&mut byte).expect("read"), 1);
            }
            // A descriptor that is closed cannot be looked up any more.
            let seen = std::env::var("PERFPROF_LOAD_TO").expect("a file");
            until("the reads have been seen", || Path::new(&seen).exists());
        }
        Ok("exec") => {
            // A thread that is not the main thread calls exec, and gets the id of the main thread.
            let other = std::thread::spawn(|| {
                use std::os::unix::process::CommandExt;
                Command::new("sleep").arg("0.2").exec()
            });
            panic!("no exec: {:?}", other.join());
        }
        Ok("spin") => {
            while Instant::now() < end {
                black_box(0);
            }
        }
        Ok("rate") => {
            // It keeps its rate despite delays, and writes the time of each call.
            let start = Instant::now();
            let to = std::env::var("PERFPROF_LOAD_TO").expect("a file");
            let over = format!("{to}.over");
            let mut said = BufWriter::new(File::create(to).expect("made"));
            for i in (0..30_000).take_while(|_| !Path::new(&over).exists()) {
                std::thread::sleep((start + Duration::from_millis(2 * i)).saturating_duration_since(Instant::now()));
                let before = monotonic_ns();
                black_box(rustix::process::getppid());
                writeln!(said, "{before} {}", monotonic_ns()).expect("written");
            }
            said.flush().expect("written");
        }
        Ok("duty") => {
            // Uses a fixed share of a CPU in each 100 ms, despite other load.
            let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let ns = || cpu().tv_sec * 1_000_000_000 + cpu().tv_nsec;
            let start = Instant::now();
            println!("\ntid {}", rustix::thread::gettid().as_raw_nonzero());
            for period in 1..600 {
                let begun = ns();
                while ns() - begun < 7_100_000 {
                    black_box(0);
                }
                std::thread::sleep(
                    (start + Duration::from_millis(100 * period)).saturating_duration_since(Instant::now()),
                );
            }
        }
        Ok("move") => {
            // Moves from CPU to CPU, each time behind a busy task.
            println!("\ntid {}", rustix::thread::gettid().as_raw_nonzero());
            let mut on = CpuSet::new();
            for round in 0.. {
                on.clear();
                on.set(round % 2);
                rustix::thread::sched_setaffinity(None, &on).expect("moved");
                let until = Instant::now() + Duration::from_millis(3);
                while Instant::now() < until {
                    black_box(0);
                }
                if round % 3 == 0 {
                    std::thread::sleep(Duration::from_millis(7));
                }
                if Instant::now() > end {
                    break;
                }
            }
        }
        Ok("write") => {
            let place = &raw mut WATCHED;
            println!("\nat {:#x}", place.addr());
            while Instant::now() < end {
                // SAFETY: only this thread accesses the static, by its address.
                unsafe { place.write_volatile(0x1234) };
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        _ => {}
    }
}

#[test]
fn who_waits_for_a_cpu_and_who_has_it() {
    needs!(traced());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // One more than the number of CPUs, so that one waits.
    let spinners: Vec<Running> = (0..=cpus).map(|_| run_load("spin")).collect();
    until("all of them run", || spinners.iter().all(|one| ran(one.pid()) > Duration::from_millis(50)));
    // A busy machine may lose records.
    let mut delays = (0..9).map(|_| answer(&["rundelay", "--duration", "1"]));
    let delay = delays.find(|delay| delay["lost"] == 0).expect("an answer without losses");
    let first = &rows(&delay, "Threads")[0];
    assert!(first["total_ns"].as_u64() > Some(100_000_000), "{first}");
    assert!(!rows(&delay, "Ran while").is_empty() && !rows(&delay, "Longest").is_empty());
    let states = answer(&["task-state", "--duration", "1"]);
    let span = states["until_ns"].as_f64().expect("until") - states["since_ns"].as_f64().expect("since");
    // Others may be busier on a busy machine.
    let is_spinner = |row: &&Value| {
        spinners.iter().any(|one| Path::new(&format!("/proc/{}/task/{}", one.pid(), row["tid"])).exists())
    };
    let busy = rows(&states, "Tasks").iter().find(is_spinner).expect("a spinner");
    let known = busy["total_ns"].as_f64().expect("known");
    let share = (busy["r_ns"].as_f64().unwrap_or(0.0) + busy["rd_ns"].as_f64().unwrap_or(0.0)) / known;
    assert!(share > 0.98 && known > 0.9 * span && known <= span, "{busy} of {span}");
    let on = answer(&["oncpu", "--duration", "1"]);
    let whole: f64 = rows(&on, "CPUs").iter().filter_map(|row| row["busy_pct"].as_f64()).sum();
    assert!(whole > 80.0 * cpus as f64 && whole < 100.5 * cpus as f64, "{whole} % of {cpus} CPUs");
}

#[test]
fn calls_of_a_command_with_their_errors() {
    needs!(traced());
    let calls = answer(&["syscalls", "--", "sh", "-c", "cat /nonexistent-file; true"]);
    let errors = rows(&calls, "Errors");
    let found = errors.iter().find(|row| row["errno"] == "ENOENT" && row["call"] == "openat");
    assert!(found.is_some_and(|row| row["errors"].as_u64() >= Some(1)), "{errors:?}");
    let reads: u64 = rows(&calls, "Calls").iter().filter_map(|row| row["calls"].as_u64()).sum();
    assert!(reads > 10, "{reads}");
}

/// A program that makes more calls than a ring could take: each is counted once, in sums or singly, and has its time.
#[test]
fn a_storm_of_calls_is_summed_exactly() {
    needs!(traced());
    for args in [&[][..], &["--per-thread"], &["--than", "50us"]] {
        let (calls, said) = calls_of_load("storm", args);
        let all = |name: &str, column: &str| -> u64 {
            let rows = rows(&calls, "Calls").iter().filter(|row| row["call"] == name);
            rows.filter_map(|row| row[column].as_u64()).sum()
        };
        assert_eq!(calls["lost"], 0, "{args:?}: {said}");
        assert_eq!(all("getppid", "calls"), 2 * STORM, "{args:?}: {calls}");
        assert_eq!(all("getpgid", "calls"), 10 * STORM_FAILURES, "{args:?}: {calls}");
        assert_eq!(all("getpgid", "errors"), 10 * STORM_FAILURES, "{args:?}: {calls}");
        let row = rows(&calls, "Calls").iter().find(|row| row["call"] == "getppid").expect("a row");
        let ns = |column: &str| row[column].as_u64().expect("a time");
        assert!(0 < ns("min_ns") && ns("min_ns") <= ns("p50_ns") && ns("p50_ns") <= ns("p99_ns"), "{row}");
        assert!(ns("p99_ns") <= ns("max_ns") && ns("max_ns") < ns("total_ns"), "{row}");
        let sum: u64 = rows(&calls, "Threads").iter().filter_map(|row| row["calls"].as_u64()).sum();
        assert!(sum >= 2 * STORM + 10 * STORM_FAILURES, "{args:?}: {sum}");
        // Where the kernel refuses the programs, each call is recorded; the figures are the same.
        let is_summed = panel_note(&calls, "Calls").contains("summed in the kernel");
        assert!(is_summed || said.contains("recorded one by one"), "{calls}: {said}");
        assert_eq!(panel_note(&calls, "Slowest").is_empty(), !is_summed, "{calls}");
        // Each failure has a line, or is counted in its note.
        let note = panel_note(&calls, "Lines");
        let lines = rows(&calls, "Lines").len() as u64;
        let lacking: u64 = ["older call", "without a line"].iter().map(|what| counted_in(note, what)).sum();
        assert!(lines + lacking >= 10 * STORM_FAILURES, "{lines}: {note}");
    }
}

/// The rows by file are not complete if calls are summed, and their note has the number that they lack.
#[test]
fn files_lack_the_calls_that_are_only_summed() {
    needs!(traced());
    let (list, said) = calls_of_reads(&[]);
    let read = sum_of(&list, "Calls", "call", "read");
    assert!((STORM_READS..STORM_READS + 1000).contains(&read), "{list:?}");
    assert!(list.iter().all(|calls| calls["lost"] == 0), "{list:?}");
    let noted = |title: &str, words: &str| -> Vec<u64> {
        list.iter().map(|calls| counted_in(note_of(calls, title), words)).collect()
    };
    // Each call of the load has a row, or is in one of two numbers: only summed, or looked up too late.
    let (zero, unknown) = (of_file(&list, "/dev/zero"), of_file(&list, "(not known)"));
    let lacking = noted("Files and peers", "only in the totals");
    assert_eq!(lacking, noted("Kinds", "only in the totals"), "{list:?}");
    assert_eq!(unknown, noted("Files and peers", "closed before their lookup").iter().sum::<u64>(), "{list:?}");
    let lacking: u64 = lacking.iter().sum();
    let all: u64 = list.iter().flat_map(|calls| rows(calls, "Calls")).filter_map(|row| row["calls"].as_u64()).sum();
    assert!((STORM_READS..=all).contains(&(zero + unknown + lacking)), "{zero}, {unknown}, {lacking} of {all}: {said}");
    assert!(0 < zero && zero <= STORM_READS + 10, "{zero}: {list:?}");
    assert!(lacking > STORM_READS / 10 || said.contains("recorded one by one"), "{list:?}: {said}");
    // Chosen calls are recorded one by one.
    let (list, said) = calls_of_reads(&["-e", "read"]);
    let lost: u64 = list.iter().filter_map(|calls| calls["lost"].as_u64()).sum();
    let found = of_file(&list, "/dev/zero") + of_file(&list, "(not known)");
    assert!(found + lost >= STORM_READS, "{list:?}: {said}");
    assert!(list.iter().all(|calls| !note_of(calls, "Files and peers").contains("summed")), "{list:?}");
}

/// The note of a panel; empty if the answer does not have it.
fn note_of<'a>(answer: &'a Value, title: &str) -> &'a str {
    let panels = answer["panels"].as_array().into_iter().flatten();
    let mut named = panels.filter(|panel| panel["title"] == title);
    named.next().and_then(|panel| panel["note"].as_str()).unwrap_or_default()
}

/// Returns the calls of the rows of a panel with a value, in all answers.
fn sum_of(list: &[Value], title: &str, column: &str, value: &str) -> u64 {
    let panels = list.iter().filter_map(|answer| answer["panels"].as_array()).flatten();
    let rows = panels.filter(|panel| panel["title"] == title).filter_map(|panel| panel["rows"].as_array()).flatten();
    rows.filter(|row| row[column] == value).filter_map(|row| row["calls"].as_u64()).sum()
}

fn of_file(list: &[Value], target: &str) -> u64 {
    sum_of(list, "Files and peers", "target", target)
}

/// Returns the answers about the load that reads, and the messages. It ends when an answer has named its file.
fn calls_of_reads(args: &[&str]) -> (Vec<Value>, String) {
    let (load, dir) = (load("reads"), tempfile::tempdir().expect("a directory"));
    let (seen, said) = (dir.path().join("seen"), dir.path().join("said"));
    let mut command = program();
    command.envs([by_frame_pointers(), ("PERFPROF_LOAD", "reads")]).env("PERFPROF_LOAD_TO", &seen);
    command.args(["syscalls", "--batch", "--format", "json", "-i", "1s"]).args(args);
    command.arg("--").arg(load.get_program()).args(load.get_args());
    command.stdout(Stdio::piped()).stderr(File::create(&said).expect("made"));
    let mut running = Running(command.spawn().expect("starts"));
    let lines = BufReader::new(running.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut list = Vec::new();
    // The load prints its own lines.
    for line in lines.filter(|line| line.starts_with('{')) {
        list.push(serde_json::from_str(&line).expect("json"));
        if of_file(&list, "/dev/zero") > 0 {
            std::fs::write(&seen, "").expect("written");
        }
    }
    assert!(running.0.wait().expect("ends").success(), "{list:?}");
    (list, std::fs::read_to_string(&said).expect("messages"))
}

/// Without the right to load BPF programs, each call is recorded, and a message reports it.
#[test]
fn without_rights_to_load_programs_each_call_is_recorded() {
    needs!(traced(), common::installed("setpriv"));
    let copy = tempfile::Builder::new().prefix("perfprof").tempdir().expect("dir");
    let own = copy.path().join("program");
    common::copy_program(env!("CARGO_BIN_EXE_perfprof-tui"), &own);
    for path in [copy.path(), &own] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("mode");
    }
    let caps = "-all,+perfmon,+syslog,+dac_override";
    let output = Command::new("setpriv")
        .args(["--bounding-set", caps, "--inh-caps", caps, "--ambient-caps", caps, "--reuid", "65534"])
        .arg(&own)
        .args(["syscalls", "--batch", "--format", "json", "-i", "3600s", "--"])
        .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=3000", "status=none"])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("recorded one by one"), "{said}");
    let calls: Value = serde_json::from_slice(&output.stdout).expect("json");
    let read = rows(&calls, "Calls").iter().find(|row| row["call"] == "read").expect("a row");
    // This user's rings are small: a fast load may fill them.
    let (counted, lost) = (read["calls"].as_u64().expect("calls"), calls["lost"].as_u64().expect("a number"));
    assert!(counted + lost >= 3000, "{read}, {lost} lost");
    assert!(!panel_note(&calls, "Calls").contains("summed"), "{calls}");
}

/// Returns the calls of a load until its end, as JSON, and the messages.
fn calls_of_load(kind: &str, args: &[&str]) -> (Value, String) {
    answer_about(kind, &[&["syscalls"][..], args].concat())
}

/// Returns the answer of a unit about a load until its end, in which no record was lost, and the messages: a busy
/// machine may lose some, and the load runs again.
fn whole_answer(kind: &str, args: &[&str]) -> (Value, String) {
    let mut answers = (0..9).map(|_| answer_about(kind, args));
    let is_whole = |(answer, said): &(Value, String)| {
        println!("{} records lost: {said}", answer["lost"]);
        answer["lost"] == 0
    };
    answers.find(is_whole).expect("an answer without losses")
}

/// Returns the answer of a unit about a load until its end, and the messages. The unit has its name and options.
fn answer_about(kind: &str, args: &[&str]) -> (Value, String) {
    let load = load(kind);
    let (unit, options) = args.split_at(1);
    let mut command = program();
    command
        .envs([by_frame_pointers(), ("PERFPROF_LOAD", kind)])
        .args(unit)
        .args(["--batch", "--format", "json", "-i", "3600s"])
        .args(options);
    let output = command.arg("--").arg(load.get_program()).args(load.get_args()).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{args:?}: {text}{said}"));
    (serde_json::from_str(line).expect("json"), said)
}

fn panel_note<'a>(answer: &'a Value, title: &str) -> &'a str {
    let panels = answer["panels"].as_array().expect("panels");
    let panel = panels.iter().find(|panel| panel["title"].as_str().is_some_and(|t| t.starts_with(title)));
    panel.unwrap_or_else(|| panic!("no panel {title}"))["note"].as_str().unwrap_or_default()
}

/// Returns the number at the beginning of the part of a note that has some words.
fn counted_in(note: &str, words: &str) -> u64 {
    let part = note.split("; ").find(|part| part.contains(words)).unwrap_or_default();
    let number: String = part.chars().take_while(|c| !c.is_alphabetic()).filter(char::is_ascii_digit).collect();
    number.parse().unwrap_or_default()
}

/// Both returns of fork are one call, and a call has the name of its table: in a 64-bit program that makes 32-bit
/// calls, in a 32-bit program, and in recordings.
#[test]
#[cfg(target_arch = "x86_64")]
fn calls_count_once_and_have_the_names_of_their_abi() {
    needs!(traced());
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("calls.data").display().to_string();
    for (name, has_long) in [("calls32-int80", true), ("calls32-i386", false)] {
        let path = common::data(&format!("bin/{name}")).display().to_string();
        if !Command::new(&path).status().is_ok_and(|status| status.success()) {
            return skipped("the kernel has no 32-bit calls (CONFIG_IA32_EMULATION)");
        }
        let mut record = program();
        let events = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
        record.args(["record", "-q", "-e", events, "-o", &file, "--", &path]);
        assert!(record.output().expect("runs").status.success());
        for args in [&["syscalls", "--", &path][..], &["syscalls", &file]] {
            let calls = answer(args);
            let of = |call: &str| rows(&calls, "Calls").iter().find(|row| row["call"] == call).cloned();
            for (call, n) in [("poll", 20), ("fork", 1), ("wait4", 1)] {
                let row = of(call).unwrap_or_else(|| panic!("{args:?}: no {call}: {calls}"));
                assert_eq!((row["calls"].as_u64(), row["abi"].as_str()), (Some(n), Some("32-bit")), "{args:?}: {row}");
            }
            let long = of("getpid").map(|row| row["abi"].as_str() == Some("64-bit"));
            assert_eq!(long, has_long.then_some(true), "{args:?}");
            assert!(of("swapoff").is_none() && rows(&calls, "Under way").is_empty(), "{args:?}: {calls}");
        }
    }
}

/// A thread that is not the main thread calls exec and takes the main thread's id: no unit shows a call that
/// continues.
#[test]
fn a_thread_that_calls_exec_is_in_no_call_afterwards() {
    needs!(traced());
    let of = |unit: &str| answer_about("exec", &[unit]).0;
    let calls = of("syscalls");
    assert!(rows(&calls, "Under way").is_empty(), "{calls}");
    let execs = rows(&calls, "Calls").iter().find(|row| row["call"] == "execve").expect("an exec");
    // The load and its thread; lookups in PATH folders without the program are errors.
    let succeeded = execs["calls"].as_u64().zip(execs["errors"].as_u64().or(Some(0))).map(|(all, errors)| all - errors);
    assert!(succeeded == Some(2) && execs["total_ns"].as_u64() > Some(0), "{execs}");
    let tasks = of("task-state");
    let running = |row: &&Value| row["comm"].as_str() == Some("sleep") || row["state"] == "R";
    let list: Vec<&Value> = rows(&tasks, "Tasks").iter().filter(running).collect();
    assert!(list.iter().all(|row| row["state"] != "R"), "{list:?}");
}

#[test]
fn calls_are_told_with_their_strings() {
    needs!(traced());
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("a\u{1b}[31m"), dir.path().join("x".repeat(250)));
    std::fs::write(&from, "").expect("written");
    let event = "syscalls:sys_enter_rename*";
    let paths = [from.to_str().expect("text"), to.to_str().expect("text")];
    let log = answer(&["trace", "-e", event, "--", "mv", "-T", paths[0], paths[1]]);
    let said: Vec<&str> = rows(&log, "Log").iter().filter_map(|row| row["text"].as_str()).collect();
    let is_told = |line: &&str| paths.iter().all(|path| line.contains(&format!("{path:?}")));
    assert!(said.iter().any(is_told), "{said:?}");
    // The longest path has 4,095 bytes.
    let longest = format!("/{}", "x/".repeat(2047));
    let open = "cat \"$0\" || true";
    let log = answer(&["trace", "-e", "syscalls:sys_enter_openat", "--", "sh", "-c", open, &longest]);
    let said: Vec<&str> = rows(&log, "Log").iter().filter_map(|row| row["text"].as_str()).collect();
    assert!(said.iter().any(|line| line.contains(&format!("{longest:?}"))), "{said:?}");
    // A recording has them in the kernel's text, which perf prints as well.
    let file = dir.path().join("x.data");
    let mut record = program();
    record.args(["record", "-e", event, "-o"]).arg(&file).args(["--", "mv", "-T", paths[1], paths[0]]);
    assert!(record.output().expect("runs").status.success());
    let script = program().args(["script", "-F", "trace"]).arg(&file).output().expect("runs");
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    assert!(text.contains(&format!("\"{}\"", paths[0].replace('\u{1b}', "␛"))), "{text}");
}

#[test]
fn memory_that_is_kept_is_found_to_the_byte() {
    needs!(traced(), has(Nature::Uprobes));
    let this = std::env::current_exe().expect("a path");
    let mut command = program();
    command.args(["kmemleak", "--batch", "--format", "json", "--"]).arg(&this);
    command.args(["--ignored", "--exact", "units::the_load"]).env("PERFPROF_LOAD", "leak");
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let group = format!("perfprof_{}/", running.id());
    let output = running.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("libc") && said.contains("not") && !output.status.success() {
        return skipped(said.trim());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}{text}"));
    let answer: Value = serde_json::from_str(line).expect("json");
    let survivors = rows(&answer, "Survivors");
    let kept = survivors.iter().find(|row| row["bytes"] == 777_700);
    assert!(kept.is_some_and(|row| row["objects"] == 100), "{survivors:?}");
    assert!(!survivors.iter().any(|row| row["bytes"] == 666_600), "{survivors:?}");
    // The probes are removed with the session; others may exist.
    let probes = ["/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"];
    let lists = probes.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    assert!(!lists.into_iter().any(|list| list.contains(&group)), "probes are left");
}

/// The caller of operator new, which has no frame, is named by frame pointers, and is listed before a cache that does
/// not grow.
#[test]
fn whoever_takes_memory_by_new_is_named() {
    needs!(traced(), has(Nature::Uprobes));
    let dir = tempfile::tempdir().expect("dir");
    let (code, path) = (dir.path().join("leak.cpp"), dir.path().join("leak"));
    let text = "#include <cstdlib>\n#include <unistd.h>\nvoid *volatile kept[9999]; int n;\n\
                extern \"C\" __attribute__((noinline)) void take_job() { kept[n++] = new char[1000]; asm(\"\"); }\n\
                extern \"C\" __attribute__((noinline)) void fill_cache() { kept[n++] = malloc(16 << 20); asm(\"\"); }\n\
                int main() { for (int i = 0; i < 400; i++) { if (i == 100) fill_cache(); take_job(); usleep(5000); } }\n";
    std::fs::write(&code, text).expect("written");
    let mut compiler = Command::new("c++");
    compiler.args(["-O1", "-fno-omit-frame-pointer", "-o"]).args([&path, &code]);
    if !compiler.status().is_ok_and(|status| status.success()) {
        return skipped("no C++ compiler");
    }
    let mut command = program();
    command.args(["kmemleak", "--batch", "--format", "json", "--"]).arg(&path);
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned);
    let answer: Value = serde_json::from_str(&line.unwrap_or_default()).expect(&said);
    let survivors = rows(&answer, "Survivors");
    let begins = |row: usize, name: &str| survivors[row]["stack"].as_str().is_some_and(|stack| stack.starts_with(name));
    // The first calls may come before the mappings of the program are read.
    assert!(begins(0, "take_job < main"), "{survivors:?}");
    let objects = |row: &Value| row["objects"].as_u64().unwrap_or_default();
    let jobs = survivors.iter().filter(|row| row["stack"].as_str().is_some_and(|stack| stack.starts_with("take_job")));
    assert!(jobs.map(objects).sum::<u64>() >= 380 && objects(&survivors[0]) >= 380, "{survivors:?}");
    let cache = survivors.iter().position(|row| row["bytes"].as_u64() >= Some(16 << 20)).expect("the cache");
    assert!(begins(cache, "fill_cache < main") && survivors[cache]["growth_bytes_s"].is_null(), "{survivors:?}");
    let rate = survivors[0]["growth_bytes_s"].as_f64().expect("a rate");
    let whole = 1000.0 * objects(&survivors[0]) as f64 / (survivors[0]["oldest_ns"].as_f64().expect("an age") / 1e9);
    assert!((0.6 * whole..1.2 * whole).contains(&rate), "{rate} of {whole}");
}

/// Stacks of page faults are walked by tables, though the unit opens these events after all others: in a shell and a libc
/// without frame pointers most are complete once the tables are built.
#[test]
fn stacks_of_page_faults_are_whole() {
    needs!(traced(), has(Nature::Btf));
    let mut shell = Command::new("sh");
    shell.args(["-c", "while :; do (:); done"]);
    let child = Running(shell.stdout(Stdio::null()).spawn().expect("starts"));
    let pid = child.0.id().to_string();
    until("complete stacks of page faults", || {
        let found = answer(&["page-faults", "-p", &pid, "--call-graph", "auto", "--duration", "1.5"]);
        let stacks = rows(&found, "By stack");
        let faults = |whole: bool| -> u64 {
            let of = |row: &&Value| row["stack"].as_str().is_some_and(|stack| stack.ends_with("[broken]") != whole);
            stacks.iter().filter(of).filter_map(|row| row["faults"].as_u64()).sum()
        };
        faults(true) > 2 * faults(false)
    });
}

/// A unit has complete stacks of its target from copies, also at tracepoints and in a libc without frame pointers.
#[test]
fn blocked_stacks_of_a_target_are_whole() {
    needs!(traced());
    let mut shell = Command::new("sh");
    shell.args(["-c", "while :; do sleep 0.05; done"]);
    let child = Running(shell.stdout(Stdio::null()).spawn().expect("starts"));
    let comm = format!("/proc/{}/comm", child.pid());
    until("the shell runs", || std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sh"));
    let pid = child.pid().to_string();
    with_time(&[1, 4, 16], |seconds| {
        let seconds = seconds.to_string();
        let found = answer(&["offcpu", "-p", &pid, "--call-graph", "dwarf", "--duration", &seconds]);
        let blocked = found["panels"].as_array().and_then(|panels| panels.first()).expect("a panel");
        let all = [&blocked["rows"], &blocked["rest"]["rows"]].into_iter().filter_map(Value::as_array).flatten();
        let stacks: Vec<&Value> = all.filter(|row| row["comm"] == "sh").collect();
        let is_whole = |row: &&Value| row["stack"].as_str().is_some_and(|stack| stack.contains("__libc_start"));
        let is_broken = format!("{stacks:?}").contains("[broken]");
        if !is_broken && stacks.iter().any(is_whole) { Ok(()) } else { Err(found.to_string()) }
    });
}

/// Without frame pointers stacks are broken, and a note reports it; with DWARF a unit has complete stacks.
#[test]
fn stacks_of_a_unit_are_taken_as_it_is_told() {
    needs!(allowed());
    let child = Running::busy("spin-nofp");
    let pid = child.0.id().to_string();
    let of = |mode: &str| {
        let found = answer(&["profile", "-p", &pid, "--call-graph", mode, "--duration", "1"]);
        let under = rows(&found, "Functions").iter().find(|row| row["function"] == "work_loop").cloned();
        let notes = found["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect::<Vec<_>>();
        (under.and_then(|row| row["children_pct"].as_f64()).unwrap_or(0.0), notes.join("\n"))
    };
    let (share, notes) = of("fp");
    let why = "of the stacks through spin-nofp end early, as it has no frame pointers";
    assert!(share < 5.0 && notes.contains(why), "{share}: {notes}");
    let (share, notes) = of("dwarf");
    assert!(share > 80.0 && !notes.contains("frame pointers"), "{share}: {notes}");
    let (_, notes) = of("dwarf,64");
    assert!(notes.contains("longer than their copy"), "{notes}");
    let mut transcript = Transcript::new();
    let wrong = transcript.add(program().args(["profile", "--call-graph", "orc", "--batch"]));
    assert_eq!(wrong.status.code(), Some(2));
    insta::assert_snapshot!("unknown-call-graph", transcript.text());
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn pages_that_are_touched() {
    needs!(allowed());
    let this = std::env::current_exe().expect("a path");
    let mut command = program();
    command.args(["page-faults", "--batch", "--format", "json", "--"]).arg(&this);
    command.args(["--ignored", "--exact", "units::the_load"]).env("PERFPROF_LOAD", "faults");
    let output = command.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .rfind(|line| line.starts_with('{'))
        .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let answer: Value = serde_json::from_str(line).expect("json");
    let faults: u64 = rows(&answer, "By stack").iter().filter_map(|row| row["faults"].as_u64()).sum();
    // With huge pages, one fault maps two megabytes.
    assert!(faults > 32, "{faults}");
}

/// Each fault of a storm counts once, summed or recorded: the threads have the faults that the kernel counted.
#[test]
fn a_storm_of_faults_is_summed_exactly() {
    needs!(allowed());
    let (answer, said) = whole_answer("fault-storm", &["page-faults"]);
    let counted: Vec<u64> = said.lines().filter_map(|line| line.strip_prefix("faults ")?.parse().ok()).collect();
    assert!(counted.len() == 2 && counted.iter().all(|n| *n >= STORM_FAULTS), "{said}");
    let all: u64 = counted.iter().sum();
    let panels = answer["panels"].as_array().expect("panels");
    let panel = panels.iter().find(|panel| panel["title"] == "By stack").expect("a panel");
    let rows = [&panel["rows"], &panel["rest"]["rows"]].into_iter().filter_map(Value::as_array).flatten();
    let of_threads = rows.filter(|row| row["task"].as_str().is_some_and(|task| task.starts_with("toucher")));
    // A thread has some more faults when it ends.
    let found: u64 = of_threads.filter_map(|row| row["faults"].as_u64()).sum();
    assert!((all..all + 40).contains(&found), "{found} of {all}: {answer}");
    let is_summed = panel_note(&answer, "By stack").contains("summed in the kernel");
    assert!(is_summed || said.contains("recorded one by one"), "{answer}: {said}");
}

/// Each context switch of a storm is in the figures: threads left their CPUs as often as the kernel counted.
#[test]
fn a_storm_of_switches_is_complete() {
    needs!(allowed());
    let (answer, said) = whole_answer("switch-storm", &["oncpu"]);
    let counted: Vec<u64> = said.lines().filter_map(|line| line.strip_prefix("switches ")?.parse().ok()).collect();
    let all: u64 = counted.iter().sum();
    // A thread that finds its byte does not wait for it.
    assert!(counted.len() == 2 && all > STORM_ROUNDS / 2, "{said}");
    let rows = rows(&answer, "Tasks").iter();
    let of_threads = rows.filter(|row| row["comm"] == "switcher");
    let found: u64 = of_threads.filter_map(|row| row["runs"].as_u64()).sum();
    // A thread leaves its CPU some more times when it ends.
    assert!(found < all + 40, "{found} of {all}: {answer}");
    // The tracepoint of some kernels omits some switches: the note has their number.
    let missed = counted_in(panel_note(&answer, "CPUs"), "not recorded");
    assert!(found + missed >= all && missed < all / 100, "{found} and {missed} of {all}: {answer}");
}

#[test]
fn who_writes_to_an_address() {
    needs!(allowed(), has(Nature::Breakpoints));
    let mut child = Running(load("write").stdout(Stdio::piped()).spawn().expect("starts"));
    let lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    let place =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("at ").map(str::to_owned)).expect("an address");
    let (event, pid) = (format!("mem:{place}/8:w"), child.0.id().to_string());
    let output = program()
        .args(["breakpoint", "-e", &event, "-p", &pid, "--duration", "1", "--batch", "--format", "json", "-i", "3600s"])
        .output()
        .expect("runs");
    if !output.status.success() {
        return skipped(String::from_utf8_lossy(&output.stderr).trim());
    }
    let answer: Value = serde_json::from_slice(&output.stdout).expect("json");
    // The number depends on other load.
    let hits: u64 = rows(&answer, "Hits").iter().filter_map(|row| row["hits"].as_u64()).sum();
    assert!(hits > 0, "{hits}");
    let values = rows(&answer, "Values");
    assert!(values.iter().any(|row| row["value"] == 0x1234), "{values:?}");
}

#[test]
fn counts_rates_and_windows() {
    needs!(traced());
    let _spinner = run_load("spin");
    let stat = answer(&["unit", "stat", "-e", "sched:sched_switch,page-faults", "--duration", "1"]);
    assert!(rows(&stat, "Events")[0]["count"].as_u64() > Some(0));
    let grid = answer(&["percpu-stat", "--duration", "1"]);
    assert!(rows(&grid, "Per second")[0]["switches"].as_f64() > Some(0.0));
    let windows = answer(&["hrcount", "-e", "sched:sched_switch", "--period", "10ms", "--duration", "1"]);
    let counted: u64 = rows(&windows, "Events").iter().filter_map(|row| row["windows"].as_u64()).sum();
    assert!(counted > 50, "{counted}");
    let profile = answer(&["profile", "-F", "99", "--duration", "1"]);
    // The number depends on other load.
    let samples: u64 = rows(&profile, "Functions").iter().filter_map(|row| row["samples"].as_u64()).sum();
    assert!(samples > 0, "{profile}");
}

/// Returns the answers of all intervals.
fn answers(args: &[&str]) -> Vec<Value> {
    let mut command = program();
    command.envs([by_frame_pointers()]).args(args).args(["--batch", "--format", "json"]);
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("json")).collect()
}

/// A value of a thread's schedstat in nanoseconds: run time or wait time.
fn account(tid: &str, place: usize) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).expect("the scheduler's account");
    text.split(' ').nth(place).and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}

/// Returns the time that the hypervisor took from all CPUs since boot, in nanoseconds.
fn stolen() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("CPU times");
    let ticks: f64 = text.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).expect("ticks");
    ticks * 10e6
}

/// Returns the answers of units, with the minimum and maximum growth of a value from the first start to the last end.
fn beside_account<const N: usize>(
    account: impl Fn() -> f64 + Sync,
    answers: impl FnOnce() -> [Value; N],
) -> ([Value; N], [f64; 2]) {
    let ended = AtomicBool::new(false);
    // Poll the value all the time, because the start of the unit is not known beforehand.
    let (answers, list) = std::thread::scope(|scope| {
        let poll = scope.spawn(|| {
            let mut list = vec![(monotonic_ns(), account())];
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
                list.push((monotonic_ns(), account()));
            }
            list
        });
        let answers = answers();
        ended.store(true, Ordering::Relaxed);
        (answers, poll.join().expect("polled"))
    });
    let times = |end: &str| answers.each_ref().map(|one| one[end].as_u64().expect("a time"));
    let since = times("since_ns").into_iter().min().expect("a start");
    let until = times("until_ns").into_iter().max().expect("an end");
    let before = |time: u64| list.iter().rfind(|(at, _)| *at <= time).expect("a reading").1;
    let after = |time: u64| list.iter().find(|(at, _)| *at >= time).expect("a reading").1;
    // A wait that was not over is in the account once the thread has run again.
    let settled = |time: u64| {
        let at_once = after(time);
        list.iter().find(|(at, value)| *at >= time && *value > at_once).map_or(at_once, |reading| reading.1)
    };
    let growth = [before(until) - after(since), settled(until) - before(since)];
    (answers, growth)
}

/// Some kernels omit the switch tracepoint when an idle CPU gets work: the three units based on switches must match
/// the thread's schedstat, whether or not its CPU idles in between.
#[test]
fn a_thread_of_known_duty() {
    needs!(traced());
    let mut running = Running(load("duty").stdout(Stdio::piped()).spawn().expect("starts"));
    let mut said = BufReader::new(running.0.stdout.take().expect("its output")).lines();
    let tid = said.find_map(|line| Some(line.expect("a line").strip_prefix("tid ")?.to_owned())).expect("a thread");
    let ran = || account(&tid, 0);
    for (unit, figure) in [("oncpu", "ran_ns"), ("task-state", "r_ns")] {
        let stolen_before = stolen();
        let ([one], [least, most]) = beside_account(ran, || [answer(&[unit, "--duration", "1.5", "--tid", &tid])]);
        let row = &rows(&one, "Tasks")[0];
        let got = row[figure].as_f64().expect("a time");
        // The schedstat of a running thread is as old as the last tick, and excludes steal time.
        let tick = 10e6;
        let (least, most) = (least - tick, 1.05 * most + tick + stolen() - stolen_before);
        assert!((least..=most).contains(&got), "{unit}: {got} is not from {least} to {most}: {row}");
    }
    drop(running);
}

/// With a subset of the CPUs, the state of a task on another CPU is known only when it returns: a thread that moves
/// between CPUs must not have waited longer than its schedstat shows.
#[test]
fn a_thread_that_moves_has_waited_no_longer_than_it_did() {
    needs!(traced());
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skipped("only one CPU");
    }
    let spinners: Vec<Running> = (0..2).map(|_| run_load("spin")).collect();
    let mut running = Running(load("move").stdout(Stdio::piped()).spawn().expect("starts"));
    let mut said = BufReader::new(running.0.stdout.take().expect("its output")).lines();
    let tid = said.find_map(|line| Some(line.expect("a line").strip_prefix("tid ")?.to_owned())).expect("a thread");
    let waited = || account(&tid, 1);
    for (unit, title, column) in [("rundelay", "Threads", "total_ns"), ("task-state", "Tasks", "rd_ns")] {
        // Both CPUs at one time: how the thread divides its time between them changes.
        let (answers, [_, most]) = beside_account(waited, || {
            std::thread::scope(|scope| {
                ["0", "1"]
                    .map(|cpu| scope.spawn(|| answer(&[unit, "-C", cpu, "--duration", "1.5", "--tid", &tid])))
                    .map(|answer| answer.join().expect("answers"))
            })
        });
        let parts = answers.each_ref().map(|one| rows(one, title)[0][column].as_f64().expect("a time"));
        assert!(parts.iter().all(|ns| *ns > 1e6), "{unit}: {parts:?}");
        assert!(parts[0] + parts[1] <= most, "{unit}: {parts:?} ns, though it waited {most} ns");
    }
    drop((running, spinners));
}

/// Counters of a target that has not run yet were not multiplexed.
#[test]
fn a_target_that_sleeps_shares_no_counters() {
    needs!(traced());
    let sleeps = Running::sleeping();
    let pid = sleeps.0.id();
    let at = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    until("it sleeps", || at().starts_with(&format!("{} ", libc_number("clock_nanosleep"))));
    let one = answer(&["unit", "stat", "-e", "sched:sched_switch", "-p", &pid.to_string(), "--duration", "0.5"]);
    let panel = &one["panels"][0];
    assert!(panel["title"] == "Events" && panel.get("note").is_none(), "{panel}");
}

/// For tasks blocked since before the start, /proc provides the stack and the system call.
#[test]
fn what_blocked_before_is_under_way() {
    needs!(traced());
    let mut reads = Running(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts"));
    let sleeps = Running::sleeping();
    let pids = [&reads, &sleeps].map(|running| u64::from(running.0.id()));
    // Wait until both block in their final call.
    let at = |pid: u64| std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    until("both wait", || {
        at(pids[0]).starts_with(&format!("{} 0x0 ", libc_number("read")))
            && at(pids[1]).starts_with(&format!("{} ", libc_number("clock_nanosleep")))
    });
    let tid = |row: &Value| row["tid"].as_u64();
    let one = answer(&["offcpu", "--duration", "0.5"]);
    let panels = one["panels"].as_array().expect("panels");
    let under_way = panels.iter().find(|panel| panel["title"] == "Under way").expect("a panel");
    // Their waits do not end during the measurement.
    let idle = under_way["rest"]["rows"].as_array().expect("rows");
    for (pid, call) in pids.iter().zip(["read", "clock_nanosleep"]) {
        let row = idle.iter().find(|row| tid(row) == Some(*pid)).expect("who sleeps");
        // The callers follow if their tables were built in time.
        let is_it = |function: &str| function.split('@').next() == Some(call);
        let waits = row["stack"].as_str().is_some_and(|stack| stack.split(" < ").any(is_it));
        assert!(row["since"] == "or longer" && waits, "{row}");
    }
    assert!(under_way["rest"]["sum"]["stack"].as_str().is_some_and(|words| words.starts_with("waiting for work: ")));
    // Their sleep is part of the total sleep time.
    let blocked = panels.iter().find(|panel| panel["title"] == "Blocked").expect("a panel");
    let shares = blocked["rows"].as_array().expect("rows").iter().chain([&blocked["rest"]["sum"]]);
    let sum: f64 = shares.filter_map(|row| row["share_pct"].as_f64()).sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum}");
    let one = answer(&["syscalls", "--duration", "0.5"]);
    let calls: Vec<&Value> = rows(&one, "Under way").iter().filter(|row| row["since"] == "or longer").collect();
    let call =
        |pid: u64| calls.iter().find(|row| tid(row) == Some(pid)).map(|row| row["call"].as_str().expect("a call"));
    assert_eq!(pids.map(call), [Some("read"), Some("clock_nanosleep")]);
    // Also if it is the only target and nothing happens.
    let one = answer(&["syscalls", "--duration", "0.5", "-p", &pids[1].to_string()]);
    let row = &rows(&one, "Under way")[0];
    assert_eq!((tid(row), row["call"].as_str()), (Some(pids[1]), Some("clock_nanosleep")));
    drop(reads.0.stdin.take());
}

/// A thread that waits for a lock does not wait for work: another thread of its program ends the wait, even if that
/// thread sleeps or writes to the disk meanwhile. A timer sleep is waiting for work.
#[test]
fn a_wait_for_a_lock_is_no_wait_for_work() {
    needs!(traced());
    let (lock, stop) = (Mutex::new(()), AtomicBool::new(false));
    let file = tempfile::tempfile().expect("a file");
    let goes_on = || !stop.load(Ordering::Relaxed);
    let napper = || {
        while goes_on() {
            std::thread::sleep(Duration::from_millis(5))
        }
    };
    let waiter = || {
        while goes_on() {
            drop(lock.lock())
        }
    };
    let holder = || {
        while goes_on() {
            let held = lock.lock();
            (&file).write_all(&[1; 4096]).and_then(|()| file.sync_all()).expect("written");
            std::thread::sleep(Duration::from_millis(5));
            drop(held);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // A busy machine or disk gives the lock late.
    with_time(&[1, 4, 16], |seconds| {
        stop.store(false, Ordering::Relaxed);
        let one = std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            let start = |name: &str| std::thread::Builder::new().name(name.to_owned());
            start("held-holder").spawn_scoped(scope, holder).expect("starts");
            start("held-waiter").spawn_scoped(scope, waiter).expect("starts");
            start("held-napper").spawn_scoped(scope, napper).expect("starts");
            answer(&["offcpu", "--comm", "held-*", "--call-graph", "auto", "--duration", &seconds.to_string()])
        });
        waits_for_the_lock(&one)
    });
}

/// Checks the waits of a holder, a waiter and a napper; fails if there were too few.
fn waits_for_the_lock(one: &Value) -> Result<(), String> {
    let panels = one["panels"].as_array().expect("panels");
    let blocked = panels.iter().find(|panel| panel["title"] == "Blocked").expect("a panel");
    let begins = |row: &Value, column: &str, start: &str| row[column].as_str().is_some_and(|it| it.starts_with(start));
    let held = blocked["rows"].as_array().expect("rows");
    let idle = blocked["rest"]["rows"].as_array().map_or(&[][..], Vec::as_slice);
    // On a busy machine the waiter may take the lock twice, and then the holder waits for it.
    let for_lock = held.iter().find(|row| begins(row, "wakers", "held-"));
    // Where the library has no frame pointers, its stack is broken unless tables or a copy lead on.
    let naps = held.iter().chain(idle).find(|row| begins(row, "stack", "clock_nanosleep"));
    let Some((for_lock, naps)) = for_lock.zip(naps) else { return Err(blocked.to_string()) };
    assert!(begins(for_lock, "class", "not known: "), "{blocked}");
    assert!(idle.iter().all(|row| begins(row, "wakers", "timer") || begins(row, "wakers", "none yet")), "{blocked}");
    let is_idle = begins(naps, "class", "waiting for work") || begins(naps, "class", "not known: stack is broken");
    assert!(is_idle && begins(naps, "wakers", "timer"), "{blocked}");
    let rows = held.iter().chain([&blocked["rest"]["sum"]]);
    let sum: f64 = rows.filter_map(|row| row["share_pct"].as_f64()).sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum}: {blocked}");
    Ok(())
}

fn libc_number(call: &str) -> i32 {
    match (call, cfg!(target_arch = "aarch64")) {
        ("read", false) => 0,
        ("read", true) => 63,
        ("clock_nanosleep", false) => 230,
        ("clock_nanosleep", true) => 115,
        _ => panic!("{call}"),
    }
}

/// Our own threads are in no figure, neither live nor in recordings.
#[test]
fn nothing_of_ours_is_in_a_units_figures() {
    needs!(traced());
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("sched.data").display().to_string();
    let events = "sched:sched_switch,sched:sched_wakeup";
    // Output and process id of a command of ours.
    let ran = |words: &[&str]| {
        let mut command = program();
        command.envs([by_frame_pointers()]).args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        let running = command.spawn().expect("starts");
        let pid = u64::from(running.id());
        (pid, running.wait_with_output().expect("ends").stdout)
    };
    let (recorder, _) = ran(&["record", "-a", "-g", "-e", events, "-o", &file, "--", "sleep", "0.5"]);
    for unit in ["rundelay", "offcpu", "wakeups", "oncpu", "task-state"] {
        for recorded in [false, true] {
            let of = if recorded { [&*file].to_vec() } else { ["--duration", "0.5"].to_vec() };
            let (own, text) = ran(&[&[unit, "--batch", "--format", "json"][..], &of].concat());
            let pid = if recorded { recorder } else { own };
            // A busy machine ends it after a second interval has begun.
            let text = String::from_utf8(text).expect("text");
            let last = text.lines().last().unwrap_or_default();
            let one: Value = serde_json::from_str(last).unwrap_or_else(|why| panic!("{unit}: {why}"));
            for panel in one["panels"].as_array().expect("panels") {
                // Tasks that ran while others waited are listed, including ours.
                let title = panel["title"].as_str().expect("a title");
                let list = panel["rows"].as_array().into_iter().flatten().filter(|_| !title.starts_with("Ran while"));
                let ours = list.filter(|row| {
                    let task = format!("-{pid}");
                    let named = |field: &str| row[field].as_str().is_some_and(|name| name.ends_with(&task));
                    row["tid"].as_u64() == Some(pid) || ["waker", "woken", "task"].into_iter().any(named)
                });
                assert_eq!(ours.collect::<Vec<_>>(), Vec::<&Value>::new(), "{unit}, recorded {recorded}: {title}");
            }
        }
    }
}

/// Counted or sampled, from the first interval on: a rate is the count divided by its interval, and both are correct.
#[test]
fn a_source_of_known_rate() {
    needs!(traced());
    let dir = tempfile::tempdir().expect("a directory");
    let cases: [(&[&str], &str, &str); 2] = [(&["unit", "stat"], "Events", "count"), (&["trace"], "Rates", "hits")];
    for (i, (args, panel, count)) in cases.into_iter().enumerate() {
        let said = dir.path().join(format!("{i}"));
        let mut running =
            Running(load("rate").env("PERFPROF_LOAD_TO", &said).stdout(Stdio::null()).spawn().expect("starts"));
        until("the load begins", || said.exists());
        // Loads of other tests have the same name.
        let threads = format!("/proc/{}/task", running.pid());
        let of_load = |dir: &std::path::Path| {
            std::fs::read_to_string(dir.join("comm")).is_ok_and(|comm| comm.trim() == "units::the_load")
        };
        let mut threads = std::fs::read_dir(threads).expect("it runs").flatten().map(|thread| thread.path());
        let thread = threads.find(|dir| of_load(dir)).expect("the test harness names the thread");
        let tid = thread.file_name().expect("a number").to_string_lossy().into_owned();
        let event = format!("syscalls:sys_enter_getppid/tid=={tid}/");
        let begun = Instant::now();
        let list = answers(&[args, &["-e", &event, "-i", "0.7", "--duration", "2"]].concat());
        let took = begun.elapsed().as_nanos() as u64;
        std::fs::write(said.with_extension("over"), "").expect("written");
        assert!(running.0.wait().expect("ends").success());
        let text = std::fs::read_to_string(&said).expect("written");
        let hits: Vec<(u64, u64)> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(before, after)| before.parse().ok().zip(after.parse().ok()))
            .collect();
        // Two of 0.7 s, and the remainder.
        assert_eq!(list.len(), 3, "{args:?}");
        let spans: Vec<(u64, u64)> = list
            .iter()
            .map(|one| (one["since_ns"].as_u64().expect("since"), one["until_ns"].as_u64().expect("until")))
            .collect();
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{spans:?}");
        let all = spans[2].1 - spans[0].0;
        // Counters are from their last read, which a busy machine delays.
        let most = if args[0] == "trace" { 2_000_000_000 } else { took };
        assert!((2_000_000_000..=most).contains(&all), "{args:?} covers {all} ns");
        for (one, (since, until)) in list.iter().zip(&spans) {
            let inside = |(before, after): &&(u64, u64)| since <= before && after <= until;
            // The load may be preempted between the call and its timestamp.
            let near = |(before, after): &&(u64, u64)| *since <= after + 50_000_000 && *before <= until + 50_000_000;
            let (least, most) = (hits.iter().filter(inside).count() as f64, hits.iter().filter(near).count() as f64);
            let seconds = (until - since) as f64 / 1e9;
            let row = &rows(one, panel)[0];
            let n = row[count].as_f64().expect("a count");
            assert!((least - 10.0..=most).contains(&n), "{args:?}: {n} of {least} to {most} in {since}..{until}");
            let rate = row["rate"].as_f64().expect("a rate");
            assert!((rate * seconds - n).abs() <= 0.01 * n, "{args:?}: {rate} a second of {n} in {seconds}");
        }
    }
}

/// Counts have no records, so a filter that the kernel cannot evaluate would have no effect.
#[test]
fn counts_are_refused_with_a_filter_that_the_kernel_cannot_evaluate() {
    needs!(traced());
    let said = |unit: &[&str], event: &str| {
        let output = program().args(unit).args(["--batch", "--duration", "0.2", "-e", event]).output().expect("runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (event, remedy) in [("syscalls:sys_enter_getppid/pid==1/", "use tid"), ("page-faults/pid==1/", "use -p, -t")] {
        let (is_counted, why) = said(&["unit", "stat"], event);
        assert!(!is_counted && why.contains(remedy), "{event}: {why}");
    }
    let (is_recorded, why) = said(&["trace"], "syscalls:sys_enter_getppid/pid==1/");
    assert!(is_recorded, "records have a process: {why}");
}

#[test]
fn one_report_of_a_given_time() {
    needs!(traced());
    for unit in [&["oncpu"][..], &["forks"], &["wakeups"], &["unit", "stat", "-e", "cs"]] {
        let begun = Instant::now();
        let list = answers(&[unit, &["--duration", "1.2"]].concat());
        let spans: Vec<u64> = list
            .iter()
            .map(|one| one["until_ns"].as_u64().expect("until") - one["since_ns"].as_u64().expect("since"))
            .collect();
        // Counters are from their last read, which a busy machine delays.
        let most = if unit.len() > 1 { begun.elapsed().as_nanos() as u64 } else { 1_200_000_000 };
        assert!(spans.len() == 1 && (1_200_000_000..=most).contains(&spans[0]), "{unit:?}: {spans:?}");
    }
}

/// `cycles` becomes a clock on machines without counters. Neither is sampled at every hit.
#[test]
fn cycles_and_clocks_are_sampled_at_a_rate() {
    needs!(traced());
    for (event, column) in [("cycles", ["cycles", "cpu-clock"]), ("cpu-clock", ["cpu-clock"; 2])] {
        let load = ["--", "sh", "-c", "timeout 0.5 sh -c 'while :; do :; done'; true"];
        let answer = answer(&[&["top", "-e", event, "--key", "comm"][..], &load].concat());
        let row = rows(&answer, "By comm").iter().find(|row| row["comm"] == "sh").expect("the load");
        let hits = column.iter().find_map(|name| row[*name].as_u64()).expect("a count");
        assert!((1..=999).contains(&hits), "{event}: {hits} in half a second");
    }
}

#[test]
fn what_this_machine_lacks_is_said() {
    needs!(traced());
    // The machine determines which of these exist; either way the result is an answer or a reason.
    for unit in ["kvm-exit", "kvmmmu", "ldlat-loads", "ldlat-stores", "llcstat", "tlbstat"] {
        let output = program().args([unit, "--batch", "--duration", "0.3"]).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || said.contains(unit) && said.len() > 40, "{unit}: {said}");
    }
}

/// Units among events: the functions that ran between two events, the gaps, and the waiting tasks, in one order of
/// time.
#[test]
fn what_happened_between_two_events() {
    needs!(traced());
    let places = "syscalls:sys_enter_getpgid,profile/-F 999/untraced/,page-faults//untraced/,task-state";
    let args = ["multi-trace", "-e", "syscalls:sys_enter_getppid", "-e", places, "--keep", "2", "-m", "8192"];
    // A loss leaves out the pairs that are open at that time, and the slowest one is open for the longest time.
    let (answer, said) = whole_answer("pairs", &args);
    let slow = rows(&answer, "Slowest");
    // The clock of CPU time and that of records differ a little.
    assert!(slow[0]["ns"].as_u64().is_some_and(|ns| ns >= 290_000_000), "{slow:?}\n{said}");
    // The slowest pair contains the spin: nearly all samples in it are of that function.
    let meanwhile = rows(&answer, "Meanwhile");
    let of = |event: &str, part: &str| -> u64 {
        let ours = |row: &Value| row["task"].as_str().is_some_and(|task| task.starts_with("units::the_load"));
        let is = |row: &&Value| {
            row["event"] == event && ours(row) && row["stack"].as_str().is_some_and(|stack| stack.contains(part))
        };
        meanwhile.iter().filter(is).filter_map(|row| row["times"].as_u64()).sum()
    };
    let (spun, sampled) = (of("profile", "spins_in_between"), of("profile", ""));
    assert!(spun >= 20 && spun * 10 >= sampled * 8, "{spun} of {sampled}: {meanwhile:?}\n{said}");
    let times: Vec<u64> =
        rows(&answer, "Events in between").iter().filter_map(|row| row["after_ns"].as_u64()).collect();
    assert!(times.len() > 20 && times.is_sorted(), "{times:?}");
}

#[test]
fn events_units_and_samples_in_one_order_of_time() {
    needs!(traced());
    let events = "syscalls:sys_enter_getppid,syscalls:sys_enter_getpgid,page-faults,task-state,profile";
    // 3,000 faults come at once, and the reader competes for a CPU.
    let (answer, said) = whole_answer("pairs", &["trace", "-e", events, "-F", "499", "-m", "2048"]);
    let rates = rows(&answer, "Rates");
    let hits =
        |event: &str| rates.iter().find(|row| row["event"] == event).map_or(0, |row| row["hits"].as_u64().unwrap_or(0));
    let told = || {
        let hits: Vec<String> = rates.iter().map(|row| format!("{} {}", row["event"], row["hits"])).collect();
        let last: Vec<String> = rows(&answer, "Log").iter().rev().take(5).map(Value::to_string).collect();
        format!("{hits:?}\n{last:?}\n{said}")
    };
    assert_eq!((hits("syscalls:sys_enter_getppid"), hits("syscalls:sys_enter_getpgid")), (6, 6), "{}", told());
    assert!(hits("page-faults") >= 3000 && hits("profile") >= 20 && hits("task-state") >= 6, "{}", told());
    // The last sleep is listed with its length.
    let log = rows(&answer, "Log");
    let slept = log.iter().any(|row| {
        row["event"] == "task-state" && row["text"].as_str().is_some_and(|text| text.starts_with("slept (S) for 5."))
    });
    assert!(slept, "{log:?}");
    let tids: std::collections::BTreeSet<i64> = log.iter().filter_map(|row| row["tid"].as_i64()).collect();
    assert!(tids.len() <= 3, "events of other threads: {tids:?}");
}
