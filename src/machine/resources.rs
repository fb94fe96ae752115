//! The use of the machine's resources in each interval: disks, memory, networks, processes, limits of cgroups. A bounded
//! history answers questions about earlier times.

mod networks;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::host::{ProcFile, Roots};
use crate::session::machine::quota::ThrottledGroup;
use crate::session::machine::resources::{DiskCounters, disks, keyed};
use crate::session::machine::{Pressure, Stat, Ticks};

use super::culprits::{CulpritWatch, Culprits, HighCounters, MANY_FAILED, MANY_TIMERS};
use super::deadlocks::{Deadlock, DeadlockWatch};
use super::lock_waits::{LockLooks, LockWatch};
use super::memory_limits::{MemoryGroup, MemoryLimits};
use super::processes::traffic::{ProcessTraffic, TrafficWatch};
use super::processes::{ProcessUse, ProcessWatch};
use super::sockets::{GrownCounters, SocketFaults, SocketWatch};

use networks::NetworkWatch;
pub use networks::{NetworkCounts, NetworkUse};

/// The number of intervals that are kept.
pub(crate) const KEPT: usize = 1800;

/// A disk in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUse {
    /// Its name, and the differences of its counters.
    pub(crate) done: DiskCounters,
}

/// The memory of the machine: its state at the end of an interval, and events in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    pub(crate) total_kb: u64,
    pub(crate) available_kb: u64,
    pub(crate) faults: u64,
    pub(crate) major_faults: u64,
    /// Pages that processes reclaimed themselves because none were free, and pages read from swap.
    pub(crate) reclaimed: u64,
    pub(crate) swapped_in: u64,
    pub(crate) killed: u64,
}

/// The use of all resources in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// The end of the interval, in nanoseconds of CLOCK_MONOTONIC, and its length.
    pub at: u64,
    pub(crate) length: u64,
    pub(crate) cpus: u32,
    /// Nanoseconds of all CPUs: busy, and taken by the hypervisor for others.
    pub(crate) busy_ns: u64,
    pub(crate) stolen_ns: u64,
    pub(crate) switches: u64,
    pub(crate) forks: u64,
    /// Tasks that are runnable and not running, at the end of the interval.
    pub(crate) waiting: u64,
    pub(crate) pressure: Vec<(&'static str, Pressure)>,
    pub(crate) throttled: Vec<ThrottledGroup>,
    pub(crate) disks: Vec<DiskUse>,
    pub(crate) memory: MemoryUse,
    pub(crate) full_groups: Vec<MemoryGroup>,
    pub(crate) networks: Vec<NetworkUse>,
    /// The sockets behind counters of networks.
    pub(crate) sockets: SocketFaults,
    /// Interrupts of each CPU's timer per second.
    pub(crate) timers: Vec<(u32, f32)>,
    /// The processes behind failed connections and interrupts of timers.
    pub(crate) culprits: Culprits,
    /// The processes with the largest figures, and the time that these cover.
    pub processes: Vec<ProcessUse>,
    pub(crate) processes_ns: u64,
    /// Traffic of the files and connections of the followed processes.
    pub(crate) traffic: ProcessTraffic,
    /// The waits for contended locks.
    pub(crate) locks: LockLooks,
    /// The deadlocks that were known at the end of the interval.
    pub(crate) deadlocks: Vec<Deadlock>,
}

/// The intervals that are kept, the oldest first. Copies share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceHistory(Arc<VecDeque<Arc<Resources>>>);

impl ResourceHistory {
    pub(crate) fn push(&mut self, new: Resources) {
        let list = Arc::make_mut(&mut self.0);
        if list.len() == KEPT {
            list.pop_front();
        }
        list.push_back(Arc::new(new));
    }

    /// Returns the intervals that end in a range of CLOCK_MONOTONIC.
    pub(crate) fn between(&self, (from, until): (u64, u64)) -> Vec<&Resources> {
        let begin = self.0.partition_point(|one| one.at <= from);
        let end = self.0.partition_point(|one| one.at <= until).max(begin);
        self.0.range(begin..end).map(|one| &**one).collect()
    }

    /// Returns the newest interval.
    pub(crate) fn newest(&self) -> Option<&Resources> {
        self.0.back().map(|one| &**one)
    }

