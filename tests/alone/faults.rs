//! Faults around the program: SIGKILL during a save, stop and continue, CPU hotplug, a missing tracefs, no file
//! descriptors left and limited memory. The program survives each fault or reports it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::alone;
use crate::common::process::{Running, cannot_unshare, until, uses_cpu};
use crate::common::session::{Session, Work};
use crate::common::{
    self, Nature, allowed, data, environment, has, installed, may_change_the_machine, program, run, skipped,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_perfprof-tui");

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Runs shell commands before the program.
fn shell(before: &str, args: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before}; exec {PROGRAM} {args}")).env_clear().envs(environment());
    command
}

/// Returns the number of samples in a recording and whether the recording is complete.
fn counted(file: &Path) -> (u64, bool) {
    let output = program().arg("report").arg(file).args(["--format", "json"]).output().expect("ran");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{}: {error}: {:?} {}", file.display(), output.status, text(&output)));
    (report["events"][0]["samples"].as_u64().unwrap_or(0), output.status.success() && output.stderr.is_empty())
}

/// Opens a recording behind a shell command, and starts to save it.
fn saving(before: &str, saved: &Path) -> Session {
    let line = format!("{before}; exec {PROGRAM} open {}", data("ipvs-cpu32.data").display());
    let mut session = Session::start_program("sh", &["-c", &line], 24, 100);
    session.wait_for("■ file");
    session.keys(&format!(":save {}\r", saved.display()));
    session
}

fn save(saved: &Path) {
    let mut session = saving("true", saved);
    session.wait_for("saved ");
    session.keys("q");
    assert!(session.end().success());
}

/// Lists the partial files in a folder, of a running save or of a killed one.
fn parts(dir: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(dir).expect("readable").flatten().map(|entry| entry.path());
    list.filter(|path| path.to_string_lossy().contains(".data.part-")).collect()
}

#[test]
fn a_killed_recorder_leaves_what_it_had() {
    let _alone = alone();
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("x.data");
    std::fs::write(&file, "of yesterday").expect("written");
    // An idle CPU may have no samples.
    let _busy = Work::start();
    let mut recorder = program();
    recorder.args(["record", "-q", "-a", "-e", "cpu-clock", "-F", "4999", "-o"]).arg(&file).stderr(Stdio::null());
    let recorder = Running(recorder.spawn().expect("started"));
    let large = || parts(dir.path()).first().and_then(|part| part.metadata().ok()).is_some_and(|m| m.len() > 1 << 20);
    until("a part is large", large);
    drop(recorder);
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "of yesterday");
    let part = parts(dir.path()).pop().expect("a part");
    assert!(counted(&part).0 > 100, "{}", counted(&part).0);
}

/// Runs the program on a 64 KB file system, which disappears with the command.
fn on_a_tiny_disk(words: &str) -> Option<String> {
    let mut command = Command::new("unshare");
    let script = format!("mount -t tmpfs -o size=64k none /mnt && cd /mnt && {PROGRAM} {words}; ls -l /mnt");
    command.args(["-m", "sh", "-c", &script]).env_clear().envs(environment());
    let said = text(&command.output().ok()?);
    if cannot_unshare(&said) { None } else { Some(said) }
}

