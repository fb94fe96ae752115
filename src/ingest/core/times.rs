//! The times of a session's samples.

use crate::profile::Timeline;
use crate::record::off_cpu::NO_TIME;

/// The start of a session, its newest time, and its samples over time.
#[derive(Debug, Default)]
pub struct SessionTimes {
    /// The session's start in nanoseconds of its clock; 0 before a recording's first record.
    pub start: u64,
    /// The time for which events have been measured: live, since the start or the last clearing.
    pub(crate) measured: Option<(u64, u64)>,
    /// The highest timestamp of a sample.
    pub(super) newest: u64,
    /// Samples and losses of the whole session, including removed ones.
    pub timeline: Timeline,
}

impl SessionTimes {
    pub(super) fn begin(&mut self, time: u64) {
        if self.start == 0 {
            self.start = time;
        }
    }

    pub(super) fn count(&mut self, time: u64, samples: u32) {
        self.begin(time);
        self.timeline.count(time.saturating_sub(self.start), samples);
    }

    /// Begins the measured time, unless it has begun.
    pub(super) fn measure(&mut self, since: u64) {
        self.measured.get_or_insert((since, since));
    }

    /// Extends the measured time to a moment; `u64::MAX` is not one.
    pub(crate) fn reach(&mut self, time: u64) {
        if let Some((_, until)) = self.measured.as_mut().filter(|_| time < u64::MAX) {
            *until = time.max(*until);
        }
    }

    /// Begins the measured time again.
    pub(crate) fn measure_again(&mut self, since: u64) {
        self.measured = self.measured.map(|_| (since, since));
    }

    pub(super) fn lose(&mut self, time: u64, lost: u64) {
        self.timeline.lose(time.saturating_sub(self.start), lost);
    }

    /// Returns the time of a record, or of the newest record before it if it lacks one: perf writes accumulated off-CPU
    /// times last, without a timestamp.
    pub(super) fn known(&mut self, time: u64) -> u64 {
        if time < NO_TIME {
            self.newest = self.newest.max(time);
            return time;
        }
        self.newest
    }
}
