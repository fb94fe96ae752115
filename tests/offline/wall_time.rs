//! `waits`: the parts of each thread's time add up to its wall time, and its sleeps are those of `offcpu`.

use perfprof_tui::panel::{Body, Panel};
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::TaskRecord;

use crate::common::scenes::{MS, leaves, runs, scene, sched, switch, waits, wake};
use crate::common::stage::{Stage, cell, number, rows};
use crate::common::{data, program, run};

fn of<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title.starts_with(title)).unwrap_or_else(|| panic!("no panel {title}"))
}

fn row_of(panel: &Panel, thread: &str) -> usize {
    let all = 0..rows(panel).ids.len();
    all.into_iter().find(|row| cell(panel, *row, "comm").text() == thread).expect("a row")
}

/// Milliseconds of a thread's columns.
fn times(panels: &[Panel], thread: &str, columns: &[&str]) -> Vec<f64> {
    let table = of(panels, "Threads");
    let row = row_of(table, thread);
    columns.iter().map(|name| number(table, row, name) / MS as f64).collect()
}

/// Returns the sum of the parts of each row, and its wall time.
fn sums(table: &Panel) -> Vec<(f64, f64)> {
    let columns = &rows(table).table.columns;
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    let is_part = |name: &&&str| name.ends_with("_ns") && !["active_ns", "wall_ns"].contains(*name);
    let parts = |row: usize| names.iter().filter(is_part).map(|name| number(table, row, name)).sum();
    (0..rows(table).ids.len()).map(|row| (parts(row), number(table, row, "wall_ns"))).collect()
}

#[test]
fn the_parts_of_a_thread_add_up_to_its_wall_time() {
    let mut stage = scene("waits");
    let panels = stage.panels();
    let columns = ["wall_ns", "user_ns", "kernel_ns", "disk_ns", "runnable_ns", "lock_ns", "unknown_ns", "active_ns"];
    assert_eq!(times(&panels, "victim", &columns), [50.0, 7.5, 2.5, 20.0, 5.0, 15.0, 0.0, 50.0]);
    assert_eq!(times(&panels, "hog", &columns), [50.0, 40.0, 0.0, 0.0, 10.0, 0.0, 0.0, 50.0]);
    for (parts, wall) in sums(of(&panels, "Threads")) {
        assert_eq!(parts, wall);
    }
    let table = of(&panels, "Threads");
    let words = cell(table, row_of(table, "victim"), "parts").text();
    assert_eq!(words, "disk 40.0 %, lock 30.0 %, user code 15.0 %, runnable 10.0 %, kernel 5.0 %");
}

/// A selected thread, and then a part of its time: the stacks and the flame graph are those of the part alone.
#[test]
fn each_part_opens_into_its_stacks() {
    let mut stage = scene("waits");
    stage.look.selected = vec![Some(20)];
    let panels = stage.panels();
    let parts = of(&panels, "Parts of victim");
    let labels: Vec<String> = (0..rows(parts).ids.len()).map(|row| cell(parts, row, "part").text()).collect();
    assert_eq!(labels, ["disk", "lock", "user code", "runnable", "kernel"]);
    let stacks = of(&panels, "Stacks of victim");
    assert_eq!(cell(stacks, 0, "stack").text(), "folio_wait_bit < fsync < load < main");
    assert_eq!(cell(stacks, 0, "wakers").text(), "hog");
    let Body::Flame(graph) = &of(&panels, "Time of victim, a flame graph").body else { panic!("no graph") };
    let all = graph.folded("");
    let total: u64 = all.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!(total, 50 * MS, "{all}");
    stage.look.selected = vec![Some(20), Some(rows(parts).ids[3])];
    let panels = stage.panels();
    let stacks = of(&panels, "Stacks in runnable of victim");
    assert_eq!((rows(stacks).ids.len(), cell(stacks, 0, "stack").text()), (1, "behind hog".into()));
    let Body::Flame(graph) = &of(&panels, "runnable of victim, a flame graph").body else { panic!("no graph") };
    assert_eq!(graph.folded(""), format!("victim;runnable;behind hog {}\n", 5 * MS));
}

