//! The analysis units as a screen.

use crate::ui::screens::screen::{App, Canvas, CursorStep, Hints, Origin, Scene, Screen, Views};
use crate::ui::screens::units::commands::FOOTER;
use crate::ui::screens::units::draw::{self, UnitsHit};

pub(crate) struct UnitsScreen;

impl Screen for UnitsScreen {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::draw(scene, &views.units, on);
    }

    fn draw_details(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::details(scene, &views.units, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, _scene: Scene<'_>, views: &Views) -> Option<String> {
        Some(views.units.panel().map_or_else(String::new, |(panel, _)| panel.to_text()))
    }

    fn add_commands(&self, _app: &App, commands: &mut Vec<String>) {
        commands.push("units".to_owned());
    }

    fn click(&self, app: &mut App, x: u16, y: u16) {
        match draw::hit(app.scene(), &app.views.units, x, y) {
            Some(UnitsHit::Unit(id)) => app.views.units.current = Some(id),
            Some(UnitsHit::Panel(panel)) => {
                if let Some(view) = app.views.units.view_mut() {
                    view.panel = panel;
                }
            }
            Some(UnitsHit::Head(column)) => app.turn_rows(Some(column)),
            Some(UnitsHit::Row(row, on_mark)) => app.click_row(row, on_mark),
            None => {}
        }
        app.tell_units();
    }

    fn move_cursor(&self, app: &mut App, step: CursorStep) {
        match step {
            CursorStep::Lines(n) if app.is_in_flame() => app.move_in_flame(|screen, flame| screen.along(flame, n)),
            _ => {
                let height = app.unit_height();
                app.views.units.step_row(step.lines(height), height);
            }
        }
        app.tell_units();
    }

    fn scroll(&self, app: &mut App, by: i32) {
        self.move_cursor(app, CursorStep::Lines(by));
    }

    /// Removes the filter of rows, otherwise the zoom, otherwise the selection of a row.
    fn leave(&self, app: &mut App) -> bool {
        let Some(view) = app.views.units.panel_view_mut() else { return false };
        let filtered = view.filter.take().is_some();
        let zoomed = !filtered && !std::mem::take(&mut view.flame.place.zoom).is_empty();
        filtered || zoomed || view.list.id.take().is_some()
    }
}
