//! Rules: each fault is reported by its cause, and a calm machine by nothing.

mod locks;
mod order;
mod sockets;

use super::normal::NormalFigures;
use super::*;
use crate::machine::culprits::{Culprit, Culprits};
use crate::machine::memory_limits::MemoryGroup;
use crate::machine::processes::ProcessUse;
use crate::machine::processes::traffic::{FileUse, PeerUse, ProcessTraffic};
use crate::machine::resources::{DiskUse, MemoryUse, NetworkCounts, NetworkUse, Resources};
use crate::machine::sockets::listeners::FullQueue;
use crate::session::machine::Pressure;
use crate::session::machine::quota::ThrottledGroup;
use crate::session::machine::resources::DiskCounters;

const SECOND: u64 = 1_000_000_000;

/// A calm second of a machine with two CPUs.
fn calm_second() -> Resources {
    let memory = MemoryUse { total_kb: 4_000_000, available_kb: 3_000_000, faults: 500, ..MemoryUse::default() };
    let counts = NetworkCounts { opened: 10, segments: 1000, ..NetworkCounts::default() };
    Resources {
        length: SECOND,
        cpus: 2,
        busy_ns: SECOND / 10,
        switches: 900,
        forks: 3,
        memory,
        networks: vec![NetworkUse { process: None, counts }],
        processes: vec![process(7, "sshd", |one| one.cpu_ns = SECOND / 20)],
        processes_ns: SECOND,
        ..Resources::default()
    }
}

fn process(pid: i32, comm: &str, set: impl Fn(&mut ProcessUse)) -> ProcessUse {
    let mut one = ProcessUse { pid, comm: comm.into(), threads: 1, ..ProcessUse::default() };
    set(&mut one);
    one
}

/// A group that is throttled in 90 % of its periods.
fn throttled() -> ThrottledGroup {
    let path = "/docker/a".into();
    ThrottledGroup { name: "a".into(), path, percent: 90.0, ms: 500.0, file: "cpu.cfs_quota_us", of_target: None }
}

/// A group that uses this percentage of its memory.
fn full_group(percent: f64) -> MemoryGroup {
    let (name, path) = ("cart".into(), "/docker/7d9".into());
    MemoryGroup { name, path, percent, limit: 1 << 30, ..MemoryGroup::default() }
}

/// Seconds that end at 1, 2, 3…
fn seconds(list: impl IntoIterator<Item = Resources>) -> ResourceHistory {
    (1..).zip(list).map(|(at, one)| Resources { at: at * SECOND, ..one }).collect()
}

fn found_in(history: &ResourceHistory, processes: &[ProcessSamples], is_narrowed: bool) -> Vec<MachineFinding> {
    findings(&TriageInput { processes, is_narrowed, ..TriageInput::new(history, present(history)) })
}

/// Returns what ten seconds with a fault are reported as, without the changes.
fn reported(fault: impl Fn(&mut Resources)) -> Vec<MachineFinding> {
    let mut second = calm_second();
    fault(&mut second);
    found_in(&seconds(vec![second; 10]), &[], false)
}

/// Returns the only finding about a fault, which must have a cause.
fn only(cause: Cause, fault: impl Fn(&mut Resources)) -> MachineFinding {
    let list = reported(fault);
    let [one] = &list[..] else { panic!("{cause:?}: {list:#?}") };
    assert_eq!(one.cause, cause);
    one.clone()
}

#[test]
fn a_calm_machine_has_no_findings() {
    assert_eq!(reported(|_| {}), []);
    let history = seconds(vec![calm_second(); 10]);
    let input = TriageInput::new(&history, present(&history));
    let words =
        "CPU 5 % of 2 busy, 0.0 waiting for a CPU, no disk in use, memory 75 % available, no failed connections";
    assert_eq!(NormalFigures::of(&input).calm.join(", "), words);
    assert_eq!(findings(&TriageInput { history: &ResourceHistory::default(), ..input }), []);
}

