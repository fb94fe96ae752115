//! Waits for locks: each part belongs to the thread that ended it, and an owner in a lock is only a hint.

use perfprof_tui::panel::Panel;
use perfprof_tui::units::kit::UnitSample;

use crate::common::scenes::{MS, locks, scene, switch, unlock, wait};
use crate::common::stage::{Stage, Value, cell, number, rows};

const LOCK: &[&str] = &["main", "take", "pthread_mutex_lock", "__lll_lock_wait", "futex_[k]"];
const UNLOCK: &[&str] = &["main", "give", "pthread_mutex_unlock"];

fn panel<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title.starts_with(title)).unwrap_or_else(|| panic!("no panel {title}"))
}

/// Returns the texts of a column, row by row.
fn column(panel: &Panel, name: &str) -> Vec<String> {
    (0..rows(panel).table.rows.len()).map(|row| cell(panel, row, name).text()).collect()
}

#[test]
fn a_chain_leads_to_what_the_last_holder_does() {
    let mut stage = scene("locks");
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    let of = |row: usize| ["lock", "kind", "holder"].map(|name| cell(table, row, name).text());
    assert_eq!(of(0), ["front_round 0xa000", "mutex", "middle-3 100.0 %"]);
    assert_eq!(of(1), ["middle_round 0xb000", "mutex", "back-4 100.0 %"]);
    assert_eq!(of(2), ["lock_mm_and_find_vma 0xfffffffffffff000", "rwsem, reading", ""]);
    let times = ["waited_ns", "ready_ns", "waits"].map(|name| number(table, 1, name));
    assert_eq!(times, [25.0 * MS as f64, MS as f64, 1.0]);
    let chain = panel(&panels, "Chain");
    assert_eq!(
        column(chain, "step"),
        [
            "front waited for mutex front_round 0xa000",
            "held by middle-3 100.0 %",
            "waited for mutex middle_round 0xb000",
            "held by back-4 100.0 %",
            "blocked in fsync < slow_disk < main",
            "ran in slow_work < main",
            "not known",
        ]
    );
    assert_eq!(rows(chain).depth, [0, 1, 2, 3, 4, 4, 4]);
    let ns = (0..7).map(|row| number(chain, row, "ns") as u64 / MS).collect::<Vec<_>>();
    // Another lock's wait counts from the moment at which a thread waits for the holder, and its parts in proportion:
    // 24 of 25 ms.
    assert_eq!(ns, [26, 25, 24, 23, 11, 7, 3]);
    assert_eq!(column(panel(&panels, "Holders"), "stack"), ["pthread_mutex_unlock < middle_round < main"]);
}

/// Three threads wait for one that runs for a while, and then for the CPU: no line is larger than the one above it.
#[test]
fn the_parts_of_a_chain_add_up() {
    let mut stage = locks();
    for (at, tid) in [(1, 1), (2, 2), (3, 3)] {
        wait(&mut stage, at * MS, tid, 0xa000, 4, LOCK);
    }
    let stack = stage.stack(&["main", "work"]);
    let runs = UnitSample { tid: 4, stack, period: 10 * MS, ..stage.hit(3, 11 * MS) };
    stage.give(runs, &[]);
    switch(&mut stage, 21 * MS, 0, (4, 0x100), 9);
    switch(&mut stage, 91 * MS, 0, (9, 0x100), 4);
    unlock(&mut stage, 101 * MS, 4, 1, UNLOCK);
    let panels = stage.panels();
    let chain = panel(&panels, "Chain");
    assert_eq!(number(panel(&panels, "Locks"), 0, "waited_ns") as u64 / MS, 101 + 100 + 99);
    assert_eq!(
        column(chain, "step"),
        [
            "app, front, middle waited for mutex take 0xa000 (300 ms summed over threads)",
            "held by back-4 100.0 %",
            "runnable, waited for a CPU",
            "ran in work < main",
            "not known",
        ]
    );
    let ns = (0..5).map(|row| number(chain, row, "ns") as u64 / MS).collect::<Vec<_>>();
    assert_eq!(ns, [101, 100, 70, 10, 20]);
    // The waits that the loss cuts are in no line.
    stage.lose(None, 101 * MS, 102 * MS, 5);
    wait(&mut stage, 110 * MS, 2, 0xa000, 4, LOCK);
    stage.until(130 * MS);
    let panels = stage.panels();
    let chain = panel(&panels, "Chain");
    let (depths, ns) = (&rows(chain).depth, (0..rows(chain).depth.len()).map(|row| number(chain, row, "ns") as u64));
    let ns: Vec<u64> = ns.collect();
    for (at, depth) in depths.iter().enumerate() {
        let below = (at + 1..ns.len()).take_while(|row| depths[*row] > *depth).filter(|row| depths[*row] == depth + 1);
        assert!(below.map(|row| ns[row]).sum::<u64>() <= ns[at], "{}", chain.to_text());
    }
}

