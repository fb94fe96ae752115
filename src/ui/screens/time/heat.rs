//! The cells of a heat map: half-blocks in seven levels with enough colours, otherwise letters of increasing weight.

use ratatui::style::{Color, Modifier, Style};

use crate::query::heat::{Heat, HeatBy};
use crate::ui::screens::time::layout::RowPacking;
use crate::ui::screens::time::state::{TimeSelection, TimeState};
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;

/// The levels with few colours, and those of highlighted cells.
const LETTERS: [char; 7] = ['.', ':', '-', '=', '+', '*', '#'];
const HIGHLIGHT: [char; 7] = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
/// Lost samples, and no recording; both differ from zero samples.
const LOST: char = '×';
const NO_DATA: char = '·';

/// The map and what is drawn on it.
pub(crate) struct HeatMap<'a> {
    pub(crate) model: &'a Model,
    pub(crate) view: &'a TimeState,
    pub(crate) heat: &'a Heat,
    pub(crate) selected: &'a TimeSelection,
    pub(crate) packing: RowPacking,
    /// Width of a column in cells.
    pub(crate) wide: u16,
}

/// One row of the map within a cell of the screen.
#[derive(Clone, Copy)]
struct Part {
    level: Option<usize>,
    highlight: bool,
}

pub(crate) fn draw(map: &HeatMap<'_>, on: &mut Canvas<'_>) {
    let columns = (map.heat.columns as u16).saturating_mul(map.wide).min(on.area.width);
    for y in 0..on.area.height {
        let row = map.packing.row(y);
        if row >= map.heat.rows {
            return;
        }
        for x in 0..columns {
            let column = crate::ui::screens::time::layout::column_in(map.model, map.heat, usize::from(x / map.wide));
            cell(map, column, row, (on.area.x + x, on.area.y + y), on);
        }
    }
}

/// Draws an example of a level; returns its width.
pub(crate) fn swatch(level: usize, highlight: bool, x: u16, on: &mut Canvas<'_>) -> u16 {
    if x >= on.area.width {
        return 0;
    }
    if let Some(place) = on.buffer.cell_mut((on.area.x + x, on.area.y)) {
        let part = Part { level: Some(level), highlight };
        if on.theme.fine {
            place.set_char('■').set_fg(color(on.theme, part));
        } else {
            place.set_char(letter(part)).set_style(Style::new().fg(color(on.theme, part)));
        }
    }
    1
}

fn color(theme: &Theme, part: Part) -> Color {
    let ramp = if part.highlight { &theme.heat.highlight } else { &theme.heat.cells };
    part.level.map_or(Color::Reset, |level| ramp[level])
}

fn letter(part: Part) -> char {
    part.level.map_or(' ', |level| if part.highlight { HIGHLIGHT[level] } else { LETTERS[level] })
}

fn cell(map: &HeatMap<'_>, column: usize, row: usize, at: (u16, u16), on: &mut Canvas<'_>) {
    let (heat, theme) = (map.heat, on.theme);
    let part = |row: usize| {
        let inside = row < heat.rows;
        let level = map.view.levels.level(heat.cell(column, row)).filter(|_| inside);
        Part { level, highlight: inside && heat.lit(column, row) > 0 }
    };
    let upper = part(row);
    let lower = if map.packing.rows_a_line == 2 { part(row + 1) } else { upper };
    let rows = row..row + map.packing.rows_a_line;
    let here = rows.clone().any(|row| row < heat.rows && map.selected.has(heat, column, row));
    let lost = rows.clone().any(|row| heat.lost_cells.binary_search(&(column * heat.rows + row)).is_ok());
    let Some(place) = on.buffer.cell_mut(at) else { return };
    let most = if lower.level > upper.level { lower } else { upper };
    if theme.fine {
        // The brighter half is the foreground: fewer distinct styles need fewer bytes.
        let (above, below) = (color(theme, upper), color(theme, lower));
        match (upper.level, lower.level) {
            (None, None) => place.set_char(' '),
            _ if above == below => place.set_char(' ').set_bg(above),
            (a, b) if (a, upper.highlight) >= (b, lower.highlight) => place.set_char('▀').set_fg(above).set_bg(below),
            _ => place.set_char('▄').set_fg(below).set_bg(above),
        };
    } else {
        place.set_char(letter(most)).set_style(Style::new().fg(color(theme, most)));
    }
    if most.level.is_none() && outside(map, column, row) {
        place.set_char(NO_DATA).set_style(theme.dim);
    }
    if lost {
        place.set_char(LOST).set_style(theme.error);
    }
    if here && theme.fine {
        // Reversing a half-block would only swap its halves.
        let shown = if lost { LOST } else { '▒' };
        place.set_char(shown).set_fg(Color::Gray).set_bg(color(theme, most));
    } else if here {
        let style = place.style().add_modifier(Modifier::REVERSED);
        place.set_style(style);
    }
}

/// Whether nothing was recorded at that time, or it was evicted. Future cells are just empty.
fn outside(map: &HeatMap<'_>, column: usize, row: usize) -> bool {
    let heat = map.heat;
    let (begin, end) = match heat.by {
        HeatBy::Offset => {
            let cell = column * heat.rows + row;
            (heat.time(cell), heat.time((cell + map.packing.rows_a_line).min((column + 1) * heat.rows)))
        }
        _ => (heat.column_time(column), heat.column_time(column + 1)),
    };
    let rested = |(from, until): &(u64, u64)| begin >= *from && end <= *until;
    if heat.gaps.iter().any(rested) && begin <= map.model.context.answer.elapsed_ns {
        return true;
    }
    end <= heat.from || map.model.context.answer.ended.is_some() && begin > heat.until
}
