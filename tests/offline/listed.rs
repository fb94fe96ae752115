//! `evlist`, `buildid-list` and `inject` compared with perf's; both programs read the output.

use std::path::Path;
use std::process::Command;

use crate::common::transcript::Transcript;
use crate::common::{data, installed, program, run, symfs};

fn stdout(command: &mut Command) -> String {
    String::from_utf8_lossy(&run(command).stdout).into_owned()
}

fn corpus(name: &str) -> String {
    data(&format!("corpus/{name}.data")).display().to_string()
}

#[test]
fn lists_are_perfs() {
    const LINES: &[(&str, &str)] = &[
        ("tp-raw", "evlist"),
        ("tp-raw", "evlist -v"),
        ("tp-raw", "evlist --trace-fields"),
        ("tp-raw", "evlist -F --trace-fields"),
        ("group3", "evlist -g"),
        ("group3", "evlist -F"),
        ("group-read", "evlist -v"),
        ("clock-mono", "evlist -v"),
        ("dwarf-spin", "evlist -v"),
        ("pipe", "evlist"),
        ("fields-cpu", "buildid-list"),
        ("fields-cpu", "buildid-list -H"),
        ("fp-cxx", "buildid-list"),
        ("tp-raw", "buildid-list -H"),
    ];
    needs!(installed("perf"));
    for (name, line) in LINES {
        let words: Vec<&str> = line.split(' ').chain(["-i"]).collect();
        let file = corpus(name);
        let ours = stdout(program().args(&words).arg(&file)).replace("perfprof-tui evlist", "perf evlist");
        let theirs = stdout(Command::new("perf").args(&words).arg(&file).arg("-f"));
        assert_eq!(ours, theirs, "{name} {line}");
        assert!(!ours.is_empty(), "{name} {line}");
        // With and without -i.
        let bare = stdout(program().args(line.split(' ')).arg(&file));
        assert_eq!(bare.replace("perfprof-tui evlist", "perf evlist"), ours, "{name} {line}");
    }
}

#[test]
fn events_and_build_ids_of_what_is_no_plain_recording() {
    let text = stdout(program().args(["evlist", &data("corpus/fields-cpu.script.txt").display().to_string()]));
    assert_eq!(text, "cpu-clock:ppp\n");
    let program_file = data("names/flat4-buildid");
    let id = stdout(program().arg("buildid-list").arg(&program_file));
    assert_eq!(id, "b1dfab1e00112233445566778899aabbccddeeff\n");
    let both = program().args(["evlist", "-g", "-v"]).output().expect("runs");
    assert_eq!(both.status.code(), Some(2));
}

/// The default file is perf.data in the working directory.
#[test]
fn perf_data_is_the_file_where_none_is_named() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::copy(corpus("flat-99"), dir.path().join("perf.data")).expect("copy");
    let lines = [
        "evlist",
        "buildid-list",
        "report",
        "report --header-only",
        "script",
        "script -D",
        "annotate --stdio",
        "export --to folded -o -",
        "inject -o out.data",
        "report -D",
    ];
    let root = symfs();
    for line in lines {
        let mut command = program();
        command.current_dir(dir.path()).args(line.split(' '));
        if !["evlist", "buildid-list"].contains(&line) {
            command.arg("--symfs").arg(root.path());
        }
        let bare = run(&mut command);
        let named = run(command.args(["-i", "perf.data"]));
        assert_eq!(bare.stdout, named.stdout, "{line}");
        assert!(!bare.stdout.is_empty() || line.starts_with("inject"), "{line}");
    }
    assert!(dir.path().join("out.data").is_file());
}

/// Sleep times by comm and leaf.
fn sleeps(file: &Path) -> Vec<(String, u64)> {
    let text = stdout(program().args(["script", "-F", "comm,tid,period,event", "-i"]).arg(file));
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let (comm, _tid, period) = (words.next()?.to_owned(), words.next()?, words.next()?.parse().ok()?);
        line.split_whitespace().any(|word| word.starts_with("sched:sched_switch")).then_some((comm, period))
    };
    text.lines().filter_map(of_line).collect()
}

