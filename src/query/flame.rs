//! The profile as a tree of names, for flame graphs: comm, then functions from the root on, each with
//! its weight; and the edits that change stacks.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::{Acc, FrameId, NodeId, SymId, Trie};
use crate::session::DsoKind;

use super::Data;
use super::collapse::{collapse, joined};
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

/// Where the kernel begins to run softirqs, and hardware interrupts.
const SOFTIRQ: &[&str] = &["__do_softirq", "handle_softirqs", "do_softirq", "run_ksoftirqd", "do_softirq_own_stack"];
const IRQ: &[&str] = &["asm_common_interrupt", "common_interrupt", "handle_irq_event", "do_IRQ", "ret_from_intr"];

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

/// What a tree is compared with: the same nodes' weights there.
#[derive(Debug)]
struct Then {
    own: Vec<Acc>,
    total: Vec<Acc>,
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
    own: Vec<Acc>,
    total: Vec<Acc>,
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
    fn turn_to<'b>(self, data: Data<'b>) -> Builder<'b>
    where
        'a: 'b,
    {
        Builder { data, of_sym: vec![u32::MAX; data.profile.frames.n_syms()], ..self }
    }

    /// Walks all stacks of a fold into the tree.
    fn add(&mut self, fold: &Fold) -> Ends {
        let data = self.data;
        let frames = &data.profile.frames;
        let (parents, node_frames) = data.profile.trie.columns();
        let sites = by_comm(data, fold);
        let mut place = vec![0u32; parents.len()];
        let mut stamp = vec![u32::MAX; parents.len()];
        let (mut ends, mut path) = (Vec::new(), Vec::new());
        let mut thread: Option<(Arc<str>, u32, u32)> = None;
        for (comm, stack, acc) in sites {
            if thread.as_ref().is_none_or(|(now, _, _)| *now != comm) {
                let text = self.name(Name { text: comm.clone(), kind: DsoKind::Unknown, dso: "".into() });
                let node = self.trie.child(NodeId::ROOT, FrameId(text)).0;
                thread = Some((comm, node, thread.map_or(0, |t| t.2 + 1)));
            }
            let Some((_, start, number)) = thread else { continue };
            let mut n = stack;
            while n != 0 && stamp[n as usize] != number {
                path.push(n);
                n = parents[n as usize];
            }
            let begin = if self.focus.is_some() { NOWHERE } else { start };
            let mut at = if n == 0 { begin } else { place[n as usize] };
            while let Some(n) = path.pop() {
                let name = self.name_of(frames.syms()[node_frames[n as usize] as usize]);
                at = self.step(at, start, name);
                (place[n as usize], stamp[n as usize]) = (at, number);
            }
            if at != NOWHERE {
                ends.push((at, acc));
            }
        }
        ends
    }

    fn collapse(&mut self, parent: &mut Vec<u32>, name: &mut Vec<u32>, ends: &mut Ends, mut then: Option<&mut Ends>) {
        let mut stops = vec![false; parent.len()];
        ends.iter().chain(then.iter().flat_map(|then| then.iter())).for_each(|(at, _)| stops[*at as usize] = true);
        let out = collapse(parent, |n| stops[n as usize]);
        let names: Vec<u32> = out.chain.iter().map(|chain| self.chain_name(name, chain)).collect();
        ends.iter_mut().chain(then.iter_mut().flat_map(|then| then.iter_mut())).for_each(|(at, _)| {
            *at = out.node_of[*at as usize];
        });
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

    fn finish(mut self, mut ends: Ends, mut then: Option<Before>) -> FlameTree {
        let (mut parent, mut name) = (self.trie.columns().0.to_vec(), self.trie.columns().1.to_vec());
        if self.edits.contains(&Edit::CollapseChains) {
            self.collapse(&mut parent, &mut name, &mut ends, then.as_mut().map(|then| &mut then.ends));
        }
        let (own, total) = sums(&parent, ends);
        let then = then.map(|Before { ends, per, scale, seconds }| {
            let (own, total) = sums(&parent, ends);
            Then { own, total, per, scale, seconds }
        });
        let mut order: Vec<u32> = (0..self.names.len() as u32).collect();
        let text = |i: &u32| (&self.names[*i as usize].text, &self.names[*i as usize].dso);
        order.sort_by(|x, y| text(x).cmp(&text(y)));
        let mut rank = vec![0; order.len()];
        (0..).zip(order).for_each(|(i, name)| rank[name as usize] = i);
        let mut tree = FlameTree { names: self.names, rank, parent, name, own, total, then, ..FlameTree::default() };
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

/// Sites as (comm, stack, weight), comm by comm.
fn by_comm(data: Data<'_>, fold: &Fold) -> Vec<(Arc<str>, u32, Acc)> {
    let one = |(_, site, acc): (u16, u32, Acc)| {
        let site = data.profile.sites.all()[site as usize];
        (data.session.tasks()[site.task.0 as usize].comm.clone(), site.stack.0, acc)
    };
    let mut sites: Vec<_> = fold.sites().into_iter().map(one).collect();
    sites.sort_by(|a, b| a.0.cmp(&b.0));
    sites
}

/// Self and total of each node.
fn sums(parent: &[u32], ends: Ends) -> (Vec<Acc>, Vec<Acc>) {
    let mut own = vec![Acc::default(); parent.len()];
    ends.into_iter().for_each(|(at, acc)| own[at as usize] += acc);
    let mut total = own.clone();
    for i in (1..parent.len()).rev() {
        let acc = total[i];
        total[parent[i] as usize] += acc;
    }
    (own, total)
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

/// Where weights belong: (node, weight) of each stack's end.
type Ends = Vec<(u32, Acc)>;

/// What a tree is compared with, before its weights are added up.
struct Before {
    ends: Ends,
    per: Per,
    scale: (u64, u64),
    seconds: (f64, f64),
}

impl FlameTree {
    /// Builds the tree of a fold's samples.
    pub fn build(data: Data<'_>, fold: &Fold, edits: &[Edit]) -> Self {
        let mut b = Builder::new(data, edits);
        let ends = b.add(fold);
        b.finish(ends, None)
    }

    /// Builds one tree of two folds: frames of the same name under the same caller are one node.
    pub fn compare(new: Stacks<'_>, old: Stacks<'_>, per: Per, edits: &[Edit]) -> Self {
        let mut b = Builder::new(new.data, edits);
        let now = b.add(new.fold);
        let mut b = b.turn_to(old.data);
        let then = b.add(old.fold);
        let seconds = (old.side.seconds, new.side.seconds);
        b.finish(now, Some(Before { ends: then, per, scale: scale(&new.side, &old.side, per), seconds }))
    }

    fn classify(&mut self) {
        let by_name: Vec<Class> = self.names.iter().map(class_of).collect();
        let enters = |list: &[&str]| -> Vec<bool> {
            self.names.iter().map(|n| n.text.split(" › ").any(|part| list.contains(&part))).collect()
        };
        let (soft, hard) = (enters(SOFTIRQ), enters(IRQ));
        let vector = |i: u32| self.names[i as usize].text.starts_with("asm_sysvec_");
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
        (1..n).for_each(|i| starts[self.parent[i] as usize + 1] += 1);
        (0..n).for_each(|i| starts[i + 1] += starts[i]);
        let mut at = starts.clone();
        let mut children = vec![0u32; n.saturating_sub(1)];
        for i in 1..n as u32 {
            let slot = &mut at[self.parent[i as usize] as usize];
            children[*slot as usize] = i;
            *slot += 1;
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

    /// What ends in a node, now and then.
    pub fn own(&self, node: u32) -> Both {
        let old = self.then.as_ref().map_or_else(Acc::default, |then| then.own[node as usize]);
        Both { new: self.own[node as usize], old }
    }

    /// What goes through a node, now and then.
    pub fn total(&self, node: u32) -> Both {
        let old = self.then.as_ref().map_or_else(Acc::default, |then| then.total[node as usize]);
        Both { new: self.total[node as usize], old }
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
