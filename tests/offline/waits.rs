//! Classes of waits: the end of a wait determines its class, never the functions in its stack.

use perfprof_tui::panel::{Body, Panel};
use perfprof_tui::units::kit::UnitSample;

use crate::common::scenes::{MS, sched};
use crate::common::stage::{Stage, Value, cell, number, rows};
use crate::common::{data, program, run};

/// Bits of `common_flags`.
pub const HARDIRQ: u8 = 0x08;
const SOFTIRQ: u8 = 0x10;

/// A thread and its process.
pub type Thread = (i32, i32, &'static str);

pub const SERVER: Thread = (30, 3, "server");
pub const WORKER: Thread = (31, 3, "worker");
pub const CLIENT: Thread = (40, 4, "client");

pub const LOCK: &[&str] = &["main", "mutex_lock", "__x64_sys_futex_[k]", "futex_do_wait_[k]", "schedule_[k]"];
const POLL: &[&str] = &["main", "serve", "__x64_sys_epoll_wait_[k]", "ep_poll_[k]", "schedule_[k]"];
const READ: &[&str] = &["main", "load", "__x64_sys_read_[k]", "folio_wait_bit_[k]", "io_schedule_[k]"];
pub const UNLOCK: &[&str] = &["main", "mutex_unlock", "__x64_sys_futex_[k]", "futex_wake_[k]", "try_to_wake_up_[k]"];
const SEND: &[&str] = &[
    "main",
    "reply",
    "__x64_sys_sendto_[k]",
    "unix_stream_sendmsg_[k]",
    "sock_def_readable_[k]",
    "try_to_wake_up_[k]",
];
const MESSAGE: &[&str] = &["main", "ask", "do_syscall_64_[k]", "do_msgsnd_[k]", "wake_up_q_[k]", "try_to_wake_up_[k]"];
const CHANGE: &[&str] =
    &["main", "store", "__x64_sys_write_[k]", "fsnotify_[k]", "fsnotify_insert_event_[k]", "try_to_wake_up_[k]"];
const KILL: &[&str] =
    &["main", "reload", "__x64_sys_kill_[k]", "do_send_sig_info_[k]", "complete_signal_[k]", "try_to_wake_up_[k]"];
pub const CHILD_ENDS: &[&str] =
    &["main", "exit", "do_exit_[k]", "do_notify_parent_[k]", "complete_signal_[k]", "try_to_wake_up_[k]"];
pub const TIMER: &[&str] =
    &["main", "spin", "asm_sysvec_apic_timer_interrupt_[k]", "hrtimer_interrupt_[k]", "hrtimer_wakeup_[k]"];
const EXIT: &[&str] =
    &["main", "exit", "__x64_sys_exit_group_[k]", "do_group_exit_[k]", "zap_other_threads_[k]", "try_to_wake_up_[k]"];
const PACKET: &[&str] = &[
    "main",
    "spin",
    "asm_common_interrupt_[k]",
    "__irq_exit_rcu_[k]",
    "handle_softirqs_[k]",
    "net_rx_action_[k]",
    "tcp_rcv_established_[k]",
    "sock_def_readable_[k]",
];
const LOOPBACK: &[&str] = &[
    "main",
    "ask",
    "__x64_sys_sendto_[k]",
    "tcp_sendmsg_[k]",
    "__local_bh_enable_ip_[k]",
    "do_softirq.part.0_[k]",
    "handle_softirqs_[k]",
    "net_rx_action_[k]",
    "process_backlog_[k]",
    "sock_def_readable_[k]",
];
const DISK: &[&str] = &[
    "main",
    "spin",
    "asm_common_interrupt_[k]",
    "__irq_exit_rcu_[k]",
    "handle_softirqs_[k]",
    "blk_done_softirq_[k]",
    "blk_update_request_[k]",
    "bio_endio_[k]",
];

pub fn stage() -> Stage {
    let mut stage = sched("offcpu", &[]);
    stage.plain(3, "cpu-clock");
    stage.event(4, "block:block_rq_complete", &["unsigned int dev", "unsigned long sector"], "\"\"");
    stage
}

/// A thread falls asleep.
pub fn sleeps(stage: &mut Stage, at: u64, (tid, pid, comm): Thread, state: i64, functions: &[&str]) {
    use Value::{N, T};
    stage.flags = 0;
    let hit = UnitSample { tid, pid, stack: stage.stack(functions), ..stage.hit(0, at) };
    stage.give(hit, &[T(comm), N(tid.into()), N(state), T("swapper"), N(0)]);
}

/// A wakeup record on the CPU of another thread.
pub fn wakes(stage: &mut Stage, at: u64, on: Thread, flags: u8, functions: &[&str], woken: Thread) {
    stage.flags = flags;
    stage.call(on.0, on.2);
    let hit = UnitSample { tid: on.0, pid: on.1, stack: stage.stack(functions), ..stage.hit(1, at) };
    stage.give(hit, &[Value::T(woken.2), Value::N(woken.0.into()), Value::N(0)]);
}

/// A request of the disk 254:0 completes.
fn completes(stage: &mut Stage, at: u64) {
    stage.flags = SOFTIRQ;
    let hit = stage.hit(4, at);
    stage.give(hit, &[Value::N(254 << 20), Value::N(8)]);
}

pub fn of<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title.starts_with(title)).unwrap_or_else(|| panic!("no panel {title}"))
}

