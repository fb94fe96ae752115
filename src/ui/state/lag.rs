//! The delay of the view: its current age, and the distribution of the ages of all views.

use std::time::Duration;

use crate::engine::Clock;
use crate::units::kit::Stats;

/// The delay beyond the refresh interval that is reported.
const LATE_NS: u64 = 500_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The age of the view, measured from its newest record, not from its creation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewLag {
    clock: Option<Clock>,
    /// Ages of the views when they were replaced, in nanoseconds.
    became: Stats,
}

impl ViewLag {
    /// Updates the clock when a frame is drawn. `None` if nothing is recorded or the view is frozen.
    pub(crate) fn tick(&mut self, clock: Option<Clock>) {
        if let (Some(before), Some(clock)) = (self.clock, clock)
            && clock.seen > before.seen
        {
            self.became.add(clock.now.saturating_sub(before.seen));
        }
        self.clock = clock;
    }

    pub(crate) fn elapsed(&self, start: u64) -> Option<u64> {
        self.clock.map(|clock| clock.now.saturating_sub(start))
    }

    pub(crate) fn age(&self) -> Option<u64> {
        self.clock.map(|clock| clock.now.saturating_sub(clock.seen))
    }

    /// Returns the age in whole seconds if the view is late.
    pub(crate) fn late(&self, refresh: Duration) -> Option<u64> {
        let most = (refresh.as_nanos() as u64).max(SECOND_NS) + LATE_NS;
        self.age().filter(|age| *age >= most).map(|age| (age + SECOND_NS / 2) / SECOND_NS)
    }

    /// Returns the number of replaced views and their ages: median, 99th percentile, maximum.
    pub(crate) fn became(&self) -> Option<(u64, [u64; 3])> {
        let of = &self.became;
        (of.n > 0).then(|| (of.n, [of.quantile(0.5), of.quantile(0.99), of.max]))
    }

    /// Returns the time until the header's clock shows the next second.
    pub(crate) fn next_second(&self, start: u64) -> Option<Duration> {
        self.elapsed(start).map(|elapsed| Duration::from_nanos(SECOND_NS - elapsed % SECOND_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_view_is_as_old_as_the_newest_that_it_holds() {
        let mut behind = ViewLag::default();
        let at = |ms: u64, seen: u64| Some(Clock { now: ms * MS, seen: seen * MS });
        assert_eq!((behind.age(), behind.late(Duration::ZERO), behind.next_second(0)), (None, None, None));
        behind.tick(at(5000, 4900));
        behind.tick(at(5800, 4900));
        assert_eq!((behind.age(), behind.became()), (Some(900 * MS), None));
        behind.tick(at(6000, 5850));
        behind.tick(at(9000, 8700));
        let (n, [_, _, worst]) = behind.became().expect("two were replaced");
        assert_eq!((n, worst, behind.age()), (2, 3150 * MS, Some(300 * MS)));
        assert_eq!(
            (behind.elapsed(4000 * MS), behind.next_second(3700 * MS)),
            (Some(5000 * MS), Some(Duration::from_millis(700)))
        );
        // A frozen view does not age.
        behind.tick(None);
        behind.tick(at(60_000, 59_900));
        assert_eq!(behind.became().map(|(n, _)| n), Some(2));
    }

    #[test]
    fn it_is_late_beyond_the_pace_that_was_asked_for() {
        let late = |ms: u64, refresh: f64| {
            let mut behind = ViewLag::default();
            behind.tick(Some(Clock { now: (5000 + ms) * MS, seen: 5000 * MS }));
            behind.late(Duration::from_secs_f64(refresh))
        };
        assert_eq!((late(1499, 1.0), late(1500, 1.0), late(3400, 1.0)), (None, Some(2), Some(3)));
        assert_eq!(
            (late(1499, 0.1), late(1600, 0.1), late(5400, 5.0), late(5600, 5.0)),
            (None, Some(2), None, Some(6))
        );
    }
}
