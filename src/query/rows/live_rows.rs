//! Incrementally updated rows.
//! The rows of a new sample are found once, and only shown rows are sorted. The cost depends on new samples only.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::profile::{HashIndex, NodeId, Segments, SymId};

use super::ipc::Partner;
use super::row::RowOrder;
use super::top::{Grouping, LabelMode, RowLabels, RowLimit, Top, TopRow, identity};
use super::top_n::FirstRows;
use crate::query::aggregate::Aggregate;
use crate::query::aggregate::changes::{AggregateRole, Changes, SiteChange};
use crate::query::column::field_rows::Lane;
use crate::query::data::Data;
use crate::query::question::TopSpec;

/// The label of samples without a frame.
const NO_FRAME: u32 = u32::MAX;
/// The number of stacks from which sites are walked one by one.
/// Adding up over all stacks is faster, but takes sixty bytes per stack, more than the stacks themselves.
const MANY: usize = 1 << 16;

/// The last walk that found a label, and the row of the label that was found last.
#[derive(Clone, Copy, Debug)]
struct SeenLabel {
    walk: u32,
    group: u32,
    row: u32,
}

/// No row of a label was found yet.
const NO_ROW: u32 = u32::MAX;

/// All rows of an aggregate, unordered.
#[derive(Debug, Default)]
pub(crate) struct LiveRows {
    grouping: Grouping,
    pub(crate) labels: RowLabels,
    children: bool,
    partner: Option<Partner>,
    rows: Segments<TopRow>,
    /// The row of each group and label.
    index: HashIndex,
    seen: Vec<SeenLabel>,
    walks: u32,
    /// The number of rows with weight.
    n_rows: usize,
    top_k: FirstRows,
}

impl LiveRows {
    pub(crate) fn build(
        data: Data<'_>,
        fold: &Aggregate,
        partner: Option<(Partner, &Aggregate)>,
        spec: &TopSpec,
    ) -> Self {
        if data.profile.trie.len() > MANY {
            return Self::walked(data, fold, partner, spec);
        }
        let mut out = Self::empty(fold, spec);
        let top = Top::unsorted(data, fold, spec, &mut out.grouping);
        let n_labels = top.labels.count;
        let label = |row: &TopRow| if row.label as usize >= n_labels { NO_FRAME } else { row.label };
        for row in &top.rows {
            let at = out.place(row.group, label(row));
            out.rows[at] = TopRow { label: label(row), ..*row };
        }
        out.n_rows = top.rows.iter().filter(|row| !row.children.is_zero()).count();
        if let Some((partner, fold)) = partner {
            out.partner = Some(partner);
            for row in Top::unsorted(data, fold, spec, &mut out.grouping).rows {
                let at = out.place(row.group, label(&row));
                (out.rows[at].partner_own, out.rows[at].partner_children) = (row.own, row.children);
            }
        }
        out.extend_labels(data);
        out
    }

    fn empty(fold: &Aggregate, spec: &TopSpec) -> Self {
        let (grouping, labels) = (Grouping::new(&spec.keys, fold), RowLabels::of(&spec.keys));
        Self { grouping, labels, children: spec.children, ..Self::default() }
    }

    /// Builds the rows without additional memory.
    pub(crate) fn walked(
        data: Data<'_>,
        fold: &Aggregate,
        partner: Option<(Partner, &Aggregate)>,
        spec: &TopSpec,
    ) -> Self {
        let mut out = Self::empty(fold, spec);
        out.extend_labels(data);
        out.partner = partner.map(|(partner, _)| partner);
        let sides = [(AggregateRole::Shown, Some(fold)), (AggregateRole::Partner, partner.map(|(_, fold)| fold))];
        for (side, fold) in sides {
            for (lane, site, acc) in fold.map_or(Vec::new(), Aggregate::sites) {
                out.count(data, &Changes::none(), &SiteChange { lane, site, acc, out: false, before: false }, side);
            }
        }
        out
    }

    pub(crate) fn serves(&self, spec: &TopSpec, partner: Option<Partner>) -> bool {
        self.grouping.keys == spec.keys && self.children == spec.children && self.partner == partner
    }

    /// Returns the number of a group in a [`Top`] made from it.
    pub(crate) fn group_of(&mut self, data: Data<'_>, lane: Lane, site: u32) -> u32 {
        self.grouping.of(data, lane, data.profile.sites.all()[site as usize])
    }

    pub(crate) fn apply(&mut self, data: Data<'_>, changes: &Changes, side: AggregateRole) {
        self.extend_labels(data);
        for change in changes.changes() {
            self.count(data, changes, &change, side);
        }
    }

