//! The figures of several intervals together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kernel::cgroup;
use crate::machine::culprits::{Culprit, Culprits};
use crate::machine::deadlocks::Deadlock;
use crate::machine::lock_waits::{LockLooks, LockedProcess};
use crate::machine::memory_limits::MemoryGroup;
use crate::machine::processes::ProcessUse;
use crate::machine::processes::traffic::{PeerUse, ProcessTraffic};
use crate::machine::resources::{MemoryUse, NetworkCounts, Resources};
use crate::machine::sockets::NamedProcess;
use crate::machine::sockets::listeners::FullQueue;
use crate::machine::sockets::stalled::StalledReader;
use crate::machine::sockets::unanswered::UnansweredPeer;
use crate::panel::row_order::{arrange, arrange_by_key};
use crate::query::rows::busiest::ProcessSamples;
use crate::session::machine::quota::ThrottledGroup;
use crate::session::machine::resources::DiskCounters;

/// The maximum number of programs that a finding names.
pub(super) const NAMED: usize = 3;

/// A process over several intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessTotal {
    pub(crate) used: ProcessUse,
    /// Intervals with figures of it, and those at whose end it was runnable.
    pub(crate) seen: u32,
    pub(crate) seen_runnable: u32,
    /// The time that these cover, in nanoseconds.
    pub(crate) seen_ns: u64,
}

/// Returns the groups that were throttled in these intervals with their means, the worst first.
pub(crate) fn throttled(list: &[&Resources]) -> Vec<ThrottledGroup> {
    let mut groups: BTreeMap<Arc<str>, ThrottledGroup> = BTreeMap::new();
    let mut whole = 0.0;
    for one in list {
        let seconds = one.length as f64 / 1e9;
        whole += seconds;
        for group in &one.throttled {
            let none = || ThrottledGroup { percent: 0.0, ms: 0.0, ..group.clone() };
            let known = groups.entry(group.name.clone()).or_insert_with(none);
            (known.percent, known.ms) = (known.percent + group.percent * seconds, known.ms + group.ms * seconds);
        }
    }
    let mean = |sum: f64| if whole > 0.0 { sum / whole } else { 0.0 };
    let means = groups.into_values().map(|one| ThrottledGroup { percent: mean(one.percent), ms: mean(one.ms), ..one });
    let mut means: Vec<ThrottledGroup> = means.collect();
    arrange(&mut means, |a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
    means
}

/// Sums of several intervals.
#[derive(Clone, Debug, Default)]
pub struct Totals<'a> {
    /// The fraction of each limit that is sufficient: less than 1 for a finding that exists already.
    pub(crate) ease: f64,
    pub(crate) seconds: f64,
    /// The number of intervals that read the processes.
    pub(crate) looks: usize,
    pub(crate) cpus: f64,
    /// CPUs that were busy, and those that the hypervisor took.
    pub(crate) busy: f64,
    pub(crate) stolen: f64,
    pub(crate) switches: f64,
    pub(crate) forks: f64,
    /// Threads that were runnable and not running, on average.
    pub(crate) waiting: f64,
    pub(crate) pressure: BTreeMap<&'static str, (f64, f64)>,
    pub(crate) throttled: Vec<ThrottledGroup>,
    pub(crate) disks: BTreeMap<String, DiskCounters>,
    pub(crate) memory: MemoryUse,
    pub(crate) groups: BTreeMap<Arc<str>, MemoryGroup>,
    /// Network namespaces by a process in them.
    pub(crate) networks: BTreeMap<Option<i32>, (Arc<str>, NetworkCounts)>,
    /// The newest full listen queue.
    pub(crate) full_queue: Option<FullQueue>,
    /// The peers that do not answer connects, and the readers of connections that stand still.
    pub(crate) unanswered: Vec<UnansweredPeer>,
    pub(crate) stalled: Vec<StalledReader>,
    /// Interrupts of each CPU's timer per second.
    pub(crate) timers: BTreeMap<u32, f64>,
    /// Those of this program's sampling clocks.
    pub(crate) own_timer_hz: f64,
    /// The newest processes behind failed connections and interrupts of timers.
    pub(crate) behind: Culprits,
    pub(crate) processes: Vec<ProcessTotal>,
    /// The time that the figures of processes cover.
    pub(crate) process_seconds: f64,
    /// Traffic of files and connections, and the time that these figures cover.
    pub(crate) files: BTreeMap<Arc<str>, u64>,
    pub(crate) peers: BTreeMap<Arc<str>, PeerUse>,
    pub(crate) traffic_seconds: f64,
    /// The waits for contended locks.
    pub(crate) locks: LockLooks,
    /// The deadlocks at the end.
    pub(crate) deadlocks: Vec<Deadlock>,
    /// Whether only some processes count, so that figures of the whole machine do not.
    pub(crate) is_narrowed: bool,
    /// The processes with samples.
    pub(crate) sampled: &'a [ProcessSamples],
    /// The cgroups of the session's target, if it is groups or containers.
    pub(crate) target_groups: &'a [String],
}