/// Without scheduler statistics, a sleep lasts until its task runs again.
#[test]
fn sleeps_are_merged_into_the_switches_that_began_them() {
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("out.data");
    let file = data("units/sched.data");
    let said = run(program().args(["inject", "-s", "-i"]).arg(&file).arg("-o").arg(&out)).stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    let merged = sleeps(&out);
    assert!(merged.len() > 20 && said.contains(&format!("{} sleeps", merged.len())), "{said}");
    // Each sleep equals an off-CPU period of the same task.
    let absences =
        stdout(program().args(["script", "--event", "off-cpu", "-F", "comm,tid,period,event", "-i"]).arg(&file));
    let absences: Vec<&str> = absences.lines().collect();
    for (comm, period) in &merged {
        let is_it = |line: &&&str| line.split_whitespace().any(|word| *word == period.to_string());
        let found = absences.iter().find(is_it).unwrap_or_else(|| panic!("no off-CPU period {comm} {period}"));
        assert!(found.contains(comm.as_str()), "{found}: {comm}");
    }
    if installed("perf") {
        let text = stdout(Command::new("perf").args(["script", "-f", "-F", "comm,tid,period,event", "-i"]).arg(&out));
        assert_eq!(text.matches("sched_switch").count(), merged.len());
    }
}

