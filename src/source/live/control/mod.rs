//! Changes of a running session: events are added and removed. Each change opens new events before it closes old ones.

mod call_graph;
mod retarget;
mod shared_events;

use crate::event::spec::LookupPaths;
use crate::event::{CallGraph, Event, parse};
use crate::filter::capture;
use crate::kernel::cpus;
use crate::perfdata::MAX_EVENTS;
use crate::session::EndReason;
use crate::source::{Batch, Change, Control, Rate, RunState, SourceEvent};

use super::attach::ByCpu;
use super::describe::desc;
use super::event_slot::Slot;
use super::{LiveSource, OpenError};

pub(super) fn line(error: &OpenError) -> String {
    error.to_string().trim_end().replace('\n', ". ")
}

impl LiveSource {
    pub(super) fn carry_out(&mut self, control: &Control) -> Result<String, String> {
        let done = self.change_by(control);
        self.choose_waits();
        done
    }

    fn change_by(&mut self, control: &Control) -> Result<String, String> {
        match control {
            Control::Frequency(hz) => self.set_frequency(*hz),
            Control::Cpus(list) => self.set_cpus(list),
            Control::Add(names) => self.add(names),
            Control::Probe(text) => {
                let event = self.probes.add(text).map_err(|error| error.to_string())?;
                self.add(&event)
            }
            Control::Event(slot, _) if *slot >= self.attachment.slots.len() => {
                Err("this is a derived event; change its source events".to_owned())
            }
            Control::Event(slot, change)
                if self.attachment.slots[*slot].event.is_off_cpu_time()
                    && !matches!(change, Change::Start | Change::Stop | Change::Pause(_)) =>
            {
                Err("a program sums this event: it can only be paused, stopped and started".to_owned())
            }
            Control::Target(text) => self.attach_to(text),
            // An event that was measured only for units gets the user's settings.
            Control::Event(slot, Change::Start) if self.attachment.slots[*slot].event.for_units => {
                let name = self.attachment.slots[*slot].event.name.clone();
                self.add(&name)
            }
            Control::Event(slot, change) => self.change(*slot, change),
            Control::Pause(on) => {
                (0..self.attachment.slots.len()).for_each(|slot| self.attachment.pause(slot, *on));
                let words = if *on { "all events are paused" } else { "all events are resumed" };
                Ok(words.to_owned())
            }
            Control::Share(shared) => self.share(shared),
            Control::CallGraph(way) => self.set_call_graph(*way),
            Control::Interpreters(shown) => self.set_interpreters(*shown),
            Control::Stop => {
                self.stopping = Some(EndReason::Stopped(String::new()));
                Ok(String::new())
            }
        }
    }

    /// Measures more events. An event that was measured before reuses its slot.
    fn add(&mut self, names: &str) -> Result<String, String> {
        let events = parse(names, &LookupPaths::system()).map_err(|fault| fault.line())?;
        self.add_events(events)
    }

    pub(super) fn add_events(&mut self, events: Vec<Event>) -> Result<String, String> {
        self.room_for(events.len())?;
        let before = self.attachment.slots.clone();
        let known = before.len();
        let which = self.place(events)?;
        let opened = self.reopen(&which).map_err(|error| line(&error));
        if let Err(why) = &opened {
            for at in &which {
                let slot = &mut self.attachment.slots[*at];
                match before.get(*at).filter(|before| before.is_open()) {
                    Some(before) => slot.event = before.event.clone(),
                    None => slot.run = RunState::Refused(why.clone()),
                }
            }
        }
        let fresh = known..self.attachment.slots.len();
        self.pending.events.extend(fresh.map(|slot| SourceEvent::Event(desc(&self.attachment, slot))));
        opened?;
        Ok(match which.as_slice() {
            [one] => format!("measuring {} from now on", self.attachment.slots[*one].event.name),
            many => format!("measuring {} events from now on", many.len()),
        })
    }

