//! Every unit that pairs a start with an end: ends without a start, starts without an end, changed and reused thread
//! ids, and records lost in between.

use crate::common::scenes::{MS, locks, sched, switch, wait as lock_wait, wake};
use crate::common::stage::{Stage, Value, number, rows};
use perfprof_tui::panel::Panel;
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::TaskRecord;
use perfprof_tui::units;
use perfprof_tui::units::kit::UnitSample;

use Value::{N, T};

/// Number of pairs, and their total time in milliseconds.
type Figures = (u64, u64);

/// A unit, the records that begin and end a pair on a lane (a thread, a CPU, a disk sector), and its figures.
struct Pairing {
    name: &'static str,
    stage: fn() -> Stage,
    /// At a time in milliseconds.
    begin: fn(&mut Stage, u64, i64),
    end: fn(&mut Stage, u64, i64),
    figures: fn(&[Panel]) -> Figures,
    /// The number of open pairs, if the unit shows it.
    open: fn(&[Panel]) -> Option<u64>,
    expected: Expected,
}

/// Expected pairs and milliseconds of each scenario.
struct Expected {
    end_alone: Figures,
    begin_twice: Figures,
    exec: Figures,
    number_again: Figures,
    lost: Figures,
    /// Open pairs of a thread that ended.
    left: u64,
}

/// Only pairs seen from start to end count.
const USUAL: Expected =
    Expected { end_alone: (0, 0), begin_twice: (1, 3), exec: (1, 5), number_again: (0, 0), lost: (0, 0), left: 0 };

fn made(name: &str, words: &[&str], events: &[(&str, &[&str])]) -> Stage {
    let mut stage = Stage::new(units::find(name).expect("a unit"), words);
    for (role, (event, fields)) in events.iter().enumerate() {
        stage.event(role, event, fields, "\"\"");
    }
    stage
}

/// A hit of a thread.
fn hit(stage: &mut Stage, role: usize, ms: u64, tid: i64, values: &[Value<'_>]) {
    let hit = UnitSample { tid: tid as i32, pid: tid as i32, ..stage.hit(role, ms * MS) };
    stage.give(hit, values);
}

fn panel<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title.starts_with(title)).unwrap_or_else(|| panic!("no panel {title}"))
}

/// The sums of two columns of a panel, the second in milliseconds.
fn sums(panels: &[Panel], title: &str, n: &str, ns: &str) -> Figures {
    let panel = panel(panels, title);
    let sum = |column: &str| (0..rows(panel).table.rows.len()).map(|row| number(panel, row, column)).sum::<f64>();
    (sum(n) as u64, (sum(ns) / MS as f64).round() as u64)
}

/// The number of rows with a time, and the sum of the times.
fn timed(panels: &[Panel], title: &str, ns: &str) -> Figures {
    let panel = panel(panels, title);
    let times: Vec<f64> = (0..rows(panel).table.rows.len()).map(|row| number(panel, row, ns)).collect();
    (times.iter().filter(|ns| **ns > 0.0).count() as u64, (times.iter().sum::<f64>() / MS as f64).round() as u64)
}

/// The number in the row that begins with some words.
fn in_row(panels: &[Panel], title: &str, words: &str, column: &str) -> u64 {
    let panel = panel(panels, title);
    let row = rows(panel).table.rows.iter().position(|row| row[0].text() == words).expect("a row");
    number(panel, row, column) as u64
}

fn calls() -> Stage {
    made(
        "syscalls",
        &[],
        &[("raw_syscalls:sys_enter", &["long id"]), ("raw_syscalls:sys_exit", &["long id", "long ret"])],
    )
}

fn blocks(name: &'static str) -> Stage {
    let words = ["--alloc", "app:alloc//ptr=at/size=n/", "--free", "app:free//ptr=at/", "--library", "libc.so"];
    made(name, &words, &[("app:alloc", &["long at", "int n"]), ("app:free", &["long at"])])
}

