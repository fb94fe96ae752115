//! The part of the table under the mouse.

use crate::query::rows::top_table::TopField;
use crate::ui::draw::layout;
use crate::ui::screens::top::columns;
use crate::ui::screens::top::state::TopState;
use crate::ui::state::Scene;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TopHit {
    Head(TopField),
    /// A line, the column if any, and whether its fold mark was hit.
    Line(usize, Option<TopField>, bool),
}

pub(crate) fn hit(scene: Scene<'_>, view: &TopState, column: u16, row: u16) -> Option<TopHit> {
    let table = layout::places_of(scene)?.table;
    if row < table.y || row >= table.y + table.height || column >= table.x + table.width {
        return None;
    }
    let spans = columns::spans(table.width, &scene.selection.fields());
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column)).map(|s| (s.field, s.x));
    if row == table.y {
        return span.map(|(field, _)| TopHit::Head(field));
    }
    let line = view.list.top + usize::from(row - table.y - 1);
    let found = scene.context.answer.view.lines.get(line)?;
    let subject = columns::subject(spans.iter().map(|span| span.field));
    let mark = span.is_some_and(|(field, x)| Some(field) == subject && column < x + columns::name_at(found));
    Some(TopHit::Line(line, span.map(|(field, _)| field), mark))
}
