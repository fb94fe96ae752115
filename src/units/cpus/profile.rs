//! `profile`: functions on the CPUs as a table and a flame graph, optionally of busy seconds only.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::lang::{counted, quantity};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "profile",
    about: "CPU samples: functions and stacks, optionally of busy seconds only",
    words: "hot slow cpu burn busy function flame why",
    help: "A clock samples each busy CPU -F times per second (999). With --percent P, only the samples of seconds in \
           which the CPU was at least P % busy count.",
    example: "perfprof-tui profile -F 499 --percent 80 -C 3",
    output: "\
$ perfprof-tui profile --percent 50 --batch --duration 3
  Self  Samples  Children  DSO                                  Funct…
19.9 %      792    40.3 %  [kernel.kallsyms]                    exc_p…
 6.3 %      251    34.9 %  faultstorm                           touch…",
    options: &["frequency", "percent", "comm", "pids", "tids", "stack", "prio", "sched_policy"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(Profile::new(settings)?)),
};

#[derive(Clone, Copy, Debug)]
struct Taken {
    thread: ThreadKey,
    stack: RetainedStack,
}

#[derive(Clone, Debug, Default)]
struct Profile {
    hz: u64,
    percent: Option<f64>,
    /// The current second of each CPU, with its samples.
    second: FxHashMap<u32, (u64, Vec<Taken>)>,
    counts: FxHashMap<(ThreadKey, RetainedStack), u64>,
    busy: Grid<u32>,
    total: u64,
    left_out: u64,
}

impl Profile {
    fn new(settings: &Settings) -> Result<Self, String> {
        let percent = settings.get("percent").map(|text| {
            let percent = quantity::share(text).ok().filter(|p| (0.0..=100.0).contains(p));
            percent.ok_or_else(|| format!("--percent {text}: expected a share from 0 to 100"))
        });
        Ok(Self {
            hz: settings.hertz("frequency", 999)?.clamp(1, 50_000),
            percent: percent.transpose()?,
            busy: Grid::with_step(1_000_000_000),
            ..Self::default()
        })
    }

    fn count(&mut self, taken: Taken) {
        *self.counts.entry((taken.thread, taken.stack)).or_default() += 1;
        self.total += 1;
    }

    /// Ends a CPU's second.
    fn settle(&mut self, list: Vec<Taken>) {
        let need = self.percent.map_or(0.0, |percent| self.hz as f64 * percent / 100.0);
        if (list.len() as f64) < need {
            self.left_out += list.len() as u64;
        } else {
            list.into_iter().for_each(|taken| self.count(taken));
        }
    }
}

impl Unit for Profile {
    fn event_requests(&self) -> Vec<EventRequest> {
        let clock = EventRequest::new("cpu-clock|cycles|task-clock|~cycles").with_stack(true);
        vec![EventRequest { rate: Some(Rate::Frequency(self.hz)), ..clock }]
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        cx.find(hit.tid, hit.stack, String::new);
        let taken = Taken { thread: cx.thread(hit.tid), stack: hit.stack };
        self.busy.add(&hit.cpu, hit.time, 1e9 / self.hz as f64);
        if self.percent.is_none() {
            return self.count(taken);
        }
        let second = hit.time / 1_000_000_000;
        let current = self.second.entry(hit.cpu).or_insert((second, Vec::new()));
        let over = if current.0 == second {
            Vec::new()
        } else {
            current.0 = second;
            std::mem::take(&mut current.1)
        };
        current.1.push(taken);
        self.settle(over);
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn loss_text(&self) -> &'static str {
        "shares refer to the other samples"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        // Seconds that ended without a later sample.
        let done: Vec<u32> =
            self.second.iter().filter(|(_, (s, _))| (s + 1) * 1_000_000_000 <= at.now).map(|(cpu, _)| *cpu).collect();
        for cpu in done {
            if let Some((_, list)) = self.second.remove(&cpu) {
                self.settle(list);
            }
        }
        let mut functions: BTreeMap<(Arc<str>, Arc<str>), (u64, u64)> = BTreeMap::new();
        let mut frames: FxHashMap<RetainedStack, Vec<crate::panel::stacks::FrameName>> = FxHashMap::default();
        for ((_, pin), n) in &self.counts {
            let names = frames.entry(*pin).or_insert_with(|| at.frames(*pin));
            let mut seen = FxHashSet::default();
            for (i, name) in names.iter().rev().enumerate() {
                let entry = functions.entry((name.text.clone(), name.dso.clone())).or_default();
                entry.0 += if i == 0 { *n } else { 0 };
                // A recursive function counts once.
                entry.1 += if seen.insert((&name.text, &name.dso)) { *n } else { 0 };
            }
        }
        let functions = Sheet::of(by_weight(&functions, |of| **of), |(key, _)| id(key))
            .right("self_pct", "Self", 8, |(_, (own, _))| share(*own, self.total))
            .right("samples", "Samples", 9, |(_, (own, _))| Cell::Count(*own))
            .right("children_pct", "Children", 9, |(_, (_, children))| share(*children, self.total))
            .left("dso", "DSO", 24, |((_, dso), _)| text(dso.clone()))
            .left("function", "Function", 0, |((name, _), _)| text(name.clone()))
            .panel("Functions");
        let stacks = self.counts.iter().map(|((thread, pin), n)| (*thread, *pin, *n, *n));
        let note = match self.percent {
            Some(percent) => format!("without {} of seconds below {percent} %", counted(self.left_out, "sample")),
            None => String::new(),
        };
        vec![
            functions.noted(note),
            at.flame("Flame graph", Measure::Count, stacks),
            self.busy.heatmap("Busy, by CPU and second", at, Measure::Percent, 256, |cpu| format!("CPU {cpu}")),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.clear();
        self.busy = Grid::with_step(1_000_000_000);
        (self.total, self.left_out) = (0, 0);
    }
}
