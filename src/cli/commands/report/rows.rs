//! The rows of one event: computed, filtered, sorted and printed, with their call chains.

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use crate::engine::offline::Offline;
use crate::event::format::Format;
use crate::filter::Filter;
use crate::panel;
use crate::panel::row_order::arrange_by_key;
use crate::perfdata::EventUnit;
use crate::profile::Acc;
use crate::query::parallel::shared;
use crate::query::rows::mode_weights::ModeWeights;
use crate::query::rows::top_table::{TopField, TopTable};
use crate::query::tree::chains::CallTree;
use crate::query::tree::chains::TreeKind;
use crate::query::tree::heaviest_chain::HeavyTrees;
use crate::query::tree::stack_marks::{StackMarks, StackRules};
use crate::query::{Aggregate, ColumnKey, Data, Direction, Order, Partner, RowLimit, Top, TopRow, TopSpec};
use crate::report::chain_spec::{ChainForm, ChainSpec};
use crate::report::chains::{ChainText, NamedTree};
use crate::report::json::{self, ChainsByRow};
use crate::report::stdio::{OnlyValue, StdioReport};

use super::columns::Columns;
use super::{ReportShape, columns};
use crate::cli::args::{ReportArgs, ShareOf};
use crate::cli::output::print;
use crate::cli::usage;

pub(super) struct Patterns {
    parent: Option<Regex>,
    ignore_callees: Option<Regex>,
    only_with_parent: bool,
    only_named: bool,
}

/// perf's default pattern of a parent.
const PARENT: &str = "^sys_|^do_page_fault";

impl Patterns {
    pub(super) fn of(args: &ReportArgs) -> anyhow::Result<Self> {
        let read = |option: &str, text: &Option<String>| {
            let refused = |error: regex::Error| usage(format!("{option}: {error}"));
            text.as_deref().map(|text| Regex::new(text).map_err(refused)).transpose()
        };
        let mut out = Self {
            parent: read("--parent", &args.more.parent)?,
            ignore_callees: read("--ignore-callees", &args.more.ignore_callees)?,
            only_with_parent: args.more.exclude_other,
            only_named: args.more.hide_unresolved,
        };
        if out.only_with_parent {
            out.need_parent();
        }
        Ok(out)
    }

    pub(super) fn complete(&mut self, keys: &[ColumnKey]) {
        if keys.contains(&ColumnKey::Parent) {
            self.need_parent();
        }
    }

    fn need_parent(&mut self) {
        if self.parent.is_none() {
            self.parent = Regex::new(PARENT).ok();
        }
    }

    pub(super) fn need_chains(&self) -> bool {
        self.parent.is_some() || self.ignore_callees.is_some()
    }

    /// Evaluates the conditions for the stacks of a profile; empty if there are none.
    pub(super) fn marks(&self, data: Data<'_>) -> Option<StackMarks> {
        let parent = self.parent.as_ref().map(|regex| |name: &str| regex.is_match(name));
        let ignored = self.ignore_callees.as_ref().map(|regex| |name: &str| regex.is_match(name));
        let rules = StackRules {
            ignore_callees: ignored.as_ref().map(|is| is as &dyn Fn(&str) -> bool),
            parent: parent.as_ref().map(|is| is as &dyn Fn(&str) -> bool),
            only_with_parent: self.only_with_parent,
            only_named: self.only_named,
        };
        (self.need_chains() || self.only_named).then(|| StackMarks::new(data.profile, rules))
    }
}

pub(super) struct EventRows<'a> {
    data: Data<'a>,
    name: &'a str,
    unit: EventUnit,
    top: Top,
    pub(super) columns: Columns,
    fields: Vec<TopField>,
    modes: ModeWeights,
    /// Base of percentages.
    whole: Acc,
    pub(super) lost: u64,
    /// Format of its fields, for a tracepoint.
    format: Option<Arc<Format>>,
}

