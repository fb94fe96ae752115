//! The events as a screen.

use crate::ui::screens::events::commands::{FOOTER, FOOTER_RECORDED};
use crate::ui::screens::events::draw;
use crate::ui::screens::screen::{App, Canvas, CursorStep, Hints, Origin, Scene, Screen, Views};

pub(crate) struct EventsScreen;

impl Screen for EventsScreen {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::draw(scene, &views.events, on);
    }

    fn hints(&self, origin: Origin) -> Hints {
        if origin == Origin::Recorded { FOOTER_RECORDED } else { FOOTER }
    }

    fn text(&self, scene: Scene<'_>, _views: &Views) -> Option<String> {
        Some(draw::text(scene))
    }

    fn add_commands(&self, _app: &App, commands: &mut Vec<String>) {
        commands.push("events".to_owned());
    }

    fn click(&self, app: &mut App, _x: u16, y: u16) {
        let Some(item) = draw::hit(app.scene(), &app.views.events, y) else { return };
        if app.event_item() == Some(item.clone()) {
            return app.enter_item();
        }
        let items = app.views.events.items(&app.context.answer.events);
        app.go_to_item(items.iter().position(|i| *i == item).unwrap_or(0));
    }

    fn move_cursor(&self, app: &mut App, step: CursorStep) {
        let items = app.views.events.items(&app.context.answer.events);
        app.go_to_item(app.views.events.selected(&items).saturating_add_signed(step.lines(app.event_lines().1)));
    }

    fn leave(&self, app: &mut App) -> bool {
        let is_searched = !app.views.events.search.is_empty();
        if is_searched {
            app.search_events(String::new());
        }
        is_searched
    }

    fn prepare(&self, app: &mut App) {
        app.look_up_entry();
    }
}
