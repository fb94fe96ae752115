//! Tests of faults that stand above a shortage of CPUs, and of storms that cause one.

use super::*;
use crate::event::{CallGraph, Rate};
use crate::machine::lock_waits::{LockLooks, LockedProcess};

/// Compilers keep all CPUs busy next to a disk that is slow for another program.
#[test]
fn a_shortage_of_cpus_is_below_the_fault_of_a_service() {
    let fault = |one: &mut Resources| {
        (one.waiting, one.busy_ns) = (21, 2 * SECOND);
        let of =
            |pid, comm: &str, delay_ns| process(pid, comm, |one| (one.cpu_ns, one.delay_ns) = (SECOND / 4, delay_ns));
        one.processes = vec![of(5, "rustc", 3 * SECOND), of(9, "dio", SECOND / 3)];
        one.processes[1].io = 38_000_000;
        let (requests, sectors) = (11_600, 93_000);
        let done = DiskCounters {
            name: "loop0".to_owned(),
            requests,
            sectors,
            waited_ms: 9600,
            busy_ms: 310,
            weighted_ms: 9600,
        };
        one.disks = vec![DiskUse { done }];
    };
    let list = reported(fault);
    let order: Vec<(Cause, Severity)> = list.iter().map(|one| (one.cause, one.severity)).collect();
    let expected = [(Cause::Disk, Severity::Look), (Cause::Queue, Severity::Bad), (Cause::Busy, Severity::Look)];
    assert_eq!(order, expected, "{list:#?}");
    // Only a hypervisor that takes a quarter of the time is worse.
    let stolen = |stolen_ns| {
        let list = reported(|one| {
            fault(one);
            one.stolen_ns = stolen_ns;
        });
        list.iter().position(|one| one.cause == Cause::Stolen).map(|at| (at, list[at].severity))
    };
    assert_eq!(stolen(SECOND * 24 / 100), Some((3, Severity::Look)));
    assert_eq!(stolen(SECOND * 6 / 10), Some((0, Severity::Bad)));
}

/// A Java machine starts among 24 runnable threads: the holders of its mutexes get a twelfth of a CPU.
#[test]
fn a_shortage_of_cpus_is_above_the_locks_that_it_prolongs() {
    let first = |runnable: u64, waiting: u64| {
        let list = reported(|one| {
            (one.waiting, one.busy_ns) = (runnable - 2, 2 * SECOND);
            let java = LockedProcess { pid: 5, name: "java".into(), threads: 23, waiting, ..LockedProcess::default() };
            one.locks = LockLooks { looks: 9, processes: [(5, java)].into() };
        });
        assert!(list.iter().any(|one| one.cause == Cause::Locks), "{list:#?}");
        list[0].cause
    };
    assert_eq!(first(24, 4), Cause::Queue);
    assert_eq!(first(24, 9), Cause::Locks, "a thread waits for it all the time");
    assert_eq!(first(17, 4), Cause::Locks);
}

/// A single pair of programs switches far less often than all CPUs could.
#[test]
fn a_program_that_switches_often_is_named_on_a_large_machine() {
    let found = only(Cause::Switches, |one| {
        (one.cpus, one.switches) = (64, 68_000);
        one.processes = ["ping", "pong"].map(|comm| process(5, comm, |one| one.slices = 33_800)).to_vec();
        one.processes[1].pid = 6;
    });
    assert_eq!((&*found.figure, &*found.culprit), ("68.0 k context switches/s", "ping 33.8 k/s, pong 33.8 k/s"));
    assert_eq!(reported(|one| one.processes[0].slices = 12_800), []);
}

/// A pair of programs among 18 runnable threads: it switches all the time, but gets an eighth of a CPU.
#[test]
fn a_storm_is_found_while_it_waits_for_a_cpu() {
    let switches = |slices, cpu_ns, io| {
        reported(move |one: &mut Resources| {
            one.switches = 38_060;
            let of = |pid, comm| process(pid, comm, |one| (one.slices, one.cpu_ns, one.io) = (slices, cpu_ns, io));
            one.processes = vec![of(5, "ping"), of(6, "pong")];
        })
    };
    let list = switches(17_896, SECOND / 8, 0);
    let text = "cpu: 38.1 k context switches/s; ping 17.9 k/s, pong 17.9 k/s; ping runs 6.98 µs at a time";
    assert_eq!(list.iter().map(MachineFinding::text).collect::<Vec<_>>(), [text]);
    assert_eq!(switches(17_896, SECOND * 39 / 100, 0), [], "redis and one client: 21.8 µs for each request");
    assert_eq!(switches(5_000, SECOND / 30, 0), [], "few");
    assert_eq!(switches(17_896, SECOND / 8, 17_896 * 4096), [], "it waits for a disk");
    let faults = |minor_faults, cpu_ns| {
        reported(move |one: &mut Resources| {
            let of = |pid, comm, n, ns| process(pid, comm, |one| (one.minor_faults, one.cpu_ns) = (n, ns));
            one.processes = vec![of(5, "faultstorm", minor_faults, cpu_ns), of(6, "rustc", 40_000, SECOND * 6 / 10)];
        })
    };
    let list = faults(37_093, SECOND * 3 / 10);
    assert_eq!(
        list.iter().map(|one| (&*one.figure, &*one.culprit)).collect::<Vec<_>>(),
        [("37.1 k page faults/s", "faultstorm 37.1 k/s")]
    );
    assert_eq!(faults(37_093, SECOND * 6 / 10), [], "a compiler");
    assert_eq!(faults(15_000, SECOND / 10), [], "a shell that starts programs");
}

