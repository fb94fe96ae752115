//! The heavy part of rows' call trees, which is printed, from the weights of stacks: neither is each sample's chain
//! followed, nor what is too light. Of each group only the stacks that it has are looked at.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::profile::{Acc, FrameId, NodeId, SymId};

use super::chains::{Tree, TreeKind};
use super::data::Data;
use super::question::Direction;
use super::top::{LabelMode, Top, TopRow};

/// The entries of call trees that are worth printing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainThreshold {
    /// In percent.
    pub(crate) least: f64,
    /// What that is of.
    pub(crate) whole: Acc,
    /// Of what goes on from the entry above instead.
    pub(crate) of_parent: bool,
    /// Entries below one entry at most.
    pub(crate) most: usize,
    /// What else entries of one function are told apart by.
    pub(crate) apart: ApartBy,
}

/// What entries of one function are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApartBy {
    Nothing,
    Address,
    /// Source lines, where they are known.
    Line,
}

impl ChainThreshold {
    /// True if an entry below one is worth it.
    pub(crate) fn is_met(&self, entry: &Acc, above: &Acc) -> bool {
        entry.percent_of(if self.of_parent { above } else { &self.whole }) >= self.least
    }
}

/// A row's call tree without what is too light.
#[derive(Debug, Default)]
pub(crate) struct HeavyTree {
    pub(crate) tree: Tree,
    /// For each node of it what went no further.
    pub(crate) ended: Vec<Acc>,
    /// For each node of it a frame that has its address, where entries are told apart by that.
    pub(crate) places: Vec<Option<FrameId>>,
}

/// Trees of rows, without nodes below a share of the whole.
pub(crate) struct HeavyTrees<'a> {
    data: Data<'a>,
    top: &'a Top,
    reach: TreeKind,
    threshold: ChainThreshold,
}

/// A stack on the way from a row: its last frame, how many of the functions that were inlined there are behind it,
/// and what came this way.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    node: u32,
    inlined: u32,
    acc: Acc,
}

/// No node.
const NONE: u32 = u32::MAX;

/// The stacks of some sites, by node of the trie; kept from group to group, and cleaned where it was used.
#[derive(Debug)]
pub(crate) struct StackWeights {
    /// What ended at each node, and what came through it.
    own: Vec<Acc>,
    through: Vec<Acc>,
    /// The first node that each leads to, and the next one beside it.
    first: Vec<u32>,
    next: Vec<u32>,
    known: Vec<bool>,
    /// The nodes of these stacks, parents before their children.
    touched: Vec<u32>,
}

impl StackWeights {
    pub(super) fn new(nodes: usize) -> Self {
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

    /// Takes the stacks of some sites; what they went through, too, where that is asked.
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

    /// The nodes that one leads to, in their order.
    fn below(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |n: u32| (n != NONE).then_some(n);
        std::iter::successors(some(self.first[node as usize]), move |n| some(self.next[*n as usize]))
    }

    fn cursor(&self, node: u32) -> Cursor {
        Cursor { node, inlined: 0, acc: self.through[node as usize] }
    }
}

impl<'a> HeavyTrees<'a> {
    pub(crate) fn new(data: Data<'a>, top: &'a Top, reach: TreeKind, threshold: ChainThreshold) -> Self {
        Self { data, top, reach: reach.of_rows(top.mode), threshold }
    }

    /// What [`Self::trees`] works with; one for each thread.
    pub(crate) fn weights(&self) -> StackWeights {
        StackWeights::new(self.data.profile.trie.len())
    }

    /// The trees of some rows of one group, in their order.
    pub(crate) fn trees(&self, weights: &mut StackWeights, rows: &[&TopRow]) -> Vec<HeavyTree> {
        let Some(first) = rows.first() else { return Vec::new() };
        let sites = &self.top.sites[self.top.ranges[first.group as usize].clone()];
        weights.take(self.data, sites.iter().copied(), self.reach.inclusive);
        let wanted: FxHashMap<u32, usize> = rows.iter().enumerate().map(|(i, row)| (row.label, i)).collect();
        let mut anchors = vec![Vec::new(); rows.len()];
        for node in &weights.touched {
            let label = self.label(*node);
            if let Some(row) = wanted.get(&label)
                && self.is_anchor(*node, label)
            {
                anchors[*row].push(weights.cursor(*node));
            }
        }
        if self.reach.direction == Direction::Callees && !self.reach.inclusive {
            return anchors.into_iter().map(|leaves| self.grow_from_roots(weights, &leaves)).collect();
        }
        anchors.into_iter().map(|anchors| self.grow(weights, anchors, self.top.mode != LabelMode::Sym)).collect()
    }

