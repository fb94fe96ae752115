//! The CPUs of the running machine from /proc: shares of time like those of mpstat(1), peaks within a tenth of a
//! second, missing ticks, rates of softirqs and interrupts.
//!
//! Ticks are *missing* if a CPU's ticks do not add up to the elapsed time. Without CONFIG_IRQ_TIME_ACCOUNTING, a
//! softirq on an idle CPU whose tick is stopped is not charged. A CPU that its host does not run, or whose timer is
//! delayed, loses ticks as well.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::machine::resources::ResourceHistory;
use crate::panel::row_order::arrange_by_key;
use crate::session::machine::proc::MatrixRow;
use crate::session::machine::quota::ThrottledGroup;
use crate::session::machine::{CpuPlace, Matrix, Pressure, Softnet, Stat, Ticks, Topology};

/// Seconds of history that are kept of each CPU.
pub(crate) const HISTORY: usize = 60;
/// Seconds over which findings and peaks look back: longer than the pauses between usual bursts.
pub(crate) const WINDOW: usize = 10;
/// The minimum distance of two readings for a peak: /proc/stat has a resolution of 10 ms.
const SHORTEST_NS: u64 = 50_000_000;

/// A CPU in an interval, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuInterval {
    /// All except idle and iowait.
    pub(crate) busy: f32,
    /// Softirqs and interrupts.
    pub(crate) soft: f32,
    pub(crate) missing: f32,
    /// The maximum of `soft` in a tenth of a second.
    pub(crate) peak: f32,
}

/// Softnet's figures of a CPU per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NetRates {
    pub(crate) processed: f32,
    pub(crate) dropped: f32,
    pub(crate) squeezed: f32,
    pub(crate) rps: f32,
}

/// Counts of a CPU's PMU in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone {
    pub(crate) cycles: u64,
    pub(crate) instructions: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Cycles per second.
    pub(crate) cycles: f64,
    pub(crate) ipc: Option<f64>,
    /// Cycles per nanosecond of busy time; `None` for a hardly busy CPU: /proc/stat has a resolution of 10 ms.
    pub(crate) ghz: Option<f64>,
}

/// The minimum busy share of a CPU whose frequency is computed, in percent.
const BUSY: f32 = 5.0;

