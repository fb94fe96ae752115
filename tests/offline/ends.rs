//! Waits until a thread or process ends, and waits that only look like them.

use perfprof_tui::panel::{Body, Panel};
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::TaskRecord;

use crate::common::scenes::MS;
use crate::common::stage::{number, rows};
use crate::waits::{
    BROKEN, CHILD_ENDS, CLIENT, EACH_OTHER, HARDIRQ, LOCK, SERVER, TIMER, Thread, UNLOCK, WORK, WORKER, ended, of,
    sleeps, stage, text, wakes,
};

const THREAD_ENDS: &str = "until another thread ends";
const PROCESS_ENDS: &str = "until another process ends";

const MAIN: Thread = (3, 3, "main");
const JOIN: &[&str] = &["main", "pthread_join", "__x64_sys_futex_[k]", "futex_do_wait_[k]", "schedule_[k]"];
const WAIT4: &[&str] = &["main", "run_job", "__x64_sys_wait4_[k]", "do_wait_[k]", "schedule_[k]"];
const THREAD_EXITS: &[&str] = &[
    "clone3",
    "start_thread",
    "__x64_sys_exit_[k]",
    "do_exit_[k]",
    "mm_release_[k]",
    "do_futex_[k]",
    "futex_wake_[k]",
    "try_to_wake_up_[k]",
];
const LOCK_OF_DEAD: &[&str] = &[
    "clone3",
    "start_thread",
    "__x64_sys_exit_[k]",
    "do_exit_[k]",
    "exit_mm_release_[k]",
    "futex_exit_release_[k]",
    "handle_futex_death_[k]",
    "futex_wake_[k]",
    "try_to_wake_up_[k]",
];
const PROCESS_EXITS: &[&str] = &[
    "main",
    "exit",
    "__x64_sys_exit_group_[k]",
    "do_group_exit_[k]",
    "do_exit_[k]",
    "do_notify_parent_[k]",
    "__wake_up_sync_key_[k]",
    "try_to_wake_up_[k]",
];
const EXECS: &[&str] =
    &["main", "execve", "begin_new_exec_[k]", "exec_mm_release_[k]", "mm_release_[k]", "try_to_wake_up_[k]"];
const PYTHON_ENDS: &[&str] = &[
    "clone3",
    "start_thread",
    "thread_run",
    "release_sentinel",
    "PyThread_release_lock",
    "sem_post",
    "__x64_sys_futex_[k]",
    "futex_wake_[k]",
];

/// Returns the waker and the class of a wait of the server, ended by the worker or by another program's thread.
fn ends(functions: &[&str], on: Thread, by: &[&str]) -> (String, String) {
    ended(1, functions, |stage, at| wakes(stage, at, on, 0, by, SERVER))
}

fn is(waker: &str, class: &str) -> (String, String) {
    (waker.to_owned(), class.to_owned())
}

/// Whether a wait is for an end follows from the functions of the waker at the wake-up, not from those of the sleeper.
#[test]
fn a_wait_that_an_end_ends_is_for_that_end() {
    let broken = ["[broken]", "__x64_sys_futex_[k]", "futex_do_wait_[k]", "schedule_[k]"];
    for functions in [JOIN, LOCK, &broken] {
        assert_eq!(ends(functions, WORKER, THREAD_EXITS), is("worker", THREAD_ENDS), "{functions:?}");
        assert_eq!(ends(functions, WORKER, PYTHON_ENDS), is("worker", THREAD_ENDS), "{functions:?}");
    }
    // A child without exec is of the same program; after exec it is another one.
    for child in [WORKER, CLIENT] {
        assert_eq!(ends(WAIT4, child, PROCESS_EXITS), is(child.2, PROCESS_ENDS));
        assert_eq!(ends(WAIT4, child, CHILD_ENDS), is(child.2, PROCESS_ENDS), "by a signal");
    }
    // A lock of a thread that ended without releasing it, and a program that starts another one.
    assert_eq!(ends(JOIN, WORKER, LOCK_OF_DEAD), is("worker", EACH_OTHER));
    assert_eq!(ends(JOIN, WORKER, EXECS), is("worker", EACH_OTHER));
    assert_eq!(ends(JOIN, WORKER, UNLOCK), is("worker", EACH_OTHER), "a function's name has no effect");
    let waits_with_lock = ["do_wait", "main", "__x64_sys_futex_[k]", "schedule_[k]"];
    assert_eq!(ends(&waits_with_lock, WORKER, UNLOCK), is("worker", EACH_OTHER));
}

