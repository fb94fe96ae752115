//! Units about counted events by CPU, and those with hit ratios.

use std::fmt;
use std::sync::Arc;

use crate::panel::{Align, Cell, Column, Measure, Panel};

use crate::units::kit::figures::counts::EventCounts;
use crate::units::kit::options::select::SelectedEvent;
use crate::units::kit::tables::columns::named;
use crate::units::kit::{Context, CountedEvents, EventRequest, Moment, Unit, UnitEvent, UnitSample};

type Panels = Arc<dyn Fn(&Counted, &Moment<'_>) -> Vec<Panel> + Send + Sync>;

/// Counted events; events that the machine lacks are omitted.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) counts: EventCounts,
    /// Each event and its title, by role.
    pub(crate) events: Vec<(EventRequest, String)>,
    there: Vec<bool>,
    /// The tracepoints of a recording whose samples each count as one hit, at any period.
    hits: Option<Vec<bool>>,
    panels: Panels,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Counted {
    /// Counts events that have titles, without those that the machine lacks.
    pub(crate) fn unit(
        events: &[(&str, &str)],
        panels: impl Fn(&Self, &Moment<'_>) -> Vec<Panel> + Send + Sync + 'static,
    ) -> Box<dyn Unit> {
        let request = |(event, title): &(&str, &str)| (EventRequest::new(*event).optional(), (*title).to_owned());
        Box::new(Self::of(events.iter().map(request).collect(), panels))
    }

    fn of(
        events: Vec<(EventRequest, String)>,
        panels: impl Fn(&Self, &Moment<'_>) -> Vec<Panel> + Send + Sync + 'static,
    ) -> Self {
        let (counts, there) = (EventCounts::new(1_000_000_000), vec![false; events.len()]);
        Self { counts, events, there, hits: None, panels: Arc::new(panels) }
    }

    /// Counts selected events; the samples of tracepoints count as one hit each.
    pub(crate) fn selected(
        selected: &[SelectedEvent],
        panels: impl Fn(&Self, &Moment<'_>) -> Vec<Panel> + Send + Sync + 'static,
    ) -> Box<dyn Unit> {
        let events = selected.iter().map(|one| (one.want(false), one.title().to_owned())).collect();
        Box::new(Self { hits: Some(vec![false; selected.len()]), ..Self::of(events, panels) })
    }

    /// Returns the title of an event.
    pub(crate) fn title(&self, role: usize) -> &str {
        self.events.get(role).map_or("", |(_, title)| title)
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

pub(crate) fn ratios(events: &[(&str, &str)], ratios: &'static [CountRatio]) -> Box<dyn Unit> {
    Counted::unit(events, move |of, at| {
        let event = |role: usize| named(of.title(role), Align::Right, 14);
        let ratio = |ratio: &CountRatio| Column::new(ratio.name, ratio.title, Align::Right, 10);
        let table = of.counts.sheet(5).each(of.there(), event, |cpu, role| Cell::Count(of.counts.on(role, cpu))).each(
            ratios,
            ratio,
            |cpu, ratio| ratio.cell(of, cpu),
        );
        let course = of.counts.course.series("Course", at, Measure::Count, 16, |role| of.title(*role).to_owned());
        vec![table.whole("By CPU").noted(of.counts.note()), course]
    })
}

impl Unit for Counted {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.events.iter().map(|(request, _)| request.clone().counted()).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.there[event.role] = true;
        self.hits.iter_mut().for_each(|hits| hits[event.role] = event.format.is_some());
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, _cx: &mut Context<'_>) {
        let is_hit = self.hits.as_ref().is_some_and(|hits| hits[hit.role]);
        self.counts.hit(hit, if is_hit { 1 } else { hit.period.max(1) });
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
