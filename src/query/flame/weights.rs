//! A weight for each node of a tree.

use crate::profile::Acc;

/// A weight for each node, in twelve bytes: a tree may have millions.
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
}