#[test]
fn a_busy_program_is_named_with_its_function() {
    let mut second = calm_second();
    second.processes.push(process(42, "gzip", |one| one.cpu_ns = SECOND));
    second.busy_ns = SECOND + SECOND / 20;
    let sampled = [ProcessSamples {
        pid: 42,
        comm: "gzip".into(),
        function: Some(("deflate (libz.so.1)".to_owned(), 61.0)),
        ..ProcessSamples::default()
    }];
    let list = found_in(&seconds(vec![second; 10]), &sampled, false);
    assert_eq!(list.iter().map(|one| one.cause).collect::<Vec<_>>(), [Cause::Busy]);
    assert_eq!(list[0].text(), "cpu: 1.05 of 2 CPUs busy; gzip 1.00; gzip: 61 % in deflate (libz.so.1)");
    let look = Look::Functions { label: "pid 42 gzip".to_owned(), filter: "pid == 42".to_owned() };
    assert_eq!((&list[0].look, list[0].severity), (&look, Severity::Look));
}

#[test]
fn several_processes_of_a_name_are_one_program() {
    let found = only(Cause::Busy, |one| {
        one.busy_ns = 2 * SECOND;
        one.processes = (1..=4).map(|pid| process(pid, "cc1plus", |one| one.cpu_ns = SECOND / 2)).collect();
    });
    assert_eq!((&*found.culprit, found.look.key()), ("cc1plus ×4 2.00", "1 top".to_owned()));
    assert_eq!(found.look.command(), "perfprof-tui --where 'comm == \"cc1plus\"'");
}

#[test]
fn a_quota_below_the_demand_is_bad() {
    let found = only(Cause::Throttled, |one| {
        one.throttled = vec![ThrottledGroup { name: "cart-7d9".into(), percent: 41.0, ..throttled() }];
    });
    assert_eq!((found.severity, &*found.figure), (Severity::Bad, "cart-7d9 throttled 41 % of periods"));
    assert_eq!(found.evidence, "500 ms/s, cpu.cfs_quota_us is below its demand");
    let rare = reported(|one| one.throttled = vec![ThrottledGroup { percent: 5.0, ..throttled() }]);
    assert_eq!(rare, []);
}

#[test]
fn waits_for_a_cpu_name_who_waits() {
    let found = only(Cause::Queue, |one| {
        one.pressure = vec![("cpu", Pressure { some: 62.0, full: 0.0 })];
        one.processes = vec![process(5, "tick", |one| (one.delay_ns, one.slices) = (SECOND * 9 / 10, 100))];
    });
    assert_eq!(found.text(), "queue: 0.9 threads wait for a CPU; tick 0.90; tick waits 9.00 ms a time, pressure 62 %");
    assert_eq!(found.look.command(), "perfprof-tui rundelay");
    assert_eq!(only(Cause::Queue, |one| one.waiting = 3).figure, "3.0 threads wait for a CPU");
    let many = only(Cause::Queue, |one| one.processes = vec![process(5, "a", |one| one.delay_ns = 17 * SECOND)]);
    assert_eq!(many.severity, Severity::Bad);
}

#[test]
fn storms_are_named_by_who_causes_them() {
    let found = only(Cause::Switches, |one| {
        one.switches = 200_000;
        one.processes = vec![process(5, "ping", |one| one.slices = 100_000)];
    });
    assert_eq!((&*found.figure, &*found.culprit), ("200.0 k context switches/s", "ping 100.0 k/s"));
    let found = only(Cause::Forks, |one| {
        one.forks = 700;
        one.processes = vec![process(5, "make", |one| one.children_ns = SECOND / 2)];
    });
    assert_eq!((&*found.figure, &*found.culprit), ("700 new processes and threads/s", "by make 5, children 0.50 CPUs"));
    let script = |pid: i32, script: &str| {
        process(pid, "sh", |one| (one.children_ns, one.script) = (SECOND / 2, Some(script.into())))
    };
    let found = only(Cause::Forks, |one| (one.forks, one.processes) = (700, vec![script(5, "deploy.sh")]));
    assert_eq!(&*found.culprit, "by deploy.sh 5, children 0.50 CPUs");
    let scripts = || vec![script(5, "deploy.sh"), script(6, "backup.sh"), script(7, "deploy.sh")];
    let found = only(Cause::Forks, |one| (one.forks, one.processes) = (700, scripts()));
    assert_eq!(&*found.culprit, "deploy.sh ×2 children 1.00 CPUs, backup.sh children 0.50 CPUs");
    assert_eq!(reported(|one| (one.cpus, one.forks) = (64, 200)), [], "many CPUs start more");
    let mut second = calm_second();
    (second.forks, second.processes) = (120, vec![process(5, "bash", |one| one.children_ns = SECOND / 5)]);
    let of_bash = [ProcessSamples { pid: 5, ..ProcessSamples::default() }];
    let list = found_in(&seconds(vec![second; 10]), &of_bash, true);
    let found = list.iter().find(|one| one.cause == Cause::Forks).expect("a parent of many");
    assert_eq!(
        (&*found.figure, found.look.command()),
        ("0.20 CPUs by ended children", "perfprof-tui forks -p 5".to_owned())
    );
    let found = only(Cause::Faults, |one| one.processes = vec![process(5, "touch", |one| one.minor_faults = 300_000)]);
    assert_eq!(
        (&*found.figure, found.look.command()),
        ("300.0 k page faults/s", "perfprof-tui page-faults -p 5".to_owned())
    );
}

