//! Containers by the names that people know: pods of a real containerd, on the live screen and in recordings.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::pods::{Does, Pods};
use crate::common::session::Session;
use crate::common::{absent, allowed, program, run, skipped};

/// Three pods with two containers each, one of which burns.
fn shop(test: &str) -> Option<Pods> {
    if !allowed(test) {
        return None;
    }
    let start = || {
        let mut pods = Pods::start()?;
        for pod in ["cart-7d9", "till-5c2", "stock-1f0"] {
            pods.run(pod, "app", if pod == "cart-7d9" { Does::Burn } else { Does::Sleep })?;
            pods.run(pod, "proxy", Does::Sleep)?;
        }
        Ok(pods)
    };
    start().map_err(|why: String| skipped(test, &why)).ok()
}

/// Who burns is found by name at once, also what starts later; one that has ended keeps its name.
#[test]
fn who_burns_is_found_by_name() {
    let Some(mut pods) = shop("who_burns_is_found_by_name") else { return };
    let mut session = Session::start(&["-F", "499", "-s", "namespace,pod,container"], 30, 140);
    session.wait_for("cart-7d9");
    let first = session.text();
    let line = first.lines().find(|line| line.contains("cart-7d9")).expect("the pod");
    assert!(line.contains("shop") && line.contains("app"), "{first}");
    pods.run("late-000", "worker", Does::Burn).expect("runs");
    session.wait_for("late-000");
    pods.end("cart-7d9", "app");
    session.wait_for("worker").wait_for("cart-7d9");
    session.keys(":filter pod == late-000 && container == worker\r");
    session.wait_for("late-000");
    session.keys("q");
    assert!(session.end().success());
}

/// Work in a group of its own; both end with it.
struct Burns(Child, PathBuf);

impl Drop for Burns {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.1.join("cgroup.procs")).unwrap_or_default();
        let _ = Command::new("kill").arg("-KILL").args(inside.split_whitespace()).status();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir(&self.1);
    }
}

/// Where groups are spread over trees of version 1, a process is found in one that is not that of perf events.
#[test]
fn a_group_of_another_tree_is_told() {
    const NAME: &str = "a_group_of_another_tree_is_told";
    if !allowed(NAME) {
        return;
    }
    let trees = perfprof_tui::kernel::cgroup::trees();
    let Some(other) = trees.iter().skip(1).find(|tree| tree.ends_with("cpu") || tree.ends_with("pids")) else {
        return absent(NAME, "all groups are in one tree here");
    };
    let (group, dir) = (format!("perfprof-group-{}", std::process::id()), tempfile::tempdir().expect("dir"));
    let path = other.join(&group);
    std::fs::create_dir(&path).expect("made");
    let moved = format!("echo $$ > {}/cgroup.procs; exec timeout 120 sh -c 'while :; do :; done'", path.display());
    let burns = Burns(Command::new("sh").args(["-c", &moved]).stdout(Stdio::null()).spawn().expect("sh"), path);
    let mut session = Session::start_in(&["-F", "499", "-s", "cgroup,container"], 24, 120, &[]);
    session.wait_for(&format!("/{group}")).wait_for(&format!(" {group}"));
    // A snapshot keeps it, and perf reads it.
    let file = dir.path().join("saved.data");
    session.keys(&format!(":save {}\r", file.display())).wait_for("kB to");
    session.keys("q");
    assert!(session.end().success());
    drop(burns);
    let report = |sort: &str| {
        let out = run(program().arg("report").arg(&file).args(["-s", sort, "--format", "json"])).stdout;
        String::from_utf8(out).expect("text")
    };
    assert!(report("cgroup").contains(&format!("\"/{group}\"")), "{}", report("cgroup"));
    assert!(report("container").contains(&format!("\"{group}\"")), "{}", report("container"));
}
