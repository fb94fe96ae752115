//! The table of functions as a screen.

use crate::query::rows::top_table::{TopField, shown};
use crate::ui::draw::layout;
use crate::ui::screens::screen::{
    AnnotatedFunction, App, Canvas, CursorStep, Hints, Origin, Question, Scene, Screen, Views,
};
use crate::ui::screens::top::commands::{FOOTER, TOGGLE};
use crate::ui::screens::top::hit::{TopHit, hit};
use crate::ui::screens::top::{beside, details, draw};

pub(crate) struct TopScreen;

impl Screen for TopScreen {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::draw(scene, &views.top, on);
        if let Some(places) = layout::places_of(scene) {
            beside::draw(scene, &views.top, &mut on.part(places.beside));
        }
    }

    fn draw_details(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        details::draw(scene, &views.top, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, scene: Scene<'_>, _views: &Views) -> Option<String> {
        Some(shown(&scene.context.answer.view.lines, &scene.selection.fields()).to_text())
    }

    fn click(&self, app: &mut App, x: u16, y: u16) {
        match hit(app.scene(), &app.views.top, x, y) {
            Some(TopHit::Head(field)) => app.order_by(field),
            Some(TopHit::Line(line, _, on_mark)) => {
                let again = app.views.top.selected == line;
                app.views.top.go(line, &app.context.answer);
                if on_mark || again {
                    app.run(&TOGGLE);
                }
            }
            None => {}
        }
    }

    fn click_cell(&self, app: &mut App, x: u16, y: u16, exclude: bool) -> bool {
        if let Some(TopHit::Line(line, Some(field), _)) = hit(app.scene(), &app.views.top, x, y) {
            app.views.top.go(line, &app.context.answer);
            match field {
                TopField::Key(key) if key.entry().field.is_some() => app.zoom(key, exclude),
                _ => app.say("this column has no value to filter by"),
            }
        }
        true
    }

    fn move_cursor(&self, app: &mut App, step: CursorStep) {
        match step {
            CursorStep::Home => app.views.top.home(),
            _ => app.views.top.step(step.lines(app.views.top.height), &app.context.answer),
        }
    }

    fn leave(&self, app: &mut App) -> bool {
        app.views.top.search.take().is_some()
    }

    fn function(&self, app: &App) -> Option<AnnotatedFunction> {
        let line = app.line()?;
        Some(AnnotatedFunction { function: line.sym.clone(), dso: line.dso.clone() })
    }

    fn question(&self, app: &App, question: Question) -> Question {
        Question { ipc: app.selection.rows.columns.contains(&TopField::Ipc), ..question }
    }
}
