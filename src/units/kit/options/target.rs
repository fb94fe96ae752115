//! The target of a unit: threads by id and by name.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::Record;
use crate::record::kinds::TaskRecord;
use crate::record::open_spans::ThreadChange;
use crate::session::{Origin, Session, threads_of};
use crate::source::live::Target;
use crate::source::live::target::TargetSelection;

use crate::units::kit::{Context, Settings};

/// Limit of cached decisions; if it is exceeded, the negative ones are dropped.
const MAX_KNOWN: usize = 1 << 17;

/// The decision which threads belong to the target, made only here.
///
/// [`FilteredUnit`](crate::units::kit::FilteredUnit) applies it for units that receive only the target's records; units
/// that need all records ask [`Context`] themselves.
#[derive(Clone, Debug, Default)]
pub struct ThreadChoice {
    target: Target,
    /// Whether children of the target's threads are excluded.
    alone: bool,
    /// Decisions by thread, kept after a thread ends.
    known: FxHashMap<i32, bool>,
    comms: Option<GlobSet>,
    groups: Option<GroupChoice>,
    /// Excluded processes and their threads.
    without: FxHashSet<i32>,
}

impl ThreadChoice {
    pub(crate) fn of(settings: &Settings) -> Result<Self, String> {
        let comms = settings.get("comm").map(|list| {
            let mut set = GlobSetBuilder::new();
            for name in list.split(',') {
                set.add(Glob::new(name.trim()).map_err(|error| format!("--comm {name}: {}", error.kind()))?);
            }
            set.build().map_err(|error| format!("--comm {list}: {error}"))
        });
        let without = excluded(settings)?.into_iter().flat_map(|pid| [pid].into_iter().chain(threads_of(pid)));
        Ok(Self {
            target: settings.target.clone(),
            alone: settings.alone,
            known: FxHashMap::default(),
            comms: comms.transpose()?,
            groups: GroupChoice::of(settings)?,
            without: without.collect(),
        })
    }

    /// Chooses the threads of a target.
    pub(crate) fn of_target(target: Target, alone: bool) -> Self {
        Self { target, alone, ..Self::default() }
    }

    /// Returns whether the same target was chosen.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.target == other.target && self.alone == other.alone
    }

    pub(crate) fn is_narrow(&self) -> bool {
        self.target != Target::System || self.comms.is_some() || self.groups.is_some() || !self.without.is_empty()
    }

    /// Whether a thread belongs to the target. Threads of this program belong to it only if named.
    pub(crate) fn has(&mut self, tid: i32, cx: &mut Context<'_>) -> bool {
        self.is_of_target(tid, cx)
            && !self.without.contains(&tid)
            && self.comms.as_ref().is_none_or(|comms| comms.is_match(&*cx.comm(tid)))
            && self.groups.as_mut().is_none_or(|groups| groups.has(tid, cx.session))
    }

    /// Whether a thread is one of this program's that was not named.
    pub(crate) fn is_unasked(&mut self, tid: i32, cx: &Context<'_>) -> bool {
        cx.own.contains(&tid) && !self.is_of_target(tid, cx)
    }

    fn is_of_target(&mut self, tid: i32, cx: &Context<'_>) -> bool {
        if let Some(known) = self.known.get(&tid) {
            return *known;
        }
        let found = match &self.target {
            Target::System | Target::Cgroups(_) | Target::Containers(..) => return !cx.own.contains(&tid),
            Target::Threads(tids) => Some(tids.contains(&tid)),
            Target::Processes(pids) if pids.contains(&tid) => Some(true),
            Target::Processes(pids) => cx.process_of(tid).map(|pid| {
                // The shell that started this program may be the target.
                pids.contains(&pid) || !self.alone && !cx.own.contains(&tid) && cx.session.descends(pid, pids)
            }),
            Target::User { uid, .. } => {
                cx.process_of(tid).map(|pid| !cx.own.contains(&tid) && cx.session.user_of(pid) == Some(*uid))
            }
        };
        if self.known.len() >= MAX_KNOWN {
            self.known.retain(|_, is_chosen| *is_chosen);
        }
        // Do not store an unknown process: a later record may contain it.
        self.known.extend(found.map(|is_chosen| (tid, is_chosen)));
        found.unwrap_or(false)
    }

    /// Children of chosen threads are chosen. Threads of an excluded process are excluded.
    pub(crate) fn follow(&mut self, begins: &TaskRecord) {
        let is_thread = begins.pid == begins.ppid;
        let parent = match &self.target {
            Target::Threads(tids) => Some(tids.contains(&begins.ptid) || self.known.get(&begins.ptid) == Some(&true)),
            _ => self.known.get(&begins.ptid).copied(),
        };
        // The id may be reused.
        self.known.remove(&begins.tid);
        if parent == Some(true) && (is_thread || !self.alone) {
            self.known.insert(begins.tid, true);
        }
        if is_thread && self.without.contains(&begins.ptid) {
            self.without.insert(begins.tid);
        }
    }

    /// Moves the decision to a thread's new id.
    pub(crate) fn renumber(&mut self, from: i32, to: i32) {
        let named = matches!(&self.target, Target::Threads(tids) if tids.contains(&from)).then_some(true);
        if let Some(is_chosen) = self.known.insert(from, false).or(named) {
            self.known.insert(to, is_chosen);
        }
        if self.without.remove(&from) {
            self.without.insert(to);
        }
    }

    pub(crate) fn follow_record(&mut self, record: &Record<'_>, cx: &Context<'_>) {
        if let Record::Fork(begins) = record {
            self.follow(begins);
        }
        if let Some(ThreadChange::Exec { pid, from: Some(from), .. }) = cx.session.thread_change(record) {
            self.renumber(from, pid);
        }
    }
}