    /// Finds the slot of each event: that of its earlier measurement, or of its measurement for units.
    pub(super) fn place(&mut self, events: Vec<Event>) -> Result<Vec<usize>, String> {
        let slots = &mut self.attachment.slots;
        let measured = |event: &Event| {
            let own =
                |s: &&Slot| s.is_open() && s.event.is_called(&event.name) && (event.for_units || !s.event.for_units);
            slots.iter().find(own)
        };
        if let Some(slot) = events.iter().find_map(measured) {
            return Err(format!("{} is measured already", slot.event.name));
        }
        if slots.len() + events.len() > MAX_EVENTS {
            return Err(format!("a session has at most {MAX_EVENTS} events"));
        }
        let groups = slots.iter().filter_map(|s| s.event.group).max().unwrap_or(0);
        let mut place = |event: Event| match slots.iter().position(|s| s.event.is_called(&event.name)) {
            Some(at) => {
                let slot = &mut slots[at];
                slot.run = RunState::Running;
                // The user's own event stays unchanged.
                if event.for_units || slot.event.for_units {
                    slot.event = Event { group: slot.event.group, ..event };
                }
                at
            }
            None => {
                let group = event.group.map(|g| g + groups);
                slots.push(Slot::new(Event { group, ..event }));
                slots.len() - 1
            }
        };
        Ok(events.into_iter().map(&mut place).collect())
    }

    fn room_for(&self, events: usize) -> Result<(), String> {
        let each = self.attachment.rings.len() * self.whos().len().max(1);
        let need = self.attachment.opened.len() + each * (events + 1) + 64;
        OpenError::room_for(need, 0).map_err(|error| line(&error))
    }

    fn change(&mut self, slot: usize, change: &Change) -> Result<String, String> {
        let before = self.attachment.slots[slot].clone();
        let words = match self.prepare(slot, change) {
            Ok((words, false)) => words,
            Ok((words, true)) => return Ok(words),
            Err(why) => {
                self.attachment.slots[slot] = before;
                return Err(why);
            }
        };
        // Members of a group are scheduled together, so they are opened together.
        let group = before.event.group;
        let mates = self.attachment.slots.iter().enumerate().filter(|(_, s)| group.is_some() && s.event.group == group);
        let mut which: Vec<usize> = mates.map(|(i, _)| i).collect();
        if which.is_empty() {
            which.push(slot);
        }
        match self.reopen(&which) {
            Ok(()) => Ok(words),
            Err(error) => {
                self.attachment.slots[slot] = Slot { before: self.attachment.slots[slot].before, ..before };
                Err(line(&error))
            }
        }
    }

    /// Applies a change to the slot. Returns a message, and whether the change is active without reopening the event.
    fn prepare(&mut self, at: usize, change: &Change) -> Result<(String, bool), String> {
        let limit = self.attachment.rights.max_sample_rate;
        let session = self.attachment.common.chains;
        let slot = &mut self.attachment.slots[at];
        let name = slot.event.name.clone();
        let words = match change {
            Change::Filter(text) => {
                let before = slot.event.filter.take();
                capture::set(&mut slot.event, text.as_deref(), &LookupPaths::system()).map_err(|fault| fault.line())?;
                return Ok(slot.describe_filter(before.as_ref()));
            }
            Change::Rate(Rate::Frequency(hz)) if *hz == 0 || *hz as i64 > limit => return Err(beyond(limit)),
            Change::Rate(rate) => {
                slot.event.set_rate(*rate);
                match rate {
                    Rate::Frequency(hz) => format!("{name} is sampled {hz} times per second on each CPU now"),
                    Rate::Period(0) => format!("{name} is only counted now"),
                    Rate::Period(1) => format!("every hit of {name} is sampled now"),
                    Rate::Period(n) => format!("one in {n} of {name} is sampled now"),
                }
            }
            Change::Modifiers(letters) => {
                slot.event.set_modifiers(letters).map_err(|fault| fault.line())?;
                format!("measuring {} now", slot.event.name)
            }
            Change::Chains(_) if slot.event.chains == Some(CallGraph::None) => {
                return Err(format!("{name} has no call chains (call-graph=no)"));
            }
            Change::Chains(_) if !slot.event.chains.unwrap_or(session).is_on() => {
                return Err("this session was started without call chains (--call-graph none)".to_owned());
            }
            Change::Chains(on) => {
                slot.event.no_chains = !on;
                format!("{name} is sampled with{} call chains now", if *on { "" } else { "out" })
            }
            Change::Cpus(list) => {
                slot.event.cpus.clone_from(list);
                match list {
                    Some(list) => format!("{name} is measured on CPU {} now", cpus::format_list(list)),
                    None => format!("{name} is measured on all CPUs that are sampled"),
                }
            }
            Change::Pause(on) => {
                self.attachment.pause(at, *on);
                let is_paused = self.attachment.slots[at].run == RunState::Paused;
                return Ok((format!("{name} {}", if is_paused { "is paused" } else { "goes on" }), true));
            }
            Change::Start => {
                slot.run = RunState::Running;
                format!("measuring {name} again")
            }
            Change::Stop => {
                slot.run = RunState::Stopped;
                match slot.event.for_units {
                    // The unit's screen reports that its unit has stopped.
                    true => String::new(),
                    false => format!("{name} is no longer measured; its samples stay"),
                }
            }
        };
        Ok((words, false))
    }

