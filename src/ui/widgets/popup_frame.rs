//! The frame of a popup in the middle of the table, with scrollable lists.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Widget};
use tui_input::Input;

use crate::panel::text::width;
use crate::ui::widgets::Canvas;

pub(crate) type Styled = Vec<(String, Style)>;

/// Returns an area of a size in the middle of another one, clipped to it.
pub(crate) fn centre((width, height): (u16, u16), area: Rect) -> Rect {
    let (w, h) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - w) / 2, y: area.y + (area.height - h) / 2, width: w, height: h }
}

/// Draws an empty frame; returns its inside.
pub(crate) fn frame<'a>(title: &str, size: (u16, u16), on: &'a mut Canvas<'_>) -> Canvas<'a> {
    let rect = centre(size, on.area);
    on.part(rect).clear();
    let block = Block::bordered().title(format!(" {title} ")).title_style(on.theme.title).border_style(on.theme.dim);
    let inner = block.inner(rect);
    block.render(rect, on.buffer);
    on.part(inner)
}

/// Draws the input line at the top of a popup, with a placeholder while it is empty; returns the cursor position.
pub(crate) fn typed_line((prefix, empty): (&str, &str), input: &Input, on: &mut Canvas<'_>) -> (u16, u16) {
    let x = 1 + on.put(1, 0, prefix, on.theme.title);
    match input.value() {
        "" => on.put(x, 0, empty, on.theme.dim),
        typed => on.put(x, 0, typed, on.theme.text),
    };
    (on.area.x + x + input.visual_cursor() as u16, on.area.y)
}

pub(crate) fn list_size(title: &str, lines: &[Styled]) -> (u16, u16) {
    let widest = lines.iter().map(|l| l.iter().map(|(t, _)| width(t)).sum::<usize>()).max().unwrap_or(0);
    (widest.max(width(title)).min(250) as u16 + 4, lines.len().min(200) as u16 + 2)
}

/// Draws lines in a frame of their size.
pub(crate) fn list(title: &str, lines: &[Styled], scroll: usize, on: &mut Canvas<'_>) {
    scrolled(lines, scroll, &mut frame(title, list_size(title, lines), on));
}

/// Draws lines from a scroll position, and the position at the lower edge.
pub(crate) fn scrolled(lines: &[Styled], scroll: usize, on: &mut Canvas<'_>) {
    let rows = usize::from(on.area.height);
    let from = scroll.min(lines.len().saturating_sub(rows));
    for (y, line) in (0..on.area.height).zip(&lines[from..]) {
        let mut x = 1;
        for (text, style) in line {
            x += on.put(x, y, text, *style);
        }
    }
    if lines.len() > rows {
        let more = format!(" {}-{} of {}, ↑↓ ", from + 1, (from + rows).min(lines.len()), lines.len());
        let edge = &mut on.line(on.area.height);
        edge.put(edge.area.width.saturating_sub(width(&more) as u16), 0, &more, edge.theme.dim);
    }
}