    /// Returns the end of the newest interval.
    pub(crate) fn end(&self) -> Option<u64> {
        self.0.back().map(|one| one.at)
    }

    /// Returns the start of the oldest interval.
    pub(crate) fn start(&self) -> Option<u64> {
        self.0.front().map(|one| one.at.saturating_sub(one.length))
    }
}

impl FromIterator<Resources> for ResourceHistory {
    fn from_iter<I: IntoIterator<Item = Resources>>(list: I) -> Self {
        Self(Arc::new(list.into_iter().map(Arc::new).collect()))
    }
}

/// The state of reading resources.
pub(crate) struct ResourceWatch {
    disks_file: ProcFile,
    vm_file: ProcFile,
    memory_file: ProcFile,
    proc: PathBuf,
    /// Whether a block device is a whole one, not a partition, by its name.
    whole: HashMap<String, bool>,
    sys_block: PathBuf,
    processes: ProcessWatch,
    traffic: TrafficWatch,
    networks: NetworkWatch,
    locks: LockWatch,
    deadlocks: DeadlockWatch,
    limits: MemoryLimits,
    sockets: SocketWatch,
    culprits: CulpritWatch,
    before: Readings,
    history: ResourceHistory,
}

/// Counters at a reading.
#[derive(Default)]
struct Readings {
    at: u64,
    /// Those of each CPU that was online.
    ticks: Vec<(u32, Ticks)>,
    switches: u64,
    forks: u64,
    disks: HashMap<String, DiskCounters>,
    vm: Option<[u64; 6]>,
}

impl ResourceWatch {
    pub(crate) fn new(roots: &Roots) -> Self {
        let file = |name: &str, size| ProcFile::new(roots.proc.join(name), size);
        Self {
            disks_file: file("diskstats", 1 << 12),
            vm_file: file("vmstat", 1 << 13),
            memory_file: file("meminfo", 1 << 11),
            proc: roots.proc.clone(),
            whole: HashMap::new(),
            sys_block: roots.sys.join("class/block"),
            processes: ProcessWatch::default(),
            traffic: TrafficWatch::default(),
            networks: NetworkWatch::new(roots),
            locks: LockWatch::default(),
            deadlocks: DeadlockWatch::default(),
            limits: MemoryLimits::here(),
            sockets: SocketWatch::default(),
            culprits: CulpritWatch::default(),
            before: Readings::default(),
            history: ResourceHistory::default(),
        }
    }

    /// Follows the processes of the session's target and of the view, which have figures even if others have larger ones.
    pub(crate) fn follow(&mut self, target: &[i32], viewed: &[i32]) {
        self.limits.follow(target.to_vec());
        self.traffic.follow([target, viewed].concat());
        self.processes.follow([target, viewed].concat());
    }

    /// Finds cgroups with limits again.
    pub(crate) fn find(&mut self) {
        self.limits.find();
    }

