//! The binding of units to events: the events that each waits for, has, and requires.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::base_name;
use crate::event::format::Format;
use crate::ingest::unit_events::{is_named, is_pattern, shown};
use crate::units::kit::field::Num;
use crate::units::kit::{BoundExpr, EventRequest, FilteredUnit, Sees, UnitEvent as Bindable, ViewState};

use super::{MAX_UNITS, Role, Running, Units};

/// A unit that cannot measure.
#[derive(Debug)]
pub(crate) struct BlockedUnit {
    name: &'static str,
    pub(crate) by: BlockedBy,
}

#[derive(Debug)]
pub(crate) enum BlockedBy {
    /// Events of these names are missing.
    Missing(Vec<String>),
    /// Its events are present but not usable, for these reasons.
    Unusable(Vec<String>),
}

impl Display for BlockedUnit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.by {
            BlockedBy::Missing(names) => write!(f, "{} needs {}", self.name, names.join(", ")),
            BlockedBy::Unusable(reasons) => write!(f, "{}: {}", self.name, reasons.join("; ")),
        }
    }
}

impl Units {
    pub(crate) fn start(&mut self, unit: FilteredUnit, now: u64) -> Result<u64, String> {
        if self.list.len() >= MAX_UNITS {
            return Err(format!("{MAX_UNITS} units run already; press x on their screen to end one"));
        }
        self.next_id += 1;
        let roles = unit.event_requests().into_iter().map(|want| Role { want, filter: None, bound: false }).collect();
        let running = Running {
            id: self.next_id,
            whole: unit.spec.sees != Sees::Target || unit.sees_machine,
            unit,
            roles,
            look: ViewState { rows: 200, ..ViewState::default() },
            since: now,
            measured: 0,
            fresh: false,
            opens_until: 0,
            read_at: None,
            readings: FxHashMap::default(),
            lost: 0,
            notes: Vec::new(),
            gap: None,
        };
        self.list.push(running);
        self.now = self.now.max(now);
        Ok(self.next_id)
    }

    /// Ends a unit; returns the events that no other unit needs.
    pub(crate) fn stop(&mut self, id: u64) -> Vec<usize> {
        let Some(at) = self.list.iter().position(|running| running.id == id) else { return Vec::new() };
        let running = self.list.remove(at);
        let (mut idle, mut own) = (Vec::new(), Vec::new());
        for (event, routes) in self.routes.iter_mut().enumerate() {
            let had = routes.len();
            own.extend(routes.iter().filter(|(unit, _)| *unit == at).map(|(_, role)| (event, *role)));
            routes.retain(|(unit, _)| *unit != at);
            routes.iter_mut().for_each(|(unit, _)| *unit -= usize::from(*unit > at));
            // An event without users need not be measured.
            if had > 0 && routes.is_empty() && self.quiet[event] {
                idle.push(event);
            }
        }
        self.kept.end(running, own, self.now);
        idle
    }

    /// Marks the bound events as measured already, if measuring has begun. The last unit waits for its other events.
    pub(crate) fn joined(&mut self) {
        self.list.iter_mut().for_each(|running| running.fresh &= !self.begun);
        let until = if self.begun { self.now.saturating_add(super::OPENING_NS) } else { 0 };
        self.list.last_mut().into_iter().for_each(|running| running.opens_until = until);
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.list.last().map(|running| running.id)
    }

    pub(crate) fn set_quiet(&mut self, event: u16, quiet: bool) {
        self.add_event(event);
        self.quiet[usize::from(event)] = quiet;
    }

    fn add_event(&mut self, event: u16) {
        let events = usize::from(event) + 1;
        if self.routes.len() < events {
            self.routes.resize(events, Vec::new());
            self.quiet.resize(events, false);
            self.stacks.resize(events, false);
        }
    }

    /// Adds an event; units that request it, or the event that it replaces, receive it from now on.
    pub(crate) fn bind(&mut self, event: u16, names: (&str, Option<&str>), format: Option<&Arc<Format>>) {
        let (name, replaced) = names;
        self.add_event(event);
        let at = usize::from(event);
        for (i, running) in self.list.iter_mut().enumerate() {
            for (role, own) in running.roles.iter_mut().enumerate() {
                let taken = own.bound && !is_pattern(&own.want.event);
                let is_wanted = is_named(&own.want, name) || replaced.is_some_and(|name| is_named(&own.want, name));
                if taken || !is_wanted || self.routes[at].contains(&(i, role)) {
                    continue;
                }
                let filter = own.want.filter.as_deref().map(|text| BoundExpr::parse(text, format)).transpose();
                let arch = &self.arch;
                let bindable = Bindable { role, number: event, name: base_name(name), format, arch };
                let bound = running.unit.bind(&bindable).and(filter);
                match bound {
                    Ok(filter) => {
                        (own.filter, own.bound, running.fresh) = (filter, true, true);
                        self.routes[at].push((i, role));
                        self.stacks[at] |= own.want.stack;
                        let caller = own.want.caller.as_deref().and_then(|field| Num::of(format, field).ok());
                        self.callers.extend(caller.map(|field| (event, field)));
                    }
                    Err(why) => running.notes.push(why),
                }
            }
        }
    }

    /// Returns the units that still wait for required events.
    pub(crate) fn blocked(&self) -> Vec<BlockedUnit> {
        let lacks = |running: &&Running| {
            let is_needed = |want: &EventRequest| !want.optional && !want.only_live;
            let all = running.roles.iter().filter(|role| !role.bound && is_needed(&role.want));
            let names: Vec<&str> = all.map(|role| role.want.event.as_str()).collect();
            // If all events are optional, at least one must be present.
            let nothing = running.roles.iter().all(|role| !role.bound) && !running.roles.is_empty();
            // An event that is present but unusable has a note with the reason.
            if !names.is_empty() && !running.notes.is_empty() {
                return Some(BlockedUnit {
                    name: running.unit.spec.name,
                    by: BlockedBy::Unusable(running.notes.clone()),
                });
            }
            let names = match names.is_empty() && nothing {
                true => running.roles.iter().map(|role| role.want.event.as_str()).collect(),
                false => names,
            };
            let names: Vec<String> = names.into_iter().map(shown).map(str::to_owned).collect();
            (!names.is_empty()).then_some(BlockedUnit { name: running.unit.spec.name, by: BlockedBy::Missing(names) })
        };
        self.list.iter().filter_map(|running| lacks(&running)).collect()
    }

    pub(crate) fn takes(&self, event: u16) -> bool {
        self.routes.get(usize::from(event)).is_some_and(|routes| !routes.is_empty())
    }

    pub(crate) fn is_quiet(&self, event: u16) -> bool {
        self.quiet.get(usize::from(event)).copied().unwrap_or(false)
    }

    pub(crate) fn wants_stack(&self, event: u16) -> bool {
        self.stacks.get(usize::from(event)).is_some_and(|wanted| *wanted)
    }

    pub(crate) fn has_stacks(&self, id: u64) -> bool {
        let own = self.list.iter().filter(|running| running.id == id);
        own.flat_map(|running| &running.roles).any(|role| role.bound && role.want.stack)
    }
}
