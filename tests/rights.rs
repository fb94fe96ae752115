//! What each level of rights may measure, tried as an ordinary user: the rows of the README's table that can be made
//! here. Run by root, who takes the rights away; the level of the kernel is put back at the end.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{allowed, may_change_the_machine, skipped};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// The kernel's level as it was, put back when this is dropped.
struct Level(String);

impl Level {
    fn take() -> Option<Self> {
        let before = std::fs::read_to_string(PARANOID).ok()?;
        std::fs::write(PARANOID, before.trim()).ok()?;
        Some(Self(before))
    }

    fn set(&self, level: i32) {
        std::fs::write(PARANOID, level.to_string()).expect("set");
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let _ = std::fs::write(PARANOID, self.0.trim());
    }
}

/// The program as the user nobody with these capabilities.
fn as_nobody(program: &Path, home: &Path, caps: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    if !caps.is_empty() {
        let list: String = caps.split(',').map(|cap| format!(",+{cap}")).collect();
        command.args([format!("--inh-caps=-all{list}"), format!("--ambient-caps=-all{list}")]);
    }
    command.arg(program).env("HOME", home).env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many samples of a recording match.
fn count(program: &Path, file: &Path, filter: &str) -> u64 {
    let mut report = Command::new(program);
    let output = report.arg("report").arg(file).args(["--where", filter, "--format", "json"]).output().expect("ran");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["events"][0]["samples"].as_u64().expect("a count")
}

#[test]
fn each_level_sees_what_the_readme_says() {
    const NAME: &str = "each_level_sees_what_the_readme_says";
    if !allowed(NAME) || !rustix::process::geteuid().is_root() {
        return skipped(NAME, "only root can take rights away");
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skipped(NAME, "there is no setpriv (util-linux)");
    }
    if !may_change_the_machine(NAME) {
        return;
    }
    let Some(level) = Level::take() else { return skipped(NAME, "kernel.perf_event_paranoid cannot be set") };
    let dir = tempfile::tempdir().expect("dir");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("opened");
    let program = dir.path().join("perfprof-tui");
    std::fs::copy(env!("CARGO_BIN_EXE_perfprof-tui"), &program).expect("copied");
    // (capabilities, level): the whole machine, the kernel's part of one's own commands.
    let rows = [("", 0, true, true), ("", 1, false, true), ("", 2, false, false), ("perfmon", 2, true, true)];
    for (caps, paranoid, machine, kernel) in rows {
        level.set(paranoid);
        let row = format!("capabilities {caps:?}, level {paranoid}");
        let file = dir.path().join(format!("own-{paranoid}-{}.data", caps.len()));
        let mut own = as_nobody(&program, dir.path(), caps);
        own.args(["record", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&file);
        let output =
            own.args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"]).output().expect("ran");
        assert!(output.status.success(), "{row}: {}", text(&output));
        assert!(count(&program, &file, "user") > 0, "{row}: nobody sees its own commands");
        let seen = count(&program, &file, "kernel");
        assert_eq!(seen > 0, kernel, "{row}: {seen} samples of the kernel\n{}", text(&output));
        if !kernel {
            assert!(text(&output).contains("kernel"), "{row}: that is said: {}", text(&output));
        }
        let mut wide = as_nobody(&program, dir.path(), caps);
        wide.args(["record", "-a", "-e", "cpu-clock", "-F", "99", "-o"]).arg(dir.path().join("all.data"));
        let output = wide.args(["--", "sleep", "0.2"]).output().expect("ran");
        assert_eq!(output.status.success(), machine, "{row}: {}", text(&output));
        if !machine {
            let said = text(&output);
            assert!(said.contains("perf_event_paranoid") && said.contains("cap_perfmon"), "{row}: {said}");
        }
        let _ = std::fs::remove_file(dir.path().join("all.data"));
    }
    // Tracepoints need their formats, which tracefs shows to root alone unless it is mounted otherwise.
    let tracefs = std::fs::metadata("/sys/kernel/tracing");
    let hidden = tracefs.is_ok_and(|meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o005 == 0);
    if !hidden {
        return skipped(NAME, "tracefs is not mounted, or open to all: its row is not tried");
    }
    let mut traced = as_nobody(&program, dir.path(), "perfmon");
    let output = traced.args(["stat", "-e", "sched:sched_switch", "--", "true"]).output().expect("ran");
    assert!(!output.status.success() && text(&output).contains("trac"), "{}", text(&output));
}

#[test]
fn rings_shrink_to_a_cpus_share_where_no_memory_may_be_locked() {
    const NAME: &str = "rings_shrink_to_a_cpus_share_where_no_memory_may_be_locked";
    if !allowed(NAME) || !rustix::process::geteuid().is_root() {
        return skipped(NAME, "only root can take rights away");
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skipped(NAME, "there is no setpriv (util-linux)");
    }
    let dir = tempfile::tempdir().expect("dir");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("opened");
    let program = dir.path().join("perfprof-tui");
    std::fs::copy(env!("CARGO_BIN_EXE_perfprof-tui"), &program).expect("copied");
    let paranoid = std::fs::read_to_string(PARANOID).expect("readable");
    if !matches!(paranoid.trim(), "0" | "1" | "2") {
        return skipped(NAME, "kernel.perf_event_paranoid is -1 or of a patched kernel: nothing limits locked memory");
    }
    for pages in [&["-m", "512"][..], &["-m", "4096"], &[]] {
        let mut record = as_nobody(&program, dir.path(), "perfmon");
        let file = dir.path().join("x.data");
        record.args(["record", "-a", "-e", "cpu-clock", "-F", "9999"]).args(pages).arg("-o").arg(&file);
        record.args(["--", "sleep", "0.2"]);
        let words: Vec<&std::ffi::OsStr> = std::iter::once(record.get_program()).chain(record.get_args()).collect();
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -l 0; exec \"$@\"", "sh"]).args(words);
        limited.env("HOME", dir.path()).env("XDG_CONFIG_HOME", "/nonexistent");
        let output = limited.output().expect("ran");
        let said = text(&output);
        assert!(output.status.success() && said.contains("KiB a CPU only"), "{pages:?}: {said}");
        assert!(count(&program, &file, "true") > 0);
    }
}
