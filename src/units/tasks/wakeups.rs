//! `wakeups`: wakeups by waker, woken task and place, with the time until the task runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::session::DsoKind;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::sched::{self, SchedEvent, SchedReader, WakeContext, Wakeup};
use crate::units::kit::{TaskWaker, WakerReader, WakerStacks};

pub(crate) const SPEC: Spec = Spec {
    name: "wakeups",
    about: "wake-ups by waker and woken task: how often, in which context, and how long until the task runs",
    words: "wake waker wakeup scheduler network futex lock latency",
    help: "The waker is the cause of the wake-up: the interrupt or softirq, if the record's common_flags name one, \
           otherwise the current thread. A disk appears with its name. -g lists wake-ups by the waker's stack, and \
           distinguishes timers and the network from other interrupts.",
    example: "perfprof-tui wakeups --comm 'nginx*' -g",
    output: "\
$ perfprof-tui wakeups --batch -i 1 -n 1
Waker            Context    Wakee               Times  Times/s   Sha…
interrupt        interrupt  worker-27759          133    127.3  44.8…
interrupt        interrupt  worker-27763          123    117.7  41.4…
interrupt        interrupt  worker-27760           11     10.5   3.7…",
    options: &["stack", "comm", "pids", "tids"],
    sees: Sees::Machine,
    across: Some("wake-ups made on the chosen CPUs, wherever the woken task runs"),
    interval: Some(1.0),
    make: |settings| Ok(Box::new(Wakeups::new(settings))),
};

const MAX_PAIRS: usize = 1 << 17;
const DISK: usize = 3;

/// A waker, the woken task, and with `-g` the waker's stack.
type Pair = (TaskWaker, ThreadKey, RetainedStack);

#[derive(Clone, Debug, Default)]
struct Wakeups {
    reader: SchedReader,
    wakers: WakerReader,
    causes: WakerStacks,
    stack: bool,
    pairs: FxHashMap<Pair, Stats>,
    waking: OpenSpans<i32, (), Pair>,
    course: Grid<TaskWaker>,
    total: u64,
}

/// Displayed rows: waker name, context and woken task.
type Row = (Arc<str>, WakeContext, ThreadKey);

/// Total wakeups, including those of tasks that have not run yet.
fn seen(stats: &Stats) -> u64 {
    stats.n + stats.than
}

impl Wakeups {
    fn new(settings: &Settings) -> Self {
        Self { stack: settings.has("stack"), ..Self::default() }
    }

    fn waker(&mut self, at: &Moment<'_>, waker: TaskWaker, stack: RetainedStack, by_comm: bool) -> Arc<str> {
        let cause = self.causes.cause(at, waker, stack);
        self.wakers.words(at, cause, |at, thread| if by_comm { at.comm(thread) } else { at.task(thread) })
    }

    fn named<K: Ord>(
        &mut self,
        at: &Moment<'_>,
        by_comm: bool,
        key: impl Fn(Arc<str>, &Pair) -> K,
    ) -> BTreeMap<K, Stats> {
        let pairs = std::mem::take(&mut self.pairs);
        let mut all: BTreeMap<K, Stats> = BTreeMap::new();
        for (pair, stats) in &pairs {
            let (waker, _, stack) = *pair;
            all.entry(key(self.waker(at, waker, stack, by_comm), pair)).or_default().merge(stats);
        }
        self.pairs = pairs;
        all
    }

    fn table(&self, at: &Moment<'_>, rows: &BTreeMap<Row, Stats>) -> Panel {
        Sheet::of(by_weight(rows, |stats| seen(stats)), |(key, _)| id(key))
            .left("waker", "Waker", 24, |((waker, ..), _)| text(waker.clone()))
            .left("context", "Context", 10, |((_, context, _), _)| text(context.label()))
            .left("woken", "Wakee", 24, |((.., woken), _)| text(at.task(*woken)))
            .right("times", "Times", 9, |(_, stats)| Cell::Count(seen(stats)))
            .right("rate", "Times/s", 10, |(_, stats)| Cell::Number(seen(stats) as f64 / at.seconds()))
            .share(|(_, stats)| seen(stats), self.total)
            .right("mean_ns", "Mean delay", 10, |(_, stats)| time(stats.mean() as u64))
            .right("p99_ns", "p99", 8, |(_, stats)| time(stats.quantile(0.99)))
            .right("max_ns", "Max", 8, |(_, stats)| time(stats.max))
            .panel("Wakers, wakees")
    }