fn block(stage: &mut Stage, ms: u64, pid: i64) {
    hit(stage, 0, ms, pid, &[N(0x5000), N(64)]);
}

fn gives_back(stage: &mut Stage, ms: u64, pid: i64) {
    hit(stage, 1, ms, pid, &[N(0x5000)]);
}

const DISK: &[&str] = &["int dev", "sector_t sector", "int nr_sector", "char rwbs[8]"];

/// All pairing units.
fn all() -> Vec<Pairing> {
    let none: fn(&[Panel]) -> Option<u64> = |_| None;
    vec![
        Pairing {
            name: "syscalls",
            stage: calls,
            begin: |s, ms, tid| hit(s, 0, ms, tid, &[N(0)]),
            end: |s, ms, tid| hit(s, 1, ms, tid, &[N(0), N(5)]),
            figures: |panels| sums(panels, "Threads", "calls", "total_ns"),
            open: |panels| Some(rows(panel(panels, "Under way")).table.rows.len() as u64),
            expected: USUAL,
        },
        Pairing {
            name: "kvm-exit",
            stage: || {
                let exit = ["unsigned int exit_reason", "unsigned long guest_rip", "unsigned int isa"];
                made("kvm-exit", &[], &[("kvm:kvm_exit", &exit), ("kvm:kvm_entry", &["unsigned int vcpu_id"])])
            },
            begin: |s, ms, tid| hit(s, 0, ms, tid, &[N(12), N(0), N(1)]),
            end: |s, ms, tid| hit(s, 1, ms, tid, &[N(0)]),
            figures: |panels| sums(panels, "Exits", "calls", "total_ns"),
            open: none,
            expected: USUAL,
        },
        Pairing {
            name: "multi-trace",
            stage: || {
                let words = ["-e", "app:begin", "-e", "app:end", "--key", "tid"];
                made("multi-trace", &words, &[("app:begin", &["int x"]), ("app:end", &["int x"])])
            },
            begin: |s, ms, tid| hit(s, 0, ms, tid, &[N(0)]),
            end: |s, ms, tid| hit(s, 1, ms, tid, &[N(0)]),
            figures: |panels| sums(panels, "Pairs", "calls", "total_ns"),
            open: |panels| Some(sums(panels, "Unpaired", "open", "open").0),
            expected: USUAL,
        },
        Pairing {
            name: "nested-trace",
            stage: || {
                let words = ["-e", "app:begin,app:end"];
                made("nested-trace", &words, &[("app:begin", &["int x"]), ("app:end", &["int x"])])
            },
            begin: |s, ms, tid| hit(s, 0, ms, tid, &[N(0)]),
            end: |s, ms, tid| hit(s, 1, ms, tid, &[N(0)]),
            figures: |panels| sums(panels, "Tree", "calls", "total_ns"),
            open: none,
            expected: USUAL,
        },
        Pairing {
            name: "offcpu",
            stage: || sched("offcpu", &[]),
            begin: |s, ms, tid| switch(s, ms * MS, 0, (tid, 2), 0),
            end: |s, ms, tid| wake(s, ms * MS, 0, tid, 0),
            figures: |panels| sums(panels, "Blocked", "times", "blocked_ns"),
            open: |panels| Some(rows(panel(panels, "Under way")).table.rows.len() as u64),
            expected: USUAL,
        },
        Pairing {
            name: "waits",
            stage: || sched("waits", &[]),
            begin: |s, ms, tid| switch(s, ms * MS, 0, (tid, 2), 0),
            end: |s, ms, tid| wake(s, ms * MS, 0, tid, 0),
            figures: |panels| timed(panels, "Threads", "other_ns"),
            open: none,
            expected: USUAL,
        },
        Pairing {
            name: "locks",
            stage: locks,
            begin: |s, ms, tid| lock_wait(s, ms * MS, tid as i32, 0xa000, 0, &["main", "pthread_mutex_lock"]),
            end: |s, ms, tid| hit(s, 5, ms, tid, &[N(0)]),
            figures: |panels| sums(panels, "Locks", "waits", "waited_ns"),
            open: none,
            // A thread that calls exec no longer waits.
            expected: Expected { exec: (0, 0), ..USUAL },
        },
        Pairing {
            name: "wakeups",
            stage: || sched("wakeups", &[]),
            begin: |s, ms, tid| wake(s, ms * MS, 0, tid, 0),
            end: |s, ms, tid| switch(s, ms * MS, 0, (0, 0), tid),
            figures: |panels| timed(panels, "Wakers, wakees", "max_ns"),
            open: none,
            expected: USUAL,
        },
        Pairing {
            name: "rundelay",
            stage: || sched("rundelay", &[]),
            begin: |s, ms, tid| wake(s, ms * MS, 0, tid, 0),
            end: |s, ms, tid| switch(s, ms * MS, 0, (0, 0), tid),
            figures: |panels| sums(panels, "Threads", "calls", "total_ns"),
            open: none,
            // Another wakeup of a waiting task does not start a wait.
            expected: Expected { begin_twice: (1, 13), ..USUAL },
        },
        Pairing {
            name: "oncpu",
            stage: || sched("oncpu", &[]),
            begin: |s, ms, tid| switch(s, ms * MS, 0, (0, 0), tid),
            end: |s, ms, tid| switch(s, ms * MS, 0, (tid, 1), 0),
            figures: |panels| sums(panels, "Tasks", "runs", "ran_ns"),
            open: none,
            // Two switches to a task without one from it: the start of the run is unknown. A thread that leaves at the
            // first switch has run since the start or since the loss; an ended thread ran up to the switch from it.
            expected: Expected { end_alone: (1, 0), number_again: (1, 7), lost: (1, 1), ..USUAL },
        },
        Pairing {
            name: "task-state",
            stage: || sched("task-state", &[]),
            begin: |s, ms, tid| switch(s, ms * MS, 0, (0, 0), tid),
            end: |s, ms, tid| switch(s, ms * MS, 0, (tid, 1), 0),
            figures: |panels| timed(panels, "Tasks", "r_ns"),
            open: |panels| {
                let tasks = panel(panels, "Tasks");
                let runs = |row: &usize| crate::common::stage::cell(tasks, *row, "state").text() == "R";
                Some((0..rows(tasks).table.rows.len()).filter(runs).count() as u64)
            },
            // A task always has a state. A thread that calls exec has one row before it and another after. The ended
            // thread ran until its end; the start of the new one is unknown. A run is counted up to a loss, and from
            // it on.
            expected: Expected { begin_twice: (1, 13), exec: (2, 5), number_again: (1, 1), lost: (1, 2), ..USUAL },
        },
        Pairing {
            name: "kmemleak",
            stage: || blocks("kmemleak"),
            begin: block,
            end: gives_back,
            figures: |panels| (in_row(panels, "Totals", "freed", "objects"), 0),
            open: |panels| Some(in_row(panels, "Totals", "survives", "objects")),
            // An allocation at the address of a block implies that the block was freed. The blocks of an ended process
            // are its leaks, and lost records free no blocks.
            expected: Expected { begin_twice: (2, 0), exec: (0, 0), lost: (1, 0), left: 1, ..USUAL },
        },
        Pairing {
            name: "kmemprof",
            stage: || blocks("kmemprof"),
            begin: block,
            end: gives_back,
            figures: |panels| sums(panels, "Allocations", "freed", "life_ns"),
            open: none,
            expected: Expected { exec: (0, 0), lost: (1, 0), ..USUAL },
        },
        Pairing {
            name: "blktrace",
            stage: || {
                let events = ["getrq", "rq_insert", "rq_issue", "rq_complete", "rq_requeue"];
                let mut stage = made("blktrace", &[], &[]);
                for (role, event) in events.iter().enumerate() {
                    stage.event(role, &format!("block:block_{event}"), DISK, "\"\"");
                }
                stage
            },
            begin: |s, ms, sector| hit(s, 2, ms, 1, &[N(8 << 20), N(sector), N(8), T("W")]),
            end: |s, ms, sector| hit(s, 3, ms, 1, &[N(8 << 20), N(sector), N(8), T("W")]),
            figures: |panels| sums(panels, "Devices", "calls", "total_ns"),
            open: |panels| Some(sums(panels, "Devices", "depth", "depth").0),
            // Sectors do not belong to threads.
            expected: Expected { exec: (0, 0), number_again: (1, 7), ..USUAL },
        },
        Pairing {
            name: "kvmmmu",
            stage: || {
                let page = ["unsigned long gfn", "unsigned int role", "unsigned int created"];
                let events = [("kvmmmu:kvm_mmu_get_page", &page[..]), ("kvmmmu:kvm_mmu_prepare_zap_page", &page[..])];
                made("kvmmmu", &[], &events)
            },
            begin: |s, ms, frame| hit(s, 0, ms, 1, &[N(frame), N(1), N(1)]),
            end: |s, ms, frame| hit(s, 1, ms, 1, &[N(frame), N(1), N(0)]),
            figures: |panels| (sums(panels, "Shadow pages", "zapped", "zapped").0, 0),
            open: |panels| Some(sums(panels, "Shadow pages", "alive", "alive").0),
            // Zapping counts even if the creation of the page was not seen.
            expected: Expected {
                end_alone: (1, 0),
                begin_twice: (1, 0),
                exec: (1, 0),
                number_again: (1, 0),
                lost: (1, 0),
                left: 0,
            },
        },
    ]
}

