//! The limit on events whose hits slow the machine down. The kernel does not throttle software events with period 1.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Event;
use crate::kernel::attr::{Flag, TYPE_BREAKPOINT, TYPE_TRACEPOINT};
use crate::kernel::monotonic_ns;

use super::attach::{Attachment, ByCpu};
use super::overhead::{REFUSE_PERCENT, WARN_PERCENT};

/// The seconds per hit written to the ring, with and without its call chain: usual in small VMs (1.4 and 0.5 µs).
const HIT_SECONDS: f64 = 1.4e-6;
const HIT_SECONDS_BARE: f64 = 0.5e-6;

#[derive(Debug)]
pub(crate) struct FloodGuard {
    off: bool,
    only_tells: bool,
    last: ByCpu,
    at: u64,
    /// Slots that flooded before. Sampling less often permits more hits, so a lower limit applies to them.
    slowed: BTreeSet<usize>,
}

impl FloodGuard {
    pub(crate) fn new(off: bool) -> Self {
        Self { off, only_tells: false, last: ByCpu::new(), at: monotonic_ns(), slowed: BTreeSet::new() }
    }

    /// Reports floods once each, without changing the sampling: samples with another period have other fields and ids,
    /// but a file's header has already declared them.
    pub(crate) fn only_tell(&mut self) {
        self.only_tells = true;
    }

    pub(crate) fn only_tells(&self) -> bool {
        self.only_tells
    }

    /// Returns the slots that exceed the cost limit of a CPU, and the period that makes their cost acceptable.
    pub(crate) fn look(&mut self, counts: ByCpu, attachment: &Attachment) -> Vec<(usize, u64)> {
        let now = monotonic_ns();
        let seconds = (now - std::mem::replace(&mut self.at, now)) as f64 / 1e9;
        let mut worst: BTreeMap<usize, f64> = BTreeMap::new();
        for ((slot, cpu), count) in &counts {
            // Nothing is known about events opened since.
            let Some(before) = self.last.get(&(*slot, *cpu)) else { continue };
            let rate = count.checked_sub(*before).unwrap_or(0) as f64 / seconds.max(1e-3);
            let most = worst.entry(*slot).or_default();
            *most = most.max(rate);
        }
        self.last = counts;
        if self.off {
            return Vec::new();
        }
        let too_much = |(slot, rate): (usize, f64)| {
            let (attr, event) = (attachment.attr(slot), &attachment.slots[slot].event);
            if attr.has(Flag::Freq) || !counts_hits(event) {
                return None;
            }
            let chains = event.way(attachment.common.chains).is_on();
            period(rate, attr.period_or_freq, chains, self.limit(slot)?).map(|period| (slot, period))
        };
        let found: Vec<(usize, u64)> = worst.into_iter().filter_map(too_much).collect();
        self.slowed.extend(found.iter().map(|(slot, _)| *slot));
        found
    }

    /// Returns the maximum cost of a slot, in percent of a CPU; `None` if its flood was reported already.
    fn limit(&self, slot: usize) -> Option<f64> {
        match self.slowed.contains(&slot) {
            true if self.only_tells => None,
            true => Some(2.0 * WARN_PERCENT),
            false => Some(REFUSE_PERCENT),
        }
    }
}

/// Returns whether an event's count is the number of hits: for `sched_stat_runtime` and similar events it is
/// nanoseconds (`__perf_count` in the kernel's include/trace/events/sched.h).
fn counts_hits(event: &Event) -> bool {
    let is_weighed = |(system, name): &(String, String)| system == "sched" && name.starts_with("sched_stat_");
    matches!(event.attr.kind, TYPE_TRACEPOINT | TYPE_BREAKPOINT) && !event.tracepoint.as_ref().is_some_and(is_weighed)
}

/// Returns the cost of samples per second, in percent of a CPU.
pub(crate) fn percent(samples: f64, chains: bool) -> f64 {
    samples * if chains { HIT_SECONDS } else { HIT_SECONDS_BARE } * 100.0
}

/// Returns the period, a power of two, at which this rate of hits has an acceptable cost. `None` if the current cost is
/// below the limit, in percent of a CPU, or if hits are only counted (a period of 0).
fn period(hits: f64, now: u64, chains: bool, limit: f64) -> Option<u64> {
    let costs = |period: u64| percent(hits / period as f64, chains);
    if now == 0 || costs(now) <= limit {
        return None;
    }
    (1..32).map(|shift| 1u64 << shift).find(|period| costs(*period) <= WARN_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::Attr;

    #[test]
    fn what_is_no_hit_is_no_flood_and_a_told_one_is_told_once() {
        let of = |system: &str, name: &str| {
            let tracepoint = Some((system.to_owned(), name.to_owned()));
            Event { tracepoint, attr: Attr { kind: TYPE_TRACEPOINT, ..Attr::default() }, ..Event::dummy() }
        };
        assert!(counts_hits(&of("sched", "sched_switch")) && counts_hits(&of("raw_syscalls", "sys_enter")));
        assert!(!counts_hits(&of("sched", "sched_stat_runtime")) && !counts_hits(&Event::dummy()));
        let mut guard = FloodGuard::new(false);
        guard.slowed.insert(3);
        assert_eq!([3, 4].map(|slot| guard.limit(slot)), [Some(2.0 * WARN_PERCENT), Some(REFUSE_PERCENT)]);
        guard.only_tell();
        assert_eq!([3, 4].map(|slot| guard.limit(slot)), [None, Some(REFUSE_PERCENT)]);
    }

    #[test]
    fn only_floods_are_slowed_down() {
        assert_eq!(period(200_000.0, 1, true, REFUSE_PERCENT), None);
        assert_eq!(period(500_000.0, 1, true, REFUSE_PERCENT), Some(8));
        assert_eq!(period(500_000.0, 1, false, REFUSE_PERCENT), None);
        assert_eq!(period(500_000.0, 8, true, REFUSE_PERCENT), None);
        assert_eq!(period(2_400_000.0, 8, true, 2.0 * WARN_PERCENT), Some(64));
        assert_eq!(period(5e9, 0, true, REFUSE_PERCENT), None, "it is only counted");
        assert_eq!(period(5e9, 1, true, REFUSE_PERCENT), Some(1 << 17));
    }
}
