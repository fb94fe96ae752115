//! A panel's rows as a table: columns that fit, sort marks, cursor, heat and scroll bar.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::panel::series::spark;
use crate::panel::stack_line::FrameWeights;
use crate::panel::table::Cut;
use crate::panel::text::{fit, fit_end, fit_list, width};
use crate::panel::{Align, Body, Cell, Column, Panel, Rows};
use crate::ui::screens::units::panel_view::{PanelView, cursor, visible};
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::rows::{BAR, BARRED, arrow, eighths, light_up, scroll_bar};

/// Returns the first visible row: a log follows its end until a row is selected.
pub(crate) fn first_row(panel: &Panel, view: &PanelView, area: Rect) -> usize {
    let Some(rows) = panel.rows() else { return 0 };
    let list = visible(&panel.body, rows, view);
    first_of(view, area, list.len(), cursor(&panel.body, rows, view, &list))
}

fn first_of(view: &PanelView, area: Rect, rows: usize, cursor: Option<usize>) -> usize {
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    cursor.map_or(rows.saturating_sub(height), |at| view.list.first(at, rows, height))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitColumnSpan {
    column: usize,
    x: u16,
    cells: u16,
    /// Width of the bar at its end, including a space before it.
    bar: u16,
}

/// Minimum widths of a wide text column, and of the last column with the subject of the row.
const NARROW: u16 = 14;
const SUBJECT: u16 = 24;

/// Returns the columns of a panel in an area: the last cell is the scroll bar; a share has a bar if it orders the rows.
fn spans_of(rows: &Rows, view: &PanelView, area: Rect) -> Vec<UnitColumnSpan> {
    let is_share = |column: usize| {
        let cells = rows.table.rows.iter().filter_map(|row| row.get(column));
        matches!(cells.into_iter().find(|cell| **cell != Cell::Empty), Some(Cell::Percent(_)))
    };
    let ordered = view.ordered_by().map(|(column, _)| column);
    let barred = ordered.filter(|c| area.width >= BARRED && is_share(*c));
    let room = area.width.saturating_sub(1);
    let with_bar = barred.map(|_| room.saturating_sub(BAR));
    let mut list = spans(&rows.table.columns, ordered, with_bar.unwrap_or(room));
    if let Some(at) = list.iter().position(|span| Some(span.column) == barred) {
        (list[at].cells, list[at].bar) = (list[at].cells + BAR, BAR);
        list[at + 1..].iter_mut().for_each(|span| span.x += BAR);
    }
    list
}

/// Returns the columns that fit, with places and widths. Texts are narrowed first, then columns are dropped by rank:
/// last the thread's and the sort column, never the first and the subject. Widths do not depend on figures.
fn spans(columns: &[Column], ordered: Option<usize>, area: u16) -> Vec<UnitColumnSpan> {
    let last = columns.last().filter(|column| column.width == 0).map(|_| columns.len() - 1);
    let whole = |i: usize| columns[i].width.max(width(&columns[i].title) as u16);
    let least = |i: usize| match columns[i].width {
        0 if last == Some(i) => SUBJECT,
        0 => NARROW,
        wide if columns[i].align == Align::Left && wide > SUBJECT - 4 => NARROW,
        _ => whole(i),
    };
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let need = |shown: &[usize]| shown.iter().map(|i| least(*i) + 1).sum::<u16>() + 1;
    while need(&shown) > area && shown.len() > 2 {
        let goes = |i: &&usize| **i != 0 && last != Some(**i);
        let matters = |i: usize| columns[i].is_who() || ordered == Some(i);
        let by_rank = |i: &&usize| (!matters(**i), columns[**i].rank, **i);
        let Some(drop) = shown.iter().filter(goes).max_by_key(by_rank).copied() else { break };
        shown.retain(|i| *i != drop);
    }
    let mut spare = area.saturating_sub(need(&shown));
    let flexible = shown.iter().filter(|i| columns[**i].width == 0).count() as u16;
    let grown: Vec<u16> = shown
        .iter()
        .map(|i| {
            let more = if columns[*i].width == 0 { 0 } else { (whole(*i) - least(*i)).min(spare) };
            spare -= more;
            least(*i) + more
        })
        .collect();
    let mut x = 1;
    let mut out = Vec::new();
    for (i, cells) in shown.into_iter().zip(grown) {
        let more = if columns[i].width == 0 { spare / flexible.max(1) } else { 0 };
        let cells = (cells + more).min(area.saturating_sub(x));
        out.push(UnitColumnSpan { column: i, x, cells, bar: 0 });
        x += cells + 1;
    }
    out
}

/// Returns the column whose heading is at a position of the panel's first line.
pub(crate) fn column_at(panel: &Panel, view: &PanelView, area: Rect, x: u16) -> Option<usize> {
    let x = x.checked_sub(area.x)?;
    let spans = spans_of(panel.rows()?, view, area);
    spans.into_iter().find(|span| (span.x..=span.x + span.cells).contains(&x)).map(|span| span.column)
}

/// Whether a position is on the fold mark of a tree's row.
pub(crate) fn is_mark(panel: &Panel, view: &PanelView, area: Rect, row: usize, x: u16) -> bool {
    let Some(rows) = panel.rows().filter(|_| matches!(panel.body, Body::Tree(_))) else { return false };
    let depth = rows.depth.get(row).copied().unwrap_or(0);
    let spans = spans_of(rows, view, area);
    let last = spans.iter().find(|span| span.column + 1 == rows.table.columns.len());
    last.is_some_and(|span| x == area.x + span.x + 2 * depth)
}

/// The table to draw; the selected panel shows its cursor.
pub(crate) struct UnitTable<'a> {
    pub(crate) panel: &'a Panel,
    pub(crate) rows: &'a Rows,
    pub(crate) view: &'a PanelView,
    pub(crate) main: bool,
}

