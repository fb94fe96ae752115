//! Builds a tree of names from stacks and applies edits.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::profile::{Acc, FrameId, NodeId, Segments, SharedSegments, SymId, Trie};
use crate::query::aggregate::Aggregate;
use crate::query::data::Data;
use crate::query::diff::go_exit;
use crate::query::tree::collapse::{collapse, joined};
use crate::query::tree::symbol_stacks::name_in;
use crate::session::{DsoKind, Session, Task};

use super::Edit;
use super::weights::Weights;

/// Not in the tree: before the focus.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The base frame of tasks without container, unit or cgroup.
const NO_CONTAINER: &str = "(no container)";

/// Names of symbols, and edits of stacks.
#[derive(Debug, Default)]
pub(super) struct Namer {
    pub(super) names: Vec<FrameName>,
    ids: FxHashMap<FrameName, u32>,
    /// The name of each symbol, and whether it is merged into its caller.
    of_sym: Vec<u32>,
    merged: Vec<bool>,
    focus: Option<Arc<str>>,
    recursion: bool,
    by_dso: bool,
    processes: bool,
    containers: bool,
    all_tasks: bool,
    /// Whether the outermost function of goroutines is left out.
    skips_go_exit: bool,
    pub(super) edits: Vec<Edit>,
}

fn arguments(cmdline: &str) -> Option<&str> {
    cmdline.split_once(' ').map(|(_, arguments)| arguments.trim()).filter(|arguments| !arguments.is_empty())
}

/// Returns the PID in the base frame of a process.
pub(crate) fn process_of(ground: &str) -> Option<i32> {
    let heads = ground.match_indices(": ").map(|(at, _)| &ground[..at]);
    heads.chain([ground]).find_map(|head| head.rsplit(' ').next()?.parse().ok())
}

impl Namer {
    pub(super) fn new(edits: &[Edit]) -> Self {
        let focus = edits.iter().rev().find_map(|e| match e {
            Edit::Focus(name) => Some(name.clone()),
            _ => None,
        });
        Self {
            focus,
            recursion: edits.contains(&Edit::CollapseRecursion),
            by_dso: edits.contains(&Edit::ByDso),
            processes: edits.contains(&Edit::Processes),
            containers: edits.contains(&Edit::Containers),
            all_tasks: edits.contains(&Edit::AllTasks),
            edits: edits.to_vec(),
            ..Self::default()
        }
    }

    /// Leaves out the outermost function of goroutines if only one of two profiles has it.
    pub(super) fn align(&mut self, new: Data<'_>, old: Data<'_>) {
        self.skips_go_exit = go_exit::is_missing(new, old);
    }

    /// Adds an aggregate's stacks to the tree, also another profile's; returns the weight that ends in each node.
    pub(super) fn add(&mut self, data: Data<'_>, fold: &Aggregate, trie: &mut Trie) -> Weights {
        self.of_sym.clear();
        let weights = fold.by_site();
        let sites = data.profile.sites.all();
        let mut walk = Walk::new(data);
        let mut own = Weights::default();
        // There are seldom more names under callers than addresses under callers.
        own.reserve(data.profile.trie.len() + data.profile.trie.len() / 32);
        for (ground, list) in self.by_ground(data, &weights) {
            walk.next_thread();
            let start = self.thread(trie, ground);
            for site in list {
                let at = self.walk(&mut walk, trie, sites[site as usize].stack.0, start);
                if at != NOWHERE {
                    own.resize(trie.len());
                    own.add(at, weights[site as usize]);
                }
            }
        }
        own.resize(trie.len());
        own
    }

    /// Returns the base frame of a task's stacks.
    pub(super) fn ground(&self, session: &Session, task: &Task) -> Arc<str> {
        if self.containers {
            let words = session.container(task).words();
            return if words.is_empty() { NO_CONTAINER.into() } else { words.into() };
        }
        match (self.all_tasks, self.processes) {
            (true, _) => "all tasks".into(),
            (false, true) => match arguments(&task.cmdline) {
                Some(arguments) => format!("{} {}: {arguments}", task.program, task.pid).into(),
                None => format!("{} {}", task.program, task.pid).into(),
            },
            (false, false) => task.program.clone(),
        }
    }

