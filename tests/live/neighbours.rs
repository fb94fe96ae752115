//! Others on the machine, who work beside us as they did before we came.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::session::Session;
use crate::common::{allowed, program, run, skipped};

/// Processes that begin, map and end while they are recorded.
const LOAD: &str = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done";

/// What somebody's `perf record` of a command or of the machine says when it fails, or `perf report` of that; `None`
/// when all is well.
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
    const NAME: &str = "a_perf_record_beside_us_works_as_without_us";
    if !allowed(NAME) {
        return;
    }
    if Command::new("perf").arg("version").output().is_err() {
        return skipped(NAME, "perf is not installed");
    }
    let dir = tempfile::tempdir().expect("dir");
    let five = || -> Vec<String> {
        let both = (0..5).flat_map(|_| [&[][..], &["-a"]]);
        both.filter_map(|args| fault_of_perf(dir.path(), args)).collect()
    };
    assert_eq!(five(), Vec::<String>::new(), "without us");
    let mut session = Session::start(&["-e", "cpu-clock", "-a"], 24, 100);
    session.wait_for("● live");
    assert_eq!(five(), Vec::<String>::new(), "beside us");
    session.keys("q");
    assert!(session.end().success());
}

/// Files keep their build ids in a recording, also those that are gone when it ends.
#[test]
fn a_recording_has_the_build_ids_of_what_ran() {
    const NAME: &str = "a_recording_has_the_build_ids_of_what_ran";
    if !allowed(NAME) {
        return;
    }
    if Command::new("perf").arg("version").output().is_err() {
        return skipped(NAME, "perf is not installed");
    }
    let dir = tempfile::tempdir().expect("dir");
    let (copy, file) = (dir.path().join("short-lived"), dir.path().join("ours.data"));
    std::fs::copy("/bin/sleep", &copy).expect("copied");
    let work = format!("{0} 0.5; rm {0}", copy.display());
    run(program().args(["record", "-q", "-a", "-o"]).arg(&file).args(["--", "sh", "-c", &work]));
    let listed = |args: &[&str]| {
        let output = Command::new("perf").arg("buildid-list").args(args).output().expect("perf");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ids = listed(&["-i", &file.to_string_lossy()]);
    // The copy has the build id of what it is a copy of.
    let own = ids.lines().find_map(|line| line.strip_suffix(&format!(" {}", copy.display())));
    let own = own.unwrap_or_else(|| panic!("not listed: {ids}"));
    assert_eq!(own.len(), 40, "{own}");
    assert!(ids.lines().any(|line| line.ends_with("[kernel.kallsyms]")), "{ids}");
    let notes = Command::new("readelf").args(["-n", "/bin/sleep"]).output();
    if let Ok(notes) = notes {
        assert!(String::from_utf8_lossy(&notes.stdout).contains(own), "{own}");
    }
}
