//! Builds a tree: stacks become names under names, edited on the way.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::{Acc, FrameId, NodeId, Segments, SymId, Trie};
use crate::query::Data;
use crate::query::collapse::{collapse, joined};
use crate::query::diff::Per;
use crate::query::fold::Fold;
use crate::query::named::{Name, name};
use crate::session::DsoKind;

use super::weights::Weights;
use super::{Edit, FlameTree, Then};

/// No place in the tree: before the focus.
const NOWHERE: u32 = u32::MAX;

pub(super) struct Builder<'a> {
    data: Data<'a>,
    trie: Trie,
    names: Vec<Name>,
    ids: FxHashMap<Name, u32>,
    /// The name of each symbol, and whether it is merged away.
    of_sym: Vec<u32>,
    merged: Vec<bool>,
    focus: Option<Arc<str>>,
    recursion: bool,
    by_dso: bool,
    edits: &'a [Edit],
}

impl<'a> Builder<'a> {
    pub(super) fn new(data: Data<'a>, edits: &'a [Edit]) -> Self {
        let focus = edits.iter().rev().find_map(|e| match e {
            Edit::Focus(name) => Some(name.clone()),
            _ => None,
        });
        Self {
            data,
            trie: Trie::default(),
            names: Vec::new(),
            ids: FxHashMap::default(),
            of_sym: vec![u32::MAX; data.profile.frames.n_syms()],
            merged: Vec::new(),
            focus,
            recursion: edits.contains(&Edit::CollapseRecursion),
            by_dso: edits.contains(&Edit::ByDso),
            edits,
        }
    }

    /// Goes on with another profile.
    pub(super) fn turn_to<'b>(self, data: Data<'b>) -> Builder<'b>
    where
        'a: 'b,
    {
        Builder { data, of_sym: vec![u32::MAX; data.profile.frames.n_syms()], ..self }
    }

    /// Walks all stacks of a fold into the tree; what ends in each node comes back.
    pub(super) fn add(&mut self, fold: &Fold) -> Weights {
        let data = self.data;
        let weights = fold.by_site();
        let sites = data.profile.sites.all();
        let mut walk = Walk::new(data);
        let mut own = Weights::default();
        own.reserve(data.profile.trie.len() + data.profile.trie.len() / 32);
        for (comm, list) in by_comm(data, &weights) {
            walk.next_thread();
            let text = self.name(Name { text: comm, kind: DsoKind::Unknown, dso: "".into() });
            let start = self.trie.child(NodeId::ROOT, FrameId(text)).0;
            for site in list {
                let at = self.walk(&mut walk, sites[site as usize].stack.0, start);
                if at != NOWHERE {
                    own.resize(self.trie.len());
                    own.add(at, weights[site as usize]);
                }
            }
        }
        own.resize(self.trie.len());
        own
    }

    /// Where a stack of a thread ends; of a stack that was seen before, only what is new is walked.
    fn walk(&mut self, walk: &mut Walk<'_>, stack: u32, start: u32) -> u32 {
        let mut n = stack;
        while n != 0 && walk.stamp[n as usize] != walk.thread {
            walk.path.push(n);
            n = walk.parents[n as usize];
        }
        let begin = if self.focus.is_some() { NOWHERE } else { start };
        let mut at = if n == 0 { begin } else { walk.place[n as usize] };
        while let Some(n) = walk.path.pop() {
            let frame = walk.frames[n as usize];
            let name = self.name_of(walk.syms[frame as usize]);
            at = self.step(at, start, name);
            for sym in self.data.profile.frames.inlined(frame) {
                let name = self.name_of(*sym);
                at = self.step(at, start, name);
            }
            (walk.place[n as usize], walk.stamp[n as usize]) = (at, walk.thread);
        }
        at
    }

    fn collapse(&mut self, parent: &mut Vec<u32>, name: &mut Vec<u32>, own: &mut Weights, then: Option<&mut Weights>) {
        let mut sides: Vec<&mut Weights> = std::iter::once(own).chain(then).collect();
        let stops: Vec<bool> =
            (0..parent.len()).map(|n| sides.iter().any(|side| !side.get(n as u32).is_zero())).collect();
        let out = collapse(parent, |n| stops[n as usize]);
        let names: Vec<u32> = out.chain.iter().map(|chain| self.chain_name(name, chain)).collect();
        for side in &mut sides {
            let mut moved = Weights::default();
            moved.resize(out.parent.len());
            (0..).zip(&out.node_of).for_each(|(node, at)| moved.add(*at, side.get(node)));
            **side = moved;
        }
        (*parent, *name) = (out.parent, names);
    }

    /// The name of a chain of nodes: its last one's, with the others before it.
    fn chain_name(&mut self, name: &[u32], chain: &[u32]) -> u32 {
        match chain {
            [] => 0,
            [one] => name[*one as usize],
            [.., last] => {
                let texts: Vec<&str> = chain.iter().map(|n| &*self.names[name[*n as usize] as usize].text).collect();
                let text = joined(&texts).into();
                let last = &self.names[name[*last as usize] as usize];
                let of = Name { text, kind: last.kind, dso: last.dso.clone() };
                self.name(of)
            }
        }
    }

    pub(super) fn finish(mut self, mut own: Weights, mut then: Option<Before>) -> FlameTree {
        let (mut parent, mut name) = std::mem::take(&mut self.trie).into_columns();
        if self.edits.contains(&Edit::CollapseChains) {
            self.collapse(&mut parent, &mut name, &mut own, then.as_mut().map(|then| &mut then.own));
        }
        let total = totals(&parent, own);
        let then = then.map(|Before { own, per, scale, seconds }| {
            let total = totals(&parent, own);
            Then { total, per, scale, seconds }
        });
        assemble(self.names, parent, name, total, then)
    }

    fn name(&mut self, name: Name) -> u32 {
        let next = self.names.len() as u32;
        let id = *self.ids.entry(name.clone()).or_insert(next);
        if id == next {
            let gone = self.edits.iter().any(|edit| match edit {
                Edit::MergeFunction(text) => **text == *name.text,
                Edit::MergeDso(dso) => **dso == *name.dso,
                _ => false,
            });
            self.merged.push(gone);
            self.names.push(name);
        }
        id
    }

    fn name_of(&mut self, sym: u32) -> u32 {
        if self.of_sym[sym as usize] == u32::MAX {
            let mut of = name(self.data, SymId(sym));
            if self.by_dso {
                of.text = of.dso.clone();
            }
            self.of_sym[sym as usize] = self.name(of);
        }
        self.of_sym[sym as usize]
    }

    /// Where a frame leads from its caller's place; `start` is the thread's node.
    fn step(&mut self, at: u32, start: u32, name: u32) -> u32 {
        let at = match (&self.focus, at) {
            (Some(focus), NOWHERE) if self.names[name as usize].text == *focus => start,
            (_, NOWHERE) => return NOWHERE,
            _ => at,
        };
        let repeated = (self.recursion || self.by_dso) && self.trie.columns().1[at as usize] == name;
        if self.merged[name as usize] || repeated {
            return at;
        }
        self.trie.child(NodeId(at), FrameId(name)).0
    }
}

