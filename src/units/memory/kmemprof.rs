//! `kmemprof`: allocations and frees by stack, with bytes, sizes and lifetimes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::units::kit::alloc::{AllocEvent, AllocReader, Blocks};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "kmemprof",
    about: "allocated and freed memory by stack: rates, bytes, sizes, lifetimes, net growth",
    words: "malloc memory alloc allocation heap gc garbage slab kmalloc free",
    help: "Allocations come from the same sources as those of kmemleak: with -p or a command from the C library, \
           otherwise from the kernel, or from --alloc and --free, or two -e. An allocation counts at its own stack \
           and time, and so does a release. The lifetime of a block belongs to the stack that allocated it.",
    example: "perfprof-tui kmemprof -p 1234 -i 1",
    output: "\
$ perfprof-tui kmemprof -p 27829 --batch -i 2 -n 1
   Bytes   Share  Times   Bytes/s    Mean  Freed        Net  Life p50…
  7.4 MB  78.7 %  3,622    3.7 MB  2.0 kB  3,622        0 B    1.94 µ…
  1.9 MB  19.7 %  3,622  927.2 kB   512 B  3,622        0 B    1.74 µ…
147.5 kB   1.6 %     36   73.7 kB  4.1 kB      0  +147.5 kB         …",
    options: &["alloc", "free", "event", "key", "library", "pids", "stack", "addresses"],
    sees: Sees::Target,
    across: Some("allocations on the chosen CPUs, wherever they are freed"),
    interval: Some(1.0),
    make: |settings| Ok(Box::new(KmemProf::new(settings)?)),
};

#[derive(Clone, Debug, Default)]
struct Row {
    allocs: u64,
    bytes: u64,
    freed: u64,
    freed_bytes: u64,
    lives: Stats,
    thread: ThreadKey,
}

impl Row {
    fn merge(&mut self, other: &Self) {
        self.allocs += other.allocs;
        self.bytes += other.bytes;
        self.freed += other.freed;
        self.freed_bytes += other.freed_bytes;
        self.lives.merge(&other.lives);
    }
}

type Places<V> = BTreeMap<(Arc<str>, Arc<str>), V>;

#[derive(Clone, Debug, Default)]
struct KmemProf {
    reader: AllocReader,
    /// With size and allocating stack.
    blocks: Blocks<(u64, RetainedStack)>,
    allocs: FxHashMap<RetainedStack, Row>,
    frees: FxHashMap<RetainedStack, (u64, u64, ThreadKey)>,
    sizes: Stats,
    course: Grid<&'static str>,
    over: u64,
    /// Time of the last loss of records: lifetimes of older blocks are unknown.
    unsure: u64,
    allocated_in: StackLabels,
    freed_in: StackLabels,
}

impl KmemProf {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            reader: AllocReader::new(settings)?,
            allocated_in: StackLabels::of_allocations(settings),
            freed_in: StackLabels::of(settings),
            ..Self::default()
        })
    }

    fn alloc_panel(&self, at: &Moment<'_>, places: &Places<Row>) -> Panel {
        let total: u64 = places.values().map(|row| row.bytes).sum();
        let net = |row: &Row| Cell::ByteChange(row.bytes as i64 - row.freed_bytes as i64);
        let allocated = places.iter().filter(|(_, row)| row.allocs > 0);
        Sheet::of(by_weight(allocated, |row| row.bytes), |(place, _)| id(place))
            .right("bytes", "Bytes", 9, |(_, row)| Cell::Bytes(row.bytes))
            .share(|(_, row)| row.bytes, total)
            .right("allocs", "Times", 10, |(_, row)| Cell::Count(row.allocs))
            .right("bytes_s", "Bytes/s", 9, |(_, row)| Cell::Bytes((row.bytes as f64 / at.seconds()) as u64))
            .right("mean_bytes", "Mean", 8, |(_, row)| Cell::Bytes(row.bytes / row.allocs.max(1)))
            .right("freed", "Freed", 10, |(_, row)| Cell::Count(row.freed))
            .right("net_bytes", "Net", 9, |(_, row)| net(row))
            .right("life_ns", "Life p50", 9, |(_, row)| time(row.lives.quantile(0.5)))
            .left("comm", "Comm", 16, |((comm, _), _)| text(comm.clone()))
            .left("stack", "Allocated in", 0, |((_, stack), _)| text(stack.clone()))
            .panel("Allocations")
            .noted(self.reader.source_label())
    }

    fn free_panel(&mut self, at: &Moment<'_>) -> Panel {
        let frees = self.frees.iter().map(|(pin, (bytes, n, thread))| (at.comm(*thread), *pin, (*bytes, *n)));
        let places: Places<(u64, u64)> =
            self.freed_in.rows(at, frees, |sum: &mut (u64, u64), (bytes, n)| *sum = (sum.0 + bytes, sum.1 + n));
        let total: u64 = places.values().map(|(bytes, _)| bytes).sum();
        Sheet::of(by_weight(&places, |sums| **sums), |(place, _)| id(place))
            .right("bytes", "Bytes", 9, |(_, (bytes, _))| Cell::Bytes(*bytes))
            .share(|(_, (bytes, _))| *bytes, total)
            .right("frees", "Times", 10, |(_, (_, n))| Cell::Count(*n))
            .left("comm", "Comm", 16, |((comm, _), _)| text(comm.clone()))
            .left("stack", "Freed in", 0, |((_, stack), _)| text(stack.clone()))
            .panel("Releases")
    }
}