#[test]
fn a_full_disk_is_said_with_the_file_and_the_remedy() {
    let _alone = alone();
    let file = data("ipvs-cpu32.data");
    let file = file.display();
    let mut told = 0;
    for format in ["folded", "svg", "pprof", "firefox", "speedscope", "perfetto", "perfdata"] {
        let words = format!("export {file} --to {format} -o out.{format}");
        let Some(said) = on_a_tiny_disk(&words) else {
            return skipped("this user may not make mount namespaces");
        };
        let fits = said.contains(&format!(" out.{format}\n"));
        let full = said.contains(&format!("out.{format} was not written: No space left on device"));
        assert!(fits || full && said.contains("free some space"), "{format}: {said}");
        assert!(!said.contains(".part-"), "{said}");
        told += u32::from(full);
    }
    assert!(told > 0, "every format fits into 64 KB");
    let Some(said) = on_a_tiny_disk(&format!("diff {file} {file} --per nothing --format svg --output d.svg")) else {
        return skipped("this user may not make mount namespaces");
    };
    assert!(said.contains(" d.svg\n") || said.contains("d.svg was not written: No space left"), "{said}");
    if allowed() {
        // The recording ends when the disk is full.
        let words = "record -q -a -e cpu-clock -F 4999 -o r.data -- sh -c 'while :; do :; done'";
        let said = on_a_tiny_disk(words).unwrap_or_default();
        assert!(said.contains("r.data was not written: No space left on device"), "{said}");
        // The message names the file with the samples recorded so far.
        assert!(said.split([' ', '/']).filter(|word| word.starts_with("r.data.part-")).count() > 1, "{said}");
    }
}

/// A preloaded library that sends SIGKILL when the program has written this many bytes to files.
const KILLER: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t write(int fd, const void *from, size_t n) {
  static size_t left;
  struct stat s;
  if (!left) left = strtoul(getenv("KILL_AT"), 0, 10);
  if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return syscall(SYS_write, fd, from, n);
  if (n >= left) { syscall(SYS_write, fd, from, left); kill(getpid(), SIGKILL); }
  left -= n;
  return syscall(SYS_write, fd, from, n);
}
"#;

#[test]
fn killed_in_a_save_leaves_the_old_file_or_the_new_one() {
    let _alone = alone();
    needs!(installed("cc"));
    let tools = tempfile::tempdir().expect("dir");
    let (source, killer) = (tools.path().join("killer.c"), tools.path().join("killer.so"));
    std::fs::write(&source, KILLER).expect("written");
    run(Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).args([&killer, &source]));
    let dir = tempfile::tempdir().expect("dir");
    let saved = dir.path().join("saved.data");
    save(&saved);
    let whole = counted(&saved);
    assert!(whole.0 > 0);
    let files = || std::fs::read_dir(dir.path()).expect("dir").count();
    let length = std::fs::metadata(&saved).expect("saved").len();
    // If the new file exceeds the size limit, the program keeps running and the old file stays.
    let mut session = saving(&format!("ulimit -f {}", length / 2 / 512), &saved);
    session.wait_for("was not written: File too large").wait_for("ulimit -f");
    session.keys("q");
    assert!(session.end().success());
    assert_eq!((counted(&saved), files()), (whole, 1));
    // A save writes to a temporary file until it is complete. A kill leaves the temporary file behind.
    for part in [1, 4, 7] {
        let before = files();
        let at = length * part / 8;
        let mut session = saving(&format!("export KILL_AT={at} LD_PRELOAD={}", killer.display()), &saved);
        assert!(!session.end().success());
        assert_eq!((counted(&saved), files()), (whole, before + 1), "at {part} eighths");
    }
    // Kill after a delay; the save may already be complete, and the saved file is a new one then.
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&saved).expect("saved"));
    for wait in [0, 1, 2, 4, 8] {
        let before = (files(), inode());
        let mut session = saving("true", &saved);
        until("it saves", || (files(), inode()) != before);
        std::thread::sleep(Duration::from_millis(wait));
        session.signal("-KILL");
        assert!(!session.end().success());
        assert_eq!(counted(&saved), whole, "after {wait} ms");
    }
    // Leftover temporary files do not prevent another save.
    save(&saved);
}

