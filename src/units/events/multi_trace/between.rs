//! The events between two others: a buffer of recent events, and the part that a slow pair keeps.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::panel::row_order::arrange;
use crate::panel::unit::duration;
use crate::units::kit::prelude::*;

/// Number of buffered events: a storm of faults on the whole machine fills it in a second.
const RECENT: usize = 1 << 18;
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) time: u64,
    pub(super) cpu: u32,
    /// 0 if unknown.
    pub(super) pid: i32,
    pub(super) thread: ThreadKey,
    pub(super) event: u16,
    /// Whether it belongs to the target.
    pub(super) is_chosen: bool,
    pub(super) raw: Box<[u8]>,
    pub(super) stack: RetainedStack,
    /// The finding of a unit among the events.
    pub(super) found: Option<Box<str>>,
}

impl Seen {
    pub(super) fn of(hit: &UnitSample<'_>, cx: &Context<'_>) -> Self {
        let UnitSample { time, cpu, pid, event, stack, .. } = *hit;
        let thread = cx.thread(hit.tid);
        Self { time, cpu, pid, thread, event, is_chosen: true, raw: hit.raw.into(), stack, found: None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Slow {
    pub(super) first: Seen,
    pub(super) second: Seen,
    pub(super) key: RowKey,
    pub(super) between: Vec<Seen>,
    /// Number of events in between that were not kept.
    pub(super) more: usize,
    /// The time at the start of the pair that the buffer no longer covered at its end.
    pub(super) forgotten: u64,
    /// Counts of all events in between, kept or not, the largest first.
    pub(super) counts: Vec<(EventPlace, u64)>,
}

/// An event of a thread in a stack.
pub(super) type EventPlace = (u16, ThreadKey, RetainedStack);
const PLACES: usize = 200;

#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    events: VecDeque<Seen>,
    detail: CaseDetail,
}

impl Recent {
    pub(super) fn of(detail: CaseDetail) -> Self {
        Self { detail, ..Self::default() }
    }

    pub(super) fn remember(&mut self, seen: Seen) {
        // An event with two roles arrives twice.
        let same = |last: &Seen| {
            (last.time, last.event, last.cpu, last.thread) == (seen.time, seen.event, seen.cpu, seen.thread)
                && last.found == seen.found
        };
        if self.detail.events > 0 && !self.events.back().is_some_and(same) {
            if self.events.len() == RECENT {
                self.events.pop_front();
            }
            self.events.push_back(seen);
        }
    }

    /// Returns the events between a pair's ends on their CPUs, of their threads and with their key, or the selected
    /// part of them; limited to those nearest to the end.
    pub(super) fn between(&self, first: Seen, second: &Seen, key: &RowKey) -> Slow {
        let detail = &self.detail;
        let from = first.time.saturating_sub(detail.before);
        let ends: Vec<&Seen> =
            [&first, second].into_iter().zip(detail.ends).filter_map(|(end, is)| is.then_some(end)).collect();
        let ours = |seen: &&Seen| {
            let same = |end: &&Seen| {
                detail.cpu && end.cpu == seen.cpu
                    || detail.thread && end.thread == seen.thread
                    || detail.process && end.pid != 0 && end.pid == seen.pid
            };
            // An event with two roles was seen in the other role.
            let is_end = |end: &Seen| (seen.time, seen.event, seen.thread) == (end.time, end.event, end.thread);
            !is_end(&first)
                && !is_end(second)
                && (ends.iter().any(same) || detail.key && *key == RowKey::Int(seen.thread.tid.into()))
        };
        let since = self.events.iter().rev().take_while(|seen| seen.time >= from);
        let all: Vec<&Seen> = since.filter(ours).collect();
        let mut kept: Vec<Seen> = Vec::new();
        for seen in &all {
            let soon = |later: &Seen| later.time - seen.time < detail.gap;
            if kept.len() < detail.events && !kept.last().is_some_and(soon) {
                kept.push((*seen).clone());
            }
        }
        kept.reverse();
        let more = all.len() - kept.len();
        let mut places: BTreeMap<EventPlace, u64> = BTreeMap::new();
        let meanwhile = all.iter().filter(|seen| seen.time >= first.time);
        meanwhile.for_each(|seen| *places.entry((seen.event, seen.thread, seen.stack)).or_default() += 1);
        let mut counts = by_share_of_event(places, |(event, ..)| *event);
        counts.truncate(PLACES);
        let oldest = self.events.front().filter(|_| self.events.len() == RECENT).map_or(0, |seen| seen.time);
        let forgotten = oldest.saturating_sub(first.time);
        Slow { first, second: second.clone(), key: key.clone(), between: kept, more, forgotten, counts }
    }
}

impl Slow {
    /// Describes the missing start of a pair; empty if it is complete.
    pub(super) fn unremembered(&self) -> String {
        match self.forgotten {
            0 => String::new(),
            ns => format!("of its first {} nothing is remembered: {RECENT} events have come since", duration(ns)),
        }
    }
}

/// Sorts places by their share of all hits of their event, so that a storm of page faults does not hide the samples.
pub(super) fn by_share_of_event<K: Ord + Copy>(
    places: impl IntoIterator<Item = (K, u64)>,
    event: impl Fn(&K) -> u16,
) -> Vec<(K, u64)> {
    let mut places: Vec<(K, u64)> = places.into_iter().collect();
    let mut sums: FxHashMap<u16, u64> = FxHashMap::default();
    places.iter().for_each(|(place, n)| *sums.entry(event(place)).or_default() += n);
    let crossed = |(place, _): &(K, u64), (_, n): &(K, u64)| u128::from(*n) * u128::from(sums[&event(place)]);
    // a.n / a.sum > b.n / b.sum, without division
    arrange(&mut places, |a, b| crossed(a, b).cmp(&crossed(b, a)).then_with(|| a.0.cmp(&b.0)));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(time: u64) -> Seen {
        let (raw, stack) = (Box::default(), RetainedStack::default());
        let thread = ThreadKey::of_row(7);
        Seen { time, cpu: 0, pid: 7, thread, event: 1, is_chosen: true, raw, stack, found: None }
    }

    #[test]
    fn what_is_not_remembered_any_more_is_said() {
        let mut recent = Recent::of(CaseDetail { events: 4, ..CaseDetail::default() });
        let last = RECENT as u64 + 10;
        (1..=last).for_each(|time| recent.remember(seen(time)));
        let slow = recent.between(seen(1), &seen(last + 1), &RowKey::Int(7));
        assert_eq!((slow.forgotten, slow.between.len(), slow.more), (10, 4, RECENT - 4));
        assert_eq!(slow.counts.iter().map(|(_, n)| *n).sum::<u64>(), RECENT as u64);
        assert!(slow.unremembered().contains("10 ns"));
        let slow = recent.between(seen(last - 3), &seen(last + 1), &RowKey::Int(7));
        assert_eq!((slow.forgotten, slow.more, slow.unremembered()), (0, 0, String::new()));
    }

    #[test]
    fn a_storm_of_one_event_hides_no_other_event() {
        let mut recent = Recent::of(CaseDetail { events: 4, ..CaseDetail::default() });
        let mut time = 10;
        let mut hit = |event, tid| {
            time += 1;
            recent.remember(Seen { event, thread: ThreadKey::of_row(tid), ..seen(time) });
        };
        (0..2 * PLACES as u64).for_each(|tid| (0..5).for_each(|_| hit(1, tid)));
        (0..3).for_each(|_| hit(2, 7));
        hit(2, 8);
        let slow = recent.between(seen(1), &seen(100_000), &RowKey::Int(7));
        assert_eq!(slow.counts.len(), PLACES);
        let first: Vec<_> =
            slow.counts.iter().take(3).map(|((event, thread, _), n)| (*event, thread.tid, *n)).collect();
        assert_eq!(first, [(2, 7, 3), (2, 8, 1), (1, 0, 5)]);
    }
}