#[test]
fn a_disk_is_busy_or_slow() {
    let disk = |requests, waited_ms, busy_ms, weighted_ms| {
        let done =
            DiskCounters { name: "vda".to_owned(), requests, sectors: 8 * requests, waited_ms, busy_ms, weighted_ms };
        move |one: &mut Resources| {
            one.disks = vec![DiskUse { done: done.clone() }];
            one.processes.push(process(9, "dio", |one| one.io = 4096 * 5000));
        }
    };
    let found = only(Cause::Disk, disk(5000, 15_000, 990, 15_000));
    assert_eq!((found.severity, &*found.figure, &*found.culprit), (Severity::Look, "vda 99 % busy", "dio 20.5 MB/s"));
    assert_eq!(found.evidence, "5.0 k requests/s, 3.00 ms each, depth 15.0, 20.5 MB/s");
    assert_eq!(only(Cause::Disk, disk(50, 5000, 1000, 5000)).severity, Severity::Bad);
    assert_eq!(reported(disk(300, 300, 200, 300)), []);
}

/// The kernel writes what compilers made, next to a server without a fault.
#[test]
fn large_requests_for_which_no_process_waits_are_not_slow() {
    let found = |sectors, some| {
        reported(move |one: &mut Resources| {
            let (requests, waited_ms) = (39, 3268);
            let done =
                DiskCounters { name: "vda".to_owned(), requests, sectors, waited_ms, busy_ms: 350, weighted_ms: 3300 };
            one.disks = vec![DiskUse { done }];
            one.pressure = vec![("io", Pressure { some, full: 0.0 })];
            one.processes.push(process(9, "rustc", |one| one.io = 1_300_000));
        })
    };
    let causes = |list: Vec<MachineFinding>| list.iter().map(|one| one.cause).collect::<Vec<_>>();
    assert_eq!(found(77_000, 1.0), []);
    assert_eq!(causes(found(77_000, 6.0)), [Cause::Disk], "a process waits for them");
    assert_eq!(causes(found(39 * 8, 1.0)), [Cause::Disk], "small ones");
}

#[test]
fn memory_that_is_short() {
    let found = only(Cause::Killed, |one| one.memory.killed = 1);
    assert_eq!((found.severity, &*found.figure), (Severity::Bad, "10 processes killed for lack of memory"));
    let group = |percent, hits| MemoryGroup { hits, ..full_group(percent) };
    let near = only(Cause::Limit, |one| one.full_groups = vec![group(93.0, 0)]);
    assert_eq!((near.severity, &*near.figure), (Severity::Look, "cart at 93 % of its limit"));
    assert_eq!(only(Cause::Limit, |one| one.full_groups = vec![group(99.0, 3)]).severity, Severity::Bad);
    assert_eq!(reported(|one| one.full_groups = vec![group(85.0, 0)]), []);
    let little = only(Cause::Reclaim, |one| one.memory.available_kb = 100_000);
    assert_eq!((little.severity, &*little.figure), (Severity::Bad, "2 % of memory available"));
    assert_eq!(only(Cause::Reclaim, |one| one.memory.reclaimed = 5000).severity, Severity::Look);
}

