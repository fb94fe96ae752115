//! The times at which samples were lost: what the kernel says of it, in order of time.

use std::collections::VecDeque;

use crate::session::hosts::HostId;

/// Samples that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When the kernel said so, in nanoseconds of the session's clock: they were lost just before.
    pub time: u64,
    /// How many, as the kernel tells it: records of any type, where a full ring lost them.
    pub samples: u64,
    /// Whose ring was full; `None` when that is not known.
    pub(crate) cpu: Option<u16>,
    pub(crate) host: HostId,
}

/// Spans in which nothing was measured, as all events rested; the last one may be open, up to `u64::MAX`.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    /// From a time on all events rest, or do not.
    pub(crate) fn rest(&mut self, time: u64, rests: bool) {
        let room = self.0.len() < MAX;
        match self.0.last_mut().filter(|(_, until)| *until == u64::MAX) {
            Some((_, until)) if !rests => *until = time,
            None if rests && room => self.0.push((time, u64::MAX)),
            _ => {}
        }
    }

    pub(crate) fn all(&self) -> &[(u64, u64)] {
        &self.0
    }
}

/// Losses that are kept.
const MAX: usize = 1 << 16;

/// All of them, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Losses(VecDeque<Loss>);

impl Losses {
    pub(crate) fn push(&mut self, loss: Loss) {
        if self.0.len() == MAX {
            self.0.pop_front();
        }
        self.0.push_back(loss);
    }

    /// Those that are remembered, in the order in which they were told.
    pub fn all(&self) -> impl Iterator<Item = &Loss> {
        self.0.iter()
    }

    /// Forgets those before a time.
    pub(crate) fn forget(&mut self, time: u64) {
        while self.0.front().is_some_and(|loss| loss.time < time) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_open_until_something_runs_again() {
        let mut gaps = Gaps::default();
        for (time, rests) in [(1, false), (5, true), (6, true), (9, false), (10, false), (12, true)] {
            gaps.rest(time, rests);
        }
        assert_eq!(gaps.all(), [(5, 9), (12, u64::MAX)]);
    }
}
