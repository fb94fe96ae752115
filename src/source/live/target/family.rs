//! The processes of a target with their descendants.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::procfs::{self, ProcessStat};

/// Processes by number, with their start times. A process stays in the family when its parent exits and another process
/// adopts it. The start time shows whether its number was reused by a process outside the family.
#[derive(Debug, Default)]
pub(crate) struct Family {
    members: BTreeMap<i32, u64>,
}

impl Family {
    /// Returns the current family of some processes, in order of pid. Excludes this program, which may be a child of a
    /// target's shell. Without /proc only the named ones are known.
    pub(crate) fn look(&mut self, named: &[i32]) -> Vec<i32> {
        if !procfs::is_mounted() {
            return named.to_vec();
        }
        let all = procfs::processes_as_listed().filter_map(|pid| Some((pid, procfs::stat(pid)?)));
        self.found(named, std::process::id() as i32, all.collect())
    }

    fn found(&mut self, named: &[i32], own: i32, mut all: BTreeMap<i32, ProcessStat>) -> Vec<i32> {
        if !named.contains(&own) {
            all.remove(&own);
        }
        let is_known = |pid: &i32, stat: &ProcessStat| self.members.get(pid) == Some(&stat.start);
        let roots = all.iter().filter(|(pid, stat)| named.contains(pid) || is_known(pid, stat)).map(|(pid, _)| *pid);
        let mut members: BTreeSet<i32> = roots.collect();
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        all.iter().for_each(|(pid, stat)| children.entry(stat.parent).or_default().push(*pid));
        let mut due: Vec<i32> = members.iter().copied().collect();
        while let Some(pid) = due.pop() {
            let fresh = children.get(&pid).into_iter().flatten().filter(|child| members.insert(**child));
            due.extend(fresh);
        }
        self.members = members.iter().filter_map(|pid| Some((*pid, all.get(pid)?.start))).collect();
        members.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(list: &[(i32, i32, u64)]) -> BTreeMap<i32, ProcessStat> {
        list.iter()
            .map(|(pid, parent, start)| (*pid, ProcessStat { state: b'S', parent: *parent, start: *start }))
            .collect()
    }

    #[test]
    fn a_family_is_those_that_descend_but_for_this_program() {
        let all = [(1, 0, 0), (10, 1, 5), (11, 10, 6), (12, 11, 7), (20, 1, 5), (9, 12, 8), (30, 11, 9), (31, 30, 9)];
        let mut family = Family::default();
        assert_eq!(family.found(&[10], 30, tree(&all)), [9, 10, 11, 12]);
        assert_eq!(Family::default().found(&[10, 20, 30], 30, tree(&all)), [9, 10, 11, 12, 20, 30, 31]);
        assert_eq!(Family::default().found(&[99], 30, tree(&all)), [] as [i32; 0]);
        // Two processes that are each other's parent do not cause an endless loop.
        assert_eq!(Family::default().found(&[1], 9, tree(&[(1, 2, 0), (2, 1, 0)])), [1, 2]);
    }

    #[test]
    fn an_orphan_stays_and_whoever_gets_its_number_does_not() {
        let mut family = Family::default();
        family.found(&[10], 0, tree(&[(10, 1, 5), (11, 10, 6), (12, 11, 7)]));
        // 10 and 11 have ended; 12 has a child.
        assert_eq!(family.found(&[10], 0, tree(&[(12, 1, 7), (13, 12, 8)])), [12, 13]);
        assert_eq!(family.found(&[10], 0, tree(&[(12, 1, 99), (13, 1, 8)])), [13]);
    }
}
