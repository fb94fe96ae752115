//! `hrcount`: bursts of events in milliseconds, which counts per second hide.

use std::collections::{BTreeMap, VecDeque};

use crate::panel::heatmap::{HeatRow, Heatmap};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "hrcount",
    about: "bursts of events: counts in windows of milliseconds on each CPU",
    words: "burst spike microburst count jitter",
    help: "Each event is assigned to a window by its own timestamp, so windows have no skew. A burst is a window with \
           at least four events and at least four times the mean. The strip shows the newest windows.",
    example: "perfprof-tui hrcount -e irq:softirq_entry --period 1ms",
    output: "\
$ perfprof-tui hrcount -e irq:softirq_entry --period 1ms --batch \\
    --duration 1
Event              CPU  Events  Min  Mean  p50  p95  p99  Max  Bursts…
irq:softirq_entry    0     604    0     0    0    1   22   36      11…
irq:softirq_entry    1   9,667    0     9   11   21   27   31       1…",
    options: &["event", "period"],
    sees: Sees::Cpus,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(HrCount::new(settings)?)),
};

const STRIP: usize = 240;

#[derive(Clone, Debug, Default)]
struct Slots {
    window: u64,
    count: u64,
    first: Option<u64>,
    stats: Stats,
    bursts: u64,
    /// The largest window: its count and start.
    most: (u64, u64),
    strip: VecDeque<(u64, u64)>,
}

impl Slots {
    /// Advances to a window; skipped windows are empty.
    fn turn(&mut self, window: u64, period: u64) {
        if self.first.is_none() {
            (self.first, self.window) = (Some(window), window);
        }
        if window <= self.window {
            return;
        }
        let mean = self.stats.mean();
        self.stats.add(self.count);
        self.stats.add_many(0, window - self.window - 1);
        if self.count >= 4 && self.count as f64 >= 4.0 * mean {
            self.bursts += 1;
        }
        if self.count > self.most.0 {
            self.most = (self.count, self.window * period);
        }
        if self.count > 0 {
            self.strip.push_back((self.window, self.count));
        }
        while self.strip.front().is_some_and(|(old, _)| old + STRIP as u64 <= window) {
            self.strip.pop_front();
        }
        (self.window, self.count) = (window, 0);
    }
}

#[derive(Clone, Debug)]
struct HrCount {
    selected: Vec<SelectedEvent>,
    period: u64,
    slots: BTreeMap<(usize, u32), Slots>,
}

impl HrCount {
    fn new(settings: &Settings) -> Result<Self, String> {
        let period = settings.time("period")?.unwrap_or(1_000_000);
        if period < 1000 {
            return Err("--period: a window is at least 1us".to_owned());
        }
        Ok(Self { selected: select::flat(settings)?, period, slots: BTreeMap::new() })
    }
}

impl Unit for HrCount {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|selected| selected.want(false)).collect()
    }

    fn record(&mut self, hit: &UnitSample<'_>, _cx: &mut Context<'_>) {
        let slots = self.slots.entry((hit.role, hit.cpu)).or_default();
        slots.turn(hit.time / self.period, self.period);
        slots.count += 1;
    }

    fn loss_text(&self) -> &'static str {
        "windows of that time lack events on that CPU"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let now = at.now / self.period;
        let mut strip = Vec::new();
        let from = now.saturating_sub(STRIP as u64) + 1;
        for ((role, cpu), slots) in &mut self.slots {
            slots.turn(now, self.period);
            let mut line = vec![0.0; STRIP];
            for (window, count) in &slots.strip {
                if let Some(cell) = window.checked_sub(from).and_then(|i| line.get_mut(i as usize)) {
                    *cell = *count as f32;
                }
            }
            strip.push(HeatRow { label: format!("{} CPU {cpu}", self.selected[*role].title()), cells: line });
        }
        let start = at.after(from * self.period);
        let map = Heatmap { measure: Measure::Count, start, step: self.period, rows: strip };
        // The values are counts, and `calls` has its own column.
        let spread = latency::columns(false).into_iter().skip(2).map(|column| column.of_unit(""));
        let table = Sheet::of(&self.slots, |(key, _)| id(key))
            .left("event", "Event", 28, |((role, _), _)| text(self.selected[*role].title()))
            .right("cpu", "CPU", 4, |((_, cpu), _)| Cell::Id((*cpu).into()))
            .right("events", "Events", 12, |(_, slots)| Cell::Count(slots.stats.sum + slots.count))
            .columns(spread, |(_, slots)| latency::cells_of(&slots.stats, false, Cell::Count).into_iter().skip(2))
            .right("bursts", "Bursts", 8, |(_, slots)| Cell::Count(slots.bursts))
            .right("busiest_ns", "Busiest at", 10, |(_, slots)| Cell::Time(at.after(slots.most.1)))
            .right("windows", "Windows", 10, |(_, slots)| Cell::Count(slots.stats.n));
        vec![
            table.whole(format!("Events in windows of {}", crate::panel::unit::duration(self.period))),
            Panel::new("The newest windows", Body::Heatmap(map)),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.slots.clear();
    }
}
