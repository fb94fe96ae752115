//! `forks`: who forks, and how often.

use std::collections::BTreeMap;

use crate::panel::{Cell, Panel};

use super::kit::columns::by_weight;
use super::kit::field::Num;
use super::kit::{Context, Event, EventRequest, Moment, Sample, Sees, Sheet, Spec, Unit};

pub(super) const SPEC: Spec = Spec {
    name: "forks",
    about: "who forks, and how often",
    words: "fork exec spawn process storm launch start short-lived",
    help: "Every fork counts for the thread that made it.",
    example: "perfprof-tui forks -i 1",
    output: "\
$ perfprof-tui forks --batch -n 1
Comm        TID  Forks  Last child
forkexec  28266    698       28967",
    options: &[],
    sees: Sees::Target,
    across: None,
    interval: Some(1.0),
    make: |_settings| Ok(Box::new(Forks::default())),
};

#[derive(Clone, Debug, Default)]
struct Forks {
    child: Option<Num>,
    counts: BTreeMap<i32, (u64, i32)>,
}

impl Unit for Forks {
    fn event_requests(&self) -> Vec<EventRequest> {
        vec![EventRequest::new("sched:sched_process_fork")]
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.child = Some(Num::of(event.format, "child_pid")?);
        Ok(())
    }

    fn record(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        let entry = self.counts.entry(hit.tid).or_default();
        *entry = (entry.0 + 1, self.child.as_ref().map_or(0, |child| child.tid(hit.raw)));
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let table = Sheet::of(by_weight(&self.counts, |(forks, _)| *forks), |(tid, _)| *tid as u64)
            .task(at, |(tid, _)| *tid)
            .right("forks", "Forks", 9, |(_, (forks, _))| Cell::Count(*forks))
            .right("last", "Last child", 10, |(_, (_, child))| Cell::Id((*child).into()));
        vec![table.whole("Who forks")]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.clear();
    }
}