#[test]
fn steady_growth_without_work_may_be_a_leak() {
    let grows = |cpu_ns| {
        move |one: &mut Resources| {
            one.processes = vec![process(5, "leak", |one| {
                (one.grown, one.growing, one.resident, one.cpu_ns) = (700_000, 6, 90_000_000, cpu_ns);
                // On a busy machine it waits for a CPU as well.
                one.delay_ns = SECOND / 4;
            })];
        }
    };
    let found = only(Cause::Growth, grows(SECOND / 10));
    assert_eq!((&*found.figure, found.look.command()), ("+700.0 kB/s", "perfprof-tui kmemleak -p 5".to_owned()));
    assert_eq!(found.evidence, "likely a leak: 90.0 MB resident, and growing steadily");
    assert_eq!(reported(grows(SECOND * 6 / 10)), [], "a compiler grows while it computes");
    let starts = |one: &mut Resources| {
        grows(SECOND / 10)(one);
        one.processes_ns = SECOND * 4 / 10;
    };
    let has_leak = |list: &[MachineFinding]| list.iter().any(|one| one.cause == Cause::Growth);
    assert!(!has_leak(&reported(starts)), "six readings in less than three seconds");
    let compiler = process(5, "cc1plus", |one| {
        (one.grown, one.growing, one.cpu_ns, one.delay_ns) = (700_000, 9, SECOND * 45 / 100, SECOND / 2);
    });
    // The kernel has not counted its waits yet.
    let starved = |runnable: usize| {
        let one = |at: usize| {
            let one = process(5, "rustc", |one| (one.grown, one.growing, one.cpu_ns) = (900_000, 9, SECOND / 20));
            Resources { processes: vec![ProcessUse { is_runnable: at < runnable, ..one }], ..calm_second() }
        };
        has_leak(&found_in(&seconds((0..10).map(one)), &[], false))
    };
    assert_eq!([starved(10), starved(9), starved(5)], [false, false, true]);
    // Two readings of all processes in ten seconds.
    let few = |is_runnable: bool| {
        let one = process(5, "rustc", |one| (one.grown, one.growing, one.cpu_ns) = (9_000_000, 9, SECOND / 5));
        let reading =
            Resources { processes: vec![ProcessUse { is_runnable, ..one }], processes_ns: 4 * SECOND, ..calm_second() };
        let between = Resources { processes: Vec::new(), processes_ns: 0, ..calm_second() };
        let list = (0..11).map(|at| if at % 4 == 3 { reading.clone() } else { between.clone() });
        has_leak(&found_in(&seconds(list), &[], false))
    };
    assert_eq!([few(true), few(false)], [false, true]);
    let mut part = vec![calm_second(); 10];
    part[4..].iter_mut().for_each(|one| one.processes = vec![compiler.clone()]);
    assert!(!has_leak(&found_in(&seconds(part), &[], false)), "a compiler that began within the range");
    // Another process has grown before.
    let leak = |pid| process(pid, "leak", |one| (one.grown, one.growing) = (700_000, 9));
    let list = (0..40).map(|at| Resources { processes: vec![leak(if at < 25 { 5 } else { 6 })], ..calm_second() });
    let list = found_in(&seconds(list), &[], false);
    let growth = list.iter().find(|one| one.cause == Cause::Growth).expect("a leak");
    assert!(growth.culprit == "leak 6" && growth.since >= 24 * SECOND, "{growth:?}");
    let mut once = vec![calm_second(); 10];
    once[3].processes = vec![process(5, "cache", |one| one.grown = 50_000_000)];
    assert_eq!(found_in(&seconds(once), &[], false), []);
}

