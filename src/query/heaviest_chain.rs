//! The heavy part of rows' call trees, which is printed, from the weights of stacks: neither is each sample's chain
//! followed, nor what is too light.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, NodeId, SymId};

use super::chains::{Tree, TreeKind};
use super::data::Data;
use super::question::Direction;
use super::top::{LabelMode, Top, TopRow};

/// Trees of rows, without nodes below a share of the whole.
pub(crate) struct HeavyTrees<'a> {
    data: Data<'a>,
    top: &'a Top,
    reach: TreeKind,
    /// In percent of all samples.
    least: f64,
    /// Where in `below` the nodes begin that each node leads to, where that is asked.
    starts: Vec<u32>,
    below: Vec<u32>,
}

/// A stack on the way from a row: its last frame, how many of the functions that were inlined there are behind it,
/// and what came this way.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    node: u32,
    inlined: u32,
    acc: Acc,
}

impl<'a> HeavyTrees<'a> {
    pub(crate) fn new(data: Data<'a>, top: &'a Top, reach: TreeKind, least: f64) -> Self {
        let reach = reach.of_rows(top.mode);
        let mut heavy = Self { data, top, reach, least, starts: Vec::new(), below: Vec::new() };
        if reach.direction == Direction::Callees {
            heavy.find_children();
        }
        heavy
    }

    fn find_children(&mut self) {
        let (parents, _) = self.data.profile.trie.columns();
        self.starts = vec![0; parents.len() + 1];
        self.below = vec![0; parents.len()];
        parents.iter().skip(1).for_each(|parent| self.starts[*parent as usize + 1] += 1);
        for node in 1..self.starts.len() {
            self.starts[node] += self.starts[node - 1];
        }
        // Each start moves to its end, which is the next one's start.
        for (node, parent) in (0..).zip(parents.iter()).skip(1) {
            let at = &mut self.starts[*parent as usize];
            self.below[*at as usize] = node;
            *at += 1;
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    /// The trees of some rows of one group, in their order.
    pub(crate) fn trees(&self, rows: &[&TopRow]) -> Vec<Tree> {
        let Some(first) = rows.first() else { return Vec::new() };
        let weights = self.weights(first.group);
        let wanted: FxHashMap<u32, usize> = rows.iter().enumerate().map(|(i, row)| (row.label, i)).collect();
        let mut anchors = vec![Vec::new(); rows.len()];
        for (node, acc) in (0..).zip(&weights).skip(1).filter(|(_, acc)| !acc.is_zero()) {
            let label = self.label(node);
            if let Some(row) = wanted.get(&label)
                && self.is_anchor(node, label)
            {
                anchors[*row].push(Cursor { node, inlined: 0, acc: *acc });
            }
        }
        anchors.into_iter().map(|anchors| self.grow(&weights, anchors)).collect()
    }

    /// The weight of each stack in a group: what it leads to, too, where rows count their callees.
    fn weights(&self, group: u32) -> Vec<Acc> {
        let (parents, _) = self.data.profile.trie.columns();
        let mut weights = vec![Acc::default(); parents.len()];
        for (stack, acc) in &self.top.sites[self.top.ranges[group as usize].clone()] {
            weights[*stack as usize] += *acc;
        }
        if self.reach.inclusive {
            for node in (1..parents.len()).rev() {
                let acc = weights[node];
                weights[parents[node] as usize] += acc;
            }
        }
        weights
    }

    fn sym(&self, node: u32) -> u32 {
        let profile = self.data.profile;
        profile.frames.sym_of(profile.trie.frame(NodeId(node))).0
    }

    fn label(&self, node: u32) -> u32 {
        self.top.mode.label(self.data, SymId(self.sym(node)))
    }

    /// The functions inlined at a node, outermost first.
    fn inlined(&self, node: u32) -> &[u32] {
        self.data.profile.frames.inlined(self.data.profile.trie.frame(NodeId(node)).0)
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

    fn grow(&self, weights: &[Acc], anchors: Vec<Cursor>) -> Tree {
        let mut tree = Tree::default();
        anchors.iter().for_each(|cursor| tree.nodes[0].acc += cursor.acc);
        let mut open = vec![(0, anchors)];
        let mut steps: Vec<(u32, Cursor)> = Vec::new();
        while let Some((at, cursors)) = open.pop() {
            steps.clear();
            // What is no function is followed by the one that it begins with.
            let begins = at == 0 && self.top.mode != LabelMode::Sym;
            for cursor in &cursors {
                match self.reach.direction {
                    Direction::Callees if begins => steps.push((self.sym(cursor.node), *cursor)),
                    Direction::Callees => self.down(weights, *cursor, &mut steps),
                    Direction::Callers if begins => steps.push(self.caller(cursor.node, *cursor)),
                    Direction::Callers => self.up(*cursor, &mut steps),
                }
            }
            steps.sort_unstable_by_key(|(sym, cursor)| (*sym, cursor.node, cursor.inlined));
            for same in steps.chunk_by(|a, b| a.0 == b.0) {
                let mut acc = Acc::default();
                same.iter().for_each(|(_, cursor)| acc += cursor.acc);
                if acc.percent_of(&self.top.total) >= self.least {
                    open.push((tree.add(at, same[0].0, acc), joined(same)));
                }
            }
        }
        tree.sort(self.data);
        tree
    }

    /// The steps to what a stack calls, functions that were inlined there first.
    fn down(&self, weights: &[Acc], cursor: Cursor, steps: &mut Vec<(u32, Cursor)>) {
        if let Some(sym) = self.inlined(cursor.node).get(cursor.inlined as usize) {
            return steps.push((*sym, Cursor { inlined: cursor.inlined + 1, ..cursor }));
        }
        // Of a row that does not count its callees nothing leads on.
        let node = cursor.node as usize;
        let below = if self.reach.inclusive { self.starts[node]..self.starts[node + 1] } else { 0..0 };
        for node in &self.below[below.start as usize..below.end as usize] {
            let acc = weights[*node as usize];
            if !acc.is_zero() {
                steps.push((self.sym(*node), Cursor { node: *node, inlined: 0, acc }));
            }
        }
    }

    /// The steps to what called a stack: the innermost function that was inlined in the caller, and at last that one.
    /// There `inlined` counts those that are left at the cursor's node.
    fn up(&self, cursor: Cursor, steps: &mut Vec<(u32, Cursor)>) {
        match (cursor.inlined, self.parent(cursor.node)) {
            (0, 0) => {}
            (0, parent) => steps.push(self.caller(parent, cursor)),
            (left, _) => steps.push(self.within(cursor.node, left as usize - 1, cursor)),
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