#[test]
fn stopped_and_continued() {
    let _alone = alone();
    needs!(allowed());
    let mut session = Session::start(&["-e", "cpu-clock", "-F", "999", "-a"], 24, 120);
    session.wait_for("● live").wait_for("[kernel.kallsyms]");
    session.signal("-STOP");
    std::thread::sleep(Duration::from_millis(1500));
    session.signal("-CONT");
    // Keys work, and new samples arrive.
    session.keys("2").wait_for("[2 Flame]").wait_for("● live");
    let header = |session: &Session| session.text().lines().next().map(str::to_owned);
    let before = header(&session);
    let start = std::time::Instant::now();
    while header(&session) == before {
        assert!(start.elapsed() < common::session::PATIENCE, "no new samples");
        std::thread::sleep(Duration::from_millis(50));
    }
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// Brings a CPU back online when dropped.
struct Offline(PathBuf);

impl Offline {
    fn cpu(n: u32) -> Option<Self> {
        let switch = PathBuf::from(format!("/sys/devices/system/cpu/cpu{n}/online"));
        (std::fs::read_to_string(&switch).ok()?.trim() == "1").then_some(())?;
        std::fs::write(&switch, "0").ok()?;
        Some(Self(switch))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.0, "1");
    }
}

#[test]
fn a_cpu_goes_and_comes_back() {
    let _alone = alone();
    needs!(allowed(), has(Nature::Hotplug), may_change_the_machine());
    match Offline::cpu(1) {
        None => return skipped("CPU 1 cannot be taken offline here"),
        Some(cpu) => drop(cpu),
    }
    let mut session = Session::start(&["-e", "cpu-clock", "-F", "499", "-a"], 30, 120);
    session.wait_for("● live").wait_for("[kernel.kallsyms]");
    let Some(cpu) = Offline::cpu(1) else { return skipped("CPU 1 went offline only once") };
    session.keys("4").wait_for("[4 CPUs]").wait_for("\n     1    -    -    -");
    drop(cpu);
    session.keys("1").wait_for("[1 Top]").wait_for("● live");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
    // A CPU that is offline from the start does not prevent recording on the others.
    let Some(cpu) = Offline::cpu(1) else { return skipped("CPU 1 went offline only twice") };
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("one.data");
    let output = program()
        .args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-a", "-o"])
        .arg(&file)
        // An idle CPU may produce no samples.
        .args(["--", "sh", "-c", &uses_cpu(400)])
        .output();
    drop(cpu);
    let output = output.expect("ran");
    assert!(output.status.success(), "{}", text(&output));
    assert!(counted(&file).0 > 50);
}

/// The events of the CPU are opened when it comes back, long after the program wrote the event ids.
#[test]
fn the_events_of_a_cpu_that_comes_back_are_told_apart() {
    let _alone = alone();
    needs!(allowed(), has(Nature::Hotplug), may_change_the_machine());
    let Some(cpu) = Offline::cpu(1) else { return skipped("CPU 1 cannot be taken offline here") };
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("one.data");
    let mut recorder = program();
    recorder.args(["record", "-a", "-e", "cpu-clock:u,context-switches", "-o"]).arg(&file).stderr(Stdio::piped());
    let mut recorder = Running(recorder.spawn().expect("started"));
    // The program reads the list of CPUs before it writes anything, and probes the machine before that.
    until("it records", || !parts(dir.path()).is_empty());
    drop(cpu);
    let mut said = BufReader::new(recorder.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("CPU 1 came online")));
    // More switches than one slice of the scheduler has.
    let load = format!("for n in 1 2 3 4 5 6 7 8 9; do {}; sleep 0.01; done", uses_cpu(40));
    assert!(Command::new("taskset").args(["-c", "1", "sh", "-c", &load]).status().expect("ran").success());
    assert!(Command::new("kill").args(["-INT", &recorder.pid().to_string()]).status().expect("ran").success());
    said.for_each(drop);
    assert!(recorder.0.wait().expect("ends").success());
    let mut readers = vec![program()];
    readers.extend(common::installed("perf").then(|| Command::new("perf")));
    for mut reader in readers {
        let output = reader.args(["script", "-F", "cpu,event", "-G", "-i"]).arg(&file).output().expect("ran");
        let printed = text(&output);
        let of = |name: &str| printed.lines().filter(|line| line.split_whitespace().eq(["[001]", name])).count();
        let (clock, switches) = (of("cpu-clock:u:"), of("context-switches:"));
        assert!(output.status.success() && clock > 50 && switches > 5, "{reader:?}: {clock} and {switches}");
    }
}

