//! Incrementally updated rows.
//! Each node of the stacks of new samples is visited once, and only shown rows are sorted. The cost depends on new samples
//! only.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::profile::{Acc, HashIndex, NodeId, Segments, SymId};

use super::partner::Partner;
use super::path_sums::{PathSums, SumChange};
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
/// Adding up over all stacks at a time is faster, but takes sixty bytes per stack, more than the stacks themselves.
const MANY: usize = 1 << 16;

/// The number of changes that are added up together.
const AT_ONCE: usize = 1 << 13;
/// No row of a label was found yet.
const NO_ROW: u32 = u32::MAX;

/// A change with its row's group.
struct GroupedChange<'a> {
    /// Whether it was counted under the former names of its frames.
    former: bool,
    group: u32,
    stack: NodeId,
    change: &'a SiteChange,
}

impl GroupedChange<'_> {
    fn class(&self) -> (bool, u32) {
        (self.former, self.group)
    }
}

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
    /// For each label, the group and the row that were found last.
    last: Vec<(u32, u32)>,
    sums: PathSums,
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

    /// Builds the rows without sums for all stacks.
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
            for sites in fold.map_or(Vec::new(), Aggregate::sites).chunks(AT_ONCE) {
                let added = |(lane, site, acc): &(Lane, u32, Acc)| SiteChange {
                    lane: *lane,
                    site: *site,
                    acc: *acc,
                    out: false,
                    before: false,
                };
                out.count(data, &Changes::none(), &sites.iter().map(added).collect::<Vec<_>>(), side);
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
        changes.list().chunks(AT_ONCE).for_each(|part| self.count(data, changes, part, side));
    }

    fn extend_labels(&mut self, data: Data<'_>) {
        self.labels.extend(data);
        self.last.resize(self.labels.count, (0, NO_ROW));
    }

    /// Adds up changes in order of time, by group. Sums never become negative: former names only lose weight, and
    /// have it until the end.
    fn count(&mut self, data: Data<'_>, changes: &Changes, list: &[SiteChange], side: AggregateRole) {
        let mut grouped: Vec<GroupedChange<'_>> = Vec::with_capacity(list.len());
        for change in list {
            let site = data.profile.sites.all()[change.site as usize];
            let group = self.grouping.of(data, change.lane, site);
            grouped.push(GroupedChange {
                former: changes.is_former(change),
                group,
                stack: data.stack(site.stack),
                change,
            });
        }
        grouped.sort_by_key(GroupedChange::class);
        let mut sums = std::mem::take(&mut self.sums);
        for part in grouped.chunk_by(|a, b| a.class() == b.class()) {
            self.count_group(data, changes, part, (&mut sums, side));
        }
        self.sums = sums;
    }

    /// Adds up changes of one group and of the same names. A row counts a stack once, even if its function recurs.
    fn count_group(
        &mut self,
        data: Data<'_>,
        changes: &Changes,
        list: &[GroupedChange<'_>],
        (sums, side): (&mut PathSums, AggregateRole),
    ) {
        let (profile, mode) = (data.profile, self.labels.mode);
        let Some(GroupedChange { group, change: first, .. }) = list.first() else { return };
        let label = |node: NodeId| {
            let sym = changes.sym(&profile.frames, profile.trie.frame(node).0, first);
            mode.label(data, SymId(sym))
        };
        sums.begin(&profile.trie);
        for GroupedChange { stack, change, .. } in list {
            if self.children && *stack != NodeId::ROOT {
                if sums.is_full() {
                    self.pass_on(sums, *group, side);
                    sums.begin(&profile.trie);
                }
                sums.add(&profile.trie, *stack, change, label);
                continue;
            }
            let label = match *stack {
                NodeId::ROOT if mode == LabelMode::None => 0,
                NodeId::ROOT => NO_FRAME,
                stack => label(stack),
            };
            let (at, mut own) = (self.place(*group, label), SumChange::default());
            own.note(change);
            self.add(at, own, own, side);
        }
        self.pass_on(sums, *group, side);
    }

    /// Applies what was added up for a group.
    fn pass_on(&mut self, sums: &mut PathSums, group: u32, side: AggregateRole) {
        sums.each(|label, own, children| {
            let at = self.place(group, label);
            self.add(at, own, children, side);
        });
    }

    /// Returns the index of a row; creates it without weight if it does not exist.
    fn place(&mut self, group: u32, label: u32) -> usize {
        if let Some((of, row)) = self.last.get(label as usize)
            && *of == group
            && *row != NO_ROW
        {
            return *row as usize;
        }
        let (rows, next) = (&self.rows, self.rows.len() as u32);
        let hash = |row: &TopRow| FxBuildHasher.hash_one(row.place());
        let row = TopRow { group, label, ..TopRow::default() };
        let same = |at: u32| rows[at as usize].place() == (group, label);
        let at = self.index.find_or(hash(&row), next, same, |at| hash(&rows[at as usize]));
        if at == next {
            self.rows.push(row);
        }
        if let Some(last) = self.last.get_mut(label as usize) {
            *last = (group, at);
        }
        at as usize
    }

    /// Changes the weights of a row, its own and those that include its callees.
    fn add(&mut self, at: usize, own: SumChange, children: SumChange, side: AggregateRole) {
        self.top_k.change(at as u32);
        let row = &mut self.rows[at];
        let had = !row.children.is_zero();
        let (all, of_leaf) = match side {
            AggregateRole::Shown => (&mut row.children, &mut row.own),
            AggregateRole::Partner => (&mut row.partner_children, &mut row.partner_own),
        };
        children.apply_to(all);
        own.apply_to(of_leaf);
        self.n_rows = self.n_rows + usize::from(!row.children.is_zero()) - usize::from(had);
    }

    /// Returns the requested rows in order. It has only the groups they need, and no sites.
    pub(crate) fn top(&mut self, data: Data<'_>, fold: &Aggregate, spec: &TopSpec, keep: RowLimit) -> Top {
        let (n, named) = (keep.first(), keep.named());
        let sym = |label| self.labels.symbol(data, label);
        let count = data.meaning(fold.selection.of.event).count;
        let by = RowOrder { spec, symbol: sym, groups: &self.grouping.groups, partner: self.partner, count };
        let mut some = self.top_k.sort(&self.rows, (n, named), &by);
        if let RowLimit::All { .. } = keep {
            let mut is_listed = vec![false; self.rows.len()];
            some.iter().for_each(|at| is_listed[*at as usize] = true);
            let rest = (0..self.rows.len() as u32).filter(|at| !is_listed[*at as usize]);
            some.extend(rest.filter(|at| !self.rows[*at as usize].children.is_zero()));
        } else {
            some.truncate(n);
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
