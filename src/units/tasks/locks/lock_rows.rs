//! Locks as rows of a table: their kinds, merged from their futexes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::units::kit::prelude::*;

use super::addresses::LockKey;
use super::lock_names::{self, LockName};
use super::lock_table::ThreadStack;

/// A lock as a row.
pub(super) struct LockRow {
    pub(super) is_kernel: bool,
    pub(super) key: LockKey,
    /// All its futexes, [`Self::key`] first.
    pub(super) keys: Vec<LockKey>,
    pub(super) name: LockName,
    pub(super) waits: Stats,
    /// Including the waits that have not ended.
    pub(super) ns: u64,
    pub(super) ready: u64,
    pub(super) waiting: u64,
    /// Whether a record shows a wait for it, or the futex names its owner.
    pub(super) may_be_lock: bool,
    /// The main holder of all its futexes, and where it was; empty until the rows of a lock are merged.
    pub(super) holder: Arc<str>,
    pub(super) holder_in: Arc<str>,
    /// Times by waiter, and by holder, with their stacks.
    pub(super) sites: LockSites,
    pub(super) holders: Vec<(ThreadStack, u64)>,
}

impl LockRow {
    fn merge(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.waits.merge(&other.waits);
        self.ns += other.ns;
        self.ready += other.ready;
        self.waiting += other.waiting;
        self.may_be_lock |= other.may_be_lock;
        self.sites.extend(other.sites);
        self.holders.extend(other.holders);
    }

    /// Returns the place of its kind in the table: locks, then futexes that may be something else, then queues.
    pub(super) fn rank(&self) -> u8 {
        let is_futex = &*self.name.kind == lock_names::FUTEX;
        let is_unknown = is_futex && (!self.may_be_lock || self.name.is_unnamed() && self.holder.is_empty());
        if self.name.is_queue { 2 } else { u8::from(is_unknown) }
    }

    /// Merges the rows of one lock; each has the name of the first.
    pub(super) fn by_lock(rows: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut list: Vec<Self> = Vec::new();
        let mut places: FxHashMap<(bool, LockKey), usize> = FxHashMap::default();
        for row in rows {
            let lock = whole_lock(row.is_kernel, row.key, &row.name);
            let place = *places.entry(lock).or_insert(list.len());
            match list.get_mut(place) {
                Some(first) => first.merge(row),
                None => list.push(row),
            }
        }
        list
    }
}

/// The time of all waits for locks, and of those at condition variables, semaphores, joins and unknown futexes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockTotals {
    pub(super) locks: u64,
    pub(super) queues: u64,
}

impl LockTotals {
    /// Returns the total that a row is a share of.
    pub(super) fn of(&self, row: &LockRow) -> u64 {
        if row.rank() > 0 { self.queues } else { self.locks }
    }
}

/// The bytes of a futex.
const WORD: u64 = 4;

/// Returns the lock that a futex belongs to: a condition variable of glibc has a word for each of its two groups of
/// waiters, and the global lock of Python has several words. The functions that take them distinguish Java's locks.
pub(super) fn whole_lock(is_kernel: bool, key: LockKey, name: &LockName) -> (bool, LockKey) {
    let LockKey { space, address } = key;
    let address = match name.kind.as_ref() {
        _ if name.within > 0 => address.wrapping_sub(name.within),
        lock_names::CONDITION if name.is_of_glibc => address & !(2 * WORD - 1),
        lock_names::GLOBAL => 0,
        _ if name.is_of_taker() => id(&name.taken_in),
        _ => address,
    };
    (is_kernel, LockKey { space, address })
}

/// Waits of a lock by waiter and stack: their time and number.
pub(super) type LockSites = Vec<(ThreadStack, (u64, u64))>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a row of one futex with a wait.
    fn row(address: u64, ns: u64, may_be_lock: bool, name: LockName) -> LockRow {
        let key = LockKey { space: ThreadKey::of_row(1), address };
        let mut waits = Stats::default();
        waits.add(ns);
        LockRow {
            is_kernel: false,
            key,
            keys: vec![key],
            name,
            waits,
            ns,
            ready: 0,
            waiting: 1,
            may_be_lock,
            holder: "".into(),
            holder_in: "".into(),
            sites: Vec::new(),
            holders: Vec::new(),
        }
    }

    /// Threads that wait at a condition variable since before the start, as idle threads of MariaDB: no function tells
    /// its kind, and the thread that signals it is not a holder.
    #[test]
    fn an_old_wait_of_unknown_kind_is_not_for_a_lock() {
        let futex =
            || LockName { kind: lock_names::FUTEX.into(), variable: "thread_cache+0x28".into(), ..LockName::default() };
        let mut old = row(0xa000, 9, false, futex());
        old.holder = "acceptor-7 100.0 %".into();
        let (named, known) = (row(0xb000, 1, true, futex()), row(0xc000, 1, true, futex()));
        let mutex = LockName { kind: "mutex".into(), ..LockName::default() };
        assert_eq!([old.rank(), named.rank(), row(0xd000, 1, false, mutex).rank()], [1, 0, 0]);
        let totals = LockTotals { locks: 4, queues: 9 };
        assert_eq!([totals.of(&old), totals.of(&named)], [9, 4]);
        // A record of a wait for the same lock tells it.
        old.merge(known);
        assert_eq!(old.rank(), 0);
    }
}
