//! The second pass: adds up sites to rows, with self and children like perf.
//! A row counts a sample once among its children, even if its function recurs (perf-report(1), --children).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::perfdata::SampleCount;
use crate::profile::{Acc, NodeId, Site, Sym, SymId};

use super::partner::{PairFigure, Partner};
use super::row::RowOrder;
pub use super::row::{RowGroup, TopRow};
use super::site_rows;
use super::site_rows::SiteGroups;
use crate::query::aggregate::Aggregate;
use crate::query::column::ColumnInput;
use crate::query::column::field_rows::{FieldCombinations, Lane, cpu_of, values_of};
use crate::query::data::Data;
use crate::query::question::{ColumnKey, TopSpec};

/// The label that distinguishes rows of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LabelMode {
    #[default]
    Sym,
    Dso,
    None,
}

impl LabelMode {
    pub(crate) fn of(keys: &[ColumnKey]) -> Self {
        if keys.contains(&ColumnKey::Sym) {
            Self::Sym
        } else if keys.contains(&ColumnKey::Dso) {
            Self::Dso
        } else {
            Self::None
        }
    }

    pub(crate) fn label(self, data: Data<'_>, sym: SymId) -> u32 {
        match self {
            Self::Sym => sym.0,
            Self::Dso => data.profile.frames.sym(sym).dso_label,
            Self::None => 0,
        }
    }
}

/// All rows, sorted, and the data for call chains.
#[derive(Debug, Default)]
pub struct Top {
    pub(crate) rows: Vec<TopRow>,
    /// The number of rows, kept or not.
    pub n_rows: usize,
    pub(crate) groups: Vec<Arc<RowGroup>>,
    pub(crate) labels: RowLabels,
    pub(crate) total: Acc,
    pub(crate) partner: Option<Partner>,
    /// The weight of all samples of the partner event.
    pub(crate) partner_total: Acc,
    /// In rows of a [`LiveRows`](crate::query::rows::live_rows::LiveRows), each group's number.
    pub(crate) live_groups: Vec<u32>,
    /// Sites as (stack, weight), sorted by group; `ranges` has each group's part.
    pub(crate) sites: Vec<(u32, Acc)>,
    pub(crate) ranges: Vec<std::ops::Range<usize>>,
    /// For each node, whether no ancestor has the same label.
    pub(crate) first: Vec<bool>,
}

/// The kept rows, and how many of them are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLimit {
    /// The first ones, sorted.
    First(usize),
    /// The first ones by weight. Rows of equal weights are sorted by name among those that can be seen.
    Screen {
        /// The number of rows.
        rows: usize,
        /// The number of rows that can be seen.
        seen: usize,
    },
    /// All of them; only the first are sorted.
    All {
        /// The number of sorted rows.
        sorted: usize,
    },
}

impl RowLimit {
    /// Returns the number of rows in order.
    pub(super) fn first(self) -> usize {
        match self {
            Self::First(n) | Self::Screen { rows: n, .. } | Self::All { sorted: n } => n,
        }
    }

    /// Returns the number of rows that are sorted by name where their weights are equal.
    pub(super) fn named(self) -> usize {
        match self {
            Self::First(n) | Self::All { sorted: n } => n,
            Self::Screen { rows, seen } => seen.min(rows),
        }
    }
}

/// Returns the bit of a label in a Bloom filter of a path's labels.
pub(super) fn path_bit(label: u32) -> u64 {
    1 << (label.wrapping_mul(0x9e37_79b1) >> 26)
}

impl Top {
    /// Builds rows from an aggregate, with their weights in the partner's aggregate.
    pub fn build(
        data: Data<'_>,
        fold: &Aggregate,
        partner: Option<(Partner, &Aggregate)>,
        spec: &TopSpec,
        keep: RowLimit,
    ) -> Self {
        let mut grouping = Grouping::new(&spec.keys, fold);
        let mut top = Self::unsorted(data, fold, spec, &mut grouping);
        if let Some((partner, fold)) = partner {
            let Self { rows, total, .. } = Self::unsorted(data, fold, spec, &mut grouping);
            let by_place: FxHashMap<(u32, u32), &TopRow> =
                rows.iter().map(|row| ((row.group, row.label), row)).collect();
            for row in &mut top.rows {
                let there = by_place.get(&(row.group, row.label)).map(|there| (there.own, there.children));
                (row.partner_own, row.partner_children) = there.unwrap_or_default();
            }
            (top.partner, top.partner_total) = (Some(partner), total);
        }
        top.sort(data, spec, keep, data.meaning(fold.selection.of.event).count);
        top
    }

    /// Returns instructions per cycle of a row, of its own or including callees.
    pub(crate) fn ipc(&self, row: &TopRow, children: bool) -> Option<f64> {
        let partner = self.partner?;
        if children { partner.ipc(row.children, row.partner_children) } else { partner.ipc(row.own, row.partner_own) }
    }

