//! The CPUs as a screen.

use crate::ui::screens::cpus::commands::{FOOTER, FOOTER_RECORDED};
use crate::ui::screens::cpus::draw::{self, CpusHit};
use crate::ui::screens::screen::{App, Canvas, CursorStep, Hints, Origin, Question, Scene, Screen, Views};

pub(crate) struct CpusScreen;

impl Screen for CpusScreen {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>) {
        draw::draw(scene, &views.cpus, on);
    }

    fn hints(&self, origin: Origin) -> Hints {
        if origin == Origin::Recorded { FOOTER_RECORDED } else { FOOTER }
    }

    fn text(&self, scene: Scene<'_>, views: &Views) -> Option<String> {
        Some(draw::text(scene, &views.cpus))
    }

    fn add_commands(&self, _app: &App, commands: &mut Vec<String>) {
        commands.push("cpu-screen".to_owned());
    }

    fn click(&self, app: &mut App, x: u16, y: u16) {
        match draw::hit(app.scene(), &app.views.cpus, x, y) {
            Some(CpusHit::Head(column)) => app.order_cpus(column),
            Some(CpusHit::Cell(cpu, column)) => {
                let again = app.cpu() == Some(cpu) && app.views.cpus.column == column;
                (app.views.cpus.list.id, app.views.cpus.column) = (Some(cpu), column);
                if again {
                    app.enter_cell();
                }
            }
            None => {}
        }
    }

    fn move_cursor(&self, app: &mut App, step: CursorStep) {
        app.move_cpu(step.lines(app.cpu_rows()));
    }

    /// Asks for the CPU under the cursor, instead of that of the worst anomaly.
    fn question(&self, app: &App, question: Question) -> Question {
        Question { cpu: app.cpu().and_then(|cpu| u16::try_from(cpu).ok()), ..question }
    }
}
