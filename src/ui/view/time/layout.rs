//! Places on the time screen: where its map stands, how wide columns are, which of them is where.

use ratatui::layout::Rect;

use crate::query::heat::{Heat, HeatBy};
use crate::ui::draw::layout::places;
use crate::ui::scene::Scene;
use crate::ui::view::time::state::TimeScreen;

/// Lines above the map: what it shows; and under it: times, and words on what is selected.
const ABOVE: u16 = 1;
const BELOW: u16 = 2;

/// Cells before the map, for what its rows are.
fn left(view: &TimeScreen, width: u16) -> u16 {
    match view.by {
        HeatBy::Offset | HeatBy::Latency => 9,
        HeatBy::Cpu => 12,
        HeatBy::Process | HeatBy::Dso | HeatBy::Function => (width / 4).clamp(12, 32),
    }
}

pub(crate) fn map_area(scene: Scene<'_>, view: &TimeScreen) -> Rect {
    let table = places(scene, scene.area()).table;
    let left = left(view, table.width);
    Rect {
        x: table.x + left,
        y: table.y + ABOVE,
        width: table.width.saturating_sub(left + 1),
        height: table.height.saturating_sub(ABOVE + BELOW),
    }
}

/// Rows of the map in a line of the screen: names need a line each.
pub(crate) fn rows_a_line(scene: Scene<'_>, view: &TimeScreen, height: u16) -> usize {
    match view.by {
        HeatBy::Offset | HeatBy::Latency if scene.context.fine => 2,
        HeatBy::Cpu if scene.context.fine && scene.context.info.n_cpus > usize::from(height) => 2,
        _ => 1,
    }
}

/// The numbers of columns and rows that there is room for.
pub(crate) fn room(scene: Scene<'_>, view: &TimeScreen) -> (usize, usize) {
    if scene.is_too_small() {
        return (1, 1);
    }
    let area = map_area(scene, view);
    let columns = usize::from(area.width / wide(scene, view, area.width)).max(1);
    (columns, (rows_a_line(scene, view, area.height) * usize::from(area.height)).max(1))
}

/// Cells that a column is wide: more than one for what is over and short. What still grows keeps its
/// columns where they are.
pub(crate) fn wide(scene: Scene<'_>, view: &TimeScreen, width: u16) -> u16 {
    match &scene.context.answer.ended {
        Some(_) => (u64::from(width) / (scene.context.answer.elapsed_ns / view.length.max(1) + 1)).clamp(1, 8) as u16,
        None => 1,
    }
}

/// The column and row under the mouse.
pub(crate) fn hit(scene: Scene<'_>, view: &TimeScreen, x: u16, y: u16) -> Option<(usize, usize)> {
    let heat = scene.context.answer.view.heat.as_ref()?;
    let area = map_area(scene, view);
    let (column, line) = (x.checked_sub(area.x)?, y.checked_sub(area.y)?);
    let slot = usize::from(column / wide(scene, view, area.width));
    let row = rows_a_line(scene, view, area.height) * usize::from(line);
    (slot < heat.columns && line < area.height && row < heat.rows).then(|| (column_in(scene, heat, slot), row))
}

/// The number of columns by which they are turned: live, the newest one takes the place of the oldest, so that nothing
/// scrolls.
pub(crate) fn turned(scene: Scene<'_>, heat: &Heat) -> usize {
    let turns = scene.context.answer.ended.is_none()
        && scene.context.answer.question.heat.as_ref().is_none_or(|spec| spec.page.is_none());
    if turns { (heat.first % heat.columns.max(1) as u64) as usize } else { 0 }
}

/// The column that stands in a place, counted from the left.
pub(crate) fn column_in(scene: Scene<'_>, heat: &Heat, slot: usize) -> usize {
    (slot + heat.columns - turned(scene, heat)) % heat.columns.max(1)
}

/// The cell of a column.
pub(crate) fn slot_of(scene: Scene<'_>, heat: &Heat, column: usize) -> u16 {
    ((column + turned(scene, heat)) % heat.columns.max(1)) as u16
}
