//! Quotas of CPU time: throttling counters in a group's `cpu.stat` (Documentation/scheduler/sched-bwc.rst).

use std::sync::Arc;

/// Counters since the group was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    pub(crate) periods: u64,
    pub(crate) throttled: u64,
    /// Nanoseconds for which it was throttled, summed over its CPUs.
    pub kept_ns: u64,
}

impl QuotaUse {
    /// Parses either cgroup version's file; returns `None` if it has no such counters.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.and_then(|number| number.trim().parse::<u64>().ok())
        };
        let kept = || value("throttled_time").or_else(|| value("throttled_usec").map(|us| us.saturating_mul(1000)));
        Some(Self { periods: value("nr_periods")?, throttled: value("nr_throttled")?, kept_ns: kept().unwrap_or(0) })
    }

    /// Returns the throttling since an earlier reading: percent of the periods, and nanoseconds; `None` without any.
    pub fn since(&self, before: &Self) -> Option<(f64, u64)> {
        let periods = self.periods.checked_sub(before.periods).filter(|periods| *periods > 0)?;
        let throttled = self.throttled.checked_sub(before.throttled).filter(|throttled| *throttled > 0)?;
        let percent = (100.0 * throttled as f64 / periods as f64).min(100.0);
        Some((percent, self.kept_ns.saturating_sub(before.kept_ns)))
    }
}

/// Returns whether `cpu.max`, or `cpu.cfs_quota_us`, sets a limit.
pub fn is_limit(text: &str) -> bool {
    let first = text.split_whitespace().next();
    first.and_then(|quota| quota.parse::<i64>().ok()).is_some_and(|quota| quota > 0)
}

/// A group that was throttled in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThrottledGroup {
    /// Its container, pod or unit.
    pub name: Arc<str>,
    /// Its path below the root of its hierarchy.
    pub path: Arc<str>,
    /// The percentage of throttled periods among those in which it ran.
    pub percent: f64,
    /// Milliseconds per second, summed over all CPUs.
    pub ms: f64,
    /// The file with its limit: `cpu.max`, or `cpu.cfs_quota_us` in cgroup version 1.
    pub file: &'static str,
    /// Whether processes of the session's target are in it; `None` without such processes.
    pub of_target: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let v1 = b"nr_periods 40\nnr_throttled 15\nthrottled_time 2500000000\nnr_bursts 0\n";
        let v2 = b"usage_usec 9\nnr_periods 50\nnr_throttled 19\nthrottled_usec 2900000\n";
        let (before, now) = (QuotaUse::parse(v1).expect("v1"), QuotaUse::parse(v2).expect("v2"));
        assert_eq!(now.since(&before), Some((40.0, 400_000_000)));
        // No throttling, no activity, or another group with the same name.
        for (now, before) in [(now, now), (before, now), (QuotaUse { periods: 60, ..now }, now)] {
            assert_eq!(now.since(&before), None);
        }
        for bad in [&b""[..], b"usage_usec 9\n", b"nr_periods x\nnr_throttled 1\n", b"\xff"] {
            assert_eq!(QuotaUse::parse(bad), None);
        }
        let limits = ["max 100000\n", "-1\n", "", "0\n", "50000 100000\n", "25000\n"].map(is_limit);
        assert_eq!(limits, [false, false, false, false, true, true]);
    }
}
