//! Tests of a session's state after histories written by hand.

mod history;
mod undone;

use super::apply::user_address;
use super::running::is_libc;
use super::*;
use crate::record::kinds::{Mmap, TaskRecord};
use crate::record::sample::{CONTEXT_MAX, CONTEXT_USER};

fn map(pid: i32, start: u64, len: u64, name: &'static str) -> Record<'static> {
    Record::Mmap(Mmap { pid, tid: pid, start, len, prot: 5, flags: 2, name: name.as_bytes(), ..Mmap::default() })
}

fn dso(session: &Session, pid: i32, ip: u64) -> String {
    let map = session.user_map(pid, ip);
    session.dsos.of_map(map).short.to_string()
}

#[test]
fn children_inherit_and_exec_replaces() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&Record::Comm { pid: 1, tid: 1, exec: false, name: b"sh" }, 1);
    s.apply(&map(1, 0x1000, 0x1000, "/bin/sh"), 1);
    s.apply(&Record::Fork(TaskRecord { pid: 2, ppid: 1, tid: 2, ptid: 1, time: 5 }), 5);
    assert_eq!(dso(&s, 2, 0x1800), "sh");
    assert_eq!(s.space_generation(1), s.space_generation(2));
    let before = s.task(2, 2);
    assert_eq!(&*s.tasks()[before.0 as usize].comm, "sh");
    s.apply(&Record::Comm { pid: 2, tid: 2, exec: true, name: b"ls" }, 6);
    assert_eq!(dso(&s, 2, 0x1800), "sh", "the system call was made by the old program");
    s.seen(2, 6, true, &[]);
    assert_eq!(dso(&s, 2, 0x1800), "[unknown]");
    s.apply(&map(2, 0x4000, 0x1000, "/bin/ls"), 6);
    assert_eq!(dso(&s, 2, 0x4000), "ls");
    let after = s.task(2, 2);
    assert_ne!(before, after);
    assert_eq!(&*s.tasks()[after.0 as usize].comm, "ls");
    s.apply(&Record::Exit(TaskRecord { pid: 2, ppid: 1, tid: 2, ptid: 1, time: 9 }), 9);
    assert_eq!(s.task(2, 2), after, "memory is torn down after the exit, by the same task");
    let other = TaskRecord { pid: 3, ppid: 1, tid: 3, ptid: 1, time: 9 };
    s.apply(&Record::Exit(other), 9 + host::LINGER_NS + 1);
    assert_eq!(dso(&s, 2, 0x4000), "[unknown]");
}

#[test]
fn a_thread_does_not_inherit_that_its_parent_has_no_name() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(1, 0x1000, 0x1000, "/a"), 0);
    s.apply(&Record::Fork(task_of(1, 1, 3, 1)), 2);
    s.apply(&Record::Fork(task_of(1, 1, 4, 3)), 3);
    let comm = |s: &mut Session, tid| {
        let task = s.task(1, tid);
        s.tasks()[task.0 as usize].comm.to_string()
    };
    assert_eq!([1, 3, 4].map(|tid| comm(&mut s, tid)), [":1", ":3", ":4"]);
}

#[test]
fn a_rename_is_a_new_task_and_a_thread_shares_the_space() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(1, 0x1000, 0x1000, "/a"), 0);
    s.apply(&Record::Fork(TaskRecord { pid: 1, ppid: 1, tid: 3, ptid: 1, time: 2 }), 2);
    let first = s.task(1, 3);
    s.apply(&Record::Comm { pid: 1, tid: 3, exec: false, name: b"worker" }, 3);
    assert_ne!(first, s.task(1, 3));
    assert_eq!(dso(&s, 1, 0x1000), "a");
    assert_eq!(s.task(1, 3), s.task(1, 3));
}

