//! `offcpu`: blocked time by stack and waker, in addition to time on CPUs.

pub(crate) mod blocked;
mod panels;

use rustc_hash::FxHashMap;

use crate::units::kit::prelude::*;
use crate::units::kit::waits::classes::WaitClass;
use crate::units::kit::waits::initially_blocked::InitiallyBlocked;
use crate::units::kit::waits::sched::SchedEvent;

use blocked::{BlockedTime, CLOCK, DISK};

pub(crate) const SPEC: Spec = Spec {
    name: "offcpu",
    about: "off-CPU time: where tasks block, for how long, and who wakes them; on and off CPU in one flame graph",
    words: "slow why lock futex mutex contention wait latency blocked sleep deadlock hang stuck stall idle io disk \
            network tcp gc garbage throttle",
    help: "Blocked time is the time from leaving a CPU asleep until the wake-up, with the stack of the sleeper and \
           the stack of the waker. It includes sleep that has not ended. The time from wake-up to running is not \
           included; rundelay shows it. Share is relative to all time asleep. The waker is the cause of the wake-up: \
           a thread, a disk, a timer, the network, or irq_work by printk, perf or BPF, never the thread that an \
           interrupt interrupted. Wakers refers to the selected row, or to all rows that do not wait for work. A \
           call site has one row for each class of its waits, and the class depends on how the wait ends. A wait is \
           'waiting for work' if it ends by a timer, or by a message or connection from outside the program, or not \
           before the program's own end; so is each interruptible sleep of a kernel thread, of a thread of Go's \
           scheduler without a goroutine, and of HotSpot's own workers (compilers, GC and the like) without a task. \
           All of these are folded into one row after those with 1 % of the time, or the first row if it has the \
           most time and no wait may have delayed a request or other work. A wait is 'not known' if a thread of the \
           same program ends it, because it may be for a lock or for work. The same holds for the thread's other \
           waits in that place that a timer ends or that have not ended, and for those of other threads if the \
           waiters wake each other, as with a lock. A thread that a message or a connection from outside the program \
           wakes serves requests, and so does a thread to which it hands work, and one that now waits for a \
           message. In a program in which such threads have unknown waits, those of the other threads, such as \
           pools, are 'not known: outside of requests'. So are waits for a connection that another thread accepts, \
           and the unknown waits of other servers: programs that listen for connections, and receive more than five \
           messages a second, or run or are held up for less than 2 % of the time. A wait is 'not known: for its \
           main thread' if only messages of the program's main thread end the thread's waits in that place, because \
           helpers wait for what the main thread asks. These rows come after the others, even if they have more \
           time. All other waits are 'held up': by disks, in uninterruptible sleep, or by other programs that send \
           nothing. A wait is 'until another thread ends' or 'until another process ends' if that end wakes the \
           thread: a join, a wait for a child, or for the end of its output. It lasts as long as the other one \
           works and waits, so look at the rows of that one, which Woken by names. Such rows come after those of \
           all other classes except work. Processes that were forked without exec are one program. A broken stack \
           hides the place, so its wait has a class only if a message from outside ends it, or if the thread sleeps \
           until its own timer expires (clock_nanosleep), which the kernel's functions show. A break below the \
           first function of a Python program or the like hides nothing. Blocked in shows two of the kernel's \
           frames: the system call, and the function that waits. The flame graphs and --addresses show the whole \
           stack. Under way lists threads that are blocked now. The stacks of waits that began before the \
           measurement are read from the memory of the threads (512 threads on x86-64); elsewhere, /proc gives the \
           place. The hot and cold graph adds samples of a clock (-F, 99 Hz); both are in nanoseconds. The unit \
           measures from its start on; the live screen's table, flame graph and map show the time off the CPUs \
           before it, too (^O).",
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

/// Note for recordings of switches alone.
const WITHOUT_WAKEUPS: &str = "no wake-ups recorded: wakers are not known, and sleep counts until the thread runs \
                               (record -e sched:sched_switch,sched:sched_waking)";

#[derive(Clone, Debug, Default)]
struct OffCpu {
    blocked: BlockedTime,
    hz: u64,
    hot: FxHashMap<(ThreadKey, RetainedStack), u64>,
    containers: ByContainer,
}

impl OffCpu {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            blocked: BlockedTime::new(settings),
            hz: settings.hertz("frequency", 99)?.clamp(1, 10_000),
            ..Self::default()
        })
    }
}

impl Unit for OffCpu {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = BlockedTime::event_requests(self.hz);
        // Switches alone show where threads sleep, and for how long until they run again.
        wants[1] = std::mem::take(&mut wants[1]).only_live();
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.blocked.bind(event)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        match hit.role {
            CLOCK => {
                if hit.tid != 0 && cx.counts(hit.cpu) && cx.has(hit.tid) {
                    self.blocked.sampled(hit, cx);
                    let ns = self.hot.entry((cx.thread(hit.tid), hit.stack)).or_default();
                    *ns = ns.saturating_add(hit.period);
                }
                return;
            }
            DISK => return self.blocked.wakers.complete(hit, cx),
            _ if self.blocked.wakers.is_repeated(hit) => return,
            _ => {}
        }
        self.blocked.take_up(hit.time, cx);
        match self.blocked.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => _ = self.blocked.switched(switch, hit, cx),
            Some(SchedEvent::Wakeup(wakeup)) => self.blocked.woken(wakeup, hit, cx),
            None => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.blocked.thread_changed(change);
    }

    fn on_switch_in(&mut self, _cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        self.blocked.came(tid, time, cx);
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.blocked.lost();
    }

    fn loss_text(&self) -> &'static str {
        InitiallyBlocked::LOSS_TEXT
    }

    fn pin_sleepers(&mut self, pin: &mut dyn FnMut(&SleepingStack) -> Option<RetainedStack>) {
        self.blocked.pin_sleepers(pin);
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let waits = self.blocked.waits(at);
        let sites = Self::sites(&waits, at.now.saturating_sub(at.since.max(at.start)));
        let lacking = if self.blocked.reader.has_wakeups() { "" } else { WITHOUT_WAKEUPS };
        let [table, wakers] = [Self::table(&sites), Self::wakers_panel(at, &sites)];
        let [table, wakers] =
            [table, wakers].map(|panel| if lacking.is_empty() { panel } else { panel.noted(lacking) });
        let mut panels = vec![table, wakers, Self::under_way(&waits)];
        panels.extend(self.graphs(at, &waits));
        let held = waits.iter().filter(|wait| wait.class != WaitClass::Work).map(|wait| (wait.thread, &wait.stats));
        panels.extend(self.containers.panel(at, held, false));
        panels
    }

    fn reset(&mut self, now: u64) {
        self.blocked.reset(now);
        self.hot.clear();
    }
}
