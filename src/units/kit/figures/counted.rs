//! Units about counted events by CPU, and those with hit ratios.

use std::fmt;
use std::sync::Arc;

use crate::panel::{Align, Cell, Column, Measure, Panel};

use crate::units::kit::figures::counts::EventCounts;
use crate::units::kit::tables::columns::named;
use crate::units::kit::{Context, CountedEvents, EventRequest, Moment, Unit, UnitEvent, UnitSample};

type Panels = Arc<dyn Fn(&Counted, &Moment<'_>) -> Vec<Panel> + Send + Sync>;

/// Counted events; events that the machine lacks are omitted.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) counts: EventCounts,
    /// Each event and its column title, by role.
    pub(crate) events: &'static [(&'static str, &'static str)],
    there: Vec<bool>,
    panels: Panels,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Counted {
    pub(crate) fn unit(
        events: &'static [(&'static str, &'static str)],
        panels: impl Fn(&Self, &Moment<'_>) -> Vec<Panel> + Send + Sync + 'static,
    ) -> Box<dyn Unit> {
        let (counts, there) = (EventCounts::new(1_000_000_000), vec![false; events.len()]);
        Box::new(Self { counts, events, there, panels: Arc::new(panels) })
    }

    /// Returns the roles of the available events.
    pub(crate) fn there(&self) -> impl Iterator<Item = usize> {
        (0..self.events.len()).filter(|role| self.there[*role])
    }
}

/// A hit ratio in percent: `1 - misses / all`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountRatio {
    /// The name in CSV and JSON.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Roles of the accesses and the misses.
    pub(crate) all: usize,
    pub(crate) misses: usize,
}

impl CountRatio {
    /// The cell of a CPU, or of all CPUs; empty instead of a division by zero.
    fn cell(&self, of: &Counted, cpu: Option<u32>) -> Cell {
        let (all, misses) = (of.counts.on(self.all, cpu), of.counts.on(self.misses, cpu));
        if of.there[self.all] && of.there[self.misses] && all > 0 {
            Cell::Percent(100.0 * all.saturating_sub(misses) as f64 / all as f64)
        } else {
            Cell::Empty
        }
    }
}

pub(crate) fn ratios(events: &'static [(&'static str, &'static str)], ratios: &'static [CountRatio]) -> Box<dyn Unit> {
    Counted::unit(events, move |of, at| {
        let event = |role: usize| named(of.events[role].1, Align::Right, 14);
        let ratio = |ratio: &CountRatio| Column::new(ratio.name, ratio.title, Align::Right, 10);
        let table = of.counts.sheet(5).each(of.there(), event, |cpu, role| Cell::Count(of.counts.on(role, cpu))).each(
            ratios,
            ratio,
            |cpu, ratio| ratio.cell(of, cpu),
        );
        let course = of.counts.course.series("Course", at, Measure::Count, 16, |role| of.events[*role].1.to_owned());
        vec![table.whole("By CPU").noted(of.counts.note()), course]
    })
}

impl Unit for Counted {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.events.iter().map(|(event, _)| EventRequest::new(*event).counted().optional()).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.there[event.role] = true;
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, _cx: &mut Context<'_>) {
        self.counts.hit(hit, hit.period.max(1));
    }

    fn count(&mut self, counted: &CountedEvents) {
        self.counts.read(counted);
    }

    fn loss_text(&self) -> &'static str {
        "counts of a recording are too low; live counters lose nothing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        (self.panels)(self, at)
    }

    fn reset(&mut self, _now: u64) {
        self.counts.reset();
    }
}
