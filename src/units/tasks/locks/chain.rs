//! The chain of a lock: its holders, and their activities while others waited.
//!
//! Its times are wall times: a moment in which several threads wait counts once. Each line is a part of the line above
//! it, so that lines of one level add up to no more than that.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::panel::{Rows, unit};
use crate::units::kit::prelude::*;

use super::Locks;
use super::addresses::LockKey;
use super::lock_rows::LockRow;
use super::lock_table::{OTHERS, WallTimes};
use super::panels::{NAMED, percent, sums, titled, until_its_end};

/// Steps of a chain.
const DEEPEST: usize = 8;

impl Locks {
    /// The activities of the holders of the selected lock, through the locks that they waited for themselves; without a
    /// selection, as in text, of the first locks with holders.
    pub(super) fn chain(&mut self, at: &Moment<'_>, rows: &[LockRow], selected: Option<&LockRow>) -> Panel {
        let mut steps = ChainSteps::default();
        let mut shown: Vec<&LockRow> = match selected {
            Some(row) => vec![row],
            None => rows.iter().filter(|row| !row.holder.is_empty()).take(NAMED).collect(),
        };
        if shown.is_empty() {
            shown.extend(rows.first());
        }
        let mut firsts: Vec<&LockRow> = Vec::new();
        for row in shown {
            if !steps.seen.contains(&(row.is_kernel, row.key)) {
                firsts.push(row);
                self.chain_of_row(at, row, &mut steps);
            }
        }
        let rows = Sheet::of(0..steps.list.len(), |i| i as u64)
            .right("ns", "Time", 9, |i| time(steps.list[i].1))
            .left("step", "Chain", 0, |i| text(steps.list[i].2.clone()))
            .rows();
        let depth = steps.list.iter().map(|(depth, ..)| *depth).collect();
        let title = match firsts.len() {
            0 | 1 => titled("Chain", firsts.first().copied()),
            n => format!("Chains of {n} locks"),
        };
        Panel::new(title, Body::Tree(Rows { depth, ..rows }))
    }

    fn chain_of_row(&mut self, at: &Moment<'_>, row: &LockRow, steps: &mut ChainSteps) {
        let mut waiters = sums(row.sites.iter().map(|((thread, _), (ns, _))| (*thread, *ns)));
        waiters.retain(|(thread, _)| *thread != OTHERS);
        let names: Vec<Arc<str>> = waiters.iter().take(NAMED).map(|(thread, _)| at.comm(*thread)).collect();
        let more = waiters.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let lock = format!("{} {}", row.name.kind, row.name.text(row.key));
        let whole = self.wall_times(row.is_kernel, &row.keys, at.now).contended.min(row.ns);
        let is_sum = is_listed(row.ns - whole, row.ns);
        let sum = if is_sum { format!(" ({} summed over threads)", unit::duration(row.ns)) } else { String::new() };
        steps.add(0, whole, format!("{}{more} waited for {lock}{sum}", names.join(", ")));
        self.chain_of(at, (row.is_kernel, &row.keys[..]), 1, whole, steps);
    }

    fn wall_times(&self, is_kernel: bool, keys: &[LockKey], now: u64) -> WallTimes {
        let mut sum = WallTimes::default();
        let locks = keys.iter().filter_map(|key| self.table(is_kernel).locks.get(key));
        locks.for_each(|of| sum.add(of.wall_times(now)));
        sum
    }

