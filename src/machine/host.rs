//! The thread that watches the CPUs of the running machine through /proc.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::kernel::host::{ProcFile, Roots, ticks_per_second};
use crate::kernel::{monotonic_ns, procfs, thread_cpu_ns, with_cpu_time};
use crate::machine::sampler::{CpuSampler, HostView, SlowReadings};
use crate::session::machine::{Matrix, Pressure, Stat, Topology, proc};

use super::pace::varied_ns;
use super::quotas::Quotas;
use super::resources::{ResourceWatch, SlowFigures};
use super::triage::{present, totals};
use super::work::WorkWatch;

/// The interval of reading /proc/stat, whose figures have a resolution of 10 ms.
const TICK_NS: u64 = 100_000_000;
/// The inverse of the share of a CPU for reading it, which is slow on machines with hundreds of CPUs.
const DUTY: u64 = 400;
/// The same for /proc/interrupts, whose size is CPUs times devices.
const LINES_DUTY: u64 = 500;
/// The number of intervals after which rarely changing facts are read again: frequencies and throttling, and topology.
const SELDOM: u64 = 5;
const TOPOLOGY: u64 = 30;

/// The state of reading the machine's figures, with the buffers.
pub struct HostWatch {
    roots: Roots,
    stat_file: ProcFile,
    softirqs_file: ProcFile,
    interrupts_file: ProcFile,
    softnet_file: ProcFile,
    devices_file: ProcFile,
    pressure_files: [(&'static str, ProcFile); 4],
    ksoftirqd_files: Vec<(u32, ProcFile)>,
    stat: Stat,
    slow: SlowReadings,
    quotas: Quotas,
    resources: ResourceWatch,
    work: WorkWatch,
    counts_work: bool,
    quotas_at: u64,
    cpus: CpuSampler,
    cuts: u64,
    notes: Vec<String>,
    /// The CPU time of the last reading of /proc/stat, in nanoseconds.
    cost: u64,
    /// The earliest time to read /proc/interrupts again.
    lines_at: u64,
    cost_at: (u64, u64),
}

impl HostWatch {
    /// Returns a reader of files below these roots, and reads the topology.
    pub fn new(roots: Roots) -> Self {
        let file = |name: &str, size| ProcFile::new(roots.proc.join(name), size);
        let topology = Topology::read(&roots.sys);
        let mut reader = Self {
            stat_file: file("stat", 1 << 16),
            softirqs_file: file("softirqs", 1 << 16),
            interrupts_file: file("interrupts", 1 << 16),
            softnet_file: file("net/softnet_stat", 1 << 13),
            devices_file: file("net/dev", 1 << 13),
            pressure_files: ["cpu", "irq", "io", "memory"].map(|name| (name, file(&format!("pressure/{name}"), 256))),
            ksoftirqd_files: Vec::new(),
            stat: Stat::default(),
            slow: SlowReadings::default(),
            cpus: CpuSampler::new(ticks_per_second(), topology),
            quotas: Quotas::here(),
            resources: ResourceWatch::new(&roots),
            work: WorkWatch::default(),
            counts_work: false,
            quotas_at: 0,
            cuts: 0,
            notes: Vec::new(),
            cost: 0,
            lines_at: 0,
            cost_at: (monotonic_ns(), thread_cpu_ns()),
            roots,
        };
        reader.find_ksoftirqd();
        reader
    }

    /// Follows the processes of the session's target and of the view, which have figures even if others have larger ones.
    fn follow(&mut self, target: &[i32], viewed: &[i32]) {
        self.quotas.follow(target.to_vec());
        self.resources.follow(target, viewed);
    }

    /// Reads /proc/stat.
    pub fn tick(&mut self) {
        (_, self.cost) = with_cpu_time(|| self.read_stat());
    }

    fn read_stat(&mut self) {
        let before = monotonic_ns();
        match self.stat_file.read() {
            Ok(text) => self.stat.parse(text),
            Err(error) => {
                self.notes = vec![format!("{} cannot be read: {error}", self.stat_file.path().display())];
                return;
            }
        }
        // The kernel's sums are of the time of the request.
        self.cpus.tick(before, &self.stat);
    }

    pub(crate) fn pause(&self) -> Duration {
        Duration::from_nanos(TICK_NS.max(self.cost * DUTY))
    }

    pub(crate) fn count_work(&mut self, on: bool) {
        if !on {
            self.work.end();
        }
        self.counts_work = on;
    }

    /// Reads everything and ends an interval.
    pub fn cut(&mut self) -> HostView {
        self.tick();
        let at = monotonic_ns();
        if self.cuts.is_multiple_of(SELDOM) {
            self.read_seldom();
        }
        self.cuts += 1;
        self.follow_hotplug();
        let slow = &mut self.slow;
        read_matrix(&mut self.softirqs_file, &mut slow.softirqs);
        slow.interrupts.cpus.clear();
        if at >= self.lines_at {
            let ((), cost) = with_cpu_time(|| read_matrix(&mut self.interrupts_file, &mut slow.interrupts));
            self.lines_at = at + cost * LINES_DUTY;
        }
        let online = self.stat.cpus.iter().map(|(cpu, _)| *cpu);
        proc::softnet(self.softnet_file.read().unwrap_or_default(), online, &mut slow.softnet);
        slow.drops = proc::drops(self.devices_file.read().unwrap_or_default());
        let pressure = |(name, file): &mut (_, ProcFile)| Some((*name, Pressure::parse(file.read().ok()?)?));
        slow.pressure = self.pressure_files.iter_mut().filter_map(pressure).collect();
        self.read_ksoftirqd();
        self.slow.work = match self.counts_work {
            true => self.work.read(&self.stat.cpus.iter().map(|(cpu, _)| *cpu).collect::<Vec<u32>>()),
            false => Vec::new(),
        };
        let mut view = self.cpus.cut(at, &self.slow);
        let since = std::mem::replace(&mut self.quotas_at, at);
        let throttled = self.quotas.read(at.saturating_sub(since) as f64 / 1e9);
        let timers = view.timer_rates();
        let figures = SlowFigures { pressure: &view.pressure, throttled: &throttled, timers: &timers };
        view.history = self.resources.read(at, &self.stat, ticks_per_second(), figures);
        // The figures of messages and findings are those of the same time.
        view.quotas = totals::throttled(&view.history.between(present(&view.history)));
        view.cost = self.share_of_cpu(at);
        view.notes = self.notes(&view);
        view
    }

    fn share_of_cpu(&mut self, at: u64) -> f32 {
        let cpu = thread_cpu_ns();
        let (then, cpu_then) = std::mem::replace(&mut self.cost_at, (at, cpu));
        (100.0 * cpu.saturating_sub(cpu_then) as f64 / at.saturating_sub(then).max(1) as f64) as f32
    }

    /// Reads the topology and /proc/stat again if CPUs went offline or came online since the last time.
    fn follow_hotplug(&mut self) {
        let is_same = |cpus: &[u32]| cpus.len() == self.stat.cpus.len();
        if is_same(&self.cpus.topology().online) {
            return;
        }
        if Topology::online(&self.roots.sys) != self.cpus.topology().online {
            self.cpus.set_topology(Topology::read(&self.roots.sys));
            self.find_ksoftirqd();
            self.tick();
        }
    }

    fn notes(&mut self, view: &HostView) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        let (shown, online) = (self.stat.cpus.len(), self.cpus.topology().online.len());
        if shown == 0 && notes.is_empty() {
            notes.push(format!("{} has no line for any CPU", self.stat_file.path().display()));
        } else if shown < online {
            notes.push(format!("/proc/stat shows {shown} of {online} CPUs: it may be a container's (lxcfs)"));
        }
        if self.slow.softirqs.cpus.is_empty() && !view.rows.is_empty() {
            notes.push("/proc/softirqs cannot be read: no rates by vector".to_owned());
        }
        notes
    }

    fn read_seldom(&mut self) {
        self.quotas.find();
        self.resources.find();
        if self.cuts > 0 && self.cuts.is_multiple_of(TOPOLOGY) {
            self.cpus.set_topology(Topology::read(&self.roots.sys));
            self.find_ksoftirqd();
        }
        let dir = self.roots.sys.join("devices/system/cpu");
        let number = |cpu: u32, file: &str| -> Option<u64> {
            std::fs::read_to_string(dir.join(format!("cpu{cpu}/{file}"))).ok()?.trim().parse().ok()
        };
        let cpus = || self.stat.cpus.iter().map(|(cpu, _)| *cpu);
        self.slow.mhz =
            cpus().filter_map(|cpu| Some((cpu, (number(cpu, "cpufreq/scaling_cur_freq")? / 1000) as u32))).collect();
        self.slow.throttled =
            cpus().filter_map(|cpu| Some((cpu, number(cpu, "thermal_throttle/core_throttle_count")?))).collect();
    }

    /// Finds the threads that run softirqs: children of kthreadd (process 2). They exist since boot, so their low
    /// numbers are found before thousands of processes are examined.
    fn find_ksoftirqd(&mut self) {
        self.ksoftirqd_files.clear();
        if procfs::comm(2, 2).is_none_or(|name| name != b"kthreadd") {
            return;
        }
        let mut wanted = self.cpus.topology().online.clone();
        for pid in procfs::processes_as_listed() {
            let Some(comm) = procfs::comm(pid, pid) else { continue };
            let cpu = comm.strip_prefix(b"ksoftirqd/").and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
            if let Some(cpu) = cpu.filter(|_| procfs::parent(pid) == Some(2)) {
                let path = self.roots.proc.join(format!("{pid}/schedstat"));
                self.ksoftirqd_files.push((cpu, ProcFile::new(path, 64)));
                wanted.retain(|online| *online != cpu);
                if wanted.is_empty() {
                    break;
                }
            }
        }
        self.ksoftirqd_files.sort_by_key(|(cpu, _)| *cpu);
    }

    /// Reads the CPU time of ksoftirqd threads, in nanoseconds: the first number of /proc/PID/schedstat
    /// (Documentation/scheduler/sched-stats.rst).
    fn read_ksoftirqd(&mut self) {
        self.slow.ksoftirqd.clear();
        for (cpu, file) in &mut self.ksoftirqd_files {
            let ran = file.read().ok().and_then(|text| std::str::from_utf8(text).ok()?.split(' ').next()?.parse().ok());
            self.slow.ksoftirqd.extend(ran.map(|ns| (*cpu, ns)));
        }
    }
}

fn read_matrix(file: &mut ProcFile, matrix: &mut Matrix) {
    match file.read() {
        Ok(text) => matrix.parse(text),
        Err(_) => *matrix = Matrix::default(),
    }
}

/// A handle to the thread.
#[derive(Debug)]
pub struct HostThread {
    shared: Arc<SharedWithThread>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct SharedWithThread {
    view: Arc<ArcSwap<HostView>>,
    interval: AtomicU64,
    counts_work: AtomicBool,
    /// The processes of the view, which are followed like those of the target.
    viewed: parking_lot::Mutex<Vec<i32>>,
    stop: AtomicBool,
}

impl HostThread {
    /// Starts the thread for a session with the processes of its target, if it has any. It calls `published` after each
    /// view, and ends when that returns false.
    pub(crate) fn spawn(
        interval: Duration,
        target: &[i32],
        published: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let target = target.to_vec();
        let interval = AtomicU64::new(interval_ns(interval));
        let shared = Arc::new(SharedWithThread { interval, ..SharedWithThread::default() });
        let work = shared.clone();
        let thread = crate::kernel::thread("host", move || work.run(&target, published))?;
        Ok(Self { shared, thread })
    }

