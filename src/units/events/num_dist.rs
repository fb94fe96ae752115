//! `num-dist`: distribution of a numeric event field.

use std::collections::{BTreeMap, VecDeque};

use crate::panel::series::{SeriesLine, TimeSeries};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "num-dist",
    about: "distribution of a number by key: min, p50, p95, p99, max, and histograms",
    words: "distribution histogram percentile number size latency",
    help: "The number is the expression --num, or num= of one event, over the event's fields. Negative values and \
           values that cannot be computed are counted separately. Quantiles are within 1.6 %.",
    example: "perfprof-tui num-dist -e sched:sched_stat_runtime --num runtime --key comm",
    output: "\
$ perfprof-tui num-dist -e sched:sched_stat_runtime --num runtime \\
    --key comm --batch --duration 1
Event                             Key              Calls        Total…
sched:sched_stat_runtime runtime  opt cgu.0          425  897,023,967…
sched:sched_stat_runtime runtime  shortjob         1,564  350,505,389…",
    options: &["event", "num", "key", "than", "keep"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(NumDist::new(settings)?)),
};

const MAX_KEYS: usize = 10_000;
/// Number of seconds in the time series of the 99th percentile.
const SECONDS: usize = 120;

#[derive(Clone, Debug)]
struct Numbers {
    num: BoundExpr,
    key: Option<BoundExpr>,
    keys: KeyNames,
    name: String,
}

#[derive(Clone, Debug, Default)]
struct NumDist {
    selected: Vec<SelectedEvent>,
    num: Option<String>,
    key: Option<String>,
    events: BTreeMap<u16, Numbers>,
    rows: BTreeMap<(u16, RowKey), Stats>,
    all: BTreeMap<u16, Stats>,
    seconds: VecDeque<(u64, Stats)>,
    no_value: u64,
    greatest: Slowest<(u16, u64, ThreadKey)>,
}

impl NumDist {
    fn new(settings: &Settings) -> Result<Self, String> {
        let selected = select::flat(settings)?;
        let num = settings.get("num").map(str::to_owned);
        if let Some(without) = selected.iter().find(|one| num.is_none() && one.get("num").is_none()) {
            return Err(format!(
                "{}: say which number with --num EXPR, or -e {}//num=EXPR/",
                without.event, without.event
            ));
        }
        Ok(Self {
            selected,
            num,
            key: settings.get("key").map(str::to_owned),
            greatest: Slowest::of(settings)?,
            ..Self::default()
        })
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        // The values have no common unit.
        let spread = latency::columns(self.greatest.has_threshold()).into_iter().map(|column| column.of_unit(""));
        let has_key = self.key.is_some() || self.selected.iter().any(|one| one.get("key").is_some());
        let sheet = Sheet::of(by_weight(&self.rows, |stats| stats.sum), |(key, _)| id(key))
            .left("event", "Event", 28, |((event, _), _)| text(self.events[event].name.as_str()))
            .when(has_key, |sheet| {
                sheet.left("key", "Key", 20, |((event, key), _)| self.events[event].keys.cell(key, at))
            })
            .columns(spread, |(_, stats)| latency::cells_of(stats, self.greatest.has_threshold(), Cell::Count));
        sheet.panel("Distributions").noted(note(
            self.no_value,
            "record",
            "without such a number, or with one below zero",
        ))
    }

    fn course(&self, at: &Moment<'_>) -> Panel {
        let line = |label: &str, share: f64| SeriesLine {
            label: label.to_owned(),
            values: self
                .seconds
                .iter()
                .map(|(_, stats)| if stats.n == 0 { f64::NAN } else { stats.quantile(share) as f64 })
                .collect(),
        };
        let start = self.seconds.front().map_or(0, |(second, _)| at.after(second * 1_000_000_000));
        let lines = vec![line("p50", 0.5), line("p99", 0.99), line("max", 1.0)];
        let series = TimeSeries { measure: Measure::Count, start, step: 1_000_000_000, lines };
        Panel::new("Second by second", Body::Series(series))
    }
}

