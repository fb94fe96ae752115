//! The time in which threads are blocked, by place and waker. Units that divide the time of threads share it, so that
//! their figures agree.

mod activity;
mod older;
mod spot_facts;
pub(crate) mod waits;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::unit;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::classes::{Kinship, Sleep};
use crate::units::kit::waits::sched::{self, SchedReader, SchedSwitch, Wakeup};
use crate::units::kit::{Programs, TaskWaker, WakerReader, WakerStacks};

use crate::session::NamedCall;
use crate::units::events::syscalls;
use crate::units::tasks::locks::joined_by;
use activity::Activity;
use older::OlderStacks;
use waits::{Places, Receivers, Spot, WokenSleep};

/// A sleep that has started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    spot: Spot,
    sleep: Sleep,
    pid: i32,
    /// The first process of its program, if known.
    program: Option<i32>,
    is_of_kernel: bool,
    /// Whether it started before the first record.
    is_before: bool,
}

/// The state of a thread before it ran without a recorded wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It slept, and the sleep counts up to now.
    Asleep,
    /// It was woken while it left its CPU, so it waited for a CPU since then.
    Early,
    /// It was awake, or its sleep cannot be counted.
    Unknown,
}

/// The roles of the events that [`BlockedTime`] requests in addition to switches and wakeups.
pub(crate) const CLOCK: usize = 3;
pub(crate) const DISK: usize = 4;

#[derive(Clone, Debug, Default)]
pub(crate) struct BlockedTime {
    pub(crate) reader: SchedReader,
    pub(crate) wakers: WakerReader,
    programs: Programs,
    away: OpenSpans<i32, (), Away>,
    /// Wakeup times of tasks that were not asleep.
    early: FxHashMap<i32, u64>,
    blocked: FxHashMap<WokenSleep, Stats>,
    since: u64,
    labels: StackLabels,
    slept_in: StackLabels,
    causes: WakerStacks,
    pub(crate) places: Places,
    receivers: Receivers,
    /// The threads that began since the first record, and those of them that ended in the interval.
    born: FxHashSet<i32>,
    brief: FxHashSet<i32>,
    activity: Activity,
    initial: InitiallyBlocked,
    older: OlderStacks,
}

/// Limit of distinct places; further ones are counted without their waker.
const MAX_PLACES: usize = 1 << 17;
/// The maximum time between a wakeup of a thread that is leaving its CPU and the record of its switch.
const WHILE_LEAVING_NS: u64 = 100_000;

