//! The cgroups of a target, which decide whose sleep counts.

use std::path::PathBuf;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::cgroup;
use crate::kernel::walk::waits::WaitSum;

use super::MOST_MEMBERS;

/// The cgroups of the target, and whether each cgroup that occurred is one of them or below one.
#[derive(Debug, Default)]
pub(super) struct TargetGroupIds {
    dirs: Vec<PathBuf>,
    known: FxHashMap<u64, bool>,
}

impl TargetGroupIds {
    /// Removes the sums of other cgroups. Directories are read when a new cgroup occurs, or the target's cgroups change.
    pub(super) fn retain(&mut self, dirs: Vec<PathBuf>, sums: &mut Vec<WaitSum>) {
        if self.dirs != dirs || self.known.len() > MOST_MEMBERS {
            *self = Self { dirs, known: FxHashMap::default() };
        }
        if sums.iter().any(|sum| !self.known.contains_key(&sum.cgroup)) {
            let ids: FxHashSet<u64> = self.dirs.iter().flat_map(|dir| cgroup::ids(dir)).collect();
            for sum in sums.iter() {
                self.known.entry(sum.cgroup).or_insert_with(|| ids.contains(&sum.cgroup));
            }
        }
        sums.retain(|sum| self.known.get(&sum.cgroup).copied().unwrap_or(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_other_cgroups_are_removed() {
        let tree = tempfile::tempdir().expect("a folder");
        let make = |name: &str| {
            std::fs::create_dir(tree.path().join(name)).expect("made");
            cgroup::ids(&tree.path().join(name))[0]
        };
        let [cart, inner, shop] = ["cart", "cart/app", "shop"].map(make);
        let mut groups = TargetGroupIds::default();
        let mut retained = |names: &[&str], ids: &[u64]| {
            let mut sums: Vec<WaitSum> = ids.iter().map(|id| WaitSum { cgroup: *id, ..WaitSum::default() }).collect();
            groups.retain(names.iter().map(|name| tree.path().join(name)).collect(), &mut sums);
            sums.iter().map(|sum| sum.cgroup).collect::<Vec<_>>()
        };
        assert_eq!(retained(&["cart"], &[shop, cart, 1, inner]), [cart, inner]);
        let late = make("cart/late");
        assert_eq!(retained(&["cart"], &[late, shop]), [late], "a group that is new");
        assert_eq!(retained(&["shop"], &[late, shop]), [shop], "another container runs now");
        assert_eq!(retained(&[], &[late, shop]), Vec::<u64>::new());
    }
}
