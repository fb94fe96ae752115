//! Events for analysis units in addition to those already measured: each is opened once and shared by all its users.

use crate::event::probe::ProbeError;
use crate::event::spec::LookupPaths;
use crate::event::{CallGraph, Event, parse};
use crate::source::{Batch, CountReading, Rate, RunState, SharedEvents, SharedProbe, SourceEvent};

use super::line;
use crate::source::live::LiveSource;
use crate::source::live::attr::{self, CommonAttrs};
use crate::source::live::describe::desc;
use crate::source::live::event_slot::Slot;

impl LiveSource {
    /// Measures the events of analysis units. The message says what the user's own events lack for them.
    pub(super) fn share(&mut self, shared: &SharedEvents) -> Result<String, String> {
        // The sums of another unit end here.
        let mut pending = std::mem::take(&mut self.pending);
        self.read_sums(&mut pending);
        self.pending = pending;
        let mut events = shared.events.clone();
        for probe in &shared.probes {
            match self.probes.add(&probe.definition) {
                Ok(name) => {
                    let mut made = parse(&name, &LookupPaths::system()).map_err(|fault| fault.line())?;
                    made.iter_mut().for_each(|event| {
                        (event.no_chains, event.for_units, event.machine_wide) =
                            (!probe.chains, true, shared.machine_wide);
                    });
                    events.append(&mut made);
                }
                Err(error) if probe.optional => self.attachment.notes.push(message(probe, error)),
                Err(error) => return Err(message(probe, error)),
            }
        }
        let is_copied = |event: &Event| matches!(attr::way(event, &self.attachment.common), CallGraph::Dwarf(_));
        let are_copied = events.iter().chain(&shared.optional).any(is_copied);
        // The side-band records of all tasks are needed as well.
        let sees_more = shared.machine_wide && self.attachment.by_task;
        if sees_more || are_copied && self.make_room_for_copies() {
            self.own_rings().and_then(|()| self.reopen_all()).map_err(|error| line(&error))?;
        }
        let (mut missed, mut fresh) = (Vec::new(), Vec::new());
        let optional = shared.optional.iter().map(|event| (event.clone(), true));
        for (event, is_optional) in optional.chain(events.into_iter().map(|event| (event, false))) {
            match self.open_slot(&event.name) {
                Some(slot) => missed.extend(self.join(slot, &event)?),
                None if is_optional => self.add_optional(event),
                None => fresh.push(event),
            }
        }
        if !fresh.is_empty() {
            self.add_events(fresh)?;
        }
        self.attachment.notes.extend(missed.iter().cloned());
        Ok(missed.join("; "))
    }

    /// Returns whether it chose larger rings for copied stacks: locking them needs the right to sample the machine.
    fn make_room_for_copies(&mut self) -> bool {
        let pages = attr::pages_of_copies(self.attachment.rings.len());
        let grows = pages > self.attachment.pages && self.attachment.rights.system_wide();
        if grows {
            self.attachment.pages = pages;
            self.attachment.common.watermark = (pages * rustix::param::page_size() / 2) as u32;
        }
        grows
    }

    /// Switches to frame pointers if stacks that are copied by default come faster than they are read: a unit without
    /// its records is worse than one with incomplete stacks.
    pub(in crate::source::live) fn limit_copies(&mut self, counts: &CountReading, batch: &mut Batch) {
        if !self.attachment.common.copies {
            return;
        }
        let is_copied = |at: &usize| {
            matches!(attr::way(&self.attachment.slots[*at].event, &self.attachment.common), CallGraph::Dwarf(_))
        };
        let which: Vec<usize> = (0..self.attachment.slots.len()).filter(is_copied).collect();
        if which.iter().filter_map(|at| counts.of.get(*at)).all(|counts| counts.lost == 0) {
            return;
        }
        (self.attachment.common.copies, self.attachment.is_auto) = (false, false);
        batch.note(match self.reopen(&which) {
            Ok(()) => {
                "copies of stacks were lost: frame pointers from now on; --call-graph dwarf keeps the copies".into()
            }
            Err(error) => line(&error),
        });
        batch.events.push(SourceEvent::Changed(self.changed()));
    }

