//! The first pass: weights per site over the columns, for one event and one filter. Kept between
//! answers, so that live updates cost what is new and not what is there.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::profile::{Acc, Chunk};

use super::Data;
use super::judge::{Judge, Verdict};

/// Samples from which a full pass is shared among threads.
const PARALLEL: usize = 1 << 19;

type Part<'a> = (&'a Chunk, Range<usize>);

/// Weights per site; with the CPU as a key, per CPU and site.
#[derive(Clone, Debug)]
enum Lanes {
    One(Vec<Acc>),
    ByCpu(FxHashMap<(u16, u32), Acc>),
}

/// The weights of all samples that pass.
#[derive(Debug)]
pub struct Fold {
    event: u16,
    judge: Option<Judge>,
    /// Only samples of these times count.
    window: Option<Range<u64>>,
    lanes: Lanes,
    total: Acc,
    /// Absolute positions of the samples that are in it.
    counted: Range<u64>,
    epoch: u64,
    decay: Option<Decay>,
}

/// Samples count for less the older they are. Weights are in parts of [`ONE`] meanwhile, so that
/// what is left of a sample is not lost in rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decay {
    /// Nanoseconds after which a sample counts half.
    half: u64,
    /// The time that ages are counted from: that of the newest sample.
    now: u64,
}

/// A whole sample while weights decay.
const ONE: u64 = 1 << 10;

impl Decay {
    /// What is left after some time.
    fn left(&self, ns: u64) -> f64 {
        (-(ns as f64) / self.half.max(1) as f64).exp2()
    }

    fn weigh(&self, time: u64, weight: u64) -> Acc {
        let left = self.left(self.now.saturating_sub(time)) * ONE as f64;
        Acc { samples: left.round() as u64, period: (weight as f64 * left).round() as u64 }
    }
}

/// The part of a fold that a pass over some chunks changes.
struct Sums {
    lanes: Lanes,
    total: Acc,
}

impl Fold {
    pub fn new(event: usize, filter: Option<Arc<Filter>>, by_cpu: bool) -> Self {
        let lanes = if by_cpu { Lanes::ByCpu(FxHashMap::default()) } else { Lanes::One(Vec::new()) };
        Self {
            event: event as u16,
            judge: filter.map(Judge::new),
            window: None,
            lanes,
            total: Acc::default(),
            counted: 0..0,
            epoch: 0,
            decay: None,
        }
    }

    /// A new one with another's filter, and what was decided of it.
    pub fn like(other: &Self, by_cpu: bool) -> Self {
        let lanes = if by_cpu { Lanes::ByCpu(FxHashMap::default()) } else { Lanes::One(Vec::new()) };
        Self {
            event: other.event,
            judge: other.judge.clone(),
            window: None,
            lanes,
            total: Acc::default(),
            counted: 0..0,
            epoch: other.epoch,
            decay: None,
        }
    }

    /// Lets only samples of some times of the session's clock count.
    pub fn within(mut self, window: Option<Range<u64>>) -> Self {
        self.window = window;
        self
    }

    /// Whether it is of that event and filter.
    pub fn has(&self, event: usize, filter: Option<&Arc<Filter>>) -> bool {
        usize::from(self.event) == event && self.judge.as_ref().map(Judge::filter) == filter
    }

    /// The times that count, when not all do.
    pub fn window(&self) -> Option<&Range<u64>> {
        self.window.as_ref()
    }

    /// Lets samples count half after so many nanoseconds.
    pub fn decaying(mut self, half: Option<u64>) -> Self {
        self.decay = half.map(|half| Decay { half, now: 0 });
        self
    }

    /// Whether this fold answers for that event, filter, grouping and decay.
    pub fn serves(&self, event: usize, filter: Option<&Arc<Filter>>, by_cpu: bool, half: Option<u64>) -> bool {
        self.has(event, filter) && matches!(self.lanes, Lanes::ByCpu(_)) == by_cpu && self.decay.map(|d| d.half) == half
    }

    /// What decides its filter, up to date with what was last counted.
    pub fn judge(&self) -> Option<&Judge> {
        self.judge.as_ref()
    }

