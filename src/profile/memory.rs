//! Call chains that were seen before, by a fingerprint of their bytes: most samples of a program
//! repeat a stack, and then nothing of it needs to be looked up.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::NodeId;

/// Beyond this many chains the memory starts anew.
const MAX: usize = 1 << 19;
/// After so many questions it is asked whether the answers were worth them.
const TRIAL: u32 = 1 << 15;
/// How much longer it then rests when they were not.
const REST: u32 = 8 * TRIAL;

/// The memory. Where stacks hardly repeat, it rests for a while.
#[derive(Debug, Default)]
pub struct Memory {
    known: HashMap<(u64, u64), NodeId, FxBuildHasher>,
    asked: u32,
    hits: u32,
    resting: u32,
}

impl Memory {
    /// Whether to ask at all.
    pub fn is_worth_it(&mut self) -> bool {
        self.resting = self.resting.saturating_sub(1);
        self.resting == 0
    }

    pub fn get(&mut self, key: &(u64, u64)) -> Option<NodeId> {
        let found = self.known.get(key).copied();
        self.asked += 1;
        self.hits += u32::from(found.is_some());
        if self.asked == TRIAL {
            if self.hits < TRIAL / 8 {
                self.known = HashMap::default();
                self.resting = REST;
            }
            (self.asked, self.hits) = (0, 0);
        }
        found
    }

    pub fn insert(&mut self, key: (u64, u64), node: NodeId) {
        if self.resting > 0 {
            return;
        }
        if self.known.len() >= MAX {
            self.known.clear();
        }
        self.known.insert(key, node);
    }

    pub fn bytes(&self) -> usize {
        self.known.capacity() * 25
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_when_an_eighth_repeats() {
        for (hits, rests) in [(TRIAL / 8, false), (TRIAL / 8 - 1, true)] {
            let mut memory = Memory::default();
            memory.insert((0, 0), NodeId(4));
            memory.insert((1, 1), NodeId(5));
            assert_eq!((memory.get(&(0, 0)), memory.get(&(1, 1))), (Some(NodeId(4)), Some(NodeId(5))));
            assert!(memory.bytes() >= 50);
            for i in 2..u64::from(TRIAL) {
                let known = i < u64::from(hits);
                assert_eq!(memory.get(&(if known { 1 } else { i }, if known { 1 } else { i })).is_some(), known);
            }
            assert_eq!(!memory.is_worth_it(), rests, "{hits}");
        }
    }

    #[test]
    fn it_rests_when_nothing_repeats_and_wakes_again() {
        let mut memory = Memory::default();
        let mut asked = 0;
        for i in 0..u64::from(TRIAL + REST) + 10 {
            if memory.is_worth_it() {
                asked += 1;
                assert_eq!(memory.get(&(i, i)), None);
                memory.insert((i, i), NodeId(1));
            }
        }
        assert!((TRIAL..TRIAL + 20).contains(&asked), "{asked}");
        memory.insert((7, 7), NodeId(3));
        assert_eq!(memory.get(&(7, 7)), Some(NodeId(3)));
    }
}
