//! Cgroups: their mounted hierarchies and the groups of a process. Perf events use v1's perf_event if mounted, else v2.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Returns the mount point of the hierarchy that perf events are attached to (cgroups(7), proc_pid_mountinfo(5)).
pub fn tree() -> Option<PathBuf> {
    tree_in(&fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// Returns the mounted hierarchies as (file system type, options, mount point).
fn mounts(mountinfo: &str) -> impl Iterator<Item = (&str, &str, &str)> + Clone {
    let of_line = |line| {
        let (left, right): (&str, &str) = str::split_once(line, " - ")?;
        let mut right = right.split(' ');
        let kind = right.next().filter(|kind| kind.starts_with("cgroup"))?;
        let options = right.nth(1).unwrap_or("");
        Some((kind, options, left.split(' ').nth(4)?))
    };
    mountinfo.lines().filter_map(of_line)
}

fn tree_in(mountinfo: &str) -> Option<PathBuf> {
    let mounts = mounts(mountinfo);
    let v1 = |(kind, options, at): (&str, &str, &str)| {
        (kind == "cgroup" && options.split(',').any(|o| o == "perf_event")).then(|| PathBuf::from(at))
    };
    let v2 = |(kind, _, at): (&str, &str, &str)| (kind == "cgroup2").then(|| PathBuf::from(at));
    mounts.clone().find_map(v1).or_else(|| mounts.clone().find_map(v2))
}

/// Returns all hierarchies in which groups may be named, that of perf events first. Of v1 these are the ones in which
/// container runtimes and systemd group processes.
pub fn trees() -> Vec<PathBuf> {
    std::fs::read_to_string("/proc/self/mountinfo").map(|text| trees_in(&text)).unwrap_or_default()
}

fn trees_in(mountinfo: &str) -> Vec<PathBuf> {
    const OF_V1: [&str; 4] = ["name=systemd", "cpu", "memory", "pids"];
    let v1 = |option: &'static str| {
        let has = move |options: &str| options.split(',').any(|one| one == option);
        mounts(mountinfo).find(|(kind, options, _)| *kind == "cgroup" && has(options)).map(|(.., at)| at.into())
    };
    let v2 = mounts(mountinfo).find(|(kind, ..)| *kind == "cgroup2").map(|(.., at)| at.into());
    let mut list: Vec<PathBuf> =
        tree_in(mountinfo).into_iter().chain(v2).chain(OF_V1.into_iter().filter_map(v1)).collect();
    let mut seen = std::collections::HashSet::new();
    list.retain(|at| seen.insert(at.clone()));
    list
}

/// Returns the cgroups of a process in the hierarchies in which it is not at the root: v2's first, then systemd's, then
/// those of controllers (cgroups(7)).
pub fn of_process(pid: i32) -> Vec<String> {
    groups_in(&String::from_utf8_lossy(&crate::kernel::procfs::cgroups(pid)))
}

fn groups_in(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let rank = match controllers {
            "" => 0,
            "name=systemd" => 1,
            _ if controllers.split(',').any(|one| one == "cpu") => 2,
            _ => 3,
        };
        // The kernel marks deleted directories, and shows paths outside the cgroup namespace with `..`.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        (!path.trim_matches(['/', '.']).is_empty()).then_some((rank, path))
    });
    let mut list: Vec<(i32, &str)> = lines.collect();
    list.sort_by_key(|(rank, _)| *rank);
    let mut seen = std::collections::HashSet::new();
    list.into_iter().map(|(_, path)| path.to_owned()).filter(|path| seen.insert(path.clone())).collect()
}

/// Returns whether a group is another one or below it, by their paths.
pub(crate) fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether the hierarchy of perf events has groups below its root.
pub fn has_groups() -> bool {
    tree().is_some_and(|root| has_below(&root))
}

fn has_below(root: &Path) -> bool {
    folders(root).next().is_some()
}

