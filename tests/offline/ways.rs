//! Entry points at the command line: commands as a user of perf types or mistypes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn run(args: &[&str], dir: &Path) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_perfprof-tui")).args(args).current_dir(dir).output().expect("runs");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn a_mistyped_command_names_the_nearest() {
    let dir = tempfile::tempdir().expect("dir");
    for (typed, meant) in [("opne", "open"), ("reprot", "report"), ("rundely", "rundelay")] {
        let (code, said) = run(&[typed], dir.path());
        assert!(code == Some(2) && said.contains(&format!("nearest: {meant}")), "{typed}: {code:?} {said}");
    }
}

/// Without a file, commands open the most recent perf.data, like `perf report`.
#[test]
fn a_recording_that_is_not_named_is_perf_data() {
    let dir = tempfile::tempdir().expect("dir");
    assert_eq!(run(&["report"], dir.path()).0, Some(1));
    std::fs::copy(data("ipvs-cpu32.data"), dir.path().join("perf.data")).expect("copied");
    let (code, said) = run(&["report", "--limit", "3"], dir.path());
    assert_eq!(code, Some(0), "{said}");
    let (code, named) = run(&["report", "--limit", "3", "perf.data"], dir.path());
    assert_eq!((code, named), (Some(0), said));
}

/// Without a terminal no screen is shown, but the message shows that the intent was understood.
#[test]
fn a_recording_alone_is_opened_and_options_may_come_first() {
    let dir = tempfile::tempdir().expect("dir");
    let file = data("ipvs-cpu32.data");
    let file = file.to_str().expect("utf-8");
    let mut messages = std::collections::BTreeSet::new();
    for args in [&[file][..], &["--theme", "nord", file], &["--theme", "nord", "demo"], &["-C", "32", "open", file]] {
        let (code, said) = run(args, dir.path());
        assert_eq!(code, Some(2), "{args:?}: {said}");
        messages.insert(said);
    }
    // All of them have the same problem; options of a measurement have another one.
    messages.insert(run(&["-F", "99", "demo"], dir.path()).1);
    let messages: Vec<String> = messages.into_iter().collect();
    insta::assert_snapshot!("without-a-terminal", messages.join("\n"));
}

#[test]
fn a_command_that_is_not_there_ends_as_in_a_shell() {
    let dir = tempfile::tempdir().expect("dir");
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "no program").expect("written");
    for (name, code, words) in [
        ("nosuchcommand", 127, "nosuchcommand: command not found"),
        ("./nosuch", 127, "./nosuch: No such file or directory"),
        (plain.to_str().expect("utf-8"), 126, "Permission denied"),
    ] {
        for how in [&["record", "-e", "cpu-clock", "-o", "x.data", "--"][..], &["stat", "-e", "cpu-clock", "--"]] {
            let args: Vec<&str> = how.iter().copied().chain([name]).collect();
            let (got, said) = run(&args, dir.path());
            assert!(got == Some(code) && said.contains(words), "{args:?}: {got:?} {said}");
        }
    }
}
