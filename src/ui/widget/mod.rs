//! Drawing that several screens share.

pub(crate) mod popup_frame;
pub(crate) mod rows;
pub(crate) mod timeline;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::panel::text::{clean, fit_end};

/// Writes a text at an offset in an area, cut at its end; returns the cells used. Text from outside
/// goes through here or is cleaned before, so no control character reaches the terminal.
pub(crate) fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    if y >= area.height || x >= area.width {
        return 0;
    }
    let room = usize::from(area.width - x);
    let text = clean(text);
    let text = fit_end(&text, room);
    let (end, _) = buffer.set_stringn(area.x + x, area.y + y, text.as_ref(), room, style);
    end - area.x - x
}
