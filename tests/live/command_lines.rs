//! Common perf command lines (`tests/data/command_lines.tsv`), each run as a whole: the program accepts it, or rejects
//! it with a reason.

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::process::has_events;
use crate::common::session::Session;
use crate::common::{allowed, by_frame_pointers, data, program, run, skipped};

/// A line that does not end is interrupted [`MEASURES`] after it starts to measure, after [`PATIENCE`] if that is not
/// visible, and killed after the longest timeout.
const MEASURES: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_millis(1200);
const LIMIT: Duration = Duration::from_secs(180);
/// Number of lines that run in parallel: most of them wait, some for the kernel to close hundreds of events.
const WORKERS: usize = 4;
/// The exit status of a usage error.
const USAGE: i32 = 2;

const PROGRAM: &str = r#"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) char *myfunc(int size, char *name) {
    int local = size * 2;
    for (volatile int i = 0; i < local; i++);
    return name;
}
int main(int argc, char **argv) {
    int seconds = argc > 1 ? atoi(argv[1]) : 1;
    alarm(1800);
    for (time_t end = time(0) + seconds; time(0) < end;) { free(malloc(100)); myfunc(1000, "hello"); }
    return 0;
}
"#;

/// A program, its busy process, and a recording of it.
struct Scene {
    dir: tempfile::TempDir,
    busy: Child,
}

impl Scene {
    fn set() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("w.c"), PROGRAM).expect("written");
        let mut cc = Command::new("cc");
        cc.args(["-g", "-O1", "-fno-omit-frame-pointer", "-o"]).arg(at("w")).arg(at("w.c"));
        cc.args(["-Wl,--no-as-needed", "-lstdc++"]);
        if !cc.status().is_ok_and(|status| status.success()) {
            skipped("no C compiler (gcc)");
            return None;
        }
        std::fs::write(at("big"), vec![0; 4 << 20]).expect("written");
        run(program().current_dir(dir.path()).args([
            "record",
            "-q",
            "-o",
            "perf.data",
            "-g",
            "-e",
            "cpu-clock,sched:sched_switch",
            "./w",
        ]));
        // At the lowest priority, so that the other tests get the CPUs.
        let mut nice = Command::new("nice");
        let busy = nice.args(["-n", "19"]).arg(at("w")).arg("1800").stdout(Stdio::null()).spawn().expect("it runs");
        Some(Self { busy, dir })
    }

    /// The path of a library of the program.
    fn library(&self, name: &str) -> String {
        let needed = run(Command::new("ldd").arg(self.dir.path().join("w"))).stdout;
        let needed = String::from_utf8_lossy(&needed).into_owned();
        let of_name = |word: &&str| word.starts_with('/') && word.contains(name);
        needed.split_whitespace().find(of_name).unwrap_or_else(|| panic!("no {name}")).to_owned()
    }

    /// The words of a line, in a separate folder with a recording.
    fn words(&self, line: &str) -> Vec<String> {
        let of = |name: &str| self.dir.path().join(name).display().to_string();
        let words = line
            .replace("{pid}", &self.busy.id().to_string())
            .replace("{libc}", &self.library("/libc."))
            .replace("{cxx}", &self.library("/libstdc++."))
            .replace("{bin}", &of("w"))
            .replace("{big}", &of("big"));
        shlex::split(&words).expect("words")
    }

    /// Returns the exit status and output of a line.
    fn end(&self, line: &str) -> (Option<i32>, String) {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::copy(self.dir.path().join("perf.data"), dir.path().join("perf.data")).expect("copied");
        let said = dir.path().join("said");
        let output = || Stdio::from(std::fs::File::options().create(true).append(true).open(&said).expect("a file"));
        let mut command = program();
        command
            .envs([by_frame_pointers()])
            .current_dir(dir.path())
            .args(self.words(line))
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output());
        let mut child = command.spawn().expect("it runs");
        let begun = Instant::now();
        let (mut interrupted, mut measuring) = (false, None);
        let status = loop {
            if let Some(status) = child.try_wait().expect("waited for") {
                break status.code();
            }
            let waited = begun.elapsed();
            if measuring.is_none() && has_events(child.id()) {
                measuring = Some(Instant::now());
            }
            let is_due = waited > PATIENCE || measuring.is_some_and(|since| since.elapsed() > MEASURES);
            if is_due && !interrupted && is_live(line) && takes_interrupts(child.id()) {
                interrupted = true;
                let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            }
            if waited > LIMIT {
                let _ = child.kill().and_then(|()| child.wait().map(drop));
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        (status, String::from_utf8_lossy(&std::fs::read(&said).unwrap_or_default()).into_owned())
    }

    /// Returns what is wrong with the outcome of a line.
    fn fault(&self, kind: &str, line: &str) -> Option<String> {
        if kind == "screen" {
            let words = self.words(line);
            let mut screen = Session::start(&words.iter().map(String::as_str).collect::<Vec<_>>(), 24, 80);
            screen.wait_for("live");
            screen.keys("q");
            return (!screen.end().success()).then(|| format!("{line}: {}", screen.text()));
        }
        let (kind, words) = kind.split_once(": ").unwrap_or((kind, ""));
        let (status, said) = self.end(line);
        let has_reason = status != Some(USAGE) && !said.trim().is_empty() && said.contains(words);
        let fine = match (kind, status) {
            ("runs" | "either", Some(0)) => true,
            // The test interrupted it, and it ended its command.
            ("runs" | "either", Some(ENDED | INTERRUPTED)) => is_live(line),
            ("refused" | "either", Some(1..)) => has_reason,
            ("unknown", Some(USAGE)) => said.contains(words),
            ("runs" | "refused" | "either" | "unknown", _) => false,
            _ => panic!("unknown kind {kind}"),
        };
        let first: String = said.lines().filter(|text| !text.is_empty()).take(3).collect::<Vec<_>>().join(" | ");
        (!fine).then(|| format!("{line}: ends with {status:?}, where it {kind}: {first}"))
    }
}

