//! `ldlat-loads`: where loads get their data from and what they cost: cache levels, functions, cache lines.

use crate::event::Rate;
use crate::panel::Panel;

use super::frame::memory::Accesses;
use super::frame::{Cx, Event, Hit, Lost, Moment, Spec, Unit, Want};

pub const SPEC: Spec = Spec {
    name: "ldlat-loads",
    about: "where loads get their data from and what they cost: cache levels, functions, cache lines",
    help: "Precise samples of loads (Intel PEBS load latency) with at least --latency cycles; shares are of cycles. It \
           needs a hardware PMU that samples loads: bare metal, or a guest with one. Recordings of perf mem record hold \
           its events.",
    example: "perfprof-tui ldlat-loads -p 1234",
    options: &["latency"],
    whole: false,
    interval: None,
    make: |settings| Ok(Box::new(LdlatLoads { latency: settings.number("latency", 30)?, seen: Accesses::default() })),
};

/// One sample for so many loads: what perf mem record takes by default comes to about as many.
const PERIOD: u64 = 1000;

#[derive(Debug)]
struct LdlatLoads {
    latency: u64,
    seen: Accesses,
}

impl Unit for LdlatLoads {
    fn wants(&self) -> Vec<Want> {
        let want = Want::new(format!("cpu/mem-loads,ldlat={}/P|~mem-loads|~ibs_op|~arm_spe", self.latency));
        vec![Want { rate: Some(Rate::Period(PERIOD)), memory: true, ..want }.with_stack(true)]
    }

    fn bind(&mut self, _event: &Event<'_>) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, hit: &Hit<'_>, cx: &mut Cx<'_>) {
        self.seen.add(hit, cx);
    }

    fn lost(&mut self, _lost: &Lost) {}

    fn loss_words(&self) -> &'static str {
        "shares are those of the samples that came"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.seen.panels(at)
    }

    fn reset(&mut self, _now: u64) {
        self.seen.clear();
    }
}
