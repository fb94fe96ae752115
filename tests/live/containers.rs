//! Containers by name: pods of a real containerd, on the live screen and in recordings.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::pods::{BURNS, Does, Pods};
use crate::common::process::{Gates, PATIENCE, Running, events, until, with_time};
use crate::common::session::Session;
use crate::common::transcript::Transcript;
use crate::common::{absent, allowed, by_frame_pointers, program, run, skipped};

/// Three pods with two containers each: a busy one and an idle one.
fn shop() -> Option<Pods> {
    if !allowed() {
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
    start().map_err(|why: String| skipped(&why)).ok()
}

/// Runs a command until it prints a line with some words.
fn until_says(command: &mut Command, words: &str) {
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("runs"));
    let lines = BufReader::new(running.0.stdout.take().expect("piped")).lines();
    let begun = Instant::now();
    let mut said = String::new();
    for line in lines.map_while(Result::ok) {
        if line.contains(words) {
            return;
        }
        said = line;
        assert!(begun.elapsed() < PATIENCE, "never {words}: {said}");
    }
    panic!("{command:?} ended without {words}: {said}");
}

/// A busy container is found by name at once, also if it starts later; an ended one keeps its name.
#[test]
fn who_burns_is_found_by_name() {
    let Some(mut pods) = shop() else { return };
    let mut session = Session::start(&["-F", "499", "--call-graph", "fp", "-s", "namespace,pod,container"], 30, 200);
    session.wait_for_line(&["shop-", "cart-7d9", "app"]);
    let whole = format!("container {}/cart-7d9/app", pods.namespace);
    session.keys(&format!(":filter namespace == {} && container == app\r", pods.namespace)).wait_for("shown: ");
    // The key is for the selected row, which another program may have until the filter is answered.
    session.wait_for("by container  app cart-7d9");
    session.keys("H").wait_for(&whole);
    session.keys("uu");
    pods.run("late-000", "worker", Does::Burn).expect("runs");
    session.wait_for("late-000");
    pods.end("cart-7d9", "app");
    session.wait_for("worker").wait_for("cart-7d9");
    session.keys(":filter pod == late-000 && container == worker\r");
    session.wait_for("late-000");
    session.keys("q");
    assert!(session.end().success());
}

/// A container pattern samples only matching containers, also those that start later and those of a new target.
#[test]
fn some_containers_are_sampled_alone() {
    let Some(mut pods) = shop() else { return };
    pods.run("till-5c2", "burner", Does::Burn).expect("runs");
    let wanted = format!("{}/cart-*", pods.namespace);
    let chosen = ["-F", "499", "--call-graph", "fp", "-s", "namespace,pod,container", "--pod", &wanted];
    let mut session = Session::start(&chosen, 30, 160);
    let count = |n: usize| format!("{n} of pod shop-");
    session.wait_for("cart-7d9").wait_for(&count(2));
    pods.run("cart-8e0", "worker", Does::Burn).expect("runs");
    session.wait_for(&count(3)).wait_for("cart-8e0");
    assert!(!session.text().split_whitespace().any(|word| word.starts_with("till-5c2")), "{}", session.text());
    pods.end("cart-7d9", "proxy");
    session.wait_for(&count(2));
    session.keys(":attach container burner\r").wait_for("till-5c2").wait_for("container burner");
    session.keys(":attach container burnr\r").wait_for("no such container runs");
    session.keys("q");
    assert!(session.end().success());
}

