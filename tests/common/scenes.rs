//! A small scenario for each analysis unit, in records with known results.

use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::Mmap;
use perfprof_tui::units;
use perfprof_tui::units::kit::CountedEvents;

use super::dns_message::{payload, raw};
use super::stage::{START, Stage, Value, settings};

pub const MS: u64 = 1_000_000;
pub const US: u64 = 1000;

pub const SWITCH: &[&str] =
    &["char prev_comm[16]", "int prev_pid", "long prev_state", "char next_comm[16]", "int next_pid"];
const WAKEUP: &[&str] = &["char comm[16]", "int pid", "int target_cpu"];

fn stage(name: &str, words: &[&str]) -> Stage {
    Stage::new(units::find(name).expect("a unit"), words)
}

/// A stage with the scheduler's three tracepoints.
pub fn sched(name: &str, words: &[&str]) -> Stage {
    let mut stage = stage(name, words);
    stage.event(0, "sched:sched_switch", SWITCH, "\"switch\"");
    if stage.unit.event_requests().len() > 1 {
        stage.event(1, "sched:sched_wakeup", WAKEUP, "\"wakeup\"");
        stage.event(2, "sched:sched_wakeup_new", WAKEUP, "\"wakeup_new\"");
    }
    stage
}

fn comm(tid: i64) -> &'static str {
    match tid {
        0 => "swapper",
        10 => "hog",
        20 => "victim",
        _ => "other",
    }
}

/// Switches a CPU from one task to another.
pub fn switch(stage: &mut Stage, after: u64, cpu: u32, prev: (i64, i64), next: i64) {
    let hit = stage.hit(0, after);
    let hit = perfprof_tui::units::kit::UnitSample { cpu, tid: prev.0 as i32, ..hit };
    use Value::{N, T};
    stage.give(hit, &[T(comm(prev.0)), N(prev.0), N(prev.1), T(comm(next)), N(next)]);
}

/// Wakes a task.
pub fn wake(stage: &mut Stage, after: u64, by: i32, tid: i64, cpu: i64) {
    let hit = perfprof_tui::units::kit::UnitSample { tid: by, ..stage.hit(1, after) };
    stage.give(hit, &[Value::T(comm(tid)), Value::N(tid), Value::N(cpu)]);
}

/// A hog runs on CPU 0 while a victim wakes and waits for 5 ms and 3 ms, with 7 ms of sleep in between.
fn run_queue(stage: &mut Stage) {
    switch(stage, 0, 0, (0, 0), 10);
    wake(stage, MS, 10, 20, 0);
    switch(stage, 6 * MS, 0, (10, 0x100), 20);
    switch(stage, 7 * MS, 0, (20, 1), 10);
    wake(stage, 14 * MS, 10, 20, 0);
    switch(stage, 17 * MS, 0, (10, 0x100), 20);
    switch(stage, 18 * MS, 0, (20, 2), 10);
    stage.until(20 * MS);
}

pub const FUTEX: &[&str] = &["long uaddr", "long op", "int uaddr_val", "int uaddr_count", "int uaddr_owner"];

/// A stage of `locks` with its events, and the threads of process 1.
pub fn locks() -> Stage {
    let mut s = sched("locks", &[]);
    s.plain(3, "cpu-clock").event(4, "syscalls:sys_enter_futex", FUTEX, "\"\"");
    s.event(5, "syscalls:sys_exit_futex", &["long ret"], "\"\"");
    s.event(6, "lock:contention_begin", &["long lock_addr", "unsigned int flags"], "\"\"");
    s.event(7, "lock:contention_end", &["long lock_addr", "int ret"], "\"\"");
    for (tid, name) in [(1, &b"app"[..]), (2, b"front"), (3, b"middle"), (4, b"back")] {
        s.thread(&Record::Comm { pid: 1, tid, exec: false, name }, 0);
        s.call(tid, std::str::from_utf8(name).expect("text"));
    }
    s
}

/// A thread waits for a futex whose mutex has an owner.
pub fn wait(s: &mut Stage, after: u64, tid: i32, futex: i64, owner: i64, functions: &[&str]) {
    let hit = perfprof_tui::units::kit::UnitSample { tid, stack: s.stack(functions), ..s.hit(4, after) };
    s.give(hit, &[Value::N(futex), Value::N(0x80), Value::N(2), Value::N(1), Value::N(owner)]);
}

/// A thread wakes another one in its release, and that returns from its wait a millisecond later.
pub fn unlock(s: &mut Stage, after: u64, by: i32, woken: i32, functions: &[&str]) {
    let hit = perfprof_tui::units::kit::UnitSample { tid: by, stack: s.stack(functions), ..s.hit(1, after) };
    s.give(hit, &[Value::T("other"), Value::N(woken.into()), Value::N(0)]);
    let hit = perfprof_tui::units::kit::UnitSample { tid: woken, ..s.hit(5, after + MS) };
    s.give(hit, &[Value::N(0)]);
}

