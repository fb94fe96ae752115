//! perf's options of `record`: contents and destination of the recording, as perf and `script` read it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::cells::rows;
use crate::common::process::{Running, until, uses_cpu};
use crate::common::session::Session;
use crate::common::{allowed, installed, program, run, skipped};

/// A program that uses a CPU for a while, and prints.
fn busy() -> String {
    format!("{}; echo done", uses_cpu(80))
}

/// Returns a program's output for a recording.
fn read(mut command: Command, words: &[&str], file: &Path) -> String {
    let out = run(command.args(words).arg("-i").arg(file).stdin(Stdio::null()));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn ours(words: &[&str], file: &Path) -> String {
    read(program(), words, file)
}

fn perf(words: &[&str], file: &Path) -> String {
    read(Command::new("perf"), words, file)
}

/// Returns whether a table of comms has the busy shell.
fn has_shell(table: &str) -> bool {
    !rows(table, "sh").is_empty()
}

/// Records the busy shell with some options.
fn record(dir: &Path, options: &[&str]) -> PathBuf {
    let file = dir.join("x.data");
    run(program().args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&file).args(options).args(["sh", "-c", &busy()]));
    file
}

/// If standard output is a pipe, the recording goes to it and the command's output to standard error; otherwise the
/// recording goes to a file.
#[test]
fn a_recording_goes_where_standard_output_does() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let recording = || {
        let mut command = program();
        command.current_dir(dir.path()).args(["record", "-e", "cpu-clock", "sh", "-c", &busy()]);
        command
    };
    let out = run(&mut recording());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.stdout.starts_with(b"PERFILE2") && said.lines().any(|line| line == "done"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0, "no file in addition");
    let stream = dir.path().join("stream");
    std::fs::write(&stream, &out.stdout).expect("written");
    let pipe = |words: &[&str]| {
        let mut cat = Command::new("cat").arg(&stream).stdout(Stdio::piped()).spawn().expect("cat");
        let out = run(program().args(words).stdin(cat.stdout.take().expect("piped")));
        cat.wait().expect("it ends");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let read = pipe(&["report", "-s", "comm"]);
    assert!(has_shell(&read) && read == pipe(&["report", "-s", "comm", "-i", "-"]), "{read}");
    assert!(pipe(&["script", "-F", "comm"]).lines().count() > 2);
    if installed("perf") {
        assert!(has_shell(&perf(&["report", "--stdio", "-s", "comm"], &stream)));
    }
    std::fs::remove_file(&stream).expect("removed");
    let words = std::fs::File::create(dir.path().join("words")).expect("made");
    let status = recording().arg("x").stdout(words).stderr(Stdio::null()).status().expect("it runs");
    assert!(status.success() && dir.path().join("perf.data").exists());
    assert_eq!(std::fs::read_to_string(dir.path().join("words")).expect("text"), "done\n");
    let load = busy();
    let named = ["record", "-e", "cpu-clock", "-o", "y.data", "sh", "-c", &load];
    let out = run(program().current_dir(dir.path()).args(named));
    assert!(out.stdout == b"done\n" && dir.path().join("y.data").exists());
}

/// Any selection of registers is read by perf.
#[test]
fn registers_are_recorded_as_perf_reads_them() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("a folder");
    let (some, stack) =
        if cfg!(target_arch = "aarch64") { ("--user-regs=pc,sp", "sp:") } else { ("--user-regs=ip,sp", "SP:") };
    let file = record(dir.path(), &["-I", some, "-g"]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for fields in ["iregs", "uregs", "comm,iregs,uregs"] {
        let (own, theirs) =
            (ours(&["script", "-G", "-F", fields], &file), perf(&["script", "-G", "-F", fields], &file));
        let has = |start: &str| words(&own).iter().any(|word| word.starts_with(start));
        assert!(own.lines().count() > 2 && has("ABI:2") && has(stack), "{fields}: {own}");
        assert_eq!(words(&own), words(&theirs), "{fields}");
    }
    let uregs = ours(&["script", "-G", "-F", "uregs"], &file);
    let lines = || uregs.lines().filter(|line| line.split_whitespace().next() == Some("ABI:2"));
    assert!(lines().count() > 0 && lines().all(|line| line.matches(":0x").count() == 2), "{uregs}");
    let refused = program().args(["record", "--intr-regs=rax", "true"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// Without samples, a recording still contains tasks and mappings.
#[test]
fn without_samples_tasks_are_recorded() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let file = record(dir.path(), &["-n"]);
    let tasks = ours(&["report", "--tasks"], &file);
    assert!(tasks.lines().any(|line| line.trim_end().rsplit('|').next() == Some("sh")), "{tasks}");
    // The kinds of records.
    let kinds = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.trim().split_once(" events")).map(|(kind, _)| kind.to_owned()).collect()
    };
    let (sample, comm) = ("SAMPLE".to_owned(), "COMM".to_owned());
    let own = kinds(&ours(&["report", "--stats"], &file));
    assert!(own.contains(&comm) && !own.contains(&sample), "{own:?}");
    if installed("perf") {
        let theirs = kinds(&perf(&["report", "--stats"], &file));
        assert!(theirs.contains(&comm) && !theirs.contains(&sample), "{theirs:?}");
    }
}

