//! Recordings of the running kernel, compared with perf and with known loads.
//!
//! Without the privileges to sample the machine, each test reports that it is skipped.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::process::{Gates, Running, has_events, ran, until, uses_cpu};
use crate::common::transcript::Transcript;
use crate::common::{self, Nature, allowed, has, installed, our_rows, perf_rows, program, run, skipped};

/// A busy shell loop of bounded length.
fn busy() -> String {
    uses_cpu(200)
}

fn record(dir: &Path, args: &[&str]) -> std::path::PathBuf {
    let file = dir.join("live.data");
    run(program().arg("record").args(["-q", "-o"]).arg(&file).args(args));
    file
}

fn report(file: &Path, args: &[&str]) -> Vec<u8> {
    run(program().arg("report").arg(file).args(["--format", "json"]).args(args)).stdout
}

/// Returns the complaints of perf, except those about lost records: an overloaded machine loses some.
fn complaints(said: &str) -> Vec<&str> {
    let of_losses = |line: &str| {
        line == "Warning:"
            || line == "Check IO/CPU overload!"
            || line.starts_with("Processed ") && (line.ends_with(" chunks!") || line.ends_with("%!"))
    };
    said.lines().filter(|line| !line.is_empty() && !of_losses(line)).collect()
}

/// The rows that perf reports for a file of ours, without complaints.
fn perf_report(file: &Path) -> common::Rows {
    let output = Command::new("perf")
        .args([
            "report",
            "--stdio",
            "--no-children",
            "-g",
            "none",
            "-n",
            "-s",
            "comm,dso,sym",
            "-t",
            "\t",
            "--no-demangle",
            // perf truncates comms to the longest comm that a thread has at the end. Comms of kernel threads in /proc
            // are the longest.
            "-w",
            "0,0,64,0,0",
            "-i",
        ])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .expect("perf");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints(&said).is_empty(), "perf says: {said}");
    perf_rows(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn perf_opens_a_recording_of_several_events() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    // Processes that start during the recording produce their own side-band records.
    let work = format!("{0}; sh -c '{0}'; true", busy());
    let file = record(dir.path(), &["-a", "-e", "cpu-clock,sched:sched_switch", "--", "sh", "-c", &work]);
    assert!(!perf_report(&file).is_empty());
}

/// The kernel's filter passes exactly the samples that match.
///
/// Two events on the same tracepoint, one of them filtered, sample the same load.
#[test]
fn a_filter_in_the_kernel_keeps_what_matches() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    // Names that do not occur elsewhere on this machine.
    for name in ["ppkept", "ppleft"] {
        std::fs::copy("/bin/true", dir.path().join(name)).expect("copied");
    }
    let path = dir.path().display();
    let load = format!("for i in 1 2 3 4 5; do {path}/ppkept; done; for i in 1 2 3; do {path}/ppleft; done");
    let texts = |filter: &[&str]| -> Vec<String> {
        let mut args = vec!["-a", "--call-graph", "none", "-e", "sched:sched_process_exit"];
        args.extend(filter);
        args.extend(["--", "sh", "-c", &load]);
        let file = record(dir.path(), &args);
        let out = run(program().arg("report").arg(&file).args(["-s", "trace", "-g", "none", "--format", "csv"]));
        String::from_utf8(out.stdout).expect("text").lines().skip(1).map(str::to_owned).collect()
    };
    let of = |list: &[String], comm: &str| list.iter().filter(|l| l.contains(&format!("comm={comm}"))).count();
    let (all, some) = (texts(&[]), texts(&["--filter", "comm == ppkept"]));
    assert_eq!((of(&all, "ppkept"), of(&all, "ppleft")), (5, 3), "{all:?}");
    assert_eq!((of(&some, "ppkept"), some.len()), (5, 5), "{some:?}");
    assert_eq!(texts(&["--filter", "comm ~ \"ppk*t\" || comm == ppleft"]).len(), 8);
    for (args, words) in [
        (&["-e", "sched:sched_switch", "--filter", "prev_pidd == 1"][..], "nearest: prev_pid"),
        (&["-e", "cpu-clock", "--filter", "prev_pid == 1"], "unknown field prev_pid"),
        (&["-e", "cpu-clock", "--filter", "stack ~ x"], "use a view filter"),
        (&["--filter", "prev_pid == 1", "-e", "sched:sched_switch"], "--filter must follow the -e"),
    ] {
        let out = program().arg("record").args(args).args(["--", "true"]).output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(words), "{args:?}: {said}");
    }
}

