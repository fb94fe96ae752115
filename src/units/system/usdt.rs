//! `usdt`: static probes of a running program: hits, rates and arguments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use crate::event::format::Format;
use crate::event::probe::{as_name, elf};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "usdt",
    about: "static probes of a program: hits, rates and arguments",
    words: "probe probes static gc garbage python java node postgres mysql",
    help: "Probes exist for the time of the measurement. Their semaphores, by which a program sees that a probe is in \
           use, are raised. FILE alone probes all of its static probes (64 at most), FILE:PROVIDER:NAME one of them. \
           `perfprof-tui usdt list FILE` lists them, `usdt add PROVIDER:NAME@FILE` makes one available to every -e \
           under that name, and `usdt del PROVIDER:NAME` removes it. With a cgroup or container, the probes also slow \
           down other processes that use FILE; -p limits them to processes.",
    example: "perfprof-tui usdt --usdt /usr/lib/x86_64-linux-gnu/libc.so.6:libc:memory_sbrk_more",
    output: "\
$ perfprof-tui usdt --usdt ./server --batch -n 1
Probe                  Hits  Hits/s  Course
labsrv:request__done    990   953.3  ██████████████████████████████…
labsrv:request__start   990   953.3  █▇▇▇▇▇▇▇█▇▇█▇▇▇▇█▇▇▇▇▇█▇▇▇▇▇▇▇…
labsrv:gc                 4     3.9  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁…",
    options: &["usdt", "stack", "comm", "pids", "tids", "keep", "addresses"],
    sees: Sees::Target,
    across: None,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(UsdtUnit::new(settings)?)),
};

const MAX_PROBES: usize = 64;

#[derive(Clone, Debug)]
struct Line {
    number: u64,
    time: u64,
    cpu: u32,
    thread: ThreadKey,
    role: usize,
    raw: Box<[u8]>,
    stack: RetainedStack,
}

#[derive(Clone, Debug, Default)]
struct UsdtUnit {
    /// (event name, probe definition, display text)
    probes: Vec<(String, String, String)>,
    stack: bool,
    keep: usize,
    formats: BTreeMap<usize, Arc<Format>>,
    counts: BTreeMap<usize, u64>,
    course: Grid<usize>,
    lines: VecDeque<Line>,
    number: u64,
    labels: StackLabels,
}

impl UsdtUnit {
    fn new(settings: &Settings) -> Result<Self, String> {
        let mut probes = Vec::new();
        for place in settings.all("usdt") {
            let (file, name) = match place.split_once(':') {
                Some((file, name)) => (file, Some(name)),
                None => (place, None),
            };
            let known = elf::static_probes(Path::new(file)).map_err(|why| format!("--usdt {why}"))?;
            let wanted = |event: &str| name.is_none_or(|name| name == event || event.ends_with(&format!(":{name}")));
            let found: BTreeSet<String> =
                known.iter().map(|probe| probe.event()).filter(|event| wanted(event)).collect();
            if found.is_empty() {
                let mut names: Vec<String> = known.iter().map(|probe| probe.event()).collect();
                names.dedup();
                names.truncate(12);
                let has = if names.is_empty() {
                    "the file has no static probes".to_owned()
                } else {
                    format!("available: {}", names.join(", "))
                };
                return Err(format!("--usdt {place}: unknown static probe; {has}"));
            }
            for event in found.into_iter().take(MAX_PROBES) {
                let own = event.rsplit(':').next().unwrap_or(&event);
                probes.push((as_name(own), format!("-x {file} {event}"), event));
            }
        }
        if probes.is_empty() {
            return Err("name probes with --usdt FILE or FILE:PROVIDER:NAME".to_owned());
        }
        Ok(Self {
            probes,
            stack: settings.has("stack"),
            labels: StackLabels::of(settings),
            keep: settings.number("keep", 10_000)? as usize,
            ..Self::default()
        })
    }

    /// Returns the arguments of a hit: the fields after those that every probe has.
    fn arguments(&self, line: &Line) -> String {
        let Some(format) = self.formats.get(&line.role) else { return String::new() };
        let own = format.own_fields().filter(|field| !field.name.starts_with("__probe"));
        own.map(|field| format!("{}={}", field.name, field.text(&line.raw))).collect::<Vec<_>>().join(" ")
    }
}

impl Unit for UsdtUnit {
    fn is_log(&self) -> bool {
        true
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        let want = |(name, probe, _): &(String, String, String)| {
            EventRequest { probe: Some(probe.clone()), ..EventRequest::new(name.clone()) }
                .with_stack(self.stack)
                .optional()
        };
        self.probes.iter().map(want).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if let Some(format) = event.format {
            self.formats.insert(event.role, format.clone());
        }
        self.counts.entry(event.role).or_default();
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        *self.counts.entry(hit.role).or_default() += 1;
        self.course.add(&hit.role, hit.time, 1.0);
        if self.lines.len() >= self.keep.max(1) {
            self.lines.pop_front();
        }
        let UnitSample { time, cpu, role, stack, .. } = *hit;
        let (thread, raw) = (cx.thread(hit.tid), hit.raw.into());
        self.lines.push_back(Line { number: self.number, time, cpu, thread, role, raw, stack });
        self.number += 1;
    }

    fn loss_text(&self) -> &'static str {
        "counts are too low, and hits are missing from the log"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let name = |role: &usize| text(self.probes[*role].2.as_str());
        let probes = Sheet::of(by_weight(&self.counts, |n| **n), |(role, _)| *role as u64)
            .left("probe", "Probe", 40, |(role, _)| name(role))
            .right("hits", "Hits", 12, |(_, n)| Cell::Count(*n))
            .right("rate", "Hits/s", 12, |(_, n)| Cell::Number(*n as f64 / at.seconds()))
            .left("course", "Course", 40, |(role, _)| self.course.course(role, usize::MAX));
        let newest = self.lines.iter().skip(self.lines.len().saturating_sub(at.look.rows));
        let newest: Vec<(&Line, Arc<str>)> = newest.map(|line| (line, self.labels.line(at, line.stack))).collect();
        let log = Sheet::of(&newest, |(line, _)| line.number)
            .right("time_ns", "At", 9, |(line, _)| Cell::Time(at.after(line.time)))
            .right("cpu", "CPU", 4, |(line, _)| Cell::Id(line.cpu.into()))
            .left("task", "Task", 22, |(line, _)| text(at.task(line.thread)))
            .left("probe", "Probe", 32, |(line, _)| name(&line.role))
            .when(self.stack, |sheet| sheet.left("stack", "Where", 40, |(_, stack)| text(stack.clone())))
            .left("arguments", "Arguments", 0, |(line, _)| text(self.arguments(line)));
        let label = |role: &usize| self.probes[*role].2.clone();
        vec![
            probes.whole("Probes"),
            Panel::new("Log", Body::Log(log.rows())),
            self.course.series("Hits over time", at, Measure::Count, 16, label),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.values_mut().for_each(|n| *n = 0);
        self.course.clear();
        self.lines.clear();
    }
}
