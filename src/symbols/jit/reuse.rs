//! Addresses that a JIT reuses: which code was where, in order.
//!
//! Each piece of code has a generation: 1 if nothing was at its addresses before, else one more than that of the last
//! code it replaces. Function tables store the generation in the bits above the address, so that all generations keep
//! their names. Generation 0 stands for addresses before their first code.

use std::collections::BTreeMap;

/// User addresses do not have more bits, unless a program requests the widest ones.
const ADDRESS_BITS: u32 = 48;
/// Later code shares this generation.
const LAST: u16 = 0x7fff;

/// From a time on, these addresses hold other code, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeChange {
    /// In the clock of the jitdump file.
    pub(crate) time: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The tagged address of the code at `start`. Moved code keeps the one it was loaded at.
    pub(crate) at: u64,
}

pub(crate) fn tagged(address: u64, generation: u16) -> u64 {
    if address >> ADDRESS_BITS == 0 { address | u64::from(generation) << ADDRESS_BITS } else { address }
}

pub(crate) fn untagged(tagged: u64) -> u64 {
    // Wider addresses are the kernel's and those of a few programs; no generation is that high.
    if tagged >> 63 == 0 { tagged & ((1 << ADDRESS_BITS) - 1) } else { tagged }
}

/// The newest code at each address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupied(BTreeMap<u64, (u64, u16)>);

impl Occupied {
    /// Records new code, or its removal, at these addresses. Returns its generation, or 0 for addresses without one.
    pub(crate) fn take(&mut self, start: u64, end: u64) -> u16 {
        if start >= end || end >> ADDRESS_BITS != 0 {
            return 0;
        }
        let before = self.0.range(..start).next_back().filter(|(_, (to, _))| *to > start).map(|(from, _)| *from);
        let within = self.0.range(start..end).map(|(from, _)| *from);
        let over: Vec<u64> = before.into_iter().chain(within).collect();
        let mut generation = 1;
        for from in over {
            let Some((to, old)) = self.0.remove(&from) else { continue };
            generation = generation.max(old.saturating_add(1)).min(LAST);
            if from < start {
                self.0.insert(from, (start, old));
            }
            if to > end {
                self.0.insert(end, (to, old));
            }
        }
        self.0.insert(start, (end, generation));
        generation
    }

    /// Returns end and generation of the newest code that begins at an address.
    pub(crate) fn beginning(&self, start: u64) -> Option<(u64, u16)> {
        self.0.get(&start).copied()
    }

    pub(crate) fn generation(&self, address: u64) -> u16 {
        let found = self.0.range(..=address).next_back();
        found.filter(|(_, (end, _))| address < *end).map_or(0, |(_, (_, generation))| *generation)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_the_place_of_other_code_has_a_generation_of_its_own() {
        let mut occupied = Occupied::default();
        let taken = [(0x1000, 0x1040), (0x1040, 0x1080), (0x1020, 0x1060), (0x1000, 0x1010), (0x2000, 0x2000)];
        assert_eq!(taken.map(|(start, end)| occupied.take(start, end)), [1, 1, 2, 2, 0]);
        let at = [0xfff, 0x1000, 0x100f, 0x1010, 0x101f, 0x1020, 0x105f, 0x1060, 0x107f, 0x1080];
        assert_eq!(at.map(|at| occupied.generation(at)), [0, 2, 2, 1, 1, 2, 2, 1, 1, 0]);
        assert_eq!((occupied.take(0, 0x9000), occupied.len()), (3, 1));
        assert_eq!((occupied.beginning(0), occupied.beginning(0x1000)), (Some((0x9000, 3)), None));
        // Code in the middle of other code leaves both sides of it.
        assert_eq!(occupied.take(0x1000, 0x2000), 4);
        assert_eq!([0xfff, 0x1000, 0x2000].map(|at| occupied.generation(at)), [3, 4, 3]);
        for _ in 0..0x8010 {
            occupied.take(0x1000, 0x2000);
        }
        assert_eq!(occupied.generation(0x1000), LAST);
        assert_eq!(occupied.take(u64::MAX - 1, u64::MAX), 0);
    }

    #[test]
    fn a_generation_stands_above_the_address() {
        for (address, generation) in [(0x7f00_0000_1000, 0), (0x7f00_0000_1000, LAST), (0, 7)] {
            assert_eq!(untagged(tagged(address, generation)), address);
        }
        assert_ne!(tagged(1, 1), tagged(1, 2));
        assert_eq!((tagged(u64::MAX, 3), untagged(u64::MAX)), (u64::MAX, u64::MAX));
    }
}