pub fn text(panel: &Panel, row: usize, column: &str) -> String {
    cell(panel, row, column).text()
}

/// Returns the waker and the class of a single sleep of the server, ended by one record.
pub fn ended(state: i64, functions: &[&str], end: impl FnOnce(&mut Stage, u64)) -> (String, String) {
    let mut stage = stage();
    sleeps(&mut stage, MS, SERVER, state, functions);
    end(&mut stage, 101 * MS);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    assert_eq!(number(blocked, 0, "blocked_ns"), 100.0 * MS as f64);
    (text(blocked, 0, "wakers"), text(blocked, 0, "class"))
}

pub const WORK: &str = "waiting for work";
pub const EACH_OTHER: &str = "not known: woken by each other";
pub const BROKEN: &str = "not known: stack is broken";
const OUTSIDE: &str = "not known: outside of requests";
const HELD: &str = "held up";

/// Threads of Go's scheduler without a goroutine wait for work, although other threads of the program wake them.
#[test]
fn idle_threads_of_go_wait_for_work() {
    let end = |functions: &[&'static str]| {
        let stack = [&["[broken]", "runtime.mcall"][..], functions, &["runtime.futex", "futex_do_wait_[k]"]].concat();
        ended(1, &stack, |stage, at| wakes(stage, at, WORKER, 0, UNLOCK, SERVER)).1
    };
    assert_eq!(end(&["runtime.schedule", "runtime.findRunnable", "runtime.stopm", "runtime.notesleep"]), WORK);
    assert_eq!(end(&["runtime.mallocgc", "runtime.lock2"]), BROKEN);
    // /proc shows no functions of user code, but the same thread waits as a worker later.
    let mut stage = stage();
    let idle = ["main", "runtime.findRunnable", "runtime.stopm", "__x64_sys_futex_[k]"];
    for at in [1, 21, 41] {
        sleeps(&mut stage, at * MS, SERVER, 1, &idle);
        wakes(&mut stage, (at + 10) * MS, WORKER, 0, UNLOCK, SERVER);
    }
    assert_eq!(text(of(&stage.panels(), "Blocked"), 0, "class"), WORK);
}

/// The end of the wait determines whether a stack is idle; a lock or a poll in its functions has no effect.
#[test]
fn what_ends_a_wait_decides() {
    for functions in [LOCK, POLL] {
        let by = |on, flags, stack: &'static [&'static str]| {
            ended(1, functions, |stage, at| wakes(stage, at, on, flags, stack, SERVER))
        };
        let is = |waker: &str, class: &str| (waker.to_owned(), class.to_owned());
        // The worker is interrupted: it is not the waker.
        assert_eq!(by(WORKER, HARDIRQ, TIMER), is("timer", WORK));
        assert_eq!(by(WORKER, SOFTIRQ, PACKET), is("network softirq", WORK));
        assert_eq!(by(CLIENT, SOFTIRQ, LOOPBACK), is("client", WORK));
        assert_eq!(by(CLIENT, 0, SEND), is("client", WORK));
        for passes in [MESSAGE, CHANGE, KILL] {
            assert_eq!(by(CLIENT, 0, passes), is("client", WORK), "{passes:?}");
            assert_eq!(by(WORKER, 0, passes), is("worker", EACH_OTHER), "{passes:?}");
        }
        assert_eq!(by(CLIENT, 0, UNLOCK), is("client", HELD));
        assert_eq!(by(WORKER, 0, UNLOCK), is("worker", EACH_OTHER));
        assert_eq!(by(WORKER, 0, SEND), is("worker", EACH_OTHER));
        assert_eq!(by(WORKER, SOFTIRQ, LOOPBACK), is("worker", EACH_OTHER));
        assert_eq!(by(WORKER, HARDIRQ, &["main", "0xffffffff81000000_[k]"]), is("interrupt", HELD));
    }
}

