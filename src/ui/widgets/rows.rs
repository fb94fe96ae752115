//! Common parts of tables: sort mark, bars, cursor line, scroll bar.

use std::ops::Range;

use ratatui::style::{Color, Modifier};

use crate::panel::unit::thousands;
use crate::ui::widgets::Canvas;

/// Minimum table width for bars next to shares, and the width of a bar including a space before it.
pub(crate) const BARRED: u16 = 100;
pub(crate) const BAR: u16 = 9;

/// Returns the text about hidden rows above, with the key that goes there.
pub(crate) fn hotter(rows: usize, key: String) -> Option<String> {
    (rows > 0).then(|| format!("↑ {rows} hotter {}  {key} goes there", if rows == 1 { "row" } else { "rows" }))
}

/// Returns the sort mark for the title of the sort column.
pub(crate) fn arrow(ordered: bool, reversed: bool) -> &'static str {
    match (ordered, reversed) {
        (true, false) => "▾",
        (true, true) => "▴",
        _ => "",
    }
}

/// Returns a bar with a filled share of some cells.
pub(crate) fn eighths(share: f64, cells: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// Draws the cursor line in one style, because coloured texts would look like patches; given bars keep their colour.
pub(crate) fn light_up(bars: &[Range<u16>], on: &mut Canvas<'_>) {
    let color = on.theme.bar.fg.unwrap_or(Color::Reset);
    for x in 0..on.area.width.saturating_sub(1) {
        let cell = &mut on.buffer[(on.area.x + x, on.area.y)];
        let plain = cell.style().fg(Color::Reset).bg(Color::Reset).patch(on.theme.selected);
        let in_bar = bars.iter().any(|bar| bar.contains(&x)) && cell.symbol() != " ";
        // Reversed text shows its background colour.
        let style = match (in_bar, plain.add_modifier.contains(Modifier::REVERSED)) {
            (false, _) => plain,
            (true, true) => plain.bg(color),
            (true, false) => plain.fg(color),
        };
        cell.set_style(style);
    }
}

/// Draws the scroll bar: a thumb at the right edge, proportional to the visible part.
pub(crate) fn scroll_bar((top, lines): (usize, usize), on: &mut Canvas<'_>) {
    let height = usize::from(on.area.height);
    if height == 0 || lines <= height {
        return;
    }
    let thumb = (height * height / lines).max(1);
    let at = (top * (height - thumb)).div_ceil(lines - height).min(height - thumb);
    for y in at..at + thumb {
        on.put(on.area.width.saturating_sub(1), y as u16, "▐", on.theme.dim);
    }
}

/// Returns a row number, counted from 1, with the total.
pub(crate) fn place(row: usize, rows: usize) -> String {
    format!("{}/{}", thousands(row as u64), thousands(rows as u64))
}
