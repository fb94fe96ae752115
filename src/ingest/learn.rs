//! What is learned of events that come up: what their samples are kept with, and which others are made of them.

use std::sync::Arc;

use crate::event::{EventState, plain};
use crate::kernel::attr::sample;
use crate::perfdata::EventDesc;
use crate::session::Origin;

use super::Core;
use super::softirqs::SoftirqTrace;
use super::switches::Switches;
use super::tracepoints;

impl Core {
    /// Makes room for an event that came up.
    pub(super) fn add_event(&mut self, event: EventDesc, states: &[EventState]) {
        let at = self.events.len() as u16;
        let state = states.get(self.slots().len());
        if let Some(first) = self.decoders.first_mut() {
            first.add(at, &event);
        }
        self.events.push(event);
        if state.map_or(self.wants.units_only, |state| state.for_units) {
            self.units.set_quiet(at, true);
        } else {
            self.keep_event(at);
        }
        self.bind_units(at);
    }

    /// Events that were there for units alone may be the user's now, and the other way round.
    pub(super) fn follow_states(&mut self, states: &[EventState]) {
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

    /// Learns what an event's samples are to be kept with.
    fn keep_event(&mut self, at: u16) {
        let is_clock = self.events[usize::from(at)].is_clock();
        self.clock = self.clock.or(is_clock.then_some(at));
        self.learn_format(usize::from(at));
        let live = self.session.origin();
        if live == Origin::Live {
            self.derive(&[]);
        }
        if live == Origin::Live && self.softirqs.is_none() {
            self.softirqs = SoftirqTrace::among(&self.events, &[], live);
        }
    }

    /// Makes the events that can be made of those that came up; their samples say how long something took.
    pub(super) fn derive(&mut self, tracing: &[u8]) {
        let origin = self.session.origin();
        if origin == Origin::Live && self.switches.is_none() {
            self.switches = Switches::among(&self.events, tracing, origin);
        }
        for name in self.derived.find(&self.events, tracing, origin) {
            self.profile.set_durations(self.events.len() as u16);
            self.events.push(EventDesc::derived(&name));
        }
    }

    /// Each event that is made of others, with those.
    pub fn derived(&self) -> impl Iterator<Item = (u16, Vec<u16>)> + '_ {
        self.derived.iter()
    }

    /// Makes the fields of a tracepoint known to the profile.
    pub(super) fn learn_format(&mut self, event: usize) {
        // The scheduler's statistics count their delay as their period (`__perf_count` in
        // include/trace/events/sched.h).
        if self.events[event].name.starts_with("sched:sched_stat_") {
            self.profile.set_durations(event as u16);
        }
        let Some(desc) = self.events.get(event).filter(|_| self.wants.fields) else { return };
        let known = self.formats.by_id.get(&desc.attr.config).filter(|_| desc.attr.sample_type & sample::RAW != 0);
        let format = match (known, self.session.origin()) {
            (Some(format), _) => Some(format.clone()),
            (None, Origin::Live) => tracepoints::of_this_machine(plain(&desc.name)),
            (None, Origin::Recorded) => None,
        };
        if let Some(format) = format {
            self.profile.set_format(event as u16, Arc::new(format));
        }
    }
}
