//! Samples by CPU and context, and the functions responsible.
//! A context is user or kernel code of a task, a softirq of some vector, a hardware interrupt, or idle.

pub mod context;
pub mod cpu_use;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::panel::row_order::{arrange, arrange_by_key};
use crate::profile::{Acc, NodeId, RenamedFrames, SiteId, SymId};

use super::data::Data;
use context::{Contexts, CpuContext, VECTORS, dispatches};

/// The number of sample slots: [`USER`] to [`SOFTIRQ`], then the softirq vectors.
pub(crate) const SLOTS: usize = 5 + VECTORS.len();
pub(crate) const USER: usize = 0;
/// The slot of kernel code outside of softirqs, interrupts and the idle loop.
pub const KERNEL: usize = 1;
pub(crate) const IDLE: usize = 2;
pub(crate) const IRQ: usize = 3;
/// A softirq whose vector is not in the call chain.
pub(crate) const SOFTIRQ: usize = 4;

/// The limit of CPUs: a damaged recording may contain any number.
const MAX_CPUS: usize = 4096;
const BUCKETS: usize = 256;
/// The shortest bucket; also the shortest burst that is visible.
const SHORTEST_NS: u64 = 100_000_000;
/// The window of live shares: longer than the pauses between typical bursts.
pub(crate) const WINDOW_NS: u64 = 10_000_000_000;
/// The shares of a slot's samples that make a function responsible for it. It is the first registered handler with at
/// least `SOME`, including its callees; else the deepest function with `NEARLY_ALL`.
const SOME: f64 = 0.3;
const NEARLY_ALL: f64 = 0.95;
/// Buckets with fewer samples do not count as peaks.
const PEAK_SAMPLES: u32 = 10;

pub(crate) fn of_vector(vector: usize) -> usize {
    SOFTIRQ + 1 + vector
}

/// The samples of one CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuSamples {
    pub(crate) cpu: u16,
    pub(crate) counts: [u64; SLOTS],
    /// The maximum share of softirqs and interrupts in a bucket, in percent.
    pub(crate) peak: f32,
    /// The share of softirqs and interrupts in each bucket of the window, in percent.
    pub(crate) history: Vec<f32>,
    /// The number of records of the window that the CPU's full ring lost.
    pub(crate) lost: u64,
}

impl CpuSamples {
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn softirqs(&self) -> u64 {
        self.counts[SOFTIRQ..].iter().sum()
    }

    pub(crate) fn percent(&self, samples: u64) -> f32 {
        (100.0 * samples as f64 / self.total().max(1) as f64) as f32
    }

    /// Returns the share of softirqs and interrupts, in percent of all samples.
    pub(crate) fn soft(&self) -> f32 {
        self.percent(self.softirqs() + self.counts[IRQ])
    }

    /// Returns the vector with the most samples.
    pub(crate) fn vector(&self) -> Option<usize> {
        let vectors = &self.counts[SOFTIRQ + 1..];
        (0..VECTORS.len()).rev().max_by_key(|v| vectors[*v]).filter(|v| vectors[*v] > 0)
    }
}

/// The function responsible for the samples of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotFunction {
    pub(crate) slot: usize,
    /// Samples in it and its callees.
    pub(crate) samples: u64,
    pub(crate) name: String,
}

/// Samples by CPU and context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuAnswer {
    /// The sampled CPUs, by number.
    pub rows: Vec<CpuSamples>,
    /// The length of the time range of the counts, in nanoseconds.
    pub window: u64,
    /// The end of that range, in nanoseconds: the time of the newest sample.
    pub until: u64,
    /// Samples per second of a busy CPU; 0 if unknown.
    pub frequency: u64,
    /// Whether they cover everything that the CPUs did in the window. Then missing samples mean idle time.
    pub whole: bool,
    /// Received samples that are not idle, in percent of those that busy CPUs would produce; `None` if unknown.
    pub busy: Option<f64>,
    /// The CPUs that are sampled.
    pub sampled: usize,
    /// The requested CPU.
    pub cpu: Option<u16>,
    /// The functions responsible for the slots of [`CpuAnswer::cpu`], the most frequent first; empty without one.
    pub behind: Vec<SlotFunction>,
}

impl CpuAnswer {
    /// Returns how many samples a permanently busy CPU produces in the window. 0 if unknown.
    pub(crate) fn expected(&self) -> f64 {
        self.frequency as f64 * self.window as f64 / 1e9
    }

