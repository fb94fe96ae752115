//! Time in softirqs and interrupt handlers, from the tracepoints irq:softirq_entry, softirq_exit and softirq_raise,
//! irq:irq_handler_entry and irq_handler_exit, which are paired on each CPU.
//!
//! A softirq's time includes interrupts during its run. Delays count from the first raise after the last run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::event::format::{Field, Format, text};
use crate::query::heat::half_octave;
use crate::record::open_spans::OpenSpans;

use crate::units::kit::Stats;

/// The tracepoints, in the order of [`SoftirqEvent`].
pub(crate) const EVENTS: [&str; 5] =
    ["irq:softirq_entry", "irq:softirq_exit", "irq:softirq_raise", "irq:irq_handler_entry", "irq:irq_handler_exit"];
/// Seconds of the latency map.
pub(crate) const SECONDS: usize = 60;
/// Seconds over which anomalies are computed.
const RECENT: usize = 10;
const SECOND: u64 = 1_000_000_000;
/// Limits for damaged recordings: devices by name, vectors, CPUs times vectors and lines.
const MAX_LINES: usize = 4096;
const MAX_VECTORS: u32 = 64;
const MAX_CPUS: u32 = 8192;
const MAX_TIMES: usize = 1 << 16;

/// One of [`EVENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftirqEvent {
    /// `irq:softirq_entry`: a softirq starts to run.
    Entry,
    /// `irq:softirq_exit`: it has finished.
    Exit,
    /// `irq:softirq_raise`: a softirq is requested on this CPU.
    Raise,
    /// `irq:irq_handler_entry`: a handler of an interrupt line starts to run.
    IrqEntry,
    /// `irq:irq_handler_exit`: it has finished.
    IrqExit,
}

impl SoftirqEvent {
    pub(crate) const ALL: [Self; 5] = [Self::Entry, Self::Exit, Self::Raise, Self::IrqEntry, Self::IrqExit];

    fn number(self) -> &'static str {
        match self {
            Self::Entry | Self::Exit | Self::Raise => "vec",
            Self::IrqEntry | Self::IrqExit => "irq",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SoftirqReader {
    which: SoftirqEvent,
    number: Field,
    name: Option<Field>,
}

impl SoftirqReader {
    /// Returns `None` when the format lacks the field.
    pub(crate) fn new(which: SoftirqEvent, format: &Format) -> Option<Self> {
        let number = format.field(which.number())?.clone();
        Some(Self { which, number, name: format.field("name").cloned() })
    }

    pub(crate) fn which(&self) -> SoftirqEvent {
        self.which
    }

    pub(crate) fn read<'a>(&self, raw: &'a [u8]) -> Option<SoftirqRecord<'a>> {
        let number = self.number.number(raw)? as u32;
        let name = self.name.as_ref().and_then(|name| name.bytes(raw));
        Some(SoftirqRecord { which: self.which, number, name })
    }
}

/// A decoded record of a tracepoint.
#[derive(Clone, Copy, Debug)]
pub struct SoftirqRecord<'a> {
    /// The tracepoint.
    pub which: SoftirqEvent,
    /// The vector or the interrupt line.
    pub number: u32,
    /// The device of an interrupt.
    pub name: Option<&'a [u8]>,
}

/// A softirq vector's handler, or the handlers of an interrupt line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handler {
    /// The vector, by the kernel's number.
    Softirq(u32),
    /// The line, by its number in /proc/interrupts.
    Irq(u32),
}

/// The time of a [`Handler`] on a CPU.
#[derive(Clone, Debug, Default)]
pub struct HandlerTime {
    /// Nanoseconds of each run that started and ended during the measurement.
    pub runs: Stats,
    /// Nanoseconds of runs that started before the measurement, or have not ended yet: they count for the share of
    /// time, but their durations are unknown.
    pub(crate) partial: u64,
    /// The delays from raise to run; softirqs only.
    pub delays: Stats,
    /// Counts of ended runs by half octave and second, the newest last. Shared: the map is published every second.
    pub(crate) map: VecDeque<Arc<BTreeMap<u8, u32>>>,
    /// Nanoseconds of the runs that ended in each of the last ten seconds, the newest last.
    spent: VecDeque<u64>,
}

impl HandlerTime {
    /// Returns the total in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        self.runs.sum.saturating_add(self.partial)
    }
}