#[test]
fn a_task_that_changes_its_cgroup_is_another_one() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&Record::Cgroup { id: 7, path: b"/web" }, 1);
    let (first, second) = (s.task_in(1, 1, 7), s.task_in(1, 1, 9));
    assert_ne!(first, second);
    assert_eq!((s.task_in(1, 1, 7), s.task_in(1, 1, 9)), (first, second));
    let path = |id: TaskId| s.cgroup(&s.tasks()[id.0 as usize]).to_string();
    assert_eq!((path(first), path(second)), ("/web".to_owned(), String::new()));
}

#[test]
fn a_process_that_was_not_looked_up_has_the_cgroup_of_its_parent() {
    // No process has such a number.
    let [first, second, third] = [1 << 30, (1 << 30) + 1, (1 << 30) + 2];
    let mut s = Session::new(Origin::Recorded);
    s.finds_groups = true;
    s.apply(&Record::Cgroup { id: 7, path: b"/web" }, 1);
    s.task_in(first, first, 7);
    for (pid, ppid) in [(second, first), (third, second)] {
        s.apply(&Record::Fork(task_of(pid, ppid, pid, ppid)), 2);
    }
    assert_eq!([first, second, third].map(|tid| s.cgroup_of(tid).as_deref() == Some("/web")), [true; 3]);
    assert_eq!(s.cgroup_of(third + 1), None);
}

#[test]
fn kernel_maps_are_shared_by_all() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(-1, 0xffff_8000_0000_0000, 0x1000, "[ip_vs]"), 0);
    let ip = 0xffff_8000_0000_0010;
    assert_eq!(&*s.dsos.of_map(s.kernel_map(ip)).short, "[ip_vs]");
    assert_eq!(s.kernel_map(1), MapId::KERNEL);
}

fn comm(pid: i32, tid: i32, exec: bool, name: &'static str) -> Record<'static> {
    Record::Comm { pid, tid, exec, name: name.as_bytes() }
}

fn task_of(pid: i32, ppid: i32, tid: i32, ptid: i32) -> TaskRecord {
    TaskRecord { pid, ppid, tid, ptid, time: 0 }
}

fn name(s: &mut Session, pid: i32, tid: i32) -> String {
    let id = s.task(pid, tid);
    s.tasks()[id.0 as usize].comm.to_string()
}

#[test]
fn only_code_is_mapped() {
    let mut s = Session::new(Origin::Recorded);
    let Record::Mmap(code) = map(1, 0x1000, 0x1000, "/a") else { unreachable!() };
    s.apply(&Record::Mmap(Mmap { prot: 3, ..code }), 0);
    s.apply(&Record::Mmap(Mmap { len: 0, ..code }), 0);
    assert_eq!((dso(&s, 1, 0x1000), s.log().in_order().count()), ("[unknown]".into(), 0));
    s.apply(&Record::Mmap(Mmap { prot: 4, ..code }), 0);
    assert_eq!(
        (dso(&s, 1, 0x1000), dso(&s, 1, 0x1fff), dso(&s, 1, 0x2000)),
        ("a".into(), "a".into(), "[unknown]".into())
    );
    s.apply(&Record::Mmap(Mmap { start: u64::MAX - 5, len: 100, ..code }), 0);
    assert_eq!(dso(&s, 1, u64::MAX - 1), "a");
}

#[test]
fn threads_are_called_as_their_parents_until_they_say_otherwise() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&comm(1, 1, false, "sh"), 1);
    s.apply(&Record::Fork(task_of(1, 1, 5, 1)), 2);
    assert_eq!((name(&mut s, 1, 5), s.comm_of(5).as_deref()), ("sh".into(), Some("sh")));
    s.apply(&Record::Fork(task_of(9, 8, 9, 8)), 2);
    assert_eq!((name(&mut s, 9, 9), name(&mut s, 7, 7)), (":9".into(), ":7".into()));
    assert_eq!((name(&mut s, 0, 0), s.comm_of(99)), ("swapper".into(), None));
    let id = s.named_task(3, 4, &"text".into());
    assert_eq!((s.tasks()[id.0 as usize].tid, &*s.tasks()[id.0 as usize].comm), (4, "text"));
}