    pub(crate) fn shared(&self) -> Arc<ArcSwap<HostView>> {
        self.shared.view.clone()
    }

    pub(crate) fn view(&self) -> Arc<HostView> {
        self.shared.view.load_full()
    }

    /// Enables counting of cycles and instructions while they are on the screen.
    pub(crate) fn count_work(&self, on: bool) {
        self.shared.counts_work.store(on, Ordering::Relaxed);
    }

    /// Follows the processes of the view in addition to those of the target.
    pub(crate) fn follow(&self, processes: Vec<i32>) {
        *self.shared.viewed.lock() = processes;
    }

    pub(crate) fn set_interval(&self, interval: Duration) {
        self.shared.interval.store(interval_ns(interval), Ordering::Relaxed);
    }

    pub(crate) fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

/// Returns an interval of at least one second: shares of less are too coarse.
fn interval_ns(interval: Duration) -> u64 {
    (interval.as_nanos() as u64).max(1_000_000_000)
}

impl SharedWithThread {
    fn run(&self, target: &[i32], published: impl Fn() -> bool) {
        let mut reader = HostWatch::new(Roots::default());
        reader.follow(target, &[]);
        reader.cut();
        let next = |nth| monotonic_ns().saturating_add(varied_ns(nth, self.interval.load(Ordering::Relaxed)));
        let (mut nth, mut cut_at) = (1, next(0));
        while !self.stop.load(Ordering::Relaxed) {
            let now = monotonic_ns();
            let rest = Duration::from_nanos(cut_at.saturating_sub(now));
            std::thread::park_timeout(reader.pause().min(rest));
            if monotonic_ns() < cut_at {
                reader.tick();
                continue;
            }
            reader.count_work(self.counts_work.load(Ordering::Relaxed));
            reader.follow(target, &self.viewed.lock());
            self.view.store(Arc::new(reader.cut()));
            (nth, cut_at) = (nth + 1, next(nth));
            if !published() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn this_machine_is_read() {
        let mut reader = HostWatch::new(Roots::default());
        reader.cut();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(60));
            reader.tick();
        }
        let view = reader.cut();
        let online = crate::kernel::cpus::online().expect("sysfs");
        assert_eq!(view.rows.iter().filter(|r| r.online).count(), online.len());
        for row in view.rows.iter().filter(|r| r.online) {
            let sum: f32 = row.shares.iter().sum();
            assert!(sum == 0.0 || (sum - 100.0).abs() < 1.0, "{row:?}");
            assert_eq!(row.vectors.len(), view.vectors.len());
        }
        assert!(view.vectors.iter().any(|v| &**v == "TIMER"));
        assert!(view.notes.is_empty(), "{:?}", view.notes);
    }

