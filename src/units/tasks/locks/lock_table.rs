//! Waits for locks and their holders: the time between two releases belongs to the thread that released last.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::profile::RetainedStack;
use crate::units::kit::{Stats, ThreadKey};

use super::addresses::{LockKey, MOST_LOCKS, PinnedAddresses};

/// A thread, and the stack of its wait or of its release.
pub(super) type ThreadStack = (ThreadKey, RetainedStack);

/// An activity of a holder while others waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Deed {
    Ran(RetainedStack),
    Slept(RetainedStack),
    /// It waited for a CPU.
    Runnable,
    WaitedFor(LockKey),
}

/// The figures of a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    /// The kernel's flags of its kind; 0 for futexes.
    pub(super) flags: u32,
    /// Whether threads wait for the end of another one.
    pub(super) is_end: bool,
    /// Whether a record shows a wait, so that its functions may tell the kind.
    pub(super) is_recorded: bool,
    /// The kept address ([`crate::units::kit::Unit::pin_data`]).
    pub(super) variable: Option<RetainedStack>,
    pub(super) waits: Stats,
    pub(super) sites: FxHashMap<ThreadStack, (u64, u64)>,
    /// Time by the thread that held it, with the stack of its release.
    pub(super) holders: FxHashMap<ThreadStack, u64>,
    /// Time from a release to the return from the wait.
    pub(super) ready: u64,
    pub(super) deeds: FxHashMap<(ThreadKey, Deed), u64>,
    /// The threads that wait now.
    pub(super) waiters: FxHashSet<ThreadKey>,
    /// The holder, as the lock says.
    pub(super) owner: Option<ThreadKey>,
    /// How often the owner in the lock released it, and another thread did.
    pub(super) confirmed: u64,
    pub(super) contradicted: u64,
    /// When the present waiters' waits began, or the last release: the start of the present holder's time.
    since: u64,
    /// How many of the waiters were not released, and the time up to which their waits are in `pending`.
    blocked: u64,
    counted: u64,
    /// Time of waits since the last release: it belongs to the next releaser.
    pending: u64,
    /// The same in wall time: each moment counts once, however many threads wait.
    pending_wall: u64,
    /// Wall time in which any thread waited.
    contended: u64,
    /// Wall time by the thread that held it.
    held: FxHashMap<ThreadKey, u64>,
}

impl Lock {
    /// Counts the waits up to now, before their number changes.
    fn count(&mut self, now: u64) {
        let ns = now.saturating_sub(self.counted);
        self.counted = self.counted.max(now);
        self.pending = self.pending.saturating_add(self.blocked.saturating_mul(ns));
        if self.blocked > 0 {
            self.pending_wall = self.pending_wall.saturating_add(ns);
        }
        if !self.waiters.is_empty() {
            self.contended = self.contended.saturating_add(ns);
        }
    }

    /// Returns the wall time of its waits up to now, and how it divides.
    pub(super) fn wall_times(&self, now: u64) -> WallTimes {
        let (contended, unreleased) = (self.contended, self.pending_wall);
        let mut of = WallTimes { contended, unreleased, held: self.held.clone(), named: Vec::new() };
        let ns = now.saturating_sub(self.counted);
        if self.blocked > 0 {
            of.unreleased = of.unreleased.saturating_add(ns);
        }
        if !self.waiters.is_empty() {
            of.contended = of.contended.saturating_add(ns);
        }
        if let Some(owner) = self.owner {
            of.named.extend((!of.held.contains_key(&owner)).then_some(owner));
            *of.held.entry(owner).or_default() += std::mem::take(&mut of.unreleased);
        }
        of
    }
}

/// The wall time in which threads waited for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WallTimes {
    /// The whole. It is at least the sum of the others; the rest is the time from a release until a waiter ran.
    pub(super) contended: u64,
    /// Time since the last release, if the holder is not known.
    pub(super) unreleased: u64,
    /// Time by holder, including the owner that the lock names now.
    pub(super) held: FxHashMap<ThreadKey, u64>,
    /// The owners that only the lock names: they have not released it yet.
    pub(super) named: Vec<ThreadKey>,
}

