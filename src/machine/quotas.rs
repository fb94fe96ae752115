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
}

struct Group {
    name: Arc<str>,
    file: ProcFile,
    before: Option<QuotaUse>,
}

impl Quotas {
    pub fn here() -> Self {
        Self::of(cgroup::trees(), Reader::here())
    }

    fn of(trees: Vec<PathBuf>, reader: Reader) -> Self {
        Self { trees, reader, groups: HashMap::new() }
    }

    /// Finds the groups that have a limit now.
    pub fn find(&mut self) {
        let has_limit = |dir: &Path| {
            LIMITS.iter().any(|file| std::fs::read_to_string(dir.join(file)).is_ok_and(|text| is_limit(&text)))
        };
        let all = self.trees.iter().flat_map(|tree| cgroup::below(tree));
        let found: Vec<(String, PathBuf)> = all.filter(|(_, dir)| has_limit(dir)).take(MAX).collect();
        self.groups.retain(|name, _| found.iter().any(|(known, _)| known == name));
        for (name, dir) in found {
            if !self.groups.contains_key(&name) {
                let path = format!("/{name}");
                let group = Group {
                    name: group_name(&mut self.reader, &path, &dir),
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
                percent,
                ms: kept as f64 / 1e6 / seconds.max(1e-3),
            }));
        }
        arrange(&mut list, |a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
        list
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
        let told: Vec<_> =
            quotas.read(2.0).into_iter().map(|one| (one.name.to_string(), one.percent, one.ms)).collect();
        assert_eq!(told, [("batch".to_owned(), 90.0, 200.0), ("web.service".to_owned(), 40.0, 40.0)]);
        std::fs::remove_dir_all(tree.path().join("batch")).expect("removed");
        quotas.find();
        assert_eq!(quotas.groups.len(), 1);
    }
}
