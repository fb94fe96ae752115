//! `rundelay`: time that runnable tasks waited for a CPU, the reason, and the tasks that ran meanwhile.

mod meanwhile;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::row_order::arrange_by_key;
use crate::panel::unit;
use crate::session::OUTSIDE;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::classes::Sleep;
use crate::units::kit::waits::cpu_runs::{CpuRun, CpuRuns};
use crate::units::kit::waits::sched::{self, SchedEvent, SchedReader, state};

pub(crate) const SPEC: Spec = Spec {
    name: "rundelay",
    about: "run-queue delay: how long tasks wait for a CPU, why, and which tasks run meanwhile",
    words: "latency slow why runqueue scheduler starvation throttle quota steal wait cpu load contention",
    help: "A wait begins when a task is woken, is preempted or yields, and ends when the task is switched in. A \
           wake-up of a task that already waits or runs does not begin a wait. The kernel reports tasks preempted by \
           a tick on the way to user code like tasks that yield (both have state R); the tracepoint of sched_yield \
           distinguishes them, and without it all count as preempted. Waits that have not ended appear only in the \
           column Now. The tasks that ran meanwhile are those that had the CPU on which the wait ended. With \
           --detail, or with events in addition to its own (-e sched:sched_wakeup*,sched:sched_switch -e \
           sched:sched_switch,profile/-F 500/untraced/), waits are pairs as in multi-trace, with the events in \
           between.",
    example: "perfprof-tui rundelay --than 10ms",
    output: "\
$ perfprof-tui rundelay --than 10ms --batch --duration 2
Comm               TID  Calls    Total      Min     Mean      p50…
spinner          27694    170   1.54 s  3.99 ms  9.05 ms  9.83 ms  11…
spinner          27684    159   1.54 s  4.00 ms  9.67 ms  10.4 ms  16…",
    options: &[
        "than",
        "only-than",
        "lower",
        "comm",
        "pids",
        "tids",
        "per-cpu",
        "keep",
        "event",
        "detail",
        "frequency",
        "addresses",
    ],
    sees: Sees::Machine,
    across: Some("waits that end on the chosen CPUs"),
    interval: None,
    make: |settings| match meanwhile::asked(settings)? {
        Some(pairs) => {
            *settings = pairs;
            (crate::units::events::multi_trace::SPEC.make)(settings)
        }
        None => Ok(Box::new(RunDelay::new(settings)?)),
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Wakeup,
    Preempted,
    Yielded,
}

impl Why {
    const ALL: [Self; 3] = [Self::Wakeup, Self::Preempted, Self::Yielded];

    fn label(self) -> &'static str {
        match self {
            Self::Wakeup => "wake-up",
            Self::Preempted => "preempted",
            Self::Yielded => "yielded",
        }
    }
}

/// The wait of a task, which ends with a switch to it.
type Wait = OpenSpan<Why, ()>;

/// The role of the sched_yield tracepoint.
const YIELD: usize = 3;
const MAX_PAIRS: usize = 1 << 16;
/// Limit of tasks that are asleep.
const MAX_ASLEEP: usize = 1 << 20;

/// The waits of a thread or a CPU by reason.
type Row = [Stats; 3];

#[derive(Clone, Copy, Debug)]
struct Slow {
    thread: ThreadKey,
    cpu: u32,
    end: u64,
    why: Why,
    /// The task that ran longest meanwhile.
    runner: Option<(ThreadKey, u64)>,
}

#[derive(Clone, Debug, Default)]
struct RunDelay {
    reader: SchedReader,
    per_cpu: bool,
    waiting: OpenSpans<i32, Why, ()>,
    /// Tasks that called sched_yield and have not left their CPU since.
    yielding: FxHashSet<i32>,
    tells_yields: bool,
    /// The thread that each CPU switched to last.
    current: OpenSpans<u32, i32, ()>,
    runs: CpuRuns,
    /// By thread, or with `--per-cpu` by the number of the CPU.
    rows: FxHashMap<ThreadKey, Row>,
    containers: ByContainer,
    /// Time by row and running thread.
    meanwhile: FxHashMap<(ThreadKey, ThreadKey), u64>,
    map: Grid<u32>,
    slowest: Slowest<Slow>,
    missed: u64,
    /// Tasks that fell asleep and were not woken since, and the number of those that ran without a recorded wakeup.
    asleep: FxHashSet<i32>,
    unwoken: u64,
}

