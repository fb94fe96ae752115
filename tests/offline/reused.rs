//! A number that two threads have within an interval: units show each of them as a row, under its own name.

use std::collections::BTreeMap;

use crate::common::scenes::{
    HERE, MS, THERE, dns, dns_query, files, locks, open_file, sched, socket, switch, tcp, unlock, wait, waits, wake,
};
use crate::common::stage::{START, Stage, Value, cell, number, rows};
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::{Mmap, TaskRecord};
use perfprof_tui::units;
use perfprof_tui::units::kit::UnitSample;

use Value::N;

/// The number of both threads.
const TID: i32 = 30;

/// A unit, what its thread does (for how many milliseconds, or how many times), and the column that shows it.
struct Reuse {
    name: &'static str,
    stage: fn() -> Stage,
    act: fn(&mut Stage, u64, u64),
    panel: &'static str,
    /// The columns of the thread's name and of the figure; without the latter, rows are counted.
    columns: (&'static str, &'static str),
}

fn stage(name: &str, words: &[&str], events: &[(&str, &[&str])]) -> Stage {
    let mut stage = Stage::new(units::find(name).expect("a unit"), words);
    for (role, (event, fields)) in events.iter().enumerate() {
        match fields.is_empty() {
            true => stage.plain(role, event),
            false => stage.event(role, event, fields, "\"\""),
        };
    }
    stage
}

