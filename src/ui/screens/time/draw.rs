//! The time screen: a heat map with its legend, the time axis, and a description of the selection.

use ratatui::layout::Rect;

use crate::lang::counted;
use crate::panel::function_name::fit_function;
use crate::panel::text::{clean, fit, width};
use crate::panel::unit::{duration, percent, thousands};
use crate::profile::Acc;
use crate::query::heat::{Heat, HeatBy, SECOND};
use crate::query::time_range::time_of_day;
use crate::session::Origin;
use crate::ui::screens::time::heat::{self, HeatMap};
use crate::ui::screens::time::layout::{RowPacking, map_area, slot_of, threads_line, turned, wide};
use crate::ui::screens::time::state::{TimeSelection, TimeState};
use crate::ui::screens::top::draw as table;
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;

pub(crate) fn draw(model: &Model, view: &TimeState, on: &mut Canvas<'_>) {
    if model.context.info.origin == Origin::Live && model.context.answer.unfiltered.samples == 0 {
        return table::empty(model, on);
    }
    let Some(heat) = model.context.answer.view.heat.as_ref().filter(|heat| heat.length > 0) else {
        on.put(2, 1, "building the map…", on.theme.dim);
        return;
    };
    if let Some(why) = nothing(model, heat) {
        on.put(2, 1, why, on.theme.text);
        return;
    }
    let map = map_area(model, view);
    let selected = view.selected(heat);
    legend(model, view, heat, &mut on.part(Rect { height: 1, ..on.area }));
    let packing = RowPacking::of(model, view, heat.rows, map.height);
    names(view, heat, packing, &mut on.part(Rect { x: on.area.x, width: map.x - on.area.x, ..map }));
    let wide = wide(model, view, map.width);
    heat::draw(&HeatMap { model, view, heat, selected: &selected, packing, wide }, &mut on.part(map));
    let mut below = map.y + map.height;
    if let Some(line) = threads_line(model, map) {
        on.put(1, line.y - on.area.y, "threads", on.theme.text);
        threads(model, heat, wide, &mut on.part(line));
        below += 1;
    }
    axis(model, heat, wide, &mut on.part(Rect { y: below, height: 1, ..map }));
    let words = cursor_line(model, view, heat, &selected);
    on.put(1, below + 1 - on.area.y, &words, on.theme.text);
}

/// Draws the mean number of running threads in each column, with as many digits as it has room for.
fn threads(model: &Model, heat: &Heat, wide: u16, on: &mut Canvas<'_>) {
    for column in 0..heat.columns {
        let Some(n) = heat.threads(column..column + 1) else { continue };
        on.put(slot_of(model, heat, column) * wide, 0, &brief(n, wide), on.theme.text);
    }
}

/// Formats a number of threads so that a space separates it from the next, unless a column has one cell; `+` for numbers
/// that do not fit.
fn brief(n: f64, wide: u16) -> String {
    let room = usize::from(wide.max(2) - 1);
    let texts = [format!("{n:.1}"), format!("{n:.0}")];
    texts.into_iter().find(|text| text.len() <= room).unwrap_or_else(|| "+".to_owned())
}

fn nothing(model: &Model, heat: &Heat) -> Option<&'static str> {
    if model.context.is_timeless() {
        return Some(match model.context.info.inputs.is_empty() {
            // Folded stacks and other tools' profiles.
            true => "These samples do not say when they were taken.",
            false => "These samples do not say when they were taken: record with perf record -T.",
        });
    }
    if model.context.answer.unfiltered.samples == 0 {
        return Some("There are no samples of this event.");
    }
    (heat.rows == 0).then_some("No sample passes the filter: ⌫ takes it back.")
}

/// Draws the legend: rows, columns and colours.
fn legend(model: &Model, view: &TimeState, heat: &Heat, on: &mut Canvas<'_>) {
    let rows = match heat.by {
        HeatBy::Offset => format!("rows {}", duration(heat.length / heat.rows.max(1) as u64)),
        by => format!("rows by {}", by.word()),
    };
    let mut x = 1 + on.put(1, 0, &format!("{rows}, columns {}", length(heat.length)), on.theme.text) + 2;
    let levels = shown_levels(view);
    for (i, (level, from, upto)) in levels.iter().enumerate() {
        x += heat::swatch(*level, false, x, on);
        // On a narrow screen, show the first and last level only.
        if on.area.width >= 100 || i == 0 || i + 1 == levels.len() {
            let text = if from == upto { "" } else { "≤" };
            let upto = value(model, heat, u64::from(*upto)).unwrap_or_else(|| thousands(u64::from(*upto)));
            x += on.put(x, 0, &format!("{text}{upto} "), on.theme.dim);
        }
    }
    let noun = match heat.value {
        Some(_) => " ",
        None if heat.in_time => "ms of threads  ",
        None => "samples  ",
    };
    x += on.put(x, 0, noun, on.theme.dim);
    if heat.lost.iter().any(|n| *n > 0) {
        x += on.put(x, 0, "× lost  ", on.theme.error);
    }
    if let Some((_, name)) = &view.highlight {
        x += heat::swatch(5, true, x, on) + 1;
        let room = usize::from(on.area.width.saturating_sub(x + 1));
        on.put(x, 0, &fit(&clean(name), room), on.theme.text);
    }
}