    /// Returns the figure of a row and its partner event, of its own or including callees.
    pub(crate) fn figure(&self, row: &TopRow, children: bool) -> Option<PairFigure> {
        let (own, partner) = match children {
            true => (row.children, row.partner_children),
            false => (row.own, row.partner_own),
        };
        self.partner?.figure(own, partner, self.partner_total)
    }

    /// Builds all rows, unordered and without IDs.
    pub(crate) fn unsorted(data: Data<'_>, fold: &Aggregate, spec: &TopSpec, grouping: &mut Grouping) -> Self {
        let (ranges, sites, total) = group(data, fold, grouping);
        let mut row_labels = RowLabels::of(&spec.keys);
        row_labels.extend(data);
        let labels = row_labels.of_nodes(data);
        let groups = grouping.groups.clone();
        let mut top = Self { groups, labels: row_labels, total, sites, ranges, ..Self::default() };
        if spec.children {
            top.first = firsts(data, &labels);
        }
        top.rows = site_rows::all(SiteGroups {
            parents: data.profile.trie.columns().0,
            sites: &top.sites,
            ranges: &top.ranges,
            labels: &labels,
            n_labels: top.labels.count,
            first: &top.first,
            children: spec.children,
        });
        top
    }

    pub(crate) fn is_by_function(&self) -> bool {
        self.labels.mode == LabelMode::Sym
    }

    /// Returns the symbol that represents a label; `None` for samples without a frame.
    pub(crate) fn symbol<'a>(&self, data: Data<'a>, label: u32) -> Option<&'a Sym> {
        self.labels.symbol(data, label)
    }

    fn sort(&mut self, data: Data<'_>, spec: &TopSpec, keep: RowLimit, count: SampleCount) {
        let mut rows = std::mem::take(&mut self.rows);
        self.n_rows = rows.len();
        let symbol = |label| self.symbol(data, label);
        let by = RowOrder { spec, symbol, groups: &self.groups, partner: self.partner, count };
        let order = |a: &TopRow, b: &TopRow| by.compare(a, b);
        // A screen shows the first of very many rows, so these are selected before sorting.
        let first = keep.first().min(rows.len());
        if first < rows.len() {
            rows.select_nth_unstable_by(first, order);
        }
        if let RowLimit::First(_) | RowLimit::Screen { .. } = keep {
            rows.truncate(first);
        }
        rows[..first].sort_unstable_by(order);
        for row in rows.iter_mut().filter(|row| row.id == 0) {
            row.id = identity(&self.groups[row.group as usize], self.symbol(data, row.label));
        }
        self.rows = rows;
    }
}

/// The groups that distinguish rows of one function, computed once per task.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    pub(crate) keys: Vec<ColumnKey>,
    pub(crate) groups: Vec<Arc<RowGroup>>,
    ids: FxHashMap<Arc<RowGroup>, u32>,
    /// The group of each task, if groups depend on nothing else; [`NO_GROUP`] if it was not needed yet.
    of_task: Vec<u32>,
    /// The others: by lane, task, text, parent caller and leaf.
    of_site: FxHashMap<(Lane, u32, u32, (u32, u32)), u32>,
    traced: Option<Arc<FieldCombinations>>,
    by_site: bool,
}

const NO_GROUP: u32 = u32::MAX;

impl Grouping {
    pub(crate) fn new(keys: &[ColumnKey], fold: &Aggregate) -> Self {
        let is_of_site = |key: &ColumnKey| matches!(key, ColumnKey::Trace | ColumnKey::Parent) || key.is_of_leaf();
        let by_site = keys.iter().any(is_of_site);
        Self { keys: keys.to_vec(), traced: fold.traced.clone(), by_site, ..Self::default() }
    }

    pub(crate) fn of(&mut self, data: Data<'_>, lane: Lane, site: Site) -> u32 {
        if self.by_site || lane != 0 {
            return self.of_site(data, lane, site);
        }
        let task = site.task.0 as usize;
        if let Some(group) = self.of_task.get(task).filter(|group| **group != NO_GROUP) {
            return *group;
        }
        let group = self.add(data, lane, 0, site);
        self.of_task.resize(self.of_task.len().max(task + 1), NO_GROUP);
        self.of_task[task] = group;
        group
    }

    fn of_site(&mut self, data: Data<'_>, lane: Lane, site: Site) -> u32 {
        let (trace, stack) = (if self.keys.contains(&ColumnKey::Trace) { site.trace.0 } else { 0 }, site.stack);
        let parent =
            data.marks.filter(|_| self.keys.contains(&ColumnKey::Parent)).map_or(0, |marks| marks.parent(stack));
        let by_line = self.keys.iter().any(|key| key.is_of_leaf()) && stack != NodeId::ROOT;
        let leaf = if by_line { data.profile.trie.frame(data.stack(stack)).0 } else { 0 };
        let key = (lane, site.task.0, trace, (parent, leaf));
        if let Some(group) = self.of_site.get(&key) {
            return *group;
        }
        let group = self.add(data, lane, trace, site);
        self.of_site.insert(key, group);
        group
    }