fn give(stage: &mut Stage, role: usize, ms: u64, values: &[Value<'_>]) {
    let hit = UnitSample { tid: TID, pid: TID, ..stage.hit(role, ms * MS) };
    stage.give(hit, values);
}

/// The thread runs.
fn runs(stage: &mut Stage, at: u64, took: u64) {
    switch(stage, at * MS, 0, (0, 0), TID.into());
    switch(stage, (at + took) * MS, 0, (TID.into(), 1), 0);
}

/// It waits for a CPU.
fn is_runnable(stage: &mut Stage, at: u64, took: u64) {
    wake(stage, at * MS, 10, TID.into(), 0);
    runs(stage, at + took, 1);
}

/// It sleeps, until another thread wakes it.
fn sleeps(stage: &mut Stage, at: u64, took: u64) {
    runs(stage, at, 1);
    wake(stage, (at + 1 + took) * MS, 10, TID.into(), 0);
}

fn calls(stage: &mut Stage, at: u64, took: u64) {
    give(stage, 0, at, &[N(0)]);
    give(stage, 1, at + took, &[N(0), N(1)]);
}

fn opens(stage: &mut Stage, at: u64, took: u64) {
    open_file(stage, at * MS, took * MS, TID, "/etc/hosts", 3);
}

/// It waits for a lock, until another thread releases that.
fn waits_for_lock(stage: &mut Stage, at: u64, took: u64) {
    wait(stage, at * MS, TID, 0xa000, 0, &["main", "pthread_mutex_lock", "__lll_lock_wait", "futex_[k]"]);
    unlock(stage, (at + took - 1) * MS, 4, TID, &["main", "pthread_mutex_unlock"]);
}

/// It opens connections.
fn connects(stage: &mut Stage, at: u64, times: u64) {
    for number in 0..times as i64 {
        socket(stage, 0, at * MS, TID, &[0xa0 + number, 7, 2], [0, 5432], [HERE, THERE]);
    }
}

/// It looks up names.
fn asks(stage: &mut Stage, at: u64, times: u64) {
    for number in 0..times as u16 {
        dns_query(stage, at * MS + u64::from(number), TID, "10.0.0.2:53", (40_000, number), "a.test");
    }
}

/// Its event occurs some times.
fn hits(stage: &mut Stage, at: u64, times: u64) {
    (0..times).for_each(|_| give(stage, 0, at, &[N(40)]));
}

fn syscalls() -> Stage {
    let exit: &[&str] = &["long id", "long ret"];
    stage("syscalls", &[], &[("raw_syscalls:sys_enter", &["long id"]), ("raw_syscalls:sys_exit", exit)])
}

const EXEC: &str = "sched:sched_process_exec";

fn all() -> Vec<Reuse> {
    let row = |name, stage, act, panel, columns| Reuse { name, stage, act, panel, columns };
    vec![
        row("task-state", || sched("task-state", &[]), runs, "Tasks", ("comm", "r_ns")),
        row("oncpu", || sched("oncpu", &[]), runs, "Tasks", ("comm", "ran_ns")),
        row("rundelay", || sched("rundelay", &[]), is_runnable, "Threads", ("comm", "total_ns")),
        row("rundelay", || sched("rundelay", &[]), is_runnable, "Longest waits", ("comm", "delay_ns")),
        row("offcpu", || sched("offcpu", &[]), sleeps, "Blocked", ("comm", "blocked_ns")),
        row("waits", || waits(&[]), runs, "Threads", ("comm", "unsampled_ns")),
        row("wakeups", || sched("wakeups", &[]), |s, at, _| sleeps(s, at, 1), "Wakers", ("woken", "times")),
        row("syscalls", syscalls, calls, "Threads", ("comm", "total_ns")),
        row("syscalls", syscalls, calls, "Slowest", ("comm", "ns")),
        row("locks", locks, waits_for_lock, "Waiters", ("comm", "waited_ns")),
        row("tcp", tcp, connects, "Processes", ("comm", "opened")),
        row("dns", dns, asks, "Processes", ("comm", "queries")),
        row("files", files, opens, "Processes", ("comm", "total_ns")),
        row(
            "forks",
            || stage("forks", &[], &[("sched:sched_process_fork", &["int child_pid"])]),
            hits,
            "Forks",
            ("comm", "forks"),
        ),
        row("trace", || stage("trace", &["-e", EXEC], &[(EXEC, &["int old_pid"])]), hits, "Log", ("comm", "")),
        row("top", || stage("top", &["-e", EXEC], &[(EXEC, &["int old_pid"])]), hits, "By tid", ("comm", EXEC)),
        row(
            "page-faults",
            || stage("page-faults", &[], &[("minor-faults", &[]), ("major-faults", &[])]),
            hits,
            "By stack",
            ("task", "faults"),
        ),
    ]
}

/// Passes a record to the names, the session and the unit, like a source.
fn tell(stage: &mut Stage, record: &Record<'_>, ms: u64) {
    stage.names.follow(record, START + ms * MS, &stage.session);
    stage.thread(record, ms * MS);
}

fn task(pid: i32, tid: i32) -> TaskRecord {
    TaskRecord { pid, ppid: 1, tid, ptid: 1, time: 0 }
}

/// Returns the figures of the two threads by name. Times are in milliseconds.
fn figures(one: &Reuse, stage: &mut Stage) -> BTreeMap<String, u64> {
    let panels = stage.panels();
    let panel = panels.iter().find(|panel| panel.title.starts_with(one.panel)).expect("a panel");
    let mut sums = BTreeMap::new();
    for row in 0..rows(panel).table.rows.len() {
        let name = cell(panel, row, one.columns.0).text();
        let name = name.strip_suffix("-30").unwrap_or(&name);
        if !["first", "second"].contains(&name) {
            continue;
        }
        let figure = match one.columns.1 {
            "" => 1,
            column if column.ends_with("ns") => (number(panel, row, column) / MS as f64).round() as u64,
            column => number(panel, row, column) as u64,
        };
        *sums.entry(name.to_owned()).or_default() += figure;
    }
    sums
}

/// The record of the first thread's end may be lost.
#[test]
fn two_threads_of_one_number_are_two_rows() {
    for one in all() {
        for has_end in [true, false] {
            let mut stage = (one.stage)();
            tell(&mut stage, &Record::Fork(task(TID, TID)), 1);
            tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: true, name: b"first" }, 1);
            (one.act)(&mut stage, 2, 3);
            if has_end {
                tell(&mut stage, &Record::Exit(task(TID, TID)), 20);
            }
            tell(&mut stage, &Record::Fork(task(TID, TID)), 21);
            tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: true, name: b"second" }, 21);
            (one.act)(&mut stage, 22, 5);
            stage.until(40 * MS);
            let counted = if one.name == "wakeups" { [1, 1] } else { [3, 5] };
            let expected = BTreeMap::from([("first".to_owned(), counted[0]), ("second".to_owned(), counted[1])]);
            assert_eq!(figures(&one, &mut stage), expected, "{} {} {has_end}", one.name, one.panel);
        }
    }
}