fn task(pid: i32, tid: i32) -> TaskRecord {
    TaskRecord { pid, ppid: pid, tid, ptid: pid, time: 0 }
}

#[test]
fn an_end_without_a_beginning_is_no_pair() {
    for one in all() {
        let mut stage = (one.stage)();
        (one.end)(&mut stage, 5, 11);
        let panels = stage.panels();
        assert_eq!((one.figures)(&panels), one.expected.end_alone, "{}", one.name);
        assert!((one.open)(&panels).is_none_or(|open| open == 0), "{}", one.name);
    }
}

#[test]
fn a_beginning_without_an_end_is_under_way_until_the_next() {
    for one in all() {
        let mut stage = (one.stage)();
        (one.begin)(&mut stage, 0, 11);
        let panels = stage.panels();
        assert!((one.open)(&panels).is_none_or(|open| open == 1 || one.name == "blktrace"), "{}", one.name);
        (one.begin)(&mut stage, 10, 11);
        (one.end)(&mut stage, 13, 11);
        let panels = stage.panels();
        assert_eq!((one.figures)(&panels), one.expected.begin_twice, "{}", one.name);
        assert!((one.open)(&panels).is_none_or(|open| open == 0), "{}", one.name);
    }
}

/// Thread 11 of process 10 calls exec: the main thread ends, and thread 11 takes its id.
#[test]
fn a_thread_that_calls_exec_keeps_what_it_began() {
    for one in all() {
        let mut stage = (one.stage)();
        stage.thread(&Record::Fork(task(10, 11)), 0);
        stage.thread(&Record::Fork(task(10, 12)), 0);
        let on_threads = !matches!(one.name, "kmemleak" | "kmemprof");
        (one.begin)(&mut stage, 0, if on_threads { 11 } else { 10 });
        stage.thread(&Record::Exit(task(10, 12)), MS);
        stage.thread(&Record::Exit(task(10, 10)), MS);
        stage.thread(&Record::Comm { pid: 10, tid: 10, exec: true, name: b"new" }, 2 * MS);
        (one.end)(&mut stage, 5, if one.name == "kvmmmu" { 11 } else { 10 });
        stage.until(1000 * MS);
        let panels = stage.panels();
        assert_eq!((one.figures)(&panels), one.expected.exec, "{}", one.name);
        assert!((one.open)(&panels).is_none_or(|open| open == 0), "{}", one.name);
    }
}

