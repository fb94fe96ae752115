//! The timeline above table and flame graph: how many samples came when, where the range is that is
//! looked at, and what is marked.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::panel::series::LEVELS;
use crate::panel::unit::clock;
use crate::ui::scene::Scene;
use crate::ui::theme::Theme;
use crate::ui::widget::put;

/// A number as a bar, by its share of the highest; nothing is no bar.
pub(crate) fn bar(n: u64, top: u64) -> char {
    if n == 0 { ' ' } else { LEVELS[(n * 7).div_ceil(top.max(1)).min(7) as usize] }
}

/// Draws it into one line.
pub(crate) fn draw(scene: Scene<'_>, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let end = clock(scene.context.answer.elapsed_ns);
    let room = area.width.saturating_sub(10 + end.len() as u16);
    if area.height == 0 || room < 10 {
        return;
    }
    if scene.context.is_timeless() {
        put(buffer, area, 1, 0, "these samples do not say when they were taken", theme.dim);
        return;
    }
    let x = 1 + put(buffer, area, 1, 0, "00:00 ", theme.dim);
    let grows = scene.context.answer.ended.is_none();
    let parts = scene.context.answer.timeline.parts(scene.context.answer.elapsed_ns, usize::from(room), grows);
    // The newest part is still filling, and would look like a fall.
    let top = parts.counts.iter().copied().max().unwrap_or(0);
    let last = parts.counts.len().saturating_sub(1) as u64;
    let place = |ns: u64| x + (ns / parts.length).min(last) as u16;
    for (i, (n, lost)) in parts.counts.iter().zip(&parts.lost).enumerate() {
        let kept = (i as u64 + 1) * parts.length > scene.context.answer.kept_from;
        let style = if kept { theme.bar } else { theme.dim };
        let (text, style) = if *lost > 0 { ('×', theme.error) } else { (bar(*n, top), style) };
        put(buffer, area, x + i as u16, 0, text.encode_utf8(&mut [0; 4]), style);
    }
    // What is looked at, and what it is compared with.
    let ranges = [
        (scene.selection.baseline_range(), theme.same.add_modifier(Modifier::UNDERLINED)),
        (scene.selection.range(), theme.found),
    ];
    for (range, style) in ranges {
        let Some((from, until)) = range else { continue };
        let (from, until) = (place(from), place(until.saturating_sub(1)));
        let cells = Rect { x: area.x + from, width: until.saturating_sub(from) + 1, height: 1, ..area };
        buffer.set_style(cells.intersection(area), style);
    }
    for mark in scene.context.answer.marks.iter() {
        let name = if mark.name.is_empty() { "▾" } else { &mark.name };
        put(buffer, area, place(mark.at), 0, name, theme.found);
    }
    put(buffer, area, x + parts.counts.len() as u16 + 1, 0, &end, theme.dim);
}
