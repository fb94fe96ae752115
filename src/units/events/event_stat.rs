//! `stat`: event counts by CPU and over time.

use crate::panel::heatmap::HeatRow;
use crate::units::kit::figures::counts::EventCounts;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "stat",
    about: "event counts per second, by CPU and over time",
    words: "count counter rate often pmu ipc",
    help: "The kernel counts the events, and the counters are read five times per second, so an event costs no \
           sample. For a recording, the periods of its samples are added up. (`perfprof-tui stat`, without unit, \
           counts events like perf stat.)",
    example: "perfprof-tui unit stat -e sched:sched_switch,page-faults -i 1",
    output: "\
$ perfprof-tui unit stat -e sched:sched_switch,page-faults --batch \\
    -n 1
Event                Count  Count/s  Course
sched:sched_switch   3,881   3709.7  █▃
page-faults         72,445  69246.6  █▄",
    options: &["event", "per-cpu"],
    sees: Sees::Target,
    across: None,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(EventStat::new(settings)?)),
};

/// Column width of the time series.
const STEP_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
struct EventStat {
    selected: Vec<SelectedEvent>,
    tracepoint: Vec<bool>,
    counts: EventCounts,
}

impl EventStat {
    fn new(settings: &Settings) -> Result<Self, String> {
        let selected = select::flat(settings)?;
        Ok(Self { tracepoint: vec![false; selected.len()], selected, counts: EventCounts::new(STEP_NS) })
    }

    fn events(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(0..self.selected.len(), |role| role as u64)
            .left("event", "Event", 28, |role| text(self.selected[role].title()))
            .right("count", "Count", 14, |role| Cell::Count(self.counts.total(role)))
            .right("rate", "Count/s", 12, |role| Cell::Number(self.counts.total(role) as f64 / at.seconds()))
            .left("course", "Course", 60, |role| self.counts.course.course(&role, 60))
            .whole("Events")
            .noted(self.counts.note())
    }

    fn cpus(&self) -> Panel {
        let roles = 0..self.selected.len();
        let event = |role: usize| named(self.selected[role].title(), Align::Right, 14);
        Sheet::of(self.counts.cpus(), |cpu| cpu.into())
            .right("cpu", "CPU", 5, |cpu| Cell::Id(cpu.into()))
            .each(roles, event, |cpu, role| Cell::Count(self.counts.of(role, cpu)))
            .whole("By CPU")
    }
}

impl Unit for EventStat {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|selected| selected.want(false).counted()).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.tracepoint[event.role] = event.format.is_some();
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, _cx: &mut Context<'_>) {
        let weight = if self.tracepoint[hit.role] { 1 } else { hit.period.max(1) };
        self.counts.hit(hit, weight);
    }

    fn count(&mut self, counted: &CountedEvents) {
        self.counts.read(counted);
    }

    fn loss_text(&self) -> &'static str {
        "counts of a recording are too low; live counters lose nothing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let label = |role: &usize| self.selected[*role].title().to_owned();
        let course = self.counts.course.series("Course", at, Measure::Count, 32, label);
        let role = at.selected(0).map_or(0, |row| row as usize);
        // Keep the rows of the selected event, and remove the event from their labels.
        let mut map = self.counts.by_cpu.map(at.start, Measure::Count, 512, |(role, cpu)| format!("{role} CPU {cpu}"));
        let own = format!("{role} ");
        map.rows = std::mem::take(&mut map.rows)
            .into_iter()
            .filter_map(|row| Some(HeatRow { label: row.label.strip_prefix(&own)?.to_owned(), ..row }))
            .collect();
        let title = self.selected.get(role).map_or("", |selected| selected.title());
        vec![self.events(at), self.cpus(), course, Panel::new(format!("{title} by CPU and time"), Body::Heatmap(map))]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.reset();
    }
}