/// A recording keeps container names after all containers end; a list names those of a recording without names.
#[test]
fn recordings_keep_the_names() {
    let Some(mut pods) = shop() else { return };
    let dir = tempfile::tempdir().expect("dir");
    let [file, list, bare, stream] =
        ["perf.data", "containers.json", "perf.only", "stream"].map(|name| dir.path().join(name));
    let (namespace, wanted) = (pods.namespace.clone(), format!("{}/*", pods.namespace));
    let gates = Gates(dir.path());
    let waits = format!("{}; {}", gates.here("recorded"), gates.wait("enough"));
    let mut records = program();
    records
        .args(["record", "-q", "-F", "499", "--call-graph", "fp", "--pod", &wanted, "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", &waits]);
    let mut records = Running(records.spawn().expect("runs"));
    gates.until("recorded");
    // A hundred milliseconds have fifty samples.
    let before = pods.ran("cart-7d9", "app");
    until("it burns", || pods.ran("cart-7d9", "app") > before + Duration::from_millis(200));
    gates.open("enough");
    assert!(records.0.wait().expect("ends").success());
    let waits = format!("{}; {}", gates.here("begun"), gates.wait("late"));
    let mut sends = program();
    sends.args([
        "record",
        "-q",
        "-F",
        "99",
        "--call-graph",
        "fp",
        "--pod",
        &wanted,
        "-o",
        "-",
        "--",
        "sh",
        "-c",
        &waits,
    ]);
    let mut sends = Running(sends.stdout(File::create(&stream).expect("made")).spawn().expect("runs"));
    gates.until("begun");
    let before = events(sends.pid());
    pods.run("late-000", "worker", Does::Burn).expect("runs");
    // Wait until it has been found, has run, and thus was sampled.
    until("it is measured", || events(sends.pid()) > before);
    let before = pods.ran("late-000", "worker");
    until("it burns", || pods.ran("late-000", "worker") > before + Duration::from_millis(200));
    gates.open("late");
    assert!(sends.0.wait().expect("ends").success());
    pods.end("late-000", "worker");
    let listed = run(program().args(["list", "containers", "--format", "json"])).stdout;
    std::fs::write(&list, &listed).expect("written");
    let all: serde_json::Value = serde_json::from_slice(&listed).expect("JSON");
    let own = all.as_array().expect("rows").iter().filter(|row| row["namespace"] == namespace.as_str());
    assert_eq!(own.count(), 6, "{all}");
    let perf = |args: &[&str]| Command::new("perf").args(args).stdin(Stdio::null()).output();
    let path = |path: &Path| path.display().to_string();
    let waits = format!("{}; {}", gates.here("theirs"), gates.wait("done"));
    let mut recorder = Command::new("perf");
    recorder.args(["record", "-q", "-a", "-F", "499", "--all-cgroups", "-o"]).arg(&bare).args(["sh", "-c", &waits]);
    let Ok(recorder) = recorder.stdin(Stdio::null()).spawn() else { return skipped("perf is not installed") };
    let mut recorder = Running(recorder);
    gates.until("theirs");
    let before = pods.ran("cart-7d9", "app");
    until("it burns", || pods.ran("cart-7d9", "app") > before + Duration::from_millis(100));
    gates.open("done");
    assert!(recorder.0.wait().expect("ends").success());
    pods.end("cart-7d9", "app");
    drop(pods);
    let report = |file: &Path, more: &[&str]| {
        let mut report = program();
        report.arg("report").arg(file).args(["-s", "namespace,pod,container,image", "--format", "json"]).args(more);
        let json: serde_json::Value = serde_json::from_slice(&run(&mut report).stdout).expect("JSON");
        let rows = json["events"][0]["rows"].as_array().expect("rows").clone();
        rows.into_iter().filter(|row| row["namespace"] == namespace.as_str()).collect::<Vec<_>>()
    };
    let rows = report(&file, &[]);
    assert_eq!([&rows[0]["pod"], &rows[0]["container"]], ["cart-7d9", "app"], "{rows:?}");
    assert!(rows[0]["samples"].as_u64() > Some(20), "{rows:?}");
    // A stream first sends the running containers, then new ones.
    let sent = report(&stream, &[]);
    assert!(["cart-7d9", "late-000"].iter().all(|pod| sent.iter().any(|row| row["pod"] == *pod)), "{sent:?}");
    let kept = report(&file, &["--where", "pod == cart-7d9 && container == app"]);
    assert_eq!((kept.len(), &kept[0]["samples"]), (1, &rows[0]["samples"]));
    // perf skips the records with names; its own recordings lack names until a list provides them.
    let stepped = perf(&["report", "--stdio", "-i", &path(&file)]).expect("perf");
    assert!(stepped.status.success() && stepped.stdout.len() > 500, "{}", String::from_utf8_lossy(&stepped.stderr));
    assert_eq!(report(&bare, &[]), Vec::<serde_json::Value>::new());
    let told = report(&bare, &["--containers", &path(&list)]);
    assert!(told.iter().any(|row| row["pod"] == "cart-7d9" && row["container"] == "app"), "{told:?}");
}