impl UnitTable<'_> {
    pub(crate) fn draw(&self, on: &mut Canvas<'_>) {
        let spans = spans_of(self.rows, self.view, on.area);
        self.heading(&spans, on);
        let list = visible(&self.panel.body, self.rows, self.view);
        let cursor = cursor(&self.panel.body, self.rows, self.view, &list);
        let first = first_of(self.view, on.area, list.len(), cursor);
        let frames = frame_weights(self.rows);
        for (i, y) in (first..list.len()).zip(1..on.area.height) {
            let line = &mut on.line(y);
            self.row(list[i], &spans, &frames, line);
            if self.main && cursor == Some(i) {
                line.put(0, 0, "›", line.theme.title);
                let is_course =
                    |span: &&UnitColumnSpan| matches!(self.cell(list[i], span.column), Some(Cell::Course(_)));
                let courses = spans.iter().filter(is_course).map(|span| span.x..span.x + span.cells);
                let bars = spans.iter().filter(|span| span.bar > 0);
                let bars = bars.map(|span| span.x + span.cells - span.bar + 1..span.x + span.cells);
                light_up(&courses.chain(bars).collect::<Vec<_>>(), line);
            }
        }
        scroll_bar((first, list.len()), &mut on.below(1));
    }

    fn heading(&self, spans: &[UnitColumnSpan], on: &mut Canvas<'_>) {
        for span in spans {
            let column = &self.rows.table.columns[span.column];
            let (ordered, turned) =
                self.view.ordered_by().map_or((false, false), |(by, turned)| (by == span.column, turned));
            let (room, mark) = (usize::from(span.cells - span.bar), arrow(ordered, turned));
            // Keep the sort mark even if the title fills its column.
            let title = if width(&column.title) <= room {
                let kept = room - width(mark).min(room);
                column.title.chars().take(kept).collect::<String>()
            } else {
                fit(&column.title, room - width(mark).min(room)).into_owned()
            };
            let text = title + mark;
            let style = if ordered { on.theme.head.add_modifier(Modifier::BOLD) } else { on.theme.head };
            on.put_in((span.x, room as u16), column.align, &text, style);
        }
    }

    fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.rows.table.rows[row].get(column)
    }

    fn row(&self, row: usize, spans: &[UnitColumnSpan], frames: &FrameWeights<'_>, on: &mut Canvas<'_>) {
        for span in spans {
            let Some(cell) = self.cell(row, span.column) else { continue };
            let column = &self.rows.table.columns[span.column];
            let room = usize::from(span.cells - span.bar);
            let text = match cell {
                // Show the newest part of a time series.
                Cell::Course(values) => spark(&values[values.len().saturating_sub(room)..]),
                Cell::Count(_) => fit(&cell.text_in(room), room).into_owned(),
                _ => {
                    let text = self.cell_text(row, span.column);
                    let cut = match column.cut() {
                        Cut::Name => fit(&text, room),
                        Cut::Stack => frames.fit(&text, room),
                        Cut::End => fit_end(&text, room),
                        Cut::List => fit_list(&text, room),
                    };
                    cut.into_owned()
                }
            };
            let place = &mut on.part(Rect { width: (span.x + span.cells).min(on.area.width), ..on.area });
            let theme = place.theme;
            let style = if self.rows.is_dim(row) { theme.dim } else { style_of(cell, theme) };
            place.put_in((span.x, room as u16), column.align, &text, style);
            if let (Cell::Percent(share), true) = (cell, span.bar > 1) {
                let bar = eighths(share / 100.0, usize::from(span.bar - 1));
                place.put(span.x + span.cells - span.bar + 1, 0, &bar, theme.bar);
            }
        }
    }

    /// Returns a cell's text. In a tree the last column is indented, with a mark on collapsible rows; the rest of a
    /// table has that mark as well.
    fn cell_text(&self, row: usize, column: usize) -> String {
        let rows = self.rows;
        let text = rows.table.rows[row][column].text();
        if rows.rest.is_some_and(|rest| rest.row == row) && column + 1 == rows.table.columns.len() {
            return format!("{} {text}", if self.view.has_rest_open { "▾" } else { "▸" });
        }
        if !matches!(self.panel.body, Body::Tree(_)) || column + 1 != rows.table.columns.len() {
            return text;
        }
        let depth = |row: usize| rows.depth.get(row).copied().unwrap_or(0);
        let parent = row + 1 < rows.ids.len() && depth(row + 1) > depth(row);
        let mark = match (parent, self.view.is_collapsed(rows, row)) {
            (false, _) => "·",
            (true, true) => "▸",
            (true, false) => "▾",
        };
        format!("{}{mark} {text}", "  ".repeat(usize::from(depth(row))))
    }
}

