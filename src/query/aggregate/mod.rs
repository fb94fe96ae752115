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
use super::wall_time::CountedSamples;
use changes::{Changes, SiteChange};
use filter_eval::FilterEvaluator;

/// The number of samples from which a full pass uses several threads.
const PARALLEL: usize = 1 << 19;

type Part<'a> = (&'a Chunk, Range<usize>);

/// Weights per site; with CPU or tracepoint field keys, per lane and site.
#[derive(Clone, Debug)]
enum Weighting {
    BySite(Vec<Acc>),
    ByLane(FxHashMap<(Lane, u32), Acc>),
}

impl Default for Weighting {
    fn default() -> Self {
        Self::BySite(Vec::new())
    }
}

impl Weighting {
    /// Returns zero weights of the same kind, for as many sites.
    fn zeroed(&self) -> Self {
        match self {
            Self::BySite(accs) => Self::BySite(vec![Acc::default(); accs.len()]),
            Self::ByLane(_) => Self::ByLane(FxHashMap::default()),
        }
    }

    fn slot(&mut self, lane: Lane, site: u32) -> &mut Acc {
        match self {
            Self::BySite(accs) => &mut accs[site as usize],
            Self::ByLane(accs) => accs.entry((lane, site)).or_default(),
        }
    }

    /// Returns the weights of some sites, without those that are zero.
    fn of_sites(&self, sites: &[u32]) -> Vec<(Lane, u32, Acc)> {
        match self {
            Self::BySite(accs) => {
                let of = |site: &u32| accs.get(*site as usize).map(|acc| (0, *site, *acc));
                sites.iter().filter_map(of).filter(|(.., acc)| !acc.is_zero()).collect()
            }
            Self::ByLane(_) if sites.is_empty() => Vec::new(),
            Self::ByLane(accs) => {
                let wanted: FxHashSet<u32> = sites.iter().copied().collect();
                let of = accs.iter().filter(|((_, site), acc)| wanted.contains(site) && !acc.is_zero());
                of.map(|((lane, site), acc)| (*lane, *site, *acc)).collect()
            }
        }
    }
}

/// The samples that an aggregate adds up, and how it separates those of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SampleSelection {
    pub(crate) of: CountedSamples,
    pub(crate) filter: Option<Arc<Filter>>,
    /// Only samples in this time range of the session's clock.
    pub(crate) window: Option<Range<u64>>,
    /// The half-life of weights, in nanoseconds.
    pub(crate) half_life: Option<u64>,
    pub(crate) by_cpu: bool,
    /// Tracepoint fields, and the length of time slices in nanoseconds.
    pub(crate) fields: Vec<&'static str>,
    pub(crate) quantum: Option<u64>,
}

impl SampleSelection {
    /// Separates samples by those keys that do not belong to sites.
    pub(crate) fn group_by(self, keys: &[ColumnKey]) -> Self {
        let quantum = |key: &ColumnKey| if let ColumnKey::Time(quantum) = key { Some(*quantum) } else { None };
        Self {
            by_cpu: keys.iter().any(|key| key.is_of_cpu()),
            fields: keys.iter().filter_map(|key| key.traced()).collect(),
            quantum: keys.iter().find_map(quantum),
            ..self
        }
    }
}

/// The weights of all samples that pass the filter.
#[derive(Debug, Default)]
pub struct Aggregate {
    pub(crate) selection: SampleSelection,
    pub(crate) evaluator: Option<FilterEvaluator>,
    /// The tracepoint field values that separate samples.
    pub(crate) traced: Option<Arc<FieldCombinations>>,
    sums: Accumulators,
    /// Absolute positions of the counted samples.
    counted: Range<u64>,
    epoch: (u64, u32),
    /// The version of names at the last update.
    names: u64,
    /// The reference time of ages while weights decay: that of the newest sample.
    now: u64,
}

/// The weight of a sample while weights decay, so that small remainders are not lost in rounding.
const ONE: u64 = 1 << 10;

/// Returns the share of a weight that remains after some time.
fn remaining(half_life: u64, ns: u64) -> f64 {
    (-(ns as f64) / half_life.max(1) as f64).exp2()
}

/// The part of an aggregate that a pass over some chunks changes.
#[derive(Debug, Default)]
struct Accumulators {
    weighting: Weighting,
    total: Acc,
    changes: Changes,
}