    fn open_slot(&self, name: &str) -> Option<usize> {
        self.attachment.slots.iter().position(|slot| slot.is_open() && slot.event.is_called(name))
    }

    /// Shares an open event with another unit. An event for units is extended to what all of them need. The user's own
    /// event stays unchanged; the message says what it lacks.
    fn join(&mut self, at: usize, wanted: &Event) -> Result<Option<String>, String> {
        let slot = &mut self.attachment.slots[at];
        if !slot.event.for_units {
            // A clock that samples only the target is sufficient.
            let sees_all = wanted.machine_wide && wanted.tracepoint.is_some();
            let narrow = sees_all && !slot.event.machine_wide && self.attachment.is_narrow;
            let words = || format!("{} is measured only for the target: the unit gets no other samples", wanted.name);
            return Ok(missed(slot, wanted, &self.attachment.common).or_else(|| narrow.then(words)));
        }
        let joined = joined(&slot.event, wanted);
        if joined != slot.event {
            let before = std::mem::replace(&mut slot.event, joined);
            if let Err(error) = self.reopen(&[at]) {
                self.attachment.slots[at].event = before;
                return Err(line(&error));
            }
        }
        Ok(None)
    }

    fn add_optional(&mut self, event: Event) {
        let (name, known) = (event.name.clone(), self.attachment.slots.len());
        let placed = self.place(vec![event]);
        let opened = placed.and_then(|which| self.reopen(&which).map_err(|error| line(&error)).map(|()| which));
        match opened {
            Ok(which) => {
                let fresh = which.into_iter().filter(|slot| *slot >= known);
                self.pending.events.extend(fresh.map(|slot| SourceEvent::Event(desc(&self.attachment, slot))));
            }
            Err(why) => {
                for slot in self.attachment.slots.iter_mut().filter(|slot| slot.event.is_called(&name)) {
                    slot.run = RunState::Refused(why.clone());
                }
                self.attachment.slots.truncate(known);
                self.attachment.notes.push(why);
            }
        }
    }
}

/// Returns why a probe is missing. A problem with its file is the same for all probes of the file.
fn message(probe: &SharedProbe, error: ProbeError) -> String {
    match error {
        ProbeError::File { .. } => error.to_string(),
        ProbeError::Other(why) => format!("{}: {why}", probe.definition),
    }
}

/// Returns an event for two units; each of them ignores additional samples.
fn joined(own: &Event, wanted: &Event) -> Event {
    let mut out = own.clone();
    out.no_chains &= wanted.no_chains;
    out.machine_wide |= wanted.machine_wide;
    out.is_batched &= wanted.is_batched;
    out.summed = own.summed.clone().filter(|own| wanted.summed.as_ref() == Some(own));
    out.attr.sample_type |= wanted.attr.sample_type;
    if own.filter != wanted.filter {
        out.filter = None;
    }
    let more_often = match (Rate::of(&own.attr), Rate::of(&wanted.attr)) {
        (_, Rate::Period(0)) => None,
        (Rate::Period(0), rate) => Some(rate),
        (Rate::Period(own), Rate::Period(wanted)) => (wanted < own).then_some(Rate::Period(wanted)),
        (Rate::Frequency(own), Rate::Frequency(wanted)) => (wanted > own).then_some(Rate::Frequency(wanted)),
        (Rate::Frequency(_), Rate::Period(_)) | (Rate::Period(_), Rate::Frequency(_)) => None,
    };
    if let Some(rate) = more_often {
        out.set_rate(rate);
    }
    out
}

