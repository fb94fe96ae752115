//! The processes of the running machine between two readings of /proc: CPU time, waits for a CPU, page faults, growth.

pub(crate) mod traffic;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::kernel::host::ticks_per_second;
use crate::kernel::{monotonic_ns, procfs, thread_cpu_ns};
use crate::panel::row_order::arrange_by_key;
use crate::session::machine::resources::{self, ProcessCounters};

use super::scripts::script;

/// The inverse of the share of a CPU for reading processes, and of that for reading their descriptors and sockets.
const DUTY: u64 = 80;
/// The limits of processes, and of threads whose waits are read each time.
const MAX_PROCESSES: usize = 8000;
const MAX_THREADS: usize = 400;
const MAX_THREADS_OF_ONE: usize = 64;
/// The readings of steady growth from which the waits of a process are read in any case: they distinguish a compiler that
/// waits for a CPU from a leak.
const GROWING: u32 = 3;
/// The number of processes that are kept by each figure.
const KEPT: usize = 4;

/// The use of the machine by a process in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessUse {
    /// The process id.
    pub pid: i32,
    /// Its name.
    pub comm: Arc<str>,
    /// The script that it runs, if it is an interpreter.
    pub(crate) script: Option<Arc<str>>,
    /// Its parent.
    pub(crate) parent: i32,
    /// Nanoseconds on a CPU, and those of them in the kernel.
    pub cpu_ns: u64,
    pub(crate) kernel_ns: u64,
    /// Nanoseconds that its threads waited for a CPU, and the number of their time slices.
    pub(crate) delay_ns: u64,
    pub(crate) slices: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// The growth of its resident memory in bytes, without pages of files and of shared memory if it grew before.
    pub(crate) grown: i64,
    /// Its resident memory in bytes, and the readings for which it has grown steadily ([`steady`]).
    pub(crate) resident: u64,
    pub(crate) growing: u32,
    /// Bytes that it read from disks or wrote to them.
    pub(crate) io: u64,
    /// Nanoseconds of CPU time of its children that ended.
    pub(crate) children_ns: u64,
    pub(crate) threads: u32,
    /// Whether one of its threads ran or waited for a CPU when it was read; for a process that does not grow, whether the
    /// main thread did.
    pub(crate) is_runnable: bool,
}

impl ProcessUse {
    /// Returns the name by which people know it: that of its script, or its own.
    pub(crate) fn name(&self) -> &Arc<str> {
        self.script.as_ref().unwrap_or(&self.comm)
    }
}

/// A process at the last reading.
struct Known {
    comm: Arc<str>,
    counters: ProcessCounters,
    /// Waits and slices of its threads, and its I/O, where they were read.
    waits: Option<(u64, u64)>,
    io: Option<u64>,
    growing: u32,
    /// The pages of its own memory, at the last reading with growth.
    private: Option<u64>,
}

/// The processes since the last reading.
#[derive(Default)]
pub(crate) struct ProcessWatch {
    known: HashMap<i32, Known>,
    /// When it was read, and the earliest time to read it again.
    read_at: u64,
    due: u64,
    /// Processes that are kept regardless of their figures.
    followed: Vec<i32>,
    /// Processes with several threads that ran in the last interval.
    active: Vec<i32>,
}

impl ProcessWatch {
    /// Keeps these processes regardless of their figures.
    pub(crate) fn follow(&mut self, processes: Vec<i32>) {
        self.followed = processes;
    }

    /// Returns the followed processes, and those with several threads that ran in the last interval.
    pub(crate) fn active(&self) -> Vec<i32> {
        self.active.clone()
    }

    /// Returns the processes with the largest figures since the last reading, and its length in nanoseconds; `None` if
    /// reading is not due, or for the first reading.
    pub(crate) fn read(&mut self) -> Option<(Vec<ProcessUse>, u64)> {
        let before = monotonic_ns();
        if before < self.due {
            return None;
        }
        let cpu_before = thread_cpu_ns();
        let own = std::process::id() as i32;
        let span = before.saturating_sub(std::mem::replace(&mut self.read_at, before));
        let mut budget = MAX_THREADS;
        self.active.clone_from(&self.followed);
        let (mut seen, mut list) = (BTreeSet::new(), Vec::<ProcessUse>::new());
        let is_first = self.known.is_empty();
        for pid in procfs::processes_as_listed().filter(|pid| *pid != own).take(MAX_PROCESSES) {
            let Ok(line) = procfs::read_short(&format!("/proc/{pid}/stat")) else { continue };
            let Some((comm, now)) = resources::process(&line) else { continue };
            seen.insert(pid);
            list.extend(self.update(pid, comm, now, &mut budget));
        }
        self.known.retain(|pid, _| seen.contains(pid));
        list.iter_mut().for_each(|one| limit_to(one, span));
        let mut list = largest(list, &self.followed);
        for one in &mut list {
            one.script = script(&one.comm, || procfs::cmdline(one.pid)).map(Arc::from);
        }
        // Time on a CPU, as a busy machine delays the reader.
        self.due = before + thread_cpu_ns().saturating_sub(cpu_before) * DUTY;
        (!is_first).then_some((list, span))
    }