/// The direction of a pass: adding or removing, and whether names may have changed since samples were counted.
#[derive(Clone, Copy)]
struct Removal {
    out: bool,
    before: bool,
}

const ADD: Removal = Removal { out: false, before: false };

impl Aggregate {
    /// Creates an empty aggregate of an event's samples that pass a filter, if any.
    pub fn new(event: usize, filter: Option<Arc<Filter>>) -> Self {
        let of = CountedSamples { event, wall: None };
        Self::of(SampleSelection { of, filter, ..SampleSelection::default() }, None)
    }

    /// Creates an empty aggregate. The results of another one's filter are reused if it is the same.
    pub(crate) fn of(selection: SampleSelection, other: Option<&Self>) -> Self {
        let traced = FieldCombinations::of(&selection.fields, selection.quantum);
        let by_lane = selection.by_cpu || traced.is_some();
        let weighting = if by_lane { Weighting::ByLane(FxHashMap::default()) } else { Weighting::default() };
        let sums = Accumulators { weighting, ..Accumulators::default() };
        match other.filter(|other| other.selection.filter == selection.filter) {
            Some(Self { evaluator, epoch, names, .. }) => Self {
                evaluator: evaluator.clone(),
                epoch: *epoch,
                names: *names,
                selection,
                traced,
                sums,
                ..Self::default()
            },
            None => {
                let evaluator = selection.filter.clone().map(FilterEvaluator::new);
                Self { evaluator, selection, traced, sums, ..Self::default() }
            }
        }
    }

    /// Creates an empty aggregate of another event with the same selection otherwise, without tracepoint fields.
    pub(crate) fn of_event(event: usize, other: &Self) -> Self {
        Self::of(other.selection_of_event(event), Some(other))
    }

    pub(crate) fn selection_of_event(&self, event: usize) -> SampleSelection {
        let of = CountedSamples { event, wall: None };
        SampleSelection { of, fields: Vec::new(), quantum: None, ..self.selection.clone() }
    }

    /// Separates samples by those keys that do not belong to sites.
    pub(crate) fn group_by(self, keys: &[ColumnKey]) -> Self {
        Self::of(self.selection.clone().group_by(keys), Some(&self))
    }

    /// Adds all samples.
    pub(crate) fn over(mut self, data: Data<'_>) -> Self {
        self.update(data, 0..u64::MAX);
        self
    }