#[test]
fn an_exec_is_over_when_the_new_program_is_seen() {
    let chain = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    for (user_mode, words, over) in [
        (true, &[][..], true),
        (false, &[CONTEXT_USER, 0x4010], true),
        (false, &[1, 2, CONTEXT_USER, 0x4010, 0x1010], true),
        (false, &[CONTEXT_USER, 0x1010], false),
        (false, &[CONTEXT_USER, 0x9010], false),
        (false, &[0x4010], false),
        (false, &[CONTEXT_USER], false),
        (false, &[CONTEXT_USER, CONTEXT_MAX], false),
        (false, &[], false),
    ] {
        let mut s = Session::new(Origin::Recorded);
        s.apply(&map(1, 0x1000, 0x1000, "/old"), 1);
        let first = s.space_generation(1);
        s.apply(&comm(1, 1, true, "new"), 2);
        s.apply(&map(1, 0x4000, 0x1000, "/new"), 2);
        let second = s.space_generation(1);
        assert!(second > first);
        s.seen(2, 3, true, &[]);
        s.seen(1, 3, user_mode, &chain(words));
        assert_eq!(dso(&s, 1, 0x1010) == "[unknown]", over, "{words:x?}");
        assert_eq!(s.space_generation(1) > second, over);
        let ran = s.log().in_order().filter(|(_, side)| matches!(side, SideBandEvent::Ran { pid: 1 })).count();
        assert_eq!(ran, usize::from(over));
        // It ends only once.
        s.seen(1, 4, true, &[]);
        s.seen(1, 5, true, &[]);
        let ran = s.log().in_order().filter(|(_, side)| matches!(side, SideBandEvent::Ran { .. })).count();
        assert_eq!((ran, s.here().in_exec), (1, 0));
    }
    // Two execs at once are counted separately.
    let mut s = Session::new(Origin::Recorded);
    for pid in [1, 2] {
        s.apply(&map(pid, 0x1000, 0x1000, "/old"), 1);
        s.apply(&comm(pid, pid, true, "new"), 2);
    }
    s.seen(1, 3, true, &[]);
    assert_eq!((dso(&s, 1, 0x1010), dso(&s, 2, 0x1010)), ("[unknown]".into(), "old".into()));
    s.seen(2, 3, true, &[]);
    assert_eq!(dso(&s, 2, 0x1010), "[unknown]");
}