/// Filters in the kernel and in the view are equivalent: the kernel's filter on a tracepoint passes the samples that
/// the view filter keeps of an unfiltered event on the same tracepoint.
#[test]
fn a_filter_means_the_same_in_the_kernel_and_in_the_view() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let load = "for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.01; (exit 3); done; true";
    let samples = |file: &Path, filter: Option<&str>| -> Vec<u64> {
        let args = filter.map_or(vec![], |filter| vec!["--where", filter]);
        let report: serde_json::Value = serde_json::from_slice(&report(file, &args)).expect("json");
        report["events"].as_array().expect("events").iter().map(|e| e["samples"].as_u64().expect("samples")).collect()
    };
    for (event, filter, view) in [
        ("sched:sched_switch", "prev_comm ~ \"s*\"", None),
        ("sched:sched_switch", "prev_state != 0 && next_pid == 0 || prev_comm == true", None),
        ("sched:sched_switch", "prev_prio >= 120 && !(next_pid > 0)", None),
        ("sched:sched_switch", "prev_state & 0x3", None),
        ("syscalls:sys_exit_wait4", "ret < 0 || ret > 0", None),
        ("syscalls:sys_enter_close", "fd > 2 && common_pid > 1", None),
        ("sched:sched_waking", "common_flags & 4 || common_preempt_count > 1", None),
        ("sched:sched_waking", "CPU == 0 || CPU > 0", Some("cpu >= 0")),
    ] {
        let file = record(
            dir.path(),
            &["--call-graph", "none", "-e", event, "-e", event, "--filter", filter, "--", "sh", "-c", load],
        );
        let all = samples(&file, None);
        let kept = samples(&file, Some(view.unwrap_or(filter)));
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0] > 0, "{event}");
        assert_eq!(kept[0], all[1], "{event}: {filter}: of {} samples", all[0]);
        assert_eq!(kept[1], all[1], "{event}: {filter}: samples that pass the kernel's filter");
    }
    let file = record(dir.path(), &["--call-graph", "none", "-e", "sched:sched_switch", "--", "sh", "-c", load]);
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    let out = transcript.add(program().arg("report").arg(&file).args(["--where", "prev_pidd == 1"]));
    assert_eq!(out.status.code(), Some(2));
    insta::assert_snapshot!("unknown-field", transcript.text());
}

/// A filter as a BPF program, compared with the same filter of the view.
///
/// Two events count the same page faults, one of them filtered, so a fault that passes occurs twice. The kernel gives
/// both samples the id of one of the events, so that the ids cannot distinguish them.
#[test]
fn a_program_beside_an_event_keeps_what_the_view_would() {
    needs!(allowed(), has(Nature::Btf));
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("live.data");
    let load = "for i in 1 2 3 4; do /bin/true; done; nice -n 5 /bin/true; true";
    // Records; returns whether BPF programs can be loaded here.
    let filtered = |filter: &str| -> bool {
        let mut command = program();
        command.args(["record", "-q", "--all-cgroups", "-c", "1", "--call-graph", "none", "-o"]).arg(&file);
        command.args(["-e", "page-faults", "-e", "page-faults", "--filter", filter, "--", "sh", "-c", load]);
        let out = command.output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if !out.status.success() {
            assert!(said.contains("BPF") || said.contains("does not describe its types"), "{said}");
            skipped(said.trim());
        }
        out.status.success()
    };
    // Returns how often each number of samples per fault occurs.
    let times = |view: &str| -> std::collections::BTreeMap<usize, usize> {
        let out = run(program().arg("script").arg(&file).args(["--ns", "-F", "tid,time", "--where", view]));
        let mut faults = std::collections::BTreeMap::<String, usize>::new();
        String::from_utf8_lossy(&out.stdout)
            .lines()
            .filter(|line| !line.trim().is_empty())
            .for_each(|line| *faults.entry(line.to_owned()).or_default() += 1);
        let mut counts = std::collections::BTreeMap::new();
        faults.values().for_each(|n| *counts.entry(*n).or_default() += 1);
        counts
    };
    for filter in [
        "pid > 1",
        "comm == true",
        "comm ~ \"s*\"",
        "kernel",
        "user && comm in sh,true",
        "cpu == 0 || comm == true",
        "cpu == 0",
        "tid > 20 && !idle",
        "cgroup ~ \"/*\" && !(comm == sh)",
        "!(comm == sh) || pid < 5",
    ] {
        if !filtered(filter) {
            return;
        }
        let (passed, others) = (times(filter), times(&format!("!({filter})")));
        assert!(passed.keys().all(|n| *n == 2) && others.keys().all(|n| *n == 1), "{filter}: {passed:?} {others:?}");
        assert!(!passed.is_empty() || filter == "cpu == 0", "{filter}");
    }
    // `nice -n 5` starts from this process's own priority.
    let own = rustix::process::getpriority_process(None).expect("a priority");
    let reniced = format!("prio == {}", 120 + (own + 5).min(19));
    for (filter, some, whole) in [
        ("nr_running >= 1", true, true),
        ("nr_running >= 1000", false, false),
        ("policy == 0 && prio >= 100", true, true),
        (&reniced, true, own == 19),
        ("prio < 0", false, false),
        // Code that faults has interrupts enabled.
        ("!irqs_off", true, true),
    ] {
        if !filtered(filter) {
            return;
        }
        let all = times("pid > 0");
        assert_eq!((all.contains_key(&2), !all.contains_key(&1)), (some, whole), "{filter}: {all:?}");
    }
    let aliased = ["--nr_running_min", "1", "--exclude_pid", "1", "--irqs_disabled=0", "-c", "1", "-e", "page-faults"];
    let file = record(dir.path(), &[&aliased[..], &["--", "true"]].concat());
    assert!(!our_rows(&report(&file, &[])).is_empty());
}

