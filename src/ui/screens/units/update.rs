//! Updates of the unit screen: starting and ending units, navigation in panels and rows.

use crate::engine::{UnitAnswer, UnitRequest};
use crate::lang::nearest;
use crate::panel::unit::percent;
use crate::panel::{Body, Panel};
use crate::query::flame::layout::Flame;
use crate::query::search::pattern;
use crate::source::live::{Target, overhead};
use crate::ui::app::{App, Effect};
use crate::ui::input::commands::general;
use crate::ui::screens::flame::state::FlameState;
use crate::ui::screens::units::chooser::cost;
use crate::ui::screens::units::commands::ENTER;
use crate::ui::screens::units::draw as drawn;
use crate::ui::screens::units::panel_view::visible;
use crate::ui::screens::units::state::split_shell_words;
use crate::ui::state::{ListCursor, Tab};
use crate::units;
use crate::units::kit::{Settings, Spec};

impl App {
    /// Applies new figures of units.
    pub fn set_units(&mut self, answers: std::sync::Arc<Vec<UnitAnswer>>) {
        self.views.units.pending &= answers.is_empty();
        let height = self.unit_height();
        self.views.units.set(answers, height);
        self.tell_units();
    }

    /// Reports the visible part of the units to the engine.
    pub(crate) fn tell_units(&mut self) {
        if let Some(request) = self.views.units.tell(self.frame.tab == Tab::Units) {
            self.effects.push(Effect::Unit(request));
        }
    }