    /// Returns the sites with weight by base frame, sorted by it.
    fn by_ground(&self, data: Data<'_>, weights: &[Acc]) -> Vec<(Arc<str>, Vec<u32>)> {
        let of_task: Vec<Arc<str>> = data.session.tasks().iter().map(|task| self.ground(data.session, task)).collect();
        let mut grounds: Vec<&Arc<str>> = of_task.iter().collect();
        grounds.sort_unstable();
        grounds.dedup();
        let place: Vec<usize> = of_task.iter().map(|ground| grounds.binary_search(&ground).unwrap_or(0)).collect();
        let mut lists = vec![Vec::new(); grounds.len()];
        let sites = (0u32..).zip(data.profile.sites.all().iter()).zip(weights).filter(|(_, acc)| !acc.is_zero());
        sites.for_each(|((id, site), _)| lists[place[site.task.0 as usize]].push(id));
        grounds.into_iter().cloned().zip(lists).filter(|(_, list)| !list.is_empty()).collect()
    }

    /// Returns the node of a thread's name.
    pub(super) fn thread(&mut self, trie: &mut Trie, comm: Arc<str>) -> u32 {
        let text = self.name(FrameName { text: comm, kind: DsoKind::Unknown, dso: "".into() });
        trie.child(NodeId::ROOT, FrameId(text)).0
    }

    /// Returns the node where stacks of a thread begin.
    pub(super) fn begin(&self, thread: u32) -> u32 {
        if self.focus.is_some() { NOWHERE } else { thread }
    }

    /// Returns the node where a thread's stack ends. Walks only the part that was not walked before.
    fn walk(&mut self, walk: &mut Walk<'_>, trie: &mut Trie, stack: u32, start: u32) -> u32 {
        let mut n = stack;
        while n != 0 && walk.stamp[n as usize] != walk.thread {
            walk.path.push(n);
            n = walk.parents[n as usize];
        }
        let mut at = if n == 0 { self.begin(start) } else { walk.place[n as usize] };
        while let Some(n) = walk.path.pop() {
            let frame = walk.frames[n as usize];
            at = self.frame(
                walk.data,
                trie,
                (at, start),
                walk.syms[frame as usize],
                walk.data.profile.frames.inlined(frame),
            );
            (walk.place[n as usize], walk.stamp[n as usize]) = (at, walk.thread);
        }
        at
    }

    /// Returns the node of a frame and its inlined functions below the caller's node. `start` is the thread's node.
    pub(super) fn frame(
        &mut self,
        data: Data<'_>,
        trie: &mut Trie,
        (mut at, start): (u32, u32),
        sym: u32,
        inlined: &[u32],
    ) -> u32 {
        for sym in std::iter::once(&sym).chain(inlined) {
            let name = self.name_of(data, *sym);
            at = self.step(trie, at, start, name);
        }
        at
    }

    pub(super) fn name(&mut self, name: FrameName) -> u32 {
        let next = self.names.len() as u32;
        let id = *self.ids.entry(name.clone()).or_insert(next);
        if id == next {
            let gone = self.edits.iter().any(|edit| match edit {
                Edit::MergeFunction(text) => **text == *name.text,
                Edit::MergeDso(dso) => **dso == *name.dso,
                _ => false,
            });
            self.merged.push(gone || self.skips_go_exit && *name.text == *go_exit::GO_EXIT);
            self.names.push(name);
        }
        id
    }

    fn name_of(&mut self, data: Data<'_>, sym: u32) -> u32 {
        if self.of_sym.len() <= sym as usize {
            self.of_sym.resize(data.profile.frames.n_syms(), u32::MAX);
        }
        if self.of_sym[sym as usize] == u32::MAX {
            let mut of = name_in(data.profile, SymId(sym));
            if self.by_dso {
                of.text = of.dso.clone();
            }
            self.of_sym[sym as usize] = self.name(of);
        }
        self.of_sym[sym as usize]
    }

