//! Stacks that are kept for counting outside the columns. A pin stays valid when stacks are renumbered.

use rustc_hash::FxHashMap;

use super::NodeId;
use super::marks::MarkedSet;

/// A kept stack. Index into [`RetainedStacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RetainedStack(pub u32);

impl RetainedStack {
    /// The empty stack.
    pub const NONE: Self = Self(0);
}

/// The maximum number of distinct kept stacks; further ones count as the empty stack.
const MAX: usize = 1 << 22;

/// All kept stacks.
#[derive(Clone, Debug)]
pub struct RetainedStacks {
    nodes: Vec<NodeId>,
    index: FxHashMap<NodeId, RetainedStack>,
}

impl Default for RetainedStacks {
    fn default() -> Self {
        Self { nodes: vec![NodeId::ROOT], index: FxHashMap::from_iter([(NodeId::ROOT, RetainedStack::NONE)]) }
    }
}

impl RetainedStacks {
    /// Keeps a stack.
    pub fn hold(&mut self, node: NodeId) -> RetainedStack {
        let next = RetainedStack(self.nodes.len() as u32);
        if self.nodes.len() >= MAX {
            return self.index.get(&node).copied().unwrap_or_default();
        }
        let pin = *self.index.entry(node).or_insert(next);
        if pin == next {
            self.nodes.push(node);
        }
        pin
    }

    pub(crate) fn node(&self, pin: RetainedStack) -> NodeId {
        self.nodes.get(pin.0 as usize).copied().unwrap_or(NodeId::ROOT)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().copied()
    }

    pub(super) fn renumber(&mut self, nodes: &MarkedSet) {
        self.nodes.iter_mut().for_each(|node| *node = nodes.node(*node));
        self.index = self.nodes.iter().enumerate().map(|(i, node)| (*node, RetainedStack(i as u32))).collect();
    }

    /// Returns an estimate of the bytes in use, for the memory budget.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.len() * 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::marks::Marks;

    #[test]
    fn a_pin_stays_while_stacks_are_renumbered() {
        let mut pins = RetainedStacks::default();
        let (a, b) = (pins.hold(NodeId(7)), pins.hold(NodeId(9)));
        assert_eq!((pins.hold(NodeId(7)), pins.hold(NodeId::ROOT)), (a, RetainedStack::NONE));
        let mut marks = Marks::none(10);
        [0, 3, 7, 9].into_iter().for_each(|node| marks.mark(node));
        pins.renumber(&marks.count());
        assert_eq!((pins.node(a), pins.node(b), pins.hold(NodeId(3))), (NodeId(2), NodeId(3), b));
    }
}
