//! `offcpu`: blocked time by stack and waker, in addition to time on CPUs.

mod panels;
mod waits;

use rustc_hash::FxHashMap;

use crate::panel::unit;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::classes::{Sleep, WaitClass};
use crate::units::kit::waits::sched::{self, SchedEvent, SchedReader, Wakeup};
use crate::units::kit::{Programs, TaskWaker, WakerReader, WakerStacks};

use waits::{Spot, WokenSleep};

pub(crate) const SPEC: Spec = Spec {
    name: "offcpu",
    about: "off-CPU time: where tasks block, for how long, and who wakes them; on and off CPU in one flame graph",
    words: "slow why lock futex mutex contention wait latency blocked sleep deadlock hang stuck stall idle io disk \
            network tcp gc garbage throttle",
    help: "Blocked time is the time from leaving a CPU asleep until the wake-up, with the stack of the sleeper and \
           the stack of the waker. It includes sleep that has not ended. The time from wake-up to running is not \
           included; rundelay shows it. Share is relative to all time asleep. The waker is the cause of the wake-up: \
           a thread, a disk, a timer or the network, never the thread that an interrupt interrupted. Wakers refers to \
           the selected row, or to all rows that do not wait for work. A call site has one row for each class of its \
           waits, and the class depends on how the wait ends. A wait is 'waiting for work' if it ends by a timer, or \
           by a message or connection from outside the program, or if it has not ended; so is each interruptible \
           sleep of a kernel thread, and each sleep of a thread of Go's scheduler without a goroutine. All of these are folded into one row after those with 1 % of the time. A wait is 'not \
           known' if a thread of the same program ends it, because it may be for a lock or for work. The same holds \
           for the thread's other waits in that place that a timer ends or that have not ended, and for those of \
           other threads if the waiters wake each other, as with a lock. All other waits are 'held up': by disks, in \
           uninterruptible sleep, or by other programs that send nothing. Processes that were forked without exec are \
           one program. A broken stack hides the place, so its wait has a class only if a message from outside ends \
           it, or if the thread sleeps until its own timer expires (clock_nanosleep), which the kernel's functions \
           show. Blocked in shows two of the kernel's frames: the system call, and the function that waits. The flame \
           graphs and --addresses show the whole stack. Under way lists threads that are blocked now; for waits that \
           began before the measurement, /proc gives the place. The hot and cold graph adds samples of a clock (-F, \
           99 Hz); both are in nanoseconds.",
    example: "perfprof-tui offcpu -p 1234",
    output: "\
$ perfprof-tui offcpu -p 14663 --batch --duration 3 --panel Blocked
Blocked   Share  D state  Times     Mean      Max  Comm    Woken by …
 2.59 s  23.4 %             110  23.6 ms  44.1 ms  middle  back 99.2 …
 2.55 s  23.0 %             108  23.6 ms  66.0 ms  front   middle 99.…
 176 ms   1.6 %   176 ms    435   403 µs  7.83 ms  back    vda interr…
 5.73 s  51.7 %             920  6.23 ms   3.00 s  chain…  none yet …",
    options: &["comm", "pids", "tids", "frequency", "addresses"],
    sees: Sees::Machine,
    across: Some("sleep that begins on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(OffCpu::new(settings)?)),
};

/// A sleep that has started.
#[derive(Clone, Copy, Debug)]
struct Away {
    spot: Spot,
    sleep: Sleep,
    /// The first process of its program, if known.
    program: Option<i32>,
    is_of_kernel: bool,
    /// Whether it started before the first record.
    is_before: bool,
}

#[derive(Clone, Debug, Default)]
struct OffCpu {
    reader: SchedReader,
    wakers: WakerReader,
    programs: Programs,
    hz: u64,
    away: OpenSpans<i32, (), Away>,
    /// Wakeup times of tasks that were not asleep.
    early: FxHashMap<i32, u64>,
    blocked: FxHashMap<WokenSleep, Stats>,
    hot: FxHashMap<(i32, RetainedStack), u64>,
    since: u64,
    containers: ByContainer,
    labels: StackLabels,
    slept_in: StackLabels,
    causes: WakerStacks,
    places: waits::Places,
    initial: InitiallyBlocked,
}

const CLOCK: usize = 3;
const DISK: usize = 4;
/// Limit of distinct places; further ones are counted without their waker.
const MAX_PLACES: usize = 1 << 17;
/// The maximum time between a wakeup of a thread that is leaving its CPU and the record of its switch.
const WHILE_LEAVING_NS: u64 = 100_000;

impl OffCpu {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            labels: StackLabels::of(settings),
            slept_in: StackLabels::of_sleep(settings),
            hz: settings.hertz("frequency", 99)?.clamp(1, 10_000),
            ..Self::default()
        })
    }

    /// Adds the tasks that slept before the first record.
    fn take_up(&mut self, time: u64, cx: &mut Context<'_>) {
        self.initial.ask(cx);
        for thread in self.initial.take() {
            // The program's own threads have no record yet.
            if cx.is_unasked(thread.pid) {
                continue;
            }
            let away = Away {
                spot: self.places.told(&thread),
                sleep: Sleep::of_thread(&thread),
                program: self.programs.root(thread.pid, cx.session),
                is_of_kernel: thread.is_of_kernel,
                is_before: true,
            };
            self.away.begin(thread.tid, (), time, away);
        }
    }

    fn switched(&mut self, switch: sched::SchedSwitch, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        self.wakers.switch(hit.cpu);
        // A thread that leaves a CPU has been running since an unknown time.
        self.away.take(&switch.prev);
        self.came_unseen(switch.next, hit.time);
        let Some(sleep) = Sleep::of(switch.prev_state) else { return };
        if cx.counts(hit.cpu) && cx.follows(switch.prev) {
            let away = Away {
                spot: Spot::Stack(hit.stack),
                sleep,
                program: self.programs.root(hit.pid, cx.session),
                is_of_kernel: !cx.session.places(hit.pid).knows_user(),
                is_before: false,
            };
            self.away.begin(switch.prev, (), hit.time, away);
        }
    }

    /// A thread runs. Some kernels do not record wakeups by interrupts on an idle CPU.
    fn came_unseen(&mut self, tid: i32, time: u64) {
        let Some(begin) = self.away.take(&tid) else { return };
        // The wakeup happened while the thread was leaving its CPU: it has waited for a CPU since then.
        let early = self.early.remove(&tid).is_some_and(|woken| woken + WHILE_LEAVING_NS >= begin.since);
        // /proc is read some time after the first record, so such a thread may have run at that time.
        if !early && !begin.with.is_before {
            let (waker, by, is_own) = (TaskWaker::Unrecorded, RetainedStack::NONE, false);
            let ns = begin.took(time).min(time.saturating_sub(self.since));
            self.count(WokenSleep { tid, away: begin.with.into(), waker, is_own, by }, ns);
        }
    }

    fn count(&mut self, mut place: WokenSleep, ns: u64) {
        if self.blocked.len() >= MAX_PLACES && !self.blocked.contains_key(&place) {
            place = WokenSleep { waker: TaskWaker::Untold, by: RetainedStack::NONE, ..place };
        }
        self.blocked.entry(place).or_default().add(ns);
    }

    fn woken(&mut self, wakeup: Wakeup, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(begin) = self.away.take(&wakeup.tid) else {
            if self.early.len() >= MAX_PLACES {
                self.early.clear();
            }
            self.early.insert(wakeup.tid, hit.time);
            return;
        };
        let away = begin.with;
        cx.comm(hit.tid);
        let ns = begin.took(hit.time).min(hit.time.saturating_sub(self.since));
        let is_own = match (away.program, self.programs.root(hit.pid, cx.session)) {
            (Some(own), Some(waker)) => own == waker,
            // A waker without a process may be of the same program.
            _ => hit.pid == -1 || away.program.is_none(),
        };
        let waker = self.wakers.waker(wakeup, hit);
        self.count(WokenSleep { tid: wakeup.tid, away: away.into(), waker, is_own, by: hit.stack }, ns);
        cx.point(["sched_switch", "sched_wakeup"], hit.time, ns);
        if let Spot::Stack(stack) = away.spot {
            cx.find(wakeup.tid, stack, || format!("was blocked for {}", unit::duration(ns)));
        }
    }
}