impl<'a> EventRows<'a> {
    pub(super) fn new(
        loaded: &'a Offline,
        marks: Option<&'a StackMarks>,
        event: usize,
        filter: Option<Arc<Filter>>,
        shape: &ReportShape<'_>,
    ) -> Self {
        let data = Data { origins: marks.and_then(StackMarks::origins), marks, ..loaded.data() };
        let format = u16::try_from(event).ok().and_then(|event| data.profile.format(event));
        let columns = shape.columns.with_fields(format.map(|format| &**format));
        let keys = &columns.row_keys();
        let spec = TopSpec {
            keys: keys.clone(),
            children: shape.children,
            order: match (columns.by_ipc, shape.by_children) {
                (true, _) => Order::Ipc,
                (false, true) => Order::Children,
                (false, false) => Order::SelfTime,
            },
            reversed: false,
            origins: false,
        };
        let is_filtered = filter.is_some() || marks.is_some();
        let mut fold = Aggregate::new(event, filter).group_by(keys);
        fold.update(data, 0..u64::MAX);
        let partner = Partner::of(data.events.iter().map(String::as_str), event).filter(|_| fold.traced.is_none());
        let partner = partner.map(|partner| {
            let mut other = Aggregate::of_event(partner.event, &fold);
            other.update(data, 0..u64::MAX);
            (partner, other)
        });
        let with = partner.as_ref().map(|(partner, other)| (*partner, other));
        let top = Top::build(data, &fold, with, &spec, RowLimit::First(usize::MAX));
        let mut fields = columns.fields.clone();
        if top.partner.is_some() && !columns.is_whole && !fields.contains(&TopField::Ipc) {
            let at = fields.iter().position(|field| matches!(field, TopField::Key(_))).unwrap_or(fields.len());
            fields.insert(at, TopField::Ipc);
        }
        let mut whole = top.total;
        if is_filtered && shape.args.more.percentage == Some(ShareOf::Absolute) {
            let mut all = Aggregate::new(event, None);
            all.update(data, 0..u64::MAX);
            whole = all.total();
        }
        let wants_modes = |list: &[TopField]| list.iter().any(|field| matches!(field, TopField::Mode(_)));
        let modes = if wants_modes(&columns.fields) || wants_modes(&columns.order) {
            ModeWeights::of(data, &top)
        } else {
            ModeWeights::default()
        };
        let lost = loaded.ingest.core().profile.ledger.lost_of(event);
        let format = data.profile.format(event as u16).cloned();
        let (name, unit) = (&*loaded.event_names[event], data.unit(event));
        let mut out = Self { data, name, unit, top, columns, fields, modes, whole, lost, format };
        out.choose(shape);
        out
    }

    fn choose(&mut self, shape: &ReportShape<'_>) {
        let mut rows = std::mem::take(&mut self.top.rows);
        let least = shape.args.percent_limit;
        if least > 0.0 {
            rows.retain(|row| row.children.percent_of(&self.whole) >= least);
        }
        if let Some(part) = &shape.args.more.symbol_filter {
            let name = |row: &TopRow| self.top.symbol(self.data, row.label).map(|sym| sym.name());
            rows.retain(|row| name(row).is_some_and(|name| name.contains(&**part)));
        }
        columns::sort(&self.table(), &mut rows, &self.columns.order);
        self.top.rows = rows;
    }