    /// Returns the samples that are not idle.
    pub(crate) fn at_work(&self) -> u64 {
        self.rows.iter().map(|row| row.total() - row.counts[IDLE]).sum()
    }

    pub(crate) fn row(&self, cpu: u32) -> Option<&CpuSamples> {
        self.rows.iter().find(|row| u32::from(row.cpu) == cpu)
    }

    /// Returns the function responsible for a slot of a CPU, if it was requested.
    pub fn behind(&self, cpu: u32, slot: usize) -> Option<&SlotFunction> {
        self.behind.iter().find(|b| self.cpu.map(u32::from) == Some(cpu) && b.slot == slot)
    }
}

/// Counts of each CPU by its index.
#[derive(Debug, Default)]
struct Bucket {
    cpus: Vec<[u32; SLOTS]>,
}

impl Bucket {
    fn count(&mut self, place: usize, slot: usize) {
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, [0; SLOTS]);
        }
        self.cpus[place][slot] += 1;
    }

    fn move_one(&mut self, place: usize, from: usize, to: usize) {
        if let Some(counts) = self.cpus.get_mut(place).filter(|counts| counts[from] > 0) {
            counts[from] -= 1;
            counts[to] += 1;
        }
    }

    fn join(&mut self, other: Self) {
        self.cpus.resize(self.cpus.len().max(other.cpus.len()), [0; SLOTS]);
        let pairs = self.cpus.iter_mut().zip(other.cpus);
        pairs.for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += b));
    }
}

/// Counts kept between answers: new samples are added, renamed ones are moved.
#[derive(Debug, Default)]
pub struct CpuCounts {
    event: usize,
    /// Whether old buckets are dropped. Otherwise buckets grow to cover the whole recording.
    sliding: bool,
    contexts: Contexts,
    slots: Vec<u8>,
    /// The CPUs found, and the index of each in a bucket.
    cpus: Vec<u16>,
    places: FxHashMap<u16, usize>,
    /// The version of names, and the profile's epoch.
    names: u64,
    epoch: (u64, u32),
    /// Absolute position of the first sample that is not counted.
    counted: u64,
    /// The start of the first bucket, and the length of all.
    start: u64,
    length: u64,
    buckets: VecDeque<Bucket>,
    behind: (Option<u16>, u64, Vec<SlotFunction>),
}

impl CpuCounts {
    /// Creates empty counts of an event's samples. `sliding` drops old ones, for a live view.
    pub fn new(event: usize, sliding: bool) -> Self {
        Self { event, sliding, epoch: (u64::MAX, 0), length: SHORTEST_NS, ..Self::default() }
    }

    pub(crate) fn event(&self) -> usize {
        self.event
    }

    /// Adds the samples before an absolute position.
    pub fn update(&mut self, data: Data<'_>, until: u64) {
        let profile = data.profile;
        let until = until.min(profile.end());
        let same = self.epoch == profile.sums_epoch() && until >= self.counted && self.counted >= profile.first();
        self.contexts.update(data);
        match profile.renamed_since(self.names).filter(|_| same) {
            Some(renamed) => self.move_renamed(data, &renamed),
            None => self.full_rebuild(data, until),
        }
        (self.names, self.epoch) = (profile.frames.names(), profile.sums_epoch());
        for id in self.slots.len()..profile.sites.len() {
            self.slots.push(self.slot(data, SiteId(id as u32)) as u8);
        }
        for (chunk, range) in profile.between(self.counted, until) {
            for i in range {
                if usize::from(chunk.event[i]) == self.event {
                    let slot = self.slots[chunk.site[i] as usize];
                    if let Some(place) = self.place(chunk.cpu[i]) {
                        self.bucket(chunk.time[i]).count(place, usize::from(slot));
                    }
                }
            }
        }
        self.counted = until;
    }

    /// Sums the weights of sites in user code, the kernel, softirqs and interrupts; idle CPUs do not count.
    pub(crate) fn by_mode(&self, by_site: &[Acc]) -> [u64; 4] {
        let mut modes = [0; 4];
        for (acc, slot) in by_site.iter().zip(&self.slots) {
            let mode = match usize::from(*slot) {
                USER => 0,
                KERNEL => 1,
                IDLE => continue,
                IRQ => 3,
                _ => 2,
            };
            modes[mode] += acc.period;
        }
        modes
    }

    fn full_rebuild(&mut self, data: Data<'_>, until: u64) {
        self.slots.clear();
        self.buckets.clear();
        self.behind.0 = None;
        let kept = BUCKETS as u64 * SHORTEST_NS;
        self.counted = match self.sliding {
            true => data.profile.position_at(data.profile.time_before(until).saturating_sub(kept)),
            false => data.profile.first(),
        };
    }

