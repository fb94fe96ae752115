//! Adds up samples to a heat map in one pass over the columns, in several threads if there are many samples.

use std::ops::Range;

use crate::perfdata::{OFF_CPU_TIME, SampleCount};
use crate::profile::{Acc, Chunk};
use crate::query::aggregate::Aggregate;
use crate::query::aggregate::filter_eval::FilterEvaluator;
use crate::query::data::Data;
use crate::query::parallel::shared;
use crate::query::rows::partner::latency_pair;
use crate::query::wall_time::CountedSamples;

use super::lanes::{LaneKind, SiteLanes, half_octave, lanes};
use super::time_cells::TimeCells;
use super::{Heat, HeatBy, HeatLane, HeatSpec, MAX_COLUMNS, MAX_ROWS, SECOND, row_at};

const MILLISECOND: u64 = 1_000_000;
/// The longest time that a sample of sleep stands for: longer sleeps are counted in parts.
const MOST_SLEEP: u64 = 11 * SECOND;
/// The most that cells have together, if they are values.
const MOST_VALUE: u64 = 1 << 30;
/// The minimum number of samples per thread.
const EACH: usize = 1 << 18;

/// The input of a map. The results of the aggregate's and the other filter must be up to date with the data.
#[derive(Clone, Copy, Debug)]
pub struct HeatInput<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) of: CountedSamples,
    pub(crate) aggregate: &'a Aggregate,
    pub(crate) lit: Option<&'a FilterEvaluator>,
    /// Absolute position after the last sample.
    pub end: u64,
}

/// Builds the map of an event's samples. `before` are the rows of the last map, `leaves` its cached lookups.
pub fn build(work: HeatInput<'_>, spec: &HeatSpec, before: &[HeatLane], leaves: &mut SiteLanes) -> Heat {
    let HeatInput { data, of, aggregate, .. } = work;
    let columns = spec.columns.clamp(1, MAX_COLUMNS);
    let mut heat = Heat { by: spec.by, length: spec.length.max(1), columns, ..Heat::default() };
    heat.in_time = of.wall.is_some() || data.events.get(of.event).is_some_and(|name| name == OFF_CPU_TIME);
    let (total, count) = (aggregate.total(), data.meaning(of.event).count);
    // Samples whose number is unknown are weighed by their values.
    heat.value = (count == SampleCount::Unknown && !heat.in_time).then_some(total.period / MOST_VALUE + 1);
    heat.total = match heat.value {
        Some(one) => total.period / one,
        None if heat.in_time => total.period / MILLISECOND,
        None => total.counted(count).0,
    };
    let Some((oldest, newest)) = data.profile.span() else { return heat };
    // A frozen view ends with the newest sample at that time.
    let frozen = work.end < data.profile.end();
    let newest = if frozen { data.profile.time_before(work.end).clamp(oldest, newest) } else { newest };
    (heat.from, heat.until) = (oldest.saturating_sub(data.start), newest.saturating_sub(data.start));
    let spec = HeatSpec { rows: spec.rows.clamp(1, MAX_ROWS), ..spec.clone() };
    let (lanes, rows) = lanes(data, of.event, aggregate, &spec, before, leaves);
    heat.rows = if spec.by == HeatBy::Offset { spec.rows } else { lanes.len() };
    heat.lanes = lanes;
    heat.first = spec.page.unwrap_or((heat.until / heat.length + 1).saturating_sub(columns as u64));
    let pass = Pass::new(work, &heat, &rows);
    let n = columns * heat.rows;
    Sums { cells: heat.cells, lit: heat.lit, running: heat.running } =
        if heat.in_time { pass.times(n) } else { pass.all(n) };
    losses(&mut heat, data, &rows);
    let from_start = |(from, until): &(u64, u64)| (from.saturating_sub(data.start), until.saturating_sub(data.start));
    heat.gaps = data.profile.gaps.all().iter().map(from_start).collect();
    heat
}