/// Threads of one program whose names differ by a number are one row, with the sum of their times.
#[test]
fn pools_are_folded() {
    let mut stage = waits(&[]);
    for (tid, name) in [(1, &b"app"[..]), (31, b"worker-1"), (32, b"worker-2"), (33, b"logger")] {
        stage.thread(&Record::Comm { pid: 1, tid, exec: false, name }, 0);
        stage.call(tid, std::str::from_utf8(name).expect("text"));
    }
    let leave = |stage: &mut Stage, at: u64, tid: i64, next: i64| {
        let hit = perfprof_tui::units::kit::UnitSample { tid: tid as i32, ..stage.hit(0, at * MS) };
        use crate::common::stage::Value::{N, T};
        let name = |tid: i64| ["worker-1", "worker-2", "logger"].get(tid as usize - 31).copied().unwrap_or("app");
        stage.give(hit, &[T(name(tid)), N(tid), N(1), T(name(next)), N(next)]);
    };
    for (at, tid, next) in [(0, 31, 32), (10, 32, 33), (40, 33, 31), (60, 31, 32)] {
        leave(&mut stage, at, tid, next);
    }
    stage.until(60 * MS);
    let panels = stage.panels();
    let table = of(&panels, "Threads");
    let pool = row_of(table, "worker-N");
    assert_eq!(rows(table).depth[pool..pool + 3], [0, 1, 1]);
    assert_eq!((number(table, pool, "threads"), number(table, pool, "wall_ns")), (2.0, 120.0 * MS as f64));
    assert_eq!((cell(table, pool + 1, "comm").text(), number(table, pool + 1, "tid")), ("worker-1".into(), 31.0));
    let text = table.to_text();
    assert!(text.contains("worker-N") && !text.contains("worker-1"), "{text}");
    // Its other panels are those of its threads.
    stage.look.selected = vec![Some(rows(table).ids[pool])];
    let parts = stage.panels();
    let parts = of(&parts, "Parts of worker-N");
    let sum: f64 = (0..rows(parts).ids.len()).map(|row| number(parts, row, "ns")).sum();
    assert_eq!(sum, 120.0 * MS as f64);
}

/// Records of two units: each sleep has the same time in both.
#[test]
fn sleeps_are_those_of_offcpu() {
    let feed = |mut stage: Stage| {
        switch(&mut stage, 0, 0, (0, 0), 20);
        leaves(&mut stage, 3 * MS, (20, 1), 10, &["main", "take", "pthread_mutex_lock", "__x64_sys_futex_[k]"]);
        wake(&mut stage, 11 * MS, 10, 20, 0);
        switch(&mut stage, 12 * MS, 0, (10, 0x100), 20);
        leaves(&mut stage, 14 * MS, (20, 2), 10, &["main", "load", "__x64_sys_read_[k]", "folio_wait_bit_[k]"]);
        // It runs again without a wakeup, sleeps once more, and is woken while it leaves.
        switch(&mut stage, 30 * MS, 0, (10, 1), 20);
        wake(&mut stage, 33 * MS, 10, 20, 0);
        leaves(&mut stage, 33 * MS + 10, (20, 1), 0, &["main", "poll", "__x64_sys_poll_[k]"]);
        switch(&mut stage, 40 * MS, 0, (0, 0), 20);
        leaves(&mut stage, 41 * MS, (20, 4), 0, &["main", "spin"]);
        stage.until(90 * MS);
        stage
    };
    let mut offcpu = sched("offcpu", &[]);
    offcpu.plain(3, "cpu-clock");
    let mut offcpu = feed(offcpu);
    let mut waits = feed(waits(&[]));
    for reset in [false, true] {
        if reset {
            for stage in [&mut offcpu, &mut waits] {
                stage.reset();
                stage.until(100 * MS);
            }
        }
        let panels = waits.panels();
        let columns = ["lock_ns", "disk_ns", "stopped_ns", "work_ns", "other_ns", "each_other_ns"];
        let slept: f64 = ["victim", "hog"].iter().flat_map(|thread| times(&panels, thread, &columns)).sum();
        let blocked = offcpu.panels();
        let blocked = of(&blocked, "Blocked");
        let alone = rows(blocked).rest.map_or(rows(blocked).ids.len(), |rest| rest.row + 1);
        let expected: f64 = (0..alone).map(|row| number(blocked, row, "blocked_ns") / MS as f64).sum();
        assert_eq!(slept, expected, "{}", blocked.to_text());
        if !reset {
            assert_eq!(times(&panels, "victim", &columns), [8.0, 16.0, 49.0, 0.0, 0.0, 0.0]);
            let run = times(&panels, "victim", &["unsampled_ns", "runnable_ns", "unknown_ns", "wall_ns"]);
            assert_eq!(run, [9.00001, 7.99999, 0.0, 90.0]);
        }
        for (parts, wall) in sums(of(&panels, "Threads")) {
            assert_eq!(parts, wall);
        }
    }
}

