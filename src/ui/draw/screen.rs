//! The whole screen: places of its parts, and popups on top.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::panel::charset::{Charset, in_cell};
use crate::ui::draw::{footer, header, layout, tabs};
use crate::ui::popups::{draw as popups, tour};
use crate::ui::screens::Views;
use crate::ui::state::{MIN, Model};
use crate::ui::theme::Theme;
use crate::ui::widgets::{self, Canvas};

/// Draws the whole screen with the supported characters. Returns the cursor position, if any.
pub(crate) fn draw(model: &Model, views: &Views, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<(u16, u16)> {
    let cursor = draw_all(model, views, theme, area, buffer);
    if theme.charset == Charset::Ascii {
        let beyond = buffer.content.iter_mut().filter(|cell| !cell.symbol().is_ascii());
        for (cell, first) in beyond.filter_map(|cell| cell.symbol().chars().next().map(|first| (cell, first))) {
            cell.set_char(in_cell(first));
        }
    }
    cursor
}

fn draw_all(model: &Model, views: &Views, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<(u16, u16)> {
    let on = &mut Canvas { theme, area, buffer };
    on.buffer.set_style(area, theme.ground);
    if area.width < MIN.0 || area.height < MIN.1 {
        let lines = [format!("{}×{} is too small", area.width, area.height), format!("needs {}×{}", MIN.0, MIN.1)];
        for (y, line) in (0..).zip(lines) {
            on.put(0, y, &line, theme.text);
        }
        return None;
    }
    // The terminal may have changed its size since the layout; skip such a frame.
    if (area.width, area.height) != model.frame.size {
        return None;
    }
    let places = layout::places(model, area);
    header::draw(model, &mut on.part(places.header));
    tabs::draw(model, &mut on.part(places.tabs));
    header::banner(model, &mut on.part(places.finding));
    widgets::timeline::draw(model, &mut on.part(places.timeline));
    views.screen(model.frame.tab).draw(model, &mut on.part(places.table));
    footer::details(model, views, &mut on.part(places.details));
    let cursor = footer::draw(model, views, &mut on.part(places.footer));
    tour::draw(model, &mut on.part(places.tour));
    let over = popups::draw(model, &mut on.part(layout::popup(model, &places)));
    over.or(cursor)
}
