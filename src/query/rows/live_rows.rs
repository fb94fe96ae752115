//! Incrementally updated rows.
//! The rows of a new sample are found once, and only shown rows are sorted. The cost depends on new samples only.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::profile::{HashIndex, NodeId, Segments, SymId};

use super::ipc::Partner;
use super::row::RowOrder;
use super::top::{Grouping, LabelMode, RowLimit, Top, TopRow, first_syms, identity, n_labels, symbol};
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

/// All rows of an aggregate, unordered.
#[derive(Debug, Default)]
pub(crate) struct LiveRows {
    grouping: Grouping,
    mode: LabelMode,
    children: bool,
    /// The partner event whose weights rows have.
    partner: Option<Partner>,
    rows: Segments<TopRow>,
    /// The row of each group and label.
    index: HashIndex,
    /// The first symbol of each DSO, if DSOs are the labels. `n_syms` is the number of symbols already processed.
    sym_of_label: Vec<u32>,
    n_syms: usize,
    /// For each label, the last walk that found it.
    met: Vec<u32>,
    walks: u32,
    /// The number of rows with weight.
    n_rows: usize,
    foremost: FirstRows,
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
        let mut tally = Self::empty(fold, spec);
        let top = Top::unsorted(data, fold, spec, &mut tally.grouping);
        let n_labels = top.n_labels;
        let label = |row: &TopRow| if row.label as usize >= n_labels { NO_FRAME } else { row.label };
        for row in &top.rows {
            let at = tally.place(row.group, label(row));
            tally.rows[at] = TopRow { label: label(row), ..*row };
        }
        tally.n_rows = top.rows.iter().filter(|row| !row.children.is_zero()).count();
        if let Some((partner, fold)) = partner {
            tally.partner = Some(partner);
            for row in Top::unsorted(data, fold, spec, &mut tally.grouping).rows {
                let at = tally.place(row.group, label(&row));
                (tally.rows[at].partner_own, tally.rows[at].partner_children) = (row.own, row.children);
            }
        }
        tally.meet_syms(data);
        tally
    }

    fn empty(fold: &Aggregate, spec: &TopSpec) -> Self {
        let (grouping, mode) = (Grouping::new(&spec.keys, fold), LabelMode::of(&spec.keys));
        Self { grouping, mode, children: spec.children, ..Self::default() }
    }

    /// Builds the rows without additional memory.
    pub(crate) fn walked(
        data: Data<'_>,
        fold: &Aggregate,
        partner: Option<(Partner, &Aggregate)>,
        spec: &TopSpec,
    ) -> Self {
        let mut tally = Self::empty(fold, spec);
        tally.meet_syms(data);
        tally.partner = partner.map(|(partner, _)| partner);
        let sides = [(AggregateRole::Shown, Some(fold)), (AggregateRole::Partner, partner.map(|(_, fold)| fold))];
        for (side, fold) in sides {
            for (lane, site, acc) in fold.map_or(Vec::new(), Aggregate::sites) {
                tally.count(data, &Changes::none(), &SiteChange { lane, site, acc, out: false, before: false }, side);
            }
        }
        tally
    }

    pub(crate) fn serves(&self, spec: &TopSpec, partner: Option<Partner>) -> bool {
        self.grouping.keys() == spec.keys && self.children == spec.children && self.partner == partner
    }

    /// Returns the number of a group in a [`Top`] made from it.
    pub(crate) fn group_of(&mut self, data: Data<'_>, lane: Lane, site: u32) -> u32 {
        self.grouping.of(data, lane, data.profile.sites.all()[site as usize])
    }

    pub(crate) fn apply(&mut self, data: Data<'_>, changes: &Changes, side: AggregateRole) {
        self.meet_syms(data);
        for change in changes.changes() {
            self.count(data, changes, &change, side);
        }
    }

    fn meet_syms(&mut self, data: Data<'_>) {
        first_syms(data, self.mode, self.n_syms, &mut self.sym_of_label);
        self.n_syms = data.profile.frames.n_syms();
        self.met.resize(n_labels(data, self.mode), 0);
    }

    /// Walks a stack from leaf to root. A row counts it once, even if its function recurs.
    fn count(&mut self, data: Data<'_>, changes: &Changes, change: &SiteChange, side: AggregateRole) {
        let profile = data.profile;
        let site = profile.sites.all()[change.site as usize];
        let group = self.grouping.of(data, change.lane, site);
        let stack = data.stack(site.stack);
        if stack == NodeId::ROOT {
            let label = if self.mode == LabelMode::None { 0 } else { NO_FRAME };
            return self.add((group, label), change, true, side);
        }
        if self.walks == u32::MAX {
            (self.walks, self.met) = (0, vec![0; self.met.len()]);
        }
        self.walks += 1;
        let mut node = stack;
        while node != NodeId::ROOT {
            let sym = changes.sym(&profile.frames, profile.trie.frame(node).0, change);
            let label = self.mode.label(data, SymId(sym));
            let first = std::mem::replace(&mut self.met[label as usize], self.walks) != self.walks;
            let leaf = node == stack;
            if first {
                self.add((group, label), change, leaf, side);
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
        at as usize
    }

    /// Adds to one row, including its own weight if it is the leaf.
    fn add(&mut self, (group, label): (u32, u32), change: &SiteChange, own: bool, side: AggregateRole) {
        let at = self.place(group, label);
        self.foremost.change(at as u32);
        let row = &mut self.rows[at];
        let had = !row.children.is_zero();
        let (all, of_leaf) = match side {
            AggregateRole::Shown => (&mut row.children, &mut row.own),
            AggregateRole::Partner => (&mut row.partner_children, &mut row.partner_own),
        };
        for acc in std::iter::once(all).chain(own.then_some(of_leaf)) {
            match change.out {
                true => *acc -= change.acc,
                false => *acc += change.acc,
            }
        }
        self.n_rows = self.n_rows + usize::from(!row.children.is_zero()) - usize::from(had);
    }

    /// Returns the requested rows in order. It has only the groups they need, and no sites.
    pub(crate) fn top(&mut self, data: Data<'_>, fold: &Aggregate, spec: &TopSpec, keep: RowLimit) -> Top {
        let n_labels = n_labels(data, self.mode);
        let (RowLimit::First(n) | RowLimit::All { sorted: n }) = keep;
        let sym = |label| symbol(data, self.mode, n_labels, &self.sym_of_label, label);
        let by = RowOrder { spec, symbol: sym, groups: self.grouping.groups(), partner: self.partner };
        self.foremost.settle(&self.rows, n, &by);
        let first = self.foremost.rows();
        let mut some = first[..n.min(first.len())].to_vec();
        if let RowLimit::All { .. } = keep {
            some.extend(&first[some.len()..]);
            let rest = (0..self.rows.len() as u32).filter(|at| !self.foremost.has(*at));
            some.extend(rest.filter(|at| !self.rows[*at as usize].children.is_zero()));
        }
        let mut top = Top {
            rows: Vec::with_capacity(some.len()),
            n_rows: self.n_rows,
            mode: self.mode,
            total: fold.total(),
            partner: self.partner,
            n_labels,
            sym_of_label: self.sym_of_label.clone(),
            ..Top::default()
        };
        let mut place: FxHashMap<u32, u32> = FxHashMap::default();
        for at in some {
            let row = &mut self.rows[at as usize];
            let group = &self.grouping.groups()[row.group as usize];
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

    pub(crate) fn mode(&self) -> LabelMode {
        self.mode
    }
}