#[test]
fn machines_stand_side_by_side() {
    let mut s = Session::new(Origin::Recorded);
    s.name_hosts(["a", "b", "c"].map(Into::into));
    assert_eq!(s.hosts().iter().map(|(_, host)| &*host.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    let mut tasks = Vec::new();
    for (host, program) in [(0, "/x"), (1, "/y"), (2, "/z")] {
        s.turn_to(HostId(host));
        s.apply(&comm(1, 1, false, program), 1);
        s.apply(&map(1, 0x1000, 0x1000, program), 1);
        s.apply(&Record::Cgroup { id: 7, path: program.as_bytes() }, 1);
        tasks.push(s.task_in(1, 1, 7));
    }
    let told = |s: &Session, id: TaskId| {
        let task = &s.tasks()[id.0 as usize];
        (s.host(task).to_string(), task.comm.to_string(), s.cgroup(task).to_string())
    };
    assert_eq!(told(&s, tasks[0]), ("a".into(), "/x".into(), "/x".into()));
    assert_eq!(told(&s, tasks[2]), ("c".into(), "/z".into(), "/z".into()));
    for (host, program) in [(0, "x"), (1, "y"), (2, "z")] {
        s.turn_to(HostId(host));
        assert_eq!(dso(&s, 1, 0x1000), program);
    }
    assert_eq!(s.hosts().iter().map(|(_, host)| host.log.in_order().count()).collect::<Vec<_>>(), [3, 3, 3]);
    // Each machine has its own kernel.
    let kernels: Vec<(MapId, u32)> = [0, 1, 2]
        .map(|host| {
            s.turn_to(HostId(host));
            (s.kernel_map(u64::MAX), s.kernel_generation())
        })
        .to_vec();
    let distinct: std::collections::BTreeSet<_> = kernels.iter().collect();
    assert_eq!((distinct.len(), kernels[0].0), (3, MapId::KERNEL));
    assert!(kernels.iter().all(|(map, _)| s.dsos.of_map(*map).kind == DsoKind::Kernel));
}

#[test]
fn a_thread_that_ends_is_remembered_for_a_while() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(1, 0x1000, 0x1000, "/a"), 1);
    s.apply(&Record::Fork(task_of(1, 1, 5, 1)), 2);
    s.apply(&map(7, 0x1000, 0x1000, "/b"), 2);
    s.apply(&Record::Exit(task_of(1, 1, 5, 1)), 10);
    s.apply(&Record::Exit(task_of(7, 1, 7, 1)), 10);
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), 10 + host::LINGER_NS);
    let known = |s: &Session| [1, 5, 7].map(|tid| s.here().threads.contains_key(&tid));
    assert_eq!((known(&s), dso(&s, 7, 0x1000)), ([true; 3], "b".into()));
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), 10 + host::LINGER_NS + 1);
    assert_eq!((known(&s), dso(&s, 7, 0x1000)), ([true, false, false], "[unknown]".into()));
    assert_eq!(dso(&s, 1, 0x1000), "a", "its process goes on");
    // A number that another process has by then is not removed.
    s.apply(&map(9, 0x1000, 0x1000, "/old"), 20);
    s.apply(&Record::Exit(task_of(9, 1, 9, 1)), 20);
    s.apply(&Record::Fork(task_of(9, 1, 9, 1)), 21);
    s.apply(&map(9, 0x1000, 0x1000, "/new"), 21);
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), 30 + 2 * host::LINGER_NS);
    assert_eq!(dso(&s, 9, 0x1000), "new");
}

#[test]
fn code_that_the_kernel_makes_is_mapped() {
    let ksymbol =
        |addr, unregister| Record::Ksymbol { addr, len: 0x100, unregister, name: b"bpf_prog_1_x", source: b"" };
    let mut s = Session::new(Origin::Recorded);
    let first = 0xffff_ffff_c000_0000;
    s.apply(&ksymbol(first + 0x1000, true), 1);
    assert_eq!((s.kernel_generation(), s.kernel_map(first + 0x1000)), (0, MapId::KERNEL));
    s.apply(&ksymbol(first, false), 2);
    let dso = s.dsos.of_map(s.kernel_map(first + 0xff));
    assert_eq!((&*dso.short, dso.kind), ("bpf_prog_1_x", DsoKind::Bpf));
    assert_eq!((s.kernel_map(first + 0x100), s.kernel_generation()), (MapId::KERNEL, 1));
    assert_eq!(s.dsos.map_of(s.kernel_map(first)).to_dso(first + 5), first + 5);
    s.apply(&ksymbol(first + 0x1000, false), 3);
    assert_eq!(s.kernel_generation(), 2);
    // Each machine's kernel has its own generation.
    s.name_hosts(["a", "b", "c"].map(Into::into));
    let generations: Vec<u32> = (0..3)
        .map(|host| {
            s.turn_to(HostId(host));
            s.kernel_generation()
        })
        .collect();
    assert_eq!(generations, [2, 3, 4]);
}

#[test]
fn of_a_recording_only_the_records_tell() {
    let pid = std::process::id() as i32;
    let mut s = Session::new(Origin::Recorded);
    assert_eq!((name(&mut s, pid, pid), name(&mut s, pid, pid + 1)), (format!(":{pid}"), format!(":{}", pid + 1)));
    let here = of_a_recording_only_the_records_tell as fn() as usize as u64;
    assert_eq!((s.log().in_order().count(), dso(&s, pid, here)), (0, "[unknown]".into()));
}

