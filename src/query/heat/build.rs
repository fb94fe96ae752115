//! Adds samples up into a map: one pass over the columns, shared among threads where there are many.

use std::ops::Range;

use crate::profile::Chunk;
use crate::query::judge::{Judge, Verdict};
use crate::query::{Data, Fold};

use super::lanes::{Leaves, Rows, half_octave, lanes};
use super::{By, Heat, HeatSpec, Lane, MAX_COLUMNS, MAX_ROWS, row_at};

/// Samples from which the pass is shared among threads.
const PARALLEL: usize = 1 << 19;

/// What a map is made from: the fold's and the other filter's verdicts are up to date with the data.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub data: Data<'a>,
    pub event: usize,
    pub fold: &'a Fold,
    pub lit: Option<&'a Judge>,
    /// Absolute position after the last sample.
    pub end: u64,
}

/// The map of an event's samples; `before` are the rows of the last one, `leaves` what it has looked up.
pub fn build(work: Work<'_>, spec: &HeatSpec, before: &[Lane], leaves: &mut Leaves) -> Heat {
    let Work { data, event, fold, .. } = work;
    let columns = spec.columns.clamp(1, MAX_COLUMNS);
    let mut heat = Heat { by: spec.by, length: spec.length.max(1), columns, ..Heat::default() };
    heat.total = fold.total().samples;
    let Some((oldest, newest)) = data.profile.span() else { return heat };
    // Looked at as it was, it ends with what was the last sample then.
    let frozen = work.end < data.profile.end();
    let newest = if frozen { data.profile.time_before(work.end).clamp(oldest, newest) } else { newest };
    (heat.from, heat.until) = (oldest.saturating_sub(data.start), newest.saturating_sub(data.start));
    let spec = HeatSpec { rows: spec.rows.clamp(1, MAX_ROWS), ..spec.clone() };
    let (lanes, rows) = lanes(data, event, fold, &spec, before, leaves);
    heat.rows = if spec.by == By::Offset { spec.rows } else { lanes.len() };
    heat.lanes = lanes;
    heat.first = spec.page.unwrap_or((heat.until / heat.length + 1).saturating_sub(columns as u64));
    let pass = Pass::new(work, &heat, &rows);
    let n = columns * heat.rows;
    (heat.cells, heat.lit) = pass.all(n);
    losses(&mut heat, data, &rows);
    let from_start = |(from, until): &(u64, u64)| (from.saturating_sub(data.start), until.saturating_sub(data.start));
    heat.gaps = data.profile.gaps.all().iter().map(from_start).collect();
    heat
}

/// One pass over the columns.
struct Pass<'a> {
    work: Work<'a>,
    rows: &'a Rows,
    n_rows: usize,
    length: u64,
    /// When the map begins and how long it is, in nanoseconds of the session's clock.
    begin: u64,
    span: u64,
}

type Cells = (Vec<u32>, Vec<u32>);

impl<'a> Pass<'a> {
    fn new(work: Work<'a>, heat: &Heat, rows: &'a Rows) -> Self {
        let begin = work.data.start.saturating_add(heat.column_time(0));
        let span = (heat.columns as u64).saturating_mul(heat.length);
        Self { work, rows, n_rows: heat.rows, length: heat.length, begin, span }
    }

    fn all(&self, n: usize) -> Cells {
        if n == 0 {
            return (Vec::new(), Vec::new());
        }
        let profile = self.work.data.profile;
        let until = self.begin.saturating_add(self.span);
        // Samples may be out of order within a chunk, so each says what times it has.
        let inside = |chunk: &Chunk| chunk.times().is_some_and(|(low, high)| high >= self.begin && low < until);
        let parts: Vec<(&Chunk, Range<usize>)> =
            profile.between(profile.first(), self.work.end).filter(|(chunk, _)| inside(chunk)).collect();
        let samples: usize = parts.iter().map(|(_, range)| range.len()).sum();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        if samples < PARALLEL || threads < 2 {
            return self.part(&parts, n);
        }
        let share = parts.len().div_ceil(threads).max(1);
        let mut done: Vec<Cells> = std::thread::scope(|scope| {
            let work = |part| scope.spawn(move || self.part(part, n));
            let handles: Vec<_> = parts.chunks(share).map(work).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
        });
        let mut all = done.pop().unwrap_or_default();
        for part in done {
            all.0.iter_mut().zip(part.0).for_each(|(a, b)| *a += b);
            all.1.iter_mut().zip(part.1).for_each(|(a, b)| *a += b);
        }
        all
    }

