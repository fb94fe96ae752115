//! Tests of what each level of privileges may measure, tried as an ordinary user: the rows of the README's table that a test
//! can reproduce. The tests run as root, drop their privileges, and restore the kernel's perf_event_paranoid at the
//! end.

use std::path::Path;
use std::process::{Command, Output};

use crate::alone;
use crate::common::process::{cannot_unshare, uses_cpu, with_time};
use crate::common::{allowed, installed, is_root, may_change_the_machine, skipped};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// The previous perf_event_paranoid, restored on drop.
struct Level {
    before: String,
}

impl Level {
    fn take() -> Option<Self> {
        let before = std::fs::read_to_string(PARANOID).ok()?;
        std::fs::write(PARANOID, before.trim()).ok()?;
        Some(Self { before })
    }

    fn set(&self, level: i32) {
        std::fs::write(PARANOID, level.to_string()).expect("set");
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let _ = std::fs::write(PARANOID, self.before.trim());
    }
}

/// The user and group ID of an unprivileged user.
const NOBODY: u32 = 65534;

/// The program as this user with these capabilities.
fn as_user(user: u32, program: &Path, home: &Path, caps: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_string()]);
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

/// Returns how many samples of a recording match the filter.
fn count(program: &Path, file: &Path, filter: &str) -> u64 {
    let mut report = Command::new(program);
    let output = report.arg("report").arg(file).args(["--where", filter, "--format", "json"]).output().expect("ran");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["events"][0]["samples"].as_u64().expect("a count")
}

#[test]
fn each_level_sees_what_the_readme_says() {
    let _alone = alone();
    needs!(allowed(), is_root(), installed("setpriv"), may_change_the_machine());
    let Some(level) = Level::take() else { return skipped("kernel.perf_event_paranoid cannot be set") };
    let dir = tempfile::tempdir().expect("dir");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("opened");
    let program = dir.path().join("perfprof-tui");
    crate::common::copy_program(env!("CARGO_BIN_EXE_perfprof-tui"), &program);
    // Capabilities, level, and whether the whole machine and the kernel side of own commands can be sampled.
    let rows = [("", 0, true, true), ("", 1, false, true), ("", 2, false, false), ("perfmon", 2, true, true)];
    for (caps, paranoid, machine, kernel) in rows {
        level.set(paranoid);
        let row = format!("capabilities {caps:?}, level {paranoid}");
        let file = dir.path().join(format!("own-{paranoid}-{}.data", caps.len()));
        let mut own = as_user(NOBODY, &program, dir.path(), caps);
        own.args(["record", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&file);
        let output =
            own.args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"]).output().expect("ran");
        assert!(output.status.success(), "{row}: {}", text(&output));
        assert!(count(&program, &file, "user") > 0, "{row}: the user cannot sample their own commands");
        let seen = count(&program, &file, "kernel");
        assert_eq!(seen > 0, kernel, "{row}: {seen} samples of the kernel\n{}", text(&output));
        let listed = Command::new(&program).args(["evlist", "-i"]).arg(&file).output().expect("ran").stdout;
        let name = if kernel { "cpu-clock\n" } else { "cpu-clock:u\n" };
        assert!(String::from_utf8_lossy(&listed).starts_with(name), "{row}: {}", String::from_utf8_lossy(&listed));
        if !kernel {
            assert!(text(&output).contains("kernel"), "{row}: the report does not mention it: {}", text(&output));
        }
        let mut wide = as_user(NOBODY, &program, dir.path(), caps);
        wide.args(["record", "-a", "-e", "cpu-clock", "-F", "99", "-o"]).arg(dir.path().join("all.data"));
        let output = wide.args(["--", "sleep", "0.2"]).output().expect("ran");
        assert_eq!(output.status.success(), machine, "{row}: {}", text(&output));
        if !machine {
            let said = text(&output);
            assert!(said.contains("perf_event_paranoid") && said.contains("cap_perfmon"), "{row}: {said}");
        }
        let _ = std::fs::remove_file(dir.path().join("all.data"));
    }
    // Mainline kernels have no level above 2; at higher levels, some distributions' kernels allow root only.
    level.set(4);
    let mut own = as_user(NOBODY, &program, dir.path(), "");
    own.args(["record", "-e", "cpu-clock", "-o"]).arg(dir.path().join("four.data")).args(["--", "true"]);
    let works = own.output().expect("ran").status.success();
    let output = as_user(NOBODY, &program, dir.path(), "").arg("doctor").output().expect("ran");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.contains("only root may use perf events"), !works, "{said}");
    assert_eq!(said.contains("own processes, user code only"), works, "{said}");
    // Tracepoints need their formats, which only root can read in tracefs with the default mount options.
    let tracefs = std::fs::metadata("/sys/kernel/tracing");
    let hidden = tracefs.is_ok_and(|meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o005 == 0);
    if !hidden {
        return skipped("tracefs is not mounted, or every user can read it");
    }
    let mut traced = as_user(NOBODY, &program, dir.path(), "perfmon");
    let output = traced.args(["stat", "-e", "sched:sched_switch", "--", "true"]).output().expect("ran");
    assert!(!output.status.success() && text(&output).contains("trac"), "{}", text(&output));
}

