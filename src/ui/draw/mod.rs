//! Drawing: functions from the model to cells. They change nothing.

pub mod choose;
pub mod footer;
pub mod header;
pub mod help;
pub mod info;
pub mod layout;
pub mod overlays;
mod tour;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::panel::text::{clean, fit_end};

use crate::ui::app::{App, Tab};
use crate::ui::theme::Theme;
use crate::ui::view::{cpus, events, flame, time, top, units};
use crate::ui::widget;

/// Draws the whole screen. Returns where the terminal's cursor belongs, if anywhere.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<(u16, u16)> {
    buffer.set_style(area, theme.ground);
    if area.width < layout::MIN.0 || area.height < layout::MIN.1 {
        let text = format!("{}×{} is too small", area.width, area.height);
        put(buffer, area, 0, 0, &text, theme.text);
        return None;
    }
    // What was laid out for one size does not fit into another: the terminal may have changed in between.
    if (area.width, area.height) != app.size {
        return None;
    }
    let places = layout::places(app, area);
    header::draw(app, theme, places.header, buffer);
    header::tabs(app, theme, places.tabs, buffer);
    header::notice(app, theme, places.finding, buffer);
    widget::strip::draw(app, theme, places.strip, buffer);
    match app.tab {
        Tab::Top => {
            top::draw::draw(app, theme, places.table, buffer);
            top::beside::draw(app, theme, places.beside, buffer);
        }
        Tab::Flame => flame::draw::draw(app, theme, places.table, buffer),
        Tab::Time => time::draw::draw(app, theme, places.table, buffer),
        Tab::Cpus => cpus::draw::draw(app, theme, places.table, buffer),
        Tab::Events => events::draw::draw(app, theme, places.table, buffer),
        Tab::Units => units::draw::draw(app, theme, places.table, buffer),
    }
    footer::details(app, theme, places.details, buffer);
    let cursor = footer::draw(app, theme, places.footer, buffer);
    tour::draw(app, theme, places.tour, buffer);
    let over = overlays::draw(app, theme, places.table, buffer);
    over.or(cursor)
}

/// Writes a text at an offset in an area, cut at its end; returns the cells used. Text from outside
/// goes through here or is cleaned before, so no control character reaches the terminal.
pub fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    if y >= area.height || x >= area.width {
        return 0;
    }
    let room = usize::from(area.width - x);
    let text = clean(text);
    let text = fit_end(&text, room);
    let (end, _) = buffer.set_stringn(area.x + x, area.y + y, text.as_ref(), room, style);
    end - area.x - x
}
