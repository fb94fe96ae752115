//! The first of very many rows, kept sorted while their weights change.

use std::cmp::Ordering;

use crate::profile::{Segments, Sym};

use super::row::{RowOrder, TopRow};
use crate::query::question::Order;

#[derive(Clone, Copy, Debug, Default)]
struct RowMark {
    /// Whether it changed since the last sort.
    changed: bool,
    first: bool,
}

/// The sorted first rows, by index, updated with the rows that changed.
/// More rows are kept than requested, so that a few demoted rows do not require a pass over all rows.
#[derive(Debug, Default)]
pub(super) struct FirstRows {
    by: Option<(Order, bool)>,
    rows: Vec<u32>,
    /// All other rows sort after this one; `None` if there are no others.
    bound: Option<TopRow>,
    changed: Vec<u32>,
    marks: Vec<RowMark>,
}

impl FirstRows {
    pub(crate) fn change(&mut self, at: u32) {
        if self.marks.len() <= at as usize {
            self.marks.resize(at as usize + 1, RowMark::default());
        }
        if !std::mem::replace(&mut self.marks[at as usize].changed, true) {
            self.changed.push(at);
        }
    }

    /// Sorts at least the first `n` rows with weight.
    pub(crate) fn sort<'a>(
        &mut self,
        all: &Segments<TopRow>,
        n: usize,
        by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>,
    ) {
        let row = |at: &u32| &all[*at as usize];
        let compare = |a: &u32, b: &u32| by.compare(row(a), row(b));
        self.marks.resize(all.len(), RowMark::default());
        let mut fresh = std::mem::take(&mut self.changed);
        let asked = Some((by.spec.order, by.spec.reversed));
        if self.by == asked {
            let (marks, bound) = (&mut self.marks, &self.bound);
            self.rows.retain(|at| !marks[*at as usize].changed);
            fresh.retain(|at| {
                let row = row(at);
                let is_first = bound.as_ref().is_none_or(|bound| by.compare(row, bound).is_le());
                let first = is_first && !row.children.is_zero();
                marks[*at as usize] = RowMark { changed: false, first };
                first
            });
            sort(&mut fresh, all, by);
            self.rows = merged(&self.rows, &fresh, compare);
        } else {
            fresh.iter().for_each(|at| self.marks[*at as usize].changed = false);
        }
        if self.by != asked || (self.bound.is_some() && self.rows.len() < n) {
            self.by = asked;
            self.bound = None;
            self.rows = (0..all.len() as u32).filter(|at| !row(at).children.is_zero()).collect();
            self.cut(all, n, |rows, last| {
                rows.select_nth_unstable_by(last, compare);
            });
            sort(&mut self.rows, all, by);
            self.marks.iter_mut().for_each(|mark| mark.first = false);
            self.rows.iter().for_each(|at| self.marks[*at as usize].first = true);
        } else if self.rows.len() / 3 >= n {
            self.cut(all, n, |_, _| ());
        }
        fresh.clear();
        self.changed = fresh;
    }

    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Keeps twice as many rows as requested. `part` partitions them around the last one.
    fn cut(&mut self, all: &Segments<TopRow>, n: usize, part: impl Fn(&mut [u32], usize)) {
        let kept = n.saturating_mul(2).max(1);
        if self.rows.len() <= kept {
            return;
        }
        part(&mut self.rows, kept - 1);
        self.bound = Some(all[self.rows[kept - 1] as usize]);
        self.rows.drain(kept..).for_each(|at| self.marks[at as usize].first = false);
    }

    pub(crate) fn has(&self, at: u32) -> bool {
        self.marks[at as usize].first
    }
}

/// Sorts rows. Their weights are looked up once, and their names only if weights are equal.
fn sort<'a>(rows: &mut [u32], all: &Segments<TopRow>, by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>) {
    let row = |at: u32| &all[at as usize];
    let ranked: Option<Vec<([u64; 2], u32)>> = rows.iter().map(|at| Some((by.rank(row(*at))?, *at))).collect();
    let Some(mut ranked) = ranked else {
        return rows.sort_unstable_by(|a, b| by.compare(row(*a), row(*b)));
    };
    ranked.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| by.by_name(row(a.1), row(b.1))));
    rows.iter_mut().zip(ranked).for_each(|(to, (_, at))| *to = at);
}

/// Merges two sorted runs: one by one, or by searching the place of each of a few rows.
fn merged(long: &[u32], short: &[u32], compare: impl Fn(&u32, &u32) -> Ordering) -> Vec<u32> {
    let mut rest = long;
    let mut both = Vec::with_capacity(long.len() + short.len());
    let steps = long.len().checked_ilog2().unwrap_or(0) as usize;
    let is_short = short.len() * steps < long.len();
    for at in short {
        let is_before = |other: &u32| compare(other, at).is_lt();
        let place = match is_short {
            true => rest.partition_point(is_before),
            false => rest.iter().take_while(|other| is_before(other)).count(),
        };
        let (before, after) = rest.split_at(place);
        both.extend_from_slice(before);
        both.push(*at);
        rest = after;
    }
    both.extend_from_slice(rest);
    both
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::profile::Acc;
    use crate::query::question::{ColumnKey, TopSpec};
    use crate::query::rows::row::RowGroup;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn the_first_are_those_of_sorting_all(
            steps in prop::collection::vec((prop::collection::vec((0usize..40, 0u64..5), 0..12), 0usize..9, 0u8..9), 1..30),
        ) {
            let groups: Vec<_> = (0..40).map(|i| Arc::new(RowGroup::staged(ColumnKey::Pid, i * 7 % 40))).collect();
            let mut rows: Segments<TopRow> = Segments::default();
            let mut top_k = FirstRows::default();
            for (changes, n, order) in steps {
                for (at, weight) in changes {
                    let at = at.min(rows.len());
                    if at == rows.len() {
                        rows.push(TopRow { group: at as u32, ..TopRow::default() });
                    }
                    let acc = Acc { period: weight, samples: weight };
                    (rows[at].own, rows[at].children) = (acc, acc);
                    top_k.change(at as u32);
                }
                // The order seldom changes.
                let order = if order == 0 { Order::By(ColumnKey::Pid) } else { Order::SelfTime };
                let spec = TopSpec { order, ..TopSpec::default() };
                let by = RowOrder { spec: &spec, symbol: |_| None, groups: &groups, partner: None };
                top_k.sort(&rows, n, &by);
                let mut all: Vec<u32> = (0..).zip(rows.iter()).filter(|(_, row)| row.own.period > 0).map(|(at, _)| at).collect();
                all.sort_by(|a, b| by.compare(&rows[*a as usize], &rows[*b as usize]));
                let some = n.min(all.len());
                prop_assert!(top_k.rows().len() >= some);
                prop_assert_eq!(top_k.rows(), &all[..top_k.rows().len()]);
                let known: Vec<u32> = (0..rows.len() as u32).filter(|at| top_k.has(*at)).collect();
                let mut first = top_k.rows().to_vec();
                first.sort_unstable();
                prop_assert_eq!(known, first);
            }
        }
    }
}
