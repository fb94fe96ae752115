//! Threads that were blocked before the start and still are.

use std::collections::BTreeMap;

use crate::panel::Cell;
use crate::record::open_spans::ThreadChange;
use crate::session::BlockedThread;

use crate::units::kit::Context;
use crate::units::kit::tables::columns::text;

/// Blocked threads of the running machine by thread id.
#[derive(Clone, Debug, Default)]
pub(crate) struct InitiallyBlocked {
    asked: bool,
    threads: BTreeMap<i32, BlockedThread>,
}

impl InitiallyBlocked {
    /// Queries the blocked threads once: with the first record, or when panels are made without one. A thread with a
    /// later record has woken since.
    pub(crate) fn ask(&mut self, cx: &mut Context<'_>) {
        if std::mem::replace(&mut self.asked, true) {
            return;
        }
        for thread in cx.session.blocked() {
            cx.names.meet(thread.tid, &thread.comm);
            if cx.counts(thread.cpu) && cx.follows(thread.tid) {
                self.threads.insert(thread.tid, thread);
            }
        }
    }

    /// Takes the threads, for a unit that tracks them itself.
    pub(crate) fn take(&mut self) -> Vec<BlockedThread> {
        std::mem::take(&mut self.threads).into_values().collect()
    }

    /// Removes a thread when a record shows its current state.
    pub(crate) fn is_told(&mut self, tid: i32) {
        self.threads.remove(&tid);
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

    /// Forgets all threads after lost records: they may have woken.
    pub(crate) fn forget(&mut self) {
        self.threads.clear();
    }
}

/// Marks a time that counts from the start of the measurement, because the wait is older.
pub(crate) fn mark(is_before: bool) -> Cell {
    if is_before { text("or longer") } else { Cell::Empty }
}