/// Returns a message about the parts of a unit's event that the user's own lacks.
fn missed(slot: &Slot, wanted: &Event, common: &CommonAttrs) -> Option<String> {
    let own = slot.state(common);
    let filter = own.filter.as_ref().map(|filter| format!("only where {filter}"));
    let cpus = (!own.cpus.is_empty()).then(|| format!("on CPU {} only", own.cpus));
    let seldom = match (own.rate, attr::rate(wanted, common)) {
        (_, Rate::Period(0)) => None,
        (Rate::Period(0), _) => Some("but not sampled".to_owned()),
        (Rate::Period(n), Rate::Period(all)) if n > all => Some(format!("one in {n}")),
        (Rate::Frequency(hz), Rate::Period(_)) => Some(format!("{hz} times per second")),
        _ => None,
    };
    let chains = (!own.chains.is_on() && !wanted.no_chains).then(|| "without call chains".to_owned());
    let paused = (own.run == RunState::Paused).then(|| "and paused".to_owned());
    let all: Vec<String> = [filter, cpus, seldom, chains, paused].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("{} is measured {}: the unit gets no other samples", own.name, all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::spec::Capture;

    fn event(rate: Rate, filter: Option<&str>) -> Event {
        let filter = filter.map(|text| Capture { text: text.into(), ..Capture::default() });
        let mut event = Event { filter, for_units: true, ..Event::cpu_clock() };
        event.set_rate(rate);
        event
    }

    #[test]
    fn what_two_units_want_of_an_event() {
        let check = |own: &Event, wanted: &Event, rate: Rate, filter: Option<&str>| {
            let joined = joined(own, wanted);
            assert_eq!((Rate::of(&joined.attr), joined.filter.as_ref().map(|f| f.text.as_str())), (rate, filter));
            assert_eq!(joined.no_samples, rate == Rate::Period(0));
        };
        let each = event(Rate::Period(1), Some("a == 1"));
        check(&each, &each, Rate::Period(1), Some("a == 1"));
        check(&each, &event(Rate::Period(1), Some("a == 2")), Rate::Period(1), None);
        check(&each, &event(Rate::Period(1), None), Rate::Period(1), None);
        check(&event(Rate::Period(0), None), &event(Rate::Period(1), None), Rate::Period(1), None);
        check(&event(Rate::Period(100), None), &event(Rate::Period(10), None), Rate::Period(10), None);
        check(&event(Rate::Period(10), None), &event(Rate::Period(0), None), Rate::Period(10), None);
    }

    /// The path is part of the definition, but only the kind of error decides.
    #[test]
    fn problems_of_a_file_are_reported_once_for_all_its_probes() {
        let probe =
            |name: &str| SharedProbe { definition: format!("-x /no/file {name}"), chains: false, optional: true };
        let of_file = ["a", "b"].map(|name| {
            let probe = probe(name);
            message(&probe, crate::event::probe::parse(&probe.definition, "g").expect_err("no file"))
        });
        assert_eq!(of_file, ["/no/file: No such file or directory (os error 2)"; 2]);
        let of_probe = ProbeError::from("/no/file is a word of the message".to_owned());
        assert_eq!(message(&probe("a"), of_probe), "-x /no/file a: /no/file is a word of the message");
    }

    #[test]
    fn what_is_missed_of_the_users_own() {
        let common = CommonAttrs { rate: Rate::Frequency(999), ..crate::source::live::attr::tests::COMMON };
        let said = |own: Event| missed(&Slot::new(own), &event(Rate::Period(1), None), &common);
        assert_eq!(said(event(Rate::Period(1), None)), None);
        let filtered = said(event(Rate::Period(1), Some("prev_pid == 1"))).expect("less");
        assert!(filtered.contains("only where prev_pid == 1"), "{filtered}");
        let seldom = said(event(Rate::Period(100), None)).expect("less");
        assert!(seldom.contains("one in 100"), "{seldom}");
        assert!(said(event(Rate::Period(0), None)).is_some_and(|text| text.contains("not sampled")));
    }
}