/// Scheduler statistics contain the length of each sleep.
///
/// Here renamed wakeup events replace them: the names have equal lengths, and the wakeups have the required fields.
#[test]
fn sleeps_are_as_long_as_statistics_say() {
    needs!(installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    let path = |name: &str| dir.path().join(name);
    let mut bytes = std::fs::read(data("units/sched.data")).expect("read");
    let (old, new) = (b"sched_wakeup", b"sched_stat_a");
    for at in 0..bytes.len() - old.len() {
        if bytes[at..].starts_with(old) {
            bytes[at..at + new.len()].copy_from_slice(new);
        }
    }
    std::fs::write(path("in"), bytes).expect("written");
    run(Command::new("perf").args(["inject", "-f", "-s", "-i"]).arg(path("in")).arg("-o").arg(path("perf")));
    run(program().args(["inject", "-s", "-i"]).arg(path("in")).arg("-o").arg(path("ours")));
    let text = |name: &str| {
        let mut perf = Command::new("perf");
        perf.args(["script", "-f", "-F", "comm,tid,cpu,time,period,event", "-i"]).arg(path(name));
        stdout(&mut perf)
    };
    assert_eq!(text("ours"), text("perf"));
    assert!(text("ours").matches("sched_switch").count() > 20, "{}", text("ours"));
}

#[test]
fn what_cannot_be_injected_is_said() {
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("out.data");
    let file = corpus("flat-99");
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    for (args, code) in [(&["-s"][..], 0), (&["--jit"], 2), (&["-v", "-f"], 0)] {
        let output = transcript.add(program().arg("inject").args(args).args(["-i", &file, "-o"]).arg(&out));
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
    insta::assert_snapshot!("inject", transcript.text());
    let report = |path: &Path| stdout(program().args(["report", "--format", "csv", "-i"]).arg(path));
    assert_eq!(report(&out), report(Path::new(&file)), "the copy has another report");
}

/// `record -o - | inject -b -i - -o - | report -i -`, as with perf.
#[test]
fn inject_is_part_of_a_pipe() {
    let (dir, root) = (tempfile::tempdir().expect("dir"), symfs());
    let (file, streamed) = (corpus("no-buildid"), dir.path().join("stream"));
    let mut command = program();
    command.args(["inject", "-b", "-i", "-", "-o", "-", "--symfs"]).arg(root.path());
    let output = run(command.stdin(std::fs::File::open(&file).expect("opens")));
    std::fs::write(&streamed, output.stdout).expect("written");
    let of = |words: &[&str], input: &Path| {
        stdout(program().args(words).args(["-i", "-"]).stdin(std::fs::File::open(input).expect("opens")))
    };
    let report = ["report", "--format", "csv"];
    assert_eq!(of(&report, &streamed), of(&report, Path::new(&file)));
    let own = stdout(program().arg("buildid-list").arg(data("bin/spin")));
    assert!(of(&["buildid-list"], &streamed).contains(own.trim()));
}

/// The copy has the build IDs of files with samples, and is otherwise equal.
#[test]
fn build_ids_are_added() {
    let (dir, root) = (tempfile::tempdir().expect("dir"), symfs());
    let (file, out) = (corpus("no-buildid"), dir.path().join("with.data"));
    let mut transcript = Transcript::new().with(root.path(), "ROOT").with(dir.path(), "DIR");
    transcript.add(program().args(["inject", "-b", "-i", &file, "--symfs"]).arg(root.path()).arg("-o").arg(&out));
    insta::assert_snapshot!("inject-build-ids", transcript.text());
    let own = stdout(program().arg("buildid-list").arg(data("bin/spin")));
    let line = format!("{} /tmp/research/perf-tui/w/a/spin", own.trim());
    let listed = |mut command: Command, of: &Path| stdout(command.args(["buildid-list", "-i"]).arg(of));
    let has = |text: &str| text.lines().any(|one| one == line);
    assert!(own.len() > 16 && has(&listed(program(), &out)) && !has(&listed(program(), Path::new(&file))), "{line}");
    if installed("perf") {
        assert!(has(&listed(Command::new("perf"), &out)));
    }
    let report = |path: &Path| stdout(program().args(["report", "--format", "csv", "-i"]).arg(path));
    assert_eq!(report(&out), report(Path::new(&file)));
}

/// `diff` with perf's computation options, and its default files.
#[test]
fn differences_are_computed_and_ordered_as_asked() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::copy(corpus("flat-999"), dir.path().join("perf.data.old")).expect("copy");
    std::fs::copy(corpus("flat-99"), dir.path().join("perf.data")).expect("copy");
    let root = symfs();
    let rows = |args: &[&str]| {
        let mut command = program();
        command.current_dir(dir.path()).args(["diff", "--symfs"]).arg(root.path()).args(args);
        if !args.contains(&"--format") {
            command.args(["--format", "csv"]);
        }
        stdout(&mut command)
    };
    let plain = rows(&[]);
    assert_eq!(plain, rows(&["perf.data.old", "perf.data"]));
    let column = |text: &str, at: usize| {
        text.lines().skip(1).map(|line| line.split(',').nth(at).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let by_delta = rows(&["-c", "delta"]);
    let shares = |at: usize| column(&by_delta, at).into_iter().map(|text| text.parse::<f64>().expect("a share"));
    let deltas: Vec<f64> = shares(3).zip(shares(2)).map(|(new, old)| new - old).collect();
    assert!(deltas.len() > 3 && deltas.is_sorted_by(|a, b| a >= b), "{deltas:?}");
    // Differences of shares are percentage points, like on the screen.
    assert!(column(&by_delta, 0).iter().all(|delta| delta.ends_with(" pp")), "{by_delta}");
    let ratios = rows(&["--compute", "ratio"]);
    assert!(ratios.starts_with("ratio,"), "{ratios}");
    let known: Vec<f64> = column(&ratios, 0).iter().filter_map(|text| text.parse().ok()).collect();
    assert!(!known.is_empty() && known.is_sorted_by(|a, b| a >= b), "{known:?}");
    assert!(
        column(&rows(&["-o", "0"]), 2)
            .iter()
            .map(|text| text.parse().expect("a share"))
            .is_sorted_by(|a: &f64, b| a >= b)
    );
    // From perf diff -F and -c wdiff:1,2 -F of the same files.
    let formula = |args: &[&str]| column(&rows(&[&["-F"], args].concat()), 6);
    assert!(formula(&[]).contains(&"(737373730 * 100 / 1222222210) - (0 * 100 / 243243243)".to_owned()));
    assert!(formula(&["-c", "ratio"]).contains(&"737373730 / 0".to_owned()));
    assert!(formula(&["-c", "wdiff:1,2"]).contains(&"(737373730 * 2) - (0 * 1)".to_owned()));
    let plain_rows = rows(&["--format", "text", "-t", "|"]);
    assert!(plain_rows.lines().any(|line| line.ends_with("|spin|burn_alpha")), "{plain_rows}");
    assert!(column(&rows(&["-b"]), 4).iter().all(|samples| samples != "0"));
    assert!(rows(&["-p"]).starts_with("delta,verdict,old,new,old_samples,new_samples,old_period,new_period,"));
    let of_spin = rows(&["-C", "spin"]);
    let has = |text: &str, comm: &str| text.lines().any(|line| line.split(',').any(|cell| cell == comm));
    assert_eq!(
        (has(&plain, "sysmix"), has(&of_spin, "sysmix"), has(&of_spin, "spin")),
        (true, false, true),
        "{of_spin}"
    );
    let function = |args: &[&str]| {
        let mut command = program();
        command.current_dir(dir.path()).arg("annotate").args(args).arg("--symfs").arg(root.path());
        stdout(&mut command)
    };
    assert_eq!(function(&["burn_alpha"]), function(&["-i", "perf.data", "-s", "burn_alpha"]));
}