impl Work {
    fn of(done: &WorkDone, seconds: f64, busy: f32) -> Self {
        let cycles = done.cycles as f64 / seconds;
        let ipc = done.instructions.filter(|_| done.cycles > 0).map(|n| n as f64 / done.cycles as f64);
        Self { cycles, ipc, ghz: (busy >= BUSY).then(|| cycles / (f64::from(busy) / 100.0) / 1e9) }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuRow {
    pub(crate) cpu: u32,
    pub(crate) online: bool,
    /// Percent of the counted ticks, in the order of [`Ticks`], with guests' subtracted from user and nice.
    pub(crate) shares: [f32; Ticks::N],
    /// Percent of the elapsed time for which no tick was counted.
    pub(crate) missing: f32,
    /// The same, over the last [`WINDOW`] intervals.
    pub(crate) missing_window: f32,
    /// Softirqs and interrupts over the last [`WINDOW`] intervals, and their peak there.
    pub(crate) soft_window: f32,
    pub(crate) peak: f32,
    /// At most [`HISTORY`] intervals, the newest last.
    pub(crate) history: Vec<CpuInterval>,
    /// Softirqs per second, by [`HostView::vectors`].
    pub(crate) vectors: Vec<f32>,
    /// Percent of a CPU that its ksoftirqd used.
    pub(crate) ksoftirqd: Option<f32>,
    pub(crate) net: Option<NetRates>,
    pub(crate) mhz: Option<u32>,
    /// Counts of its PMU, while enabled.
    pub(crate) work: Option<Work>,
    /// The number of thermal throttling events since boot.
    pub(crate) throttled: Option<u64>,
    pub(crate) place: CpuPlace,
    pub(crate) isolated: bool,
    pub(crate) nohz_full: bool,
}

impl CpuRow {
    /// Returns the percent of the counted ticks that were neither idle nor waiting for a disk.
    pub(crate) fn busy(&self) -> f32 {
        self.shares.iter().sum::<f32>() - self.shares[Ticks::IDLE] - self.shares[Ticks::IOWAIT]
    }

    pub(crate) fn soft(&self) -> f32 {
        self.shares[Ticks::IRQ] + self.shares[Ticks::SOFTIRQ]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IrqLine {
    pub(crate) label: Arc<str>,
    /// Chip, trigger and devices, or the meaning of the line.
    pub(crate) about: Arc<str>,
    /// Interrupts on all CPUs since boot.
    pub(crate) total: u64,
    /// Interrupts per second by the CPU's index in [`HostView::line_cpus`]; empty when there were none.
    pub(crate) rates: Vec<f32>,
}

/// All CPUs at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostView {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at: u64,
    /// The length of the interval of shares and rates, in nanoseconds.
    pub(crate) interval: u64,
    pub(crate) rows: Vec<CpuRow>,
    pub(crate) vectors: Vec<Arc<str>>,
    pub(crate) lines: Vec<IrqLine>,
    pub(crate) line_cpus: Vec<u32>,
    /// Runnable tasks, including running ones, and tasks that wait for a disk.
    pub(crate) running: u64,
    pub(crate) blocked: u64,
    /// Context switches a second, of all CPUs.
    pub(crate) switches: f32,
    pub(crate) pressure: Vec<(&'static str, Pressure)>,
    /// Groups that were throttled by their quotas in the last [`WINDOW`] seconds, the worst first.
    pub(crate) quotas: Vec<ThrottledGroup>,
    /// Packets that network devices dropped per second: received and sent.
    pub(crate) drops: (f32, f32),
    /// The use of resources in the last intervals.
    pub(crate) history: ResourceHistory,
    /// Percent of one CPU that reading all figures costs.
    pub(crate) cost: f32,
    /// Files that could not be read, with the reasons.
    pub(crate) notes: Vec<String>,
}

impl HostView {
    pub(crate) fn row(&self, cpu: u32) -> Option<&CpuRow> {
        self.rows.binary_search_by_key(&cpu, |row| row.cpu).ok().map(|at| &self.rows[at])
    }

    pub(crate) fn counts_work(&self) -> bool {
        self.rows.iter().any(|row| row.work.is_some())
    }

    /// Returns the interrupts of each CPU's timer per second: `LOC` of x86, or a line by the name of the timer.
    pub(crate) fn timer_rates(&self) -> Vec<(u32, f32)> {
        const TIMERS: [&str; 2] = ["arch_timer", "riscv-timer"];
        let is_timer = |line: &&IrqLine| &*line.label == "LOC" || TIMERS.iter().any(|name| line.about.ends_with(name));
        let rates = self.lines.iter().find(is_timer).map(|line| &line.rates[..]).unwrap_or_default();
        self.line_cpus.iter().copied().zip(rates.iter().copied()).collect()
    }

    /// Returns the interrupts per second of a line on a CPU; `None` if there is no such counter.
    pub(crate) fn line_rate(&self, line: usize, cpu: u32) -> Option<f32> {
        let at = self.line_cpus.iter().position(|c| *c == cpu)?;
        Some(self.lines.get(line)?.rates.get(at).copied().unwrap_or(0.0))
    }
}

/// The figures that are read once per interval.
#[derive(Clone, Debug, Default)]
pub struct SlowReadings {
    /// Without CPUs if they were not read this time.
    pub(crate) softirqs: Matrix,
    pub(crate) interrupts: Matrix,
    pub(crate) softnet: Vec<Softnet>,
    /// Nanoseconds that each CPU's ksoftirqd has run.
    pub(crate) ksoftirqd: Vec<(u32, u64)>,
    pub(crate) mhz: Vec<(u32, u32)>,
    /// Counts of each CPU's PMU since the previous reading.
    pub(crate) work: Vec<(u32, WorkDone)>,
    pub(crate) throttled: Vec<(u32, u64)>,
    pub(crate) pressure: Vec<(&'static str, Pressure)>,
    /// Packets dropped by all network devices.
    pub(crate) drops: (u64, u64),
}

/// A CPU between two readings.
#[derive(Debug, Default)]
struct One {
    /// The newest reading and its time.
    seen: Ticks,
    at: u64,
    /// The reading at the interval's start.
    base: Ticks,
    base_at: u64,
    peak: f32,
    history: VecDeque<CpuInterval>,
    row: CpuRow,
}

#[derive(Debug, Default)]
struct Rates {
    before: Matrix,
    /// When those were read.
    at: u64,
    lines: Vec<IrqLine>,
}

impl Rates {
    /// Applies a reading: rates cover the time since the previous one.
    fn update(&mut self, now: &Matrix, at: u64) {
        let names_differ = |line: &IrqLine, row: &MatrixRow| *line.label.as_bytes() != *row.label;
        if self.lines.len() != now.rows.len() || self.lines.iter().zip(&now.rows).any(|(l, r)| names_differ(l, r)) {
            let text = |bytes: &[u8]| Arc::from(String::from_utf8_lossy(bytes));
            let line = |row: &MatrixRow| IrqLine {
                label: text(&row.label),
                about: text(&row.about),
                total: 0,
                rates: Vec::new(),
            };
            self.lines = now.rows.iter().map(line).collect();
        }
        let seconds = at.saturating_sub(std::mem::replace(&mut self.at, at)) as f64 / 1e9;
        let columns: Vec<Option<usize>> =
            now.cpus.iter().map(|cpu| self.before.cpus.iter().position(|c| c == cpu)).collect();
        for (i, (line, row)) in self.lines.iter_mut().zip(&now.rows).enumerate() {
            line.total = row.counts.iter().fold(0, |sum, n| sum.wrapping_add(*n));
            line.rates.clear();
            let same = |r: &&MatrixRow| r.label == row.label;
            let Some(before) = self.before.rows.get(i).filter(same).or_else(|| self.before.rows.iter().find(same))
            else {
                continue;
            };
            if seconds <= 0.0 || before.counts == row.counts {
                continue;
            }
            let rate = |(column, now): (&Option<usize>, &u64)| {
                column.map_or(0.0, |c| (rise(before.counts[c], *now) as f64 / seconds) as f32)
            };
            line.rates.extend(columns.iter().zip(&row.counts).map(rate));
        }
        self.before.clone_from(now);
    }

    /// Returns the rates of all lines on a CPU; empty if there is no column for it.
    fn of_cpu(&self, cpu: u32) -> Vec<f32> {
        let Some(at) = self.before.cpus.iter().position(|c| *c == cpu) else { return Vec::new() };
        self.lines.iter().map(|line| line.rates.get(at).copied().unwrap_or(0.0)).collect()
    }
}

/// Returns the increase of a counter. The kernel's interrupt counters have 32 bits on most machines and wrap around;
/// one that decreased by less was reset.
fn rise(before: u64, now: u64) -> u64 {
    const TURN: u64 = 1 << 32;
    match now.checked_sub(before) {
        Some(rise) => rise,
        None if before < TURN && before - now > TURN / 2 => now + TURN - before,
        None => 0,
    }
}

/// The state between readings: rates and history of each CPU.
#[derive(Debug, Default)]
pub struct CpuSampler {
    /// Ticks per nanosecond.
    rate: f64,
    topology: Topology,
    cpus: BTreeMap<u32, One>,
    softirqs: Rates,
    interrupts: Rates,
    softnet: Vec<Softnet>,
    ksoftirqd: Vec<(u32, u64)>,
    drops: Option<(u64, u64)>,
    running: u64,
    blocked: u64,
    /// Context switches so far, and until the last interval ended.
    switches: (u64, Option<u64>),
    /// The end of the last interval.
    cut_at: u64,
}

impl CpuSampler {
    /// Returns the initial state; `ticks` is the number of ticks per second.
    pub fn new(ticks: u64, topology: Topology) -> Self {
        Self { rate: ticks as f64 / 1e9, topology, ..Self::default() }
    }

    pub(crate) fn set_topology(&mut self, topology: Topology) {
        self.topology = topology;
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Applies a reading of /proc/stat. Peaks need about ten readings per second.
    pub fn tick(&mut self, at: u64, stat: &Stat) {
        let rate = self.rate;
        for (cpu, ticks) in &stat.cpus {
            let one = self.cpus.entry(*cpu).or_default();
            if one.at == 0 || ticks.total() < one.seen.total() {
                // A CPU that came online, or whose counters were reset.
                *one = One { seen: *ticks, at, base: *ticks, base_at: at, ..std::mem::take(one) };
                continue;
            }
            if at.saturating_sub(one.at) < SHORTEST_NS {
                continue;
            }
            let (passed, elapsed) = (ticks.since(&one.seen), (at - one.at) as f64 * rate);
            let soft = (passed.0[Ticks::IRQ] + passed.0[Ticks::SOFTIRQ]) as f64;
            one.peak = one.peak.max((100.0 * soft / elapsed).min(100.0) as f32);
            (one.seen, one.at) = (*ticks, at);
        }
        self.cpus.retain(|cpu, _| stat.cpus.iter().any(|(seen, _)| seen == cpu));
        (self.running, self.blocked, self.switches.0) = (stat.running, stat.blocked, stat.switches);
    }

    /// Ends an interval: computes shares and rates since its start.
    pub fn cut(&mut self, at: u64, slow: &SlowReadings) -> HostView {
        let interval = at.saturating_sub(std::mem::replace(&mut self.cut_at, at));
        let seconds = interval as f64 / 1e9;
        let rate = self.rate;
        self.cpus.values_mut().for_each(|one| one.cut(rate));
        if !slow.softirqs.cpus.is_empty() {
            self.softirqs.update(&slow.softirqs, at);
            // There is a column for each possible CPU.
            for (cpu, one) in &mut self.cpus {
                one.row.vectors = self.softirqs.of_cpu(*cpu);
            }
        }
        if !slow.interrupts.cpus.is_empty() {
            self.interrupts.update(&slow.interrupts, at);
        }
        self.per_second(slow, seconds);
        let before = self.drops.replace(slow.drops).unwrap_or(slow.drops);
        let drop = |before, now| if seconds > 0.0 { (rise(before, now) as f64 / seconds) as f32 } else { 0.0 };
        let (switches, switches_before) = self.switches;
        self.switches.1 = Some(switches);
        HostView {
            at,
            interval,
            rows: self.rows(slow),
            vectors: self.softirqs.lines.iter().map(|line| line.label.clone()).collect(),
            lines: self.interrupts.lines.clone(),
            line_cpus: self.interrupts.before.cpus.clone(),
            running: self.running,
            blocked: self.blocked,
            switches: drop(switches_before.unwrap_or(switches), switches),
            pressure: slow.pressure.clone(),
            drops: (drop(before.0, slow.drops.0), drop(before.1, slow.drops.1)),
            ..HostView::default()
        }
    }

    fn per_second(&mut self, slow: &SlowReadings, seconds: f64) {
        let per = |before: u64, now: u64| (rise(before, now) as f64 / seconds.max(1e-3)) as f32;
        for now in &slow.softnet {
            let before = self.softnet.iter().find(|b| b.cpu == now.cpu);
            if let (Some(before), Some(one)) = (before, self.cpus.get_mut(&now.cpu)) {
                one.row.net = Some(NetRates {
                    processed: per(before.processed, now.processed),
                    dropped: per(before.dropped, now.dropped),
                    squeezed: per(before.squeezed, now.squeezed),
                    rps: per(before.rps, now.rps),
                });
            }
        }
        for (cpu, now) in &slow.ksoftirqd {
            let before = self.ksoftirqd.iter().find(|b| b.0 == *cpu);
            if let (Some((_, before)), Some(one)) = (before, self.cpus.get_mut(cpu)) {
                one.row.ksoftirqd = Some(per(*before, *now) / 1e7);
            }
        }
        for (cpu, one) in &mut self.cpus {
            let done = slow.work.iter().find(|(of, _)| of == cpu).filter(|_| seconds > 0.0);
            one.row.work = done.map(|(_, done)| Work::of(done, seconds, one.row.busy()));
        }
        self.softnet.clone_from(&slow.softnet);
        self.ksoftirqd.clone_from(&slow.ksoftirqd);
    }

    fn rows(&self, slow: &SlowReadings) -> Vec<CpuRow> {
        let find = |list: &[(u32, u32)], cpu| list.iter().find(|(c, _)| *c == cpu).map(|(_, v)| *v);
        let row = |cpu: u32, row: CpuRow| CpuRow {
            cpu,
            mhz: find(&slow.mhz, cpu),
            throttled: slow.throttled.iter().find(|(c, _)| *c == cpu).map(|(_, n)| *n),
            place: self.topology.place(cpu),
            isolated: self.topology.isolated.contains(&cpu),
            nohz_full: self.topology.nohz_full.contains(&cpu),
            ..row
        };
        let online = self.cpus.iter().map(|(cpu, one)| {
            let history = one.history.iter().copied().collect();
            row(*cpu, CpuRow { online: true, history, ..one.row.clone() })
        });
        let gone = |cpu: &&u32| !self.cpus.contains_key(cpu);
        let offline = self.topology.offline.iter().filter(gone).map(|cpu| row(*cpu, CpuRow::default()));
        let mut rows: Vec<CpuRow> = online.chain(offline).collect();
        arrange_by_key(&mut rows, |row| row.cpu);
        rows
    }
}

impl One {
    fn cut(&mut self, rate: f64) {
        let passed = self.seen.since(&self.base);
        let elapsed = self.at.saturating_sub(self.base_at) as f64 * rate;
        (self.base, self.base_at) = (self.seen, self.at);
        if elapsed < 1.0 {
            return;
        }
        let total = passed.total() as f64;
        let mut ticks = passed.0;
        ticks[Ticks::USER] = ticks[Ticks::USER].saturating_sub(ticks[Ticks::GUEST]);
        ticks[Ticks::NICE] = ticks[Ticks::NICE].saturating_sub(ticks[Ticks::GUEST_NICE]);
        let shares = ticks.map(|n| if total > 0.0 { (100.0 * n as f64 / total) as f32 } else { 0.0 });
        // A difference of about one tick is rounding.
        let missing = (elapsed - total).max(0.0);
        let missing = if missing <= 1.5 { 0.0 } else { (100.0 * missing / elapsed) as f32 };
        self.row = CpuRow { shares, missing, ..std::mem::take(&mut self.row) };
        let past =
            CpuInterval { busy: self.row.busy(), soft: self.row.soft(), missing, peak: std::mem::take(&mut self.peak) };
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(past);
        let window = || self.history.iter().rev().take(WINDOW);
        let mean = |of: fn(&CpuInterval) -> f32| window().map(of).sum::<f32>() / window().count().max(1) as f32;
        self.row.missing_window = mean(|p| p.missing);
        self.row.soft_window = mean(|p| p.soft);
        self.row.peak = window().map(|p| p.peak).fold(0.0, f32::max);
    }
}

#[cfg(test)]
mod tests;
