//! The state of the time screen: kind of rows, page, cursor and selection.

use std::ops::Range;
use std::sync::Arc;

use crate::filter::Filter;
use crate::query::heat::{Heat, HeatBy, LENGTHS, Levels, SECOND, Scale};

/// A place on a map of any size: nanoseconds from the session's start, and the row unless rows are offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPoint {
    pub at: u64,
    pub(crate) row: usize,
}

/// The time screen.
#[derive(Clone, Debug)]
pub struct TimeState {
    pub(crate) by: HeatBy,
    /// The length of a column in nanoseconds.
    pub length: u64,
    /// Whether the length was chosen, by the user or for a whole recording.
    pub(crate) chosen: bool,
    /// The first column of the page; `None` for the newest columns.
    pub(crate) page: Option<u64>,
    /// `None` follows the newest sample.
    pub cursor: Option<MapPoint>,
    pub(crate) anchor: Option<MapPoint>,
    /// Whether whole columns are selected.
    pub(crate) whole: bool,
    pub(crate) scale: Scale,
    /// The ranges of the colours, kept as long as they are suitable, so that one high cell does not repaint the map.
    pub(crate) levels: Levels,
    levels_of: Option<(HeatBy, u64, usize, Scale)>,
    /// The highlighted samples of a function or a search: filter and label.
    pub highlight: Option<(Arc<Filter>, String)>,
}

impl Default for TimeState {
    fn default() -> Self {
        Self {
            by: HeatBy::Offset,
            length: SECOND,
            chosen: false,
            page: None,
            cursor: None,
            anchor: None,
            whole: false,
            scale: Scale::Rank,
            levels: Levels::default(),
            levels_of: None,
            highlight: None,
        }
    }
}

/// The selected part of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSelection {
    /// Nanoseconds from the session's start.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// Cells in order of time if rows are offsets, otherwise columns.
    pub span: Range<usize>,
    /// The selected rows, unless rows are offsets or all are selected.
    pub(crate) rows: Option<Range<usize>>,
    pub samples: u64,
}

impl TimeSelection {
    /// Whether it contains a cell.
    pub(crate) fn has(&self, heat: &Heat, column: usize, row: usize) -> bool {
        match heat.by {
            HeatBy::Offset => self.span.contains(&(column * heat.rows + row)),
            _ => self.span.contains(&column) && self.rows.as_ref().is_none_or(|rows| rows.contains(&row)),
        }
    }
}

impl TimeState {
    /// Returns to the visible part of the map, the resolution and the selection of an earlier state.
    pub(crate) fn return_to(&mut self, past: &Self) {
        (self.by, self.length, self.page) = (past.by, past.length, past.page);
        (self.cursor, self.anchor, self.whole) = (past.cursor, past.anchor, past.whole);
    }

    pub(crate) fn spot(&self, heat: &Heat) -> MapPoint {
        let spot = self.cursor.unwrap_or(MapPoint { at: heat.until, row: 0 });
        MapPoint { row: spot.row.min(heat.rows.saturating_sub(1)), ..spot }
    }

    pub(crate) fn cell(&self, heat: &Heat) -> usize {
        let spot = self.spot(heat);
        match heat.by {
            HeatBy::Offset => heat.cell_at(spot.at),
            _ => heat.column_at(spot.at) * heat.rows + spot.row,
        }
    }

    /// Returns the selection; by default the cell under the cursor.
    pub fn selected(&self, heat: &Heat) -> TimeSelection {
        let here = self.spot(heat);
        let other = self.anchor.unwrap_or(here);
        let columns = |a: u64, b: u64| {
            let (a, b) = (heat.column_at(a), heat.column_at(b));
            a.min(b)..a.max(b) + 1
        };
        let span = columns(here.at, other.at);
        if heat.by == HeatBy::Offset {
            let (a, b) = (heat.cell_at(here.at), heat.cell_at(other.at));
            let cells = if self.whole { span.start * heat.rows..span.end * heat.rows } else { a.min(b)..a.max(b) + 1 };
            let (from, until) = (heat.time(cells.start), heat.time(cells.end));
            return TimeSelection { from, until, samples: heat.sum(cells.clone()), span: cells, rows: None };
        }
        let other_row = other.row.min(heat.rows.saturating_sub(1));
        let rows = here.row.min(other_row)..here.row.max(other_row) + 1;
        let rows = Some(rows).filter(|_| !self.whole);
        let (from, until) = (heat.column_time(span.start), heat.column_time(span.end));
        let samples = heat.sum_of(span.clone(), rows.clone().unwrap_or(0..heat.rows));
        TimeSelection { from, until, span, rows, samples }
    }

