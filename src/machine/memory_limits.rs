//! Cgroups with a limit of memory, which are searched periodically, and how close each is to it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::cgroup;
use crate::kernel::host::ProcFile;
use crate::panel::row_order::arrange;
use crate::session::machine::resources::keyed;
use crate::source::containers::Reader;

use super::quotas::{TargetGroups, group_name};

/// The limit of groups, and the share of its limit in percent from which a group is reported.
const MAX: usize = 500;
const NEAR: f64 = 80.0;
/// The pages of files that a group reads again in an interval soon after they were dropped, from which it needs those that
/// it uses: 4 MB.
const REFAULTED: u64 = 1000;

/// A group near its limit of memory, in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryGroup {
    /// Its container, pod or unit.
    pub(crate) name: Arc<str>,
    /// Its path below the root of its hierarchy.
    pub(crate) path: Arc<str>,
    /// Whether processes of the session's target are in it; `None` without such processes.
    pub(crate) of_target: Option<bool>,
    /// Memory in use without file pages that can be dropped, in percent of the limit. The cache of a group that only reads
    /// files grows up to its limit as well.
    pub(crate) percent: f64,
    pub(crate) limit: u64,
    /// How often it reached the limit, and processes that were killed for it.
    pub(crate) hits: u64,
    pub(crate) killed: u64,
}

/// The cgroups whose memory is watched.
pub(crate) struct MemoryLimits {
    trees: Vec<PathBuf>,
    reader: Reader,
    groups: HashMap<PathBuf, Group>,
    /// The processes of the session's target.
    target: Vec<i32>,
}

struct Group {
    name: Arc<str>,
    path: Arc<str>,
    of_target: Option<bool>,
    limit: u64,
    usage: ProcFile,
    stat: ProcFile,
    events: [ProcFile; 2],
    /// Hits and kills at the last reading.
    before: Option<[u64; 2]>,
    /// Pages of files that were read again until the last reading of `stat`.
    refaults: Option<u64>,
}

/// The names of a group's files in a version of cgroups: limit, usage, and the files of hits and kills with their keys.
struct Version {
    limit: &'static str,
    usage: &'static str,
    hits: (&'static str, &'static str),
    kills: (&'static str, &'static str),
}

/// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
const VERSIONS: [Version; 2] = [
    Version {
        limit: "memory.max",
        usage: "memory.current",
        hits: ("memory.events", "max"),
        kills: ("memory.events", "oom_kill"),
    },
    Version {
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        hits: ("memory.failcnt", ""),
        kills: ("memory.oom_control", "oom_kill"),
    },
];

/// The keys of `memory.stat`: bytes of file pages that are not in use and in use, and pages that were read again. Those of
/// all descendants, which the first version has as well, include the group's own.
const STAT: [&str; 6] = [
    "inactive_file",
    "total_inactive_file",
    "active_file",
    "total_active_file",
    "workingset_refault_file",
    "total_workingset_refault_file",
];

impl MemoryLimits {
    pub(crate) fn here() -> Self {
        Self::of(cgroup::trees(), Reader::here())
    }

    fn of(trees: Vec<PathBuf>, reader: Reader) -> Self {
        Self { trees, reader, groups: HashMap::new(), target: Vec::new() }
    }

    /// Distinguishes the groups of these processes from others.
    pub(crate) fn follow(&mut self, target: Vec<i32>) {
        self.target = target;
    }

    /// Finds the groups that have a limit now.
    pub(crate) fn find(&mut self) {
        let all = self.trees.iter().flat_map(|tree| cgroup::below(tree));
        let found: Vec<_> = all.filter_map(|(name, dir)| Some((limit(&dir)?, name, dir))).take(MAX).collect();
        self.groups.retain(|dir, _| found.iter().any(|(.., known)| known == dir));
        let target = TargetGroups::of(&self.target);
        for ((version, limit), name, dir) in found {
            let path = format!("/{name}");
            let of_target = target.are_in(&path);
            let file = |name: &str| ProcFile::new(dir.join(name), 4096);
            if let Some(group) = self.groups.get_mut(&dir) {
                (group.limit, group.of_target) = (limit, of_target);
                continue;
            }
            let group = Group {
                name: group_name(&mut self.reader, &path, &dir),
                path: path.into(),
                of_target,
                limit,
                usage: file(version.usage),
                stat: file("memory.stat"),
                events: [file(version.hits.0), file(version.kills.0)],
                before: None,
                refaults: None,
            };
            self.groups.insert(dir, group);
        }
    }

