//! Numbers that identify rows, from what they are of.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

/// The same number for the same thing.
pub(crate) fn id(what: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}
