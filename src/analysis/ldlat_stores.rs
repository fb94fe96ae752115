//! `ldlat-stores`: where stores go and which functions make them: cache levels, cache lines.

use crate::event::Rate;
use crate::panel::Panel;

use super::frame::memory::Accesses;
use super::frame::{Cx, Event, Hit, Lost, Moment, Spec, Unit, Want};

pub const SPEC: Spec = Spec {
    name: "ldlat-stores",
    about: "where stores go and which functions make them: cache levels, cache lines",
    help: "Precise samples of stores (Intel PEBS). It needs a hardware PMU that samples stores: bare metal, or a guest \
           with one. Recordings of perf mem record hold its events.",
    example: "perfprof-tui ldlat-stores -p 1234",
    options: &[],
    whole: false,
    interval: None,
    make: |_| Ok(Box::new(LdlatStores::default())),
};

/// One sample for so many stores: what perf mem record takes by default comes to about as many.
const PERIOD: u64 = 1000;

#[derive(Debug, Default)]
struct LdlatStores {
    seen: Accesses,
}

impl Unit for LdlatStores {
    fn wants(&self) -> Vec<Want> {
        let want = Want::new("cpu/mem-stores/P|~mem-stores");
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