#[test]
fn connections_that_fail() {
    let counts = |counts: NetworkCounts| move |one: &mut Resources| one.networks[0].counts = counts;
    let found = only(Cause::Refused, counts(NetworkCounts { opened: 2000, failed: 600, ..NetworkCounts::default() }));
    assert_eq!(
        (found.severity, &*found.figure, &*found.evidence),
        (Severity::Bad, "30 % of connects fail", "600 of 2.0 k a second")
    );
    let found = only(
        Cause::Retransmits,
        counts(NetworkCounts { segments: 10_000, retransmitted: 410, ..NetworkCounts::default() }),
    );
    assert_eq!((found.severity, &*found.figure), (Severity::Bad, "4.1 % of segments sent again"));
    assert_eq!(
        only(Cause::Unaccepted, counts(NetworkCounts { unaccepted: 5, ..NetworkCounts::default() })).severity,
        Severity::Bad
    );
    let found =
        only(Cause::Resets, counts(NetworkCounts { opened: 30, accepted: 10, reset: 8, ..NetworkCounts::default() }));
    assert_eq!((found.severity, &*found.figure), (Severity::Look, "20 % of connections are reset"));
    // A few of many.
    assert_eq!(reported(counts(NetworkCounts { accepted: 9000, reset: 8, ..NetworkCounts::default() })), []);
    let found = only(Cause::Unaccepted, counts(NetworkCounts { half_open_dropped: 9, ..NetworkCounts::default() }));
    assert!(found.figure == "9 handshake packet drops/s" && found.evidence.contains("SYN queue"), "{found:?}");
    only(Cause::Datagrams, counts(NetworkCounts { datagrams_dropped: 5, ..NetworkCounts::default() }));
    assert_eq!(
        reported(counts(NetworkCounts {
            opened: 2000,
            failed: 10,
            segments: 90_000,
            retransmitted: 9,
            ..NetworkCounts::default()
        })),
        []
    );
    // A container's connections are counted in its own network namespace.
    let found = only(Cause::Refused, |one| {
        let counts = NetworkCounts { opened: 20, failed: 10, ..NetworkCounts::default() };
        one.networks.push(NetworkUse { process: Some((77, "dialer".into())), counts });
    });
    assert_eq!(found.culprit, "network namespace of dialer 77");
}

/// A tracepoint was open for a moment in the last seconds.
#[test]
fn the_process_behind_failed_connections_is_named() {
    let counts = NetworkCounts { opened: 5800, failed: 5800, ..NetworkCounts::default() };
    let of = |pid, name: &str, port| Culprit { pid, name: name.into(), port, percent: 50.0 };
    let found = |connects: Vec<Culprit>| {
        let mut list = vec![calm_second(); 10];
        list.iter_mut().for_each(|one| one.networks[0].counts = counts);
        list[6].culprits.connects = connects;
        let list = found_in(&seconds(list), &[], false);
        list.iter().map(|one| (one.culprit.clone(), one.look.command())).collect::<Vec<_>>()
    };
    let of_nginx = ("nginx 3837 to port 9".to_owned(), "perfprof-tui tcp -p 3837".to_owned());
    assert_eq!(found(vec![of(3837, "nginx", 9)]), [of_nginx]);
    let both = ("nginx 3837 to port 9, curl 4000 to port 80".to_owned(), "perfprof-tui tcp".to_owned());
    assert_eq!(found(vec![of(3837, "nginx", 9), of(4000, "curl", 80), of(4001, "wget", 80)]), [both]);
    assert_eq!(found(Vec::new()), [(String::new(), "perfprof-tui tcp".to_owned())]);
}

#[test]
fn stolen_time_is_the_hypervisors() {
    let found = only(Cause::Stolen, |one| one.stolen_ns = SECOND / 2);
    assert_eq!((&*found.figure, found.look.key()), ("25 % of the CPU time stolen", "4 CPUs".to_owned()));
}

#[test]
fn changes_are_against_the_same_time_before() {
    let busy = |comm: &'static str, cpu_ns| {
        move || Resources { processes: vec![process(5, comm, |one| one.cpu_ns = cpu_ns)], ..calm_second() }
    };
    let history = |then: &dyn Fn() -> Resources, now: &dyn Fn() -> Resources| {
        seconds((0..11).map(|_| then()).chain((0..10).map(|_| now())))
    };
    let list = found_in(&history(&busy("nginx", SECOND / 2), &busy("php", SECOND * 6 / 10)), &[], false);
    let [found] = &list[..] else { panic!("{list:?}") };
    assert_eq!((found.cause, &*found.culprit), (Cause::Changed, "+php 0.60 CPUs, -nginx 0.50 CPUs"));
    let same = history(&busy("nginx", SECOND / 2), &busy("nginx", SECOND * 52 / 100));
    assert_eq!(found_in(&same, &[], false), []);
    // A baseline that was marked before has precedence, unless it reaches into the range.
    let long = (0..5).map(|_| busy("php", SECOND / 10)()).chain((0..30).map(|_| busy("php", SECOND * 6 / 10)()));
    let long = seconds(long);
    let against = |baseline| {
        let input = TriageInput { baseline: Some(baseline), ..TriageInput::new(&long, present(&long)) };
        findings(&input).into_iter().map(|one| (one.culprit, one.evidence)).collect::<Vec<_>>()
    };
    let grown = ("+php 0.50 CPUs".to_owned(), "against the 5 s of the baseline".to_owned());
    assert_eq!((against((0, 5 * SECOND)), against((0, 30 * SECOND))), (vec![grown], vec![]));
}

