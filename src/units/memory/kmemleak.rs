//! `kmemleak`: allocations that were not freed, by stack, with age and growth.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::lang::counted;
use crate::units::kit::alloc;
use crate::units::kit::alloc::{AllocEvent, AllocReader, Blocks};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "kmemleak",
    about: "allocations that are not freed: surviving stacks by bytes, age and growth",
    words: "leak memory oom heap malloc growth rss free new",
    help: "With -p or a command, probes on the C library follow malloc, calloc, realloc, memalign, aligned_alloc and \
           mmap for the time of the measurement. operator new counts through the malloc that it calls. posix_memalign \
           and partial munmap are not followed. Otherwise the unit follows the kernel's slabs, or any events with \
           --alloc and --free. Memory allocated before the start is unknown. Not every survivor is a leak: caches \
           survive, too. Stacks whose bytes keep growing come first. Growth is measured over eighths of the time, \
           without the two in which a stack grew most, so that one large allocation does not count as growth. m marks \
           a baseline, --age hides young allocations. Wrappers such as operator new are left out of 'Allocated in'.",
    example: "perfprof-tui kmemleak -p 1234 -g",
    output: "\
$ perfprof-tui kmemleak -p 27829 --batch --duration 4
Survives   Share  Objects  Oldest  Growth/s  Allocated  Freed  Course…
  4.1 MB  49.2 %    4,034  4.03 s    1.0 MB      4,034      0  ▇▇▇▇▇▇…
  2.9 MB  35.1 %      180  4.03 s  715.1 kB        180      0  ▄▅▅▅▅▅…",
    options: &["alloc", "free", "library", "age", "pids", "stack", "addresses"],
    sees: Sees::Target,
    across: Some("allocations on the chosen CPUs, wherever they are freed"),
    interval: None,
    make: |settings| Ok(Box::new(KmemLeak::new(settings)?)),
};

#[derive(Clone, Copy, Debug)]
struct Allocated {
    bytes: u64,
    stack: RetainedStack,
}

type Block = alloc::LiveBlock<Allocated>;

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    bytes: u64,
    objects: u64,
    allocs: u64,
    alloc_bytes: u64,
    frees: u64,
    /// Bytes at the baseline.
    baseline: u64,
    thread: ThreadKey,
}

impl Row {
    fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.objects += other.objects;
        self.allocs += other.allocs;
        self.alloc_bytes += other.alloc_bytes;
        self.frees += other.frees;
        self.baseline += other.baseline;
    }
}

/// Surviving blocks of a stack, or of stacks with the same functions.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    bytes: u64,
    objects: u64,
    /// The age of the oldest block.
    oldest: u64,
}

impl Left {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.objects += other.objects;
        self.oldest = self.oldest.max(other.oldest);
    }
}

/// Stacks with the same functions.
#[derive(Clone, Debug, Default)]
struct Site {
    left: Left,
    row: Row,
    stacks: Vec<RetainedStack>,
    /// Growth in bytes per second.
    growth: u64,
}

/// The allocating task and the place.
type SiteName = (Arc<str>, Arc<str>);

#[derive(Clone, Debug, Default)]
struct KmemLeak {
    reader: AllocReader,
    age: u64,
    blocks: Blocks<Allocated>,
    rows: FxHashMap<RetainedStack, Row>,
    unknown_frees: u64,
    replaced: u64,
    /// Blocks that an exec freed.
    at_exec: u64,
    over: u64,
    /// Time of the last loss of records.
    unsure: u64,
    has_baseline: bool,
    course: Grid<RetainedStack>,
    total: Grid<u8>,
    bytes: u64,
    allocated_in: StackLabels,
}

