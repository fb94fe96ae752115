//! `tlbstat`: how often the TLBs have the page that is touched: data reads, data writes, instructions, by CPU.

use crate::panel::Panel;

use super::frame::ratios::{Ratio, Ratios};
use super::frame::{Cx, Event, Hit, Lost, Moment, Spec, Unit, Want};

pub const SPEC: Spec = Spec {
    name: "tlbstat",
    about: "how often the TLBs have the page that is touched: data reads, data writes, instructions, by CPU",
    help: "Hardware counters of the generic cache events dTLB-loads, dTLB-stores and iTLB-loads with their misses. Those \
           that this CPU does not count are left out. It needs a hardware PMU.",
    example: "perfprof-tui tlbstat -i 1",
    options: &[],
    whole: true,
    interval: Some(1.0),
    make: |_| Ok(Box::new(TlbStat::new())),
};

/// (event, column)
const EVENTS: &[(&str, &str)] = &[
    ("dTLB-loads", "loads"),
    ("dTLB-load-misses", "load misses"),
    ("dTLB-stores", "stores"),
    ("dTLB-store-misses", "store misses"),
    ("iTLB-loads", "fetches"),
    ("iTLB-load-misses", "fetch misses"),
];
const RATIOS: &[Ratio] = &[
    Ratio { title: "load HIT%", all: 0, misses: 1 },
    Ratio { title: "store HIT%", all: 2, misses: 3 },
    Ratio { title: "fetch HIT%", all: 4, misses: 5 },
];

#[derive(Debug)]
struct TlbStat {
    ratios: Ratios,
}

impl TlbStat {
    fn new() -> Self {
        let titles: Vec<&'static str> = EVENTS.iter().map(|(_, title)| *title).collect();
        Self { ratios: Ratios::new(&titles, RATIOS) }
    }
}

impl Unit for TlbStat {
    fn wants(&self) -> Vec<Want> {
        EVENTS.iter().map(|(event, _)| Want::new(*event).counted().optional()).collect()
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.ratios.bind(event.role);
        Ok(())
    }

    fn record(&mut self, hit: &Hit<'_>, _cx: &mut Cx<'_>) {
        self.ratios.counts.hit(hit, hit.period.max(1));
    }

    fn count(&mut self, role: usize, cpu: u32, time: u64, value: u64, running_percent: f64) {
        self.ratios.counts.read(role, cpu, time, value, running_percent);
    }

    fn lost(&mut self, _lost: &Lost) {}

    fn loss_words(&self) -> &'static str {
        "counts of a recording are too low by them; live counters lose nothing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.ratios.panels(at)
    }

    fn reset(&mut self, _now: u64) {
        self.ratios.counts.reset();
    }
}