/// The main thread joins another one, in a wait by its number; a robust mutex has the bit of waiters as well.
#[test]
fn a_wait_for_the_end_of_a_thread_is_no_lock() {
    let mut stage = locks();
    stage.event(4, "syscalls:sys_enter_futex", &["long uaddr", "long op", "long val"], "\"\"");
    let enter = |stage: &mut Stage, at: u64, tid: i32, values: [i64; 3]| {
        let hit = UnitSample { tid, ..stage.hit(4, at * MS) };
        stage.give(hit, &values.map(Value::N));
    };
    // FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME.
    enter(&mut stage, 1, 1, [0xf000, 0x109, 4]);
    enter(&mut stage, 2, 2, [0xa000, 0x80, 2]);
    enter(&mut stage, 3, 3, [0xb000, 0x09, 4 | 0x8000_0000]);
    unlock(&mut stage, 6 * MS, 4, 2, UNLOCK);
    stage.until(100 * MS);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(column(table, "kind"), ["futex", "futex", "join"]);
    assert_eq!(column(table, "lock"), ["0xa000", "0xb000", "0xf000"]);
    assert_eq!(column(table, "holder"), ["back-4 100.0 %", "", "thread back-4 until it ends"]);
    let chain = panel(&panels, "Chain");
    assert_eq!(chain.title, "Chains of 2 locks");
    assert!(column(chain, "step").contains(&"thread back-4 until it ends".to_owned()), "{}", chain.to_text());
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    let mut stage = locks();
    wait(&mut stage, MS, 2, 0xa000, 3, LOCK);
    wait(&mut stage, 2 * MS, 3, 0xb000, 2, LOCK);
    wait(&mut stage, 3 * MS, 4, 0xa000, 3, LOCK);
    stage.until(50 * MS);
    assert_eq!(panel(&stage.panels(), "Locks").note, "");
    stage.until(1000 * MS);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(table.note, "deadlock: front-2 ⇄ middle-3 wait for each other, as their locks say");
    assert_eq!(column(table, "holder"), ["middle-3 (as the lock says)", "front-2 (as the lock says)"]);
    assert_eq!(column(table, "waiting"), ["2", "1"]);
    assert_eq!(number(table, 0, "waited_ns"), (999 + 997) as f64 * MS as f64);
    // A circle in the chain ends.
    assert!(column(panel(&panels, "Chain"), "step").len() < 10);
    // A thread that takes its own lock again.
    let mut stage = locks();
    wait(&mut stage, MS, 2, 0xa000, 2, LOCK);
    stage.until(1000 * MS);
    let note = panel(&stage.panels(), "Locks").note.clone();
    assert_eq!(note, "deadlock: front-2 waits for a lock that it holds itself, as the lock says");
}

/// A program may write anything behind its futexes: the thread that releases counts.
#[test]
fn an_owner_that_lies_gets_no_time() {
    for owner in [0, 999, -1, i64::from(i32::MAX), 4] {
        let mut stage = locks();
        wait(&mut stage, MS, 2, 0xa000, owner, LOCK);
        unlock(&mut stage, 20 * MS, 3, 2, UNLOCK);
        let panels = stage.panels();
        assert_eq!(column(panel(&panels, "Locks"), "holder"), ["middle-3 100.0 %"], "{owner}");
        let note = &panel(&panels, "Holders").note;
        assert_eq!(note, if owner == 4 { "the owner in the lock was right in 0.0 %" } else { "" });
    }
}

#[test]
fn condition_variables_come_after_locks() {
    let mut stage = locks();
    let pool = ["main", "worker", "pthread_cond_wait", "futex_[k]"];
    wait(&mut stage, MS, 2, 0xc000, 0, &pool);
    unlock(&mut stage, 90 * MS, 3, 2, &["main", "submit", "pthread_cond_signal"]);
    wait(&mut stage, 100 * MS, 4, 0xa000, 3, LOCK);
    unlock(&mut stage, 110 * MS, 3, 4, UNLOCK);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(column(table, "kind"), ["mutex", "condition variable"]);
    assert_eq!(column(table, "share_pct"), ["100.0 %"; 2], "of the locks, and of the condition variables");
    let flame = panel(&panels, "Waits for locks").to_text();
    assert_eq!(flame.lines().filter(|line| line.ends_with(char::is_numeric)).count(), 1, "{flame}");
}

