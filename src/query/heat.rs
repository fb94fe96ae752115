//! Heat maps of when samples came: a column is a second, a row an offset inside it, as FlameScope lays
//! them out, so that what comes again and again within seconds is a line across.

use super::Data;
use super::judge::{Judge, Verdict};

/// Nanoseconds of a column.
pub const SECOND: u64 = 1_000_000_000;
/// Columns that a map has at most.
pub const MAX_COLUMNS: usize = 4096;
/// Rows that a second is divided into at most.
pub const MAX_ROWS: usize = 1024;

/// Which part of the session is mapped, and how finely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatSpec {
    /// The first column's second, from the session's start; the page with the newest sample when `None`.
    pub page: Option<u64>,
    pub columns: usize,
    pub rows: usize,
}

/// A map. Cells are numbers of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// The second of the first column, from the session's start.
    pub first: u64,
    pub columns: usize,
    pub rows: usize,
    /// Column after column.
    pub cells: Vec<u32>,
    pub max: u32,
    /// Nanoseconds from the session's start to the oldest and the newest sample that are kept.
    pub from: u64,
    pub until: u64,
}

impl Heat {
    /// The map of an event's samples that pass, up to an absolute position; the judge must be up to date
    /// with the data.
    pub fn build(data: Data<'_>, event: usize, judge: Option<&Judge>, spec: &HeatSpec, end: u64) -> Self {
        let (columns, rows) = (spec.columns.clamp(1, MAX_COLUMNS), spec.rows.clamp(1, MAX_ROWS));
        let Some((oldest, newest)) = data.profile.span() else { return Self { columns, rows, ..Self::default() } };
        let newest = newest.min(data.profile.time_before(end.min(data.profile.end())).max(oldest));
        let (from, until) = (oldest.saturating_sub(data.start), newest.saturating_sub(data.start));
        // A page begins at a multiple of its length, so that nothing moves while it fills.
        let width = columns as u64;
        let first = spec.page.unwrap_or(until / SECOND / width * width);
        let mut heat = Self { first, columns, rows, cells: vec![0; columns * rows], max: 0, from, until };
        let begin = data.start.saturating_add(first.saturating_mul(SECOND));
        let span = width * SECOND;
        for (chunk, range) in data.profile.between(data.profile.first(), end) {
            let times = &chunk.time[range.clone()];
            let outside =
                times.last().is_none_or(|last| *last < begin) || times.first().is_none_or(|t| *t >= begin + span);
            if outside {
                continue;
            }
            for i in range {
                let after = chunk.time[i].wrapping_sub(begin);
                if after >= span || usize::from(chunk.event[i]) != event {
                    continue;
                }
                let passes = judge.is_none_or(|judge| match judge.verdicts()[chunk.site[i] as usize] {
                    Verdict::Yes => true,
                    Verdict::No => false,
                    Verdict::Open => judge.sample(data, chunk, i),
                });
                if passes {
                    let (column, offset) = (after / SECOND, after % SECOND);
                    let cell = column as usize * rows + (offset * rows as u64 / SECOND) as usize;
                    heat.cells[cell] += 1;
                }
            }
        }
        heat.max = heat.cells.iter().copied().max().unwrap_or(0);
        heat
    }

    /// Samples of a cell.
    pub fn cell(&self, column: usize, row: usize) -> u32 {
        self.cells.get(column * self.rows + row).copied().unwrap_or(0)
    }

    /// Samples of some cells in order of time: rows within columns.
    pub fn sum(&self, range: std::ops::Range<usize>) -> u64 {
        let end = range.end.min(self.cells.len());
        self.cells.get(range.start.min(end)..end).unwrap_or_default().iter().map(|n| u64::from(*n)).sum()
    }

    /// The time at which a cell begins, in nanoseconds from the session's start; cells are counted in
    /// order of time.
    pub fn time(&self, cell: usize) -> u64 {
        let (column, row) = (cell / self.rows.max(1), cell % self.rows.max(1));
        // Rounded up, so that the first nanosecond of a cell is inside it.
        (self.first + column as u64) * SECOND + (row as u64 * SECOND).div_ceil(self.rows.max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::filter::Filter;
    use crate::profile::{NodeId, Profile, Site};
    use crate::session::{Origin, Session};

    fn map(times: &[(u64, u16)], spec: &HeatSpec, filter: Option<&str>) -> Heat {
        let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
        let site = Site { task: session.task(1, 1), stack: NodeId::ROOT, trace: Default::default() };
        let site = profile.sites.intern(site);
        times.iter().for_each(|(time, cpu)| profile.push(500 + time, site, 1, *cpu, 0));
        let data = Data { session: &session, profile: &profile, events: &["e".to_owned()], start: 500 };
        let mut judge = filter.map(|text| Judge::new(Arc::new(Filter::parse(text).expect(text))));
        judge.iter_mut().for_each(|judge| _ = judge.update(data));
        Heat::build(data, 0, judge.as_ref(), spec, u64::MAX)
    }

    #[test]
    fn a_burst_in_every_second_is_a_line_across() {
        let ms = SECOND / 1000;
        let times: Vec<(u64, u16)> =
            (0..6).flat_map(|s| [(s * SECOND + 250 * ms, 0), (s * SECOND + 251 * ms, 1)]).collect();
        let spec = HeatSpec { page: Some(1), columns: 4, rows: 20 };
        let heat = map(&times, &spec, None);
        for column in 0..4 {
            let hit: Vec<usize> = (0..20).filter(|row| heat.cell(column, *row) > 0).collect();
            assert_eq!((hit, heat.cell(column, 5)), (vec![5], 2));
        }
        assert_eq!((heat.max, heat.sum(0..80), heat.time(25)), (2, 8, 2 * SECOND + 250 * ms));
        assert_eq!(map(&times, &spec, Some("cpu == 1")).sum(0..80), 4);
        // The newest page begins at a multiple of its length.
        let newest = map(&times, &HeatSpec { page: None, ..spec.clone() }, None);
        assert_eq!((newest.first, newest.sum(0..80), newest.until / SECOND), (4, 4, 5));
        assert_eq!(map(&[], &spec, None).cells.len(), 0);
        assert_eq!(map(&times, &HeatSpec { page: Some(u64::MAX), ..spec }, None).sum(0..80), 0);
    }

    #[test]
    fn cells_are_where_their_times_say() {
        for rows in [1, 3, 7, 36, 1000] {
            let heat = Heat { first: 2, columns: 2, rows, ..Heat::default() };
            for cell in 0..2 * rows {
                let after = heat.time(cell) - 2 * SECOND;
                let at = (after / SECOND) as usize * rows + (after % SECOND * rows as u64 / SECOND) as usize;
                assert_eq!(at, cell, "{rows} rows");
            }
        }
    }
}
