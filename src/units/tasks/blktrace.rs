//! `blktrace`: disk request times by stage, process and size, and queue depths.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use rustc_hash::FxHashMap;

use crate::lang::counted;
use crate::panel::unit::{duration, thousands};
use crate::session::Origin;
use crate::session::machine::{block_device, block_devices, inflight};
use crate::units::kit::prelude::*;
use crate::units::kit::waits::disks::{DiskNames, numbers};

pub(crate) const SPEC: Spec = Spec {
    name: "blktrace",
    about: "disk requests: time by stage, process, direction and size; queue depth",
    words: "disk io storage iops latency throughput block nvme ssd queue read write fsync slow why",
    help: "A request is identified by its device and sector. Its stages are get (block_getrq), insert, issue and \
           complete. Each row is the time from one stage to a later one; end to end is the time from the first stage \
           to completion. Flushes without a sector are not counted. Requests that complete without being issued to \
           the driver are counted by the stages that they had. Some kernels do not report every completion on an idle \
           CPU. Live, an issued request that /sys/block/DISK/inflight no longer contains counts as never completed, or \
           as not known while it is new; in a recording, a request that takes ten times as long as the slowest \
           completed one counts as never completed.",
    example: "perfprof-tui blktrace -d sda --than 20ms",
    output: "\
$ perfprof-tui blktrace --batch --duration 2
From    To          Calls    Total      Min     Mean      p50      p9…
get     insert    239,806   1.79 s   387 ns  7.48 µs  6.97 µs  14.2 µ…
get     complete        7  24.8 µs  1.01 µs  3.54 µs  3.36 µs  7.10 µ…
insert  issue     239,813   1.43 s   451 ns  5.98 µs  5.70 µs  11.1 µ…
insert  complete        4  20.3 µs   315 ns  5.07 µs  3.74 µs  8.46 µ…",
    options: &["device", "than", "keep"],
    sees: Sees::Machine,
    across: Some("requests that come from the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(BlkTrace::new(settings)?)),
};

const STAGES: [(&str, &str); 4] = [
    ("block:block_getrq", "get"),
    ("block:block_rq_insert", "insert"),
    ("block:block_rq_issue", "issue"),
    ("block:block_rq_complete", "complete"),
];
const COMPLETE: usize = 3;
const ISSUE: usize = 2;
/// `block_rq_requeue`: the driver requeues a request, which is then issued again.
const REQUEUE: usize = 4;
const SECOND: u64 = 1_000_000_000;
/// The minimum time after which a request can count as never completed, if other requests completed.
const SOONEST: u64 = SECOND / 20;
const MAX_OPEN: usize = 1 << 18;

#[derive(Clone, Debug)]
struct Fields {
    dev: Num,
    sector: Num,
    sectors: Num,
    rwbs: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Way {
    Read,
    Write,
    Discard,
    /// Writes the disk's cache back, without data of its own.
    Flush,
}

impl Way {
    /// From the letters of `blk_fill_rwbs` (kernel/trace/blktrace.c), and whether data is transferred.
    fn of(rwbs: &[u8], bytes: u64) -> Self {
        let has = |letter: u8| rwbs.contains(&letter);
        match () {
            () if has(b'F') && bytes == 0 => Self::Flush,
            () if has(b'D') || has(b'E') => Self::Discard,
            () if has(b'W') => Self::Write,
            () => Self::Read,
        }
    }

    /// The width of its longest label.
    const WIDTH: u16 = Self::Discard.label().len() as u16;

    const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
    began: u64,
    thread: ThreadKey,
    bytes: u64,
    way: Way,
    issued: bool,
    /// Requeued by the driver, and to be issued again.
    requeued: bool,
    /// No longer at the disk, but its completion was not seen.
    overdue: bool,
    /// Whether it came from a selected CPU and from the target.
    counts: bool,
}

impl Request {
    /// Whether its sector identifies it: all flushes share one, and several may be open.
    fn has_place(&self) -> bool {
        self.bytes > 0
    }

    fn is_at_disk(&self) -> bool {
        self.issued && self.counts && !self.overdue
    }
}

/// The issued requests by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Issued {
    completed: u64,
    /// At the disk, by the disk's statistics if they are available.
    under_way: u64,
    /// No longer at the disk, and too new to tell whether their completion is missing.
    not_known: u64,
    never_completed: u64,
}

impl Display for Issued {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { completed, under_way, not_known, never_completed } = *self;
        if never_completed + not_known == 0 {
            return f.write_str(&note(under_way, "request", "under way"));
        }
        let all = [completed, under_way, not_known, never_completed].into_iter().fold(0, u64::saturating_add);
        write!(f, "of {} with a sector, {} completed", counted(all, "issued request"), thousands(completed))?;
        for (n, what) in [(under_way, "under way"), (not_known, "not known"), (never_completed, "never completed")] {
            if n > 0 {
                write!(f, ", {} {what}", thousands(n))?;
            }
        }
        if never_completed > 0 {
            f.write_str(": their completions are missing; the figures contain the completed ones")?;
        }
        Ok(())
    }
}