    fn part(&self, parts: &[(&Chunk, Range<usize>)], n: usize) -> Cells {
        let mut cells = vec![0; n];
        let mut lit = vec![0; if self.work.lit.is_some() { n } else { 0 }];
        for (chunk, range) in parts {
            for i in range.clone() {
                let after = chunk.time[i].wrapping_sub(self.begin);
                if after >= self.span || usize::from(chunk.event[i]) != self.work.event {
                    continue;
                }
                if !self.work.fold.judge().is_none_or(|judge| self.passes(judge, chunk, i)) {
                    continue;
                }
                let Some(row) = self.row(chunk, i, after) else { continue };
                let cell = (after / self.length) as usize * self.n_rows + row;
                cells[cell] += 1;
                if self.work.lit.is_some_and(|judge| self.passes(judge, chunk, i)) {
                    lit[cell] += 1;
                }
            }
        }
        (cells, lit)
    }

    fn passes(&self, judge: &Judge, chunk: &Chunk, i: usize) -> bool {
        match judge.verdicts()[chunk.site[i] as usize] {
            Verdict::Yes => true,
            Verdict::No => false,
            Verdict::Open => judge.sample(self.work.data, chunk, i),
        }
    }

    fn row(&self, chunk: &Chunk, i: usize, after: u64) -> Option<usize> {
        match self.rows {
            Rows::Offset => Some(row_at(after % self.length, self.n_rows, self.length)),
            Rows::Site(rows) => Some(usize::from(rows[chunk.site[i] as usize])),
            Rows::Cpu(rows) => Some(usize::from(rows[usize::from(chunk.cpu[i])])),
            Rows::Weight { lowest, highest } => {
                Some((highest - half_octave(chunk.weight[i]).clamp(*lowest, *highest)) as usize)
            }
            Rows::None => None,
        }
    }
}

