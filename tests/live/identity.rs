//! Identity of processes and files: processes whose main thread has ended, programs deleted while they run, plugins
//! that share an address in turn.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::process::{Gates, Running, ran, state, until};
use crate::common::{allowed, data, our_rows, program, run};

/// Records a process until it has run long enough, into a file.
fn recorded(pid: u32, dir: &Path, options: &[&str]) -> PathBuf {
    let barriers = tempfile::tempdir().expect("dir");
    let (file, gates) = (dir.join("p.data"), Gates(barriers.path()));
    let mut record = program();
    record.args(["record", "-e", "cpu-clock:u", "-p", &pid.to_string()]).args(options);
    record.arg("-o").arg(&file).args(["--", "sh", "-c"]);
    record.arg(format!("{}; {}", gates.here("begun"), gates.wait("enough"))).stderr(Stdio::null());
    let mut record = Running(record.spawn().expect("starts"));
    gates.until("begun");
    let begun = ran(pid);
    until("the process runs", || ran(pid) > begun + Duration::from_millis(60));
    gates.open("enough");
    assert!(record.0.wait().expect("ends").success());
    file
}

/// The functions of a recording with their samples.
fn functions(file: &Path) -> Vec<(String, u64)> {
    let output = run(program().args(["report", "--format", "json"]).arg(file));
    our_rows(&output.stdout).into_iter().map(|((.., name), count)| (name, count)).collect()
}

fn samples_of(rows: &[(String, u64)], name: &str) -> u64 {
    rows.iter().filter(|(function, _)| function == name).map(|(_, count)| count).sum()
}

/// A process without its main thread is read through a live thread, and a deleted program through its process.
#[test]
fn a_deleted_program_without_its_first_thread_is_named() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("leaderless");
    crate::common::copy_program(data("bin/leaderless"), &path);
    let child = Running(Command::new(&path).spawn().expect("starts"));
    until("the first thread has ended", || state(child.pid()) == Some('Z'));
    std::fs::remove_file(&path).expect("removed");
    let has_its_name = |rows: &[(String, u64)]| {
        let all: u64 = rows.iter().map(|(_, count)| count).sum();
        assert!(samples_of(rows, "work") * 10 > all * 9 && all > 0, "{rows:?}");
    };
    has_its_name(&functions(&recorded(child.pid(), dir.path(), &[])));
    // With --names the recording has the names after the process has ended, too.
    let kept = recorded(child.pid(), dir.path(), &["--names"]);
    drop(child);
    has_its_name(&functions(&kept));
}

/// Each plugin's function is in the file that was mapped at the time of the sample.
#[test]
fn plugins_that_take_turns_have_their_own_names() {
    const COMMON: [&str; 7] = [
        "plug_run",
        "_init",
        "_fini",
        "frame_dummy",
        "register_tm_clones",
        "deregister_tm_clones",
        "__do_global_dtors_aux",
    ];
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("p.data");
    let mut record = program();
    record.args(["record", "-e", "cpu-clock", "-F", "1999", "-o"]).arg(&file).arg("--").arg(data("bin/dlchurn"));
    run(record.arg("400"));
    let output = run(program().args(["report", "--format", "json"]).arg(&file));
    let mut plugins = 0;
    for ((_, dso, name), count) in our_rows(&output.stdout) {
        let Some(colour) = dso.strip_prefix("libplug_").and_then(|rest| rest.strip_suffix(".so")) else { continue };
        // Each plugin has a function named after its colour, and those that dlopen and dlclose call.
        let is_own = COMMON.contains(&&*name) || name.strip_suffix("_kernel") == Some(colour);
        assert!(
            is_own || name.split('@').nth(1).is_some_and(|kind| kind.starts_with("plt")),
            "{count} samples of {name} in {dso}"
        );
        plugins += count;
    }
    assert!(plugins > 0);
}
