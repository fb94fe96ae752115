//! The printed part of rows' call trees, from the weights of stacks. It neither walks each sample's chain nor visits
//! entries below the threshold, and visits only the stacks of each group.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::profile::{Acc, FrameId, NodeId, SymId};

use super::chains::{CallTree, TreeKind};
use crate::query::data::Data;
use crate::query::question::Direction;
use crate::query::rows::top::{LabelMode, Top, TopRow};

/// The threshold of printed call tree entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainThreshold {
    /// In percent.
    pub(crate) least: f64,
    /// The base of the percentage.
    pub(crate) whole: Acc,
    /// Uses the continuing weight of the parent entry as the base instead.
    pub(crate) of_parent: bool,
    pub(crate) most: usize,
    pub(crate) apart: ApartBy,
}

/// How entries of the same function are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApartBy {
    Nothing,
    Address,
    /// Source lines, if known.
    Line,
}

impl ChainThreshold {
    pub(crate) fn is_met(&self, entry: &Acc, above: &Acc) -> bool {
        entry.percent_of(if self.of_parent { above } else { &self.whole }) >= self.least
    }
}

/// The call trees of rows without entries below the threshold.
pub(crate) struct HeavyTrees<'a> {
    data: Data<'a>,
    top: &'a Top,
    kind: TreeKind,
    threshold: ChainThreshold,
    skips_own: bool,
}

/// A stack on its way from a row: current frame, number of its inlined functions visited, weight along this path.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    node: u32,
    inlined: u32,
    acc: Acc,
}

const NONE: u32 = u32::MAX;

/// The stacks of some sites by trie node. Reused between groups, clearing only the used nodes.
#[derive(Debug)]
pub(crate) struct StackWeights {
    /// The weight that ends at each node, and the weight through it.
    own: Vec<Acc>,
    through: Vec<Acc>,
    /// The first child of each node, and its next sibling.
    first: Vec<u32>,
    next: Vec<u32>,
    known: Vec<bool>,
    /// The nodes of these stacks, parents before their children.
    touched: Vec<u32>,
}

impl StackWeights {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            own: vec![Acc::default(); nodes],
            through: vec![Acc::default(); nodes],
            first: vec![NONE; nodes],
            next: vec![NONE; nodes],
            known: vec![false; nodes],
            touched: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for n in self.touched.drain(..).chain([0]) {
            let n = n as usize;
            (self.own[n], self.through[n]) = (Acc::default(), Acc::default());
            (self.first[n], self.next[n], self.known[n]) = (NONE, NONE, false);
        }
    }

    fn take(&mut self, data: Data<'_>, sites: impl Iterator<Item = (u32, Acc)>, with_callers: bool) {
        self.clear();
        let (parents, _) = data.profile.trie.columns();
        for (stack, acc) in sites {
            self.own[stack as usize] += acc;
            let mut n = stack;
            while n != 0 && !std::mem::replace(&mut self.known[n as usize], true) {
                self.touched.push(n);
                n = if with_callers { parents[n as usize] } else { 0 };
            }
        }
        self.touched.sort_unstable();
        for i in (0..self.touched.len()).rev() {
            let n = self.touched[i] as usize;
            let own = self.own[n];
            self.through[n] += own;
            if with_callers {
                let (acc, parent) = (self.through[n], parents[n] as usize);
                self.through[parent] += acc;
                self.next[n] = self.first[parent];
                self.first[parent] = n as u32;
            }
        }
    }

    /// Adds the weight that ends at some nodes to theirs and their callers' weight, or removes it.
    fn change_own(&mut self, data: Data<'_>, ended: &[(u32, Acc)], change: impl Fn(&mut Acc, Acc)) {
        let (parents, _) = data.profile.trie.columns();
        for (node, acc) in ended {
            change(&mut self.own[*node as usize], *acc);
            let above = std::iter::successors(Some(*node), |n| (*n != 0).then(|| parents[*n as usize]));
            above.for_each(|n| change(&mut self.through[n as usize], *acc));
        }
    }

    fn below(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |n: u32| (n != NONE).then_some(n);
        std::iter::successors(some(self.first[node as usize]), move |n| some(self.next[*n as usize]))
    }

    fn cursor(&self, node: u32) -> Cursor {
        Cursor { node, inlined: 0, acc: self.through[node as usize] }
    }
}

impl<'a> HeavyTrees<'a> {
    pub(crate) fn new(data: Data<'a>, top: &'a Top, kind: TreeKind, threshold: ChainThreshold) -> Self {
        Self { data, top, kind: kind.of_rows(top.labels.mode), threshold, skips_own: false }
    }

