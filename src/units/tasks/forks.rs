//! `forks`: forks by task.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "forks",
    about: "forks by thread: rate, last child, parent, command line",
    words: "fork exec spawn process storm launch start short-lived",
    help: "Each fork counts for the thread that called it. Live sessions also show the command line of its process and \
           the process that started it.",
    example: "perfprof-tui forks -i 1",
    output: "\
$ perfprof-tui forks --batch -n 1
Comm        TID  Forks  Forks/s  Last child
forkexec  28266    698    698.0       28967",
    options: &[],
    // Each event on a task is copied to its children, which takes longer than a fork's own record.
    sees: Sees::Machine,
    across: None,
    interval: Some(1.0),
    make: |_settings| Ok(Box::new(Forks::default())),
};

#[derive(Clone, Debug, Default)]
struct Forks {
    child: Option<Num>,
    counts: BTreeMap<ThreadKey, Forker>,
}

#[derive(Clone, Debug, Default)]
struct Forker {
    forks: u64,
    last: i32,
    /// The process that started its process, if known.
    parent: Option<ThreadKey>,
    cmdline: Arc<str>,
}

impl Unit for Forks {
    fn event_requests(&self) -> Vec<EventRequest> {
        vec![EventRequest::new("sched:sched_process_fork")]
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.child = Some(Num::of(event.format, "child_pid")?);
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if !cx.has(hit.tid) {
            return;
        }
        cx.comm(hit.tid);
        let of = self.counts.entry(cx.thread(hit.tid)).or_insert_with(|| {
            let parent = cx.session.parent_of(hit.pid).map(|pid| {
                cx.comm(pid);
                cx.thread(pid)
            });
            Forker { cmdline: cx.session.cmdline_of(hit.pid), parent, ..Forker::default() }
        });
        of.forks += 1;
        of.last = self.child.as_ref().map_or(0, |child| child.tid(hit.raw));
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut table = Sheet::of(by_weight(&self.counts, |of| of.forks), |(thread, _)| thread.row())
            .task(at, |(thread, _)| *thread)
            .right("forks", "Forks", 9, |(_, of)| Cell::Count(of.forks))
            .right("rate", "Forks/s", 10, |(_, of)| Cell::Number(of.forks as f64 / at.seconds()))
            .right("last", "Last child", 10, |(_, of)| Cell::Id(of.last.into()))
            .ranked(2);
        if self.counts.values().any(|of| of.parent.is_some()) {
            table = table.left("parent", "Parent", 24, |(_, of)| parent_of(at, of)).ranked(1);
        }
        if self.counts.values().any(|of| !of.cmdline.is_empty()) {
            table = table.left("cmdline", "Command line", 0, |(_, of)| text(of.cmdline.clone()));
        }
        vec![table.whole("Forks")]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.clear();
    }
}

fn parent_of(at: &Moment<'_>, of: &Forker) -> Cell {
    of.parent.map_or(Cell::Empty, |parent| text(format!("{} {}", at.comm(parent), parent.tid)))
}
