//! Analysis units at work: which records go to which of them, what they find, what they miss.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::Panel;
use crate::profile::{Profile, RetainedStack};
use crate::record::kinds::misc;
use crate::record::sample::CONTEXT_USER;
use crate::record::{self, Record};
use crate::session::Session;
use crate::source::CpuCount;
use crate::units::kit::field::Num;
use crate::units::kit::{
    BoundExpr, Context, CountedEvents, EventRequest, Lost, Moment, Points, Sample, Spec, ThreadNames, Unit, ViewState,
};

use kept::KeptFigures;

use super::unit_events::shown;

mod binding;
mod kept;

/// The reason why there are no units of several machines.
pub(crate) const SEVERAL_HOSTS: &str = "units follow the threads and CPUs of one machine: open its recording alone";
/// More units at once are of no use to anybody.
const MAX_UNITS: usize = 16;

/// A unit's panels, and the interval that they are of.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitAnswer {
    /// The number that the unit got when it was started; no other one of the session has it.
    pub id: u64,
    /// The unit's name, as it is asked for by.
    pub name: &'static str,
    /// What it found, each piece under its title; none while another unit is looked at.
    pub panels: Vec<Panel>,
    /// What is missing, lost, or was done in another way.
    pub notes: Vec<String>,
    /// Records that were lost in the interval.
    pub lost: u64,
    /// Since when figures count, and up to when, in nanoseconds since the session's start.
    pub since: u64,
    /// Up to when figures count, counted likewise.
    pub until: u64,
}

/// One of the events that a unit wants.
#[derive(Debug)]
struct Role {
    want: EventRequest,
    filter: Option<BoundExpr>,
    bound: bool,
}

/// A unit at work.
#[derive(Debug)]
struct Running {
    id: u64,
    spec: &'static Spec,
    unit: Box<dyn Unit>,
    /// Whether it sees the whole machine, this program included.
    whole: bool,
    roles: Vec<Role>,
    look: ViewState,
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
    /// The time that its figures reach to, where all is known up to a time.
    fn reaches(&self, time: u64) -> u64 {
        self.read_at.unwrap_or(time)
    }
}

/// All units of a session.
#[derive(Debug, Default)]
pub struct Units {
    /// The architecture of the machine, as uname says it; empty where that is this one.
    arch: String,
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
    /// This program, or the one that wrote the recording, and its threads.
    own_pid: Option<i32>,
    own: FxHashSet<i32>,
    /// Time of the newest record of each CPU.
    last: Vec<u64>,
    now: u64,
    /// Whether measuring has begun.
    begun: bool,
    next_id: u64,
    kept: KeptFigures,
    /// Whether points of time and latency are collected, and those that are.
    points: Option<Points>,
}

