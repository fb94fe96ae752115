//! The timeline above table and flame graph: samples over time, the selected range and marks.

use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::panel::series::LEVELS;
use crate::panel::unit::clock;
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;

/// Returns a bar for a number relative to the highest; empty for zero.
pub(crate) fn bar(n: u64, top: u64) -> char {
    if n == 0 { ' ' } else { LEVELS[(n * 7).div_ceil(top.max(1)).min(7) as usize] }
}

pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    let end = clock(model.context.answer.elapsed_ns);
    let room = on.area.width.saturating_sub(10 + end.len() as u16);
    if on.area.height == 0 || room < 10 {
        return;
    }
    if model.context.is_timeless() {
        on.put(1, 0, "these samples do not say when they were taken", on.theme.dim);
        return;
    }
    let x = 1 + on.put(1, 0, "00:00 ", on.theme.dim);
    let grows = model.context.answer.ended.is_none();
    let parts = model.context.answer.timeline.parts(model.context.answer.elapsed_ns, usize::from(room), grows);
    // The newest part is incomplete, and would look like a decrease.
    let top = parts.counts.iter().copied().max().unwrap_or(0);
    let last = parts.counts.len().saturating_sub(1) as u64;
    let place = |ns: u64| x + (ns / parts.length).min(last) as u16;
    for (i, (n, lost)) in parts.counts.iter().zip(&parts.lost).enumerate() {
        let kept = (i as u64 + 1) * parts.length > model.context.answer.kept_from;
        let style = if kept { on.theme.bar } else { on.theme.dim };
        let (text, style) = if *lost > 0 { ('×', on.theme.error) } else { (bar(*n, top), style) };
        on.put(x + i as u16, 0, text.encode_utf8(&mut [0; 4]), style);
    }
    let ranges = [
        (model.selection.baseline_range(), on.theme.same.add_modifier(Modifier::UNDERLINED)),
        (model.selection.range(), on.theme.found),
    ];
    for (range, style) in ranges {
        let Some((from, until)) = range else { continue };
        let (from, until) = (place(from), place(until.saturating_sub(1)));
        let cells = Rect { x: on.area.x + from, width: until.saturating_sub(from) + 1, height: 1, ..on.area };
        on.buffer.set_style(cells.intersection(on.area), style);
    }
    for mark in model.context.answer.marks.iter() {
        let name = if mark.name.is_empty() { "▾" } else { &mark.name };
        on.put(place(mark.at), 0, name, on.theme.found);
    }
    on.put(x + parts.counts.len() as u16 + 1, 0, &end, on.theme.dim);
}