/// A TCP connection to the same machine: whether its peer is a thread of this machine shows when a wait ends, and holds
/// for the next wait while that runs.
#[test]
fn a_wait_that_runs_is_of_the_part_of_the_earlier_ones() {
    let receive = ["main", "ask", "__x64_sys_recvfrom_[k]", "tcp_recvmsg_[k]"];
    let mut stage = waits(&[]);
    let parts = |stage: &mut Stage| times(&stage.panels(), "victim", &["network_ns", "local_ns"]);
    switch(&mut stage, 0, 0, (0, 0), 20);
    leaves(&mut stage, MS, (20, 1), 10, &receive);
    stage.until(11 * MS);
    assert_eq!(parts(&mut stage), [10.0, 0.0]);
    wake(&mut stage, 21 * MS, 10, 20, 0);
    switch(&mut stage, 22 * MS, 0, (10, 0x100), 20);
    leaves(&mut stage, 23 * MS, (20, 1), 10, &receive);
    stage.until(43 * MS);
    assert_eq!(parts(&mut stage), [0.0, 40.0]);
}

/// Lost records are not scaled away: the time is unknown, also of sleeps that began before.
#[test]
fn lost_records_make_time_unknown() {
    let mut stage = waits(&[]);
    switch(&mut stage, 0, 0, (0, 0), 20);
    leaves(&mut stage, 10 * MS, (20, 1), 10, &["main", "load", "__x64_sys_fsync_[k]"]);
    stage.lose(None, 20 * MS, 30 * MS, 5);
    switch(&mut stage, 40 * MS, 0, (10, 1), 20);
    stage.until(60 * MS);
    let panels = stage.panels();
    let columns = ["unsampled_ns", "disk_ns", "runnable_ns", "unknown_ns", "wall_ns"];
    assert_eq!(times(&panels, "victim", &columns), [10.0 + 20.0, 0.0, 0.0, 30.0, 60.0]);
    // The hog runs since the end of the loss, as it leaves at the first switch.
    assert_eq!(times(&panels, "hog", &columns)[0], 10.0 + 10.0);
}

/// A thread that starts and ends within the measurement has the wall time of its life.
#[test]
fn a_short_life_is_a_short_wall_time() {
    let mut stage = waits(&[]);
    let task = TaskRecord { pid: 20, ppid: 10, tid: 20, ptid: 10, time: 0 };
    switch(&mut stage, 0, 0, (0, 0), 10);
    stage.thread(&Record::Fork(task), 10 * MS);
    let hit = perfprof_tui::units::kit::UnitSample { tid: 10, ..stage.hit(2, 10 * MS) };
    use crate::common::stage::Value::{N, T};
    stage.give(hit, &[T("victim"), N(20), N(0)]);
    switch(&mut stage, 12 * MS, 0, (10, 0x100), 20);
    runs(&mut stage, 13 * MS, 20, false, &["main", "handle_softirqs_[k]", "net_rx_action_[k]"]);
    stage.thread(&Record::Exit(task), 20 * MS);
    switch(&mut stage, 22 * MS, 0, (20, 0x10), 10);
    stage.until(90 * MS);
    let panels = stage.panels();
    let columns = ["irq_ns", "runnable_ns", "unknown_ns", "wall_ns"];
    assert_eq!(times(&panels, "victim", &columns), [10.0, 2.0, 0.0, 12.0]);
}

/// `perf record -p` records the switches of the process alone: a thread that follows it on a CPU leaves that unrecorded.
#[test]
fn a_recording_of_one_process_has_no_times_of_others() {
    let mut stage = waits(&[]);
    switch(&mut stage, 0, 0, (0, 0), 20);
    leaves(&mut stage, 5 * MS, (20, 1), 30, &["main", "take", "pthread_mutex_lock", "__x64_sys_futex_[k]"]);
    wake(&mut stage, 15 * MS, 10, 20, 0);
    // It came to the CPU without a record, and wakes a thread of another process.
    wake(&mut stage, 16 * MS, 20, 40, 1);
    leaves(&mut stage, 25 * MS, (20, 0), 30, &["main"]);
    leaves(&mut stage, 35 * MS, (20, 1), 10, &["main", "take", "pthread_mutex_lock", "__x64_sys_futex_[k]"]);
    runs(&mut stage, 50 * MS, 10, true, &["main", "spin"]);
    stage.until(55 * MS);
    let panels = stage.panels();
    let table = of(&panels, "Threads");
    let mut comms: Vec<String> = (0..rows(table).ids.len()).map(|row| cell(table, row, "comm").text()).collect();
    comms.sort_unstable();
    assert_eq!(comms, ["hog", "victim"], "the hog has a sample");
    let columns = ["unsampled_ns", "lock_ns", "unknown_ns", "wall_ns"];
    assert_eq!(times(&panels, "victim", &columns), [5.0, 10.0 + 20.0, 20.0, 55.0]);
    assert!(table.note.contains("2 threads left out: the recording has the switches of other threads only"));
    for (parts, wall) in sums(table) {
        assert_eq!(parts, wall);
    }
}