fn folders(dir: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// Returns a group and all groups below it: path below the first one, and directory. A directory with two links has no
/// subdirectories, like on other file systems, and is not read.
fn descend(root: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let mut todo = vec![(String::new(), root.to_owned())];
    std::iter::from_fn(move || {
        let (name, dir) = todo.pop()?;
        let is_leaf = fs::symlink_metadata(&dir).is_ok_and(|meta| meta.nlink() == 2);
        for entry in (!is_leaf).then(|| folders(&dir)).into_iter().flatten() {
            let part = entry.file_name().to_string_lossy().into_owned();
            let inner = if name.is_empty() { part } else { format!("{name}/{part}") };
            todo.push((inner, entry.path()));
        }
        Some((name, dir))
    })
}

/// Returns the first process of a group or of its descendants.
pub fn first_process(dir: &Path) -> Option<i32> {
    let first = |dir: PathBuf| fs::read_to_string(dir.join("cgroup.procs")).ok()?.lines().next()?.parse().ok();
    descend(dir).filter_map(|(_, dir)| first(dir)).find(|pid: &i32| *pid > 0)
}

/// Returns whether perf events use the hierarchy of version 2, whose ids BPF programs see.
pub(crate) fn is_unified() -> bool {
    tree().is_some_and(|root| root.join("cgroup.controllers").exists())
}

/// Returns the ids of a group and of all groups below it: the inode numbers of their directories.
pub(crate) fn ids(dir: &Path) -> Vec<u64> {
    descend(dir).take(MAX_GROUPS).filter_map(|(_, dir)| Some(fs::metadata(dir).ok()?.ino())).collect()
}

/// Returns the groups of a hierarchy whose path below its root matches, as (name, directory).
pub fn matching(root: &Path, matches: &dyn Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
    let mut found: Vec<_> = descend(root).filter(|(name, _)| matches(name)).collect();
    found.sort();
    found
}

/// Returns all groups below a hierarchy's root, sorted by path.
pub fn below(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<_> = descend(root).skip(1).take(MAX_GROUPS).collect();
    found.sort();
    found
}

/// The maximum number of groups listed at the start. Groups with samples are also reported by their own records.
const MAX_GROUPS: usize = 20_000;

/// Returns the existing groups as the kernel names them in `PERF_RECORD_CGROUP`: the id, which is the directory's inode
/// number, and the path below the root of the hierarchy.
pub fn known() -> Vec<(u64, String)> {
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
    fn a_tree_of_its_root_alone_has_no_groups() {
        let root = tempfile::tempdir().expect("dir");
        fs::write(root.path().join("cgroup.procs"), "1").expect("file");
        assert!(!has_below(root.path()));
        fs::create_dir(root.path().join("one")).expect("dir");
        assert!(has_below(root.path()));
        assert!(!has_below(&root.path().join("none")));
    }

    #[test]
    fn v1_perf_event_goes_before_v2() {
        let v2 = "30 22 0:26 / /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw\n";
        let v1 = "31 22 0:27 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n";
        let cpu = "32 22 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(tree_in(v2), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(tree_in(&format!("{cpu}{v2}{v1}")), Some("/sys/fs/cgroup/perf_event".into()));
        assert_eq!(tree_in(cpu), None);
        let systemd = "33 22 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        let all = format!("40 22 0:3 / /tmp rw - tmpfs cpu rw\n{cpu}{v2}{systemd}{v1}");
        let trees = |text: &str| trees_in(text).iter().map(|at| at.display().to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(
            trees(&all),
            "/sys/fs/cgroup/perf_event /sys/fs/cgroup/unified /sys/fs/cgroup/systemd /sys/fs/cgroup/cpu"
        );
        assert_eq!(trees(v2), "/sys/fs/cgroup/unified");
    }

    #[test]
    fn a_process_is_in_what_it_is_not_at_the_root_of() {
        let hybrid = "9:name=systemd:/\n8:pids:/web\n2:cpuacct,cpu:/web/a\n1:cpuset:/\n0::/\n";
        assert_eq!(groups_in(hybrid), ["/web/a", "/web"]);
        assert_eq!(groups_in("12:cpu:/a\n1:name=systemd:/s\n0::/u:x (deleted)\n"), ["/u:x", "/s", "/a"]);
        assert_eq!(groups_in("0::/../..\n1:cpu:/../other\nnonsense\n"), ["/../other"]);
    }
}
