//! Sums by key and time with bounded memory: if there are too many columns, pairs of columns are merged.

use std::collections::BTreeMap;

use crate::panel::heatmap::{HeatRow, Heatmap};
use crate::panel::row_order::arrange;
use crate::panel::series::{SeriesLine, TimeSeries};
use crate::panel::{Body, Cell, Measure, Panel};

use crate::units::kit::Moment;

/// The minimum column width in nanoseconds, and the maximum number of columns.
const FINEST_NS: u64 = 10_000_000;
const MOST: usize = 240;

#[derive(Clone, Debug)]
pub(crate) struct Grid<K> {
    start: Option<u64>,
    step: u64,
    rows: BTreeMap<K, Vec<f64>>,
    columns: usize,
    /// Whether columns hold the maximum instead of the sum.
    greatest: bool,
}

impl<K: Ord + Clone> Default for Grid<K> {
    fn default() -> Self {
        Self { start: None, step: FINEST_NS, rows: BTreeMap::new(), columns: 0, greatest: false }
    }
}

impl<K: Ord + Clone> Grid<K> {
    pub(crate) fn of_greatest() -> Self {
        Self { greatest: true, ..Self::default() }
    }

    pub(crate) fn with_step(step: u64) -> Self {
        Self { step: step.max(1), ..Self::default() }
    }

    pub(crate) fn add(&mut self, key: &K, time: u64, value: f64) {
        let at = self.column(time);
        let row = match self.rows.get_mut(key) {
            Some(row) => row,
            None => self.rows.entry(key.clone()).or_default(),
        };
        if row.len() <= at {
            row.resize(at + 1, 0.0);
        }
        if self.greatest {
            row[at] = row[at].max(value);
        } else {
            row[at] += value;
        }
    }

    /// Spreads the time between two timestamps over its columns.
    pub(crate) fn spread(&mut self, key: &K, from: u64, until: u64) {
        self.spread_value(key, from, until, until.saturating_sub(from) as f64);
    }

    /// Spreads a value over the columns between two times, in proportion to the time in each.
    pub(crate) fn spread_value(&mut self, key: &K, from: u64, until: u64, value: f64) {
        let mut at = from;
        // Create the first and last columns first, so that the column width does not change afterwards.
        self.column(from);
        self.column(until.saturating_sub(1).max(from));
        while at < until {
            let start = self.start.unwrap_or(at);
            let end = start + (at.saturating_sub(start) / self.step + 1) * self.step;
            let part = end.min(until) - at;
            self.add(key, at, value * part as f64 / (until - from) as f64);
            at += part;
        }
    }

    fn column(&mut self, time: u64) -> usize {
        let start = *self.start.get_or_insert(time);
        let after = time.saturating_sub(start);
        while after / self.step >= MOST as u64 {
            self.halve();
        }
        let at = (after / self.step) as usize;
        self.columns = self.columns.max(at + 1);
        at
    }

    fn halve(&mut self) {
        let greatest = self.greatest;
        let join = |pair: &[f64]| {
            if greatest { pair.iter().copied().fold(0.0, f64::max) } else { pair.iter().sum() }
        };
        for row in self.rows.values_mut() {
            *row = row.chunks(2).map(join).collect();
        }
        self.step *= 2;
        self.columns = self.columns.div_ceil(2);
    }

    pub(crate) fn columns_until(&self, time: u64) -> usize {
        self.start.map_or(0, |start| (time.saturating_sub(start) / self.step) as usize + 1)
    }