/// Returns the weights of functions in a table's stacks, by the first figure of their rows.
pub(crate) fn frame_weights(rows: &Rows) -> FrameWeights<'_> {
    let columns = &rows.table.columns;
    let weight = |row: &[Cell]| {
        let figure = row.iter().find_map(|cell| match cell {
            Cell::Time(figure) | Cell::Count(figure) | Cell::Bytes(figure) => Some(*figure),
            _ => None,
        });
        figure.unwrap_or(1)
    };
    let stacks = rows.table.rows.iter().flat_map(|row| {
        row.iter().zip(columns).filter_map(move |(cell, column)| match cell {
            Cell::Text(text) if column.cut() == Cut::Stack => Some((&**text, weight(row))),
            _ => None,
        })
    });
    FrameWeights::of(stacks)
}

fn style_of(cell: &Cell, theme: &Theme) -> Style {
    match cell {
        Cell::Percent(share) if *share > 0.0 => theme.share(*share),
        Cell::Percent(_)
        | Cell::Count(0)
        | Cell::Time(0)
        | Cell::TimeFrom(0)
        | Cell::Bytes(0)
        | Cell::ByteChange(0) => theme.dim,
        Cell::Course(_) => theme.bar,
        _ => theme.text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_and_how_much_go_last() {
        let column = |name, width| Column::new(name, name, Align::Right, width);
        let columns = [
            column("at", 9),
            column("n", 9),
            column("total", 9).ranked(9),
            column("max", 9),
            Column::new("comm", "comm", Align::Left, 16),
            Column::new("stack", "stack", Align::Left, 0),
        ];
        let shown = |area| spans(&columns, Some(2), area).iter().map(|span| span.column).collect::<Vec<_>>();
        assert_eq!(shown(90), [0, 1, 2, 3, 4, 5]);
        assert_eq!(shown(73), [0, 1, 2, 4, 5]);
        assert_eq!(shown(63), [0, 2, 4, 5]);
        assert_eq!(shown(53), [0, 4, 5]);
        assert_eq!(shown(40), [0, 5]);
    }
}