/// The end of a program wakes all of its threads; the idle ones were not woken by each other.
#[test]
fn the_end_of_a_program_does_not_end_waits() {
    let exits = |stage: &mut Stage, at| wakes(stage, at, WORKER, 0, EXIT, SERVER);
    for functions in [LOCK, POLL] {
        assert_eq!(ended(1, functions, exits), ("end of the program".to_owned(), WORK.to_owned()));
    }
    // Another thread ended an earlier wait in that place.
    let mut stage = stage();
    sleeps(&mut stage, MS, SERVER, 1, LOCK);
    wakes(&mut stage, 41 * MS, WORKER, 0, UNLOCK, SERVER);
    sleeps(&mut stage, 42 * MS, SERVER, 1, LOCK);
    exits(&mut stage, 102 * MS);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    assert_eq!((rows(blocked).ids.len(), text(blocked, 0, "class")), (1, EACH_OTHER.to_owned()));
    assert_eq!(text(blocked, 0, "wakers"), "end of the program 60.0 %, worker 40.0 %");
}

#[test]
fn a_disk_is_named_by_its_last_request() {
    let with = |request: Option<u64>| {
        ended(2, READ, |stage, at| {
            request.into_iter().for_each(|before| completes(stage, at - before));
            wakes(stage, at, CLIENT, SOFTIRQ, DISK, SERVER);
        })
    };
    assert_eq!(with(Some(MS / 100)), ("254:0 interrupt".to_owned(), HELD.to_owned()));
    assert_eq!(with(Some(50 * MS)), ("disk interrupt".to_owned(), HELD.to_owned()));
    assert_eq!(with(None), ("disk interrupt".to_owned(), HELD.to_owned()));
}

/// Uninterruptible sleep is held up regardless of its end, and a stopped task is not idle.
#[test]
fn the_state_of_a_sleep_goes_first() {
    for state in [2, 4, 8] {
        let (_, class) = ended(state, POLL, |stage, at| wakes(stage, at, WORKER, HARDIRQ, TIMER, SERVER));
        assert_eq!(class, HELD, "{state}");
    }
    let (_, class) = ended(0x80, POLL, |stage, at| wakes(stage, at, WORKER, 0, UNLOCK, SERVER));
    assert_eq!(class, WORK, "I");
}

/// A wait for a lock with a timeout: timers end most of its parts, and the holder ends the last one.
#[test]
fn timers_in_a_lock_do_not_make_it_idle() {
    let mut stage = stage();
    for round in 0..10 {
        let at = 5 * round * MS;
        sleeps(&mut stage, at, SERVER, 1, LOCK);
        wakes(&mut stage, at + 5 * MS - 1, WORKER, HARDIRQ, TIMER, SERVER);
    }
    // Until then it may be a thread that polls for work.
    assert_eq!(text(of(&stage.panels(), "Blocked"), 0, "class"), WORK);
    sleeps(&mut stage, 50 * MS, SERVER, 1, LOCK);
    wakes(&mut stage, 51 * MS, WORKER, 0, UNLOCK, SERVER);
    // Another thread of the program still waits there; one elsewhere and one of another program are unaffected.
    sleeps(&mut stage, 51 * MS, WORKER, 1, LOCK);
    sleeps(&mut stage, 51 * MS, (32, 3, "poller"), 1, POLL);
    sleeps(&mut stage, 51 * MS, CLIENT, 1, LOCK);
    stage.until(100 * MS);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    let row = |at: usize| (text(blocked, at, "comm"), text(blocked, at, "class"), text(blocked, at, "wakers"));
    assert_eq!(row(0).0, "server");
    assert_eq!(row(0).1, EACH_OTHER);
    assert_eq!(row(0).2, "timer 98.0 %, worker 2.0 %");
    assert_eq!(row(1), ("worker".into(), EACH_OTHER.into(), "none yet".into()));
    assert_eq!(text(blocked, 2, "stack"), "waiting for work: 2 threads");
    assert_eq!(rows(blocked).rest.map(|rest| rest.row), Some(2));
}

