//! `multi-trace`: latency between events, paired by a key, and the events in between.

mod between;
mod by_key;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::lang::counted;
use crate::panel::row_order::arrange_by_key;
use crate::units::kit::names_thread;
use crate::units::kit::options::inputs::{self, UnitInputs};
use crate::units::kit::options::select::SourceRole;
use crate::units::kit::prelude::*;

use between::{Recent, Seen, Slow, by_share_of_event};
use by_key::ByKey;

pub(crate) const SPEC: Spec = Spec {
    name: "multi-trace",
    about: "time from event A to B (to C), paired by a key, and the events in between",
    words: "between request response pair latency network tcp slow",
    help: "Each -e is a step. An event pairs with the last unpaired event of the previous step that has the same key. \
           The key is the expression --key, or key= of an event; the default is tid, the thread in which the event \
           happens, and the table names it. Other keys, such as a softirq's vec, also have their own figures (By key). \
           An event with role=1 only begins pairs, one with role=2 only ends them; \
           the role may be an expression over the event's fields. Untraced events are context. For the slowest pairs, \
           the other events on the same CPUs, threads and key are kept (--detail). A unit among the events is \
           context, too: with -e 'sched:sched_switch,profile/-F 999/untraced/' pairs show what ran meanwhile, with \
           task-state what waited and slept, with page-faults which pages were missing.",
    example: "perfprof-tui multi-trace -e sched:sched_wakeup -e sched:sched_switch//key=next_pid/ --key pid --than 10ms",
    output: "\
$ perfprof-tui multi-trace -e sched:sched_wakeup \\
    -e sched:sched_switch//key=next_pid/ --key pid
From                To                  Calls    Total     Min     Me…
sched:sched_wakeup  sched:sched_switch    873  18.1 ms  815 ns  20.7…
! paired by pid; 0 begun and not ended",
    options: &[
        "event",
        "key",
        "than",
        "only-than",
        "lower",
        "cycle",
        "keep",
        "detail",
        "per-thread",
        "frequency",
        "addresses",
    ],
    sees: Sees::Machine,
    across: Some("pairs that end on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(MultiTrace::new(settings)?)),
};

const MAX_OPEN: usize = 1 << 18;

#[derive(Clone, Debug)]
struct Role {
    selected: SelectedEvent,
    step: usize,
    begins: bool,
    ends: bool,
    /// An expression that selects the event's function: bit 0 starts a pair, bit 1 ends one.
    by: Option<String>,
}

/// The expressions of an event in one of its roles.
#[derive(Clone, Debug, Default)]
struct Bindings {
    key: Option<BoundExpr>,
    names: KeyNames,
    does: Option<BoundExpr>,
}

#[derive(Clone, Debug)]
struct Known {
    format: Option<Arc<Format>>,
    name: Arc<str>,
}

#[derive(Clone, Debug, Default)]
struct MultiTrace {
    roles: Vec<Role>,
    inputs: UnitInputs,
    steps: usize,
    key: String,
    key_chosen: bool,
    only_than: bool,
    cycle: bool,
    per_thread: bool,
    events: FxHashMap<u16, Known>,
    /// The expressions of events by role.
    bindings: FxHashMap<usize, Bindings>,
    /// By key: the step that has started.
    open: OpenSpans<RowKey, usize, Seen>,
    cpus: Option<Vec<u32>>,
    pairs: BTreeMap<(u16, u16), Stats>,
    rows: FxHashMap<(u16, u16, ThreadKey), Stats>,
    /// Pairs by key, if one was chosen.
    by_key: ByKey,
    unpaired: BTreeMap<u16, u64>,
    /// The number of pairs that were open when records were lost.
    across_gaps: u64,
    recent: Recent,
    slowest: Slowest<Slow>,
    map: Grid<u32>,
    labels: StackLabels,
}

impl MultiTrace {
    fn new(settings: &Settings) -> Result<Self, String> {
        // Findings about other tasks matter as well.
        let all = settings.of_all();
        let (lists, inputs) = inputs::joint(&all)?;
        let cycle = settings.has("cycle");
        if lists.len() < 2 && !(cycle && lists.len() == 1) {
            return Err("name two steps or more, each with its own -e (or one, with --cycle)".to_owned());
        }
        let steps = lists.len();
        let mut roles = Vec::new();
        for (step, list) in lists.into_iter().enumerate() {
            for selected in list {
                let typed = selected.get("role");
                let number = typed.map_or(Some(3u8), |text| text.parse().ok());
                let (bits, by) = (number.unwrap_or(3), typed.filter(|_| number.is_none()).map(str::to_owned));
                let traced = !selected.has("untraced") && selected.source.is_none();
                let begins = traced && bits & 1 != 0 && (step + 1 < steps || cycle);
                let ends = traced && bits & 2 != 0 && (step > 0 || cycle);
                roles.push(Role { selected, step, begins, ends, by });
            }
        }
        // Units first, as in each list: the finding caused by an event precedes the end of a pair by that event.
        arrange_by_key(&mut roles, |role| role.selected.source.is_none());
        let named = |(number, name): (u16, &'static str)| (number, Known { format: None, name: name.into() });
        Ok(Self {
            events: inputs.names().map(named).collect(),
            roles,
            inputs,
            steps,
            key: settings.get("key").unwrap_or("tid").to_owned(),
            key_chosen: settings.has("key"),
            only_than: settings.has("only-than"),
            cycle,
            recent: Recent::of(CaseDetail::of(settings)?),
            cpus: settings.cpus()?,
            per_thread: settings.has("per-thread"),
            slowest: Slowest::of(settings)?.at_most(1000),
            map: Grid::of_greatest(),
            labels: StackLabels::of(settings),
            ..Self::default()
        })
    }

    /// Whether an event of a step may follow one of another step.
    fn follows(&self, before: usize, step: usize) -> bool {
        before + 1 == step || self.cycle && step == 0 && before + 1 == self.steps
    }

    fn pair(&mut self, first: Seen, seen: &Seen, key: &RowKey, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if !cx.counts(seen.cpu) {
            return;
        }
        let ns = seen.time.saturating_sub(first.time);
        let above = self.slowest.exceeds(hit, cx.names, ns);
        if self.only_than && !above {
            return;
        }
        if !self.is_chosen(&[&first, seen], key, hit.role, cx) {
            return;
        }
        let pair = (first.event, seen.event);
        let expression = self.roles[hit.role].selected.get("key").unwrap_or(&self.key);
        let mut lists = vec![self.pairs.entry(pair).or_default()];
        if self.per_thread && !cx.own.contains(&seen.thread.tid) {
            lists.push(self.rows.entry((pair.0, pair.1, seen.thread)).or_default());
        }
        for stats in lists {
            stats.add_than(ns, above);
        }
        // Threads have rows of their own with --per-thread.
        if (self.key_chosen || expression != self.key) && !names_thread(expression) {
            self.by_key.add(pair, key, ns, above);
        }
        self.map.add(&seen.cpu, seen.time, ns as f64);
        if cx.points.is_some() {
            cx.point([&self.name(first.event), &self.name(seen.event)], seen.time, ns);
        }
        self.slowest.add(above, ns, || self.recent.between(first, seen, key));
    }

    /// Whether a pair belongs to the target: by the thread in its key, otherwise by the threads of its events.
    fn is_chosen(&self, hits: &[&Seen], key: &RowKey, role: usize, cx: &mut Context<'_>) -> bool {
        let expression = self.roles[role].selected.get("key").unwrap_or(&self.key);
        let of_thread = key.thread(expression).map(|tid| cx.has(tid));
        of_thread.unwrap_or_else(|| hits.iter().any(|seen| seen.is_chosen))
    }

    fn name(&self, event: u16) -> Arc<str> {
        self.events.get(&event).map_or_else(|| "?".into(), |event| event.name.clone())
    }

    fn event_text(&self, seen: &Seen, at: &Moment<'_>) -> String {
        if let Some(found) = &seen.found {
            return inputs::words(found, seen.stack, |stack| at.line(stack).to_string());
        }
        match self.events.get(&seen.event).and_then(|event| event.format.as_ref()) {
            Some(format) => format.call_or_text(&seen.raw),
            None => String::new(),
        }
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        let list: Vec<((u16, u16, ThreadKey), &Stats)> = match self.per_thread {
            true => self.rows.iter().map(|(key, stats)| (*key, stats)).collect(),
            false => self.pairs.iter().map(|((a, b), stats)| ((*a, *b, ThreadKey::default()), stats)).collect(),
        };
        let note = match self.key_chosen || self.roles.iter().any(|role| role.selected.has("key")) {
            true => format!("paired by {}", self.key),
            false => "paired by tid, the thread that hits: --key chooses something else".to_owned(),
        };
        Sheet::of(by_weight(list, |stats| stats.sum), |(key, _)| id(&key))
            .left("from", "From", 26, |((from, ..), _)| text(self.name(from)))
            .left("to", "To", 26, |((_, to, _), _)| text(self.name(to)))
            .when(self.per_thread, |sheet| sheet.task(at, |((.., thread), _)| thread))
            .latency(self.slowest.has_threshold(), |(_, stats)| stats)
            .panel("Pairs")
            .noted(all_notes([format!("{note}; {} begun and not ended", self.begun().count()), self.gap_note()]))
    }

    /// Returns a key by the name that any of the events has for it.
    fn key_cell(&self, key: &RowKey, at: &Moment<'_>) -> Cell {
        let mut names = (0..self.roles.len()).filter_map(|role| self.bindings.get(&role));
        names.find_map(|own| own.names.named(key, at)).unwrap_or_else(|| key.cell())
    }

    /// Describes the pairs that losses left out: a slow pair is more likely to be among them than a fast one.
    fn gap_note(&self) -> String {
        note(self.across_gaps, "pair", "left out, because records were lost before they ended")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., slow)| Cell::Time(at.after(slow.second.time)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .left("key", "Key", 12, |(.., slow)| self.key_cell(&slow.key, at))
            .left("from", "From", 26, |(.., slow)| text(self.name(slow.first.event)))
            .left("from_task", "Task", 22, |(.., slow)| text(at.task(slow.first.thread)))
            .right("from_cpu", "CPU", 4, |(.., slow)| Cell::Id(slow.first.cpu.into()))
            .left("to", "To", 26, |(.., slow)| text(self.name(slow.second.event)))
            .left("to_task", "Task", 22, |(.., slow)| text(at.task(slow.second.thread)))
            .right("to_cpu", "CPU", 4, |(.., slow)| Cell::Id(slow.second.cpu.into()))
            .whole("Slowest")
            .noted(self.gap_note())
    }

    fn looked_at(&self, at: &Moment<'_>) -> Option<&Slow> {
        let chosen = at.selected(1);
        let found = self.slowest.iter().find(|(_, number, _)| chosen == Some(*number));
        found.or_else(|| self.slowest.iter().next()).map(|(.., slow)| slow)
    }

    /// A panel of the events in between, by their share of all hits of their event.
    fn most(&mut self, at: &Moment<'_>) -> Panel {
        let slow = self.looked_at(at);
        let gap = slow.map_or_else(String::new, |slow| slow.unremembered());
        let counts = slow.map_or_else(Vec::new, |slow| slow.counts.clone());
        let counts = counts.into_iter().map(|((event, thread, stack), n)| ((event, thread), stack, n));
        let lines = self.labels.rows(at, counts, |sum: &mut u64, n| *sum += n);
        let lines = by_share_of_event(lines.iter().map(|(place, n)| (place, *n)), |((event, _), _)| *event);
        Sheet::of(lines, |(place, _)| id(place))
            .right("times", "Times", 9, |(_, n)| Cell::Count(n))
            .left("event", "Event", 26, |(((event, _), _), _)| text(self.name(*event)))
            .left("task", "Task", 22, |(((_, thread), _), _)| text(at.task(*thread)))
            .left("stack", "Where", 0, |((_, line), _)| text(line.clone()))
            .panel("Meanwhile")
            .noted(gap)
    }

    fn timeline(&self, at: &Moment<'_>) -> Panel {
        let slow = self.looked_at(at);
        let began = slow.map_or(0, |slow| slow.first.time);
        let seen: Vec<&Seen> = slow.map_or_else(Vec::new, |slow| {
            let before = slow.between.iter().take_while(|seen| seen.time < began).count();
            let (before, within) = slow.between.split_at(before);
            before.iter().chain([&slow.first]).chain(within).chain([&slow.second]).collect()
        });
        let after = |seen: &Seen| Cell::TimeFrom(seen.time.wrapping_sub(began) as i64);
        let sheet = Sheet::of(seen.into_iter().enumerate(), |(i, _)| i as u64)
            .right("after_ns", "After", 9, |(_, seen)| after(seen))
            .right("cpu", "CPU", 4, |(_, seen)| Cell::Id(seen.cpu.into()))
            .left("task", "Task", 22, |(_, seen)| text(at.task(seen.thread)))
            .left("event", "Event", 26, |(_, seen)| text(self.name(seen.event)))
            .left("text", "What", 0, |(_, seen)| text(self.event_text(seen, at)));
        let note = slow.map_or_else(String::new, |slow| match slow.more {
            0 => slow.unremembered(),
            more => format!("{} in between: --detail keeps more", counted(more as u64, "more event")),
        });
        sheet.whole(if slow.is_some() { "Events in between" } else { "In between" }).noted(note)
    }
}

impl Unit for MultiTrace {
    fn attributes(&self) -> &'static [&'static str] {
        &["key", "role"]
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        self.roles.iter().map(|role| role.selected.want(false)).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let role = &self.roles[event.role];
        if let Some(source) = role.selected.source() {
            let known = Known { format: event.format.cloned(), name: event.name.into() };
            self.events.entry(event.number).or_insert(known);
            return self.inputs.bind(source, event);
        }
        let traced = role.begins || role.ends;
        let key = role.selected.get("key").unwrap_or(&self.key);
        let key =
            traced.then(|| BoundExpr::parse(key, event.format)).transpose().map_err(|why| format!("--key: {why}"))?;
        if role.ends {
            self.slowest.bind(event)?;
        }
        let by = role.by.as_ref().filter(|_| traced).map(|text| BoundExpr::parse(text, event.format));
        let by = by.transpose().map_err(|why| format!("role=: {why}"))?;
        // An event may have several roles, each with a key.
        let names = key.as_ref().map(|key| KeyNames::of(key, event)).unwrap_or_default();
        self.bindings.insert(event.role, Bindings { key, names, does: by });
        let known =
            || Known { format: event.format.cloned(), name: role.selected.get("alias").unwrap_or(event.name).into() };
        self.events.entry(event.number).or_insert_with(known);
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        // Decide at each record, which contains the thread's process: the end of the pair may need the decision later.
        let is_chosen = cx.has(hit.tid) || !cx.is_narrow();
        if let Some(source) = self.roles[hit.role].selected.source() {
            return self.context(source, hit, cx);
        }
        let seen = Seen { is_chosen, ..Seen::of(hit, cx) };
        let own = self.bindings.get(&hit.role);
        let does = own.and_then(|own| own.does.as_ref());
        let bits = does.map_or(3, |does| does.count(hit, cx.names).unwrap_or(0));
        let (step, begins, ends) = {
            let role = &self.roles[hit.role];
            (role.step, role.begins && bits & 1 != 0, role.ends && bits & 2 != 0)
        };
        let key = own.and_then(|own| own.key.as_ref()).and_then(|key| {
            let key = key.with(hit, cx.names, None, |value| RowKey::of(&value));
            matches!(key, RowKey::Int(_) | RowKey::Text(_)).then_some(key)
        });
        if let (Some(own), Some(key)) = (self.bindings.get_mut(&hit.role), &key) {
            own.names.see(key, hit);
        }
        if let Some(key) = key {
            let waits = self.open.newest(&key).map(|open| open.what).is_some_and(|open| self.follows(open, step));
            if ends
                && waits
                && let Some(open) = self.open.take(&key)
            {
                self.pair(open.with, &seen, &key, hit, cx);
            }
            if begins && self.open.len() < MAX_OPEN {
                let is_chosen = self.is_chosen(&[&seen], &key, hit.role, cx);
                let begun = Seen { is_chosen, ..seen.clone() };
                let Some(before) = self.open.replace(key, step, seen.time, begun) else {
                    return self.recent.remember(seen);
                };
                *self.unpaired.entry(before.with.event).or_default() +=
                    u64::from(before.with.is_chosen && cx.counts(before.with.cpu));
            }
        }
        self.recent.remember(seen);
    }

    fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        for (number, found) in self.inputs.on_switch_in(cpu, tid, time, cx) {
            self.found(number, found, &UnitSample::switch_in(cpu, tid, time), cx);
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        let mut keys = self.roles.iter().map(|role| role.selected.get("key").unwrap_or(&self.key));
        if keys.any(names_thread) {
            self.open.follow_keys(change, |tid| RowKey::Int(tid.into()));
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.across_gaps += self.begun().count() as u64;
        self.open.forget();
    }

    fn loss_text(&self) -> &'static str {
        "pairs across the gap are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let chosen = at
            .selected(0)
            .and_then(|row| self.pairs.iter().find(|((a, b), _)| id(&(*a, *b, ThreadKey::default())) == row));
        let all = chosen.map_or_else(|| self.pairs.values().sum(), |(_, stats)| stats.clone());
        let mut panels = vec![
            self.table(at),
            self.slow(at),
            self.timeline(at),
            self.most(at),
            latency::by_powers("Distribution", &all, Measure::Time),
            self.map.heatmap("Slowest by CPU and time", at, Measure::Time, 64, |cpu| format!("CPU {cpu}")),
            self.unpaired_panel(),
        ];
        panels.extend(self.by_key.panel(
            self.slowest.has_threshold(),
            |event| self.name(event),
            |key| self.key_cell(key, at),
        ));
        panels
    }

    fn pin_data(&mut self, _now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        for own in self.bindings.values_mut() {
            own.names.pin(self.slowest.iter().map(|(.., slow)| &slow.key), pin);
            own.names.pin(self.by_key.keys(), pin);
        }
    }

    fn reset(&mut self, _now: u64) {
        self.pairs.clear();
        self.rows.clear();
        self.by_key.clear();
        self.unpaired.clear();
        self.across_gaps = 0;
        self.slowest.clear();
        self.map.clear();
    }
}

impl MultiTrace {
    /// Processes a hit of a unit among the events.
    fn context(&mut self, source: SourceRole, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let number = UnitInputs::number(source.source);
        match self.inputs.take(source, hit, cx) {
            None => self.recent.remember(Seen::of(hit, cx)),
            Some(list) => list.into_iter().for_each(|found| self.found(number, found, hit, cx)),
        }
    }

    fn found(&mut self, number: u16, found: Finding, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(found.tid);
        let Finding { tid, stack, text } = found;
        let found = Some(text.into_boxed_str());
        let (thread, pid) = (cx.thread(tid), if tid == hit.tid { hit.pid } else { 0 });
        let seen = Seen { event: number, pid, thread, raw: Box::default(), stack, found, ..Seen::of(hit, cx) };
        self.recent.remember(seen);
    }

    /// Returns open starts of the target on the selected CPUs.
    fn begun(&self) -> impl Iterator<Item = &Seen> {
        let counts = |seen: &&Seen| self.cpus.as_ref().is_none_or(|cpus| cpus.binary_search(&seen.cpu).is_ok());
        self.open.iter().map(|(_, open)| &open.with).filter(|seen| seen.is_chosen).filter(counts)
    }

    fn unpaired_panel(&self) -> Panel {
        let mut open: BTreeMap<u16, u64> = BTreeMap::new();
        self.begun().for_each(|one| *open.entry(one.event).or_default() += 1);
        let events: BTreeSet<u16> = self.unpaired.keys().chain(open.keys()).copied().collect();
        let count = |map: &BTreeMap<u16, u64>, event| Cell::Count(map.get(&event).copied().unwrap_or(0));
        Sheet::of(events, |event| event.into())
            .left("event", "Event", 32, |event| text(self.name(event)))
            .right("replaced", "Replaced", 12, |event| count(&self.unpaired, event))
            .right("open", "Open", 12, |event| count(&open, event))
            .whole("Unpaired")
    }
}