/// The exit status of a command that a signal ended, as in a shell.
const ENDED: i32 = 128 + 15;
/// The exit status of a unit that a signal ended before it measured.
const INTERRUPTED: i32 = 128 + 2;

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.busy.kill();
        let _ = self.busy.wait();
    }
}

/// Whether a process handles SIGINT, which it must install first.
fn takes_interrupts(pid: u32) -> bool {
    const INTERRUPT: u64 = 1 << 1;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & INTERRUPT != 0)
}

/// Whether a line measures until it is interrupted.
fn is_live(line: &str) -> bool {
    const READS: [&str; 9] =
        ["annotate", "buildid-list", "diff", "evlist", "inject", "list", "probe", "report", "script"];
    !READS.iter().any(|command| line.split(' ').next() == Some(command))
}

/// Whether a line changes probes, which are global.
///
/// Such lines run in order, and their probes are removed.
fn is_alone(line: &str) -> bool {
    line.starts_with("probe") || line.starts_with("usdt")
}

#[test]
fn command_lines_of_the_manuals_are_taken() {
    needs!(allowed());
    let Some(scene) = Scene::set() else { return };
    let table = std::fs::read_to_string(data("command_lines.tsv")).expect("the table");
    let lines: Vec<(&str, &str)> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').expect("a kind"))
        .collect();
    let (alone, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(_, line)| is_alone(line));
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let try_line = |(kind, line): (&str, &str)| {
        if let Some(fault) = scene.fault(kind, line) {
            faults.lock().expect("a lock").push(fault);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(line) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_line(*line);
                }
            });
        }
        scope.spawn(|| {
            for line in &alone {
                try_line(*line);
                // Only one probe of a name can exist.
                for made in ["probe_w:*", "probe_libc:malloc*"].iter().filter(|_| line.1.starts_with("probe")) {
                    let _ = program().args(["probe", "-d", made]).output();
                }
            }
        });
    });
    let faults = faults.into_inner().expect("a lock");
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
}