impl WallTimes {
    /// Adds those of another futex of the lock.
    pub(super) fn add(&mut self, other: Self) {
        self.contended += other.contended;
        self.unreleased += other.unreleased;
        self.named.extend(other.named);
        other.held.into_iter().for_each(|(thread, ns)| *self.held.entry(thread).or_default() += ns);
    }
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) lock: LockKey,
    pub(super) since: u64,
    pub(super) stack: RetainedStack,
    released: Option<u64>,
}

impl Waiting {
    pub(super) fn took(&self, now: u64, start: u64) -> u64 {
        now.saturating_sub(self.since.max(start))
    }
}

/// Limits of distinct threads with stacks of one lock; further ones are counted without a stack, and beyond the limit of
/// threads as [`OTHERS`].
const MOST_STACKS: usize = 1 << 12;
const MOST_THREADS: usize = 1 << 14;
/// The number of all threads beyond the limit: that of the idle task, which waits for no lock and holds none.
pub(super) const OTHERS: ThreadKey = ThreadKey::of_row(0);
/// Limit of waiting threads, and of locks that a thread holds.
const MOST_WAITING: usize = 1 << 20;
const MOST_HELD: usize = 64;

/// Locks of one kind, of user code or of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct LockTable {
    pub(super) locks: FxHashMap<LockKey, Lock>,
    pub(super) waiting: FxHashMap<ThreadKey, Waiting>,
    held: FxHashMap<ThreadKey, Vec<LockKey>>,
    /// The start of the figures.
    start: u64,
    /// Locks that were dropped because there were too many.
    pub(super) dropped: u64,
    pinned: PinnedAddresses,
    /// By lock, the stack of a wait that names its taker: the same one in all intervals.
    namers: FxHashMap<LockKey, RetainedStack>,
}

impl LockTable {
    /// A thread begins to wait. `owner` is the holder that the lock names.
    pub(super) fn wait(
        &mut self,
        thread: ThreadKey,
        lock: LockKey,
        now: u64,
        stack: RetainedStack,
        owner: Option<ThreadKey>,
    ) {
        self.cancel(thread, now);
        if self.waiting.len() >= MOST_WAITING {
            self.forget();
        }
        self.make_room(lock);
        let of = self.locks.entry(lock).or_default();
        if of.waiters.is_empty() {
            of.since = now;
        }
        of.count(now);
        of.blocked += 1;
        of.waiters.insert(thread);
        self.waiting.insert(thread, Waiting { lock, since: now, stack, released: None });
        if owner.is_some() {
            self.set_owner(lock, owner);
        }
    }

    /// Notes whether threads wait there for the end of another one.
    pub(super) fn set_end(&mut self, lock: LockKey, is_end: bool) {
        if let Some(of) = self.locks.get_mut(&lock) {
            of.is_end = is_end;
        }
    }

    /// Notes that a record shows a wait.
    pub(super) fn set_recorded(&mut self, lock: LockKey) {
        self.locks.get_mut(&lock).into_iter().for_each(|of| of.is_recorded = true);
    }

    fn set_owner(&mut self, lock: LockKey, owner: Option<ThreadKey>) {
        let Some(of) = self.locks.get_mut(&lock) else { return };
        let before = std::mem::replace(&mut of.owner, owner);
        if before == owner {
            return;
        }
        if let Some(held) = before.and_then(|thread| self.held.get_mut(&thread)) {
            held.retain(|own| *own != lock);
        }
        if let Some(thread) = owner {
            let held = self.held.entry(thread).or_default();
            if held.len() < MOST_HELD {
                held.push(lock);
            }
        }
    }

    /// A thread wakes another one: if that waits for a lock, the waker held the lock since the last release.
    pub(super) fn release(&mut self, woken: ThreadKey, by: ThreadKey, stack: RetainedStack, now: u64) {
        let Some(wait) = self.waiting.get_mut(&woken).filter(|wait| wait.released.is_none()) else { return };
        wait.released = Some(now);
        let lock = wait.lock;
        let Some(of) = self.locks.get_mut(&lock) else { return };
        of.count(now);
        of.blocked = of.blocked.saturating_sub(1);
        of.since = now;
        let ns = std::mem::take(&mut of.pending);
        let is_listed = of.held.len() < MOST_THREADS || of.held.contains_key(&by);
        *of.held.entry(if is_listed { by } else { OTHERS }).or_default() += std::mem::take(&mut of.pending_wall);
        match of.owner {
            Some(owner) if owner == by => of.confirmed += 1,
            Some(_) => of.contradicted += 1,
            None => {}
        }
        *bounded(&mut of.holders, (by, stack), RetainedStack::NONE) += ns;
        self.set_owner(lock, None);
    }