    /// Leaves out the samples in the row's own code, which a recursive function also has below its outermost call.
    /// Meant for trees of callees.
    pub(crate) fn without_own_samples(self, skips_own: bool) -> Self {
        Self { skips_own, ..self }
    }

    /// Returns the scratch space of [`Self::trees`]; one per thread.
    pub(crate) fn weights(&self) -> StackWeights {
        StackWeights::new(self.data.profile.trie.len())
    }

    /// Returns the trees of some rows of one group, in their order.
    pub(crate) fn trees(&self, weights: &mut StackWeights, rows: &[&TopRow]) -> Vec<CallTree> {
        let Some(first) = rows.first() else { return Vec::new() };
        let sites = &self.top.sites[self.top.ranges[first.group as usize].clone()];
        weights.take(self.data, sites.iter().copied(), self.kind.inclusive);
        let wanted: FxHashMap<u32, usize> = rows.iter().enumerate().map(|(i, row)| (row.label, i)).collect();
        let mut anchors = vec![Vec::new(); rows.len()];
        let mut ended = vec![Vec::new(); rows.len()];
        for node in &weights.touched {
            let label = self.label(*node);
            let Some(row) = wanted.get(&label) else { continue };
            if self.is_anchor(*node, label) {
                anchors[*row].push(weights.cursor(*node));
            }
            let own = weights.own[*node as usize];
            if self.skips_own && !own.is_zero() {
                ended[*row].push((*node, own));
            }
        }
        if self.kind.direction == Direction::Callees && !self.kind.inclusive {
            return anchors.into_iter().map(|leaves| self.grow_from_roots(weights, &leaves)).collect();
        }
        let with_first = self.top.labels.mode != LabelMode::Sym;
        let grow = |(anchors, ended): (Vec<Cursor>, Vec<(u32, Acc)>)| {
            weights.change_own(self.data, &ended, |sum, own| *sum -= own);
            let anchors = anchors.iter().map(|cursor| weights.cursor(cursor.node)).collect();
            let tree = self.grow(weights, anchors, with_first);
            weights.change_own(self.data, &ended, |sum, own| *sum += own);
            tree
        };
        anchors.into_iter().zip(ended).map(grow).collect()
    }

    /// Returns the tree of a row without its callees: it begins at the root of the stacks, and the row comes last.
    fn grow_from_roots(&self, weights: &mut StackWeights, leaves: &[Cursor]) -> CallTree {
        weights.take(self.data, leaves.iter().map(|leaf| (leaf.node, leaf.acc)), true);
        let roots = weights.below(0).map(|node| weights.cursor(node)).collect();
        self.grow(weights, roots, true)
    }

    fn frame(&self, node: u32) -> FrameId {
        self.data.profile.trie.frame(NodeId(node))
    }

    fn sym(&self, node: u32) -> u32 {
        self.data.profile.frames.sym_of(self.frame(node)).0
    }

    fn address(&self, node: u32) -> u64 {
        self.data.profile.frames.get(self.frame(node)).place(&self.data.session.dsos).1
    }

    /// Returns a number that identifies the line of a node's frame; 0 if unknown.
    fn line(&self, node: u32) -> u64 {
        let known = self.data.profile.frames.line(self.frame(node));
        known.map_or(0, |line| FxBuildHasher.hash_one((&*line.file, line.line)))
    }

    fn label(&self, node: u32) -> u32 {
        self.top.labels.mode.label(self.data, SymId(self.sym(node)))
    }

    /// Returns the functions inlined at a node, outermost first.
    fn inlined(&self, node: u32) -> &[u32] {
        self.data.profile.frames.inlined(self.frame(node).0)
    }

    fn parent(&self, node: u32) -> u32 {
        self.data.profile.trie.parent(NodeId(node)).0
    }

    /// Returns whether a row begins at a node with its label: at the outermost one if the row includes callees.
    fn is_anchor(&self, node: u32, label: u32) -> bool {
        let known = || self.top.first.get(node as usize).copied();
        let is_first = || {
            let mut above = std::iter::successors(Some(self.parent(node)), |n| Some(self.parent(*n)));
            above.find(|n| *n == 0 || self.label(*n) == label) == Some(0)
        };
        !self.kind.inclusive || known().unwrap_or_else(is_first)
    }