    fn by_comm(&self, rows: &BTreeMap<(Arc<str>, Arc<str>), Stats>) -> Panel {
        Sheet::of(by_weight(rows, |stats| seen(stats)), |(key, _)| id(key))
            .left("waker", "Waker", 20, |((waker, _), _)| text(waker.clone()))
            .left("woken", "Wakee", 20, |((_, woken), _)| text(woken.clone()))
            .right("times", "Times", 10, |(_, stats)| Cell::Count(seen(stats)))
            .share(|(_, stats)| seen(stats), self.total)
            .panel("By name")
    }

    fn graph(&mut self, at: &Moment<'_>) -> Panel {
        let pairs: Vec<(Pair, u64)> = self.pairs.iter().map(|(pair, stats)| (*pair, seen(stats))).collect();
        let one = |((waker, woken, pin), n): (Pair, u64)| {
            let mut stack = at.stack(self.waker(at, waker, pin, true), pin, n, n);
            let name = format!("→ {}", at.comm(woken)).into();
            stack.frames.push(FrameName { text: name, kind: DsoKind::Unknown, dso: "".into() });
            stack
        };
        Panel::flame("Stacks of wakers", Measure::Count, pairs.into_iter().map(one).collect())
    }

    fn woken(&mut self, wakeup: Wakeup, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let waker = self.wakers.waker(wakeup, hit, cx);
        let by = waker.tid();
        let ours = cx.has(wakeup.tid) || by.is_some_and(|by| cx.has(by));
        let unasked = [Some(wakeup.tid), by].into_iter().flatten().any(|tid| cx.is_unasked(tid));
        if !ours || unasked || !cx.counts(hit.cpu) {
            return;
        }
        cx.comm(hit.tid);
        let key = (waker, cx.thread(wakeup.tid), hit.stack);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        // Wakeups of tasks that have not run yet are counted in `than`.
        self.pairs.entry(key).or_default().than += 1;
        self.waking.begin(wakeup.tid, (), hit.time, key);
        self.course.add(&waker.without_stack(), hit.time, 1.0);
        self.total += 1;
    }
}

impl Unit for Wakeups {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants_wakers(self.stack);
        wants[0].stack = false;
        wants.push(WakerReader::request());
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if self.wakers.bind(event, DISK) {
            return Ok(());
        }
        self.reader.bind(event.role, event.format)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if hit.role == DISK {
            return self.wakers.complete(hit, cx);
        }
        if self.wakers.is_repeated(hit) {
            return;
        }
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Wakeup(wakeup)) => self.woken(wakeup, hit, cx),
            Some(SchedEvent::Switch(switch)) => {
                self.wakers.switch(hit.cpu);
                if let Some(waking) = self.waking.take(&switch.next)
                    && let Some(stats) = self.pairs.get_mut(&waking.with).filter(|stats| stats.than > 0)
                {
                    stats.than -= 1;
                    let ns = waking.took(hit.time);
                    stats.add(ns);
                    cx.point(["sched_wakeup", "sched_switch"], hit.time, ns);
                }
            }
            None => {}
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.waking.forget();
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.waking.follow(change, |tid| tid);
    }

    fn loss_text(&self) -> &'static str {
        "counts are too low, and times of wakeups around the gap are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let all = self.pairs.values().sum();
        let rows = self.named(at, false, |waker, (of, woken, _)| (waker, of.context(), *woken));
        let names = self.named(at, true, |waker, (_, woken, _)| (waker, at.comm(*woken)));
        let course = |waker: &TaskWaker| self.wakers.words(at, waker.cause(), |at, thread| at.task(thread)).to_string();
        let mut panels = vec![
            self.table(at, &rows),
            self.by_comm(&names),
            latency::by_powers("From wake-up to running", &all, Measure::Time),
            self.course.heatmap("Wake-ups by waker and time", at, Measure::Count, 24, course),
        ];
        if self.stack {
            panels.push(self.graph(at));
        }
        panels
    }

    fn reset(&mut self, _now: u64) {
        self.pairs.clear();
        self.waking.forget();
        self.course.clear();
        self.total = 0;
    }
}