    /// Returns the groups near their limits, and those that reached it since the last reading, the worst first.
    pub(crate) fn read(&mut self) -> Vec<MemoryGroup> {
        let mut list: Vec<MemoryGroup> = self.groups.values_mut().filter_map(Group::read).collect();
        arrange(&mut list, |a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
        list
    }
}

impl Group {
    fn read(&mut self) -> Option<MemoryGroup> {
        let used = one_number(self.usage.read().ok()?)?;
        // The file is expensive, and only lowers the share.
        let is_near = 100.0 * used as f64 >= NEAR * self.limit as f64;
        let files = if is_near { self.droppable() } else { 0 };
        let hits = self.events[0].read().unwrap_or_default();
        let hits = one_number(hits).unwrap_or_else(|| keyed(hits, [VERSIONS[0].hits.1])[0]);
        let [kills] = keyed(self.events[1].read().unwrap_or_default(), [VERSIONS[0].kills.1]);
        let before = self.before.replace([hits, kills]).unwrap_or([hits, kills]);
        let percent = 100.0 * used.saturating_sub(files) as f64 / self.limit.max(1) as f64;
        let (hits, killed) = (hits.saturating_sub(before[0]), kills.saturating_sub(before[1]));
        let (name, path, of_target) = (self.name.clone(), self.path.clone(), self.of_target);
        let group = MemoryGroup { name, path, of_target, percent, limit: self.limit, hits, killed };
        (percent >= NEAR || hits > 0 || killed > 0).then_some(group)
    }

    /// Returns the bytes of file pages that can be dropped without being read again soon.
    fn droppable(&mut self) -> u64 {
        let figures = keyed(self.stat.read().unwrap_or_default(), STAT);
        let [inactive, active, refaults] = [0, 2, 4].map(|at| figures[at].max(figures[at + 1]));
        let before = self.refaults.replace(refaults).unwrap_or(refaults);
        let is_needed = refaults.saturating_sub(before) >= REFAULTED;
        if is_needed { inactive } else { inactive.saturating_add(active) }
    }
}

fn one_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// Returns the limit of a group, if it has one: the first version's default is the highest number of pages.
fn limit(dir: &Path) -> Option<(&'static Version, u64)> {
    const NO_LIMIT: u64 = 1 << 60;
    VERSIONS.iter().find_map(|version| {
        let limit = one_number(&fs::read(dir.join(version.limit)).ok()?)?;
        (limit < NO_LIMIT).then_some((version, limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_near_their_limit_in_both_versions() {
        let (tree, disk) = (tempfile::tempdir().expect("tree"), tempfile::tempdir().expect("disk"));
        let put = |name: &str, files: &[(&str, &str)]| {
            let dir = tree.path().join(name);
            fs::create_dir_all(&dir).expect("made");
            files.iter().for_each(|(file, text)| fs::write(dir.join(file), text).expect("written"));
        };
        let v2 = |used: &str, events: &str| {
            put(
                "two",
                &[
                    ("memory.max", "1000\n"),
                    ("memory.current", used),
                    ("memory.stat", "anon 5\ninactive_file 100\n"),
                    ("memory.events", events),
                ],
            );
        };
        v2("950\n", "max 3\noom_kill 0\n");
        let v1 = |failures: &str| {
            put(
                "one",
                &[
                    ("memory.limit_in_bytes", "1000"),
                    ("memory.usage_in_bytes", "900"),
                    ("memory.stat", "inactive_file 1\ntotal_inactive_file 500\n"),
                    ("memory.failcnt", failures),
                    ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
                ],
            );
        };
        v1("7\n");
        put("free", &[("memory.max", "max"), ("memory.current", "5")]);
        put("free1", &[("memory.limit_in_bytes", "9223372036854771712"), ("memory.usage_in_bytes", "5")]);
        let mut limits = MemoryLimits::of(vec![tree.path().to_owned()], Reader::below(disk.path().to_owned()));
        limits.find();
        assert_eq!(limits.groups.len(), 2);
        let group = |name: &str, percent, hits, killed| MemoryGroup {
            name: name.into(),
            path: format!("/{name}").into(),
            percent,
            limit: 1000,
            hits,
            killed,
            of_target: None,
        };
        assert_eq!(limits.read(), [group("two", 85.0, 0, 0)], "half of the other's memory can be dropped");
        v2("950\n", "max 5\noom_kill 1\n");
        v1("9\n");
        assert_eq!(limits.read(), [group("two", 85.0, 2, 1), group("one", 40.0, 2, 0)]);
        limits.follow(vec![std::process::id() as i32]);
        limits.find();
        assert_eq!(limits.read()[0].of_target, Some(false), "this process is in none of them");
    }

    /// The file cache of a container grows up to its limit. It is needed if its pages are read again soon.
    #[test]
    fn a_file_cache_is_not_near_the_limit() {
        let (tree, disk) = (tempfile::tempdir().expect("tree"), tempfile::tempdir().expect("disk"));
        let dir = tree.path().join("reader");
        let put = |file: &str, text: &str| {
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join(file), text).expect("written");
        };
        let stat = |refaults: u64| {
            let own = "anon 9\ninactive_file 50\nactive_file 900\n";
            put("memory.stat", &format!("{own}workingset_refault_file {refaults}\n"));
        };
        put("memory.max", "1000\n");
        put("memory.current", "990\n");
        put("memory.events", "max 3\noom_kill 0\n");
        stat(70_000);
        let mut limits = MemoryLimits::of(vec![tree.path().to_owned()], Reader::below(disk.path().to_owned()));
        limits.find();
        let mut percents = || limits.read().iter().map(|one| one.percent).collect::<Vec<_>>();
        assert_eq!(percents(), Vec::<f64>::new(), "no pages are known to be read again");
        stat(70_000 + REFAULTED);
        assert_eq!(percents(), [94.0]);
        stat(70_000 + REFAULTED + 9);
        assert_eq!(percents(), Vec::<f64>::new());
    }
}