struct Pass<'a> {
    work: HeatInput<'a>,
    rows: &'a LaneKind,
    n_rows: usize,
    length: u64,
    /// Start and length of the map, in nanoseconds of the session's clock.
    begin: u64,
    span: u64,
    /// The number of samples that each stored one stands for.
    count: SampleCount,
    /// See [`Heat::value`].
    value: Option<u64>,
    /// The events of CPU time and of the latency profile.
    latency: Option<(usize, usize)>,
}

/// The figures of a part of the samples; see [`Heat`].
#[derive(Default)]
struct Sums {
    cells: Vec<u32>,
    lit: Vec<u32>,
    running: Vec<(u64, u64)>,
}

impl Sums {
    fn add(&mut self, part: Self) {
        self.cells.iter_mut().zip(part.cells).for_each(|(a, b)| *a = a.saturating_add(b));
        self.lit.iter_mut().zip(part.lit).for_each(|(a, b)| *a = a.saturating_add(b));
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        self.running.iter_mut().zip(part.running).for_each(|(a, b)| *a = sum(*a, b));
    }
}

impl<'a> Pass<'a> {
    fn new(work: HeatInput<'a>, heat: &Heat, rows: &'a LaneKind) -> Self {
        let begin = work.data.start.saturating_add(heat.column_time(0));
        let span = (heat.columns as u64).saturating_mul(heat.length);
        let latency = latency_pair(work.data.events.iter().map(String::as_str));
        let count = work.data.meaning(work.of.event).count;
        let (value, n_rows, length) = (heat.value, heat.rows, heat.length);
        Self { work, rows, n_rows, length, begin, span, count, value, latency }
    }

    fn all(&self, n: usize) -> Sums {
        if n == 0 {
            return Sums::default();
        }
        let profile = self.work.data.profile;
        let times = self.begin..self.begin.saturating_add(self.span);
        let parts: Vec<(&Chunk, Range<usize>)> =
            profile.between(profile.first(), self.work.end).filter(|(chunk, _)| chunk.meets(&times)).collect();
        let samples: usize = parts.iter().map(|(_, range)| range.len()).sum();
        let mut done = shared(&parts, samples, EACH, |part| self.part(part, n));
        let mut all = done.pop().unwrap_or_default();
        done.into_iter().for_each(|part| all.add(part));
        all
    }

    /// Returns milliseconds of thread time. A sample of time off the CPUs stands for time before it.
    fn times(&self, n: usize) -> Sums {
        if n == 0 {
            return Sums::default();
        }
        let HeatInput { data, of, lit, end, .. } = self.work;
        let is_offset = matches!(self.rows, LaneKind::Offset);
        let cells = || TimeCells::new(self.n_rows, n / self.n_rows, self.length, is_offset);
        let (mut all, mut lit_cells) = (cells(), lit.map(|_| cells()));
        let times = self.begin..self.begin.saturating_add(self.span).saturating_add(MOST_SLEEP);
        for (chunk, range) in data.profile.between(data.profile.first(), end).filter(|(chunk, _)| chunk.meets(&times)) {
            for i in range {
                let weight = of.weight(chunk.event[i], chunk.weight[i]).filter(|_| times.contains(&chunk.time[i]));
                let Some(weight) = weight.filter(|_| self.passes(chunk, i)) else { continue };
                let until = chunk.time[i] - self.begin;
                let Some(row) = self.row(chunk, i, until) else { continue };
                let took = if of.is_off_cpu(chunk.event[i]) { weight.max(SECOND) } else { 0 };
                all.add(row, until, took, weight);
                if let Some(lit_cells) =
                    lit_cells.as_mut().filter(|_| lit.is_some_and(|lit| lit.passes(data, chunk, i)))
                {
                    lit_cells.add(row, until, took, weight);
                }
            }
        }
        Sums {
            cells: all.milliseconds(),
            lit: lit_cells.map(TimeCells::milliseconds).unwrap_or_default(),
            running: Vec::new(),
        }
    }

