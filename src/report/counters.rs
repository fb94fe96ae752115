//! Counter values scaled to the full time, with perf stat's ratios and variation over runs (perf-stat(1)).

use std::sync::Arc;

use crate::event::base_name;
use crate::kernel::sys::Counts;
use crate::panel::unit::{percent, short};
use crate::panel::{Cell, Column, Table};
use crate::perfdata::EventUnit;

impl Counts {
    /// Returns the count extrapolated to the enabled time; `None` if it never ran.
    pub(crate) fn scaled(&self) -> Option<f64> {
        match (self.enabled_ns, self.running_ns) {
            (_, 0) => None,
            (enabled, running) if enabled <= running => Some(self.value as f64),
            (enabled, running) => Some(self.value as f64 * enabled as f64 / running as f64),
        }
    }

    /// Returns the share of the time in which it ran, in percent.
    pub(crate) fn running_percent(&self) -> f64 {
        if self.enabled_ns == 0 {
            0.0
        } else {
            100.0 * self.running_ns.min(self.enabled_ns) as f64 / self.enabled_ns as f64
        }
    }

    pub(crate) fn since(&self, then: &Self) -> Self {
        Self {
            value: self.value.saturating_sub(then.value),
            enabled_ns: self.enabled_ns.saturating_sub(then.enabled_ns),
            running_ns: self.running_ns.saturating_sub(then.running_ns),
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    /// The standard error of the mean, in percent of it; `None` for a single run.
    pub(crate) error_percent: Option<f64>,
}

impl Mean {
    pub(crate) fn of(runs: &[f64]) -> Self {
        let n = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / n.max(1.0);
        let error_percent = (runs.len() > 1 && mean != 0.0).then(|| {
            let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
            100.0 * (squares / (n - 1.0) / n).sqrt() / mean
        });
        Self { mean, error_percent }
    }
}

/// One event of a run, or of one place in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    pub(crate) name: String,
    pub(crate) unit: EventUnit,
    pub(crate) values: Vec<Counts>,
    /// Why it is not counted.
    pub(crate) refused: Option<String>,
}

impl Counter {
    /// Returns the mean over the runs in which it was counted.
    pub(crate) fn mean(&self) -> Option<Mean> {
        let runs: Vec<f64> = self.values.iter().filter_map(Counts::scaled).collect();
        (!runs.is_empty()).then(|| Mean::of(&runs))
    }

    pub(crate) fn is_clock(&self) -> bool {
        self.unit.is_time()
    }

    pub(crate) fn time(&self) -> Option<RunTime> {
        RunTime::of(&self.name)
    }

    /// Returns the share of the time in which it ran, in percent.
    pub(crate) fn running(&self) -> f64 {
        let total = |of: fn(&Counts) -> u64| self.values.iter().map(of).sum::<u64>();
        Counts { enabled_ns: total(|v| v.enabled_ns), running_ns: total(|v| v.running_ns), ..Counts::default() }
            .running_percent()
    }
}

/// Times of a run that have names like events but are not kernel counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunTime {
    /// The duration of the measurement.
    Duration,
    /// The user CPU time of the command and its children.
    User,
    /// The system CPU time of the command and its children.
    System,
}

impl RunTime {
    /// Returns the time with an event's name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match base_name(name) {
            "duration_time" => Some(Self::Duration),
            "user_time" => Some(Self::User),
            "system_time" => Some(Self::System),
            _ => None,
        }
    }
}

