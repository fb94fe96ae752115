//! Heat maps of samples over time. A column is a span of time; the rows are offsets inside it as in FlameScope, so that
//! activity with a period of seconds forms horizontal lines; or CPUs, processes, DSOs, functions, or durations.

mod build;
pub(crate) mod lanes;
pub mod levels;
mod time_cells;

use std::sync::Arc;

use crate::filter::Filter;

pub use build::{HeatInput, build};
pub use lanes::{HeatLane, SiteLanes, half_octave, least_of};
pub use levels::{Levels, Scale};

/// Nanoseconds per second.
pub const SECOND: u64 = 1_000_000_000;
pub(crate) const MAX_COLUMNS: usize = 4096;
/// The limit of rows.
pub const MAX_ROWS: usize = 1024;
/// The possible lengths of a column in nanoseconds: the steps of zooming in time.
pub(crate) const LENGTHS: &[u64] = &[
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    300 * SECOND,
    600 * SECOND,
    3600 * SECOND,
    6 * 3600 * SECOND,
    86_400 * SECOND,
    7 * 86_400 * SECOND,
    30 * 86_400 * SECOND,
    365 * 86_400 * SECOND,
];

/// The kind of a map's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeatBy {
    /// Offsets inside a column.
    #[default]
    Offset,
    /// CPUs by number; if they do not fit, neighbors share a row.
    Cpu,
    /// Processes by the number of samples.
    Process,
    /// The DSOs of sampled functions by the number of samples. Once shown, they keep their places.
    Dso,
    /// The sampled functions, in the same order.
    Function,
    /// Half octaves of the samples' durations.
    Latency,
}

impl HeatBy {
    /// All kinds, with their names in commands.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::Offset, "offset"),
        (Self::Cpu, "cpu"),
        (Self::Process, "task"),
        (Self::Dso, "dso"),
        (Self::Function, "function"),
        (Self::Latency, "latency"),
    ];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|row| row.0 == self).map_or("offset", |row| row.1)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == text).map(|row| row.0)
    }

    pub(crate) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|row| row.0 == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()].0
    }
}

/// The requested part of the session, and its resolution.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatSpec {
    /// The kind of rows.
    pub by: HeatBy,
    /// Nanoseconds per column.
    pub length: u64,
    /// The first column, counted from the session's start. `None` to show the newest sample in the last column.
    pub page: Option<u64>,
    /// The number of columns.
    pub columns: usize,
    /// The limit of rows; offsets use all of them.
    pub rows: usize,
    /// The filter of lit samples.
    pub lit: Option<Arc<Filter>>,
}

/// A map. Cells are numbers of samples, milliseconds of thread time, or values of a file, column by column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// The kind of rows.
    pub by: HeatBy,
    /// Nanoseconds per column.
    pub length: u64,
    /// The first column, counted from the session's start.
    pub first: u64,
    /// The number of columns.
    pub columns: usize,
    /// The number of rows.
    pub rows: usize,
    /// The rows; empty for offsets.
    pub lanes: Vec<HeatLane>,
    /// Samples of each cell, at `column * rows + row`.
    pub cells: Vec<u32>,
    /// Whether cells, also lit ones, and their total are milliseconds of thread time instead of samples.
    pub in_time: bool,
    /// The value of 1 in cells and their total, if these are values of another tool's file instead of samples.
    pub value: Option<u64>,
    /// The number of lit samples per cell; empty if not requested.
    pub lit: Vec<u32>,
    /// By column, the CPU time of samples and its sum divided by the running threads of each sample's process; empty if
    /// running threads were not recorded.
    pub running: Vec<(u64, u64)>,
    /// Lost samples by column.
    pub lost: Vec<u64>,
    /// Cells in which samples were lost, if the kind of rows determines them; sorted.
    pub lost_cells: Vec<usize>,
    /// Spans without measurement, in nanoseconds from the session's start.
    pub gaps: Vec<(u64, u64)>,
    /// Nanoseconds from the session's start to the oldest stored sample.
    pub from: u64,
    /// Nanoseconds from the session's start to the newest stored sample.
    pub until: u64,
    /// Samples that pass the filter, on this page or not.
    pub total: u64,
}

impl Heat {
    /// Returns the samples of a cell.
    pub fn cell(&self, column: usize, row: usize) -> u32 {
        self.cells.get(column * self.rows + row).copied().unwrap_or(0)
    }

    pub(crate) fn lit(&self, column: usize, row: usize) -> u32 {
        self.lit.get(column * self.rows + row).copied().unwrap_or(0)
    }

    /// Returns the samples of a range of cells in time order: rows within columns.
    pub fn sum(&self, range: std::ops::Range<usize>) -> u64 {
        let end = range.end.min(self.cells.len());
        self.cells.get(range.start.min(end)..end).unwrap_or_default().iter().map(|n| u64::from(*n)).sum()
    }