    /// Starts a unit, given by name and options; opens the chooser if none is given.
    pub(crate) fn add_unit(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.choose_unit() };
        match unit_of(&text) {
            Ok((spec, settings)) => {
                let cost = cost(&self.context, spec).unwrap_or(0.0);
                if cost > overhead::REFUSE_PERCENT && !self.context.invocation.is_forced {
                    return self.error(format!(
                        "to record the events of {} costs about {} of each CPU: refused above {:.0} %; --force on the \
                         command line lifts the limit",
                        spec.name,
                        percent(cost),
                        overhead::REFUSE_PERCENT
                    ));
                }
                self.views.units.added.push(text);
                self.start_unit(spec, settings);
            }
            Err(why) => self.error(why),
        }
    }

    pub(crate) fn start_unit(&mut self, spec: &'static Spec, settings: Settings) {
        self.frame.tab = Tab::Units;
        self.views.units.pending = true;
        self.effects.push(Effect::Unit(UnitRequest::Start(spec, settings)));
    }

    pub(crate) fn stop_unit(&mut self) {
        let Some((id, name)) = self.views.units.unit().map(|unit| (unit.id, unit.name)) else {
            return self.say("no unit is running: M starts one");
        };
        self.views.units.ended.insert(id, name);
        self.effects.push(Effect::Unit(UnitRequest::Stop(id)));
        self.say(format!("{name} stopped; u brings its figures back"));
    }

    pub(crate) fn reset_units(&mut self) {
        if self.views.units.answers.is_empty() {
            return self.say("no unit is running: M starts one");
        }
        self.views.units.resets += 1;
        self.effects.push(Effect::Unit(UnitRequest::Reset));
        self.say("the figures of all units are reset; u brings them back");
    }

    pub(crate) fn unit_height(&self) -> usize {
        drawn::main_height(self.scene(), &self.views.units)
    }

    pub(crate) fn is_in_flame(&self) -> bool {
        matches!(self.views.units.panel().map(|(panel, _)| &panel.body), Some(Body::Flame(_)))
    }

    /// Goes to the panel, or in a flame graph to the frame, on the right (1) or left (-1).
    pub(crate) fn unit_sideways(&mut self, by: i32) {
        match self.is_in_flame() {
            true => self.move_in_flame(|screen, flame| screen.sideways(flame, by)),
            false => self.views.units.step_panel(by as isize),
        }
    }

    pub(crate) fn ask_or_filter_rows(&mut self, text: Option<String>) {
        if let Some(text) = text {
            return self.filter_rows(&text);
        }
        let before = self.views.units.panel().and_then(|(_, view)| view.filter.as_ref());
        let text = before.map_or(String::new(), |filter| filter.as_str().trim_start_matches("(?i)").to_owned());
        self.ask_for(&general::SEARCH, text);
    }

    pub(crate) fn unit_baseline(&mut self) {
        let Some(id) = self.views.units.current else { return };
        let Some(view) = self.views.units.view_mut() else { return };
        view.baseline = !view.baseline;
        let set = view.baseline;
        self.effects.push(Effect::Unit(UnitRequest::Baseline(id, set)));
        self.say(if set { "comparing with this moment from now on" } else { "stopped comparing" });
    }

    /// Filters the rows of the panel by a text; an empty text removes the filter.
    pub(crate) fn filter_rows(&mut self, text: &str) {
        let filter = match text {
            "" => None,
            text => match pattern(text) {
                Ok(filter) => Some(filter),
                Err(why) => return self.error(why),
            },
        };
        if let Some(view) = self.views.units.panel_view_mut() {
            (view.filter, view.list) = (filter, ListCursor::default());
        }
    }

    /// Returns the order of the visible rows, if they can be sorted.
    fn order_now(&mut self) -> Option<(usize, bool)> {
        match self.views.units.panel() {
            Some((Panel { body: Body::Table(_) | Body::Tree(_), .. }, view)) => {
                Some(view.ordered_by().unwrap_or((usize::MAX, false)))
            }
            Some((Panel { body: Body::Log(_), .. }, _)) => {
                self.say("a log is in the order of time");
                None
            }
            _ => None,
        }
    }

    pub(crate) fn order_rows(&mut self, by: isize) {
        let Some((column, turned)) = self.order_now() else { return };
        let titles = self.views.units.panel().and_then(|(panel, _)| panel.rows()).map(|rows| &rows.table.columns);
        let Some(titles) = titles.filter(|titles| !titles.is_empty()) else { return };
        let n = titles.len() as isize;
        let next = isize::try_from(column).map_or(0, |column| (column + by).rem_euclid(n)) as usize;
        let title = titles[next].title.to_string();
        if let Some(view) = self.views.units.panel_view_mut() {
            view.order = Some((next, turned && view.order.is_some()));
        }
        self.say(format!("sorted by {title}"));
    }

    /// Reverses the order, or sorts by a clicked heading; a second click reverses.
    pub(crate) fn turn_rows(&mut self, clicked: Option<usize>) {
        let Some((by, turned)) = self.order_now() else { return };
        let by = if by == usize::MAX { 0 } else { by };
        let (column, turned) = clicked.map_or((by, !turned), |clicked| (clicked, clicked == by && !turned));
        if let Some(view) = self.views.units.panel_view_mut() {
            view.order = Some((column, turned));
        }
    }

    /// Collapses a row of a tree, zooms into a frame, or goes to the subject of a row.
    pub(crate) fn enter_row(&mut self) {
        if self.views.units.current.is_none() && !self.views.units.pending {
            return self.choose_unit();
        }
        let height = self.unit_height();
        let Some((panel, _)) = self.views.units.panel() else { return };
        match &panel.body {
            Body::Tree(_) => {
                self.views.units.hold_row(height);
                if let Some(view) = self.views.units.panel_view_mut()
                    && let Some(id) = view.list.id
                    && !view.folded.remove(&id)
                {
                    view.folded.insert(id);
                }
            }
            Body::Flame(_) => self.move_in_flame(|view, flame| {
                if let Some(index) = view.index(flame) {
                    let names = view.names(flame, index);
                    view.change(|place| place.zoom = names);
                }
            }),
            _ => {
                self.views.units.hold_row(height);
                if !self.views.units.turn_rest() {
                    self.views.units.step_panel(1);
                }
            }
        }
    }

    pub(crate) fn move_in_flame(&mut self, go: impl FnOnce(&mut FlameState, &Flame)) {
        let Some(flame) = drawn::flame(self.scene(), &self.views.units) else { return };
        if let Some(view) = self.views.units.panel_view_mut() {
            go(&mut view.flame, &flame);
        }
    }

    pub(crate) fn click_row(&mut self, at: usize, on_mark: bool) {
        let Some((panel, view)) = self.views.units.panel() else { return };
        let Some(rows) = panel.rows() else { return };
        let list = visible(&panel.body, rows, view);
        let Some(id) = list.get(at).map(|row| rows.ids[*row]) else { return };
        let again = view.list.id == Some(id);
        if let Some(view) = self.views.units.panel_view_mut() {
            view.list.id = Some(id);
        }
        if again || on_mark {
            self.run(&ENTER);
        }
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