    /// Reads everything at the end of an interval; returns the history with it.
    pub(crate) fn read(&mut self, at: u64, stat: &Stat, rate: u64, slow: SlowFigures<'_>) -> ResourceHistory {
        let length = at.saturating_sub(self.before.at);
        let is_first = self.before.at == 0;
        let passed = passed(&self.before.ticks, &stat.cpus);
        let ns = |ticks: u64| ticks.saturating_mul(1_000_000_000 / rate.max(1));
        let (processes, processes_ns) = self.processes.read().unwrap_or_default();
        let networks = self.networks.read(&processes);
        let failed = networks.iter().map(|one| one.counts.failed).max().unwrap_or(0);
        // Tracepoints show this machine, not one whose files are elsewhere. The first reading has no interval.
        let can_measure = !is_first && self.proc == Path::new("/proc");
        let high = HighCounters {
            failed_connects: can_measure && failed as f64 * 1e9 / length.max(1) as f64 >= MANY_FAILED,
            timers: can_measure && slow.timers.iter().any(|(_, rate)| f64::from(*rate) >= MANY_TIMERS),
        };
        let has_grown = |of: fn(&NetworkCounts) -> u64| networks.iter().any(|one| of(&one.counts) > 0);
        let grown = GrownCounters {
            unaccepted: has_grown(|counts| counts.unaccepted),
            syns_resent: has_grown(|counts| counts.syns_resent),
            zero_windows: has_grown(|counts| counts.window_probes.saturating_add(counts.windows_closed)),
        };
        let new = Resources {
            at,
            length,
            cpus: stat.cpus.len() as u32,
            busy_ns: ns(passed.busy()),
            stolen_ns: ns(passed.0[Ticks::STEAL]),
            switches: stat.switches.saturating_sub(self.before.switches),
            forks: stat.forks.saturating_sub(self.before.forks),
            waiting: stat.running.saturating_sub(stat.cpus.len() as u64),
            pressure: slow.pressure.to_vec(),
            throttled: slow.throttled.to_vec(),
            disks: self.disks(),
            memory: self.memory(),
            full_groups: self.limits.read(),
            networks,
            sockets: self.sockets.read(grown),
            timers: slow.timers.to_vec(),
            culprits: self.culprits.read(at, high),
            processes,
            processes_ns,
            traffic: self.traffic.read(),
            locks: self.locks.read(self.processes.active()),
            deadlocks: self.deadlocks.read(at),
        };
        self.before.at = at;
        self.before.ticks.clone_from(&stat.cpus);
        (self.before.switches, self.before.forks) = (stat.switches, stat.forks);
        if !is_first {
            self.history.push(new);
        }
        self.history.clone()
    }

    fn disks(&mut self) -> Vec<DiskUse> {
        let mut out = Vec::new();
        for now in disks(self.disks_file.read().unwrap_or_default()) {
            let dir = &self.sys_block;
            let is_whole = || !dir.join(&now.name).join("partition").exists();
            if !*self.whole.entry(now.name.clone()).or_insert_with(is_whole) {
                continue;
            }
            if let Some(then) = self.before.disks.get(&now.name) {
                let since = |of: fn(&DiskCounters) -> u64| of(&now).saturating_sub(of(then));
                let done = DiskCounters {
                    name: now.name.clone(),
                    requests: since(|one| one.requests),
                    sectors: since(|one| one.sectors),
                    waited_ms: since(|one| one.waited_ms),
                    busy_ms: since(|one| one.busy_ms),
                    weighted_ms: since(|one| one.weighted_ms),
                };
                out.extend((done.requests > 0 || done.busy_ms > 0).then_some(DiskUse { done }));
            }
            self.before.disks.insert(now.name.clone(), now);
        }
        out
    }

    fn memory(&mut self) -> MemoryUse {
        const EVENTS: [&str; 6] = ["pgfault", "pgmajfault", "pgsteal_direct", "pswpin", "oom_kill", "allocstall_*"];
        let [total_kb, available_kb] = match self.memory_file.read() {
            Ok(text) => keyed(text, ["MemTotal", "MemAvailable"]),
            Err(_) => [0; 2],
        };
        let now = self.vm_file.read().map_or([0; 6], |text| keyed(text, EVENTS));
        let then = self.before.vm.replace(now).unwrap_or(now);
        let since = |at: usize| now[at].saturating_sub(then[at]);
        MemoryUse {
            total_kb,
            available_kb,
            faults: since(0),
            major_faults: since(1),
            reclaimed: since(2),
            swapped_in: since(3),
            killed: since(4),
        }
    }
}

/// Returns the ticks that passed on all CPUs between two readings. A CPU that came online in between has counted since
/// boot, so that its ticks count from the next reading on. The kernel sorts CPUs by number.
fn passed(before: &[(u32, Ticks)], now: &[(u32, Ticks)]) -> Ticks {
    let since = |(cpu, ticks): &(u32, Ticks)| {
        let known = before.binary_search_by_key(cpu, |(known, _)| *known);
        known.map_or_else(|_| Ticks::default(), |at| ticks.since(&before[at].1))
    };
    now.iter().fold(Ticks::default(), |sum, one| sum.plus(&since(one)))
}