/// The exit has no record of its own here: records of exits may be lost, and come after the wake-up.
#[test]
fn a_thread_that_releases_a_lock_and_ends_soon_does_not_end_a_join() {
    for delay in [MS, MS / 1000] {
        let (waker, class) = ended(1, LOCK, |stage, at| {
            wakes(stage, at, WORKER, 0, UNLOCK, SERVER);
            let exit = TaskRecord { pid: WORKER.1, ppid: 3, tid: WORKER.0, ptid: 3, time: 0 };
            stage.thread(&Record::Exit(exit), at + delay);
        });
        assert_eq!((waker, class), is("worker", EACH_OTHER));
    }
}

/// The end of a process closes its pipes: the parent that reads its output waits for that, another reader for data.
#[test]
fn a_parent_that_reads_the_output_of_a_child_waits_for_its_end() {
    const READ_ALL: &[&str] = &["main", "read_all", "__x64_sys_read_[k]", "anon_pipe_read_[k]", "schedule_[k]"];
    const CLOSES: &[&str] = &[
        "main",
        "exit",
        "do_exit_[k]",
        "task_work_run_[k]",
        "__fput_[k]",
        "pipe_release_[k]",
        "__wake_up_[k]",
        "try_to_wake_up_[k]",
    ];
    let class = |parent: i32, by: &[&str]| {
        let mut stage = stage();
        let fork = TaskRecord { pid: CLIENT.1, ppid: parent, tid: CLIENT.1, ptid: parent, time: 0 };
        stage.thread(&Record::Fork(fork), 0);
        sleeps(&mut stage, MS, SERVER, 1, READ_ALL);
        wakes(&mut stage, 101 * MS, CLIENT, 0, by, SERVER);
        text(of(&stage.panels(), "Blocked"), 0, "class")
    };
    assert_eq!(class(SERVER.1, CLOSES), PROCESS_ENDS);
    assert_eq!(class(9, CLOSES), WORK, "the end of a client");
    // Many programs close their output shortly before their end; a new program closes what is not for it.
    let with = |name: &'static str| -> Vec<&str> {
        CLOSES.iter().map(|function| if *function == "do_exit_[k]" { name } else { function }).collect()
    };
    assert_eq!(class(SERVER.1, &with("__x64_sys_close_[k]")), PROCESS_ENDS);
    assert_eq!(class(SERVER.1, &with("begin_new_exec_[k]")), WORK);
}

/// SIGCHLD interrupts any wait of the parent, also one for a lock.
#[test]
fn the_signal_about_a_child_does_not_make_a_lock_a_wait_for_it() {
    let classes = |functions: &[&str], by: &[&str]| {
        let mut stage = stage();
        sleeps(&mut stage, 0, SERVER, 1, functions);
        wakes(&mut stage, 10 * MS, WORKER, 0, by, SERVER);
        sleeps(&mut stage, 10 * MS, SERVER, 1, functions);
        wakes(&mut stage, 40 * MS, CLIENT, 0, CHILD_ENDS, SERVER);
        let panels = stage.panels();
        let blocked = of(&panels, "Blocked");
        (0..rows(blocked).ids.len()).map(|row| text(blocked, row, "class")).collect::<Vec<_>>()
    };
    assert_eq!(classes(LOCK, UNLOCK), [EACH_OTHER]);
    assert_eq!(classes(WAIT4, PROCESS_EXITS), [PROCESS_ENDS]);
    let broken = ["[broken]", "__x64_sys_futex_[k]", "futex_do_wait_[k]", "schedule_[k]"];
    assert_eq!(ends(&broken, CLIENT, CHILD_ENDS), is("client", BROKEN));
    // The kernel's functions show the place.
    let broken = ["[broken]", "__x64_sys_wait4_[k]", "do_wait_[k]", "schedule_[k]"];
    assert_eq!(ends(&broken, CLIENT, CHILD_ENDS), is("client", PROCESS_ENDS));
}

/// A join with a timeout that the thread repeats, and the next join of the same place, are for an end as well.
#[test]
fn other_waits_in_the_place_of_a_join_are_for_an_end() {
    let mut stage = stage();
    for round in 0..3 {
        sleeps(&mut stage, 10 * round * MS, MAIN, 1, JOIN);
        wakes(&mut stage, (10 * round + 10) * MS, CLIENT, HARDIRQ, TIMER, MAIN);
    }
    stage.until(30 * MS);
    assert_eq!(text(of(&stage.panels(), "Blocked"), 0, "class"), WORK, "nothing but timers ended it");
    sleeps(&mut stage, 30 * MS, MAIN, 1, JOIN);
    wakes(&mut stage, 35 * MS, WORKER, 0, THREAD_EXITS, MAIN);
    sleeps(&mut stage, 35 * MS, MAIN, 1, JOIN);
    stage.until(60 * MS);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    assert_eq!((rows(blocked).ids.len(), text(blocked, 0, "class")), (1, THREAD_ENDS.to_owned()));
    assert_eq!(number(blocked, 0, "blocked_ns"), 60.0 * MS as f64);
    assert_eq!(text(of(&panels, "Under way"), 0, "class"), THREAD_ENDS);
}