/// A thread ends, and another one gets its id.
#[test]
fn a_number_that_comes_again_is_another_thread() {
    for one in all() {
        let mut stage = (one.stage)();
        (one.begin)(&mut stage, 0, 11);
        stage.thread(&Record::Exit(task(11, 11)), MS);
        stage.thread(&Record::Fork(task(11, 11)), 5 * MS);
        (one.end)(&mut stage, 7, 11);
        let panels = stage.panels();
        assert_eq!((one.figures)(&panels), one.expected.number_again, "{}", one.name);
        assert!((one.open)(&panels).is_none_or(|open| open == one.expected.left), "{}", one.name);
    }
}

#[test]
fn nothing_spans_records_that_were_lost() {
    for one in all() {
        let mut stage = (one.stage)();
        (one.begin)(&mut stage, 0, 11);
        stage.lose(None, MS, 4 * MS, 7);
        (one.end)(&mut stage, 5, 11);
        let panels = stage.panels();
        assert_eq!((one.figures)(&panels), one.expected.lost, "{}", one.name);
        assert!((one.open)(&panels).is_none_or(|open| open == 0), "{}", one.name);
    }
}

/// fork, vfork, clone and clone3 return in two threads, but are calls of the parent only.
#[test]
fn a_new_threads_return_is_no_call() {
    let mut stage = calls();
    for (ms, number) in [(0, 56), (10, 57), (20, 58), (30, 435)] {
        hit(&mut stage, 0, ms, 10, &[N(number)]);
        // A child with a FORK record, and one without.
        if number == 57 {
            stage.thread(&Record::Fork(task(20, 20)), (ms + 1) * MS);
        }
        hit(&mut stage, 1, ms + 2, 20, &[N(number), N(0)]);
        hit(&mut stage, 1, ms + 3, 10, &[N(number), N(20)]);
    }
    // A program that the kernel starts returns from an exec that it did not call.
    stage.thread(&Record::Fork(task(30, 30)), 40 * MS);
    hit(&mut stage, 1, 41, 30, &[N(59), N(0)]);
    // A call that had begun before, and one that seccomp rejects, count without a time.
    hit(&mut stage, 1, 42, 40, &[N(7), N(1)]);
    hit(&mut stage, 1, 43, 10, &[N(101), N(-1)]);
    let panels = stage.panels();
    assert_eq!(sums(&panels, "Calls", "calls", "total_ns"), (6, 12));
    assert!(panel(&panels, "Calls").note.starts_with("2 calls without a time"), "{}", panel(&panels, "Calls").note);
}