    /// Brings the weights up to date with the samples at these absolute positions: new ones are
    /// added, those that the range has left are taken out; when ids or verdicts changed, or the
    /// range begins or ends earlier than it did, all are counted anew.
    pub fn update(&mut self, data: Data<'_>, wanted: Range<u64>) {
        if self.epoch != data.profile.epoch() {
            self.epoch = data.profile.epoch();
            self.judge = self.judge.take().map(|j| Judge::new(j.filter().clone()));
            self.reset();
        }
        if self.judge.as_mut().is_some_and(|j| j.update(data)) {
            self.reset();
        }
        let first = wanted.start.max(data.profile.first());
        let until = wanted.end.min(data.profile.end());
        if first < self.counted.start || first > self.counted.end || until < self.counted.end {
            self.reset();
        }
        if let Lanes::One(accs) = &mut self.lanes {
            accs.resize(data.profile.sites.len(), Acc::default());
        }
        if self.counted.is_empty() {
            self.counted = first..first;
        }
        if self.decay.is_none() {
            self.each_part(data, self.counted.start..first, true);
        }
        self.age(data.profile.time_before(until));
        let todo = self.counted.end.max(first)..until;
        if until.saturating_sub(todo.start) > PARALLEL as u64 {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
            let todo: Vec<Part<'_>> = data.profile.between(todo.start, until).collect();
            self.update_parallel(data, &todo, threads);
        } else {
            self.each_part(data, todo, false);
        }
        self.counted = first..until.max(first);
    }

    /// Adds or takes out the samples of a range.
    fn each_part(&mut self, data: Data<'_>, range: Range<u64>, take_out: bool) {
        let mut sums = Sums { lanes: std::mem::replace(&mut self.lanes, Lanes::One(Vec::new())), total: self.total };
        for (chunk, part) in data.profile.between(range.start, range.end) {
            self.pass(data, chunk, part, &mut sums, take_out);
        }
        (self.lanes, self.total) = (sums.lanes, sums.total);
    }

    fn reset(&mut self) {
        match &mut self.lanes {
            Lanes::One(accs) => accs.clear(),
            Lanes::ByCpu(accs) => accs.clear(),
        }
        self.total = Acc::default();
        self.counted = 0..0;
        if let Some(decay) = &mut self.decay {
            decay.now = 0;
        }
    }

