//! Updates of the event screen: starting, stopping and changing events.

use std::sync::Arc;

use crate::event::catalogue::CatalogueEvent;
use crate::event::{Event, base_name};
use crate::ingest::tracepoints;
use crate::query::answer::{EventInfo, Meter};
use crate::session::Origin;
use crate::source::{Change, Control, RunState};
use crate::ui::app::update::cpu_list;
use crate::ui::app::{App, Effect};
use crate::ui::input::Command;
use crate::ui::input::commands::general;
use crate::ui::popups::prompt::Prompt;
use crate::ui::screens::events::commands::{CPUS, MODIFIERS, RATE, SEARCHED};
use crate::ui::screens::events::draw as drawn;
use crate::ui::screens::events::state::{EventRow, EventsState, rate, rate_text};
use crate::ui::state::Tab;

/// The reasons why an event cannot be changed.
const NO_EVENT: &str = "this event is not measured: select a measured one at the top";
const UNCHANGEABLE: &str = "events of recordings and derived events cannot be changed";
const RECORDED: &str = "the events of a recording cannot be changed";

impl App {
    /// Stores the catalogue of the machine's events.
    pub fn set_catalogue(&mut self, catalogue: Arc<Vec<CatalogueEvent>>) {
        self.views.events.set_catalogue(catalogue);
    }

    pub(crate) fn show_events(&mut self) {
        self.frame.tab = Tab::Events;
        if self.views.events.catalogue.is_none() && self.context.info.origin == Origin::Live {
            self.effects.push(Effect::Catalogue);
        }
    }

    pub(crate) fn rate_event(&mut self, text: Option<String>) {
        self.change_by(text, &RATE, |m| rate_text(m.state.rate), |text| rate(text).map(Change::Rate));
    }

    pub(crate) fn modify_event(&mut self, text: Option<String>) {
        let now = |m: &Meter| Event::modifiers(&m.state.name).to_owned();
        self.change_by(text, &MODIFIERS, now, |text| Ok(Change::Modifiers(text.to_owned())));
    }

    pub(crate) fn cpus_of_event(&mut self, text: Option<String>) {
        let parse = |text: &str| match text {
            "" => Ok(Change::Cpus(None)),
            text => cpu_list(text).map(|list| Change::Cpus(Some(list))),
        };
        self.change_by(text, &CPUS, |m| m.state.cpus.clone(), parse);
    }

    pub(crate) fn ask_or_search_events(&mut self, text: Option<String>) {
        match text {
            Some(text) => self.search_events(text),
            None => {
                let text = self.views.events.search.clone();
                self.frame.prompt = Some(Prompt::new(&general::SEARCH, &SEARCHED, text, &self.context));
            }
        }
    }

    /// Looks up the fields of the tracepoint under the cursor, once.
    pub(crate) fn look_up_entry(&mut self) {
        let Some(EventRow::Entry(entry)) = self.views.events.list.id else { return };
        let Some(name) = self.views.events.entry(entry).map(|entry| entry.name.clone()) else { return };
        if self.views.events.looked_up.as_ref().is_none_or(|(known, _)| *known != name) {
            let format = tracepoints::format(&self.context.info, base_name(&name)).map(Arc::new);
            self.views.events.looked_up = Some((name, format));
        }
    }

    /// Returns the number of lines of the session's events and of the catalogue.
    pub(crate) fn event_lines(&self) -> (usize, usize) {
        let plan = drawn::plan(self.scene());
        (EventsState::own(&self.context.answer.events).count(), plan.listed)
    }

    pub(crate) fn go_to_item(&mut self, at: usize) {
        let items = self.views.events.items(&self.context.answer.events);
        let (own, height) = self.event_lines();
        self.views.events.go(at, &items, own, height);
    }