/// The event list contains every tracepoint and software event that perf lists, and no other tracepoints.
#[test]
fn the_list_has_what_perf_lists() {
    needs!(allowed(), installed("perf"));
    let listed = |kind: &str| -> std::collections::BTreeSet<String> {
        let out = Command::new("perf").args(["list", kind]).stdin(Stdio::null()).output().expect("perf");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let of_kind = |line: &&str| line.contains(if kind == "sw" { "[Software event]" } else { "[Tracepoint event]" });
        let names = text.lines().filter(of_kind).filter_map(|line| line.split_whitespace().next().map(str::to_owned));
        names.collect()
    };
    let ours = |kind: &str| -> std::collections::BTreeSet<String> {
        let out = run(program().args(["list", kind, "--format", "json"])).stdout;
        let list: Vec<serde_json::Value> = serde_json::from_slice(&out).expect("JSON");
        list.iter().map(|e| e["event"].as_str().expect("name").to_owned()).collect()
    };
    let (tracepoints, mine) = (listed("tracepoint"), ours("tracepoint"));
    assert!(tracepoints.len() > 100, "{}", tracepoints.len());
    let missing: Vec<_> = tracepoints.symmetric_difference(&mine).collect();
    // Dynamic events of other processes may come and go meanwhile.
    assert!(missing.len() < 5, "{missing:?}");
    assert!(listed("sw").iter().all(|name| ours("software").contains(name)), "{:?}", listed("sw"));
}

#[test]
fn a_command_is_followed_with_its_children() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let script = format!("sh -c '{0}'; exec -a renamed bash -c '{0}'", busy());
    let file = record(dir.path(), &["-e", "cpu-clock", "--", "bash", "-c", &script]);
    let rows = our_rows(&report(&file, &["-s", "comm,dso,sym"]));
    let comms: std::collections::BTreeSet<&str> = rows.keys().map(|k| k.0.as_str()).collect();
    assert!(comms.is_superset(&["sh"].into()) && !comms.is_disjoint(&["bash", "renamed"].into()), "{comms:?}");
    assert!(!comms.iter().any(|c| c.starts_with("perfprof")), "the profiler samples itself: {comms:?}");
}

#[test]
fn perf_reads_a_recording_row_by_row() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    let file = record(dir.path(), &["-a", "-F", "2000", "--call-graph", "fp", "--", "sh", "-c", &busy()]);
    let ours = our_rows(&report(&file, &["-s", "comm,dso,sym", "--no-demangle"]));
    let perf = perf_report(&file);
    assert!(ours.values().sum::<u64>() > 100);
    assert_eq!(ours.values().sum::<u64>(), perf.values().sum::<u64>());
    // We name symbols that perf does not (deleted files, PLT entries, BPF programs); kernel symbols must agree.
    let kernel = |mut rows: common::Rows| -> common::Rows {
        rows.retain(|(_, dso, symbol), _| dso == "[kernel.kallsyms]" && !symbol.starts_with("bpf_prog_"));
        rows
    };
    assert_eq!(kernel(ours), kernel(perf));
}

#[test]
fn several_events_and_a_tracepoint_group() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let events = ["-e", "{cpu-clock,page-faults:u}", "-e", "context-switches"];
    let file = record(dir.path(), &[&events[..], &["--", "sh", "-c", &busy()]].concat());
    let report: serde_json::Value = serde_json::from_slice(&report(&file, &["-s", "comm"])).expect("json");
    let names: Vec<&str> =
        report["events"].as_array().expect("events").iter().filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(names, ["cpu-clock", "page-faults:u", "context-switches"]);
    assert!(report["events"][0]["samples"].as_u64() > Some(20), "{report}");
    assert!(report["events"][1]["samples"].as_u64() > Some(0), "{report}");
}

/// The tracing data of tracepoints must suit perf's parser.
#[test]
fn perf_reads_a_recording_of_tracepoints() {
    needs!(allowed());
    let tracefs = perfprof_tui::event::tracepoint::root().is_ok();
    if !tracefs || !installed("perf") {
        return skipped("no tracefs, or no perf");
    }
    let dir = tempfile::tempdir().expect("dir");
    let file = record(
        dir.path(),
        &["-a", "-e", "sched:sched_switch", "--call-graph", "fp", "--", "sh", "-c", "sleep 0.1; sleep 0.1"],
    );
    let ours: u64 = our_rows(&report(&file, &["-s", "comm,dso,sym"])).values().sum();
    assert!(ours > 0);
    assert_eq!(perf_report(&file).values().sum::<u64>(), ours);
}

