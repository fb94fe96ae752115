//! The call chains of the row under the cursor, beside the table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::columns::name_at;
use super::draw::{chain_signs, name};
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::percent;
use crate::query::{Direction, TopLine};
use crate::ui::scene::Scene;
use crate::ui::theme::Theme;
use crate::ui::view::top::state::TopScreen;
use crate::ui::widget::put;

/// Cells of a share.
const SHARE: u16 = 8;

/// Draws them: shares and DSOs where they change.
pub(crate) fn draw(scene: Scene<'_>, view: &TopScreen, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if area.width <= SHARE {
        return;
    }
    for y in 0..area.height {
        put(buffer, area, 0, y, "│", theme.dim);
    }
    let Some(row) = view.row(&scene.context.answer) else { return };
    let what = if scene.selection.rows.direction == Direction::Callers { "callers of" } else { "callees of" };
    let title = clean(&row.sym);
    let room = usize::from(area.width).saturating_sub(width(what) + 4);
    let x = 2 + put(buffer, area, 2, 0, what, theme.dim) + 1;
    put(buffer, area, x, 0, &fit(&title, room), theme.head);
    let lines = &scene.context.answer.view.beside;
    if lines.is_empty() && scene.context.answer.question.beside == Some(row.id) {
        put(buffer, area, 2, 1, "none were sampled", theme.dim);
    }
    for (y, (i, line)) in (1..area.height).zip(lines.iter().enumerate()) {
        let above = lines[..i].last();
        let last = y + 1 == area.height && i + 1 < lines.len();
        if last {
            put(buffer, area, 2, y, &format!("… {} more: ⏎ unfolds the row", lines.len() - i), theme.dim);
        } else {
            draw_line(scene, view, theme, (line, above), Rect { y: area.y + y, height: 1, ..area }, buffer);
        }
    }
}

fn draw_line(
    scene: Scene<'_>,
    view: &TopScreen,
    theme: &Theme,
    (line, above): (&TopLine, Option<&TopLine>),
    row: Rect,
    buffer: &mut Buffer,
) {
    let share = percent(line.children_percent);
    if line.is_fork() || above.is_none_or(|above| percent(above.children_percent) != share) {
        let pad = usize::from(SHARE).saturating_sub(width(&share)) as u16;
        put(buffer, row, 1 + pad, 0, &share, theme.share(line.children_percent));
    }
    let x = SHARE + 1;
    put(buffer, row, x, 0, &chain_signs(scene, line), theme.dim);
    let (text, style) = name(view, theme, line);
    let at = x + name_at(line);
    let dso = Some(clean(&line.dso)).filter(|_| line.is_fork() || above.is_none_or(|above| above.dso != line.dso));
    let room = usize::from(row.width.saturating_sub(at + 1));
    let dso = dso.map(|dso| fit_end(&dso, 20).into_owned()).filter(|dso| width(&text) + width(dso) + 2 <= room);
    put(buffer, row, at, 0, &fit(&text, room), style);
    if let Some(dso) = dso {
        put(buffer, row, row.width - 1 - width(&dso) as u16, 0, &dso, theme.dim);
    }
}