    fn add(&mut self, data: Data<'_>, lane: Lane, trace: u32, site: Site) -> u32 {
        let task = &data.session.tasks()[site.task.0 as usize];
        let values = self.traced.as_deref().map(|traced| (traced, values_of(lane)));
        let input = ColumnInput { data, task, cpu: cpu_of(lane), trace, values, stack: site.stack };
        let group = RowGroup::of(&self.keys, &input);
        let next = self.groups.len() as u32;
        *self.ids.entry(Arc::new(group)).or_insert_with_key(|group| {
            self.groups.push(group.clone());
            next
        })
    }
}

type Grouped = (Vec<std::ops::Range<usize>>, Vec<(u32, Acc)>, Acc);

fn group(data: Data<'_>, fold: &Aggregate, grouping: &mut Grouping) -> Grouped {
    let weighted = fold.sites();
    let mut tagged: Vec<(u32, u32, Acc)> = Vec::with_capacity(weighted.len());
    let mut total = fold.total();
    for (lane, site, acc) in weighted {
        let site = data.profile.sites.all()[site as usize];
        if !data.counts(site.stack) {
            total -= acc;
            continue;
        }
        tagged.push((grouping.of(data, lane, site), data.stack(site.stack).0, acc));
    }
    let n = grouping.groups.len();
    let mut counts = vec![0usize; n + 1];
    tagged.iter().for_each(|(g, _, _)| counts[*g as usize + 1] += 1);
    for g in 0..n {
        counts[g + 1] += counts[g];
    }
    let ranges = counts.windows(2).map(|w| w[0]..w[1]).collect();
    let mut at = counts;
    let mut sites = vec![(0, Acc::default()); tagged.len()];
    for (g, stack, acc) in tagged {
        sites[at[g as usize]] = (stack, acc);
        at[g as usize] += 1;
    }
    (ranges, sites, total)
}

/// The labels of a table's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowLabels {
    pub(crate) mode: LabelMode,
    /// The number of labels.
    pub(crate) count: usize,
    /// The first symbol of each DSO, if DSOs are the labels.
    first_syms: Vec<u32>,
    /// The number of symbols that were examined.
    n_syms: usize,
}

impl RowLabels {
    pub(crate) fn of(keys: &[ColumnKey]) -> Self {
        Self { mode: LabelMode::of(keys), ..Self::default() }
    }

    /// Adds the labels of new symbols.
    pub(crate) fn extend(&mut self, data: Data<'_>) {
        let frames = &data.profile.frames;
        self.count = match self.mode {
            LabelMode::Sym => frames.n_syms(),
            LabelMode::Dso => frames.n_dso_labels(),
            LabelMode::None => 1,
        };
        if self.mode == LabelMode::Dso {
            self.first_syms.resize(self.count, u32::MAX);
            for i in self.n_syms as u32..frames.n_syms() as u32 {
                let slot = &mut self.first_syms[frames.sym(SymId(i)).dso_label as usize];
                *slot = (*slot).min(i);
            }
        }
        self.n_syms = frames.n_syms();
    }

    /// Returns the label of every node. The root's is one past all others, if there are several.
    fn of_nodes(&self, data: Data<'_>) -> Vec<u32> {
        let (_, frames) = data.profile.trie.columns();
        let syms = data.profile.frames.syms();
        let none = if self.mode == LabelMode::None { 0 } else { self.count as u32 };
        let label = |frame: &u32| syms.get(*frame as usize).map_or(none, |sym| self.mode.label(data, SymId(*sym)));
        frames.iter().map(label).collect()
    }

    /// Returns the symbol that represents a label; `None` for samples without a frame.
    pub(crate) fn symbol<'a>(&self, data: Data<'a>, label: u32) -> Option<&'a Sym> {
        let sym = match self.mode {
            LabelMode::Sym => Some(label).filter(|label| (*label as usize) < self.count),
            LabelMode::Dso => self.first_syms.get(label as usize).copied().filter(|sym| *sym != u32::MAX),
            LabelMode::None => None,
        };
        sym.map(|sym| data.profile.frames.sym(SymId(sym)))
    }
}

/// Returns for each node whether its label occurs on its path for the first time. A one-word Bloom filter decides most.
fn firsts(data: Data<'_>, labels: &[u32]) -> Vec<bool> {
    let (parents, _) = data.profile.trie.columns();
    let mut bits = vec![0u64; parents.len()];
    let mut first = vec![true; parents.len()];
    for n in 1..parents.len() {
        let parent = parents[n] as usize;
        let bit = path_bit(labels[n]);
        bits[n] = bits[parent] | bit;
        if bits[parent] & bit != 0 {
            let mut up = parent;
            while up != 0 && labels[up] != labels[n] {
                up = parents[up] as usize;
            }
            first[n] = up == 0;
        }
    }
    first
}

pub(crate) fn identity(group: &RowGroup, sym: Option<&Sym>) -> u64 {
    use std::hash::{BuildHasher, Hash, Hasher};
    let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
    group.hash(&mut hasher);
    if let Some(sym) = sym {
        (&sym.dso_name, &sym.function, sym.start).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
