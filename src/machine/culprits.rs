//! The processes behind counters of the whole machine: failed connections, and interrupts of timers. Only while such a
//! counter is high, a thread opens a tracepoint for a moment every few seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::event::spec::{Capture, LookupPaths};
use crate::event::{CallGraph, Interpreters, parse};
use crate::ingest::{Ingest, IntakeOptions, tracepoints};
use crate::kernel::limits::Rights;
use crate::kernel::sys::RealSys;
use crate::kernel::{procfs, thread_cpu_ns};
use crate::panel::row_order::arrange_by_key;
use crate::record::Sample;
use crate::source::live::attr::Rate;
use crate::source::live::{LiveConfig, LiveSource};
use crate::source::{Batch, Progress, Source};

/// The pause between two measurements in nanoseconds, the inverse of the share of a CPU for them, and their lengths.
const PAUSE_NS: u64 = 4_000_000_000;
const DUTY: u64 = 200;
const CONNECTS_FOR: Duration = Duration::from_millis(500);
const TIMERS_FOR: Duration = Duration::from_millis(120);
/// Data pages of each ring.
const PAGES: usize = 64;
/// The limits of connections under way, of processes that are counted, and of those that are named.
const MAX_UNDER_WAY: usize = 1 << 16;
const MAX_PROCESSES: usize = 1 << 10;
const MAX_NAMED: usize = 4;
/// The minimum percentage of all timers that the named processes start. If they start fewer, the interrupts are those
/// of sampling clocks or of the kernel.
const LEAST_OF_TIMERS: f64 = 20.0;
/// States of a connection (include/net/tcp_states.h).
const SYN_SENT: i64 = 2;
const CLOSE: i64 = 7;
/// Flags of an event in a hard interrupt or a softirq (`TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ` of
/// include/linux/trace_events.h).
const INTERRUPT: i64 = 0x8 | 0x10;

/// Interrupts of timers per second on a CPU, from which the processes that set them are found.
pub(crate) const MANY_TIMERS: f64 = 18_000.0;
/// Failed connections per second, from which their processes are found.
pub(crate) const MANY_FAILED: f64 = 1.0;

/// A process with its part of the events of a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Culprit {
    pub(crate) pid: i32,
    pub(crate) name: Arc<str>,
    /// The port to which most of its connections failed; 0 if it is about timers.
    pub(crate) port: u16,
    /// The percentage of the failed connections of all processes, or of all timers that were started on the machine.
    pub(crate) percent: f64,
}

impl Culprit {
    /// Returns it in words.
    pub(crate) fn text(&self) -> String {
        let port = if self.port > 0 { format!(" to port {}", self.port) } else { String::new() };
        format!("{} {}{port}", self.name, self.pid)
    }
}

/// The counters that are high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HighCounters {
    pub(crate) failed_connects: bool,
    pub(crate) timers: bool,
}

/// The processes behind counters, those with the most events first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Culprits {
    /// Processes with failed connections.
    pub(crate) connects: Vec<Culprit>,
    /// Processes that set timers.
    pub(crate) timers: Vec<Culprit>,
}

/// The result of a measurement, and its CPU time in nanoseconds; `None` if tracepoints cannot be opened.
type Measured = Option<(Culprits, u64)>;

/// The newest culprits, from the thread that measures.
#[derive(Debug, Default)]
pub(crate) struct CulpritWatch {
    thread: Option<(Sender<HighCounters>, Receiver<Measured>)>,
    /// The earliest time to measure again; `u64::MAX` during a measurement, and if it is not possible.
    due: u64,
    newest: Culprits,
}

