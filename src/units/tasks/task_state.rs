//! `task-state`: time of tasks by state: running, waiting for a CPU, asleep, waiting for a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::row_order::arrange_by_key;
use crate::panel::unit;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::containers;
use crate::units::kit::waits::sched::{self, SchedEvent, SchedReader, SchedSwitch, state};

pub(crate) const SPEC: Spec = Spec {
    name: "task-state",
    about: "time by state of tasks: R running, RD waiting for a CPU, S and D asleep, T t stopped, I idle",
    words: "state uninterruptible d-state running sleeping stuck hang why slow time",
    help: "Times are those within the interval, including the current state, so the states of a thread that existed \
           all the time add up to the interval. The state before a thread's first wake-up is unknown ('?'). Periods \
           are counted when they end. With -g, sleep is listed by the stack that went to sleep.",
    example: "perfprof-tui task-state -g -D",
    output: "\
$ perfprof-tui task-state --comm tick,spinner --batch --duration 2
Comm       TID  Now   So far   Total        R              RD…
spinner  27683  RD   4.00 ms  2.05 s   503 ms  24.6 %  1.54 s  75.4 %
spinner  27684  RD   12.0 ms  2.05 s   500 ms  24.5 %  1.55 s  75.5 %
spinner  27693  R       0 ns  2.05 s   500 ms  24.5 %  1.55 s  75.5 %",
    options: &["stack", "than", "comm", "pids", "tids", "interruptible", "uninterruptible", "keep", "addresses"],
    sees: Sees::Machine,
    across: Some("running on the chosen CPUs, waiting that ends on them, and sleep that begins on them"),
    interval: None,
    make: |settings| Ok(Box::new(TaskState::new(settings)?)),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ThreadState {
    Running,
    Runnable,
    Interruptible,
    Uninterruptible,
    Stopped,
    Traced,
    Idle,
    Parked,
    Unknown,
}

impl ThreadState {
    /// In order of their numbers: the letter as in `ps` and perf (RD is runnable without a CPU), the columns of time
    /// and share, and the text in a sentence.
    const ALL: [(Self, &str, [&str; 2], &str); 9] = [
        (Self::Running, "R", ["r_ns", "r_pct"], "ran (R)"),
        (Self::Runnable, "RD", ["rd_ns", "rd_pct"], "waited for a CPU (RD)"),
        (Self::Interruptible, "S", ["s_ns", "s_pct"], "slept (S)"),
        (Self::Uninterruptible, "D", ["d_ns", "d_pct"], "slept uninterruptibly (D)"),
        (Self::Stopped, "T", ["stopped_ns", "stopped_pct"], "was stopped (T)"),
        (Self::Traced, "t", ["traced_ns", "traced_pct"], "was stopped by its tracer (t)"),
        (Self::Idle, "I", ["i_ns", "i_pct"], "was idle (I)"),
        (Self::Parked, "P", ["p_ns", "p_pct"], "was parked (P)"),
        (Self::Unknown, "?", ["unknown_ns", "unknown_pct"], "was in an unknown state"),
    ];

    fn letter(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// From `prev_state`; `None` for a task that ends.
    fn of(bits: i64) -> Option<Self> {
        Some(match bits {
            bits if bits & (state::DEAD | state::ZOMBIE) != 0 => return None,
            bits if bits & state::PREEMPTED != 0 || bits == 0 => Self::Runnable,
            bits if bits & state::IDLE != 0 => Self::Idle,
            bits if bits & state::PARKED != 0 => Self::Parked,
            bits if bits & state::TRACED != 0 => Self::Traced,
            bits if bits & state::STOPPED != 0 => Self::Stopped,
            bits if bits & state::UNINTERRUPTIBLE != 0 => Self::Uninterruptible,
            bits if bits & state::INTERRUPTIBLE != 0 => Self::Interruptible,
            _ => Self::Unknown,
        })
    }

    fn sleeps(self) -> bool {
        !matches!(self, Self::Running | Self::Runnable)
    }
}

/// The circumstances of a task's state.
#[derive(Clone, Copy, Debug)]
struct Within {
    thread: ThreadKey,
    /// Whether its current, next or last CPU is selected.
    counts: bool,
    /// Where it left the CPU.
    stack: RetainedStack,
    /// When the end of the task was reported: it runs until its last switch at most.
    ended: Option<u64>,
}

type Now = OpenSpan<ThreadState, Within>;

impl Within {
    fn new(thread: ThreadKey, counts: bool, stack: RetainedStack) -> Self {
        Self { thread, counts, stack, ended: None }
    }
}

impl Now {
    /// Returns the time up to which it counts.
    fn until(&self, now: u64) -> u64 {
        self.with.ended.map_or(now, |ended| ended.min(now))
    }
}

#[derive(Clone, Debug, Default)]
struct Row {
    /// Time in each state in this interval, without the current state.
    spent: [u64; 9],
    periods: BTreeMap<ThreadState, Stats>,
}

#[derive(Clone, Copy, Debug)]
struct Slow {
    thread: ThreadKey,
    state: ThreadState,
    end: u64,
    stack: RetainedStack,
}

#[derive(Clone, Debug, Default)]
struct TaskState {
    reader: SchedReader,
    stack: bool,
    only: Vec<ThreadState>,
    tasks: OpenSpans<i32, ThreadState, Within>,
    rows: FxHashMap<ThreadKey, Row>,
    /// The start of the record: a task that leaves at the first switch was running since then.
    began: u64,
    since: u64,
    seen_cpus: FxHashMap<u32, i32>,
    /// The task that each CPU switched to last, and when.
    current: OpenSpans<u32, i32, ()>,
    /// Number of switches from idle that were not recorded.
    missed: u64,
    blocked: FxHashMap<(ThreadKey, ThreadState, RetainedStack), Stats>,
    slowest: Slowest<Slow>,
    containers: ByContainer,
    labels: StackLabels,
}

impl TaskState {
    fn new(settings: &Settings) -> Result<Self, String> {
        let mut only = Vec::new();
        only.extend(settings.has("interruptible").then_some(ThreadState::Interruptible));
        only.extend(settings.has("uninterruptible").then_some(ThreadState::Uninterruptible));
        Ok(Self {
            stack: settings.has("stack"),
            only,
            slowest: Slowest::of(settings)?,
            labels: StackLabels::of(settings),
            ..Self::default()
        })
    }

    fn shows(&self, state: ThreadState) -> bool {
        self.only.is_empty() || self.only.contains(&state)
    }

    /// Changes the state of a task, or ends the task, on its current or next CPU.
    fn turn(
        &mut self,
        tid: i32,
        to: Option<ThreadState>,
        cpu: u32,
        stack: RetainedStack,
        hit: &UnitSample<'_>,
        cx: &mut Context<'_>,
    ) {
        if !cx.follows(tid) {
            return;
        }
        let (thread, counts) = (cx.thread(tid), cx.counts(cpu));
        let before = match to {
            Some(state) => self.tasks.replace(tid, state, hit.time, Within::new(thread, counts, stack)),
            None => self.tasks.take(&tid),
        };
        let first = before.is_none();
        // Before its first record, a task was in the state that this record ends.
        let before = before.unwrap_or(Now {
            what: self.first_state(tid, to, hit),
            since: self.began,
            with: Within::new(thread, counts, RetainedStack::NONE),
        });
        // A waiting task may run on another CPU than the one that it waited for.
        if !(if before.what == ThreadState::Runnable { counts } else { before.with.counts }) {
            return;
        }
        let (state, stack, ns) = (before.what, before.with.stack, before.took(hit.time));
        let row = self.rows.entry(thread).or_default();
        row.spent[state as usize] += hit.time.saturating_sub(before.since.max(self.since));
        if first || !(self.only.is_empty() || self.only.contains(&state)) {
            return;
        }
        let above = self.slowest.exceeds(&UnitSample { tid, ..*hit }, cx.names, ns);
        if self.slowest.lists(above) {
            let (.., words) = ThreadState::ALL[state as usize];
            cx.find(tid, stack, || format!("{words} for {}", unit::duration(ns)));
        }
        let stats = row.periods.entry(state).or_default();
        stats.add_than(ns, above);
        if state.sleeps() {
            self.blocked.entry((thread, state, stack)).or_default().add(ns);
        }
        if state != ThreadState::Running {
            self.slowest.add(above, ns, || Slow { thread, state, end: hit.time, stack });
        }
    }

    /// Ends the time of a task in its state without a record.
    fn close(&mut self, now: &Now, until: u64) {
        if now.with.counts {
            let row = self.rows.entry(now.with.thread).or_default();
            row.spent[now.what as usize] += until.saturating_sub(now.since.max(self.since));
        }
    }

    fn first_state(&self, tid: i32, to: Option<ThreadState>, hit: &UnitSample<'_>) -> ThreadState {
        match to {
            // It starts to run without a wakeup since the start: it waited all the time. A context switch record,
            // however, may also come without a recorded wakeup.
            Some(ThreadState::Running) if hit.role == 0 => ThreadState::Runnable,
            _ if hit.role == 0 && self.seen_cpus.get(&hit.cpu) == Some(&tid) => ThreadState::Running,
            _ => ThreadState::Unknown,
        }
    }

    fn switch(&mut self, switch: SchedSwitch, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        self.seen_cpus.entry(hit.cpu).or_insert(switch.prev);
        if self.began == 0 {
            (self.began, self.since) = (hit.time, self.since.max(hit.time));
        }
        let before = self.current.replace(hit.cpu, switch.next, hit.time, ()).map(|run| (run.what, run.since));
        let now = self.tasks.get(&switch.prev).copied();
        if let (Some((0, idle_since)), Some(now)) = (before, now)
            && now.what == ThreadState::Runnable
        {
            // Some guest kernels do not record every switch from idle. The CPU was free: the task ran at once.
            self.missed += u64::from(cx.counts(hit.cpu));
            let at = UnitSample { time: now.since.max(idle_since), ..*hit };
            self.turn(switch.prev, Some(ThreadState::Running), hit.cpu, RetainedStack::NONE, &at, cx);
        }
        self.turn(switch.prev, ThreadState::of(switch.prev_state), hit.cpu, hit.stack, hit, cx);
        self.turn(switch.next, Some(ThreadState::Running), hit.cpu, RetainedStack::NONE, hit, cx);
    }

    fn wakeup(&mut self, sched::Wakeup { tid, cpu, .. }: sched::Wakeup, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if self.began == 0 {
            (self.began, self.since) = (hit.time, self.since.max(hit.time));
        }
        let awake = self.tasks.get(&tid).is_some_and(|now| !now.what.sleeps());
        if awake {
            return;
        }
        if hit.role == 2 && self.tasks.get(&tid).is_none() && cx.follows(tid) {
            // It is created here.
            let (thread, counts) = (cx.thread(tid), cx.counts(cpu));
            let within = Within::new(thread, counts, RetainedStack::NONE);
            self.tasks.begin(tid, ThreadState::Runnable, hit.time, within);
            if counts {
                self.rows.entry(thread).or_default();
            }
            return;
        }
        self.turn(tid, Some(ThreadState::Runnable), cpu, RetainedStack::NONE, hit, cx);
    }

    /// Returns the current state of a thread; `None` if another thread has its number now.
    fn current_state(&self, thread: ThreadKey) -> Option<&Now> {
        self.tasks.get(&thread.tid).filter(|now| now.with.thread == thread)
    }

    /// Returns a thread's time in each state up to now.
    fn spent(&self, thread: ThreadKey, row: &Row, now: u64) -> [u64; 9] {
        let mut spent = row.spent;
        if let Some(current) = self.current_state(thread).filter(|current| current.with.counts) {
            spent[current.what as usize] += current.until(now).saturating_sub(current.since.max(self.since));
        }
        spent
    }

    fn by_thread(&self, at: &Moment<'_>) -> Vec<(ThreadKey, [u64; 9])> {
        let all = self.rows.iter().map(|(thread, row)| (*thread, self.spent(*thread, row, at.now)));
        let mut list: Vec<_> = all.filter(|(_, spent)| self.only.is_empty() || self.weight(spent) > 0).collect();
        arrange_by_key(&mut list, |(thread, spent)| (std::cmp::Reverse(self.weight(spent)), *thread));
        list
    }

    /// Returns the sort key: the time in the selected states, or else in all states except voluntary sleep.
    fn weight(&self, spent: &[u64; 9]) -> u64 {
        let chosen = if self.only.is_empty() {
            &[ThreadState::Running, ThreadState::Runnable, ThreadState::Uninterruptible][..]
        } else {
            &self.only
        };
        chosen.iter().map(|state| spent[*state as usize]).sum()
    }

    fn with_states<'a, T: Copy + 'a>(&self, sheet: Sheet<'a, T>, spent: impl Fn(T) -> [u64; 9] + 'a) -> Sheet<'a, T> {
        let shown = ThreadState::ALL.iter().filter(|(state, ..)| self.shows(*state));
        let columns =
            shown.clone().flat_map(|(_, letter, [ns, percent], _)| [right(ns, letter, 8), right(percent, "", 7)]);
        let states: Vec<usize> = shown.map(|(state, ..)| *state as usize).collect();
        sheet.columns(columns, move |thing| {
            let spent = spent(thing);
            let total = spent.iter().sum();
            states.iter().flat_map(|state| [time(spent[*state]), share(spent[*state], total)]).collect::<Vec<_>>()
        })
    }

    fn by_container(&mut self, at: &Moment<'_>, list: &[(ThreadKey, [u64; 9])]) -> Option<Panel> {
        let mut containers = std::mem::take(&mut self.containers);
        let add = |sum: &mut [u64; 9], spent: [u64; 9]| sum.iter_mut().zip(spent).for_each(|(sum, ns)| *sum += ns);
        let sums = containers.sums(at, list.iter().copied(), add, |spent| self.weight(spent));
        self.containers = containers;
        Some(self.with_states(ByContainer::sheet(&sums)?, |(_, (_, spent))| *spent).panel(containers::TITLE))
    }

    fn by_task(&self, at: &Moment<'_>, list: &[(ThreadKey, [u64; 9])]) -> Panel {
        let now = |thread: ThreadKey| self.current_state(thread).filter(|now| now.with.ended.is_none());
        let so_far = |now: &Now| Cell::Time(now.took(at.now));
        let sheet = Sheet::of(list.iter().copied(), |(thread, _)| thread.row())
            .task(at, |(thread, _)| thread)
            .left("state", "Now", 4, |(thread, _)| text(now(thread).map_or("–", |now| now.what.letter())))
            .right("so_far_ns", "So far", 8, |(thread, _)| now(thread).map_or(Cell::Empty, so_far))
            .right("total_ns", "Total", 8, |(_, spent)| Cell::Time(spent.iter().sum()));
        let sheet = self.with_states(sheet, |(_, spent)| spent);
        let what = "from idle not recorded: the tasks count as running since they could";
        sheet.panel("Tasks").noted(note(self.missed, "switch", what))
    }

    fn periods(&self, at: &Moment<'_>) -> Panel {
        let selected = at.selected(0).map(ThreadKey::of_row).filter(|thread| self.rows.contains_key(thread));
        let mut list: Vec<(ThreadKey, ThreadState, &Stats)> = Vec::new();
        for (thread, row) in self.rows.iter().filter(|(thread, _)| selected.is_none_or(|s| s == **thread)) {
            list.extend(row.periods.iter().map(|(state, stats)| (*thread, *state, stats)));
        }
        arrange_by_key(&mut list, |(thread, state, stats)| (std::cmp::Reverse(stats.sum), *thread, *state));
        let sheet = Sheet::of(list, |(thread, state, _)| id(&(thread, state)))
            .task(at, |(thread, ..)| thread)
            .left("state", "St", 3, |(_, state, _)| text(state.letter()))
            .latency(self.slowest.has_threshold(), |(.., stats)| stats);
        let who = selected.map(|thread| format!(" of {}", at.task(thread))).unwrap_or_default();
        sheet.panel(format!("Periods{who}"))
    }

    fn slow(&mut self, at: &Moment<'_>) -> Panel {
        let lines: Vec<Arc<str>> = self.slowest.iter().map(|(.., slow)| self.labels.line(at, slow.stack)).collect();
        Sheet::of(self.slowest.iter().zip(&lines), |((_, number, _), _)| number)
            .right("time_ns", "Until", 9, |((.., slow), _)| Cell::Time(at.after(slow.end)))
            .task(at, |((.., slow), _)| slow.thread)
            .left("state", "St", 3, |((.., slow), _)| text(slow.state.letter()))
            .right("ns", "For", 8, |((ns, ..), _)| time(ns))
            .left("stack", "Where", 0, |(_, line)| text(line.clone()))
            .whole("Longest periods")
    }

    fn asleep(&self, at: &Moment<'_>) -> Vec<(ThreadKey, ThreadState, RetainedStack, u64, u64)> {
        let mut sums: FxHashMap<(ThreadKey, ThreadState, RetainedStack), (u64, u64)> =
            self.blocked.iter().map(|(key, stats)| (*key, (stats.sum, stats.n))).collect();
        let asleep = |now: &Now| now.with.counts && now.what.sleeps() && self.shows(now.what);
        for (_, now) in self.tasks.iter().filter(|(_, now)| asleep(now)) {
            let entry = sums.entry((now.with.thread, now.what, now.with.stack)).or_default();
            *entry = (entry.0 + at.now.saturating_sub(now.since.max(self.since)), entry.1 + 1);
        }
        let mut list: Vec<_> = sums.into_iter().map(|((thread, s, pin), (ns, n))| (thread, s, pin, ns, n)).collect();
        arrange_by_key(&mut list, |(thread, state, pin, ns, _)| (std::cmp::Reverse(*ns), *thread, *state, *pin));
        list
    }

    fn stacks(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let list = self.asleep(at);
        let flame = at.flame(
            "Sleep as a flame graph",
            Measure::Time,
            list.iter().map(|(thread, _, pin, ns, n)| (*thread, *pin, *ns, *n)),
        );
        let asleep = list.iter().map(|(thread, state, pin, ns, n)| ((at.comm(*thread), *state), *pin, (*ns, *n)));
        let places = self.labels.rows(at, asleep, |sum: &mut (u64, u64), (ns, n)| *sum = (sum.0 + ns, sum.1 + n));
        let sheet = Sheet::of(by_weight(&places, |(ns, _)| *ns), |(key, _)| id(key))
            .right("total_ns", "Asleep", 9, |(_, (ns, _))| time(*ns))
            .right("calls", "Times", 8, |(_, (_, n))| Cell::Count(*n))
            .left("state", "St", 3, |(((_, state), _), _)| text(state.letter()))
            .left("comm", "Comm", 16, |(((comm, _), _), _)| text(comm.clone()))
            .left("stack", "Where", 0, |((_, stack), _)| text(stack.clone()));
        vec![sheet.panel("Stacks that sleep"), flame]
    }
}

impl Unit for TaskState {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants(false);
        wants[0].stack = self.stack;
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if event.role == 0 {
            self.slowest.bind(event)?;
        }
        self.reader.bind(event.role, event.format)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => self.switch(switch, hit, cx),
            Some(SchedEvent::Wakeup(wakeup)) => self.wakeup(wakeup, hit, cx),
            None => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        if let Some(switch) = SchedSwitch::untold(self.current.get(&cpu).map(|run| run.what), tid) {
            self.switch(switch, &UnitSample::switch_in(cpu, tid, time), cx);
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, time: u64, cx: &mut Context<'_>) {
        match change {
            // A thread that ended without a last switch may have had the id.
            ThreadChange::Born { tid, .. } => {
                let before = self.tasks.take(tid);
                before.into_iter().for_each(|before| self.close(&before, before.until(time)));
            }
            ThreadChange::Ended { tid, .. } => {
                self.tasks.newest(tid).into_iter().for_each(|now| now.with.ended = Some(time));
            }
            ThreadChange::Exec { pid, from, gone } => {
                for tid in gone {
                    self.tasks.take(tid).into_iter().for_each(|now| self.close(&now, time));
                }
                if let Some((from, now)) = from.and_then(|from| Some((from, self.tasks.take(&from)?))) {
                    // The state continues under the new id; the time is divided between the ids.
                    self.close(&now, time);
                    self.tasks.replace(*pid, now.what, time, Within { thread: cx.thread(*pid), ..now.with });
                    self.current.rename(&from, *pid);
                }
            }
        }
    }

    fn lost(&mut self, lost: &LostEvents) {
        // The state in the gap is unknown: every known state ends at its start.
        let tasks = std::mem::take(&mut self.tasks);
        tasks.iter().for_each(|(_, now)| self.close(now, now.until(lost.from)));
        self.began = lost.until;
        self.since = self.since.max(lost.until);
        self.seen_cpus.clear();
        self.current.forget();
    }

    fn loss_text(&self) -> &'static str {
        "the time of the gap counts for no state, and periods across it are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let list = self.by_thread(at);
        let mut panels = vec![self.by_task(at, &list), self.periods(at), self.slow(at)];
        if self.stack {
            panels.extend(self.stacks(at));
        }
        panels.extend(self.by_container(at, &list));
        panels
    }

    fn reset(&mut self, now: u64) {
        (self.since, self.missed) = (now, 0);
        self.blocked.clear();
        self.slowest.clear();
        let alive = &self.tasks;
        let is_alive = |thread: &ThreadKey, now: &Now| now.with.counts && now.with.thread == *thread;
        self.rows.retain(|thread, _| alive.get(&thread.tid).is_some_and(|now| is_alive(thread, now)));
        self.rows.values_mut().for_each(|row| *row = Row::default());
    }
}
