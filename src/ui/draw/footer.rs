//! The two lines at the bottom: details of the item under the cursor or the latest message; keys or the prompt.

use crate::panel::text::{clean, width};
use crate::ui::draw::footer_keys;
use crate::ui::input::shown;
use crate::ui::popups::Popup;
use crate::ui::popups::prompt::{Prompt, PromptMessage};
use crate::ui::screens::Views;
use crate::ui::state::{Level, Model, Tab};
use crate::ui::widgets::Canvas;

const MOST_LINES: usize = 5;

/// Draws completions or an error during input, a message, or details of the line under the cursor.
pub(crate) fn details(model: &Model, views: &Views, on: &mut Canvas<'_>) {
    if let Some(prompt) = &model.frame.prompt {
        return prompt_help(prompt, on);
    }
    if !model.frame.chord.is_empty() {
        return chord_help(model, on);
    }
    // Until the rows of another grouping are there, the line says so; then it has the message about them.
    let awaits_rows = model.frame.tab == Tab::Top && model.awaits_rows();
    if let Some((level, text)) = model.frame.status.as_ref().filter(|(level, _)| !awaits_rows || *level == Level::Error)
    {
        let style = if *level == Level::Error { on.theme.error } else { on.theme.warning };
        // The remedy of an error comes last.
        return on.put_upwards(text, style, MOST_LINES);
    }
    // An annotated function shows its own details.
    if matches!(model.frame.popups.last(), Some(Popup::Annotate(_))) {
        return;
    }
    views.screen(model.frame.tab).draw_details(model, on);
}

/// Draws the keys that may follow in a chord, upwards over as many lines as needed, in columns.
fn chord_help(model: &Model, on: &mut Canvas<'_>) {
    let list = model.context.keymap.continuations(&model.frame.chord, model.frame.tab, &model.key_facts());
    let widest = list.iter().map(|(key, doc)| width(&shown(key)) + width(doc) + 4).max().unwrap_or(1);
    let room = usize::from(on.area.width.saturating_sub(2)).max(1);
    let columns = (room / widest).clamp(1, list.len().max(1));
    let lines = list.len().div_ceil(columns).clamp(1, usize::from(on.area.y) + 1);
    let on = &mut on.upwards(lines as u16 - 1);
    for (i, (key, doc)) in list.iter().enumerate().take(columns * lines) {
        let (x, y) = (1 + (i / lines * room / columns) as u16, (i % lines) as u16);
        let x = x + on.put(x, y, &shown(key), on.theme.key) + 1;
        on.put(x, y, doc, on.theme.text);
    }
}

/// Returns the places of completions in a line: index, first cell and width.
pub(crate) fn completions(prompt: &Prompt, room: u16) -> Vec<(usize, u16, u16)> {
    let cells = |text: &str| width(&clean(text)) as u16;
    // Keep the selected one visible.
    let takes = |options: &[(String, String)]| options.iter().map(|(option, _)| cells(option) + 2).sum::<u16>();
    let fits = |from: &usize| {
        takes(&prompt.options[*from..(prompt.chosen + 1).min(prompt.options.len())]) <= room.saturating_sub(2)
    };
    let from = (0..=prompt.chosen).find(fits).unwrap_or(prompt.chosen);
    let mut x: u16 = 1;
    let mut placed = Vec::new();
    for (i, (option, doc)) in prompt.options.iter().enumerate().skip(from) {
        if x >= room {
            break;
        }
        placed.push((i, x, cells(option)));
        let doc = if i == prompt.chosen && !doc.is_empty() { cells(doc) + 1 } else { 0 };
        x = x.saturating_add(cells(option) + 2 + doc);
    }
    placed
}

fn prompt_help(prompt: &Prompt, on: &mut Canvas<'_>) {
    let message = prompt.message();
    let has_options = !prompt.options.is_empty();
    let above = u16::from(has_options && message.is_some()).min(on.area.y);
    let on = &mut on.upwards(above);
    let mut x = 1;
    if !has_options && prompt.fault.is_none() {
        for (clause, place) in &prompt.clauses {
            x += on.put(x, 0, &format!("{place}:"), on.theme.dim) + 1;
            x += on.put(x, 0, clause, on.theme.key) + 3;
        }
    }
    match message.filter(|_| !has_options || above > 0) {
        Some(PromptMessage::Fault(text)) => {
            on.put(x, 0, &text, on.theme.error);
        }
        Some(PromptMessage::Note(text)) => {
            on.put(x, 0, &text, on.theme.warning);
        }
        None => {}
    }
    for (i, x, cells) in completions(prompt, on.area.width) {
        let (option, doc) = &prompt.options[i];
        let here = i == prompt.chosen;
        on.put(x, above, option, if here { on.theme.selected } else { on.theme.key });
        if here {
            on.put(x + cells + 1, above, doc, on.theme.dim);
        }
    }
}

/// Draws the prompt, the continuations of a chord, or the keys. Returns the cursor position.
pub(crate) fn draw(model: &Model, views: &Views, on: &mut Canvas<'_>) -> Option<(u16, u16)> {
    if let Some(prompt) = &model.frame.prompt {
        return Some(prompt_line(prompt, on));
    }
    if !model.frame.chord.is_empty() {
        on.put(1, 0, &format!("{} …  Esc leaves it", shown(&model.frame.chord)), on.theme.title);
        return None;
    }
    for laid in footer_keys::laid(model, views, on.area.width) {
        let x = laid.x + on.put(laid.x, 0, &laid.hint.key, on.theme.key) + 1;
        on.put(x, 0, laid.hint.word, on.theme.text);
    }
    None
}

fn prompt_line(prompt: &Prompt, on: &mut Canvas<'_>) -> (u16, u16) {
    let start = 1 + on.put(1, 0, &format!("{}: ", prompt.argument.label), on.theme.title);
    let room = usize::from(on.area.width.saturating_sub(start + 2));
    let scroll = prompt.input.visual_scroll(room);
    let visible: String = prompt.text().chars().skip(scroll).collect();
    on.put(start, 0, &visible, on.theme.text);
    if let Some((_, at, len)) = &prompt.fault {
        let before = prompt.text().get(..*at).map_or(0, |t| t.chars().count()).saturating_sub(scroll);
        for i in 0..*len {
            let x = on.area.x + start + (before + i) as u16;
            if x < on.area.x + on.area.width {
                let style = on.buffer[(x, on.area.y)].style().patch(on.theme.error).underlined();
                on.buffer[(x, on.area.y)].set_style(style);
            }
        }
    }
    let cursor = prompt.input.visual_cursor().saturating_sub(scroll) as u16;
    (on.area.x + start + cursor, on.area.y)
}
