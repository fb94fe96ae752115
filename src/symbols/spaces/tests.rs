//! Processes that start, change and exit, with a store that only counts.

use std::collections::BTreeSet;

use crossbeam_channel::TryRecvError;
use proptest::prelude::*;

use super::built_table::{BuildRequest, BuiltTable};
use super::files::tests::{BuildCounter, may_look};
use super::*;
use crate::kernel;

/// An event later than all that was read.
const LATE: u64 = u64::MAX;

fn wakeup() -> Arc<WakeSignal> {
    Arc::new(WakeSignal::new().expect("a descriptor"))
}

fn spaces(room: usize) -> AddressSpaceTracker<BuildCounter> {
    AddressSpaceTracker::new(BuildCounter { room, ..BuildCounter::default() }, Files::default(), Arc::default())
}

#[test]
fn tables_follow_a_process_from_its_first_sample_to_its_end() {
    if !may_look("tables_follow_a_process_from_its_first_sample_to_its_end") {
        return;
    }
    let (pid, mut spaces) = (std::process::id() as i32, spaces(1 << 40));
    let later = || Instant::now() + LONG_PAUSE;
    spaces.take(ProcessEvent::Mapped { pid, at: LATE });
    assert!(spaces.due.is_empty(), "it was never sampled");
    spaces.take(ProcessEvent::Lacks { pid, what: 1, number: Some(pid as u32) });
    spaces.step(later());
    let mapped = spaces.store.processes[&pid].clone();
    assert!(mapped.iter().any(|mapping| mapping.span.is_some()));
    let told = spaces.tables.load();
    assert_eq!((told.processes, told.limit), (1, 8 << 40));
    assert!(told.files.iter().any(|file| matches!(file.made, TableOutcome::Of(".eh_frame", rows) if rows > 100)));
    let tables = spaces.store.used.len();
    spaces.take(ProcessEvent::Forked { parent: pid, child: 1 << 30, at: LATE });
    assert_eq!(spaces.store.processes[&(1 << 30)], mapped);
    assert_eq!(spaces.store.used.len(), tables, "a child has its parent's");
    spaces.take(ProcessEvent::Executed { pid: 1 << 30, at: LATE });
    assert!(!spaces.store.processes.contains_key(&(1 << 30)));
    // The process may have been read after these events.
    spaces.take(ProcessEvent::Forked { parent: 1, child: pid, at: LATE });
    spaces.take(ProcessEvent::Executed { pid, at: LATE });
    assert!(spaces.store.processes.contains_key(&pid) && spaces.due.contains_key(&pid));
    spaces.step(Instant::now());
    assert!(spaces.store.processes[&pid] == mapped && spaces.due.is_empty());
    // It was read after the time of earlier events.
    let at = spaces.processes[&pid].known_at - 1;
    spaces.take(ProcessEvent::Forked { parent: 1, child: pid, at });
    spaces.take(ProcessEvent::Executed { pid, at });
    spaces.take(ProcessEvent::Mapped { pid, at });
    assert!(spaces.store.processes[&pid] == mapped && spaces.due.is_empty());
    // A lost exit event is compensated by the sweep.
    spaces.take(ProcessEvent::Forked { parent: pid, child: 1 << 30, at: LATE });
    spaces.step(Instant::now() + SWEEP);
    assert_eq!(spaces.processes.keys().copied().collect::<Vec<i32>>(), [pid]);
    spaces.take(ProcessEvent::Exited { pid });
    spaces.step(later());
    assert!(spaces.store.processes.is_empty() && spaces.tables.load().files.is_empty());
    // Its file's table is kept for the next process.
    assert_eq!(spaces.store.used.len(), tables);
    spaces.take(ProcessEvent::Lacks { pid, what: 1, number: Some(pid as u32) });
    spaces.step(later());
    assert_eq!(spaces.store.used.len(), tables);
}

/// The thread ends with its session, and does not spin when no more commands are started.
#[test]
fn the_thread_ends_with_its_session() {
    let wakeup = wakeup();
    let ((sender, news), (starts, starting), (done, made)) =
        (process_events::channel(&wakeup), unbounded(), unbounded());
    let (ended, is_ended) = bounded(1);
    let from = Inputs { wakeup, asks: None, news, made, starting };
    let run = move || {
        spaces(0).run(from);
        let _ = ended.send(kernel::thread_cpu_ns());
    };
    kernel::thread("tables", run).expect("a thread");
    drop(starts);
    std::thread::sleep(Duration::from_secs(2));
    drop(sender);
    let spent = is_ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
    // The start alone took 0.11 s on a slow machine.
    assert!(spent < 600_000_000, "{spent} ns of CPU time for nothing");
    drop(done);
}

