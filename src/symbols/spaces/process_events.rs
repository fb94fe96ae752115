//! Process events for the thread that builds tables. The queue is bounded and drops short-lived processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustc_hash::FxHashSet;

use crate::kernel::walk::ProcessEvent;

/// The capacity of the queue.
const MOST: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct ProcessEventSender {
    sender: Sender<ProcessEvent>,
    missed: Arc<AtomicBool>,
}

impl ProcessEventSender {
    /// Sends without waiting. If the queue is full, the receiver learns that events were lost.
    pub(crate) fn send(&self, one: ProcessEvent) {
        // The receiver is dropped only at the end.
        if let Err(TrySendError::Full(_)) = self.sender.try_send(one) {
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub(crate) struct ProcessEvents {
    pub(crate) receiver: Receiver<ProcessEvent>,
    missed: Arc<AtomicBool>,
}

impl ProcessEvents {
    pub(super) fn have_missed(&self) -> bool {
        self.missed.swap(false, Ordering::Relaxed)
    }
}

pub(crate) fn channel() -> (ProcessEventSender, ProcessEvents) {
    let ((sender, receiver), missed) = (bounded(MOST), Arc::new(AtomicBool::default()));
    (ProcessEventSender { sender, missed: missed.clone() }, ProcessEvents { receiver, missed })
}

/// Drops events of short-lived processes from a batch. A child that exits or executes another program within the batch
/// does not inherit its parent's tables, unless it has children itself.
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
        ProcessEvent::Lacks { .. } | ProcessEvent::Mapped { .. } | ProcessEvent::Runs { .. } => true,
    });
    news.reverse();
    news
}
