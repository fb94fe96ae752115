//! The part of the table under the mouse.

use crate::panel::top::Field;
use crate::ui::draw::layout;
use crate::ui::scene::Scene;
use crate::ui::view::top::columns::{self, TopColumnSpan};
use crate::ui::view::top::state::TopScreen;

/// The part of the table under the mouse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TopHit {
    Head(Field),
    /// A line, and whether its fold mark was hit.
    Line(usize, bool),
    Nothing,
}

/// The columns of the table, with their places.
fn spans(scene: Scene<'_>, width: u16) -> Vec<TopColumnSpan> {
    columns::spans(width, &scene.selection.fields())
}

/// Finds what a click means.
pub(crate) fn hit(scene: Scene<'_>, view: &TopScreen, column: u16, row: u16) -> TopHit {
    if scene.is_too_small() {
        return TopHit::Nothing;
    }
    let table = layout::places(scene, scene.area()).table;
    if row < table.y || row >= table.y + table.height || column >= table.x + table.width {
        return TopHit::Nothing;
    }
    let spans = spans(scene, table.width);
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column));
    if row == table.y {
        return span.map_or(TopHit::Nothing, |s| TopHit::Head(s.field));
    }
    let line = view.top + usize::from(row - table.y - 1);
    let Some(found) = scene.context.answer.view.lines.get(line) else { return TopHit::Nothing };
    let subject = columns::subject(spans.iter().map(|span| span.field));
    let mark = span.is_some_and(|s| Some(s.field) == subject && column < s.x + columns::name_at(found));
    TopHit::Line(line, mark)
}

/// The line and the column under the mouse, where a line is.
pub(crate) fn cell(scene: Scene<'_>, view: &TopScreen, column: u16, row: u16) -> Option<(usize, Field)> {
    let TopHit::Line(line, _) = hit(scene, view, column, row) else { return None };
    let spans = spans(scene, layout::places(scene, scene.area()).table.width);
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column))?;
    Some((line, span.field))
}
