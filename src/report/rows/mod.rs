//! The rows of one event: computed, filtered and sorted, with their call chains.

mod chains;
pub(crate) mod columns;
pub(crate) mod group;
pub(crate) mod options;
pub(crate) mod samples;
pub(crate) mod stdio;
mod text;

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::engine::offline::Offline;
use crate::event::format::Format;
use crate::filter::ChosenFunctions;
use crate::panel::row_order::arrange_by_key;
use crate::perfdata::{LATENCY, PeriodMeaning};
use crate::profile::{Acc, FrameId, Sym};
use crate::query::parallel::shared;
use crate::query::rows::latency_weights::LatencyWeights;
use crate::query::rows::mode_weights::ModeWeights;
use crate::query::rows::partner::PairKind;
use crate::query::rows::top::LabelMode;
use crate::query::rows::top_table::{TopField, TopTable};
use crate::query::tree::chains::CallTree;
use crate::query::tree::chains::TreeKind;
use crate::query::tree::heaviest_chain::HeavyTrees;
use crate::query::tree::stack_marks::StackMarks;
use crate::query::{Aggregate, Data, Order, Partner, RowLimit, Top, TopRow, TopSpec};

use super::chain_spec::ChainSpec;
use super::json::{self, ChainsByRow};
use columns::Columns;
use options::ReportOptions;
use samples::SelectedSamples;
use stdio::OnlyValue;

/// The printed rows of each event, and their layout.
pub(crate) struct ReportShape<'a> {
    pub(crate) options: &'a ReportOptions,
    pub(crate) columns: Columns,
    pub(crate) children: bool,
    /// True if rows are sorted by children by default.
    pub(crate) by_children: bool,
    /// True if tables have perf's layout.
    pub(crate) as_perf: bool,
    pub(crate) hierarchy: bool,
    pub(crate) percent_limit: f64,
    pub(crate) limit: usize,
    pub(crate) chains: Option<ChainSpec>,
    /// True if chains omit the function of their row.
    pub(crate) skips_row: bool,
    /// The value of --time.
    pub(crate) time: Option<&'a str>,
    /// Columns that are omitted, unless no other key remains.
    pub(crate) only: Vec<OnlyValue<'a>>,
    /// The files, separated by commas, to which samples and rows are limited.
    pub(crate) dsos: Option<&'a str>,
    /// The same for functions.
    pub(crate) symbols: Option<ChosenFunctions>,
}

impl ReportShape<'_> {
    /// Returns whether a row is of a selected file and function. The callers of selected code have rows of their own,
    /// which the selection does not include.
    fn selects(&self, mode: LabelMode, sym: &Sym) -> bool {
        let is_in_file = self.dsos.is_none_or(|list| list.split(',').any(|one| one.trim() == &*sym.dso_name));
        match mode {
            LabelMode::Sym => is_in_file && self.symbols.as_ref().is_none_or(|names| names.has(&sym.name())),
            LabelMode::Dso => is_in_file,
            LabelMode::None => true,
        }
    }
}

pub(crate) struct EventRows<'a> {
    data: Data<'a>,
    name: &'a str,
    meaning: PeriodMeaning,
    top: Top,
    columns: Columns,
    fields: Vec<TopField>,
    modes: ModeWeights,
    latency: LatencyWeights,
    /// Base of percentages.
    whole: Acc,
    lost: u64,
    /// Format of its fields, for a tracepoint.
    format: Option<Arc<Format>>,
}

/// Returns the event of the latency profile.
fn latency_event(data: &Data<'_>) -> Option<usize> {
    data.events.iter().position(|name| name == LATENCY)
}

