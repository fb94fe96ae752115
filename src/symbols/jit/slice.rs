//! The budget of one visit to a JIT's files, and how far the visit came.

use std::time::{Duration, Instant};

/// Bytes per read, and the longest line.
pub(super) const PIECE: usize = 1 << 16;

/// The budget of one visit to files; the next visit continues from there.
#[derive(Debug)]
pub struct VisitBudget {
    pub(super) bytes: usize,
    pub(super) until: Instant,
}

impl Default for VisitBudget {
    fn default() -> Self {
        Self { bytes: 4 * PIECE, until: Instant::now() + Duration::from_millis(5) }
    }
}

impl VisitBudget {
    /// Uses some bytes of the budget. Returns `false` once it is used up.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes > 0 && Instant::now() < self.until
    }
}

/// How far a visit came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitEnd {
    /// The file was read to its end, where its runtime may append.
    All,
    /// The budget was used up before the end of the file.
    Part,
    /// The memory limit is reached.
    Full,
}