    fn part(&self, parts: &[(&Chunk, Range<usize>)], n: usize) -> Sums {
        let mut sums = Sums {
            cells: vec![0; n],
            lit: vec![0; if self.work.lit.is_some() { n } else { 0 }],
            running: vec![(0, 0); if self.latency.is_some() { n / self.n_rows } else { 0 }],
        };
        let (clock, latency) = self.latency.unwrap_or((usize::MAX, usize::MAX));
        for (chunk, range) in parts {
            for i in range.clone() {
                let (after, event) = (chunk.time[i].wrapping_sub(self.begin), usize::from(chunk.event[i]));
                let is_shown = event == self.work.of.event;
                if after >= self.span || !is_shown && event != clock && event != latency || !self.passes(chunk, i) {
                    continue;
                }
                let column = (after / self.length) as usize;
                if let Some(running) = sums.running.get_mut(column) {
                    let (cpu, divided) = running;
                    match event {
                        event if event == clock => *cpu = cpu.saturating_add(chunk.weight[i]),
                        event if event == latency => *divided = divided.saturating_add(chunk.weight[i]),
                        _ => {}
                    }
                }
                if !is_shown {
                    continue;
                }
                let Some(row) = self.row(chunk, i, after) else { continue };
                let cell = column * self.n_rows + row;
                let n = self.samples(chunk.weight[i]);
                sums.cells[cell] = sums.cells[cell].saturating_add(n);
                if self.work.lit.is_some_and(|judge| judge.passes(self.work.data, chunk, i)) {
                    sums.lit[cell] = sums.lit[cell].saturating_add(n);
                }
            }
        }
        sums
    }

    /// Returns the number of samples that a stored one stands for, or its value: at least one, so that it can be seen.
    fn samples(&self, weight: u64) -> u32 {
        let n = match self.value {
            Some(one) => weight.saturating_add(one / 2) / one,
            None => Acc::one(weight).counted(self.count).0,
        };
        u32::try_from(n.max(1)).unwrap_or(u32::MAX)
    }

    fn passes(&self, chunk: &Chunk, i: usize) -> bool {
        self.work.aggregate.evaluator.as_ref().is_none_or(|evaluator| evaluator.passes(self.work.data, chunk, i))
    }

    fn row(&self, chunk: &Chunk, i: usize, after: u64) -> Option<usize> {
        match self.rows {
            LaneKind::Offset => Some(row_at(after % self.length, self.n_rows, self.length)),
            LaneKind::Site(rows) => Some(usize::from(rows[chunk.site[i] as usize])),
            LaneKind::Cpu(rows) => Some(usize::from(rows[usize::from(chunk.cpu[i])])),
            LaneKind::Weight { lowest, highest } => {
                Some((highest - half_octave(chunk.weight[i]).clamp(*lowest, *highest)) as usize)
            }
            LaneKind::None => None,
        }
    }
}

fn losses(heat: &mut Heat, data: Data<'_>, rows: &LaneKind) {
    heat.lost = vec![0; heat.columns];
    let begin = data.start.saturating_add(heat.column_time(0));
    for loss in data.profile.losses.all() {
        let Some(after) = loss.time.checked_sub(begin) else { continue };
        let column = after / heat.length;
        if column >= heat.columns as u64 {
            continue;
        }
        let column = column as usize;
        heat.lost[column] = heat.lost[column].saturating_add(loss.samples);
        let row = match (rows, loss.cpu) {
            (LaneKind::Offset, _) => row_at(after % heat.length, heat.rows, heat.length),
            (LaneKind::Cpu(rows), Some(cpu)) => usize::from(rows[usize::from(cpu)]),
            _ => continue,
        };
        heat.lost_cells.push(column * heat.rows + row);
    }
    heat.lost_cells.sort_unstable();
    heat.lost_cells.dedup();
}

#[cfg(test)]
mod tests;
