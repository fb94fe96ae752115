//! The screen as a whole: what is drawn where, and what lies over it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::draw::{footer, header, layout, popups, tour};
use crate::ui::scene::{MIN, Scene};
use crate::ui::tab::Tab;
use crate::ui::theme::Theme;
use crate::ui::view::{Views, cpus, events, flame, time, top, units};
use crate::ui::widget::{self, put};

/// Draws the whole screen. Returns where the terminal's cursor belongs, if anywhere.
pub(crate) fn draw(
    scene: Scene<'_>,
    views: &Views,
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<(u16, u16)> {
    buffer.set_style(area, theme.ground);
    if area.width < MIN.0 || area.height < MIN.1 {
        let text = format!("{}×{} is too small", area.width, area.height);
        put(buffer, area, 0, 0, &text, theme.text);
        return None;
    }
    // What was laid out for one size does not fit into another: the terminal may have changed in between.
    if (area.width, area.height) != scene.frame.size {
        return None;
    }
    let places = layout::places(scene, area);
    header::draw(scene, theme, places.header, buffer);
    header::tabs(scene, theme, places.tabs, buffer);
    header::notice(scene, theme, places.finding, buffer);
    widget::timeline::draw(scene, theme, places.timeline, buffer);
    match scene.frame.tab {
        Tab::Top => {
            top::draw::draw(scene, &views.top, theme, places.table, buffer);
            top::beside::draw(scene, &views.top, theme, places.beside, buffer);
        }
        Tab::Flame => flame::draw::draw(scene, &views.flame, theme, places.table, buffer),
        Tab::Time => time::draw::draw(scene, &views.time, theme, places.table, buffer),
        Tab::Cpus => cpus::draw::draw(scene, &views.cpus, theme, places.table, buffer),
        Tab::Events => events::draw::draw(scene, &views.events, theme, places.table, buffer),
        Tab::Units => units::draw::draw(&views.units, theme, places.table, buffer),
    }
    footer::details(scene, views, theme, places.details, buffer);
    let cursor = footer::draw(scene, theme, places.footer, buffer);
    tour::draw(scene, theme, places.tour, buffer);
    let over = popups::draw(scene, views, theme, layout::popup(scene, &places), buffer);
    over.or(cursor)
}
