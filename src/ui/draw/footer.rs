//! The two lines at the bottom: the item under the cursor or what was just said, and the keys that
//! work here or the prompt.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use crate::panel::text::{clean, fit, fit_end, width, wrap};
use crate::panel::unit::{percent, thousands};
use crate::ui::app::{App, Level, Tab};
use crate::ui::hints;
use crate::ui::keys::shown;
use crate::ui::prompt::Prompt;
use crate::ui::theme::Theme;
use crate::ui::widget::rows;

use crate::ui::draw::put;

/// Lines that a message takes at most.
const MOST_LINES: usize = 5;

/// What stands under the table: completions or a fault while something is typed, a message, or
/// the details of the line under the cursor.
pub fn details(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(prompt) = &app.prompt {
        return prompt_help(prompt, theme, area, buffer);
    }
    if !app.chord.is_empty() {
        return chord_help(app, theme, area, buffer);
    }
    if let Some((level, text)) = &app.status {
        let style = if *level == Level::Error { theme.error } else { theme.warning };
        return said(theme, text, style, area, buffer);
    }
    if app.tab == Tab::Flame {
        if let Some(text) =
            app.answer.flame.as_ref().and_then(|flame| crate::ui::view::flame::draw::details(app, flame))
        {
            put(buffer, area, 1, 0, &text, theme.text);
        }
        return;
    }
    if app.tab == Tab::Units {
        return crate::ui::view::units::draw::details(app, theme, area, buffer);
    }
    if matches!(app.tab, Tab::Time | Tab::Cpus | Tab::Events) {
        return;
    }
    if let Some(search) = &app.screen.search {
        let text = format!("/{}  match {} of {}  n next  N previous", search.text, search.current, search.matches);
        put(buffer, area, 1, 0, &text, theme.found);
        return;
    }
    if let Some(text) = line_details(app) {
        put(buffer, area, 1, 0, &text, theme.dim);
    }
}

/// What may follow the keys of a chord, upwards over as many lines as it takes, in columns.
fn chord_help(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let list = app.keymap.continuations(&app.chord, app.tab.group(), &app.key_facts());
    let widest = list.iter().map(|(key, doc)| width(&shown(key)) + width(doc) + 4).max().unwrap_or(1);
    let room = usize::from(area.width.saturating_sub(2)).max(1);
    let columns = (room / widest).clamp(1, list.len().max(1));
    let lines = list.len().div_ceil(columns).clamp(1, usize::from(area.y) + 1);
    let above = lines as u16 - 1;
    let area = Rect { y: area.y - above, height: area.height + above, ..area };
    Clear.render(area, buffer);
    buffer.set_style(area, theme.ground);
    for (i, (key, doc)) in list.iter().enumerate().take(columns * lines) {
        let (x, y) = (1 + (i / lines * room / columns) as u16, (i % lines) as u16);
        let x = x + put(buffer, area, x, y, &shown(key), theme.key) + 1;
        put(buffer, area, x, y, doc, theme.text);
    }
}

/// A message, upwards over as many lines as it takes: what to do about an error comes last.
fn said(theme: &Theme, text: &str, style: Style, area: Rect, buffer: &mut Buffer) {
    let mut lines = wrap(text, usize::from(area.width.saturating_sub(2)));
    lines.truncate(MOST_LINES);
    let above = area.y.min(lines.len() as u16 - 1);
    let area = Rect { y: area.y - above, height: area.height + above, ..area };
    Clear.render(area, buffer);
    buffer.set_style(area, theme.ground);
    for (y, line) in (0..).zip(&lines) {
        put(buffer, area, 1, y, line, style);
    }
}

/// Which row of how many the cursor is on, and what a row is where that is not a function alone.
fn place(app: &App) -> String {
    let upto = app.answer.lines.iter().take(app.screen.selected + 1).filter(|line| line.depth == 0).count();
    let of = rows::place(upto, app.answer.rows);
    let split = app.split_words();
    if split.is_empty() || app.size.0 < 100 { of } else { format!("{of} {split}") }
}