    /// Grows a tree from the current frames of stacks. Includes these frames if the row does not name them.
    fn grow(&self, weights: &StackWeights, anchors: Vec<Cursor>, with_first: bool) -> CallTree {
        let mut tree = CallTree::default();
        let apart = self.threshold.apart;
        let place = |cursor: &Cursor| match apart {
            ApartBy::Nothing => 0,
            ApartBy::Address => self.address(cursor.node),
            ApartBy::Line => self.line(cursor.node),
        };
        anchors.iter().for_each(|cursor| tree.nodes[0].acc += cursor.acc);
        let mut open = vec![(0, anchors)];
        let mut steps: Vec<(u32, Cursor)> = Vec::new();
        while let Some((at, cursors)) = open.pop() {
            steps.clear();
            let begins = at == 0 && with_first;
            for cursor in &cursors {
                let ended = match self.kind.direction {
                    Direction::Callees if begins => self.stay((self.sym(cursor.node), *cursor), &mut steps),
                    Direction::Callees => self.down(weights, *cursor, &mut steps),
                    Direction::Callers if begins => self.stay(self.caller(cursor.node, *cursor), &mut steps),
                    Direction::Callers => self.up(*cursor, &mut steps),
                };
                tree.nodes[at as usize].ended += ended;
            }
            steps.sort_unstable_by_key(|(sym, cursor)| (*sym, place(cursor), cursor.node, cursor.inlined));
            let mut above = tree.nodes[at as usize].acc;
            above -= tree.nodes[at as usize].ended;
            for same in steps.chunk_by(|a, b| a.0 == b.0 && place(&a.1) == place(&b.1)) {
                let acc: Acc = same.iter().map(|(_, cursor)| cursor.acc).sum();
                if !acc.is_zero() && self.threshold.is_met(&acc, &above) {
                    let child = tree.add(at, same[0].0, acc);
                    tree.nodes[child as usize].frame = (apart != ApartBy::Nothing).then(|| self.frame(same[0].1.node));
                    open.push((child, joined(same)));
                }
            }
        }
        tree.sort(self.data);
        tree.nodes.iter_mut().for_each(|node| node.children.truncate(self.threshold.most));
        tree
    }

    /// Adds a step to the current frame of a stack.
    fn stay(&self, step: (u32, Cursor), steps: &mut Vec<(u32, Cursor)>) -> Acc {
        steps.push(step);
        Acc::default()
    }

    /// Adds the steps to a stack's callees, with inlined functions first. Returns the weight that ends here.
    fn down(&self, weights: &StackWeights, cursor: Cursor, steps: &mut Vec<(u32, Cursor)>) -> Acc {
        if let Some(sym) = self.inlined(cursor.node).get(cursor.inlined as usize) {
            return self.stay((*sym, Cursor { inlined: cursor.inlined + 1, ..cursor }), steps);
        }
        steps.extend(weights.below(cursor.node).map(|node| (self.sym(node), weights.cursor(node))));
        weights.own[cursor.node as usize]
    }

    /// Adds the step to a stack's caller. The innermost function inlined in the caller comes first, the caller itself
    /// last. Here `inlined` counts the remaining functions at the cursor's node. Returns the weight that begins here.
    fn up(&self, cursor: Cursor, steps: &mut Vec<(u32, Cursor)>) -> Acc {
        match (cursor.inlined, self.parent(cursor.node)) {
            (0, 0) => cursor.acc,
            (0, parent) => self.stay(self.caller(parent, cursor), steps),
            (left, _) => self.stay(self.within(cursor.node, left as usize - 1, cursor), steps),
        }
    }

    /// Returns the innermost function at a node.
    fn caller(&self, node: u32, cursor: Cursor) -> (u32, Cursor) {
        self.within(node, self.inlined(node).len(), cursor)
    }

    /// Returns the function at a node with `left` remaining inlined functions.
    fn within(&self, node: u32, left: usize, cursor: Cursor) -> (u32, Cursor) {
        let inlined = left.checked_sub(1).and_then(|at| self.inlined(node).get(at));
        let sym = inlined.copied().unwrap_or_else(|| self.sym(node));
        (sym, Cursor { node, inlined: left as u32, ..cursor })
    }
}

/// Joins cursors at the same stack position; the input is sorted by it.
fn joined(steps: &[(u32, Cursor)]) -> Vec<Cursor> {
    let mut out: Vec<Cursor> = Vec::new();
    for (_, cursor) in steps {
        match out.last_mut().filter(|last| (last.node, last.inlined) == (cursor.node, cursor.inlined)) {
            Some(last) => last.acc += cursor.acc,
            None => out.push(*cursor),
        }
    }
    out
}