/// An overwritable ring buffer is written at the end, and to a separate file at each signal.
#[test]
fn the_newest_samples_are_written_at_the_end_and_when_asked_for() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let file = record(dir.path(), &["--overwrite"]);
    assert!(has_shell(&ours(&["report", "-s", "comm"], &file)));
    if installed("perf") {
        assert!(has_shell(&perf(&["report", "--stdio", "-s", "comm"], &file)));
    }
    let many = dir.path().join("many.data");
    // The command continues when the requested file exists.
    let there = format!("ls {}.2* >/dev/null 2>&1", many.display());
    let wait = format!("i=0; until {there} || [ $i -ge 600 ]; do sleep 0.05; i=$((i+1)); done");
    let asking = format!("{0}; kill -USR2 $PPID; {wait}; {0}", busy());
    let options = ["record", "-q", "--overwrite", "--switch-output", "-e", "cpu-clock", "-o"];
    run(program().args(options).arg(&many).args(["sh", "-c", &asking]));
    let names = std::fs::read_dir(dir.path()).expect("a folder").flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> = names
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("many.data.2")))
        .collect();
    assert!(files.len() == 2 && !many.exists(), "{files:?}");
    assert!(files.iter().all(|file| has_shell(&ours(&["report", "-s", "comm"], file))));
}

/// The recorder returns the command's exit status, and ends the command whenever the recording ends.
#[test]
fn a_recorded_command_says_its_status_and_ends_with_the_recording() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let kept = ["--trigger", "lost > 0", "--trigger-dir", "."];
    for more in [&["-q"][..], &["-q", "-a"], &["--overwrite"], &kept] {
        for (line, code) in [("exit 7", 7), ("kill -KILL $$", 137)] {
            let mut command = program();
            command.current_dir(dir.path()).arg("record").args(more).args(["-e", "cpu-clock", "-o", "x.data", "--"]);
            let out = command.args(["sh", "-c", line]).output().expect("runs");
            assert_eq!(out.status.code(), Some(code), "{more:?} {line}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
    let unit = program().args(["profile", "--batch", "-F", "99", "--", "sh", "-c", "exit 7"]).output().expect("runs");
    assert_eq!(unit.status.code(), Some(7), "{}", String::from_utf8_lossy(&unit.stderr));
    // Find the process by its last argument.
    let mark = dir.path().to_str().expect("text");
    let endless = ["-e", "cpu-clock", "--", "sh", "-c", "while :; do :; done", mark];
    let is_it = |words: &[u8]| words.starts_with(b"sh\0") && memchr::memmem::find(words, mark.as_bytes()).is_some();
    let runs = || {
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        all.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok()).any(|words| is_it(&words))
    };
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = program();
        command.current_dir(dir.path()).args(["record", "-q", "-o", "x.data"]).args(endless);
        let mut child = Running(command.spawn().expect("starts"));
        until("it runs", runs);
        // SIGUSR1 and SIGUSR2, which perf uses for other purposes, have no effect here.
        for signal in [Signal::USR1, Signal::USR2, signal] {
            assert!(child.0.try_wait().expect("there").is_none(), "before {signal:?}");
            kill_process(Pid::from_child(&child.0), signal).expect("signalled");
            std::thread::sleep(Duration::from_millis(300));
        }
        assert_eq!(child.0.wait().expect("ends").code(), Some(143), "{signal:?}");
        assert!(!runs(), "left behind by {signal:?}");
        assert!(ours(&["evlist"], &dir.path().join("x.data")).starts_with("cpu-clock"));
    }
    let full = ["record", "--max-size", "1k", "-o", "x.data"];
    let full = program().current_dir(dir.path()).args(full).args(endless).output().expect("runs");
    let said = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(full.status.success() && said.contains("the file is full") && !runs(), "{said}");
    // A file that cannot be written completely.
    let mut small = Command::new("sh");
    small.current_dir(dir.path()).args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""]).arg(program().get_program());
    let failed = small.args(["record", "-o", "y.data"]).args(endless).output().expect("runs");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() == Some(1) && said.contains("was not written") && !runs(), "{said}");
    let mut screen = Session::start(&endless, 24, 80);
    screen.wait_for("cpu-clock");
    until("it runs", runs);
    screen.signal("-USR1");
    screen.keys("q");
    assert!(screen.end().success() && !runs() && screen.is_restored());
}