/// execveat returns with the number of execve, a signal handler with none.
#[test]
fn a_return_ends_the_call_of_its_thread_whatever_its_number() {
    let mut stage = calls();
    for (ms, enters, returns) in [(0, 322, 59), (10, 15, -1), (20, 11, 59)] {
        hit(&mut stage, 0, ms, 10, &[N(enters)]);
        hit(&mut stage, 1, ms + 2, 10, &[N(returns), N(0)]);
    }
    let panels = stage.panels();
    assert_eq!(sums(&panels, "Threads", "calls", "total_ns"), (3, 6));
    let calls = panel(&panels, "Calls");
    let mut names: Vec<String> = rows(calls).table.rows.iter().map(|row| row[0].text()).collect();
    names.sort();
    assert_eq!(names, ["execveat", "munmap", "rt_sigreturn"]);
    assert_eq!(calls.note, "");
}

/// A libc call that never returned does not hide later calls.
#[test]
fn allocations_are_seen_after_a_call_that_did_not_return() {
    let spec = units::find("kmemleak").expect("a unit");
    let mut stage = Stage::new(spec, &["--library", "/nonexistent/libc.so"]);
    let names: Vec<String> = stage.unit.event_requests().iter().map(|want| want.event.clone()).collect();
    for (role, name) in names.iter().enumerate() {
        let fields: &[&str] =
            if name.ends_with("__return") { &["u64 value"] } else { &["u64 a0", "u64 a1", "u64 caller"] };
        stage.event(role, &format!("probe:{name}"), fields, "\"\"");
    }
    let role = |name: &str| names.iter().position(|known| known == name).expect("a probe");
    for lost in ["malloc", "mmap", "calloc"] {
        hit(&mut stage, role(lost), 0, 10, &[N(1), N(1), N(0)]);
        for (at, function) in [(0x100, "calloc"), (0x200, "malloc"), (0x300, "calloc")] {
            // calloc allocates its memory with malloc.
            hit(&mut stage, role(function), 1, 10, &[N(8), N(2), N(0)]);
            if function == "calloc" {
                hit(&mut stage, role("malloc"), 1, 10, &[N(16), N(0), N(0)]);
                hit(&mut stage, role("malloc__return"), 1, 10, &[N(at)]);
            }
            hit(&mut stage, role(&format!("{function}__return")), 2, 10, &[N(at)]);
            hit(&mut stage, role("free"), 3, 10, &[N(at), N(0), N(0)]);
        }
    }
    let panels = stage.panels();
    assert_eq!(in_row(&panels, "Totals", "allocated", "objects"), 9);
    assert_eq!(in_row(&panels, "Totals", "allocated", "bytes"), 3 * (16 + 8 + 16));
    assert_eq!(in_row(&panels, "Totals", "freed", "objects"), 9);
}