#[test]
fn a_running_process_is_attached_to_and_its_end_ends_the_recording() {
    needs!(allowed());
    let child = Running(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"));
    let (dir, pid) = (tempfile::tempdir().expect("dir"), child.pid());
    let file = dir.path().join("live.data");
    let mut recorder = program();
    recorder.args(["record", "-q", "-e", "cpu-clock", "-p", &pid.to_string(), "-o"]).arg(&file);
    let mut recorder = Running(recorder.spawn().expect("starts"));
    until("it is measured", || has_events(recorder.pid()));
    let before = ran(pid);
    until("it has run", || ran(pid) > before + Duration::from_millis(600));
    drop(child);
    assert!(recorder.0.wait().expect("ends").success());
    let rows = our_rows(&report(&file, &["-s", "comm,dso,sym"]));
    let total: u64 = rows.values().sum();
    let own: u64 = rows.iter().filter(|(k, _)| k.0 == "sh").map(|(_, n)| n).sum();
    assert!(total > 20 && own == total, "{rows:?}");
}

/// The ring buffer of an ended task polls as ready forever; each poll would add a round to the file.
#[test]
fn a_process_that_has_ended_is_waited_for_no_more() {
    needs!(allowed());
    // The first process has the ring buffers.
    let (child, other) = (Running::sleeping(), Running::sleeping());
    let dir = tempfile::tempdir().expect("dir");
    let (gates, file) = (Gates(dir.path()), dir.path().join("live.data"));
    let pid = format!("{},{}", child.pid(), other.pid());
    let waits = format!("{}; {}; sleep 1", gates.here("begun"), gates.wait("ended"));
    let mut recorder = program();
    recorder.args(["record", "-q", "-e", "cpu-clock", "-p", &pid, "-o"]).arg(&file).args(["--", "sh", "-c", &waits]);
    let mut recorder = Running(recorder.spawn().expect("starts"));
    gates.until("begun");
    drop(child);
    gates.open("ended");
    assert!(recorder.0.wait().expect("ends").success());
    let size = file.metadata().expect("a file").len();
    assert!(size < 100_000, "{size} bytes");
}

/// The command limits the recording; it is killed when the targets end.
#[test]
fn the_end_of_who_is_measured_ends_a_recording_beside_a_command() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let (file, told) = (dir.path().join("live.data"), dir.path().join("command"));
    let mut recorders = vec![program()];
    recorders.extend(installed("perf").then(|| Command::new("perf")));
    for mut recorder in recorders {
        let child = Running::sleeping();
        let command = pid_in(&told);
        recorder.args(["record", "-q", "-e", "cpu-clock", "-p", &child.pid().to_string(), "-o"]).arg(&file);
        let mut recorder = Running(recorder.args(["--", "sh", "-c", &command]).spawn().expect("starts"));
        let command = pid_told(&told);
        drop(child);
        recorder.0.wait().expect("ends");
        assert!(!sleeps(&command), "{command}");
    }
    // `stat` of another process ends with that process, too.
    let child = Running::sleeping();
    let mut counter = program();
    counter.args(["stat", "-e", "task-clock", "-p", &child.pid().to_string()]).stderr(Stdio::null());
    let mut counter = Running(counter.stdout(Stdio::null()).spawn().expect("starts"));
    until("it counts", || has_events(counter.pid()));
    drop(child);
    assert!(counter.0.wait().expect("ends").success());
}

/// Recording continues while a child that inherited the events is alive.
#[test]
fn what_an_ended_process_has_started_is_recorded_on() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let gates = Gates(dir.path());
    let script = format!("{}; sh -c '{}' & exit 0", gates.wait("begun"), gates.wait("left"));
    let mut first = Running(Command::new("sh").args(["-c", &script]).spawn().expect("sh"));
    let mut recorder = program();
    recorder.args(["record", "-q", "-e", "cpu-clock", "-p", &first.pid().to_string(), "-o"]);
    let command = format!("{}; exec sleep 60", gates.here("recorded"));
    recorder.arg(dir.path().join("live.data")).args(["--", "sh", "-c", &command]);
    let mut recorder = Running(recorder.spawn().expect("starts"));
    gates.until("recorded");
    gates.open("begun");
    assert!(first.0.wait().expect("ends").success());
    std::thread::sleep(Duration::from_millis(2500));
    assert!(recorder.0.try_wait().expect("asked").is_none(), "somebody is left");
    gates.open("left");
    assert!(recorder.0.wait().expect("ends").success());
}

#[test]
fn refusals_name_reason_and_remedy() {
    let check = |args: &[&str], code: i32| {
        let output = program().arg("record").args(["-o", "/dev/null"]).args(args).output().expect("runs");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // These depend on the machine, and their messages on its limits.
    check(&["-C", "4095", "--", "true"], 1);
    check(&["-F", "100000000", "--", "true"], 1);
    check(&["-G", "no/such/group"], 1);
    let mut transcript = Transcript::new();
    for (args, code) in [
        (&["-e", "cpu-clok"][..], 2),
        (&["-e", "cycles:z"], 2),
        (&["-p", "2147483647"], 1),
        (&["-p", "x"], 2),
        (&["-u", "nosuchuser"], 1),
        (&["-C", "3-1"], 2),
        (&["-F", "0"], 2),
        (&["--call-graph", "magic", "--", "true"], 2),
    ] {
        let output = transcript.add(program().arg("record").args(["-o", "/dev/null"]).args(args));
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
    if allowed() {
        check(&["-e", "cpu-clock", "--", "/no/such/program"], 127);
        let output = transcript.add(program().args(["record", "-o", "/no/such/dir/x.data", "--", "true"]));
        assert_eq!(output.status.code(), Some(1));
        insta::assert_snapshot!("refused", transcript.text());
    }
}

#[test]
fn without_a_terminal_the_screen_names_what_to_use() {
    let mut child = program().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let mut said = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut said).expect("read");
    assert_eq!(child.wait().expect("wait").code(), Some(2));
    insta::assert_snapshot!("without-a-terminal", said);
}

#[test]
fn the_doctor_examines_this_machine() {
    let output = run(program().args(["doctor", "--format", "json"]));
    let items: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let items = items.as_array().expect("list");
    assert!(items.len() >= 5);
    for item in items {
        let bad = item["state"] == "missing";
        assert!(!bad || item["remedy"] != "", "{item}");
    }
}

/// A closed pipe is an ordinary end.
#[test]
fn output_into_head() {
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "{} report {} --limit 3 | head -1",
            env!("CARGO_BIN_EXE_perfprof-tui"),
            common::data("fp-spin.data").display()
        ))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("sh");
    assert!(status.success());
}

