//! When samples were lost: what the kernel says of it, in order of time.

use std::collections::VecDeque;

/// Samples that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When the kernel said so, in nanoseconds of the session's clock: they were lost just before.
    pub time: u64,
    pub samples: u64,
    /// Whose ring was full; `None` when that is not known.
    pub cpu: Option<u16>,
}

/// Losses that are kept.
const MAX: usize = 1 << 16;

/// All of them, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Losses(VecDeque<Loss>);

impl Losses {
    pub fn push(&mut self, loss: Loss) {
        if self.0.len() == MAX {
            self.0.pop_front();
        }
        self.0.push_back(loss);
    }

    pub fn all(&self) -> impl Iterator<Item = &Loss> {
        self.0.iter()
    }

    /// Forgets those before a time.
    pub fn forget(&mut self, time: u64) {
        while self.0.front().is_some_and(|loss| loss.time < time) {
            self.0.pop_front();
        }
    }
}