fn line_details(app: &App) -> Option<String> {
    let line = app.line()?;
    let room = usize::from(app.size.0).saturating_sub(2);
    let own = format!("self {} ({})", percent(line.own_percent), thousands(line.own.samples));
    let total = format!("total {} ({} samples)", percent(line.children_percent), thousands(line.children.samples));
    let here =
        format!("{} ({} samples) on this path", percent(line.children_percent), thousands(line.children.samples));
    // In order of importance: where one is, the name, the figures, what is wrong, the file.
    let place = place(app);
    let room = room.saturating_sub(width(&place) + 2);
    // A row that is no function is what its texts say.
    let texts = || line.group.texts().map(|text| clean(text)).collect::<Vec<_>>().join(" ");
    let name = if line.sym.is_empty() { texts().into() } else { clean(&line.sym) };
    let figures = if line.depth == 0 { format!("{own}  {total}") } else { here };
    let name = fit(&name, room.saturating_sub(width(&figures) + 2).max(room / 3));
    let mut text = format!("{name}  {figures}");
    if let Some(wrong) = app.broken(&line.dso) {
        let left = room.saturating_sub(width(&text) + 2);
        text.push_str(&format!("  {}", fit_end(&wrong, left)));
    }
    let left = room.saturating_sub(width(&text) + 2);
    if left >= 12 {
        text.push_str(&format!("  {}", fit(&clean(&line.dso_path), left)));
    }
    // Where its names come from, when that is not the usual place.
    let from = app.answer.sources.get(&line.dso_path).filter(|from| *from != "symbol table");
    let left = room.saturating_sub(width(&text) + 2);
    if let Some(from) = from.filter(|_| left >= 16) {
        text.push_str(&format!("  {}", fit_end(&clean(&format!("names: {from}")), left)));
    }
    Some(format!("{place}  {text}"))
}

fn prompt_help(prompt: &Prompt, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut x = 1;
    // The chosen one is in sight.
    let room = usize::from(area.width.saturating_sub(2));
    let takes = |options: &[(String, String)]| options.iter().map(|(option, _)| width(option) + 2).sum::<usize>();
    let from = (0..=prompt.chosen)
        .find(|from| takes(&prompt.options[*from..(prompt.chosen + 1).min(prompt.options.len())]) <= room);
    for (i, (option, doc)) in prompt.options.iter().enumerate().skip(from.unwrap_or(prompt.chosen)) {
        let style = if i == prompt.chosen { theme.selected } else { theme.key };
        x += put(buffer, area, x, 0, option, style) + 1;
        if i == prompt.chosen && !doc.is_empty() {
            x += put(buffer, area, x, 0, doc, theme.dim) + 1;
        }
        x += 1;
    }
    if prompt.options.is_empty() && prompt.fault.is_none() {
        for (clause, place) in &prompt.clauses {
            x += put(buffer, area, x, 0, &format!("{place}:"), theme.dim) + 1;
            x += put(buffer, area, x, 0, clause, theme.key) + 3;
        }
        if let Some(note) = &prompt.note {
            put(buffer, area, x, 0, note, theme.warning);
        }
    }
    if let Some((message, _, _)) = prompt.fault.as_ref().filter(|_| prompt.options.is_empty()) {
        put(buffer, area, 1, 0, message, theme.error);
    }
}

/// The prompt, the continuations of a chord, or the keys. Returns where the cursor belongs.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<(u16, u16)> {
    if let Some(prompt) = &app.prompt {
        return Some(prompt_line(prompt, theme, area, buffer));
    }
    if !app.chord.is_empty() {
        put(buffer, area, 1, 0, &format!("{} …  Esc leaves it", shown(&app.chord)), theme.title);
        return None;
    }
    for laid in hints::laid(app, area.width) {
        let x = laid.x + put(buffer, area, laid.x, 0, &laid.hint.key, theme.key) + 1;
        put(buffer, area, x, 0, laid.hint.word, theme.text);
    }
    None
}

fn prompt_line(prompt: &Prompt, theme: &Theme, area: Rect, buffer: &mut Buffer) -> (u16, u16) {
    let start = 1 + put(buffer, area, 1, 0, &format!("{}: ", prompt.ask.label()), theme.title);
    let room = usize::from(area.width.saturating_sub(start + 2));
    let scroll = prompt.input.visual_scroll(room);
    let visible: String = prompt.text().chars().skip(scroll).collect();
    put(buffer, area, start, 0, &visible, theme.text);
    if let Some((_, at, len)) = &prompt.fault {
        let before = prompt.text().get(..*at).map_or(0, |t| t.chars().count()).saturating_sub(scroll);
        for i in 0..*len {
            let x = area.x + start + (before + i) as u16;
            if x < area.x + area.width {
                let style = buffer[(x, area.y)].style().patch(theme.error).underlined();
                buffer[(x, area.y)].set_style(style);
            }
        }
    }
    let cursor = prompt.input.visual_cursor().saturating_sub(scroll) as u16;
    (area.x + start + cursor, area.y)
}
