//! Less common counts of `stat`, and thread counts in recordings.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::process::{ended, state, until, uses_cpu};
use crate::common::{allowed, program, run};

/// Times of a run are shown next to events.
///
/// Runs have commands before and after them, and `-r 0` repeats them forever.
#[test]
fn runs_have_times_and_what_stands_beside_them() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let stat = |args: &[&str]| run(program().current_dir(dir.path()).arg("stat").args(args));
    let busy = uses_cpu(50);
    let busy = busy.as_str();
    let out = stat(&["--format", "json", "-e", "duration_time,user_time,system_time,cs", "--", "sh", "-c", busy]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("json");
    let of = |at: usize, name: &str| json["counters"][at][name].clone();
    assert_eq!((of(0, "event"), of(0, "unit")), ("duration_time".into(), "ns".into()));
    for (at, seconds) in [(0, "seconds"), (1, "user")] {
        let (ns, seconds) = (of(at, "value").as_f64().expect("a time"), json[seconds].as_f64().expect("seconds"));
        assert!(ns > 0.0 && (ns / 1e9 - seconds).abs() < 1e-6, "{json}");
    }
    stat(&[
        "-r",
        "2",
        "--pre",
        "echo before >> order",
        "--post",
        "echo after >> order",
        "sh",
        "-c",
        "echo run >> order",
    ]);
    let order = std::fs::read_to_string(dir.path().join("order")).expect("they ran");
    assert_eq!(order, "before\nrun\nafter\n".repeat(2));
    let table = |args: &[&str]| {
        let out = stat(&[&["-e", "duration_time"], args, &["sh", "-c", busy]].concat());
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        text.lines()
            .find(|line| line.split_whitespace().any(|word| word == "duration_time"))
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    assert!(table(&[]).contains(',') && !table(&["--no-big-num"]).contains(','), "thousands separators");
    // Each run has its own table until the program is interrupted.
    let mut command = program();
    command.args(["stat", "-r", "0", "-x", ",", "-e", "page-faults", "-o", "runs", "--", "sleep", "0.05"]);
    let mut child = command.current_dir(dir.path()).spawn().expect("it runs");
    let runs = || std::fs::read_to_string(dir.path().join("runs")).unwrap_or_default().lines().count();
    let begun = Instant::now();
    while runs() < 3 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(runs() >= 3, "{} runs", runs());
    run(Command::new("kill").args(["-INT", &child.id().to_string()]));
    assert!(child.wait().expect("it ends").code().is_some());
}

/// A stopped command reacts only to SIGKILL until it is continued.
#[test]
fn a_stopped_command_does_not_keep_it() {
    needs!(allowed());
    for (command, signal, code) in [("stat", "-TERM", 143), ("stat", "-INT", 130), ("record", "-TERM", 143)] {
        let dir = tempfile::tempdir().expect("a folder");
        let script = "echo $$ > pid; kill -STOP $$; exec sleep 60";
        let mut ours = program();
        ours.current_dir(dir.path()).args([command, "-o", "out", "-e", "cpu-clock", "--", "sh", "-c", script]);
        let mut ours = ours.spawn().expect("it runs");
        let pid = || std::fs::read_to_string(dir.path().join("pid")).unwrap_or_default().trim().to_owned();
        let is = || pid().parse().ok().and_then(state);
        until("the command is stopped", || is() == Some('T'));
        run(Command::new("kill").args([signal, &ours.id().to_string()]));
        assert_eq!((ended(&mut ours).code(), is()), (Some(code), None), "{command} {signal}");
    }
}

#[test]
fn what_stat_cannot_do_is_said() {
    needs!(allowed());
    for (args, words) in [
        (&["-r", "0", "-a"][..], "-r"),
        (&["record", "-o", "x", "--", "true"], "stat -o FILE"),
        (&["report", "-i", "x"], "stat -o FILE"),
        (&["--pre", "exit 3", "--", "true"], "exited with status 3"),
        (&["-e", "sched:*", "-i", "1000"], "perfprof-tui unit stat"),
    ] {
        let out = program().arg("stat").args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains(words), "{args:?}: {said}");
    }
}

/// The counts of each thread are in the recording where perf expects them; branches if the machine records any.
#[test]
fn recordings_have_counts_of_threads_and_branches() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("s.data");
    let record = |args: &[&str]| {
        program()
            .arg("record")
            .args(args)
            .arg("-o")
            .arg(&file)
            .args(["--", "sh", "-c", "/bin/true; /bin/true; :"])
            .output()
    };
    let out = record(&["-q", "-s", "-e", "page-faults", "-c", "1"]).expect("runs");
    assert!(out.status.success(), "{out:?}");
    if let Ok(out) = Command::new("perf").args(["report", "-T", "--stdio", "-i"]).arg(&file).output() {
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let counts = text.split("PID").nth(1).unwrap_or_else(|| panic!("no table of threads: {text}"));
        let first = counts.lines().nth(1).and_then(|line| line.split_whitespace().nth(2)).map(str::parse::<u64>);
        assert!(matches!(first, Some(Ok(1..))), "{text}");
    }
    let out = record(&["-b", "-e", "cycles"]).expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() || said.contains("branches before samples of cycles cannot be recorded"), "{said}");
    for (args, words) in [
        (&["-b", "-e", "cpu-clock"][..], "the CPU's PMU"),
        (&["-j", "any", "--call-graph", "lbr"], "cannot be combined"),
        (&["-j", "any_cal"], "nearest: any_call"),
    ] {
        let out = record(args).expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(words), "{args:?}: {said}");
    }
}

/// Each of several cgroups has its own counts, equal to perf's.
#[test]
fn cgroups_are_counted_each_by_itself() {
    needs!(allowed());
    let args = ["stat", "-x", ",", "-e", "cs,cpu-clock", "--for-each-cgroup", "/", "-a", "sleep", "0.2"];
    let ours = run(program().args(args));
    let fields = |text: &[u8]| -> Vec<Vec<String>> {
        let words = |line: &str| line.split(',').skip(1).take(3).map(str::to_owned).collect();
        String::from_utf8_lossy(text).lines().filter(|line| line.contains(',')).map(words).collect()
    };
    let root = |event: &str, unit: &str| vec![unit.to_owned(), event.to_owned(), "/".to_owned()];
    assert_eq!(fields(&ours.stderr), [root("cs", ""), root("cpu-clock", "msec")]);
    if let Ok(theirs) = Command::new("perf").args(args).output() {
        assert_eq!(fields(&ours.stderr), fields(&theirs.stderr));
    }
}
