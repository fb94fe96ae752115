//! `oncpu`: run times of tasks by CPU, with timeslices and migrations.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::OUTSIDE;
use crate::units::kit::options::settings::is_number_list;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::sched::{self, SchedEvent, SchedReader, SchedSwitch};

pub(crate) const SPEC: Spec = Spec {
    name: "oncpu",
    about: "tasks that ran on each CPU, and for how long at a time; lanes over time, and migrations",
    words: "timeslice migration scheduler run lanes cpu timeline",
    help: "The time between two switches of a CPU belongs to the task that ran in between; the current task counts \
           until now. A migration is a switch-in on another CPU than the last one. Idle is the remaining time. Some \
           kernels skip the tracepoint when an idle CPU gets work; the kernel's context-switch records then replace \
           it.",
    example: "perfprof-tui oncpu -C 0-3",
    output: "\
$ perfprof-tui oncpu -i 1 -n 1 --batch --panel Tasks
Comm               TID      Ran      %CPU  Runs  Mean run      p99  L…
spinner          27684   290 ms    27.8 %    66   3.69 ms  4.02 ms  4…
spinner          27693   246 ms    23.6 %    74   3.33 ms  4.01 ms  4…
spinner          27694   245 ms    23.5 %    83   2.95 ms  4.92 ms  4…",
    options: &["comm", "pids", "tids", "only-comm", "prio"],
    sees: Sees::Machine,
    across: None,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(OnCpu::new(settings)?)),
};

#[derive(Clone, Debug, Default)]
struct Row {
    runs: Stats,
    migrations: u64,
    on: BTreeMap<u32, u64>,
}

/// The run time of each thread, all of it and by CPU.
type RunTimes = FxHashMap<ThreadKey, (u64, BTreeMap<u32, u64>)>;

#[derive(Clone, Debug, Default)]
struct OnCpu {
    reader: SchedReader,
    /// The selected priorities, and the expressions for the previous and next task of a switch.
    prios: Option<String>,
    prio: Option<(BoundExpr, BoundExpr)>,
    by_comm: bool,
    /// The current task of each CPU, its start, its key, and whether it counts.
    current: OpenSpans<u32, i32, (ThreadKey, bool)>,
    last_cpu: FxHashMap<i32, u32>,
    rows: FxHashMap<ThreadKey, Row>,
    switches: BTreeMap<u32, u64>,
    lanes: Grid<u32>,
    tasks: Grid<ThreadKey>,
    since: u64,
    missed: u64,
    containers: ByContainer,
}

impl OnCpu {
    fn new(settings: &Settings) -> Result<Self, String> {
        let prios = settings.get("prio").map(str::to_owned);
        if let Some(list) = prios.as_ref().filter(|list| !is_number_list(list)) {
            return Err(format!("--prio {list}: expected priorities, such as 0-99"));
        }
        Ok(Self { prios, by_comm: settings.has("only-comm"), ..Self::default() })
    }

    fn ran(&mut self, cpu: u32, thread: ThreadKey, from: u64, until: u64) {
        let from = from.max(self.since);
        let ns = until.saturating_sub(from);
        let row = self.rows.entry(thread).or_default();
        row.runs.add(ns);
        *row.on.entry(cpu).or_default() += ns;
        self.lanes.spread(&cpu, from, until);
        self.tasks.spread(&thread, from, until);
    }

    /// Whether the previous and next tasks have a selected priority. A missed switch has no known priority.
    fn have_prio(&self, hit: &UnitSample<'_>, cx: &Context<'_>) -> (bool, bool) {
        let has = |is: &BoundExpr| !hit.raw.is_empty() && is.holds(hit, cx.names, None);
        self.prio.as_ref().map_or((true, true), |(prev, next)| (has(prev), has(next)))
    }

    fn switch(&mut self, switch: SchedSwitch, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let (leaves, comes) = self.have_prio(hit, cx);
        if self.since == 0 {
            self.since = hit.time;
        }
        let is_told = switch.next != 0 && comes && cx.has(switch.next);
        let is_left = switch.prev != 0 && leaves && cx.has(switch.prev);
        let counts = is_told || is_left || !cx.is_narrow();
        *self.switches.entry(hit.cpu).or_default() += u64::from(counts);
        let next = (cx.thread(switch.next), is_told);
        let before = self.current.replace(hit.cpu, switch.next, hit.time, next).map(|run| (run.what, run.since));
        let (tid, from) = match before {
            Some((tid, from)) if tid == switch.prev => (tid, from),
            // Its name was not known when it started to run.
            Some((OUTSIDE, from)) => (switch.prev, from),
            // A switch in between is missing: the start of the run is unknown.
            Some(_) => {
                self.missed += 1;
                (0, 0)
            }
            // The task that leaves at the first switch has been running since the start.
            None => (switch.prev, self.since),
        };
        if tid != 0 && leaves && cx.has(tid) {
            self.ran(hit.cpu, cx.thread(tid), from, hit.time);
        }
        if switch.next != 0 {
            let moved = self.last_cpu.insert(switch.next, hit.cpu).is_some_and(|last| last != hit.cpu);
            if moved && comes && cx.has(switch.next) {
                self.rows.entry(cx.thread(switch.next)).or_default().migrations += 1;
            }
        }
    }

