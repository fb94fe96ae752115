//! Whether the program that sums the time off the CPUs costs too much: by its own figures while it is attached, by the
//! machine's context switches while it is detached.

use crate::kernel::walk::waits::ProgramCost;
use crate::lang::thousands;

const SECOND: u64 = 1_000_000_000;
/// Readings in a row with too high a cost until the program is detached.
const HIGH: u32 = 3;
/// Readings in a row with a low rate until it is attached again, and that rate in percent of the limit.
const LOW: u32 = 5;
const LOW_PERCENT: u64 = 60;
/// Nanoseconds of a run that the program cannot measure itself.
const ENTRY_NS: u64 = 50;

#[derive(Debug, Default)]
pub(super) struct CostGuard {
    /// The limit, in nanoseconds of a second.
    limit: u64,
    /// The cost at the previous reading, and its time.
    last: Option<(ProgramCost, u64)>,
    /// The machine's context switches at the previous reading, and its time.
    switches: Option<(u64, u64)>,
    /// The cost of a run without its walks.
    run_ns: u64,
    /// Readings in a row that argue for a change.
    in_a_row: u32,
}

impl CostGuard {
    pub(super) fn new(cpus: usize) -> Self {
        Self { limit: ProgramCost::limit(cpus), ..Self::default() }
    }

    /// Returns the reason to detach the program, if any.
    pub(super) fn excess(&mut self, cost: ProgramCost, now: u64) -> Option<String> {
        let (before, then) = self.last.replace((cost, now))?;
        let (last, elapsed) = (cost.since(before), now.saturating_sub(then).max(1));
        let spent = last.other_ns.saturating_add(last.runs.saturating_mul(ENTRY_NS));
        let [rate, ns] = [last.runs, spent].map(|n| per_second(n, elapsed));
        self.in_a_row = if ns > self.limit { self.in_a_row + 1 } else { 0 };
        if self.in_a_row < HIGH {
            return None;
        }
        self.run_ns = (spent / last.runs.max(1)).max(1);
        (self.last, self.switches, self.in_a_row) = (None, None, 0);
        let (cost, limit) = (percent(ns), percent(self.limit));
        Some(format!(
            "at {} context switches per second it takes {cost:.1} % of a CPU, more than {limit:.1} %; below {} it goes on",
            thousands(rate),
            thousands(self.low_rate())
        ))
    }

    /// Returns the switches per second below which the program is attached again.
    fn low_rate(&self) -> u64 {
        self.limit * LOW_PERCENT / 100 / self.run_ns.max(1)
    }

    /// Returns whether the rate of the machine's context switches has been low for long enough.
    pub(super) fn may_go_on(&mut self, switches: u64, now: u64) -> bool {
        let Some((before, then)) = self.switches.replace((switches, now)) else { return false };
        let rate = per_second(switches.saturating_sub(before), now.saturating_sub(then).max(1));
        self.in_a_row = if rate < self.low_rate() { self.in_a_row + 1 } else { 0 };
        if self.in_a_row < LOW {
            return false;
        }
        self.in_a_row = 0;
        true
    }
}

fn per_second(n: u64, ns: u64) -> u64 {
    (u128::from(n) * u128::from(SECOND) / u128::from(ns)).min(u64::MAX.into()) as u64
}

fn percent(ns: u64) -> f64 {
    100.0 * ns as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the answers to readings, a second apart, of a program with 500 ns a run at these rates.
    fn detached(guard: &mut CostGuard, rates: &[u64]) -> Vec<bool> {
        let mut cost = ProgramCost::default();
        let mut read = |(second, rate): (usize, &u64)| {
            cost.runs += rate;
            cost.other_ns += 450 * rate;
            guard.excess(cost, second as u64 * SECOND).is_some()
        };
        rates.iter().enumerate().map(&mut read).collect()
    }

    #[test]
    fn a_high_rate_detaches_and_a_low_one_attaches_again() {
        let mut guard = CostGuard::new(2);
        // 15 ms are 30,000 runs.
        let rates = [50_000, 50_000, 20_000, 31_000, 31_000, 31_000];
        assert_eq!(detached(&mut guard, &rates), [false, false, false, false, false, true]);
        let mut count = 0;
        let mut at = |second: u64, rate: u64| {
            count += rate;
            guard.may_go_on(count, second * SECOND)
        };
        let rates = [1, 17_000, 17_000, 17_000, 17_000, 19_000, 17_000, 17_000, 17_000, 17_000, 17_000];
        let told: Vec<bool> = (10..).zip(rates).map(|(second, rate)| at(second, rate)).collect();
        assert_eq!(told.iter().position(|told| *told), Some(10), "five below 18,000 in a row");
        assert_eq!(detached(&mut guard, &[50_000; 4]), [false, false, false, true], "the first reading is a start");
    }

    #[test]
    fn walks_do_not_count_because_they_have_a_budget() {
        let mut guard = CostGuard::new(2);
        let mut cost = ProgramCost::default();
        for second in 0..10 {
            cost.runs += 1000;
            cost.other_ns += 500_000;
            cost.walk_ns += 900_000_000;
            assert_eq!(guard.excess(cost, second * SECOND), None);
        }
        // A machine with many CPUs has more switches.
        assert_eq!(detached(&mut CostGuard::new(64), &[100_000; 8]), [false; 8]);
    }

    #[test]
    fn nothing_panics_on_odd_readings() {
        let mut guard = CostGuard::new(0);
        let most = ProgramCost { runs: u64::MAX, walk_ns: 0, other_ns: u64::MAX };
        for cost in [most, ProgramCost::default(), most, most, ProgramCost::default()] {
            let _ = guard.excess(cost, 0);
        }
        assert!(!guard.may_go_on(u64::MAX, 5) && !guard.may_go_on(0, 0));
    }
}