/// 2000 timers that are set again each 20 ms, next to compilers.
#[test]
fn a_process_that_works_in_the_kernel_is_above_the_queue() {
    let list = |kernel_ns, resident, slices| {
        let mut second = calm_second();
        second.waiting = 10;
        second.processes = vec![
            process(42, "timerfds", |one| {
                (one.cpu_ns, one.kernel_ns, one.resident) = (SECOND * 16 / 100, kernel_ns, resident);
                one.slices = slices;
            }),
            process(7, "rustc", |one| (one.cpu_ns, one.kernel_ns, one.resident) = (SECOND / 2, SECOND / 50, 1 << 30)),
        ];
        let function = Some(("_raw_spin_unlock_irq ([kernel.kallsyms])".to_owned(), 42.0));
        let sampled = [ProcessSamples { pid: 42, comm: "timerfds".into(), function, ..ProcessSamples::default() }];
        found_in(&seconds(vec![second; 10]), &sampled, false)
    };
    let found = list(SECOND * 144 / 1000, 1 << 20, 200);
    let text = "cpu: 90 % of the time of timerfds is in the kernel; timerfds 42 0.16 CPUs; 42 % in \
                _raw_spin_unlock_irq ([kernel.kallsyms])";
    assert_eq!(found[0].text(), text);
    assert_eq!(found.iter().map(|one| one.cause).collect::<Vec<_>>(), [Cause::Kernel, Cause::Queue]);
    assert_eq!(found[0].look.command(), "perfprof-tui --where 'pid == 42'");
    let causes = |list: Vec<MachineFinding>| list.iter().map(|one| one.cause).collect::<Vec<_>>();
    assert_eq!(causes(list(SECOND * 8 / 100, 1 << 20, 200)), [Cause::Queue], "half of the time");
    assert_eq!(causes(list(SECOND * 16 / 100, 0, 200)), [Cause::Queue], "a thread of the kernel");
    assert_eq!(causes(list(SECOND * 144 / 1000, 1 << 20, 4000)), [Cause::Queue], "a client that waits for its server");
}

/// 2000 timers that are set again each 20 ms, next to compilers: the process gets a part of a CPU.
#[test]
fn timers_that_expire_all_the_time_are_above_the_queue() {
    let list = |rate: f32, timers: &[Culprit]| {
        reported(|one| {
            (one.waiting, one.busy_ns) = (15, 2 * SECOND);
            one.timers = vec![(0, 2_500.0), (1, rate)];
            one.culprits = Culprits { timers: timers.to_vec(), ..Culprits::default() };
        })
    };
    let setter = Culprit { pid: 2503, name: "timerfds".into(), percent: 97.0, ..Culprit::default() };
    let found = list(79_000.0, &[setter]);
    let text = "cpu: 79.0 k timer interrupts/s, CPU 1; timerfds 2503 sets 97 % of the timers; samples do not show their \
                time: a sampling clock waits until they end";
    assert_eq!(found[0].text(), text);
    assert_eq!(found[0].look.command(), "perfprof-tui top -e timer:hrtimer_start --key comm");
    assert_eq!(found.iter().map(|one| one.cause).collect::<Vec<_>>(), [Cause::Timers, Cause::Queue, Cause::Busy]);
    assert_eq!(list(79_000.0, &[])[0].cause, Cause::Timers);
    let busy = list(12_000.0, &[]);
    assert!(busy.iter().all(|one| one.cause != Cause::Timers), "threads that sleep, and a clock of 10 kHz: {busy:?}");
}