/// The threads of one name that held a lock.
#[derive(Default)]
struct HoldersOfName {
    /// How often others were seen waiting for them.
    waits: u64,
    tids: Vec<i32>,
}

impl<'a> Totals<'a> {
    pub(crate) fn of(list: &[&Resources], scope: Option<&BTreeSet<i32>>, sampled: &'a [ProcessSamples]) -> Self {
        let mut out = Self { ease: 1.0, sampled, is_narrowed: scope.is_some(), ..Self::default() };
        let mut processes: BTreeMap<i32, ProcessTotal> = BTreeMap::new();
        for one in list {
            let seconds = one.length as f64 / 1e9;
            out.seconds += seconds;
            out.cpus = f64::from(one.cpus);
            out.busy += one.busy_ns as f64 / 1e9;
            out.stolen += one.stolen_ns as f64 / 1e9;
            out.switches += one.switches as f64;
            out.forks += one.forks as f64;
            out.waiting += one.waiting as f64 * seconds;
            for (name, pressure) in &one.pressure {
                let known = out.pressure.entry(*name).or_default();
                *known = (f64::from(pressure.some), f64::from(pressure.full));
            }
            for disk in &one.disks {
                out.disks.entry(disk.done.name.clone()).or_default().add(&disk.done);
            }
            out.memory = MemoryUse {
                total_kb: one.memory.total_kb,
                available_kb: one.memory.available_kb,
                faults: out.memory.faults + one.memory.faults,
                major_faults: out.memory.major_faults + one.memory.major_faults,
                reclaimed: out.memory.reclaimed + one.memory.reclaimed,
                swapped_in: out.memory.swapped_in + one.memory.swapped_in,
                killed: out.memory.killed + one.memory.killed,
            };
            for group in &one.full_groups {
                let known = out.groups.entry(group.name.clone()).or_default();
                let (hits, killed) = (known.hits + group.hits, known.killed + group.killed);
                *known = MemoryGroup { hits, killed, ..group.clone() };
            }
            for network in &one.networks {
                let (pid, name) = network.process.clone().map_or((None, "".into()), |(pid, name)| (Some(pid), name));
                let known = out.networks.entry(pid).or_insert((name, NetworkCounts::default()));
                known.1 = known.1.plus(&network.counts);
            }
            out.full_queue = one.sockets.full_queue.clone().or(out.full_queue);
            for peer in &one.sockets.unanswered {
                match out.unanswered.iter_mut().find(|known| known.peer == peer.peer) {
                    Some(known) => known.merge(peer),
                    None => out.unanswered.push(peer.clone()),
                }
            }
            for reader in &one.sockets.stalled {
                match out.stalled.iter_mut().find(|known| known.is_same(reader)) {
                    Some(known) => known.merge(reader),
                    None => out.stalled.push(reader.clone()),
                }
            }
            out.locks.add(&one.locks);
            for (cpu, rate) in &one.timers {
                *out.timers.entry(*cpu).or_default() += f64::from(*rate) * seconds;
            }
            let newest = |known: &mut Vec<Culprit>, new: &[Culprit]| {
                let new = new.iter().filter(|one| scope.is_none_or(|pids| pids.contains(&one.pid)));
                let new: Vec<Culprit> = new.cloned().collect();
                if !new.is_empty() {
                    *known = new;
                }
            };
            newest(&mut out.behind.connects, &one.culprits.connects);
            newest(&mut out.behind.timers, &one.culprits.timers);
            out.add_traffic(&one.traffic, scope);
            out.looks += usize::from(one.processes_ns > 0);
            out.process_seconds += one.processes_ns as f64 / 1e9;
            for process in one.processes.iter().filter(|process| scope.is_none_or(|pids| pids.contains(&process.pid))) {
                processes.entry(process.pid).or_default().add(process, one.processes_ns);
            }
        }
        let deadlocks = list.last().into_iter().flat_map(|one| &one.deadlocks);
        out.deadlocks = deadlocks.filter(|one| scope.is_none_or(|pids| pids.contains(&one.pid))).cloned().collect();
        let per = |sum: f64| if out.seconds > 0.0 { sum / out.seconds } else { 0.0 };
        out.timers.values_mut().for_each(|sum| *sum = per(*sum));
        out.throttled = throttled(list);
        // The ticks of a CPU may be counted a little later than they pass.
        let busy = if out.cpus > 0.0 { per(out.busy).min(out.cpus) } else { per(out.busy) };
        (out.busy, out.stolen, out.waiting) = (busy, per(out.stolen), per(out.waiting));
        (out.switches, out.forks) = (per(out.switches), per(out.forks));
        out.processes = processes.into_values().collect();
        let is_mine = |process: &NamedProcess| {
            scope.is_none_or(|pids| process.as_ref().is_some_and(|(pid, _)| pids.contains(pid)))
        };
        out.full_queue = out.full_queue.filter(|queue| is_mine(&queue.process));
        out.unanswered.retain(|peer| is_mine(&peer.process));
        out.stalled.retain(|reader| is_mine(&reader.process) || is_mine(&reader.writer));
        if let Some(pids) = scope {
            out.locks.processes.retain(|pid, _| pids.contains(pid));
            out.networks.retain(|pid, _| pid.is_some_and(|pid| pids.contains(&pid)));
        }
        out
    }