    /// Finding the threads that run softirqs does not read processes that started after them.
    #[test]
    fn softirq_threads_are_found_among_the_oldest() {
        let mut reader = HostWatch::new(Roots::default());
        let online = reader.cpus.topology().online.clone();
        let (Some(before), Some(b"kthreadd")) = (procfs::own_reads(), procfs::comm(2, 2).as_deref()) else {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED softirq_threads_are_found_among_the_oldest: no threads of the kernel are seen here"
            );
            return;
        };
        reader.find_ksoftirqd();
        let reads = procfs::own_reads().expect("reads") - before;
        let found: Vec<u32> = reader.ksoftirqd_files.iter().map(|(cpu, _)| *cpu).collect();
        assert!(online.iter().all(|cpu| found.contains(cpu)), "{found:?} {online:?}");
        let path = |(_, file): &(u32, ProcFile)| file.path().to_string_lossy().into_owned();
        let pid = |path: String| path.split('/').nth(2).and_then(|pid| pid.parse::<i32>().ok());
        let last = reader.ksoftirqd_files.iter().filter_map(|file| pid(path(file))).max().expect("one");
        let older = procfs::processes().into_iter().filter(|pid| *pid <= last).count();
        assert!(reads <= older + 12 * found.len() + 10, "{reads} reads, {older} are as old");
    }