    fn with_current(&self, now: u64) -> RunTimes {
        let mut all: RunTimes =
            self.rows.iter().map(|(thread, row)| (*thread, (row.runs.sum, row.on.clone()))).collect();
        for (cpu, run) in self.current.iter().filter(|(_, run)| run.with.1) {
            let ns = now.saturating_sub(run.since.max(self.since));
            let entry = all.entry(run.with.0).or_default();
            entry.0 += ns;
            *entry.1.entry(*cpu).or_default() += ns;
        }
        all
    }

    fn cpus(&self, at: &Moment<'_>, all: &RunTimes) -> Panel {
        let span = at.now.saturating_sub(self.since);
        let mut by_cpu: BTreeMap<u32, Vec<(u64, ThreadKey)>> =
            self.current.iter().map(|(cpu, _)| (*cpu, Vec::new())).collect();
        for (tid, (_, on)) in all {
            for (cpu, ns) in on {
                by_cpu.entry(*cpu).or_default().push((*ns, *tid));
            }
        }
        let by_cpu: Vec<_> = by_cpu
            .into_iter()
            .map(|(cpu, mut list)| {
                list.sort_by(|a, b| b.cmp(a));
                (cpu, list.iter().map(|(ns, _)| ns).sum::<u64>(), list)
            })
            .collect();
        let now = |cpu: u32| match self.current.get(&cpu).map(|run| (run.what, run.with.1)) {
            None | Some((0, _)) => text("idle"),
            Some((tid, true)) => text(at.task(tid)),
            Some(_) => text("–"),
        };
        let most = |list: &[(u64, ThreadKey)]| {
            let percent = |ns: u64| crate::panel::unit::percent(100.0 * ns as f64 / span.max(1) as f64);
            let words: Vec<String> =
                list.iter().take(4).map(|(ns, tid)| format!("{} {}", at.task(*tid), percent(*ns))).collect();
            text(words.join("  "))
        };
        let sheet = Sheet::of(&by_cpu, |(cpu, ..)| (*cpu).into())
            .right("cpu", "CPU", 4, |(cpu, ..)| Cell::Id((*cpu).into()))
            .right("busy_ns", "Busy", 9, |(_, busy, _)| Cell::Time(*busy))
            .right("busy_pct", "%busy", 8, |(_, busy, _)| share(*busy, span))
            .right("switches", "Switches", 9, |(cpu, ..)| Cell::Count(self.switches.get(cpu).copied().unwrap_or(0)))
            .right("tasks", "Tasks", 6, |(.., list)| Cell::Count(list.len() as u64))
            .left("now", "Now", 22, |(cpu, ..)| now(*cpu))
            .left("most", "Most", 0, |(.., list)| most(list))
            .listed();
        sheet.whole("CPUs").noted(note(self.missed, "switch", "not recorded: that time counts for no task"))
    }

    fn by_comm(&self, at: &Moment<'_>, all: &RunTimes) -> Panel {
        let span = at.now.saturating_sub(self.since);
        let mut commands: BTreeMap<Arc<str>, (u64, Stats, u64, u64)> = BTreeMap::new();
        for (tid, (ns, _)) in all {
            let sum = commands.entry(at.comm(*tid)).or_default();
            (sum.0, sum.2) = (sum.0 + ns, sum.2 + 1);
            if let Some(row) = self.rows.get(tid) {
                sum.1.merge(&row.runs);
                sum.3 += row.migrations;
            }
        }
        Sheet::of(by_weight(&commands, |(ns, ..)| *ns), |(comm, _)| id(comm))
            .left("comm", "Comm", 16, |(comm, _)| text(comm.clone()))
            .right("tasks", "Tasks", 6, |(_, (.., tasks, _))| Cell::Count(*tasks))
            .right("ran_ns", "Ran", 9, |(_, (ns, ..))| Cell::Time(*ns))
            .right("ran_pct", "%CPU", 9, |(_, (ns, ..))| share(*ns, span))
            .right("runs", "Runs", 8, |(_, (_, runs, ..))| Cell::Count(runs.n))
            .right("mean_ns", "Mean run", 9, |(_, (_, runs, ..))| time(runs.mean() as u64))
            .right("p99_ns", "p99", 8, |(_, (_, runs, ..))| time(runs.quantile(0.99)))
            .right("max_ns", "Longest", 9, |(_, (_, runs, ..))| time(runs.max))
            .right("migrations", "Moved", 7, |(_, (.., moved))| Cell::Count(*moved))
            .panel("Commands")
    }