/// A busy container with a small CPU quota is reported as throttled, by name and with the time that it waited.
#[test]
fn who_is_throttled_is_told_by_name() {
    let Some(pods) = shop() else { return };
    if !pods.limit("cart-7d9", "app", 3) {
        return absent("no cgroup controller limits CPU time");
    }
    let out = run(program().args(["cpus", "-i", "1", "-n", "3", "--format", "json"])).stdout;
    let text = String::from_utf8(out).expect("text");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let wanted = format!("{}/cart-7d9/app throttled ", pods.namespace);
    let said = |found: &&serde_json::Value| found["text"].as_str().is_some_and(|text| text.starts_with(&wanted));
    let found = last["findings"].as_array().expect("findings").iter().find(said).unwrap_or_else(|| panic!("{last}"));
    assert!(found["percent"].as_f64() > Some(50.0) && found["cpu"].is_null(), "{found}");
    let mut session = Session::start(&["-F", "99", "--call-graph", "fp"], 40, 160);
    session.wait_for("throttled");
    session.keys("4").wait_for("throttled by their quotas");
    session.keys("q");
    assert!(session.end().success());
}

/// A root file system with a program and a library at the paths that other containers also use; the library has a
/// function of this name.
fn rootfs(function: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().expect("dir");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("lib")).expect("made");
    std::fs::create_dir_all(at("bin")).expect("made");
    let library = format!(
        "void {function}(void) {{ for (volatile long i = 0; i < 5000000; i++); }}\nvoid work(void) {{ {function}(); }}\n"
    );
    std::fs::write(at("work.c"), library).expect("written");
    std::fs::write(
        at("main.c"),
        "#include <unistd.h>\nvoid work(void);\nint main(void) { for (;;) { work(); usleep(30000); } }\n",
    )
    .expect("written");
    let cc =
        |args: &[&str]| Command::new("cc").current_dir(dir.path()).args(args).status().is_ok_and(|ran| ran.success());
    let library =
        ["-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-Wl,--build-id", "-o", "lib/libwork.so", "work.c"];
    let program = ["-O1", "-fno-omit-frame-pointer", "-o", "bin/main", "main.c", "-Llib", "-lwork", "-Wl,-rpath,/lib"];
    if !cc(&library) || !cc(&program) {
        return None;
    }
    let needed =
        Command::new("ldd").arg(at("bin/main")).env("LD_LIBRARY_PATH", at("lib")).output().expect("ldd").stdout;
    for path in String::from_utf8_lossy(&needed).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = at(path.trim_start_matches('/'));
        if !path.ends_with("libwork.so") {
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            crate::common::copy_program(path, to);
        }
    }
    Some(dir)
}

/// A file's build ID, from readelf.
fn build_id(file: &Path) -> String {
    let notes = run(Command::new("readelf").arg("-n").arg(file)).stdout;
    let notes = String::from_utf8(notes).expect("text");
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("an id");
    id.to_owned()
}

