//! `kvm-exit`: exits of guests to the host by reason, with the time until the guest runs again.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::units::kit::prelude::*;

/// The message of KVM units that saw no record.
pub(super) const NO_GUEST: &str =
    "KVM's tracepoints are here and none has fired: no guest runs on this machine (or it is one itself)";

pub(crate) const SPEC: Spec = Spec {
    name: "kvm-exit",
    about: "exits of KVM guests: time until they run again, by exit reason",
    words: "vm guest virtual hypervisor exit latency slow",
    help: "Measures the time from kvm_exit to the next kvm_entry of the same vCPU thread. Exit reasons have the names \
           of the kernel's tracepoint. %gsys is the share of time for exits from the guest's kernel (instruction \
           pointer in the upper half). The unit needs a host of KVM guests.",
    example: "perfprof-tui kvm-exit --than 100us",
    output: "",
    options: &["than", "comm", "pids", "tids", "per-thread", "keep"],
    sees: Sees::Target,
    across: Some("exits whose guest is entered again on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(KvmExit::new(settings)?)),
};

#[derive(Clone, Debug, Default)]
struct Row {
    stats: Stats,
    guest_kernel: u64,
}

#[derive(Clone, Debug, Default)]
struct KvmExit {
    per_thread: bool,
    format: Option<Arc<Format>>,
    reason: Option<Num>,
    rip: Option<Num>,
    isa: Option<Num>,
    names: FxHashMap<(u64, u64), Arc<str>>,
    open: OpenSpans<i32, (), ((u64, u64), bool)>,
    rows: FxHashMap<(ThreadKey, (u64, u64)), Row>,
    course: Grid<(u64, u64)>,
    slowest: Slowest<(ThreadKey, (u64, u64), u64)>,
}

impl KvmExit {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self { per_thread: settings.has("per-thread"), slowest: Slowest::of(settings)?, ..Self::default() })
    }

    /// Learns the name of a reason from the tracepoint's text: `vcpu 0 reason HLT rip 0x… info1 …`.
    fn learn(&mut self, key: (u64, u64), raw: &[u8]) {
        let Some(format) = self.format.as_ref().filter(|_| !self.names.contains_key(&key)) else { return };
        let words = format.text(raw);
        let found = words.split("reason ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let name = found.filter(|name| !name.is_empty()).map_or_else(|| format!("{:#x}", key.1), str::to_owned);
        self.names.insert(key, name.into());
    }

    fn name(&self, key: (u64, u64)) -> Arc<str> {
        self.names.get(&key).cloned().unwrap_or_else(|| format!("{:#x}", key.1).into())
    }
}

impl Unit for KvmExit {
    fn event_requests(&self) -> Vec<EventRequest> {
        vec![EventRequest::new("kvm:kvm_exit"), EventRequest::new("kvm:kvm_entry")]
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if event.role == 0 {
            self.reason = Some(Num::of(event.format, "exit_reason")?);
            self.rip = Num::any(event.format, &["guest_rip", "vcpu_pc"]).ok();
            self.isa = Num::of(event.format, "isa").ok();
            self.format = event.format.cloned();
        } else {
            self.slowest.bind(event)?;
        }
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        if hit.role == 0 {
            let number = |num: &Option<Num>| num.as_ref().map_or(0, |num| num.get(hit.raw) as u64);
            let key = (number(&self.isa), number(&self.reason));
            self.learn(key, hit.raw);
            let guest_kernel = number(&self.rip) >> 63 == 1;
            self.open.begin(hit.tid, (), hit.time, (key, guest_kernel));
            return;
        }
        let Some(exit) = self.open.take(&hit.tid).filter(|_| cx.counts(hit.cpu)) else { return };
        let ((key, guest_kernel), ns) = (exit.with, exit.took(hit.time));
        let above = self.slowest.exceeds(hit, cx.names, ns);
        let thread = cx.thread(hit.tid);
        let row = self.rows.entry((if self.per_thread { thread } else { ThreadKey::default() }, key)).or_default();
        row.stats.add_than(ns, above);
        row.guest_kernel += if guest_kernel { ns } else { 0 };
        self.course.add(&key, hit.time, 1.0);
        cx.point(["kvm_exit", "kvm_entry"], hit.time, ns);
        self.slowest.add(above, ns, || (thread, key, hit.time));
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.open.forget();
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.open.follow(change, |tid| tid);
    }

    fn loss_text(&self) -> &'static str {
        "exits open at that time are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let chosen = at.selected(0);
        let list = by_weight(&self.rows, |row| row.stats.sum);
        let shown = list.iter().filter(|(key, _)| chosen.is_none_or(|chosen| chosen == id(key)));
        let all = shown.map(|(_, row)| &row.stats).sum();
        let exits = Sheet::of(list, |(key, _)| id(key))
            .left("reason", "Reason", 24, |((_, reason), _)| text(self.name(*reason)))
            .when(self.per_thread, |sheet| sheet.task(at, |((thread, _), _)| *thread))
            .latency(self.slowest.has_threshold(), |(_, row)| &row.stats)
            .right("gsys_pct", "%gsys", 8, |(_, row)| share(row.guest_kernel, row.stats.sum));
        let slowest = Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., (.., time))| Cell::Time(at.after(*time)))
            .left("task", "vCPU thread", 24, |(.., (thread, ..))| text(at.task(*thread)))
            .left("reason", "Reason", 24, |(.., (_, reason, _))| text(self.name(*reason)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns));
        vec![
            exits.panel("Exits").noted(if self.rows.is_empty() && self.open.is_empty() { NO_GUEST } else { "" }),
            latency::by_powers("Distribution", &all, Measure::Time),
            slowest.whole("Slowest"),
            self.course.series("Exits over time", at, Measure::Count, 16, |key| self.name(*key).to_string()),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.rows.clear();
        self.course.clear();
        self.slowest.clear();
    }
}