/// Thread "front" waits for a lock of "middle", which waits for one of "back", which sleeps in fsync and runs.
fn lock_chain() -> Stage {
    use Value::{N, T};
    let mut s = locks();
    wait(&mut s, MS, 3, 0xb000, 4, &["main", "middle_round", "pthread_mutex_lock", "__lll_lock_wait", "futex_[k]"]);
    wait(&mut s, 2 * MS, 2, 0xa000, 3, &["main", "front_round", "pthread_mutex_lock", "__lll_lock_wait", "futex_[k]"]);
    let disk = s.stack(&["main", "slow_disk", "fsync", "__x64_sys_fsync_[k]", "io_schedule_[k]"]);
    let leave = perfprof_tui::units::kit::UnitSample { tid: 4, stack: disk, ..s.hit(0, 3 * MS) };
    s.give(leave, &[T("back"), N(4), N(2), T("other"), N(9)]);
    s.flags = 8;
    let wake = perfprof_tui::units::kit::UnitSample { tid: 9, ..s.hit(1, 15 * MS) };
    s.give(wake, &[T("back"), N(4), N(0)]);
    s.flags = 0;
    let runs = s.stack(&["main", "slow_work"]);
    let ran = perfprof_tui::units::kit::UnitSample { tid: 4, stack: runs, period: 8 * MS, ..s.hit(3, 24 * MS) };
    s.give(ran, &[]);
    unlock(&mut s, 25 * MS, 4, 3, &["main", "back_round", "pthread_mutex_unlock"]);
    unlock(&mut s, 27 * MS, 3, 2, &["main", "middle_round", "pthread_mutex_unlock"]);
    let fault = s.stack(&["main", "touch", "asm_exc_page_fault_[k]", "lock_mm_and_find_vma_[k]", "down_read_[k]"]);
    let begin = perfprof_tui::units::kit::UnitSample { tid: 2, stack: fault, ..s.hit(6, 30 * MS) };
    s.give(begin, &[N(-0x1000), N(2)]);
    let end = perfprof_tui::units::kit::UnitSample { tid: 2, ..s.hit(7, 33 * MS) };
    s.give(end, &[N(-0x1000), N(0)]);
    s.until(40 * MS);
    s
}

/// A stage of `waits` with its events.
pub fn waits(words: &[&str]) -> Stage {
    let mut s = sched("waits", words);
    s.plain(3, "cpu-clock");
    s
}

/// A sample of a running thread.
pub fn runs(s: &mut Stage, after: u64, tid: i32, user: bool, functions: &[&str]) {
    let stack = s.stack(functions);
    let hit = perfprof_tui::units::kit::UnitSample { tid, user, stack, period: MS, ..s.hit(3, after) };
    s.give(hit, &[]);
}

/// A thread leaves CPU 0 in a place, for another one.
pub fn leaves(s: &mut Stage, after: u64, prev: (i64, i64), next: i64, functions: &[&str]) {
    use Value::{N, T};
    let stack = s.stack(functions);
    let hit = perfprof_tui::units::kit::UnitSample { tid: prev.0 as i32, stack, ..s.hit(0, after) };
    s.give(hit, &[T(comm(prev.0)), N(prev.0), N(prev.1), T(comm(next)), N(next)]);
}

/// The victim runs for 10 ms, waits 20 ms for a disk and 5 ms for the CPU of the hog, and 15 ms for a lock.
fn parts_of_time() -> Stage {
    let mut s = waits(&[]);
    switch(&mut s, 0, 0, (0, 0), 20);
    for at in 1..=3 {
        runs(&mut s, at * MS, 20, true, &["main", "parse"]);
    }
    runs(&mut s, 4 * MS, 20, false, &["main", "parse", "__x64_sys_read_[k]", "copy_[k]"]);
    leaves(&mut s, 10 * MS, (20, 2), 10, &["main", "load", "__x64_sys_fsync_[k]", "folio_wait_bit_[k]"]);
    runs(&mut s, 20 * MS, 10, true, &["main", "spin"]);
    wake(&mut s, 30 * MS, 10, 20, 0);
    switch(&mut s, 35 * MS, 0, (10, 0x100), 20);
    leaves(&mut s, 35 * MS, (20, 1), 10, &["main", "take", "pthread_mutex_lock", "__x64_sys_futex_[k]"]);
    s.until(50 * MS);
    s
}

const ENDS: &str = "unsigned short sport;unsigned short dport;unsigned short family;unsigned short protocol;\
                    u8 saddr[4];u8 daddr[4];u8 saddr_v6[16];u8 daddr_v6[16]";