/// Requests by device and sector, with their last stage.
type Open = OpenSpans<(i64, i64), usize, Request>;

#[derive(Clone, Debug, Default)]
struct BlkTrace {
    device: Option<(u32, u32)>,
    fields: [Option<Fields>; 5],
    open: Open,
    /// Issued requests whose sector was reused before their completion was seen.
    replaced: u64,
    /// The number of requests in each disk's own statistics, on the live machine.
    inflight: BTreeMap<i64, u64>,
    now: u64,
    stages: BTreeMap<(usize, usize), Stats>,
    whole: Stats,
    by_task: FxHashMap<(ThreadKey, Way), (Stats, u64)>,
    by_size: BTreeMap<(u32, Way), Stats>,
    by_device: BTreeMap<(i64, Way), (Stats, u64)>,
    names: DiskNames,
    depth: BTreeMap<i64, i64>,
    depths: Grid<i64>,
    latencies: Grid<u32>,
    slowest: Slowest<(Request, i64, i64, u64)>,
}

impl BlkTrace {
    fn new(settings: &Settings) -> Result<Self, String> {
        let device = settings.get("device").map(device).transpose()?;
        Ok(Self {
            device,
            open: OpenSpans::one_by_one().of_most(MAX_OPEN),
            depths: Grid::of_greatest(),
            slowest: Slowest::of(settings)?,
            ..Self::default()
        })
    }

    fn end(&mut self, request: Request, dev: i64, sector: i64, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let ns = hit.time.saturating_sub(request.began);
        let above = self.slowest.exceeds(hit, cx.names, ns);
        let task = self.by_task.entry((request.thread, request.way)).or_default();
        let device = self.by_device.entry((dev, request.way)).or_default();
        task.1 = task.1.saturating_add(request.bytes);
        device.1 = device.1.saturating_add(request.bytes);
        let power = request.bytes.max(1).next_power_of_two().ilog2();
        // A flush has no size.
        let size = (request.bytes > 0).then(|| self.by_size.entry((power, request.way)).or_default());
        for stats in [&mut self.whole, &mut task.0, &mut device.0].into_iter().chain(size) {
            stats.add_than(ns, above);
        }
        self.latencies.add(&(ns.max(1).ilog2()), hit.time, 1.0);
        cx.point(["block_rq_issue", "block_rq_complete"], hit.time, ns);
        self.slowest.add(above, ns, || (request, dev, sector, hit.time));
    }

    fn queue(&mut self, dev: i64, by: i64, time: u64) {
        let depth = self.depth.entry(dev).or_default();
        *depth = (*depth + by).max(0);
        self.depths.add(&dev, time, *depth as f64);
    }

    /// Returns the request that reaches a stage, ending its previous stage. `None` for a new request.
    fn reached(&mut self, (dev, sector): (i64, i64), hit: &UnitSample<'_>, bytes: u64) -> Option<Request> {
        let OpenSpan { what: stage, since, with: request } = self.open.take(&(dev, sector))?;
        if stage < hit.role || stage == ISSUE && hit.role == ISSUE && request.requeued {
            if request.counts {
                self.stages.entry((stage, hit.role)).or_default().add(hit.time.saturating_sub(since));
            }
            return Some(Request { bytes: request.bytes.max(bytes), requeued: false, ..request });
        }
        // The old request for this sector was merged into another one, or its completion was not seen.
        if request.issued && request.counts {
            self.replaced += u64::from(request.has_place());
            self.queue(dev, if request.overdue { 0 } else { -1 }, hit.time);
        }
        None
    }

    /// The driver requeues a request: it may be merged into another one again.
    fn requeue(&mut self, key: (i64, i64), time: u64) {
        let Some(request) = self.open.newest(&key).map(|span| &mut span.with) else { return };
        let was_at_disk = request.is_at_disk();
        (request.requeued, request.issued, request.overdue) = (true, false, false);
        if was_at_disk {
            self.queue(key.0, -1, time);
        }
    }

    /// The limit of open requests is reached: those at their disks count as never completed.
    fn forget(&mut self) {
        self.replaced = self.issued().never_completed.saturating_add(self.at_disk().values().sum());
        self.open.forget();
        self.depth.clear();
    }

    /// Returns the number of open requests at each disk, as far as events show.
    fn at_disk(&self) -> BTreeMap<i64, u64> {
        let mut at_disk = BTreeMap::new();
        let requests = self.open.iter().filter(|(_, span)| span.with.is_at_disk());
        requests.for_each(|((dev, _), _)| *at_disk.entry(*dev).or_default() += 1);
        at_disk
    }

