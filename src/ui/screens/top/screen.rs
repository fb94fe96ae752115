//! The table of functions as a screen.

use crate::query::rows::top_table::{TopField, shown};
use crate::ui::draw::layout;
use crate::ui::screens::screen::{
    AnnotatedFunction, Canvas, Command, CursorStep, Hints, Model, Origin, Question, Screen,
};
use crate::ui::screens::top::commands::{FOOTER, TOGGLE};
use crate::ui::screens::top::{beside, columns, details, draw};
use crate::ui::state::selection::PAIRS;

#[derive(Clone, Copy, Debug, PartialEq)]
enum TopHit {
    Head(TopField),
    /// A line, the column if any, and whether its fold mark was hit.
    Line(usize, Option<TopField>, bool),
}

fn hit(model: &Model, column: u16, row: u16) -> Option<TopHit> {
    let table = layout::places_of(model)?.table;
    if row < table.y || row >= table.y + table.height || column >= table.x + table.width {
        return None;
    }
    let spans = columns::spans_of(table.width, &model.shown_fields(), &model.context.answer.view.lines);
    let span = spans.iter().find(|s| (s.x..=s.x + s.width).contains(&column)).map(|s| (s.field, s.x));
    if row == table.y {
        return span.map(|(field, _)| TopHit::Head(field));
    }
    let line = model.top.list.top + usize::from(row - table.y - 1);
    let found = model.context.answer.view.lines.get(line)?;
    let subject = columns::subject(spans.iter().map(|span| span.field));
    let mark = span.is_some_and(|(field, x)| Some(field) == subject && column < x + columns::name_at(found));
    Some(TopHit::Line(line, span.map(|(field, _)| field), mark))
}

/// The table. Its cursor is part of the model, because commands of all screens refer to its row.
#[derive(Debug, Default)]
pub struct TopScreen;

impl Screen for TopScreen {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        draw::draw(model, on);
        if let Some(places) = layout::places_of(model) {
            beside::draw(model, &mut on.part(places.beside));
        }
    }

    fn draw_details(&self, model: &Model, on: &mut Canvas<'_>) {
        details::draw(model, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, model: &Model) -> Option<String> {
        Some(shown(&model.context.answer.view.lines, &model.shown_fields(), model.meaning()).to_text())
    }

    fn click(&mut self, model: &mut Model, x: u16, y: u16) -> Option<&'static Command> {
        match hit(model, x, y)? {
            TopHit::Head(field) => model.order_by(field),
            TopHit::Line(line, _, on_mark) => {
                let again = model.top.selected == line;
                model.top.go(line, &model.context.answer);
                return (on_mark || again).then_some(&TOGGLE);
            }
        }
        None
    }

    fn click_cell(&mut self, model: &mut Model, x: u16, y: u16, exclude: bool) -> bool {
        if let Some(TopHit::Line(line, Some(field), _)) = hit(model, x, y) {
            model.top.go(line, &model.context.answer);
            match field {
                TopField::Key(key) if key.entry().field.is_some() => model.zoom(key, exclude),
                _ => model.say("this column has no value to filter by"),
            }
        }
        true
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        match step {
            CursorStep::Home => model.top.home(),
            _ => model.top.step(step.lines(model.top.height), &model.context.answer),
        }
    }

    fn leave(&mut self, model: &mut Model) -> bool {
        model.top.search.take().is_some()
    }

    fn function(&self, model: &Model) -> Option<AnnotatedFunction> {
        let line = model.line()?;
        Some(AnnotatedFunction { function: line.sym.clone(), dso: line.dso.clone() })
    }

    fn question(&self, model: &Model, question: Question) -> Question {
        let is_shown = |field| model.selection.rows.columns.contains(&field);
        let pair = PAIRS.into_iter().find(|(_, field, _)| is_shown(*field)).map(|(kind, ..)| kind);
        Question { pair, ..question }
    }
}