    fn step(&mut self, trie: &mut Trie, at: u32, start: u32, name: u32) -> u32 {
        let at = match (&self.focus, at) {
            (Some(focus), NOWHERE) if self.names[name as usize].text == *focus => start,
            (_, NOWHERE) => return NOWHERE,
            _ => at,
        };
        let repeated = (self.recursion || self.by_dso) && trie.columns().1[at as usize] == name;
        if self.merged[name as usize] || repeated {
            return at;
        }
        trie.child(NodeId(at), FrameId(name)).0
    }

    pub(super) fn collapse(&mut self, trie: &mut Trie, sides: &mut [&mut Weights]) {
        let (parents, names): (Vec<u32>, Vec<u32>) = {
            let (parents, names) = trie.columns();
            (parents.iter().copied().collect(), names.iter().copied().collect())
        };
        let out = collapse(&parents, |n| sides.iter().any(|side| !side.get(n).is_zero()));
        let mut whole = Trie::default();
        let mut place = vec![NodeId::ROOT; out.parent.len()];
        for (node, chain) in out.chain.iter().enumerate().skip(1) {
            let name = self.chain_name(&names, chain);
            place[node] = whole.child(place[out.parent[node] as usize], FrameId(name));
        }
        for side in sides {
            let mut moved = Weights::default();
            moved.resize(whole.len());
            (0..).zip(&out.node_of).for_each(|(node, at)| moved.add(place[*at as usize].0, side.get(node)));
            **side = moved;
        }
        *trie = whole;
    }

    /// Returns the name of a merged chain. It is that of its last node, with the others before it.
    fn chain_name(&mut self, name: &[u32], chain: &[u32]) -> u32 {
        match chain {
            [] => 0,
            [one] => name[*one as usize],
            [.., last] => {
                let texts: Vec<&str> = chain.iter().map(|n| &*self.names[name[*n as usize] as usize].text).collect();
                let text = joined(&texts).into();
                let last = &self.names[name[*last as usize] as usize];
                let of = FrameName { text, kind: last.kind, dso: last.dso.clone() };
                self.name(of)
            }
        }
    }
}

/// The stacks of a profile during the walk. `place` has the node of each stack for the thread in `stamp`; 0 is unused.
struct Walk<'a> {
    data: Data<'a>,
    parents: &'a SharedSegments<u32>,
    frames: &'a SharedSegments<u32>,
    syms: &'a Segments<u32>,
    place: Vec<u32>,
    stamp: Vec<u8>,
    thread: u8,
    path: Vec<u32>,
}

impl<'a> Walk<'a> {
    fn new(data: Data<'a>) -> Self {
        let (parents, frames) = data.profile.trie.columns();
        let n = parents.len();
        let syms = data.profile.frames.syms();
        Self { data, parents, frames, syms, place: vec![0; n], stamp: vec![0; n], thread: 0, path: Vec::new() }
    }

    fn next_thread(&mut self) {
        self.thread = self.thread.wrapping_add(1);
        if self.thread == 0 {
            // Numbers start again, so old stamps are cleared.
            self.stamp.fill(0);
            self.thread = 1;
        }
    }
}

/// Converts weights that end in each node to weights that go through it.
/// A node's own weight is the rest without its children's, so it is not stored.
pub(super) fn totals(trie: &Trie, own: Weights) -> Weights {
    let mut total = own;
    total.resize(trie.len());
    for i in (1..trie.len() as u32).rev() {
        total.add(trie.parent(NodeId(i)).0, total.get(i));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_towers_name_tells_its_process() {
        for (ground, pid) in [
            ("java 4344", Some(4344)),
            ("java 4344: -jar billing.jar: 7", Some(4344)),
            ("nginx: worker 12: -g daemon off;", Some(12)),
            ("java", None),
        ] {
            assert_eq!(process_of(ground), pid, "{ground}");
        }
        assert_eq!((arguments("java -jar a.jar"), arguments("java"), arguments("")), (Some("-jar a.jar"), None, None));
    }
}
