//! Running analysis units: they receive records, and return figures and losses.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::lang::counted;
use crate::panel::Panel;
use crate::profile::{Profile, RetainedStack};
use crate::record::kinds::misc;
use crate::record::sample::CONTEXT_USER;
use crate::record::{self, Record};
use crate::session::{Origin, Session};
use crate::source::live::Target;
use crate::units::kit::field::Num;
use crate::units::kit::{
    BoundExpr, Context, EventRequest, FilteredUnit, LostEvents, Moment, Points, ThreadChoice, ThreadNames, UnitSample,
    ViewState,
};

pub(crate) use binding::{BlockedBy, BlockedUnit};
use kept::KeptFigures;

use super::chains::Chains;
use super::unit_events::shown;

mod binding;
mod counts;
mod kept;

pub(crate) const SEVERAL_HOSTS: &str = "units support only one machine: open its recording alone";
const MAX_UNITS: usize = 16;
const UNKNOWN_LOSSES: &str = "a ring buffer was full at the end, and Linux before 6.0 does not count what it lost then";
/// The time between two requests for addresses of data: units go through all of their figures for them.
const PIN_INTERVAL_NS: u64 = 100_000_000;
/// The time after which an event of a new unit that is not open yet counts as missing.
const OPENING_NS: u64 = 3_000_000_000;
const OPENING: &str = "starts: its events are being opened";

/// A unit's panels, and their interval.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitAnswer {
    /// The number that the unit got at its start, unique in the session.
    pub id: u64,
    /// The unit's name on the command line.
    pub name: &'static str,
    /// Its results, each with a title; empty while another unit is shown.
    pub panels: Vec<Panel>,
    /// Warnings: what is missing, lost, or measured differently.
    pub notes: Vec<String>,
    /// Records lost in the interval.
    pub lost: u64,
    /// Whether more may be lost, which this kernel does not count.
    pub may_be_more: bool,
    /// The start of the figures, in nanoseconds since the session's start.
    pub since: u64,
    /// The end of the figures, in nanoseconds since the session's start.
    pub until: u64,
}

#[derive(Clone, Debug)]
struct Role {
    want: EventRequest,
    filter: Option<BoundExpr>,
    bound: bool,
}

#[derive(Clone, Debug)]
struct Running {
    id: u64,
    unit: FilteredUnit,
    /// Whether it observes the whole machine, including this program.
    whole: bool,
    roles: Vec<Role>,
    look: ViewState,
    since: u64,
    /// Since when all of its events are measured: earlier records of some of them do not count.
    measured: u64,
    fresh: bool,
    /// Until when its missing events may still be opened.
    opens_until: u64,
    /// The time and the values of the last reading of its counters. They alone determine the end of its figures.
    read_at: Option<u64>,
    readings: FxHashMap<(usize, u32), u64>,
    lost: u64,
    notes: Vec<String>,
    /// For how long it was stopped before it was last restarted, in nanoseconds.
    gap: Option<u64>,
}

impl Running {
    /// Returns the end of its figures, if records are complete up to `time`.
    fn reaches(&self, time: u64) -> u64 {
        self.read_at.unwrap_or(time)
    }
}

/// All units of a session.
#[derive(Debug, Default)]
pub struct Units {
    /// The machine's architecture as in uname; empty for this machine.
    arch: String,
    list: Vec<Running>,
    /// For each event, the units that request it: (index in the list, role).
    routes: Vec<Vec<(usize, usize)>>,
    /// Events that are only for units: their samples are not kept.
    quiet: Vec<bool>,
    stacks: Vec<bool>,
    /// The field with the caller, of probes that have one.
    callers: FxHashMap<u16, Num>,
    chain: Vec<u8>,
    names: ThreadNames,
    target: ThreadChoice,
    /// This program, or the one that wrote the recording, and its threads.
    own_pid: Option<i32>,
    own: FxHashSet<i32>,
    /// The timestamp of the newest record of each CPU.
    last: Vec<u64>,
    now: u64,
    /// When addresses of data were kept last.
    pinned_at: Option<u64>,
    begun: bool,
    next_id: u64,
    kept: KeptFigures,
    points: Option<Points>,
    has_unknown_losses: bool,
}

