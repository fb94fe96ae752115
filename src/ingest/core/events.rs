//! Events that are added while records arrive, and derived events.

use rustc_hash::FxHashMap;

use crate::event::{CallGraph, EventState};
use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::kernel::attr::sample;
use crate::kernel::monotonic_ns;
use crate::perfdata::EventDesc;
use crate::query::rows::partner::samples_time;
use crate::session::Origin;

use super::IngestState;
use crate::ingest::parallelism::{self, Parallelism, has_switches};
use crate::ingest::switches::Switches;

/// How events are opened.
#[derive(Debug, Default)]
pub(super) struct EventModes {
    pub(super) call_graphs: Vec<CallGraph>,
    /// The names of the requested events that others replace.
    pub(super) replaced: FxHashMap<u16, String>,
    /// The first event whose samples represent time.
    pub(super) clock: Option<u16>,
}

impl EventModes {
    pub(super) fn learn(&mut self, slots: &[u16], states: &[EventState]) {
        for (event, state) in slots.iter().zip(states) {
            let at = usize::from(*event);
            self.call_graphs.resize(self.call_graphs.len().max(at + 1), CallGraph::None);
            self.call_graphs[at] = state.chains;
            self.replaced.extend(state.replaces.clone().map(|name| (*event, name)));
        }
    }
}

impl IngestState {
    pub(super) fn add_event(&mut self, event: EventDesc, states: &[EventState]) {
        let at = self.events.len() as u16;
        let state = states.get(self.slots().len());
        self.modes.replaced.extend(state.and_then(|state| state.replaces.clone()).map(|name| (at, name)));
        self.inputs.add(at, &event);
        self.events.push(event);
        if state.map_or(self.wants.units_only, |state| state.for_units) {
            self.units.set_quiet(at, true);
        } else {
            self.keep_event(at);
        }
        self.bind_units(at);
    }

    /// Updates which events are only for units and which are also the user's.
    pub(super) fn follow_states(&mut self, states: &[EventState]) {
        let is_other = |(slot, state): (usize, &EventState)| {
            let event = usize::from(*self.slots().get(slot)?);
            let before = self.modes.call_graphs.get(event).filter(|way| way.is_on() && state.chains.is_on())?;
            Some(*before != state.chains && self.units.wants_stack(event as u16))
        };
        if states.iter().enumerate().any(|state| is_other(state) == Some(true)) {
            self.units.begin_stacks_again(monotonic_ns());
        }
        self.modes.learn(self.inputs.slots(), states);
        for (slot, state) in states.iter().enumerate() {
            let Some(event) = self.slots().get(slot).copied() else { return };
            if self.units.is_quiet(event) != state.for_units {
                self.units.set_quiet(event, state.for_units);
                if !state.for_units {
                    self.keep_event(event);
                }
            }
        }
    }

    fn keep_event(&mut self, at: u16) {
        let is_clock = self.events[usize::from(at)].is_clock();
        self.modes.clock = self.modes.clock.or(is_clock.then_some(at));
        self.tracing.learn(usize::from(at), &self.events[usize::from(at)], &mut self.profile);
        let live = self.session.origin();
        if live == Origin::Live {
            self.derive(&[]);
        }
    }

    /// Creates the derived events that the current events allow; their samples are durations.
    pub(super) fn derive(&mut self, tracing: &[u8]) {
        let origin = self.session.origin();
        if origin == Origin::Live && self.running.switches.is_none() {
            self.running.switches = Switches::among(&self.events, tracing, origin);
        }
        for name in self.derived[self.session.at()].find(&self.events, tracing, origin) {
            let event = EventDesc::derived(&name);
            self.profile.learn_event(self.events.len() as u16, &event);
            self.events.push(event);
        }
        self.measure_latency(tracing);
    }

    /// Adds the latency profile of the clock, if context switches are recorded.
    fn measure_latency(&mut self, tracing: &[u8]) {
        let is_free = self.parallelism.is_none() && !self.derived.are_many();
        // The table shows it next to the first event of time.
        let is_time = |event: &EventDesc| event.is_clock() && samples_time(&event.name);
        let of_time = self.events.iter().position(is_time).map(|at| at as u16);
        let Some(clock) = of_time.or(self.modes.clock).filter(|_| is_free) else { return };
        if let Some(saved) = self.events.iter().position(EventDesc::is_saved_latency) {
            for at in [usize::from(clock), saved] {
                let event = &self.events[at];
                let format = parallelism::format(&event.name).filter(|_| event.attr.sample_type & sample::RAW != 0);
                format.into_iter().for_each(|format| self.profile.set_format(at as u16, format));
            }
            return;
        }
        let origin = self.session.origin();
        if !has_switches(&self.events) {
            return;
        }
        let switches = Switches::among(&self.events, tracing, origin);
        let event = EventDesc::latency(&self.events[usize::from(clock)]);
        let at = self.events.len() as u16;
        self.profile.learn_event(at, &event);
        for (at, name) in [(clock, &self.events[usize::from(clock)].name), (at, &event.name)] {
            let Some(format) = parallelism::format(name) else { return };
            self.profile.set_format(at, format);
        }
        self.events.push(event);
        self.parallelism = Some(Box::new(Parallelism::new(clock, at, switches)));
    }

    /// Returns whether a snapshot has the raw data of an event: those of its records, or the number of running threads,
    /// because a profile keeps no switches to derive it from.
    pub(super) fn saves_raw(&self, event: u16, desc: &EventDesc) -> bool {
        let is_weighed = self.parallelism.as_ref().is_some_and(|of| of.clock == event || of.event == event);
        is_weighed || self.profile.has_recorded_raw(event, desc)
    }

    pub(crate) fn derived(&self) -> impl Iterator<Item = (u16, Vec<u16>)> + '_ {
        self.derived.first().iter()
    }

    /// Returns the time in softirqs if it is traced; `None` for several machines, because CPU numbers repeat.
    pub fn softirq_times(&self) -> Option<HandlerTimes> {
        (!self.derived.are_many()).then(|| self.derived[self.session.at()].times()).flatten()
    }
}
