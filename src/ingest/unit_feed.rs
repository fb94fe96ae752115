//! Analysis units at work: which records go to which of them, what they find, what they miss.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::event::spec::LookupPaths;
use crate::event::{Event, Rate, parse, plain};
use crate::filter::capture;
use crate::kernel::attr::{Flag, sample};
use crate::panel::Panel;
use crate::profile::{Profile, RetainedStack};
use crate::record::kinds::misc;
use crate::record::sample::CONTEXT_USER;
use crate::record::{self, Record};
use crate::session::Session;
use crate::source::{CpuCount, Shared};
use crate::units::kit::field::Num;
use crate::units::kit::{
    Bound, Context, Counted, Event as Bindable, EventRequest, Look, Lost, Moment, Sample, Spec, ThreadNames, Unit,
};

/// Why there are no units of several machines.
pub const SEVERAL_HOSTS: &str = "units follow the threads and CPUs of one machine: open its recording alone";
/// More units at once are of no use to anybody.
const MAX_UNITS: usize = 16;

/// What a unit says.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitAnswer {
    pub id: u64,
    pub name: &'static str,
    pub panels: Vec<Panel>,
    /// What is missing, lost, or was done in another way.
    pub notes: Vec<String>,
    /// Records that were lost in the interval.
    pub lost: u64,
    /// Since when figures count, and up to when, in nanoseconds since the session's start.
    pub since: u64,
    pub until: u64,
}

/// One of the events that a unit wants.
#[derive(Debug)]
struct Role {
    want: EventRequest,
    filter: Option<Bound>,
    bound: bool,
}

/// A unit at work.
#[derive(Debug)]
struct Running {
    id: u64,
    spec: &'static Spec,
    unit: Box<dyn Unit>,
    roles: Vec<Role>,
    look: Look,
    since: u64,
    /// Since when all its events are measured: what came of some of them before is no part of its figures.
    measured: u64,
    /// An event came that it had to wait for.
    fresh: bool,
    /// When its counters were last read, and what they said. They alone say how far its figures reach.
    read_at: Option<u64>,
    readings: FxHashMap<(usize, u32), u64>,
    lost: u64,
    notes: Vec<String>,
}

impl Running {
    /// How far its figures reach, where all is known up to a time.
    fn reaches(&self, time: u64) -> u64 {
        self.read_at.unwrap_or(time)
    }
}

/// All units of a session.
#[derive(Debug, Default)]
pub struct Units {
    /// Records are of several machines, whose threads and CPUs have the same numbers.
    pub several_hosts: bool,
    list: Vec<Running>,
    /// By event, the units that want it: (place in the list, role).
    routes: Vec<Vec<(usize, usize)>>,
    /// Events that are there for units alone: their samples are not kept.
    quiet: Vec<bool>,
    /// Whether stacks are wanted of an event.
    stacks: Vec<bool>,
    /// The field that holds the caller, of probes that tell it.
    callers: FxHashMap<u16, Num>,
    chain: Vec<u8>,
    names: ThreadNames,
    /// Time of the newest record of each CPU.
    last: Vec<u64>,
    now: u64,
    /// Whether measuring has begun.
    begun: bool,
    next_id: u64,
    /// Whether points of time and latency are collected, and those that are.
    points: Option<Vec<(u64, u64)>>,
}

impl Units {
    /// Starts a unit at a time of the session's clock. Its events are bound as they come.
    pub fn start(&mut self, spec: &'static Spec, unit: Box<dyn Unit>, now: u64) -> Result<u64, String> {
        if self.several_hosts {
            return Err(SEVERAL_HOSTS.to_owned());
        }
        if self.list.len() >= MAX_UNITS {
            return Err(format!("{MAX_UNITS} units run already: x on their screen ends one"));
        }
        self.next_id += 1;
        let roles = unit.event_requests().into_iter().map(|want| Role { want, filter: None, bound: false }).collect();
        let running = Running {
            id: self.next_id,
            spec,
            unit,
            roles,
            look: Look { rows: 200, ..Look::default() },
            since: now,
            measured: 0,
            fresh: false,
            read_at: None,
            readings: FxHashMap::default(),
            lost: 0,
            notes: Vec::new(),
        };
        self.list.push(running);
        self.now = self.now.max(now);
        Ok(self.next_id)
    }