    fn update(&mut self, pid: i32, comm: &[u8], now: ProcessCounters, budget: &mut usize) -> Option<ProcessUse> {
        let known = self.known.get_mut(&pid).filter(|known| known.counters.start == now.start);
        let Some(known) = known else {
            let comm: Arc<str> = String::from_utf8_lossy(comm).into();
            // All that a new process did happened in this interval, except for what it inherited.
            let fresh = Known {
                comm,
                counters: ProcessCounters { resident: now.resident, ..now },
                waits: None,
                io: None,
                growing: 0,
                private: None,
            };
            let used = ProcessUse {
                cpu_ns: nanoseconds(now.ticks),
                kernel_ns: nanoseconds(now.system_ticks),
                minor_faults: now.minor_faults,
                major_faults: now.major_faults,
                ..ProcessUse {
                    pid,
                    parent: now.parent,
                    comm: fresh.comm.clone(),
                    threads: now.threads as u32,
                    ..ProcessUse::default()
                }
            };
            return (self.known.insert(pid, fresh).is_none() && self.read_at > 0).then_some(used);
        };
        if known.comm.as_bytes() != comm {
            known.comm = String::from_utf8_lossy(comm).into();
        }
        let then = std::mem::replace(&mut known.counters, now);
        let mut used = ProcessUse {
            pid,
            comm: known.comm.clone(),
            parent: now.parent,
            cpu_ns: nanoseconds(now.ticks.saturating_sub(then.ticks)),
            kernel_ns: nanoseconds(now.system_ticks.saturating_sub(then.system_ticks)),
            minor_faults: now.minor_faults.saturating_sub(then.minor_faults),
            major_faults: now.major_faults.saturating_sub(then.major_faults),
            resident: now.resident.saturating_mul(page() as u64),
            grown: (now.resident as i64).saturating_sub(then.resident as i64).saturating_mul(page()),
            children_ns: nanoseconds(now.child_ticks.saturating_sub(then.child_ticks)),
            threads: u32::try_from(now.threads).unwrap_or(u32::MAX),
            is_runnable: now.state == b'R',
            ..ProcessUse::default()
        };
        if used.grown > 0 {
            let statm = procfs::read_short(&format!("/proc/{pid}/statm")).ok();
            used.grown = private_growth(used.grown, &mut known.private, statm.and_then(|line| private_pages(&line)));
        }
        known.growing = steady(known.growing, used.grown);
        used.growing = known.growing;
        if used.growing > 0 {
            used.is_runnable = has_runnable_thread(pid, now.threads, now.state);
        }
        let is_active = used.cpu_ns > 0 || used.minor_faults > 0 || matches!(now.state, b'R' | b'D');
        if is_active || known.waits.is_none() {
            let mut of_growing = MAX_THREADS_OF_ONE;
            let budget = if used.growing >= GROWING { &mut of_growing } else { budget };
            let waits = waits(pid, now.threads, budget);
            // The sums fall when a thread exits.
            if let (Some((delay, slices)), Some(before)) = (waits, known.waits)
                && let (Some(delay), Some(slices)) = (delay.checked_sub(before.0), slices.checked_sub(before.1))
            {
                (used.delay_ns, used.slices) = (delay, slices);
            }
            known.waits = waits.or(known.waits);
        }
        if is_active {
            let io = procfs::read_short(&format!("/proc/{pid}/io")).ok();
            let io = io.map(|text| resources::keyed(&text, ["read_bytes", "write_bytes"]).iter().sum());
            used.io = io.zip(known.io).map_or(0, |(now, then): (u64, u64)| now.saturating_sub(then));
            known.io = io.or(known.io);
        }
        if now.threads > 1 && is_active && !self.active.contains(&pid) {
            self.active.push(pid);
        }
        Some(used)
    }
}

