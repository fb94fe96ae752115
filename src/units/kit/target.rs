//! The target of a unit: threads by id and by name.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::kinds::Task;
use crate::session::{Origin, Session, threads_of};
use crate::source::live::wanted::Wanted;

use super::{Context, Settings};

/// A choice of threads; all of them where nothing was chosen.
#[derive(Clone, Debug, Default)]
pub struct ThreadChoice {
    tids: FxHashSet<i32>,
    comms: Option<GlobSet>,
    groups: Option<GroupChoice>,
    /// Those that are left out.
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
            tids: settings.tasks.iter().copied().collect(),
            comms: comms.transpose()?,
            groups: GroupChoice::of(settings)?,
            without: without.collect(),
        })
    }

    /// Whether a thread is among them, and is one: idle tasks have one number, and so have those outside our PID
    /// namespace, of which no two records are known to be of the same.
    pub(crate) fn follows(&mut self, tid: i32, cx: &mut Context<'_>) -> bool {
        tid > 0 && self.has(tid, cx)
    }

    /// Whether a thread is among them. Those of this program are only where they are named.
    pub(crate) fn has(&mut self, tid: i32, cx: &mut Context<'_>) -> bool {
        (if self.tids.is_empty() { !cx.own.contains(&tid) } else { self.tids.contains(&tid) })
            && !self.without.contains(&tid)
            && self.comms.as_ref().is_none_or(|comms| comms.is_match(&*cx.comm(tid)))
            && self.groups.as_mut().is_none_or(|groups| groups.has(tid, cx.session))
    }

    /// Whether a thread is one of this program's that was not named.
    pub(crate) fn is_unasked(&self, tid: i32, cx: &Context<'_>) -> bool {
        cx.own.contains(&tid) && !self.tids.contains(&tid)
    }

    /// A child of one of them is one of them; of a process that is left out, its threads are.
    pub(crate) fn follow(&mut self, begins: &Task) {
        if self.tids.contains(&begins.ptid) {
            self.tids.insert(begins.tid);
        }
        if begins.pid == begins.ppid && self.without.contains(&begins.ptid) {
            self.without.insert(begins.tid);
        }
    }

    /// A thread gets another number: it stays chosen, or left out.
    pub(crate) fn renumber(&mut self, from: i32, to: i32) {
        for set in [&mut self.tids, &mut self.without] {
            if set.remove(&from) {
                set.insert(to);
            }
        }
    }
}

/// Threads whose groups are remembered; when there are more, all are asked for anew.
const MAX: usize = 1 << 17;

/// A choice of cgroups, each with those below it, and of containers.
#[derive(Clone, Debug)]
pub(crate) struct GroupChoice {
    globs: Option<GlobSet>,
    wanted: Vec<Wanted>,
    known: FxHashMap<i32, bool>,
    /// How often containers had been named when that was known.
    names: u64,
}

impl GroupChoice {
    /// Those of `--cgroups`, `--container` and `--pod`, if any.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, String> {
        let globs = settings.get("cgroups").map(globs_of).transpose()?;
        let wanted = wanted(settings)?;
        let is_some = globs.is_some() || !wanted.is_empty();
        Ok(is_some.then(|| Self { globs, wanted, known: FxHashMap::default(), names: 0 }))
    }

    /// Whether a thread is in one of them.
    pub(crate) fn has(&mut self, tid: i32, session: &Session) -> bool {
        // A container may be named after its first threads were met.
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
        // A sample of the thread may tell it yet, in a recording; of a running machine all was asked.
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

/// What `--container` and `--pod` name.
pub(crate) fn wanted(settings: &Settings) -> Result<Vec<Wanted>, String> {
    let container = settings.get("container").map(Wanted::container);
    let pod = settings.get("pod").map(Wanted::pod);
    container.into_iter().chain(pod).map(|one| one.map_err(|error| error.to_string())).collect()
}

fn is_in(globs: &GlobSet, path: &str) -> bool {
    let path = path.trim_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| !path.is_empty() && globs.is_match(&path[..end]))
}

/// The processes of `--exclude_pid`.
pub(crate) fn excluded(settings: &Settings) -> Result<Vec<i32>, String> {
    let list = settings.get("exclude_pid").map_or("", str::trim);
    let one = |word: &str| word.trim().parse().map_err(|_| format!("--exclude_pid {list}: {word} is no process id"));
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
        settings.set("cgroups", "web/*,/db").expect("an option");
        let globs = GroupChoice::of(&settings).expect("globs").expect("some").globs.expect("globs");
        let is = |path: &str| is_in(&globs, path);
        assert!(is("/web/a") && is("/web/a/b/c") && is("/db") && is("/db/x"));
        assert!(!is("/web") && !is("/") && !is("") && !is("/dbx"));
    }

    #[test]
    fn threads_are_chosen_by_containers_also_where_these_are_named_later() {
        let settings = |name: &str, value: &str| {
            let mut settings = Settings::default();
            settings.set(name, value).expect("an option");
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
        assert!(!by_name.has(7, &session) && !by_pod.has(7, &session), "nobody has told their names");
        let names = ["0123456789ab", "web-1", "cart", "shop", ""];
        session.name_containers(named(root, Runtime::Docker, names).into_iter().collect());
        assert!(by_name.has(7, &session) && by_pod.has(7, &session) && !by_pod.has(8, &session));
        assert!(GroupChoice::of(&settings("container", "a[")).is_err());
    }
}
