//! The frame of a popup in the middle of the table, and lists that scroll in it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget};
use tui_input::Input;

use crate::panel::text::width;
use crate::ui::theme::Theme;
use crate::ui::widget::put;

/// A line of pieces, each with its style.
pub(crate) type Styled = Vec<(String, Style)>;

/// A frame of such a size in the middle of an area, as far as it fits.
pub(crate) fn centre((width, height): (u16, u16), area: Rect) -> Rect {
    let (w, h) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - w) / 2, y: area.y + (area.height - h) / 2, width: w, height: h }
}

/// Draws an empty frame; returns its inside.
pub(crate) fn frame(theme: &Theme, title: &str, size: (u16, u16), area: Rect, buffer: &mut Buffer) -> Rect {
    let rect = centre(size, area);
    Clear.render(rect, buffer);
    buffer.set_style(rect, theme.ground);
    let block = Block::bordered().title(format!(" {title} ")).title_style(theme.title).border_style(theme.dim);
    let inner = block.inner(rect);
    block.render(rect, buffer);
    inner
}

/// The line at the top of a popup in which is typed, with words where nothing is; returns where the cursor belongs.
pub(crate) fn typed_line(
    (prefix, empty): (&str, &str),
    input: &Input,
    theme: &Theme,
    inner: Rect,
    buffer: &mut Buffer,
) -> (u16, u16) {
    let x = 1 + put(buffer, inner, 1, 0, prefix, theme.title);
    match input.value() {
        "" => put(buffer, inner, x, 0, empty, theme.dim),
        typed => put(buffer, inner, x, 0, typed, theme.text),
    };
    (inner.x + x + input.visual_cursor() as u16, inner.y)
}

/// The size of a frame around lines.
pub(crate) fn list_size(title: &str, lines: &[Styled]) -> (u16, u16) {
    let widest = lines.iter().map(|l| l.iter().map(|(t, _)| width(t)).sum::<usize>()).max().unwrap_or(0);
    (widest.max(width(title)).min(250) as u16 + 4, lines.len().min(200) as u16 + 2)
}

/// Draws lines in a frame of their size.
pub(crate) fn list(theme: &Theme, title: &str, lines: &[Styled], scroll: usize, area: Rect, buffer: &mut Buffer) {
    let inner = frame(theme, title, list_size(title, lines), area, buffer);
    scrolled(theme, lines, scroll, inner, buffer);
}

/// Lines from where they are scrolled to, and how far that is at the lower edge.
pub(crate) fn scrolled(theme: &Theme, lines: &[Styled], scroll: usize, inner: Rect, buffer: &mut Buffer) {
    let rows = usize::from(inner.height);
    let from = scroll.min(lines.len().saturating_sub(rows));
    for (y, line) in (0..inner.height).zip(&lines[from..]) {
        let mut x = 1;
        for (text, style) in line {
            x += put(buffer, inner, x, y, text, *style);
        }
    }
    if lines.len() > rows {
        let more = format!(" {}-{} of {}, ↑↓ ", from + 1, (from + rows).min(lines.len()), lines.len());
        let y = inner.y + inner.height;
        let edge = Rect { x: inner.x, y, width: inner.width, height: 1 };
        put(buffer, edge, edge.width.saturating_sub(width(&more) as u16), 0, &more, theme.dim);
    }
}
