//! Adds up sites to rows, group by group. Own weight counts at the leaf, children at the first occurrence of a function
//! on each path. Groups are independent, so large profiles use several threads.

use std::ops::Range;

use crate::profile::{Acc, SharedSegments};

use super::row::TopRow;
use crate::query::parallel::shared;

/// The minimum number of sites per thread.
const EACH: usize = 12_500;
/// The number of runs of groups that threads share.
const RUNS: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct SiteGroups<'a> {
    pub parents: &'a SharedSegments<u32>,
    pub sites: &'a [(u32, Acc)],
    /// The range of sites of each group.
    pub ranges: &'a [Range<usize>],
    /// The label of each node; the root's may be one past all others.
    pub labels: &'a [u32],
    pub n_labels: usize,
    /// For each node, whether no ancestor has the same label.
    pub first: &'a [bool],
    pub children: bool,
}

pub(super) fn all(groups: SiteGroups<'_>) -> Vec<TopRow> {
    let work = |runs: &[Range<usize>]| {
        let (first, last) = (runs.first().map_or(0, |run| run.start), runs.last().map_or(0, |run| run.end));
        of_groups(groups, first..last)
    };
    shared(&balance(groups.ranges, RUNS), groups.sites.len(), EACH, work).into_iter().flatten().collect()
}

/// Divides the groups into runs with about equal numbers of sites.
fn balance(ranges: &[Range<usize>], parts: usize) -> Vec<Range<usize>> {
    let total: usize = ranges.iter().map(Range::len).sum();
    let share = total.div_ceil(parts).max(1);
    let mut cuts = Vec::new();
    let (mut from, mut sum) = (0, 0);
    for (i, range) in ranges.iter().enumerate() {
        sum += range.len();
        if sum >= share {
            cuts.push(from..i + 1);
            (from, sum) = (i + 1, 0);
        }
    }
    if from < ranges.len() {
        cuts.push(from..ranges.len());
    }
    cuts
}

struct Scratch {
    /// Inclusive weights by node; zero between groups.
    incl: Vec<Acc>,
    /// The last group that used a node.
    stamp: Vec<u32>,
    touched: Vec<u32>,
    /// For each label, (group, row) of its row in the current group.
    row_of_label: Vec<(u32, u32)>,
    rows: Vec<TopRow>,
}

impl Scratch {
    fn row(&mut self, group: u32, label: u32) -> &mut TopRow {
        let slot = &mut self.row_of_label[label as usize];
        if slot.0 != group {
            *slot = (group, self.rows.len() as u32);
            self.rows.push(TopRow { group, label, ..TopRow::default() });
        }
        &mut self.rows[slot.1 as usize]
    }

    /// Lists the nodes of a group's paths, children before their parents.
    fn touch(&mut self, sites: &[(u32, Acc)], parents: &SharedSegments<u32>, group: u32) {
        self.touched.clear();
        for (stack, _) in sites {
            let mut n = *stack;
            while n != 0 && self.stamp[n as usize] != group {
                self.stamp[n as usize] = group;
                self.touched.push(n);
                n = parents[n as usize];
            }
        }
        self.touched.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Adds a node's inclusive weight to its row and to its parent.
    /// Must be called from the largest ID down, because a parent's ID is less than its children's.
    fn pass_up(&mut self, groups: SiteGroups<'_>, group: u32, n: usize) {
        if self.incl[n].is_zero() {
            return;
        }
        let acc = std::mem::take(&mut self.incl[n]);
        if groups.first[n] {
            self.row(group, groups.labels[n]).children += acc;
        }
        self.incl[groups.parents[n] as usize] += acc;
    }
}

/// Groups with more sites than this part of all nodes are added up in one sweep over all nodes.
const DENSE: usize = 32;

fn of_groups(all: SiteGroups<'_>, groups: Range<usize>) -> Vec<TopRow> {
    let SiteGroups { parents, labels, children, .. } = all;
    let nodes = if children { parents.len() } else { 0 };
    let mut s = Scratch {
        incl: vec![Acc::default(); nodes],
        stamp: vec![u32::MAX; nodes],
        touched: Vec::new(),
        row_of_label: vec![(u32::MAX, 0); all.n_labels + 1],
        rows: Vec::new(),
    };
    for g in groups {
        let group = g as u32;
        s.touched.clear();
        let sites = &all.sites[all.ranges[g].clone()];
        for (stack, acc) in sites {
            let row = s.row(group, labels[*stack as usize]);
            row.own += *acc;
            match *stack {
                // Samples without frames do not have a node to count at.
                0 => row.children += *acc,
                stack if children => s.incl[stack as usize] += *acc,
                _ => {}
            }
        }
        if children && sites.len() > nodes / DENSE {
            (1..nodes).rev().for_each(|n| s.pass_up(all, group, n));
            s.incl[0] = Acc::default();
        } else if children {
            s.touch(sites, parents, group);
            for i in 0..s.touched.len() {
                s.pass_up(all, group, s.touched[i] as usize);
            }
            s.incl[0] = Acc::default();
        }
    }
    if !children {
        s.rows.iter_mut().for_each(|r| r.children = r.own);
    }
    s.rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;
    use crate::query::{ColumnKey, TopSpec};

    #[test]
    fn many_sites_are_shared_among_threads() {
        let mut staged = Staged::default();
        let (f, n) = (staged.stack(&["f"]), 4 * EACH as u64 + 10);
        let mut want = [(0, Acc::default()); 3];
        for i in 1..=n {
            let (frame, dso) = (staged.profile.frames.intern_named(u64::MAX - i), staged.dso("app"));
            staged.profile.frames.set_named(frame, &dso, "g".into());
            let stack = staged.profile.trie.child(f, frame);
            let site = staged.site_at(5 + i as i32 % 3, stack);
            staged.profile.push(1, site, i, 0, 0);
            want[i as usize % 3].1 += Acc::one(i);
        }
        want.iter_mut().zip([5, 6, 7]).for_each(|(want, pid)| want.0 = pid);
        for children in [true, false] {
            let top =
                staged.top(&TopSpec { keys: vec![ColumnKey::Pid, ColumnKey::Sym], children, ..TopSpec::default() });
            assert_eq!(top.sites.len(), n as usize);
            let pid = |row: &TopRow| top.groups[row.group as usize].id(ColumnKey::Pid).unwrap_or_default();
            let name = |row: &TopRow| top.symbol(staged.data(), row.label).map(|sym| sym.name().into_owned());
            let mut rows: Vec<_> = top.rows.iter().map(|row| (pid(row), name(row), row.own, row.children)).collect();
            rows.sort_by_key(|(pid, name, ..)| (*pid, name.clone()));
            let callers = |(pid, sum): (i32, Acc)| (pid, Some("f".to_owned()), Acc::default(), sum);
            let both =
                |w: (i32, Acc)| children.then(|| callers(w)).into_iter().chain([(w.0, Some("g".to_owned()), w.1, w.1)]);
            assert_eq!(rows, want.into_iter().flat_map(both).collect::<Vec<_>>());
        }
    }

    #[test]
    fn groups_are_shared_evenly_and_none_is_left_out() {
        let ranges = [0..10, 10..12, 12..40, 40..41, 41..50];
        let parts = balance(&ranges, 2);
        assert_eq!(parts, [0..3, 3..5]);
        assert!(balance(&[], 2).is_empty());
    }
}