    fn add_traffic(&mut self, traffic: &ProcessTraffic, scope: Option<&BTreeSet<i32>>) {
        let is_mine = |pid: i32| scope.is_none_or(|pids| pids.contains(&pid));
        self.traffic_seconds += traffic.length as f64 / 1e9;
        for file in traffic.files.iter().filter(|file| is_mine(file.pid)) {
            *self.files.entry(file.path.clone()).or_default() += file.bytes;
        }
        let mut connections: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for peer in traffic.peers.iter().filter(|peer| is_mine(peer.pid)) {
            *connections.entry(&peer.address).or_default() += peer.connections;
            let sum = self.peers.entry(peer.address.clone()).or_default();
            sum.bytes = sum.bytes.saturating_add(peer.bytes);
            sum.resent = sum.resent.saturating_add(peer.resent);
            // The number at the end.
            sum.connections = connections[&peer.address];
        }
    }

    /// Returns the limit of a figure, which is lower for an existing finding.
    pub(crate) fn limit(&self, limit: f64) -> f64 {
        limit * self.ease
    }

    /// Returns a count as a rate per second of the processes' figures.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.process_seconds > 0.0 { count as f64 / self.process_seconds } else { 0.0 }
    }

    /// Returns the programs with the largest figures: name, sum per second, and the process if there is only one.
    pub(crate) fn programs(&self, figure: impl Fn(&ProcessUse) -> u64) -> Vec<ProgramUse> {
        let mut list: BTreeMap<&Arc<str>, ProgramUse> = BTreeMap::new();
        for process in &self.processes {
            let sum = figure(&process.used);
            if sum > 0 {
                let known = list.entry(process.used.name()).or_insert_with(|| ProgramUse {
                    name: process.used.name().clone(),
                    comm: process.used.comm.clone(),
                    pid: Some(process.used.pid),
                    ..ProgramUse::default()
                });
                known.pid = known.pid.filter(|pid| *pid == process.used.pid);
                known.processes += 1;
                known.sum += sum;
                known.cpu_ns += process.used.cpu_ns;
                known.per_second = self.per_second(known.sum);
            }
        }
        let mut list: Vec<ProgramUse> = list.into_values().collect();
        arrange_by_key(&mut list, |one| (std::cmp::Reverse(one.sum), one.name.clone()));
        list
    }

    /// Returns the first processes with the largest figures, as text.
    pub(crate) fn culprits(&self, list: &[ProgramUse], value: impl Fn(f64) -> String) -> String {
        let one = |program: &ProgramUse| {
            let many = if program.processes > 1 { format!(" ×{}", program.processes) } else { String::new() };
            format!("{}{many} {}", program.name, value(program.per_second))
        };
        named(list).iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns the function with the most samples of a program, with its share of them.
    pub(crate) fn function(&self, program: &ProgramUse) -> Option<(&'a str, f64)> {
        self.hottest(|one| program.pid.map_or_else(|| one.comm == program.comm, |pid| one.pid == pid))
    }

    /// Returns the function with the most samples of a process, with its share of them.
    pub(crate) fn function_of(&self, pid: i32) -> Option<(&'a str, f64)> {
        self.hottest(|one| one.pid == pid)
    }

    fn hottest(&self, is_meant: impl Fn(&ProcessSamples) -> bool) -> Option<(&'a str, f64)> {
        let found = self.sampled.iter().find(|one| is_meant(one))?;
        let (name, share) = found.function.as_ref().map(|(name, share)| (name.as_str(), *share))?;
        (!name.is_empty()).then_some((name, share))
    }

    /// Returns the programs with samples in a container or group, the busiest first, as text.
    pub(crate) fn members(&self, group: &str) -> String {
        let mut names: Vec<(&str, usize)> = Vec::new();
        for one in self.sampled.iter().filter(|one| one.container.as_deref() == Some(group) && !one.comm.is_empty()) {
            match names.iter_mut().find(|(name, _)| *name == &*one.comm) {
                Some((_, n)) => *n += 1,
                None => names.push((&*one.comm, 1)),
            }
        }
        let one = |(name, n): &(&str, usize)| if *n > 1 { format!("{name} ×{n}") } else { (*name).to_owned() };
        names.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether a cgroup counts: that of selected processes, one of the target, or one that limits the target.
    pub(crate) fn is_selected(&self, name: &str, path: &str, of_target: Option<bool>) -> bool {
        let is_related = |target: &String| cgroup::is_within(target, path) || cgroup::is_within(path, target);
        !self.is_narrowed
            || of_target == Some(true)
            || self.target_groups.iter().any(is_related)
            || self.sampled.iter().any(|one| one.container.as_deref() == Some(name))
    }

    /// Returns the threads that held the contended locks of a process, each with the percentage of the waits for it.
    pub(crate) fn holders(&self, one: &LockedProcess) -> String {
        let mut list: BTreeMap<&Arc<str>, HoldersOfName> = BTreeMap::new();
        for ((name, tid), waits) in &one.holders {
            let known = list.entry(name).or_default();
            known.waits += waits;
            known.tids.push(*tid);
        }
        let all: u64 = list.values().map(|known| known.waits).sum();
        let mut list: Vec<(&Arc<str>, HoldersOfName)> = list.into_iter().collect();
        arrange_by_key(&mut list, |(name, known)| (std::cmp::Reverse(known.waits), (*name).clone()));
        let text = |(name, HoldersOfName { waits, tids }): &(&Arc<str>, HoldersOfName)| {
            let who = if let [tid] = tids[..] { format!("{tid}") } else { format!("×{}", tids.len()) };
            format!("{name} {who} ({:.0} %)", 100.0 * *waits as f64 / all.max(1) as f64)
        };
        let most = list.first().map_or(0, |(_, known)| known.waits);
        list.iter().filter(|(_, known)| known.waits * 4 >= most).take(2).map(text).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn pressure_of(&self, name: &str) -> (f64, f64) {
        self.pressure.get(name).copied().unwrap_or_default()
    }
}

/// Returns the programs to name: the first three, without those of less than a tenth of the first.
pub(crate) fn named(list: &[ProgramUse]) -> &[ProgramUse] {
    let least = list.first().map_or(0, |first| first.sum / 10);
    let n = list.iter().take_while(|one| one.sum >= least).count();
    &list[..n.min(NAMED)]
}

/// The processes of a name, with the sum of a figure.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramUse {
    /// Their script, or else [`Self::comm`].
    pub(crate) name: Arc<str>,
    pub(crate) comm: Arc<str>,
    /// The process, if there is only one.
    pub(crate) pid: Option<i32>,
    pub(crate) processes: usize,
    pub(crate) sum: u64,
    pub(crate) per_second: f64,
    /// Their time on a CPU.
    pub(crate) cpu_ns: u64,
}

impl ProgramUse {
    /// Returns the figure per second of their time on a CPU, which a shortage of CPUs does not change; 0 if unknown.
    pub(crate) fn per_cpu_second(&self) -> f64 {
        if self.cpu_ns > 0 { self.sum as f64 / (self.cpu_ns as f64 / 1e9) } else { 0.0 }
    }
}

impl ProcessTotal {
    fn add(&mut self, one: &ProcessUse, length: u64) {
        let sum = &mut self.used;
        (sum.pid, sum.comm, sum.parent, sum.threads) = (one.pid, one.comm.clone(), one.parent, one.threads);
        sum.script.clone_from(&one.script);
        sum.cpu_ns += one.cpu_ns;
        sum.kernel_ns += one.kernel_ns;
        sum.delay_ns += one.delay_ns;
        sum.slices += one.slices;
        sum.minor_faults += one.minor_faults;
        sum.major_faults += one.major_faults;
        sum.grown = sum.grown.saturating_add(one.grown);
        (sum.growing, sum.resident) = (one.growing, one.resident);
        sum.io += one.io;
        sum.children_ns += one.children_ns;
        self.seen += 1;
        self.seen_runnable += u32::from(one.is_runnable);
        self.seen_ns += length;
    }
}

impl DiskCounters {
    fn add(&mut self, done: &Self) {
        self.name.clone_from(&done.name);
        self.requests += done.requests;
        self.sectors += done.sectors;
        self.waited_ms += done.waited_ms;
        self.busy_ms += done.busy_ms;
        self.weighted_ms += done.weighted_ms;
    }
}