    /// Updates the colour ranges for a map, if the current ones are unsuitable.
    pub(crate) fn take(&mut self, heat: &Heat) {
        let of = Some((heat.by, heat.length, heat.rows, self.scale));
        if self.levels_of != of || !self.levels.serve(&heat.cells, self.scale) {
            self.levels = Levels::of(&heat.cells, self.scale);
            self.levels_of = of;
        }
    }

    /// Makes columns longer (1) or shorter (-1), around the cursor if there is one, else at the newest columns.
    pub(crate) fn zoom(&mut self, step: isize, at: u64, columns: usize) {
        let here = LENGTHS.iter().position(|length| *length >= self.length).unwrap_or(LENGTHS.len() - 1);
        let next = here.saturating_add_signed(step).min(LENGTHS.len() - 1);
        (self.length, self.chosen) = (LENGTHS[next], true);
        if self.cursor.is_none() && self.page.is_none() {
            return;
        }
        let width = columns.max(1) as u64;
        self.page = Some(at / self.length / width * width);
        self.cursor = Some(MapPoint { at, row: self.cursor.map_or(0, |spot| spot.row) });
    }
}

/// Returns the shortest column length with which a time span fits on a page.
pub(crate) fn fitting(ns: u64, columns: usize) -> u64 {
    let fits = |length: &&u64| ns / **length < columns.max(1) as u64;
    LENGTHS.iter().find(fits).copied().unwrap_or(LENGTHS[LENGTHS.len() - 1])
}

/// Returns the column length for a whole recording with rows of offsets: seconds, or less for a short one.
pub(crate) fn usual(ns: u64) -> u64 {
    if ns >= FEW * SECOND {
        return SECOND;
    }
    let enough = |length: &&u64| ns / **length >= MAP;
    LENGTHS.iter().rev().find(enough).copied().unwrap_or(LENGTHS[0])
}

/// Minimum number of one-second columns, and number of columns for shorter recordings.
const FEW: u64 = 3;
const MAP: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_recordings_have_short_columns() {
        assert_eq!([12 * SECOND, 3 * SECOND].map(usual), [SECOND; 2]);
        assert_eq!([2 * SECOND, 200_000_000, 0].map(usual), [200_000_000, 20_000_000, LENGTHS[0]]);
    }

    fn heat(by: HeatBy) -> Heat {
        Heat { by, first: 10, columns: 5, rows: 4, length: SECOND, until: 12 * SECOND, ..Heat::default() }
    }

    fn spot(at: u64, row: usize) -> Option<MapPoint> {
        Some(MapPoint { at, row })
    }

    #[test]
    fn the_selection_is_in_order_of_time() {
        let mut screen = TimeState::default();
        assert_eq!(screen.selected(&heat(HeatBy::Offset)).span, 8..9);
        (screen.anchor, screen.cursor) = (spot(13 * SECOND, 0), spot(11 * SECOND + SECOND / 2, 0));
        let selected = screen.selected(&heat(HeatBy::Offset));
        assert_eq!((selected.span, selected.from), (6..13, 11 * SECOND + SECOND / 2));
        screen.whole = true;
        let selected = screen.selected(&heat(HeatBy::Offset));
        assert_eq!((selected.from, selected.until), (11 * SECOND, 14 * SECOND));
    }

    #[test]
    fn where_rows_are_no_offsets_it_is_a_rectangle() {
        let mut screen =
            TimeState { anchor: spot(13 * SECOND, 3), cursor: spot(11 * SECOND, 1), ..TimeState::default() };
        let map = heat(HeatBy::Cpu);
        let selected = screen.selected(&map);
        assert_eq!((selected.span.clone(), selected.rows.clone()), (1..4, Some(1..4)));
        assert!(selected.has(&map, 1, 1) && !selected.has(&map, 1, 0) && !selected.has(&map, 4, 2));
        screen.whole = true;
        assert_eq!(screen.selected(&map).rows, None);
    }

    #[test]
    fn zooming_keeps_the_time_under_the_cursor() {
        let mut screen = TimeState::default();
        screen.zoom(-1, 12 * SECOND, 100);
        assert_eq!((screen.length, screen.page, screen.cursor), (500_000_000, None, None));
        screen.cursor = spot(12 * SECOND, 0);
        screen.zoom(isize::MIN, 12 * SECOND, 100);
        assert_eq!((screen.length, screen.page), (1_000_000, Some(12_000)));
        screen.zoom(isize::MAX, 12 * SECOND, 100);
        assert_eq!((screen.length, screen.page), (LENGTHS[LENGTHS.len() - 1], Some(0)));
        assert_eq!(
            (fitting(100 * SECOND, 50), fitting(0, 50), fitting(u64::MAX, 3)),
            (5 * SECOND, 1_000_000, LENGTHS[22])
        );
    }
}
