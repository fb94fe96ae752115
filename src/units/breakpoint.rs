//! `breakpoint`: who reads, writes or executes an address, by stack, and which values were there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::Rate;
use crate::panel::{Body, Cell, Measure, Panel, Rows, Stacks};
use crate::profile::RetainedStack;

use super::kit::columns::{MOST_ROWS, left, right, share, text};
use super::kit::rowids::id;
use super::kit::select::{self, SelectedEvent};
use super::kit::{Context, EventRequest, Grid, Moment, Sample, Settings, Spec, ThreadChoice, Unit};

pub(super) const SPEC: Spec = Spec {
    name: "breakpoint",
    about: "who reads, writes or executes an address: hits by stack, and the values seen there",
    help: "Addresses are named as -e mem:ADDR[/LEN][:rwx]; four at most, in hardware. Values are read from the process \
           when its hits are read, up to a tenth of a second later: a value that was overwritten meanwhile is not \
           seen. The kernel has no watchpoint for reads alone: r means rw.",
    example: "perfprof-tui breakpoint -e mem:0x404040/4:w -p 1234",
    output: "",
    options: &["event", "comm", "pids", "tids"],
    whole: false,
    interval: None,
    make: |settings| Ok(Box::new(Breakpoint::new(settings)?)),
};

/// Different values that are counted.
const MAX_VALUES: usize = 4096;

#[derive(Debug)]
struct Breakpoint {
    selected: Vec<SelectedEvent>,
    chosen: ThreadChoice,
    hits: FxHashMap<(usize, i32, RetainedStack), u64>,
    values: BTreeMap<(usize, u64), (u64, u64)>,
    /// The time of the last reading of each process: hits come in batches.
    read: FxHashMap<(i32, u64), u64>,
    course: Grid<usize>,
    total: u64,
}

impl Breakpoint {
    fn new(settings: &Settings) -> Result<Self, String> {
        let selected = select::flat(settings)?;
        if let Some(other) = selected.iter().find(|one| !one.event.starts_with("mem:")) {
            return Err(format!("{}: expected an address such as mem:0x404040/4:w", other.event));
        }
        Ok(Self {
            selected,
            chosen: ThreadChoice::of(settings)?,
            hits: FxHashMap::default(),
            values: BTreeMap::new(),
            read: FxHashMap::default(),
            course: Grid::default(),
            total: 0,
        })
    }

    /// Bytes that a breakpoint watches: `mem:ADDR/LEN`.
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

    fn record(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) {
        if !self.chosen.has(hit.tid, cx) {
            return;
        }
        cx.comm(hit.tid);
        *self.hits.entry((hit.role, hit.tid, hit.stack)).or_default() += 1;
        self.course.add(&hit.role, hit.time, 1.0);
        self.total += 1;
        let fetches = self.selected[hit.role].event.ends_with(":x");
        let last = self.read.get(&(hit.pid, hit.addr)).copied().unwrap_or(0);
        // A storm of hits is not read word by word.
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

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut list: Vec<(&(usize, i32, RetainedStack), &u64)> = self.hits.iter().collect();
        list.sort_by_key(|(key, n)| (std::cmp::Reverse(**n), **key));
        let mut rows = Rows::new(vec![
            right("hits", "Hits", 10),
            right("share_pct", "Share", 8),
            left("where", "Watched", 22),
            left("task", "Task", 22),
            left("stack", "Where", 0),
        ]);
        let mut by_comm: BTreeMap<(Arc<str>, RetainedStack), u64> = BTreeMap::new();
        for ((role, tid, pin), n) in list {
            *by_comm.entry((at.comm(*tid), *pin)).or_default() += n;
            let cells = vec![
                Cell::Count(*n),
                share(*n, self.total),
                text(self.selected[*role].title()),
                text(at.task(*tid)),
                text(at.line(*pin)),
            ];
            rows.push(id(&(role, tid, pin)), cells);
        }
        let mut values = Rows::new(vec![
            left("where", "Watched", 22),
            right("value", "Value", 20),
            right("hex", "Hex", 18),
            right("times", "Seen", 8),
            right("last_ns", "Last at", 9),
        ]);
        let mut seen: Vec<_> = self.values.iter().collect();
        seen.sort_by_key(|(key, (n, last))| (std::cmp::Reverse((*last, *n)), **key));
        for ((role, value), (n, last)) in seen {
            let cells = vec![
                text(self.selected[*role].title()),
                Cell::Count(*value),
                Cell::Address(*value),
                Cell::Count(*n),
                Cell::Time(at.after(*last)),
            ];
            values.push(id(&(role, value)), cells);
        }
        let stacks = by_comm.into_iter().map(|((comm, pin), n)| at.stack(comm, pin, n, n)).collect();
        let label = |role: &usize| self.selected[*role].title().to_owned();
        vec![
            Panel::new("Hits by stack", Body::Table(rows.limited(MOST_ROWS))),
            Panel::new("Values seen", Body::Table(values.limited(MOST_ROWS))),
            Panel::new("Hits as a flame graph", Body::Flame(Arc::new(Stacks::new(Measure::Count, stacks)))),
            Panel::new("Hits over time", self.course.series(at.start, Measure::Count, 4, label)),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.hits.clear();
        self.values.clear();
        self.course.clear();
        self.total = 0;
    }
}