/// Content of a file that only root may read.
const MARKER: &str = "qqzxvwkj-marker-of-a-secret";

/// Reads the numbers on a line of /proc/PID/status.
fn status(pid: u32, key: &str, radix: u32) -> Vec<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).expect(key).to_owned();
    line.split_whitespace().map(|word| u64::from_str_radix(word, radix).expect("a number")).collect()
}

/// File capabilities of the program allow every user to sample, but not to open files.
#[test]
fn a_program_with_more_rights_reads_as_its_caller() {
    let _alone = alone();
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    needs!(allowed(), is_root(), installed("setpriv"), installed("setcap"), installed("cc"));
    let dir = tempfile::tempdir().expect("dir");
    let mode = |path: &Path, bits| std::fs::set_permissions(path, PermissionsExt::from_mode(bits)).expect("mode");
    mode(dir.path(), 0o777);
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("secret"), format!("{MARKER}\n").repeat(20)).expect("written");
    mode(&at("secret"), 0o600);
    let body = "void spin(void) {\n for (;;)\n  x++;\n}\nint main(void) {\n spin();\n}\n";
    let code = format!("volatile unsigned long x;\n#line 1 \"{}\"\n{body}", at("secret").display());
    std::fs::write(at("spin.c"), code).expect("code");
    let compiled = Command::new("cc").args(["-g", "-O1", "-o"]).args([at("spin"), at("spin.c")]).status().expect("cc");
    assert!(compiled.success());
    let lends = |name: &str| {
        let program = at(name);
        crate::common::copy_program(env!("CARGO_BIN_EXE_perfprof-tui"), &program);
        program
    };
    let (capable, setuid) = (lends("capable"), lends("setuid"));
    let all = "cap_perfmon,cap_bpf,cap_syslog,cap_dac_read_search,cap_dac_override,cap_sys_ptrace=ep";
    if !Command::new("setcap").arg(all).arg(&capable).status().is_ok_and(|status| status.success()) {
        return skipped("this file system keeps no capabilities");
    }
    mode(&setuid, 0o4755);
    for program in [capable, setuid] {
        let name = program.display();
        let said = |output: Output| {
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &text(&output);
            assert!(!said.contains(MARKER) && !said.contains(&MARKER[..8]), "{name}: {said}");
            said
        };
        let run = |args: &[&str]| {
            let mut command = as_user(NOBODY, &program, dir.path(), "");
            said(command.args(args).current_dir(dir.path()).output().expect("ran"))
        };
        assert!(run(&["report", "secret"]).contains("ermission denied"), "{name}");
        assert!(run(&["report", "--symfs", "/root", "secret"]).contains("ermission denied"), "{name}");
        let file = format!("{}.data", program.file_name().expect("name").to_string_lossy());
        // It samples the machine; the caller owns its files.
        let mut record = as_user(NOBODY, &program, dir.path(), "");
        record.args(["record", "-a", "-e", "cpu-clock", "-F", "499", "-o"]).arg(at(&file));
        record.args(["--", "timeout", "1"]).arg(at("spin")).stdout(std::process::Stdio::null());
        let mut child = record.stderr(std::process::Stdio::null()).spawn().expect("spawns");
        let began = std::time::Instant::now();
        while !status_is(child.id(), 65_534) {
            assert!(
                began.elapsed().as_secs() < 60 && child.try_wait().expect("waits").is_none(),
                "{name} keeps its rights"
            );
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.wait().expect("ends");
        assert_eq!(std::fs::metadata(at(&file)).expect("recorded").uid(), 65_534, "{name}");
        assert!(count(Path::new(env!("CARGO_BIN_EXE_perfprof-tui")), &at(&file), "kernel || user") > 50, "{name}");
        let listed = run(&["annotate", &file, "spin", "--dsos", "spin"]);
        assert!(listed.contains("spin"), "{name}: {listed}");
    }
}