/// Without records of forks, as in a recording of tracepoints alone, and after an exec, a number is one thread with its
/// last name.
#[test]
fn a_thread_with_a_new_name_is_one_row() {
    for one in all() {
        let mut stage = (one.stage)();
        tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: true, name: b"first" }, 1);
        (one.act)(&mut stage, 2, 3);
        tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: true, name: b"second" }, 21);
        (one.act)(&mut stage, 22, 5);
        stage.until(40 * MS);
        let counted = if one.name == "wakeups" { 2 } else { 8 };
        let expected = BTreeMap::from([("second".to_owned(), counted)]);
        assert_eq!(figures(&one, &mut stage), expected, "{} {}", one.name, one.panel);
    }
}

/// Another thread of the process calls exec after the first one has ended, and gets its number.
#[test]
fn an_exec_of_another_thread_continues_the_row() {
    let one = all().into_iter().find(|one| one.name == "oncpu").expect("a unit");
    let mut stage = (one.stage)();
    for (tid, name) in [(TID, &b"first"[..]), (TID + 1, b"worker")] {
        tell(&mut stage, &Record::Comm { pid: TID, tid, exec: false, name }, 1);
    }
    (one.act)(&mut stage, 2, 3);
    switch(&mut stage, 10 * MS, 0, (0, 0), i64::from(TID) + 1);
    tell(&mut stage, &Record::Exit(task(TID, TID)), 11);
    tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: true, name: b"second" }, 12);
    switch(&mut stage, 15 * MS, 0, (TID.into(), 1), 0);
    assert_eq!(figures(&one, &mut stage), BTreeMap::from([("second".to_owned(), 8)]));
}

/// The selected row is one of the two threads.
#[test]
fn the_panels_of_a_row_refer_to_its_thread() {
    let mut stage = sched("task-state", &[]);
    for (at, name) in [(1, &b"first"[..]), (21, b"second")] {
        tell(&mut stage, &Record::Fork(task(TID, TID)), at);
        tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: true, name }, at);
        runs(&mut stage, at + 1, 5);
    }
    for name in ["first", "second"] {
        stage.look.selected.clear();
        let panels = stage.panels();
        let row = (0..2).find(|row| cell(&panels[0], *row, "comm").text() == name).expect("a row");
        stage.look.selected = vec![Some(rows(&panels[0]).ids[row])];
        let panels = stage.panels();
        assert_eq!(panels[1].title, format!("Periods of {name}-{TID}"));
        assert!((0..rows(&panels[1]).table.rows.len()).all(|row| cell(&panels[1], row, "comm").text() == name));
    }
}

/// The second process does not have the mappings of the first one.
#[test]
fn faults_of_a_later_process_are_not_in_the_mappings_of_an_earlier_one() {
    let mut stage = stage("page-faults", &[], &[("minor-faults", &[]), ("major-faults", &[])]);
    for (at, name) in [(1, &b"first"[..]), (21, b"second")] {
        tell(&mut stage, &Record::Fork(task(TID, TID)), at);
        tell(&mut stage, &Record::Comm { pid: TID, tid: TID, exec: false, name }, at);
        if at == 1 {
            let (start, name) = (0x10_000, b"/lib/old.so");
            let map = Mmap { pid: TID, tid: TID, start, len: 0x1000, prot: 1, flags: 2, name, ..Mmap::default() };
            tell(&mut stage, &Record::Mmap(map), at);
        }
        let hit = UnitSample { tid: TID, pid: TID, addr: 0x10_800, ..stage.hit(0, (at + 1) * MS) };
        stage.give(hit, &[]);
    }
    let panels = stage.panels();
    let panel = panels.iter().find(|panel| panel.title == "By mapping").expect("a panel");
    let mut found = [0, 1].map(|row| ["process", "mapping"].map(|column| cell(panel, row, column).text()));
    found.sort();
    assert_eq!(found, [["first-30", "/lib/old.so"], ["second-30", "[unknown]"]]);
}