/// Limits figures to what fits into an interval: the kernel adds the time of a child, or of a wait for a CPU, when it ends,
/// with the part before the interval.
fn limit_to(one: &mut ProcessUse, span: u64) {
    one.children_ns = one.children_ns.min(span);
    one.delay_ns = one.delay_ns.min(span.saturating_mul(u64::from(one.threads.max(1))));
}

/// Updates the number of readings for which a process has grown steadily: a reading without growth takes back three.
fn steady(readings: u32, grown: i64) -> u32 {
    const MOST: u32 = 30;
    if grown > 0 { (readings + 1).min(MOST) } else { readings.saturating_sub(3) }
}

/// Returns the part of a growth that is a process's own memory; `before` are its pages at the last growth, and are set
/// to those of `now`. A server that touches its shared memory for the first time grows, too: a backend of PostgreSQL
/// until it has touched all buffers.
fn private_growth(grown: i64, before: &mut Option<u64>, now: Option<u64>) -> i64 {
    match (std::mem::replace(before, now), now) {
        (Some(before), Some(now)) => grown.min((now as i64).saturating_sub(before as i64).saturating_mul(page())),
        _ => grown,
    }
}

/// Parses a line of /proc/PID/statm: the resident pages that are neither of files nor of shared memory.
fn private_pages(line: &[u8]) -> Option<u64> {
    let mut pages = std::str::from_utf8(line).ok()?.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared))
}

fn page() -> i64 {
    rustix::param::page_size() as i64
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / ticks_per_second())
}

/// Returns the waits for a CPU of a process's threads in nanoseconds, and the number of their time slices.
fn waits(pid: i32, threads: u64, budget: &mut usize) -> Option<(u64, u64)> {
    let of = |path: String| resources::schedstat(&procfs::read_short(&path).ok()?);
    if threads <= 1 {
        return of(format!("/proc/{pid}/schedstat")).map(|[_, delay, slices]| (delay, slices));
    }
    let tids = procfs::threads(pid);
    if tids.len() > (*budget).min(MAX_THREADS_OF_ONE) {
        return None;
    }
    *budget -= tids.len();
    let all = tids.into_iter().filter_map(|tid| of(format!("/proc/{pid}/task/{tid}/schedstat")));
    Some(all.fold((0, 0), |sum, [_, delay, slices]| (sum.0 + delay, sum.1 + slices)))
}

