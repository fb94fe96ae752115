//! The layout of the time screen: place of the map, width and order of columns.

use ratatui::layout::Rect;

use crate::query::heat::{Heat, HeatBy};
use crate::query::rows::partner::latency_pair;
use crate::ui::draw::layout::places;
use crate::ui::screens::time::state::TimeState;
use crate::ui::state::Model;

/// Lines above the map (legend) and below (axis and description).
const ABOVE: u16 = 1;
const BELOW: u16 = 2;
/// The least height of the screen's part that has a line for running threads.
const ROOM_FOR_THREADS: u16 = 8;

/// Width of the row names.
fn left(view: &TimeState, width: u16) -> u16 {
    match view.by {
        HeatBy::Offset | HeatBy::Latency => 9,
        HeatBy::Cpu => 12,
        HeatBy::Process | HeatBy::Dso | HeatBy::Function => (width / 4).clamp(12, 32),
    }
}

pub(crate) fn map_area(model: &Model, view: &TimeState) -> Rect {
    let table = places(model, model.area()).table;
    let left = left(view, table.width);
    Rect {
        x: table.x + left,
        y: table.y + ABOVE,
        width: table.width.saturating_sub(left + 1),
        height: table.height.saturating_sub(ABOVE + BELOW + u16::from(shows_threads(model, table.height))),
    }
}

/// Returns whether a line below the map shows running threads: the session has the latency profile of a clock.
fn shows_threads(model: &Model, height: u16) -> bool {
    let names = model.context.answer.events.iter().map(|event| &*event.name);
    height >= ROOM_FOR_THREADS && !model.context.is_timeless() && latency_pair(names).is_some()
}

/// Returns the line of running threads below the map, if there is one.
pub(crate) fn threads_line(model: &Model, map: Rect) -> Option<Rect> {
    let table = places(model, model.area()).table;
    shows_threads(model, table.height).then_some(Rect { y: map.y + map.height, height: 1, ..map })
}

/// Maximum height of a row in lines.
const MAX_TALL: usize = 12;

/// The packing of rows into screen lines: two half-blocks per line, or one or more lines per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPacking {
    pub(crate) rows_a_line: usize,
    pub(crate) lines_a_row: usize,
}

impl RowPacking {
    /// Returns the packing that fills the screen.
    pub(crate) fn of(model: &Model, view: &TimeState, rows: usize, height: u16) -> Self {
        let height = usize::from(height);
        if rows > height && most_rows_a_line(model, view, height) == 2 {
            return Self { rows_a_line: 2, lines_a_row: 1 };
        }
        Self { rows_a_line: 1, lines_a_row: (height / rows.max(1)).clamp(1, MAX_TALL) }
    }

    pub(crate) fn row(self, line: u16) -> usize {
        usize::from(line) / self.lines_a_row * self.rows_a_line
    }
}

/// Returns the maximum number of rows per line: names need one line each.
pub(crate) fn most_rows_a_line(model: &Model, view: &TimeState, height: usize) -> usize {
    match view.by {
        HeatBy::Offset | HeatBy::Latency if model.context.fine => 2,
        HeatBy::Cpu if model.context.fine && model.context.info.n_cpus > height => 2,
        _ => 1,
    }
}

pub(crate) fn room(model: &Model, view: &TimeState) -> (usize, usize) {
    if model.is_too_small() {
        return (1, 1);
    }
    let area = map_area(model, view);
    let columns = usize::from(area.width / wide(model, view, area.width)).max(1);
    let lines = usize::from(area.height);
    (columns, (most_rows_a_line(model, view, lines) * lines).max(1))
}

/// Maximum width of a column in cells.
const MAX_WIDE: u64 = 16;

/// Returns the width of a column in cells, so that the columns fill the screen. For a growing map, the width is halved
/// only when the screen is full, so that columns keep their places in between.
pub(crate) fn wide(model: &Model, view: &TimeState, width: u16) -> u16 {
    let columns = model.context.elapsed_ns() / view.length.max(1) + 1;
    let fit = (u64::from(width) / columns).clamp(1, MAX_WIDE);
    match &model.context.answer.ended {
        Some(_) => fit as u16,
        None => 1 << fit.ilog2(),
    }
}

pub(crate) fn hit(model: &Model, view: &TimeState, x: u16, y: u16) -> Option<(usize, usize)> {
    let heat = model.context.answer.view.heat.as_ref()?;
    let area = map_area(model, view);
    let (column, line) = (x.checked_sub(area.x)?, y.checked_sub(area.y)?);
    let slot = usize::from(column / wide(model, view, area.width));
    let row = RowPacking::of(model, view, heat.rows, area.height).row(line);
    (slot < heat.columns && line < area.height && row < heat.rows).then(|| (column_in(model, heat, slot), row))
}

/// Returns the rotation of the columns: live, the newest replaces the oldest in place, so that nothing scrolls.
pub(crate) fn turned(model: &Model, heat: &Heat) -> usize {
    let turns = model.context.answer.ended.is_none()
        && model.context.answer.question.heat.as_ref().is_none_or(|spec| spec.page.is_none());
    if turns { (heat.first % heat.columns.max(1) as u64) as usize } else { 0 }
}

/// Returns the column at a position, counted from the left.
pub(crate) fn column_in(model: &Model, heat: &Heat, slot: usize) -> usize {
    (slot + heat.columns - turned(model, heat)) % heat.columns.max(1)
}

pub(crate) fn slot_of(model: &Model, heat: &Heat, column: usize) -> u16 {
    ((column + turned(model, heat)) % heat.columns.max(1)) as u16
}
