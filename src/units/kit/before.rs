//! Threads that were blocked before anybody looked, as far as they are blocked still.

use std::collections::BTreeMap;

use crate::panel::Cell;
use crate::record::open_spans::ThreadChange;
use crate::session::BlockedThread;

use super::columns::text;
use super::{Context, ThreadChoice};

/// Those of a running machine, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    asked: bool,
    threads: BTreeMap<i32, BlockedThread>,
}

impl Before {
    /// Asks for them, once: with the first record, or where none came before there is something to say. Who has one of
    /// its own afterwards was awake meanwhile.
    pub(crate) fn ask(&mut self, chosen: &mut ThreadChoice, cx: &mut Context<'_>) {
        if std::mem::replace(&mut self.asked, true) {
            return;
        }
        for thread in cx.session.blocked() {
            cx.names.meet(thread.tid, &thread.comm);
            if cx.counts(thread.cpu) && chosen.follows(thread.tid, cx) {
                self.threads.insert(thread.tid, thread);
            }
        }
    }

    /// Hands them over, to a unit that follows them itself.
    pub(crate) fn take(&mut self) -> Vec<BlockedThread> {
        std::mem::take(&mut self.threads).into_values().collect()
    }

    /// A record tells what a thread does now.
    pub(crate) fn is_told(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }

    /// Follows the threads: one that ends is blocked no more.
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

    /// Records were lost: who was blocked may be no more.
    pub(crate) fn forget(&mut self) {
        self.threads.clear();
    }
}

/// The cell that marks what began before.
pub(crate) fn mark(is_before: bool) -> Cell {
    if is_before { text("since before") } else { Cell::Empty }
}
