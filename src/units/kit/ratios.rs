//! Units about hits and misses of hardware counters, by CPU.

use crate::panel::{Align, Cell, Column, Measure, Panel};

use super::columns::named;
use super::counts::Counts;
use super::{Context, CountedEvents, Event, EventRequest, Moment, Sample, Unit};

/// The ratio of one counter to another, in percent: `1 - misses / all` is the share of hits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    /// The name in CSV and JSON.
    pub(crate) name: &'static str,
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

    /// A ratio of a CPU's counts, or of the counts of all. A division by zero is none.
    fn ratio(&self, ratio: &Ratio, cpu: Option<u32>) -> Cell {
        let (all, misses) = (self.counts.on(ratio.all, cpu), self.counts.on(ratio.misses, cpu));
        if self.there[ratio.all] && self.there[ratio.misses] && all > 0 {
            Cell::Percent(100.0 * all.saturating_sub(misses) as f64 / all as f64)
        } else {
            Cell::Empty
        }
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
        let there = (0..self.events.len()).filter(|role| self.there[*role]);
        let counts = &self.counts;
        let table = counts
            .sheet(5)
            .each(
                there,
                |role| named(self.events[role].1, Align::Right, 14),
                |cpu, role| Cell::Count(counts.on(role, cpu)),
            )
            .each(
                self.ratios,
                |ratio| Column::new(ratio.name, ratio.title, Align::Right, 10),
                |cpu, ratio| self.ratio(ratio, cpu),
            );
        let course =
            self.counts.course.series("Course", at, Measure::Count, 16, |role| self.events[*role].1.to_owned());
        vec![table.whole("By CPU").noted(self.counts.note()), course]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.reset();
    }
}