/// Limit of cached threads; the cache is cleared when it is full.
const MAX: usize = 1 << 17;

/// A selection of cgroups with their subgroups, and of containers.
#[derive(Clone, Debug)]
pub(crate) struct GroupChoice {
    globs: Option<GlobSet>,
    wanted: Vec<TargetSelection>,
    known: FxHashMap<i32, bool>,
    /// Number of container names when the cache was filled.
    names: u64,
}

impl GroupChoice {
    /// Creates the selection from `--cgroups`, `--container` and `--pod`.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, String> {
        let session = match &settings.target {
            Target::Cgroups(groups) => Some(groups.iter().map(|(name, _)| globset::escape(name)).collect::<Vec<_>>()),
            _ => None,
        };
        let globs = settings.get("cgroups").map(str::to_owned).or(session.map(|names| names.join(",")));
        let globs = globs.as_deref().map(globs_of).transpose()?;
        let mut wanted = wanted(settings)?;
        if let Target::Containers(session, _) = &settings.target {
            wanted.push((**session).clone());
        }
        let is_some = globs.is_some() || !wanted.is_empty();
        Ok(is_some.then(|| Self { globs, wanted, known: FxHashMap::default(), names: 0 }))
    }

    pub(crate) fn has(&mut self, tid: i32, session: &Session) -> bool {
        // A container's name may arrive after its first threads.
        let names = if self.wanted.is_empty() { 0 } else { session.container_names() };
        if self.known.len() >= MAX || names != self.names {
            self.known.clear();
            self.names = names;
        }
        let Self { globs, wanted, known, .. } = self;
        let is_chosen = |path: &str| {
            let container = || session.container_in(path);
            globs.as_ref().is_none_or(|globs| is_in(globs, path)) && wanted.iter().all(|one| one.is(&container()))
        };
        if let Some(known) = known.get(&tid) {
            return *known;
        }
        let path = session.cgroup_of(tid);
        let is_in = path.as_deref().is_some_and(is_chosen);
        // In a recording, a later sample of the thread may contain its cgroup; a live lookup is final.
        if path.is_some() || session.origin() == Origin::Live {
            known.insert(tid, is_in);
        }
        is_in
    }
}

fn globs_of(list: &str) -> Result<GlobSet, String> {
    let mut globs = GlobSetBuilder::new();
    for name in list.split(',') {
        let glob = GlobBuilder::new(name.trim().trim_matches('/')).literal_separator(true).build();
        globs.add(glob.map_err(|error| format!("--cgroups {name}: {}", error.kind()))?);
    }
    globs.build().map_err(|error| format!("--cgroups {list}: {error}"))
}

/// Returns the containers of `--container` and `--pod`.
pub(crate) fn wanted(settings: &Settings) -> Result<Vec<TargetSelection>, String> {
    let container = settings.get("container").map(TargetSelection::container);
    let pod = settings.get("pod").map(TargetSelection::pod);
    container.into_iter().chain(pod).map(|one| one.map_err(|error| error.to_string())).collect()
}

fn is_in(globs: &GlobSet, path: &str) -> bool {
    let path = path.trim_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| !path.is_empty() && globs.is_match(&path[..end]))
}

/// Returns the processes of `--exclude_pid`.
pub(crate) fn excluded(settings: &Settings) -> Result<Vec<i32>, String> {
    let list = settings.get("exclude_pid").map_or("", str::trim);
    let one = |word: &str| word.trim().parse().map_err(|_| format!("--exclude_pid {list}: invalid process id {word}"));
    if list.is_empty() { Ok(Vec::new()) } else { list.split(',').map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::session::containers::{Runtime, named};

    #[test]
    fn groups_are_chosen_with_those_below_them() {
        let mut settings = Settings::default();
        settings.set("cgroups", "web/*,/db");
        let globs = GroupChoice::of(&settings).expect("globs").expect("some").globs.expect("globs");
        let is = |path: &str| is_in(&globs, path);
        assert!(is("/web/a") && is("/web/a/b/c") && is("/db") && is("/db/x"));
        assert!(!is("/web") && !is("/") && !is("") && !is("/dbx"));
    }

    #[test]
    fn threads_are_chosen_by_containers_also_where_these_are_named_later() {
        let settings = |name: &'static str, value: &str| {
            let mut settings = Settings::default();
            settings.set(name, value);
            settings
        };
        let mut session = Session::new(Origin::Recorded);
        let root = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (tid, id, path) in [(7, 1, root), (8, 2, "/user.slice")] {
            session.apply(&Record::Cgroup { id, path: path.as_bytes() }, 1);
            session.task_in(tid, tid, id);
        }
        let mut by_id = GroupChoice::of(&settings("container", "0123456")).expect("a name").expect("some");
        let mut by_name = GroupChoice::of(&settings("container", "web*")).expect("a glob").expect("some");
        let mut by_pod = GroupChoice::of(&settings("pod", "shop/cart")).expect("a pod").expect("some");
        assert!(by_id.has(7, &session) && !by_id.has(8, &session) && !by_id.has(9, &session));
        session.task_in(9, 9, 1);
        assert!(by_id.has(9, &session), "its first sample told it");
        assert!(!by_name.has(7, &session) && !by_pod.has(7, &session), "their names are unknown");
        let names = ["0123456789ab", "web-1", "cart", "shop", ""];
        session.name_containers(named(root, Runtime::Docker, names).into_iter().collect());
        assert!(by_name.has(7, &session) && by_pod.has(7, &session) && !by_pod.has(8, &session));
        assert!(GroupChoice::of(&settings("container", "a[")).is_err());
    }
}
