//! Stacks as a trie of (parent, frame), root first. A parent's id is always less than its
//! children's, so one reverse pass adds up inclusive values.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::FrameId;

/// A stack: the path from the root to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The empty stack.
    pub const ROOT: Self = Self(0);
}

/// The trie as columns and an index. Most nodes have one child: each knows its first, and only the
/// others are in the index.
#[derive(Clone, Debug)]
pub struct Trie {
    parent: Vec<u32>,
    frame: Vec<u32>,
    /// 0 for none: the root is nobody's child.
    first_child: Vec<u32>,
    index: HashTable<u32>,
}

impl Default for Trie {
    fn default() -> Self {
        Self { parent: vec![0], frame: vec![u32::MAX], first_child: vec![0], index: HashTable::new() }
    }
}

impl Trie {
    /// An empty one with room for so many nodes.
    pub fn with_capacity(n: usize) -> Self {
        let mut trie = Self::default();
        for column in [&mut trie.parent, &mut trie.frame, &mut trie.first_child] {
            column.reserve_exact(n);
        }
        trie
    }

    /// The stack of `parent` with one more frame.
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
        let hash = |parent: u32, frame: u32| FxBuildHasher.hash_one(u64::from(parent) << 32 | u64::from(frame));
        let (parents, frames) = (&self.parent, &self.frame);
        let same = |n: &u32| parents[*n as usize] == parent.0 && frames[*n as usize] == frame.0;
        let rehash = |n: &u32| hash(parents[*n as usize], frames[*n as usize]);
        let node = *self.index.entry(hash(parent.0, frame.0), same, rehash).or_insert(next).get();
        if node == next {
            self.push(parent, frame);
        }
        NodeId(node)
    }

    /// The stack of these frames, root first.
    pub fn path(&mut self, frames: impl Iterator<Item = FrameId>) -> NodeId {
        frames.fold(NodeId::ROOT, |node, frame| self.child(node, frame))
    }

    fn push(&mut self, parent: NodeId, frame: FrameId) {
        self.parent.push(parent.0);
        self.frame.push(frame.0);
        self.first_child.push(0);
    }

    pub fn parent(&self, node: NodeId) -> NodeId {
        NodeId(self.parent[node.0 as usize])
    }

    /// The frame at the end of a stack; the root has none and must not be asked.
    pub fn frame(&self, node: NodeId) -> FrameId {
        FrameId(self.frame[node.0 as usize])
    }

    /// Parents and frames by node id, for passes over all of them.
    pub fn columns(&self) -> (&[u32], &[u32]) {
        (&self.parent, &self.frame)
    }

    /// The same for good; what finds a child is dropped.
    pub fn into_columns(self) -> (Vec<u32>, Vec<u32>) {
        (self.parent, self.frame)
    }

    /// Nodes, the root included.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Never true: the root is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A stack's frames from leaf to root.
    pub fn walk(&self, mut node: NodeId) -> impl Iterator<Item = FrameId> + '_ {
        std::iter::from_fn(move || {
            (node != NodeId::ROOT).then(|| {
                let frame = self.frame(node);
                node = self.parent(node);
                frame
            })
        })
    }

    pub(super) fn memory(&self) -> usize {
        self.parent.capacity() * 12 + self.index.capacity() * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_only_child_takes_no_room_in_the_index() {
        let mut trie = Trie::with_capacity(100);
        let columns = trie.parent.capacity() * 12;
        let leaf = trie.path((0..50).map(FrameId));
        assert_eq!((trie.path((0..50).map(FrameId)), trie.memory()), (leaf, columns));
        trie.child(NodeId::ROOT, FrameId(7));
        assert_eq!(trie.memory(), columns + 5 * trie.index.capacity());
        assert!(trie.index.capacity() > 0);
    }

    proptest! {
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