    fn update_parallel(&mut self, data: Data<'_>, todo: &[Part<'_>], threads: usize) {
        let this = &*self;
        let parts: Vec<Sums> = std::thread::scope(|scope| {
            let share = todo.len().div_ceil(threads).max(1);
            let handles: Vec<_> = todo.chunks(share).map(|part| scope.spawn(move || this.part(data, part))).collect();
            handles.into_iter().filter_map(|h| h.join().ok()).collect()
        });
        for part in parts {
            self.total += part.total;
            match (&mut self.lanes, part.lanes) {
                (Lanes::One(all), Lanes::One(part)) => all.iter_mut().zip(part).for_each(|(a, b)| *a += b),
                (Lanes::ByCpu(all), Lanes::ByCpu(part)) => {
                    part.into_iter().for_each(|(k, v)| *all.entry(k).or_default() += v)
                }
                _ => {}
            }
        }
    }

    fn part(&self, data: Data<'_>, part: &[Part<'_>]) -> Sums {
        let lanes = match &self.lanes {
            Lanes::One(accs) => Lanes::One(vec![Acc::default(); accs.len()]),
            Lanes::ByCpu(_) => Lanes::ByCpu(FxHashMap::default()),
        };
        let mut sums = Sums { lanes, total: Acc::default() };
        part.iter().for_each(|(chunk, range)| self.pass(data, chunk, range.clone(), &mut sums, false));
        sums
    }

    /// Lets what is there decay until a time.
    fn age(&mut self, now: u64) {
        let Some(decay) = &mut self.decay else { return };
        let left = decay.left(now.saturating_sub(decay.now));
        decay.now = decay.now.max(now);
        let scale = |acc: &mut Acc| {
            acc.samples = (acc.samples as f64 * left).round() as u64;
            acc.period = (acc.period as f64 * left).round() as u64;
        };
        if left < 1.0 && !self.total.is_zero() {
            scale(&mut self.total);
            match &mut self.lanes {
                Lanes::One(accs) => accs.iter_mut().for_each(scale),
                Lanes::ByCpu(accs) => accs.values_mut().for_each(scale),
            }
        }
    }

    /// Takes a chunk that was just evicted out again. What decays has nearly forgotten it.
    pub fn forget(&mut self, data: Data<'_>, chunk: &Chunk) {
        let first = data.profile.first();
        if self.epoch != data.profile.epoch() {
            return;
        }
        let base = first - chunk.len() as u64;
        let from = self.counted.start.clamp(base, first) - base;
        let until = self.counted.end.clamp(base, first) - base;
        if self.decay.is_none() {
            let mut sums =
                Sums { lanes: std::mem::replace(&mut self.lanes, Lanes::One(Vec::new())), total: self.total };
            self.pass(data, chunk, from as usize..until as usize, &mut sums, true);
            (self.lanes, self.total) = (sums.lanes, sums.total);
        }
        self.counted = self.counted.start.max(first)..self.counted.end.max(first);
    }

    fn pass(&self, data: Data<'_>, chunk: &Chunk, range: Range<usize>, sums: &mut Sums, take_out: bool) {
        match &mut sums.lanes {
            Lanes::One(accs) => {
                let mut add = |_, site: u32, one: Acc| {
                    let slot = &mut accs[site as usize];
                    if take_out { *slot -= one } else { *slot += one }
                };
                self.each(data, chunk, range, &mut sums.total, take_out, &mut add);
            }
            Lanes::ByCpu(accs) => {
                let mut add = |cpu, site, one: Acc| {
                    let slot = accs.entry((cpu, site)).or_default();
                    if take_out { *slot -= one } else { *slot += one }
                };
                self.each(data, chunk, range, &mut sums.total, take_out, &mut add);
            }
        }
    }

    /// Hands every sample that passes to `add`, as (CPU, site, weight).
    fn each(
        &self,
        data: Data<'_>,
        chunk: &Chunk,
        range: Range<usize>,
        total: &mut Acc,
        take_out: bool,
        add: &mut impl FnMut(u16, u32, Acc),
    ) {
        let mut passed = Acc::default();
        let whole = 0..u64::MAX;
        let window = self.window.as_ref().unwrap_or(&whole);
        if !chunk.meets(window) {
            return;
        }
        for i in range {
            let (site, event) = (chunk.site[i], chunk.event[i]);
            if event != self.event || !window.contains(&chunk.time[i]) {
                continue;
            }
            let passes = match &self.judge {
                None => true,
                Some(judge) => match judge.verdicts()[site as usize] {
                    Verdict::Yes => true,
                    Verdict::No => false,
                    Verdict::Open => judge.sample(data, chunk, i),
                },
            };
            if passes {
                let one = match &self.decay {
                    None => Acc::one(chunk.weight[i]),
                    Some(decay) => decay.weigh(chunk.time[i], chunk.weight[i]),
                };
                passed += one;
                add(chunk.cpu[i], site, one);
            }
        }
        if take_out { *total -= passed } else { *total += passed }
    }

    /// The sum over all samples that pass.
    pub fn total(&self) -> Acc {
        self.whole(self.total)
    }

    /// A weight in whole samples.
    fn whole(&self, acc: Acc) -> Acc {
        match self.decay {
            None => acc,
            Some(_) => Acc { samples: (acc.samples + ONE / 2) / ONE, period: acc.period / ONE },
        }
    }

    /// The weight of each site, by its id.
    pub fn by_site(&self) -> Cow<'_, [Acc]> {
        match &self.lanes {
            Lanes::One(accs) if self.decay.is_none() => Cow::Borrowed(accs),
            Lanes::One(accs) => accs.iter().map(|acc| self.whole(*acc)).collect(),
            Lanes::ByCpu(accs) => {
                let n = accs.keys().map(|(_, site)| *site as usize + 1).max().unwrap_or(0);
                let mut sums = vec![Acc::default(); n];
                accs.iter().for_each(|((_, site), acc)| sums[*site as usize] += *acc);
                sums.into_iter().map(|acc| self.whole(acc)).collect()
            }
        }
    }

    /// The sites with weight, as (CPU, site, weight); the CPU is 0 unless it is a key. In order.
    pub fn sites(&self) -> Vec<(u16, u32, Acc)> {
        let some = |cpu: u16, site: u32, acc: &Acc| {
            let acc = self.whole(*acc);
            (!acc.is_zero()).then_some((cpu, site, acc))
        };
        match &self.lanes {
            Lanes::One(accs) => (0..).zip(accs).filter_map(|(site, acc)| some(0, site, acc)).collect(),
            Lanes::ByCpu(accs) => {
                let mut list: Vec<_> = accs.iter().filter_map(|((cpu, site), acc)| some(*cpu, *site, acc)).collect();
                list.sort_unstable_by_key(|(cpu, site, _)| (*cpu, *site));
                list
            }
        }
    }
}

#[cfg(test)]
mod tests;