impl Unit for OffCpu {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants_wakers(true);
        let clock = EventRequest::new("cpu-clock|cycles|task-clock").with_stack(true).optional();
        wants.push(EventRequest { rate: Some(Rate::Frequency(self.hz)), ..clock });
        wants.push(WakerReader::request());
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if event.role == CLOCK || self.wakers.bind(event, DISK) {
            return Ok(());
        }
        self.reader.bind(event.role, event.format)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        match hit.role {
            CLOCK => {
                if hit.tid != 0 && cx.counts(hit.cpu) && cx.has(hit.tid) {
                    let ns = self.hot.entry((hit.tid, hit.stack)).or_default();
                    *ns = ns.saturating_add(hit.period);
                }
                return;
            }
            DISK => return self.wakers.complete(hit, cx),
            _ if self.wakers.is_repeated(hit) => return,
            _ => {}
        }
        self.take_up(hit.time, cx);
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => self.switched(switch, hit, cx),
            Some(SchedEvent::Wakeup(wakeup)) => self.woken(wakeup, hit, cx),
            None => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.away.follow(change, |tid| tid);
        self.initial.follow(change);
        self.programs.follow(change);
        if let ThreadChange::Born { tid, .. } = change {
            self.early.remove(tid);
        }
    }

    fn on_switch_in(&mut self, _cpu: u32, tid: i32, time: u64, _cx: &mut Context<'_>) {
        self.came_unseen(tid, time);
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.away.forget();
        self.early.clear();
        self.initial.forget();
    }

    fn loss_text(&self) -> &'static str {
        "waits open at that time are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let waits = self.waits(at);
        let sites = Self::sites(&waits);
        let mut panels = vec![Self::table(&sites), Self::wakers_panel(at, &sites), Self::under_way(&waits)];
        panels.extend(self.graphs(at, &waits));
        let held = waits.iter().filter(|wait| wait.class != WaitClass::Work).map(|wait| (wait.tid, &wait.stats));
        panels.extend(self.containers.panel(at, held, false));
        panels
    }

    fn reset(&mut self, now: u64) {
        self.since = now;
        self.blocked.clear();
        self.hot.clear();
    }
}