/// With broken stacks, a lock and a queue are indistinguishable: only a message from outside gives a verdict.
#[test]
fn broken_stacks_have_no_verdict() {
    let broken = ["[broken]", "__x64_sys_futex_[k]", "futex_do_wait_[k]", "schedule_[k]"];
    // Of a library without frame pointers there is one function, and no mark.
    let cut = ["wait", "__x64_sys_futex_[k]", "schedule_[k]"];
    for functions in [&broken[..], &cut[..]] {
        let by = |on, flags, stack| ended(1, functions, |stage, at| wakes(stage, at, on, flags, stack, SERVER)).1;
        assert_eq!(by(WORKER, HARDIRQ, TIMER), BROKEN);
        assert_eq!(by(WORKER, 0, UNLOCK), BROKEN);
        assert_eq!(by(WORKER, SOFTIRQ, PACKET), WORK);
        assert_eq!(by(CLIENT, 0, SEND), WORK);
        assert_eq!(by(CLIENT, 0, UNLOCK), HELD);
        // Nothing has ended it yet.
        assert_eq!(ended(1, functions, |stage, at| _ = stage.until(at)).1, BROKEN);
    }
    let of_kernel = ["kthread_[k]", "worker_thread_[k]", "schedule_[k]"];
    assert_eq!(ended(1, &of_kernel, |stage, at| _ = stage.until(at)).1, WORK);
}

/// The kernel shows that a thread sleeps until its own timer expires, also without its callers. A user function of that
/// name has no effect, and neither has another timer: of a lock with a timeout, of an epoll_wait.
#[test]
fn a_sleep_until_a_timer_needs_no_user_stack() {
    let sleep = ["__x64_sys_clock_nanosleep_[k]", "hrtimer_nanosleep_[k]", "do_nanosleep_[k]", "schedule_[k]"];
    let class_of = |outer: &[&'static str], kernel: &[&'static str], end: fn(&mut Stage, u64)| {
        ended(1, &[outer, kernel].concat(), end).1
    };
    let timer = |stage: &mut Stage, at| wakes(stage, at, WORKER, HARDIRQ, TIMER, SERVER);
    let nothing = |stage: &mut Stage, at| _ = stage.until(at);
    for outer in [&["[broken]"][..], &["clock_nanosleep"]] {
        assert_eq!(class_of(outer, &sleep, timer), WORK);
        assert_eq!(class_of(outer, &sleep, nothing), WORK);
        // A signal of the own program.
        assert_eq!(class_of(outer, &sleep, |stage, at| wakes(stage, at, WORKER, 0, UNLOCK, SERVER)), BROKEN);
    }
    for outer in [&["[broken]"][..], &["do_nanosleep"]] {
        let futex = ["__x64_sys_futex_[k]", "futex_do_wait_[k]", "schedule_[k]"];
        let poll = ["__x64_sys_epoll_wait_[k]", "ep_poll_[k]", "schedule_[k]"];
        assert_eq!(class_of(outer, &futex, timer), BROKEN);
        assert_eq!(class_of(outer, &poll, timer), BROKEN);
    }
}

/// The threads of a pool that nothing wakes are idle although others of the pool get work; the waiters of a lock that
/// wake each other are not.
#[test]
fn idle_threads_of_a_pool_are_told_from_the_waiters_of_a_lock() {
    const PRODUCER: Thread = (32, 3, "producer");
    let class_of_the_idle = |rounds: u64, waker_waits_too: bool| {
        let mut stage = stage();
        sleeps(&mut stage, 0, SERVER, 1, LOCK);
        for round in 0..rounds {
            sleeps(&mut stage, 10 * round * MS, WORKER, 1, LOCK);
            wakes(&mut stage, (10 * round + 5) * MS, PRODUCER, 0, UNLOCK, WORKER);
        }
        let waits_in = if waker_waits_too { LOCK } else { POLL };
        sleeps(&mut stage, 90 * MS, PRODUCER, 1, waits_in);
        stage.until(100 * MS);
        let panels = stage.panels();
        let under_way = of(&panels, "Under way");
        let row = (0..rows(under_way).ids.len()).find(|row| text(under_way, *row, "comm") == "server");
        text(under_way, row.expect("it sleeps still"), "class")
    };
    assert_eq!(class_of_the_idle(5, false), WORK);
    assert_eq!(class_of_the_idle(5, true), EACH_OTHER);
    // Two wake-ups are too few to tell.
    assert_eq!(class_of_the_idle(2, false), EACH_OTHER);
}