/// A command has its tables before its first instruction: also those of large files, for which it waits.
#[test]
fn tables_of_a_command_exist_before_it_starts() {
    if !may_look("tables_of_a_command_exist_before_it_starts") {
        return;
    }
    let (pid, own) = (std::process::id() as i32, std::env::current_exe().expect("a path"));
    let ((jobs, wanted), (done, is_done)) = (unbounded(), bounded(0));
    let mut spaces = spaces(1 << 40);
    let hasher = ContentHasher::default();
    spaces.files = Files::new(hasher.clone(), jobs);
    spaces.prepare(Starting::new(pid, own, done));
    let large: Vec<BuildRequest> = wanted.try_iter().collect();
    assert!(!large.is_empty(), "this program is large");
    assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty));
    let dir = tempfile::tempdir().expect("a folder");
    let other = std::fs::File::create_new(dir.path().join("large")).expect("a file");
    other.set_len(8 << 20).expect("sparse");
    let other =
        std::fs::File::open(dir.path().join("large")).map(|file| spaces.files.of_file("", &file, &mut spaces.store));
    assert_eq!((other.expect("open").is_some(), wanted.len()), (true, 1), "a large file of another process");
    for job in large {
        let made = BuiltTable::of(&job.bytes, &hasher, |_| false);
        spaces.take_made((job, made));
    }
    assert_eq!(is_done.try_recv(), Err(TryRecvError::Disconnected), "all of its own exist");
    wanted.try_iter().for_each(drop);
    let tables = spaces.store.used.len();
    assert!(tables > 2, "its libraries have tables, too");
    spaces.take(ProcessEvent::Lacks { pid, what: 1, number: Some(pid as u32) });
    spaces.step(Instant::now() + LONG_PAUSE);
    let is_vdso = |file: &FileTable| &*file.name == "[vdso]";
    let vdso = spaces.tables.load().files.iter().filter(|file| is_vdso(file)).count();
    assert_eq!((spaces.store.used.len(), wanted.len()), (tables + vdso, 0));
}

#[test]
fn processes_that_may_be_walked_are_read_when_no_other_waits() {
    if !may_look("processes_that_may_be_walked_are_read_when_no_other_waits") {
        return;
    }
    let (pid, mut spaces) = (std::process::id() as i32, spaces(1 << 40));
    spaces.take(ProcessEvent::Runs { pid });
    spaces.take(ProcessEvent::Runs { pid });
    spaces.step(Instant::now() + LONG_PAUSE);
    assert!(spaces.store.processes.is_empty(), "it has not asked");
    spaces.read_early();
    let read = spaces.processes.get(&pid).map(|process| process.read);
    assert!(read.is_some() && spaces.store.processes.contains_key(&pid));
    spaces.read_early();
    assert_eq!(spaces.processes.get(&pid).map(|process| process.read), read, "it is known");
    assert!(spaces.early.is_empty());
}

#[test]
fn who_had_no_room_is_served_when_there_is_some() {
    if !may_look("who_had_no_room_is_served_when_there_is_some") {
        return;
    }
    let (pid, mut spaces) = (std::process::id() as i32, spaces(0));
    spaces.take(ProcessEvent::Lacks { pid, what: 1, number: Some(pid as u32) });
    spaces.step(Instant::now() + LONG_PAUSE);
    assert!(spaces.store.processes[&pid].iter().all(|mapping| mapping.span.is_none()));
    let full = |file: &FileTable| matches!(file.made, TableOutcome::Full(_));
    assert!(spaces.tables.load().files.iter().any(full));
    spaces.store.room = 1 << 40;
    // A process ends, which makes room.
    spaces.files.make_room();
    for _ in 0..2 {
        spaces.step(Instant::now() + LONG_PAUSE);
    }
    assert!(spaces.store.processes[&pid].iter().any(|mapping| mapping.span.is_some()));
    assert!(!spaces.tables.load().files.iter().any(full));
}

/// The program of these tests is large, the library that it has mapped is not.
#[test]
fn nobody_waits_for_the_table_of_a_large_file() {
    if !may_look("nobody_waits_for_the_table_of_a_large_file") {
        return;
    }
    let pid = std::process::id() as i32;
    let (hasher, (elsewhere, jobs)) = (ContentHasher::default(), crossbeam_channel::unbounded());
    let mut spaces = spaces(1 << 40);
    spaces.files = Files::new(hasher.clone(), elsewhere);
    spaces.take(ProcessEvent::Lacks { pid, what: 1, number: Some(pid as u32) });
    spaces.step(Instant::now());
    let maps = procfs::exec_maps(pid);
    let here = nobody_waits_for_the_table_of_a_large_file as fn() as usize as u64;
    let own = maps.iter().find(|map| (map.start..map.end).contains(&here)).expect("mapped").start;
    let library = maps.iter().find(|map| map.name.ends_with(b"/libc.so.6")).expect("mapped").start;
    let has_rows = |spaces: &AddressSpaceTracker<BuildCounter>, at: u64| {
        spaces.store.processes[&pid].iter().any(|mapping| mapping.start == at && mapping.span.is_some())
    };
    assert_eq!((has_rows(&spaces, library), has_rows(&spaces, own)), (true, false));
    let job = jobs.try_recv().expect("it is wanted");
    assert!(jobs.is_empty(), "once");
    let made = BuiltTable::of(&job.bytes, &hasher, |_| false);
    spaces.take_made((job, made));
    spaces.step(Instant::now());
    assert!(has_rows(&spaces, own));
    let coming = |file: &FileTable| file.made == TableOutcome::Coming;
    assert!(!spaces.files.told().iter().any(coming));
}