/// `perfprof-tui -F 40000`: its clock fires 40,000 times a second on each CPU.
#[test]
fn the_own_sampling_clock_is_no_fault_of_others() {
    let state = |run, rate| EventState {
        name: "cpu-clock".into(),
        replaces: None,
        run,
        note: None,
        filter: None,
        rate,
        chains: CallGraph::None,
        cpus: String::new(),
        for_units: false,
    };
    let fast = Rate::Frequency(40_000);
    let events = [
        (EventUnit::Nanoseconds, state(RunState::Running, fast)),
        (EventUnit::Nanoseconds, state(RunState::Paused, fast)),
        (EventUnit::Count, state(RunState::Running, fast)),
        (EventUnit::Nanoseconds, state(RunState::Running, Rate::Period(1))),
    ];
    let own = own_timer_hz(events.iter().map(|(unit, state)| (*unit, state)));
    assert_eq!(own, 40_000.0, "neither a paused clock nor a counter of the CPU nor durations of waits");
    let list = |rate: f32, own_timer_hz| {
        let history = seconds(vec![Resources { timers: vec![(0, 40_100.0), (1, rate)], ..calm_second() }; 10]);
        let found = findings(&TriageInput { own_timer_hz, ..TriageInput::new(&history, present(&history)) });
        found.into_iter().map(|one| one.figure).collect::<Vec<_>>()
    };
    assert_eq!(list(40_100.0, own), Vec::<String>::new());
    assert_eq!(list(69_000.0, own), Vec::<String>::new(), "29,000 by others");
    assert_eq!(list(71_000.0, own), ["71.0 k timer interrupts/s, CPU 1"]);
    assert_eq!(list(40_100.0, 0.0), ["40.1 k timer interrupts/s, CPU 1, 1 more"], "another profiler's");
}

#[test]
fn code_with_interrupts_disabled_is_seen_where_they_are_enabled() {
    let mut second = calm_second();
    second.processes.push(process(42, "pagetypes", |one| one.cpu_ns = SECOND / 5));
    let history = seconds(vec![second; 10]);
    let list = |function: &str, share| {
        let function = Some((format!("{function} ([kernel.kallsyms])"), share));
        let sampled = [ProcessSamples { pid: 42, comm: "pagetypes".into(), function, ..ProcessSamples::default() }];
        found_in(&history, &sampled, false)
    };
    let found = list("_raw_spin_unlock_irq", 73.0);
    let text = "cpu: pagetypes likely disables interrupts for long; pagetypes 0.20 CPUs; 73 % of its samples are in \
                _raw_spin_unlock_irq ([kernel.kallsyms]), which enables them";
    assert_eq!(found.iter().map(MachineFinding::text).collect::<Vec<_>>(), [text]);
    assert_eq!(
        (found[0].cause, found[0].look.command()),
        (Cause::InterruptsOff, "perfprof-tui --where 'pid == 42'".to_owned())
    );
    assert_eq!((list("_raw_spin_unlock_irq", 42.0), list("_raw_spin_unlock", 73.0)), (vec![], vec![]));
}

#[test]
fn a_limited_group_names_its_programs() {
    let mut second = calm_second();
    second.throttled = vec![ThrottledGroup { name: "cart".into(), ..throttled() }];
    second.full_groups = vec![full_group(93.0)];
    let of = |pid, comm: &str, container: &str| ProcessSamples {
        pid,
        comm: comm.into(),
        container: Some(container.into()),
        ..ProcessSamples::default()
    };
    let sampled = [of(1, "nginx", "cart"), of(2, "php", "cart"), of(3, "nginx", "cart"), of(4, "redis", "shop")];
    let list = found_in(&seconds(vec![second; 10]), &sampled, false);
    assert_eq!(list.iter().map(|one| &*one.culprit).collect::<Vec<_>>(), ["nginx ×2, php"; 2], "{list:#?}");
}

/// A reading of all processes takes longer while many of them run: the time counts for which a process has figures.
#[test]
fn a_compiler_among_readings_of_different_lengths_is_no_leak() {
    let list = (0..8).map(|at| {
        let compiler = process(5, "rustc", |one| {
            (one.grown, one.growing) = (4_700_000, 9);
            (one.cpu_ns, one.delay_ns) = (SECOND / 10, SECOND * 9 / 10);
        });
        match at % 2 {
            0 => Resources { processes: vec![compiler], ..calm_second() },
            _ => Resources { processes: Vec::new(), processes_ns: 2 * SECOND, ..calm_second() },
        }
    });
    let list = found_in(&seconds(list), &[], false);
    assert!(list.iter().all(|one| one.cause != Cause::Growth), "{list:#?}");
}

/// `KEYS` of redis next to compilers: the process that keeps a CPU busy is more specific than the shortage.
#[test]
fn a_process_that_keeps_a_cpu_busy_is_above_the_queue() {
    let order = |cpus: &[u64]| -> Vec<Cause> {
        let list = reported(|one| {
            (one.waiting, one.busy_ns) = (15, 2 * SECOND);
            let server =
                |(at, cpu_ns): (usize, &u64)| process(at as i32 + 1, "redis-server", |one| one.cpu_ns = *cpu_ns);
            one.processes = cpus.iter().enumerate().map(server).collect();
            one.processes.push(process(9, "rustc", |one| (one.cpu_ns, one.delay_ns) = (SECOND / 9, 3 * SECOND)));
        });
        list.iter().map(|one| one.cause).collect()
    };
    assert_eq!(order(&[SECOND * 88 / 100]), [Cause::Busy, Cause::Queue]);
    assert_eq!(order(&[SECOND / 2, SECOND / 2]), [Cause::Queue, Cause::Busy], "several processes");
}

