//! The times of lost samples as the kernel reports them, in order of time.

use std::collections::VecDeque;

use crate::session::hosts::HostId;

/// Lost samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The time of the kernel's report in nanoseconds of the session's clock; they were lost just before.
    pub time: u64,
    /// The number that the kernel reports: records of any type if a full ring lost them.
    pub samples: u64,
    /// The CPU whose ring was full; `None` if unknown.
    pub(crate) cpu: Option<u16>,
    pub(crate) host: HostId,
}

/// Spans without measurement, while all events were disabled. The last one may be open, up to `u64::MAX`.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<(u64, u64)>);

impl Gaps {
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

const MAX: usize = 1 << 16;

/// All losses, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Losses(VecDeque<Loss>);

impl Losses {
    pub(crate) fn push(&mut self, loss: Loss) {
        if self.0.len() == MAX {
            self.0.pop_front();
        }
        self.0.push_back(loss);
    }

    /// Returns the losses that are kept, in the order of their reports.
    pub fn all(&self) -> impl Iterator<Item = &Loss> {
        self.0.iter()
    }

    /// Returns those that were reported at a time or later, the newest first.
    pub(crate) fn since(&self, time: u64) -> impl Iterator<Item = &Loss> {
        self.0.iter().rev().take_while(move |loss| loss.time >= time)
    }

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
