//! Numbers that identify rows, from what they are of.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

/// A number that is equal for equal things.
pub(crate) fn id(what: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}