/// `KEYS` of redis next to compilers that leave it a third of a CPU.
#[test]
fn a_hot_function_is_above_the_queue_also_while_it_waits() {
    let list = |delay_ns, share| {
        let mut second = calm_second();
        (second.waiting, second.busy_ns) = (15, 2 * SECOND);
        let of = |pid, comm: &str, cpu_ns, delay_ns| {
            process(pid, comm, |one| (one.cpu_ns, one.delay_ns) = (cpu_ns, delay_ns))
        };
        second.processes = vec![
            of(5, "redis-server", SECOND * 29 / 100, delay_ns),
            of(6, "rustc", SECOND * 95 / 100, SECOND / 20),
            of(7, "rustc", SECOND * 32 / 100, SECOND / 2),
        ];
        let sampled = |pid, comm: &str, function: &str, share| ProcessSamples {
            pid,
            comm: comm.into(),
            function: Some((function.to_owned(), share)),
            ..ProcessSamples::default()
        };
        let processes = [
            sampled(6, "rustc", "lower_qpath (librustc_driver.so)", 25.0),
            sampled(5, "redis-server", "keysCommand (redis-server)", share),
        ];
        found_in(&seconds(vec![second; 10]), &processes, false)
    };
    let found = list(SECOND * 53 / 100, 51.0);
    let text = "cpu: 2.00 of 2 CPUs busy; redis-server 0.29, rustc ×2 1.27; redis-server: 51 % in keysCommand \
                (redis-server)";
    assert_eq!((found[0].text().as_str(), found[0].look.command().as_str()), (text, "perfprof-tui --where 'pid == 5'"));
    for other in [list(SECOND / 10, 51.0), list(SECOND * 53 / 100, 33.0)] {
        assert_eq!((other[0].cause, other[1].culprit.as_str()), (Cause::Queue, "rustc ×2 1.27, redis-server 0.29"));
    }
}

/// A process that computes next to compilers, and a fault of something else that is just above its limits.
#[test]
fn the_mildest_fault_is_above_a_shortage_of_cpus() {
    let first = |fault: &dyn Fn(&mut Resources)| {
        let list = reported(|one| {
            (one.waiting, one.busy_ns) = (30, 2 * SECOND);
            one.processes = vec![process(5, "gzip", |one| (one.cpu_ns, one.delay_ns) = (SECOND, 3 * SECOND))];
            fault(one);
        });
        list.iter().map(|one| one.cause).collect::<Vec<_>>()
    };
    assert_eq!(first(&|_| {}), [Cause::Busy, Cause::Queue]);
    let disk = |one: &mut Resources| {
        let done = DiskCounters { name: "vda".to_owned(), requests: 2000, busy_ms: 50, ..DiskCounters::default() };
        one.disks = vec![DiskUse { done }];
    };
    assert_eq!(first(&disk), [Cause::Disk, Cause::Busy, Cause::Queue]);
    let refused = |one: &mut Resources| (one.networks[0].counts.opened, one.networks[0].counts.failed) = (100, 6);
    assert_eq!(first(&refused), [Cause::Refused, Cause::Busy, Cause::Queue]);
    let lost = |one: &mut Resources| {
        (one.networks[0].counts.segments, one.networks[0].counts.retransmitted) = (1000, 11);
    };
    assert_eq!(first(&lost), [Cause::Retransmits, Cause::Busy, Cause::Queue]);
}

/// A server that is stopped: each connection that its full listen queue drops is tried again.
#[test]
fn a_full_listen_queue_is_above_the_segments_that_it_causes() {
    let list = reported(|one| {
        let counts = NetworkCounts { unaccepted: 217, retransmitted: 170, opened: 50, ..NetworkCounts::default() };
        one.networks[0].counts = counts;
    });
    assert_eq!(list.iter().map(|one| one.cause).collect::<Vec<_>>(), [Cause::Unaccepted, Cause::Retransmits]);
    let named = only(Cause::Unaccepted, |one| {
        one.networks[0].counts.unaccepted = 208;
        let process = Some((7, "redis-server".into()));
        one.sockets.full_queue = Some(FullQueue { port: 8098, process, waiting: 5, limit: 4 });
    });
    let text = "network: 208 handshake packet drops/s; port 8098 of redis-server 7 accepts too slowly; its listen queue is \
                full: 5 connections wait, the limit is 4";
    assert_eq!(named.text(), text);
}