/// If few of many issued requests complete, the others are reported, and no queue is deeper than its disk's.
#[test]
fn completions_that_are_missing_are_named() {
    let blktrace = all().into_iter().find(|one| one.name == "blktrace").expect("a pairing");
    let mut stage = (blktrace.stage)();
    for i in 0..1000i64 {
        (blktrace.begin)(&mut stage, 4 * i as u64, 8 * i);
        if i % 4 == 0 {
            (blktrace.end)(&mut stage, 4 * i as u64 + 1, 8 * i);
        }
    }
    stage.settle();
    let panels = stage.panels();
    let note = &panel(&panels, "Stages").note;
    // The most recent requests may still be in flight.
    let words = |completed: u64, missing: u64| {
        format!(
            "of 1,000 issued requests with a sector, {completed} completed, 10 under way, {missing} never completed: their \
             completions are missing; the figures contain the completed ones"
        )
    };
    assert_eq!(*note, words(250, 740));
    assert_eq!(sums(&panels, "Devices", "calls", "total_ns"), (250, 250));
    assert_eq!(sums(&panels, "Devices", "depth", "depth").0, 10);
    // A late completion is counted with the others.
    (blktrace.end)(&mut stage, 5000, 8);
    let panels = stage.panels();
    assert_eq!(panel(&panels, "Stages").note, words(251, 739));
    assert_eq!(sums(&panels, "Devices", "depth", "depth").0, 10);
    // Two flushes have the same sector; the second does not replace the first.
    let mut stage = (blktrace.stage)();
    for ms in 0..2 {
        hit(&mut stage, 2, ms, 1, &[N(8 << 20), N(0), N(0), T("FF")]);
    }
    assert_eq!(panel(&stage.panels(), "Stages").note.matches(" never ").count(), 0);
    // A requeued request is issued again.
    let mut stage = (blktrace.stage)();
    (blktrace.begin)(&mut stage, 0, 8);
    hit(&mut stage, 4, 1, 1, &[N(8 << 20), N(8), N(8), T("W")]);
    (blktrace.begin)(&mut stage, 2, 8);
    (blktrace.end)(&mut stage, 6, 8);
    let panels = stage.panels();
    assert_eq!((sums(&panels, "Devices", "calls", "total_ns"), panel(&panels, "Stages").note.as_str()), ((1, 6), ""));
}
