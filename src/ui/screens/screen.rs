//! The behaviour of a screen, and the types that its implementations name.

pub(crate) use crate::query::Question;
pub(crate) use crate::query::annotate::AnnotatedFunction;
pub(crate) use crate::session::Origin;
pub(crate) use crate::ui::input::{Command, Hints};
pub(crate) use crate::ui::state::Model;
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

/// A screen with its state.
pub(crate) trait Screen {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>);

    /// Draws details of the item under the cursor.
    fn draw_details(&self, _model: &Model, _on: &mut Canvas<'_>) {}

    /// Returns its most useful keys for the footer.
    fn hints(&self, origin: Origin) -> Hints;

    /// Returns the view as text, if it has data.
    fn text(&self, model: &Model) -> Option<String>;

    /// Adds the commands that show this screen as it is to those of the view.
    fn add_commands(&self, _model: &Model, _commands: &mut Vec<String>) {}

    /// Handles a click. Returns the command that it stands for, if any.
    fn click(&mut self, model: &mut Model, x: u16, y: u16) -> Option<&'static Command>;

    /// Handles a click with Alt on a cell. Returns `false` if it is an ordinary click.
    fn click_cell(&mut self, _model: &mut Model, _x: u16, _y: u16, _exclude: bool) -> bool {
        false
    }

    fn drag(&mut self, _model: &mut Model, _x: u16, _y: u16) {}

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep);

    /// Handles the mouse wheel, down (1) or up (-1).
    fn scroll(&mut self, model: &mut Model, by: i32) {
        self.move_cursor(model, CursorStep::Lines(3 * by));
    }

    /// Clears its selection, search or innermost zoom. Returns `false` without any.
    fn leave(&mut self, _model: &mut Model) -> bool {
        false
    }

    /// Returns the function under the cursor.
    fn function(&self, _model: &Model) -> Option<AnnotatedFunction> {
        None
    }

    /// Updates its state before the next question.
    fn prepare(&mut self, _model: &Model) {}

    /// Adds its part to the question.
    fn question(&self, _model: &Model, question: Question) -> Question {
        question
    }
}