/// A stage of `tcp` with its events.
pub fn tcp() -> Stage {
    let mut s = stage("tcp", &[]);
    let with = |own: &'static str| own.split(';').chain(ENDS.split(';')).filter(|field| !field.is_empty());
    let fields: [(&str, &str); 5] = [
        ("sock:inet_sock_set_state", "long skaddr;int oldstate;int newstate"),
        ("sock:inet_sk_error_report", "int error"),
        ("tcp:tcp_retransmit_skb", "long skaddr"),
        ("tcp:tcp_send_reset", "long skaddr;int reason"),
        ("tcp:tcp_receive_reset", "long skaddr"),
    ];
    for (role, (name, own)) in fields.into_iter().enumerate() {
        let fields: Vec<&str> = with(own).collect();
        s.event(role, name, &fields, "\"reason=%s\", __print_symbolic(REC->reason, { 1, \"NO_SOCKET\" })");
    }
    let drop = ["long location", "long rx_sk", "unsigned short protocol", "int reason"];
    s.event(
        5,
        "skb:kfree_skb",
        &drop,
        "\"reason: %s\", __print_symbolic(REC->reason, { 3, \"NO_SOCKET\" }, { 57, \"TCP_ZEROWINDOW\" })",
    );
    let synack: Vec<&str> = with("long skaddr;long req").collect();
    s.event(6, "tcp:tcp_retransmit_synack", &synack, "\"\"");
    s.call(7, "web");
    s.call(8, "db");
    s
}

/// A stage of `dns` with its event.
pub fn dns() -> Stage {
    let mut s = stage("dns", &[]);
    s.plain(0, "dns-messages");
    s.call(7, "web");
    s.call(8, "cron");
    s
}

/// Passes a DNS message: of a process, at a server, with the local port and the id.
pub fn dns_message(s: &mut Stage, after: u64, pid: i32, server: &str, place: (u16, u16), payload: &[u8]) {
    let is_answer = payload.get(2).is_some_and(|flags| flags & 0x80 != 0);
    let payload = [&place.1.to_be_bytes()[..], payload.get(2..).unwrap_or_default()].concat();
    let raw = raw(after, is_answer, place.0, server.parse().expect("an address"), &payload);
    let hit = perfprof_tui::units::kit::UnitSample { pid, tid: pid, ..s.hit(0, after) };
    s.give_raw(hit, &raw);
}

/// Asks for an address.
pub fn dns_query(s: &mut Stage, after: u64, pid: i32, server: &str, place: (u16, u16), name: &str) {
    let labels: Vec<&[u8]> = name.split('.').map(str::as_bytes).collect();
    dns_message(s, after, pid, server, place, &payload(0x100, &labels));
}

/// Reads an answer with a code.
pub fn dns_answer(s: &mut Stage, after: u64, pid: i32, server: &str, place: (u16, u16), code: u16) {
    dns_message(s, after, pid, server, place, &payload(0x8180 | code, &[])[..12]);
}

/// One server answers in 2 ms, another one in 1.5 s or with errors, or not at all.
fn dns_lookups() -> Stage {
    const FAST: &str = "10.0.0.2:53";
    const SLOW: &str = "[2001:db8::53]:53";
    let mut s = dns();
    for number in 0..4 {
        let (at, place) = (u64::from(number) * 10 * MS, (40_000 + number, number));
        dns_query(&mut s, at, 7, FAST, place, "www.example.org");
        dns_answer(&mut s, at + 2 * MS, 7, FAST, place, 0);
    }
    dns_query(&mut s, 50 * MS, 8, SLOW, (50_000, 1), "db.internal");
    dns_query(&mut s, 51 * MS, 8, SLOW, (50_001, 2), "gone.internal");
    dns_answer(&mut s, 60 * MS, 8, SLOW, (50_001, 2), 3);
    dns_query(&mut s, 61 * MS, 8, SLOW, (50_002, 3), "lost.internal");
    dns_answer(&mut s, 1550 * MS, 8, SLOW, (50_000, 1), 0);
    dns_query(&mut s, 5061 * MS, 8, SLOW, (50_002, 3), "lost.internal");
    dns_query(&mut s, 5900 * MS, 7, SLOW, (50_003, 4), "\x1b[31mred.example");
    dns_answer(&mut s, 5910 * MS, 7, SLOW, (50_003, 4), 2);
    s.until(7000 * MS);
    s
}

/// An address of IPv4 as a tracepoint has it.
const fn v4(ip: [u8; 4]) -> i64 {
    u32::from_le_bytes(ip) as i64
}

/// An event of a socket: its own values, then the ports and the addresses of both ends.
pub fn socket(s: &mut Stage, role: usize, after: u64, task: i32, own: &[i64], ports: [i64; 2], ips: [[u8; 4]; 2]) {
    let hit = perfprof_tui::units::kit::UnitSample { pid: task, tid: task, ..s.hit(role, after) };
    let ends = [ports[0], ports[1], 2, 6, v4(ips[0]), v4(ips[1])];
    let values: Vec<Value<'_>> = own.iter().chain(&ends).map(|n| Value::N(*n)).collect();
    s.give(hit, &values);
}

pub const HERE: [u8; 4] = [10, 0, 0, 1];
pub const THERE: [u8; 4] = [10, 0, 3, 7];
pub const CLIENT: [u8; 4] = [10, 0, 9, 9];

