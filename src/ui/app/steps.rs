//! The history of views: each change of the view can be undone and redone, on any screen. Navigation is not a step:
//! screens, the map's rows, columns, colours and selection, and the CPU screen's pages are not part of it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::UnitRequest;
use crate::filter::Filter;
use crate::query::diff::NormalizeBy;
use crate::query::rows::top_table::TopField;
use crate::query::{Age, ChainMode, Direction, Order};
use crate::ui::app::App;
use crate::ui::screens::flame::state::FlameView;
use crate::ui::screens::time::state::TimeState;
use crate::ui::screens::top::state::TopState;
use crate::ui::screens::units::state::Arrangement;
use crate::ui::state::{BannerSubject, ComparedWith, Effect, ListCursor, Tab, Zoom};

const MAX_STEPS: usize = 200;

/// Lists the state that a step may change: name, type, place in the model, and description; a method after the
/// description may return a more specific one.
macro_rules! view {
    ($($name:ident: $type:ty, $($place:ident).+, $word:literal $(or $detail:ident)?;)*) => {
        #[derive(Clone, Debug, PartialEq)]
        struct View { $($name: $type,)* units: Arrangement }

        impl View {
            fn of(app: &App) -> Self {
                Self { $($name: Clone::clone(&app.$($place).+),)* units: app.views.units.arrangement() }
            }

            /// Applies the fields that differ from the other view to the model, and leaves equal ones as they are.
            fn put(&self, other: &Self, app: &mut App) {
                $(if self.$name != other.$name {
                    app.$($place).+ = Clone::clone(&self.$name);
                })*
                if self.units != other.units {
                    app.views.units.arrange(&self.units);
                }
            }

            /// Describes the changes from a view to this one.
            fn changes(&self, before: &Self) -> Vec<String> {
                let mut words: Vec<String> = Vec::new();
                $(if self.$name != before.$name {
                    let detail: Option<String> = None$(.or_else(|| self.$detail(before)))?;
                    let word = detail.unwrap_or_else(|| $word.to_owned());
                    if !words.contains(&word) {
                        words.push(word);
                    }
                })*
                if self.units != before.units {
                    words.push("rows of the unit".to_owned());
                }
                words
            }
        }
    };
}

view! {
    zooms: Vec<Zoom>, model.selection.zooms, "zoom" or zoom_label;
    filter: Option<Arc<Filter>>, model.selection.filter, "filter";
    event: usize, model.selection.event, "event";
    hide_idle: bool, model.selection.hide_idle, "idle CPUs";
    age: Age, model.selection.age, "window of time";
    age_chosen: bool, model.selection.age_chosen, "window of time";
    sorted: bool, model.selection.rows.sorted, "columns";
    dismissed: hashbrown::HashSet<BannerSubject>, model.selection.dismissed, "message that was dismissed";
    baseline: Option<ComparedWith>, model.selection.baseline, "comparison";
    per: NormalizeBy, model.selection.per, "comparison";
    order_before: Option<(Order, bool)>, model.selection.order_before, "comparison";
    columns: Vec<TopField>, model.selection.rows.columns, "columns";
    children: bool, model.selection.rows.children, "columns";
    order: Order, model.selection.rows.order, "order";
    reversed: bool, model.selection.rows.reversed, "order";
    direction: Direction, model.selection.rows.direction, "direction of call chains";
    chain_mode: ChainMode, model.selection.rows.chain_mode, "percentages";
    of_machine: bool, model.selection.of_machine, "percentages";
    limit: f64, model.selection.rows.limit, "limit";
    flame: FlameView, views.flame.place, "flame graph";
    icicle: bool, views.flame.icicle, "flame graph";
    off_cpu: bool, model.selection.off_cpu, "time off the CPUs";
    cpu_order: crate::machine::table::CpuColumn, views.cpus.order, "order of CPUs";
    cpu_reversed: bool, views.cpus.reversed, "order of CPUs";
    events_search: String, views.events.search, "search of events";
    finding_entered: u64, views.overview.entered, "the finding";
    units_ended: BTreeMap<u64, &'static str>, views.units.ended, "end of a unit" or ended_unit;
    unit_resets: u64, views.units.resets, "reset of the units' figures";
}

impl View {
    /// Returns the label of the zoom that was added or removed.
    fn zoom_label(&self, before: &Self) -> Option<String> {
        let (long, short) = (&self.zooms, &before.zooms);
        let (long, short) = if long.len() >= short.len() { (long, short) } else { (short, long) };
        long.iter().rev().find(|zoom| !short.contains(zoom)).map(|zoom| zoom.label.clone())
    }

    fn ended_unit(&self, before: &Self) -> Option<String> {
        let ended = self.units_ended.iter().find(|(id, _)| !before.units_ended.contains_key(id));
        ended.map(|(_, name)| format!("end of {name}"))
    }

    /// Returns the requests that change the engine's units to those of this view.
    fn unit_requests(&self, other: &Self) -> impl Iterator<Item = UnitRequest> {
        let only = |of: &Self, without: &Self| -> Vec<u64> {
            of.units_ended.keys().filter(|id| !without.units_ended.contains_key(id)).copied().collect()
        };
        let reset = match self.unit_resets.cmp(&other.unit_resets) {
            Ordering::Less => Some(UnitRequest::UndoReset),
            Ordering::Equal => None,
            Ordering::Greater => Some(UnitRequest::Reset),
        };
        let resumed = only(other, self).into_iter().map(UnitRequest::Resume);
        resumed.chain(only(self, other).into_iter().map(UnitRequest::Stop)).chain(reset)
    }
}

