//! Cgroups with a quota of CPU time, which are searched periodically, and how much each was throttled.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::cgroup;
use crate::kernel::host::ProcFile;
use crate::panel::row_order::arrange;
use crate::session::containers::places;
use crate::session::machine::quota::{QuotaUse, ThrottledGroup, is_limit};
use crate::source::containers::Reader;

const MAX: usize = 2000;
/// The file with the limit of a group, in cgroup versions 2 and 1.
const LIMITS: [&str; 2] = ["cpu.max", "cpu.cfs_quota_us"];

/// The cgroups whose throttling is watched.
pub struct Quotas {
    trees: Vec<PathBuf>,
    reader: Reader,
    groups: HashMap<String, Group>,
    /// The processes of the session's target.
    target: Vec<i32>,
}

struct Group {
    name: Arc<str>,
    path: Arc<str>,
    limit: &'static str,
    of_target: Option<bool>,
    file: ProcFile,
    before: Option<QuotaUse>,
}

impl Quotas {
    pub fn here() -> Self {
        Self::of(cgroup::trees(), Reader::here())
    }

    fn of(trees: Vec<PathBuf>, reader: Reader) -> Self {
        Self { trees, reader, groups: HashMap::new(), target: Vec::new() }
    }

    /// Distinguishes the groups of these processes from others.
    pub(super) fn follow(&mut self, target: Vec<i32>) {
        self.target = target;
    }

    /// Finds the groups that have a limit now.
    pub fn find(&mut self) {
        let limit = |dir: &Path| {
            LIMITS.into_iter().find(|file| std::fs::read_to_string(dir.join(file)).is_ok_and(|text| is_limit(&text)))
        };
        let all = self.trees.iter().flat_map(|tree| cgroup::below(tree));
        let limited = all.filter_map(|(name, dir)| limit(&dir).map(|limit| (name, dir, limit)));
        let found: Vec<(String, PathBuf, &'static str)> = limited.take(MAX).collect();
        self.groups.retain(|name, _| found.iter().any(|(known, ..)| known == name));
        let target = TargetGroups::of(&self.target);
        for (name, dir, limit) in found {
            let path = format!("/{name}");
            let is_of_target = target.are_in(&path);
            if let Some(known) = self.groups.get_mut(&name) {
                known.of_target = is_of_target;
            } else {
                let group = Group {
                    name: group_name(&mut self.reader, &path, &dir),
                    path: path.into(),
                    limit,
                    of_target: is_of_target,
                    file: ProcFile::new(dir.join("cpu.stat"), 512),
                    before: None,
                };
                self.groups.insert(name, group);
            }
        }
    }

    /// Returns the groups that were throttled since the last reading, the worst first.
    pub fn read(&mut self, seconds: f64) -> Vec<ThrottledGroup> {
        let mut list = Vec::new();
        for group in self.groups.values_mut() {
            let now = group.file.read().ok().and_then(QuotaUse::parse);
            let before = std::mem::replace(&mut group.before, now);
            let since = now.zip(before).and_then(|(now, before)| now.since(&before));
            list.extend(since.map(|(percent, kept)| ThrottledGroup {
                name: group.name.clone(),
                path: group.path.clone(),
                percent,
                ms: kept as f64 / 1e6 / seconds.max(1e-3),
                file: group.limit,
                of_target: group.of_target,
            }));
        }
        arrange(&mut list, |a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
        list
    }
}

/// The cgroups of the processes of a session's target; `None` without such processes, or if a group has no name here
/// because it is above the root of our namespace.
pub(super) struct TargetGroups(Option<Vec<String>>);

impl TargetGroups {
    pub(super) fn of(target: &[i32]) -> Self {
        let paths: Vec<String> = target.iter().flat_map(|pid| cgroup::of_process(*pid)).collect();
        let is_visible = !paths.iter().any(|path| path.starts_with("/.."));
        Self((!target.is_empty() && is_visible).then_some(paths))
    }

    /// Returns whether processes of the target are in a group or below it; `None` if unknown.
    pub(super) fn are_in(&self, path: &str) -> Option<bool> {
        Some(self.0.as_ref()?.iter().any(|of| cgroup::is_within(of, path)))
    }
}

/// Returns the name of a group's container, else of its unit or group.
pub(super) fn group_name(reader: &mut Reader, path: &str, dir: &Path) -> Arc<str> {
    let named = reader.name(path, || cgroup::first_process(dir)).map(|(named, _)| named.container.words());
    let of_path = || places(path).first().map(|place| place.container().words());
    named.or_else(of_path).unwrap_or_else(|| path.to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_throttled_is_told_by_name() {
        let (tree, disk) = (tempfile::tempdir().expect("tree"), tempfile::tempdir().expect("disk"));
        let put = |name: &str, quota: &str, stat: &str| {
            let dir = tree.path().join(name);
            std::fs::create_dir_all(&dir).expect("made");
            std::fs::write(dir.join("cpu.max"), quota).expect("written");
            std::fs::write(dir.join("cpu.stat"), stat).expect("written");
        };
        let stat = |periods: u64, throttled: u64, us: u64| {
            format!("usage_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {us}\n")
        };
        put("system.slice/web.service", "50000 100000", &stat(10, 0, 0));
        put("system.slice/free.service", "max 100000", &stat(10, 0, 0));
        put("batch", "20000 100000", &stat(10, 5, 1000));
        let mut quotas = Quotas::of(vec![tree.path().to_owned()], Reader::below(disk.path().to_owned()));
        quotas.find();
        assert_eq!((quotas.groups.len(), quotas.read(1.0)), (2, Vec::new()));
        put("system.slice/web.service", "50000 100000", &stat(20, 4, 80_000));
        put("batch", "20000 100000", &stat(20, 14, 401_000));
        let list = quotas.read(2.0);
        let told: Vec<_> = list.iter().map(|one| (one.name.to_string(), one.percent, one.ms)).collect();
        assert_eq!(told, [("batch".to_owned(), 90.0, 200.0), ("web.service".to_owned(), 40.0, 40.0)]);
        assert_eq!((list[0].file, &*list[0].path, list[0].of_target), ("cpu.max", "/batch", None));
        std::fs::remove_file(tree.path().join("batch/cpu.max")).expect("removed");
        std::fs::write(tree.path().join("batch/cpu.cfs_quota_us"), "20000").expect("written");
        quotas.groups.clear();
        quotas.follow(vec![std::process::id() as i32]);
        quotas.find();
        let batch = &quotas.groups["batch"];
        assert_eq!((batch.limit, batch.of_target), ("cpu.cfs_quota_us", Some(false)));
        std::fs::remove_dir_all(tree.path().join("batch")).expect("removed");
        quotas.find();
        assert_eq!(quotas.groups.len(), 1);
    }
}