    pub(crate) fn sum_of(&self, columns: std::ops::Range<usize>, rows: std::ops::Range<usize>) -> u64 {
        columns.map(|column| self.sum(column * self.rows + rows.start..column * self.rows + rows.end)).sum()
    }

    /// Returns the mean number of running threads while a sampled process runs; `None` without samples in these columns.
    pub fn threads(&self, columns: std::ops::Range<usize>) -> Option<f64> {
        let parts = columns.filter_map(|column| self.running.get(column));
        let (cpu, latency) = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0 as f64, sum.1 + part.1 as f64));
        (latency > 0.0).then(|| cpu / latency)
    }

    /// Returns the columns of a span of cells in time order.
    pub(crate) fn columns_of(&self, cells: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let rows = self.rows.max(1);
        cells.start / rows..cells.end.div_ceil(rows)
    }

    /// Returns the start of a column, in nanoseconds from the session's start.
    pub fn column_time(&self, column: usize) -> u64 {
        self.first.saturating_add(column as u64).saturating_mul(self.length)
    }

    /// Returns a row's offset in its column in nanoseconds, rounded up, so that the result is inside the row.
    pub(crate) fn offset(&self, row: usize) -> u64 {
        (row as u128 * u128::from(self.length)).div_ceil(self.rows.max(1) as u128) as u64
    }

    /// Returns the start of a cell, or of its column unless rows are offsets, in nanoseconds from the session's start.
    pub fn time(&self, cell: usize) -> u64 {
        let (column, row) = (cell / self.rows.max(1), cell % self.rows.max(1));
        let offset = if self.by == HeatBy::Offset { self.offset(row) } else { 0 };
        self.column_time(column).saturating_add(offset)
    }

    /// Returns the column of a time; for times on other pages the nearest one.
    pub(crate) fn column_at(&self, ns: u64) -> usize {
        let after = (ns / self.length.max(1)).saturating_sub(self.first);
        (after as usize).min(self.columns.saturating_sub(1))
    }

    /// Returns the cell of a time if rows are offsets. For times on other pages the nearest one.
    pub(crate) fn cell_at(&self, ns: u64) -> usize {
        let last = (self.columns * self.rows).saturating_sub(1);
        if self.length == 0 || ns / self.length < self.first {
            return 0;
        }
        let column = ns / self.length - self.first;
        if column >= self.columns as u64 {
            return last;
        }
        column as usize * self.rows + row_at(ns % self.length, self.rows, self.length)
    }
}

fn row_at(offset: u64, rows: usize, length: u64) -> usize {
    match offset.checked_mul(rows as u64) {
        Some(scaled) => (scaled / length.max(1)) as usize,
        None => (u128::from(offset) * rows as u128 / u128::from(length)) as usize,
    }
}

/// Returns the number of offset rows for a sampling rate.
/// The screen has `lines` lines, with room for `room` rows. A row is a round time that covers many samples. If it is
/// not much longer than the sampling interval, it covers an integer number of intervals, to avoid aliasing stripes.
/// Numbers of rows that leave much of the screen empty are used only if no others fit.
pub(crate) fn offset_rows(lines: usize, room: usize, hz: u64, length: u64) -> usize {
    let samples = (u128::from(hz) * u128::from(length) / u128::from(SECOND)) as usize;
    let room = room.clamp(1, MAX_ROWS);
    let lines = lines.clamp(1, room);
    let shows = |rows: &usize| samples / rows >= 16 || samples.is_multiple_of(*rows);
    let used = |rows: usize| if rows > lines { rows.div_ceil(room / lines) } else { lines / rows * rows };
    let fills = |percent: usize| move |rows: &usize| 100 * used(*rows) >= percent * lines;
    let round = |row: u64| usize::try_from(length / row).ok().filter(|_| length.is_multiple_of(row));
    // At least a third of the room, to avoid an unnecessarily coarse map.
    let is_fine = |rows: &usize| (room.div_ceil(3)..=room).contains(rows);
    let rounds = || round_times().filter_map(round).filter(is_fine).filter(shows);
    let whole = || (room.div_ceil(3)..=room).rev().filter(|rows| samples.is_multiple_of(*rows));
    let any = (samples / room >= 16).then_some(room);
    rounds()
        .filter(fills(70))
        .max()
        .or_else(|| rounds().filter(fills(55)).max())
        .or(any)
        .or_else(|| whole().find(fills(70)))
        .or_else(|| rounds().max())
        .or_else(|| whole().next())
        .unwrap_or(room.min(samples))
}