impl Units {
    /// None yet, for a machine of this architecture.
    pub(super) fn of(arch: String) -> Self {
        Self { arch, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one of them has had as many events as are wanted of it.
    pub(crate) fn is_done(&self) -> bool {
        self.list.iter().any(|running| running.unit.is_done())
    }

    /// The process whose threads are nobody's figures, with those that are there.
    pub(crate) fn is_own(&mut self, pid: i32, threads: impl IntoIterator<Item = i32>) {
        self.own_pid = Some(pid);
        self.own.extend(threads);
        self.own.insert(pid);
    }

    /// Has points of time and latency collected.
    pub(crate) fn collect_points(&mut self) {
        self.points = Some(Points::default());
    }

    pub(crate) fn take_points(&mut self) -> Points {
        self.points.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes a sample in; `mode` is the record's CPU mode, `ours` whether it is of this process.
    pub(crate) fn sample(
        &mut self,
        event: u16,
        sample: &record::Sample<'_>,
        mode: u16,
        ours: bool,
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
        if ours {
            self.own.insert(sample.tid);
        }
        let Self { list, routes, names, own, points, .. } = self;
        for (unit, role) in &routes[at] {
            let running = &mut list[*unit];
            if ours && !running.whole || sample.time < running.measured {
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
                user: matches!(mode, misc::USER | misc::GUEST_USER),
                guest: matches!(mode, misc::GUEST_KERNEL | misc::GUEST_USER),
                registers: sample.user,
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
            let task = Some((sample.pid, sample.tid));
            let context = Context { points: points.as_mut(), task, ..Context::new(session, names, own) };
            running.unit.record(&hit, &mut { context });
        }
    }

    /// The caller's address of a sample at a function's entry, where it tells that.
    pub(crate) fn caller(&self, event: u16, sample: &record::Sample<'_>) -> Option<u64> {
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
        let at = sample.chain().position(|word| word == CONTEXT_USER).map_or(usize::MAX, |at| at + 2);
        if at > sample.chain().count() || sample.chain().nth(at) == Some(caller) {
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
    pub(crate) fn measured_since(&mut self, time: u64) {
        for running in self.list.iter_mut().filter(|running| running.fresh) {
            running.fresh = false;
            (running.since, running.measured, running.lost) = (time, time, 0);
            (running.read_at, running.readings) = (None, FxHashMap::default());
            running.unit.reset(time);
        }
        (self.now, self.begun) = (self.now.max(time), true);
    }

    /// Takes the counts of counted events in, of any number of readings; `events` says which of the session's each is.
    pub(crate) fn count(&mut self, counts: &[CpuCount], events: &[u16]) {
        for reading in counts.chunk_by(|one, next| one.time == next.time) {
            self.count_reading(reading, events);
        }
    }

    fn count_reading(&mut self, reading: &[CpuCount], events: &[u16]) {
        let mut read = Vec::new();
        for count in reading {
            let Some(event) = events.get(usize::from(count.event)) else { continue };
            let Some(routes) = self.routes.get(usize::from(*event)) else { continue };
            for (unit, role) in routes {
                let running = &mut self.list[*unit];
                let before = running.readings.insert((*role, count.cpu), count.value);
                // With the first reading the count begins. A counter that comes up later begins at 0.
                if let Some(from) = running.read_at {
                    let n = count.value.saturating_sub(before.unwrap_or(0));
                    running.unit.count(&CountedEvents {
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
    pub(crate) fn span(&self, time: u64) -> (u64, u64) {
        self.list.first().map_or((time, time), |running| (running.since, running.reaches(time)))
    }

    /// True if the first unit's figures are read from counters, so that they end with a reading.
    pub(crate) fn is_read(&self) -> bool {
        self.list.first().is_some_and(|running| running.read_at.is_some())
    }

    /// Takes a record of another kind in.
    pub(crate) fn side(&mut self, record: &Record<'_>, time: u64, session: &Session) {
        match record {
            Record::Comm { pid, tid, name, .. } => {
                self.own.extend((self.own_pid == Some(*pid)).then_some(*tid));
                self.names.learn(*tid, name);
            }
            Record::Fork(task) => {
                // One that has ended is ours until another has its number: it leaves its CPU after its end is told.
                if self.own_pid == Some(task.pid) {
                    self.own.insert(task.tid);
                } else {
                    self.own.remove(&task.tid);
                }
                let parent = self.names.comm(session, task.ptid);
                self.names.learn(task.tid, parent.as_bytes());
            }
            _ => {}
        }
        self.tell(session, |unit, context| unit.side(record, time, context));
    }

    fn tell(&mut self, session: &Session, told: impl Fn(&mut dyn Unit, &mut Context<'_>)) {
        let Self { list, names, own, points, .. } = self;
        for running in list {
            told(&mut *running.unit, &mut Context { points: points.as_mut(), ..Context::new(session, names, own) });
        }
    }

    /// A thread has come to a CPU, by a record of its own.
    pub(crate) fn came(&mut self, cpu: u32, tid: i32, time: u64, session: &Session) {
        self.tell(session, |unit, context| unit.came(cpu, tid, time, context));
    }

    /// Records were lost before a time.
    pub(crate) fn lose(&mut self, cpu: Option<u32>, until: u64, records: u64) {
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
    pub(crate) fn until(&mut self, time: u64) {
        if time < u64::MAX {
            self.now = self.now.max(time);
        }
    }

    /// Figures are those of a moment, though more may be known already.
    pub(crate) fn stand_at(&mut self, time: u64) {
        self.now = time;
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Sets what is looked at of a unit.
    pub(crate) fn look(&mut self, id: u64, look: ViewState) {
        if let Some(running) = self.list.iter_mut().find(|running| running.id == id) {
            running.look = look;
        }
    }

    /// Makes the present a unit's baseline, or forgets it.
    pub(crate) fn baseline(&mut self, id: u64, set: bool) -> Result<(), String> {
        match self.list.iter_mut().find(|running| running.id == id) {
            Some(running) => running.unit.baseline(set),
            None => Ok(()),
        }
    }

    /// Forgets the figures of all units.
    pub(crate) fn reset(&mut self, now: u64) {
        for running in &mut self.list {
            running.unit.reset(now);
            (running.since, running.lost) = (now, 0);
        }
    }

    /// The units' answers; where one is chosen, only that one's panels are made.
    pub(crate) fn answers(
        &mut self,
        session: &Session,
        profile: &Profile,
        start: u64,
        chosen: Option<u64>,
    ) -> Vec<UnitAnswer> {
        let is_wanted = |running: &Running| chosen.is_none_or(|chosen| chosen == running.id);
        let Self { list, names, own, .. } = self;
        for running in list.iter_mut().filter(|running| is_wanted(running)) {
            running.unit.settle(&mut Context::new(session, names, own));
        }
        let (names, now) = (&self.names, self.now);
        let waiting: Vec<Vec<String>> = self.list.iter().map(unbound).collect();
        let one = |(running, waiting): (&mut Running, Vec<String>)| {
            let now = running.reaches(now);
            let at = Moment { session, profile, names, start, since: running.since, now, look: &running.look };
            let panels = if is_wanted(running) { running.unit.panels(&at) } else { Vec::new() };
            let mut notes = running.notes.clone();
            notes.extend(running.unit.silence().map(str::to_owned));
            if !waiting.is_empty() {
                notes.push(format!("not measured: {}", waiting.join(", ")));
            }
            if running.lost > 0 {
                notes.push(format!("{} records were lost: {}", running.lost, running.unit.loss_text()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;
    use crate::units::kit::Settings;

    /// No kernel loses as much; a recording may say so.
    #[test]
    fn more_losses_than_a_number_holds_are_the_most_that_it_holds() {
        let spec = units::find("forks").expect("a unit");
        let unit = units::make(spec, &Settings::default()).expect("needs nothing");
        let mut units = Units::default();
        let id = units.start(spec, unit, 0).expect("starts");
        [(None, u64::MAX), (Some(3), 5)].iter().for_each(|(cpu, records)| units.lose(*cpu, 9, *records));
        let answers = units.answers(&Session::new(crate::session::Origin::Live), &Profile::default(), 0, Some(id));
        assert_eq!(answers.iter().map(|answer| answer.lost).collect::<Vec<_>>(), [u64::MAX]);
    }

    /// Of a short command the first reading and the last come at once.
    #[test]
    fn what_is_counted_between_two_readings_of_a_batch_is_taken_in() {
        let spec = units::find("stat").expect("a unit");
        let mut settings = Settings::default();
        settings.set("event", "page-faults").expect("an option");
        let unit = units::make(spec, &settings).expect("made");
        let mut units = Units::default();
        let id = units.start(spec, unit, 0).expect("starts");
        units.routes = vec![vec![(0, 0)]];
        let one = |cpu: u32, time: u64, value: u64| CpuCount { event: 0, cpu, time, value, running_percent: 100.0 };
        units.count(&[one(0, 100, 5), one(1, 100, 0), one(0, 200, 12), one(1, 200, 3)], &[0]);
        let answers = units.answers(&Session::new(crate::session::Origin::Live), &Profile::default(), 200, Some(id));
        let rows = answers[0].panels[0].rows().expect("rows");
        assert_eq!(rows.table.rows[0][1], crate::panel::Cell::Count(10));
    }
}