/// Samples have the cgroups that perf reads from the same file, and a filter selects one of them.
#[test]
fn samples_tell_their_cgroups() {
    needs!(allowed(), installed("perf"));
    let Some(root) = perfprof_tui::kernel::cgroup::tree() else {
        return skipped("no cgroup hierarchy for perf events is mounted");
    };
    // A separate group with a unique name.
    let group = format!("perfprof-test-{}", std::process::id());
    let path = root.join(&group);
    if let Err(error) = std::fs::create_dir(&path) {
        return skipped(&format!("cannot create a cgroup: {error}"));
    }
    let dir = tempfile::tempdir().expect("dir");
    let work = format!("echo $$ > {}/cgroup.procs; {}", path.display(), busy());
    let file = record(dir.path(), &["-e", "cpu-clock", "--", "sh", "-c", &work]);
    std::fs::remove_dir(&path).expect("removed");
    let json: serde_json::Value = serde_json::from_slice(&report(&file, &["-s", "cgroup"])).expect("json");
    let rows = json["events"][0]["rows"].as_array().expect("rows").clone();
    let ours: std::collections::BTreeMap<String, u64> = rows
        .iter()
        .map(|row| (row["cgroup"].as_str().expect("cgroup").to_owned(), row["samples"].as_u64().expect("samples")))
        .collect();
    let perf = Command::new("perf")
        .args(["report", "--stdio", "--no-children", "-g", "none", "-n", "-s", "cgroup", "-t", "\t", "-i"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("perf");
    let text = String::from_utf8_lossy(&perf.stdout).into_owned();
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    let theirs: std::collections::BTreeMap<String, u64> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
            (fields[2].to_owned(), fields[1].parse().expect("samples"))
        })
        .collect();
    assert_eq!(ours, theirs, "{text}");
    let own = format!("/{group}");
    assert!(ours[&own] > 10, "{ours:?}");
    let kept = report(&file, &["-s", "cgroup", "--where", &format!("cgroup ~ \"*{group}\"")]);
    let kept: serde_json::Value = serde_json::from_slice(&kept).expect("json");
    assert_eq!(kept["events"][0]["samples"].as_u64(), Some(ours[&own]));
}

/// Counts are close to those of perf stat; the count of a known number of system calls is exact.
#[test]
fn counters_count_as_perf_stat_does() {
    needs!(allowed());
    let events = "page-faults,sched:sched_process_exec,sched:sched_process_fork";
    let load = "for i in 1 2 3 4 5 6 7; do /bin/true; done";
    let stat = |args: &[&str]| -> serde_json::Value {
        let out = run(program().args(["stat", "--format", "json"]).args(args));
        serde_json::from_slice(&out.stdout).expect("json")
    };
    let value = |json: &serde_json::Value, event: &str| -> f64 {
        let rows = json["counters"].as_array().expect("counters");
        let row = rows.iter().find(|row| row["event"] == event).unwrap_or_else(|| panic!("{event}: {json}"));
        row["value"].as_f64().unwrap_or_else(|| panic!("{event}: {json}"))
    };
    let ours = stat(&["-e", events, "--", "sh", "-c", load]);
    // The shell, and each command that it starts.
    assert_eq!((value(&ours, "sched:sched_process_fork"), value(&ours, "sched:sched_process_exec")), (7.0, 8.0));
    assert!(ours["seconds"].as_f64().expect("seconds") < 60.0);
    if installed("perf") {
        let perf =
            Command::new("perf").args(["stat", "-x", ",", "-e", events, "sh", "-c", load]).output().expect("perf");
        let text = String::from_utf8_lossy(&perf.stderr).into_owned();
        let theirs = |event: &str| -> f64 {
            let line = text.lines().find(|l| l.contains(event)).unwrap_or_else(|| panic!("{event}: {text}"));
            line.split(',').next().expect("value").parse().expect("number")
        };
        assert_eq!(value(&ours, "sched:sched_process_exec"), theirs("sched:sched_process_exec"));
        let (a, b) = (value(&ours, "page-faults"), theirs("page-faults"));
        assert!((a / b - 1.0).abs() < 0.25, "{a} and {b} page faults");
    }
    let repeated = stat(&["-r", "3", "-e", "{task-clock,page-faults}", "--", "sh", "-c", load]);
    assert_eq!(repeated["runs"], 3);
    assert!(repeated["counters"][1]["error"].as_f64().is_some(), "{repeated}");
    // The whole machine by CPU and interval; the clocks of all CPUs advance at the same rate.
    let out = run(program()
        .args(["stat", "-a", "-A", "-I", "500", "--interval-count", "2", "-e", "cpu-clock"])
        .args(["--format", "json"]));
    let lines: Vec<serde_json::Value> =
        String::from_utf8_lossy(&out.stdout).lines().map(|l| serde_json::from_str(l).expect("json")).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let seconds = line["seconds"].as_f64().expect("seconds");
        for row in line["counters"].as_array().expect("counters") {
            let counted = row["value"].as_f64().expect("value") / 1e3;
            assert!((counted / seconds - 1.0).abs() < 0.5, "{row} in {seconds} s");
        }
    }
    for (args, words) in [
        (&["stat", "-A", "--", "true"][..], "--per-cpu"),
        (&["stat", "-e", "page-fault", "--", "true"], "nearest"),
        (&["stat", "-p", "999999999"], "no such process"),
        (&["stat", "--", "/no/such/program"], "/no/such/program: No such file or directory"),
        (&["stat", "-I", "1", "-a"], "10 milliseconds"),
    ] {
        let out = program().args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains(words), "{args:?}: {said}");
    }
    let out = program().args(["stat", "-e", "page-faults", "--", "sh", "-c", "exit 7"]).output().expect("runs");
    assert_eq!(out.status.code(), Some(7), "the command's exit status");
}

