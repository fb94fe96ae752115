//! Updates of the event screen: starting, stopping and changing events.

use std::sync::Arc;

use crate::event::{Event, base_name};
use crate::ingest::tracepoints;
use crate::query::answer::Meter;
use crate::source::{Change, Control, RunState};
use crate::ui::input::commands::general;
use crate::ui::popups::prompt::Prompt;
use crate::ui::screens::events::commands::{CPUS, FOOTER, FOOTER_RECORDED, MODIFIERS, RATE, SEARCHED};
use crate::ui::screens::events::draw as drawn;
use crate::ui::screens::events::state::{EventRow, EventsState, rate, rate_text};
use crate::ui::screens::screen::{Canvas, Command, CursorStep, Hints, Model, Origin, Screen};
use crate::ui::state::Tab;
use crate::ui::state::sampling::cpu_list;

/// The reasons why an event cannot be changed.
const NO_EVENT: &str = "this event is not measured: select a measured one at the top";
const UNCHANGEABLE: &str = "events of recordings and derived events cannot be changed";

impl Screen for EventsState {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::draw(model, self, on);
    }

    fn hints(&self, origin: Origin) -> Hints {
        if origin == Origin::Recorded { FOOTER_RECORDED } else { FOOTER }
    }

    fn text(&self, model: &Model) -> Option<String> {
        Some(drawn::text(model))
    }

    fn add_commands(&self, _model: &Model, commands: &mut Vec<String>) {
        commands.push("events".to_owned());
    }

    fn click(&mut self, model: &mut Model, _x: u16, y: u16) -> Option<&'static Command> {
        let item = drawn::hit(model, self, y)?;
        if self.row_here(model).as_ref() == Some(&item) {
            self.enter(model);
            return None;
        }
        let items = self.items(&model.context.answer.events);
        self.go_to(model, items.iter().position(|i| *i == item).unwrap_or(0));
        None
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        let items = self.items(&model.context.answer.events);
        self.go_to(model, self.selected(&items).saturating_add_signed(step.lines(Self::lines(model).1)));
    }

    fn leave(&mut self, model: &mut Model) -> bool {
        let is_searched = !self.search.is_empty();
        if is_searched {
            self.search_for(model, String::new());
        }
        is_searched
    }

    fn prepare(&mut self, model: &Model) {
        self.look_up(model);
    }
}

impl EventsState {
    pub(crate) fn set_rate(&self, model: &mut Model, text: Option<String>) {
        self.change_by(model, text, &RATE, |m| rate_text(m.state.rate), |text| rate(text).map(Change::Rate));
    }

    pub(crate) fn set_modifiers(&self, model: &mut Model, text: Option<String>) {
        let now = |m: &Meter| Event::modifiers(&m.state.name).to_owned();
        self.change_by(model, text, &MODIFIERS, now, |text| Ok(Change::Modifiers(text.to_owned())));
    }

    pub(crate) fn set_cpus(&self, model: &mut Model, text: Option<String>) {
        let parse = |text: &str| match text {
            "" => Ok(Change::Cpus(None)),
            text => cpu_list(text).map(|list| Change::Cpus(Some(list))),
        };
        self.change_by(model, text, &CPUS, |m| m.state.cpus.clone(), parse);
    }

    pub(crate) fn ask_or_search(&mut self, model: &mut Model, text: Option<String>) {
        match text {
            Some(text) => self.search_for(model, text),
            None => {
                let text = self.search.clone();
                model.frame.prompt = Some(Prompt::new(&general::SEARCH, &SEARCHED, text, &model.context));
            }
        }
    }

    /// Looks up the fields of the tracepoint under the cursor, once.
    pub(crate) fn look_up(&mut self, model: &Model) {
        let Some(EventRow::Entry(entry)) = self.list.id else { return };
        let Some(name) = model.context.entry(entry).map(|entry| entry.name.clone()) else { return };
        if self.looked_up.as_ref().is_none_or(|(known, _)| *known != name) {
            let format = tracepoints::format(&model.context.info, base_name(&name)).map(Arc::new);
            self.looked_up = Some((name, format));
        }
    }