    /// Ends a unit; the events that nobody wants any more.
    pub fn stop(&mut self, id: u64) -> Vec<usize> {
        let Some(at) = self.list.iter().position(|running| running.id == id) else { return Vec::new() };
        self.list.remove(at);
        let mut idle = Vec::new();
        for (event, routes) in self.routes.iter_mut().enumerate() {
            let had = routes.len();
            routes.retain(|(unit, _)| *unit != at);
            routes.iter_mut().for_each(|(unit, _)| *unit -= usize::from(*unit > at));
            // What nobody wants any more need not be measured.
            if had > 0 && routes.is_empty() && self.quiet[event] {
                idle.push(event);
            }
        }
        idle
    }

    /// The events that are bound by now are measured already, where anything is.
    pub fn joined(&mut self) {
        self.list.iter_mut().for_each(|running| running.fresh &= !self.begun);
    }

    /// The unit that was started last, of those that run.
    pub fn last(&self) -> Option<u64> {
        self.list.last().map(|running| running.id)
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Says whether an event is there for units alone.
    pub fn set_quiet(&mut self, event: u16, quiet: bool) {
        self.know(event);
        self.quiet[usize::from(event)] = quiet;
    }

    fn know(&mut self, event: u16) {
        let events = usize::from(event) + 1;
        if self.routes.len() < events {
            self.routes.resize(events, Vec::new());
            self.quiet.resize(events, false);
            self.stacks.resize(events, false);
        }
    }

    /// An event is there: units that want it get it from now on.
    pub fn bind(&mut self, event: u16, name: &str, format: Option<&Arc<Format>>) {
        self.know(event);
        let at = usize::from(event);
        for (i, running) in self.list.iter_mut().enumerate() {
            for (role, own) in running.roles.iter_mut().enumerate() {
                let taken = own.bound && !is_pattern(&own.want.event);
                if taken || !is_named(&own.want, name) || self.routes[at].contains(&(i, role)) {
                    continue;
                }
                let filter = own.want.filter.as_deref().map(|text| Bound::parse(text, format)).transpose();
                let bound = running.unit.bind(&Bindable { role, number: event, name: plain(name), format }).and(filter);
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

    /// What units wait for and cannot do without, in words; none when all is there.
    pub fn missing(&self) -> Vec<String> {
        let lacks = |running: &&Running| {
            let all = running.roles.iter().filter(|role| !role.bound && !role.want.optional);
            let names: Vec<&str> = all.map(|role| role.want.event.as_str()).collect();
            // Where everything is optional, something must be there.
            let nothing = running.roles.iter().all(|role| !role.bound) && !running.roles.is_empty();
            // What is there and is of no use says why.
            if !names.is_empty() && !running.notes.is_empty() {
                return Some(format!("{}: {}", running.spec.name, running.notes.join("; ")));
            }
            let names = match names.is_empty() && nothing {
                true => running.roles.iter().map(|role| role.want.event.as_str()).collect(),
                false => names,
            };
            let names = names.into_iter().map(shown).collect::<Vec<_>>();
            (!names.is_empty()).then(|| format!("{} needs {}", running.spec.name, names.join(", ")))
        };
        self.list.iter().filter_map(|running| lacks(&running)).collect()
    }

    /// Has points of time and latency collected.
    pub fn collect_points(&mut self) {
        self.points = Some(Vec::new());
    }

    pub fn take_points(&mut self) -> Vec<(u64, u64)> {
        self.points.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether a unit wants an event's samples.
    pub fn takes(&self, event: u16) -> bool {
        self.routes.get(usize::from(event)).is_some_and(|routes| !routes.is_empty())
    }

    /// Whether an event is there for units alone.
    pub fn is_quiet(&self, event: u16) -> bool {
        self.quiet.get(usize::from(event)).copied().unwrap_or(false)
    }

    /// Takes a sample in; `mode` is the record's CPU mode, `own` whether it is of this process.
    pub fn sample(
        &mut self,
        event: u16,
        sample: &record::Sample<'_>,
        mode: u16,
        own: bool,
        session: &mut Session,
        profile: &mut Profile,
    ) {
        let at = usize::from(event);
        if self.now == 0 {
            // A recording's time begins with its first sample.
            self.reset(sample.time);
        }
        let stack =
            if self.stacks[at] { self.stack(event, sample, mode, session, profile) } else { RetainedStack::NONE };
        self.saw(sample.cpu, sample.time);
        let Self { list, routes, names, points, .. } = self;
        for (unit, role) in &routes[at] {
            let running = &mut list[*unit];
            if own && !running.spec.whole || sample.time < running.measured {
                continue;
            }
            let hit = Sample {
                role: *role,
                event,
                time: sample.time,
                cpu: sample.cpu,
                pid: sample.pid,
                tid: sample.tid,
                ip: sample.ip,
                addr: sample.addr,
                period: sample.period,
                weight: sample.weight,
                data_src: sample.data_src,
                user: mode == misc::USER,
                raw: sample.raw,
                stack,
            };
            if let Some(filter) = &running.roles[*role].filter {
                // It may be about the thread's name, which may be asked for here first.
                names.comm(session, sample.tid);
                if !filter.holds(&hit, names, None) {
                    continue;
                }
            }
            running.unit.record(&hit, &mut Context { session, names, points: points.as_mut() });
        }
    }

    /// Whether an event's samples are wanted with their stacks.
    pub fn wants_stack(&self, event: u16) -> bool {
        self.stacks.get(usize::from(event)).is_some_and(|wanted| *wanted)
    }

    /// Whether a unit goes by stacks.
    pub fn has_stacks(&self, id: u64) -> bool {
        let own = self.list.iter().filter(|running| running.id == id);
        own.flat_map(|running| &running.roles).any(|role| role.bound && role.want.stack)
    }

    /// Who called the function at whose entry a probe is, where it tells that.
    pub fn caller(&self, event: u16, sample: &record::Sample<'_>) -> Option<u64> {
        self.callers.get(&event).map(|field| field.get(sample.raw) as u64).filter(|caller| *caller != 0)
    }

    /// A sample's stack. At the entry of a function, before it has a frame of its own, its caller is not in the
    /// chain of frame pointers: where a probe tells it, it is put in its place.
    fn stack(
        &mut self,
        event: u16,
        sample: &record::Sample<'_>,
        mode: u16,
        session: &mut Session,
        profile: &mut Profile,
    ) -> RetainedStack {
        // What runs may be new to us, its mappings, too.
        session.task_in(sample.pid, sample.tid, sample.cgroup);
        let Some(caller) = self.caller(event, sample) else { return profile.pin(session, sample, mode) };
        let words = || sample.chain.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let at = words().position(|word| word == CONTEXT_USER).map_or(usize::MAX, |at| at + 2);
        if at > words().count() || words().nth(at) == Some(caller) {
            return profile.pin(session, sample, mode);
        }
        self.chain.clear();
        self.chain.extend_from_slice(&sample.chain[..8 * at]);
        self.chain.extend_from_slice(&caller.to_le_bytes());
        self.chain.extend_from_slice(&sample.chain[8 * at..]);
        profile.pin(session, &record::Sample { chain: &self.chain, ..*sample }, mode)
    }

    fn saw(&mut self, cpu: u32, time: u64) {
        let cpu = cpu as usize;
        if self.last.len() <= cpu && cpu < 1 << 16 {
            self.last.resize(cpu + 1, 0);
        }
        if let Some(last) = self.last.get_mut(cpu) {
            *last = time;
        }
        self.now = self.now.max(time);
    }

    /// All events that there are by now are measured since a time: with it begin the units that have waited for
    /// some of them.
    pub fn measured_since(&mut self, time: u64) {
        for running in self.list.iter_mut().filter(|running| running.fresh) {
            running.fresh = false;
            (running.since, running.measured, running.lost) = (time, time, 0);
            (running.read_at, running.readings) = (None, FxHashMap::default());
            running.unit.reset(time);
        }
        (self.now, self.begun) = (self.now.max(time), true);
    }

    /// What counted events have come to; `events` says which of the session's each is.
    pub fn count(&mut self, counts: &[CpuCount], events: &[u16]) {
        let mut read = Vec::new();
        for count in counts {
            let Some(event) = events.get(usize::from(count.event)) else { continue };
            let Some(routes) = self.routes.get(usize::from(*event)) else { continue };
            for (unit, role) in routes {
                let running = &mut self.list[*unit];
                let before = running.readings.insert((*role, count.cpu), count.value);
                // With the first reading the count begins. A counter that comes up later begins at 0.
                if let Some(from) = running.read_at {
                    let n = count.value.saturating_sub(before.unwrap_or(0));
                    running.unit.count(&Counted {
                        role: *role,
                        cpu: count.cpu,
                        from,
                        until: count.time,
                        n,
                        running_percent: count.running_percent,
                    });
                }
                read.push((*unit, count.time));
            }
            self.now = self.now.max(count.time);
        }
        for (unit, time) in read {
            let running = &mut self.list[unit];
            if running.read_at.is_none() {
                running.since = time;
            }
            running.read_at = running.read_at.max(Some(time));
        }
    }

    /// Since when the first unit's figures count, and up to when it has all of a time.
    pub fn span(&self, time: u64) -> (u64, u64) {
        self.list.first().map_or((time, time), |running| (running.since, running.reaches(time)))
    }

    /// Whether the first unit's figures are read from counters, so that they end with a reading.
    pub fn is_read(&self) -> bool {
        self.list.first().is_some_and(|running| running.read_at.is_some())
    }

    /// Takes a record of another kind in.
    pub fn side(&mut self, record: &Record<'_>, time: u64, session: &Session) {
        match record {
            Record::Comm { tid, name, .. } => self.names.learn(*tid, name),
            Record::Fork(task) => {
                let parent = self.names.comm(session, task.ptid);
                self.names.learn(task.tid, parent.as_bytes());
            }
            _ => {}
        }
        let Self { list, names, points, .. } = self;
        for running in list {
            running.unit.side(record, time, &mut Context { session, names, points: points.as_mut() });
        }
    }

    /// A thread has come to a CPU, by a record of its own.
    pub fn came(&mut self, cpu: u32, tid: i32, time: u64, session: &Session) {
        let Self { list, names, points, .. } = self;
        for running in list {
            running.unit.came(cpu, tid, time, &mut Context { session, names, points: points.as_mut() });
        }
    }

    /// Records were lost before a time.
    pub fn lose(&mut self, cpu: Option<u32>, until: u64, records: u64) {
        let from = match cpu {
            Some(cpu) => self.last.get(cpu as usize).copied().unwrap_or(0),
            None => self.last.iter().copied().filter(|t| *t > 0).min().unwrap_or(0),
        };
        for running in &mut self.list {
            running.lost = running.lost.saturating_add(records);
            running.unit.lost(&Lost { cpu, from: from.min(until), until, records });
        }
    }

    /// All is known up to a time.
    pub fn until(&mut self, time: u64) {
        if time < u64::MAX {
            self.now = self.now.max(time);
        }
    }

    /// Figures are those of a moment, though more may be known already.
    pub fn stand_at(&mut self, time: u64) {
        self.now = time;
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// What is looked at of a unit.
    pub fn look(&mut self, id: u64, look: Look) {
        if let Some(running) = self.list.iter_mut().find(|running| running.id == id) {
            running.look = look;
        }
    }

    /// Makes the present a unit's baseline, or forgets it.
    pub fn baseline(&mut self, id: u64, set: bool) -> Result<(), String> {
        match self.list.iter_mut().find(|running| running.id == id) {
            Some(running) => running.unit.baseline(set),
            None => Ok(()),
        }
    }

    /// Forgets the figures of all units.
    pub fn reset(&mut self, now: u64) {
        for running in &mut self.list {
            running.unit.reset(now);
            (running.since, running.lost) = (now, 0);
        }
    }

    /// What the units have found; where one is chosen, only that one's panels are made.
    pub fn answers(
        &mut self,
        session: &Session,
        profile: &Profile,
        start: u64,
        chosen: Option<u64>,
    ) -> Vec<UnitAnswer> {
        let (names, now) = (&self.names, self.now);
        let waiting: Vec<Vec<String>> = self.list.iter().map(unbound).collect();
        let one = |(running, waiting): (&mut Running, Vec<String>)| {
            let now = running.reaches(now);
            let at = Moment { session, profile, names, start, since: running.since, now, look: &running.look };
            let wanted = chosen.is_none_or(|chosen| chosen == running.id);
            let panels = if wanted { running.unit.panels(&at) } else { Vec::new() };
            let mut notes = running.notes.clone();
            if !waiting.is_empty() {
                notes.push(format!("not measured: {}", waiting.join(", ")));
            }
            if running.lost > 0 {
                notes.push(format!("{} records were lost: {}", running.lost, running.unit.loss_words()));
            }
            UnitAnswer {
                id: running.id,
                name: running.spec.name,
                panels,
                notes,
                lost: running.lost,
                since: running.since.saturating_sub(start),
                until: now.saturating_sub(start),
            }
        };
        self.list.iter_mut().zip(waiting).map(one).collect()
    }
}

fn unbound(running: &Running) -> Vec<String> {
    running.roles.iter().filter(|role| !role.bound).map(|role| shown(&role.want.event).to_owned()).collect()
}

/// An event's name without the others that would do.
pub fn shown(event: &str) -> &str {
    event.split('|').next().unwrap_or(event)
}

/// Whether an event is what a unit wants: by its name without modifiers, a probe by the name of its function.
/// Names that would do are separated by bars.
pub fn is_named(want: &EventRequest, name: &str) -> bool {
    // One that is named with modifiers is meant with them.
    let exact = |wanted: &str| plain(wanted) != wanted && wanted == name;
    if want.event.split('|').any(exact) {
        return true;
    }
    let name = plain(name);
    let own = |wanted: &str| {
        let part = wanted.strip_prefix('~');
        wanted == name
            || part.is_some_and(|part| name.contains(part))
            || is_pattern(wanted) && matches(wanted, name)
            || want.probe.is_some() && name.split_once(':').is_some_and(|(_, event)| event == wanted)
    };
    want.event.split('|').any(own)
}

fn is_pattern(event: &str) -> bool {
    event.contains(['*', '?', '[']) && event.contains(':')
}

/// Whether a name has a pattern's system and event.
fn matches(pattern: &str, name: &str) -> bool {
    let part =
        |pattern: &str, text: &str| globset::Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(text));
    let (Some((systems, events)), Some((system, event))) = (pattern.split_once(':'), name.split_once(':')) else {
        return false;
    };
    part(systems, system) && part(events, event)
}

/// What a unit's wants come to for the kernel: each event once, with what all want of it.
pub fn shared(wants: &[EventRequest]) -> Result<Shared, String> {
    let places = LookupPaths::system();
    let mut out = Shared::default();
    let mut seen: Vec<&str> = Vec::new();
    for want in wants {
        if seen.contains(&want.event.as_str()) {
            continue;
        }
        seen.push(&want.event);
        let same: Vec<&EventRequest> = wants.iter().filter(|other| other.event == want.event).collect();
        let stack = same.iter().any(|want| want.stack);
        let filters: Option<Vec<&str>> = same.iter().map(|want| want.filter.as_deref()).collect();
        let filter = filters.map(|mut list| {
            list.dedup();
            if list.len() == 1 { list[0].to_owned() } else { format!("({})", list.join(") || (")) }
        });
        if let Some(probe) = &want.probe {
            out.probes.push((probe.clone(), stack, want.optional));
            continue;
        }
        let first = want.event.split('|').next().unwrap_or_default();
        let mut events = match parse(first, &places) {
            Ok(events) => events,
            Err(_) if want.optional => continue,
            Err(fault) => return Err(fault.line()),
        };
        for event in &mut events {
            prepare(event, want, stack);
            // What the kernel cannot decide is decided when the record is there.
            if event.tracepoint.is_some() && filter.is_some() {
                let _ = capture::set(event, filter.as_deref(), &places);
            }
        }
        let needed = same.iter().any(|want| !want.optional);
        (if needed { &mut out.events } else { &mut out.optional }).append(&mut events);
    }
    Ok(out)
}

fn prepare(event: &mut Event, want: &EventRequest, stack: bool) {
    event.for_units = true;
    event.no_chains = !stack;
    if want.memory {
        event.attr.sample_type |= sample::ADDR | sample::WEIGHT | sample::DATA_SRC;
    }
    event.attr.set(Flag::TextPoke, want.text_poke);
    match want.rate {
        _ if want.counted => event.set_rate(Rate::Period(0)),
        Some(rate) => event.set_rate(rate),
        None if event.attr.period_or_freq == 0 => event.set_rate(Rate::Period(1)),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;
    use crate::units::kit::Settings;

    /// No kernel loses as much; a recording may say so.
    #[test]
    fn more_losses_than_a_number_holds_are_the_most_that_it_holds() {
        let spec = units::find("forks").expect("a unit");
        let unit = (spec.make)(&Settings::default()).expect("needs nothing");
        let mut units = Units::default();
        let id = units.start(spec, unit, 0).expect("starts");
        [(None, u64::MAX), (Some(3), 5)].iter().for_each(|(cpu, records)| units.lose(*cpu, 9, *records));
        let answers = units.answers(&Session::new(crate::session::Origin::Live), &Profile::default(), 0, Some(id));
        assert_eq!(answers.iter().map(|answer| answer.lost).collect::<Vec<_>>(), [u64::MAX]);
    }
}
