//! The running kernel's types and functions, and its check of filters.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::process::{Running, ended, until};
use crate::common::session::PATIENCE;
use crate::common::{Nature, has, program, skipped, traced};
use perfprof_tui::event::filter_error::kernel_message;
use perfprof_tui::event::probe::ProbeSpec;
use perfprof_tui::event::probe::kernel::KernelFunctions;
use perfprof_tui::event::tracepoint;
use perfprof_tui::kernel::btf::Btf;

#[test]
fn the_running_kernel_has_its_tasks() {
    needs!(has(Nature::Btf));
    let btf = Btf::system().expect("read");
    assert!(btf.offset("task_struct", &["pid"]).expect("pid") > 0);
    assert!(btf.offset("task_struct", &["se", "vruntime"]).expect("nested") > 0);
    let known = btf.parameters("tcp_sendmsg").expect("a function");
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["sk", "msg", "size"]);
    assert_eq!(btf.describe(known[0].1), ("struct sock*".into(), "x64".into()));
    assert_eq!(btf.describe(known[2].1).1, "u64");
    let (offsets, kind) = btf.follow(known[0].1, &["__sk_common", "skc_daddr"]).expect("a member");
    assert_eq!((offsets.len(), btf.describe(kind).1), (1, "u32".into()));
    assert!(btf.follow(known[0].1, &["nothing"]).is_err() && btf.parameters("no_such_function").is_none());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn names_of_the_running_kernel() {
    needs!(has(Nature::Btf));
    let known = KernelFunctions::system();
    let spec = ProbeSpec::parse("tcp_sendmsg size sk->__sk_common.skc_dport").expect("parses");
    let line = spec.in_kernel("g", &known).expect("resolved").line();
    assert!(line.starts_with("p:g/tcp_sendmsg tcp_sendmsg size=%dx:u64 skc_dport=+"), "{line}");
    assert!(line.ends_with("(%di):u16"), "{line}");
    let wrong = ProbeSpec::parse("tcp_sendmsg nothing").expect("parses").in_kernel("g", &known).expect_err("unknown");
    insta::assert_snapshot!("unknown-parameter", wrong);
}

#[test]
fn the_kernel_says_what_it_does_not_like() {
    let Ok(root) = tracepoint::root() else { return skipped("tracefs is not available") };
    if fs::File::options().append(true).open(root.join("trace_marker")).is_err() {
        return skipped("no permission to write to tracefs");
    }
    let said = kernel_message(&root, "sched", "sched_switch", "prev_pid == absent");
    assert!(said.as_ref().is_some_and(|w| w.contains("prev_pid == absent") && w.contains('^')), "{said:?}");
    assert_eq!(kernel_message(&root, "sched", "sched_switch", "prev_pid == 1"), None);
    somebody_reads_the_instance(&root);
}

/// Programs that list tracefs have files of the instance open for a moment. The kernel does not remove it meanwhile.
fn somebody_reads_the_instance(root: &Path) {
    let instance = root.join("instances").join(format!("perfprof_{}", std::process::id()));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // It is open for most of the time, as by a program that lists tracefs again and again.
                let held = fs::File::open(instance.join("trace"));
                if held.is_ok() {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        for _ in 0..20 {
            kernel_message(root, "sched", "sched_switch", "prev_pid == absent");
        }
        is_done.store(true, Ordering::Relaxed);
    });
    // A message after the last reader removes it.
    let end = Instant::now() + PATIENCE;
    while instance.exists() {
        assert!(Instant::now() < end, "the instance is left");
        assert!(kernel_message(root, "sched", "sched_switch", "prev_pid == absent").is_some());
    }
}

/// A killed session leaves its probes and its instance; both go, those of a session that lives stay.
#[test]
fn what_killed_sessions_left_is_removed() {
    needs!(traced(), has(Nature::Uprobes));
    let Ok(root) = tracepoint::root() else { return skipped("tracefs is not available") };
    let instance = |pid: u32| root.join("instances").join(format!("perfprof_{pid}"));
    let (living, measured) = (Running::sleeping(), Running::sleeping());
    let mut session = program();
    session.args(["kmemleak", "--batch", "-p", &measured.pid().to_string()]);
    let mut killed = Running(session.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"));
    let group = format!("perfprof_{}", killed.pid());
    let probes = || {
        let list = fs::read_to_string(root.join("uprobe_events")).unwrap_or_default();
        list.lines().filter(|line| line.contains(&format!("{group}/"))).count()
    };
    until("it has probes", || probes() > 2);
    if fs::create_dir(instance(living.pid())).is_err() {
        return skipped("the kernel has no instances of tracefs");
    }
    fs::create_dir(instance(killed.pid())).expect("created");
    let clean = || {
        let output = program().args(["probe", "--clean"]).output().expect("runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let is_named = |text: &str, pid: u32| text.lines().any(|line| Path::new(line) == instance(pid));
    let removed = clean();
    assert!(!removed.contains(&format!("{group}:")) && !is_named(&removed, killed.pid()), "it lives: {removed}");
    assert!(probes() > 2 && instance(killed.pid()).exists());
    killed.0.kill().expect("killed");
    ended(&mut killed.0);
    let removed = clean();
    assert!(removed.contains(&format!("{group}:")) && is_named(&removed, killed.pid()), "{removed}");
    assert_eq!((probes(), instance(killed.pid()).exists()), (0, false));
    assert!(!is_named(&removed, living.pid()) && instance(living.pid()).exists(), "its process lives");
    fs::remove_dir(instance(living.pid())).expect("removed");
}
