//! The first pass: weights per site over the columns, for one event and one filter. Kept between
//! answers, so that live updates cost what is new and not what is there.

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
    lanes: Lanes,
    total: Acc,
    upto: u64,
    epoch: u64,
}

/// The part of a fold that a pass over some chunks changes.
struct Sums {
    lanes: Lanes,
    total: Acc,
}

impl Fold {
    pub fn new(event: usize, filter: Option<Arc<Filter>>, by_cpu: bool) -> Self {
        let lanes = if by_cpu { Lanes::ByCpu(FxHashMap::default()) } else { Lanes::One(Vec::new()) };
        Self { event: event as u16, judge: filter.map(Judge::new), lanes, total: Acc::default(), upto: 0, epoch: 0 }
    }

    /// Whether this fold answers for that event, filter and grouping.
    pub fn serves(&self, event: usize, filter: Option<&Arc<Filter>>, by_cpu: bool) -> bool {
        usize::from(self.event) == event
            && self.judge.as_ref().map(Judge::filter) == filter
            && matches!(self.lanes, Lanes::ByCpu(_)) == by_cpu
    }

    /// Brings the weights up to date: new samples are added; when ids or verdicts changed, all are
    /// counted anew. Samples from the absolute position `until` on are left for later.
    pub fn update(&mut self, data: Data<'_>, until: u64) {
        if self.epoch != data.profile.epoch() {
            self.epoch = data.profile.epoch();
            self.judge = self.judge.take().map(|j| Judge::new(j.filter().clone()));
            self.reset();
        }
        if self.judge.as_mut().is_some_and(|j| j.update(data)) {
            self.reset();
        }
        if let Lanes::One(accs) = &mut self.lanes {
            accs.resize(data.profile.sites.len(), Acc::default());
        }
        let from = self.upto.max(data.profile.first());
        let until = until.min(data.profile.end());
        let todo: Vec<Part<'_>> = data.profile.between(from, until).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        if until.saturating_sub(from) > PARALLEL as u64 && threads > 1 {
            self.update_parallel(data, &todo, threads);
        } else {
            let mut sums =
                Sums { lanes: std::mem::replace(&mut self.lanes, Lanes::One(Vec::new())), total: self.total };
            for (chunk, range) in todo {
                self.pass(data, chunk, range, &mut sums, false);
            }
            (self.lanes, self.total) = (sums.lanes, sums.total);
        }
        self.upto = self.upto.max(until);
    }

    fn reset(&mut self) {
        match &mut self.lanes {
            Lanes::One(accs) => accs.clear(),
            Lanes::ByCpu(accs) => accs.clear(),
        }
        self.total = Acc::default();
        self.upto = 0;
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

    /// Takes an evicted chunk out again.
    pub fn forget(&mut self, data: Data<'_>, chunk: &Chunk) {
        if self.epoch != data.profile.epoch() || self.upto < data.profile.first() {
            return;
        }
        let mut sums = Sums { lanes: std::mem::replace(&mut self.lanes, Lanes::One(Vec::new())), total: self.total };
        self.pass(data, chunk, 0..chunk.len(), &mut sums, true);
        (self.lanes, self.total) = (sums.lanes, sums.total);
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
        for i in range {
            let (site, event) = (chunk.site[i], chunk.event[i]);
            if event != self.event {
                continue;
            }
            let passes = match &self.judge {
                None => true,
                Some(judge) => match judge.verdicts()[site as usize] {
                    Verdict::Yes => true,
                    Verdict::No => false,
                    Verdict::Open => judge.sample(data, site, chunk.time[i], chunk.cpu[i], event),
                },
            };
            if passes {
                let one = Acc::one(chunk.weight[i]);
                passed += one;
                add(chunk.cpu[i], site, one);
            }
        }
        if take_out { *total -= passed } else { *total += passed }
    }

    /// The sum over all samples that pass.
    pub fn total(&self) -> Acc {
        self.total
    }

    /// The sites with weight, as (CPU, site, weight); the CPU is 0 unless it is a key. In order.
    pub fn sites(&self) -> Vec<(u16, u32, Acc)> {
        match &self.lanes {
            Lanes::One(accs) => {
                accs.iter().enumerate().filter(|(_, a)| !a.is_zero()).map(|(i, a)| (0, i as u32, *a)).collect()
            }
            Lanes::ByCpu(accs) => {
                let mut list: Vec<_> =
                    accs.iter().filter(|(_, a)| !a.is_zero()).map(|((cpu, site), a)| (*cpu, *site, *a)).collect();
                list.sort_unstable_by_key(|(cpu, site, _)| (*cpu, *site));
                list
            }
        }
    }
}
