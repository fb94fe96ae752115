//! Other profilers on the machine must work as before while the program runs.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use perfprof_tui::kernel::walk::Walker;

use crate::common::process::Gates;
use crate::common::session::{PATIENCE, Session};
use crate::common::{Nature, allowed, has, installed, program, run, skipped};

/// Processes that start, map files and end during a recording.
const LOAD: &str = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done";

/// The error of a `perf record` of a command or the machine, or of `perf report` on its file; `None` if there is none.
fn fault_of_perf(dir: &Path, args: &[&str]) -> Option<String> {
    let file = dir.join("perf.data");
    let said = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().expect("perf");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success() || text.contains("assertion failed")).then_some(text)
    };
    let mut perf = Command::new("perf");
    let record = said(perf.args(["record", "-g"]).args(args).arg("-o").arg(&file).args(["--", "sh", "-c", LOAD]));
    record.or_else(|| said(Command::new("perf").args(["report", "--stdio", "-i"]).arg(&file)))
}

#[test]
fn a_perf_record_beside_us_works_as_without_us() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    let faults = || -> Vec<String> {
        let both = [&[][..], &["-a"]];
        both.into_iter().filter_map(|args| fault_of_perf(dir.path(), args)).collect()
    };
    assert_eq!(faults(), Vec::<String>::new(), "without us");
    let mut session = Session::start(&["-e", "cpu-clock", "-a"], 24, 100);
    session.wait_for("● live");
    // Each mapping of each program could disturb perf.
    assert_eq!(faults(), Vec::<String>::new(), "while we record");
    session.keys("q");
    assert!(session.end().success());
}

/// The kernel prepares one sample per page fault, with the id of the event that counts first.
#[test]
fn page_faults_are_counted_beside_others_who_count_them() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    /// A unique name.
    const OWN: &str = "pp-faults";
    let (ours, theirs) = (dir.path().join("ours.data"), dir.path().join("theirs.data"));
    let record = |file: &Path, command: &str| {
        let mut command_line = program();
        // All processes of a busy machine fault: samples must not be lost.
        command_line.args(["record", "-q", "-a", "-m", "32M", "-c", "1", "-e", "page-faults,cs", "-o"]).arg(file);
        command_line.args(["--", "sh", "-c", command]).stdin(Stdio::null()).spawn().expect("starts")
    };
    // Page fault samples as perf reads them; perf fails on an id without an event.
    let faults = || {
        let read = run(Command::new("perf").args(["script", "-F", "comm,event", "-i"]).arg(&ours));
        let text = String::from_utf8_lossy(&read.stdout);
        text.lines()
            .filter(|line| line.contains(OWN) && line.split_whitespace().any(|word| word.starts_with("page-faults")))
            .count()
    };
    let own = dir.path().join(OWN);
    crate::common::copy_program("/bin/true", &own);
    let each = format!("i=0; while [ $i -lt 20 ]; do {}; i=$((i+1)); done", own.display());
    assert!(record(&ours, &each).wait().expect("ends").success());
    let alone = faults();
    assert!(alone > 20 * 20, "{alone} of 20 commands");
    // A command touches a file when it is measured, and waits for another.
    let gates = Gates(dir.path());
    // The kernel handles the newest event first.
    let mut mine =
        record(&ours, &format!("{}; {}; {each}; {}", gates.here("mine"), gates.wait("go"), gates.here("over")));
    gates.until("mine");
    let mut other = record(&theirs, &format!("{}; {}", gates.here("theirs"), gates.wait("over")));
    gates.until("theirs");
    gates.open("go");
    assert!(mine.wait().expect("ends").success() && other.wait().expect("ends").success());
    let together = faults();
    assert!(together * 10 > alone * 9 && together * 9 < alone * 10, "{together}, {alone} alone");
}

/// A recording keeps the build IDs of files, also of those that are gone when it ends.
#[test]
fn a_recording_has_the_build_ids_of_what_ran() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    let (copy, file) = (dir.path().join("short-lived"), dir.path().join("ours.data"));
    crate::common::copy_program("/bin/sleep", &copy);
    let work = format!("{0} 0.5; rm {0}", copy.display());
    run(program().args(["record", "-q", "-a", "-o"]).arg(&file).args(["--", "sh", "-c", &work]));
    let listed = |args: &[&str]| {
        let output = Command::new("perf").arg("buildid-list").args(args).output().expect("perf");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ids = listed(&["-i", &file.to_string_lossy()]);
    // The copy has the build ID of its original.
    let own = ids.lines().find_map(|line| line.strip_suffix(&format!(" {}", copy.display())));
    let own = own.unwrap_or_else(|| panic!("not listed: {ids}"));
    assert_eq!(own.len(), 40, "{own}");
    assert!(ids.lines().any(|line| line.ends_with("[kernel.kallsyms]")), "{ids}");
    let notes = Command::new("readelf").args(["-n", "/bin/sleep"]).output();
    if let Ok(notes) = notes {
        assert!(String::from_utf8_lossy(&notes.stdout).contains(own), "{own}");
    }
}

/// A recording of the machine that runs until it is stopped.
struct Recording {
    file: PathBuf,
    end: PathBuf,
    recorder: Child,
}

