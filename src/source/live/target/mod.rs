//! The target of sampling: the machine, processes, threads, a user's processes, cgroups.

pub(crate) mod by_name;
pub(crate) mod family;
mod selection;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::kernel::spawn::HeldCommand;
use crate::kernel::{cgroup, procfs};

use crate::source::live::containers::{ContainerChanges, Scanner};
use crate::source::live::error::{OpenError, nearest_or};
use by_name::NamedProcesses;
use family::Family;
pub use selection::{TargetGroup, TargetSelection};

/// The tasks or cgroups that are sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// All tasks, with events on each CPU.
    #[default]
    System,
    /// Processes by id, with all their threads, and their descendants unless excluded.
    Processes(Vec<i32>),
    /// Single threads, by their ids.
    Threads(Vec<i32>),
    /// A user's processes: those whose /proc/PID belongs to the user.
    User {
        /// The name from the command line, which may be a number.
        name: String,
        /// The user id from passwd(5).
        uid: u32,
    },
    /// (name, directory) of each group.
    Cgroups(Vec<(String, PathBuf)>),
    /// The requested containers, and the groups of running ones by their descriptors' index; `None` for stopped ones.
    Containers(Box<TargetSelection>, Vec<Option<TargetGroup>>),
}

impl Target {
    /// Returns the target if there may be a command: the command alone, unless a target or CPUs were chosen. With
    /// another target, the command only limits the duration, as in perf.
    pub(crate) fn or_command(chosen: Option<Self>, by_cpus: bool, command: Option<&HeldCommand>) -> Self {
        match (chosen, command) {
            (Some(target), _) => target,
            (None, Some(held)) if !by_cpus => Self::Processes(vec![held.pid()]),
            _ => Self::System,
        }
    }

    /// Returns whether events begin with the command's exec: only if it is the only target, as others may never exec.
    pub(crate) fn begins_with_exec(&self, command: Option<&HeldCommand>, delay: Duration) -> bool {
        let alone = |held: &HeldCommand| *self == Self::Processes(vec![held.pid()]);
        delay.is_zero() && command.is_some_and(alone)
    }

    /// Parses a list of process or thread ids. For a name, the error lists the ids of its processes.
    pub(crate) fn ids(list: &str) -> Result<Vec<i32>, String> {
        let one = |word: &str| {
            let word = word.trim();
            let id = word.parse::<i32>().ok().filter(|id| *id > 0);
            id.ok_or_else(|| match NamedProcesses::find(word) {
                Some(named) => format!("{named}: -p {}", named.list()),
                None => format!("{word} is not a process id, and no process of that name runs"),
            })
        };
        list.split(',').map(one).collect()
    }

    /// Returns the processes of `-p`; the error names one that does not exist.
    pub(crate) fn processes(list: &[i32]) -> Result<Self, OpenError> {
        all_there("process", "-e", list, |pid| !procfs::threads(pid).is_empty()).map(Self::Processes)
    }

    pub(crate) fn threads(list: &[i32]) -> Result<Self, OpenError> {
        all_there("thread", "-eL", list, |tid| procfs::tgid(tid).is_some()).map(Self::Threads)
    }

    pub(crate) fn user(name: &str) -> Result<Self, OpenError> {
        let uid = procfs::user_id(name).ok_or_else(|| {
            let names = procfs::user_names();
            let names = names.iter().map(String::as_str);
            let remedy = nearest_or(name, names, "See getent passwd for existing users.");
            OpenError::new(format!("user {name}"), "sampled", "there is no such user", remedy)
        })?;
        Ok(Self::User { name: name.to_owned(), uid })
    }

