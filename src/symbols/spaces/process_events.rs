//! Process events for the thread that builds tables. The queue is bounded and drops short-lived processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use rustc_hash::FxHashSet;

use crate::kernel::wakeup::WakeSignal;
use crate::kernel::walk::ProcessEvent;

/// The capacity of the queue.
const MOST: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct ProcessEventSender {
    sender: WakingSender<ProcessEvent>,
    missed: Arc<AtomicBool>,
}

impl ProcessEventSender {
    /// Queues an event without waiting; [`Self::wake`] must follow. If the queue is full, the receiver learns that events
    /// were lost.
    pub(crate) fn add(&self, one: ProcessEvent) {
        if !self.sender.add(one) {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    /// Wakes the receiver, once for many events.
    pub(crate) fn wake(&self) {
        self.sender.wakeup.wake();
    }
}

#[derive(Debug)]
pub(crate) struct ProcessEvents {
    pub(crate) receiver: Receiver<ProcessEvent>,
    missed: Arc<AtomicBool>,
}

impl ProcessEvents {
    /// Returns what was sent since the last call; `None` once all senders are dropped.
    pub(super) fn take(&self) -> Option<Vec<ProcessEvent>> {
        let mut all = Vec::new();
        loop {
            match self.receiver.try_recv() {
                Ok(one) => all.push(one),
                Err(TryRecvError::Disconnected) if all.is_empty() => return None,
                Err(_) => return Some(all),
            }
        }
    }

    pub(super) fn have_missed(&self) -> bool {
        self.missed.swap(false, Ordering::Relaxed)
    }
}

pub(crate) fn channel(wakeup: &Arc<WakeSignal>) -> (ProcessEventSender, ProcessEvents) {
    let ((sender, receiver), missed) = (bounded(MOST), Arc::new(AtomicBool::default()));
    let sender = WakingSender::new(sender, wakeup);
    (ProcessEventSender { sender, missed: missed.clone() }, ProcessEvents { receiver, missed })
}

/// Returns a sender without a receiver.
#[cfg(test)]
pub(crate) fn staged() -> ProcessEventSender {
    channel(&Arc::new(WakeSignal::new().expect("a descriptor"))).0
}

/// The sending end of a channel whose receiver waits for a [`WakeSignal`].
#[derive(Debug)]
pub(crate) struct WakingSender<T> {
    /// `None` only while it is dropped.
    sender: Option<Sender<T>>,
    wakeup: Arc<WakeSignal>,
}

impl<T> WakingSender<T> {
    pub(crate) fn new(sender: Sender<T>, wakeup: &Arc<WakeSignal>) -> Self {
        Self { sender: Some(sender), wakeup: wakeup.clone() }
    }

    /// Sends without waiting. Returns whether there was room.
    pub(crate) fn send(&self, one: T) -> bool {
        let sent = self.add(one);
        self.wakeup.wake();
        sent
    }

    /// Sends without waking the receiver.
    fn add(&self, one: T) -> bool {
        // The receiver is dropped only at the end.
        self.sender.as_ref().is_some_and(|sender| sender.try_send(one).is_ok())
    }
}

impl<T> Clone for WakingSender<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), wakeup: self.wakeup.clone() }
    }
}

impl<T> Drop for WakingSender<T> {
    fn drop(&mut self) {
        // The receiver learns from it that no sender is left.
        self.sender = None;
        self.wakeup.wake();
    }
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
        ProcessEvent::Executed { pid, .. } | ProcessEvent::Exited { pid } => {
            gone.insert(pid);
            true
        }
        ProcessEvent::Forked { child, .. } => !gone.remove(&child) || parents.contains(&child),
        ProcessEvent::Lacks { .. } | ProcessEvent::Mapped { .. } | ProcessEvent::Runs { .. } => true,
    });
    news.reverse();
    news
}