/// Events that are shown relative to another one. Each has the event, the other one, and the name of the ratio.
const SHARES: &[(&str, &str, &str)] = &[
    ("branch-misses", "branches", "of all branches"),
    ("cache-misses", "cache-references", "of all cache refs"),
    ("L1-dcache-load-misses", "L1-dcache-loads", "of all L1-dcache loads"),
    ("L1-icache-load-misses", "L1-icache-loads", "of all L1-icache loads"),
    ("LLC-load-misses", "LLC-loads", "of all LLC loads"),
    ("dTLB-load-misses", "dTLB-loads", "of all dTLB loads"),
    ("iTLB-load-misses", "iTLB-loads", "of all iTLB loads"),
    ("stalled-cycles-frontend", "cycles", "frontend cycles idle"),
    ("stalled-cycles-backend", "cycles", "backend cycles idle"),
];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) kind: RatioKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RatioKind {
    /// A share in percent, with its description.
    Share(&'static str),
    /// Another ratio, with its number of decimals and its unit.
    Plain(usize, &'static str),
    PerSecond,
}

impl Ratio {
    fn words(&self) -> String {
        let value = self.value;
        match self.kind {
            RatioKind::Share(words) => format!("{} {words}", percent(value)),
            RatioKind::Plain(decimals, unit) => format!("{value:.decimals$} {unit}"),
            RatioKind::PerSecond if value < 100.0 => format!("{value:.3}/sec"),
            RatioKind::PerSecond => format!("{}/sec", short(value)),
        }
    }

    /// Returns number and unit as in `perf stat -x`.
    pub(crate) fn fields(&self) -> (String, String) {
        let value = self.value;
        match self.kind {
            RatioKind::Share(words) => (format!("{value:.2}"), words.to_owned()),
            RatioKind::Plain(decimals, unit) => (format!("{value:.decimals$}"), unit.to_owned()),
            RatioKind::PerSecond => {
                let scales = [(1e9, "G/sec"), (1e6, "M/sec"), (1e3, "K/sec")];
                let (scale, unit) = scales.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, "/sec"));
                (format!("{:.3}", value / scale), unit.to_owned())
            }
        }
    }
}

/// Returns the ratio for an event; `seconds` is the duration of the measurement.
pub(crate) fn ratio(counters: &[Counter], at: usize, seconds: f64) -> Option<Ratio> {
    let counter = &counters[at];
    let own = counter.mean()?.mean;
    let other = |name: &str| counters.iter().find(|c| base_name(&c.name) == name)?.mean().map(|m| m.mean);
    let clock = || other("task-clock").or_else(|| other("cpu-clock")).filter(|ns| *ns > 0.0);
    let of = |value: f64, kind| Some(Ratio { value, kind });
    let name = base_name(&counter.name);
    if counter.time().is_some() {
        return None;
    }
    if let Some((_, all, words)) = SHARES.iter().find(|(event, ..)| *event == name)
        && let Some(all) = other(all).filter(|all| *all > 0.0)
    {
        return of(100.0 * own / all, RatioKind::Share(words));
    }
    let figure = |value: f64, decimals, unit| of(value, RatioKind::Plain(decimals, unit));
    let cycles = other("cycles").filter(|cycles| *cycles > 0.0);
    match (name, clock(), cycles) {
        ("task-clock" | "cpu-clock", ..) if seconds > 0.0 => figure(own / 1e9 / seconds, 3, "CPUs utilized"),
        ("cycles" | "cpu-cycles", Some(ns), _) => figure(own / ns, 3, "GHz"),
        ("instructions", _, Some(cycles)) => figure(own / cycles, 2, "insn per cycle"),
        _ => {
            let seconds = clock().map_or(seconds, |ns| ns / 1e9);
            if seconds > 0.0 { of(own / seconds, RatioKind::PerSecond) } else { None }
        }
    }
}

/// The counters of one place (CPU, core, cgroup…).
pub struct CountedPlace {
    /// Empty if places are not separated.
    pub(crate) name: String,
    /// Number of CPUs of the place.
    pub(crate) cpus: usize,
    pub(crate) counters: Vec<Counter>,
}

