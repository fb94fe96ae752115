//! `stat`: event counts by CPU and over time.

use crate::panel::heatmap::HeatRow;
use crate::units::kit::figures::counted::Counted;
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
    make: |settings| Ok(Counted::selected(&select::flat(settings)?, panels)),
};

fn events(of: &Counted, at: &Moment<'_>) -> Panel {
    Sheet::of(0..of.events.len(), |role| role as u64)
        .left("event", "Event", 28, |role| text(of.title(role)))
        .right("count", "Count", 14, |role| Cell::Count(of.counts.total(role)))
        .right("rate", "Count/s", 12, |role| Cell::Number(of.counts.total(role) as f64 / at.seconds()))
        .left("course", "Course", 60, |role| of.counts.course.course(&role, 60))
        .whole("Events")
        .noted(of.counts.note())
}

fn cpus(of: &Counted) -> Panel {
    let event = |role: usize| named(of.title(role), Align::Right, 14);
    Sheet::of(of.counts.cpus(), |cpu| cpu.into())
        .right("cpu", "CPU", 5, |cpu| Cell::Id(cpu.into()))
        .each(0..of.events.len(), event, |cpu, role| Cell::Count(of.counts.of(role, cpu)))
        .whole("By CPU")
}

fn panels(of: &Counted, at: &Moment<'_>) -> Vec<Panel> {
    let course = of.counts.course.series("Course", at, Measure::Count, 32, |role| of.title(*role).to_owned());
    let role = at.selected(0).map_or(0, |row| row as usize);
    let mut map = of.counts.by_cpu.map(at.start, Measure::Count, 512, |(role, cpu)| format!("{role} CPU {cpu}"));
    let own = format!("{role} ");
    map.rows = std::mem::take(&mut map.rows)
        .into_iter()
        .filter_map(|row| Some(HeatRow { label: row.label.strip_prefix(&own)?.to_owned(), ..row }))
        .collect();
    let by_cpu = Panel::new(format!("{} by CPU and time", of.title(role)), Body::Heatmap(map));
    vec![events(of, at), cpus(of), course, by_cpu]
}
