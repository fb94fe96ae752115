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

/// The first rows, by index, updated with the rows that changed. Rows of equal weights are in order of their indices:
/// most of thousands of rows are never seen, and comparing their names takes most of the time.
/// More rows are kept than requested, so that a few demoted rows do not require a pass over all rows.
#[derive(Debug, Default)]
pub(super) struct FirstRows {
    by: Option<(Order, bool)>,
    rows: Vec<u32>,
    /// All other rows are in order after this one; `None` if there are no others.
    bound: Option<(TopRow, u32)>,
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

    /// Puts at least the first `n` rows with weight in order. Returns these. Among the first `named`, rows of
    /// equal weights are sorted by name.
    pub(crate) fn sort<'a>(
        &mut self,
        all: &Segments<TopRow>,
        (n, named): (usize, usize),
        by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>,
    ) -> Vec<u32> {
        let row = |at: &u32| &all[*at as usize];
        let compare = |a: &u32, b: &u32| by_weight(by, (row(a), *a), (row(b), *b));
        self.marks.resize(all.len(), RowMark::default());
        let mut fresh = std::mem::take(&mut self.changed);
        let asked = Some((by.spec.order, by.spec.reversed));
        if self.by == asked {
            let (marks, bound) = (&mut self.marks, &self.bound);
            self.rows.retain(|at| !marks[*at as usize].changed);
            fresh.retain(|at| {
                let row = row(at);
                let is_first =
                    bound.as_ref().is_none_or(|(bound, last)| by_weight(by, (row, *at), (bound, *last)).is_le());
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
        self.named(all, named, by)
    }

    /// Returns the rows, with those of equal weights sorted by name among the first `named`.
    fn named<'a>(
        &self,
        all: &Segments<TopRow>,
        named: usize,
        by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>,
    ) -> Vec<u32> {
        let mut rows = self.rows.clone();
        let rank = |at: &u32| by.rank(&all[*at as usize]);
        let mut from = 0;
        while from < named.min(rows.len()) {
            // Without ranks, rows are sorted by names already.
            let Some(own) = rank(&rows[from]) else { return rows };
            let count = rows[from..].iter().take_while(|&at| rank(at) == Some(own)).count();
            let is_last = from + count == rows.len();
            if is_last && self.bound.is_some_and(|(bound, _)| by.rank(&bound) == Some(own)) {
                // Others of the same weights may have names that come first.
                let others = (0..all.len() as u32).filter(|at| !self.has(*at) && rank(at) == Some(own));
                rows.extend(others.filter(|at| !all[*at as usize].children.is_zero()));
                rows[from..].sort_unstable_by(|a, b| by.by_name(&all[*a as usize], &all[*b as usize]));
                return rows;
            }
            rows[from..from + count].sort_unstable_by(|a, b| by.by_name(&all[*a as usize], &all[*b as usize]));
            from += count;
        }
        rows
    }

    /// Keeps twice as many rows as requested. `part` partitions them around the last one.
    fn cut(&mut self, all: &Segments<TopRow>, n: usize, part: impl Fn(&mut [u32], usize)) {
        let kept = n.saturating_mul(2).max(1);
        if self.rows.len() <= kept {
            return;
        }
        part(&mut self.rows, kept - 1);
        let last = self.rows[kept - 1];
        self.bound = Some((all[last as usize], last));
        self.rows.drain(kept..).for_each(|at| self.marks[at as usize].first = false);
    }

    fn has(&self, at: u32) -> bool {
        self.marks[at as usize].first
    }
}

/// Compares rows by their weights, then by their indices; without weights to compare, by [`RowOrder::compare`].
fn by_weight<'a>(
    by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>,
    (a, at_a): (&TopRow, u32),
    (b, at_b): (&TopRow, u32),
) -> Ordering {
    match (by.rank(a), by.rank(b)) {
        (Some(first), Some(second)) => first.cmp(&second).then(at_a.cmp(&at_b)),
        _ => by.compare(a, b),
    }
}

/// Sorts rows by their weights, which are looked up once.
fn sort<'a>(rows: &mut [u32], all: &Segments<TopRow>, by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>) {
    let row = |at: u32| &all[at as usize];
    let ranked: Option<Vec<([u64; 2], u32)>> = rows.iter().map(|at| Some((by.rank(row(*at))?, *at))).collect();
    let Some(mut ranked) = ranked else {
        return rows.sort_unstable_by(|a, b| by.compare(row(*a), row(*b)));
    };
    ranked.sort_unstable();
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
            steps in prop::collection::vec(
                (prop::collection::vec((0usize..40, 0u64..5), 0..12), 0usize..9, 0usize..9, 0u8..9),
                1..30,
            ),
        ) {
            let groups: Vec<_> = (0..40).map(|i| Arc::new(RowGroup::staged(ColumnKey::Pid, i * 7 % 40))).collect();
            let mut rows: Segments<TopRow> = Segments::default();
            let mut top_k = FirstRows::default();
            for (changes, n, named, order) in steps {
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
                let named = named.min(n);
                let first = top_k.sort(&rows, (n, named), &by);
                let mut all: Vec<u32> =
                    (0..).zip(rows.iter()).filter(|(_, row)| row.own.period > 0).map(|(at, _)| at).collect();
                all.sort_by(|a, b| by.compare(&rows[*a as usize], &rows[*b as usize]));
                prop_assert!(first.len() >= n.min(all.len()));
                let named = named.min(all.len());
                prop_assert_eq!(&first[..named], &all[..named]);
                let weights = |list: &[u32]| list.iter().map(|at| rows[*at as usize].own.period).collect::<Vec<u64>>();
                prop_assert_eq!(weights(&first), weights(&all[..first.len()]), "the rest is in order of weights");
                let known: Vec<u32> = (0..rows.len() as u32).filter(|at| top_k.has(*at)).collect();
                let mut kept = top_k.rows.clone();
                kept.sort_unstable();
                prop_assert_eq!(known, kept);
                let distinct: std::collections::BTreeSet<u32> = first.iter().copied().collect();
                prop_assert_eq!(distinct.len(), first.len());
            }
        }
    }
}