    pub(crate) fn search_events(&mut self, text: String) {
        self.views.events.search(text);
        // Put the cursor on the best match.
        self.views.events.list.top = 0;
        self.go_to_item(if self.views.events.search.is_empty() { 0 } else { self.event_lines().0 });
    }

    pub(crate) fn event_item(&self) -> Option<EventRow> {
        self.views.events.item(&self.context.answer.events)
    }

    pub(crate) fn enter_item(&mut self) {
        match self.event_item() {
            Some(EventRow::Group(group)) => self.views.events.toggle(group),
            Some(EventRow::Entry(entry)) => {
                let Some(name) = self.views.events.entry(entry).map(|e| e.name.clone()) else { return };
                self.start_event(name);
            }
            Some(EventRow::Own(event)) => match self.context.meter(event) {
                Some(Meter { state, .. })
                    if state.for_units || !matches!(state.run, RunState::Running | RunState::Paused) =>
                {
                    self.control(Control::Event(event, Change::Start));
                }
                _ => {
                    self.selection.event = event;
                    self.frame.tab = Tab::Top;
                    self.views.top.home();
                }
            },
            None => {}
        }
    }

    /// Starts an event of the catalogue; for a pattern, prompts for its placeholders.
    fn start_event(&mut self, name: String) {
        if name.contains("N/") || name.contains("=N") || name.contains(['[', 'X']) {
            let stem = name.split(['[', 'X', 'A']).next().unwrap_or_default();
            return self.ask_for(&general::EVENT, stem.replace("=N", "="));
        }
        self.add_event(Some(name));
    }

    pub(crate) fn add_event(&mut self, names: Option<String>) {
        match names {
            None if self.context.info.origin == Origin::Recorded => self.refuse(&general::EVENT, RECORDED),
            Some(_) if self.context.info.origin == Origin::Recorded => self.say(RECORDED),
            None => self.ask_for(&general::EVENT, String::new()),
            Some(names) => self.control(Control::Add(names)),
        }
    }

    /// Returns the event to change: the one under the cursor on this screen, or else the displayed one.
    fn own_event(&self) -> Option<usize> {
        match (self.frame.tab, self.event_item()) {
            (Tab::Events, Some(EventRow::Own(event))) => Some(event),
            (Tab::Events, _) => None,
            _ => Some(self.selection.event),
        }
    }

    /// Prompts for the capture filter of the event under the cursor, or shows why there is none.
    pub(crate) fn capture_here(&mut self, text: Option<String>) {
        match self.own_event() {
            Some(event) => self.capture_of(event, text),
            None => self.refuse(&general::CAPTURE, NO_EVENT),
        }
    }

    pub(crate) fn change_own(&mut self, change: impl FnOnce(&Meter) -> Result<Change, String>) {
        let Some(event) = self.own_event() else { return self.say(NO_EVENT) };
        match self.context.meter(event) {
            None => self.say(UNCHANGEABLE),
            Some(meter) => match change(meter) {
                Ok(change) => self.control(Control::Event(event, change)),
                Err(why) => self.error(why),
            },
        }
    }

    fn change_by(
        &mut self,
        text: Option<String>,
        row: &'static Command,
        now: impl FnOnce(&Meter) -> String,
        parse: impl FnOnce(&str) -> Result<Change, String>,
    ) {
        match text {
            Some(text) => self.change_own(|_| parse(text.trim())),
            None => {
                let Some(event) = self.own_event() else { return self.refuse(row, NO_EVENT) };
                match self.context.meter(event) {
                    Some(meter) => self.ask_for(row, now(meter)),
                    None => self.refuse(row, UNCHANGEABLE),
                }
            }
        }
    }

    /// Pauses all events if any is running, otherwise resumes them.
    pub(crate) fn pause_all(&mut self) {
        let runs = |e: &EventInfo| e.meter.as_ref().is_some_and(|m| m.state.run == RunState::Running);
        let on = self.context.answer.events.iter().any(runs);
        self.control(Control::Pause(on));
    }
}