/// Returns round times in nanoseconds: 1, 2, 2.5, 4 and 5 of each power of ten up to a second, then [`LENGTHS`].
fn round_times() -> impl Iterator<Item = u64> {
    let short = (0..8).flat_map(|power| [10, 20, 25, 40, 50].map(|n| n * 10u64.pow(power)));
    short.chain(LENGTHS.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_rows_has_one_word_and_comes_round_again() {
        for (at, (by, word)) in HeatBy::ALL.iter().enumerate() {
            assert_eq!((by.word(), HeatBy::parse(word)), (*word, Some(*by)));
            assert_eq!(by.next(), HeatBy::ALL.get(at + 1).map_or(HeatBy::Offset, |row| row.0));
        }
        assert_eq!(HeatBy::parse("processes"), None);
    }

    #[test]
    fn cells_by_column_and_row() {
        let (cells, lit) = ((11..23).collect(), (31..43).collect());
        let heat = Heat { length: 700, first: 5, columns: 3, rows: 4, cells, lit, ..Heat::default() };
        assert_eq!([(0, 0), (0, 3), (2, 3), (3, 0)].map(|(c, r)| heat.cell(c, r)), [11, 14, 22, 0]);
        assert_eq!([(0, 0), (0, 3), (2, 3), (3, 0)].map(|(c, r)| heat.lit(c, r)), [31, 34, 42, 0]);
        let sums = [(2, 5), (10, 99), (30, 40), (5, 2)].map(|(from, until)| heat.sum(from..until));
        assert_eq!(sums, [13 + 14 + 15, 21 + 22, 0, 0]);
        assert_eq!(heat.sum_of(1..3, 1..3), 16 + 17 + 20 + 21);
        assert_eq!((heat.column_time(0), heat.column_time(2), heat.offset(1), heat.offset(3)), (3500, 4900, 175, 525));
        let by_cpu = Heat { by: HeatBy::Cpu, ..heat.clone() };
        assert_eq!((heat.time(7), by_cpu.time(7), heat.time(8)), (4725, 4200, 4900));
        assert_eq!([0, 4199, 4200, 4900, 9999].map(|ns| heat.column_at(ns)), [0, 0, 1, 2, 2]);
        let at = [0, 3499, 3500, 3675, 4724, 4725, 5599, 5600, 9999].map(|ns| heat.cell_at(ns));
        assert_eq!(at, [0, 0, 0, 1, 6, 7, 11, 11, 11]);
        let thirds = Heat { length: 1000, rows: 3, ..Heat::default() };
        assert_eq!([0, 1, 2].map(|row| thirds.offset(row)), [0, 334, 667]);
        let none = Heat::default();
        assert_eq!((none.offset(3), none.time(2), none.column_at(7), none.cell_at(7)), (0, 0, 0, 0));
        assert_eq!(row_at(1 << 62, 1000, 1 << 63), 500);
    }

    #[test]
    fn cells_are_where_their_times_say() {
        for (rows, length) in [(1, SECOND), (3, SECOND), (7, 1_000_000), (36, 60 * SECOND), (1000, SECOND)] {
            let heat = Heat { first: 2, columns: 2, rows, length, ..Heat::default() };
            for cell in 0..2 * rows {
                assert_eq!(heat.cell_at(heat.time(cell)), cell, "{rows} rows");
                assert_eq!(heat.cell_at(heat.time(cell + 1) - 1), cell, "{rows} rows");
            }
            assert_eq!((heat.cell_at(0), heat.cell_at(u64::MAX)), (0, 2 * rows - 1));
        }
    }

    #[test]
    fn rows_of_offsets_take_whole_numbers_of_samples() {
        let rows = |room, hz| offset_rows(room, room, hz, SECOND);
        assert_eq!((rows(50, 49), rows(50, 99), rows(50, 4000), rows(40, 999)), (49, 33, 50, 40));
        assert_eq!((rows(100, 99), rows(40, 0), rows(0, 7), rows(50, 10)), (99, 40, 1, 10));
        assert_eq!((rows(50, 799), rows(50, 800), rows(50, 814), rows(51, 26)), (40, 50, 50, 26));
        assert_eq!((rows(9, 140), rows(9, 145), rows(5000, 1021)), (4, 4, 1021));
        // Half a minute in seconds, a minute in steps of two, a day in hours.
        let long = [30, 60, 86_400].map(|seconds| offset_rows(40, 40, 999, seconds * SECOND));
        assert_eq!(long, [30, 30, 24]);
    }

    #[test]
    fn rows_of_offsets_fill_the_lines() {
        for hz in [49, 99, 199, 499, 997, 999, 1000, 1999, 3999, 4000, 9999] {
            for lines in [12, 16, 22, 30, 40, 52, 60, 90] {
                let rows = offset_rows(lines, 2 * lines, hz, SECOND);
                let used = if rows > lines { rows.div_ceil(2) } else { lines / rows * rows };
                assert!(100 * used >= 48 * lines, "{hz} Hz on {lines} lines: {rows} rows on {used}");
                assert!(
                    hz < 500 || lines > 60 || 100 * used >= 70 * lines,
                    "{hz} Hz on {lines} lines: {rows} rows on {used}"
                );
            }
        }
    }
}