/// Shares refer to the total sleep time: they add up including the fold, and the flame graph has the same figures.
#[test]
fn shares_add_up_and_the_graph_agrees() {
    let mut stage = stage();
    let idle: [(Thread, &[&str]); 3] = [((60, 6, "redis"), POLL), ((61, 6, "pool"), LOCK), ((62, 6, "cron"), LOCK)];
    for (thread, functions) in idle {
        sleeps(&mut stage, 0, thread, 1, functions);
    }
    wakes(&mut stage, 50 * MS, CLIENT, SOFTIRQ, PACKET, idle[0].0);
    wakes(&mut stage, 100 * MS, CLIENT, HARDIRQ, TIMER, idle[1].0);
    sleeps(&mut stage, 0, SERVER, 1, LOCK);
    wakes(&mut stage, 40 * MS, WORKER, 0, UNLOCK, SERVER);
    sleeps(&mut stage, 40 * MS, SERVER, 2, READ);
    wakes(&mut stage, 50 * MS, WORKER, SOFTIRQ, DISK, SERVER);
    stage.until(100 * MS);
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    let rest = rows(blocked).rest.expect("a rest");
    let shares: Vec<f64> = (0..=rest.row).map(|row| number(blocked, row, "share_pct")).collect();
    assert_eq!(shares.iter().sum::<f64>().round(), 100.0);
    // Waits that may hold up work come first; the row with the most time is not dim.
    assert_eq!((text(blocked, 0, "class"), text(blocked, 1, "class")), (EACH_OTHER.into(), HELD.into()));
    assert_eq!((rest.row, rest.after, rest.is_largest), (2, 2, true));
    assert_eq!(number(blocked, 2, "blocked_ns"), 250.0 * MS as f64);
    assert_eq!(text(blocked, 2, "comm"), "cron 40.0 %, pool 40.0 %, 1 more");
    let Body::Flame(graph) = &of(&panels, "Blocked and woken").body else { panic!("no graph") };
    let folded = graph.folded("");
    let sum = |start: &str| -> u64 {
        let own = folded.lines().filter(|line| line.starts_with(start));
        own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!((sum("waiting for work;"), sum("")), (250 * MS, 300 * MS));
    assert_eq!(sum("server;main;mutex_lock"), 40 * MS);
    let wakers = of(&panels, "Wakers");
    assert_eq!((text(wakers, 0, "waker"), number(wakers, 0, "blocked_ns")), ("worker".into(), 40.0 * MS as f64));
    // The wakers of the fold, if it is selected.
    stage.look.selected = vec![Some(rows(blocked).ids[rest.row])];
    let panels = stage.panels();
    assert_eq!(number(of(&panels, "Wakers of what waits for work"), 0, "blocked_ns"), 100.0 * MS as f64);
}

/// PostgreSQL waits for a row in epoll_wait, and InnoDB at a condition variable: `waits` shows time as waiting for work
/// only if something outside the program ends the wait.
#[test]
fn the_parts_of_a_thread_follow_the_ends_of_its_waits() {
    const QUEUE: &[&str] = &["main", "take", "pthread_cond_wait", "__x64_sys_futex_[k]", "futex_do_wait_[k]"];
    let parts = |functions: &[&str], end: fn(&mut Stage, u64)| {
        let mut stage = sched("waits", &[]);
        stage.plain(3, "cpu-clock");
        sleeps(&mut stage, MS, SERVER, 1, functions);
        end(&mut stage, 101 * MS);
        let panels = stage.panels();
        let table = of(&panels, "Threads");
        let row = (0..rows(table).ids.len()).find(|row| text(table, *row, "comm") == "server").expect("a row");
        ["work_ns", "each_other_ns", "active_ns"].map(|part| number(table, row, part) / MS as f64)
    };
    for functions in [POLL, QUEUE] {
        assert_eq!(parts(functions, |stage, at| wakes(stage, at, WORKER, 0, UNLOCK, SERVER)), [0.0, 100.0, 100.0]);
        assert_eq!(parts(functions, |stage, at| wakes(stage, at, CLIENT, 0, SEND, SERVER)), [100.0, 0.0, 0.0]);
        assert_eq!(parts(functions, |stage, at| wakes(stage, at, CLIENT, HARDIRQ, TIMER, SERVER)), [100.0, 0.0, 0.0]);
        assert_eq!(parts(functions, |stage, at| _ = stage.until(at)), [100.0, 0.0, 0.0]);
    }
}

/// The row of waits for work is shown after all that may have delayed work, unless that is a trifle.
#[test]
fn waits_for_work_come_after_what_may_have_delayed_work() {
    // The idle thread sleeps for 20, 90 and 5,000 ms; other waits of 60 and 30 ms may have delayed work.
    for (idle, place, is_largest) in [(20, 2, false), (90, 2, true), (5_000, 1, true)] {
        let mut stage = stage();
        sleeps(&mut stage, 0, SERVER, 2, READ);
        wakes(&mut stage, 60 * MS, CLIENT, SOFTIRQ, DISK, SERVER);
        sleeps(&mut stage, 0, CLIENT, 1, LOCK);
        wakes(&mut stage, 30 * MS, (41, 4, "other"), 0, UNLOCK, CLIENT);
        sleeps(&mut stage, 0, WORKER, 1, POLL);
        wakes(&mut stage, idle * MS, CLIENT, SOFTIRQ, PACKET, WORKER);
        let panels = stage.panels();
        let blocked = of(&panels, "Blocked");
        let printed = blocked.to_text();
        let rows: Vec<&str> = printed.lines().skip(2).collect();
        assert!(rows[place].ends_with("waiting for work: 1 thread"), "{idle}: {printed}");
        let rest = rows_rest(blocked);
        assert_eq!((rows.len(), rest.after, rest.is_largest), (3, place, is_largest), "{idle}: {printed}");
    }
}

/// A database: each connection has a thread that receives queries, and a pool gets tasks from other threads. The
/// waiter of a row sleeps for less time than the pool, and both are woken by threads of the program.
#[test]
fn waits_within_requests_come_before_those_of_pools() {
    const POOL: &[&str] = &["start_thread", "worker_main", "wait_for_tasks", "__x64_sys_futex_[k]", "schedule_[k]"];
    const ROW: &[&str] = &["start_thread", "do_command", "lock_wait", "__x64_sys_futex_[k]", "schedule_[k]"];
    const PARK: &[&str] = &["start_thread", "cache", "__x64_sys_futex_[k]", "schedule_[k]"];
    const CONNECT: &[&str] =
        &["main", "ask", "__x64_sys_connect_[k]", "unix_stream_connect_[k]", "sock_def_readable_[k]"];
    let thread = |tid| -> Thread { (tid, 3, "server") };
    let [main, holder, waiter, parked, timers] = [3, 31, 32, 33, 34].map(thread);
    let classes = |is_served: bool, pool: i32, lock_ms: u64| {
        let mut stage = stage();
        for tid in 0..pool {
            sleeps(&mut stage, 0, thread(50 + tid), 1, POOL);
            wakes(&mut stage, 50 * MS, timers, 0, UNLOCK, thread(50 + tid));
            sleeps(&mut stage, 51 * MS, thread(50 + tid), 1, POOL);
        }
        // A thread of an earlier connection gets the next one from the thread that accepts it.
        sleeps(&mut stage, 0, main, 1, POLL);
        sleeps(&mut stage, 0, parked, 1, PARK);
        wakes(&mut stage, 80 * MS, CLIENT, 0, CONNECT, main);
        wakes(&mut stage, 80 * MS, main, 0, UNLOCK, parked);
        for connection in [holder, waiter, parked].into_iter().filter(|_| is_served) {
            sleeps(&mut stage, 81 * MS, connection, 1, POLL);
            wakes(&mut stage, 82 * MS, CLIENT, 0, SEND, connection);
        }
        sleeps(&mut stage, 100 * MS, waiter, 1, ROW);
        wakes(&mut stage, (100 + lock_ms) * MS, holder, 0, UNLOCK, waiter);
        sleeps(&mut stage, 100 * MS, parked, 1, PARK);
        stage.until(200 * MS);
        let panels = stage.panels();
        let blocked = of(&panels, "Blocked");
        let rest = rows_rest(blocked);
        let row = |at: usize| {
            let stack = text(blocked, at, "stack");
            let place = stack.split(" < ").find(|name| ["wait_for_tasks", "lock_wait", "cache"].contains(name));
            (place.unwrap_or_default().to_owned(), text(blocked, at, "class"))
        };
        let is_ordered = rows(blocked).ordered_by.is_some();
        ((0..rest.row).map(row).collect::<Vec<_>>(), is_ordered)
    };
    let row = |place: &str, class: &str| (place.to_owned(), class.to_owned());
    let [pool, lock, park] = ["wait_for_tasks", "lock_wait", "cache"].map(|place| move |class| row(place, class));
    assert_eq!(
        classes(true, 2, 40),
        (vec![lock(EACH_OTHER), pool(OUTSIDE), park(OUTSIDE)], false),
        "the threads of the connections serve requests"
    );
    // Without a message from outside, no thread is known to serve requests: waits are in order of their times.
    assert_eq!(classes(false, 2, 40).0, [pool(EACH_OTHER), park(EACH_OTHER), lock(EACH_OTHER)]);
    // A thread that answers questions about a batch program does not put the others' waits below its own short ones.
    assert_eq!(classes(true, 2, 4).0[0], pool(EACH_OTHER));
}

/// A worker that gets requests from the thread that receives them serves them outside of the place where it waits for
/// them: its waits for a lock delay requests.
#[test]
fn a_worker_serves_the_requests_that_a_receiver_hands_over() {
    const TAKE: &[&str] = &["start_thread", "take", "__x64_sys_futex_[k]", "schedule_[k]"];
    let workers: [Thread; 2] = [(51, 3, "server"), (52, 3, "server")];
    let mut stage = stage();
    for round in 0..4 {
        let at = 100 * round;
        sleeps(&mut stage, at * MS, SERVER, 1, POLL);
        workers.iter().for_each(|worker| sleeps(&mut stage, at * MS, *worker, 1, TAKE));
        wakes(&mut stage, (at + 60) * MS, CLIENT, 0, SEND, SERVER);
        workers.iter().for_each(|worker| wakes(&mut stage, (at + 60) * MS, SERVER, 0, UNLOCK, *worker));
        sleeps(&mut stage, (at + 61) * MS, workers[0], 1, LOCK);
        wakes(&mut stage, (at + 91) * MS, workers[1], 0, UNLOCK, workers[0]);
    }
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    let row = |at: usize| (text(blocked, at, "stack").contains("mutex_lock"), text(blocked, at, "class"));
    assert_eq!([row(0), row(1)], [(true, EACH_OTHER.to_owned()), (false, OUTSIDE.to_owned())]);
}

/// A main thread asks helpers by pipes, and waits for a lock of one of them: the helpers wait longer than it, because it
/// does other things. Without a sign of who asks whom, the waits are in order of their times.
#[test]
fn waits_for_messages_of_the_main_thread_come_after_its_own_waits() {
    const ASK: &[&str] = &["main", "ask", "__x64_sys_write_[k]", "anon_pipe_write_[k]", "try_to_wake_up_[k]"];
    const TAKE: &[&str] = &["start_thread", "take", "__x64_sys_read_[k]", "anon_pipe_read_[k]", "schedule_[k]"];
    let rows_of = |asker: Thread, by: &[&str]| {
        let mut stage = stage();
        for at in [0, 100, 200, 300] {
            sleeps(&mut stage, at * MS, WORKER, 1, TAKE);
            sleeps(&mut stage, at * MS, asker, 1, LOCK);
            wakes(&mut stage, (at + 20) * MS, SERVER, 0, UNLOCK, asker);
            wakes(&mut stage, (at + 70) * MS, asker, 0, by, WORKER);
        }
        // The time until the next question.
        sleeps(&mut stage, 400 * MS, WORKER, 1, TAKE);
        stage.until(420 * MS);
        let panels = stage.panels();
        let blocked = of(&panels, "Blocked");
        let row = |at: usize| {
            let stack = text(blocked, at, "stack");
            (stack.contains("mutex_lock"), text(blocked, at, "class"), number(blocked, at, "blocked_ns") / MS as f64)
        };
        [row(0), row(1)]
    };
    let lock = (true, EACH_OTHER.to_owned(), 80.0);
    let main = (3, 3, "server");
    let for_main = "not known: for its main thread".to_owned();
    assert_eq!(rows_of(main, ASK), [lock.clone(), (false, for_main, 300.0)]);
    // A lock of the main thread, or a queue, and a thread that need not be older than the worker.
    let each_other = (false, EACH_OTHER.to_owned(), 300.0);
    assert_eq!(rows_of(main, UNLOCK), [each_other.clone(), lock.clone()]);
    assert_eq!(rows_of((33, 3, "server"), ASK), [each_other, lock]);
}

fn rows_rest(panel: &Panel) -> perfprof_tui::panel::Rest {
    rows(panel).rest.expect("a rest")
}

/// A thread that is still blocked counts up to now, in each interval with its part.
#[test]
fn a_wait_that_has_not_ended_counts_up_to_now() {
    let mut stage = stage();
    sleeps(&mut stage, 0, SERVER, 2, READ);
    stage.until(30 * MS);
    let figure =
        |stage: &mut Stage, title: &str, column: &str| number(of(&stage.panels(), title), 0, column) / MS as f64;
    assert_eq!(
        (figure(&mut stage, "Blocked", "blocked_ns"), figure(&mut stage, "Under way", "so_far_ns")),
        (30.0, 30.0)
    );
    stage.reset();
    stage.until(50 * MS);
    assert_eq!(
        (figure(&mut stage, "Blocked", "blocked_ns"), figure(&mut stage, "Under way", "so_far_ns")),
        (20.0, 50.0)
    );
    wakes(&mut stage, 60 * MS, WORKER, SOFTIRQ, DISK, SERVER);
    let panels = stage.panels();
    assert_eq!(number(of(&panels, "Blocked"), 0, "blocked_ns"), 30.0 * MS as f64);
    assert!(rows(of(&panels, "Under way")).ids.is_empty());
}

/// If a recording has both records of a wakeup, the waker's own record counts.
#[test]
fn a_wake_up_is_counted_once() {
    for unit in ["offcpu", "wakeups"] {
        let mut stage = sched(unit, &[]);
        stage.second(1, "sched:sched_waking", 77);
        sleeps(&mut stage, 0, SERVER, 1, LOCK);
        // The CPU that receives the thread finishes its wakeup; the other record came first.
        for (event, by, at) in [(77, WORKER, 10), (1, CLIENT, 11)] {
            stage.call(by.0, by.2);
            let hit = UnitSample { event, tid: by.0, pid: by.1, ..stage.hit(1, at * MS) };
            stage.give(hit, &[Value::T("server"), Value::N(30), Value::N(0)]);
        }
        let panels = stage.panels();
        let (panel, waker) = if unit == "offcpu" { ("Blocked", "wakers") } else { ("Wakers, w", "waker") };
        let panel = of(&panels, panel);
        assert!(text(panel, 0, waker).starts_with("worker"), "{unit}");
        assert_eq!((rows(panel).ids.len(), number(panel, 0, "times")), (1, 1.0), "{unit}");
    }
}

/// All interrupts of a kind are one waker, regardless of the interrupted task.
#[test]
fn interrupts_are_one_waker_whoever_they_interrupt() {
    let mut stage = sched("wakeups", &["-g"]);
    stage.event(3, "block:block_rq_complete", &["unsigned int dev"], "\"\"");
    for on in 100..110 {
        let neighbour: Thread = (on, on, "neighbour");
        let at = u64::from(on as u32) * 10 * MS;
        wakes(&mut stage, at, neighbour, HARDIRQ, TIMER, SERVER);
        wakes(&mut stage, at + MS, neighbour, SOFTIRQ, PACKET, SERVER);
        stage.flags = SOFTIRQ;
        let hit = stage.hit(3, at + 2 * MS);
        stage.give(hit, &[Value::N(254 << 20)]);
        wakes(&mut stage, at + 2 * MS, neighbour, SOFTIRQ, DISK, SERVER);
    }
    let panels = stage.panels();
    let pairs = of(&panels, "Wakers, wakees");
    let row = |at: usize| (text(pairs, at, "waker"), text(pairs, at, "context"), number(pairs, at, "times"));
    assert_eq!(
        [row(0), row(1), row(2)],
        [("254:0 interrupt", "softirq"), ("network softirq", "softirq"), ("timer", "interrupt")]
            .map(|(waker, context)| (waker.to_owned(), context.to_owned(), 10.0))
    );
    assert_eq!(rows(pairs).ids.len(), 3);
}

/// Without wake-ups, sleep counts until the thread runs, and its waker is not known.
#[test]
fn a_recording_of_switches_alone_shows_sleep() {
    let output = run(program().args(["offcpu", "--batch", "--format", "json"]).arg(data("switches.data")));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let panel = &answer["panels"][0];
    let slept = &panel["rest"]["sum"];
    assert!(slept["blocked_ns"].as_u64() > Some(0) && slept["wakers"] == "not recorded", "{panel}");
    assert!(panel["note"].as_str().is_some_and(|note| note.contains("sched:sched_waking")), "{panel}");
}