#[test]
fn a_command_that_ends_before_the_delay_does_is_told() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = program();
    command.current_dir(dir.path()).args(["record", "-e", "cpu-clock", "-D", "60000", "--", "true"]);
    let said = String::from_utf8_lossy(&run(&mut command).stderr).into_owned();
    assert!(said.contains("wrote no samples") && said.contains("-D 60s"), "{said}");
}

/// Event terms configure the same attributes as perf.
#[test]
fn terms_of_events_make_what_perf_makes_of_them() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("a folder");
    let chains = "sample_type:.CALLCHAIN";
    let known = [
        "{ sample_period, sample_freq }",
        "freq",
        "inherit",
        "exclude_kernel",
        "sample_max_stack",
        "sample_stack_user",
    ];
    // The name of each event, and the settings that terms affect.
    let settings = |file: &Path| -> Vec<String> {
        let text = perf(&["evlist", "-v"], file);
        let of = |line: &str| {
            let words = line.split(", ").filter(|word| word.split(": ").next().is_some_and(|key| known.contains(&key)));
            let chained = if line.split('|').any(|flag| flag.starts_with("CALLCHAIN")) { chains } else { "" };
            let name = line.split(": type").next().unwrap_or_default();
            format!("{name} {chained} {}", words.collect::<Vec<_>>().join(" "))
        };
        text.lines().filter(|line| line.split(": ").any(|word| word == "type")).map(of).collect()
    };
    for events in [
        "cpu-clock/freq=99/u",
        "cs/period=1,name=x/,cpu-clock/freq=50,period=1000000/",
        "sched:sched_switch/call-graph=fp,max-stack=8/u",
        "cpu-clock/max-stack=3,freq=98/,cs/no-inherit,period=5/",
        "{cs/period=7,name=q/,cpu-clock/period=2000000,name=z/}:u",
        "cpu-clock/freq=97,call-graph=dwarf,stack-size=4090/,cs/call-graph=no,freq=3/",
        "cpu-clock/freq=96,call-graph=fp,inherit=0/",
    ] {
        let (own, theirs) = (dir.path().join("own"), dir.path().join("theirs"));
        let words = ["-e", events, "--", "true"];
        run(program().args(["record", "-q", "--call-graph", "none", "-o"]).arg(&own).args(words));
        run(Command::new("perf").args(["record", "-q", "-o"]).arg(&theirs).args(words));
        assert_eq!(settings(&own), settings(&theirs), "{events}");
    }
}

/// An event's term sets the depth of its call chains; another event records no chains.
#[test]
fn an_event_has_chains_of_its_own() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("t.data");
    let events =
        "cpu-clock/call-graph=no,name=bare/,cpu-clock/max-stack=2,name=short/,cpu-clock/period=500000,name=whole/";
    let line = ["record", "-q", "--call-graph", "fp", "-e", events, "-o"];
    run(program().args(line).arg(&file).args(["sh", "-c", &busy()]));
    let text = ours(&["script", "-F", "event,ip,sym"], &file);
    // A sample with a chain has its frames below its event's name; a sample without one has its address on the same
    // line.
    let deepest = |name: &str| {
        let (mut most, mut frames) = (None, None);
        for line in text.lines() {
            frames = match line.strip_prefix('\t') {
                Some(_) => frames.map(|n| n + 1),
                None => line.trim_start().starts_with(name).then_some(0),
            };
            most = most.max(frames);
        }
        most
    };
    assert_eq!(deepest("short"), Some(2), "{text}");
    assert!(deepest("whole") > Some(2) && deepest("bare") == Some(0), "{text}");
}

