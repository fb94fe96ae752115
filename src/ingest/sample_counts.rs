//! The course of a session: samples that came, and were lost, over the whole session.

use crate::profile::Timeline;

/// Seconds that rates are kept of.
const MAX_SECONDS: usize = 7 * 24 * 3600;

/// Samples and losses by the time since the start.
#[derive(Debug, Default)]
pub struct Course {
    /// For the strip of time.
    pub timeline: Timeline,
    /// Samples in each second.
    pub rates: Vec<u32>,
    /// Samples lost in each second; shorter when the newest seconds lost none.
    lost: Vec<u32>,
}

impl Course {
    /// A sample came so many nanoseconds after the start.
    pub fn count(&mut self, after: u64) {
        self.timeline.count(after);
        add_in_second(&mut self.rates, after, 1);
    }

    /// Samples were lost.
    pub fn lose(&mut self, after: u64, samples: u64) {
        self.timeline.lose(after, samples);
        add_in_second(&mut self.lost, after, samples);
    }

    /// Whether a second lost samples.
    pub fn is_lossy(&self, second: usize) -> bool {
        self.lost.get(second).is_some_and(|lost| *lost > 0)
    }
}

/// Counts for the second that is so many nanoseconds after the start.
fn add_in_second(list: &mut Vec<u32>, after: u64, n: u64) {
    let second = (after / 1_000_000_000) as usize;
    if second < MAX_SECONDS {
        if list.len() <= second {
            list.resize(second + 1, 0);
        }
        list[second] = list[second].saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
    }
}
