//! `breakpoint`: reads, writes or executions of an address, by stack, and the values found there.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "breakpoint",
    about: "reads, writes and executions of an address: hits by stack, and the values there",
    words: "watchpoint variable address corruption overwrite memory debug",
    help: "Give addresses as ADDR[/LEN][:rwx] or -e mem:ADDR[/LEN][:rwx]; the default is one byte, written. The \
           hardware has at most four breakpoints. Values are read from the process up to a tenth of a second after \
           the hit, so a value that was overwritten in between is not shown. The kernel cannot watch reads alone: r \
           means rw.",
    example: "perfprof-tui breakpoint -e mem:0x404040/4:w -p 1234",
    output: "",
    options: &["event", "comm", "pids", "tids", "addresses"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(Breakpoint::new(settings)?)),
};

const MAX_VALUES: usize = 4096;

#[derive(Clone, Debug, Default)]
struct Breakpoint {
    selected: Vec<SelectedEvent>,
    hits: FxHashMap<(usize, ThreadKey, RetainedStack), u64>,
    values: BTreeMap<(usize, u64), (u64, u64)>,
    /// The last time at which a process's memory was read: hits arrive in batches.
    read: FxHashMap<(i32, u64), u64>,
    course: Grid<usize>,
    total: u64,
    labels: StackLabels,
}

impl Breakpoint {
    fn new(settings: &Settings) -> Result<Self, String> {
        if settings.get("comm").is_some_and(|text| text.contains(['=', '<', '>', '!', '&'])) {
            return Err(
                "--filter: names of commands are expected here. The value that was written is not known when the \
                        address is hit; those that are read soon after are in the panel 'Values seen'"
                    .to_owned(),
            );
        }
        let selected = select::flat(settings).map_err(|why| match settings.has("event") {
            true => why,
            false => "name an address, e.g. 0x404040/4:w, or -e mem:0x404040/4:w".to_owned(),
        })?;
        if let Some(other) = selected.iter().find(|one| !one.event.starts_with("mem:")) {
            return Err(format!("{}: expected an address such as mem:0x404040/4:w", other.event));
        }
        Ok(Self { selected, labels: StackLabels::of(settings), ..Self::default() })
    }

    /// The number of watched bytes: `mem:ADDR/LEN`.
    fn len(&self, role: usize) -> usize {
        let word = &self.selected[role].event["mem:".len()..];
        let len = word.split(':').next().and_then(|place| place.split_once('/')).and_then(|(_, len)| len.parse().ok());
        len.unwrap_or(4)
    }
}

impl Unit for Breakpoint {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|one| EventRequest { rate: Some(Rate::Period(1)), ..one.want(true) }).collect()
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        *self.hits.entry((hit.role, cx.thread(hit.tid), hit.stack)).or_default() += 1;
        self.course.add(&hit.role, hit.time, 1.0);
        self.total += 1;
        cx.find(hit.tid, hit.stack, || self.selected[hit.role].title().to_owned());
        let fetches = self.selected[hit.role].event.ends_with(":x");
        let last = self.read.get(&(hit.pid, hit.addr)).copied().unwrap_or(0);
        // Limits the memory reads during a storm of hits.
        if fetches || hit.time.saturating_sub(last) < 1_000_000 {
            return;
        }
        self.read.insert((hit.pid, hit.addr), hit.time);
        if let Some(value) = cx.session.peek(hit.pid, hit.addr, self.len(hit.role))
            && (self.values.len() < MAX_VALUES || self.values.contains_key(&(hit.role, value)))
        {
            let entry = self.values.entry((hit.role, value)).or_default();
            *entry = (entry.0 + 1, hit.time);
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let hits = self.hits.iter().map(|((role, thread, pin), n)| ((*role, *thread), *pin, *n));
        let places = self.labels.rows(at, hits, |sum: &mut u64, n| *sum += n);
        let title = |role: &usize| self.selected[*role].title();
        let hits = Sheet::of(by_weight(&places, |n| **n), |(key, _)| id(key))
            .right("hits", "Hits", 10, |(_, n)| Cell::Count(*n))
            .share(|(_, n)| *n, self.total)
            .left("where", "Watched", 22, |(((role, _), _), _)| text(title(role)))
            .left("task", "Task", 22, |(((_, thread), _), _)| text(at.task(*thread)))
            .left("stack", "Where", 0, |((_, stack), _)| text(stack.clone()))
            .panel("Hits by stack");
        let values = Sheet::of(by_weight(&self.values, |(n, last)| (*last, *n)), |(key, _)| id(key))
            .left("where", "Watched", 22, |((role, _), _)| text(title(role)))
            .right("value", "Value", 20, |((_, value), _)| Cell::Count(*value))
            .right("hex", "Hex", 18, |((_, value), _)| Cell::Address(*value))
            .right("times", "Seen", 8, |(_, (n, _))| Cell::Count(*n))
            .right("last_ns", "Last at", 9, |(_, (_, last))| Cell::Time(at.after(*last)))
            .panel("Values seen");
        let stacks = self.hits.iter().map(|((_, thread, pin), n)| (*thread, *pin, *n, *n));
        vec![
            hits,
            values,
            at.flame("Hits as a flame graph", Measure::Count, stacks),
            self.course.series("Hits over time", at, Measure::Count, 4, |role| title(role).to_owned()),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.hits.clear();
        self.values.clear();
        self.course.clear();
        self.total = 0;
    }
}
