//! Drawing that several screens share.

pub(crate) mod popup_frame;
pub(crate) mod rows;
pub(crate) mod timeline;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use crate::panel::text::{clean, fit_end};
use crate::ui::theme::Theme;

/// A part of the screen that is drawn on, and the styles to draw with.
pub(crate) struct Canvas<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) area: Rect,
    pub(crate) buffer: &'a mut Buffer,
}

impl Canvas<'_> {
    /// Another part of the screen.
    pub(crate) fn part(&mut self, area: Rect) -> Canvas<'_> {
        Canvas { theme: self.theme, area, buffer: self.buffer }
    }

    /// One line of this part.
    pub(crate) fn line(&mut self, y: u16) -> Canvas<'_> {
        self.part(Rect { y: self.area.y + y, height: 1, ..self.area })
    }

    /// This part below so many lines.
    pub(crate) fn below(&mut self, lines: u16) -> Canvas<'_> {
        let lines = lines.min(self.area.height);
        self.part(Rect { y: self.area.y + lines, height: self.area.height - lines, ..self.area })
    }

    /// Wipes out what was drawn.
    pub(crate) fn clear(&mut self) {
        Clear.render(self.area, self.buffer);
        self.buffer.set_style(self.area, self.theme.ground);
    }

    /// Writes a text at an offset, cut at its end; returns the cells used. Text from outside goes through here or is
    /// cleaned before, so no control character reaches the terminal.
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
}