    #[test]
    fn a_machine_that_tells_nothing() {
        let dir = tempfile::tempdir().expect("dir");
        let roots = Roots { proc: dir.path().into(), sys: dir.path().into() };
        let mut reader = HostWatch::new(roots.clone());
        let view = reader.cut();
        assert!(view.rows.is_empty());
        assert!(view.notes[0].contains("cannot be read"), "{:?}", view.notes);
        std::fs::write(dir.path().join("stat"), "cpu  1 2 3 4\n").expect("write");
        assert!(reader.cut().notes[0].contains("has no line for any CPU"));
        std::fs::create_dir_all(dir.path().join("devices/system/cpu")).expect("mkdir");
        std::fs::write(dir.path().join("devices/system/cpu/online"), "0-7").expect("write");
        std::fs::write(dir.path().join("stat"), "cpu  1 2 3 4\ncpu0 1 2 3 4\n").expect("write");
        let notes = HostWatch::new(roots).cut().notes;
        assert!(notes[0].contains("1 of 8 CPUs"), "{notes:?}");
    }

    #[test]
    fn a_cpu_that_goes_offline_is_not_taken_for_a_container() {
        let dir = tempfile::tempdir().expect("dir");
        let roots = Roots { proc: dir.path().into(), sys: dir.path().into() };
        std::fs::create_dir_all(dir.path().join("devices/system/cpu")).expect("made");
        let online = |list: &str, cpus: &[u32]| {
            let lines: String = cpus.iter().map(|cpu| format!("cpu{cpu} 1 2 3 4 5 6 7 8 0 0\n")).collect();
            std::fs::write(dir.path().join("stat"), format!("cpu  1 2 3 4\n{lines}")).expect("written");
            std::fs::write(dir.path().join("devices/system/cpu/online"), list).expect("written");
            std::fs::write(dir.path().join("devices/system/cpu/present"), "0-1").expect("written");
        };
        online("0-1", &[0, 1]);
        let mut reader = HostWatch::new(roots);
        for (list, cpus) in [("0-1", &[0, 1][..]), ("0", &[0]), ("0-1", &[0, 1])] {
            online(list, cpus);
            let view = reader.cut();
            let offline: Vec<u32> = view.rows.iter().filter(|row| !row.online).map(|row| row.cpu).collect();
            let about_cpus = view.notes.iter().find(|note| note.contains("CPUs"));
            assert_eq!((offline.len(), about_cpus), (2 - cpus.len(), None), "{list}");
        }
    }
}