impl<'a> EventRows<'a> {
    pub(crate) fn new(
        loaded: &'a Offline,
        event: usize,
        samples: &'a SelectedSamples,
        base: Option<&SelectedSamples>,
        shape: &ReportShape<'_>,
    ) -> Self {
        let SelectedSamples { filter, marks } = samples;
        let marks = marks.as_ref();
        let data = Data { origins: marks.and_then(StackMarks::origins), marks, ..loaded.data() };
        let format = data.profile.format(event as u16).cloned();
        let columns = shape.columns.with_fields(format.as_deref());
        let keys = &columns.row_keys();
        let spec = TopSpec {
            keys: keys.clone(),
            children: shape.children,
            order: match (columns.by_ipc, shape.by_children) {
                (true, _) => Order::Ipc,
                (false, true) => Order::Children,
                (false, false) => Order::SelfTime,
            },
            ..TopSpec::default()
        };
        let other = |fields: &[TopField]| fields.contains(&TopField::Latency).then(|| latency_event(&data)).flatten();
        let latency = other(&columns.fields).or_else(|| other(&columns.order)).map(|event| {
            let fold = Aggregate::new(event, filter.clone()).group_by(keys).over(data);
            Top::build(data, &fold, None, &spec, RowLimit::All { sorted: 0 })
        });
        let fold = Aggregate::new(event, filter.clone()).group_by(keys).over(data);
        let partner =
            Partner::of(PairKind::Ipc, data.events.iter().map(String::as_str), event).filter(|_| fold.traced.is_none());
        let partner = partner.map(|partner| (partner, Aggregate::of_event(partner.event, &fold).over(data)));
        let with = partner.as_ref().map(|(partner, other)| (*partner, other));
        let top = Top::build(data, &fold, with, &spec, RowLimit::First(usize::MAX));
        let mut fields = columns.fields.clone();
        if top.partner.is_some() && !columns.is_whole && !fields.contains(&TopField::Ipc) {
            let at = fields.iter().position(|field| matches!(field, TopField::Key(_))).unwrap_or(fields.len());
            fields.insert(at, TopField::Ipc);
        }
        let whole = base.map_or(top.total, |base| base.total(data, event));
        let wants_modes = |list: &[TopField]| list.iter().any(|field| matches!(field, TopField::Mode(_)));
        let modes = if wants_modes(&columns.fields) || wants_modes(&columns.order) {
            ModeWeights::of(data, &top)
        } else {
            ModeWeights::default()
        };
        let mut latency = latency.map_or_else(LatencyWeights::default, |other| LatencyWeights::of(&top, &other));
        if let (Some(base), Some(event)) = (base, latency_event(&data)) {
            latency.whole = base.total(data, event);
        }
        let lost = loaded.ingest.core().profile.ledger.lost_of(event);
        let (name, meaning) = (&*loaded.event_names[event], data.meaning(event));
        let mut out = Self { data, name, meaning, top, columns, fields, modes, latency, whole, lost, format };
        out.choose(shape);
        out
    }

    fn choose(&mut self, shape: &ReportShape<'_>) {
        let mut rows = std::mem::take(&mut self.top.rows);
        if shape.children {
            let sym = |row: &TopRow| self.top.symbol(self.data, row.label);
            let mode = self.top.labels.mode;
            // Samples in the row's own code have passed the filter.
            rows.retain(|row| !row.own.is_zero() || sym(row).is_none_or(|sym| shape.selects(mode, sym)));
        }
        if let Some(part) = &shape.options.symbol_filter {
            let name = |row: &TopRow| self.top.symbol(self.data, row.label).map(|sym| sym.name());
            rows.retain(|row| name(row).is_some_and(|name| name.contains(&**part)));
        }
        columns::sort(&self.table(), &mut rows, &self.columns.order);
        if shape.as_perf && shape.by_children && shape.chains.is_some() && self.columns.order.is_empty() {
            self.put_callers_first(&mut rows);
        }
        self.top.rows = rows;
    }

    /// Leaves out rows below a share. In a group, the share of its first event decides.
    pub(crate) fn limited(mut self, least: f64) -> Self {
        if least > 0.0 {
            self.top.rows.retain(|row| row.children.percent_of(&self.whole) >= least);
        }
        self
    }