#[test]
fn the_first_user_address_of_a_chain() {
    let of = |words: &[u64]| user_address(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>());
    assert_eq!(of(&[7, CONTEXT_USER, 0x4010, 0x5010]), Some(0x4010));
    assert_eq!(of(&[CONTEXT_USER, CONTEXT_MAX - 1]), Some(CONTEXT_MAX - 1));
    assert_eq!([of(&[CONTEXT_USER, CONTEXT_MAX]), of(&[CONTEXT_USER]), of(&[7, 8])], [None; 3]);
}

#[test]
fn a_c_library_by_its_name() {
    for name in ["/lib/libc.so.6", "/usr/lib/libc-2.31.so", "/lib/ld-musl-x86_64.so.1", "libc.so"] {
        assert!(is_libc(name), "{name}");
    }
    for name in ["/lib/libcrypto.so.3", "/libc./x", "/lib/ld-linux.so.2", ""] {
        assert!(!is_libc(name), "{name}");
    }
    assert_eq!(Session::libc_of(i32::MAX), None);
    let root = tempfile::tempdir().expect("dir");
    assert_eq!(Session::libc_of_system(root.path()), None);
    for (dir, file) in [("lib64", "libc.so.6"), ("lib", "ld-musl-none.so.1")] {
        std::fs::create_dir_all(root.path().join(dir)).expect("made");
        std::fs::write(root.path().join(dir).join(file), "").expect("written");
    }
    let found = Session::libc_of_system(root.path()).expect("found");
    assert!(found.ends_with("/lib64/libc.so.6"), "{found}");
}

/// This process, compared with other files of /proc.
#[test]
fn a_running_process_is_asked() {
    let mut s = Session::new(Origin::Live);
    let pid = std::process::id() as i32;
    let number = 0x1234_5678_9abc_def0u64;
    let at = std::ptr::from_ref(&number) as u64;
    assert_eq!((s.peek(pid, at, 8), s.peek(pid, at, 2)), (Some(number), Some(0xdef0)));
    let regions = s.regions(pid);
    assert!(
        regions
            .iter()
            .any(|(start, end, name)| (*start..*end).contains(&at) && (&**name == "//anon" || name.starts_with('['))),
        "{regions:x?}"
    );
    assert!(threads_of(pid).contains(&pid));
    assert!(s.comm_of(pid).is_some_and(|comm| !comm.is_empty()) && s.comm_of(0).is_none());
    s.task(pid, pid);
    let sides: Vec<_> = s.log().in_order().collect();
    assert!(sides.iter().all(|(time, side)| *time == 0 && side.pid() == pid));
    assert!(sides.iter().filter(|(_, side)| matches!(side, SideBandEvent::Map { .. })).count() > 3);
    // Only threads have a parent thread, and mappings have their real length.
    assert!(!sides.iter().any(|(_, side)| matches!(side, SideBandEvent::Fork(_))) && s.space_generation(pid) > 0);
    let here = a_running_process_is_asked as fn() as usize as u64;
    let own = procfs::exec_maps(pid).into_iter().find(|map| (map.start..map.end).contains(&here)).expect("mapped");
    assert_eq!(s.dsos.map_of(s.user_map(pid, here)).len, own.end - own.start);
    if cfg!(target_env = "gnu") {
        assert!(Session::libc_of(0).is_some_and(|path| path.contains("libc")));
        assert_eq!(Session::libc_of(pid), Session::libc_of(0));
    }
    let recorded = Session::new(Origin::Recorded);
    assert_eq!((recorded.peek(pid, at, 8), recorded.regions(pid).len(), recorded.comm_of(pid)), (None, 0, None));
    // A thread of ours was started by us.
    let mut s = Session::new(Origin::Live);
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || receive.recv());
    let other = threads_of(pid).into_iter().find(|tid| *tid != pid).expect("a thread");
    s.task(pid, other);
    let fork = s
        .log()
        .in_order()
        .any(|(_, side)| matches!(side, SideBandEvent::Fork(fork) if fork.task.tid == other && fork.task.ptid == pid));
    assert!(fork);
    drop(send);
    let _ = thread.join();
}

