//! Updates of the unit screen: starting and ending units, navigation in panels and rows.

use std::sync::Arc;

use crate::engine::{UnitAnswer, UnitRequest};
use crate::lang::nearest;
use crate::panel::table::WORKING_CPU;
use crate::panel::unit::percent;
use crate::panel::{Body, Panel};
use crate::query::flame::layout::Flame;
use crate::query::search::pattern;
use crate::source::live::{Target, overhead};
use crate::ui::input::commands::general;
use crate::ui::screens::flame::state::FlameState;
use crate::ui::screens::screen::{Canvas, Command, CursorStep, Hints, Model, Origin, Screen};
use crate::ui::screens::units::chooser::cost;
use crate::ui::screens::units::commands::{ENTER, FOOTER};
use crate::ui::screens::units::draw::{self as drawn, UnitsHit};
use crate::ui::screens::units::panel_view::visible;
use crate::ui::screens::units::state::{UnitsState, split_shell_words};
use crate::ui::state::{Effect, ListCursor, Tab};
use crate::units;
use crate::units::kit::{Settings, Spec, ViewState};

/// Number of log rows to request.
const LOG_ROWS: usize = 1000;

impl Screen for UnitsState {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::draw(model, self, on);
    }

    fn draw_details(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::details(model, self, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, _model: &Model) -> Option<String> {
        Some(self.panel().map_or_else(String::new, |(panel, _)| panel.to_text()))
    }

    fn add_commands(&self, _model: &Model, commands: &mut Vec<String>) {
        commands.push("units".to_owned());
    }

    fn click(&mut self, model: &mut Model, x: u16, y: u16) -> Option<&'static Command> {
        let mut command = None;
        match drawn::hit(model, self, x, y) {
            Some(UnitsHit::Unit(id)) => self.current = Some(id),
            Some(UnitsHit::Panel(panel)) => {
                if let Some(view) = self.view_mut() {
                    view.panel = panel;
                }
            }
            Some(UnitsHit::Head(column)) => self.turn_rows(model, Some(column)),
            Some(UnitsHit::Row(row, on_mark)) => command = self.click_row(row, on_mark),
            None => {}
        }
        self.tell(model);
        command
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        match step {
            CursorStep::Lines(n) if self.is_in_flame() => self.move_in_flame(model, |view, flame| view.along(flame, n)),
            _ => {
                let height = self.height(model);
                self.step_row(step.lines(height), height);
            }
        }
        self.tell(model);
    }

    fn scroll(&mut self, model: &mut Model, by: i32) {
        self.move_cursor(model, CursorStep::Lines(by));
    }

    /// Removes the filter of rows, otherwise the zoom, otherwise the selection of a row.
    fn leave(&mut self, _model: &mut Model) -> bool {
        let Some(view) = self.panel_view_mut() else { return false };
        let filtered = view.filter.take().is_some();
        let zoomed = !filtered && !std::mem::take(&mut view.flame.place.zoom).is_empty();
        filtered || zoomed || view.list.id.take().is_some()
    }
}

impl UnitsState {
    /// Applies new figures of units.
    pub fn set_answers(&mut self, model: &mut Model, answers: Arc<Vec<UnitAnswer>>) {
        self.pending &= answers.is_empty();
        let height = self.height(model);
        self.set(answers, height);
        self.tell(model);
    }

    /// Reports the visible part of the units to the engine, if it has changed.
    pub(crate) fn tell(&mut self, model: &mut Model) {
        let look = self.current.filter(|_| model.frame.tab == Tab::Units).map(|id| {
            let view = self.view();
            let selected = view.map(|view| view.panels.iter().map(|panel| panel.list.id).collect()).unwrap_or_default();
            let baseline = view.is_some_and(|view| view.baseline);
            (id, ViewState { selected, rows: LOG_ROWS, baseline })
        });
        if look != self.sent {
            self.sent.clone_from(&look);
            model.effects.push(Effect::Unit(UnitRequest::Look(look)));
        }
    }

