//! `hrtimer`: running tasks in time windows in which a condition on event counts holds, or when a timer is late
//! because interrupts were disabled.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::expr::{self, Expr, ExprScope, Value};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "hrtimer",
    about: "stacks in windows with dense events, another condition, or a late timer",
    words: "timer late jitter spike latency",
    help: "A timer samples each CPU every --period (or -F times per second). --when is a condition on the counts of \
           the -e events on that CPU since its last sample, by their alias or their name without the system, and on \
           'period', the nanoseconds since that sample. Without -e, windows longer than --than are shown: interrupts \
           were off, and the stack is where they were enabled again, because the timer is not an NMI. Idle CPUs have \
           no timer.",
    example: "perfprof-tui hrtimer -e sched:sched_switch --period 1ms --when 'sched_switch > 20' -g",
    output: "\
$ perfprof-tui hrtimer -e sched:sched_switch \\
    --when 'sched_switch > 1' -g --batch --duration 2
Windows  Longest  sched_switch  Task                           Where
     81  3.00 ms             4  swapper-0                      pv_nat…
      7  1.00 ms             2  spinner-27684                  spin_f…
      5  1.00 ms             4  spinner-27683                  spin_f…",
    options: &["event", "period", "frequency", "when", "than", "stack", "keep", "addresses"],
    sees: Sees::Machine,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(HrTimer::new(settings)?)),
};

#[derive(Clone, Debug)]
struct HrTimer {
    selected: Vec<SelectedEvent>,
    rate: Rate,
    when: Option<Expr>,
    /// The event of each name in the condition; `None` is the period.
    names: Vec<Option<usize>>,
    than: Option<u64>,
    stack: bool,
    /// The current window of each CPU, with its event counts.
    open: OpenSpans<u32, (), Vec<u64>>,
    windows: u64,
    held: FxHashMap<(ThreadKey, RetainedStack), Held>,
    longest: TopN<(u32, ThreadKey, u64, Vec<u64>, RetainedStack)>,
    map: Grid<u32>,
    labels: StackLabels,
}

#[derive(Clone, Debug, Default)]
struct Held {
    times: u64,
    longest: u64,
    most: Vec<u64>,
}

impl Held {
    fn merge(&mut self, other: &Self) {
        self.times += other.times;
        self.longest = self.longest.max(other.longest);
        self.most.resize(self.most.len().max(other.most.len()), 0);
        self.most.iter_mut().zip(&other.most).for_each(|(most, count)| *most = (*most).max(*count));
    }
}

struct Window<'a> {
    names: &'a [Option<usize>],
    counts: &'a [u64],
    period: u64,
}

impl ExprScope for Window<'_> {
    fn value(&self, name: usize) -> Value<'_> {
        match self.names.get(name) {
            Some(Some(event)) => Value::Int(self.counts.get(*event).copied().unwrap_or(0).into()),
            Some(None) => Value::Int(self.period.into()),
            None => Value::Empty,
        }
    }
}

impl HrTimer {
    fn new(settings: &Settings) -> Result<Self, String> {
        let selected: Vec<SelectedEvent> = select::lists(settings.all("event"))?.into_iter().flatten().collect();
        let rate = match (settings.time("period")?, settings.hertz("frequency", 0)?) {
            (Some(ns), _) if ns < 10_000 => return Err("--period: a timer's period is at least 10us".to_owned()),
            (Some(ns), _) => Rate::Period(ns),
            (None, 0) => Rate::Period(1_000_000),
            (None, hz) => Rate::Frequency(hz),
        };
        let when = settings.get("when").map(expr::parse).transpose().map_err(|fault| format!("--when: {fault}"))?;
        let known: Vec<&str> = selected.iter().map(short).collect();
        let mut names = Vec::new();
        for (i, name) in when.iter().flat_map(|when| when.names.iter().enumerate()) {
            let event = known.iter().position(|known| *known == name.word);
            if event.is_none() && name.word != "period" {
                let all = known.iter().copied().chain(["period"]);
                return Err(format!(
                    "--when: {}",
                    when.as_ref().map_or(String::new(), |w| w.unknown(i, all).to_string())
                ));
            }
            names.push(event);
        }
        let than = settings.time("than")?;
        if when.is_none() && than.is_none() {
            return Err(
                "choose what to report: --when 'sched_switch > 20' (periods of the timer with that many events) \
                        or --than 5ms (late timers)"
                    .to_owned(),
            );
        }
        let (stack, labels) = (settings.has("stack"), StackLabels::of(settings));
        let longest = TopN::new(settings.number("keep", 20)? as usize);
        let (open, windows, held, map) = Default::default();
        Ok(Self { selected, rate, when, names, than, stack, open, windows, held, longest, map, labels })
    }