/// Returns a sum of cells in the unit of the file, if they are its values.
fn value(model: &Model, heat: &Heat, sum: u64) -> Option<String> {
    Some(model.weighed(Acc { samples: 0, period: sum.saturating_mul(heat.value?) }))
}

/// Returns the levels in use: level, minimum and maximum count.
fn shown_levels(view: &TimeState) -> Vec<(usize, u32, u32)> {
    let levels = &view.levels;
    let mut shown = Vec::new();
    for (level, least) in levels.least.iter().enumerate() {
        let next = levels.least.get(level + 1).map_or(levels.max.saturating_add(1), |next| *next);
        if next > *least {
            shown.push((level, *least, next - 1));
        }
    }
    shown
}

/// Formats `1 s`, `5 min`, `2 h`, `7 d`.
fn length(ns: u64) -> String {
    let seconds = ns / SECOND;
    match seconds {
        0 => duration(ns),
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min", s / 60),
        s if s < 86_400 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

fn names(view: &TimeState, heat: &Heat, packing: RowPacking, on: &mut Canvas<'_>) {
    let cursor = view.spot(heat).row / packing.rows_a_line * packing.lines_a_row;
    // Label every fourth line of offsets, every second line of latencies.
    let every = |lines: usize| lines.div_ceil(packing.lines_a_row) * packing.lines_a_row;
    for y in (0..on.area.height).filter(|y| usize::from(*y).is_multiple_of(packing.lines_a_row)) {
        let (row, at) = (packing.row(y), usize::from(y));
        if row >= heat.rows {
            return;
        }
        let room = usize::from(on.area.width).saturating_sub(2);
        if heat.by == HeatBy::Offset {
            if at.is_multiple_of(every(4)) {
                let text = duration(heat.offset(row));
                on.put(1, y, &format!("{text:>room$}"), on.theme.dim);
            }
            continue;
        }
        let sparse = heat.by == HeatBy::Latency && !at.is_multiple_of(every(2));
        let Some(lane) = heat.lanes.get(row).filter(|_| !sparse || at == cursor) else { continue };
        let style = if at == cursor { on.theme.title } else { on.theme.text };
        let label = clean(&lane.label);
        let text = fit_function(&label, room);
        let pad = if heat.by == HeatBy::Latency { room.saturating_sub(width(&text)) } else { 0 };
        on.put(1 + pad as u16, y, &text, style);
    }
}

/// Draws the time axis with marks and losses; the selected range is underlined.
fn axis(model: &Model, heat: &Heat, wide: u16, on: &mut Canvas<'_>) {
    // Times go before losses, which the map shows as well.
    for (column, _) in heat.lost.iter().enumerate().filter(|(_, n)| **n > 0) {
        on.put(slot_of(model, heat, column) * wide, 0, "×", on.theme.error);
    }
    // A space separates two times, however long the last one is.
    let longest = width(&time(heat.column_time(heat.columns.saturating_sub(1)), heat.length)) as u16;
    let wide_enough = (longest + 1).div_ceil(wide.max(1));
    let step = u64::from((10 / wide.max(1)).max(wide_enough));
    for column in (0..heat.columns).filter(|column| (heat.first + *column as u64).is_multiple_of(step)) {
        let text = time(heat.column_time(column), heat.length);
        let x = slot_of(model, heat, column) * wide;
        if usize::from(on.area.width.saturating_sub(x)) > width(&text) {
            on.put(x, 0, &text, on.theme.dim);
        }
    }
    // In a live map, the newest column is to the left of the oldest one: mark the boundary.
    if turned(model, heat) > 0 {
        on.put(slot_of(model, heat, 0) * wide, 0, "┊", on.theme.key);
    }
    for mark in model.context.answer.marks.iter() {
        let column = (mark.at / heat.length).checked_sub(heat.first).filter(|c| *c < heat.columns as u64);
        if let Some(column) = column {
            let name = if mark.name.is_empty() { "▾" } else { &mark.name };
            on.put(slot_of(model, heat, column as usize) * wide, 0, name, on.theme.found);
        }
    }
    if let Some((from, until)) = model.selection.range() {
        for column in 0..heat.columns {
            let begin = heat.column_time(column);
            if heat.column_time(column + 1) > from && begin < until {
                let cells = Rect { x: on.area.x + slot_of(model, heat, column) * wide, width: wide, ..on.area };
                on.buffer.set_style(cells.intersection(on.area), ratatui::style::Style::new().underlined());
            }
        }
    }
}

/// Formats a time on the axis with the precision of the columns.
fn time(ns: u64, length: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match length {
        l if l >= 60 * SECOND => crate::panel::unit::clock(ns),
        l if l >= SECOND => format!("{seconds:.0} s"),
        l if l >= SECOND / 10 => format!("{seconds:.1} s"),
        l if l >= SECOND / 100 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.3} s"),
    }
}

/// Describes the time under the cursor or of the selection and its samples, the most important part first.
fn cursor_line(model: &Model, view: &TimeState, heat: &Heat, selected: &TimeSelection) -> String {
    let (from, until) = (selected.from, selected.until);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut parts = vec![
        format!("{:.3}–{:.3} s ({})", seconds(from), seconds(until), duration(until - from)),
        match value(model, heat, selected.samples) {
            Some(value) => value,
            None if heat.in_time => format!("{} of threads", duration(selected.samples.saturating_mul(1_000_000))),
            None => counted(selected.samples, "sample"),
        },
    ];
    if let Some(lane) = selected.rows.as_ref().and_then(|rows| heat.lanes.get(rows.start)) {
        let more = selected.rows.as_ref().map_or(0, |rows| rows.len() - 1);
        let more = if more > 0 { format!(" and {}", counted(more as u64, "more row")) } else { String::new() };
        parts.push(format!("{}{more}", clean(&lane.label)));
    }
    let columns = if heat.by == HeatBy::Offset { heat.columns_of(&selected.span) } else { selected.span.clone() };
    if let Some(n) = heat.threads(columns) {
        parts.push(format!("{n:.2} threads"));
    }
    if heat.total > 0 {
        parts.push(format!("{} of all", percent(100.0 * selected.samples as f64 / heat.total as f64)));
    }
    if model.context.answer.wall_start > 0 {
        parts.push(time_of_day(model.context.answer.wall_start.saturating_add(from)));
    }
    let near = |mark: &&crate::session::TimeMark| (from..until).contains(&mark.at) && !mark.note.is_empty();
    if let Some(mark) = model.context.answer.marks.iter().find(near) {
        parts.push(clean(&mark.note).into_owned());
    }
    let words = parts.join("  ");
    let hint = if view.anchor.is_some() { "  ⏎ only these" } else { "  v selects from here" };
    if width(&words) + width(hint) + 1 < usize::from(model.frame.size.0) { words + hint } else { words }
}

/// Returns the map as text: a line per row with its name and sample counts or values.
pub(crate) fn text(heat: &Heat) -> String {
    let mut out = String::new();
    for row in 0..heat.rows {
        let name = match heat.lanes.get(row) {
            Some(lane) => clean(&lane.label).into_owned(),
            None => duration(heat.offset(row)),
        };
        let cell = |column: usize| u64::from(heat.cell(column, row)).saturating_mul(heat.value.unwrap_or(1));
        let cells: Vec<String> = (0..heat.columns).map(|column| cell(column).to_string()).collect();
        out.push_str(&format!("{name}\t{}\n", cells.join("\t")));
    }
    if !heat.running.is_empty() {
        let number = |column: usize| heat.threads(column..column + 1).map_or(String::new(), |n| format!("{n:.2}"));
        let cells: Vec<String> = (0..heat.columns).map(number).collect();
        out.push_str(&format!("threads\t{}\n", cells.join("\t")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_fit_their_columns() {
        let texts = |n: f64| [1, 2, 3, 4, 5].map(|wide| brief(n, wide));
        assert_eq!(texts(1.0), ["1", "1", "1", "1.0", "1.0"]);
        assert_eq!(texts(1.94), ["2", "2", "2", "1.9", "1.9"]);
        assert_eq!(texts(63.5), ["+", "+", "64", "64", "63.5"]);
    }
}
