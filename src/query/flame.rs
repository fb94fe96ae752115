//! The profile as a tree of names, for flame graphs: comm, then functions from the root on, each with
//! its weight; and the edits that change stacks.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::{Acc, FrameId, NodeId, SymId, Trie};
use crate::session::DsoKind;

use super::Data;
use super::collapse::{collapse, joined};
use super::context::{IRQ, SOFTIRQ, is_system_vector};
use super::diff::{Per, Side};
use super::fold::Fold;
use super::named::{Name, name};

/// A change to every stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Stacks begin at this function; those without it are left out.
    Focus(Arc<str>),
    /// This function's time counts for its caller.
    MergeFunction(Arc<str>),
    /// All of a DSO's functions count for their callers.
    MergeDso(Arc<str>),
    /// A function that calls itself directly is one frame.
    CollapseRecursion,
    /// Frames that have one child only and no time of their own are drawn as one with it.
    CollapseChains,
    /// Frames are DSOs instead of functions.
    ByDso,
}

impl Edit {
    /// As a command, for the list of edits.
    pub fn words(&self) -> String {
        match self {
            Self::Focus(name) => format!("focus {name}"),
            Self::MergeFunction(name) => format!("merge {name}"),
            Self::MergeDso(name) => format!("merge-dso {name}"),
            Self::CollapseRecursion => "recursion".into(),
            Self::CollapseChains => "chains".into(),
            Self::ByDso => "by-dso".into(),
        }
    }
}

/// What kind of code a frame is, by its file and by what it runs inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Thread,
    Kernel,
    Softirq,
    Irq,
    User,
    Library,
    Jit,
    Unknown,
}

impl Class {
    /// The letter that says it without colour.
    pub fn letter(self) -> char {
        match self {
            Self::Thread => '#',
            Self::Kernel => 'k',
            Self::Softirq => 's',
            Self::Irq => 'h',
            Self::User => 'u',
            Self::Library => 'l',
            Self::Jit => 'j',
            Self::Unknown => '?',
        }
    }
}

/// A weight now, and in what it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Both {
    pub new: Acc,
    /// Nothing when there is no comparison.
    pub old: Acc,
}

impl Both {
    pub fn is_zero(&self) -> bool {
        self.new.is_zero() && self.old.is_zero()
    }

    /// What it is now of what a whole is now, in percent.
    pub fn percent_of(&self, whole: &Self) -> f64 {
        self.new.percent_of(&whole.new)
    }
}

impl std::ops::AddAssign for Both {
    fn add_assign(&mut self, other: Self) {
        self.new += other.new;
        self.old += other.old;
    }
}

impl std::iter::Sum for Both {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |mut sum, both| {
            sum += both;
            sum
        })
    }
}

/// A weight for each node, in twelve bytes: a tree may have millions.
#[derive(Debug, Default)]
struct Weights {
    samples: Vec<u32>,
    period: Vec<u64>,
}

impl Weights {
    fn resize(&mut self, n: usize) {
        self.samples.resize(n, 0);
        self.period.resize(n, 0);
    }

    fn reserve(&mut self, n: usize) {
        self.samples.reserve_exact(n);
        self.period.reserve_exact(n);
    }

    fn get(&self, node: u32) -> Acc {
        let at = node as usize;
        match (self.samples.get(at), self.period.get(at)) {
            (Some(samples), Some(period)) => Acc { samples: u64::from(*samples), period: *period },
            _ => Acc::default(),
        }
    }

    fn add(&mut self, node: u32, acc: Acc) {
        let at = node as usize;
        self.samples[at] = self.samples[at].saturating_add(u32::try_from(acc.samples).unwrap_or(u32::MAX));
        self.period[at] = self.period[at].wrapping_add(acc.period);
    }
}

/// What a tree is compared with: the same nodes' weights there.
#[derive(Debug)]
struct Then {
    total: Weights,
    per: Per,
    /// By what weights of now and then are multiplied to become widths.
    scale: (u64, u64),
    /// How many seconds it was then and is now.
    seconds: (f64, f64),
}

/// The tree. Node 0 is the root; a parent's id is less than its children's.
#[derive(Debug, Default)]
pub struct FlameTree {
    pub names: Vec<Name>,
    /// Where each name stands in the alphabet.
    rank: Vec<u32>,
    parent: Vec<u32>,
    name: Vec<u32>,
    total: Weights,
    then: Option<Then>,
    class: Vec<Class>,
    starts: Vec<u32>,
    children: Vec<u32>,
}

/// No place in the tree: before the focus.
const NOWHERE: u32 = u32::MAX;