/// The output has the fields of perf stat in the same places, for scripts that parse it.
#[test]
fn scripts_that_read_perf_stat_read_ours() {
    needs!(allowed(), installed("perf"));
    // Replaces numbers by their number of decimals.
    let shape = |text: &[u8]| -> Vec<String> {
        let field = |word: &str| match word.trim().trim_end_matches('%').parse::<f64>() {
            Ok(_) => format!("number.{}", word.trim().split_once('.').map_or(0, |(_, behind)| behind.len())),
            Err(_) => word.to_owned(),
        };
        let unit = |line: String| ["G/sec", "M/sec", "K/sec"].iter().fold(line, |l, u| l.replace(u, "/sec"));
        let line = |line: &str| unit(line.split(';').map(field).collect::<Vec<_>>().join(";"));
        let mut lines: Vec<String> =
            String::from_utf8_lossy(text).lines().filter(|line| line.contains(';')).map(line).collect();
        lines.sort();
        lines
    };
    let events = "task-clock,page-faults,branches";
    for args in [
        &["-e", events, "--", "true"][..],
        &["-r", "3", "-e", events, "--", "true"],
        &["-a", "-A", "-e", "cs,cpu-clock", "--", "sleep", "0.1"],
        &["-a", "--per-socket", "-e", "cs", "--", "sleep", "0.1"],
        &["-a", "-I", "200", "-e", "cs", "--", "sleep", "0.3"],
    ] {
        let ours = program().args(["stat", "-x", ";"]).args(args).output().expect("runs");
        let theirs = Command::new("perf").args(["stat", "-x", ";"]).args(args).output().expect("perf");
        assert!(ours.status.success() && ours.stdout.is_empty(), "{args:?}: {ours:?}");
        assert_eq!(shape(&ours.stderr), shape(&theirs.stderr), "{args:?}");
    }
    // An event that cannot be counted has a row; other events are counted. Standard output has nothing else.
    let out = program().args(["stat", "-e", "page-faults", "--timeout", "200", "sleep", "9"]).output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.stdout.is_empty() && said.contains("page-faults") && said.contains("s elapsed"), "{said}");
}