/// Figures that the caller has read already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlowFigures<'a> {
    pub(crate) pressure: &'a [(&'static str, Pressure)],
    pub(crate) throttled: &'a [ThrottledGroup],
    pub(crate) timers: &'a [(u32, f32)],
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn stat(forks: u64, idle: u64, user: u64) -> Stat {
        let mut stat = Stat::default();
        let text = format!("cpu0 {user} 0 0 {idle} 0 0 0 0 0 0\nprocesses {forks}\nctxt 10\nprocs_running 4\n");
        stat.parse(text.as_bytes());
        stat
    }

    /// Counters become differences; a partition is not a disk of its own.
    #[test]
    fn an_interval_is_the_difference_of_two_readings() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        let all = |n: u64| {
            let disk = |name: &str| format!("254 0 {name} {n} 0 {n} {n} 0 0 0 0 0 {n} {n}\n");
            put("diskstats", &format!("{}{}", disk("vda"), disk("vda1")));
            put("vmstat", &format!("pgfault {n}\npgmajfault {n}\noom_kill {}\n", n / 10));
            put("meminfo", "MemTotal: 1000 kB\nMemAvailable: 100 kB\n");
            put("net/snmp", &format!("Tcp: ActiveOpens AttemptFails\nTcp: {n} {}\n", n / 2));
            let names = "ListenOverflows ListenDrops TCPSynRetrans TCPWinProbe TCPToZeroWindowAdv";
            put("net/netstat", &format!("TcpExt: {names}\nTcpExt: {n} {} {} {n} {n}\n", 3 * n, 2 * n));
        };
        put("class/block/vda1/partition", "1");
        let roots = Roots { proc: dir.path().into(), sys: dir.path().into() };
        let mut watch = ResourceWatch::new(&roots);
        all(100);
        assert_eq!(watch.read(1_000_000_000, &stat(5, 100, 0), 100, SlowFigures::default()).end(), None);
        all(150);
        let history = watch.read(2_000_000_000, &stat(25, 150, 50), 100, SlowFigures::default());
        let [one] = history.between((0, u64::MAX))[..] else { panic!("one interval") };
        assert_eq!((one.length, one.busy_ns, one.forks, one.waiting), (1_000_000_000, 500_000_000, 20, 3));
        assert_eq!(
            one.disks.iter().map(|disk| (&*disk.done.name, disk.done.requests)).collect::<Vec<_>>(),
            [("vda", 50)]
        );
        assert_eq!((one.memory.faults, one.memory.killed, one.memory.available_kb), (50, 5, 100));
        let counts = one.networks[0].counts;
        assert_eq!((counts.opened, counts.failed, counts.unaccepted, counts.segments), (50, 25, 50, 0));
        assert_eq!((counts.half_open_dropped, counts.syns_resent), (100, 100));
        assert_eq!((counts.window_probes, counts.windows_closed), (50, 50));
        assert_eq!((history.between((2_000_000_000, u64::MAX)).len(), history.start()), (0, Some(1_000_000_000)));
    }

    /// The kernel leaves a CPU that is offline out of /proc/stat, and returns its old counters with it.
    #[test]
    fn a_cpu_that_returns_has_no_ticks_of_its_absence() {
        let of = |cpu, user, steal| (cpu, Ticks([user, 0, 0, 1000 + user, 0, 0, 0, steal, 0, 0]));
        let both = [of(0, 5000, 10), of(1, 9000, 1637)];
        let alone = [of(0, 5060, 20)];
        let again = [of(0, 5090, 20), of(1, 9010, 1638)];
        let later = [of(0, 5120, 20), of(1, 9050, 1638)];
        let busy = |before: &[(u32, Ticks)], now: &[(u32, Ticks)]| {
            let passed = passed(before, now);
            (passed.busy(), passed.0[Ticks::STEAL])
        };
        assert_eq!((busy(&both, &alone), busy(&alone, &again), busy(&again, &later)), ((70, 10), (30, 0), (70, 0)));
    }

    #[test]
    fn the_history_is_bounded() {
        let mut history = ResourceHistory::default();
        for at in 1..=KEPT as u64 + 5 {
            history.push(Resources { at, length: 1, ..Resources::default() });
        }
        assert_eq!((history.start(), history.end()), (Some(5), Some(KEPT as u64 + 5)));
        assert_eq!(history.between((10, 20)).len(), 10);
    }
}
