//! The target of a unit: threads by id and by name.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::kinds::Task;
use crate::session::{Session, threads_of};

use super::{Context, Settings};

/// A choice of threads; all of them where nothing was chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadChoice {
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

    /// Whether a thread is among them, and is one: idle tasks have one number, and so have those outside our PID namespace,
    /// of which no two records are known to be of the same.
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
}

/// Threads whose groups are remembered; when there are more, all are asked for anew.
const MAX: usize = 1 << 17;

/// A choice of cgroups, each with those below it.
#[derive(Clone, Debug)]
pub(crate) struct GroupChoice {
    globs: GlobSet,
    known: FxHashMap<i32, bool>,
}

impl GroupChoice {
    /// Those of `--cgroups`, if any.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, String> {
        let Some(list) = settings.get("cgroups") else { return Ok(None) };
        let mut globs = GlobSetBuilder::new();
        for name in list.split(',') {
            let glob = GlobBuilder::new(name.trim().trim_matches('/')).literal_separator(true).build();
            globs.add(glob.map_err(|error| format!("--cgroups {name}: {}", error.kind()))?);
        }
        let globs = globs.build().map_err(|error| format!("--cgroups {list}: {error}"))?;
        Ok(Some(Self { globs, known: FxHashMap::default() }))
    }

    /// Whether a thread is in one of them.
    pub(crate) fn has(&mut self, tid: i32, session: &Session) -> bool {
        if self.known.len() >= MAX {
            self.known.clear();
        }
        let globs = &self.globs;
        *self.known.entry(tid).or_insert_with(|| session.cgroup_of(tid).is_some_and(|path| is_in(globs, &path)))
    }
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

    #[test]
    fn groups_are_chosen_with_those_below_them() {
        let mut settings = Settings::default();
        settings.set("cgroups", "web/*,/db").expect("an option");
        let globs = GroupChoice::of(&settings).expect("globs").expect("some").globs;
        let is = |path: &str| is_in(&globs, path);
        assert!(is("/web/a") && is("/web/a/b/c") && is("/db") && is("/db/x"));
        assert!(!is("/web") && !is("/") && !is("") && !is("/dbx"));
    }
}
