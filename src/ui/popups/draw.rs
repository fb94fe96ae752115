//! Popups: a frame with a list in the middle of the table.

use ratatui::layout::Rect;

use crate::panel::text::{width, wrap};
use crate::panel::unit::{duration, percent, thousands};
use crate::session::TimeMark;
use crate::ui::popups::{Popup, column_menu};
use crate::ui::popups::{choose, help};
use crate::ui::screens::units::chooser::unit_choices;
use crate::ui::state::Model;
use crate::ui::theme::{Depth, Theme};
use crate::ui::widgets::Canvas;
use crate::ui::widgets::popup_frame::{Styled, centre, frame, list, list_size};

/// Draws the topmost popup. Returns the cursor position.
pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) -> Option<(u16, u16)> {
    match model.frame.popups.last()? {
        Popup::Help(searched) => return Some(help::draw(model, searched, on)),
        Popup::Losses { scroll } => list("losses and notes", &losses(model, on.theme), *scroll, on),
        Popup::Info { scroll } => list("info", &crate::ui::popups::info::lines(model, on.theme), *scroll, on),
        Popup::Columns { cursor } => columns(model, *cursor, on),
        Popup::Marks { cursor } => marks(model, *cursor, on),
        Popup::Annotate(screen) => crate::ui::screens::annotate::draw::draw(screen, on),
        Popup::Palette(palette) => return Some(choose::palette(model, palette, on)),
        Popup::Units(chooser) => return Some(choose::units(model, chooser, on)),
    }
    None
}

/// Returns the area of a popup's rows and the row at a position. Without rows, returns the whole area.
pub(crate) fn hit(model: &Model, popup: &Popup, area: Rect, column: u16, row: u16) -> Option<(Rect, Option<usize>)> {
    let (frame, above, from, rows) = match popup {
        Popup::Palette(palette) => {
            let frame = centre(choose::PALETTE, area);
            (frame, 1, choose::first(palette.cursor, frame.height.saturating_sub(3)), palette.matches().len())
        }
        Popup::Units(chooser) => {
            let frame = centre(choose::UNITS, area);
            let list = choose::unit_rows(frame.height);
            (frame, 1, choose::first(chooser.cursor, list), unit_choices(&model.context, chooser.input.value()).len())
        }
        Popup::Columns { .. } => {
            let n = column_menu(&model.selection.rows.columns).len();
            (centre((46, n as u16 + 2), area), 0, 0, n)
        }
        Popup::Marks { cursor } => {
            let lines = mark_lines(model, &Theme::new(Depth::NoColor), *cursor);
            let frame = centre(list_size(MARKS, &lines), area);
            let shown = usize::from(frame.height.saturating_sub(2)).max(1);
            (frame, 0, marks_from(*cursor, lines.len(), shown), lines.len())
        }
        _ => return Some((area, None)),
    };
    let inner = frame.y + 1 + above;
    let at =
        row.checked_sub(inner).filter(|_| row + 1 < frame.y + frame.height && frame.contains((column, row).into()));
    Some((frame, at.map(|at| from + usize::from(at)).filter(|at| *at < rows)))
}

pub(crate) fn last_scroll(model: &Model, popup: &Popup, area: Rect) -> usize {
    let theme = Theme::new(Depth::NoColor);
    let lines = match popup {
        Popup::Help(searched) => help::lines(model, &theme, searched.input.value()).len() + 1,
        Popup::Losses { .. } => losses(model, &theme).len(),
        Popup::Info { .. } => crate::ui::popups::info::lines(model, &theme).len(),
        _ => 0,
    };
    lines.saturating_sub(usize::from(area.height.saturating_sub(2)))
}

const MARKS: &str = "marks";

/// Returns the first visible line, with the cursor in the middle.
fn marks_from(cursor: usize, lines: usize, rows: usize) -> usize {
    cursor.saturating_sub(rows / 2).min(lines.saturating_sub(rows))
}

fn mark_lines(model: &Model, theme: &Theme, cursor: usize) -> Vec<Styled> {
    let marks = &model.context.answer.marks;
    let cursor = cursor.min(marks.len().saturating_sub(1));
    let one = |(i, mark): (usize, &TimeMark)| -> Styled {
        let style = if i == cursor { theme.selected } else { theme.text };
        let name = if mark.name.is_empty() { " " } else { &mark.name };
        vec![(format!("{name:2}{:>12.3} s  {}", mark.at as f64 / 1e9, mark.note), style)]
    };
    marks.iter().enumerate().map(one).collect()
}

fn marks(model: &Model, cursor: usize, on: &mut Canvas<'_>) {
    let marks = &model.context.answer.marks;
    if marks.is_empty() {
        let none = "None yet: ' and a letter sets one, :note TEXT notes something.".to_owned();
        return list(MARKS, &[vec![(none, on.theme.text)]], 0, on);
    }
    let lines = mark_lines(model, on.theme, cursor);
    let rows = usize::from(centre(list_size(MARKS, &lines), on.area).height.saturating_sub(2)).max(1);
    list(MARKS, &lines, marks_from(cursor, lines.len(), rows), on);
}