/// Group leader sampling: perf reads the same values from our recording, and they match the counts.
#[test]
fn the_first_of_a_group_samples_for_all() {
    needs!(allowed(), installed("python3"));
    let dir = tempfile::tempdir().expect("dir");
    let args = ["-F", "499", "-e", "{cpu-clock,page-faults}:S"];
    // PR_SET_THP_DISABLE: one fault maps 512 pages on machines with transparent huge pages for all.
    let small_pages = "import ctypes, os
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
os.execvp('dd', ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=256M', 'count=4'])";
    let file = record(dir.path(), &[&args[..], &["--", "python3", "-c", small_pages]].concat());
    let lines = |out: std::process::Output| -> Vec<String> {
        let text = String::from_utf8(out.stdout).expect("text");
        let mut lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort_unstable();
        lines
    };
    let fields = ["-F", "event,period", "-i"];
    let ours = lines(run(program().arg("script").args(fields).arg(&file)));
    let perfs = lines(run(Command::new("perf").arg("script").args(fields).arg(&file)));
    assert_eq!(ours, perfs);
    let of = |event: &str| -> Vec<u64> {
        let of_it = ours.iter().filter(|line| line.contains(event));
        of_it.filter_map(|line| line.split(' ').find_map(|word| word.parse().ok())).collect()
    };
    // 256 MB are 65,536 pages, touched once; Python touches some thousands.
    let (clock, faults) = (of("cpu-clock"), of("page-faults"));
    assert!(clock.len() >= 10 && !faults.is_empty(), "{ours:?}");
    assert!((60_000..90_000).contains(&faults.iter().sum::<u64>()), "{faults:?}");
}

/// The address of a function in a file, from nm.
fn offset(file: &str, function: &str) -> String {
    let symbols = run(Command::new("nm").args(["-D", "--defined-only", file])).stdout;
    let symbols = String::from_utf8(symbols).expect("text");
    let is_it = |line: &&str| line.split(" T ").nth(1).is_some_and(|name| name.split('@').next() == Some(function));
    let line = symbols.lines().find(is_it).expect("the function");
    format!("0x{}", line.split(' ').next().expect("an address"))
}

/// Creates, lists, counts and removes a probe from the command line.
#[test]
fn probes_are_made_listed_counted_and_removed() {
    needs!(allowed(), has(Nature::Uprobes));
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let libc = maps.lines().filter_map(|l| l.split_whitespace().nth(5)).find(|p| p.contains("/libc.so"));
    let (Some(libc), true) = (libc, Path::new("/sys/kernel/tracing/uprobe_events").exists()) else {
        return skipped("tracefs or libc is missing");
    };
    let probe = |args: &[&str]| program().arg("probe").args(args).output().expect("runs");
    let said = |out: &std::process::Output| {
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    };
    let funcs = said(&probe(&["-x", libc, "--funcs", "exit"]));
    assert!(funcs.lines().any(|l| l.starts_with("exit ") && l.contains("function")), "{funcs}");
    let funcs = said(&probe(&["--funcs", "schedule"]));
    assert!(funcs.lines().any(|l| l.starts_with("schedule ")), "no kernel functions without a file: {funcs}");
    // With a file, -l lists the static probes of the file, not the existing probes.
    let of_file = said(&probe(&["-x", env!("CARGO_BIN_EXE_perfprof-tui"), "-l"]));
    assert!(of_file.contains("no static probes; -F"), "{of_file}");
    // A separate group, so that probes of others stay.
    let group = format!("pptest_{}", std::process::id());
    let event = format!("{group}:leave");
    let dry = said(&probe(&["-x", libc, "-n", "--add", &format!("{group}:leave=exit"), "status=arg1:s32"]));
    assert!(dry.starts_with(&format!("p:{group}/leave ")) && dry.contains("status=%"), "{dry}");
    let made = probe(&["-x", libc, "--add", &format!("{group}:leave=exit"), "status=arg1:s32"]);
    assert!(made.status.success(), "{}", said(&made));
    let listed = said(&probe(&["--list"]));
    assert!(
        listed.contains(&event) && said(&program().args(["list", &event]).output().expect("runs")).contains("status")
    );
    let stat = |filter: &str| {
        let dir = tempfile::tempdir().expect("dir");
        let file = record(dir.path(), &["-e", &event, "--filter", filter, "--", "sh", "-c", "env false; true"]);
        let json: serde_json::Value = serde_json::from_slice(&report(&file, &[])).expect("json");
        json["events"][0]["samples"].as_u64().expect("samples")
    };
    // Programs of coreutils exit through this function. `env` executes `false`.
    assert_eq!((stat("status == 1"), stat("status == 77")), (1, 0));
    let gone = probe(&["--del", &format!("{group}:*")]);
    assert!(gone.status.success() && said(&gone).contains(&event));
    // Several probes of one event are deleted together. As in perf, a name without a group is that of any group.
    let either = format!("either_{}", std::process::id());
    for function in ["exit", "abort"] {
        let line = format!("p:{group}/{either} {libc}:{}", offset(libc, function));
        let file = std::fs::File::options().append(true).open("/sys/kernel/tracing/uprobe_events");
        file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes())).expect("made");
    }
    let gone = probe(&["--del", &either]);
    assert!(gone.status.success() && said(&gone).trim() == format!("{group}:{either}"), "{}", said(&gone));
    assert!(!said(&probe(&["--list"])).contains(&group));
    // perf's other forms of definitions: without -a, by line number, by line pattern, with a source file.
    let dir = tempfile::tempdir().expect("dir");
    let (code, built) = (dir.path().join("w.c"), dir.path().join("w-1.x").display().to_string());
    std::fs::write(
        &code,
        "int twice(int size)\n{\n\tint all = size * 2;\n\treturn all;\n}\nint main(void) { return twice(0); }\n",
    )
    .expect("written");
    run(Command::new("cc").args(["-g", "-O0", "-o", &built]).arg(&code));
    let line = said(&probe(&["-x", &built, "-n", "twice:2", "%di"]));
    assert!(line.starts_with("p:probe_w/twice_L2 ") && line.contains("%di"), "{line}");
    assert_eq!(said(&probe(&["-x", &built, "-D", "twice;intall*", "%di"])), line);
    assert_eq!(said(&probe(&["-nvx", &built, "twice@w.c:2 %di"])), line);
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    for wrong in ["twice;none*", "twice@other.c"] {
        transcript.add(program().args(["probe", "-x", &built, "-n", wrong]));
    }
    insta::assert_snapshot!("unknown-lines", transcript.text());
    let several = said(&probe(&["-x", &built, "-n", "-a", "p1=twice", "-a", "twice%return $retval"]));
    assert!(
        several.lines().count() == 2 && several.contains("p:probe_w/p1 ") && several.contains("r:probe_w/"),
        "{several}"
    );
    for (args, words) in [
        (&["--del", "pptest_nobody:*"][..], "no such probe"),
        (&["-L", "tcp_sendmsg"], "-x FILE -L"),
        (&["-x", "/no/such/file", "--add", "f"], "/no/such/file"),
        (&["-x", libc, "--add", "exi"], "has no function exi"),
        (&["--add", "f", "size"], "are unknown"),
        (&["--vars", "no_such_function"], "no_such_function"),
    ] {
        let out = probe(args);
        assert!(!out.status.success() && said(&out).contains(words), "{args:?}: {}", said(&out));
    }
}

