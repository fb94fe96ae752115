//! The time screen: a column a second, offsets inside it downwards, in half-blocks where there are colours
//! enough and in letters of rising weight where there are not.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use crate::panel::unit::{duration, thousands};
use crate::query::heat::{Heat, SECOND};
use crate::ui::app::App;
use crate::ui::theme::Theme;

use super::layout::{MIN, places};
use super::put;

/// Cells before the map, for the offsets.
const LEFT: u16 = 7;
/// Lines under it: seconds, and words on the cell under the cursor.
const BELOW: u16 = 2;
/// Colours of seven levels among 256, from few to many.
const LEVELS: [u8; 7] = [52, 88, 124, 160, 202, 214, 226];
/// The same without them.
const LETTERS: [char; 7] = ['.', ':', '-', '=', '+', '*', '#'];

fn map_area(app: &App, size: (u16, u16)) -> Rect {
    let table = places(app, Rect { x: 0, y: 0, width: size.0, height: size.1 }).table;
    Rect {
        x: table.x + LEFT,
        y: table.y,
        width: table.width.saturating_sub(LEFT + 1),
        height: table.height.saturating_sub(BELOW),
    }
}

/// How many columns and rows a terminal of some size has room for.
pub fn room(app: &App, size: (u16, u16)) -> (usize, usize) {
    if size.0 < MIN.0 || size.1 < MIN.1 {
        return (1, 1);
    }
    let area = map_area(app, size);
    (usize::from(area.width / wide(app, area.width)).max(1), 2 * usize::from(area.height).max(1))
}

/// Cells that a second is wide: more than one for what is over and short. What still grows keeps its
/// columns where they are.
fn wide(app: &App, width: u16) -> u16 {
    match &app.answer.ended {
        Some(_) => (u64::from(width) / (app.answer.elapsed_ns / SECOND + 1)).clamp(1, 8) as u16,
        None => 1,
    }
}

/// The cell under the mouse.
pub fn hit(app: &App, x: u16, y: u16) -> Option<usize> {
    let heat = app.answer.heat.as_ref()?;
    let area = map_area(app, app.size);
    let (column, row) = (x.checked_sub(area.x)?, y.checked_sub(area.y)?);
    let column = usize::from(column / wide(app, area.width));
    (column < heat.columns && row < area.height).then(|| column * heat.rows + 2 * usize::from(row))
}

/// The level of a number of samples by its share of the highest: none for 0 only.
fn level(n: u32, max: u32) -> Option<usize> {
    let top = LEVELS.len() as u64;
    (n > 0).then(|| ((u64::from(n) * top).div_ceil(u64::from(max.max(1))) as usize - 1).min(LEVELS.len() - 1))
}

/// Draws it.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(heat) = app.answer.heat.as_ref().filter(|heat| !heat.cells.is_empty()) else {
        put(buffer, area, 2, 1, "No samples yet, so there is no time to show.", theme.text);
        return;
    };
    let map = map_area(app, app.size);
    let selected = app.time.selected(heat);
    let wide = wide(app, map.width);
    for y in 0..map.height {
        if y % 4 == 0 {
            let ms = 1000 * 2 * usize::from(y) / heat.rows.max(1);
            put(buffer, area, 1, y, &format!("{ms:>3} ms"), theme.dim);
        }
        for x in 0..map.width.min(heat.columns as u16 * wide) {
            cell(heat, theme, (x, y), usize::from(x / wide), &selected, map, buffer);
        }
    }
    seconds(heat, theme, wide, Rect { y: map.y + map.height, height: 1, ..map }, buffer);
    let words = words(app, heat, &selected);
    put(buffer, Rect { y: map.y + map.height + 1, height: 1, ..area }, 1, 0, &words, theme.text);
}

fn cell(
    heat: &Heat,
    theme: &Theme,
    at: (u16, u16),
    column: usize,
    selected: &std::ops::Range<usize>,
    map: Rect,
    buffer: &mut Buffer,
) {
    let first = column * heat.rows + 2 * usize::from(at.1);
    let count = |i: usize| heat.cells.get(i).copied().unwrap_or(0);
    let (upper, lower) = (count(first), count(first + 1));
    let here = selected.start < first + 2 && first < selected.end;
    let Some(place) = buffer.cell_mut((map.x + at.0, map.y + at.1)) else { return };
    if theme.fine {
        let color = |n| level(n, heat.max).map_or(Color::Reset, |l| Color::Indexed(LEVELS[l]));
        place.set_char('▀').set_fg(color(upper)).set_bg(color(lower));
        match (upper, lower) {
            (0, 0) => place.set_char(' '),
            (0, _) => place.set_char('▄').set_fg(color(lower)).set_bg(Color::Reset),
            _ => place,
        };
    } else {
        let shown = level(upper.max(lower), heat.max).map_or(' ', |l| LETTERS[l]);
        place.set_char(shown);
    }
    if here && theme.fine {
        // Turning a half-block round would only swap its halves.
        let color = level(upper.max(lower), heat.max).map_or(Color::Reset, |l| Color::Indexed(LEVELS[l]));
        place.set_char('▒').set_fg(Color::Gray).set_bg(color);
    } else if here {
        let style = place.style().add_modifier(Modifier::REVERSED);
        place.set_style(style);
    }
}

/// The seconds under the map.
fn seconds(heat: &Heat, theme: &Theme, wide: u16, line: Rect, buffer: &mut Buffer) {
    // Every tenth column has its second, or every one of them where they are wide.
    let step = if wide >= 6 { 1 } else { 10 };
    for column in (0..heat.columns).step_by(step) {
        let x = column as u16 * wide;
        let text = format!("{} s", heat.first + column as u64);
        if usize::from(line.width.saturating_sub(x)) > text.len() {
            put(buffer, line, x, 0, &text, theme.dim);
        }
    }
}

/// The time under the cursor or of the selection, and what came in it.
fn words(app: &App, heat: &Heat, selected: &std::ops::Range<usize>) -> String {
    let (from, until) = (heat.time(selected.start), heat.time(selected.end));
    let n = thousands(heat.sum(selected.clone()));
    let hint = if app.time.anchor.is_some() { "⏎ only these" } else { "v selects from here" };
    format!(
        "{:.3}–{:.3} s ({}): {n} samples, highest cell {}   {hint}",
        from as f64 / 1e9,
        until as f64 / 1e9,
        duration(until - from),
        thousands(u64::from(heat.max)),
    )
}

/// The map as text: numbers of samples, a row an offset.
pub fn text(heat: &Heat) -> String {
    let mut out = String::new();
    for row in 0..heat.rows {
        let cells: Vec<String> = (0..heat.columns).map(|column| heat.cell(column, row).to_string()).collect();
        out.push_str(&format!("{}\n", cells.join(" ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_level_and_one_sample_is() {
        assert_eq!(
            (level(0, 10), level(1, 1), level(1, 7), level(7, 7), level(1, 1_000_000)),
            (None, Some(6), Some(0), Some(6), Some(0))
        );
    }
}
