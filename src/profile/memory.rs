//! Call chains that were seen of late, by a fingerprint of their bytes: most samples of a program repeat a stack,
//! and then nothing of it needs to be looked up.

use super::NodeId;

/// Chains that are remembered at most.
const SLOTS: usize = 1 << 15;

/// The memory: each chain has its one place, where the newest takes that of another.
#[derive(Debug, Default)]
pub struct Memory {
    slots: Vec<(u64, u64, u32)>,
}

impl Memory {
    pub fn get(&self, key: &(u64, u64)) -> Option<NodeId> {
        let (one, two, node) = self.slots.get(slot(key))?;
        // No sample is at the root: that is a place which is free.
        ((*one, *two) == *key && *node != NodeId::ROOT.0).then_some(NodeId(*node))
    }

    pub fn insert(&mut self, key: (u64, u64), node: NodeId) {
        if self.slots.is_empty() {
            self.slots = vec![(0, 0, NodeId::ROOT.0); SLOTS];
        }
        self.slots[slot(&key)] = (key.0, key.1, node.0);
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(u64, u64, u32)>()
    }
}

fn slot(key: &(u64, u64)) -> usize {
    key.1 as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_takes_the_place_of_another() {
        let mut memory = Memory::default();
        assert_eq!((memory.get(&(0, 0)), memory.bytes()), (None, 0));
        let (a, b, other) = ((1, 5), (2, 5 + SLOTS as u64), (3, 6));
        memory.insert(a, NodeId(4));
        memory.insert(other, NodeId(5));
        assert_eq!([a, b, other, (0, 0)].map(|key| memory.get(&key)), [Some(NodeId(4)), None, Some(NodeId(5)), None]);
        memory.insert(b, NodeId(6));
        assert_eq!([a, b, other].map(|key| memory.get(&key)), [None, Some(NodeId(6)), Some(NodeId(5))]);
        for half in [(2, a.1), (a.0, b.1)] {
            assert_eq!(memory.get(&half), None);
        }
        assert_eq!(memory.bytes(), 24 * SLOTS);
    }
}