/// Runs the program after a shell command that changes the mounts, in a mount namespace of its own.
fn with_mounts(change: &str, args: &str) -> std::io::Result<std::process::Output> {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c"]).arg(format!("{change} && exec {PROGRAM} {args}"));
    command.env_clear().envs(environment()).output()
}

#[test]
fn tracefs_is_not_there() {
    let _alone = alone();
    needs!(allowed());
    let hide = "umount -l /sys/kernel/tracing 2>/dev/null; umount -l /sys/kernel/debug 2>/dev/null; true";
    let inside = |args: &str| with_mounts(hide, args);
    let Ok(output) = inside("stat -e sched:sched_switch -- true") else {
        return skipped("no unshare on this machine");
    };
    if cannot_unshare(&text(&output)) {
        return skipped("this user may not make mount namespaces");
    }
    let said = text(&output);
    assert!(!output.status.success() && said.contains("mount -t tracefs"), "{said}");
    // Software events do not need tracefs.
    let output = inside("stat -e cpu-clock -- true").expect("ran");
    assert!(output.status.success(), "{}", text(&output));
}

/// A container without /sys: the program uses another source, or the message names the missing file.
#[test]
fn sysfs_is_not_there() {
    let _alone = alone();
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("x.data");
    let inside = |args: &str| with_mounts("mount -t tmpfs none /sys", args);
    let Ok(output) = inside(&format!("record -q -a -e cpu-clock -o {} -- sleep 0.1", file.display())) else {
        return skipped("no unshare on this machine");
    };
    if ["unshare:", "mount:"].iter().any(|word| text(&output).contains(word)) {
        return skipped("this user may not mount");
    }
    assert!(output.status.success() && file.exists(), "{}", text(&output));
    for args in ["stat -a -e cpu-clock -- true", "cpus -n 1 -i 0.1", "profile --batch --duration 0.1"] {
        let output = inside(args).expect("ran");
        assert!(output.status.success(), "{args}: {}", text(&output));
    }
    let doctor = String::from_utf8_lossy(&inside("doctor").expect("ran").stdout).into_owned();
    let of = |name: &str| doctor.lines().find(|line| line.contains(name)).unwrap_or_default();
    let devices = of("PMUs and probes");
    assert!(devices.starts_with("missing") && devices.contains("/sys/bus/event_source/devices"), "{doctor}");
    assert!(!doctor.contains("neither kprobes nor uprobes"), "{doctor}");
}

/// A container without /proc: a command is sampled, and doctor does not call files there readable.
#[test]
fn procfs_is_not_there() {
    let _alone = alone();
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("x.data");
    let inside = |args: &str| with_mounts("umount -l /proc", args);
    let load = "timeout 0.3 sh -c 'while :; do :; done'";
    let Ok(output) = inside(&format!("record -q -e cpu-clock -o {} -- {load}", file.display())) else {
        return skipped("no unshare on this machine");
    };
    let said = text(&output);
    if cannot_unshare(&said) || said.lines().any(|line| line.starts_with("umount:")) {
        return skipped("this user may not unmount /proc");
    }
    assert!(counted(&file).0 > 10, "{said}");
    // The programs' files are opened all the same.
    let of_spin = dir.path().join("spin.data");
    run(program().args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&of_spin).arg(data("bin/spin")).arg("300"));
    let report = text(&inside(&format!("report {}", of_spin.display())).expect("ran"));
    assert!(report.contains("burn_alpha"), "{report}");
    let output = inside(&format!("profile --batch -- {load}")).expect("ran");
    let samples = text(&output);
    assert!(samples.lines().any(|line| line.contains('%')), "{samples}");
    let doctor = String::from_utf8_lossy(&inside("doctor").expect("ran").stdout).into_owned();
    for name in ["processes", "kernel names"] {
        let is_missing = |line: &str| line.starts_with("missing") && line.contains(name);
        assert!(doctor.lines().any(is_missing), "{name}: {doctor}");
    }
}