    /// A thread returns from its wait. Returns the wait and its time.
    pub(super) fn end(&mut self, thread: ThreadKey, now: u64) -> Option<(Waiting, u64)> {
        let wait = self.leave(thread, now)?;
        let ns = wait.took(now, self.start);
        let of = self.locks.get_mut(&wait.lock)?;
        of.waits.add(ns);
        let site = bounded(&mut of.sites, (thread, wait.stack), RetainedStack::NONE);
        *site = (site.0 + ns, site.1 + 1);
        of.ready += wait.released.map_or(0, |released| now.saturating_sub(released.max(self.start)));
        Some((wait, ns))
    }

    /// A wait did not take place, or nothing is known about its end.
    pub(super) fn cancel(&mut self, thread: ThreadKey, now: u64) {
        self.leave(thread, now);
    }

    fn leave(&mut self, thread: ThreadKey, now: u64) -> Option<Waiting> {
        let wait = self.waiting.remove(&thread)?;
        if let Some(of) = self.locks.get_mut(&wait.lock) {
            of.count(now);
            of.waiters.remove(&thread);
            if wait.released.is_none() {
                of.blocked = of.blocked.saturating_sub(1);
            }
        }
        Some(wait)
    }

    /// Adds what a thread did to the locks that it holds and others wait for. A sample stands for its whole period.
    pub(super) fn did(&mut self, thread: ThreadKey, deed: Deed, since: u64, until: u64) {
        let Some(held) = self.held.get(&thread) else { return };
        for lock in held {
            let Some(of) = self.locks.get_mut(lock).filter(|of| !of.waiters.is_empty()) else { continue };
            let begin = if matches!(deed, Deed::Ran(_)) { since } else { since.max(of.since) };
            let ns = until.saturating_sub(begin.max(self.start));
            if ns > 0 {
                *bounded(&mut of.deeds, (thread, deed), Deed::Ran(RetainedStack::NONE)) += ns;
            }
        }
    }

    /// Returns the owner of the lock that a thread waits for, as the lock says.
    pub(super) fn waits_for(&self, thread: ThreadKey) -> Option<(LockKey, Option<ThreadKey>)> {
        let wait = self.waiting.get(&thread)?;
        Some((wait.lock, self.locks.get(&wait.lock)?.owner))
    }

    /// Returns the threads that wait for each other in a circle, each circle from its lowest number on.
    pub(super) fn circles(&self, now: u64) -> Vec<Vec<ThreadKey>> {
        let mut circles = Vec::new();
        let next = |thread: ThreadKey| {
            let wait = self.waiting.get(&thread).filter(|wait| now.saturating_sub(wait.since) >= SURE_NS)?;
            self.locks.get(&wait.lock)?.owner
        };
        let mut seen: FxHashSet<ThreadKey> = FxHashSet::default();
        let mut all: Vec<ThreadKey> = self.waiting.keys().copied().collect();
        all.sort_unstable();
        for first in all {
            let (mut path, mut at) = (Vec::new(), Some(first));
            while let Some(thread) = at.filter(|thread| seen.insert(*thread)) {
                path.push(thread);
                at = next(thread);
            }
            if let Some(from) = at.and_then(|thread| path.iter().position(|one| *one == thread)) {
                let mut circle = path.split_off(from);
                let lowest = (0..circle.len()).min_by_key(|i| circle[*i]).unwrap_or(0);
                circle.rotate_left(lowest);
                circles.push(circle);
            }
        }
        circles
    }

    /// Drops the locks with the shortest waits, if there are too many.
    fn make_room(&mut self, lock: LockKey) {
        if self.locks.len() < MOST_LOCKS || self.locks.contains_key(&lock) {
            return;
        }
        let mut sums: Vec<u64> = self.locks.values().map(|of| of.waits.sum).collect();
        let (_, median, _) = sums.select_nth_unstable(MOST_LOCKS / 2);
        let least = *median;
        let before = self.locks.len();
        self.locks.retain(|_, of| of.waits.sum > least || !of.waiters.is_empty());
        if self.locks.len() == before {
            self.forget();
            self.locks.clear();
        }
        self.dropped += (before - self.locks.len()) as u64;
        let locks = &self.locks;
        self.held.values_mut().for_each(|held| held.retain(|lock| locks.contains_key(lock)));
    }