#[test]
fn a_finding_knows_since_when_it_holds() {
    let bad = || Resources { throttled: vec![throttled()], ..calm_second() };
    let history = seconds((0..20).map(|_| calm_second()).chain((0..30).map(|_| bad())));
    let list = found_in(&history, &[], false);
    assert_eq!(list[0].since, 20 * SECOND);
    // The past is answered like the present.
    let input = TriageInput::new(&history, (5 * SECOND, 15 * SECOND));
    assert_eq!(findings(&input), []);
    assert_eq!(findings(&TriageInput { range: (30 * SECOND, 40 * SECOND), ..input }).len(), 1);
}

#[test]
fn a_selection_hides_what_is_not_about_it() {
    let mut second = calm_second();
    second.throttled = vec![ThrottledGroup { name: "cart".into(), ..throttled() }];
    second.memory.killed = 1;
    second.processes =
        vec![process(5, "a", |one| one.cpu_ns = SECOND), process(6, "b", |one| one.minor_faults = 90_000)];
    let history = seconds(vec![second; 10]);
    let sampled = |pid, container: Option<&str>| {
        [ProcessSamples { pid, container: container.map(Into::into), ..ProcessSamples::default() }]
    };
    let causes = |processes: &[ProcessSamples]| -> Vec<Cause> {
        found_in(&history, processes, true).iter().map(|one| one.cause).collect()
    };
    assert_eq!(causes(&sampled(5, None)), [Cause::Busy]);
    assert_eq!(causes(&sampled(6, Some("cart"))), [Cause::Throttled, Cause::Faults, Cause::Asleep]);
    assert_eq!(causes(&[]), []);
}

/// The kernel counts a tick a little later than it passes.
#[test]
fn no_more_cpus_are_busy_than_there_are() {
    let found = only(Cause::Busy, |one| one.busy_ns = SECOND * 206 / 100);
    assert_eq!(found.figure, "2.00 of 2 CPUs busy");
}

/// A container at its limit may have no samples, because it does hardly anything else than reclaim memory or wait.
#[test]
fn a_limit_of_the_target_needs_no_samples() {
    let mut second = calm_second();
    second.throttled = vec![throttled()];
    second.full_groups = vec![MemoryGroup { killed: 1, ..full_group(93.0) }];
    let causes = |second: &Resources, target_groups: &[&str]| -> Vec<Cause> {
        let history = seconds(vec![second.clone(); 10]);
        let target_groups: Vec<String> = target_groups.iter().map(|path| (*path).to_owned()).collect();
        let input = TriageInput {
            is_narrowed: true,
            target_groups: &target_groups,
            ..TriageInput::new(&history, present(&history))
        };
        findings(&input).iter().map(|one| one.cause).collect()
    };
    assert_eq!(causes(&second, &["/docker/a"]), [Cause::Throttled]);
    assert_eq!(causes(&second, &["/docker/7d9"]), [Cause::Killed, Cause::Limit]);
    let all = [Cause::Killed, Cause::Throttled, Cause::Limit];
    assert_eq!(causes(&second, &["/docker"]), all, "a part of the target is limited");
    assert_eq!(causes(&second, &["/docker/a/b", "/docker/7d9/c"]), all, "the limit of a group above");
    assert_eq!((causes(&second, &[]), causes(&second, &["/docker/ab", "/docker/7"])), (vec![], vec![]));
    // Processes that are selected by number.
    second.throttled[0].of_target = Some(true);
    second.full_groups[0].of_target = Some(true);
    assert_eq!(causes(&second, &[]), all);
}

