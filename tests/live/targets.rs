//! Targets, alone and with a command: without a chosen target the command is measured; otherwise the command only
//! limits the duration. perf behaves the same.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::process::{Gates, Running, events, ran, until, uses_cpu};
use crate::common::session::Session;
use crate::common::{allowed, installed, is_root, program, run, skipped, traced};

/// The busy process, with a unique name.
const BUSY: &str = "busy-beside";
/// Its user, if a user can be chosen; unique as well.
const USER: u32 = 61_234;
/// CPU time of the busy process during a recording.
const SHARE: Duration = Duration::from_millis(60);

/// A busy process, in a separate cgroup if possible.
struct Scene {
    dir: tempfile::TempDir,
    busy: Running,
    group: Option<(String, PathBuf)>,
}

impl Scene {
    fn set() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        let shell = dir.path().join(BUSY);
        crate::common::copy_program("/bin/sh", &shell);
        let mut command = Command::new(&shell);
        command.arg0("sh").args(["-c", "while :; do :; done"]);
        if is_root() {
            command.uid(USER);
        }
        let busy = Running(command.spawn().expect("it runs"));
        let comm = format!("/proc/{}/comm", busy.pid());
        until("it is busy", || std::fs::read_to_string(&comm).is_ok_and(|name| name.trim() == BUSY));
        let name = format!("perfprof-beside-{}", busy.pid());
        let group =
            perfprof_tui::kernel::cgroup::tree().map(|root| (root.join(&name), name)).and_then(|(path, name)| {
                std::fs::create_dir(&path).ok()?;
                std::fs::write(path.join("cgroup.procs"), busy.pid().to_string()).ok()?;
                Some((name, path))
            });
        Self { dir, busy, group }
    }

    /// All kinds of target options, each with whether it chooses a target.
    fn targets(&self) -> Vec<(Vec<String>, bool)> {
        let pid = self.busy.pid().to_string();
        let words = |text: &str| text.replace("{pid}", &pid).split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut targets = vec![(Vec::new(), false)];
        for text in ["-p {pid}", "-t {pid}", "-p {pid},{own}", "-p {pid} -i", "-p {pid} -D 10"] {
            targets.push((words(&text.replace("{own}", &std::process::id().to_string())), true));
        }
        for text in ["-a", "-C 0-1023"] {
            let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("CPUs");
            targets.push((words(&text.replace("0-1023", online.trim())), true));
        }
        match is_root() {
            true => targets.push((words(&format!("-u {USER}")), true)),
            false => skipped("-u: not root"),
        }
        match &self.group {
            Some((name, _)) => targets.push((words(&format!("-a -G {name}")), true)),
            None => skipped("-G: cannot create a cgroup"),
        }
        targets
    }

    /// Waits until the busy process has run for some time, however busy the CPUs are.
    fn runs(&self, time: Duration) {
        let then = ran(self.busy.pid());
        until("it has run", || ran(self.busy.pid()) > then + time);
    }

    /// Runs a program with a command that is busy for a while, and ends after the busy process has run next to it.
    fn beside_a_command(&self, mut program: Command) -> std::process::Output {
        let gates = tempfile::tempdir().expect("a folder");
        let gates = Gates(gates.path());
        let command = format!("{}; {}; {}", uses_cpu(100), gates.here("begun"), gates.wait("ended"));
        program.args(["--", "sh", "-c", &command]);
        std::thread::scope(|scope| {
            // perf refuses a process if one of its threads ends while perf opens its events.
            let tries = if program.get_program() == "perf" { 5 } else { 1 };
            let started = move || {
                let mut outputs = (0..tries).map(|_| program.output().expect("starts"));
                outputs.find(|output| output.status.success()).expect("it succeeds")
            };
            let output = scope.spawn(started);
            until("the command has begun", || gates.is_here("begun") || output.is_finished());
            self.runs(SHARE);
            gates.open("ended");
            output.join().expect("it ran")
        })
    }

    /// Starts a recording with either program and some options.
    fn recorder(&self, mut program: Command, options: &[String]) -> (Command, PathBuf) {
        let file = self.dir.path().join("x.data");
        program.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&file).args(options).stdout(Stdio::null());
        (program, file)
    }

    /// The samples of the busy process in a recording without a command.
    ///
    /// The start of counting is not visible from outside, so if a recording ends too early, a longer one follows.
    fn samples_alone(&self, options: &[String]) -> usize {
        let tries = [1, 8, 64].into_iter().map(|times| {
            let (mut recorder, file) = self.recorder(program(), options);
            let mut recorder = Running(recorder.spawn().expect("it runs"));
            until("it measures", || crate::common::process::has_events(recorder.pid()));
            self.runs(SHARE * times);
            run(Command::new("kill").args(["-INT", &recorder.pid().to_string()]));
            assert!(recorder.0.wait().expect("it ends").success(), "{options:?}");
            samples(&file, BUSY)
        });
        tries.into_iter().find(|samples| *samples > 0).unwrap_or_default()
    }

    fn record_beside_a_command(&self, program: Command, options: &[String]) -> PathBuf {
        let (recorder, file) = self.recorder(program, options);
        self.beside_a_command(recorder);
        file
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.busy.0.kill();
        let _ = self.busy.0.wait();
        if let Some((_, path)) = &self.group {
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Counts the samples of a thread name.
fn samples(file: &Path, comm: &str) -> usize {
    let out = run(program().args(["script", "-F", "comm", "-i"]).arg(file).stdin(Stdio::null()));
    String::from_utf8_lossy(&out.stdout).lines().filter(|line| line.trim() == comm).count()
}

/// Whether the event of a recording is enabled on exec, as perf reads it.
fn begins_with_exec(file: &Path) -> bool {
    let out = run(Command::new("perf").args(["evlist", "-v", "-i"]).arg(file).stdin(Stdio::null()));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines()
        .find(|line| line.starts_with("cpu-clock"))
        .expect("the event")
        .split(", ")
        .any(|setting| setting.trim() == "enable_on_exec: 1")
}

#[test]
fn who_was_chosen_is_recorded_beside_a_command() {
    needs!(allowed());
    let scene = Scene::set();
    let mut faults = Vec::new();
    for (options, chosen) in scene.targets() {
        let alone = scene.samples_alone(&options);
        let file = scene.record_beside_a_command(program(), &options);
        let (busy, command) = (samples(&file, BUSY), samples(&file, "sh"));
        if alone == 0 || (busy > 0) != chosen || !chosen && command == 0 {
            faults.push(format!("{options:?}: {alone} samples alone, {busy} and {command} with a command"));
        }
        if installed("perf") {
            let own = begins_with_exec(&file);
            let perf = begins_with_exec(&scene.record_beside_a_command(Command::new("perf"), &options));
            if own != perf {
                faults.push(format!("{options:?}: enabled on exec: {own}, by perf: {perf}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// With any event and any call graph mode.
#[test]
fn other_events_begin_beside_a_command_too() {
    needs!(allowed(), traced());
    let scene = Scene::set();
    let pid = scene.busy.pid().to_string();
    let file = scene.dir.path().join("x.data");
    for options in [["-e", "sched:sched_stat_runtime"], ["--call-graph", "fp"], ["-e", "task-clock"]] {
        let mut command = program();
        command.args(["record", "-q", "-p", &pid, "-o"]).arg(&file).args(options);
        scene.beside_a_command(command);
        assert!(samples(&file, BUSY) > 0, "{options:?}");
    }
}

/// Its events are opened when it appears, long after the program wrote the event ids.
#[test]
fn the_events_of_a_process_that_comes_later_are_told_apart() {
    needs!(allowed(), is_root());
    const LATER: u32 = 61_235;
    let of_user = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        Running(command.args(words).uid(LATER).spawn().expect("it runs"))
    };
    let _first = of_user("sleep", &["900"]);
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("x.data");
    for target in [&file, Path::new("-")] {
        let gates = tempfile::tempdir().expect("a folder");
        let gates = Gates(gates.path());
        let mut recorder = program();
        recorder.args(["record", "-q", "-e", "cpu-clock:u,context-switches", "-u", &LATER.to_string(), "-o"]);
        recorder.arg(target).args(["--", "sh", "-c", &format!("{}; {}", gates.here("begun"), gates.wait("ended"))]);
        let mut recorder =
            Running(recorder.stdout(std::fs::File::create(&file).expect("a file")).spawn().expect("runs"));
        gates.until("begun");
        let before = events(recorder.pid());
        // It has no children, whose events could be taken for its own.
        let later = of_user(
            "perl",
            &["-e", "while (1) { for ($i = 0; $i < 99999; $i++) {} select undef, undef, undef, 0.01 }"],
        );
        until("it is measured", || events(recorder.pid()) > before);
        let then = ran(later.pid());
        // Its events are opened one after another: a busy recorder may open the second one much later.
        until("it has run", || ran(later.pid()) > then + 10 * SHARE);
        gates.open("ended");
        assert!(recorder.0.wait().expect("it ends").success());
        let mut readers = vec![program()];
        readers.extend(installed("perf").then(|| Command::new("perf")));
        for mut reader in readers {
            let read = std::fs::File::open(&file).expect("there");
            let named = if target == file { file.as_path() } else { Path::new("-") };
            let out = run(reader.args(["script", "-F", "pid,event", "-G", "-i"]).arg(named).stdin(read));
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let pid = later.pid().to_string();
            let of = |name: &str| {
                let is = |line: &&str| line.split_whitespace().eq([pid.as_str(), name]);
                text.lines().filter(is).count()
            };
            let (clock, switches) = (of("cpu-clock:u:"), of("context-switches:"));
            assert!(clock > 50 && switches > 5, "{reader:?}: {clock} and {switches}");
        }
    }
}

/// A unit measures the chosen target, otherwise the command.
#[test]
fn units_measure_who_was_chosen_beside_a_command() {
    needs!(allowed());
    let scene = Scene::set();
    let mut faults = Vec::new();
    for (options, chosen) in scene.targets() {
        if options.iter().any(|word| matches!(word.as_str(), "-u" | "-i" | "-D")) {
            continue;
        }
        let options = options.iter().map(|word| word.replace("-G", "--cgroups"));
        let mut unit = program();
        unit.args(["profile", "--batch"]).args(options.clone());
        let out = scene.beside_a_command(unit);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if text.contains(BUSY) != chosen || !text.contains('%') {
            faults.push(format!("{:?}: {text}", options.collect::<Vec<_>>()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_screen_shows_who_was_chosen_beside_a_command() {
    needs!(allowed());
    let scene = Scene::set();
    let pid = scene.busy.pid().to_string();
    let mut session = Session::start(&["-p", &pid, "-s", "comm", "--", "sleep", "900"], 24, 80);
    session.wait_for_line(&["%", BUSY]);
    session.keys("q");
    assert!(session.end().success());
}

/// A sleeping process with a busy child that it started before.
fn with_child(dir: &Path, name: &str, then: &str) -> Running {
    let shell = dir.join(name);
    crate::common::copy_program("/bin/sh", &shell);
    let burns = format!("{} -c 'while :; do :; done' & echo $! > {}", shell.display(), dir.join("child").display());
    let parent = Running(Command::new("sh").args(["-c", &format!("{burns}; {then}wait")]).spawn().expect("it runs"));
    let comm = || {
        let pid = std::fs::read_to_string(dir.join("child")).ok()?;
        std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).ok()
    };
    until("the child burns", || comm().is_some_and(|comm| comm.trim() == name));
    parent
}

/// Returns the process id of the child.
fn child_of(dir: &Path) -> u32 {
    let pid = std::fs::read_to_string(dir.join("child")).expect("its pid");
    pid.trim().parse().expect("a number")
}

/// Kills the child on drop, too.
struct Child<'a>(&'a Path);

impl Drop for Child<'_> {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.0.join("child")).unwrap_or_default();
        let _ = Command::new("kill").arg(pid.trim()).status();
    }
}

#[test]
fn children_that_ran_before_belong_to_their_parent_unless_it_is_measured_alone() {
    needs!(allowed());
    const BELOW: &str = "burns-below";
    let dir = tempfile::tempdir().expect("a folder");
    let parent = with_child(dir.path(), BELOW, "");
    let _child = Child(dir.path());
    let pid = parent.pid().to_string();
    let file = dir.path().join("x.data");
    let burns = child_of(dir.path());
    // The command ends when the child has run next to it.
    let beside = |mut command: Command| {
        let gates = tempfile::tempdir().expect("a folder");
        let gates = Gates(gates.path());
        command.args(["--", "sh", "-c", &format!("{}; {}", gates.here("begun"), gates.wait("ended"))]);
        std::thread::scope(|scope| {
            let output = scope.spawn(move || run(&mut command));
            until("the command has begun", || gates.is_here("begun") || output.is_finished());
            let then = ran(burns);
            until("the child has run", || ran(burns) > then + SHARE);
            gates.open("ended");
            output.join().expect("it ran")
        })
    };
    let record = |options: &[&str]| {
        let mut command = program();
        command.args(["record", "-q", "-F", "499", "-e", "cpu-clock", "-p", &pid]).args(options).arg("-o").arg(&file);
        beside(command);
        samples(&file, BELOW)
    };
    assert!(record(&[]) > 5, "the child's samples");
    if installed("perf") {
        let out = run(Command::new("perf").args(["script", "-F", "comm,sym", "-i"]).arg(&file).stdin(Stdio::null()));
        assert!(String::from_utf8_lossy(&out.stdout).contains(BELOW), "perf reads its name");
    }
    assert_eq!(record(&["--no-inherit"]), 0);
    let count = |options: &[&str]| -> f64 {
        let mut command = program();
        command.args(["stat", "-x", ",", "-e", "task-clock", "-p", &pid]).args(options);
        let out = beside(command);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        // A sleeping process has no count.
        text.split(',').next().and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
    };
    assert!(count(&[]) > 10.0 && count(&["-i"]) < 5.0);
    let mut unit = program();
    unit.args(["profile", "--batch", "-p", &pid]);
    let out = beside(unit);
    assert!(String::from_utf8_lossy(&out.stdout).contains(BELOW));
}

/// A unit started on the screen uses the session's target, though it measures the whole machine.
#[test]
fn a_unit_on_the_screen_keeps_to_the_target() {
    needs!(allowed() && traced());
    const BELOW: &str = "burns-here";
    let dir = tempfile::tempdir().expect("a folder");
    let parent = with_child(dir.path(), BELOW, &format!("{} 900 & ", "sleep"));
    let _child = Child(dir.path());
    let pid = parent.pid().to_string();
    let mut session = Session::start(&["-p", &pid, "-s", "comm"], 50, 160);
    session.wait_for_line(&["%", BELOW]);
    session.keys(":unit offcpu\r");
    session.wait_for("Under way");
    // The parent and the other child; the whole machine has more sleeping tasks.
    session.wait_for("waiting for work: 2");
    session.keys("q");
    assert!(session.end().success());
}

/// Pairs belong to the target, though either of their events may hit other tasks.
#[test]
fn pairs_of_events_are_of_the_target() {
    needs!(allowed() && traced());
    let dir = tempfile::tempdir().expect("a folder");
    let parent = with_child(dir.path(), "burns-paired", "");
    let _child = Child(dir.path());
    let out = run(program()
        .args(["multi-trace", "-e", "sched:sched_switch//key=prev_pid/", "-e", "sched:sched_switch//key=next_pid/"])
        .args(["--per-thread", "-p", &parent.pid().to_string(), "--batch", "--duration", "0.4", "--format", "json"]));
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).expect("json");
    let panels = answer["panels"].as_array().expect("panels");
    let pids: Vec<String> = [parent.pid().to_string()]
        .into_iter()
        .chain([std::fs::read_to_string(dir.path().join("child")).expect("its pid").trim().to_owned()])
        .collect();
    let slowest = panels.iter().find(|panel| panel["title"] == "Slowest").expect("a panel");
    for row in slowest["rows"].as_array().expect("rows") {
        assert!(pids.contains(&row["key"].as_str().map_or_else(|| row["key"].to_string(), str::to_owned)), "{row}");
    }
}
