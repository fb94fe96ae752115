//! The first pass: weights per site over the columns, for one event and one filter.
//! It is kept between answers, so that live updates cost only what is new.

pub mod changes;
pub(crate) mod filter_eval;
pub(crate) mod shown_total;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::filter::Filter;
use crate::profile::{Acc, Chunk, RenamedFrames};

use super::column::ColumnKey;
use super::column::field_rows::{FieldCombinations, Lane, lane};
use super::data::Data;
use super::parallel::shared;
use changes::{Changes, SiteChange};
use filter_eval::FilterEvaluator;

/// The number of samples from which a full pass uses several threads.
const PARALLEL: usize = 1 << 19;

type Part<'a> = (&'a Chunk, Range<usize>);

/// Weights per site; with CPU or tracepoint field keys, per lane and site.
#[derive(Clone, Debug)]
enum Lanes {
    One(Vec<Acc>),
    ByLane(FxHashMap<(Lane, u32), Acc>),
}

impl Default for Lanes {
    fn default() -> Self {
        Self::One(Vec::new())
    }
}

/// The weights of all samples that pass the filter.
#[derive(Debug, Default)]
pub struct Aggregate {
    event: u16,
    judge: Option<FilterEvaluator>,
    /// Only samples in this time range count.
    window: Option<Range<u64>>,
    lanes: Lanes,
    /// Whether lanes separate CPUs, and which tracepoint field values.
    by_cpu: bool,
    traced: Option<Arc<FieldCombinations>>,
    total: Acc,
    /// Absolute positions of the counted samples.
    counted: Range<u64>,
    epoch: (u64, u32),
    /// The version of names at the last update.
    names: u64,
    decay: Option<Decay>,
    changes: Changes,
}

/// Weight that decays with age, in multiples of 1/[`ONE`], so that small remainders are not lost in rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decay {
    /// The half-life of a sample's weight, in nanoseconds.
    half: u64,
    /// The reference time of ages: that of the newest sample.
    now: u64,
}

/// The weight of a sample while weights decay.
const ONE: u64 = 1 << 10;

impl Decay {
    /// Returns the remaining share after some time.
    fn left(&self, ns: u64) -> f64 {
        (-(ns as f64) / self.half.max(1) as f64).exp2()
    }

    fn weigh(&self, time: u64, weight: u64) -> Acc {
        let left = self.left(self.now.saturating_sub(time)) * ONE as f64;
        Acc { samples: left.round() as u64, period: (weight as f64 * left).round() as u64 }
    }
}

fn quantum(keys: &[ColumnKey]) -> Option<u64> {
    keys.iter().find_map(|key| if let ColumnKey::Time(quantum) = key { Some(*quantum) } else { None })
}

/// The part of an aggregate that a pass over some chunks changes.
struct Sums {
    lanes: Lanes,
    total: Acc,
    changes: Changes,
}

impl Aggregate {
    /// Creates an empty aggregate of an event's samples that pass a filter, if any.
    pub fn new(event: usize, filter: Option<Arc<Filter>>) -> Self {
        Self { event: event as u16, judge: filter.map(FilterEvaluator::new), ..Self::default() }
    }

    /// Creates an empty aggregate with another one's filter and its results.
    pub(crate) fn like(other: &Self) -> Self {
        let (judge, epoch, names) = (other.judge.clone(), other.epoch, other.names);
        Self { judge, epoch, names, ..Self::new(usize::from(other.event), None) }
    }

    /// Creates an empty aggregate of another event, with another one's filter and its results, time range and keys.
    pub(crate) fn of_event(event: usize, other: &Self) -> Self {
        let lanes = if other.by_cpu { Lanes::ByLane(FxHashMap::default()) } else { Lanes::default() };
        let decay = other.decay.map(|decay| Decay { now: 0, ..decay });
        let (window, by_cpu) = (other.window.clone(), other.by_cpu);
        Self { event: event as u16, window, lanes, by_cpu, decay, ..Self::like(other) }
    }

    pub(crate) fn is_of_event(&self, event: usize, other: &Self) -> bool {
        let half = |of: &Self| of.decay.map(|decay| decay.half);
        self.has(event, other.judge.as_ref().map(FilterEvaluator::filter))
            && (&self.window, self.by_cpu, half(self)) == (&other.window, other.by_cpu, half(other))
            && self.traced.is_none()
    }

