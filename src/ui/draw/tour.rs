//! The tour's box, below the part of the screen that it describes.

use ratatui::widgets::{Block, Widget};

use crate::panel::text::{width, wrap};
use crate::ui::keys::shown;
use crate::ui::scene::Scene;
use crate::ui::tour::{STEPS, TourStep, step};
use crate::ui::widget::Canvas;

/// Returns the height of the tour's box; zero without a tour, or if room is short.
pub(crate) fn height(scene: Scene<'_>, width: u16, room: u16) -> u16 {
    let lines = scene.frame.tour.and_then(step).map_or(0, |step| plan(scene, step, width).2);
    if lines + LEAST <= room && width >= 30 { lines } else { 0 }
}

/// Minimum height of the table above it.
const LEAST: u16 = 6;

/// Returns the wrapped text, the key, and the height of the box.
fn plan(scene: Scene<'_>, step: &TourStep, width: u16) -> (Vec<String>, String, u16) {
    let key = shown(scene.context.keymap.key_of(step.row).unwrap_or("esc"));
    let room = usize::from(width.saturating_sub(4));
    let lines = wrap(step.text, room);
    // The key follows the text if there is room.
    let below = usize::from(!has_room(&lines, &key, room));
    let height = (lines.len() + below + 2) as u16;
    (lines, key, height)
}

fn has_room(lines: &[String], key: &str, room: usize) -> bool {
    lines.last().map_or(0, |line| width(line)) + width(key) + 3 <= room
}

pub(crate) fn draw(scene: Scene<'_>, on: &mut Canvas<'_>) {
    let Some((at, step)) = scene.frame.tour.and_then(|at| Some((at, step(at)?))) else { return };
    if on.area.height == 0 {
        return;
    }
    let (lines, key, _) = plan(scene, step, on.area.width);
    let title = format!(" tour {} of {}, Esc ends it ", at + 1, STEPS.len());
    let block = Block::bordered().title(title).title_style(on.theme.title).border_style(on.theme.bar);
    let inner = block.inner(on.area);
    block.render(on.area, on.buffer);
    let behind = has_room(&lines, &key, usize::from(on.area.width.saturating_sub(4)));
    let inner = &mut on.part(inner);
    for (y, line) in (0..).zip(&lines) {
        inner.put(1, y, line, inner.theme.text);
    }
    let last = lines.last().map_or(0, |line| width(line)) as u16;
    let (x, y) = if behind { (last + 2, lines.len() as u16 - 1) } else { (1, lines.len() as u16) };
    inner.put(x, y, &format!(" {key} "), inner.theme.selected);
}
