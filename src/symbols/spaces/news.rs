//! News of processes on their way to who makes their tables: no more wait than a bound, and only what lasts is followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustc_hash::FxHashSet;

use crate::kernel::walk::ProcessEvent;

/// News that may wait.
const MOST: usize = 1 << 16;

/// The end that tells.
#[derive(Clone, Debug)]
pub(crate) struct NewsSender {
    sender: Sender<ProcessEvent>,
    missed: Arc<AtomicBool>,
}

impl NewsSender {
    /// Tells, without waiting: where too much waits, the receiver learns that it missed something.
    pub(crate) fn send(&self, one: ProcessEvent) {
        // Who makes the tables has gone only when all ends.
        if let Err(TrySendError::Full(_)) = self.sender.try_send(one) {
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

/// The end that is told.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) receiver: Receiver<ProcessEvent>,
    missed: Arc<AtomicBool>,
}

impl News {
    /// True if something was not told since this was asked last.
    pub(super) fn have_missed(&self) -> bool {
        self.missed.swap(false, Ordering::Relaxed)
    }
}

/// Both ends.
pub(crate) fn channel() -> (NewsSender, News) {
    let ((sender, receiver), missed) = (bounded(MOST), Arc::new(AtomicBool::default()));
    (NewsSender { sender, missed: missed.clone() }, News { receiver, missed })
}

/// The news that are worth following, of some that came together: a child that is gone or another program by the end of
/// them is not made like its parent, unless it is a parent itself.
pub(super) fn lasting(mut news: Vec<ProcessEvent>) -> Vec<ProcessEvent> {
    let parent = |one: &ProcessEvent| match one {
        ProcessEvent::Forked { parent, .. } => Some(*parent),
        _ => None,
    };
    let parents: FxHashSet<i32> = news.iter().filter_map(parent).collect();
    let mut gone = FxHashSet::default();
    news.reverse();
    news.retain(|one| match *one {
        ProcessEvent::Executed { pid } | ProcessEvent::Exited { pid } => {
            gone.insert(pid);
            true
        }
        ProcessEvent::Forked { child, .. } => !gone.remove(&child) || parents.contains(&child),
        ProcessEvent::Lacks { .. } | ProcessEvent::Mapped { .. } => true,
    });
    news.reverse();
    news
}