    /// Restricts the aggregate to a time range of the session's clock.
    pub(crate) fn within(mut self, window: Option<Range<u64>>) -> Self {
        self.window = window;
        self
    }

    /// Separates samples by those keys that do not belong to sites.
    pub(crate) fn group_by(mut self, keys: &[ColumnKey]) -> Self {
        self.by_cpu = keys.contains(&ColumnKey::Cpu);
        self.traced = FieldCombinations::of(keys.iter().filter_map(|key| key.traced()), quantum(keys));
        let apart = self.by_cpu || self.traced.is_some();
        self.lanes = if apart { Lanes::ByLane(FxHashMap::default()) } else { Lanes::default() };
        self
    }

    /// Returns the tracepoint field values that separate samples.
    pub(crate) fn traced(&self) -> Option<&Arc<FieldCombinations>> {
        self.traced.as_ref()
    }

    pub(crate) fn has(&self, event: usize, filter: Option<&Arc<Filter>>) -> bool {
        usize::from(self.event) == event && self.judge.as_ref().map(FilterEvaluator::filter) == filter
    }

    pub(crate) fn window(&self) -> Option<&Range<u64>> {
        self.window.as_ref()
    }

    /// Sets the half-life of weights, in nanoseconds.
    pub(crate) fn decaying(mut self, half: Option<u64>) -> Self {
        self.decay = half.map(|half| Decay { half, now: 0 });
        self
    }

    pub(crate) fn serves(
        &self,
        event: usize,
        filter: Option<&Arc<Filter>>,
        keys: &[ColumnKey],
        half: Option<u64>,
    ) -> bool {
        let apart = self.by_cpu == keys.contains(&ColumnKey::Cpu)
            && FieldCombinations::serves(
                self.traced.as_ref(),
                keys.iter().filter_map(|key| key.traced()),
                quantum(keys),
            );
        self.has(event, filter) && apart && self.decay.map(|d| d.half) == half
    }

    pub(crate) fn judge(&self) -> Option<&FilterEvaluator> {
        self.judge.as_ref()
    }