/// Formats counters as a table: one row each, with the place if there are several.
pub(crate) fn table(places: &[CountedPlace], seconds: f64) -> Table {
    let placed = places.len() > 1 || places.first().is_some_and(|place| !place.name.is_empty());
    let all = || places.iter().flat_map(|place| &place.counters);
    let repeated = all().any(|c| c.values.len() > 1);
    let scaled = all().any(|c| !c.values.is_empty() && c.running() < 99.95);
    let mut columns = Vec::new();
    columns.extend(placed.then_some(Column::texts("place", "Place")));
    columns.push(Column::figures("value", "Value"));
    columns.push(Column::texts("unit", ""));
    columns.push(Column::texts("event", "Event"));
    columns.push(Column::texts("metric", "Ratio"));
    columns.extend(repeated.then_some(Column::figures("error", "±")));
    columns.extend(scaled.then_some(Column::figures("running", "Counted")));
    let text = |text: &str| Cell::Text(Arc::from(text));
    let mut rows = Vec::new();
    for place in places {
        for (i, counter) in place.counters.iter().enumerate() {
            let mean = counter.mean();
            let (value, unit) = match (&mean, &counter.refused) {
                (Some(mean), _) if counter.is_clock() => (Cell::Number(mean.mean / 1e6), "ms"),
                (Some(mean), _) => {
                    (Cell::Count(mean.mean.round() as u64), if counter.time().is_some() { "ns" } else { "" })
                }
                (None, Some(_)) => (text("<not supported>"), ""),
                (None, None) => (text("<not counted>"), ""),
            };
            let mut row = Vec::new();
            row.extend(placed.then(|| text(&place.name)));
            row.extend([
                value,
                text(unit),
                text(&counter.name),
                text(&ratio(&place.counters, i, seconds).map_or(String::new(), |ratio| ratio.words())),
            ]);
            let error = mean.and_then(|m| m.error_percent).map_or(Cell::Empty, Cell::Percent);
            row.extend(repeated.then_some(error));
            let running = counter.running();
            let running = if running < 99.95 && mean.is_some() { Cell::Percent(running) } else { Cell::Empty };
            row.extend(scaled.then_some(running));
            rows.push(row);
        }
    }
    Table { columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts((value, enabled_ns, running_ns): (u64, u64, u64)) -> Counts {
        Counts { value, enabled_ns, running_ns, lost: 0 }
    }

    fn counter(name: &str, runs: &[(u64, u64, u64)]) -> Counter {
        let unit = if name.ends_with("-clock") { EventUnit::Nanoseconds } else { EventUnit::Count };
        Counter { name: name.into(), unit, values: runs.iter().copied().map(counts).collect(), refused: None }
    }

    #[test]
    fn what_was_counted_for_a_part_of_the_time_is_scaled() {
        let half = counts((10, 100, 50));
        assert_eq!((half.scaled(), half.running_percent()), (Some(20.0), 50.0));
        assert_eq!(counts((10, 100, 0)).scaled(), None);
        assert_eq!(half.since(&counts((4, 40, 20))), counts((6, 60, 30)));
    }

    #[test]
    fn runs_have_a_mean_and_its_error() {
        let mean = Mean::of(&[10.0, 12.0, 14.0]);
        // Deviation 2, of the mean 2/√3, in percent of 12.
        assert!((mean.mean - 12.0).abs() < 1e-9 && (mean.error_percent.expect("several") - 9.6225).abs() < 1e-3);
        assert_eq!(Mean::of(&[5.0]).error_percent, None);
    }

    #[test]
    fn the_usual_ratios() {
        let one = |raw| [(raw, 1, 1)];
        let list = [
            counter("task-clock", &one(500_000_000)),
            counter("cycles:u", &one(1_000_000_000)),
            counter("instructions", &one(1_500_000_000)),
            counter("branches", &one(200_000)),
            counter("branch-misses", &one(5_000)),
            counter("page-faults", &one(50)),
        ];
        let words: Vec<String> =
            (0..list.len()).filter_map(|i| ratio(&list, i, 1.0)).map(|ratio| ratio.words()).collect();
        assert_eq!(
            words,
            [
                "0.500 CPUs utilized",
                "2.000 GHz",
                "1.50 insn per cycle",
                "400.0 k/sec",
                "2.5 % of all branches",
                "100/sec"
            ]
        );
        let table = |name: &str, counters: Vec<Counter>| {
            super::table(&[CountedPlace { name: name.to_owned(), cpus: 1, counters }], 1.0).to_text()
        };
        let text = table("", list.to_vec());
        assert!(text.contains("500.0") && text.contains("ms") && !text.contains("Counted"), "{text}");
        let refused = Counter { refused: Some("no".into()), ..counter("cycles", &[]) };
        let partly = counter("branches", &[(10, 100, 25), (12, 100, 25)]);
        let text = table("CPU 0", vec![refused, partly]);
        assert!(text.contains("not supported") && text.contains("25.0 %") && text.contains("CPU 0"), "{text}");
    }
}