/// /proc does not show exited threads: they keep their name from the session's start or from a record.
#[test]
fn threads_that_ended_unmet_keep_their_names() {
    const GONE: i32 = i32::MAX;
    let comm = |s: &mut Session, tid: i32| {
        let id = s.task(tid, tid);
        s.tasks()[id.0 as usize].comm.to_string()
    };
    let mut s = Session::new(Origin::Live);
    assert_eq!((comm(&mut s, GONE), s.comm_of(GONE)), (format!(":{GONE}"), None));
    s.told(GONE, b"late");
    assert_eq!((comm(&mut s, GONE).as_str(), s.comm_of(GONE).as_deref()), ("late", Some("late")));
    s.told(GONE, b"other");
    assert_eq!(comm(&mut s, GONE), "late", "only what nothing else tells");
    s.told(GONE - 1, b"early");
    assert_eq!((s.comm_of(GONE - 1).as_deref(), comm(&mut s, GONE - 1).as_str()), (Some("early"), "early"));
    // Unknown threads of a named process get its name.
    let id = s.task(GONE - 1, GONE - 2);
    assert_eq!(&*s.tasks()[id.0 as usize].comm, "early");
    s.learn_running();
    let own = std::process::id() as i32;
    assert_eq!(s.told.get(&own).cloned(), s.comm_of(own));
    assert!(s.told.contains_key(&1));
}

/// A sleeping process costs a name only: its mappings are read at its first sample.
#[test]
fn mappings_are_read_of_those_who_are_met_only() {
    let mut s = Session::new(Origin::Live);
    s.learn_running();
    assert!(s.told.len() > 1 && s.here().spaces.is_empty(), "{}", s.here().spaces.len());
    let own = std::process::id() as i32;
    s.task(own, own);
    assert_eq!(s.here().spaces.keys().copied().collect::<Vec<i32>>(), [own]);
    let here = mappings_are_read_of_those_who_are_met_only as fn() as usize as u64;
    assert_ne!(dso(&s, own, here), "[unknown]");
}

/// If data is looked up, a process inherits its parent's mappings without code, until it executes another program.
#[test]
fn data_is_mapped_where_it_is_asked_for() {
    let data = |pid: i32, start: u64, name: &'static str| match map(pid, start, 0x1000, name) {
        Record::Mmap(map) => Record::Mmap(Mmap { prot: 3, ..map }),
        other => other,
    };
    let at = |s: &Session, pid: i32, addr: u64| s.dsos.of_map(s.data_map(pid, addr)).short.to_string();
    for asked in [false, true] {
        let mut s = Session::new(Origin::Recorded);
        s.data = asked.then(FxHashMap::default);
        s.apply(&map(1, 0x1000, 0x1000, "/code"), 1);
        s.apply(&data(1, 0x3000, "/data"), 1);
        s.apply(&Record::Fork(task_of(2, 1, 2, 1)), 2);
        let found = if asked { "data" } else { "[unknown]" };
        assert_eq!([at(&s, 1, 0x1800), at(&s, 1, 0x3800), at(&s, 2, 0x3800)], ["code", found, found]);
        assert_eq!(dso(&s, 1, 0x3800), "[unknown]", "no code lies there");
        s.apply(&Record::Comm { pid: 2, tid: 2, exec: true, name: b"other" }, 3);
        assert_eq!([at(&s, 1, 0x3800), at(&s, 2, 0x3800)], [found, "[unknown]"]);
    }
}