impl Units {
    /// Returns an empty list, for a machine of this architecture.
    pub(super) fn of(arch: String) -> Self {
        Self { arch, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.list.iter().any(|running| running.unit.is_done())
    }

    /// Sets the process whose threads are ignored, and its current threads.
    pub(crate) fn ignore_process(&mut self, pid: i32, threads: impl IntoIterator<Item = i32>) {
        self.own_pid = Some(pid);
        self.own.extend(threads);
        self.own.insert(pid);
    }

    /// Sets the target of the session.
    pub(crate) fn set_target(&mut self, target: Target, alone: bool) {
        self.target = ThreadChoice::of_target(target, alone);
    }

    /// Returns whether a sample's thread is of the session's target; machine-wide events sample others, too.
    pub(crate) fn is_of_target(&mut self, sample: &record::Sample<'_>, session: &Session) -> bool {
        let Self { target, names, own, .. } = self;
        let task = Some((sample.pid, sample.tid));
        target.has(sample.tid, &mut Context { task, ..Context::new(session, names, own) })
    }

    pub(crate) fn collect_points(&mut self) {
        self.points = Some(Points::default());
    }

    pub(crate) fn take_points(&mut self) -> Points {
        self.points.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Applies a sample; `mode` is the record's CPU mode, `ours` whether it is of this process.
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
            // A recording's time starts with its first sample.
            self.reset(sample.time);
        }
        let stack =
            if self.stacks[at] { self.stack(event, sample, mode, session, profile) } else { RetainedStack::NONE };
        self.advance_to(sample.cpu, sample.time);
        if ours {
            self.own.insert(sample.tid);
        }
        let Self { list, routes, names, own, points, .. } = self;
        for (unit, role) in &routes[at] {
            let running = &mut list[*unit];
            if ours && !running.whole || sample.time < running.measured {
                continue;
            }
            let hit = UnitSample {
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
                // The filter may use the thread's name, which must be known before.
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

    pub(crate) fn caller(&self, event: u16, sample: &record::Sample<'_>) -> Option<u64> {
        self.callers.get(&event).map(|field| field.get(sample.raw) as u64).filter(|caller| *caller != 0)
    }

    /// Returns a sample's stack. At the entry of a function, which has no frame yet, the frame pointer chain lacks the
    /// caller; if a probe provides it, it is inserted.
    fn stack(
        &mut self,
        event: u16,
        sample: &record::Sample<'_>,
        mode: u16,
        session: &mut Session,
        profile: &mut Profile,
    ) -> RetainedStack {
        // The process and its mappings may be new.
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

    /// Returns whether the clock of the samples is past the next request for addresses of data, or was set back.
    pub(super) fn is_pin_due(&self) -> bool {
        let is_early = |at: u64| (at..at.saturating_add(PIN_INTERVAL_NS)).contains(&self.now);
        !self.pinned_at.is_some_and(is_early)
    }

    /// Keeps the addresses of data whose variables units name.
    pub(super) fn pin_data(&mut self, session: &mut Session, profile: &mut Profile) {
        let now = self.now;
        self.pinned_at = Some(now);
        for running in &mut self.list {
            running.unit.pin_data(now, &mut |pid, addr| {
                if session.origin() == Origin::Live && !session.places(pid).knows_user() {
                    // A process that is blocked since before the start has no record.
                    session.task(pid, pid);
                }
                profile.pin_data(session, pid, addr)
            });
        }
    }

    /// Keeps the stacks of sleeping threads that units have copied.
    pub(super) fn pin_sleepers(&mut self, session: &mut Session, profile: &mut Profile, chains: &mut Chains) {
        for running in &mut self.list {
            running.unit.pin_sleepers(&mut |sleeper| {
                // It has no record yet.
                session.task(sleeper.pid, sleeper.tid);
                let chain = chains.of_sleeper(session, sleeper)?;
                let ip = sleeper.kernel.first().copied().unwrap_or(sleeper.ip);
                let sample = record::Sample { pid: sleeper.pid, tid: sleeper.tid, ip, chain, ..Default::default() };
                Some(profile.pin(session, &sample, misc::KERNEL))
            });
        }
    }

    fn advance_to(&mut self, cpu: u32, time: u64) {
        let cpu = cpu as usize;
        if self.last.len() <= cpu && cpu < 1 << 16 {
            self.last.resize(cpu + 1, 0);
        }
        if let Some(last) = self.last.get_mut(cpu) {
            *last = time;
        }
        self.now = self.now.max(time);
    }

    /// Marks all existing events as measured since a time. Units that waited for some of them start then.
    pub(crate) fn measured_since(&mut self, time: u64, session: &Session) {
        let Self { list, names, own, .. } = self;
        for running in list.iter_mut().filter(|running| running.fresh) {
            (running.fresh, running.opens_until) = (false, 0);
            (running.since, running.measured, running.lost) = (time, time, 0);
            (running.read_at, running.readings) = (None, FxHashMap::default());
            running.unit.reset(time);
            running.unit.begin(&mut Context::new(session, names, own));
        }
        (self.now, self.begun) = (self.now.max(time), true);
    }

    /// Starts the figures of units with stacks again at a time: stacks are unwound in another way since then, and one
    /// function would have two rows.
    pub(crate) fn begin_stacks_again(&mut self, time: u64) {
        let goes_by_stacks = |running: &&mut Running| running.roles.iter().any(|role| role.bound && role.want.stack);
        for running in self.list.iter_mut().filter(goes_by_stacks) {
            (running.since, running.measured, running.lost) = (time, time, 0);
            running.unit.restart(time);
        }
        self.now = self.now.max(time);
    }

    pub(crate) fn span(&self, time: u64) -> (u64, u64) {
        self.list.first().map_or((time, time), |running| (running.since, running.reaches(time)))
    }

    pub(crate) fn side(&mut self, record: &Record<'_>, time: u64, session: &Session) {
        match record {
            Record::Comm { pid, tid, .. } => self.own.extend((self.own_pid == Some(*pid)).then_some(*tid)),
            Record::Fork(task) => {
                // An exited thread stays ours until its number is reused, because it leaves its CPU later.
                if self.own_pid == Some(task.pid) {
                    self.own.insert(task.tid);
                } else {
                    self.own.remove(&task.tid);
                }
            }
            _ => {}
        }
        self.names.follow(record, time, session);
        self.target.follow_record(record, &Context::new(session, &mut self.names, &self.own));
        self.each_unit(session, |unit, context| unit.on_sideband(record, time, context));
    }

    fn each_unit(&mut self, session: &Session, call: impl Fn(&mut FilteredUnit, &mut Context<'_>)) {
        let Self { list, names, own, points, .. } = self;
        for running in list {
            call(&mut running.unit, &mut Context { points: points.as_mut(), ..Context::new(session, names, own) });
        }
    }

    pub(crate) fn switched_in(&mut self, cpu: u32, tid: i32, time: u64, session: &Session) {
        self.each_unit(session, |unit, context| unit.on_switch_in(cpu, tid, time, context));
    }

    pub(crate) fn lose(&mut self, cpu: Option<u32>, until: u64, records: u64) {
        let from = match cpu {
            Some(cpu) => self.last.get(cpu as usize).copied().unwrap_or(0),
            None => self.last.iter().copied().filter(|t| *t > 0).min().unwrap_or(0),
        };
        for running in &mut self.list {
            running.lost = running.lost.saturating_add(records);
            running.unit.lost(&LostEvents { cpu, from: from.min(until), until, records });
        }
    }

    /// Counts losses after the last record: nothing follows that they could mislead.
    pub(super) fn lose_last(&mut self, records: u64) {
        self.list.iter_mut().for_each(|running| running.lost = running.lost.saturating_add(records));
    }

    /// Marks the losses of all units as a lower limit.
    pub(super) fn lose_unknown(&mut self) {
        self.has_unknown_losses = true;
    }

    pub(crate) fn until(&mut self, time: u64) {
        if time < u64::MAX {
            self.now = self.now.max(time);
        }
    }

    /// Sets the end of the figures to a moment, although later records may have been applied.
    pub(crate) fn end_at(&mut self, time: u64) {
        self.now = time;
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn look(&mut self, id: u64, look: ViewState) {
        if let Some(running) = self.list.iter_mut().find(|running| running.id == id) {
            running.look = look;
        }
    }

    pub(crate) fn baseline(&mut self, id: u64, set: bool) -> Result<(), String> {
        match self.list.iter_mut().find(|running| running.id == id) {
            Some(running) => running.unit.baseline(set),
            None => Ok(()),
        }
    }

    pub(crate) fn reset(&mut self, now: u64) {
        for running in &mut self.list {
            running.unit.reset(now);
            (running.since, running.lost) = (now, 0);
        }
    }

    pub(crate) fn answers(
        &mut self,
        session: &Session,
        profile: &Profile,
        start: u64,
        chosen: Option<u64>,
    ) -> Vec<UnitAnswer> {
        let is_wanted = |running: &Running| chosen.is_none_or(|chosen| chosen == running.id);
        let may_be_more = self.has_unknown_losses;
        let Self { list, names, own, .. } = self;
        for running in list.iter_mut().filter(|running| is_wanted(running)) {
            running.unit.settle(&mut Context::new(session, names, own));
        }
        let (names, now) = (&self.names, self.now);
        let waiting: Vec<Vec<String>> = self.list.iter().map(unbound).collect();
        let one = |(running, waiting): (&mut Running, Vec<String>)| {
            let now = running.reaches(now);
            let at = Moment { session, profile, names, start, since: running.since, now, look: &running.look };
            // Until all of its events are measured, its figures are wrong, and begin again then.
            let opens = now < running.opens_until && !waiting.is_empty();
            let panels = if is_wanted(running) && !opens { running.unit.panels(&at) } else { Vec::new() };
            let mut notes = running.notes.clone();
            notes.extend(running.gap.map(kept::gap_note));
            notes.extend(running.unit.why_empty().map(str::to_owned));
            if opens {
                notes.push(OPENING.to_owned());
            } else if !waiting.is_empty() {
                notes.push(format!("not measured: {}", waiting.join(", ")));
            }
            if running.lost > 0 {
                notes.push(format!("lost {}: {}", counted(running.lost, "record"), running.unit.loss_text()));
            }
            notes.extend(may_be_more.then(|| UNKNOWN_LOSSES.to_owned()));
            UnitAnswer {
                id: running.id,
                name: running.unit.spec.name,
                panels,
                notes,
                lost: running.lost,
                may_be_more,
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
mod tests;