impl RunDelay {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self { per_cpu: settings.has("per-cpu"), slowest: Slowest::of(settings)?, ..Self::default() })
    }

    /// Returns the thread on a CPU and its start.
    fn on(&self, cpu: u32) -> Option<(i32, u64)> {
        self.current.get(&cpu).map(|run| (run.what, run.since))
    }

    fn runs_on(&self, cpu: u32, tid: i32) -> bool {
        self.on(cpu).is_some_and(|(current, _)| current == tid)
    }

    /// Corrects the history when a thread leaves without a record of its arrival: it waited until its CPU was free,
    /// and the start of any other run there is unknown.
    fn mend(&mut self, tid: i32, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let mended = |current: i32| current != tid && ![current, tid].contains(&OUTSIDE);
        let Some((current, since)) = self.on(hit.cpu).filter(|(current, _)| mended(*current)) else { return };
        self.missed += u64::from(cx.counts(hit.cpu));
        let came = self.waiting.take(&tid).filter(|_| current == 0 && tid != 0).map(|wait| {
            let time = wait.since.max(since);
            self.end(tid, wait, &UnitSample { time, raw: &[], ..*hit }, cx);
            time
        });
        self.current.close(&hit.cpu);
        if let Some(time) = came {
            self.current.begin(hit.cpu, tid, time, ());
        }
    }

    fn switch(&mut self, switch: sched::SchedSwitch, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        self.mend(switch.prev, hit, cx);
        let before = self.on(hit.cpu);
        let before = before.map(|(tid, from)| CpuRun { thread: cx.thread(tid), from, until: hit.time });
        if !self.runs.add(hit.cpu, before) {
            return;
        }
        self.current.replace(hit.cpu, switch.next, hit.time, ());
        if switch.prev != 0 {
            let why = match switch.prev_state {
                0 if self.tells_yields && self.yielding.remove(&switch.prev) => Some(Why::Yielded),
                0 => Some(Why::Preempted),
                s if s & state::PREEMPTED != 0 => Some(Why::Preempted),
                _ => None,
            };
            match why {
                Some(why) => drop(self.waiting.replace(switch.prev, why, hit.time, ())),
                None => {
                    self.waiting.close(&switch.prev);
                    let is_told = switch.prev_state != state::UNTOLD && Sleep::of(switch.prev_state).is_some();
                    if is_told && self.asleep.len() < MAX_ASLEEP {
                        self.asleep.insert(switch.prev);
                    }
                }
            }
        }
        let was_asleep = self.asleep.remove(&switch.next);
        match self.waiting.take(&switch.next) {
            Some(wait) if switch.next != 0 => self.end(switch.next, wait, hit, cx),
            None if was_asleep && cx.counts(hit.cpu) && cx.follows(switch.next) => self.unwoken += 1,
            _ => {}
        }
    }

    fn end(&mut self, tid: i32, wait: Wait, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if !cx.counts(hit.cpu) || !cx.follows(tid) {
            return;
        }
        let ns = wait.took(hit.time);
        let own = UnitSample { tid, ..*hit };
        let above = self.slowest.exceeds(&own, cx.names, ns);
        let thread = cx.thread(tid);
        let key = if self.per_cpu { ThreadKey::of_row(hit.cpu.into()) } else { thread };
        let stats = &mut self.rows.entry(key).or_default()[wait.what as usize];
        stats.add_than(ns, above);
        cx.point(["sched_wakeup", "sched_switch"], hit.time, ns);
        cx.find(tid, RetainedStack::NONE, || format!("waited for CPU {} for {}", hit.cpu, unit::duration(ns)));
        self.map.spread(&hit.cpu, wait.since, hit.time);
        let mut longest: Option<(ThreadKey, u64)> = None;
        for run in self.runs.since(hit.cpu, wait.since) {
            let ns = run.until - run.from.max(wait.since);
            if run.thread.tid == 0 || run.thread == thread {
                continue;
            }
            let n = self.meanwhile.len();
            if n < MAX_PAIRS || self.meanwhile.contains_key(&(key, run.thread)) {
                *self.meanwhile.entry((key, run.thread)).or_default() += ns;
            }
            if longest.is_none_or(|(_, most)| ns > most) {
                longest = Some((run.thread, ns));
            }
        }
        self.slowest.add(above, ns, || Slow { thread, cpu: hit.cpu, end: hit.time, why: wait.what, runner: longest });
    }

    fn threads(&self, at: &Moment<'_>) -> Panel {
        let (by_cpu, than) = (self.per_cpu, self.slowest.has_threshold());
        let mut list: Vec<(ThreadKey, &Row, Stats)> =
            self.rows.iter().map(|(key, row)| (*key, row, row.iter().sum())).collect();
        arrange_by_key(&mut list, |(key, _, all)| (std::cmp::Reverse(all.sum), *key));
        let by = |row: &Row, why: Why| time(row[why as usize].sum);
        let now = |key: ThreadKey| {
            let tid = at.names.current(key).filter(|_| !by_cpu);
            let wait = tid.and_then(|tid| self.waiting.get(&tid));
            wait.map_or(Cell::Empty, |wait| time(wait.took(at.now)))
        };
        let sheet = Sheet::of(&list, |(key, ..)| key.row())
            .when(by_cpu, |sheet| sheet.right("cpu", "CPU", 5, |(cpu, ..)| Cell::Id(cpu.tid.into())))
            .when(!by_cpu, |sheet| sheet.task(at, |(thread, ..)| *thread))
            .latency(than, |(.., all)| all)
            .right("wakeup_ns", "Wake-up", 9, |(_, row, _)| by(row, Why::Wakeup))
            .right("preempted_ns", "Preempted", 9, |(_, row, _)| by(row, Why::Preempted))
            .right("yielded_ns", "Yielded", 9, |(_, row, _)| by(row, Why::Yielded))
            .right("now_ns", "Now", 8, |(key, ..)| now(*key));
        let missed = note(self.missed, "switch", "not recorded: waits end when their CPU idles");
        let woken = self.rows.values().map(|row| row[Why::Wakeup as usize].n).sum();
        let unwoken = sched::note_unwoken(self.unwoken, woken, "the waits after them are left out");
        let note = [missed, unwoken].into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ");
        sheet.panel(if by_cpu { "CPUs" } else { "Threads" }).noted(note)
    }

    fn reasons(&self) -> Panel {
        let of = |why: Why| self.rows.values().map(|row| &row[why as usize]).sum::<Stats>();
        let mut list = Why::ALL.map(|why| (why.label(), of(why))).to_vec();
        list.push(("all", list.iter().map(|(_, stats)| stats).sum()));
        let note = if self.tells_yields { "" } else { "yields count as preempted: sched_yield was not recorded" };
        Sheet::of(list.iter().enumerate(), |(at, _)| at as u64)
            .left("reason", "Reason", 12, |(_, (reason, _))| text(*reason))
            .latency(self.slowest.has_threshold(), |(_, (_, stats))| stats)
            .whole("Reasons")
            .noted(note)
    }

    fn runners(&self, at: &Moment<'_>) -> Panel {
        let selected = at.selected(0).map(ThreadKey::of_row).filter(|key| self.rows.contains_key(key));
        let mut sums: FxHashMap<ThreadKey, u64> = FxHashMap::default();
        for ((_, runner), ns) in self.meanwhile.iter().filter(|((key, _), _)| selected.is_none_or(|s| s == *key)) {
            *sums.entry(*runner).or_default() += ns;
        }
        let total = sums.values().sum();
        let sheet = Sheet::of(by_weight(sums, |ns| *ns), |(thread, _)| thread.row())
            .task(at, |(thread, _)| thread)
            .right("total_ns", "Ran", 9, |(_, ns)| time(ns))
            .share(|(_, ns)| ns, total);
        let who = selected.filter(|_| !self.per_cpu).map(|thread| format!(" {}", at.task(thread))).unwrap_or_default();
        sheet.panel(format!("Ran while{who} waited"))
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., slow)| Cell::Time(at.after(slow.end)))
            .task(at, |(.., slow)| slow.thread)
            .right("cpu", "CPU", 4, |(.., slow)| Cell::Id(slow.cpu.into()))
            .right("delay_ns", "Waited", 8, |(ns, ..)| time(ns))
            .left("reason", "Reason", 10, |(.., slow)| text(slow.why.label()))
            .left("runner", "Longest runner", 24, |(.., slow)| {
                slow.runner.map_or(text("–"), |(thread, _)| text(at.task(thread)))
            })
            .right("runner_ns", "For", 8, |(.., slow)| time(slow.runner.map_or(0, |(_, ns)| ns)))
            .whole("Longest waits")
    }
}