/// The second file with the same content is only reported as known.
#[test]
fn large_files_are_made_until_nobody_asks() {
    let (jobs, made) = built_table::start(ContentHasher::default(), &wakeup()).expect("a thread");
    let bytes = crate::symbols::bytes::Bytes::from(std::fs::read("/bin/sh").expect("a shell"));
    for (id, anew) in [(1, false), (2, false), (3, true)] {
        jobs.send(BuildRequest { id, bytes: bytes.clone(), anew }).expect("it waits");
    }
    drop(jobs);
    let made: Vec<(Id, Option<u64>, bool)> =
        made.iter().map(|(job, made)| (job.id, made.digest, made.rows.is_some())).collect();
    let digest = made[0].1;
    assert!(digest.is_some());
    assert_eq!(made, [(1, digest, true), (2, digest, false), (3, digest, true)]);
}

fn any_news() -> impl Strategy<Value = ProcessEvent> {
    let own = std::process::id() as i32;
    let pid = || prop::sample::select(vec![own, 1 << 30, (1 << 30) + 1, (1 << 30) + 2]);
    prop_oneof![
        4 => (pid(), pid()).prop_map(|(parent, child)| ProcessEvent::Forked { parent, child, at: LATE }),
        1 => pid().prop_map(|pid| ProcessEvent::Executed { pid, at: LATE }),
        1 => pid().prop_map(|pid| ProcessEvent::Exited { pid }),
        1 => pid().prop_map(|pid| ProcessEvent::Mapped { pid, at: LATE }),
        1 => pid().prop_map(|pid| ProcessEvent::Lacks { pid, what: 1, number: None }),
    ]
}

#[test]
fn news_that_do_not_last_leave_nothing() {
    if !may_look("news_that_do_not_last_leave_nothing") {
        return;
    }
    let pid = std::process::id() as i32;
    let after = |news: &[ProcessEvent]| {
        let mut spaces = spaces(1 << 40);
        let one = Mapping::without_rows(1, 2);
        let (maps, files, read) = (Arc::default(), Vec::new(), Instant::now());
        let process = Process {
            maps,
            mappings: Arc::new([one]),
            turns: Turns::default(),
            files,
            read,
            known_at: 0,
            pause: PAUSE,
            is_own: true,
            stale: false,
            jit: None,
            jit_spans: JitSpans::new(Vec::new()),
            interpreter: None,
        };
        spaces.store.processes.insert(pid, vec![one]);
        spaces.put(pid, process);
        news.iter().for_each(|one| spaces.take(*one));
        let due: BTreeSet<i32> = spaces.due.keys().copied().collect();
        (spaces.store.processes, due)
    };
    proptest!(|(news in prop::collection::vec(any_news(), 0..24))| {
        let lasting = process_events::lasting(news.clone());
        prop_assert_eq!(after(&lasting), after(&news));
    });
    let storm = [
        ProcessEvent::Forked { parent: pid, child: 1 << 30, at: LATE },
        ProcessEvent::Executed { pid: 1 << 30, at: LATE },
        ProcessEvent::Exited { pid: 1 << 30 },
    ];
    assert_eq!(process_events::lasting(storm.to_vec()), storm[1..]);
}

#[test]
fn who_missed_news_looks_at_all_again() {
    let (sender, news) = process_events::channel(&wakeup());
    for pid in 0..1 << 16 {
        sender.add(ProcessEvent::Exited { pid });
    }
    assert!(!news.have_missed());
    sender.add(ProcessEvent::Exited { pid: 1 << 16 });
    assert!(news.have_missed() && !news.have_missed());
    assert_eq!(news.receiver.len(), 1 << 16);
    if !may_look("who_missed_news_looks_at_all_again") {
        return;
    }
    let (pid, mut spaces) = (std::process::id() as i32, spaces(1 << 40));
    spaces.take(ProcessEvent::Lacks { pid, what: 1, number: None });
    spaces.step(Instant::now());
    spaces.take(ProcessEvent::Forked { parent: pid, child: 1 << 30, at: LATE });
    spaces.look_anew();
    spaces.step(Instant::now());
    assert_eq!(spaces.store.processes.keys().copied().collect::<Vec<i32>>(), [pid], "the other number has no process");
}