/// The kernel reads any process's memory for the program. It shows functions of processes that the user may trace only.
#[test]
fn programs_of_other_users_have_native_frames() {
    let _alone = alone();
    needs!(
        allowed(),
        is_root(),
        installed("setpriv"),
        Path::new("/usr/bin/python3").exists(),
        cfg!(target_arch = "x86_64")
    );
    let dir = tempfile::tempdir().expect("dir");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("opened");
    let program = dir.path().join("perfprof-tui");
    crate::common::copy_program(env!("CARGO_BIN_EXE_perfprof-tui"), &program);
    let script = "import sys\ndef secret():\n while True: pass\nsecret()\n";
    let named = |user: u32, recorder: u32, caps: &str, seconds: u32| {
        let mut target = as_user(user, Path::new("/usr/bin/python3"), dir.path(), "");
        let mut target = target.args(["-c", script]).spawn().expect("spawns");
        let file = dir.path().join(format!("{user}-{recorder}-{}.data", caps.len()));
        let mut record = as_user(recorder, &program, dir.path(), caps);
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "199", "-p", &target.id().to_string(), "-o"]).arg(&file);
        let output = record.args(["--", "sleep", &seconds.to_string()]).output().expect("ran");
        let _ = target.kill();
        let _ = target.wait();
        assert!(output.status.success(), "{}", text(&output));
        assert!(count(&program, &file, "user") > 20, "{user} by {recorder} with {caps}");
        count(&program, &file, "stack ~ 'secret (*'")
    };
    // Root sees them, and users see their own.
    for (user, recorder, caps) in [(NOBODY - 1, 0, ""), (NOBODY, NOBODY, "perfmon,bpf")] {
        with_time(&[2, 8, 30], |seconds| match named(user, recorder, caps, seconds) {
            0 => Err(format!("{user} by {recorder}: no names")),
            _ => Ok(()),
        });
    }
    assert_eq!(named(NOBODY - 1, NOBODY, "perfmon,bpf", 2), 0);
    assert_eq!(named(NOBODY - 1, NOBODY, "perfmon,bpf,sys_ptrace", 2), 0, "the program drops this right");
}

/// Whether a process runs perfprof-tui under this user, with all four user ids and only the capabilities that sampling
/// needs.
fn status_is(pid: u32, uid: u64) -> bool {
    let wanted = perfprof_tui::kernel::privilege::WANTED.iter().fold(0, |set, one| set | 1u64 << one.number);
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let permitted = status(pid, "CapPrm", 16)[0];
    matches!(comm.trim(), "capable" | "setuid") && permitted == wanted && status(pid, "Uid", 10) == [uid; 4]
}

/// The README and the program share one table.
#[test]
fn the_readme_recommends_what_the_program_does() {
    let _alone = alone();
    use perfprof_tui::kernel::privilege::{WANTED, setcap};
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("README.md");
    assert!(readme.contains(&format!("\n    {}\n", setcap())), "README.md: {}", setcap());
    for one in WANTED {
        let row = format!("\n| `{}` | {} |\n", one.name, one.gives);
        assert!(readme.contains(&row), "README.md has no row{row}");
    }
    assert_eq!(readme.matches("setcap ").count(), 1);
    let mut level = perfprof_tui::kernel::limits::Rights::read();
    (level.paranoid, level.caps, level.blocked, level.lockdown) = (2, 0, None, String::new());
    level.is_root = false;
    let (_, remedy) = perfprof_tui::source::live::error::refusal(&level);
    assert!(remedy.contains(&setcap()), "{remedy}");
}