impl CulpritWatch {
    /// Returns the culprits behind the counters that are high at a time of CLOCK_MONOTONIC, as far as known, and starts
    /// the next measurement.
    pub(crate) fn read(&mut self, at: u64, high: HighCounters) -> Culprits {
        if let Some(Some((new, cost))) = self.thread.as_ref().and_then(|(_, found)| found.try_recv().ok()) {
            (self.newest, self.due) = (new, at.saturating_add(PAUSE_NS.max(cost.saturating_mul(DUTY))));
        }
        if high == HighCounters::default() {
            return Culprits::default();
        }
        if self.thread.is_none() {
            self.thread = start();
        }
        if at >= self.due && self.thread.as_ref().is_some_and(|(ask, _)| ask.try_send(high).is_ok()) {
            self.due = u64::MAX;
        }
        let of = |is_high, list: &Vec<Culprit>| if is_high { list.clone() } else { Vec::new() };
        Culprits {
            connects: of(high.failed_connects, &self.newest.connects),
            timers: of(high.timers, &self.newest.timers),
        }
    }
}

/// Starts the thread, which ends when its sender is dropped.
fn start() -> Option<(Sender<HighCounters>, Receiver<Measured>)> {
    let (ask, asked) = bounded::<HighCounters>(1);
    let (tell, found) = bounded(1);
    let work = move || {
        for high in asked {
            let before = thread_cpu_ns();
            let found = measure(high).map(|found| (found, thread_cpu_ns().saturating_sub(before)));
            if tell.send(found).is_err() {
                return;
            }
        }
    };
    crate::kernel::thread("culprits", work).ok()?;
    Some((ask, found))
}

fn measure(high: HighCounters) -> Option<Culprits> {
    let (mut connects, mut timers) = (FailedConnects::default(), TimerStarts::default());
    if high.failed_connects {
        let filter = format!("newstate == {SYN_SENT} || (oldstate == {SYN_SENT} && newstate == {CLOSE})");
        record("sock:inet_sock_set_state", &filter, CONNECTS_FOR, |format, sample| {
            let number = |name: &str| format.field(name)?.number(sample.raw);
            if let (Some(socket), Some(old), Some(new)) = (number("skaddr"), number("oldstate"), number("newstate")) {
                connects.add(socket, [old, new], sample.pid, number("dport").unwrap_or(0) as u16);
            }
        })?;
    }
    if high.timers {
        record("timer:hrtimer_start", "", TIMERS_FOR, |format, sample| {
            let flags = format.field("common_flags").and_then(|field| field.number(sample.raw));
            timers.add(sample.pid, flags.is_some_and(|flags| flags & INTERRUPT == 0));
        })?;
    }
    let name = |pid: i32| procfs::comm(pid, pid).map(|comm| String::from_utf8_lossy(&comm).into());
    Some(Culprits { connects: connects.culprits(name), timers: timers.culprits(name) })
}

