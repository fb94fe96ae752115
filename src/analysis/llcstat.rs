//! `llcstat`: how often the last-level cache has what is asked of it, by CPU.

use crate::panel::Panel;

use super::frame::ratios::{Ratio, Ratios};
use super::frame::{Cx, Event, Hit, Lost, Moment, Spec, Unit, Want};

pub const SPEC: Spec = Spec {
    name: "llcstat",
    about: "how often the last-level cache has what is asked of it, by CPU",
    help: "Hardware counters: AMD's L3 (amd_l3: all coherent accesses, and those that missed) where that PMU is, and the \
           generic cache-references and cache-misses. A ratio is of counts of the same time; a counter that had to \
           share the hardware is scaled, and the note says so. It needs a hardware PMU.",
    example: "perfprof-tui llcstat -i 1",
    options: &[],
    whole: true,
    interval: Some(1.0),
    make: |_| Ok(Box::new(LlcStat::new())),
};

/// (event, column); AMD's as its Processor Programming References have them (L3LookupState).
const EVENTS: &[(&str, &str)] = &[
    ("cache-references", "refs"),
    ("cache-misses", "misses"),
    ("amd_l3/event=0x04,umask=0xff/", "L3 refs"),
    ("amd_l3/event=0x04,umask=0x01/", "L3 misses"),
];
const RATIOS: &[Ratio] = &[Ratio { title: "HIT%", all: 0, misses: 1 }, Ratio { title: "L3 HIT%", all: 2, misses: 3 }];

#[derive(Debug)]
struct LlcStat {
    ratios: Ratios,
}

impl LlcStat {
    fn new() -> Self {
        let titles: Vec<&'static str> = EVENTS.iter().map(|(_, title)| *title).collect();
        Self { ratios: Ratios::new(&titles, RATIOS) }
    }
}

impl Unit for LlcStat {
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
