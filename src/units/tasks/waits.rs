//! `waits`: the wall time of threads, divided by what they did and what they waited for.

mod panels;
mod parts;
mod pieces;
mod thread_times;

use rustc_hash::FxHashMap;

use crate::units::kit::prelude::*;
use crate::units::kit::tables::stack_labels::ByStack;
use crate::units::kit::waits::sched::{SchedEvent, SchedSwitch};

use crate::units::tasks::offcpu::blocked::{BlockedTime, CLOCK, Came, DISK};
use parts::SleepPlace;
use thread_times::ThreadTimes;

pub(crate) const SPEC: Spec = Spec {
    name: "waits",
    about: "where the time of each thread goes: CPU, run queue, locks, disks, network, pipes, timers, waiting for work",
    words: "slow why where wall second wait sleep idle hang stuck budget time blocked request thread throttle quota \
            breakdown",
    help: "A row is a thread, or a pool: threads of one program with one name, apart from numbers in it; Enter unfolds \
           it. The parts of a row add up to its wall time. User, kernel and interrupts on top of the thread divide the \
           exact time on CPUs by samples of a clock (-F, 499 Hz); 'ran' is time on CPUs of threads without a sample. \
           Runnable is the time in which a thread waited for a CPU; its stacks name the threads that ran there. It \
           counts as throttled if the CPU idled for a millisecond within the wait: its group had no quota left. On \
           CPUs that never idle, throttled time is part of runnable. Sleep is divided by the functions of the kernel \
           in which the thread sleeps, and by what ends it: locks of user code and of the kernel; disks and file \
           systems; the network; pipes and sockets of this machine, which include TCP connections to it (127.0.0.1), \
           whose waits a thread ends; page faults and reclaim (memory); timers of the thread itself; ends of child \
           processes and of threads; work: calls that wait for any of several events, connections and condition \
           variables, if nothing or something outside the program ends the wait. If another thread of the program ends \
           it, its part is 'woken by each other' (Peers): such a call may also wait for a lock or a row, as PostgreSQL \
           does in epoll_wait. A wait that still runs counts like most earlier ones of the thread in that place. \
           'Other' is sleep in places of no known kind. Unknown is the remainder: the time before a thread's first \
           record, and time for which records were lost. Active is the time without timers, children, work, stops and \
           the unknown, and without waits for pipes, sockets and the network that offcpu calls waiting for work. Each \
           sleep is one of offcpu, with the same time. The other panels refer to the selected row; Stacks and the \
           flame graph to the selected part as well.",
    example: "perfprof-tui waits -p 1234",
    output: "\
$ perfprof-tui waits -p 8996 --batch --duration 3 --panel Parts
  Time   Share  Times      Max  Part
5.47 s  60.8 %    122   124 ms  pipe or socket of this machine
1.48 s  16.4 %     76           runnable
1.01 s  11.3 %    100  50.0 ms  timer
464 ms   5.2 %     33  24.0 ms  lock",
    options: &["comm", "pids", "tids", "frequency", "addresses"],
    sees: Sees::Machine,
    across: Some("running on the chosen CPUs, waiting that ends on them, and sleep that begins on them"),
    interval: None,
    make: |settings| Ok(Box::new(Waits::new(settings)?)),
};

/// Limit of distinct threads and stacks of samples.
const MOST_SAMPLED: usize = 1 << 17;

/// A thread, its stack, and whether user code ran.
type Sampled = (ThreadKey, RetainedStack, bool);

#[derive(Clone, Debug, Default)]
struct Waits {
    hz: u64,
    times: ThreadTimes,
    blocked: BlockedTime,
    sampled: FxHashMap<Sampled, u64>,
    /// Number of sleeps with and without a recorded wakeup. The start of a new thread ends no sleep.
    woken: u64,
    unwoken: u64,
    /// Threads about which a recording of other threads has records.
    foreign: u64,
    /// Whether only some CPUs count, so that the parts are not the whole time.
    is_of_cpus: bool,
    places: ByStack<SleepPlace>,
    interrupts: ByStack<bool>,
    labels: StackLabels,
    containers: ByContainer,
}

