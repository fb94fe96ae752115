//! The line below the table: the search, or details of the row under the cursor.

use crate::panel::function_name::fit_function;
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::percent;
use crate::session::dso::NOT_WALKED;
use crate::ui::input::commands::general;
use crate::ui::input::shown;
use crate::ui::state::Model;
use crate::ui::widgets::{Canvas, rows};

pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    if model.awaits_rows() {
        on.put(1, 0, "grouping the rows…", on.theme.warning);
        return;
    }
    let mut x = 1;
    // Away from the matches the line is the row's alone.
    let is_on_match = model.top.line(&model.context.answer).is_some_and(|line| model.top.hit(line));
    if let Some(search) = model.top.search.as_ref().filter(|_| is_on_match) {
        let room = usize::from(on.area.width) / 4;
        let text = format!("/{} {}/{}", fit(&clean(&search.text), room), search.current, search.matches);
        x += on.put(x, 0, &text, on.theme.found) + 2;
        x += on.put(x, 0, "n N", on.theme.key) + 3;
    }
    let hotter = hotter(model).unwrap_or_default();
    let taken = on.put(x, 0, &hotter, on.theme.warning);
    x += if taken > 0 { taken + 3 } else { 0 };
    if let Some(text) = line_details(model, usize::from(on.area.width.saturating_sub(x + 1))) {
        on.put(x, 0, &text, on.theme.dim);
    }
}

/// Returns how many rows have moved above the visible part while the cursor stayed on its row.
fn hotter(model: &Model) -> Option<String> {
    let rows = model.context.answer.view.lines.iter().take(model.top.list.top).filter(|line| line.depth == 0).count();
    rows::hotter(rows, model.context.keymap.key_of(&general::HOME).map(shown).filter(|_| model.top.list.drifted)?)
}

/// Returns the number of the cursor's row, and the grouping of rows if it is not by function alone.
fn place(model: &Model) -> String {
    let upto =
        model.context.answer.view.lines.iter().take(model.top.selected + 1).filter(|line| line.depth == 0).count();
    let of = rows::place(upto, model.context.answer.view.rows);
    let split = model.describe_split();
    if split.is_empty() || model.frame.size.0 < 100 { of } else { format!("{of} {split}") }
}

fn line_details(model: &Model, room: usize) -> Option<String> {
    let line = model.top.line(&model.context.answer)?;
    let own = format!("self {} ({})", percent(line.own_percent), model.weighed(line.own));
    let total = format!("total {} ({})", percent(line.children_percent), model.described_weight(line.children));
    let here = format!("{} ({}) on this path", percent(line.children_percent), model.described_weight(line.children));
    // In order of importance: position, name, figures, problems, file.
    let place = place(model);
    let room = room.saturating_sub(width(&place) + 2);
    // A row without a function is described by its texts.
    let texts = || line.group.texts().map(|text| clean(text)).collect::<Vec<_>>().join(" ");
    let name = if line.sym.is_empty() { texts().into() } else { clean(&line.sym) };
    let figures = match line.diff {
        _ if line.depth > 0 => here,
        Some(diff) => format!("{} {}  {own}", diff.verdict.sign(), diff.verdict.meaning()),
        None => format!("{own}  {total}"),
    };
    let name = fit_function(&name, room.saturating_sub(width(&figures) + 2).max(room / 3));
    let wrong = model.broken(&line.dso);
    let mut text = match &wrong {
        // A marker's name does not say what it means.
        Some(meaning) if &*line.dso == NOT_WALKED => format!("{name}  {meaning}  {figures}"),
        _ => format!("{name}  {figures}"),
    };
    if line.depth == 0 && line.diff.is_some() && width(&text) + 2 + width(&total) <= room {
        text.push_str(&format!("  {total}"));
    }
    if let Some(wrong) = wrong.filter(|_| &*line.dso != NOT_WALKED) {
        let left = room.saturating_sub(width(&text) + 2);
        text.push_str(&format!("  {}", fit_end(&wrong, left)));
    }
    let left = room.saturating_sub(width(&text) + 2);
    if left >= 12 {
        text.push_str(&format!("  {}", fit(&clean(&line.dso_path), left)));
    }
    // Show the source of the symbols if it is unusual.
    let from = model.context.answer.sources.get(&line.dso_path).filter(|from| !from.is_usual);
    let left = room.saturating_sub(width(&text) + 2);
    if let Some(from) = from.filter(|_| left >= 16) {
        text.push_str(&format!("  {}", fit_end(&clean(&format!("names: {}", from.text)), left)));
    }
    Some(format!("{place}  {text}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::query::answer::ViewAnswer;
    use crate::query::{Answer, TopLine};
    use crate::source::Info;
    use crate::ui::{App, Start};

    #[test]
    fn stacks_that_were_not_walked_say_why() {
        let line = TopLine { sym: NOT_WALKED.into(), dso: NOT_WALKED.into(), ..TopLine::staged(1) };
        let view = ViewAnswer { lines: vec![line], rows: 1, ..ViewAnswer::default() };
        let mut app = App::new(Info::default(), Start::default());
        app.set_answer(Arc::new(Answer { view, ..Answer::default() }));
        let text = line_details(&app.model, 78).unwrap_or_default();
        assert!(text.contains("sleep whose stacks would have cost more than"), "{text}");
    }
}
