//! Units about hits and misses of hardware counters, by CPU.

use crate::panel::{Align, Body, Cell, Column, Measure, Panel, Rows};

use super::columns::{named, right, text};
use super::counts::Counts;
use super::{Context, CountedEvents, Event, EventRequest, Moment, Sample, Unit};

/// What one counter is of another, in percent: `1 - misses / all` is the share of hits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) title: &'static str,
    /// Roles of all accesses and of those that missed.
    pub(crate) all: usize,
    pub(crate) misses: usize,
}

/// Counters and their ratios. Those that a machine does not have are left out.
#[derive(Debug)]
pub(crate) struct Ratios {
    counts: Counts,
    /// Each event and its column, by role.
    events: &'static [(&'static str, &'static str)],
    there: Vec<bool>,
    ratios: &'static [Ratio],
}

impl Ratios {
    pub(crate) fn new(events: &'static [(&'static str, &'static str)], ratios: &'static [Ratio]) -> Self {
        Self { counts: Counts::new(1_000_000_000), events, there: vec![false; events.len()], ratios }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![right("cpu", "CPU", 5)];
        for (role, (_, title)) in self.events.iter().enumerate() {
            columns.extend(self.there[role].then(|| named(title, Align::Right, 14)));
        }
        columns.extend(self.ratios.iter().map(|ratio| named(ratio.title, Align::Right, 10)));
        columns
    }

    fn cells(&self, first: Cell, count: &dyn Fn(usize) -> u64) -> Vec<Cell> {
        let mut cells = vec![first];
        cells.extend((0..self.events.len()).filter(|role| self.there[*role]).map(|role| Cell::Count(count(role))));
        for ratio in self.ratios {
            let (all, misses) = (count(ratio.all), count(ratio.misses));
            // A division by zero is no ratio.
            let known = self.there[ratio.all] && self.there[ratio.misses] && all > 0;
            cells.push(if known {
                Cell::Percent(100.0 * all.saturating_sub(misses) as f64 / all as f64)
            } else {
                Cell::Empty
            });
        }
        cells
    }
}

impl Unit for Ratios {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.events.iter().map(|(event, _)| EventRequest::new(*event).counted().optional()).collect()
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.there[event.role] = true;
        Ok(())
    }

    fn record(&mut self, hit: &Sample<'_>, _cx: &mut Context<'_>) {
        self.counts.hit(hit, hit.period.max(1));
    }

    fn count(&mut self, counted: &CountedEvents) {
        self.counts.read(counted);
    }

    fn loss_text(&self) -> &'static str {
        "counts of a recording are too low by them; live counters lose nothing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut rows = Rows::new(self.columns());
        for cpu in self.counts.cpus() {
            rows.push(cpu.into(), self.cells(Cell::Id(cpu.into()), &|role| self.counts.of(role, cpu)));
        }
        rows.push(u64::MAX, self.cells(text("all"), &|role| self.counts.total(role)));
        let note = self.counts.partly.map(|least| {
            format!("counters shared the hardware: the least was on it {least:.0} % of the time, and is scaled")
        });
        let course = self.counts.course.series(at.start, Measure::Count, 16, |role| self.events[*role].1.to_owned());
        vec![Panel::new("By CPU", Body::Table(rows)).noted(note.unwrap_or_default()), Panel::new("Course", course)]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.reset();
    }
}