/// Where samples were lost.
fn losses(heat: &mut Heat, data: Data<'_>, rows: &Rows) {
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
            (Rows::Offset, _) => row_at(after % heat.length, heat.rows, heat.length),
            (Rows::Cpu(rows), Some(cpu)) => usize::from(rows[usize::from(cpu)]),
            _ => continue,
        };
        heat.lost_cells.push(column * heat.rows + row);
    }
    heat.lost_cells.sort_unstable();
    heat.lost_cells.dedup();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{By, SECOND};
    use super::*;
    use crate::filter::Filter;
    use crate::profile::{NodeId, Profile, Site};
    use crate::session::{Origin, Session};
    use proptest::prelude::*;

    fn spec(by: By, page: Option<u64>, columns: usize, rows: usize) -> HeatSpec {
        HeatSpec { by, length: SECOND, page, columns, rows, lit: None }
    }

    /// The map of samples given by (time, CPU, process, weight).
    fn map(samples: &[(u64, u16, i32, u64)], spec: &HeatSpec) -> Heat {
        mapped(samples, spec, None, true)
    }

    fn filtered(samples: &[(u64, u16, i32, u64)], spec: &HeatSpec, kept: Option<Arc<Filter>>) -> Heat {
        mapped(samples, spec, kept, true)
    }

    fn mapped(samples: &[(u64, u16, i32, u64)], spec: &HeatSpec, kept: Option<Arc<Filter>>, durations: bool) -> Heat {
        let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
        for (time, cpu, pid, weight) in samples {
            let task = session.task(*pid, *pid);
            let site = profile.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
            profile.push(500 + time, site, *weight, *cpu, 0);
        }
        if durations {
            profile.set_durations(0);
        }
        let data = Data { session: &session, profile: &profile, events: &["e".to_owned()], start: 500 };
        let mut fold = Fold::new(0, kept, false);
        fold.update(data, 0..u64::MAX);
        let mut lit = spec.lit.clone().map(Judge::new);
        lit.iter_mut().for_each(|judge| _ = judge.update(data));
        build(Work { data, event: 0, fold: &fold, lit: lit.as_ref(), end: u64::MAX }, spec, &[], &mut Leaves::default())
    }

    fn filter(text: &str) -> Option<Arc<Filter>> {
        Some(Arc::new(Filter::parse(text).expect(text)))
    }

    #[test]
    fn a_burst_in_every_second_is_a_line_across() {
        let ms = SECOND / 1000;
        let samples: Vec<_> =
            (0..6).flat_map(|s| [(s * SECOND + 250 * ms, 0, 1, 1), (s * SECOND + 251 * ms, 1, 2, 1)]).collect();
        let page = spec(By::Offset, Some(1), 4, 20);
        let heat = map(&samples, &page);
        for column in 0..4 {
            let hit: Vec<usize> = (0..20).filter(|row| heat.cell(column, *row) > 0).collect();
            assert_eq!((hit, heat.cell(column, 5)), (vec![5], 2));
        }
        assert_eq!((heat.sum(0..80), heat.time(25), heat.total), (8, 2 * SECOND + 250 * ms, 12));
        assert_eq!(filtered(&samples, &page, filter("cpu == 1")).sum(0..80), 4);
        let lit = map(&samples, &HeatSpec { lit: filter("pid == 2"), ..page.clone() });
        assert_eq!((lit.cell(0, 5), lit.lit(0, 5), heat.lit(0, 5)), (2, 1, 0));
        // Without a page it ends with the newest sample.
        let newest = map(&samples, &HeatSpec { page: None, ..page.clone() });
        assert_eq!((newest.first, newest.sum(0..80), newest.until / SECOND), (2, 8, 5));
        assert_eq!(map(&[], &page).cells.len(), 0);
        assert_eq!(map(&samples, &HeatSpec { page: Some(u64::MAX), ..page }).sum(0..80), 0);
    }

    #[test]
    fn rows_are_what_was_asked_for() {
        let samples = [(0, 3, 7, 1500), (1, 7, 7, 90_000), (SECOND, 3, 8, 1500), (SECOND, 3, 9, 1500)];
        let labels = |heat: &Heat| heat.lanes.iter().map(|l| l.label.to_string()).collect::<Vec<_>>().join("|");
        let cpus = map(&samples, &spec(By::Cpu, Some(0), 2, 9));
        assert_eq!((labels(&cpus).as_str(), &cpus.cells[..]), ("CPU 3|CPU 7", &[1, 1, 2, 0][..]));
        assert_eq!(labels(&map(&samples, &spec(By::Cpu, Some(0), 2, 1))), "CPU 3-7");
        let tasks = map(&samples, &spec(By::Process, Some(0), 2, 2));
        assert_eq!((tasks.lanes.len(), &tasks.cells[..]), (2, &[2, 0, 0, 2][..]));
        assert_eq!(tasks.lanes[0].expression.as_deref(), Some("pid == 7"));
        let took = map(&samples, &spec(By::Latency, Some(0), 2, 40));
        assert_eq!((took.rows, took.cell(0, 0), took.cell(0, took.rows - 1)), (12, 1, 1));
        assert_eq!(mapped(&samples, &spec(By::Latency, Some(0), 2, 40), None, false).rows, 0);
    }

    #[test]
    fn samples_out_of_order_and_a_recording_of_years() {
        let late = [(9 * SECOND, 0, 1, 1), (SECOND, 0, 1, 1), (5 * SECOND, 0, 1, 1)];
        let heat = map(&late, &spec(By::Offset, None, 4, 2));
        assert_eq!((heat.from, heat.until, heat.first, heat.sum(0..usize::MAX)), (SECOND, 9 * SECOND, 6, 1));
        let year = 365 * 86_400 * SECOND;
        let long = [(0, 0, 1, 1), (40 * year, 0, 1, 1), (40 * year + 1, 0, 1, 1)];
        let years = HeatSpec { length: year, ..spec(By::Offset, None, 50, 20) };
        let heat = map(&long, &years);
        assert_eq!((heat.first, heat.cell(0, 0), heat.cell(40, 0)), (0, 1, 2));
        let seconds = map(&long, &spec(By::Offset, None, 50, 20));
        assert_eq!((seconds.first, seconds.sum(0..usize::MAX)), (40 * year / SECOND - 49, 2));
    }

    proptest! {
        /// Every sample of the page is in one cell, whatever the rows are, and a range of cells has the samples
        /// that a filter by its time has.
        #[test]
        fn cells_sum_to_samples(
            samples in proptest::collection::vec((0u64..9 * SECOND, 0u16..40, 1i32..30, 1u64..1_000_000), 0..200),
            rows in 1usize..50, cut in 0usize..400, upto in 0usize..400,
        ) {
            for (by, _) in By::ALL {
                let heat = map(&samples, &spec(*by, Some(0), 9, rows));
                prop_assert_eq!(heat.sum(0..usize::MAX), samples.len() as u64, "{:?}", by);
                prop_assert!(heat.rows <= rows);
            }
            let heat = map(&samples, &spec(By::Offset, Some(0), 9, rows));
            if !samples.is_empty() {
                let (from, until) = (cut.min(upto).min(9 * rows), cut.max(upto).min(9 * rows));
                let clause = format!("time >= {}ns && time < {}ns", heat.time(from), heat.time(until));
                let filtered = filtered(&samples, &spec(By::Offset, Some(0), 9, rows), filter(&clause));
                prop_assert_eq!(heat.sum(from..until), filtered.total);
                prop_assert_eq!(filtered.sum(0..usize::MAX), filtered.total);
            }
        }
    }
}
