//! Finds cgroup directories for `--cgroup`: the v1 perf_event tree where there is one, else v2.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The mount point of the tree that perf events are confined by (cgroups(7), proc_pid_mountinfo(5)).
pub fn tree() -> Option<PathBuf> {
    tree_in(&fs::read_to_string("/proc/self/mountinfo").ok()?)
}

fn tree_in(mountinfo: &str) -> Option<PathBuf> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1).unwrap_or("");
        Some((kind, options, left.split(' ').nth(4)?))
    });
    let v1 = |(kind, options, at): (&str, &str, &str)| {
        (kind == "cgroup" && options.split(',').any(|o| o == "perf_event")).then(|| PathBuf::from(at))
    };
    let v2 = |(kind, _, at): (&str, &str, &str)| (kind == "cgroup2").then(|| PathBuf::from(at));
    mounts.clone().find_map(v1).or_else(|| mounts.clone().find_map(v2))
}

/// The groups of the tree whose path below its root matches, each as (name, directory).
pub fn matching(root: &Path, matches: &dyn Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        let name = dir.strip_prefix(root).map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        if matches(&name) {
            found.push((name, dir.clone()));
        }
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        todo.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    found.sort();
    found
}

/// More groups are not told of at the start; those that samples are of come with their records.
const MAX_GROUPS: usize = 20_000;

/// The groups that there are, as the kernel names them in `PERF_RECORD_CGROUP`: the id, which is the
/// directory's inode number, and the path below the root of the tree.
pub fn known() -> Vec<(u64, String)> {
    use std::os::unix::fs::MetadataExt;
    let Some(root) = tree() else { return Vec::new() };
    let id = |(name, dir): (String, PathBuf)| Some((fs::metadata(dir).ok()?.ino(), format!("/{name}")));
    matching(&root, &|_| true).into_iter().take(MAX_GROUPS).filter_map(id).collect()
}

/// Opens a group's directory for `PERF_FLAG_PID_CGROUP`.
pub fn open(dir: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_perf_event_goes_before_v2() {
        let v2 = "30 22 0:26 / /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw\n";
        let v1 = "31 22 0:27 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n";
        let cpu = "32 22 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(tree_in(v2), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(tree_in(&format!("{cpu}{v2}{v1}")), Some("/sys/fs/cgroup/perf_event".into()));
        assert_eq!(tree_in(cpu), None);
    }
}
