//! Units about sampled loads and stores: data source, cost, functions and addresses.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::event::Rate;
use crate::panel::{Cell, Column, Measure, Panel};
use crate::profile::RetainedStack;

use crate::units::kit::figures::latency;
use crate::units::kit::tables::columns::{by_weight, id, left, right, text};
use crate::units::kit::{
    Context, EventRequest, Moment, Settings, Sheet, StackLabels, Stats, ThreadKey, Unit, UnitSample,
};

/// The fields of `union perf_mem_data_src` (include/uapi/linux/perf_event.h): names by bit.
const LEVELS: &[&str] = &[
    "n/a",
    "hit",
    "miss",
    "L1",
    "LFB",
    "L2",
    "L3",
    "RAM",
    "remote RAM 1",
    "remote RAM 2",
    "remote cache 1",
    "remote cache 2",
    "I/O",
    "uncached",
];
const SNOOPS: &[&str] = &["n/a", "none", "hit", "miss", "HitM"];
const LOCKS: &[&str] = &["n/a", "locked"];
const TLBS: &[&str] = &["n/a", "hit", "miss", "L1", "L2", "walker", "fault"];

fn bits(value: u64, shift: u32, width: u32, names: &[&str]) -> String {
    let value = value >> shift & ((1 << width) - 1);
    let list: Vec<&str> =
        names.iter().enumerate().skip(1).filter(|(i, _)| value >> i & 1 == 1).map(|(_, n)| *n).collect();
    if list.is_empty() { "–".to_owned() } else { list.join(" ") }
}

/// Returns level, snoop, TLB and lock of a data source as text.
pub(crate) fn source(value: u64) -> [String; 4] {
    [bits(value, 5, 14, LEVELS), bits(value, 19, 5, SNOOPS), bits(value, 26, 7, TLBS), bits(value, 24, 2, LOCKS)]
}

/// Sampling period, close to the default rate of perf mem record.
const PERIOD: u64 = 1000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    /// The event, with alternative names.
    event: String,
    sources: BTreeMap<u64, Stats>,
    functions: FxHashMap<(ThreadKey, RetainedStack), Stats>,
    /// By process and address.
    lines: FxHashMap<(ThreadKey, u64), Stats>,
    all: Stats,
    labels: StackLabels,
}

/// Limit of distinct cache lines.
const MAX_LINES: usize = 1 << 17;

impl Accesses {
    pub(crate) fn of(event: String, settings: &Settings) -> Self {
        Self { event, labels: StackLabels::of(settings), ..Self::default() }
    }

    /// A table of accesses by a key, the highest cost first.
    fn by<'a, K: Ord + 'a, const N: usize>(
        &self,
        map: impl IntoIterator<Item = (&'a K, &'a Stats)>,
        id: impl Fn(&K) -> u64 + 'a,
        columns: [Column; N],
        cells: impl Fn(&K) -> [Cell; N] + 'a,
    ) -> Sheet<'a, (&'a K, &'a Stats)> {
        let list = by_weight(map, |stats| (stats.sum, stats.n));
        let spread = latency::columns(false).into_iter().map(|column| column.of_unit("_cycles"));
        Sheet::of(list, move |(key, _)| id(key))
            .columns(columns, move |(key, _)| cells(key))
            .columns(spread, |(_, stats)| latency::cells_of(stats, false, Cell::Count))
            .share(|(_, stats)| stats.sum.max(stats.n), self.all.sum.max(self.all.n))
    }
}

impl Unit for Accesses {
    fn event_requests(&self) -> Vec<EventRequest> {
        let want = EventRequest::new(self.event.clone());
        vec![EventRequest { rate: Some(Rate::Period(PERIOD)), memory: true, ..want }.with_stack(true)]
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        cx.point([&self.event, ""], hit.time, hit.weight);
        let line = (cx.thread(hit.pid), hit.addr & !63);
        let mut lists = vec![
            self.sources.entry(hit.data_src).or_default(),
            self.functions.entry((cx.thread(hit.tid), hit.stack)).or_default(),
            &mut self.all,
        ];
        if self.lines.len() < MAX_LINES || self.lines.contains_key(&line) {
            lists.push(self.lines.entry(line).or_default());
        }
        lists.into_iter().for_each(|stats| stats.add(hit.weight));
    }

    fn loss_text(&self) -> &'static str {
        "shares refer to the other samples"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let functions = self.functions.iter().map(|((thread, pin), stats)| (*thread, *pin, stats));
        let places = self.labels.rows(at, functions, |sum: &mut Stats, stats| sum.merge(stats));
        let data =
            [left("level", "Level", 20), left("snoop", "Snoop", 8), left("tlb", "TLB", 14), left("lock", "Lock", 8)];
        let sources = self.by(&self.sources, |value| *value, data, |value| source(*value).map(text));
        let place = [left("task", "Task", 22), left("stack", "Where", 48)];
        let functions = self.by(&places, id, place, |(thread, stack)| [text(at.task(*thread)), text(stack.clone())]);
        let address = [left("process", "Process", 22), right("line", "Cache line", 18)];
        let lines = self.by(&self.lines, id, address, |(pid, line)| [text(at.task(*pid)), Cell::Address(*line)]);
        vec![
            sources.panel("Where data came from"),
            functions.panel("Functions"),
            lines.panel("Cache lines"),
            latency::by_powers("Cycles", &self.all, Measure::Count),
        ]
    }

    fn reset(&mut self, _now: u64) {
        let (event, labels) = (std::mem::take(&mut self.event), std::mem::take(&mut self.labels));
        *self = Self { event, labels, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    /// The texts match those of perf mem (perf_mem__lvl_scnprintf and its siblings).
    #[test]
    fn sources_in_words() {
        // perf mem prints "L1 hit", "None", "L1 or L2 hit", "No".
        assert_eq!(super::source(0x6810_0142), ["hit L1", "none", "hit L1 L2", "–"].map(str::to_owned));
        assert_eq!(super::source(0)[0], "–");
    }
}
