//! Adds up changes along stacks: each node is visited once, however many of the changed samples pass through it.

use rustc_hash::FxHashSet;

use crate::profile::{Acc, NodeId, Trie};

use super::top::path_bit;
use crate::query::aggregate::changes::SiteChange;

/// The weight that a sum gains and loses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SumChange {
    added: Acc,
    removed: Acc,
}

impl SumChange {
    pub(super) fn note(&mut self, change: &SiteChange) {
        *(if change.out { &mut self.removed } else { &mut self.added }) += change.acc;
    }

    pub(super) fn is_zero(&self) -> bool {
        self.added.is_zero() && self.removed.is_zero()
    }

    pub(super) fn apply_to(&self, sum: &mut Acc) {
        *sum += self.added;
        *sum -= self.removed;
    }
}

impl std::ops::AddAssign for SumChange {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.removed += other.removed;
    }
}

/// A node of a changed stack.
#[derive(Clone, Copy, Debug)]
struct ChangedNode {
    node: NodeId,
    /// The place of its parent; its own if that is the root.
    parent: u32,
    label: u32,
    /// A Bloom filter of the labels from the root to it.
    labels: u64,
    /// Whether none of its callers has its label.
    is_first: bool,
    own: SumChange,
    children: SumChange,
}

/// The nodes of changed stacks, callers first.
#[derive(Debug, Default)]
pub(super) struct PathSums {
    nodes: Vec<ChangedNode>,
    /// The place of each node in `nodes`; meaningless unless the entry there is of that node.
    places: Vec<u32>,
    path: Vec<NodeId>,
    /// The labels of the current stack from its root on, once they are needed.
    above: FxHashSet<u32>,
}

/// The number of nodes from which sums are passed on before more are added; it bounds their memory.
const MANY_NODES: usize = 1 << 14;

impl PathSums {
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= MANY_NODES
    }

    pub(super) fn begin(&mut self, trie: &Trie) {
        self.nodes.clear();
        self.places.resize(trie.len(), 0);
    }

    /// Adds a change of samples with a stack. Empty stacks have no node to count at.
    pub(super) fn add(&mut self, trie: &Trie, stack: NodeId, change: &SiteChange, label: impl Fn(NodeId) -> u32) {
        let (mut node, mut known) = (stack, None);
        while node != NodeId::ROOT && known.is_none() {
            known = self.place(node);
            if known.is_none() {
                self.path.push(node);
                node = trie.parent(node);
            }
        }
        self.above.clear();
        while let Some(node) = self.path.pop() {
            known = Some(self.push(node, known, label(node)));
        }
        if let Some(node) = known.and_then(|at| self.nodes.get_mut(at as usize)) {
            node.own.note(change);
        }
    }

    fn place(&self, node: NodeId) -> Option<u32> {
        let at = self.places[node.0 as usize];
        self.nodes.get(at as usize).filter(|known| known.node == node).map(|_| at)
    }

    fn push(&mut self, node: NodeId, parent: Option<u32>, label: u32) -> u32 {
        let (at, bit) = (self.nodes.len() as u32, path_bit(label));
        let above = parent.map_or(0, |parent| self.nodes[parent as usize].labels);
        // The filter decides most.
        let is_first = above & bit == 0 || !parent.is_some_and(|parent| self.occurs(parent, label));
        if !self.above.is_empty() {
            self.above.insert(label);
        }
        let (own, children) = (SumChange::default(), SumChange::default());
        let parent = parent.unwrap_or(at);
        self.nodes.push(ChangedNode { node, parent, label, labels: above | bit, is_first, own, children });
        self.places[node.0 as usize] = at;
        at
    }

    /// Returns whether a label occurs from a node of the current stack up to the root. The labels are listed once for
    /// each stack, because a deep stack has many functions that the filter cannot tell apart.
    fn occurs(&mut self, mut at: u32, label: u32) -> bool {
        if self.above.is_empty() {
            self.above.insert(self.nodes[at as usize].label);
            while self.nodes[at as usize].parent != at {
                at = self.nodes[at as usize].parent;
                self.above.insert(self.nodes[at as usize].label);
            }
        }
        self.above.contains(&label)
    }

    /// Passes the changes of labels: at stacks that end in them, and at stacks that contain them. A stack counts once,
    /// even if a label recurs in it.
    pub(super) fn each(&mut self, mut each: impl FnMut(u32, SumChange, SumChange)) {
        for at in (0..self.nodes.len()).rev() {
            let ChangedNode { parent, label, is_first, own, mut children, .. } = self.nodes[at];
            children += own;
            if parent as usize != at {
                self.nodes[parent as usize].children += children;
            }
            let children = if is_first { children } else { SumChange::default() };
            if !own.is_zero() || !children.is_zero() {
                each(label, own, children);
            }
        }
    }
}