impl KmemLeak {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            reader: AllocReader::new(settings)?,
            age: settings.time("age")?.unwrap_or(0),
            course: Grid::of_greatest(),
            total: Grid::of_greatest(),
            allocated_in: StackLabels::of_allocations(settings),
            ..Self::default()
        })
    }

    fn gone(&mut self, block: &Block) -> &mut Row {
        let Allocated { bytes, stack } = block.with;
        let row = self.rows.entry(stack).or_default();
        row.bytes = row.bytes.saturating_sub(bytes);
        row.objects = row.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        row
    }

    fn freed(&mut self, block: &Block) {
        self.gone(block).frees += 1;
    }

    /// Returns the bytes of some stacks by time column. A column without allocations keeps the previous value.
    fn course_of(&self, stacks: &[RetainedStack], now: u64) -> Vec<f64> {
        let mut sums = vec![0.0; self.course.columns_until(now)];
        for stack in stacks {
            let course = self.course.row(stack).unwrap_or_default();
            let mut held = 0.0;
            for (at, sum) in sums.iter_mut().enumerate() {
                held = course.get(at).copied().filter(|bytes| *bytes > 0.0).unwrap_or(held);
                *sum += held;
            }
        }
        sums
    }

    /// Returns the growth of bytes per eighth of the time: the mean of all eighths without the two largest.
    fn growth(course: &[f64], bytes: u64) -> f64 {
        let end = |nth: usize| (course.len() * nth / 8).checked_sub(1).map_or(0.0, |last| course[last]);
        let mut ends: Vec<f64> = (0..8).map(end).collect();
        ends.push(bytes as f64);
        let mut steps: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_by(f64::total_cmp);
        (steps[..6].iter().sum::<f64>() / 6.0).max(0.0)
    }

    /// Returns the blocks that are old enough, by stack.
    fn survivors(&self, now: u64) -> FxHashMap<RetainedStack, Left> {
        let mut out: FxHashMap<RetainedStack, Left> = FxHashMap::default();
        for (age, block) in self.blocks.ages(now) {
            let Allocated { bytes, stack } = block.with;
            if age >= self.age {
                out.entry(stack).or_default().add(Left { bytes, objects: 1, oldest: age });
            }
        }
        out
    }

    /// Returns the survivors by task and place, by function names.
    fn sites(&mut self, at: &Moment<'_>, survivors: &FxHashMap<RetainedStack, Left>) -> BTreeMap<SiteName, Site> {
        let rows = &self.rows;
        let stacks = survivors.iter().map(|(stack, left)| {
            let row = rows.get(stack).copied().unwrap_or_default();
            (at.comm(row.thread), *stack, (*stack, *left, row))
        });
        let mut sites = self.allocated_in.rows(at, stacks, |site: &mut Site, (stack, left, row)| {
            site.left.add(left);
            site.row.merge(row);
            site.stacks.push(stack);
        });
        let eighth = (self.course.columns_until(at.now) as u64 * self.course.step()) as f64 / 8e9;
        for site in sites.values_mut() {
            let grown = Self::growth(&self.course_of(&site.stacks, at.now), site.row.bytes) / eighth;
            site.growth = if grown >= 0.5 { grown as u64 } else { 0 };
        }
        sites
    }

    fn table(&self, at: &Moment<'_>, sites: &BTreeMap<SiteName, Site>) -> Panel {
        let total: u64 = sites.values().map(|site| site.left.bytes).sum();
        let list = by_weight(sites, |site| {
            let row = site.row;
            let grown = if self.has_baseline { row.bytes.saturating_sub(row.baseline) } else { site.growth };
            (grown, site.left.bytes)
        });
        let course = |site: &Site| {
            let course = self.course_of(&site.stacks, at.now);
            Cell::Course(course[course.len().saturating_sub(24)..].iter().map(|bytes| *bytes as f32).collect())
        };
        let sheet = Sheet::of(list, |(name, _)| id(name))
            .right("bytes", "Survives", 9, |(_, site)| Cell::Bytes(site.left.bytes))
            .share(|(_, site)| site.left.bytes, total)
            .right("objects", "Objects", 9, |(_, site)| Cell::Count(site.left.objects))
            .right("oldest_ns", "Oldest", 8, |(_, site)| time(site.left.oldest))
            .right("growth_bytes_s", "Growth/s", 10, |(_, site)| bytes(site.growth))
            .right("allocs", "Allocated", 10, |(_, site)| Cell::Count(site.row.allocs))
            .right("frees", "Freed", 10, |(_, site)| Cell::Count(site.row.frees))
            .when(self.has_baseline, |sheet| {
                sheet.right("since_baseline_bytes", "Δ baseline", 11, |(_, site)| {
                    Cell::ByteChange(site.row.bytes as i64 - site.row.baseline as i64)
                })
            })
            .left("course", "Course", 24, |(_, site)| course(site))
            .left("comm", "Comm", 16, |((comm, _), _)| text(comm.clone()))
            .left("stack", "Allocated in", 0, |((_, stack), _)| text(stack.clone()));
        let mut note = self.reader.source_label();
        if self.unsure > 0 {
            let (mut n, mut unsure) = (0u64, 0u64);
            for (_, block) in self.blocks.ages(at.now).filter(|(_, block)| block.since < self.unsure) {
                (n, unsure) = (n + 1, unsure + block.with.bytes);
            }
            note = format!(
                "{note}; {} in {} from before records were lost, which may be freed",
                crate::panel::unit::bytes(unsure),
                counted(n, "block")
            );
        }
        if self.over > 0 {
            note = format!("{note}; too many to follow: {}", counted(self.over, "block"));
        }
        sheet.panel("Survivors").noted(note)
    }

    fn totals(&self, survivors: &FxHashMap<RetainedStack, Left>) -> Panel {
        let sum = |of: fn(&Row) -> u64| self.rows.values().map(of).sum::<u64>();
        let mut all = Left::default();
        survivors.values().for_each(|left| all.add(*left));
        let list = [
            ("allocated", sum(|row| row.allocs), Some(sum(|row| row.alloc_bytes))),
            ("freed", sum(|row| row.frees), None),
            ("survives", all.objects, Some(all.bytes)),
            ("freed, not seen allocated", self.unknown_frees, None),
            ("allocated again, not seen freed", self.replaced, None),
            ("gone with a replaced program", self.at_exec, None),
        ];
        Sheet::of(list.iter().enumerate(), |(at, _)| at as u64)
            .left("what", "What", 31, |(_, (what, ..))| text(*what))
            .right("objects", "Objects", 14, |(_, (_, objects, _))| Cell::Count(*objects))
            .right("bytes", "Bytes", 12, |(_, (.., bytes))| bytes.map_or(Cell::Empty, Cell::Bytes))
            .whole("Totals")
    }
}