    /// Returns the number of lines of the session's events and of the catalogue.
    fn lines(model: &Model) -> (usize, usize) {
        (EventsState::own(&model.context.answer.events).count(), drawn::plan(model).listed)
    }

    fn go_to(&mut self, model: &Model, at: usize) {
        let items = self.items(&model.context.answer.events);
        let (own, height) = Self::lines(model);
        self.go(at, &items, own, height);
    }

    pub(crate) fn search_for(&mut self, model: &Model, text: String) {
        self.search(model.context.catalogue(), text);
        // Put the cursor on the best match.
        self.list.top = 0;
        self.go_to(model, if self.search.is_empty() { 0 } else { Self::lines(model).0 });
    }

    fn row_here(&self, model: &Model) -> Option<EventRow> {
        self.item(&model.context.answer.events)
    }

    pub(crate) fn enter(&mut self, model: &mut Model) {
        match self.row_here(model) {
            Some(EventRow::Group(group)) => self.toggle(group),
            Some(EventRow::Entry(entry)) => {
                let Some(name) = model.context.entry(entry).map(|e| e.name.clone()) else { return };
                Self::start_event(model, name);
            }
            Some(EventRow::Own(event)) => match model.context.meter(event) {
                Some(Meter { state, .. })
                    if state.for_units || !matches!(state.run, RunState::Running | RunState::Paused) =>
                {
                    model.control(Control::Event(event, Change::Start));
                }
                _ => model.show_samples_of(event),
            },
            None => {}
        }
    }

    /// Starts an event of the catalogue; for a pattern, prompts for its placeholders.
    fn start_event(model: &mut Model, name: String) {
        if name.contains("N/") || name.contains("=N") || name.contains(['[', 'X']) {
            let stem = name.split(['[', 'X', 'A']).next().unwrap_or_default();
            return model.ask_for(&general::EVENT, stem.replace("=N", "="));
        }
        model.add_event(Some(name));
    }

    /// Returns the event to change: the one under the cursor on this screen, or else the displayed one.
    fn own_event(&self, model: &Model) -> Option<usize> {
        match (model.frame.tab, self.row_here(model)) {
            (Tab::Events, Some(EventRow::Own(event))) => Some(event),
            (Tab::Events, _) => None,
            _ => Some(model.selection.event),
        }
    }

    /// Prompts for the capture filter of the event under the cursor, or shows why there is none.
    pub(crate) fn capture(&self, model: &mut Model, text: Option<String>) {
        match self.own_event(model) {
            Some(event) => model.capture_of(event, text),
            None => model.refuse(&general::CAPTURE, NO_EVENT),
        }
    }

    pub(crate) fn change(&self, model: &mut Model, make: impl FnOnce(&Meter) -> Result<Change, String>) {
        let Some(event) = self.own_event(model) else { return model.say(NO_EVENT) };
        match model.context.meter(event) {
            None => model.say(UNCHANGEABLE),
            Some(meter) => match make(meter) {
                Ok(change) => model.control(Control::Event(event, change)),
                Err(why) => model.error(why),
            },
        }
    }

    fn change_by(
        &self,
        model: &mut Model,
        text: Option<String>,
        row: &'static Command,
        now: impl FnOnce(&Meter) -> String,
        parse: impl FnOnce(&str) -> Result<Change, String>,
    ) {
        match text {
            Some(text) => self.change(model, |_| parse(text.trim())),
            None => {
                let Some(event) = self.own_event(model) else { return model.refuse(row, NO_EVENT) };
                match model.context.meter(event) {
                    Some(meter) => model.ask_for(row, now(meter)),
                    None => model.refuse(row, UNCHANGEABLE),
                }
            }
        }
    }
}
