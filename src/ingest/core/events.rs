//! Events that are added while records arrive, and derived events.

use crate::event::{CallGraph, EventState};
use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::kernel::monotonic_ns;
use crate::perfdata::EventDesc;
use crate::session::Origin;

use super::IngestState;
use crate::ingest::switches::Switches;

impl IngestState {
    pub(super) fn add_event(&mut self, event: EventDesc, states: &[EventState]) {
        let at = self.events.len() as u16;
        let state = states.get(self.slots().len());
        self.replaced.extend(state.and_then(|state| state.replaces.clone()).map(|name| (at, name)));
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
            let before = self.call_graph_modes.get(event).filter(|way| way.is_on() && state.chains.is_on())?;
            Some(*before != state.chains && self.units.wants_stack(event as u16))
        };
        if states.iter().enumerate().any(|state| is_other(state) == Some(true)) {
            self.units.begin_stacks_again(monotonic_ns());
        }
        self.learn_call_graph_modes(states);
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

    /// Learns how events are opened: their call graph modes, and the requests that they replace.
    pub(super) fn learn_call_graph_modes(&mut self, states: &[EventState]) {
        for (slot, state) in states.iter().enumerate() {
            let Some(event) = self.slots().get(slot).copied().map(usize::from) else { return };
            self.call_graph_modes.resize(self.call_graph_modes.len().max(event + 1), CallGraph::None);
            self.call_graph_modes[event] = state.chains;
            self.replaced.extend(state.replaces.clone().map(|name| (event as u16, name)));
        }
    }

    fn keep_event(&mut self, at: u16) {
        let is_clock = self.events[usize::from(at)].is_clock();
        self.clock = self.clock.or(is_clock.then_some(at));
        self.tracing.learn(usize::from(at), &self.events[usize::from(at)], &mut self.profile);
        let live = self.session.origin();
        if live == Origin::Live {
            self.derive(&[]);
        }
    }

    /// Creates the derived events that the current events allow; their samples are durations.
    pub(super) fn derive(&mut self, tracing: &[u8]) {
        let origin = self.session.origin();
        if origin == Origin::Live && self.switches.is_none() {
            self.switches = Switches::among(&self.events, tracing, origin);
        }
        for name in self.derived[self.session.at()].find(&self.events, tracing, origin) {
            let event = EventDesc::derived(&name);
            self.profile.learn_event(self.events.len() as u16, &event);
            self.events.push(event);
        }
    }

    pub(crate) fn derived(&self) -> impl Iterator<Item = (u16, Vec<u16>)> + '_ {
        self.derived.first().iter()
    }

    /// Returns the time in softirqs if it is traced; `None` for several machines, because CPU numbers repeat.
    pub fn softirq_times(&self) -> Option<HandlerTimes> {
        (!self.derived.are_many()).then(|| self.derived[self.session.at()].times()).flatten()
    }
}