#[test]
fn a_selected_process_has_its_files_and_peers() {
    let file = |pid, path: &str, bytes| FileUse { pid, path: path.into(), bytes };
    let peer = |pid, address: &str, connections, bytes, resent| PeerUse {
        pid,
        address: address.into(),
        connections,
        bytes,
        resent,
    };
    let long = "/var/lib/docker/overlay2/7d9f/merged/data/ibdata1";
    let mut second = calm_second();
    second.traffic = ProcessTraffic {
        length: SECOND,
        files: vec![file(7, long, 2_000_000), file(7, "/log", 5000), file(8, "/other", 9)],
        peers: vec![peer(7, "10.0.3.7:5432", 3, 4000, 1), peer(7, "10.0.9.9", 1, 500, 0), peer(8, "10.0.0.2", 1, 9, 0)],
    };
    // Reading was not due at the end of each other interval.
    let idle = Resources { traffic: ProcessTraffic::default(), ..second.clone() };
    second.traffic.length = 2 * SECOND;
    let history = seconds((0..10).map(|at| if at % 2 == 0 { idle.clone() } else { second.clone() }));
    let input = TriageInput { is_narrowed: true, target: &[7], ..TriageInput::new(&history, present(&history)) };
    let lines = [
        "files: …/ibdata1 1.0 MB/s, /log 2.5 kB/s",
        "peers: 10.0.3.7:5432 ×3 2.0 kB/s (5 segments sent again), \
                 10.0.9.9 250 B/s",
    ];
    assert_eq!(NormalFigures::of(&input).traffic, lines);
    let whole = NormalFigures::of(&TriageInput { is_narrowed: false, ..input });
    assert_eq!(whole.traffic, Vec::<String>::new());
}

#[test]
fn the_worst_is_first_and_json_has_all_of_it() {
    let list = reported(|one| {
        one.processes = vec![process(5, "a", |one| (one.cpu_ns, one.minor_faults) = (SECOND, 90_000))];
        one.networks[0].counts = NetworkCounts { opened: 10, failed: 9, ..NetworkCounts::default() };
    });
    let causes: Vec<Cause> = list.iter().map(|one| one.cause).collect();
    assert_eq!(causes, [Cause::Refused, Cause::Faults, Cause::Busy]);
    let json = list[2].json(0);
    let expected = serde_json::json!({
        "text": "cpu: 0.10 of 2 CPUs busy; a 1.00", "advice": "perfprof-tui --where 'pid == 5'",
        "cause": "busy", "area": "cpu", "severity": "look", "figure": "0.10 of 2 CPUs busy", "culprit": "a 1.00",
        "evidence": "", "since_s": 0.0, "confidence": "counted",
    });
    assert_eq!(json, expected);
}

#[test]
fn anomalies_of_cpus_are_findings() {
    let history = seconds(vec![calm_second(); 10]);
    let cpus = [CpuFinding::staged(32, "CPU 32 softirq 43 %, peers 0 %; TIMER (estimation_timer)")];
    let input = TriageInput { cpus: &cpus, ..TriageInput::new(&history, present(&history)) };
    let list = findings(&input);
    assert_eq!(list[0].text(), "cpu: CPU 32 softirq 43 %, peers 0 %; TIMER (estimation_timer)");
    assert_eq!((list[0].cause, &list[0].look), (Cause::Softirq, &Look::Cpus(Some(32))));
    assert_eq!(findings(&TriageInput { is_narrowed: true, ..input }), []);
}

/// A reading of all processes may take seconds on a busy machine.
#[test]
fn a_leak_is_found_in_few_readings() {
    let list = (0..40).map(|at| {
        let leak = process(5, "leak", |one| (one.grown, one.growing) = (24_000_000, (at / 4).min(30)));
        match at % 4 {
            3 => Resources { processes: vec![leak], processes_ns: 4 * SECOND, ..calm_second() },
            _ => Resources { processes: Vec::new(), processes_ns: 0, ..calm_second() },
        }
    });
    let list = found_in(&seconds(list), &[], false);
    let growth: Vec<&MachineFinding> = list.iter().filter(|one| one.cause == Cause::Growth).collect();
    assert_eq!(growth.iter().map(|one| &*one.figure).collect::<Vec<_>>(), ["+6.0 MB/s"], "{list:?}");
}

