//! `trace`: a log of events in order of time, with text and stacks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::units::kit::options::inputs::{self, UnitInputs};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "trace",
    about: "events as a log in order of time, with rates and stacks",
    words: "log ftrace print events order",
    help: "Keeps the newest events with their fields; rates count all events. A BPF program reads the strings of \
           system calls when they are made; this needs root, and without it strings appear as addresses. The kernel \
           evaluates a filter (-e EVENT/FILTER/); conditions that it does not support are evaluated here. The events \
           may include units (-e 'sched:sched_switch,profile/-F 99/,task-state'); their results are listed in the \
           same order of time. -F is the rate of sampled events.",
    example: "perfprof-tui trace -e 'sched:sched_process_exec,signal:*' -g",
    output: "\
$ perfprof-tui trace -e syscalls:sys_enter_openat --batch -n 1
    Time  CPU  Comm    TID  Event                      What
0.017233    1  cat   11075  syscalls:sys_enter_openat  openat(dfd: CW…
0.018461    0  sed   11076  syscalls:sys_enter_openat  openat(dfd: CW…",
    options: &["event", "stack", "keep", "frequency"],
    sees: Sees::Target,
    across: None,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(Trace::new(settings)?)),
};

const KEEP: u64 = 20_000;

#[derive(Clone, Debug)]
struct Line {
    number: u64,
    time: u64,
    cpu: u32,
    thread: ThreadKey,
    event: u16,
    ip: u64,
    addr: u64,
    raw: Box<[u8]>,
    stack: RetainedStack,
    /// The finding of a unit among the events.
    found: Option<Box<str>>,
}

#[derive(Clone, Debug, Default)]
struct Trace {
    selected: Vec<SelectedEvent>,
    inputs: UnitInputs,
    stack: bool,
    keep: usize,
    events: FxHashMap<u16, (Arc<str>, Option<Arc<Format>>)>,
    lines: VecDeque<Line>,
    counts: BTreeMap<u16, u64>,
    rates: Grid<u16>,
    stacks: FxHashMap<(ThreadKey, RetainedStack), u64>,
    number: u64,
    /// The lines up to this number have their functions kept.
    kept: u64,
    functions: KernelFunctionNames,
}