    /// Opens the events of some slots again, then closes the old ones.
    pub(super) fn reopen_all(&mut self) -> Result<(), OpenError> {
        self.reopen(&self.attachment.all_slots())
    }

    pub(super) fn reopen(&mut self, which: &[usize]) -> Result<(), OpenError> {
        if self.load_late_walks(which) {
            // The new call graph mode has opened all events.
            return Ok(());
        }
        if self.target.is_tasks() {
            self.known_tasks = self.tasks();
        }
        // The counters of events that are closed now would count twice; the next reading has them.
        self.counted_losses.clear();
        let (mut which, replaced) = self.choose_calls(which);
        let switches = self.attachment.choose_switches(&mut which);
        let whos = self.whos();
        let reopened = self.attachment.reopen(&which, &whos);
        if let Some(replaced) = replaced.filter(|_| reopened.is_err()) {
            self.restore_calls(replaced);
        }
        if reopened.is_err() {
            self.attachment.restore_switches(switches);
        }
        let handover = reopened?;
        self.end_left_switches();
        self.request_tables();
        self.settle_later();
        if !handover.new.is_empty() {
            self.pending.events.push(SourceEvent::Handover(handover));
        }
        Ok(())
    }

    /// Reads the last events of programs that recorded what events record now.
    fn end_left_switches(&mut self) {
        if !self.attachment.left_switches().is_empty() {
            self.attachment.end_left_switches();
            self.read_rest();
            self.attachment.forget_left_switches();
        }
    }

    fn read_rest(&mut self) {
        let mut batch = std::mem::take(&mut self.pending);
        self.drain(&mut batch);
        self.pending = batch;
    }

    fn set_frequency(&mut self, hz: u64) -> Result<String, String> {
        let limit = self.attachment.rights.max_sample_rate;
        if hz == 0 || hz as i64 > limit {
            return Err(beyond(limit));
        }
        let before = std::mem::replace(&mut self.attachment.common.rate, Rate::Frequency(hz));
        self.reopen_all().map_err(|error| {
            self.attachment.common.rate = before;
            line(&error)
        })?;
        Ok(format!("sampling at {hz} Hz now"))
    }

    fn set_cpus(&mut self, list: &[u32]) -> Result<String, String> {
        let before = self.chosen.replace(list.to_vec());
        if let Err(error) = self.wanted_cpus() {
            self.chosen = before;
            return Err(line(&error));
        }
        self.open_chosen_cpus();
        // Calls are summed only on all CPUs.
        if self.attachment.calls.is_some()
            && let Err(error) = self.reopen(&[])
        {
            self.chosen = before;
            self.open_chosen_cpus();
            return Err(line(&error));
        }
        Ok(format!("sampling CPU {} now", cpus::format_list(list)))
    }

    /// Opens and closes CPUs by the user's choice. Only failures are reported.
    fn open_chosen_cpus(&mut self) {
        let mut batch = std::mem::take(&mut self.pending);
        let changes = self.follow_cpus(&mut batch);
        changes.iter().filter(|change| change.is_failure()).for_each(|change| batch.note(change.note()));
        self.pending = batch;
    }

    /// Reports floods without reducing the sampling rate.
    pub(crate) fn only_tell_floods(&mut self) {
        self.flood.only_tell();
    }

    /// Reduces the sampling rate of floods, before they slow the machine down.
    pub(super) fn hold_back(&mut self, counts: ByCpu, batch: &mut Batch) {
        for (slot, period) in self.flood.look(counts, &self.attachment) {
            let name = self.attachment.slots[slot].event.name.clone();
            if self.flood.only_tells() {
                batch.note(format!(
                    "{name} floods: recording every hit takes more than half of a CPU; -c {period} records one in {period}"
                ));
                continue;
            }
            match self.change(slot, &Change::Rate(Rate::Period(period))) {
                Ok(_) => batch.note(format!(
                    "{name} floods: one in {period} is sampled now and counts for all of them (--force samples each)"
                )),
                Err(why) => batch.note(format!("{name} floods, and its rate cannot be reduced: {why}")),
            }
            batch.events.push(SourceEvent::Changed(self.changed()));
        }
    }
}

fn beyond(limit: i64) -> String {
    format!("the rate must be 1 to {limit} Hz (kernel.perf_event_max_sample_rate)")
}