/// A finding ends well below the limit at which it began, and meanwhile has the same beginning.
#[test]
fn a_finding_does_not_flicker() {
    let of = |percent: f64| Resources { throttled: vec![ThrottledGroup { percent, ..throttled() }], ..calm_second() };
    let at = |percent, before: &[MachineFinding]| {
        let history = seconds(vec![of(percent); 10]);
        let mut list = findings(&TriageInput { before, ..TriageInput::new(&history, present(&history)) });
        list.retain(|one| one.cause == Cause::Throttled);
        list
    };
    let first = at(12.0, &[]);
    let since = |list: Vec<MachineFinding>| list.iter().map(|one| one.since).collect::<Vec<_>>();
    assert_eq!((since(at(8.0, &[])), since(at(8.0, &first)), since(at(5.0, &first))), (vec![], vec![0], vec![]));
    // It is about one group, and gets no worse while its figures fall.
    let other = MachineFinding { look: Look::Cpus(None), ..first[0].clone() };
    let milder = MachineFinding { severity: Severity::Look, ..first[0].clone() };
    assert_eq!((since(at(8.0, &[other])), since(at(8.0, &[milder]))), (vec![], vec![]));
    let history = seconds(vec![of(50.0); 300]);
    let known = [MachineFinding { since: 2 * SECOND, ..first[0].clone() }];
    let input = TriageInput { before: &known, ..TriageInput::new(&history, present(&history)) };
    assert_eq!(findings(&input)[0].since, 2 * SECOND, "it began before the range that is searched");
}

#[test]
fn a_selected_process_that_sleeps_leads_to_its_waits() {
    let mut second = calm_second();
    second.processes = vec![process(5, "client", |one| (one.cpu_ns, one.delay_ns) = (SECOND / 25, SECOND / 100))];
    let history = seconds(vec![second; 10]);
    let input = TriageInput { is_narrowed: true, target: &[5], ..TriageInput::new(&history, present(&history)) };
    let list = findings(&input);
    assert_eq!(list.len(), 1, "{list:?}");
    let text = "waits: waits 95 % of the time; client 5; on a CPU 4 %, waiting for one 1 %: samples show no sleep";
    assert_eq!((&*list[0].text(), list[0].look.command()), (text, "perfprof-tui waits -p 5".to_owned()));
    // Figures of the whole machine are left out.
    assert_eq!(
        NormalFigures::of(&input).calm.join(", "),
        "0.04 CPUs used, 0.01 waiting for a CPU, 0.95 threads asleep"
    );
    assert_eq!(findings(&TriageInput { is_narrowed: false, ..input }), []);
    let server = process(5, "server", |one| (one.threads, one.resident, one.io) = (4, 48_000_000, 1_200_000));
    let history = seconds(vec![Resources { processes: vec![server], ..calm_second() }; 10]);
    let words = "0.00 CPUs used, 0.00 waiting for a CPU, 4.00 threads asleep, 48.0 MB resident, 1.2 MB/s of disks";
    assert_eq!(NormalFigures::of(&TriageInput { history: &history, ..input }).calm.join(", "), words);
}

/// The compilers of `make` end before they have figures in each interval.
#[test]
fn a_process_whose_children_work_is_not_asleep() {
    let make = process(5, "make", |_| {});
    let list = (0..10).map(|at| {
        let compiler = process(100 + at, "cc1", |one| one.cpu_ns = SECOND);
        Resources { processes: vec![make.clone(), compiler], ..calm_second() }
    });
    let history = seconds(list);
    let pids: Vec<i32> = [5].into_iter().chain(100..110).collect();
    let input = TriageInput { is_narrowed: true, target: &pids, ..TriageInput::new(&history, present(&history)) };
    assert!(findings(&input).iter().all(|one| one.cause != Cause::Asleep), "{:?}", findings(&input));
}

#[test]
fn a_queue_mentions_the_threads_that_it_does_not_name() {
    let found = only(Cause::Queue, |one| {
        one.waiting = 13;
        one.processes = vec![process(5, "rustc", |one| one.delay_ns = SECOND)];
    });
    assert_eq!(found.culprit, "rustc 1.00, others 12.0");
}
