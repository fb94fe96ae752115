//! `wakeups`: who wakes whom, how often, from where, and how long it takes until they run.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::{Cell, Measure, Panel};
use crate::profile::RetainedStack;
use crate::record::open_spans::{OpenSpans, ThreadChange};

use super::kit::columns::{by_weight, id, text, time};
use super::kit::field::Num;
use super::kit::sched::{self, SchedEvent, SchedReader};
use super::kit::{
    Context, Event, EventRequest, Grid, Lost, Moment, Sample, Sees, Settings, Sheet, Spec, Stats, ThreadChoice, Unit,
    latency,
};

pub(super) const SPEC: Spec = Spec {
    name: "wakeups",
    about: "who wakes whom: how often, out of which context, and how long until they run",
    help: "The waker is the task that ran on the CPU of the wake-up; out of an interrupt or a softirq it only stood \
           there, and the context says so (from common_flags). With -g, wake-ups by the waker's stack.",
    example: "perfprof-tui wakeups --comm 'nginx*' -g",
    output: "\
$ perfprof-tui wakeups --batch -i 1 -n 1
Waker            Out of     Wakes               Times  A second   Sha…
swapper-0        interrupt  worker-27759          133     127.3  44.8…
swapper-0        interrupt  worker-27763          123     117.7  41.4…
swapper-0        interrupt  worker-27760           11      10.5   3.7…",
    options: &["stack", "comm", "pids", "tids"],
    sees: Sees::Machine,
    across: Some("wake-ups that were made on the chosen ones, wherever the woken ran"),
    interval: Some(1.0),
    make: |settings| Ok(Box::new(Wakeups::new(settings)?)),
};

/// Bits of `common_flags` (TRACE_FLAG_* in include/linux/trace_events.h).
const HARDIRQ: i64 = 0x08;
const SOFTIRQ: i64 = 0x10;
const NMI: i64 = 0x40;
const MAX_PAIRS: usize = 1 << 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WakeContext {
    Task,
    Softirq,
    Irq,
}

impl WakeContext {
    fn of(flags: i64) -> Self {
        match flags {
            flags if flags & (HARDIRQ | NMI) != 0 => Self::Irq,
            flags if flags & SOFTIRQ != 0 => Self::Softirq,
            _ => Self::Task,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Softirq => "softirq",
            Self::Irq => "interrupt",
        }
    }
}

#[derive(Debug, Default)]
struct Wakeups {
    reader: SchedReader,
    flags: [Option<Num>; 3],
    chosen: ThreadChoice,
    stack: bool,
    pairs: FxHashMap<(i32, i32, WakeContext), Stats>,
    waking: OpenSpans<i32, (), (i32, i32, WakeContext)>,
    stacks: FxHashMap<(i32, i32, RetainedStack), u64>,
    course: Grid<i32>,
    total: u64,
}

impl Wakeups {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self { chosen: ThreadChoice::of(settings)?, stack: settings.has("stack"), ..Self::default() })
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        // Wake-ups count when they are seen; until the task runs there is no time.
        let seen = |stats: &Stats| stats.n + stats.than;
        Sheet::of(by_weight(&self.pairs, |stats| seen(stats)), |(key, _)| id(key))
            .left("waker", "Waker", 24, |((waker, ..), _)| text(at.task(*waker)))
            .left("context", "Out of", 10, |((.., context), _)| text(context.label()))
            .left("woken", "Wakes", 24, |((_, woken, _), _)| text(at.task(*woken)))
            .right("times", "Times", 9, |(_, stats)| Cell::Count(seen(stats)))
            .right("rate", "A second", 10, |(_, stats)| Cell::Number(seen(stats) as f64 / at.seconds()))
            .share(|(_, stats)| seen(stats), self.total)
            .right("mean_ns", "Until it runs", 14, |(_, stats)| time(stats.mean() as u64))
            .right("p99_ns", "p99", 8, |(_, stats)| time(stats.quantile(0.99)))
            .right("max_ns", "Max", 8, |(_, stats)| time(stats.max))
            .panel("Who wakes whom")
    }

    fn by_comm(&self, at: &Moment<'_>) -> Panel {
        let mut all: BTreeMap<(Arc<str>, Arc<str>), u64> = BTreeMap::new();
        for ((waker, woken, _), stats) in &self.pairs {
            *all.entry((at.comm(*waker), at.comm(*woken))).or_default() += stats.n + stats.than;
        }
        Sheet::of(by_weight(&all, |n| **n), |(key, _)| id(key))
            .left("waker", "Waker", 20, |((waker, _), _)| text(waker.clone()))
            .left("woken", "Wakes", 20, |((_, woken), _)| text(woken.clone()))
            .right("times", "Times", 10, |(_, n)| Cell::Count(*n))
            .share(|(_, n)| *n, self.total)
            .panel("By name")
    }
}

impl Unit for Wakeups {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants(self.stack);
        wants[0].stack = false;
        wants
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.flags[event.role] = Num::of(event.format, "common_flags").ok();
        self.reader.bind(event.role, event.format)
    }

    fn record(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) {
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Wakeup(wakeup)) => {
                let ours = self.chosen.has(wakeup.tid, cx) || self.chosen.has(hit.tid, cx);
                let unasked = [wakeup.tid, hit.tid].iter().any(|tid| self.chosen.is_unasked(*tid, cx));
                if !ours || unasked || !cx.counts(hit.cpu) {
                    return;
                }
                cx.comm(hit.tid);
                let flags = self.flags[hit.role].as_ref().map_or(0, |flags| flags.get(hit.raw));
                let key = (hit.tid, wakeup.tid, WakeContext::of(flags));
                if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
                    return;
                }
                // Those that have not run yet are counted aside, in `than`.
                self.pairs.entry(key).or_default().than += 1;
                self.waking.begin(wakeup.tid, (), hit.time, key);
                self.course.add(&hit.tid, hit.time, 1.0);
                self.total += 1;
                if hit.stack != RetainedStack::NONE {
                    *self.stacks.entry((hit.tid, wakeup.tid, hit.stack)).or_default() += 1;
                }
            }
            Some(SchedEvent::Switch(switch)) => {
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

    fn lost(&mut self, _lost: &Lost) {
        self.waking.forget();
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.waking.follow(change, |tid| tid);
    }

    fn chosen(&mut self) -> Option<&mut ThreadChoice> {
        Some(&mut self.chosen)
    }

    fn loss_text(&self) -> &'static str {
        "counts are too low, and the times of wake-ups around the gap are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let all = self.pairs.values().sum();
        let mut panels = vec![
            self.table(at),
            self.by_comm(at),
            latency::by_powers("From wake-up to running", &all, Measure::Time),
            self.course.heatmap("Wake-ups by waker and time", at, Measure::Count, 24, |tid| at.task(*tid).to_string()),
        ];
        if self.stack {
            let one = |((waker, woken, pin), n): (&(i32, i32, RetainedStack), &u64)| {
                let mut stack = at.stack(at.comm(*waker), *pin, *n, *n);
                let name = format!("→ {}", at.comm(*woken)).into();
                stack.frames.push(crate::query::symbol_stacks::Name {
                    text: name,
                    kind: crate::session::DsoKind::Unknown,
                    dso: "".into(),
                });
                stack
            };
            let stacks = self.stacks.iter().map(one).collect();
            panels.push(Panel::flame("Stacks of wakers", Measure::Count, stacks));
        }
        panels
    }

    fn reset(&mut self, _now: u64) {
        self.pairs.clear();
        self.waking.forget();
        self.stacks.clear();
        self.course.clear();
        self.total = 0;
    }
}