/// Newer code of a JIT is another mapping, also when its memory grows, but not when a file is mapped there.
#[test]
fn newer_code_at_an_address_is_another_mapping() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(5, 0x1000, 0x1000, "//anon"), 1);
    let old = s.user_map(5, 0x1100);
    let at = 7 << 48 | 0x1100;
    s.recode(HostId::default(), 5, (0x1100, 0x1140), at);
    let new = s.user_map(5, 0x1100);
    let place = |s: &Session, ip| (s.user_map(5, ip), s.dsos.map_of(s.user_map(5, ip)).to_dso(ip));
    assert_ne!(old, new);
    assert_eq!(
        [0x10ff, 0x1100, 0x1105, 0x1140].map(|ip| place(&s, ip)),
        [(old, 0x10ff), (new, at), (new, at + 5), (old, 0x1140)]
    );
    s.apply(&map(5, 0x1000, 0x2000, "//anon"), 2);
    assert_eq!(place(&s, 0x1105), (new, at + 5));
    s.apply(&map(5, 0x1000, 0x2000, "/file"), 3);
    s.apply(&map(5, 0x1000, 0x2000, "//anon"), 4);
    assert_ne!(s.user_map(5, 0x1105), new);
    // A file does not contain JIT code.
    s.apply(&map(5, 0x8000, 0x1000, "/file"), 5);
    s.recode(HostId::default(), 5, (0x8000, 0x8010), 1 << 48 | 0x8000);
    assert_eq!(dso(&s, 5, 0x8000), "file");
}

#[test]
fn a_program_is_called_by_its_first_thread_also_where_another_is_met_first() {
    let (named, name_it) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let work = move || {
        named.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("heard");
        let _ = ends.recv();
    };
    let thread = std::thread::Builder::new().name("a worker".into()).spawn(work).expect("a thread");
    let (pid, tid) = (std::process::id() as i32, name_it.recv().expect("told"));
    let mut s = Session::new(Origin::Live);
    let worker = s.task(pid, tid);
    let own = procfs::comm(pid, pid).expect("our name");
    let task = &s.tasks()[worker.0 as usize];
    assert_eq!((&*task.comm, task.program.as_bytes()), ("a worker", &own[..]));
    assert_eq!((s.process_of(tid), s.descends(pid, &[pid])), (Some(pid), true));
    let first = s.task(pid, pid);
    assert_eq!(s.tasks()[first.0 as usize].program, s.tasks()[worker.0 as usize].program, "one tower");
    drop(end);
    thread.join().expect("ended");
}

#[test]
fn descent_is_followed_by_records_and_ends_in_circles() {
    let mut s = Session::new(Origin::Recorded);
    let fork = |s: &mut Session, pid: i32, ppid: i32| {
        s.apply(&Record::Fork(TaskRecord { pid, ppid, tid: pid, ptid: ppid, time: 1 }), 1);
    };
    [(11, 10), (12, 11), (20, 1), (31, 30), (30, 31)].iter().for_each(|(pid, ppid)| fork(&mut s, *pid, *ppid));
    let from_10 = [10, 11, 12, 20, 30, 31].map(|pid| s.descends(pid, &[10]));
    assert_eq!(from_10, [true, true, true, false, false, false]);
    assert!(s.descends(12, &[99, 11]) && !s.descends(12, &[]));
}

/// A live process has a command line; processes of a recording cannot be looked up.
#[test]
fn processes_have_command_lines_while_they_run() {
    let own = std::process::id() as i32;
    for (origin, known) in [(Origin::Live, true), (Origin::Recorded, false)] {
        let mut session = Session::new(origin);
        let task = session.task(own, own);
        let text = session.tasks()[task.0 as usize].cmdline.clone();
        assert_eq!(!text.is_empty(), known, "{text}");
        assert_eq!(session.cmdline_of(own), text);
        assert!(text.len() <= 3 * 1024 && !text.contains('\0'));
        assert_eq!(&*session.cmdline_of(-1), "");
    }
}