    /// Returns the column width in nanoseconds.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    pub(crate) fn sums(&self) -> impl Iterator<Item = (&K, f64)> {
        self.rows.iter().map(|(key, row)| (key, row.iter().sum()))
    }

    /// Returns a row's newest columns as a sparkline.
    pub(crate) fn course(&self, key: &K, most: usize) -> Cell {
        let row = self.row(key).unwrap_or_default();
        Cell::Course(row[row.len().saturating_sub(most)..].iter().map(|value| *value as f32).collect())
    }

    pub(crate) fn row(&self, key: &K) -> Option<&[f64]> {
        self.rows.get(key).map(Vec::as_slice)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { greatest: self.greatest, ..Self::default() };
    }

    /// Makes a heat map; columns of nanoseconds can be shown in percent of their width.
    pub(crate) fn heatmap(
        &self,
        title: &str,
        at: &Moment<'_>,
        measure: Measure,
        most: usize,
        label: impl Fn(&K) -> String,
    ) -> Panel {
        Panel::new(title, Body::Heatmap(self.map(at.start, measure, most, label)))
    }

    pub(crate) fn series(
        &self,
        title: &str,
        at: &Moment<'_>,
        measure: Measure,
        most: usize,
        label: impl Fn(&K) -> String,
    ) -> Panel {
        Panel::new(title, Body::Series(self.courses(at.start, measure, most, label)))
    }

    pub(crate) fn map(
        &self,
        session_start: u64,
        measure: Measure,
        most: usize,
        label: impl Fn(&K) -> String,
    ) -> Heatmap {
        let share = if measure == Measure::Percent { 100.0 / self.step as f64 } else { 1.0 };
        let mut keys: Vec<(&K, f64)> = self.sums().collect();
        arrange(&mut keys, |a, b| b.1.total_cmp(&a.1));
        keys.truncate(most);
        arrange(&mut keys, |a, b| a.0.cmp(b.0));
        let cells = |key: &K| {
            let row = self.rows.get(key).map_or(&[][..], Vec::as_slice);
            (0..self.columns).map(|i| (row.get(i).copied().unwrap_or(0.0) * share) as f32).collect()
        };
        let rows = keys.into_iter().map(|(key, _)| HeatRow { label: label(key), cells: cells(key) }).collect();
        let start = self.start.unwrap_or(session_start).saturating_sub(session_start);
        Heatmap { measure, start, step: self.step, rows }
    }

    /// Makes a time series of rates per second. The last column ends at `until`; if it is too short, it is omitted.
    pub(crate) fn rates(
        &self,
        session_start: u64,
        until: u64,
        measure: Measure,
        most: usize,
        label: impl Fn(&K) -> String,
    ) -> TimeSeries {
        let mut series = self.courses(session_start, measure, most, label);
        let until = until.saturating_sub(session_start);
        let spanned = until.saturating_sub(series.start);
        let mut columns = (spanned / series.step) as usize;
        if columns == 0 || spanned % series.step >= series.step / 4 {
            columns += 1;
        }
        for line in &mut series.lines {
            line.values.truncate(columns);
            for (i, value) in line.values.iter_mut().enumerate() {
                let from = series.start + series.step * i as u64;
                *value /= until.saturating_sub(from).clamp(1, series.step) as f64 / 1e9;
            }
        }
        series
    }

    fn courses(&self, session_start: u64, measure: Measure, most: usize, label: impl Fn(&K) -> String) -> TimeSeries {
        let map = self.map(session_start, measure, most, label);
        let line =
            |row: HeatRow| SeriesLine { label: row.label, values: row.cells.into_iter().map(f64::from).collect() };
        TimeSeries { measure, start: map.start, step: map.step, lines: map.rows.into_iter().map(line).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_nothing_is_lost() {
        let mut grid: Grid<u32> = Grid::default();
        for i in 0..5000u64 {
            grid.spread(&1, 1000 + i * 7_000_000, 1000 + i * 7_000_000 + 3_000_000);
        }
        let (_, sum) = grid.sums().next().expect("a row");
        assert!((sum - 5000.0 * 3e6).abs() < 1.0, "{sum}");
        assert!(grid.row(&1).is_some_and(|row| row.len() <= MOST) && grid.step() > FINEST_NS);
        let map = grid.map(1000, Measure::Percent, 4, u32::to_string);
        let cells = &map.rows[0].cells;
        assert!(cells[..cells.len() - 1].iter().all(|share| (40.0..46.0).contains(share)), "{cells:?}");
    }
}