    pub(super) fn table(&self) -> TopTable<'_> {
        TopTable {
            data: self.data,
            top: &self.top,
            fields: &self.fields,
            whole: self.whole,
            modes: &self.modes,
            words: None,
        }
    }

    /// The same for readers: numbers of tracepoint fields become words.
    fn table_in_words(&self) -> TopTable<'_> {
        TopTable { words: self.format.as_deref(), ..self.table() }
    }

    fn print_as_perf(&self, shape: &ReportShape<'_>) -> anyhow::Result<()> {
        let widths = &shape.args.more.column_widths;
        let only = only_values(shape.args, &self.columns.keys);
        let table = StdioReport {
            table: self.table_in_words(),
            event: self.name,
            children: shape.children,
            only: &only,
            widths,
        };
        let chains = match &shape.chains {
            Some(spec) => self.as_perf_has_them(spec, shape),
            None => ChainsByRow::default(),
        };
        print(&table.text(shape.limit, &chains))
    }

    /// Returns the chains of rows like perf. If rows include callees and chains are caller first, chains of samples in
    /// the row itself are complete, and the others begin at the row.
    fn as_perf_has_them(&self, spec: &ChainSpec, shape: &ReportShape<'_>) -> ChainsByRow<String> {
        // Entries omitted for lack of lines are distinguished from missing ones.
        let all_entries = ChainSpec { most: usize::MAX, ..*spec };
        let callees = spec.direction == Direction::Callees;
        let by_function = self.top.is_by_function();
        let branches = |inclusive: bool| {
            let kind = TreeKind { direction: spec.direction, inclusive };
            self.chains_of(kind, &all_entries, shape, |tree| NamedTree::of(spec, self.data, tree))
        };
        let below = branches(shape.children);
        let whole = if by_function && callees && shape.children { branches(false) } else { ChainsByRow::default() };
        let first_key = shape.args.sort.as_ref().and_then(|sort| ColumnKey::parse_list(sort.split(',').next()?).ok());
        let skips_row = shape.args.more.fields.is_none() && first_key.is_some_and(|keys| keys == [ColumnKey::Sym]);
        let text = ChainText { spec, whole: &self.whole, skips_row };
        let least = spec.threshold(&self.whole);
        let of_row = |row: &TopRow| {
            let weight = if shape.children { row.children } else { row.own };
            let below = below.get(&row.place()).cloned().unwrap_or_default();
            if !by_function || callees && !shape.children {
                return text.text(&weight, &below.below);
            }
            let (mut acc, mut ended) = (weight, below.ended);
            if callees {
                acc -= row.own;
                // These are complete.
                ended = Acc::default();
            }
            let name = self.top.symbol(self.data, row.label).map_or_else(String::new, |sym| sym.name().into_owned());
            let name = panel::text::clean(&name).into_owned();
            let mut all = whole.get(&row.place()).cloned().unwrap_or_default().below;
            match all.iter_mut().find(|branch| branch.name == name) {
                Some(same) => {
                    same.acc += acc;
                    same.ended += ended;
                    same.below.extend(below.below);
                }
                None if !acc.is_zero() => all.push(NamedTree { name, acc, ended, below: below.below }),
                None => {}
            }
            all.retain(|branch| least.is_met(&branch.acc, &weight));
            all.sort_by_key(|branch| std::cmp::Reverse(branch.acc.period));
            text.text(&weight, &all)
        };
        let rows = self.top.rows.iter().take(shape.limit);
        rows.map(|row| (row.place(), of_row(row))).collect()
    }

    pub(super) fn print(&self, shape: &ReportShape<'_>) -> anyhow::Result<()> {
        if shape.is_perfs_text() {
            return self.print_as_perf(shape);
        }
        print(&json::event_line(self.name, "sample", self.unit, &self.top.total, self.lost))?;
        if shape.args.hierarchy {
            let least = shape.args.percent_limit;
            print(&crate::report::hierarchy::hierarchy(self.data, &self.top, &self.columns.keys, least, &self.whole))?;
            return print("\n");
        }
        let table = self.table_in_words().table(shape.limit);
        // perf's scripts distinguish rows, which begin with a space, from chains, which begin with a figure.
        let folded = shape.chains.is_some_and(|spec| spec.form == ChainForm::Folded);
        let (table, margin) = match &shape.args.more.separator {
            Some(separator) => (table.to_separated(separator), ""),
            None if folded => (table.with_plain_figures().to_text_within(&shape.args.more.column_widths), "    "),
            None => (table.to_text_within(&shape.args.more.column_widths), ""),
        };
        let Some(spec) = shape.chains else {
            print(&table)?;
            return print("\n");
        };
        let mut chains = self.chain_texts(&spec, shape);
        let mut lines = table.lines();
        let mut out = format!("{}{}\n", if margin.is_empty() { "" } else { "#   " }, lines.next().unwrap_or_default());
        for (line, row) in lines.zip(&self.top.rows) {
            out.extend([margin, line, "\n"]);
            out.push_str(&chains.remove(&row.place()).unwrap_or_default());
            if out.len() > AT_ONCE {
                print(&std::mem::take(&mut out))?;
            }
        }
        print(&(out + "\n"))
    }

    fn chain_texts(&self, spec: &ChainSpec, shape: &ReportShape<'_>) -> ChainsByRow<String> {
        match spec.form {
            ChainForm::Graph | ChainForm::Fractal => {
                self.chains(spec, shape, |tree| spec.tree(self.data, tree, &self.whole))
            }
            ChainForm::Flat | ChainForm::Folded => self.as_perf_has_them(spec, shape),
        }
    }

    /// Applies a function to the shown call chains of rows, by row index.
    fn chains<R: Send>(
        &self,
        spec: &ChainSpec,
        shape: &ReportShape<'_>,
        make: impl Fn(&CallTree) -> R + Sync,
    ) -> ChainsByRow<R> {
        let kind = TreeKind { direction: spec.direction, inclusive: shape.children };
        self.chains_of(kind, spec, shape, make)
    }

    fn chains_of<R: Send>(
        &self,
        kind: TreeKind,
        spec: &ChainSpec,
        shape: &ReportShape<'_>,
        make: impl Fn(&CallTree) -> R + Sync,
    ) -> ChainsByRow<R> {
        let threshold = spec.threshold(&self.whole);
        // A chain never counts more than its row, so most rows lack chains.
        let counts = |row: &TopRow| if kind.inclusive { row.children } else { row.own };
        let has_some = |row: &&TopRow| threshold.of_parent || threshold.is_met(&counts(row), &Acc::default());
        let mut rows: Vec<&TopRow> = self.top.rows.iter().take(shape.limit).filter(has_some).collect();
        arrange_by_key(&mut rows, |row| row.group);
        let groups: Vec<&[&TopRow]> = rows.chunk_by(|a, b| a.group == b.group).collect();
        let heavy = HeavyTrees::new(self.data, &self.top, kind, threshold);
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

    pub(super) fn chain_objects(&self, spec: &ChainSpec, shape: &ReportShape<'_>) -> ChainsByRow<Value> {
        self.chains(spec, shape, |tree| json::chain(self.data, spec, tree, &self.whole))
    }
}

/// Returns the columns with a single value.
pub(super) fn only_values<'a>(args: &'a ReportArgs, keys: &[ColumnKey]) -> Vec<OnlyValue<'a>> {
    let which = &args.which;
    OnlyValue::of(keys, which.comms.as_deref(), which.dsos.as_deref(), which.symbols.as_deref())
}

/// Size of the output buffer in bytes.
const AT_ONCE: usize = 1 << 16;