    /// Starts a unit, given by name and options; opens the chooser if none is given.
    pub(crate) fn add(&mut self, model: &mut Model, text: Option<String>) {
        let Some(text) = text else { return Self::choose_unit(model) };
        match unit_of(&text) {
            Ok((spec, settings)) => {
                let cost = cost(&model.context, spec).unwrap_or(0.0);
                if cost > overhead::REFUSE_PERCENT && !model.context.invocation.is_forced {
                    return model.error(format!(
                        "to record the events of {} costs about {} of each CPU: refused above {:.0} %; --force on the \
                         command line lifts the limit",
                        spec.name,
                        percent(cost),
                        overhead::REFUSE_PERCENT
                    ));
                }
                self.added.push(text);
                model.point_to_kept_sleep(spec.name);
                self.start(model, spec, settings);
            }
            Err(why) => model.error(why),
        }
    }

    /// Shows a unit that was started with these words; returns `false` if none runs.
    pub(crate) fn show_running(&mut self, text: &str) -> bool {
        let name = text.split(' ').next().unwrap_or_default();
        let found = self.answers.iter().find(|answer| answer.name == name).map(|answer| answer.id);
        let found = found.filter(|_| self.added.iter().any(|added| added == text));
        self.current = found.or(self.current);
        found.is_some()
    }

    pub(crate) fn start(&mut self, model: &mut Model, spec: &'static Spec, settings: Settings) {
        model.frame.tab = Tab::Units;
        self.pending = true;
        model.effects.push(Effect::Unit(UnitRequest::Start(spec, settings)));
    }

    pub(crate) fn stop(&mut self, model: &mut Model) {
        let Some((id, name)) = self.unit().map(|unit| (unit.id, unit.name)) else {
            return model.say("no unit is running: M starts one");
        };
        self.ended.insert(id, name);
        model.effects.push(Effect::Unit(UnitRequest::Stop(id)));
        model.say(format!("{name} stopped; u brings its figures back"));
    }

    pub(crate) fn reset(&mut self, model: &mut Model) {
        if self.answers.is_empty() {
            return model.say("no unit is running: M starts one");
        }
        self.resets += 1;
        model.effects.push(Effect::Unit(UnitRequest::Reset));
        model.say("the figures of all units are reset; u brings them back");
    }

    fn height(&self, model: &Model) -> usize {
        drawn::main_height(model, self)
    }

    fn is_in_flame(&self) -> bool {
        matches!(self.panel().map(|(panel, _)| &panel.body), Some(Body::Flame(_)))
    }

    /// Goes to the panel, or in a flame graph to the frame, on the right (1) or left (-1).
    pub(crate) fn sideways(&mut self, model: &Model, by: i32) {
        match self.is_in_flame() {
            true => self.move_in_flame(model, |screen, flame| screen.sideways(flame, by)),
            false => self.step_panel(by as isize),
        }
    }

    pub(crate) fn ask_or_filter_rows(&mut self, model: &mut Model, text: Option<String>) {
        if let Some(text) = text {
            return self.filter_rows(model, &text);
        }
        let before = self.panel().and_then(|(_, view)| view.filter.as_ref());
        let text = before.map_or(String::new(), |filter| filter.as_str().trim_start_matches("(?i)").to_owned());
        model.ask_for(&general::SEARCH, text);
    }

    pub(crate) fn toggle_baseline(&mut self, model: &mut Model) {
        let Some(id) = self.current else { return };
        let Some(view) = self.view_mut() else { return };
        view.baseline = !view.baseline;
        let set = view.baseline;
        model.effects.push(Effect::Unit(UnitRequest::Baseline(id, set)));
        model.say(if set { "comparing with this moment from now on" } else { "stopped comparing" });
    }

    /// Filters the rows of the panel by a text; an empty text removes the filter.
    fn filter_rows(&mut self, model: &mut Model, text: &str) {
        let filter = match text {
            "" => None,
            text => match pattern(text) {
                Ok(filter) => Some(filter),
                Err(why) => return model.error(why),
            },
        };
        if let Some(view) = self.panel_view_mut() {
            (view.filter, view.list) = (filter, ListCursor::default());
        }
    }

    /// Returns the order of the visible rows, if they can be sorted.
    fn order_now(&self, model: &mut Model) -> Option<(usize, bool)> {
        match self.panel() {
            Some((Panel { body: Body::Table(_) | Body::Tree(_), .. }, view)) => {
                Some(view.ordered_by().unwrap_or((usize::MAX, false)))
            }
            Some((Panel { body: Body::Log(_), .. }, _)) => {
                model.say("a log is in the order of time");
                None
            }
            _ => None,
        }
    }