impl Recording {
    /// Starts a recording, and returns when it has begun.
    fn start(mut recorder: Command, dir: &Path, name: &str) -> Self {
        let [file, begun, end] = ["data", "begun", "end"].map(|what| dir.join(format!("{name}.{what}")));
        let wait = "touch $0; i=0; while [ ! -e $1 ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done";
        recorder
            .args(["record", "-q", "-a", "-F", "99", "-e", "cpu-clock:u,cpu-clock:k", "-o"])
            .arg(&file)
            .args(["--", "sh", "-c", wait]);
        let recorder = recorder.args([&begun, &end]).stdin(Stdio::null()).spawn().expect("starts");
        let started = Instant::now();
        while !begun.exists() {
            assert!(started.elapsed() < PATIENCE, "{name} does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { file, end, recorder }
    }

    fn end(mut self) -> PathBuf {
        std::fs::write(&self.end, "").expect("told");
        assert!(self.recorder.wait().expect("ends").success());
        self.file
    }
}

/// Complaints of perf about a recording while BPF programs came and went, otherwise the number of records of their
/// starts and of their ends.
fn records_of_programs(file: &Path) -> Result<[usize; 2], String> {
    /// Of a BPF record, with a sample id of task, time, CPU and identifier.
    const SIZE: &str = " [0x38]: ";
    let read = |args: &[&str]| {
        let output = Command::new("perf").args(args).arg("-i").arg(file).stdin(Stdio::null()).output().expect("perf");
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let is_well = output.status.success() && !error.contains("failed to process") && !error.contains("Bad address");
        if is_well { Ok(out) } else { Err(error) }
    };
    let dump = read(&["report", "--stdio", "-s", "comm"]).and_then(|_| read(&["report", "-D"]))?;
    let odd = dump.lines().find(|line| line.contains(": PERF_RECORD_BPF_EVENT") && !line.contains(SIZE));
    let lines = |flags: &str| {
        let is_one =
            |line: &&str| line.contains("RECORD_KSYMBOL") && line.contains("bpf_prog_") && line.contains(flags);
        dump.lines().filter(is_one).count()
    };
    odd.map_or_else(|| Ok([lines("flags 0x0"), lines("flags 0x1")]), |odd| Err(odd.to_owned()))
}

/// For each event that listens to BPF programs, the kernel enlarges the BPF records of the events opened before it.
#[test]
fn bpf_programs_that_come_and_go_leave_recordings_readable() {
    needs!(allowed(), installed("perf"));
    const PROGRAMS: usize = 3;
    if let Err(error) = Walker::load(0) {
        return skipped(&format!("the kernel says {:?}", error.errno));
    }
    // Returns the records that perf reads in two recordings, in the order of their start.
    let records = |first: Command, second: Command| {
        let dir = tempfile::tempdir().expect("dir");
        let (first, second) =
            (Recording::start(first, dir.path(), "first"), Recording::start(second, dir.path(), "second"));
        for _ in 0..PROGRAMS {
            drop(Walker::load(0).expect("loads as before"));
            // The kernel frees the program after its last user.
            std::thread::sleep(Duration::from_millis(200));
        }
        let files = [first.end(), second.end()];
        files.map(|file| records_of_programs(&file))
    };
    let perf = || Command::new("perf");
    // Another perf on the machine may start meanwhile and spoil perf's recording once; ours would spoil it each time.
    // On a busy machine, the kernel may free the last program after a recording.
    let mut spoilt = Vec::new();
    for _ in 0..4 {
        let [theirs, ours] = records(perf(), program());
        let [first, later] = records(program(), perf());
        assert!(ours.is_ok() && first.is_ok(), "our recordings, which began later and first: {ours:?}, {first:?}");
        let all = [theirs, ours, first, later];
        if all.iter().all(|counts| counts.as_ref().is_ok_and(|counts| counts.iter().all(|n| *n >= PROGRAMS))) {
            return;
        }
        spoilt.push(all);
    }
    panic!("in recordings by perf, us, us and perf: {spoilt:#?}");
}

/// The code of the C library in a process's memory, and the same code in its file.
fn code_of_libc(pid: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.lines().find(|line| line.contains(" r-xp ") && line.contains("/libc.so"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
    let (start, end) = words[0].split_once('-')?;
    let (start, end, offset) = (number(start)?, number(end)?, number(words[2])?);
    let read = |path: &str, at: u64| {
        let mut bytes = vec![0; (end - start) as usize];
        let count = std::fs::File::open(path).ok()?.read_at(&mut bytes, at).ok()?;
        bytes.truncate(count);
        Some(bytes)
    };
    let (memory, mut file) = (read(&format!("/proc/{pid}/mem"), start)?, read(words[5], offset)?);
    file.resize(memory.len(), 0);
    Some((memory, file))
}

/// A probe is a breakpoint in the code of a process. Each hit costs microseconds, so only the chosen process has it.
#[test]
fn probes_of_one_process_are_not_in_the_code_of_others() {
    needs!(allowed(), has(Nature::Uprobes));
    let sleep = || Command::new("sleep").arg("300").spawn().expect("starts");
    let (mut chosen, mut other) = (sleep(), sleep());
    let has_probes = |child: &Child| code_of_libc(child.id()).map(|(memory, file)| memory != file);
    let end = Instant::now() + PATIENCE;
    while has_probes(&chosen).is_none() || has_probes(&other).is_none() {
        assert!(Instant::now() < end, "the C library is not mapped");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!([&chosen, &other].map(has_probes), [Some(false); 2], "others measure here");
    let pid = chosen.id().to_string();
    let mut session = Session::start(&["kmemleak", "-p", &pid], 24, 100);
    while has_probes(&chosen) != Some(true) {
        assert!(Instant::now() < end, "no probes: {}", session.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    session.wait_for("kmemleak");
    assert_eq!([&chosen, &other].map(has_probes), [Some(true), Some(false)]);
    session.keys("q");
    assert!(session.end().success());
    for child in [&mut chosen, &mut other] {
        child.kill().expect("ends");
        child.wait().expect("ends");
    }
}
