//! Weights of the nodes of a tree.

use crate::profile::Acc;

/// A current weight, and that of the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightPair {
    pub(crate) new: Acc,
    /// Zero without a comparison.
    pub(crate) old: Acc,
    /// The weight of the partner event for instructions per cycle, if requested.
    pub(crate) partner: Acc,
}

impl WeightPair {
    pub(crate) fn is_zero(&self) -> bool {
        self.new.is_zero() && self.old.is_zero()
    }

    pub(crate) fn percent_of(&self, whole: &Self) -> f64 {
        self.new.percent_of(&whole.new)
    }
}

impl std::ops::AddAssign for WeightPair {
    fn add_assign(&mut self, other: Self) {
        self.new += other.new;
        self.old += other.old;
        self.partner += other.partner;
    }
}

impl std::iter::Sum for WeightPair {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |mut sum, both| {
            sum += both;
            sum
        })
    }
}

/// A weight per node, in twelve bytes: a tree may have millions of nodes.
#[derive(Debug, Default)]
pub(super) struct Weights {
    samples: Vec<u32>,
    period: Vec<u64>,
}

impl Weights {
    pub(super) fn resize(&mut self, n: usize) {
        self.samples.resize(n, 0);
        self.period.resize(n, 0);
    }

    pub(super) fn reserve(&mut self, n: usize) {
        self.samples.reserve_exact(n);
        self.period.reserve_exact(n);
    }

    pub(super) fn get(&self, node: u32) -> Acc {
        let at = node as usize;
        match (self.samples.get(at), self.period.get(at)) {
            (Some(samples), Some(period)) => Acc { samples: u64::from(*samples), period: *period },
            _ => Acc::default(),
        }
    }

    pub(super) fn add(&mut self, node: u32, acc: Acc) {
        let at = node as usize;
        self.samples[at] = self.samples[at].saturating_add(u32::try_from(acc.samples).unwrap_or(u32::MAX));
        self.period[at] = self.period[at].wrapping_add(acc.period);
    }

    pub(super) fn take(&mut self, node: u32, acc: Acc) {
        let at = node as usize;
        self.samples[at] = self.samples[at].saturating_sub(u32::try_from(acc.samples).unwrap_or(u32::MAX));
        self.period[at] = self.period[at].wrapping_sub(acc.period);
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlameTree;
    use super::*;
    use crate::query::staged::Staged;

    #[test]
    fn sums_stop_at_their_limits() {
        let mut weights = Weights::default();
        weights.resize(3);
        let acc = |samples, period| Acc { samples, period };
        weights.add(1, acc(5, 7));
        weights.add(1, acc(u64::from(u32::MAX) - 6, 9));
        weights.add(2, acc(u64::MAX, u64::MAX));
        assert_eq!(
            [0, 1, 2, 3].map(|n| weights.get(n)),
            [acc(0, 0), acc(u64::from(u32::MAX) - 1, 16), acc(u64::from(u32::MAX), u64::MAX), acc(0, 0)]
        );
    }

    #[test]
    fn a_tree_takes_little_more_room_than_its_stacks() {
        let mut staged = Staged::default();
        for pid in 1..=25 {
            staged.comm(pid, pid, false, &pid.to_string());
            staged.sample(1, pid, &[], 1);
        }
        (0..1000).for_each(|i| staged.sample(1, 1, &[&format!("f{i}")], 1));
        let tree = FlameTree::build(staged.data(), &staged.fold(), None, &[]);
        assert_eq!(tree.len(), 1026);
        assert!(tree.total.samples.capacity() <= 1100, "{}", tree.total.samples.capacity());
        assert!(tree.total.period.capacity() <= 1100, "{}", tree.total.period.capacity());
    }
}
