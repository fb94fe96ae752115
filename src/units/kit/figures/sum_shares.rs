//! Sums of threads, distributed over what recorded hits of the same threads have: their stacks, for example.

use rustc_hash::FxHashMap;

/// The limit of kept hits.
const MAX: usize = 1 << 14;

/// The last recorded hits of each thread, and sums that wait for some. Sums are read before the rings, so that the
/// recorded hits of their time come later.
#[derive(Clone, Debug)]
pub(crate) struct SumShares<P> {
    recent: FxHashMap<i32, Recent<P>>,
    kept: usize,
    /// Process and sum by thread.
    waiting: FxHashMap<i32, (i32, u64)>,
}

#[derive(Clone, Debug)]
struct Recent<P> {
    hits: Vec<P>,
    /// Whether a sum was distributed over them: the next hit is of a later time.
    is_used: bool,
}

impl<P> Default for SumShares<P> {
    fn default() -> Self {
        Self { recent: FxHashMap::default(), kept: 0, waiting: FxHashMap::default() }
    }
}

impl<P> SumShares<P> {
    /// Keeps what a recorded hit of a thread has.
    pub(crate) fn keep(&mut self, tid: i32, hit: P) {
        if self.kept >= MAX {
            self.forget();
        }
        let recent = self.recent.entry(tid).or_insert_with(|| Recent { hits: Vec::new(), is_used: false });
        if std::mem::take(&mut recent.is_used) {
            self.kept -= recent.hits.len();
            recent.hits.clear();
        }
        recent.hits.push(hit);
        self.kept += 1;
    }

    /// Forgets the hits of threads whose sums were distributed, or all if none was.
    fn forget(&mut self) {
        self.recent.retain(|_, recent| !recent.is_used);
        if self.recent.values().map(|recent| recent.hits.len()).sum::<usize>() >= MAX {
            self.recent.clear();
        }
        self.kept = self.recent.values().map(|recent| recent.hits.len()).sum();
    }

    /// Adds the sum of a thread.
    pub(crate) fn add(&mut self, tid: i32, pid: i32, n: u64) {
        let waiting = self.waiting.entry(tid).or_insert((pid, 0));
        *waiting = (pid, waiting.1.saturating_add(n));
    }

    /// Distributes the sums of threads with recorded hits: `give` receives hits, each with its part of the sum.
    pub(crate) fn share_out(&mut self, mut give: impl FnMut(&P, u64)) {
        let Self { recent, waiting, .. } = self;
        waiting.retain(|tid, (_, n)| {
            let Some(recent) = recent.get_mut(tid).filter(|recent| !recent.hits.is_empty()) else { return true };
            recent.is_used = true;
            let parts = recent.hits.len() as u128;
            let up_to = |at: u128| (u128::from(*n) * at / parts) as u64;
            for (hit, at) in recent.hits.iter().zip(0..) {
                give(hit, up_to(at + 1) - up_to(at));
            }
            false
        });
    }

    /// Returns thread, process and sum of those that have no recorded hit yet.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (i32, i32, u64)> {
        self.waiting.iter().map(|(tid, (pid, n))| (*tid, *pid, *n))
    }

    /// Forgets the sums; recorded hits stay.
    pub(crate) fn reset(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(shares: &mut SumShares<&'static str>) -> Vec<(&'static str, u64)> {
        let mut out = Vec::new();
        shares.share_out(|hit, n| out.push((*hit, n)));
        out
    }

    #[test]
    fn sums_are_distributed_exactly_over_the_hits_of_their_time() {
        let mut shares = SumShares::default();
        shares.add(1, 10, 100);
        assert_eq!((shared(&mut shares), shares.rest().collect::<Vec<_>>()), (vec![], vec![(1, 10, 100)]));
        ["a", "b", "a"].into_iter().for_each(|hit| shares.keep(1, hit));
        shares.keep(2, "of another thread");
        assert_eq!(shared(&mut shares), [("a", 33), ("b", 33), ("a", 34)]);
        assert_eq!((shared(&mut shares), shares.rest().count()), (vec![], 0));
        shares.add(1, 10, 3);
        assert_eq!(shared(&mut shares), [("a", 1), ("b", 1), ("a", 1)], "no newer hit is known");
        shares.keep(1, "c");
        shares.add(1, 10, 5);
        assert_eq!(shared(&mut shares), [("c", 5)]);
        shares.add(3, 10, 5);
        shares.reset();
        assert_eq!(shares.rest().count(), 0);
    }

    #[test]
    fn kept_hits_are_bounded() {
        let mut shares = SumShares::default();
        for tid in 0..3 * MAX as i32 {
            shares.keep(tid, "hit");
            if tid % 2 == 0 {
                shares.add(tid, tid, 1);
                assert_eq!(shared(&mut shares), [("hit", 1)]);
            }
            assert!(shares.kept <= MAX && shares.recent.len() <= MAX);
        }
        shares.add(3 * MAX as i32 - 1, 0, 2);
        assert_eq!(shared(&mut shares), [("hit", 2)], "the newest stay");
    }
}