    /// Forgets all open waits and holders, because records were lost.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        self.held.clear();
        for of in self.locks.values_mut() {
            of.waiters.clear();
            of.owner = None;
            (of.blocked, of.pending, of.pending_wall) = (0, 0, 0);
        }
    }

    /// Forgets a thread that ended.
    pub(super) fn forget_thread(&mut self, thread: ThreadKey, now: u64) {
        self.cancel(thread, now);
        if self.pinned.forget(thread) {
            self.namers.retain(|key, _| key.space != thread);
        }
        for lock in self.held.remove(&thread).unwrap_or_default() {
            self.locks.get_mut(&lock).into_iter().for_each(|of| of.owner = None);
        }
    }

    /// Begins the figures again. Open waits stay, and count from now on.
    pub(super) fn reset(&mut self, now: u64) {
        self.start = now;
        self.dropped = 0;
        self.locks.retain(|_, of| !of.waiters.is_empty());
        for of in self.locks.values_mut() {
            let Lock { flags, is_end, is_recorded, variable, owner, since, blocked, .. } = *of;
            let waiters = std::mem::take(&mut of.waiters);
            let kept = Lock { flags, is_end, is_recorded, variable, waiters, owner, since, blocked, ..Lock::default() };
            *of = Lock { counted: now, ..kept };
        }
        let locks = &self.locks;
        self.held.values_mut().for_each(|held| held.retain(|lock| locks.contains_key(lock)));
    }

    /// Returns the time of a lock's waits, including those that have not ended.
    pub(super) fn waited(&self, of: &Lock, now: u64) -> u64 {
        of.waits.sum.saturating_add(self.open(of, now).map(|(.., ns)| ns).sum())
    }

    /// Keeps the addresses of the locks with the longest waits; only these are shown by name.
    pub(super) fn pin_longest(&mut self, most: usize, now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        let all = self.locks.iter().map(|(key, of)| (self.waited(of, now), of.variable.is_some(), *key));
        let mut all: Vec<(u64, bool, LockKey)> = all.collect();
        if all.len() > most {
            all.select_nth_unstable_by(most, |a, b| b.cmp(a));
            all.truncate(most);
        }
        for (_, _, key) in all.into_iter().filter(|(_, is_pinned, _)| !is_pinned) {
            // The mappings of a new process arrive later than its first waits.
            let stack = self.pinned.get(key, pin).filter(|stack| *stack != RetainedStack::NONE);
            self.locks.get_mut(&key).into_iter().for_each(|of| of.variable = stack);
        }
    }

    /// Returns the stack that names a lock.
    pub(super) fn namer(&self, key: LockKey) -> Option<RetainedStack> {
        self.namers.get(&key).copied()
    }

    /// Keeps the stack that names a lock from now on.
    pub(super) fn keep_namer(&mut self, key: LockKey, stack: RetainedStack) {
        if self.namers.len() < MOST_LOCKS {
            self.namers.entry(key).or_insert(stack);
            self.pinned.follow(key.space);
        }
    }

    /// Returns the open waits of a lock: thread, wait and its time up to now.
    pub(super) fn open<'a>(&'a self, of: &'a Lock, now: u64) -> impl Iterator<Item = (ThreadKey, Waiting, u64)> + 'a {
        let wait =
            move |thread: &ThreadKey| self.waiting.get(thread).map(|wait| (*thread, *wait, wait.took(now, self.start)));
        of.waiters.iter().filter_map(wait)
    }
}

/// A circle of waits is a deadlock if each wait is at least this long: an owner may be outdated for a moment.
const SURE_NS: u64 = 100_000_000;

/// Returns an entry; if there are too many, that of the thread alone, and then that of [`OTHERS`].
fn bounded<D: Copy + Eq + Hash, V: Default>(
    map: &mut FxHashMap<(ThreadKey, D), V>,
    key: (ThreadKey, D),
    none: D,
) -> &mut V {
    let ways = [(key, MOST_STACKS), ((key.0, none), MOST_THREADS)];
    let fits = |(key, most): &((ThreadKey, D), usize)| map.len() < *most || map.contains_key(key);
    let key = ways.into_iter().find(fits).map_or((OTHERS, none), |(key, _)| key);
    map.entry(key).or_default()
}

#[cfg(test)]
mod tests;
