//! Lists filtered by typing: the command palette and the unit chooser.

use crate::panel::text::{clean, fit, fit_end, width, wrap};
use crate::ui::input::shown;
use crate::ui::popups::{Chooser, Palette, PaletteEntry};
use crate::ui::screens::units::chooser::{about_unit, nearest_units, unit_choices};
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::popup_frame::{frame, typed_line};

pub(crate) const PALETTE: (u16, u16) = (76, 22);
pub(crate) const UNITS: (u16, u16) = (90, 24);
/// Lines for the description of the unit under the cursor, if there is room.
const ABOUT: u16 = 4;

pub(crate) fn first(cursor: usize, rows: u16) -> usize {
    (cursor + 1).saturating_sub(usize::from(rows))
}

pub(crate) fn unit_rows(height: u16) -> u16 {
    let inner = height.saturating_sub(3);
    if inner > 2 * ABOUT { inner - ABOUT - 1 } else { inner }
}

/// Draws the unit chooser. Returns the cursor position.
pub(crate) fn units(model: &Model, chooser: &Chooser, on: &mut Canvas<'_>) -> (u16, u16) {
    let typed = chooser.input.value();
    let choices = unit_choices(&model.context, typed);
    let on = &mut frame("measure what?", UNITS, on);
    let words = ("> ", "type what it is about: wait, memory, disk…");
    let place = typed_line(words, &chooser.input, on);
    let rows = unit_rows(on.area.height + 2);
    let names = choices.iter().map(|choice| width(&choice.name)).max().unwrap_or(0).min(16);
    let from = first(chooser.cursor, rows);
    for (y, (i, choice)) in (1..=rows).zip(choices.iter().enumerate().skip(from)) {
        let here = i == chooser.cursor;
        let plain = if choice.missing.is_empty() { on.theme.text } else { on.theme.dim };
        let style = if here { on.theme.selected } else { plain };
        on.put(0, y, if here { "›" } else { " " }, on.theme.title);
        let x = 1 + on.put(1, y, &format!("{:names$}", fit(&choice.name, names.max(4))), style) + 2;
        let missing = if choice.missing.is_empty() { "" } else { "  not here" };
        let room = usize::from(on.area.width.saturating_sub(x + 1));
        let about = fit_end(&choice.about, room.saturating_sub(width(missing))).into_owned();
        let x = x + on.put(x, y, &about, if here { on.theme.text } else { plain });
        on.put(x, y, missing, on.theme.warning);
    }
    if let Some(why) = nothing_found(typed, &nearest_units(typed), choices.len()) {
        on.put(1, (choices.len() as u16 + 1).min(rows), &why, on.theme.error);
    }
    let name = typed.split_once(char::is_whitespace).map(|(name, _)| name);
    let about = |name: &str| about_unit(&model.context, name);
    let name =
        name.filter(|name| about(name).is_some()).or(choices.get(chooser.cursor).map(|choice| choice.name.as_str()));
    // A short list leaves more room for the description.
    let below = rows.min(choices.len() as u16) + 2;
    if let Some(about) = name.and_then(about).filter(|_| rows + 1 < on.area.height) {
        let missing = choices.get(chooser.cursor).map_or("", |choice| &choice.missing);
        let lines = wrap(&about, usize::from(on.area.width.saturating_sub(2)));
        let lines = (!missing.is_empty()).then(|| format!("not here: {missing}")).into_iter().chain(lines);
        for (y, (i, line)) in (below..on.area.height).zip(lines.enumerate()) {
            on.put(1, y, &line, if i == 0 && !missing.is_empty() { on.theme.warning } else { on.theme.dim });
        }
    }
    place
}

/// Returns the message that nothing was found, with the nearest words, if so.
fn nothing_found(typed: &str, nearest: &[String], listed: usize) -> Option<String> {
    let typed = clean(typed.trim());
    match nearest {
        [] => (listed == 0).then(|| format!("nothing found for {typed}")),
        near => Some(format!("nothing found for {typed}; nearest: {}", near.join(", "))),
    }
}

/// Draws the palette. Returns the cursor position.
pub(crate) fn palette(model: &Model, palette: &Palette, on: &mut Canvas<'_>) -> (u16, u16) {
    let matches = palette.matches();
    let on = &mut frame("commands", PALETTE, on);
    let place = typed_line((":", ""), &palette.input, on);
    let from = first(palette.cursor, on.area.height.saturating_sub(1));
    for (y, (i, entry)) in (1..on.area.height).zip(matches.iter().enumerate().skip(from)) {
        let style = if i == palette.cursor { on.theme.selected } else { on.theme.text };
        let (name, key) = match entry {
            PaletteEntry::Command(row) => {
                let key = model.context.keymap.keys_of(row).first().map(|key| shown(key)).unwrap_or_default();
                (format!("{}{}", row.name, row.noun()), (key, on.theme.key))
            }
            PaletteEntry::Unit(spec) => (spec.name.to_owned(), ("unit".to_owned(), on.theme.dim)),
            PaletteEntry::Thing { kind, name, .. } => (name.clone(), ((*kind).to_owned(), on.theme.dim)),
            PaletteEntry::Event(_, name) => (name.clone(), ("event".to_owned(), on.theme.dim)),
        };
        let name = fit(&clean(&name), 24).into_owned();
        let x = 1 + on.put(1, y, &format!("{name}{:1$}", "", 24usize.saturating_sub(width(&name))), style);
        let x = x + 1 + on.put(x + 1, y, &format!("{:9}", key.0), key.1);
        on.put(x, y, entry.about(), on.theme.dim);
    }
    if let Some(why) = nothing_found(palette.input.value(), &palette.nearest(), matches.len()) {
        on.put(1, (matches.len() as u16 + 1).min(on.area.height.saturating_sub(1)), &why, on.theme.error);
    }
    place
}