struct Builder<'a> {
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
    fn new(data: Data<'a>, edits: &'a [Edit]) -> Self {
        let focus = edits.iter().rev().find_map(|e| match e {
            Edit::Focus(name) => Some(name.clone()),
            _ => None,
        });
        Self {
            data,
            // Names under callers are seldom more than addresses under callers.
            trie: Trie::with_capacity(data.profile.trie.len() + data.profile.trie.len() / 32),
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
    fn turn_to<'b>(self, data: Data<'b>) -> Builder<'b>
    where
        'a: 'b,
    {
        Builder { data, of_sym: vec![u32::MAX; data.profile.frames.n_syms()], ..self }
    }

    /// Walks all stacks of a fold into the tree; what ends in each node comes back.
    fn add(&mut self, fold: &Fold) -> Weights {
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
            let name = self.name_of(walk.syms[walk.frames[n as usize] as usize]);
            at = self.step(at, start, name);
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

    fn finish(mut self, mut own: Weights, mut then: Option<Before>) -> FlameTree {
        let (mut parent, mut name) = std::mem::take(&mut self.trie).into_columns();
        if self.edits.contains(&Edit::CollapseChains) {
            self.collapse(&mut parent, &mut name, &mut own, then.as_mut().map(|then| &mut then.own));
        }
        let total = totals(&parent, own);
        let then = then.map(|Before { own, per, scale, seconds }| {
            let total = totals(&parent, own);
            Then { total, per, scale, seconds }
        });
        let mut order: Vec<u32> = (0..self.names.len() as u32).collect();
        let text = |i: &u32| (&self.names[*i as usize].text, &self.names[*i as usize].dso);
        order.sort_by(|x, y| text(x).cmp(&text(y)));
        let mut rank = vec![0; order.len()];
        (0..).zip(order).for_each(|(i, name)| rank[name as usize] = i);
        let mut tree = FlameTree { names: self.names, rank, parent, name, total, then, ..FlameTree::default() };
        tree.classify();
        tree.link();
        tree
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

/// The profile's stacks while they are walked: where each of them leads, for the thread with the
/// number in `stamp`; 0 is nobody's.
struct Walk<'a> {
    parents: &'a [u32],
    frames: &'a [u32],
    syms: &'a [u32],
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
    let sites = || {
        let all = (0u32..).zip(data.profile.sites.all()).zip(weights);
        all.filter(|(_, acc)| !acc.is_zero()).map(|((id, site), _)| (id, of_task[site.task.0 as usize]))
    };
    let mut counts = vec![0; comms.len()];
    sites().for_each(|(_, comm)| counts[comm] += 1);
    let mut lists: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
    sites().for_each(|(id, comm)| lists[comm].push(id));
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

/// Whole factors that make two sides comparable, small enough that no product overflows.
fn scale(new: &Side, old: &Side, per: Per) -> (u64, u64) {
    let (a, b) = match per {
        Per::Total => (new.total.period, old.total.period),
        Per::Second => ((new.seconds * 1e3) as u64, (old.seconds * 1e3) as u64),
        Per::Nothing => (1, 1),
    };
    let (a, b) = (a.max(1), b.max(1));
    let shift = 32u32.saturating_sub(a.max(b).leading_zeros());
    ((b >> shift).max(1), (a >> shift).max(1))
}

/// One side of a tree: its samples, and how they compare.
#[derive(Clone, Copy)]
pub struct Stacks<'a> {
    pub data: Data<'a>,
    pub fold: &'a Fold,
    pub side: Side,
}

/// What a tree is compared with, before its weights are added up.
struct Before {
    own: Weights,
    per: Per,
    scale: (u64, u64),
    seconds: (f64, f64),
}

impl FlameTree {
    /// Builds the tree of a fold's samples.
    pub fn build(data: Data<'_>, fold: &Fold, edits: &[Edit]) -> Self {
        let mut b = Builder::new(data, edits);
        let own = b.add(fold);
        b.finish(own, None)
    }

    /// Builds one tree of two folds: frames of the same name under the same caller are one node.
    pub fn compare(new: Stacks<'_>, old: Stacks<'_>, per: Per, edits: &[Edit]) -> Self {
        let mut b = Builder::new(new.data, edits);
        let now = b.add(new.fold);
        let mut b = b.turn_to(old.data);
        let then = b.add(old.fold);
        let seconds = (old.side.seconds, new.side.seconds);
        b.finish(now, Some(Before { own: then, per, scale: scale(&new.side, &old.side, per), seconds }))
    }

    fn classify(&mut self) {
        let by_name: Vec<Class> = self.names.iter().map(class_of).collect();
        let enters = |list: &[&str]| -> Vec<bool> {
            self.names.iter().map(|n| n.text.split(" › ").any(|part| list.contains(&part))).collect()
        };
        let (soft, hard) = (enters(SOFTIRQ), enters(IRQ));
        let vector = |i: u32| is_system_vector(&self.names[i as usize].text);
        self.class = vec![Class::Thread; self.parent.len()];
        for i in 1..self.parent.len() {
            let (up, name) = (self.parent[i] as usize, self.name[i]);
            if up == 0 {
                continue;
            }
            let own = by_name[name as usize];
            self.class[i] = match self.class[up] {
                _ if own != Class::Kernel => own,
                _ if soft[name as usize] => Class::Softirq,
                Class::Softirq => Class::Softirq,
                _ if hard[name as usize] || vector(name) => Class::Irq,
                Class::Irq => Class::Irq,
                _ => own,
            };
        }
    }

    /// Lists each node's children, the heaviest first.
    fn link(&mut self) {
        let n = self.parent.len();
        let mut starts = vec![0u32; n + 1];
        (1..n).for_each(|i| starts[self.parent[i] as usize] += 1);
        (0..n).for_each(|i| starts[i + 1] += starts[i]);
        // Each parent's part is filled from its end, so that its start is where it belongs at last.
        let mut children = vec![0u32; n.saturating_sub(1)];
        for i in (1..n as u32).rev() {
            let slot = &mut starts[self.parent[i as usize] as usize];
            *slot -= 1;
            children[*slot as usize] = i;
        }
        for i in 0..n {
            let part = &mut children[starts[i] as usize..starts[i + 1] as usize];
            if part.len() > 1 {
                part.sort_unstable_by_key(|c| {
                    (std::cmp::Reverse(self.width(self.total(*c))), self.rank[self.name[*c as usize] as usize])
                });
            }
        }
        (self.starts, self.children) = (starts, children);
    }

    pub fn len(&self) -> usize {
        self.parent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }

    pub fn children(&self, node: u32) -> &[u32] {
        &self.children[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    pub fn parent(&self, node: u32) -> u32 {
        self.parent[node as usize]
    }

    /// Index into `names`; the root has none.
    pub fn name(&self, node: u32) -> u32 {
        self.name[node as usize]
    }

    pub fn class(&self, node: u32) -> Class {
        self.class[node as usize]
    }

    /// What ends in a node, now and then: what its children leave of it.
    pub fn own(&self, node: u32) -> Both {
        let left = |total: &Weights| {
            let mut left = total.get(node);
            self.children(node).iter().for_each(|child| left -= total.get(*child));
            left
        };
        let old = self.then.as_ref().map_or_else(Acc::default, |then| left(&then.total));
        Both { new: left(&self.total), old }
    }

    /// What goes through a node, now and then.
    pub fn total(&self, node: u32) -> Both {
        let old = self.then.as_ref().map_or_else(Acc::default, |then| then.total.get(node));
        Both { new: self.total.get(node), old }
    }

    /// How wide a weight is drawn: of a comparison, both sides together.
    pub fn width(&self, both: Both) -> u128 {
        let (new, old) = self.scale();
        u128::from(both.new.period) * u128::from(new) + u128::from(both.old.period) * u128::from(old)
    }

    /// By what weights of now and then are multiplied to become widths.
    pub fn scale(&self) -> (u64, u64) {
        self.then.as_ref().map_or((1, 0), |then| then.scale)
    }

    /// How many seconds it was then and is now.
    pub fn seconds(&self) -> (f64, f64) {
        self.then.as_ref().map_or((0.0, 0.0), |then| then.seconds)
    }

    /// How sides are compared, if they are.
    pub fn per(&self) -> Option<Per> {
        self.then.as_ref().map(|then| then.per)
    }

    /// Where a name stands in the alphabet.
    pub fn rank(&self, name: u32) -> u32 {
        self.rank[name as usize]
    }

    /// Weight of all stacks through a function that matches, each stack counted once, and how many
    /// frames match.
    pub fn share(&self, matches: &[bool]) -> (Both, usize) {
        let mut inside = vec![false; self.len()];
        let (mut sum, mut count) = (Both::default(), 0);
        for i in 1..self.len() {
            let up = inside[self.parent[i] as usize];
            let own = matches[self.name[i] as usize];
            count += usize::from(own);
            if own && !up {
                sum += self.total(i as u32);
            }
            inside[i] = up || own;
        }
        (sum, count)
    }
}

fn class_of(name: &Name) -> Class {
    match name.kind {
        kind if kind.is_kernel() => Class::Kernel,
        DsoKind::File | DsoKind::Vdso if name.dso.contains(".so") || name.kind == DsoKind::Vdso => Class::Library,
        DsoKind::File => Class::User,
        DsoKind::Anon => Class::Jit,
        _ => Class::Unknown,
    }
}