    /// Updates the weights to the samples at these absolute positions.
    /// Adds new samples, removes those that left the range, and moves those whose names or filter results changed.
    /// Counts everything from scratch if IDs changed, or the range begins or ends earlier than before.
    pub fn update(&mut self, data: Data<'_>, wanted: Range<u64>) {
        self.changes.begin();
        if self.epoch != data.profile.sums_epoch() {
            self.epoch = data.profile.sums_epoch();
            self.judge = self.judge.take().map(|j| FilterEvaluator::new(j.filter().clone()));
            self.reset();
        }
        let renamed = data.profile.renamed_since(self.names);
        let changed = self.judge.as_mut().map(|judge| judge.update(data)).unwrap_or_default();
        self.names = data.profile.frames.names();
        let first = wanted.start.max(data.profile.first());
        let until = wanted.end.min(data.profile.end());
        if first < self.counted.start || first > self.counted.end || until < self.counted.end {
            self.reset();
        }
        match renamed.filter(|_| self.decay.is_none() || changed.is_empty()) {
            Some(renamed) => self.retell(data, renamed, changed),
            None if changed.is_empty() => self.changes.all(),
            None => self.reset(),
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
            self.changes.all();
            let todo: Vec<Part<'_>> = data.profile.between(todo.start, until).collect();
            self.update_parallel(data, &todo);
        } else {
            self.each_part(data, todo, false);
        }
        self.counted = first..until.max(first);
    }

    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::replace(&mut self.changes, Changes::none())
    }

    /// Moves sites with renamed frames. Counts the samples of sites with changed filter results again.
    fn retell(&mut self, data: Data<'_>, renamed: RenamedFrames, changed: Vec<u32>) {
        if renamed.is_empty() || self.counted.is_empty() {
            return;
        }
        let changed: FxHashSet<u32> = changed.into_iter().collect();
        for (lane, site, acc) in self.weights_of(&renamed.sites(data.profile, data.profile.sites.len())) {
            self.changes.note(SiteChange { lane, site, acc, out: true, before: true });
            if !changed.contains(&site) {
                self.changes.note(SiteChange { lane, site, acc, out: false, before: false });
                continue;
            }
            self.total -= acc;
            match &mut self.lanes {
                Lanes::One(accs) => accs[site as usize] = Acc::default(),
                Lanes::ByLane(accs) => drop(accs.remove(&(lane, site))),
            }
        }
        let from = renamed.born.sample.max(self.counted.start);
        self.changes.rename(renamed.before);
        if !changed.is_empty() {
            self.each_of(data, from..self.counted.end, false, |site| changed.contains(&site));
        }
    }

    fn weights_of(&self, sites: &[u32]) -> Vec<(Lane, u32, Acc)> {
        match &self.lanes {
            Lanes::One(accs) => {
                let of = |site: &u32| accs.get(*site as usize).map(|acc| (0, *site, *acc));
                sites.iter().filter_map(of).filter(|(.., acc)| !acc.is_zero()).collect()
            }
            Lanes::ByLane(_) if sites.is_empty() => Vec::new(),
            Lanes::ByLane(accs) => {
                let wanted: FxHashSet<u32> = sites.iter().copied().collect();
                let of = accs.iter().filter(|((_, site), acc)| wanted.contains(site) && !acc.is_zero());
                of.map(|((lane, site), acc)| (*lane, *site, *acc)).collect()
            }
        }
    }

    /// Adds or removes the samples of a range.
    fn each_part(&mut self, data: Data<'_>, range: Range<u64>, take_out: bool) {
        self.each_of(data, range, take_out, |_| true);
    }

    /// Adds or removes the samples of some sites.
    fn each_of(&mut self, data: Data<'_>, range: Range<u64>, take_out: bool, of: impl Fn(u32) -> bool) {
        let mut sums = self.sums();
        for (chunk, part) in data.profile.between(range.start, range.end) {
            self.pass(data, chunk, part, &mut sums, (take_out, false), &of);
        }
        self.keep(sums);
    }

    fn sums(&mut self) -> Sums {
        Sums { lanes: std::mem::take(&mut self.lanes), total: self.total, changes: self.take_changes() }
    }

    fn keep(&mut self, sums: Sums) {
        (self.lanes, self.total, self.changes) = (sums.lanes, sums.total, sums.changes);
    }

    fn reset(&mut self) {
        match &mut self.lanes {
            Lanes::One(accs) => accs.clear(),
            Lanes::ByLane(accs) => accs.clear(),
        }
        self.total = Acc::default();
        self.counted = 0..0;
        self.changes.all();
        if let Some(decay) = &mut self.decay {
            decay.now = 0;
        }
    }

    fn update_parallel(&mut self, data: Data<'_>, todo: &[Part<'_>]) {
        for part in shared(todo, todo.len(), 1, |part| self.part(data, part)) {
            self.total += part.total;
            match (&mut self.lanes, part.lanes) {
                (Lanes::One(all), Lanes::One(part)) => all.iter_mut().zip(part).for_each(|(a, b)| *a += b),
                (Lanes::ByLane(all), Lanes::ByLane(part)) => {
                    part.into_iter().for_each(|(k, v)| *all.entry(k).or_default() += v)
                }
                _ => {}
            }
        }
    }

    fn part(&self, data: Data<'_>, part: &[Part<'_>]) -> Sums {
        let lanes = match &self.lanes {
            Lanes::One(accs) => Lanes::One(vec![Acc::default(); accs.len()]),
            Lanes::ByLane(_) => Lanes::ByLane(FxHashMap::default()),
        };
        let mut sums = Sums { lanes, total: Acc::default(), changes: Changes::default() };
        for (chunk, range) in part {
            self.pass(data, chunk, range.clone(), &mut sums, (false, false), &|_| true);
        }
        sums
    }

    fn age(&mut self, now: u64) {
        let Some(decay) = &mut self.decay else { return };
        let left = decay.left(now.saturating_sub(decay.now));
        decay.now = decay.now.max(now);
        let scale = |acc: &mut Acc| {
            acc.samples = (acc.samples as f64 * left).round() as u64;
            acc.period = (acc.period as f64 * left).round() as u64;
        };
        if left < 1.0 && !self.total.is_zero() {
            self.changes.all();
            scale(&mut self.total);
            match &mut self.lanes {
                Lanes::One(accs) => accs.iter_mut().for_each(scale),
                Lanes::ByLane(accs) => accs.values_mut().for_each(scale),
            }
        }
    }

    /// Removes the samples of an evicted chunk. Decayed weights are almost zero by then.
    pub(crate) fn forget(&mut self, data: Data<'_>, chunk: &Chunk) {
        let first = data.profile.first();
        if self.epoch != data.profile.sums_epoch() {
            return;
        }
        let base = first - chunk.len() as u64;
        let from = self.counted.start.clamp(base, first) - base;
        let until = self.counted.end.clamp(base, first) - base;
        if self.decay.is_none() {
            let mut sums = self.sums();
            self.pass(data, chunk, from as usize..until as usize, &mut sums, (true, true), &|_| true);
            self.keep(sums);
        }
        self.counted = self.counted.start.max(first)..self.counted.end.max(first);
    }

    /// Adds or removes the samples of some sites. `before` states that names may have changed since they were counted.
    fn pass(
        &self,
        data: Data<'_>,
        chunk: &Chunk,
        range: Range<usize>,
        sums: &mut Sums,
        (out, before): (bool, bool),
        of: &impl Fn(u32) -> bool,
    ) {
        let Sums { lanes, total, changes } = sums;
        let reader = self.traced.as_ref().map(|traced| traced.reader(data, self.event));
        let mut passed = Acc::default();
        let mut add = |row: usize, site: u32, one: Acc| {
            let values = reader.as_ref().map_or(0, |reader| reader.number(chunk.raw(row), chunk.time[row]));
            let lane = lane(if self.by_cpu { chunk.cpu[row] } else { 0 }, values);
            passed += one;
            let slot = match lanes {
                Lanes::One(accs) => &mut accs[site as usize],
                Lanes::ByLane(accs) => accs.entry((lane, site)).or_default(),
            };
            if out {
                *slot -= one
            } else {
                *slot += one
            }
            changes.note(SiteChange { lane, site, acc: one, out, before });
        };
        self.each(data, chunk, range, of, &mut add);
        if out { *total -= passed } else { *total += passed }
    }

    /// Calls `add` with (row, site, weight) of every sample that passes.
    fn each(
        &self,
        data: Data<'_>,
        chunk: &Chunk,
        range: Range<usize>,
        of: &impl Fn(u32) -> bool,
        add: &mut impl FnMut(usize, u32, Acc),
    ) {
        let whole = 0..u64::MAX;
        let window = self.window.as_ref().unwrap_or(&whole);
        if !chunk.meets(window) {
            return;
        }
        for i in range {
            let (site, event) = (chunk.site[i], chunk.event[i]);
            if event != self.event || !window.contains(&chunk.time[i]) || !of(site) {
                continue;
            }
            if self.judge.as_ref().is_none_or(|judge| judge.passes(data, chunk, i)) {
                let one = match &self.decay {
                    None => Acc::one(chunk.weight[i]),
                    Some(decay) => decay.weigh(chunk.time[i], chunk.weight[i]),
                };
                add(i, site, one);
            }
        }
    }

    /// Returns the sum over all samples that pass.
    pub fn total(&self) -> Acc {
        self.whole(self.total)
    }

    /// Converts a weight to whole samples.
    fn whole(&self, acc: Acc) -> Acc {
        match self.decay {
            None => acc,
            Some(_) => Acc { samples: (acc.samples + ONE / 2) / ONE, period: acc.period / ONE },
        }
    }

    pub(crate) fn by_site(&self) -> Cow<'_, [Acc]> {
        match &self.lanes {
            Lanes::One(accs) if self.decay.is_none() => Cow::Borrowed(accs),
            Lanes::One(accs) => accs.iter().map(|acc| self.whole(*acc)).collect(),
            Lanes::ByLane(accs) => {
                let n = accs.keys().map(|(_, site)| *site as usize + 1).max().unwrap_or(0);
                let mut sums = vec![Acc::default(); n];
                accs.iter().for_each(|((_, site), acc)| sums[*site as usize] += *acc);
                sums.into_iter().map(|acc| self.whole(acc)).collect()
            }
        }
    }

    /// Returns the sites with weight, as sorted (lane, site, weight). The lane is 0 if no key uses it.
    pub(crate) fn sites(&self) -> Vec<(Lane, u32, Acc)> {
        let some = |lane: Lane, site: u32, acc: &Acc| {
            let acc = self.whole(*acc);
            (!acc.is_zero()).then_some((lane, site, acc))
        };
        match &self.lanes {
            Lanes::One(accs) => (0..).zip(accs).filter_map(|(site, acc)| some(0, site, acc)).collect(),
            Lanes::ByLane(accs) => {
                let mut list: Vec<_> = accs.iter().filter_map(|((lane, site), acc)| some(*lane, *site, acc)).collect();
                list.sort_unstable_by_key(|(lane, site, _)| (*lane, *site));
                list
            }
        }
    }
}

#[cfg(test)]
mod tests;
