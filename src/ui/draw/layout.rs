//! Where things stand, computed from the size alone, so that paging, the mouse and drawing agree.

use ratatui::layout::Rect;

use crate::panel::top::Field;
use crate::query::Key;
use crate::ui::app::{App, Tab};

/// Below this nothing useful fits.
pub const MIN: (u16, u16) = (20, 6);

/// The parts of the screen, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    pub header: Rect,
    pub tabs: Rect,
    /// What stands out; no lines when nothing does.
    pub finding: Rect,
    /// The strip of time; no line where there is none.
    pub strip: Rect,
    /// The table with its heading.
    pub table: Rect,
    pub details: Rect,
    pub footer: Rect,
}

/// Divides the screen.
pub fn places(app: &App, area: Rect) -> Places {
    let row = |y: u16, height: u16| Rect { x: area.x, y: area.y + y, width: area.width, height };
    let h = area.height;
    let (found, strip) = (finding_height(app, h), strip_height(app, h));
    let above = 2 + found + strip;
    Places {
        header: row(0, 1),
        tabs: row(1, 1),
        finding: row(2, found),
        strip: row(2 + found, strip),
        table: row(above, h - 2 - above),
        details: row(h - 2, 1),
        footer: row(h - 1, 1),
    }
}

/// The parts of the terminal's screen; none where it is too small for anything.
pub fn places_of(app: &App) -> Option<Places> {
    let (width, height) = app.size;
    (width >= MIN.0 && height >= MIN.1).then(|| places(app, Rect { x: 0, y: 0, width, height }))
}

/// Lines for what stands out: none on a screen with hardly any.
fn finding_height(app: &App, height: u16) -> u16 {
    u16::from((!app.findings.is_empty() || app.hint().is_some()) && height >= 10)
}

/// Lines for the strip of time: only where there is room, above what it narrows.
fn strip_height(app: &App, height: u16) -> u16 {
    u16::from(app.strip && matches!(app.tab, Tab::Top | Tab::Flame) && height >= 20)
}

/// Lines of the table that fit under its heading.
pub fn table_height(app: &App) -> usize {
    usize::from(app.size.1.saturating_sub(5 + finding_height(app, app.size.1) + strip_height(app, app.size.1)))
}

/// A column on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub field: Field,
    pub x: u16,
    pub width: u16,
    /// Cells after a share for its bar.
    pub bar: u16,
}

/// The columns that fit, with their places. What matters least goes first: Samples, Comm, the bar.
pub fn columns(width: u16, chosen: &[Field]) -> Vec<Span> {
    let mut shown: Vec<Field> = chosen.to_vec();
    let mut bar: u16 = if width >= 100 { 8 } else { 0 };
    let names = if width >= 160 { 24 } else { 15 };
    let dso = match width {
        160.. => 28,
        // Machines take of its room: what tells rows apart stays, and so do symbols.
        ..100 if chosen.contains(&Field::Key(Key::Host)) => 10,
        _ => 18,
    };
    let fixed = |field: Field, bar: u16, first: bool| match field {
        Field::Key(Key::Comm) => names.min(15),
        Field::Key(Key::Dso) => dso,
        Field::Key(Key::Sym) => 0,
        Field::Children | Field::SelfTime if first => field.column().width + bar,
        other => other.column().width,
    };
    let need = |shown: &[Field], bar: u16| -> u16 {
        shown.iter().enumerate().map(|(i, f)| fixed(*f, bar, i == 0) + 1).sum::<u16>() + 1
    };
    let least = if chosen.contains(&Field::Key(Key::Sym)) { 32 } else { 0 };
    for drop in [Field::Period, Field::Samples, Field::Key(Key::Comm), Field::Key(Key::Tid), Field::Old] {
        if need(&shown, bar) + least > width && shown.len() > 2 {
            if bar > 0 && need(&shown, 0) + least <= width {
                bar = 0;
            } else {
                shown.retain(|f| *f != drop);
            }
        }
    }
    if need(&shown, bar) + least > width {
        bar = 0;
    }
    for drop in [Field::Key(Key::Pid), Field::SelfTime, Field::Key(Key::Dso), Field::Key(Key::Cpu)] {
        if need(&shown, bar) + 16 > width && shown.len() > 1 && shown.contains(&Field::Key(Key::Sym)) {
            shown.retain(|f| *f != drop);
        }
    }
    let spare = width.saturating_sub(need(&shown, bar));
    let mut x = 1;
    let mut spans = Vec::new();
    for (i, field) in shown.iter().enumerate() {
        let first = i == 0;
        let width = if *field == Field::Key(Key::Sym) { spare } else { fixed(*field, bar, first) };
        let has_bar = first && matches!(field, Field::Children | Field::SelfTime);
        spans.push(Span { field: *field, x, width, bar: if has_bar { bar } else { 0 } });
        x += width + 1;
    }
    spans
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
    if row < table.y || row >= table.y + table.height {
        return Hit::Nothing;
    }
    let spans = columns(table.width, &app.fields());
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column));
    if row == table.y {
        return span.map_or(Hit::Nothing, |s| Hit::Head(s.field));
    }
    let line = app.screen.top + usize::from(row - table.y - 1);
    let Some(found) = app.answer.lines.get(line) else { return Hit::Nothing };
    let mark = span.is_some_and(|s| s.field == Field::Key(Key::Sym) && column < s.x + 2 * (found.depth + 1) + 1);
    Hit::Line(line, mark)
}

/// The line and the column under the mouse, where a line is.
pub fn cell(app: &App, column: u16, row: u16) -> Option<(usize, Field)> {
    let Hit::Line(line, _) = hit(app, column, row) else { return None };
    let spans = columns(app.size.0, &app.fields());
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column))?;
    Some((line, span.field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: &[Field] = crate::ui::overlay::COLUMNS;
    const USUAL: &[Field] = &[
        Field::Children,
        Field::SelfTime,
        Field::Samples,
        Field::Key(Key::Comm),
        Field::Key(Key::Pid),
        Field::Key(Key::Dso),
        Field::Key(Key::Sym),
    ];

    fn names(width: u16) -> Vec<String> {
        columns(width, USUAL).iter().map(|s| s.field.column().title.into_owned()).collect()
    }

    #[test]
    fn at_eighty_columns_samples_and_comm_go_first() {
        assert_eq!(names(80), ["Children", "Self", "PID", "DSO", "Symbol"]);
        assert_eq!(names(120).len(), 7);
        assert_eq!(names(30), ["Children", "Symbol"]);
    }

    proptest! {
        #[test]
        fn columns_stay_inside_and_apart(width in 20u16..400, mask in 1u16..1024) {
            let chosen: Vec<Field> = ALL.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, f)| *f).collect();
            let spans = columns(width, &chosen);
            prop_assert!(!spans.is_empty());
            for pair in spans.windows(2) {
                prop_assert!(pair[0].x + pair[0].width < pair[1].x);
            }
        }
    }
}