/// Two containers with different libraries at one path: each has its own symbols, and keeps them after the container
/// and its files are gone.
#[test]
fn each_containers_own_files_name_its_functions() {
    let Some(mut pods) = shop() else { return };
    let (Some(cart), Some(till)) = (rootfs("cart_spins"), rootfs("till_spins")) else {
        return skipped("no C compiler (gcc)");
    };
    pods.run_in("cart-lib", "app", cart.path(), &["/bin/main"]).expect("runs");
    pods.run_in("till-lib", "app", till.path(), &["/bin/main"]).expect("runs");
    let wanted = format!("{}/*-lib", pods.namespace);
    let mut session = Session::start(&["-F", "499", "--call-graph", "fp", "-s", "pod,sym", "--pod", &wanted], 30, 140);
    session.wait_for_line(&["cart-lib", "cart_spins"]).wait_for_line(&["till-lib", "till_spins"]);
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("two.data");
    let gates = Gates(dir.path());
    let waits = format!("{}; {}", gates.here("recorded"), gates.wait("enough"));
    let mut records = program();
    records
        .args(["record", "-q", "-F", "499", "--call-graph", "fp", "--pod", &wanted, "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", &waits]);
    let mut records = Running(records.spawn().expect("runs"));
    gates.until("recorded");
    let both = || ["cart-lib", "till-lib"].map(|pod| pods.ran(pod, "app"));
    let before = both();
    until("both burn", || both().iter().zip(before).all(|(ran, before)| *ran > before + Duration::from_millis(200)));
    gates.open("enough");
    assert!(records.0.wait().expect("ends").success());
    pods.end("cart-lib", "app");
    let gone = build_id(&cart.path().join("lib/libwork.so"));
    drop(cart);
    session.keys("z").keys("u").wait_for_line(&["cart-lib", "cart_spins"]);
    session.keys("q");
    assert!(session.end().success());
    // A recording has the build IDs of files that are gone.
    let report = run(program().arg("report").arg(&file).args(["-s", "pod,dso,sym"]));
    let rows = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(["cart-lib", "till-lib"].iter().all(|pod| rows.contains(pod)), "{rows}");
    let said = String::from_utf8_lossy(&report.stderr).into_owned();
    let ended = |id: &str| said.lines().any(|line| line.contains("/lib/libwork.so") && line.contains(id));
    assert!(ended(&gone), "{gone}: {said}");
    // The other container's file still exists, and the library that was mapped names each address.
    let named = |pod: &str, function: &str| rows.lines().any(|line| line.contains(pod) && line.contains(function));
    assert!(named("till-lib", "till_spins") && !named("cart-lib", "till_spins"), "{rows}");
}

/// Units aggregate threads by container.
#[test]
fn units_add_up_by_container() {
    let Some(pods) = shop() else { return };
    for (unit, pod) in [
        ("rundelay", "cart-7d9/app"),
        ("task-state", "cart-7d9/app"),
        ("oncpu", "cart-7d9/app"),
        // It sleeps for a second at a time.
        ("offcpu", "till-5c2/app"),
    ] {
        let mut command = program();
        command.envs([by_frame_pointers()]).args([
            unit,
            "--batch",
            "-i",
            "0.5",
            "--format",
            "json",
            "--panel",
            "Containers",
        ]);
        until_says(&mut command, &format!("{}/{pod}", pods.namespace));
    }
}

