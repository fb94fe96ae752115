//! What is sampled: the machine, processes, threads, a user's processes, cgroups.

use std::path::PathBuf;

use crate::event::fault::nearest;
use crate::kernel::{cgroup, procfs};

use super::error::OpenError;

/// Who is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    System,
    Processes(Vec<i32>),
    Threads(Vec<i32>),
    User {
        name: String,
        uid: u32,
    },
    /// (name, directory) of each group.
    Cgroups(Vec<(String, PathBuf)>),
}

impl Target {
    /// The processes of `-p`; the error names the one that is not there.
    pub fn processes(list: &[i32]) -> Result<Self, OpenError> {
        match list.iter().find(|pid| procfs::threads(**pid).is_empty()) {
            Some(pid) => Err(OpenError::new(
                format!("process {pid}"),
                "sampled",
                "there is no such process",
                "See ps -e for those that run.",
            )),
            None => Ok(Self::Processes(list.to_vec())),
        }
    }

    /// The threads of `-t`.
    pub fn threads(list: &[i32]) -> Result<Self, OpenError> {
        match list.iter().find(|tid| procfs::tgid(**tid).is_none()) {
            Some(tid) => Err(OpenError::new(
                format!("thread {tid}"),
                "sampled",
                "there is no such thread",
                "See ps -eL for those that run.",
            )),
            None => Ok(Self::Threads(list.to_vec())),
        }
    }

    /// The user of `-u`, by name or number.
    pub fn user(name: &str) -> Result<Self, OpenError> {
        let uid = procfs::user_id(name).ok_or_else(|| {
            let names = procfs::user_names();
            let near = nearest(name, names.iter().map(String::as_str)).join(", ");
            let remedy = if near.is_empty() {
                "See getent passwd for those there are.".to_owned()
            } else {
                format!("Nearest: {near}")
            };
            OpenError::new(format!("user {name}"), "sampled", "there is no such user", remedy)
        })?;
        Ok(Self::User { name: name.to_owned(), uid })
    }

    /// The groups of `--cgroup`: a path below the tree's root, or a glob.
    pub fn cgroups(pattern: &str) -> Result<Self, OpenError> {
        let fail =
            |reason: &str, remedy: String| OpenError::new(format!("cgroup {pattern}"), "sampled", reason, remedy);
        let root = cgroup::tree().ok_or_else(|| {
            fail("no cgroup tree for perf events is mounted", "mount -t cgroup2 none /sys/fs/cgroup".into())
        })?;
        let glob = globset::GlobBuilder::new(pattern.trim_matches('/')).literal_separator(true).build();
        let glob = glob.map_err(|e| fail(&format!("not a pattern: {}", e.kind()), String::new()))?.compile_matcher();
        let found = cgroup::matching(&root, &|name| glob.is_match(name));
        if found.is_empty() {
            let all = cgroup::matching(&root, &|_| true);
            let near = nearest(pattern.trim_matches('/'), all.iter().map(|(n, _)| n.as_str())).join(", ");
            return Err(fail(
                &format!("there is no such group below {}", root.display()),
                if near.is_empty() { String::new() } else { format!("Nearest: {near}") },
            ));
        }
        Ok(Self::Cgroups(found))
    }

    /// The threads to open events on now; empty for targets that are not tasks.
    pub fn tasks(&self) -> Vec<i32> {
        let mut tids: Vec<i32> = match self {
            Self::System | Self::Cgroups(_) => Vec::new(),
            Self::Threads(tids) => tids.clone(),
            Self::Processes(pids) => pids.iter().flat_map(|pid| procfs::threads(*pid)).collect(),
            Self::User { uid, .. } => procfs::processes()
                .into_iter()
                .filter(|pid| procfs::uid(*pid) == Some(*uid))
                .flat_map(procfs::threads)
                .collect(),
        };
        tids.sort_unstable();
        tids.dedup();
        tids
    }

    /// Whether events are bound to tasks.
    pub fn is_tasks(&self) -> bool {
        matches!(self, Self::Processes(_) | Self::Threads(_) | Self::User { .. })
    }

    /// Whether none of the named tasks is left.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Processes(pids) => !pids.iter().flat_map(|pid| procfs::threads(*pid)).any(procfs::is_running),
            Self::Threads(tids) => !tids.iter().copied().any(procfs::is_running),
            _ => false,
        }
    }

    /// For the header.
    pub fn words(&self) -> String {
        let list = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::System => String::new(),
            Self::Processes(pids) => format!("pid {}", list(pids)),
            Self::Threads(tids) => format!("tid {}", list(tids)),
            Self::User { name, .. } => format!("user {name}"),
            Self::Cgroups(groups) if groups.len() == 1 => format!("cgroup {}", groups[0].0),
            Self::Cgroups(groups) => format!("{} cgroups", groups.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named() {
        assert!(
            Target::processes(&[i32::MAX])
                .expect_err("none")
                .to_string()
                .contains(&format!("process {} cannot be sampled", i32::MAX))
        );
        assert!(Target::threads(&[i32::MAX]).is_err());
        assert!(Target::user("rot").expect_err("none").to_string().contains("root"));
        assert!(Target::user("0").is_ok());
        assert!(Target::cgroups("no/such/group/here").is_err());
        let me = std::process::id() as i32;
        let target = Target::processes(&[me]).expect("me");
        assert!(target.tasks().contains(&me) && !target.is_gone());
    }
}
