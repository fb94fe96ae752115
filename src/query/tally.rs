//! Rows that are kept up to date: of a new sample the rows that it counts for are found once, and only what is shown
//! is sorted. Costs what is new, however much is there.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, NodeId, SymId};

use super::Data;
use super::fold::Fold;
use super::news::{Change, News};
use super::question::{Order, TopSpec};
use super::top::{Grouping, Keep, LabelMode, Row, Top, UNRANKED, by_names, first_syms, identity, n_labels};

/// The label of samples without a frame.
const NO_FRAME: u32 = u32::MAX;
/// With more stacks than these their sites are walked one by one: adding up over all of them is sooner done, but takes
/// sixty bytes a stack, which is more than the stacks themselves have where memory is short.
const MANY: usize = 1 << 18;

/// All rows of a fold, in no order.
#[derive(Debug)]
pub struct Tally {
    grouping: Grouping,
    mode: LabelMode,
    children: bool,
    rows: Vec<Row>,
    /// The row of each group and label.
    index: FxHashMap<(u32, u32), u32>,
    /// The first symbol of each DSO, where those are the labels, of so many symbols.
    sym_of_label: Vec<u32>,
    n_syms: usize,
    /// For each label the last walk that met it.
    met: Vec<u32>,
    walks: u32,
    /// The rows that have a rank, in its order: all up to a number of them.
    ranked: Vec<u32>,
}

/// Rows without a rank, beside those that have one, that are worth ranking all of them.
const UNRANKED_SHARE: usize = 4;

impl Tally {
    /// Adds up all of a fold.
    pub fn build(data: Data<'_>, fold: &Fold, spec: &TopSpec) -> Self {
        if data.profile.trie.len() > MANY {
            return Self::walked(data, fold, spec);
        }
        let mut grouping = Grouping::new(&spec.keys);
        let top = Top::unsorted(data, fold, spec, &mut grouping);
        let label = |row: &Row| if row.label as usize >= top.n_labels { NO_FRAME } else { row.label };
        let rows: Vec<Row> = top.rows.iter().map(|row| Row { label: label(row), ..row.clone() }).collect();
        Self {
            grouping,
            mode: top.mode,
            children: spec.children,
            index: (0..).zip(&rows).map(|(at, row)| ((row.group, row.label), at)).collect(),
            sym_of_label: top.sym_of_label,
            n_syms: data.profile.frames.n_syms(),
            met: Vec::new(),
            walks: 0,
            ranked: Vec::new(),
            rows,
        }
    }

    /// The same in no more memory than the rows take.
    pub(super) fn walked(data: Data<'_>, fold: &Fold, spec: &TopSpec) -> Self {
        let mut tally = Self {
            grouping: Grouping::new(&spec.keys),
            mode: LabelMode::of(&spec.keys),
            children: spec.children,
            rows: Vec::new(),
            index: FxHashMap::default(),
            sym_of_label: Vec::new(),
            n_syms: 0,
            met: Vec::new(),
            walks: 0,
            ranked: Vec::new(),
        };
        tally.meet_syms(data);
        let news = News::none();
        for (cpu, site, acc) in fold.sites() {
            tally.count(data, &news, &Change { cpu, site, acc, out: false, before: false });
        }
        tally
    }

    /// Whether its rows are those that are asked for, in whatever order.
    pub fn serves(&self, spec: &TopSpec) -> bool {
        self.grouping.keys() == spec.keys && self.children == spec.children
    }

    /// The number of a group of a [`Top`] that was made from it.
    pub fn group_of(&mut self, data: Data<'_>, cpu: u16, site: u32) -> u32 {
        self.grouping.of(data, cpu, data.profile.sites.all()[site as usize])
    }

    /// Follows what changed.
    pub fn follow(&mut self, data: Data<'_>, news: &News) {
        self.meet_syms(data);
        for change in news.changes() {
            self.count(data, news, &change);
        }
    }

    fn meet_syms(&mut self, data: Data<'_>) {
        first_syms(data, self.mode, self.n_syms, &mut self.sym_of_label);
        self.n_syms = data.profile.frames.n_syms();
        self.met.resize(n_labels(data, self.mode), 0);
    }

