//! Updates of the overview: the cursor, and the way to where a finding is examined.

use crate::machine::triage::{Look, WINDOW_NS};
use crate::ui::app::App;
use crate::ui::screens::overview::commands::{ENTER, FOOTER, FOOTER_RECORDED};
use crate::ui::screens::overview::draw as drawn;
use crate::ui::screens::overview::state::OverviewState;
use crate::ui::screens::screen::{Canvas, Command, CursorStep, Hints, Model, Origin, Question, Screen};
use crate::ui::state::{Tab, ZoomTarget};

/// The most lines of the finding under the cursor, and the height of the terminal that allows them.
const DETAILS: usize = 3;
const TALL: u16 = 20;

impl Screen for OverviewState {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::draw(model, self, on);
    }

    fn draw_details(&self, model: &Model, on: &mut Canvas<'_>) {
        if let Some(found) = self.under_cursor() {
            let most = if model.frame.size.1 < TALL { 1 } else { DETAILS };
            on.put_upwards(&found.text(), on.theme.text, most);
        }
    }

    fn hints(&self, origin: Origin) -> Hints {
        if origin == Origin::Recorded && self.findings.is_empty() { FOOTER_RECORDED } else { FOOTER }
    }

    fn text(&self, model: &Model) -> Option<String> {
        Some(drawn::text(model, self))
    }

    fn add_commands(&self, _model: &Model, commands: &mut Vec<String>) {
        commands.push("overview".to_owned());
    }

    fn click(&mut self, model: &mut Model, _x: u16, y: u16) -> Option<&'static Command> {
        let at = drawn::hit(model, self, y)?;
        if at == self.selected() {
            return Some(&ENTER);
        }
        self.step(at as isize - self.selected() as isize, drawn::height(model));
        None
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        let height = drawn::height(model);
        self.step(step.lines(height), height);
    }

    fn question(&self, _model: &Model, question: Question) -> Question {
        Question { processes: true, ..question }
    }
}

impl App {
    /// Shows the overview.
    pub(crate) fn show_overview(&mut self) {
        self.model.frame.tab = Tab::Overview;
        self.views.overview.look(&self.model);
    }

    /// Goes where the finding under the cursor is examined.
    pub(crate) fn enter_finding(&mut self) {
        let Some(found) = self.views.overview.under_cursor().cloned() else {
            return self
                .model
                .say("nothing stands out: M waits shows where time goes, M syscalls slow or failing calls");
        };
        self.views.overview.entered += 1;
        self.examine(found.look);
    }

    /// Goes where a finding is examined.
    pub(crate) fn examine(&mut self, look: Look) {
        match look {
            Look::Functions { label, filter } => {
                if let Some(zoom) = self.model.zoom_of(label, &filter, ZoomTarget::Clause) {
                    self.model.push(zoom);
                    self.model.frame.tab = Tab::Top;
                }
            }
            Look::Cpus(cpu) => {
                self.views.cpus.show(&mut self.model);
                if cpu.is_some() {
                    self.views.cpus.list.id = cpu;
                }
            }
            Look::Unit(unit) if self.views.units.show_running(&unit) => self.model.frame.tab = Tab::Units,
            Look::Unit(unit) => self.views.units.add(&mut self.model, Some(unit)),
            Look::Compare => self.compare_with_before(),
        }
    }

    /// Compares the present, or the selected range, with the baseline if that ends before it, or the same time before.
    fn compare_with_before(&mut self) {
        let now = self.model.context.elapsed_ns();
        let (from, until) = self.model.selection.range().unwrap_or((now.saturating_sub(WINDOW_NS), now));
        let length = until.saturating_sub(from);
        let marked = self.model.selection.baseline_range().filter(|(_, end)| *end <= from);
        self.model.go_to_range((from, until));
        self.model.compare_range(marked.unwrap_or((from.saturating_sub(length), from)));
        self.model.frame.tab = Tab::Top;
    }
}