/// Returns whether a thread of a process runs or waits for a CPU; `state` is that of its main thread, which waits for the
/// others in many programs, as in rustc.
fn has_runnable_thread(pid: i32, threads: u64, state: u8) -> bool {
    let is_runnable = |tid: i32| {
        let line = procfs::read_short(&format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
        resources::process(&line).is_some_and(|(_, now)| now.state == b'R')
    };
    state == b'R' || threads > 1 && procfs::threads(pid).into_iter().take(MAX_THREADS_OF_ONE).any(is_runnable)
}

/// Returns the processes that are followed or among the largest by any figure, by their ids.
fn largest(list: Vec<ProcessUse>, followed: &[i32]) -> Vec<ProcessUse> {
    let figures: [fn(&ProcessUse) -> u64; 9] = [
        |one| one.cpu_ns,
        |one| one.delay_ns,
        |one| one.slices,
        |one| one.minor_faults,
        |one| one.major_faults,
        |one| one.io,
        |one| one.grown.max(0) as u64,
        // A leak is kept also while programs that just start grow faster.
        |one| u64::from(one.growing),
        |one| one.children_ns,
    ];
    let mut kept: BTreeSet<usize> = (0..list.len()).filter(|at| followed.contains(&list[*at].pid)).collect();
    for figure in figures {
        let mut places: Vec<usize> = (0..list.len()).filter(|at| figure(&list[*at]) > 0).collect();
        arrange_by_key(&mut places, |at| (std::cmp::Reverse(figure(&list[*at])), list[*at].pid));
        kept.extend(places.into_iter().take(KEPT));
    }
    let mut list: Vec<Option<ProcessUse>> = list.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| list[at].take()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that grows slowly but steadily stays although others grow faster for a moment.
    #[test]
    fn steady_growth_is_kept() {
        let readings = |growth: &[i64]| growth.iter().fold(0, |readings, grown| steady(readings, *grown));
        assert_eq!((readings(&[5; 6]), readings(&[5; 99])), (6, 30));
        assert_eq!((readings(&[5, 5, 5, 5, 5, 5, 0, 5]), readings(&[5, 0, 5, -5, 5, 0])), (4, 0));
        let one = |pid, grown, growing| ProcessUse { pid, grown, growing, ..ProcessUse::default() };
        let list = (1..=20).map(|pid| one(pid, 90_000_000, 1)).chain([one(21, 500_000, 12)]).collect();
        assert!(largest(list, &[]).iter().any(|one| one.pid == 21));
    }

    /// The test's thread runs; the main thread waits for it.
    #[test]
    fn a_process_is_runnable_by_any_of_its_threads() {
        let pid = std::process::id() as i32;
        assert!(has_runnable_thread(pid, 2, b'S') && has_runnable_thread(pid, 1, b'R'));
        assert!(!has_runnable_thread(pid, 1, b'S') && !has_runnable_thread(i32::MAX, 2, b'S'));
    }

    /// More threads of other processes run than are read.
    #[test]
    fn the_waits_of_a_growing_process_are_read() {
        let pid = std::process::id() as i32;
        if procfs::threads(pid).len() > MAX_THREADS_OF_ONE {
            return;
        }
        let has_waits = |growing: u32| {
            let mut watch = ProcessWatch::default();
            let now = ProcessCounters { threads: 2, resident: 1, ..ProcessCounters::default() };
            watch.update(pid, b"tests", now, &mut 0);
            watch.known.get_mut(&pid).expect("known").growing = growing;
            watch.update(pid, b"tests", ProcessCounters { resident: 2, ..now }, &mut 0);
            watch.known[&pid].waits.is_some()
        };
        assert_eq!([0, GROWING].map(has_waits), [false, true]);
    }

    /// A backend of PostgreSQL touches shared buffers, then one with a leak.
    #[test]
    fn pages_of_shared_memory_are_not_growth() {
        assert_eq!(private_pages(b"9000 500 200 1 0 300 0\n"), Some(300));
        assert_eq!((private_pages(b"9000 500\n"), private_pages(b""), private_pages(b"1 x 2")), (None, None, None));
        let bytes = 40 * page();
        let growth = |readings: &[Option<u64>]| {
            let mut before = None;
            readings.iter().map(|now| private_growth(bytes, &mut before, *now) / page()).collect::<Vec<_>>()
        };
        assert_eq!(growth(&[Some(300), Some(300), Some(301)]), [40, 0, 1], "the first growth has no comparison");
        assert_eq!(growth(&[Some(300), Some(340), Some(390), Some(290)]), [40, 40, 40, -100]);
        assert_eq!(growth(&[None, Some(300), None]), [40, 40, 40], "not readable");
    }

    /// A program that was starved waited 59.9 s for its first time slice in a minute.
    #[test]
    fn a_wait_counts_for_its_part_in_the_interval() {
        let of = |delay_ns, threads| {
            let mut one = ProcessUse { delay_ns, threads, children_ns: 70, ..ProcessUse::default() };
            limit_to(&mut one, 10);
            (one.delay_ns, one.children_ns)
        };
        assert_eq!((of(599, 1), of(599, 3), of(9, 3), of(599, 0)), ((10, 10), (30, 10), (9, 10), (10, 10)));
    }

    #[test]
    fn the_largest_by_any_figure_stay() {
        let one = |pid, cpu_ns, io| ProcessUse { pid, cpu_ns, io, ..ProcessUse::default() };
        let list: Vec<ProcessUse> =
            (1..=8).map(|pid| one(pid, 100 - pid as u64, 0)).chain([one(9, 0, 5), one(10, 0, 0)]).collect();
        assert_eq!(largest(list.clone(), &[]).iter().map(|one| one.pid).collect::<Vec<_>>(), [1, 2, 3, 4, 9]);
        assert_eq!(largest(list, &[10]).last().map(|one| one.pid), Some(10), "a followed process has no figures");
    }

    /// A child process that burns CPU time appears with it.
    #[test]
    fn a_busy_process_is_found() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        let pid = child.id() as i32;
        let mut watch = ProcessWatch::default();
        assert_eq!(watch.read(), None, "the first reading has nothing to compare with");
        let begun = std::time::Instant::now();
        let found = loop {
            let found =
                watch.read().and_then(|(list, _)| list.into_iter().find(|one| one.pid == pid && one.cpu_ns > 0));
            if found.is_some() || begun.elapsed() > std::time::Duration::from_secs(60) {
                break found;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let _ = child.kill();
        let _ = child.wait();
        let found = found.expect("the child");
        assert_eq!((&*found.comm, found.parent), ("sh", std::process::id() as i32));
    }
}