    pub(crate) fn order_rows(&mut self, model: &mut Model, by: isize) {
        let Some((column, turned)) = self.order_now(model) else { return };
        let titles = self.panel().and_then(|(panel, _)| panel.rows()).map(|rows| &rows.table.columns);
        let Some(titles) = titles.filter(|titles| !titles.is_empty()) else { return };
        let n = titles.len() as isize;
        let next = isize::try_from(column).map_or(0, |column| (column + by).rem_euclid(n)) as usize;
        let title = titles[next].title.to_string();
        if let Some(view) = self.panel_view_mut() {
            view.order = Some((next, turned && view.order.is_some()));
        }
        model.say(format!("sorted by {title}"));
    }

    /// Reverses the order, or sorts by a clicked heading; a second click reverses.
    pub(crate) fn turn_rows(&mut self, model: &mut Model, clicked: Option<usize>) {
        let Some((by, turned)) = self.order_now(model) else { return };
        let by = if by == usize::MAX { 0 } else { by };
        let (column, turned) = clicked.map_or((by, !turned), |clicked| (clicked, clicked == by && !turned));
        if let Some(view) = self.panel_view_mut() {
            view.order = Some((column, turned));
        }
    }

    /// Returns the CPU of the row under the cursor, in a table of CPUs that do the work of a unit's subjects.
    pub(crate) fn working_cpu(&mut self, model: &Model) -> Option<u32> {
        let (panel, _) = self.panel()?;
        panel.rows()?.table.columns.first().filter(|column| column.name == WORKING_CPU)?;
        let height = self.height(model);
        self.hold_row(height);
        u32::try_from(self.panel()?.1.list.id?).ok()
    }

    /// Collapses a row of a tree, zooms into a frame, or goes to the subject of a row.
    pub(crate) fn enter_row(&mut self, model: &mut Model) {
        if self.current.is_none() && !self.pending {
            return Self::choose_unit(model);
        }
        let height = self.height(model);
        let Some((panel, _)) = self.panel() else { return };
        match &panel.body {
            Body::Tree(_) => {
                self.hold_row(height);
                if let Some(view) = self.panel_view_mut()
                    && let Some(id) = view.list.id
                    && !view.turned.remove(&id)
                {
                    view.turned.insert(id);
                }
            }
            Body::Flame(_) => self.move_in_flame(model, |view, flame| {
                if let Some(index) = view.index(flame) {
                    let names = view.names(flame, index);
                    view.change(|place| place.zoom = names);
                }
            }),
            _ => {
                self.hold_row(height);
                if !self.turn_rest() {
                    self.step_panel(1);
                }
            }
        }
    }

    fn move_in_flame(&mut self, model: &Model, go: impl FnOnce(&mut FlameState, &Flame)) {
        let Some(flame) = drawn::flame(model, self) else { return };
        if let Some(view) = self.panel_view_mut() {
            go(&mut view.flame, &flame);
        }
    }

    fn click_row(&mut self, at: usize, on_mark: bool) -> Option<&'static Command> {
        let (panel, view) = self.panel()?;
        let rows = panel.rows()?;
        let list = visible(&panel.body, rows, view);
        let id = rows.ids[*list.get(at)?];
        let again = view.list.id == Some(id);
        if let Some(view) = self.panel_view_mut() {
            view.list.id = Some(id);
        }
        (again || on_mark).then_some(&ENTER)
    }
}

pub(crate) fn unit_of(text: &str) -> Result<(&'static Spec, Settings), String> {
    let words = split_shell_words(text)?;
    let (name, rest) = words.split_first().ok_or("name a unit, such as rundelay")?;
    let spec = units::find(name).ok_or_else(|| {
        let near = nearest(name, units::UNITS.iter().map(|spec| spec.name));
        format!("unknown unit {name}; nearest: {}", near.join(", "))
    })?;
    let mut settings = Settings::parse(rest, spec).map_err(|why| format!("{}: {why}", spec.name))?;
    for (name, target) in [("pids", Target::Processes as fn(Vec<i32>) -> Target), ("tids", Target::Threads)] {
        let ids = settings.get(name).map(Target::ids).transpose().map_err(|why| format!("--{name}: {why}"))?;
        settings.target = ids.map_or(settings.target, target);
    }
    // Report invalid settings while the user types.
    units::make(spec, &settings).map_err(|why| format!("{}: {why}", spec.name))?;
    Ok((spec, settings))
}