    fn issued(&self) -> Issued {
        let requests = self.open.iter().map(|(_, span)| &span.with);
        let is_overdue =
            |request: &&Request| request.overdue && request.issued && request.counts && request.has_place();
        let overdue = requests.filter(is_overdue).count() as u64;
        let mut out = Issued {
            completed: self.whole.n,
            never_completed: self.replaced.saturating_add(overdue),
            ..Issued::default()
        };
        for (dev, open) in self.at_disk() {
            // The statistics also count requests of others.
            let under_way = self.inflight.get(&dev).copied().unwrap_or(open).min(open);
            out.under_way += under_way;
            out.not_known += open - under_way;
        }
        out
    }

    /// Marks the requests whose completion was not seen. If a disk's statistics are available, these are the oldest
    /// requests above its count; otherwise those that take far longer than any completed request.
    fn find_overdue(&mut self) {
        let (now, slowest) = (self.now, self.whole.max.saturating_mul(10));
        let mut old: BTreeMap<i64, Vec<(u64, i64)>> = BTreeMap::new();
        let at_disk = self.at_disk();
        for ((dev, sector), span) in self.open.iter().filter(|(_, span)| span.with.is_at_disk()) {
            let soonest = if slowest > 0 { SOONEST } else { SECOND };
            if span.took(now) > slowest.max(soonest) {
                old.entry(*dev).or_default().push((span.since, *sector));
            }
        }
        for (dev, mut list) in old {
            let has = self.inflight.get(&dev).copied().unwrap_or(0);
            let more = at_disk.get(&dev).copied().unwrap_or(0).saturating_sub(has);
            list.sort_unstable();
            for (_, sector) in list.into_iter().take(usize::try_from(more).unwrap_or(usize::MAX)) {
                if let Some(request) = self.open.newest(&(dev, sector)) {
                    request.with.overdue = true;
                    self.queue(dev, -1, now);
                }
            }
        }
    }

    fn stage_panel(&self) -> Panel {
        let stages = self.stages.iter().map(|((from, to), stats)| {
            let row = id(&(from, to));
            (row, STAGES[*from].1, STAGES[*to].1, stats)
        });
        Sheet::of(stages.chain([(u64::MAX, "end", "to end", &self.whole)]), |(row, ..)| row)
            .left("from", "From", 10, |(_, from, ..)| text(from))
            .left("to", "To", 10, |(_, _, to, _)| text(to))
            .latency(self.slowest.has_threshold(), |(.., stats)| stats)
            .in_hidden_order()
            .whole("Stages")
            .noted(self.issued().to_string())
    }

    fn tasks(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(by_weight(&self.by_task, |(stats, _)| stats.sum), |(key, _)| id(key))
            .task(at, |((thread, _), _)| *thread)
            .left("way", "Way", Way::WIDTH, |((_, way), _)| text(way.label()))
            .right("bytes", "Bytes", 9, |(_, (_, bytes))| Cell::Bytes(*bytes))
            .latency(self.slowest.has_threshold(), |(_, (stats, _))| stats)
            .panel("Requesters")
    }

    fn sizes(&self) -> Panel {
        Sheet::of(&self.by_size, |(key, _)| id(key))
            .right("upto_bytes", "Up to", 9, |((power, _), _)| {
                Cell::Bytes(1u64.checked_shl(*power).unwrap_or(u64::MAX))
            })
            .left("way", "Way", Way::WIDTH, |((_, way), _)| text(way.label()))
            .latency(self.slowest.has_threshold(), |(_, stats)| stats)
            .in_hidden_order()
            .whole("Sizes")
    }

    fn devices(&self, at: &Moment<'_>) -> Panel {
        let counted = |dev: &i64| self.depth.get(dev).map_or(0, |depth| *depth as u64);
        let depth = |dev: &i64| self.inflight.get(dev).copied().unwrap_or_else(|| counted(dev));
        Sheet::of(&self.by_device, |(key, _)| id(key))
            .left("device", "Device", 10, |((dev, _), _)| text(self.names.name(*dev)))
            .left("way", "Way", Way::WIDTH, |((_, way), _)| text(way.label()))
            .right("bytes", "Bytes", 9, |(_, (_, bytes))| Cell::Bytes(*bytes))
            .right("bytes_s", "Bytes/s", 9, |(_, (_, bytes))| Cell::Bytes((*bytes as f64 / at.seconds()) as u64))
            .right("depth", "Depth now", 9, |((dev, _), _)| Cell::Count(depth(dev)))
            .latency(self.slowest.has_threshold(), |(_, (stats, _))| stats)
            .in_hidden_order()
            .whole("Devices")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., (_, _, _, time))| Cell::Time(at.after(*time)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .left("task", "Requester", 22, |(.., (request, ..))| text(at.task(request.thread)))
            .left("device", "Device", 8, |(.., (_, dev, ..))| text(self.names.name(*dev)))
            .right("sector", "Sector", 14, |(.., (_, _, sector, _))| Cell::Id(*sector))
            .right("bytes", "Bytes", 9, |(.., (request, ..))| Cell::Bytes(request.bytes))
            .left("way", "Way", Way::WIDTH, |(.., (request, ..))| text(request.way.label()))
            .whole("Slowest")
    }
}

