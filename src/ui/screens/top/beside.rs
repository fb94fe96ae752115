//! The call chains of the row under the cursor, next to the table.

use super::columns::{self, name_at};
use super::draw::{chain_signs, name};
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::percent;
use crate::query::rows::top_table::TopField;
use crate::query::{ColumnKey, Direction, TopLine};
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;

const SHARE: u16 = 8;

/// Draws the call chains, with shares and with DSOs where they change.
pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    if on.area.width <= SHARE {
        return;
    }
    for y in 0..on.area.height {
        on.put(0, y, "│", on.theme.dim);
    }
    let Some(row) = model.top.row(&model.context.answer) else { return };
    let what = match (model.rows_are_functions(), model.selection.rows.direction) {
        (false, _) => "functions of",
        (true, Direction::Callers) => "callers of",
        (true, Direction::Callees) => "callees of",
    };
    let title = match columns::subject(model.shown_fields().into_iter()) {
        Some(TopField::Key(ColumnKey::Sym)) => row.sym.to_string(),
        Some(field) => field.cell(row, model.meaning()).text(),
        None => row.dso.to_string(),
    };
    let title = clean(&title);
    let room = usize::from(on.area.width).saturating_sub(width(what) + 4);
    let x = 2 + on.put(2, 0, what, on.theme.dim) + 1;
    on.put(x, 0, &fit(&title, room), on.theme.head);
    let lines = &model.context.answer.view.callers;
    if lines.is_empty() && model.context.answer.question.callers_of == Some(row.id) {
        on.put(2, 1, "none were sampled", on.theme.dim);
    }
    for (y, (i, line)) in (1..on.area.height).zip(lines.iter().enumerate()) {
        let above = lines[..i].last();
        let last = y + 1 == on.area.height && i + 1 < lines.len();
        if last {
            on.put(2, y, &format!("… {} more: ⏎ unfolds the row", lines.len() - i), on.theme.dim);
        } else {
            draw_line(model, (line, above), &mut on.line(y));
        }
    }
}

fn draw_line(model: &Model, (line, above): (&TopLine, Option<&TopLine>), on: &mut Canvas<'_>) {
    let share = percent(line.children_percent);
    if line.is_fork() || above.is_none_or(|above| percent(above.children_percent) != share) {
        let pad = usize::from(SHARE).saturating_sub(width(&share)) as u16;
        on.put(1 + pad, 0, &share, on.theme.share(model.context.answer.view.heat(line.children_percent)));
    }
    let x = SHARE + 1;
    on.put(x, 0, &chain_signs(model, line), on.theme.dim);
    let (text, style) = name(model, on.theme, line);
    let at = x + name_at(line);
    let dso = Some(clean(&line.dso)).filter(|_| line.is_fork() || above.is_none_or(|above| above.dso != line.dso));
    let room = usize::from(on.area.width.saturating_sub(at + 1));
    let dso = dso.map(|dso| fit_end(&dso, 20).into_owned()).filter(|dso| width(&text) + width(dso) + 2 <= room);
    on.put(at, 0, &fit(&text, room), style);
    if let Some(dso) = dso {
        on.put(on.area.width - 1 - width(&dso) as u16, 0, &dso, on.theme.dim);
    }
}
