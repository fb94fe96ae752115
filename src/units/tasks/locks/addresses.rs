//! Addresses of locks, and those that are kept to name the variables there.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::profile::RetainedStack;
use crate::units::kit::ThreadKey;

/// The address space of the kernel.
pub(super) const KERNEL_SPACE: ThreadKey = ThreadKey::of_row(0);

/// A lock by its address in the address space of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LockKey {
    pub(super) space: ThreadKey,
    pub(super) address: u64,
}

/// Limit of kept addresses: they share their storage with the stacks of all units, and are never released.
pub(super) const MOST_VARIABLES: usize = 1 << 12;
/// Limit of locks.
pub(super) const MOST_LOCKS: usize = 1 << 16;

/// The addresses of locks that were kept. They outlast their locks, so that these need no new ones later.
#[derive(Clone, Debug, Default)]
pub(super) struct PinnedAddresses {
    known: FxHashMap<LockKey, RetainedStack>,
    spaces: FxHashSet<ThreadKey>,
    /// The distinct kept addresses: processes of one program share theirs.
    all: FxHashSet<RetainedStack>,
}

impl PinnedAddresses {
    /// Returns the kept address of a lock, the empty stack if no file can contain it, and `None` beyond the limit.
    pub(super) fn get(
        &mut self,
        key: LockKey,
        pin: &mut dyn FnMut(i32, u64) -> RetainedStack,
    ) -> Option<RetainedStack> {
        if let Some(stack) = self.known.get(&key) {
            return Some(*stack);
        }
        if self.all.len() >= MOST_VARIABLES || self.known.len() >= MOST_LOCKS {
            return None;
        }
        let stack = pin(key.space.tid, key.address);
        if stack != RetainedStack::NONE {
            self.known.insert(key, stack);
            self.spaces.insert(key.space);
            self.all.insert(stack);
        }
        Some(stack)
    }

    /// Marks a process whose end matters.
    pub(super) fn follow(&mut self, space: ThreadKey) {
        self.spaces.insert(space);
    }

    /// Forgets the addresses of a process that ended or runs another program. Returns whether it was known.
    pub(super) fn forget(&mut self, space: ThreadKey) -> bool {
        let is_known = self.spaces.remove(&space);
        if is_known {
            self.known.retain(|key, _| key.space != space);
        }
        is_known
    }
}