    /// Returns the groups of `--cgroup`: a path below the hierarchy's root, or a glob.
    pub(crate) fn cgroups(pattern: &str) -> Result<Self, OpenError> {
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
            let remedy = nearest_or(pattern.trim_matches('/'), all.iter().map(|(n, _)| n.as_str()), "");
            return Err(fail(&format!("there is no such group below {}", root.display()), remedy));
        }
        Ok(Self::Cgroups(found))
    }

    /// Returns the running containers of `--container` and `--pod`. The errors are those of [`TargetSelection::groups`].
    pub fn containers(wanted: TargetSelection) -> Result<Self, OpenError> {
        let groups = wanted.groups(&mut Scanner::here())?;
        Ok(Self::Containers(Box::new(wanted), groups.into_iter().map(Some).collect()))
    }

    /// Updates the containers: returns the indices that became free, and those that new groups use.
    pub fn follow(&mut self, news: &ContainerChanges) -> (Vec<usize>, Vec<(usize, PathBuf)>) {
        let Self::Containers(wanted, groups) = self else { return Default::default() };
        let is_gone = |group: &Option<TargetGroup>| group.as_ref().is_some_and(|group| news.went.contains(&group.root));
        let gone: Vec<usize> = (0..groups.len()).filter(|at| is_gone(&groups[*at])).collect();
        gone.iter().for_each(|at| groups[*at] = None);
        let mut fresh = Vec::new();
        for group in news.came.iter().filter(|came| wanted.is(&came.named.container)).filter_map(TargetGroup::of) {
            if groups.iter().flatten().any(|known| known.root == group.root) {
                continue;
            }
            let at = groups.iter().position(Option::is_none).unwrap_or(groups.len());
            fresh.push((at, group.dir.clone()));
            groups.resize(groups.len().max(at + 1), None);
            groups[at] = Some(group);
        }
        (gone, fresh)
    }

    /// Parses a target on the screen that requests containers; `None` for another target.
    pub(crate) fn wanted(text: &str) -> Option<Result<TargetSelection, OpenError>> {
        let (kind, name) = text.trim().split_once(char::is_whitespace)?;
        match (kind, name.trim()) {
            ("container", name) if !name.is_empty() => Some(TargetSelection::container(name)),
            ("pod", name) if !name.is_empty() => Some(TargetSelection::pod(name)),
            _ => None,
        }
    }

    /// Parses a target on the screen: `all`, `pid 1,2`, `tid 3`, `comm nginx*`, `user www`, `cgroup web/*`,
    /// `container web`, `pod shop/cart-*`. Numbers alone are processes, another word alone is a comm.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let text = text.trim();
        let (kind, rest) = text.split_once(char::is_whitespace).map_or((text, ""), |(kind, rest)| (kind, rest.trim()));
        let wrong = |why: String| OpenError::new(format!("{text:?}"), "sampled", why, "e.g. pid 12,34");
        match (kind, rest) {
            ("all" | "", "") => Ok(Self::System),
            (list, "") if list.bytes().all(|c| c.is_ascii_digit() || c == b',') => {
                Self::processes(&Self::ids(list).map_err(wrong)?)
            }
            (name, "") | ("comm", name) => Self::named(name),
            ("pid", list) => Self::processes(&Self::ids(list).map_err(wrong)?),
            ("tid", list) => Self::threads(&Self::ids(list).map_err(wrong)?),
            ("user", name) => Self::user(name),
            ("cgroup", name) => Self::cgroups(name),
            ("container", name) => Self::containers(TargetSelection::container(name)?),
            ("pod", name) => Self::containers(TargetSelection::pod(name)?),
            _ => Err(OpenError::new(
                format!("{text:?}"),
                "sampled",
                "not a target",
                "e.g. all, pid 12,34, tid 5, comm nginx*, user www, cgroup web/*, container web, pod shop/cart-*",
            )),
        }
    }

    /// Returns the processes with a thread of this name, or one that the glob matches.
    fn named(pattern: &str) -> Result<Self, OpenError> {
        let fail =
            |reason: String, remedy: String| OpenError::new(format!("comm {pattern}"), "sampled", reason, remedy);
        let glob =
            globset::Glob::new(pattern).map_err(|e| fail(format!("not a pattern: {}", e.kind()), String::new()))?;
        let glob = glob.compile_matcher();
        let comms = |pid: i32| {
            let of = |tid: i32| procfs::comm(pid, tid).map(|name| String::from_utf8_lossy(&name).into_owned());
            procfs::threads(pid).into_iter().filter_map(of).collect::<Vec<String>>()
        };
        let all: Vec<(i32, Vec<String>)> = procfs::processes().into_iter().map(|pid| (pid, comms(pid))).collect();
        let own = std::process::id() as i32;
        let matches = |(pid, names): &(i32, Vec<String>)| {
            (*pid != own && names.iter().any(|name| glob.is_match(name))).then_some(*pid)
        };
        let pids: Vec<i32> = all.iter().filter_map(matches).collect();
        if pids.is_empty() {
            let remedy = nearest_or(pattern, all.iter().flat_map(|(_, names)| names).map(String::as_str), "");
            return Err(fail("no thread has such a name".to_owned(), remedy));
        }
        Ok(Self::Processes(pids))
    }

    pub(crate) fn open_cgroups(&self) -> Result<Vec<OwnedFd>, OpenError> {
        let open = |dir: &PathBuf, name: &str| {
            cgroup::open(dir).map_err(|e| OpenError::new(format!("cgroup {name}"), "opened", e.to_string(), ""))
        };
        match self {
            Self::Cgroups(groups) => groups.iter().map(|(name, dir)| open(dir, name)).collect(),
            Self::Containers(_, groups) => groups.iter().flatten().map(|group| open(&group.dir, &group.root)).collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the threads to open events on now; none if not tasks. Processes include the `family`, which is updated.
    pub(crate) fn tasks(&self, family: Option<&mut Family>) -> Vec<i32> {
        let mut tids: Vec<i32> = match (self, family) {
            (Self::System | Self::Cgroups(_) | Self::Containers(..), _) => Vec::new(),
            (Self::Threads(tids), _) => tids.clone(),
            (Self::Processes(pids), None) => pids.iter().flat_map(|pid| procfs::threads(*pid)).collect(),
            (Self::Processes(pids), Some(family)) => family.look(pids).into_iter().flat_map(procfs::threads).collect(),
            (Self::User { uid, .. }, _) => procfs::processes()
                .into_iter()
                .filter(|pid| procfs::uid(*pid) == Some(*uid))
                .flat_map(procfs::threads)
                .collect(),
        };
        tids.sort_unstable();
        tids.dedup();
        tids
    }

    /// Returns the target's running threads, with those of descendants if `inherit`; empty if the target is not tasks.
    pub(crate) fn tasks_now(&self, inherit: bool) -> Vec<i32> {
        self.tasks(inherit.then(Family::default).as_mut())
    }

    /// Returns the ids of `-p` or of the command; empty for other targets.
    pub(crate) fn process_ids(&self) -> &[i32] {
        match self {
            Self::Processes(pids) => pids,
            _ => &[],
        }
    }

    /// Returns the directories of its cgroups; `None` if it is not cgroups or containers.
    pub(crate) fn group_dirs(&self) -> Option<Vec<PathBuf>> {
        match self {
            Self::Cgroups(groups) => Some(groups.iter().map(|(_, dir)| dir.clone()).collect()),
            Self::Containers(_, groups) => Some(groups.iter().flatten().map(|group| group.dir.clone()).collect()),
            _ => None,
        }
    }

    /// Returns the paths of its cgroups; empty if it is not cgroups or containers.
    pub(crate) fn group_paths(&self) -> Vec<String> {
        match self {
            Self::Cgroups(groups) => groups.iter().map(|(name, _)| format!("/{}", name.trim_matches('/'))).collect(),
            Self::Containers(_, groups) => groups.iter().flatten().map(|group| group.root.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn is_tasks(&self) -> bool {
        matches!(self, Self::Processes(_) | Self::Threads(_) | Self::User { .. })
    }

    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Processes(pids) => !pids.iter().flat_map(|pid| procfs::threads(*pid)).any(procfs::is_running),
            Self::Threads(tids) => !tids.iter().copied().any(procfs::is_running),
            _ => false,
        }
    }

    pub(crate) fn label(&self) -> String {
        let list = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::System => String::new(),
            Self::Processes(pids) => format!("pid {}", list(pids)),
            Self::Threads(tids) => format!("tid {}", list(tids)),
            Self::User { name, .. } => format!("user {name}"),
            Self::Cgroups(groups) if groups.len() == 1 => format!("cgroup {}", groups[0].0),
            Self::Cgroups(groups) => format!("{} cgroups", groups.len()),
            Self::Containers(wanted, groups) => match groups.iter().flatten().count() {
                1 => wanted.words.clone(),
                n => format!("{n} of {}", wanted.words),
            },
        }
    }
}

/// Returns the ids if all of them exist. `ps` with `options` lists the existing ones.
fn all_there(kind: &str, options: &str, ids: &[i32], is_there: fn(i32) -> bool) -> Result<Vec<i32>, OpenError> {
    let Some(gone) = ids.iter().find(|id| !is_there(**id)) else { return Ok(ids.to_vec()) };
    let (reason, remedy) = (format!("there is no such {kind}"), format!("See the output of ps {options}."));
    Err(OpenError::new(format!("{kind} {gone}"), "sampled", reason, remedy))
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
        assert_eq!(Target::parse("all"), Ok(Target::System));
        assert_eq!(Target::parse(&format!("pid {me}")), Target::parse(&me.to_string()));
        for (bad, words) in
            [("pid x", "not a process id"), ("comm no-such-comm-here", "no thread"), ("what is this", "not a target")]
        {
            assert!(Target::parse(bad).expect_err(bad).to_string().contains(words), "{bad}");
        }
        let target = Target::processes(&[me]).expect("me");
        assert!(target.tasks(None).contains(&me) && !target.is_gone());
    }

    #[test]
    fn a_command_is_measured_where_nobody_was_chosen() {
        let held = crate::kernel::spawn::hold(&["true".into()], crate::kernel::spawn::Output::Discard).expect("held");
        let (own, me) = (held.pid(), std::process::id() as i32);
        let user = || Target::User { name: "0".into(), uid: 0 };
        let chosen = [
            (None, false, Target::Processes(vec![own])),
            (None, true, Target::System),
            (Some(Target::System), false, Target::System),
            (Some(Target::Processes(vec![me])), false, Target::Processes(vec![me])),
            (Some(Target::Threads(vec![me])), true, Target::Threads(vec![me])),
            (Some(user()), false, user()),
            (Some(Target::Cgroups(Vec::new())), false, Target::Cgroups(Vec::new())),
        ];
        for (at, (target, by_cpus, measured)) in chosen.into_iter().enumerate() {
            let target = Target::or_command(target, by_cpus, Some(&held));
            assert_eq!(target, measured);
            assert_eq!(target.begins_with_exec(Some(&held), Duration::ZERO), at == 0, "{target:?}");
            assert!(!target.begins_with_exec(Some(&held), Duration::from_millis(10)), "{target:?}");
            assert!(!target.begins_with_exec(None, Duration::ZERO), "{target:?}");
        }
        assert_eq!(Target::or_command(None, false, None), Target::System);
        held.cancel();
    }
}
