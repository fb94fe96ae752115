//! The tour's box, at the lower edge of the table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, Clear, Widget};

use crate::panel::text::{width, wrap};
use crate::ui::app::App;
use crate::ui::keys::shown;
use crate::ui::theme::Theme;

use crate::ui::draw::put;

/// Draws the step that one is at, unless something is typed or lies over the screen.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let free = app.prompt.is_none() && app.overlays.is_empty();
    let Some((tour, step)) = app.tour.filter(|_| free).and_then(|tour| Some((tour, tour.step()?))) else { return };
    let w = area.width.min(84);
    let key = shown(app.keymap.key_of(step.name).unwrap_or("esc"));
    let lines = wrap(step.text, usize::from(w.saturating_sub(4)));
    let last = lines.last().map_or(0, |line| width(line));
    // The key stands behind the words where there is room.
    let below = u16::from(last + width(&key) + 6 > usize::from(w));
    let h = lines.len() as u16 + 2 + below;
    if h > area.height || w < 30 {
        return;
    }
    let rect = Rect { x: area.x + area.width - w, y: area.y + area.height - h, width: w, height: h };
    Clear.render(rect, buffer);
    buffer.set_style(rect, theme.ground);
    let (at, of) = tour.place();
    let title = format!(" tour {at} of {of}, Esc ends it ");
    let block = Block::bordered().title(title).title_style(theme.title).border_style(theme.bar);
    let inner = block.inner(rect);
    block.render(rect, buffer);
    for (y, line) in (0..).zip(&lines) {
        put(buffer, inner, 1, y, line, theme.text);
    }
    let (x, y) = if below == 1 { (1, lines.len() as u16) } else { (last as u16 + 2, lines.len() as u16 - 1) };
    put(buffer, inner, x, y, &format!(" {key} "), theme.selected);
}
