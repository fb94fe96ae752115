//! Charts of CPUs over the last minute, in the room that the rows of few CPUs leave.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::machine::sampler::HISTORY;
use crate::machine::table::CpuFacts;
use crate::panel::series::LEVELS;
use crate::query::flame::Class;
use crate::ui::widgets::Canvas;

/// Lines of a chart with its title: the minimum, the number that justifies the whole width, and the maximum.
const LEAST: u16 = 4;
const ENOUGH: u16 = 8;
const MOST: u16 = 24;
/// Minimum width of a chart in cells.
const NARROW: u16 = 60;
/// Cells before the bars.
const SCALE: u16 = 6;

/// Charts of one size, side by side and below each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChartGrid {
    columns: u16,
    rows: u16,
    each: u16,
}

/// A CPU in one interval, in percent of the time: layers from the bottom up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Layers {
    soft: f32,
    busy: f32,
    missing: f32,
}

impl ChartGrid {
    /// Divides a place among charts of these CPUs; returns no charts if not all have room.
    pub(crate) fn of(cpus: usize, width: u16, height: u16) -> Self {
        let n = u16::try_from(cpus).unwrap_or(u16::MAX);
        let sized = |columns: u16| {
            let rows = n.div_ceil(columns);
            Self { columns, rows, each: (height / rows.max(1)).min(MOST) }
        };
        let columns = 1..=(width / NARROW).max(1);
        let grid = columns.clone().map(sized).find(|grid| grid.each >= ENOUGH);
        let grid = grid.unwrap_or_else(|| sized(*columns.end()));
        if n == 0 || grid.each < LEAST { Self::default() } else { grid }
    }

    pub(crate) fn height(self) -> u16 {
        self.rows * self.each
    }

    pub(crate) fn draw(self, facts: &CpuFacts<'_>, (cpus, selected): (&[u32], Option<u32>), on: &mut Canvas<'_>) {
        if self.columns == 0 || on.area.height < self.height() {
            return;
        }
        let wide = on.area.width / self.columns;
        for (i, cpu) in (0..self.columns * self.rows).zip(cpus) {
            let (column, row) = (i % self.columns, i / self.columns);
            let place = Rect {
                x: on.area.x + column * wide,
                y: on.area.y + row * self.each,
                width: wide.saturating_sub(1),
                height: self.each,
            };
            chart(facts, *cpu, selected == Some(*cpu), &mut on.part(place));
        }
    }
}

fn chart(facts: &CpuFacts<'_>, cpu: u32, is_selected: bool, on: &mut Canvas<'_>) {
    let (course, words) = course(facts, cpu);
    let style = if is_selected { on.theme.title.add_modifier(Modifier::BOLD) } else { on.theme.head };
    on.put(1, 0, &format!("─ CPU {cpu}  {words}"), style);
    let lines = on.area.height.saturating_sub(1);
    on.put(1, 1, "100 %", on.theme.dim);
    let room = on.area.width.saturating_sub(SCALE + 2);
    let each = (room / HISTORY as u16).max(1);
    let shown = course.len().min(usize::from(room / each));
    // The newest is at the right, as in the histories of the rows.
    let mut x = SCALE + 1 + each * (HISTORY.min(usize::from(room / each)) - shown) as u16;
    for layers in &course[course.len() - shown..] {
        for y in 0..lines {
            let (symbol, class) = cell(layers, y, lines);
            let text = String::from(symbol).repeat(usize::from(each));
            let style = class.map_or(on.theme.bar, |class| Style { fg: on.theme.block(class, 0).bg, ..Style::new() });
            on.put(x, lines - y, &text, style);
        }
        x += each;
    }
}

/// Returns a cell of a column: the layer with the largest part of it, and the height to which it is filled.
fn cell(layers: &Layers, line: u16, lines: u16) -> (char, Option<Class>) {
    let height = |percent: f32| percent / 100.0 * f32::from(lines) - f32::from(line);
    let top = height(layers.soft + layers.busy + layers.missing).clamp(0.0, 1.0);
    let symbol = match (top * 8.0).round() as usize {
        0 => return (' ', None),
        n => LEVELS[n - 1],
    };
    let middle = top / 2.0;
    match () {
        () if height(layers.soft) >= middle => (if top == 1.0 { '▓' } else { symbol }, Some(Class::Softirq)),
        () if height(layers.soft + layers.busy) >= middle => (symbol, None),
        () => (if top == 1.0 { '?' } else { symbol }, Some(Class::Unknown)),
    }
}

/// Returns the last minute of a CPU and its source: /proc/stat or, where that is unknown, samples.
fn course(facts: &CpuFacts<'_>, cpu: u32) -> (Vec<Layers>, String) {
    if let Some(row) = facts.host.and_then(|host| host.row(cpu)) {
        let layers = row.history.iter().map(|past| {
            let counted = 1.0 - past.missing / 100.0;
            let soft = past.soft * counted;
            Layers { soft, busy: (past.busy * counted - soft).max(0.0), missing: past.missing }
        });
        let missing = if row.missing >= 0.5 { format!(", ? missing {:.0} %", row.missing) } else { String::new() };
        let words = format!("busy {:.0} %, ▓ softirq + irq {:.0} %{missing}; the last minute", row.busy(), row.soft());
        return (layers.collect(), words);
    }
    let Some(row) = facts.samples.and_then(|samples| samples.row(cpu)) else { return Default::default() };
    let layers = parts(&row.history, HISTORY).into_iter().map(|soft| Layers { soft, ..Layers::default() });
    (layers.collect(), format!("▓ softirq + irq {:.1} % of its samples, all of the time", row.soft()))
}

/// Reduces values to at most this number, each the maximum of several.
fn parts(values: &[f32], most: usize) -> Vec<f32> {
    let n = values.len().min(most);
    let part = |i: usize| &values[i * values.len() / n..((i + 1) * values.len()).div_ceil(n)];
    (0..n).map(|i| part(i).iter().copied().fold(0.0, f32::max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_use_the_room_that_rows_leave() {
        let size = |cpus, width, height| {
            let grid = ChartGrid::of(cpus, width, height);
            (grid.columns, grid.rows, grid.each)
        };
        assert_eq!(size(2, 200, 45), (1, 2, 22));
        assert_eq!(size(4, 200, 43), (1, 4, 10));
        assert_eq!(size(8, 200, 39), (2, 4, 9));
        assert_eq!(size(16, 200, 31), (3, 6, 5));
        assert_eq!(size(34, 200, 13), (0, 0, 0));
        assert_eq!(size(0, 200, 40), (0, 0, 0));
    }

    #[test]
    fn a_column_has_its_layers_from_the_bottom_up() {
        let column = |layers: Layers| (0..4).map(|y| cell(&layers, y, 4).0).collect::<String>();
        assert_eq!(column(Layers { soft: 25.0, busy: 50.0, missing: 0.0 }), "▓██ ");
        assert_eq!(column(Layers { soft: 0.0, busy: 60.0, missing: 40.0 }), "██??");
        assert_eq!(column(Layers { soft: 0.0, busy: 30.0, missing: 0.0 }), "█▂  ");
        assert_eq!(column(Layers::default()), "    ");
        assert_eq!(parts(&[1.0, 2.0, 3.0, 4.0, 5.0], 2), [3.0, 5.0]);
        assert_eq!(parts(&[], 2), [0.0; 0]);
    }
}