fn device(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    if let Some(numbers) = numbers {
        return Ok(numbers);
    }
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    block_device(name).ok_or_else(|| {
        let known = block_devices().join(" ");
        format!("-d {text}: unknown disk; available: {known}, or MAJOR:MINOR")
    })
}

impl Unit for BlkTrace {
    fn event_requests(&self) -> Vec<EventRequest> {
        let filter = self.device.map(|(major, minor)| format!("dev == {}", u64::from(major) << 20 | u64::from(minor)));
        let want = |(i, (event, _)): (usize, &(&str, &str))| {
            let want = EventRequest::new(*event).only(filter.clone());
            if i < ISSUE { want.optional() } else { want }
        };
        let requeue = EventRequest::new("block:block_rq_requeue").only(filter.clone()).optional();
        STAGES.iter().enumerate().map(want).chain([requeue]).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.fields[event.role] = Some(Fields {
            dev: Num::of(event.format, "dev")?,
            sector: Num::of(event.format, "sector")?,
            sectors: Num::of(event.format, "nr_sector")?,
            rwbs: Text::of(event.format, "rwbs").ok(),
        });
        if event.role == COMPLETE {
            self.slowest.bind(event)?;
        }
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(fields) = &self.fields[hit.role] else { return };
        let (dev, sector) = (fields.dev.get(hit.raw), fields.sector.get(hit.raw));
        if sector == -1 {
            return;
        }
        let bytes = fields.sectors.get(hit.raw).max(0) as u64 * 512;
        let way = Way::of(fields.rwbs.as_ref().map_or(&[], |rwbs| rwbs.bytes(hit.raw)), bytes);
        self.names.meet(dev, cx.session);
        let key = (dev, sector);
        self.now = hit.time;
        if hit.role == REQUEUE {
            return self.requeue(key, hit.time);
        }
        cx.comm(hit.tid);
        let (thread, counts) = (cx.thread(hit.tid), cx.counts(hit.cpu) && cx.has(hit.tid));
        let (issued, requeued, overdue) = (false, false, false);
        let fresh = Request { began: hit.time, thread, bytes, way, issued, requeued, overdue, counts };
        let mut request = self.reached(key, hit, bytes).unwrap_or(fresh);
        if hit.role == COMPLETE {
            if request.issued && request.counts {
                self.queue(dev, if request.overdue { 0 } else { -1 }, hit.time);
                self.end(request, dev, sector, hit, cx);
            }
            return;
        }
        if hit.role == ISSUE && !request.issued {
            request.issued = true;
            if request.counts {
                self.queue(dev, 1, hit.time);
            }
        }
        if self.open.len() >= MAX_OPEN {
            self.forget();
        }
        self.open.begin(key, hit.role, hit.time, request);
    }

    fn settle(&mut self, cx: &mut Context<'_>) {
        if cx.session.origin() == Origin::Live {
            let read = |dev: &i64| {
                let (major, minor) = numbers(*dev);
                Some((*dev, inflight(major, minor)?))
            };
            self.inflight = self.depth.keys().filter_map(read).collect();
        }
        self.find_overdue();
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.open.forget();
        self.depth.clear();
    }

    fn loss_text(&self) -> &'static str {
        "requests open at that time are left out, and queue depths restart at zero"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let bounds = |power: &u32| format!("up to {}", duration(1u64.checked_shl(power + 1).unwrap_or(u64::MAX)));
        vec![
            self.stage_panel(),
            self.tasks(at),
            self.devices(at),
            self.slow(at),
            self.sizes(),
            latency::by_powers("End to end", &self.whole, Measure::Time),
            self.latencies.heatmap("Latency by time", at, Measure::Count, 40, bounds),
            self.depths.series("Queue depth", at, Measure::Count, 16, |dev| self.names.name(*dev).to_string()),
        ]
    }

    fn reset(&mut self, _now: u64) {
        let overdue: Vec<(i64, i64)> =
            self.open.iter().filter(|(_, span)| span.with.overdue).map(|(key, _)| *key).collect();
        overdue.iter().for_each(|key| self.open.close(key));
        self.replaced = 0;
        self.stages.clear();
        self.whole = Stats::default();
        self.by_task.clear();
        self.by_size.clear();
        self.by_device.clear();
        self.latencies.clear();
        self.slowest.clear();
    }
}