/// "web" connects to a database: one connection after 2 ms, which loses a packet and ends 20 ms later, three refused
/// ones. "db" accepts a client, which resets the connection. A packet for a port without a socket is dropped.
fn tcp_peers() -> Stage {
    let mut s = tcp();
    socket(&mut s, 0, 0, 8, &[0xd0, 7, 10], [5432, 0], [[0; 4], [0; 4]]);
    socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 5432], [HERE, THERE]);
    socket(&mut s, 0, 3 * MS, 0, &[0xa0, 2, 1], [40_000, 5432], [HERE, THERE]);
    socket(&mut s, 2, 9 * MS, 0, &[0xa0], [40_000, 5432], [HERE, THERE]);
    socket(&mut s, 0, 23 * MS, 7, &[0xa0, 1, 4], [40_000, 5432], [HERE, THERE]);
    socket(&mut s, 0, 23 * MS, 0, &[0xa0, 4, 7], [40_000, 5432], [HERE, THERE]);
    for i in 0..3u64 {
        let (at, port) = ((30 + i) * MS, 40_001 + i as i64);
        socket(&mut s, 0, at, 7, &[0xb0, 7, 2], [0, 5432], [HERE, THERE]);
        socket(&mut s, 4, at + 100 * US, 0, &[0xb0], [port, 5432], [HERE, THERE]);
        socket(&mut s, 0, at + 100 * US, 0, &[0xb0, 2, 7], [port, 5432], [HERE, THERE]);
        socket(&mut s, 1, at + 100 * US, 0, &[111], [port, 5432], [HERE, THERE]);
    }
    socket(&mut s, 0, 40 * MS, 0, &[0xc0, 10, 3], [5432, 50_000], [HERE, CLIENT]);
    socket(&mut s, 0, 40 * MS, 0, &[0xc0, 3, 1], [5432, 50_000], [HERE, CLIENT]);
    socket(&mut s, 4, 45 * MS, 0, &[0xc0], [5432, 50_000], [HERE, CLIENT]);
    socket(&mut s, 0, 45 * MS, 0, &[0xc0, 1, 7], [5432, 50_000], [HERE, CLIENT]);
    socket(&mut s, 1, 45 * MS, 0, &[104], [5432, 50_000], [HERE, CLIENT]);
    socket(&mut s, 0, 46 * MS, 0, &[0xc8, 10, 3], [5432, 50_001], [HERE, CLIENT]);
    socket(&mut s, 0, 46 * MS, 0, &[0xc8, 3, 1], [5432, 50_001], [HERE, CLIENT]);
    socket(&mut s, 3, 47 * MS, 0, &[0, 1], [81, 50_002], [HERE, CLIENT]);
    let stack = s.stack(&["main", "ip_rcv_[k]", "tcp_v4_rcv_[k]", "sk_skb_reason_drop_[k]"]);
    let drop = perfprof_tui::units::kit::UnitSample { stack, ..s.hit(5, 47 * MS) };
    s.give(drop, &[Value::N(0x99), Value::N(0), Value::N(0x800), Value::N(3)]);
    s.until(1000 * MS);
    s
}

/// The numbers of read, write, openat and close on this machine.
pub const FILE_CALLS: [i64; 4] = if cfg!(target_arch = "aarch64") { [63, 64, 56, 57] } else { [0, 1, 257, 3] };

/// A stage of `files` with its events, and two processes.
pub fn files() -> Stage {
    let mut s = stage("files", &[]);
    s.event(0, "syscalls:sys_enter_openat", &["int dfd", "char __filename_val[32]", "int flags"], "\"\"");
    s.event(4, "raw_syscalls:sys_enter", &["long id", "char args[48]"], "\"\"");
    s.event(5, "raw_syscalls:sys_exit", &["long id", "long ret"], "\"\"");
    s.call(1, "app");
    s.call(2, "logger");
    s
}

/// A thread's call on a descriptor returns after a time.
pub fn file_call(s: &mut Stage, after: u64, took: u64, tid: i32, number: i64, fd: &str, result: i64) {
    let hit = |s: &Stage, role, time| perfprof_tui::units::kit::UnitSample { pid: tid, tid, ..s.hit(role, time) };
    let enter = hit(s, 4, after);
    s.give(enter, &[Value::N(number), Value::T(fd)]);
    let exit = hit(s, 5, after + took);
    s.give(exit, &[Value::N(number), Value::N(result)]);
}

/// A thread's call opens a file, and returns after a time.
pub fn open_file(s: &mut Stage, after: u64, took: u64, tid: i32, path: &str, result: i64) {
    let hit = |s: &Stage, role, time| perfprof_tui::units::kit::UnitSample { pid: tid, tid, ..s.hit(role, time) };
    let enter = hit(s, 0, after);
    s.give(enter, &[Value::N(-100), Value::T(path), Value::N(0)]);
    let exit = hit(s, 5, after + took);
    s.give(exit, &[Value::N(FILE_CALLS[2]), Value::N(result)]);
}

/// A stage of `syscalls` whose records have arguments and the paths of openat.
pub fn syscalls_with_arguments() -> Stage {
    let mut s = stage("syscalls", &["--paths"]);
    s.event(0, "raw_syscalls:sys_enter", &["long id", "char args[48]"], "\"\"");
    s.event(1, "raw_syscalls:sys_exit", &["long id", "long ret"], "\"\"");
    s.event(2, "syscalls:sys_enter_openat", &["char __filename_val[32]"], "\"\"");
    s.call(1, "app");
    s
}