impl Unit for KmemLeak {
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
            match seen {
                // The previous block is gone, even if the new one does not count.
                AllocEvent::Alloc { at, .. } if !cx.counts(hit.cpu) => {
                    self.blocks.free(at).into_iter().for_each(|old| self.freed(&old));
                }
                AllocEvent::Alloc { at, bytes, tid, stack } => {
                    cx.comm(tid);
                    if self.blocks.is_full() {
                        self.over += 1;
                        continue;
                    }
                    if let Some(old) = self.blocks.alloc(at, hit.time, Allocated { bytes, stack }) {
                        self.replaced += 1;
                        self.freed(&old);
                    }
                    let row = self.rows.entry(stack).or_default();
                    (row.bytes, row.objects) = (row.bytes + bytes, row.objects + 1);
                    (row.allocs, row.alloc_bytes, row.thread) =
                        (row.allocs + 1, row.alloc_bytes + bytes, cx.thread(tid));
                    let now = row.bytes;
                    self.bytes += bytes;
                    self.course.add(&stack, hit.time, now as f64);
                    self.total.add(&0, hit.time, self.bytes as f64);
                }
                AllocEvent::Free { at, .. } => match self.blocks.free(at) {
                    Some(block) => self.freed(&block),
                    // It may have been allocated on another CPU.
                    None => self.unknown_frees += u64::from(cx.cpus.is_none()),
                },
            }
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, time: u64, _cx: &mut Context<'_>) {
        self.reader.thread_changed(change);
        for (_, block) in self.blocks.thread_changed(change, time).iter().flat_map(OpenSpans::iter) {
            self.gone(block);
            self.at_exec += 1;
        }
    }

    fn lost(&mut self, lost: &LostEvents) {
        self.unsure = lost.until;
        self.reader.lost();
    }

    fn loss_text(&self) -> &'static str {
        "blocks freed meanwhile still count: the note of the survivors has their maximum"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let survivors = self.survivors(at.now);
        let sites = self.sites(at, &survivors);
        let chosen = at.selected(0).and_then(|row| sites.iter().find(|(name, _)| id(name) == row));
        let chosen = chosen.map(|(_, site)| site.stacks.iter().copied().collect::<FxHashSet<RetainedStack>>());
        let mut ages = Stats::default();
        let is_chosen = |block: &Block| chosen.as_ref().is_none_or(|stacks| stacks.contains(&block.with.stack));
        for (age, _) in self.blocks.ages(at.now).filter(|(_, block)| is_chosen(block)) {
            ages.add(age);
        }
        let stacks = survivors.iter().map(|(pin, left)| {
            (self.rows.get(pin).map_or_else(ThreadKey::default, |row| row.thread), *pin, left.bytes, left.objects)
        });
        vec![
            self.table(at, &sites),
            self.totals(&survivors),
            at.flame("Survivors as a flame graph", Measure::Bytes, stacks),
            latency::by_powers("Ages", &ages, Measure::Time),
            self.total.series("Bytes over time", at, Measure::Bytes, 1, |_| "survives".to_owned()),
        ]
    }

    fn reset(&mut self, _now: u64) {
        // Surviving blocks stay; counts start again.
        self.rows.retain(|_, row| row.objects > 0);
        for row in self.rows.values_mut() {
            (row.allocs, row.alloc_bytes, row.frees) = (0, 0, 0);
        }
        (self.unknown_frees, self.replaced, self.at_exec) = (0, 0, 0);
    }

    fn restart(&mut self, now: u64) {
        (self.blocks, self.rows, self.bytes) = Default::default();
        self.reset(now);
    }

    fn baseline(&mut self, set: bool) -> Result<(), String> {
        self.has_baseline = set;
        for row in self.rows.values_mut() {
            row.baseline = if set { row.bytes } else { 0 };
        }
        Ok(())
    }
}