/// The cursors: they are restored with a step, but do not count as a change.
#[derive(Clone, Debug)]
struct Cursors {
    tab: Tab,
    top: TopState,
    flame: Option<u64>,
    time: TimeState,
}

impl Cursors {
    fn of(app: &App) -> Self {
        Self {
            tab: app.model.frame.tab,
            top: app.model.top.clone(),
            flame: app.views.flame.cursor,
            time: app.views.time.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct UndoStep {
    before: View,
    after: View,
    from: Cursors,
    to: Tab,
}

impl UndoStep {
    fn is_into_frame(&self) -> bool {
        self.after.flame.zoom.len() > self.before.flame.zoom.len()
    }
}

/// The done and undone steps, and the current one.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    done: Vec<UndoStep>,
    undone: Vec<UndoStep>,
    /// The view before the current step, which lasts until prompts and popups are closed.
    begun: Option<Box<(View, Cursors)>>,
    /// Nesting depth: inner steps are part of the outermost one.
    depth: usize,
    /// The table's cursor to restore when the answer for the restored view arrives.
    cursor: Option<TopState>,
}

impl App {
    /// Runs a change of the view as a step that can be undone.
    pub(crate) fn step(&mut self, change: impl FnOnce(&mut Self)) {
        if self.steps.begun.is_none() {
            self.steps.begun = Some(Box::new((View::of(self), Cursors::of(self))));
        }
        self.steps.depth += 1;
        change(self);
        self.steps.depth -= 1;
        let closed = self.model.frame.prompt.is_none() && self.model.frame.popups.is_empty();
        if self.steps.depth > 0 || !closed {
            return;
        }
        let Some((before, from)) = self.steps.begun.take().map(|begun| *begun) else { return };
        let after = View::of(self);
        if before != after {
            self.steps.done.push(UndoStep { before, after, from, to: self.model.frame.tab });
            let n = self.steps.done.len();
            self.steps.done.drain(..n.saturating_sub(MAX_STEPS));
            self.steps.undone.clear();
        }
    }

    /// Compares with a file that was read.
    pub fn baseline_read(&mut self, path: PathBuf) {
        self.step(|app| app.model.compare_with_file(path));
        self.ask(false);
    }

    pub(crate) fn undo(&mut self) {
        let Some(step) = self.steps.done.pop() else { return self.model.say("there is nothing to undo") };
        self.replay(&step, (&step.before, &step.after), step.from.tab, "undone");
        self.views.flame.cursor = step.from.flame;
        if step.from.tab == Tab::Time {
            self.views.time.return_to(&step.from.time);
        }
        self.steps.cursor = Some(step.from.top.clone());
        self.steps.undone.push(step);
    }

    pub(crate) fn redo(&mut self) {
        let Some(step) = self.steps.undone.pop() else { return self.model.say("there is nothing to redo") };
        self.replay(&step, (&step.after, &step.before), step.to, "redone");
        self.model.top.home();
        self.steps.done.push(step);
    }

    /// Replaces one view of a step by the other. Changes the screen only if the step did.
    fn replay(&mut self, step: &UndoStep, (view, other): (&View, &View), tab: Tab, what: &str) {
        self.steps.begun = None;
        view.put(other, self);
        self.model.effects.extend(view.unit_requests(other).map(Effect::Unit));
        self.views.time.follow(&self.model);
        if step.from.tab != step.to {
            self.model.frame.tab = tab;
        }
        self.model.say(format!("{what}: {}", step.after.changes(&step.before).join(", ")));
    }

    pub(crate) fn return_cursor(&mut self) {
        if self.model.context.answer.question.generation == self.asked.generation
            && let Some(before) = self.steps.cursor.take()
        {
            let list = ListCursor { drifted: self.model.top.list.drifted, ..before.list };
            self.model.top = TopState { list, selected: before.selected, ..self.model.top.clone() };
        }
    }

    /// Esc on a screen without popups: clears the selection or search, then undoes a zoom.
    pub(crate) fn leave(&mut self) {
        if self.model.context.answer.progress.is_some() {
            return self.model.control(crate::source::Control::Stop);
        }
        let tab = self.model.frame.tab;
        let left = self.views.screen_mut(tab).leave(&mut self.model) || tab == Tab::Flame && self.leave_frame();
        if !left && self.model.selection.zooms.pop().is_none() {
            self.model.say("no zoom to leave: ⌫ undoes the last step, q quits");
        }
    }

    /// Returns to the zoom from which the flame graph's frame was entered. Returns `false` without a zoom.
    fn leave_frame(&mut self) -> bool {
        let here = &self.views.flame.place.zoom;
        let is_zoomed = !here.is_empty();
        if is_zoomed {
            let into = self.steps.done.iter().rev().find(|step| step.after.flame.zoom == *here && step.is_into_frame());
            let outside = into.map(|step| step.before.flame.zoom.clone()).unwrap_or_default();
            self.views.flame.change(|place| place.zoom = outside);
        }
        is_zoomed
    }
}