/// "app" reads a database and misses its configuration; "logger" writes a log and closes it.
fn file_users() -> Stage {
    let [read, write, _, close] = FILE_CALLS;
    let mut s = files();
    open_file(&mut s, MS, 10 * US, 1, "/var/lib/db/data", 3);
    for i in 0..4 {
        file_call(&mut s, (2 + 3 * i) * MS, 2 * MS, 1, read, "\u{3}", 8192);
    }
    for i in 0..3 {
        open_file(&mut s, (20 + i) * MS, 5 * US, 1, "/etc/app.conf", -2);
    }
    open_file(&mut s, 30 * MS, 10 * US, 2, "/var/log/app.log", 3);
    file_call(&mut s, 31 * MS, 20 * US, 2, write, "\u{3}", 100);
    file_call(&mut s, 32 * MS, 40 * MS, 2, write, "\u{3}", -28);
    file_call(&mut s, 80 * MS, US, 2, close, "\u{3}", 0);
    file_call(&mut s, 81 * MS, US, 2, read, "\u{3}", 1);
    s.until(1000 * MS);
    s
}

/// The count of a counter in the `ns` nanoseconds before a time.
pub fn counted(role: usize, cpu: u32, until: u64, ns: u64, n: u64, running_percent: f64) -> CountedEvents {
    CountedEvents { role, cpu, from: until - ns, until, n, running_percent }
}

