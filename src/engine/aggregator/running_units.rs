//! Analysis units in a running session: starting and ending them, and the selection of the one on the screen.

use std::sync::Arc;

use crate::engine::{Offline, UnitAnswer, UnitRequest};
use crate::ingest::unit_events::shared;
use crate::kernel::monotonic_ns;
use crate::source::{Change, Control, SharedEvents};
use crate::units;
use crate::units::kit::{Settings, Spec, ViewState};

use super::Aggregator;

/// The first number of units of recordings.
const RECORDED: u64 = 1 << 32;

#[derive(Debug, Default)]
pub(super) struct Looked {
    chosen: Option<u64>,
    recorded: Vec<(u64, Box<Offline>)>,
    /// The last ended unit of a recording.
    ended: Option<(u64, Box<Offline>)>,
    next: u64,
}

impl Looked {
    pub(super) fn is_looked_at(&self) -> bool {
        self.chosen.is_some()
    }
}

impl Aggregator {
    pub(super) fn unit_request(&mut self, request: UnitRequest) {
        match request {
            UnitRequest::Start(spec, settings) => {
                let reply = self.start_unit(spec, &settings);
                self.reply(reply);
            }
            UnitRequest::Stop(id) => self.stop_unit(id),
            UnitRequest::Resume(id) => {
                let reply = self.resume_unit(id);
                self.reply(reply);
            }
            UnitRequest::Look(look) => {
                self.units.chosen = look.as_ref().map(|(id, _)| *id);
                if let Some((id, look)) = look {
                    self.look(id, look);
                }
            }
            UnitRequest::Reset => {
                let units = &mut self.ingest.core_mut().units;
                let now = units.now();
                units.reset_kept(now);
            }
            UnitRequest::UndoReset => {
                let units = &mut self.ingest.core_mut().units;
                let now = units.now();
                if let Err(why) = units.undo_reset(now) {
                    self.reply(Err(why));
                }
            }
            UnitRequest::Baseline(id, set) => {
                if let Err(why) = self.ingest.core_mut().units.baseline(id, set) {
                    self.reply(Err(why));
                }
            }
        }
        self.answer_again();
    }

    fn look(&mut self, id: u64, look: ViewState) {
        match self.units.recorded.iter_mut().find(|(own, _)| *own == id) {
            // A recording has one unit.
            Some((_, loaded)) => loaded.ingest.core_mut().units.look(1, look),
            None => self.ingest.core_mut().units.look(id, look),
        }
    }

    fn start_unit(&mut self, spec: &'static Spec, settings: &Settings) -> Result<String, String> {
        let settings = settings.within(&self.facts.whom, self.facts.alone);
        let unit = units::make(spec, &settings).map_err(|why| format!("{}: {why}", spec.name))?;
        if let Some(why) = self.out_of_sight(unit.merges_cpus) {
            return Err(format!("{}: {why}; perfprof-tui {} -C {} does", spec.name, spec.name, self.facts.cpus));
        }
        let shared =
            shared(&unit.event_requests(), unit.sees_machine).map_err(|why| format!("{}: {why}", spec.name))?;
        self.units.chosen = Some(self.ingest.core_mut().start_unit(unit, monotonic_ns())?);
        self.share(shared);
        Ok(format!("{} runs", spec.name))
    }

    /// Returns why a unit that combines records of several CPUs does not work if only some CPUs are measured.
    fn out_of_sight(&self, merges_cpus: bool) -> Option<String> {
        let is_part = !self.facts.cpus.is_empty() && merges_cpus;
        is_part.then(|| format!("only CPU {} is measured, so what ends on other CPUs is missed", self.facts.cpus))
    }

    fn resume_unit(&mut self, id: u64) -> Result<String, String> {
        self.units.chosen = Some(id);
        if let Some(ended) = self.units.ended.take_if(|(own, _)| *own == id) {
            self.units.recorded.push(ended);
            return Ok(String::new());
        }
        let shared = self.ingest.core_mut().units.resume(id, monotonic_ns())?;
        self.share(shared);
        Ok(String::new())
    }

    /// Binds a new unit to the open events, and requests the others from the source.
    fn share(&mut self, events: SharedEvents) {
        let core = self.ingest.core_mut();
        core.bind_all_units();
        core.units.joined();
        self.control(Control::Share(events));
    }

    fn stop_unit(&mut self, id: u64) {
        if let Some(at) = self.units.recorded.iter().position(|(own, _)| *own == id) {
            self.units.ended = Some(self.units.recorded.remove(at));
        }
        for event in self.ingest.core_mut().units.stop(id) {
            self.control(self.for_source(Control::Event(event, Change::Stop)));
        }
        if self.units.chosen == Some(id) {
            let left = self.ingest.core().units.last().or(self.units.recorded.last().map(|(id, _)| *id));
            // After the last unit ends, the screen needs one more update.
            self.units.chosen = left.or(Some(0));
        }
    }

    pub(super) fn unit_of(&mut self, loaded: Box<Offline>) {
        let id = RECORDED + self.units.next;
        self.units.next += 1;
        self.units.recorded.push((id, loaded));
        self.units.chosen = Some(id);
        self.answer_again();
    }

    pub(super) fn all_unit_figures(&mut self) -> Vec<UnitAnswer> {
        let mut answers = self.ingest.core_mut().unit_answers(None);
        for (id, loaded) in &mut self.units.recorded {
            let own = loaded.ingest.core_mut().unit_answers(None);
            answers.extend(own.into_iter().map(|answer| UnitAnswer { id: *id, ..answer }));
        }
        answers
    }

    /// Publishes the figures of units that are on the screen.
    pub(super) fn publish_units(&mut self) {
        let nothing = self.ingest.core().units.is_empty() && self.units.recorded.is_empty();
        if nothing && self.links.shared.units.load().is_empty() {
            return;
        }
        let Some(chosen) = self.units.chosen.or(nothing.then_some(0)) else { return };
        if self.frozen_at.is_some() {
            return;
        }
        let mut answers = self.ingest.core_mut().unit_answers(Some(chosen));
        for answer in &mut answers {
            // Other CPUs may have been chosen while it ran.
            let merges_cpus = units::find(answer.name).is_some_and(|spec| spec.across.is_some());
            let why = self.out_of_sight(merges_cpus);
            answer.notes.extend(why.map(|why| format!("{why}; the figures are wrong since then")));
        }
        for (id, loaded) in &mut self.units.recorded {
            let of = if *id == chosen { 1 } else { 0 };
            let own = loaded.ingest.core_mut().unit_answers(Some(of));
            answers.extend(own.into_iter().map(|answer| UnitAnswer { id: *id, ..answer }));
        }
        self.links.shared.units.store(Arc::new(answers));
    }
}
