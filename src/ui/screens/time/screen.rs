//! The heat map of time as a screen.

use crate::query::heat::HeatBy;
use crate::ui::screens::screen::{App, Canvas, CursorStep, Hints, Origin, Question, Scene, Screen, Views};
use crate::ui::screens::time::commands::FOOTER;
use crate::ui::screens::time::draw;
use crate::ui::screens::time::state::MapPoint;

pub(crate) struct TimeScreen;

impl Screen for TimeScreen {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::draw(scene, &views.time, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, scene: Scene<'_>, _views: &Views) -> Option<String> {
        scene.context.answer.view.heat.as_ref().map(|heat| draw::text(heat))
    }

    fn add_commands(&self, app: &App, commands: &mut Vec<String>) {
        commands.insert(0, "time".to_owned());
        commands.push(format!("time-rows {}", app.views.time.by.word()));
    }

    fn click(&self, app: &mut App, x: u16, y: u16) {
        let (Some(heat), Some(spot)) = (app.context.answer.view.heat.clone(), app.spot_at(x, y)) else { return };
        let view = &mut app.views.time;
        let before = view.cell(&heat);
        view.cursor = Some(spot);
        let again = view.anchor.is_none() && view.cell(&heat) == before;
        (view.anchor, view.whole) = (None, false);
        if again {
            app.enter_time();
        }
    }

    fn drag(&self, app: &mut App, x: u16, y: u16) {
        let (Some(heat), Some(spot)) = (app.context.answer.view.heat.clone(), app.spot_at(x, y)) else { return };
        let here = app.views.time.spot(&heat);
        app.views.time.anchor.get_or_insert(here);
        app.views.time.cursor = Some(spot);
    }

    fn move_cursor(&self, app: &mut App, step: CursorStep) {
        match step {
            CursorStep::Lines(n) => app.move_time(0, n.into()),
            CursorStep::Pages(n) => app.turn_time(n.into()),
            CursorStep::Home => {
                app.views.time.page = Some(0);
                app.views.time.cursor = Some(MapPoint { at: app.context.answer.kept_from, row: 0 });
            }
            CursorStep::End => (app.views.time.page, app.views.time.cursor) = (None, None),
        }
    }

    fn scroll(&self, app: &mut App, by: i32) {
        app.zoom_time(by as isize);
    }

    fn leave(&self, app: &mut App) -> bool {
        app.views.time.anchor.take().is_some()
    }

    /// Leaves rows of durations for an event without durations.
    fn prepare(&self, app: &mut App) {
        if app.views.time.by == HeatBy::Latency && app.scene().event().is_some_and(|event| !event.has_durations) {
            app.views.time.by = HeatBy::Offset;
        }
    }

    fn question(&self, app: &App, question: Question) -> Question {
        Question { heat: Some(app.heat_spec()), ..question }
    }
}