/// Returns the scenario of a unit.
pub fn scene(name: &str) -> Stage {
    use Value::{N, T};
    match name {
        "trace" => {
            let mut s = stage(name, &["-e", "sched:sched_process_exec", "-g"]);
            s.event(
                0,
                "sched:sched_process_exec",
                &["char filename[16]", "int pid"],
                "\"filename=%s pid=%d\", REC->filename, REC->pid",
            );
            s.call(1, "bash");
            let stack = s.stack(&["main", "execute_command", "execve"]);
            for (after, file, pid) in [(MS, "/bin/ls", 40), (3 * MS, "/bin/cat", 41)] {
                let hit = perfprof_tui::units::kit::UnitSample { stack, ..s.hit(0, after) };
                s.give(hit, &[T(file), N(pid)]);
            }
            s.until(1000 * MS);
            s
        }
        "top" => {
            let words = ["-e", "block:block_rq_issue", "--key", "comm", "--by", "bytes", "--sum", "bytes / n"];
            let mut s = stage(name, &words);
            s.event(0, "block:block_rq_issue", &["char comm[16]", "int bytes", "int n"], "\"\"");
            for (who, bytes, n) in [("dd", 4096, 8), ("dd", 4096, 0), ("cp", 100_000, 2), ("dd", 512, 1)] {
                let hit = s.hit(0, MS);
                s.give(hit, &[T(who), N(bytes), N(n)]);
            }
            s.until(1000 * MS);
            s
        }
        "num-dist" => {
            let mut s = stage(name, &["-e", "kmem:kmalloc", "--num", "bytes", "--key", "comm", "--than", "1000"]);
            s.event(0, "kmem:kmalloc", &["int bytes"], "\"\"");
            s.call(1, "nginx");
            for bytes in (1..=100).map(|i| i * 20).chain([-1]) {
                let hit = s.hit(0, MS);
                s.give(hit, &[N(bytes)]);
            }
            s.until(1000 * MS);
            s
        }
        "stat" => {
            let mut s = stage(name, &["-e", "sched:sched_switch,cs"]);
            s.plain(0, "sched:sched_switch").plain(1, "context-switches");
            for second in 1..=3u64 {
                for cpu in 0..2u32 {
                    let time = START + second * 1000 * MS;
                    s.unit.count(&counted(0, cpu, time, 1000 * MS, 100 * u64::from(cpu + 1), 100.0));
                    s.unit.count(&counted(1, cpu, time, 1000 * MS, 7, 50.0));
                }
            }
            s.until(3000 * MS);
            s
        }
        "percpu-stat" => {
            let mut s = stage(name, &[]);
            s.plain(0, "context-switches").plain(2, "minor-faults").plain(18, "power:cpu_idle");
            for cpu in 0..2u32 {
                let read = |role, n| counted(role, cpu, START + 2000 * MS, 2000 * MS, n, 100.0);
                s.unit.count(&read(0, 1000 + u64::from(cpu)));
                s.unit.count(&read(2, 50));
                s.unit.count(&read(18, 400));
            }
            s.until(2000 * MS);
            s
        }
        "hrcount" => {
            let mut s = stage(name, &["-e", "irq:softirq_entry", "--period", "1ms"]);
            s.plain(0, "irq:softirq_entry");
            // One in each millisecond, and a burst of twenty in the fiftieth.
            for i in 0..100u64 {
                for _ in 0..if i == 50 { 20 } else { 1 } {
                    let hit = s.hit(0, i * MS + 1);
                    s.give(hit, &[]);
                }
            }
            s.until(100 * MS);
            s
        }
        "hrtimer" => {
            let mut s =
                stage(name, &["-e", "sched:sched_switch", "--period", "1ms", "--when", "sched_switch > 3", "-g"]);
            s.plain(0, "cpu-clock").plain(1, "sched:sched_switch");
            s.call(1, "busy");
            let stack = s.stack(&["main", "futex_wake"]);
            for i in 0..10u64 {
                for _ in 0..i {
                    let hit = s.hit(1, i * MS + 1);
                    s.give(hit, &[]);
                }
                let hit = perfprof_tui::units::kit::UnitSample { stack, ..s.hit(0, (i + 1) * MS) };
                s.give(hit, &[]);
            }
            s
        }
        "multi-trace" => {
            let words = ["-e", "app:begin", "-e", "app:end", "--key", "id", "--than", "4ms"];
            let mut s = stage(name, &words);
            s.event(0, "app:begin", &["int id"], "\"id=%d\", REC->id").event(
                1,
                "app:end",
                &["int id"],
                "\"id=%d\", REC->id",
            );
            for (role, after, id) in [(0, 1, 7), (0, 2, 8), (1, 3, 7), (1, 8, 8), (0, 9, 9)] {
                let hit = perfprof_tui::units::kit::UnitSample {
                    cpu: role as u32,
                    tid: 1 + role as i32,
                    ..s.hit(role, after * MS)
                };
                s.give(hit, &[N(id)]);
            }
            s.until(10 * MS);
            s
        }
        "syscalls" => {
            let mut s = stage(name, &[]);
            s.event(0, "raw_syscalls:sys_enter", &["long id"], "\"\"");
            s.event(1, "raw_syscalls:sys_exit", &["long id", "long ret"], "\"\"");
            s.call(1, "app");
            s.call(2, "waiter");
            for (after, took, result) in [(0, 2, 5), (10, 4, -11), (20, 6, -11)] {
                let enter = s.hit(0, after * MS);
                s.give(enter, &[N(0)]);
                let exit = s.hit(1, (after + took) * MS);
                s.give(exit, &[N(0), N(result)]);
            }
            let blocked = perfprof_tui::units::kit::UnitSample { tid: 2, ..s.hit(0, 5 * MS) };
            s.give(blocked, &[N(202)]);
            s.until(105 * MS);
            s
        }
        "nested-trace" => {
            let words = [
                "-e",
                "irq:softirq_entry//comm=vec/,irq:softirq_exit",
                "-e",
                "timer:timer_expire_entry,timer:timer_expire_exit",
            ];
            let mut s = stage(name, &words);
            s.event(0, "irq:softirq_entry", &["int vec"], "\"\"").event(1, "irq:softirq_exit", &["int vec"], "\"\"");
            s.event(2, "timer:timer_expire_entry", &["long timer"], "\"\"").event(
                3,
                "timer:timer_expire_exit",
                &["long timer"],
                "\"\"",
            );
            // 10 µs of TIMER with two timers of 3 and 4 µs, then 2 µs of NET_RX.
            for (role, after, value) in
                [(0, 0, 1), (2, 1, 9), (3, 4, 9), (2, 5, 9), (3, 9, 9), (1, 10, 1), (0, 20, 3), (1, 22, 3)]
            {
                let hit = s.hit(role, after * US);
                s.give(hit, &[N(value)]);
            }
            s.until(100 * US);
            s
        }
        "rundelay" => {
            let mut s = sched(name, &["--than", "4ms"]);
            run_queue(&mut s);
            s
        }
        "blktrace" => {
            let mut s = stage(name, &[]);
            let fields = ["int dev", "sector_t sector", "int nr_sector", "char rwbs[8]"];
            for (role, event) in
                ["block:block_getrq", "block:block_rq_insert", "block:block_rq_issue", "block:block_rq_complete"]
                    .iter()
                    .enumerate()
            {
                s.event(role, event, &fields, "\"\"");
            }
            s.call(1, "dd");
            let stages = [(0, 0), (1, 1), (2, 3), (3, 10)];
            let both = [(8, "W", 0), (16, "R", 1)].into_iter();
            let mut all: Vec<_> = both
                .flat_map(|(sector, way, start)| stages.map(|(role, after)| (start + after, role, sector, way)))
                .collect();
            all.sort();
            for (after, role, sector, way) in all {
                let hit = s.hit(role, after * MS);
                s.give(hit, &[N(8 << 20), N(sector), N(8), T(way)]);
            }
            for (role, after) in [(2, 12), (3, 14)] {
                let hit = s.hit(role, after * MS);
                s.give(hit, &[N(8 << 20), N(0), N(0), T("FF")]);
            }
            s.until(20 * MS);
            s
        }
        "task-state" => {
            let mut s = sched(name, &["-g"]);
            run_queue(&mut s);
            s
        }
        "oncpu" => {
            let mut s = sched(name, &[]);
            run_queue(&mut s);
            s
        }
        "offcpu" => {
            let mut s = sched(name, &[]);
            s.plain(3, "cpu-clock");
            let (blocks, wakes) = (s.stack(&["main", "read_config", "io_schedule"]), s.stack(&["worker", "complete"]));
            let leave = perfprof_tui::units::kit::UnitSample { tid: 20, stack: blocks, ..s.hit(0, MS) };
            s.give(leave, &[T("victim"), N(20), N(2), T("hog"), N(10)]);
            let wake = perfprof_tui::units::kit::UnitSample { tid: 10, stack: wakes, ..s.hit(1, 9 * MS) };
            s.give(wake, &[T("victim"), N(20), N(0)]);
            let hot =
                perfprof_tui::units::kit::UnitSample { tid: 10, stack: wakes, period: 2 * MS, ..s.hit(3, 3 * MS) };
            s.give(hot, &[]);
            s.until(10 * MS);
            s
        }
        "waits" => parts_of_time(),
        "locks" => lock_chain(),
        "tcp" => tcp_peers(),
        "dns" => dns_lookups(),
        "files" => file_users(),
        "wakeups" => {
            let mut s = sched(name, &["-g"]);
            run_queue(&mut s);
            s
        }
        "forks" => {
            let mut s = stage(name, &[]);
            s.event(0, "sched:sched_process_fork", &["int child_pid"], "\"\"");
            s.call(1, "make");
            s.call(7, "make");
            for (tid, child) in [(1, 40), (7, 41), (7, 42), (1, 43), (7, 44)] {
                let hit = perfprof_tui::units::kit::UnitSample { tid, ..s.hit(0, MS) };
                s.give(hit, &[N(child)]);
            }
            s.until(1000 * MS);
            s
        }
        "kmemleak" | "kmemprof" => {
            let mut s = stage(
                name,
                &[
                    "--alloc",
                    "kmem:kmalloc//ptr=at,size=n/".replace(',', "/").as_str(),
                    "--free",
                    "kmem:kfree//ptr=at/",
                ],
            );
            s.event(0, "kmem:kmalloc", &["long at", "int n"], "\"\"").event(1, "kmem:kfree", &["long at"], "\"\"");
            s.call(1, "driver");
            let (leaks, churns) = (s.stack(&["probe", "open_session"]), s.stack(&["probe", "parse_message"]));
            for i in 0..10i64 {
                let hit = perfprof_tui::units::kit::UnitSample { stack: leaks, ..s.hit(0, i as u64 * 100 * MS) };
                s.give(hit, &[N(0x1000 + i), N(1024)]);
                let hit = perfprof_tui::units::kit::UnitSample { stack: churns, ..s.hit(0, i as u64 * 100 * MS) };
                s.give(hit, &[N(0x9000), N(500)]);
                let hit = perfprof_tui::units::kit::UnitSample { stack: churns, ..s.hit(1, i as u64 * 100 * MS + MS) };
                s.give(hit, &[N(0x9000)]);
            }
            s.until(1000 * MS);
            s
        }
        "page-faults" => {
            let mut s = stage(name, &[]);
            s.plain(0, "minor-faults").plain(1, "major-faults");
            s.call(1, "loader");
            let (start, name) = (0x7f00_0000_0000, b"/data/index.bin");
            let map = Mmap { pid: 1, tid: 1, start, len: 0x80_0000, prot: 1, flags: 2, name, ..Mmap::default() };
            s.side(&Record::Mmap(map), 0);
            let stack = s.stack(&["main", "load_index"]);
            for i in 0..6u64 {
                let addr = 0x7f00_0000_0000 + i * 0x10_0000;
                let hit = perfprof_tui::units::kit::UnitSample { addr, stack, ..s.hit(usize::from(i == 5), i * MS) };
                s.give(hit, &[]);
            }
            s.until(1000 * MS);
            s
        }
        "breakpoint" => {
            let mut s = stage(name, &["-e", "mem:0x404040/4:w"]);
            s.plain(0, "mem:0x404040/4:w");
            s.call(1, "app");
            let (a, b) = (s.stack(&["main", "set_flag"]), s.stack(&["main", "clear_flag"]));
            for (i, stack) in [a, a, b].into_iter().enumerate() {
                let hit = perfprof_tui::units::kit::UnitSample { addr: 0x40_4040, stack, ..s.hit(0, i as u64 * MS) };
                s.give(hit, &[]);
            }
            s.until(1000 * MS);
            s
        }
        "profile" => {
            let mut s = stage(name, &["-F", "100", "--percent", "50"]);
            s.plain(0, "cpu-clock");
            s.call(1, "app");
            let (busy, idle) = (s.stack(&["main", "parse", "hash"]), s.stack(&["main", "poll"]));
            // The first second is busy; the second has only three samples.
            for (second, n, stack) in [(0u64, 80u64, busy), (1, 3, idle)] {
                for i in 0..n {
                    let hit = perfprof_tui::units::kit::UnitSample {
                        stack,
                        period: 10 * MS,
                        ..s.hit(0, second * 1000 * MS + i * 10 * MS)
                    };
                    s.give(hit, &[]);
                }
            }
            s.until(2500 * MS);
            s
        }
        "kvm-exit" => {
            let mut s = stage(name, &["--than", "1ms"]);
            s.event(0, "kvm:kvm_exit", &["unsigned int exit_reason", "unsigned long guest_rip", "unsigned int isa"],
                "\"reason %s rip 0x%lx\", __print_symbolic(REC->exit_reason, {12, \"HLT\"}, {48, \"EPT_VIOLATION\"}), REC->guest_rip");
            s.event(1, "kvm:kvm_entry", &["unsigned int vcpu_id"], "\"\"");
            s.call(1, "CPU 0/KVM");
            for (after, took, reason, rip) in
                [(0, 5, 12, -1i64), (10, 1, 48, 0x40_0000), (20, 7, 12, -1), (30, 1, 48, -1)]
            {
                let exit = s.hit(0, after * MS);
                s.give(exit, &[N(reason), N(rip), N(1)]);
                let entry = s.hit(1, (after + took) * MS);
                s.give(entry, &[N(0)]);
            }
            s.until(40 * MS);
            s
        }
        "kvmmmu" => {
            let mut s = stage(name, &["--spte"]);
            let page = ["unsigned long gfn", "unsigned int role", "unsigned int created", "unsigned int mmu_valid_gen"];
            s.event(0, "kvmmmu:kvm_mmu_get_page", &page, "\"\"").event(
                1,
                "kvmmmu:kvm_mmu_prepare_zap_page",
                &page,
                "\"\"",
            );
            s.event(2, "kvmmmu:kvm_mmu_set_spte", &["unsigned long gfn", "unsigned int level"], "\"\"");
            for (role, gfn, level, created) in [
                (0, 0, 4, 1),
                (0, 0x200, 2, 1),
                (0, 0x4_0000, 1, 1),
                (0, 0x200, 2, 0),
                (1, 0x4_0000, 1, 0),
                (1, 0x9_0000, 1, 0),
            ] {
                let hit = s.hit(role, MS);
                s.give(hit, &[N(gfn), N(level), N(created), N(0)]);
            }
            let set = s.hit(2, 2 * MS);
            s.give(set, &[N(0x205), N(2)]);
            s.until(10 * MS);
            s
        }
        "ldlat-loads" | "ldlat-stores" => {
            let mut s = stage(name, &[]);
            s.plain(0, "cpu/mem-loads,ldlat=30/P");
            s.call(1, "db");
            let stack = s.stack(&["main", "scan"]);
            // Hits in L3 (op load, lvl hit and L3), and loads from RAM.
            for (source, cycles, n) in [(0x2_u64 | 0x2 << 5 | 0x40 << 5, 40, 6), (0x2 | 0x2 << 5 | 0x80 << 5, 300, 2)] {
                for i in 0..n {
                    let hit = perfprof_tui::units::kit::UnitSample {
                        data_src: source,
                        weight: cycles,
                        addr: 0x1000 + i * 8,
                        stack,
                        ..s.hit(0, MS)
                    };
                    s.give(hit, &[]);
                }
            }
            s
        }
        "llcstat" | "tlbstat" => {
            let mut s = stage(name, &[]);
            s.plain(0, "refs").plain(1, "misses");
            for cpu in 0..2u32 {
                let read = |role, n| counted(role, cpu, START + 1000 * MS, 1000 * MS, n, 60.0);
                s.unit.count(&read(0, 1000));
                s.unit.count(&read(1, 100 * u64::from(cpu + 1)));
            }
            s.until(1000 * MS);
            s
        }
        "usdt" => {
            let file = std::env::current_exe().expect("a file");
            let spec = units::find(name).expect("a unit");
            let place = super::data("units/usdt").display().to_string();
            let mut s = Stage::with(spec, settings(spec, &["--usdt", &place]));
            drop(file);
            s.event(0, "perfprof_1:request", &["unsigned long __probe_ip", "long arg1"], "\"\"");
            s.call(1, "server");
            for i in 0..3i64 {
                let hit = s.hit(0, i as u64 * MS);
                s.give(hit, &[N(0x1000), N(40 + i)]);
            }
            s.until(1000 * MS);
            s
        }
        "misc" => {
            let mut s = stage(name, &[]);
            s.plain(0, "dummy");
            s.side(&Record::Bpf { unload: false, id: 12, tag: [1, 2, 3, 4, 5, 6, 7, 8] }, MS);
            s.side(
                &Record::Ksymbol {
                    addr: 0xffff_ffff_c000_1000,
                    len: 200,
                    unregister: false,
                    name: b"bpf_prog_x",
                    source: b"",
                },
                MS,
            );
            s.side(&Record::Cgroup { id: 77, path: b"/web" }, 2 * MS);
            s.side(&Record::TextPoke { addr: 0xffff_ffff_8100_0000, old: &[0x0f, 0x1f], new: &[0xe8, 0x11] }, 3 * MS);
            s.until(1000 * MS);
            s
        }
        other => panic!("{other} has no scenario in tests/common/scenes.rs"),
    }
}
