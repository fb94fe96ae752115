//! The flame graph as a screen.

use crate::ui::screens::flame::commands::{FOOTER, ZOOM};
use crate::ui::screens::flame::draw;
use crate::ui::screens::screen::{
    AnnotatedFunction, App, Canvas, CursorStep, Hints, Origin, Question, Scene, Screen, Views,
};

/// Rows of a page in the flame graph.
const PAGE: usize = 8;

pub(crate) struct FlameScreen;

impl Screen for FlameScreen {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::draw(scene, &views.flame, on);
    }

    fn draw_details(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::details(scene, &views.flame, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, scene: Scene<'_>, views: &Views) -> Option<String> {
        scene.context.answer.view.flame.as_ref().map(|flame| draw::text(scene, &views.flame, flame))
    }

    fn add_commands(&self, app: &App, commands: &mut Vec<String>) {
        commands.push("flame".to_owned());
        commands.extend(app.views.flame.edits_as_commands());
        commands.extend(app.selection.off_cpu.then(|| "off-cpu".to_owned()));
    }

    fn click(&self, app: &mut App, x: u16, y: u16) {
        let Some(flame) = app.context.answer.view.flame.clone() else { return };
        let area = app.flame_area();
        let Some(y) = y.checked_sub(area.y).filter(|y| *y < area.height) else { return };
        let view = &app.views.flame;
        let row = flame.blocks.iter().map(|b| b.row).find(|row| view.y_of(&flame, *row, area.height) == Some(y));
        let hit = row.and_then(|row| view.at(&flame, x - area.x, row));
        if hit.is_some() && hit == view.block(&flame).map(|b| b.id) {
            app.run(&ZOOM);
        } else if hit.is_some() {
            app.views.flame.cursor = hit;
        }
    }

    fn move_cursor(&self, app: &mut App, step: CursorStep) {
        match step {
            CursorStep::Lines(n) => app.along_flame(n, 1),
            CursorStep::Pages(n) => app.along_flame(n, PAGE),
            CursorStep::Home => app.views.flame.cursor = None,
            CursorStep::End => app.in_flame(|view, flame| view.far(flame, 1, usize::from(u16::MAX))),
        }
    }

    fn scroll(&self, app: &mut App, by: i32) {
        self.move_cursor(app, CursorStep::Lines(by));
    }

    fn leave(&self, app: &mut App) -> bool {
        app.views.flame.find.take().is_some() || app.leave_frame()
    }

    fn function(&self, app: &App) -> Option<AnnotatedFunction> {
        let block = app.flame_function()?;
        Some(AnnotatedFunction { function: block.name.clone(), dso: block.dso.clone() })
    }

    fn question(&self, app: &App, question: Question) -> Question {
        Question { ipc: app.views.flame.by_ipc, flame: Some(app.flame_spec()), ..question }
    }
}