    fn move_renamed(&mut self, data: Data<'_>, renamed: &RenamedFrames) {
        let mut moved: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
        for site in renamed.sites(data.profile, self.slots.len()) {
            let slot = self.slot(data, SiteId(site));
            let had = std::mem::replace(&mut self.slots[site as usize], slot as u8);
            if usize::from(had) != slot {
                moved.insert(site, (usize::from(had), slot));
            }
        }
        if renamed.is_empty() || self.behind.2.is_empty() && moved.is_empty() {
            return;
        }
        self.behind.0 = None;
        let from = renamed.born.sample.max(data.profile.position_at(self.start));
        for (chunk, range) in data.profile.between(from, self.counted) {
            for i in range.filter(|i| usize::from(chunk.event[*i]) == self.event) {
                let (Some((had, slot)), Some(place)) = (moved.get(&chunk.site[i]), self.places.get(&chunk.cpu[i]))
                else {
                    continue;
                };
                // Samples before the first bucket were dropped with their bucket.
                if let Some(after) = chunk.time[i].checked_sub(self.start)
                    && let Some(bucket) = self.buckets.get_mut((after / self.length) as usize)
                {
                    bucket.move_one(*place, *had, *slot);
                }
            }
        }
    }

    fn place(&mut self, cpu: u16) -> Option<usize> {
        if let Some(place) = self.places.get(&cpu) {
            return Some(*place);
        }
        if self.cpus.len() == MAX_CPUS {
            return None;
        }
        self.places.insert(cpu, self.cpus.len());
        self.cpus.push(cpu);
        Some(self.cpus.len() - 1)
    }

    fn slot(&self, data: Data<'_>, site: SiteId) -> usize {
        let site = data.profile.sites.get(site);
        let pid = data.session.tasks()[site.task.0 as usize].pid;
        match self.contexts.of(site.stack, pid) {
            CpuContext::Idle => IDLE,
            CpuContext::Irq => IRQ,
            CpuContext::Softirq(vector) => vector.map_or(SOFTIRQ, |v| of_vector(usize::from(v))),
            CpuContext::Task if site.stack == NodeId::ROOT => USER,
            CpuContext::Task => {
                let leaf = data.profile.frames.sym_of(data.profile.trie.frame(site.stack));
                if data.profile.frames.sym(leaf).kind.is_kernel() { KERNEL } else { USER }
            }
        }
    }

    fn bucket(&mut self, time: u64) -> &mut Bucket {
        if self.buckets.is_empty() {
            (self.start, self.length) = (time, SHORTEST_NS);
        }
        let mut at = (time.saturating_sub(self.start) / self.length) as usize;
        while at >= BUCKETS && !self.sliding {
            let mut joined = VecDeque::with_capacity(BUCKETS);
            while let Some(mut first) = self.buckets.pop_front() {
                first.join(self.buckets.pop_front().unwrap_or_default());
                joined.push_back(first);
            }
            (self.buckets, self.length) = (joined, 2 * self.length);
            at = (time.saturating_sub(self.start) / self.length) as usize;
        }
        if at >= BUCKETS {
            let gone = at + 1 - BUCKETS;
            self.buckets.drain(..gone.min(self.buckets.len()));
            self.start += gone as u64 * self.length;
            at = BUCKETS - 1;
        }
        if self.buckets.len() <= at {
            self.buckets.resize_with(at + 1, Bucket::default);
        }
        &mut self.buckets[at]
    }

    /// Returns samples by CPU, and the functions responsible on one CPU.
    pub fn answer(&mut self, data: Data<'_>, cpu: Option<u16>) -> CpuAnswer {
        let newest = data.profile.time_before(self.counted);
        let n = (WINDOW_NS / self.length) as usize;
        let skip = if self.sliding { self.buckets.len().saturating_sub(n) } else { 0 };
        let begin = self.start + skip as u64 * self.length;
        let window = newest.saturating_sub(begin);
        let rows = (0..self.cpus.len()).map(|place| self.row(place, skip)).filter(|row| row.total() > 0);
        let mut rows: Vec<CpuSamples> = rows.collect();
        arrange_by_key(&mut rows, |row| row.cpu);
        for loss in data.profile.losses.since(begin) {
            let of_cpu = rows.iter_mut().filter(|row| loss.cpu.is_none_or(|cpu| cpu == row.cpu));
            of_cpu.for_each(|row| row.lost = row.lost.saturating_add(loss.samples));
        }
        let asked = (cpu, self.counted);
        if (self.behind.0, self.behind.1) != asked {
            let behind = cpu.map(|cpu| self.find_behind(data, cpu, begin)).unwrap_or_default();
            self.behind = (asked.0, asked.1, behind);
        }
        CpuAnswer { rows, window, until: newest, cpu, behind: self.behind.2.clone(), ..CpuAnswer::default() }
    }