/// A condition variable of glibc has two words, and Python's global lock a mutex and a condition variable.
#[test]
fn a_lock_of_several_words_is_one_row() {
    let mut stage = locks();
    let pool = ["main", "worker", "pthread_cond_wait", "futex_[k]"];
    let python = ["main", "PyEval_RestoreThread", "take_gil", "pthread_cond_timedwait", "futex_[k]"];
    for (at, tid, word) in [(1, 2, 0xc028), (2, 3, 0xc02c), (3, 4, 0xc030)] {
        wait(&mut stage, at * MS, tid, word, 0, &pool);
    }
    for (at, word) in [(20, 0xd000), (40, 0xe004)] {
        wait(&mut stage, at * MS, 1, word, 0, &python);
        unlock(&mut stage, (at + 9) * MS, 5, 1, UNLOCK);
    }
    stage.until(60 * MS);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(column(table, "kind"), ["Python's global lock", "condition variable", "condition variable"]);
    assert_eq!(column(table, "waits"), ["2", "2", "1"]);
    let ns = [0, 1, 2].map(|row| number(table, row, "waited_ns") as u64 / MS);
    assert_eq!(ns, [20, 59 + 58, 57]);
    assert_eq!(column(table, "waiting"), ["0", "2", "1"]);
}

/// A condition variable of Rust has one word, so that two of them may be next to each other.
#[test]
fn each_word_of_rust_is_a_lock() {
    let mut stage = locks();
    let pool = ["main", "worker", "std::sys::sync::condvar::futex::Condvar::wait", "syscall", "futex_[k]"];
    for (tid, word) in [(2, 0xc028), (3, 0xc02c)] {
        wait(&mut stage, MS, tid, word, 0, &pool);
    }
    stage.until(11 * MS);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(column(table, "kind"), ["condition variable", "condition variable"]);
    assert_eq!(column(table, "waiting"), ["1", "1"]);
}

/// Threads that wait for a monitor of Java have a futex each: all of them are one row, however many there are.
#[test]
fn a_monitor_of_many_threads_is_one_row() {
    let mut stage = locks();
    let monitor = ["main", "Shop.order", "ObjectMonitor::enter", "pthread_cond_wait", "futex_[k]"];
    for tid in 0..1000 {
        wait(&mut stage, MS, 100 + tid, 0x10_0000 + 0x100 * i64::from(tid), 0, &monitor);
    }
    stage.until(11 * MS);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(column(table, "lock"), ["Shop.order"]);
    assert_eq!((rows(table).more, number(table, 0, "waiting")), (0, 1000.0));
    assert_eq!(number(table, 0, "waited_ns"), 10_000.0 * MS as f64);
}

/// Each waiter's futex has another main holder. The row has that of the whole monitor.
#[test]
fn a_monitor_of_many_futexes_has_one_main_holder() {
    let mut stage = locks();
    let monitor = ["main", "Shop.order", "ObjectMonitor::enter", "pthread_cond_wait", "futex_[k]"];
    for (at, waiter, holder, ms) in [(1, 2, 4, 10), (20, 3, 1, 6), (40, 4, 1, 8)] {
        wait(&mut stage, at * MS, waiter, 0x10_0000 + 0x100 * i64::from(waiter), 0, &monitor);
        unlock(&mut stage, (at + ms) * MS, holder, waiter, UNLOCK);
    }
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!(column(table, "lock"), ["Shop.order"]);
    assert_eq!(column(table, "holder"), ["app-1 58.3 %"], "14 of 24 ms");
    assert_eq!(column(panel(&panels, "Holders"), "held_ns").len(), 2);
}

/// Recordings of perf have no words of futexes.
#[test]
fn without_the_words_of_futexes_the_releaser_is_the_holder() {
    let mut stage = crate::common::scenes::sched("locks", &[]);
    stage.event(4, "syscalls:sys_enter_futex", &["long uaddr", "long op"], "\"\"");
    stage.event(5, "syscalls:sys_exit_futex", &["long ret"], "\"\"");
    let give = |stage: &mut Stage, role: usize, at: u64, tid: i32, values: &[i64]| {
        let hit = UnitSample { tid, ..stage.hit(role, at * MS) };
        stage.give(hit, &values.iter().map(|n| Value::N(*n)).collect::<Vec<_>>());
    };
    // A wait, a call that returns at once, and a wake-up.
    give(&mut stage, 4, 1, 2, &[0xa000, 0x80]);
    give(&mut stage, 4, 2, 3, &[0xa000, 0x80]);
    give(&mut stage, 5, 3, 3, &[-11]);
    give(&mut stage, 4, 4, 4, &[0xa000, 0x81]);
    unlock(&mut stage, 9 * MS, 4, 2, UNLOCK);
    let panels = stage.panels();
    let table = panel(&panels, "Locks");
    assert_eq!((number(table, 0, "waits"), number(table, 0, "waited_ns")), (1.0, 9.0 * MS as f64));
    assert_eq!(column(table, "holder"), [":4 100.0 %"]);
    stage.lose(None, 9 * MS, 10 * MS, 5);
    give(&mut stage, 5, 12, 4, &[0]);
    assert_eq!(number(panel(&stage.panels(), "Locks"), 0, "waits"), 1.0);
}
