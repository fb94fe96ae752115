//! The slice of work that one visit to a JIT's files may cost, and how far such a visit came.

use std::time::{Duration, Instant};

/// Bytes read at once, and the longest line.
pub(super) const PIECE: usize = 1 << 16;

/// The budget of one visit to files; the next one goes on from there.
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
    /// Takes so many bytes of it. `false` when it is used up.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes > 0 && Instant::now() < self.until
    }
}

/// The point that a visit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitEnd {
    /// Nothing more is there now.
    All,
    /// The slice ended before the file.
    Part,
    /// There is no room for more.
    Full,
}
