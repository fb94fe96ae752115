//! The number and the rate of hits that were summed in the kernel.

use std::collections::VecDeque;

use crate::lang::counted;
use crate::panel::unit;
use crate::units::kit::Moment;

/// The number of readings in the shown rate, and the shortest time without a reading after which summing has ended.
const RECENT: usize = 10;
const OVER_NS: u64 = 1_000_000_000;

/// Summed hits since the last reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct SummedCount {
    all: u64,
    /// The times of the last reading, and of the last one with hits.
    until: u64,
    last: u64,
    /// The time that a reading spans, and its hits.
    recent: VecDeque<(u64, u64)>,
}

impl SummedCount {
    /// Adds the hits of a reading.
    pub(crate) fn add(&mut self, (from, until): (u64, u64), n: u64) {
        if n > 0 {
            self.last = until;
        }
        self.all = self.all.saturating_add(n);
        self.until = until;
        self.recent.push_back((until.saturating_sub(from), n));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Returns whether no hit was summed.
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Returns the time of the last reading.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    pub(crate) fn reset(&mut self) {
        (self.all, self.last) = (0, 0);
        self.recent.clear();
    }

    /// Describes the hits as `noun`: their rate, or their number after the last one; empty if there is none.
    pub(crate) fn note(&self, noun: &str, at: &Moment<'_>) -> String {
        if self.all == 0 {
            return String::new();
        }
        let (ns, n) = self.recent.iter().fold((0u64, 0u64), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if n == 0 || at.now.saturating_sub(self.until) > ns.max(OVER_NS) {
            let until = unit::duration(at.after(self.last));
            return format!("{} summed in the kernel, the last at {until}", counted(self.all, noun));
        }
        let rate = u128::from(n) * 1_000_000_000 / u128::from(ns.max(1));
        format!("summed in the kernel: {}/s", counted(u64::try_from(rate).unwrap_or(u64::MAX), noun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::session::{Origin, Session};
    use crate::units::kit::{ThreadNames, ViewState};

    #[test]
    fn the_rate_ends_with_the_readings() {
        let (session, profile) = (Session::new(Origin::Recorded), Profile::default());
        let (names, look) = (ThreadNames::default(), ViewState::default());
        let mut sums = SummedCount::default();
        let note = |sums: &SummedCount, now: u64| {
            let at =
                Moment { session: &session, profile: &profile, names: &names, start: 0, since: 0, now, look: &look };
            sums.note("call", &at)
        };
        sums.add((0, 100), 0);
        assert_eq!((note(&sums, 100), sums.is_empty()), (String::new(), true));
        sums.add((100, 200), 500);
        assert_eq!(note(&sums, 200 + OVER_NS), "summed in the kernel: 2,500,000,000 calls/s");
        assert_eq!(note(&sums, 201 + OVER_NS), "500 calls summed in the kernel, the last at 200 ns");
        for reading in 2..=RECENT as u64 + 1 {
            sums.add((100 * reading, 100 * reading + 100), 0);
        }
        assert!(note(&sums, 2000).starts_with("500 calls summed in the kernel, the last at"), "the others are older");
        sums.reset();
        assert_eq!(note(&sums, 2000), "");
    }
}