/// Thread counts appear among the records and as a table, like in perf.
#[test]
fn counts_of_threads_are_told_as_perf_tells_them() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("s.data");
    let children = format!("({}); /bin/true; :", busy());
    let options = ["record", "-q", "-s", "-e", "page-faults,cpu-clock", "-o"];
    run(program().args(options).arg(&file).args(["sh", "-c", &children]));
    let table = |text: String| text[text.rfind("PID").unwrap_or_else(|| panic!("no table: {text}"))..].to_owned();
    let own = table(ours(&["report", "-T"], &file));
    assert_eq!(own, table(perf(&["report", "-T", "--stdio"], &file)));
    assert!(own.lines().count() >= 2 && own.split_whitespace().any(|word| word == "page-faults"), "{own}");
    let lines = |text: String| {
        let is_read = |line: &&str| line.contains("PERF_RECORD_READ");
        let told = text.lines().skip_while(|line| !is_read(line));
        told.filter(|line| is_read(line) || line.starts_with("... ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (own, theirs) = (lines(ours(&["report", "-D"], &file)), lines(perf(&["report", "-D"], &file)));
    let counts = own.iter().filter_map(|line| line.split_once("PERF_RECORD_READ: "));
    let counts = counts.filter(|(_, count)| count.split_whitespace().any(|word| word == "page-faults"));
    assert!(counts.count() > 0, "{own:?}");
    assert_eq!(own, theirs);
    let csv = ours(&["report", "-T", "--format", "csv"], &file);
    assert!(csv.starts_with("pid,tid,event,count\r\n"), "{csv}");
    assert!(csv.lines().any(|line| line.split(',').nth(2) == Some("page-faults")), "{csv}");
}

/// Instructions and source lines of samples equal perf's.
#[test]
fn code_of_samples_is_perfs() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("a folder");
    let (source, built) = (dir.path().join("w.c"), dir.path().join("w"));
    let text = "volatile long sum;\n\
                __attribute__((noinline)) void add(long n) {\n\tfor (long i = 0; i < n; i++)\n\t\tsum += i * 3;\n}\n\
                int main(void) {\n\tadd(60000000);\n\treturn 0;\n}\n";
    std::fs::write(&source, text).expect("written");
    if !Command::new("cc").args(["-g", "-O1", "-o"]).args([&built, &source]).status().is_ok_and(|s| s.success()) {
        return skipped("no C compiler (gcc)");
    }
    let file = dir.path().join("w.data");
    run(program().args(["record", "-q", "-e", "cpu-clock:u", "--call-graph", "none", "-o"]).arg(&file).arg(&built));
    for fields in ["ip,sym,insn,insnlen", "comm,ip,insnlen", "ip,sym,srccode"] {
        let only = ["script", "-F", fields, "--comms", "w"];
        let (own, theirs) = (ours(&only, &file), perf(&only, &file));
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(own.lines().count() > 5 && (own.contains("ilen: ") || own.contains("|4 ")), "{fields}: {own}");
        assert_eq!(lines(&own), lines(&theirs), "{fields}");
    }
}

/// The kernel counts some events in nanoseconds.
///
/// The samples of an event have one layout per file, regardless of the number of hits.
#[test]
fn events_that_count_time_are_recorded_to_the_end() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("x.data");
    let events = ["-e", "sched:sched_stat_runtime", "-e", "sched:sched_switch"];
    let out = run(program().args(["record", "-a", "-o"]).arg(&file).args(events).args(["--", "sleep", "2.5"]));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said.contains("floods"), "{said}");
    let out = run(program().args(["script", "-F", "time,event", "-i"]).arg(&file));
    let (lines, said) = (String::from_utf8_lossy(&out.stdout).lines().count(), String::from_utf8_lossy(&out.stderr));
    assert!(lines > 100 && !said.contains("decoded"), "{lines}: {said}");
    needs!(installed("perf"));
    let out = run(Command::new("perf").args(["script", "-F", "time,event", "-i"]).arg(&file).stdin(Stdio::null()));
    assert_eq!(String::from_utf8_lossy(&out.stdout).lines().count(), lines, "{}", String::from_utf8_lossy(&out.stderr));
}