impl Unit for NumDist {
    fn attributes(&self) -> &'static [&'static str] {
        &["key", "num"]
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|selected| selected.want(false)).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let own = &self.selected[event.role];
        let num = own.get("num").or(self.num.as_deref()).unwrap_or("period");
        let key = own.get("key").or(self.key.as_deref());
        let key = key.map(|key| BoundExpr::parse(key, event.format)).transpose()?;
        let numbers = Numbers {
            num: BoundExpr::parse(num, event.format)?,
            keys: key.as_ref().map(|key| KeyNames::of(key, event)).unwrap_or_default(),
            key,
            name: own.get("alias").map_or_else(|| format!("{} {num}", event.name), str::to_owned),
        };
        self.events.insert(event.number, numbers);
        self.greatest.bind(event)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(numbers) = self.events.get_mut(&hit.event) else { return };
        cx.comm(hit.tid);
        let Some(value) = numbers.num.count(hit, cx.names) else {
            self.no_value += 1;
            return;
        };
        let above = self.greatest.exceeds(hit, cx.names, value);
        let key = numbers.key.as_ref();
        let key = key.map_or(RowKey::Empty, |key| key.with(hit, cx.names, None, |value| RowKey::of(&value)));
        numbers.keys.see(&key, hit);
        let own = self.selected[hit.role].get("key").or(self.key.as_deref());
        if own.is_some_and(|expression| cx.is_own_key(expression, &key)) {
            return;
        }
        let key = match own {
            Some(expression) => cx.row_key(expression, key),
            None => key,
        };
        let key = (hit.event, key);
        let key = match self.rows.len() >= MAX_KEYS && !self.rows.contains_key(&key) {
            true => (hit.event, RowKey::Others),
            false => key,
        };
        let second = hit.time / 1_000_000_000;
        if self.seconds.back().is_none_or(|(last, _)| *last < second) {
            // Seconds without a value are gaps of the time series.
            let next =
                self.seconds.back().map_or(second, |(last, _)| (last + 1).max(second.saturating_sub(SECONDS as u64)));
            self.seconds.extend((next..=second).map(|second| (second, Stats::default())));
            while self.seconds.len() > SECONDS {
                self.seconds.pop_front();
            }
        }
        let course = self.seconds.back_mut().map(|(_, stats)| stats);
        let lists = [Some(self.rows.entry(key).or_default()), Some(self.all.entry(hit.event).or_default()), course];
        for stats in lists.into_iter().flatten() {
            stats.add_than(value, above);
        }
        if let Some(event) = self.events.get(&hit.event).filter(|_| cx.points.is_some()) {
            cx.point([&event.name, ""], hit.time, value);
        }
        self.greatest.add(above, value, || (hit.event, hit.time, cx.thread(hit.tid)));
    }

    fn loss_text(&self) -> &'static str {
        "their numbers are missing from the distributions"
    }

    fn pin_data(&mut self, _now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        for (event, numbers) in &mut self.events {
            numbers.keys.pin(self.rows.keys().filter(|(of, _)| of == event).map(|(_, key)| key), pin);
        }
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let chosen = at.selected(0).and_then(|row| self.rows.iter().find(|(key, _)| id(&(key.0, &key.1)) == row));
        let mut panels = vec![self.table(at)];
        let of = chosen.map(|(_, stats)| stats).or_else(|| self.all.values().next());
        if let Some(stats) = of {
            panels.push(latency::by_powers("Powers of two", stats, Measure::Count));
        }
        panels.push(self.course(at));
        let greatest = Sheet::of(self.greatest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., (_, time, _))| Cell::Time(at.after(*time)))
            .left("event", "Event", 28, |(.., (event, ..))| text(self.events[event].name.as_str()))
            .left("task", "Task", 24, |(.., (.., thread))| text(at.task(*thread)))
            .right("value", "Value", 16, |(value, ..)| Cell::Count(value));
        panels.push(greatest.whole("Greatest"));
        panels
    }

    fn reset(&mut self, _now: u64) {
        self.rows.clear();
        self.all.clear();
        self.greatest.clear();
        self.no_value = 0;
    }
}