impl BlockedTime {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { labels: StackLabels::of(settings), slept_in: StackLabels::of_sleep(settings), ..Self::default() }
    }

    /// Returns the events that it needs, and a clock of `hz` hertz.
    pub(crate) fn event_requests(hz: u64) -> Vec<EventRequest> {
        let mut wants = sched::wants_wakers(true);
        let clock = EventRequest::new("cpu-clock|cycles|task-clock").with_stack(true).optional();
        wants.push(EventRequest { rate: Some(Rate::Frequency(hz)), ..clock });
        wants.push(WakerReader::request());
        wants
    }

    pub(crate) fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.activity.has_clock |= event.role == CLOCK;
        if event.role == CLOCK || self.wakers.bind(event, DISK) {
            return Ok(());
        }
        self.reader.bind(event.role, event.format)
    }

    /// Adds the tasks that slept before the first record, or before the last loss. Returns them.
    pub(crate) fn take_up(&mut self, time: u64, cx: &mut Context<'_>) -> Vec<i32> {
        self.initial.ask(cx);
        let (mut taken, mut sleepers) = (Vec::new(), Vec::new());
        for thread in self.initial.take() {
            // The program's own threads have no record yet. After a loss, records may already show a later sleep.
            if cx.is_unasked(thread.pid) || self.away.get(&thread.tid).is_some() {
                continue;
            }
            let away = Away {
                spot: self.places.told(&thread, joined_by(&thread, cx).is_some()),
                sleep: Sleep::of_thread(&thread),
                pid: thread.pid,
                program: self.programs.root(thread.pid, cx.session),
                is_of_kernel: thread.is_of_kernel,
                is_before: true,
            };
            self.away.begin(thread.tid, (), time, away);
            taken.push(thread.tid);
            sleepers.extend(syscalls::name_of_blocked(&thread).map(|name| NamedCall { thread, name }));
        }
        if !taken.is_empty() {
            self.older.begin(sleepers, cx.session);
        }
        taken
    }

    /// Keeps the stacks of tasks that slept before the first record.
    pub(crate) fn pin_sleepers(&mut self, pin: &mut dyn FnMut(&SleepingStack) -> Option<RetainedStack>) {
        self.older.pin(&mut self.places, pin);
    }

    /// A sample of the clock.
    pub(crate) fn sampled(&mut self, hit: &UnitSample<'_>, cx: &Context<'_>) {
        if let Some(program) = self.programs.root(hit.pid, cx.session) {
            self.activity.ran(program, hit.period);
        }
    }

    /// A CPU switches. Returns what the next thread did before.
    pub(crate) fn switched(&mut self, switch: SchedSwitch, hit: &UnitSample<'_>, cx: &mut Context<'_>) -> Came {
        self.wakers.switch(hit.cpu);
        // A thread that leaves a CPU has been running since an unknown time.
        self.away.take(&switch.prev);
        let came = self.came(switch.next, hit.time, cx);
        let Some(sleep) = Sleep::of(switch.prev_state) else { return came };
        if cx.counts(hit.cpu) && cx.follows(switch.prev) {
            let away = Away {
                spot: Spot::Stack(hit.stack),
                sleep,
                pid: hit.pid,
                program: self.programs.root(hit.pid, cx.session),
                is_of_kernel: !cx.session.places(hit.pid).knows_user(),
                is_before: false,
            };
            self.away.begin(switch.prev, (), hit.time, away);
        }
        came
    }

    /// A thread runs. Some kernels do not record wakeups by interrupts on an idle CPU.
    pub(crate) fn came(&mut self, tid: i32, time: u64, cx: &Context<'_>) -> Came {
        let Some(begin) = self.away.take(&tid) else { return Came::Unknown };
        // The wakeup happened while the thread was leaving its CPU: it has waited for a CPU since then.
        if self.early.remove(&tid).is_some_and(|woken| woken + WHILE_LEAVING_NS >= begin.since) {
            return Came::Early;
        }
        // /proc is read some time after the first record, so such a thread may have run at that time.
        if begin.with.is_before {
            return Came::Unknown;
        }
        let (waker, by, kinship) = (TaskWaker::Unrecorded, RetainedStack::NONE, Kinship::default());
        let ns = begin.took(time).min(time.saturating_sub(self.since));
        self.count(WokenSleep { thread: cx.thread(tid), away: begin.with.into(), waker, kinship, by }, ns);
        Came::Asleep
    }

    fn count(&mut self, mut place: WokenSleep, ns: u64) {
        if self.blocked.len() >= MAX_PLACES && !self.blocked.contains_key(&place) {
            place = WokenSleep { waker: TaskWaker::Untold, by: RetainedStack::NONE, ..place };
        }
        self.blocked.entry(place).or_default().add(ns);
    }

    pub(crate) fn woken(&mut self, wakeup: Wakeup, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(begin) = self.away.take(&wakeup.tid) else {
            if self.early.len() >= MAX_PLACES {
                self.early.clear();
            }
            self.early.insert(wakeup.tid, hit.time);
            return;
        };
        let mut away = begin.with;
        if away.is_before && self.initial.is_read_after(hit.time) {
            away.spot = Spot::UNKNOWN;
        }
        cx.comm(hit.tid);
        let ns = begin.took(hit.time).min(hit.time.saturating_sub(self.since));
        let kinship = self.kinship(&away, hit, cx);
        let waker = self.wakers.waker(wakeup, hit, cx);
        self.count(WokenSleep { thread: cx.thread(wakeup.tid), away: away.into(), waker, kinship, by: hit.stack }, ns);
        cx.point(["sched_switch", "sched_wakeup"], hit.time, ns);
        if let Spot::Stack(stack) = away.spot {
            cx.find(wakeup.tid, stack, || format!("was blocked for {}", unit::duration(ns)));
        }
    }

    /// Returns the relation of the thread of a record to one that sleeps.
    fn kinship(&mut self, away: &Away, hit: &UnitSample<'_>, cx: &Context<'_>) -> Kinship {
        let is_own = match (away.program, self.programs.root(hit.pid, cx.session)) {
            (Some(own), Some(waker)) => own == waker,
            // A waker without a process may be of the same program.
            _ => hit.pid == -1 || away.program.is_none(),
        };
        let is_other = hit.pid > 0 && away.pid > 0 && hit.pid != away.pid;
        let is_child = is_other && self.programs.parent(hit.pid, cx.session) == Some(away.pid);
        let mut is_of_parent = || is_other && self.programs.parent(away.pid, cx.session) == Some(hit.pid);
        let is_main = is_own && hit.pid > 0 && hit.tid == hit.pid && (hit.pid == away.pid || is_of_parent());
        Kinship { is_own, is_child, is_main }
    }

    pub(crate) fn thread_changed(&mut self, change: &ThreadChange) {
        self.away.follow(change, |tid| tid);
        self.initial.follow(change);
        self.programs.follow(change);
        match change {
            ThreadChange::Born { tid, .. } => {
                self.early.remove(tid);
                if self.born.len() >= MAX_PLACES {
                    self.born.clear();
                }
                self.born.insert(*tid);
            }
            ThreadChange::Ended { tid, .. } => {
                if self.brief.len() < MAX_PLACES && self.born.remove(tid) {
                    self.brief.insert(*tid);
                }
            }
            ThreadChange::Exec { .. } => {}
        }
    }

    pub(crate) fn lost(&mut self) {
        self.away.forget();
        self.early.clear();
        self.initial.renew();
    }

    pub(crate) fn reset(&mut self, now: u64) {
        self.since = now;
        self.blocked.clear();
        self.brief.clear();
        self.activity.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::kit::waits::initially_blocked::tests::with_sleeper;

    /// `offcpu` and `waits`: such a thread may have no record for hours.
    #[test]
    fn a_thread_that_sleeps_on_is_under_way_again_after_a_loss() {
        with_sleeper(|tid, cx| {
            let mut blocked = BlockedTime::default();
            let since = |blocked: &BlockedTime| blocked.away.get(&tid).map(|away| (away.since, away.with.is_before));
            assert!(blocked.take_up(10, cx).contains(&tid));
            assert_eq!(since(&blocked), Some((10, true)));
            blocked.lost();
            assert_eq!(since(&blocked), None, "it may have woken");
            blocked.initial.set_pause(true);
            assert!(blocked.take_up(20, cx).is_empty());
            blocked.initial.set_pause(false);
            assert!(blocked.take_up(30, cx).contains(&tid));
            assert_eq!(since(&blocked), Some((30, true)));
            assert!(blocked.take_up(40, cx).is_empty(), "no records were lost since");
        });
    }

    /// /proc may be read after a thread was woken, and it is elsewhere then.
    #[test]
    fn a_wait_that_ended_before_proc_was_read_has_no_place() {
        for (time, is_known) in [(15, false), (u64::MAX, true)] {
            with_sleeper(|tid, cx| {
                let mut blocked = BlockedTime::default();
                assert!(blocked.take_up(10, cx).contains(&tid));
                let context = crate::units::kit::waits::sched::WakeContext::Task;
                blocked.woken(Wakeup { tid, cpu: 0, context }, &UnitSample { time, ..UnitSample::default() }, cx);
                let spots: Vec<Spot> = blocked.blocked.keys().map(|woken| woken.away.spot).collect();
                assert!(matches!(spots[..], [spot] if (spot != Spot::UNKNOWN) == is_known), "{time}: {spots:?}");
            });
        }
    }

    #[test]
    fn a_sleep_with_a_record_after_a_loss_stays_as_recorded() {
        with_sleeper(|tid, cx| {
            let mut blocked = BlockedTime::default();
            blocked.lost();
            let switch = SchedSwitch { prev: tid, prev_state: 1, next: 0 };
            blocked.switched(switch, &UnitSample { tid, time: 15, ..UnitSample::default() }, cx);
            assert!(!blocked.take_up(30, cx).contains(&tid));
            assert_eq!(blocked.away.get(&tid).map(|away| (away.since, away.with.is_before)), Some((15, false)));
        });
    }
}