    fn fires(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let none = vec![0; self.selected.len()];
        let Some(before) = self.open.replace(hit.cpu, (), hit.time, none) else { return };
        if !cx.has(hit.tid) {
            return;
        }
        let (period, counts) = (before.took(hit.time), before.with);
        self.windows += 1;
        let window = Window { names: &self.names, counts: &counts, period };
        let holds = self.when.as_ref().is_none_or(|when| when.eval(&window).holds());
        if !holds || self.than.is_some_and(|than| period <= than) {
            return;
        }
        cx.comm(hit.tid);
        let held = Held { times: 1, longest: period, most: counts };
        let thread = cx.thread(hit.tid);
        self.held.entry((thread, hit.stack)).or_default().merge(&held);
        let counts = held.most;
        self.map.add(&hit.cpu, hit.time, 1.0);
        cx.point(["cpu-clock", ""], hit.time, period);
        let worst = if self.when.is_some() { counts.iter().sum() } else { period };
        if self.longest.takes(worst) {
            self.longest.add(worst, (hit.cpu, thread, hit.time, counts, hit.stack));
        }
    }

    fn event_columns(&self) -> impl Iterator<Item = crate::panel::Column> {
        self.selected.iter().map(|selected| named(short(selected), Align::Right, 14))
    }
}

fn short(selected: &SelectedEvent) -> &str {
    let name = selected.title();
    name.rsplit(':').next().unwrap_or(name)
}

impl Unit for HrTimer {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants =
            vec![EventRequest { rate: Some(self.rate), ..EventRequest::new("cpu-clock") }.with_stack(self.stack)];
        wants.extend(self.selected.iter().map(|selected| selected.want(false)));
        wants
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if hit.role == 0 {
            return self.fires(hit, cx);
        }
        // Events before the first window belong to none.
        if let Some(window) = self.open.newest(&hit.cpu) {
            window.with[hit.role - 1] += 1;
        }
    }

    fn lost(&mut self, lost: &LostEvents) {
        match lost.cpu {
            Some(cpu) => self.open.close(&cpu),
            None => self.open.forget(),
        }
    }

    fn loss_text(&self) -> &'static str {
        "windows with a loss are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let total: u64 = self.held.values().map(|held| held.times).sum();
        let note = format!("the condition held in {total} of {} windows", self.windows);
        let count = |n: &u64| Cell::Count(*n);
        let stacks = self.held.iter().map(|((thread, pin), held)| (*thread, *pin, held.times, held.times));
        let flame = at.flame("Flame graph of windows", Measure::Count, stacks);
        let held = self.held.iter().map(|((thread, pin), held)| (*thread, *pin, held));
        let places = self.labels.rows(at, held, |sum: &mut Held, held| sum.merge(held));
        let worst_in: Vec<Arc<str>> = self.longest.iter().map(|(.., (.., pin))| self.labels.line(at, *pin)).collect();
        let by_stack = Sheet::of(by_weight(&places, |held| (held.times, held.longest)), |(key, _)| id(key))
            .right("windows", "Windows", 9, |(_, held)| Cell::Count(held.times))
            .right("longest_ns", "Longest", 9, |(_, held)| time(held.longest))
            .columns(self.event_columns(), |(_, held)| held.most.iter().map(count))
            .left("task", "Task", 24, |((thread, _), _)| text(at.task(*thread)))
            .left("stack", "Where", 0, |((_, stack), _)| text(stack.clone()))
            .panel("By stack");
        let worst = Sheet::of(self.longest.iter().zip(&worst_in), |((_, number, _), _)| number)
            .right("time_ns", "At", 9, |((.., (_, _, when, ..)), _)| Cell::Time(at.after(*when)))
            .right("cpu", "CPU", 4, |((.., (cpu, ..)), _)| Cell::Id((*cpu).into()))
            .columns(self.event_columns(), |((.., (_, _, _, counts, _)), _)| counts.iter().map(count))
            .left("task", "Task", 24, |((.., (_, thread, ..)), _)| text(at.task(*thread)))
            .left("stack", "Where", 0, |(_, stack)| text(stack.clone()))
            .whole("Worst windows");
        vec![
            by_stack.noted(note),
            worst,
            self.map.heatmap("Windows by CPU and time", at, Measure::Count, 64, |cpu| format!("CPU {cpu}")),
            flame,
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.held.clear();
        self.longest.clear();
        self.map.clear();
        self.windows = 0;
    }
}