/// The times of all handlers on all CPUs.
#[derive(Clone, Debug, Default)]
pub struct HandlerTimes {
    /// The duration of the measurement in nanoseconds.
    pub(crate) elapsed: u64,
    /// The times by CPU and handler, of those that ran.
    pub list: BTreeMap<(u32, Handler), HandlerTime>,
    /// Devices by interrupt line.
    pub devices: BTreeMap<u32, Arc<str>>,
    /// Pairs with a missing half: lost, or started before the measurement.
    pub(crate) unpaired: u64,
    /// Records that the kernel could not write.
    pub(crate) lost: u64,
    /// Percent of one CPU that reading the measurement costs.
    pub(crate) own_cost: f64,
    /// Tracepoints per second, which determine the kernel's part of the cost.
    pub(crate) rate: f64,
}

impl HandlerTimes {
    pub(crate) fn get(&self, cpu: u32, what: Handler) -> Option<&HandlerTime> {
        self.list.get(&(cpu, what))
    }

    /// Returns the percent of a CPU's time.
    pub(crate) fn percent(&self, cpu: u32, what: Handler) -> f64 {
        self.get(cpu, what).map_or(0.0, |t| 100.0 * t.total() as f64 / self.elapsed.max(1) as f64)
    }

    /// Returns the percent of a CPU's time in the last ten seconds, or since the start if it was later.
    pub(crate) fn recent(&self, cpu: u32, what: Handler) -> f64 {
        let spent: u64 = self.get(cpu, what).map_or(0, |time| time.spent.iter().sum());
        let filling = self.elapsed % SECOND;
        100.0 * spent as f64 / self.elapsed.min((RECENT as u64 - 1) * SECOND + filling).max(1) as f64
    }

    /// Returns the vector with the most time on a CPU recently, and its share; `None` if none ran.
    pub(crate) fn vector(&self, cpu: u32) -> Option<(u32, f64)> {
        let softirqs = self.list.range((cpu, Handler::Softirq(0))..=(cpu, Handler::Softirq(u32::MAX)));
        let shares = softirqs.filter_map(|((_, what), _)| match what {
            Handler::Softirq(vector) => Some((*vector, self.recent(cpu, *what))),
            Handler::Irq(_) => None,
        });
        shares.filter(|(_, share)| *share > 0.0).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    /// Returns the recent share of all softirqs, or of all interrupts, of a CPU in percent of its time.
    pub(crate) fn recent_sum(&self, cpu: u32, irqs: bool) -> f64 {
        let of = |what: &&Handler| matches!(what, Handler::Irq(_)) == irqs;
        let own = self.list.keys().filter(|(c, _)| *c == cpu).map(|(_, what)| what);
        own.filter(of).map(|what| self.recent(cpu, *what)).sum()
    }

    /// Returns the share of all softirqs, or of all interrupts, of a CPU in percent of its time.
    pub(crate) fn sum(&self, cpu: u32, irqs: bool) -> f64 {
        let of = |what: &Handler| matches!(what, Handler::Irq(_)) == irqs;
        let times = self.list.iter().filter(|((c, what), _)| *c == cpu && of(what));
        let ns = times.fold(0u64, |sum, (_, t)| sum.saturating_add(t.total()));
        100.0 * ns as f64 / self.elapsed.max(1) as f64
    }
}

/// Pairs starts with ends.
#[derive(Clone, Debug)]
pub struct Pairs {
    pub(crate) times: HandlerTimes,
    /// The running handlers on each CPU. Interrupts do not nest in current kernels, but did in older ones.
    softirqs: OpenSpans<u32, u32, ()>,
    irqs: OpenSpans<u32, u32, ()>,
    /// Raised softirqs that have not run yet.
    raised: OpenSpans<(u32, u32), (), ()>,
    /// The CPUs with at least one record of softirqs (`true`) or interrupts.
    seen: BTreeSet<(u32, bool)>,
    first: Option<u64>,
    /// The end of the current second.
    second_ends: u64,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            times: HandlerTimes::default(),
            softirqs: OpenSpans::one_by_one(),
            irqs: OpenSpans::nested(),
            raised: OpenSpans::one_by_one(),
            seen: BTreeSet::new(),
            first: None,
            second_ends: 0,
        }
    }
}

impl Pairs {
    /// Starts the measurement before the first record.
    pub fn begin(&mut self, time: u64) {
        self.until(time);
    }

