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

/// A row's index, and the two numbers that it is sorted by; meaningless for orders without such numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankedRow {
    rank: [u64; 2],
    at: u32,
}

/// The first rows, by index, updated with the rows that changed. Rows of equal weights are in order of their indices:
/// most of thousands of rows are never seen, and comparing their names takes most of the time.
/// More rows are kept than requested, so that a few demoted rows do not require a pass over all rows.
#[derive(Debug, Default)]
pub(super) struct FirstRows {
    by: Option<(Order, bool)>,
    rows: Vec<RankedRow>,
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
        let row = |at: u32| &all[at as usize];
        let has_ranks = has_ranks(by);
        let ranked = |at: u32| RankedRow { rank: by.rank(row(at)).unwrap_or_default(), at };
        let compare =
            |a: &RankedRow, b: &RankedRow| if has_ranks { a.cmp(b) } else { by.compare(row(a.at), row(b.at)) };
        self.marks.resize(all.len(), RowMark::default());
        let mut changed = std::mem::take(&mut self.changed);
        let asked = Some((by.spec.order, by.spec.reversed));
        if self.by == asked {
            // Rows that did not change keep their rank: most of them are not read at all.
            let (marks, bound) = (&mut self.marks, &self.bound);
            self.rows.retain(|row| !marks[row.at as usize].changed);
            let fresh = changed.iter().filter_map(|at| {
                let row = row(*at);
                let is_first =
                    bound.as_ref().is_none_or(|(bound, last)| by_weight(by, (row, *at), (bound, *last)).is_le());
                let first = is_first && !row.children.is_zero();
                marks[*at as usize] = RowMark { changed: false, first };
                first.then(|| ranked(*at))
            });
            let mut fresh: Vec<RankedRow> = fresh.collect();
            fresh.sort_unstable_by(compare);
            self.rows = merged(&self.rows, &fresh, compare);
        } else {
            changed.iter().for_each(|at| self.marks[*at as usize].changed = false);
        }
        if self.by != asked || (self.bound.is_some() && self.rows.len() < n) {
            self.by = asked;
            self.bound = None;
            self.rows = (0..all.len() as u32).filter(|at| !row(*at).children.is_zero()).map(ranked).collect();
            self.cut(all, n, |rows, last| {
                rows.select_nth_unstable_by(last, compare);
            });
            self.rows.sort_unstable_by(compare);
            self.marks.iter_mut().for_each(|mark| mark.first = false);
            self.rows.iter().for_each(|row| self.marks[row.at as usize].first = true);
        } else if self.rows.len() / 3 >= n {
            self.cut(all, n, |_, _| ());
        }
        changed.clear();
        self.changed = changed;
        self.named(all, named, by)
    }

    /// Returns the rows, with those of equal weights sorted by name among the first `named`.
    fn named<'a>(
        &self,
        all: &Segments<TopRow>,
        named: usize,
        by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>,
    ) -> Vec<u32> {
        let mut rows: Vec<u32> = self.rows.iter().map(|row| row.at).collect();
        if !has_ranks(by) {
            // They are sorted by names already.
            return rows;
        }
        let by_name = |a: &u32, b: &u32| by.by_name(&all[*a as usize], &all[*b as usize]);
        let mut from = 0;
        while from < named.min(self.rows.len()) {
            let own = self.rows[from].rank;
            let count = self.rows[from..].iter().take_while(|row| row.rank == own).count();
            let is_last = from + count == rows.len();
            if is_last && self.bound.is_some_and(|(bound, _)| by.rank(&bound) == Some(own)) {
                // Others of the same weights may have names that come first.
                let is_same = |at: &u32| !self.has(*at) && by.rank(&all[*at as usize]) == Some(own);
                let others = (0..all.len() as u32).filter(is_same);
                rows.extend(others.filter(|at| !all[*at as usize].children.is_zero()));
                sort_first(&mut rows[from..], named - from, by_name);
                return rows;
            }
            sort_first(&mut rows[from..from + count], named - from, by_name);
            from += count;
        }
        rows
    }

    /// Keeps twice as many rows as requested. `part` partitions them around the last one.
    fn cut(&mut self, all: &Segments<TopRow>, n: usize, part: impl Fn(&mut [RankedRow], usize)) {
        let kept = n.saturating_mul(2).max(1);
        if self.rows.len() <= kept {
            return;
        }
        part(&mut self.rows, kept - 1);
        let last = self.rows[kept - 1].at;
        self.bound = Some((all[last as usize], last));
        self.rows.drain(kept..).for_each(|row| self.marks[row.at as usize].first = false);
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

/// Returns whether rows are sorted by numbers before names.
fn has_ranks<'a>(by: &RowOrder<'a, impl Fn(u32) -> Option<&'a Sym>>) -> bool {
    by.rank(&TopRow::default()).is_some()
}

/// Sorts the first `n` rows that sorting all of them would yield: most rows have the same few weights, and comparing
/// names takes long.
fn sort_first(rows: &mut [u32], n: usize, compare: impl Fn(&u32, &u32) -> Ordering) {
    let n = n.min(rows.len());
    if n < rows.len() {
        rows.select_nth_unstable_by(n, &compare);
    }
    rows[..n].sort_unstable_by(&compare);
}

/// Merges two sorted runs: one by one, or by searching the place of each of a few rows.
fn merged(
    long: &[RankedRow],
    short: &[RankedRow],
    compare: impl Fn(&RankedRow, &RankedRow) -> Ordering,
) -> Vec<RankedRow> {
    let mut rest = long;
    let mut both = Vec::with_capacity(long.len() + short.len());
    let steps = long.len().checked_ilog2().unwrap_or(0) as usize;
    let is_short = short.len() * steps < long.len();
    for row in short {
        let is_before = |other: &RankedRow| compare(other, row).is_lt();
        let place = match is_short {
            true => rest.partition_point(is_before),
            false => rest.iter().take_while(|other| is_before(other)).count(),
        };
        let (before, after) = rest.split_at(place);
        both.extend_from_slice(before);
        both.push(*row);
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
    use crate::perfdata::SampleCount;
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
                let by = RowOrder { spec: &spec, symbol: |_| None, groups: &groups, partner: None, count: SampleCount::One };
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
                let mut kept: Vec<u32> = top_k.rows.iter().map(|row| row.at).collect();
                kept.sort_unstable();
                prop_assert_eq!(known, kept);
                let distinct: std::collections::BTreeSet<u32> = first.iter().copied().collect();
                prop_assert_eq!(distinct.len(), first.len());
            }
        }
    }
}