/// A command succeeds or reports what it lacks, under any limit; it never aborts.
#[test]
fn limits_on_memory_and_stack_are_reported() {
    let _alone = alone();
    let file = data("ipvs-cpu32.data");
    let under = |limit: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit {limit} && exec {PROGRAM} report {}", file.display()));
        command.env_clear().envs(environment()).output().expect("ran")
    };
    let mut refused = 0;
    for megabytes in (16..=160).rev().step_by(16) {
        let output = under(&format!("-v {}", megabytes << 10));
        let said = text(&output);
        match output.status.code() {
            Some(0) => {}
            Some(1) if said.starts_with("perfprof-tui: out of memory") => {
                assert!(said.contains("raise ulimit -v"), "{said}");
                refused += 1;
            }
            Some(1) => assert!(said.contains("ulimit -v"), "{megabytes} MB: {said}"),
            // The limit is too low for the program's own file or libraries: the kernel ends the exec with SIGSEGV.
            Some(127) => break,
            None if said.is_empty() && refused > 0 => break,
            other => panic!("{other:?} at {megabytes} MB: {said}"),
        }
    }
    assert!(refused > 0, "no limit was low enough");
    let output = under("-s 128");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn no_descriptors_are_left() {
    let _alone = alone();
    needs!(allowed());
    for limit in [8, 12, 16, 20] {
        let output = shell(&format!("ulimit -n {limit}"), "stat -e cpu-clock -e task-clock -e page-faults -a -- true");
        let output = { output }.output().expect("ran");
        let said = text(&output);
        assert!(!said.contains("panicked"), "{said}");
        assert!(output.status.success() || said.contains("ulimit -"), "{limit}: {said}");
    }
    let output = shell("ulimit -n 10", "record -q -e cpu-clock -a -o /dev/null -- true").output().expect("ran");
    let said = text(&output);
    assert!(!output.status.success() && said.contains("ulimit -"), "{said}");
}

/// A separate memory cgroup.
struct Group(PathBuf);

impl Group {
    fn limited(bytes: u64) -> Option<Self> {
        let name = format!("perfprof-test-{}", std::process::id());
        for (tree, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let group = Self(Path::new(tree).join(&name));
            if std::fs::create_dir(&group.0).is_ok() && std::fs::write(group.0.join(file), bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cgroup_limits_memory() {
    let _alone = alone();
    needs!(allowed());
    let Some(group) = Group::limited(192 << 20) else {
        return skipped("no memory cgroup can be made here");
    };
    let procs = group.0.join("cgroup.procs");
    // Every process of the load is new, so that many stacks arrive quickly.
    let mut load = Command::new("timeout")
        .args(["8", "sh", "-c", "while :; do /bin/true; done"])
        .stdout(Stdio::null())
        .spawn()
        .expect("load");
    let line = format!("echo 0 > {}; exec {PROGRAM} -e cpu-clock -F 4999 -a", procs.display());
    let mut session = Session::start_program("sh", &["-c", &line], 30, 120);
    session.wait_for("● live");
    std::thread::sleep(Duration::from_secs(5));
    session.keys("2").wait_for("[2 Flame]").wait_for("● live");
    let pid = session.child.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("alive");
    // Anonymous pages only: the kernel charges file pages to the group that reads them first.
    let rss = |line: &str| line.strip_prefix("RssAnon:")?.split_whitespace().next()?.parse::<u64>().ok();
    let rss = status.lines().find_map(rss).expect("RssAnon");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
    // The program ends the load that it started.
    let _ = load.wait();
    assert!(rss < 192 << 10, "{rss} kB");
    drop(group);
}