    /// Returns the times so far, including those of running handlers.
    pub fn snapshot(&self) -> HandlerTimes {
        let mut times = self.times.clone();
        let now = self.first.unwrap_or(0).saturating_add(times.elapsed);
        let softirqs = self.softirqs.iter().map(|(cpu, begin)| (*cpu, Handler::Softirq(begin.what), begin.took(now)));
        let irqs = self.irqs.iter().map(|(cpu, begin)| (*cpu, Handler::Irq(begin.what), begin.took(now)));
        for (cpu, what, ns) in softirqs.chain(irqs) {
            let slot = times.list.entry((cpu, what)).or_default();
            slot.partial = slot.partial.saturating_add(ns);
        }
        times
    }

    /// Applies a record of a CPU. The records of each CPU must be in order of time.
    pub fn add(&mut self, cpu: u32, time: u64, seen: SoftirqRecord<'_>) {
        let softirq = !matches!(seen.which, SoftirqEvent::IrqEntry | SoftirqEvent::IrqExit);
        if cpu >= MAX_CPUS || softirq && seen.number >= MAX_VECTORS || self.times.list.len() >= MAX_TIMES {
            self.times.unpaired += 1;
            return;
        }
        self.until(time);
        let first = self.first.unwrap_or(time);
        let lane = (cpu, seen.number);
        let is_first = seen.which != SoftirqEvent::Raise && self.seen.insert((cpu, softirq));
        let ended = match seen.which {
            SoftirqEvent::Raise => {
                if self.raised.newest(&lane).is_none() {
                    self.raised.begin(lane, (), time, ());
                }
                return;
            }
            SoftirqEvent::Entry => {
                self.times.unpaired += self.softirqs.begin(cpu, seen.number, time, ()) as u64;
                if let Some(raised) = self.raised.take(&lane) {
                    self.time(cpu, Handler::Softirq(seen.number)).delays.add(raised.took(time));
                }
                return;
            }
            SoftirqEvent::IrqEntry => {
                self.irqs.begin(cpu, seen.number, time, ());
                self.learn(seen);
                return;
            }
            SoftirqEvent::Exit => self.softirqs.end(&cpu, &seen.number),
            SoftirqEvent::IrqExit => self.irqs.end(&cpu, &seen.number),
        };
        let what = if softirq { Handler::Softirq(seen.number) } else { Handler::Irq(seen.number) };
        let Some((begin, _)) = ended else {
            self.times.unpaired += 1;
            if is_first {
                let slot = self.time(cpu, what);
                slot.partial = slot.partial.saturating_add(time.saturating_sub(first));
            }
            return;
        };
        let ns = begin.took(time);
        let slot = self.time(cpu, what);
        slot.runs.add(ns);
        if let Some(map) = slot.map.back_mut() {
            *Arc::make_mut(map).entry(half_octave(ns) as u8).or_default() += 1;
        }
        if let Some(spent) = slot.spent.back_mut() {
            *spent = spent.saturating_add(ns);
        }
    }

    fn time(&mut self, cpu: u32, what: Handler) -> &mut HandlerTime {
        self.times.list.entry((cpu, what)).or_insert_with(|| HandlerTime {
            map: [Arc::default()].into(),
            spent: [0].into(),
            ..HandlerTime::default()
        })
    }

    fn learn(&mut self, seen: SoftirqRecord<'_>) {
        let devices = &mut self.times.devices;
        if let Some(name) = seen.name.filter(|_| devices.len() < MAX_LINES && !devices.contains_key(&seen.number)) {
            devices.insert(seen.number, text(name).into());
        }
    }

    /// Advances the time of the measurement, with or without records.
    pub(crate) fn until(&mut self, time: u64) {
        let first = *self.first.get_or_insert(time);
        self.times.elapsed = self.times.elapsed.max(time.saturating_sub(first));
        if self.second_ends == 0 {
            self.second_ends = time.saturating_add(SECOND);
        }
        let behind = time.saturating_sub(self.second_ends) / SECOND + 1;
        if time >= self.second_ends {
            for _ in 0..behind.min(SECONDS as u64) {
                let empty = Arc::default();
                for slot in self.times.list.values_mut() {
                    if slot.map.len() == SECONDS {
                        slot.map.pop_front();
                    }
                    slot.map.push_back(Arc::clone(&empty));
                    if slot.spent.len() == RECENT {
                        slot.spent.pop_front();
                    }
                    slot.spent.push_back(0);
                }
            }
            self.second_ends = self.second_ends.saturating_add(behind.saturating_mul(SECOND));
        }
    }

    /// Handles lost records: handlers that were running may have ended.
    pub(crate) fn lose(&mut self, lost: u64) {
        self.times.lost = self.times.lost.saturating_add(lost);
        self.softirqs.forget();
        self.irqs.forget();
        self.raised.forget();
    }
}

#[cfg(test)]
mod tests;
