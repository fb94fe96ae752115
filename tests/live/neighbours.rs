//! Others on the machine, who work beside us as they did before we came.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::session::{PATIENCE, Session};
use crate::common::{allowed, installed, program, run};

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
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    let faults = || -> Vec<String> {
        let both = [&[][..], &["-a"]];
        both.into_iter().filter_map(|args| fault_of_perf(dir.path(), args)).collect()
    };
    assert_eq!(faults(), Vec::<String>::new(), "without us");
    let mut session = Session::start(&["-e", "cpu-clock", "-a"], 24, 100);
    session.wait_for("● live");
    // Each mapping of each program is one that it could stumble over.
    assert_eq!(faults(), Vec::<String>::new(), "beside us");
    session.keys("q");
    assert!(session.end().success());
}

/// The kernel takes samples of one fault from what it prepared for whoever counts it first, with that one's id.
#[test]
fn page_faults_are_counted_beside_others_who_count_them() {
    needs!(allowed(), installed("perf"));
    let dir = tempfile::tempdir().expect("dir");
    /// Nobody else's name.
    const OWN: &str = "pp-faults";
    let (ours, theirs) = (dir.path().join("ours.data"), dir.path().join("theirs.data"));
    let record = |file: &Path, command: &str| {
        let mut command_line = program();
        command_line.args(["record", "-q", "-a", "-c", "1", "-e", "page-faults,cs", "-o"]).arg(file);
        command_line.args(["--", "sh", "-c", command]).stdin(Stdio::null()).spawn().expect("starts")
    };
    // Samples of page faults as perf reads them, which fails at an id that is of no event.
    let faults = || {
        let read = run(Command::new("perf").args(["script", "-F", "comm,event", "-i"]).arg(&ours));
        let text = String::from_utf8_lossy(&read.stdout);
        text.lines().filter(|line| line.contains(OWN) && line.contains("page-faults")).count()
    };
    let own = dir.path().join(OWN);
    std::fs::copy("/bin/true", &own).expect("copied");
    let each = format!("i=0; while [ $i -lt 20 ]; do {}; i=$((i+1)); done", own.display());
    assert!(record(&ours, &each).wait().expect("ends").success());
    let alone = faults();
    assert!(alone > 20 * 20, "{alone} of 20 commands");
    // A command runs once it is measured: says so, and waits to be told to go on.
    let at = |name: &str| dir.path().join(name);
    let waits = |says: &str, until: &str| {
        let [says, until] = [says, until].map(|name| at(name).display().to_string());
        format!("touch {says}; i=0; while [ ! -e {until} ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done")
    };
    let wait_for = |name: &str| {
        let begun = Instant::now();
        while !at(name).exists() {
            assert!(begun.elapsed() < PATIENCE, "never {name}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // Who counts last is asked first.
    let mut mine = record(&ours, &format!("{}; {each}; touch {}", waits("mine", "go"), at("over").display()));
    wait_for("mine");
    let mut other = record(&theirs, &waits("theirs", "over"));
    wait_for("theirs");
    std::fs::write(at("go"), "").expect("written");
    assert!(mine.wait().expect("ends").success() && other.wait().expect("ends").success());
    let beside = faults();
    assert!(beside * 10 > alone * 9 && beside * 9 < alone * 10, "{beside} for {alone} without them");
}

/// Files keep their build ids in a recording, also those that are gone when it ends.
#[test]
fn a_recording_has_the_build_ids_of_what_ran() {
    needs!(allowed(), installed("perf"));
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