/// The share of missed wake-ups is one of the sleeps: a program that forks does not lower it.
#[test]
fn new_threads_do_not_count_as_woken() {
    let mut stage = waits(&[]);
    switch(&mut stage, 0, 0, (0, 0), 10);
    for tid in 100..1090 {
        use crate::common::stage::Value::{N, T};
        let hit = perfprof_tui::units::kit::UnitSample { tid: 10, ..stage.hit(2, MS) };
        stage.give(hit, &[T("other"), N(tid), N(0)]);
    }
    for round in 1..=10 {
        let at = round * 10 * MS;
        switch(&mut stage, at, 0, (10, 0x100), 20);
        switch(&mut stage, at + MS, 0, (20, 1), 10);
        if round < 10 {
            wake(&mut stage, at + 5 * MS, 10, 20, 0);
        }
    }
    switch(&mut stage, 110 * MS, 0, (10, 0x100), 20);
    let panels = stage.panels();
    let note = &of(&panels, "Threads").note;
    assert!(note.starts_with("1 wake-up (10.0 %) not recorded"), "{note}");
}

/// On a chosen CPU, only its parts count, and none is unknown.
#[test]
fn the_parts_of_a_cpu_have_no_unknown_rest() {
    let mut stage = waits(&["-C", "0"]);
    switch(&mut stage, 0, 0, (0, 0), 20);
    switch(&mut stage, 10 * MS, 0, (20, 0x100), 0);
    switch(&mut stage, 15 * MS, 1, (0, 0), 20);
    switch(&mut stage, 45 * MS, 1, (20, 1), 0);
    stage.until(60 * MS);
    let panels = stage.panels();
    assert_eq!(
        times(&panels, "victim", &["unsampled_ns", "runnable_ns", "unknown_ns", "wall_ns"]),
        [10.0, 0.0, 0.0, 10.0]
    );
}

/// On a recording, the parts of each thread add up, and its time on CPUs and waits for one are those of `task-state`.
#[test]
fn a_recording_has_the_times_of_task_state() {
    let rows_of = |unit: &str| -> Vec<serde_json::Value> {
        let output = run(program().args([unit, "--batch", "--format", "json"]).arg(data("units/sched.data")));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        answer["panels"][0]["rows"].as_array().expect("rows").clone()
    };
    let ns = |row: &serde_json::Value, name: &str| row[name].as_f64().unwrap_or(0.0);
    let (waits, states) = (rows_of("waits"), rows_of("task-state"));
    let mut compared = 0;
    for row in &waits {
        let fields = row.as_object().expect("a row").keys();
        let parts = fields.filter(|name| name.ends_with("_ns") && !["active_ns", "wall_ns"].contains(&name.as_str()));
        let sum: f64 = parts.map(|name| ns(row, name)).sum();
        assert!((sum - ns(row, "wall_ns")).abs() <= 0.005 * ns(row, "wall_ns"), "{row}");
        let Some(state) = states.iter().find(|state| row["tid"].is_i64() && state["tid"] == row["tid"]) else {
            continue;
        };
        let missing =
            [("unsampled_ns", "r_ns"), ("runnable_ns", "rd_ns")].map(|(own, other)| ns(state, other) - ns(row, own));
        // A thread that leaves a CPU without a record of its arrival ran for an unknown part of the time.
        let is_right = missing.iter().all(|ns| *ns >= 0.0) && missing.iter().sum::<f64>() <= ns(row, "unknown_ns");
        assert!(is_right, "{row}: {state}");
        compared += usize::from(missing == [0.0, 0.0]);
    }
    assert!(compared >= 10, "{compared} of {}", waits.len());
}