/// Records an event on all CPUs for some time, and passes its samples on; `None` if that is not possible.
fn record(name: &str, filter: &str, time: Duration, mut each: impl FnMut(&Format, &Sample<'_>)) -> Option<()> {
    let mut events = parse(name, &LookupPaths::system()).ok()?;
    for event in events.iter_mut().filter(|_| !filter.is_empty()) {
        event.filter = Some(Capture { text: filter.to_owned(), trace: Some(filter.to_owned()), ..Capture::default() });
    }
    let config = LiveConfig {
        events,
        rate: Rate::Period(1),
        chains: CallGraph::None,
        pages: Some(PAGES),
        force: true,
        interpreters: Interpreters::Off,
        ..LiveConfig::default()
    };
    let mut source = LiveSource::start(config, Box::new(RealSys), Rights::read()).ok()?;
    let (event, format) = tracepoints::find(source.info(), name)?;
    let options = IntakeOptions { chains: false, fields: false, ..IntakeOptions::default() };
    let (mut ingest, mut batch) = (Ingest::new(source.info(), None, options), Batch::default());
    let until = Instant::now() + time;
    while Instant::now() < until {
        let step = ingest.read(&mut source, &mut batch);
        ingest.feed_to(&mut batch, |core, input, _, record| {
            let Ok(Some((header, body, _))) = crate::record::kinds::split(record) else { return };
            if header.kind == crate::record::types::SAMPLE
                && let Some((_, sample)) = core.decode(input, header, body).filter(|(of, _)| *of == event)
            {
                each(&format, &sample);
            }
        });
        if !matches!(step, Ok(Progress::More)) {
            break;
        }
    }
    Some(())
}

/// Events by process and port.
#[derive(Debug, Default)]
struct Counts(BTreeMap<(i32, u16), u64>);

impl Counts {
    /// Counts an event of a process; the idle task and ended ones are not counted.
    fn add(&mut self, key: (i32, u16)) {
        if key.0 > 0 && (self.0.len() < MAX_PROCESSES || self.0.contains_key(&key)) {
            *self.0.entry(key).or_default() += 1;
        }
    }

    /// Returns the processes with a name, those with the most events first, without those of less than a quarter of the
    /// first, and without this program. Their percentages are of `all` events, or else of those of the other processes.
    fn culprits(&self, all: Option<u64>, name: impl Fn(i32) -> Option<Arc<str>>) -> Vec<Culprit> {
        let own = std::process::id() as i32;
        let mut list: BTreeMap<i32, (u64, (u64, u16))> = BTreeMap::new();
        for ((pid, port), hits) in self.0.iter().filter(|((pid, _), _)| *pid != own) {
            let known = list.entry(*pid).or_default();
            (known.0, known.1) = (known.0 + hits, known.1.max((*hits, *port)));
        }
        let all = all.unwrap_or_else(|| list.values().map(|(hits, _)| hits).sum());
        let mut list: Vec<_> = list.into_iter().collect();
        arrange_by_key(&mut list, |(pid, (hits, _))| (std::cmp::Reverse(*hits), *pid));
        let least = list.first().map_or(0, |(_, (hits, _))| hits / 4);
        let named = list.into_iter().filter(|(_, (hits, _))| *hits >= least).filter_map(|(pid, (hits, (_, port)))| {
            Some(Culprit { pid, name: name(pid)?, port, percent: 100.0 * hits as f64 / all as f64 })
        });
        named.take(MAX_NAMED).collect()
    }
}

/// Timers that are started, by the process that starts them.
#[derive(Debug, Default)]
struct TimerStarts {
    by_process: Counts,
    /// The number of all, with those in interrupts: a sampling clock starts its timer again in each of its interrupts.
    all: u64,
}

impl TimerStarts {
    /// Counts a start while a process runs: by that process, or in an interrupt.
    fn add(&mut self, pid: i32, by_process: bool) {
        self.all += 1;
        if by_process {
            self.by_process.add((pid, 0));
        }
    }

    /// Returns the processes that start the most timers; none if they start few of all.
    fn culprits(&self, name: impl Fn(i32) -> Option<Arc<str>>) -> Vec<Culprit> {
        let list = self.by_process.culprits(Some(self.all), name);
        let named: f64 = list.iter().map(|one| one.percent).sum();
        if named < LEAST_OF_TIMERS { Vec::new() } else { list }
    }
}

/// Connections that fail. The process is that which called connect(2): they fail in an interrupt.
#[derive(Debug, Default)]
struct FailedConnects {
    /// The process of each connection under way, by its socket.
    under_way: FxHashMap<i64, i32>,
    failed: Counts,
}

impl FailedConnects {
    /// Applies a change of a socket's state while a process runs.
    fn add(&mut self, socket: i64, states: [i64; 2], pid: i32, port: u16) {
        match states {
            [_, SYN_SENT] if self.under_way.len() < MAX_UNDER_WAY => drop(self.under_way.insert(socket, pid)),
            [SYN_SENT, CLOSE] => {
                if let Some(pid) = self.under_way.remove(&socket) {
                    self.failed.add((pid, port));
                }
            }
            _ => {}
        }
    }

    fn culprits(&self, name: impl Fn(i32) -> Option<Arc<str>>) -> Vec<Culprit> {
        self.failed.culprits(None, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pid: i32) -> Option<Arc<str>> {
        (pid != 9).then(|| format!("p{pid}").into())
    }

    #[test]
    fn a_failed_connection_belongs_to_the_caller_of_connect() {
        let mut all = FailedConnects::default();
        let mut connect = |socket, pid, port, ends: [i64; 2], at_end| {
            all.add(socket, [CLOSE, SYN_SENT], pid, port);
            all.add(socket, ends, at_end, port);
        };
        // An interrupt hits another process.
        (0..30).for_each(|socket| connect(socket, 42, 9, [SYN_SENT, CLOSE], 7));
        (0..70).for_each(|socket| connect(socket, 42, 80, [SYN_SENT, 1], 42));
        (0..9).for_each(|socket| connect(socket, 43, 5432, [SYN_SENT, CLOSE], 0));
        (0..8).for_each(|socket| connect(100 + socket, 9, 1, [SYN_SENT, CLOSE], 9));
        (0..2).for_each(|socket| connect(200 + socket, 44, 2, [SYN_SENT, CLOSE], 44));
        all.add(5000, [SYN_SENT, CLOSE], 8, 1);
        let list = all.culprits(named);
        assert_eq!(list.iter().map(Culprit::text).collect::<Vec<_>>(), ["p42 42 to port 9", "p43 43 to port 5432"]);
        assert!((list[0].percent - 100.0 * 30.0 / 49.0).abs() < 1e-9, "{list:?}");
    }

    #[test]
    fn timers_of_no_process_are_not_counted() {
        let mut timers = TimerStarts::default();
        [0, -1, std::process::id() as i32, 42, 42].into_iter().for_each(|pid| timers.add(pid, true));
        let list = timers.culprits(named);
        assert_eq!(list, [Culprit { pid: 42, name: "p42".into(), port: 0, percent: 40.0 }]);
        assert_eq!(list[0].text(), "p42 42");
        (1000..9000).for_each(|pid| timers.add(pid, true));
        assert_eq!(timers.by_process.0.len(), MAX_PROCESSES);
    }

    /// `perf record -F 40000` next to programs that sleep now and then: its clock starts its timer again in interrupts.
    #[test]
    fn processes_are_compared_with_the_timers_of_sampling_clocks() {
        let of = |in_interrupts: u64, by_process: u64| {
            let mut timers = TimerStarts::default();
            (0..in_interrupts).for_each(|_| timers.add(42, false));
            (0..by_process).for_each(|_| timers.add(42, true));
            (0..by_process / 97).for_each(|_| timers.add(43, true));
            timers.culprits(named).into_iter().map(|one| (one.pid, one.percent.round())).collect::<Vec<_>>()
        };
        assert_eq!(of(9_600, 97), [], "1 % of all timers");
        assert_eq!(of(9_600, 2_328), [], "19 %");
        assert_eq!(of(9_600, 2_425), [(42, 20.0)]);
        assert_eq!(of(200, 9_700), [(42, 97.0)], "timers of a program, and the ticks of two CPUs");
    }

    /// A measurement starts when the last one has ended, and not again after a refusal.
    #[test]
    fn the_newest_measurement_is_returned_while_a_counter_is_high() {
        let ((ask, asked), (tell, found)) = (bounded(1), bounded(1));
        let mut watch = CulpritWatch { thread: Some((ask, found)), ..CulpritWatch::default() };
        let high = HighCounters { timers: true, ..HighCounters::default() };
        assert_eq!(watch.read(1, HighCounters::default()), Culprits::default());
        assert_eq!(asked.try_iter().count(), 0);
        assert_eq!((watch.read(2, high), watch.read(3, high)), Default::default());
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), [high]);
        let timers = vec![Culprit { pid: 42, ..Culprit::default() }];
        tell.send(Some((Culprits { timers: timers.clone(), connects: timers.clone() }, 7))).expect("room");
        assert_eq!(watch.read(4, high), Culprits { timers, connects: Vec::new() });
        assert_eq!(asked.try_iter().count(), 0);
        watch.read(4 + PAUSE_NS, high);
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), [high]);
        tell.send(Some((Culprits::default(), PAUSE_NS / 100))).expect("room");
        watch.read(9, high);
        watch.read(8 + 2 * PAUSE_NS, high);
        assert_eq!(asked.try_iter().count(), 0, "it took long");
        watch.read(9 + 2 * PAUSE_NS, high);
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), [high]);
        tell.send(None).expect("room");
        watch.read(u64::MAX - 1, high);
        assert_eq!(asked.try_iter().count(), 0, "refused");
    }
}