/// A unit can be restricted to a pod or container like a recording.
#[test]
fn units_are_narrowed_to_pods_and_containers() {
    let Some(pods) = shop() else { return };
    let pod = format!("{}/cart-*", pods.namespace);
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("all.data").display().to_string();
    let record = ["record", "-q", "-a", "-e", "sched:sched_switch,sched:sched_wakeup", "-o", &file];
    for args in
        [&["oncpu", "--panel", "Tasks"][..], &["syscalls"], &["task-state"], &["oncpu", "--panel", "Tasks", &file]]
    {
        // The container may wait for a CPU for long.
        with_time(&[1, 4, 16], |seconds| {
            let seconds = seconds.to_string();
            let is_live = !args.contains(&file.as_str());
            if !is_live {
                run(program().args(record).args(["sleep", &seconds]));
            }
            let live = if is_live { vec!["--duration", &seconds] } else { Vec::new() };
            let mut unit = program();
            unit.envs([by_frame_pointers()]).args(args).args(["--batch", "--format", "json", "--pod", &pod]).args(live);
            let out = run(&mut unit);
            let text = String::from_utf8(out.stdout).expect("text");
            let answer: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("json")).collect();
            let panels = answer.iter().flat_map(|one| one["panels"].as_array().expect("panels"));
            let rows = panels.filter_map(|panel| panel["rows"].as_array()).flatten();
            let comms: Vec<&str> = rows.filter_map(|row| row["comm"].as_str()).collect();
            // busybox executes its applets by /proc/self/exe.
            let is_inside = |comm: &&str| ["sh", "sleep", "busybox", "exe"].contains(comm);
            assert!(comms.iter().all(is_inside), "{args:?}: {comms:?}");
            if comms.is_empty() { Err(format!("{args:?}: {text}")) } else { Ok(()) }
        });
    }
    let mut transcript = Transcript::new();
    let out = transcript.add(program().args(["oncpu", "--batch", "--container", "no-such-container"]));
    assert!(!out.status.success());
    insta::assert_snapshot!("unknown-container", transcript.text());
}

/// A busy process in a separate cgroup; both end on drop.
struct Burns(Child, PathBuf);

impl Burns {
    fn start(group: PathBuf) -> Self {
        std::fs::create_dir(&group).expect("made");
        let moved = format!("echo $$ > {}/cgroup.procs; exec timeout 900 sh -c '{BURNS}'", group.display());
        Self(Command::new("sh").args(["-c", &moved]).stdout(Stdio::null()).spawn().expect("sh"), group)
    }
}

impl Drop for Burns {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.1.join("cgroup.procs")).unwrap_or_default();
        let _ = Command::new("kill").arg("-KILL").args(inside.split_whitespace()).status();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir(&self.1);
    }
}

/// A container whose cgroup cannot have events is selected with a view filter, and the screen reports it.
#[test]
fn a_container_of_another_tree_is_shown_by_a_filter() {
    needs!(allowed());
    let trees = perfprof_tui::kernel::cgroup::trees();
    let Some(other) = trees.iter().skip(1).find(|tree| tree.ends_with("cpu") || tree.ends_with("pids")) else {
        return absent("all cgroups are in one hierarchy");
    };
    let name = format!("perfprof-box-{}", std::process::id());
    let burns = Burns::start(other.join(format!("lxc.payload.{name}")));
    let mut session = Session::start(&["-F", "499", "--call-graph", "fp", "-s", "container,comm"], 24, 184);
    session.wait_for(&name);
    session.keys(&format!(":attach container {name}\r")).wait_for("a filter shows it").wait_for("shown: ");
    session.keys(":attach container perfprof-box*\r").wait_for(r#"container ~ "perfprof-box*""#);
    session.keys("q");
    assert!(session.end().success());
    let refused =
        program().args(["record", "--container", &name, "-o", "/dev/null", "--", "true"]).output().expect("runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("report --where"), "{said}");
    drop(burns);
}

/// With several cgroup v1 hierarchies, a process is found in one that is not the perf_event hierarchy.
#[test]
fn a_group_of_another_tree_is_told() {
    needs!(allowed());
    let trees = perfprof_tui::kernel::cgroup::trees();
    let Some(other) = trees.iter().skip(1).find(|tree| tree.ends_with("cpu") || tree.ends_with("pids")) else {
        return absent("all cgroups are in one hierarchy");
    };
    let (group, dir) = (format!("perfprof-group-{}", std::process::id()), tempfile::tempdir().expect("dir"));
    let burns = Burns::start(other.join(&group));
    let mut session = Session::start(&["-F", "499", "--call-graph", "fp", "-s", "cgroup,container"], 24, 120);
    session.wait_for(&format!("/{group}")).wait_for(&format!(" {group}"));
    // A snapshot keeps the cgroup, and perf reads it.
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