impl Waits {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            hz: settings.hertz("frequency", 499)?.clamp(1, 10_000),
            blocked: BlockedTime::new(settings),
            is_of_cpus: settings.cpus()?.is_some(),
            labels: StackLabels::of(settings),
            ..Self::default()
        })
    }

    fn sample(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if hit.tid == 0 || !cx.counts(hit.cpu) || !cx.has(hit.tid) {
            return;
        }
        self.blocked.sampled(hit, cx);
        let mut key = (cx.thread(hit.tid), hit.stack, hit.user);
        if self.sampled.len() >= MOST_SAMPLED && !self.sampled.contains_key(&key) {
            key.1 = RetainedStack::NONE;
        }
        let ns = self.sampled.entry(key).or_default();
        *ns = ns.saturating_add(hit.period);
    }

    fn switched(&mut self, switch: SchedSwitch, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let came = self.blocked.switched(switch, hit, cx);
        self.turn(switch, came, hit, cx);
    }

    fn turn(&mut self, switch: SchedSwitch, came: Came, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let comes = cx.follows(switch.next).then_some(came);
        self.unwoken += u64::from(comes == Some(Came::Asleep));
        let on = (hit.cpu, hit.time, cx.counts(hit.cpu));
        let leaves = cx.follows(switch.prev);
        self.times.switch(on, switch, [switch.prev, switch.next].map(|tid| cx.thread(tid)), leaves, comes);
        if cx.is_narrow() {
            let others = [(switch.prev, leaves), (switch.next, comes.is_some())];
            let others = others.into_iter().filter(|(_, is_followed)| !is_followed);
            others.for_each(|(tid, _)| self.times.unfollow(cx.thread(tid), hit.time));
        }
    }
}

impl Unit for Waits {
    fn event_requests(&self) -> Vec<EventRequest> {
        BlockedTime::event_requests(self.hz)
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.blocked.bind(event)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        match hit.role {
            CLOCK => return self.sample(hit, cx),
            DISK => return self.blocked.wakers.complete(hit, cx),
            _ if self.blocked.wakers.is_repeated(hit) => return,
            _ => {}
        }
        self.times.begin(hit.time);
        for tid in self.blocked.take_up(hit.time, cx) {
            self.times.sleeps_since_before(cx.thread(tid));
        }
        match self.blocked.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => self.switched(switch, hit, cx),
            Some(SchedEvent::Wakeup(wakeup)) => {
                self.blocked.woken(wakeup, hit, cx);
                if cx.follows(wakeup.tid) {
                    let is_new = hit.role == 2;
                    self.woken += u64::from(!is_new);
                    self.times.wake(cx.thread(wakeup.tid), hit.time, is_new, cx.counts(wakeup.cpu));
                }
            }
            None => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn thread_changed(&mut self, change: &ThreadChange, time: u64, cx: &mut Context<'_>) {
        self.blocked.thread_changed(change);
        match change {
            ThreadChange::Born { tid, .. } => self.times.born(cx.thread(*tid), cx.names.earlier(*tid), time),
            ThreadChange::Ended { tid, .. } => self.times.ended(cx.thread(*tid), time),
            ThreadChange::Exec { pid, from, gone } => {
                gone.iter().for_each(|tid| self.times.ended(cx.thread(*tid), time));
                from.iter().for_each(|from| self.times.renumber(cx.thread(*from), cx.thread(*pid)));
            }
        }
    }

    fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        if let Some(switch) = SchedSwitch::untold(self.times.on(cpu), tid) {
            let came = self.blocked.came(tid, time, cx);
            self.turn(switch, came, &UnitSample::switch_in(cpu, tid, time), cx);
        }
    }

    fn lost(&mut self, lost: &LostEvents) {
        self.blocked.lost();
        self.times.lost(lost.from, lost.until);
    }

    fn loss_text(&self) -> &'static str {
        "the time of threads is unknown from there to their next record"
    }

    fn pin_sleepers(&mut self, pin: &mut dyn FnMut(&SleepingStack) -> Option<RetainedStack>) {
        self.blocked.pin_sleepers(pin);
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.all_panels(at)
    }

    fn reset(&mut self, now: u64) {
        self.blocked.reset(now);
        self.times.reset(now);
        (self.woken, self.unwoken) = (0, 0);
        self.sampled.clear();
    }
}
