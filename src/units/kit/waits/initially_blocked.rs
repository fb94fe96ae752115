//! Threads that were blocked before the start, or before the last loss of records, and still are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use crate::panel::Cell;
use crate::record::open_spans::ThreadChange;
use crate::session::BlockedThread;

use crate::units::kit::Context;
use crate::units::kit::tables::columns::text;

/// The minimum time between two queries, which read files of all threads.
const PAUSE: Duration = Duration::from_secs(3);

/// Blocked threads of the running machine by thread id.
#[derive(Clone, Debug, Default)]
pub(crate) struct InitiallyBlocked {
    is_known: bool,
    /// When the threads were queried.
    asked: Option<Instant>,
    /// The time at which /proc had been read, by the clock of live sessions.
    read_at: u64,
    threads: BTreeMap<i32, BlockedThread>,
    /// The threads with a record since the last loss, until the next query leaves them out.
    told: FxHashSet<i32>,
}

impl InitiallyBlocked {
    /// The effect of a loss of records on waits.
    pub(crate) const LOSS_TEXT: &str =
        "waits that go on count from the next reading of /proc; others open at that time are left out";

    /// Queries the blocked threads once: with the first record, or when panels are made without one. After
    /// [`Self::renew`], it queries them once more, without the threads that [`Self::is_told`] has named since then. A
    /// thread with a later record has woken since.
    pub(crate) fn ask(&mut self, cx: &mut Context<'_>) {
        if !self.is_known {
            self.ask_at(Instant::now(), cx);
        }
    }

    fn ask_at(&mut self, now: Instant, cx: &mut Context<'_>) {
        if self.is_known || self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < PAUSE) {
            return;
        }
        (self.is_known, self.asked) = (true, Some(now));
        let told = std::mem::take(&mut self.told);
        let (blocked, read_at) = cx.session.blocked();
        self.read_at = read_at;
        for thread in blocked.into_iter().filter(|thread| !told.contains(&thread.tid)) {
            cx.names.meet(thread.tid, &thread.comm);
            if cx.counts(thread.cpu) && cx.follows(thread.tid) {
                self.threads.insert(thread.tid, thread);
            }
        }
    }

    /// Returns whether /proc was read after this time: a thread that woke then was asleep elsewhere before.
    pub(crate) fn is_read_after(&self, time: u64) -> bool {
        time < self.read_at
    }

    /// Takes the threads, for a unit that tracks them itself.
    pub(crate) fn take(&mut self) -> Vec<BlockedThread> {
        std::mem::take(&mut self.threads).into_values().collect()
    }

    /// Removes a thread when a record shows its current state.
    pub(crate) fn is_told(&mut self, tid: i32) {
        self.threads.remove(&tid);
        if !self.is_known {
            self.told.insert(tid);
        }
    }

    /// Follows thread changes: an ended thread is not blocked.
    pub(crate) fn follow(&mut self, change: &ThreadChange) {
        match change {
            ThreadChange::Born { tid, .. } | ThreadChange::Ended { tid, .. } => self.is_told(*tid),
            ThreadChange::Exec { pid, from, gone } => gone.iter().chain(from).chain([pid]).for_each(|tid| {
                self.threads.remove(tid);
            }),
        }
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = &BlockedThread> {
        self.threads.values()
    }

    /// Forgets all threads after lost records, because they may have woken, and has them queried again: otherwise, a
    /// thread that goes on sleeping would be left out until its next record.
    pub(crate) fn renew(&mut self) {
        self.threads.clear();
        self.told.clear();
        self.is_known = false;
    }
}

/// Marks a time that counts from the start of the measurement, because the wait is older.
pub(crate) fn mark(is_before: bool) -> Cell {
    if is_before { text("or longer") } else { Cell::Empty }
}

#[cfg(test)]
pub(crate) mod tests;
