//! Where things stand, computed from the size alone, so that paging, the mouse and drawing agree.

use ratatui::layout::Rect;

use crate::panel::top::Field;
use crate::ui::app::{App, Tab};
use crate::ui::draw::tour;
use crate::ui::view::top::columns::{self, Span};

/// Below this nothing useful fits.
pub const MIN: (u16, u16) = (20, 6);

/// The parts of the screen, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    pub header: Rect,
    pub tabs: Rect,
    /// The message; no lines where there is none.
    pub finding: Rect,
    /// The timeline; no line where there is none.
    pub strip: Rect,
    /// The table with its heading.
    pub table: Rect,
    /// The call chains of the row under the cursor, beside the table; no columns where there is no room.
    pub beside: Rect,
    /// The step of the tour, where one is given.
    pub tour: Rect,
    pub details: Rect,
    pub footer: Rect,
}

/// Divides the screen.
pub fn places(app: &App, area: Rect) -> Places {
    let row = |y: u16, height: u16| Rect { x: area.x, y: area.y + y, width: area.width, height };
    let h = area.height;
    let (found, strip) = (finding_height(app, h), strip_height(app, h));
    let above = 2 + found + strip;
    let tour = tour::height(app, area.width, h.saturating_sub(2 + above));
    let (whole, beside) = (row(above, h - 2 - above - tour), beside_width(app, area.width));
    let table = Rect { width: whole.width - beside, ..whole };
    Places {
        header: row(0, 1),
        tabs: row(1, 1),
        finding: row(2, found),
        strip: row(2 + found, strip),
        table,
        beside: Rect { x: whole.x + table.width, width: beside, ..whole },
        tour: row(h - 2 - tour, tour),
        details: row(h - 2, 1),
        footer: row(h - 1, 1),
    }
}

/// The parts of the terminal's screen; none where it is too small for anything.
pub fn places_of(app: &App) -> Option<Places> {
    let (width, height) = app.size;
    (width >= MIN.0 && height >= MIN.1).then(|| places(app, Rect { x: 0, y: 0, width, height }))
}

/// Lines for the message: none on a screen with hardly any.
fn finding_height(app: &App, height: u16) -> u16 {
    u16::from(height >= 10 && app.notice().is_some())
}

/// Lines for the timeline: only where there is room, above what it narrows.
fn strip_height(app: &App, height: u16) -> u16 {
    u16::from(app.strip && matches!(app.tab, Tab::Top | Tab::Flame) && height >= 20)
}

/// Columns for call chains beside the table: only where the table has enough of its own.
pub fn beside_width(app: &App, width: u16) -> u16 {
    const LEAST: u16 = 140;
    if app.tab == Tab::Top && app.info.chains && width >= LEAST { (width * 2 / 5).min(90) } else { 0 }
}

/// The columns of the table, with their places.
fn spans(app: &App, width: u16) -> Vec<Span> {
    columns::spans(width, &app.fields())
}

/// Lines of the table that fit under its heading.
pub fn table_height(app: &App) -> usize {
    places_of(app).map_or(0, |places| usize::from(places.table.height.saturating_sub(1)))
}

/// What lies under the mouse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hit {
    Head(Field),
    /// A line, and whether its fold mark was hit.
    Line(usize, bool),
    Nothing,
}

/// Finds what a click means.
pub fn hit(app: &App, column: u16, row: u16) -> Hit {
    let area = Rect { x: 0, y: 0, width: app.size.0, height: app.size.1 };
    if area.width < MIN.0 || area.height < MIN.1 {
        return Hit::Nothing;
    }
    let table = places(app, area).table;
    if row < table.y || row >= table.y + table.height || column >= table.x + table.width {
        return Hit::Nothing;
    }
    let spans = spans(app, table.width);
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column));
    if row == table.y {
        return span.map_or(Hit::Nothing, |s| Hit::Head(s.field));
    }
    let line = app.screen.top + usize::from(row - table.y - 1);
    let Some(found) = app.answer.lines.get(line) else { return Hit::Nothing };
    let subject = columns::subject(spans.iter().map(|span| span.field));
    let mark = span.is_some_and(|s| Some(s.field) == subject && column < s.x + columns::name_at(found));
    Hit::Line(line, mark)
}

/// The line and the column under the mouse, where a line is.
pub fn cell(app: &App, column: u16, row: u16) -> Option<(usize, Field)> {
    let Hit::Line(line, _) = hit(app, column, row) else { return None };
    let area = Rect { x: 0, y: 0, width: app.size.0, height: app.size.1 };
    let spans = spans(app, places(app, area).table.width);
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column))?;
    Some((line, span.field))
}