impl Unit for RunDelay {
    /// `key=` as in command lines of perf-prof: its keys are those of the unit.
    fn attributes(&self) -> &'static [&'static str] {
        &["key"]
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants(false);
        wants.push(EventRequest::new("syscalls:sys_enter_sched_yield").optional());
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if event.role == 0 {
            self.slowest.bind(event)?;
        }
        if event.role == YIELD {
            self.tells_yields = true;
            return Ok(());
        }
        self.reader.bind(event.role, event.format)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if hit.role == YIELD {
            self.yielding.insert(hit.tid);
            return;
        }
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => self.switch(switch, hit, cx),
            // A wakeup of a running or waiting task does not start a wait.
            Some(SchedEvent::Wakeup(wakeup)) => {
                self.asleep.remove(&wakeup.tid);
                let begins = !self.runs_on(wakeup.cpu, wakeup.tid) && self.waiting.get(&wakeup.tid).is_none();
                if begins {
                    self.waiting.begin(wakeup.tid, Why::Wakeup, hit.time, ());
                }
            }
            None => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        if let Some(switch) = sched::SchedSwitch::untold(self.on(cpu).map(|(tid, _)| tid), tid) {
            self.switch(switch, &UnitSample::switch_in(cpu, tid, time), cx);
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.waiting.follow(change, |tid| tid);
        if let ThreadChange::Born { tid, .. } | ThreadChange::Ended { tid, .. } = change {
            self.asleep.remove(tid);
        }
        if let ThreadChange::Exec { pid, from: Some(from), .. } = change {
            self.current.rename(from, *pid);
            self.yielding.remove(from);
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.waiting.forget();
        self.asleep.clear();
        self.yielding.clear();
        self.current.forget();
        self.runs.clear();
    }

    fn loss_text(&self) -> &'static str {
        "waits open at that time are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let chosen = at.selected(0).and_then(|id| self.rows.get(&ThreadKey::of_row(id)));
        let stats = chosen.map_or_else(|| self.rows.values().flatten().sum(), |row| row.iter().sum::<Stats>());
        let powers = latency::by_powers("Distribution", &stats, Measure::Time);
        let map = self.map.heatmap("Waited by CPU and time", at, Measure::Time, 64, |cpu| format!("CPU {cpu}"));
        let sums: Vec<(ThreadKey, Stats)> = match self.per_cpu {
            true => Vec::new(),
            false => self.rows.iter().map(|(tid, row)| (*tid, row.iter().sum())).collect(),
        };
        let threads = sums.iter().map(|(tid, stats)| (*tid, stats));
        let containers = self.containers.panel(at, threads, self.slowest.has_threshold());
        let mut panels = vec![self.threads(at), self.runners(at), self.slow(at), self.reasons(), powers, map];
        panels.extend(containers);
        panels
    }

    fn reset(&mut self, _now: u64) {
        (self.missed, self.unwoken) = (0, 0);
        self.rows.clear();
        self.meanwhile.clear();
        self.map.clear();
        self.slowest.clear();
    }
}
