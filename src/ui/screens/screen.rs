//! The behaviour of a screen, and the types that its implementations name.

pub(crate) use crate::query::Question;
pub(crate) use crate::query::annotate::AnnotatedFunction;
pub(crate) use crate::session::Origin;
pub(crate) use crate::ui::app::App;
pub(crate) use crate::ui::input::Hints;
pub(crate) use crate::ui::screens::Views;
pub(crate) use crate::ui::state::Scene;
pub(crate) use crate::ui::widgets::Canvas;

/// A movement of the cursor, down or up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CursorStep {
    Lines(i32),
    Pages(i32),
    Home,
    End,
}

impl CursorStep {
    /// Returns the lines to move, for a page of some lines.
    pub(crate) fn lines(self, page: usize) -> isize {
        match self {
            Self::Lines(n) => n as isize,
            Self::Pages(n) => n as isize * page.max(1) as isize,
            Self::Home => isize::MIN,
            Self::End => isize::MAX,
        }
    }
}

/// A screen, without its state, which is one of [`Views`].
pub(crate) trait Screen: Sync {
    fn draw(&self, scene: Scene<'_>, views: &Views, on: &mut Canvas<'_>);

    /// Draws details of the item under the cursor.
    fn draw_details(&self, _scene: Scene<'_>, _views: &Views, _on: &mut Canvas<'_>) {}

    /// Returns its most useful keys for the footer.
    fn hints(&self, origin: Origin) -> Hints;

    /// Returns the view as text, if it has data.
    fn text(&self, scene: Scene<'_>, views: &Views) -> Option<String>;

    /// Adds the commands that show this screen as it is to those of the view.
    fn add_commands(&self, _app: &App, _commands: &mut Vec<String>) {}

    fn click(&self, app: &mut App, x: u16, y: u16);

    /// Handles a click with Alt on a cell. Returns `false` if it is an ordinary click.
    fn click_cell(&self, _app: &mut App, _x: u16, _y: u16, _exclude: bool) -> bool {
        false
    }

    fn drag(&self, _app: &mut App, _x: u16, _y: u16) {}

    fn move_cursor(&self, app: &mut App, step: CursorStep);

    /// Handles the mouse wheel, down (1) or up (-1).
    fn scroll(&self, app: &mut App, by: i32) {
        self.move_cursor(app, CursorStep::Lines(3 * by));
    }

    /// Clears its selection, search or innermost zoom. Returns `false` without any.
    fn leave(&self, _app: &mut App) -> bool {
        false
    }

    /// Returns the function under the cursor.
    fn function(&self, _app: &App) -> Option<AnnotatedFunction> {
        None
    }

    /// Updates its state before the next question.
    fn prepare(&self, _app: &mut App) {}

    /// Adds its part to the question.
    fn question(&self, _app: &App, question: Question) -> Question {
        question
    }
}