/// A shell command that writes its process id to a file and then sleeps.
fn pid_in(file: &Path) -> String {
    let file = file.display();
    format!("echo $$ > {file}.part; mv {file}.part {file}; exec sleep 900")
}

/// Reads the process id from the file.
fn pid_told(file: &Path) -> String {
    until("the command starts", || file.exists());
    let pid = std::fs::read_to_string(file).expect("told").trim().to_owned();
    std::fs::remove_file(file).expect("removed");
    until("it sleeps", || sleeps(&pid));
    pid
}

fn sleeps(pid: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"))
}

/// A signal that ends `stat` or a recording also ends the command, and determines the exit status; the terminal sends
/// Ctrl-C to both.
#[test]
fn no_command_is_left_behind() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let told = dir.path().join("command");
    for (words, code) in [
        (&["stat", "-e", "task-clock"][..], 128 + 15),
        (&["record", "-e", "task-clock"], 128 + 15),
        (&["record", "-e", "task-clock", "--overwrite"], 128 + 15),
    ] {
        let mut starts = program();
        starts.args(words).args(["--", "sh", "-c", &pid_in(&told)]).current_dir(dir.path());
        let child = starts.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        let command = pid_told(&told);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
            .expect("signalled");
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(!sleeps(&command), "{words:?}: left behind");
    }
}

/// A missing command is reported once, and no recording remains.
#[test]
fn a_command_that_cannot_start_is_named() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let commands = [&["record", "-e", "cpu-clock"][..], &["stat", "-e", "task-clock"], &["syscalls", "--batch"]];
    for command in commands {
        let out =
            program().args(command).args(["--", "/no/such/program"]).current_dir(dir.path()).output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(
            (out.status.code(), said.matches("/no/such/program").count()),
            (Some(127), 1),
            "{command:?}: {said}"
        );
        let reason = said.lines().any(|line| line.starts_with("perfprof-tui: /no/such/program: No such file"));
        assert!(reason, "{command:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 0);
}

/// Options of perf record that change the contents or the number of files: perf reads each file and finds the same
/// samples.
#[test]
fn rarer_options_of_record_make_files_that_perf_reads() {
    needs!(allowed(), installed("perf"));
    let script = |file: &Path, fields: &str| {
        let out = Command::new("perf").args(["script", "-F", fields, "-i"]).arg(file).stdin(Stdio::null()).output();
        String::from_utf8_lossy(&out.expect("perf").stdout).into_owned()
    };
    // Rows of a shell without symbols have different names, so compare the sums.
    let sum = |rows: common::Rows| rows.into_values().sum::<u64>();
    let dir = tempfile::tempdir().expect("dir");
    let file = record(dir.path(), &["-z", "-e", "cpu-clock", "sh", "-c", &busy()]);
    let head = Command::new("perf").args(["report", "--header-only", "-i"]).arg(&file).output().expect("perf");
    let head = String::from_utf8_lossy(&head.stdout).into_owned();
    let compressed = head.lines().any(|line| line.trim_start_matches("# ").starts_with("compressed : Zstd, level = 1"));
    assert!(compressed, "{head}");
    assert_eq!(sum(perf_report(&file)), sum(our_rows(&report(&file, &[]))));
    let fields = ["--data", "-W", "--phys-data", "--switch-events", "--namespaces", "-e", "cpu-clock"];
    let file = record(dir.path(), &[&fields[..], &["sh", "-c", &busy()]].concat());
    assert_eq!(sum(perf_report(&file)), sum(our_rows(&report(&file, &[]))));
    assert!(script(&file, "comm,ip,addr,weight,phys_addr").lines().count() > 10);
    let out =
        run(program().args(["record", "-q", "--dry-run", "-o"]).arg(dir.path().join("none")).args(["--", "true"]));
    assert!(out.stdout.is_empty() && !dir.path().join("none").exists());

    // A later file of the series also names the program. On a busy machine, a file may have no sample.
    let comms = (0..5).map(|_| {
        let dir = tempfile::tempdir().expect("dir");
        let files = dir.path().join("many.data");
        let args = ["--switch-output=300ms", "--switch-max-files=2", "-F", "999", "-e", "cpu-clock"];
        let spin = [common::data("bin/spin").display().to_string(), "1100".to_owned()];
        run(program().args(["record", "-q", "-o"]).arg(&files).args(args).args(spin).stdout(Stdio::null()));
        let list = std::fs::read_dir(dir.path()).expect("a folder").flatten().map(|entry| entry.path());
        let is_of_series = |path: &std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("many.data.2"))
        };
        let list: Vec<_> = list.filter(is_of_series).collect();
        assert!(list.len() == 2 && !files.exists(), "{list:?}");
        list.iter().map(|file| script(file, "comm")).collect::<String>()
    });
    let comms = comms.into_iter().find(|comms| !comms.trim().is_empty()).expect("samples");
    assert!(comms.split_whitespace().all(|comm| comm == "spin"), "{comms}");
}