    fn extend_labels(&mut self, data: Data<'_>) {
        self.labels.extend(data);
        self.seen.resize(self.labels.count, SeenLabel { walk: 0, group: 0, row: NO_ROW });
    }

    /// Walks a stack from leaf to root. A row counts it once, even if its function recurs.
    fn count(&mut self, data: Data<'_>, changes: &Changes, change: &SiteChange, side: AggregateRole) {
        let profile = data.profile;
        let site = profile.sites.all()[change.site as usize];
        let group = self.grouping.of(data, change.lane, site);
        let stack = data.stack(site.stack);
        if stack == NodeId::ROOT {
            let label = if self.labels.mode == LabelMode::None { 0 } else { NO_FRAME };
            let row = self.place(group, label);
            return self.add(row, change, true, side);
        }
        if self.walks == u32::MAX {
            self.walks = 0;
            self.seen.iter_mut().for_each(|seen| seen.walk = 0);
        }
        self.walks += 1;
        let mut node = stack;
        while node != NodeId::ROOT {
            let sym = changes.sym(&profile.frames, profile.trie.frame(node).0, change);
            let label = self.labels.mode.label(data, SymId(sym));
            let seen = &mut self.seen[label as usize];
            if std::mem::replace(&mut seen.walk, self.walks) != self.walks {
                let known = Some(seen.row).filter(|row| seen.group == group && *row != NO_ROW);
                let row = known.map_or_else(|| self.place(group, label), |row| row as usize);
                self.add(row, change, node == stack, side);
            }
            if !self.children {
                return;
            }
            node = profile.trie.parent(node);
        }
    }

    /// Returns the index of a row; creates it without weight if it does not exist.
    fn place(&mut self, group: u32, label: u32) -> usize {
        let (rows, next) = (&self.rows, self.rows.len() as u32);
        let hash = |row: &TopRow| FxBuildHasher.hash_one((row.group, row.label));
        let row = TopRow { group, label, ..TopRow::default() };
        let same = |at: u32| (rows[at as usize].group, rows[at as usize].label) == (group, label);
        let at = self.index.find_or(hash(&row), next, same, |at| hash(&rows[at as usize]));
        if at == next {
            self.rows.push(row);
        }
        if let Some(seen) = self.seen.get_mut(label as usize) {
            (seen.group, seen.row) = (group, at);
        }
        at as usize
    }

    /// Adds to one row, including its own weight if it is the leaf.
    fn add(&mut self, at: usize, change: &SiteChange, own: bool, side: AggregateRole) {
        self.top_k.change(at as u32);
        let row = &mut self.rows[at];
        let had = !row.children.is_zero();
        let (all, of_leaf) = match side {
            AggregateRole::Shown => (&mut row.children, &mut row.own),
            AggregateRole::Partner => (&mut row.partner_children, &mut row.partner_own),
        };
        std::iter::once(all).chain(own.then_some(of_leaf)).for_each(|acc| change.apply_to(acc));
        self.n_rows = self.n_rows + usize::from(!row.children.is_zero()) - usize::from(had);
    }

    /// Returns the requested rows in order. It has only the groups they need, and no sites.
    pub(crate) fn top(&mut self, data: Data<'_>, fold: &Aggregate, spec: &TopSpec, keep: RowLimit) -> Top {
        let (RowLimit::First(n) | RowLimit::All { sorted: n }) = keep;
        let sym = |label| self.labels.symbol(data, label);
        let by = RowOrder { spec, symbol: sym, groups: &self.grouping.groups, partner: self.partner };
        self.top_k.sort(&self.rows, n, &by);
        let first = self.top_k.rows();
        let mut some = first[..n.min(first.len())].to_vec();
        if let RowLimit::All { .. } = keep {
            some.extend(&first[some.len()..]);
            let rest = (0..self.rows.len() as u32).filter(|at| !self.top_k.has(*at));
            some.extend(rest.filter(|at| !self.rows[*at as usize].children.is_zero()));
        }
        let mut top = Top {
            rows: Vec::with_capacity(some.len()),
            n_rows: self.n_rows,
            labels: self.labels.clone(),
            total: fold.total(),
            partner: self.partner,
            ..Top::default()
        };
        let mut place: FxHashMap<u32, u32> = FxHashMap::default();
        for at in some {
            let row = &mut self.rows[at as usize];
            let group = &self.grouping.groups[row.group as usize];
            if row.id == 0 {
                row.id = identity(group, sym(row.label));
            }
            let place = *place.entry(row.group).or_insert_with(|| {
                top.groups.push(group.clone());
                top.live_groups.push(row.group);
                top.groups.len() as u32 - 1
            });
            top.rows.push(TopRow { group: place, ..*row });
        }
        top
    }
}