    /// Puts callers above their callees if both have the same weight, like perf if it has call chains.
    fn put_callers_first(&self, rows: &mut [TopRow]) {
        if !self.top.is_by_function() {
            return;
        }
        let profile = self.data.profile;
        let (parents, frames) = profile.trie.columns();
        let mut depths = vec![0u32; parents.len()];
        let mut least: FxHashMap<u32, u32> = FxHashMap::default();
        for n in 1..parents.len() {
            let depth = depths[parents[n] as usize] + 1;
            depths[n] = depth;
            if self.top.first.get(n) == Some(&true) {
                let label = profile.frames.sym_of(FrameId(frames[n])).0;
                least.entry(label).and_modify(|least| *least = depth.min(*least)).or_insert(depth);
            }
        }
        // Stable: rows of one depth remain in their order.
        let depth = |row: &TopRow| least.get(&row.label).copied().unwrap_or(u32::MAX);
        rows.sort_by_cached_key(|row| (Reverse(row.children.period), depth(row)));
    }

    /// Returns the number of a weight's samples, and their noun: stacks if the number of samples is unknown.
    fn samples(&self, weight: &Acc) -> (u64, &'static str) {
        weight.counted(self.meaning.count)
    }

    /// Returns whether no sample passes the filters.
    pub(crate) fn is_empty(&self) -> bool {
        self.top.total.samples == 0
    }

    pub(crate) fn table(&self) -> TopTable<'_> {
        TopTable {
            data: self.data,
            top: &self.top,
            fields: &self.fields,
            whole: self.whole,
            modes: &self.modes,
            latency: &self.latency,
            meaning: self.meaning,
            words: None,
        }
    }

    /// The same for readers: numbers of tracepoint fields become words.
    fn table_in_words(&self) -> TopTable<'_> {
        TopTable { words: self.format.as_deref(), ..self.table() }
    }

    /// Applies a function to the shown call chains of rows, by row index.
    fn chains<R: Send>(
        &self,
        counted: Counted,
        spec: &ChainSpec,
        shape: &ReportShape<'_>,
        make: impl Fn(&CallTree) -> R + Sync,
    ) -> ChainsByRow<R> {
        let kind = TreeKind { direction: spec.direction, inclusive: counted != Counted::Own };
        let threshold = spec.threshold(&self.whole);
        // A chain never counts more than its row, so most rows lack chains.
        let counts = |row: &TopRow| if kind.inclusive { row.children } else { row.own };
        let has_some = |row: &&TopRow| threshold.of_parent || threshold.is_met(&counts(row), &Acc::default());
        let mut rows: Vec<&TopRow> = self.top.rows.iter().take(shape.limit).filter(has_some).collect();
        arrange_by_key(&mut rows, |row| row.group);
        let groups: Vec<&[&TopRow]> = rows.chunk_by(|a, b| a.group == b.group).collect();
        let heavy =
            HeavyTrees::new(self.data, &self.top, kind, threshold).without_own_samples(counted == Counted::OnlyCallees);
        let of_groups = |groups: &[&[&TopRow]]| {
            let mut weights = heavy.weights();
            let mut out = Vec::new();
            for rows in groups {
                let trees = heavy.trees(&mut weights, rows);
                out.extend(rows.iter().zip(&trees).map(|(row, tree)| (row.place(), make(tree))));
            }
            out
        };
        shared(&groups, groups.len(), 1, of_groups).into_iter().flatten().collect()
    }

    /// Returns the event and its rows as JSON.
    pub(crate) fn object(&self, shape: &ReportShape<'_>) -> Value {
        let chains = shape.chains.map(|spec| {
            let make = |tree: &CallTree| json::chain(self.data, &spec, tree, &self.whole, self.meaning);
            (spec, self.chains(Counted::of(shape), &spec, shape, make))
        });
        let (table, shown) = (self.table(), self.top.rows.iter().take(shape.limit));
        let rows = shown.map(|row| json::row(&table, row, &self.columns.keys, chains.as_ref())).collect();
        json::event(self.name, self.meaning, &self.top.total, self.lost, rows)
    }
}

/// The samples of a row whose chains are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Samples in the row itself.
    Own,
    /// Samples in the row and in its callees.
    Children,
    /// Samples in the row's callees only. Samples in recursive calls of the row are its own.
    OnlyCallees,
}

impl Counted {
    fn of(shape: &ReportShape<'_>) -> Self {
        if shape.children { Self::Children } else { Self::Own }
    }
}