fn losses(model: &Model, theme: &Theme) -> Vec<Styled> {
    let answer = &model.context.answer;
    let ledger = &answer.ledger;
    let mut lines: Vec<Styled> = Vec::new();
    // Inside of the frame and a space on each side.
    let room = usize::from(model.frame.size.0).saturating_sub(4);
    let mut row = |name: &str, value: String, bad: bool, meaning: &str| {
        let style = if bad { theme.error } else { theme.text };
        let (mut name, mut value) = (format!("{name:20}"), format!("{value:>14}  "));
        let above = width(&name) + width(&value);
        for part in wrap(meaning, room.saturating_sub(above).max(20)) {
            lines.push(vec![(name, theme.title), (value, style), (part, theme.dim)]);
            (name, value) = (" ".repeat(above), String::new());
        }
    };
    row("samples", thousands(ledger.received), false, "received since the start");
    if let Some(share) = ledger.timed_percent() {
        row(
            "if all were busy",
            thousands(ledger.expected),
            false,
            &format!("rate × CPUs × seconds; {} arrived: idle CPUs and sleeping tasks have no samples", percent(share)),
        );
    }
    let (lost, _) = ledger.lost_samples();
    let number = format!("{}{}", thousands(lost), ledger.or_more());
    row("lost", number, lost > 0, "ring buffers were full: use a larger -m or a lower -F");
    let (lost, share) = ledger.lost_unit_records();
    if lost > 0 {
        let meaning = format!("records of units, {} of theirs; the table needs none of them", percent(share));
        row("lost by units", thousands(lost), true, &meaning);
    }
    row("throttled", thousands(ledger.throttled), ledger.throttled > 0, "times the kernel slowed an event down");
    row("queue full", thousands(ledger.queue_full), ledger.queue_full > 0, "times new records waited for older ones");
    if let Some(walked) = answer.walked.as_ref().filter(|walked| walked.ends.all() > 0) {
        let broken = walked.ends.broken_percent();
        row(
            "broken stacks",
            percent(broken),
            broken > 5.0,
            "of the stacks unwound by tables since the start; I shows why",
        );
    }
    row("malformed", thousands(ledger.malformed), ledger.malformed > 0, "records that could not be read");
    if ledger.parallelism_gaps > 0 {
        let meaning = "losses of records, perhaps of context switches: latency is inexact";
        row("switch gaps", thousands(ledger.parallelism_gaps), true, meaning);
    }
    row("own samples", thousands(ledger.own), false, "excluded (--include-self keeps them)");
    row("evicted", thousands(ledger.evicted), false, "oldest samples, older than --keep or beyond --memory");
    if answer.names_pending > 0 {
        row("names", thousands(answer.names_pending as u64), false, "addresses still being looked up");
    }
    row(
        "own CPU time",
        format!("{:.1} %", answer.cost.own_percent),
        answer.cost.own_percent > 10.0,
        "of one CPU, recently",
    );
    if let (Some(age), Some((n, became))) = (model.context.behind.age(), model.context.behind.became()) {
        let [median, most, worst] = became.map(duration);
        let meaning = format!(
            "of {} views, half were at most {median} old, 99 % at most {most}, the oldest {worst}",
            thousands(n)
        );
        row("age of the view", duration(age), model.context.behind.late(model.selection.refresh).is_some(), &meaning);
    }
    if answer.cost.sampling_percent > 0.0 {
        let cost = answer.cost.sampling_percent;
        row("cost of sampling", format!("{cost:.1} %"), cost > 10.0, "of each CPU when busy, measured at the start");
    }
    let memory = &answer.memory;
    if let Some(bound) = memory.bound {
        // In the units of --memory.
        let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let of = format!("private, of {} MiB (--memory); the oldest samples are dropped first", bound >> 20);
        row("memory", mib(memory.private), memory.is_exceeded(), &of);
        for part in &memory.parts {
            row(&format!("  {}", part.name), mib(part.bytes), false, "");
        }
        row("  the rest", mib(memory.rest()), false, "answers, units, the screen, and what was just freed");
    }
    for event in &answer.events {
        let note = event.note.clone().unwrap_or_default();
        row(&format!("event {}", event.name), thousands(event.total.counted(event.meaning.count).0), false, &note);
    }
    for note in &answer.notes {
        lines.extend(sentence("• ", note, room, theme));
    }
    if let Some(ended) = &answer.ended {
        lines.extend(sentence("■ ", &ended.to_string(), room, theme));
    }
    lines
}

fn sentence(sign: &str, text: &str, room: usize, theme: &Theme) -> Vec<Styled> {
    let parts = wrap(text, room.saturating_sub(width(sign)).max(20)).into_iter();
    let signs = std::iter::once(sign).chain(std::iter::repeat("  "));
    parts.zip(signs).map(|(part, sign)| vec![(sign.to_owned(), theme.warning), (part, theme.text)]).collect()
}

fn columns(model: &Model, cursor: usize, on: &mut Canvas<'_>) {
    let menu = column_menu(&model.selection.rows.columns);
    let inner = &mut frame("columns", (46, menu.len() as u16 + 2), on);
    for (i, field) in menu.iter().enumerate() {
        let is_shown = model.selection.rows.columns.contains(field);
        let text = format!("{} {:12}", if is_shown { "[x]" } else { "[ ]" }, field.column().title);
        let style = if i == cursor.min(menu.len() - 1) { inner.theme.selected } else { inner.theme.text };
        inner.put(1, i as u16, &text, style);
    }
}
