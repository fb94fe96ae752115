//! Stacks as a trie of (parent, frame), root first. A parent's id is always lower than its children's, so one reverse
//! pass computes inclusive values.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use super::index::HashIndex;
use super::marks::MarkedSet;
use super::{FrameId, Segments, SharedSegments};

/// A stack: the path from the root to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The empty stack.
    pub const ROOT: Self = Self(0);
}

/// The trie as columns and an index. Most nodes have one child: nodes store the first, the index has the others.
#[derive(Clone, Debug)]
pub struct Trie {
    parent: SharedSegments<u32>,
    frame: SharedSegments<u32>,
    /// 0 for none: the root is not a child.
    first_child: Segments<u32>,
    index: HashIndex,
}

impl Default for Trie {
    fn default() -> Self {
        let (parent, frame) = (SharedSegments::default(), SharedSegments::default());
        let mut trie = Self { parent, frame, first_child: Segments::default(), index: HashIndex::default() };
        trie.push(NodeId::ROOT, FrameId(u32::MAX));
        trie
    }
}

fn hash(parent: u32, frame: u32) -> u64 {
    FxBuildHasher.hash_one(u64::from(parent) << 32 | u64::from(frame))
}

impl Trie {
    /// Returns the stack of `parent` with one more frame.
    pub fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let next = self.parent.len() as u32;
        let first = self.first_child[parent.0 as usize];
        if first == 0 {
            self.first_child[parent.0 as usize] = next;
            self.push(parent, frame);
            return NodeId(next);
        }
        if self.frame[first as usize] == frame.0 {
            return NodeId(first);
        }
        let beside = frame.0.wrapping_add(1);
        if parent == NodeId::ROOT && self.is_alone(beside) {
            return NodeId(beside);
        }
        let (parents, frames) = (&self.parent, &self.frame);
        let same = |n: u32| parents[n as usize] == parent.0 && frames[n as usize] == frame.0;
        let rehash = |n: u32| hash(parents[n as usize], frames[n as usize]);
        let hash = hash(parent.0, frame.0);
        let node = if parent == NodeId::ROOT && beside == next {
            self.index.find(hash, same).unwrap_or(next)
        } else {
            self.index.find_or(hash, next, same, rehash)
        };
        if node == next {
            self.push(parent, frame);
        }
        NodeId(node)
    }

    /// Returns whether a node is a stack of one frame whose id follows from the frame's, as for all nodes if chains are
    /// ignored. Such a node needs no entry in the index.
    fn is_alone(&self, node: u32) -> bool {
        let at = node as usize;
        at < self.parent.len() && self.parent[at] == NodeId::ROOT.0 && self.frame[at].wrapping_add(1) == node
    }

    fn push(&mut self, parent: NodeId, frame: FrameId) {
        self.parent.push(parent.0);
        self.frame.push(frame.0);
        self.first_child.push(0);
    }

    /// Returns the stack without its last frame; the root's parent is the root.
    pub fn parent(&self, node: NodeId) -> NodeId {
        NodeId(self.parent[node.0 as usize])
    }

    /// Returns the last frame of a stack. The root has no frame and must not be passed.
    pub(crate) fn frame(&self, node: NodeId) -> FrameId {
        FrameId(self.frame[node.0 as usize])
    }

    /// Returns parents and frames by node id, for passes over all of them.
    pub(crate) fn columns(&self) -> (&SharedSegments<u32>, &SharedSegments<u32>) {
        (&self.parent, &self.frame)
    }

    /// Returns the number of nodes, including the root.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Returns a stack's frames from leaf to root.
    pub(crate) fn walk(&self, mut node: NodeId) -> impl Iterator<Item = FrameId> + '_ {
        std::iter::from_fn(move || {
            (node != NodeId::ROOT).then(|| {
                let frame = self.frame(node);
                node = self.parent(node);
                frame
            })
        })
    }

    /// Removes all stacks except `nodes`, and updates the numbers of frames.
    pub(super) fn keep(&mut self, nodes: &MarkedSet, frames: &MarkedSet) {
        self.parent.keep(nodes, |parent| nodes.node(NodeId(parent)).0);
        self.frame.keep(nodes, |frame| frames.number(frame).unwrap_or(frame));
        self.first_child.truncate(nodes.len());
        self.first_child.iter_mut().for_each(|child| *child = 0);
        self.index.clear();
        let (parents, frames) = (&self.parent, &self.frame);
        let hash = |n: u32| hash(parents[n as usize], frames[n as usize]);
        for n in 1..parents.len() as u32 {
            let first = &mut self.first_child[parents[n as usize] as usize];
            if *first == 0 {
                *first = n;
            } else if parents[n as usize] != NodeId::ROOT.0 || frames[n as usize].wrapping_add(1) != n {
                self.index.find_or(hash(n), n, |_| false, hash);
            }
        }
        self.index.fit(hash);
    }

    pub(super) fn memory(&self) -> usize {
        3 * self.parent.memory() + self.index.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_only_child_takes_no_room_in_the_index() {
        let mut trie = Trie::default();
        let columns = trie.parent.memory() * 3;
        let mut path = || (0..50).fold(NodeId::ROOT, |node, frame| trie.child(node, FrameId(frame)));
        let (leaf, again) = (path(), path());
        assert_eq!((again, trie.memory()), (leaf, columns));
        trie.child(NodeId::ROOT, FrameId(7));
        assert_eq!(trie.memory(), columns + trie.index.memory());
        assert!(trie.index.memory() > 0);
    }

    #[test]
    fn stacks_of_one_frame_each_are_found_by_their_frames() {
        let mut trie = Trie::default();
        let nodes: Vec<NodeId> = (0..50).map(|frame| trie.child(NodeId::ROOT, FrameId(frame))).collect();
        let again: Vec<NodeId> = (0..50).map(|frame| trie.child(NodeId::ROOT, FrameId(frame))).collect();
        assert_eq!((again, trie.len(), trie.index.memory()), (nodes, 51, 0));
        // A node with another id stays in the index, even when the matching id becomes free.
        let far = [trie.child(NodeId::ROOT, FrameId(52)), trie.child(NodeId::ROOT, FrameId(60))];
        assert_eq!((far, trie.child(NodeId::ROOT, FrameId(52))), ([NodeId(51), NodeId(52)], NodeId(51)));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn a_trie_gives_back_each_stack_and_parents_come_first(stacks in proptest::collection::vec(proptest::collection::vec(0u32..6, 0..8), 1..60)) {
            let mut trie = Trie::default();
            let ids: Vec<NodeId> = stacks.iter().map(|s| s.iter().fold(NodeId::ROOT, |n, f| trie.child(n, FrameId(*f)))).collect();
            for (stack, id) in stacks.iter().zip(&ids) {
                let mut back: Vec<u32> = trie.walk(*id).map(|f| f.0).collect();
                back.reverse();
                prop_assert_eq!(&back, stack);
            }
            let distinct: std::collections::BTreeSet<&[u32]> = stacks.iter().flat_map(|s| (0..=s.len()).map(move |n| &s[..n])).collect();
            prop_assert_eq!(trie.len(), distinct.len());
            for n in 1..trie.len() as u32 {
                prop_assert!(trie.parent(NodeId(n)).0 < n);
            }
        }
    }
}