fn assemble(names: Vec<Name>, parent: Vec<u32>, name: Vec<u32>, total: Weights, then: Option<Then>) -> FlameTree {
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    let text = |i: &u32| (&names[*i as usize].text, &names[*i as usize].dso);
    order.sort_by(|x, y| text(x).cmp(&text(y)));
    let mut rank = vec![0; order.len()];
    (0..).zip(order).for_each(|(i, name)| rank[name as usize] = i);
    let mut tree = FlameTree { names, rank, parent, name, total, then, ..FlameTree::default() };
    tree.classify();
    tree.link();
    tree
}

/// The tree of stacks whose frames are names, root first.
pub(super) fn of_names<'a>(stacks: impl Iterator<Item = (&'a [Name], Acc)>) -> FlameTree {
    let (mut names, mut ids): (Vec<Name>, FxHashMap<Name, u32>) = (Vec::new(), FxHashMap::default());
    let (mut trie, mut own) = (Trie::default(), Weights::default());
    for (frames, acc) in stacks {
        let mut node = NodeId::ROOT;
        for frame in frames {
            let next = names.len() as u32;
            let id = *ids.entry(frame.clone()).or_insert(next);
            if id == next {
                names.push(frame.clone());
            }
            node = trie.child(node, FrameId(id));
        }
        own.resize(trie.len());
        own.add(node.0, acc);
    }
    own.resize(trie.len());
    let (parent, name) = trie.into_columns();
    let total = totals(&parent, own);
    assemble(names, parent, name, total, None)
}

/// The profile's stacks while they are walked: where each of them leads, for the thread with the
/// number in `stamp`; 0 is nobody's.
struct Walk<'a> {
    parents: &'a Segments<u32>,
    frames: &'a Segments<u32>,
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
        Self { parents, frames, syms, place: vec![0; n], stamp: vec![0; n], thread: 0, path: Vec::new() }
    }

    fn next_thread(&mut self) {
        self.thread = self.thread.wrapping_add(1);
        if self.thread == 0 {
            // Numbers begin anew, so none of the old ones may be left.
            self.stamp.fill(0);
            self.thread = 1;
        }
    }
}

/// The sites with weight by comm, in the order of comms.
fn by_comm(data: Data<'_>, weights: &[Acc]) -> Vec<(Arc<str>, Vec<u32>)> {
    let tasks = data.session.tasks();
    let mut comms: Vec<&Arc<str>> = tasks.iter().map(|t| &t.comm).collect();
    comms.sort_unstable();
    comms.dedup();
    let place = |comm: &Arc<str>| comms.binary_search(&comm).unwrap_or(0);
    let of_task: Vec<usize> = tasks.iter().map(|t| place(&t.comm)).collect();
    let mut lists = vec![Vec::new(); comms.len()];
    let sites = (0u32..).zip(data.profile.sites.all().iter()).zip(weights).filter(|(_, acc)| !acc.is_zero());
    sites.for_each(|((id, site), _)| lists[of_task[site.task.0 as usize]].push(id));
    let some = comms.into_iter().cloned().zip(lists).filter(|(_, list)| !list.is_empty());
    some.collect()
}

/// Makes what ends in each node what goes through it. A node's own is what its children leave of it,
/// and need not be kept.
fn totals(parent: &[u32], own: Weights) -> Weights {
    let mut total = own;
    total.resize(parent.len());
    for i in (1..parent.len()).rev() {
        total.add(parent[i], total.get(i as u32));
    }
    total
}

/// What a tree is compared with, before its weights are added up.
pub(super) struct Before {
    pub(super) own: Weights,
    pub(super) per: Per,
    pub(super) scale: (u64, u64),
    pub(super) seconds: (f64, f64),
}