    fn row(&self, place: usize, skip: usize) -> CpuSamples {
        let mut row = CpuSamples { cpu: self.cpus[place], ..CpuSamples::default() };
        for bucket in self.buckets.iter().skip(skip) {
            let counts = bucket.cpus.get(place).copied().unwrap_or([0; SLOTS]);
            row.counts.iter_mut().zip(counts).for_each(|(sum, n)| *sum += u64::from(n));
            let all: u32 = counts.iter().sum();
            let soft: u32 = counts[IRQ..].iter().sum();
            let share = 100.0 * soft as f32 / all.max(1) as f32;
            if all >= PEAK_SAMPLES {
                row.peak = row.peak.max(share);
            }
            row.history.push(share);
        }
        row
    }

    fn find_behind(&self, data: Data<'_>, cpu: u16, since: u64) -> Vec<SlotFunction> {
        let mut sites: FxHashMap<u32, u64> = FxHashMap::default();
        for (chunk, range) in data.profile.between(data.profile.position_at(since), self.counted) {
            for i in range.filter(|i| chunk.cpu[*i] == cpu && usize::from(chunk.event[*i]) == self.event) {
                *sites.entry(chunk.site[i]).or_default() += 1;
            }
        }
        let mut slots: Vec<(u64, FxHashMap<u32, Carried>)> = Vec::new();
        slots.resize_with(SLOTS, Default::default);
        for (site, n) in sites {
            let slot = &mut slots[usize::from(self.slots[site as usize])];
            slot.0 += n;
            self.carry(data, SiteId(site), n, &mut slot.1);
        }
        let mut out: Vec<SlotFunction> = (0..)
            .zip(slots)
            .filter(|(slot, _)| *slot >= IRQ)
            .filter_map(|(slot, (total, syms))| behind(data, slot, total, &syms))
            .collect();
        arrange_by_key(&mut out, |b| (std::cmp::Reverse(b.samples), b.slot));
        out
    }

    /// Adds a site's samples to its functions, up to the entry of its context.
    fn carry(&self, data: Data<'_>, site: SiteId, n: u64, syms: &mut FxHashMap<u32, Carried>) {
        let site = data.profile.sites.get(site);
        // As in a process other than the idle one.
        let of = |node| self.contexts.of(node, 1);
        let context = of(site.stack);
        let mut path = Vec::new();
        let mut node = site.stack;
        while node != NodeId::ROOT && of(node) == context {
            path.push(data.profile.frames.sym_of(data.profile.trie.frame(node)));
            node = data.profile.trie.parent(node);
        }
        for (up, sym) in path.iter().enumerate() {
            // A recursive function counts once, at its deepest occurrence.
            if !path[..up].contains(sym) {
                let carried = syms.entry(sym.0).or_default();
                carried.samples += n;
                carried.depth += n * (path.len() - up) as u64;
            }
        }
    }
}

/// The samples through a function, and the sum of its depths over them.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    samples: u64,
    depth: u64,
}

fn behind(data: Data<'_>, slot: usize, total: u64, syms: &FxHashMap<u32, Carried>) -> Option<SlotFunction> {
    let name = |sym: u32| data.profile.frames.sym(SymId(sym)).name().into_owned();
    let mut list: Vec<(String, Carried)> = syms.iter().map(|(sym, c)| (name(*sym), *c)).collect();
    arrange(&mut list, |a, b| a.0.cmp(&b.0));
    let share = |c: &Carried| c.samples as f64 / total.max(1) as f64;
    let depth = |c: &Carried| c.depth / c.samples.max(1);
    let registered = list.iter().filter(|(name, c)| share(c) >= SOME && !dispatches(name));
    let first = registered.min_by_key(|(_, c)| (depth(c), std::cmp::Reverse(c.samples)));
    let deepest = || list.iter().filter(|(_, c)| share(c) >= NEARLY_ALL).max_by_key(|(_, c)| (depth(c), c.samples));
    first.or_else(deepest).map(|(name, c)| SlotFunction { slot, samples: c.samples, name: name.clone() })
}

#[cfg(test)]
mod tests;