    /// Adds the holders of a lock for which threads waited for `whole`, a part of all waits for it.
    fn chain_of(
        &mut self,
        at: &Moment<'_>,
        (is_kernel, keys): (bool, &[LockKey]),
        depth: u16,
        whole: u64,
        steps: &mut ChainSteps,
    ) {
        if usize::from(depth) > DEEPEST || !keys.iter().all(|key| steps.seen.insert((is_kernel, *key))) {
            return;
        }
        let is_end = keys.iter().any(|key| self.table(is_kernel).locks.get(key).is_some_and(|of| of.is_end));
        let times = self.wall_times(is_kernel, keys, at.now);
        let part = |ns: u64| in_proportion(ns, whole, times.contended);
        let all: u64 = times.held.values().sum();
        let mut holders = sums(times.held.iter().map(|(thread, ns)| (*thread, *ns)));
        holders.retain(|(thread, _)| *thread != OTHERS);
        let more = holders.len().saturating_sub(NAMED);
        holders.truncate(NAMED);
        let mut listed = 0;
        for (thread, held) in holders {
            listed += held;
            let text = match times.named.contains(&thread) {
                _ if is_end => until_its_end(at, thread),
                true => format!("held by {} as the lock says", at.task(thread)),
                false => format!("held by {} {}", at.task(thread), percent(held, all)),
            };
            steps.add(depth, part(held), text);
            self.chain_of_holder(at, (is_kernel, keys), (thread, held, part(held)), depth + 1, steps);
        }
        let others = all.saturating_sub(listed);
        let released = times.contended.saturating_sub(all).saturating_sub(times.unreleased);
        steps.add_rest(depth, part(others), whole, format!("held by {more} more threads"));
        steps.add_rest(depth, part(released), whole, "released, until a waiter ran");
        let known = part(listed) + part(others) + part(released);
        steps.add_rest(depth, whole.saturating_sub(known), whole, "holder not known");
    }

    /// Adds what a holder did in the time `whole`, which is a part of the time `held` of all waits for the lock.
    fn chain_of_holder(
        &mut self,
        at: &Moment<'_>,
        (is_kernel, keys): (bool, &[LockKey]),
        (thread, held, whole): (ThreadKey, u64, u64),
        depth: u16,
        steps: &mut ChainSteps,
    ) {
        let deeds = self.deeds(at, is_kernel, keys, thread);
        if deeds.is_empty() {
            return;
        }
        // Samples estimate the time, so that the sum may exceed it.
        let all = held.max(deeds.iter().map(|(_, ns, _)| ns).sum());
        let part = |ns: u64| in_proportion(ns, whole, all);
        let mut rest = whole;
        let mut others = (0, 0);
        for (at_deed, (deed, ns, next)) in deeds.into_iter().enumerate() {
            rest = rest.saturating_sub(part(ns));
            if at_deed >= NAMED {
                others = (others.0 + 1, others.1 + part(ns));
                continue;
            }
            steps.add(depth, part(ns), deed);
            if let Some(next) = next {
                self.chain_of(at, (false, &[next][..]), depth + 1, part(ns), steps);
            }
        }
        steps.add_rest(depth, others.1, whole, format!("{} more", others.0));
        steps.add_rest(depth, rest, whole, "not known");
    }
}

/// Returns a part of `whole` as large as `part` is of `all`; never more than `part`.
fn in_proportion(part: u64, whole: u64, all: u64) -> u64 {
    let ns = u128::from(part) * u128::from(whole) / u128::from(all.max(whole).max(1));
    u64::try_from(ns).unwrap_or(whole)
}

/// Returns whether a remainder is large enough for a line: a twentieth.
fn is_listed(rest: u64, whole: u64) -> bool {
    rest > 0 && rest >= whole / 20
}

/// The lines of a chain: depth, time and text.
#[derive(Default)]
struct ChainSteps {
    list: Vec<(u16, u64, Arc<str>)>,
    seen: FxHashSet<(bool, LockKey)>,
}

impl ChainSteps {
    fn add(&mut self, depth: u16, ns: u64, text: impl Into<Arc<str>>) {
        self.list.push((depth, ns, text.into()));
    }

    /// Adds the line of a remainder, unless it is small.
    fn add_rest(&mut self, depth: u16, ns: u64, whole: u64, text: impl Into<Arc<str>>) {
        if is_listed(ns, whole) {
            self.add(depth, ns, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_exceed_their_whole() {
        assert_eq!(in_proportion(24, 24, 25), 23);
        assert_eq!(in_proportion(30, 10, 30), 10);
        // Records were lost: nothing is enlarged.
        assert_eq!(in_proportion(5, 100, 50), 5);
        assert_eq!(in_proportion(u64::MAX, u64::MAX, 0), u64::MAX);
        assert_eq!([is_listed(5, 100), is_listed(4, 100), is_listed(0, 0)], [true, false, false]);
    }
}