impl Unit for KmemProf {
    fn attributes(&self) -> &'static [&'static str] {
        &["key", "ptr", "size"]
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        self.reader.wants(true)
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.reader.bind(event)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        for seen in self.reader.read(hit, cx).into_iter().flatten() {
            cx.comm(hit.tid);
            match seen {
                // The previous block is gone, even if the new one does not count.
                AllocEvent::Alloc { at, .. } if !cx.counts(hit.cpu) => drop(self.blocks.free(at)),
                AllocEvent::Alloc { at, bytes, tid, stack } => {
                    let row = self.allocs.entry(stack).or_default();
                    (row.allocs, row.bytes, row.thread) = (row.allocs + 1, row.bytes + bytes, cx.thread(tid));
                    self.sizes.add(bytes);
                    self.course.add(&"allocated", hit.time, bytes as f64);
                    if self.blocks.is_full() {
                        self.over += 1;
                    } else {
                        self.blocks.alloc(at, hit.time, (bytes, stack));
                    }
                }
                AllocEvent::Free { at, stack } => {
                    let block = self.blocks.free(at);
                    if cx.cpus.is_some() && block.is_none() {
                        // It may have been allocated on another CPU.
                        continue;
                    }
                    let entry = self.frees.entry(stack).or_default();
                    (entry.1, entry.2) = (entry.1 + 1, cx.thread(hit.tid));
                    if let Some(block) = block {
                        let (bytes, from) = block.with;
                        entry.0 += bytes;
                        let row = self.allocs.entry(from).or_default();
                        (row.freed, row.freed_bytes) = (row.freed + 1, row.freed_bytes + bytes);
                        if block.since >= self.unsure {
                            let life = block.took(hit.time);
                            row.lives.add(life);
                            cx.point(["alloc", "free"], hit.time, life);
                        }
                        self.course.add(&"freed", hit.time, bytes as f64);
                    }
                }
            }
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, time: u64, _cx: &mut Context<'_>) {
        self.reader.thread_changed(change);
        self.blocks.thread_changed(change, time);
    }

    fn lost(&mut self, lost: &LostEvents) {
        self.unsure = lost.until;
        self.reader.lost();
    }

    fn loss_text(&self) -> &'static str {
        "counts and bytes are too low, the net growth may be wrong, and lifetimes across the gap are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let allocs = self.allocs.iter().map(|(pin, row)| (row.thread, *pin, row.bytes, row.allocs));
        let flame = at.flame("Allocations as a flame graph", Measure::Bytes, allocs);
        let allocs = self.allocs.iter().map(|(pin, row)| (at.comm(row.thread), *pin, row));
        let places: Places<Row> = self.allocated_in.rows(at, allocs, |sum: &mut Row, row| sum.merge(row));
        let chosen = at.selected(0).and_then(|row| places.iter().find(|(place, _)| id(place) == row));
        let lives = chosen.map_or_else(|| places.values().map(|row| &row.lives).sum(), |(_, row)| row.lives.clone());
        let course = self.course.series("Bytes over time", at, Measure::Bytes, 2, |name| (*name).to_owned());
        vec![
            self.alloc_panel(at, &places),
            self.free_panel(at),
            latency::by_powers("Sizes", &self.sizes, Measure::Bytes),
            latency::by_powers("Lifetimes", &lives, Measure::Time),
            flame,
            course,
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.allocs.clear();
        self.frees.clear();
        self.sizes = Stats::default();
        self.course.clear();
    }
}