    /// Walks a stack from its leaf to its root: a row counts it once, however often recursion repeats the function.
    fn count(&mut self, data: Data<'_>, news: &News, change: &Change) {
        let profile = data.profile;
        let site = profile.sites.all()[change.site as usize];
        let group = self.grouping.of(data, change.cpu, site);
        if site.stack == NodeId::ROOT {
            let label = if self.mode == LabelMode::None { 0 } else { NO_FRAME };
            return add(self.row(group, label), change, true, true);
        }
        if self.walks == u32::MAX {
            (self.walks, self.met) = (0, vec![0; self.met.len()]);
        }
        self.walks += 1;
        let mut node = site.stack;
        while node != NodeId::ROOT {
            let sym = news.sym(&profile.frames, profile.trie.frame(node).0, change);
            let label = self.mode.label(data, SymId(sym));
            let first = std::mem::replace(&mut self.met[label as usize], self.walks) != self.walks;
            let leaf = node == site.stack;
            if first {
                add(self.row(group, label), change, leaf, true);
            }
            if !self.children {
                return;
            }
            node = profile.trie.parent(node);
        }
    }

    fn row(&mut self, group: u32, label: u32) -> &mut Row {
        let next = self.rows.len() as u32;
        let at = *self.index.entry((group, label)).or_insert(next);
        if at == next {
            self.rows.push(Row { id: 0, group, label, own: Acc::default(), children: Acc::default(), rank: UNRANKED });
        }
        &mut self.rows[at as usize]
    }

    /// The rows that are asked for, in order. Their groups are those that they need, and there are no sites.
    pub fn top(&mut self, data: Data<'_>, fold: &Fold, spec: &TopSpec, keep: Keep) -> Top {
        let mut top = Top {
            rows: Vec::new(),
            n_rows: 0,
            groups: Vec::new(),
            mode: self.mode,
            total: fold.total(),
            n_labels: n_labels(data, self.mode),
            sym_of_label: self.sym_of_label.clone(),
            tallied: Vec::new(),
            sites: Vec::new(),
            ranges: Vec::new(),
            path_bits: Vec::new(),
            first: Vec::new(),
        };
        self.rank(data, &top);
        let some: Vec<u32> =
            (0..).zip(&self.rows).filter(|(_, row)| !row.children.is_zero()).map(|(at, _)| at).collect();
        let n_rows = some.len();
        let mut place: FxHashMap<u32, u32> = FxHashMap::default();
        for at in self.foremost(some, spec, keep) {
            let row = &mut self.rows[at as usize];
            let group = &self.grouping.groups()[row.group as usize];
            if row.id == 0 {
                row.id = identity(group, top.symbol(data, row.label));
            }
            let place = *place.entry(row.group).or_insert_with(|| {
                top.groups.push(group.clone());
                top.tallied.push(row.group);
                top.groups.len() as u32 - 1
            });
            top.rows.push(Row { group: place, ..row.clone() });
        }
        top.sort(data, spec, keep);
        top.n_rows = n_rows;
        top
    }

    /// Ranks rows by their names now and then, so that the many with the same weight are seldom compared by them.
    fn rank(&mut self, data: Data<'_>, top: &Top) {
        let ranked = self.ranked.len();
        if (self.rows.len() - ranked) * UNRANKED_SHARE <= ranked {
            return;
        }
        let groups = self.grouping.groups();
        let of = |at: &u32| {
            let row = &self.rows[*at as usize];
            (&*groups[row.group as usize], top.symbol(data, row.label))
        };
        // Two runs that are in order, which a stable sort finds and merges.
        let mut order = std::mem::take(&mut self.ranked);
        order.extend(ranked as u32..self.rows.len() as u32);
        order[ranked..].sort_unstable_by(|a, b| by_names(of(a), of(b)));
        order.sort_by(|a, b| by_names(of(a), of(b)));
        (0..).zip(&order).for_each(|(rank, at)| self.rows[*at as usize].rank = rank);
        self.ranked = order;
    }

    /// Of very many rows those that may be among the first.
    fn foremost(&self, some: Vec<u32>, spec: &TopSpec, keep: Keep) -> Vec<u32> {
        let weight = |at: &u32| {
            let row = &self.rows[*at as usize];
            match spec.order {
                Order::Children => row.children.period,
                Order::Samples => row.own.samples,
                _ => row.own.period,
            }
        };
        let by_name = matches!(spec.order, Order::By(_));
        let Keep::First(n) = keep else { return some };
        if by_name || spec.reversed || n == 0 || some.len() <= n {
            return some;
        }
        let mut weights: Vec<u64> = some.iter().map(weight).collect();
        let (_, least, _) = weights.select_nth_unstable_by(n - 1, |a, b| b.cmp(a));
        let least = *least;
        some.into_iter().filter(|at| weight(at) >= least).collect()
    }

    pub(super) fn mode(&self) -> LabelMode {
        self.mode
    }
}

fn add(row: &mut Row, change: &Change, own: bool, children: bool) {
    for (acc, counts) in [(&mut row.own, own), (&mut row.children, children)] {
        if counts && change.out {
            *acc -= change.acc;
        } else if counts {
            *acc += change.acc;
        }
    }
}