fn graph_sum(panels: &[Panel], title: &str, part: &str) -> u64 {
    let Body::Flame(graph) = &of(panels, title).body else { panic!("no graph") };
    let folded = graph.folded("");
    let own = folded.lines().filter(|line| format!(";{line}").contains(part));
    own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The main thread joins two that fight for a lock: the lock comes first, though the join took longer. The join has its
/// row and its share, and does not belong to the waits for work.
#[test]
fn waits_until_an_end_come_after_the_others() {
    let mut stage = stage();
    let (first, second) = (WORKER, (32, 3, "worker"));
    sleeps(&mut stage, 0, MAIN, 1, JOIN);
    for round in 0..4 {
        let at = 20 * round * MS;
        sleeps(&mut stage, at, first, 1, LOCK);
        wakes(&mut stage, at + 10 * MS, second, 0, UNLOCK, first);
        sleeps(
            &mut stage,
            at + 10 * MS,
            second,
            1,
            &["main", "nap", "__x64_sys_clock_nanosleep_[k]", "do_nanosleep_[k]"],
        );
        wakes(&mut stage, at + 20 * MS, first, HARDIRQ, TIMER, second);
    }
    // A trifle of 0.4 ms.
    sleeps(&mut stage, 80 * MS, second, 2, &["main", "load", "__x64_sys_read_[k]", "io_schedule_[k]"]);
    wakes(&mut stage, 80 * MS + 4 * MS / 10, first, 0, UNLOCK, second);
    wakes(&mut stage, 100 * MS, first, 0, THREAD_EXITS, MAIN);
    stage.until(100 * MS);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    let row = |at: usize| (text(blocked, at, "class"), number(blocked, at, "blocked_ns") / MS as f64);
    assert_eq!([row(0), row(1)], [(EACH_OTHER.to_owned(), 40.0), (THREAD_ENDS.to_owned(), 100.0)]);
    assert_eq!((text(blocked, 1, "comm"), text(blocked, 1, "wakers")), ("main".to_owned(), "worker".to_owned()));
    let rest = rows(blocked).rest.expect("a rest");
    assert_eq!((rest.row, rest.after, rest.is_largest), (3, 2, false));
    assert_eq!(row(rest.row), (WORK.to_owned(), 40.0));
    let shares: f64 = (0..=rest.row).map(|row| number(blocked, row, "share_pct")).sum();
    assert_eq!(shares.round(), 100.0);
    assert!(rows(blocked).ordered_by.is_none(), "the rows are not in order of their times");
    assert!(blocked.note.contains("Woken by"), "{}", blocked.note);
    // The graphs have the same times.
    for title in ["Blocked and woken", "Hot and cold"] {
        let sum = |part| graph_sum(&panels, title, part);
        assert_eq!((sum(";until another thread ends;"), sum(";waiting for work;")), (100 * MS, 40 * MS), "{title}");
        assert_eq!(sum(";"), 180 * MS + 4 * MS / 10, "{title}");
    }
}

/// Without such waits, the table is in order of its times and has no note.
#[test]
fn other_waits_have_no_note() {
    let mut stage = stage();
    sleeps(&mut stage, 0, SERVER, 1, LOCK);
    wakes(&mut stage, 10 * MS, WORKER, 0, UNLOCK, SERVER);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    assert!(blocked.note.is_empty() && rows(blocked).ordered_by.is_some());
}

/// `waits` has them in the part of children and threads, wherever the thread slept.
#[test]
fn the_part_of_an_end_is_that_of_children() {
    let mut stage = crate::common::scenes::sched("waits", &[]);
    stage.plain(3, "cpu-clock");
    sleeps(&mut stage, MS, SERVER, 1, LOCK);
    wakes(&mut stage, 101 * MS, WORKER, 0, PYTHON_ENDS, SERVER);
    let panels = stage.panels();
    let table = of(&panels, "Threads");
    let row = (0..rows(table).ids.len()).find(|row| text(table, *row, "comm") == "server").expect("a row");
    let parts = ["child_ns", "lock_ns", "active_ns"].map(|part| number(table, row, part) / MS as f64);
    assert_eq!(parts, [100.0, 0.0, 0.0]);
}