    fn by_task(&self, at: &Moment<'_>, all: &RunTimes) -> Panel {
        let span = at.now.saturating_sub(self.since);
        let cpus = |on: &BTreeMap<u32, u64>| {
            let on = by_weight(on, |ns| **ns).into_iter().take(8);
            let words: Vec<String> =
                on.map(|(cpu, ns)| format!("{cpu}:{}", crate::panel::unit::duration(*ns))).collect();
            text(words.join(" "))
        };
        let nothing = Row::default();
        let row = |thread: &ThreadKey| self.rows.get(thread).unwrap_or(&nothing);
        Sheet::of(by_weight(all, |(ns, _)| *ns), |(thread, _)| thread.row())
            .task(at, |(tid, _)| *tid)
            .right("ran_ns", "Ran", 9, |(_, (ns, _))| Cell::Time(*ns))
            .right("ran_pct", "%CPU", 9, |(_, (ns, _))| share(*ns, span))
            .right("runs", "Runs", 8, |(tid, _)| Cell::Count(row(tid).runs.n))
            .right("mean_ns", "Mean run", 9, |(tid, _)| time(row(tid).runs.mean() as u64))
            .right("p99_ns", "p99", 8, |(tid, _)| time(row(tid).runs.quantile(0.99)))
            .right("max_ns", "Longest", 9, |(tid, _)| time(row(tid).runs.max))
            .right("migrations", "Moved", 7, |(tid, _)| Cell::Count(row(tid).migrations))
            .left("cpus", "On CPUs", 0, |(_, (_, on))| cpus(on))
            .listed()
            .panel("Tasks")
    }
}

impl Unit for OnCpu {
    fn event_requests(&self) -> Vec<EventRequest> {
        vec![EventRequest::new(sched::SWITCH).batched()]
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if let Some(list) = &self.prios {
            let is = |field: &str| BoundExpr::parse(&format!("{field} in {list}"), event.format);
            self.prio = Some((is("prev_prio")?, is("next_prio")?));
        }
        self.reader.bind(event.role, event.format)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if let Some(SchedEvent::Switch(switch)) = self.reader.read(hit, cx.names) {
            self.switch(switch, hit, cx);
        }
    }

    fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        if let Some(switch) = SchedSwitch::untold(self.current.get(&cpu).map(|run| run.what), tid) {
            self.switch(switch, &UnitSample::switch_in(cpu, tid, time), cx);
        }
    }

    fn lost(&mut self, lost: &LostEvents) {
        // The task that runs after the gap is known when it leaves, and counts from the end of the gap.
        let cpus: Vec<u32> = match lost.cpu {
            Some(cpu) => vec![cpu],
            None => self.current.iter().map(|(cpu, _)| *cpu).collect(),
        };
        for cpu in cpus {
            self.current.replace(cpu, OUTSIDE, lost.until, (ThreadKey::default(), false));
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, cx: &mut Context<'_>) {
        match change {
            // A new thread has not migrated from the CPU of an earlier thread with its id.
            ThreadChange::Born { tid, .. } => drop(self.last_cpu.remove(tid)),
            ThreadChange::Exec { pid, from: Some(from), .. } => {
                for (_, run) in self.current.iter_mut().filter(|(_, run)| run.what == *from) {
                    (run.what, run.with.0) = (*pid, cx.thread(*pid));
                }
                if let Some(last) = self.last_cpu.remove(from) {
                    self.last_cpu.insert(*pid, last);
                }
            }
            _ => {}
        }
    }

    fn loss_text(&self) -> &'static str {
        "the task on the CPU in the gap is unknown: that time counts for no task"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let all = self.with_current(at.now);
        let chosen = at.selected(1).and_then(|row| self.rows.get(&ThreadKey::of_row(row)));
        let runs = chosen.map_or_else(|| self.rows.values().map(|row| &row.runs).sum(), |row| row.runs.clone());
        let containers = self.containers.panel(at, self.rows.iter().map(|(tid, row)| (*tid, &row.runs)), false);
        let mut panels = vec![
            self.cpus(at, &all),
            if self.by_comm { self.by_comm(at, &all) } else { self.by_task(at, &all) },
            self.lanes.heatmap("CPUs over time", at, Measure::Percent, 256, |cpu| format!("CPU {cpu}")),
            self.tasks.heatmap("Tasks over time", at, Measure::Percent, 24, |tid| at.task(*tid).to_string()),
            latency::by_powers("How long at a time", &runs, Measure::Time),
        ];
        panels.extend(containers);
        panels
    }

    fn reset(&mut self, now: u64) {
        (self.since, self.missed) = (now, 0);
        self.rows.clear();
        self.switches.clear();
        self.lanes.clear();
        self.tasks.clear();
    }
}