#[test]
fn rings_shrink_to_a_cpus_share_where_no_memory_may_be_locked() {
    let _alone = alone();
    needs!(allowed(), is_root(), installed("setpriv"));
    let dir = tempfile::tempdir().expect("dir");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("opened");
    let program = dir.path().join("perfprof-tui");
    crate::common::copy_program(env!("CARGO_BIN_EXE_perfprof-tui"), &program);
    let paranoid = std::fs::read_to_string(PARANOID).expect("readable");
    if !matches!(paranoid.trim(), "0" | "1" | "2") {
        return skipped("kernel.perf_event_paranoid is -1 or the kernel is patched: locked memory is unlimited");
    }
    // The kernel counts locked memory per user, so this user differs from that of parallel tests.
    let alone = NOBODY - 1;
    for pages in [&["-m", "512"][..], &["-m", "4096"], &[]] {
        let mut record = as_user(alone, &program, dir.path(), "perfmon");
        let file = dir.path().join("x.data");
        record.args(["record", "-a", "-e", "cpu-clock", "-F", "9999"]).args(pages).arg("-o").arg(&file);
        record.args(["--", "sleep", "0.2"]);
        let words: Vec<&std::ffi::OsStr> = std::iter::once(record.get_program()).chain(record.get_args()).collect();
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -l 0; exec \"$@\"", "sh"]).args(words);
        limited.env("HOME", dir.path()).env("XDG_CONFIG_HOME", "/nonexistent");
        let output = limited.output().expect("ran");
        let said = text(&output);
        assert!(output.status.success() && said.contains("KiB per CPU because"), "{pages:?}: {said}");
        assert!(count(&program, &file, "kernel || user") > 0);
    }
}

/// Root in a user namespace (rootless Podman, LXD, bubblewrap) has the privileges of an ordinary user.
#[test]
fn root_in_a_user_namespace_samples_user_code() {
    let _alone = alone();
    needs!(allowed(), installed("unshare"));
    let level = std::fs::read_to_string(PARANOID).unwrap_or_default();
    if level.trim() != "2" {
        return skipped("kernel.perf_event_paranoid is not 2");
    }
    let dir = tempfile::tempdir().expect("dir");
    let program = Path::new(env!("CARGO_BIN_EXE_perfprof-tui"));
    let inside = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-U", "-r"]).arg(program).args(args).current_dir(dir.path());
        command.env("XDG_CONFIG_HOME", "/nonexistent").env("LC_ALL", "C.UTF-8").output().expect("ran")
    };
    let load = uses_cpu(200);
    let busy = ["--", "sh", "-c", &load];
    for event in [&["-e", "cpu-clock"][..], &["-e", "cpu-clock:u"], &[]] {
        let output = inside(&[&["record", "-F", "999", "-o", "x.data"], event, &busy].concat());
        if cannot_unshare(&text(&output)) {
            return skipped("user namespaces are not available");
        }
        assert!(output.status.success(), "{event:?}: {}", text(&output));
        let file = dir.path().join("x.data");
        assert!(count(program, &file, "user") > 10 && count(program, &file, "kernel") == 0, "{event:?}");
    }
    let output = inside(&[&["stat", "-e", "page-faults"], &busy[..]].concat());
    assert!(
        output.status.success() && text(&output).split_whitespace().any(|word| word == "page-faults:u"),
        "{}",
        text(&output)
    );
    let doctor = String::from_utf8_lossy(&inside(&["doctor"]).stdout).into_owned();
    let has = |state: &str, name: &str| doctor.lines().any(|line| line.starts_with(&format!("{state:8} {name}")));
    assert!(has("missing", "whole machine") && has("limited", "kernel code") && has("limited", "BPF"), "{doctor}");
    assert!(!doctor.contains("--cap-add") && !doctor.contains("setcap"), "a suggested remedy does not help: {doctor}");
}

/// More threads than the limit on open files allows with one event and one dummy event per thread.
#[test]
fn many_threads_are_sampled_with_few_descriptors() {
    let _alone = alone();
    needs!(allowed(), is_root(), installed("setpriv"));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let stopped = stopped.clone();
            std::thread::spawn(move || drop(stopped.lock().map(|stopped| stopped.recv())))
        })
        .collect();
    let dir = tempfile::tempdir().expect("dir");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // Enough for one event per thread and CPU, but not for three.
    let most = cpus * 160 + 64;
    let line = format!(
        "ulimit -n {most} && exec setpriv --bounding-set=-sys_resource {} record -q -e cpu-clock -p {} -o x.data -- sleep 0.1",
        env!("CARGO_BIN_EXE_perfprof-tui"),
        std::process::id()
    );
    let output = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().expect("ran");
    drop(stop);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    assert!(output.status.success() && dir.path().join("x.data").exists(), "{}", text(&output));
}
