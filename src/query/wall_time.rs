//! Wall time: the time of threads on the CPUs and off them, from the samples of two events.

/// The samples that count together with those of a question's own event, which samples time on the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime {
    /// The event whose samples are nanoseconds off the CPUs.
    pub off_cpu: usize,
    /// The nanoseconds that each sample of the own event stands for; `None` if that is its period.
    pub sample_ns: Option<u64>,
}

/// The samples that a question counts: those of one event, or of wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedSamples {
    pub(crate) event: usize,
    pub(crate) wall: Option<WallTime>,
}

impl CountedSamples {
    /// Returns the weight of a sample by its event and period; `None` if it does not count.
    #[inline]
    pub(crate) fn weight(&self, event: u16, period: u64) -> Option<u64> {
        let event = usize::from(event);
        match &self.wall {
            None => (event == self.event).then_some(period),
            Some(wall) if event == self.event => Some(wall.sample_ns.unwrap_or(period)),
            Some(wall) => (event == wall.off_cpu).then_some(period),
        }
    }

    /// Whether the weights of an event's samples are time that passed before them.
    pub(crate) fn is_off_cpu(&self, event: u16) -> bool {
        self.wall.is_none_or(|wall| wall.off_cpu == usize::from(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::aggregate::{Aggregate, SampleSelection};
    use crate::query::staged::Staged;

    #[test]
    fn the_samples_of_both_events_add_up() {
        let mut staged = Staged::default();
        let site = staged.site(7, &["main"]);
        for (time, event) in [(1, 0), (2, 1), (3, 2), (4, 1)] {
            staged.profile.push(time, site, 10 * time, 0, event);
        }
        let total = |wall| {
            let of = CountedSamples { event: 0, wall };
            let total = Aggregate::of(SampleSelection { of, ..SampleSelection::default() }, None).over(staged.data());
            (total.total().samples, total.total().period)
        };
        assert_eq!(total(None), (1, 10));
        assert_eq!(total(Some(WallTime { off_cpu: 1, sample_ns: None })), (3, 70));
        assert_eq!(total(Some(WallTime { off_cpu: 1, sample_ns: Some(5) })), (3, 65));
    }

    #[test]
    fn wall_time_is_that_of_two_events() {
        let weights = |counted: CountedSamples| [0, 1, 2].map(|event| counted.weight(event, 7));
        let clock = CountedSamples { event: 1, wall: None };
        assert_eq!(weights(clock), [None, Some(7), None]);
        let wall = |sample_ns| CountedSamples { wall: Some(WallTime { off_cpu: 2, sample_ns }), ..clock };
        assert_eq!(weights(wall(None)), [None, Some(7), Some(7)]);
        // Cycles are not a time, but their samples come at a known rate.
        assert_eq!(weights(wall(Some(1_000_000))), [None, Some(1_000_000), Some(7)]);
        assert!(!wall(None).is_off_cpu(1) && wall(None).is_off_cpu(2) && clock.is_off_cpu(1));
    }
}
