//! `stat`: how often events happen, by CPU and over time.

use crate::panel::{Align, Body, Cell, Measure, Panel, Rows};

use super::kit::columns::{left, named, right, text};
use super::kit::counts::Counts;
use super::kit::select::{self, SelectedEvent};
use super::kit::{Context, CountedEvents, Event, EventRequest, Moment, Sample, Settings, Spec, Unit};

pub(super) const SPEC: Spec = Spec {
    name: "stat",
    about: "how often events happen: by CPU, with their course",
    help: "Events are counted by the kernel and read five times a second, so no event costs a sample; of a recording \
           the samples are counted, each as its period says. (perfprof-tui stat, without unit, counts over a command.)",
    example: "perfprof-tui unit stat -e sched:sched_switch,page-faults -i 1",
    output: "\
$ perfprof-tui unit stat -e sched:sched_switch,page-faults --batch \\
    -n 1
Event                Count  A second  Course
sched:sched_switch   3,881    3709.7  █▃
page-faults         72,445   69246.6  █▄",
    options: &["event", "per-cpu"],
    whole: false,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(EventStat::new(settings)?)),
};

/// Columns of the course.
const STEP_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct EventStat {
    selected: Vec<SelectedEvent>,
    tracepoint: Vec<bool>,
    counts: Counts,
}

impl EventStat {
    fn new(settings: &Settings) -> Result<Self, String> {
        let selected = select::flat(settings)?;
        Ok(Self { tracepoint: vec![false; selected.len()], selected, counts: Counts::new(STEP_NS) })
    }

    fn events(&self, at: &Moment<'_>) -> Panel {
        let mut rows = Rows::new(vec![
            left("event", "Event", 28),
            right("count", "Count", 14),
            right("rate", "A second", 12),
            left("course", "Course", 60),
        ]);
        for (role, selected) in self.selected.iter().enumerate() {
            let total = self.counts.total(role);
            let course: Vec<f32> =
                self.counts.course.row(&role).unwrap_or_default().iter().map(|v| *v as f32).collect();
            let tail = course.len().saturating_sub(60);
            rows.push(
                role as u64,
                vec![
                    text(selected.title()),
                    Cell::Count(total),
                    Cell::Number(total as f64 / at.seconds()),
                    Cell::Course(course[tail..].into()),
                ],
            );
        }
        let note = self.counts.partly.map(|least| {
            format!("counters shared the hardware: the least was on it {least:.0} % of the time, and is scaled")
        });
        Panel::new("Events", Body::Table(rows)).noted(note.unwrap_or_default())
    }

    fn cpus(&self) -> Panel {
        let mut columns = vec![right("cpu", "CPU", 5)];
        columns.extend(self.selected.iter().map(|selected| named(selected.title(), Align::Right, 14)));
        let mut rows = Rows::new(columns);
        for cpu in self.counts.cpus() {
            let mut cells = vec![Cell::Id(cpu.into())];
            cells.extend((0..self.selected.len()).map(|role| Cell::Count(self.counts.of(role, cpu))));
            rows.push(u64::from(cpu), cells);
        }
        Panel::new("By CPU", Body::Table(rows))
    }
}

impl Unit for EventStat {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|selected| selected.want(false).counted()).collect()
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.tracepoint[event.role] = event.format.is_some();
        Ok(())
    }

    fn record(&mut self, hit: &Sample<'_>, _cx: &mut Context<'_>) {
        let weight = if self.tracepoint[hit.role] { 1 } else { hit.period.max(1) };
        self.counts.hit(hit, weight);
    }

    fn count(&mut self, counted: &CountedEvents) {
        self.counts.read(counted);
    }

    fn loss_text(&self) -> &'static str {
        "counts of a recording are too low by them; live counters lose nothing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let label = |role: &usize| self.selected[*role].title().to_owned();
        let course = self.counts.course.series(at.start, Measure::Count, 32, label);
        let role = at.selected(0).map_or(0, |row| row as usize);
        let mut map = crate::panel::heatmap::Heatmap { measure: Measure::Count, start: 0, step: 1, rows: Vec::new() };
        let of = |key: &(usize, u32)| format!("{} CPU {}", key.0, key.1);
        if let Body::Heatmap(all) = self.counts.by_cpu.map(at.start, Measure::Count, 512, of) {
            let own = format!("{role} ");
            let rows = all.rows.iter().filter_map(|row| {
                let label = row.label.strip_prefix(&own)?.to_owned();
                Some(crate::panel::heatmap::HeatRow { label, cells: row.cells.clone() })
            });
            map = crate::panel::heatmap::Heatmap { rows: rows.collect(), ..all };
        }
        let title = self.selected.get(role).map_or("", |selected| selected.title());
        vec![
            self.events(at),
            self.cpus(),
            Panel::new("Course", course),
            Panel::new(format!("{title} by CPU and time"), Body::Heatmap(map)),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.reset();
    }
}
