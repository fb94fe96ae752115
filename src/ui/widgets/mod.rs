//! Drawing functions that several screens share.

pub(crate) mod popup_frame;
pub(crate) mod rows;
pub(crate) mod timeline;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use crate::panel::Align;
use crate::panel::text::{clean, fit_end, width, wrap};
use crate::ui::theme::Theme;

/// A part of the screen to draw on, with the styles.
pub(crate) struct Canvas<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) area: Rect,
    pub(crate) buffer: &'a mut Buffer,
}

impl Canvas<'_> {
    pub(crate) fn part(&mut self, area: Rect) -> Canvas<'_> {
        Canvas { theme: self.theme, area, buffer: self.buffer }
    }

    pub(crate) fn line(&mut self, y: u16) -> Canvas<'_> {
        self.part(Rect { y: self.area.y + y, height: 1, ..self.area })
    }

    pub(crate) fn below(&mut self, lines: u16) -> Canvas<'_> {
        let lines = lines.min(self.area.height);
        self.part(Rect { y: self.area.y + lines, height: self.area.height - lines, ..self.area })
    }

    /// Returns this part of the screen with some lines above it, cleared.
    pub(crate) fn upwards(&mut self, above: u16) -> Canvas<'_> {
        let above = above.min(self.area.y);
        let mut whole = self.part(Rect { y: self.area.y - above, height: self.area.height + above, ..self.area });
        whole.clear();
        whole
    }

    /// Writes a text upwards over as many lines as needed, at most `most`.
    pub(crate) fn put_upwards(&mut self, text: &str, style: Style, most: usize) {
        let mut lines = wrap(text, usize::from(self.area.width.saturating_sub(2)));
        lines.truncate(most);
        let mut on = self.upwards(lines.len().saturating_sub(1) as u16);
        for (y, line) in (0..).zip(&lines) {
            on.put(1, y, line, style);
        }
    }

    pub(crate) fn clear(&mut self) {
        Clear.render(self.area, self.buffer);
        self.buffer.set_style(self.area, self.theme.ground);
    }

    /// Writes a text at an offset, truncated at the end; returns the cells used. It removes control characters, so that
    /// external text cannot control the terminal.
    pub(crate) fn put(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let area = self.area;
        if y >= area.height || x >= area.width {
            return 0;
        }
        let room = usize::from(area.width - x);
        let text = clean(text);
        let text = self.theme.charset.key_names(&text);
        let text = fit_end(&text, room);
        let (end, _) = self.buffer.set_stringn(area.x + x, area.y + y, text.as_ref(), room, style);
        end - area.x - x
    }

    /// Writes a text into a column of some cells, at its left or right end.
    pub(crate) fn put_in(&mut self, (x, cells): (u16, u16), align: Align, text: &str, style: Style) {
        let pad = if align == Align::Right { cells.saturating_sub(width(text) as u16) } else { 0 };
        self.put(x + pad, 0, text, style);
    }
}