    /// Updates the weights to the samples at these absolute positions.
    /// Adds new samples, removes those that left the range, and moves those whose names or filter results changed.
    /// Counts everything from scratch if IDs changed, or the range begins or ends earlier than before.
    pub fn update(&mut self, data: Data<'_>, wanted: Range<u64>) {
        let decays = self.selection.half_life.is_some();
        self.sums.changes.begin();
        if self.epoch != data.profile.sums_epoch() {
            self.epoch = data.profile.sums_epoch();
            self.evaluator = self.selection.filter.clone().map(FilterEvaluator::new);
            self.reset();
        }
        let renamed = data.profile.renamed_since(self.names);
        let changed = self.evaluator.as_mut().map(|evaluator| evaluator.update(data)).unwrap_or_default();
        self.names = data.profile.frames.names();
        let first = wanted.start.max(data.profile.first());
        let until = wanted.end.min(data.profile.end());
        if first < self.counted.start || first > self.counted.end || until < self.counted.end {
            self.reset();
        }
        match renamed.filter(|_| !decays || changed.is_empty()) {
            Some(renamed) => self.apply_renames(data, renamed, changed),
            None if changed.is_empty() => self.sums.changes.all(),
            None => self.reset(),
        }
        if let Weighting::BySite(accs) = &mut self.sums.weighting {
            accs.resize(data.profile.sites.len(), Acc::default());
        }
        if self.counted.is_empty() {
            self.counted = first..first;
        }
        if !decays {
            self.count(data, self.counted.start..first, Removal { out: true, before: false }, |_| true);
        }
        self.age(data.profile.time_before(until));
        let todo = self.counted.end.max(first)..until;
        if until.saturating_sub(todo.start) > PARALLEL as u64 {
            self.sums.changes.all();
            let todo: Vec<Part<'_>> = data.profile.between(todo.start, until).collect();
            self.count_parallel(data, &todo);
        } else {
            self.count(data, todo, ADD, |_| true);
        }
        if decays && !self.sums.changes.is_empty() {
            // Their weights are multiples of the sums'.
            self.sums.changes.all();
        }
        self.counted = first..until.max(first);
    }

    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::replace(&mut self.sums.changes, Changes::none())
    }

    /// Moves sites with renamed frames. Counts the samples of sites with changed filter results again.
    fn apply_renames(&mut self, data: Data<'_>, renamed: RenamedFrames, changed: Vec<u32>) {
        if renamed.is_empty() || self.counted.is_empty() {
            return;
        }
        let changed: FxHashSet<u32> = changed.into_iter().collect();
        let Accumulators { weighting, total, changes } = &mut self.sums;
        for (lane, site, acc) in weighting.of_sites(&renamed.sites(data.profile, data.profile.sites.len())) {
            changes.note(SiteChange { lane, site, acc, out: true, before: true });
            if changed.contains(&site) {
                *total -= acc;
                *weighting.slot(lane, site) = Acc::default();
            } else {
                changes.note(SiteChange { lane, site, acc, out: false, before: false });
            }
        }
        let from = renamed.born.sample.max(self.counted.start);
        changes.rename(renamed.before);
        if !changed.is_empty() {
            self.count(data, from..self.counted.end, ADD, |site| changed.contains(&site));
        }
    }

    /// Adds or removes the samples of some sites.
    fn count(&mut self, data: Data<'_>, range: Range<u64>, removal: Removal, of: impl Fn(u32) -> bool) {
        let mut sums = std::mem::take(&mut self.sums);
        for (chunk, part) in data.profile.between(range.start, range.end) {
            self.pass(data, chunk, part, &mut sums, removal, &of);
        }
        self.sums = sums;
    }

    fn reset(&mut self) {
        match &mut self.sums.weighting {
            Weighting::BySite(accs) => accs.clear(),
            Weighting::ByLane(accs) => accs.clear(),
        }
        self.sums.total = Acc::default();
        self.sums.changes.all();
        (self.counted, self.now) = (0..0, 0);
    }

    fn count_parallel(&mut self, data: Data<'_>, todo: &[Part<'_>]) {
        let pass = |parts: &[Part<'_>]| {
            let mut sums = Accumulators { weighting: self.sums.weighting.zeroed(), ..Accumulators::default() };
            for (chunk, range) in parts {
                self.pass(data, chunk, range.clone(), &mut sums, ADD, &|_| true);
            }
            sums
        };
        for part in shared(todo, todo.len(), 1, pass) {
            self.sums.total += part.total;
            match (&mut self.sums.weighting, part.weighting) {
                (Weighting::BySite(all), Weighting::BySite(part)) => {
                    all.iter_mut().zip(part).for_each(|(a, b)| *a += b);
                }
                (all, Weighting::ByLane(part)) => {
                    part.into_iter().for_each(|((lane, site), acc)| *all.slot(lane, site) += acc);
                }
                _ => {}
            }
        }
    }

    /// Lets weights decay up to a time.
    fn age(&mut self, now: u64) {
        let Some(half_life) = self.selection.half_life else { return };
        let left = remaining(half_life, now.saturating_sub(self.now));
        self.now = self.now.max(now);
        let Accumulators { weighting, total, changes } = &mut self.sums;
        let scale = |acc: &mut Acc| {
            acc.samples = (acc.samples as f64 * left).round() as u64;
            acc.period = (acc.period as f64 * left).round() as u64;
        };
        if left < 1.0 && !total.is_zero() {
            changes.all();
            scale(total);
            match weighting {
                Weighting::BySite(accs) => accs.iter_mut().for_each(scale),
                Weighting::ByLane(accs) => accs.values_mut().for_each(scale),
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
        if self.selection.half_life.is_none() {
            let mut sums = std::mem::take(&mut self.sums);
            let removal = Removal { out: true, before: true };
            self.pass(data, chunk, from as usize..until as usize, &mut sums, removal, &|_| true);
            self.sums = sums;
        }
        self.counted = self.counted.start.max(first)..self.counted.end.max(first);
    }

    /// Adds or removes the samples of some sites in a chunk.
    fn pass(
        &self,
        data: Data<'_>,
        chunk: &Chunk,
        range: Range<usize>,
        sums: &mut Accumulators,
        Removal { out, before }: Removal,
        of: &impl Fn(u32) -> bool,
    ) {
        let SampleSelection { of: counted, window, half_life, by_cpu, .. } = &self.selection;
        let whole = 0..u64::MAX;
        let window = window.as_ref().unwrap_or(&whole);
        if !chunk.meets(window) {
            return;
        }
        let reader = self.traced.as_ref().map(|traced| traced.reader(data, counted.event as u16));
        let mut passed = Acc::default();
        for row in range {
            let (site, time) = (chunk.site[row], chunk.time[row]);
            let Some(weight) = counted.weight(chunk.event[row], chunk.weight[row]) else { continue };
            if !window.contains(&time) || !of(site) {
                continue;
            }
            if !self.evaluator.as_ref().is_none_or(|evaluator| evaluator.passes(data, chunk, row)) {
                continue;
            }
            let one = match half_life {
                None => Acc::one(weight),
                Some(half_life) => {
                    let left = remaining(*half_life, self.now.saturating_sub(time)) * ONE as f64;
                    let period = (weight as f64 * left).round() as u64;
                    Acc { samples: left.round() as u64, period }
                }
            };
            let values = reader.as_ref().map_or(0, |reader| reader.number(chunk.raw(row), time));
            let lane = lane(if *by_cpu { chunk.cpu[row] } else { 0 }, values);
            passed += one;
            let change = SiteChange { lane, site, acc: one, out, before };
            change.apply_to(sums.weighting.slot(lane, site));
            sums.changes.note(change);
        }
        if out { sums.total -= passed } else { sums.total += passed }
    }

    /// Returns the sum over all samples that pass.
    pub fn total(&self) -> Acc {
        self.whole(self.sums.total)
    }

    fn whole(&self, acc: Acc) -> Acc {
        match self.selection.half_life {
            None => acc,
            Some(_) => Acc { samples: (acc.samples + ONE / 2) / ONE, period: acc.period / ONE },
        }
    }

    pub(crate) fn by_site(&self) -> Cow<'_, [Acc]> {
        match &self.sums.weighting {
            Weighting::BySite(accs) if self.selection.half_life.is_none() => Cow::Borrowed(accs),
            Weighting::BySite(accs) => accs.iter().map(|acc| self.whole(*acc)).collect(),
            Weighting::ByLane(accs) => {
                let n = accs.keys().map(|(_, site)| *site as usize + 1).max().unwrap_or(0);
                let mut sums = vec![Acc::default(); n];
                accs.iter().for_each(|((_, site), acc)| sums[*site as usize] += *acc);
                sums.into_iter().map(|acc| self.whole(acc)).collect()
            }
        }
    }

    /// Passes each site with its weight, in any order; a site may come once for each lane, or without weight.
    pub(crate) fn each_site(&self, mut each: impl FnMut(u32, Acc)) {
        match &self.sums.weighting {
            Weighting::BySite(accs) => {
                (0..).zip(accs).filter(|(_, acc)| !acc.is_zero()).for_each(|(site, acc)| each(site, self.whole(*acc)));
            }
            Weighting::ByLane(accs) => accs.iter().for_each(|((_, site), acc)| each(*site, self.whole(*acc))),
        }
    }

    /// Returns the sites with weight, as sorted (lane, site, weight). The lane is 0 if no key uses it.
    pub(crate) fn sites(&self) -> Vec<(Lane, u32, Acc)> {
        let some = |lane: Lane, site: u32, acc: &Acc| {
            let acc = self.whole(*acc);
            (!acc.is_zero()).then_some((lane, site, acc))
        };
        match &self.sums.weighting {
            Weighting::BySite(accs) => (0..).zip(accs).filter_map(|(site, acc)| some(0, site, acc)).collect(),
            Weighting::ByLane(accs) => {
                let mut list: Vec<_> = accs.iter().filter_map(|((lane, site), acc)| some(*lane, *site, acc)).collect();
                list.sort_unstable_by_key(|(lane, site, _)| (*lane, *site));
                list
            }
        }
    }
}

#[cfg(test)]
mod tests;