    /// The tree of a row that does not count what it called, from where its stacks began: it comes last.
    fn grow_from_roots(&self, weights: &mut StackWeights, leaves: &[Cursor]) -> HeavyTree {
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

    /// Where a node's frame is in its DSO.
    fn address(&self, node: u32) -> u64 {
        self.data.profile.frames.get(self.frame(node)).place(&self.data.session.dsos).1
    }

    /// A number of the line of a node's frame; 0 where that is not known.
    fn line(&self, node: u32) -> u64 {
        let known = self.data.profile.frames.line(self.frame(node));
        known.map_or(0, |line| FxBuildHasher.hash_one((&*line.file, line.line)))
    }

    fn label(&self, node: u32) -> u32 {
        self.top.mode.label(self.data, SymId(self.sym(node)))
    }

    /// The functions inlined at a node, outermost first.
    fn inlined(&self, node: u32) -> &[u32] {
        self.data.profile.frames.inlined(self.frame(node).0)
    }

    fn parent(&self, node: u32) -> u32 {
        self.data.profile.trie.parent(NodeId(node)).0
    }

    /// True if a row begins at a node of its label: it counts its outermost occurrence, if it counts callees at all.
    fn is_anchor(&self, node: u32, label: u32) -> bool {
        let known = || self.top.first.get(node as usize).copied();
        let is_first = || {
            let mut above = std::iter::successors(Some(self.parent(node)), |n| Some(self.parent(*n)));
            above.find(|n| *n == 0 || self.label(*n) == label) == Some(0)
        };
        !self.reach.inclusive || known().unwrap_or_else(is_first)
    }

    /// Follows stacks from where they are; with those frames themselves, where the row does not say them.
    fn grow(&self, weights: &StackWeights, anchors: Vec<Cursor>, with_first: bool) -> HeavyTree {
        let mut tree = Tree::default();
        let (mut ended, mut places) = (vec![Acc::default()], vec![None]);
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
                ended[at as usize] += match self.reach.direction {
                    Direction::Callees if begins => self.stay((self.sym(cursor.node), *cursor), &mut steps),
                    Direction::Callees => self.down(weights, *cursor, &mut steps),
                    Direction::Callers if begins => self.stay(self.caller(cursor.node, *cursor), &mut steps),
                    Direction::Callers => self.up(*cursor, &mut steps),
                };
            }
            steps.sort_unstable_by_key(|(sym, cursor)| (*sym, place(cursor), cursor.node, cursor.inlined));
            let mut above = tree.nodes[at as usize].acc;
            above -= ended[at as usize];
            for same in steps.chunk_by(|a, b| a.0 == b.0 && place(&a.1) == place(&b.1)) {
                let acc = same.iter().map(|(_, cursor)| cursor.acc).sum();
                if self.threshold.is_met(&acc, &above) {
                    open.push((tree.add(at, same[0].0, acc), joined(same)));
                    ended.push(Acc::default());
                    places.push((apart != ApartBy::Nothing).then(|| self.frame(same[0].1.node)));
                }
            }
        }
        tree.sort(self.data);
        tree.nodes.iter_mut().for_each(|node| node.children.truncate(self.threshold.most));
        HeavyTree { tree, ended, places }
    }

    /// A step to the frame where a stack is.
    fn stay(&self, step: (u32, Cursor), steps: &mut Vec<(u32, Cursor)>) -> Acc {
        steps.push(step);
        Acc::default()
    }

    /// The steps to what a stack calls, functions that were inlined there first; and what ends here.
    fn down(&self, weights: &StackWeights, cursor: Cursor, steps: &mut Vec<(u32, Cursor)>) -> Acc {
        if let Some(sym) = self.inlined(cursor.node).get(cursor.inlined as usize) {
            return self.stay((*sym, Cursor { inlined: cursor.inlined + 1, ..cursor }), steps);
        }
        steps.extend(weights.below(cursor.node).map(|node| (self.sym(node), weights.cursor(node))));
        weights.own[cursor.node as usize]
    }

    /// The steps to what called a stack: the innermost function that was inlined in the caller, and at last that one.
    /// There `inlined` counts those that are left at the cursor's node. What begins here ends the way.
    fn up(&self, cursor: Cursor, steps: &mut Vec<(u32, Cursor)>) -> Acc {
        match (cursor.inlined, self.parent(cursor.node)) {
            (0, 0) => cursor.acc,
            (0, parent) => self.stay(self.caller(parent, cursor), steps),
            (left, _) => self.stay(self.within(cursor.node, left as usize - 1, cursor), steps),
        }
    }

    /// The innermost function of a node.
    fn caller(&self, node: u32, cursor: Cursor) -> (u32, Cursor) {
        self.within(node, self.inlined(node).len(), cursor)
    }

    /// The function of a node behind which so many are left that were inlined there.
    fn within(&self, node: u32, left: usize, cursor: Cursor) -> (u32, Cursor) {
        let inlined = left.checked_sub(1).and_then(|at| self.inlined(node).get(at));
        let sym = inlined.copied().unwrap_or_else(|| self.sym(node));
        (sym, Cursor { node, inlined: left as u32, ..cursor })
    }
}

/// Joins cursors that have come to one stack; they stand in the order of their stacks.
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