impl Trace {
    fn new(settings: &Settings) -> Result<Self, String> {
        let (lists, inputs) = inputs::joint(settings)?;
        let selected: Vec<SelectedEvent> = lists.into_iter().flatten().collect();
        if selected.is_empty() {
            return Err(select::NONE.to_owned());
        }
        let named = |(number, name): (u16, &'static str)| (number, (Arc::from(name), None));
        Ok(Self {
            stack: settings.has("stack"),
            events: inputs.names().map(named).collect(),
            selected,
            inputs,
            keep: settings.number("keep", KEEP)?.clamp(1, 1_000_000) as usize,
            ..Self::default()
        })
    }

    fn name(&self, event: u16) -> Arc<str> {
        self.events.get(&event).map_or_else(|| "?".into(), |(name, _)| name.clone())
    }

    fn event_text(&self, line: &Line, at: &Moment<'_>) -> String {
        if let Some(found) = &line.found {
            return inputs::words(found, line.stack, |stack| at.line(stack).to_string());
        }
        match self.events.get(&line.event) {
            Some((_, Some(format))) => format.call_or_text_with(&line.raw, &|address| self.functions.at(at, address)),
            _ if line.addr != 0 => format!("addr {:#x} ip {:#x}", line.addr, line.ip),
            _ => format!("ip {:#x}", line.ip),
        }
    }

    fn add_found(&mut self, number: u16, found: &Finding, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(found.tid);
        let found_at = UnitSample { event: number, tid: found.tid, raw: &[], stack: found.stack, ..*hit };
        self.add(&found_at, Some(&found.text), cx);
    }

    fn add(&mut self, hit: &UnitSample<'_>, found: Option<&str>, cx: &Context<'_>) {
        if self.lines.len() >= self.keep {
            self.lines.pop_front();
        }
        let UnitSample { time, cpu, event, ip, addr, stack, .. } = *hit;
        let (thread, raw, found) = (cx.thread(hit.tid), hit.raw.into(), found.map(Into::into));
        self.lines.push_back(Line { number: self.number, time, cpu, thread, event, ip, addr, raw, stack, found });
        self.number += 1;
        *self.counts.entry(hit.event).or_default() += 1;
        self.rates.add(&hit.event, hit.time, 1.0);
        if hit.stack != RetainedStack::NONE {
            *self.stacks.entry((thread, hit.stack)).or_default() += 1;
        }
    }

    fn log(&self, at: &Moment<'_>) -> Panel {
        let skip = self.lines.len().saturating_sub(at.look.rows);
        let rows = Sheet::of(self.lines.iter().skip(skip), |line| line.number)
            .right("time_ns", "Time", 14, |line| Cell::Moment(at.after(line.time)))
            .right("cpu", "CPU", 4, |line| Cell::Id(line.cpu.into()))
            .task(at, |line| line.thread)
            .ranked(1)
            .left("event", "Event", 26, |line| text(self.name(line.event)))
            .left("text", "What", 0, |line| text(self.event_text(line, at)))
            .rows();
        let gone = self.number - self.lines.len() as u64 + skip as u64;
        Panel::new("Log", Body::Log(rows)).noted(note(gone, "older event", "not shown"))
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(by_weight(&self.counts, |hits| **hits), |(event, _)| u64::from(*event))
            .left("event", "Event", 32, |(event, _)| text(self.name(*event)))
            .right("hits", "Hits", 12, |(_, hits)| Cell::Count(*hits))
            .right("rate", "Hits/s", 12, |(_, hits)| Cell::Number(*hits as f64 / at.seconds()))
            .left("course", "Course", 40, |(event, _)| self.rates.course(event, usize::MAX))
            .whole("Rates")
    }

    fn stack_of(&self, at: &Moment<'_>) -> Panel {
        let chosen = at.selected(0).and_then(|number| {
            let first = self.lines.front()?.number;
            self.lines.get(usize::try_from(number.checked_sub(first)?).ok()?)
        });
        let line = chosen.or_else(|| self.lines.back());
        let frames = line.map(|line| at.frames(line.stack)).unwrap_or_default();
        Sheet::of(frames.iter().rev().enumerate(), |(i, _)| i as u64)
            .left("function", "Function", 48, |(_, name)| text(name.text.clone()))
            .left("dso", "DSO", 0, |(_, name)| text(name.dso.clone()))
            .whole("Stack of the event under the cursor")
    }
}

impl Unit for Trace {
    fn is_log(&self) -> bool {
        true
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|selected| selected.want(self.stack)).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let selected = &self.selected[event.role];
        let named = (selected.get("alias").unwrap_or(event.name).into(), event.format.cloned());
        match selected.source() {
            // An event that is also listed itself keeps its own name.
            Some(source) => {
                self.events.entry(event.number).or_insert(named);
                self.inputs.bind(source, event)
            }
            None => {
                self.events.insert(event.number, named);
                Ok(())
            }
        }
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        // Look the name up while the thread lives.
        cx.comm(hit.tid);
        let Some(source) = self.selected[hit.role].source() else {
            if cx.counts(hit.cpu) && (!self.inputs.see_machine() || cx.has(hit.tid)) {
                self.add(hit, None, cx);
            }
            return;
        };
        match self.inputs.take(source, hit, cx) {
            None if self.inputs.see_machine() && !cx.has(hit.tid) => {}
            None => self.add(hit, None, cx),
            Some(list) => {
                list.iter().for_each(|found| self.add_found(UnitInputs::number(source.source), found, hit, cx))
            }
        }
    }

    fn inputs(&mut self) -> Option<&mut UnitInputs> {
        Some(&mut self.inputs)
    }

    fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        for (number, found) in self.inputs.on_switch_in(cpu, tid, time, cx) {
            self.add_found(number, &found, &UnitSample::switch_in(cpu, tid, time), cx);
        }
    }

    fn loss_text(&self) -> &'static str {
        "they are missing from the log and the rates"
    }
    fn pin_data(&mut self, _now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        let found = RefCell::new(BTreeSet::new());
        for line in self.lines.iter().rev().take_while(|line| line.number >= self.kept) {
            let Some((_, Some(format))) = self.events.get(&line.event) else { continue };
            if format.printer.names_functions() {
                format.text_with(&line.raw, &|address| {
                    found.borrow_mut().insert(address);
                    None
                });
            }
        }
        self.kept = self.number;
        found.into_inner().into_iter().for_each(|address| self.functions.keep(address, pin));
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut panels = vec![self.log(at), self.table(at)];
        if self.stack || self.selected.iter().any(|selected| selected.has("stack")) {
            let all = self.stacks.iter().map(|((thread, pin), n)| (*thread, *pin, *n, *n));
            panels.push(self.stack_of(at));
            panels.push(at.flame("Flame graph of events", Measure::Count, all));
        }
        panels
    }

    fn reset(&mut self, _now: u64) {
        self.lines.clear();
        self.counts.clear();
        self.rates.clear();
        self.stacks.clear();
        (self.number, self.kept) = (0, 0);
    }
}
