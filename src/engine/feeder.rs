//! The feeder: the source's thread, which transfers batches and controls without decoding them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use super::published::Published;
use crate::kernel::ThreadPriority;
use crate::session::EndReason;
use crate::source::{Batch, Control, Progress, Source, SourceEvent};

/// A live batch is delivered on request, or when it reaches this size or this age. Each delivery wakes the profile's
/// thread, which costs more than the records of a quiet tick.
const HOLD_BYTES: usize = 128 << 10;
const HOLD: Duration = Duration::from_millis(600);
/// The time after the start in which every tick is delivered at once.
const EAGER: Duration = Duration::from_secs(2);
/// The interval of reading the size of the private memory: at each reading of the rings, it took a quarter of the
/// thread's time.
const LOOK: Duration = Duration::from_millis(100);

/// The maximum age of records that the worker has not processed: a long answer may take seconds. If they are older, new
/// records stay in the rings, where the kernel counts lost ones.
const MOST_AGE: Duration = Duration::from_secs(8);

pub(super) struct Feeder {
    pub(super) source: Box<dyn Source>,
    pub(super) batches: Sender<SourceMessage>,
    pub(super) recycle: Receiver<Vec<u8>>,
    pub(super) controls: Receiver<Control>,
    pub(super) shared: Arc<Published>,
    pub(super) live: bool,
    pub(super) realtime: Option<i32>,
    /// The maximum bytes of records that the worker has not processed yet.
    pub(super) most_waiting: usize,
    pub(super) is_bounded: bool,
    /// When the private memory was looked at.
    pub(super) looked: Option<Instant>,
    /// The batches whose age is limited.
    pub(super) sent: SentBatches,
}

/// The batches that the worker has not processed, with the time of each.
#[derive(Debug, Default)]
pub(super) struct SentBatches {
    /// The bytes of all batches.
    bytes: usize,
    /// The bytes up to the end of each batch, and when it was sent.
    ends: VecDeque<(usize, Instant)>,
}

impl SentBatches {
    fn add(&mut self, bytes: usize, now: Instant) {
        self.bytes = self.bytes.wrapping_add(bytes);
        if bytes > 0 {
            self.ends.push_back((self.bytes, now));
        }
    }

    /// Returns when the oldest batch was sent, if this many bytes wait.
    fn oldest(&mut self, waiting: usize) -> Option<Instant> {
        while self.ends.front().is_some_and(|(end, _)| self.bytes.wrapping_sub(*end) >= waiting) {
            self.ends.pop_front();
        }
        self.ends.front().map(|(_, at)| *at)
    }
}

/// A message of the source's thread.
#[derive(Debug)]
pub enum SourceMessage {
    /// The records of one wait.
    Batch(Box<Batch>),
    /// The end of the source.
    End(EndReason),
}

impl Feeder {
    pub(super) fn run(mut self) {
        let start = Instant::now();
        let mut held: Option<(Batch, Instant)> = None;
        let mut priority = if self.live { ThreadPriority::of_live(self.realtime) } else { ThreadPriority::usual() };
        while !self.shared.stop.load(Ordering::Relaxed) {
            let (mut batch, since) = held
                .take()
                .unwrap_or_else(|| (Batch::reusing(self.recycle.try_recv().unwrap_or_default()), Instant::now()));
            for control in self.controls.try_iter() {
                let reply = self.source.control(&control);
                batch.events.extend(self.source.facts().map(SourceEvent::Changed));
                batch.events.push(SourceEvent::Reply(reply));
            }
            let step = self.source.next(&mut batch);
            self.look();
            priority.keep();
            let wanted = self.shared.wanted.swap(false, Ordering::Relaxed);
            if matches!(step, Ok(Progress::More))
                && !wanted
                && batch.may_wait(HOLD_BYTES)
                && start.elapsed() > EAGER
                && since.elapsed() < HOLD
            {
                held = Some((batch, since));
                continue;
            }
            if !self.deliver(SourceMessage::Batch(Box::new(batch))) {
                return;
            }
            let end = match step {
                Ok(Progress::More) => continue,
                Ok(Progress::End(why)) => why,
                Err(error) => EndReason::Failed(error.to_string()),
            };
            self.deliver(SourceMessage::End(end));
            return;
        }
    }

    /// Looks at the private memory if it is bounded.
    fn look(&mut self) {
        if self.is_bounded && self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            self.shared.held.look();
        }
    }

    /// Whether too many records wait for the worker, or have waited for too long at this time.
    fn is_full(&mut self, now: Instant) -> bool {
        let waiting = self.shared.held.waiting.load(Ordering::Relaxed);
        let is_late = |sent: Instant| self.live && now.saturating_duration_since(sent) > MOST_AGE;
        waiting > self.most_waiting || self.sent.oldest(waiting).is_some_and(is_late)
    }

    /// Delivers a message. While the queue is full, records stay in the rings, where the kernel counts lost ones.
    fn deliver(&mut self, message: SourceMessage) -> bool {
        let bytes = match &message {
            SourceMessage::Batch(batch) => batch.bytes.len(),
            SourceMessage::End(_) => 0,
        };
        let mut is_full = self.is_full(Instant::now());
        if is_full {
            self.shared.queue_full.fetch_add(1, Ordering::Relaxed);
        }
        while is_full && !self.shared.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
            // Memory peaks now, during a long answer.
            self.look();
            is_full = self.is_full(Instant::now());
        }
        self.shared.held.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.sent.add(bytes, Instant::now());
        match self.batches.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Full(message)) => {
                self.shared.queue_full.fetch_add(1, Ordering::Relaxed);
                self.batches.send(message).is_ok()
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{bounded, never};

    use super::*;
    use crate::source::{Info, SourceError};

    /// A source that is not read.
    struct UnreadSource;

    impl Source for UnreadSource {
        fn info(&self) -> &Info {
            unreachable!("it is not read")
        }

        fn next(&mut self, _: &mut Batch) -> Result<Progress, SourceError> {
            unreachable!("it is not read")
        }
    }

    /// While the queue is full, new records stay in the rings, where the kernel counts those that find no room.
    #[test]
    fn the_queue_is_full_when_its_oldest_records_are_late() {
        let (batches, delivered) = bounded(4);
        let shared = Arc::new(Published::default());
        let mut feeder = Feeder {
            source: Box::new(UnreadSource),
            batches,
            recycle: never(),
            controls: never(),
            shared: shared.clone(),
            live: true,
            realtime: None,
            most_waiting: 100,
            is_bounded: false,
            looked: None,
            sent: SentBatches::default(),
        };
        let wait = |bytes| shared.held.waiting.store(bytes, Ordering::Relaxed);
        let sent = Instant::now();
        let [in_time, late] = [MOST_AGE, MOST_AGE + Duration::from_nanos(1)].map(|age| sent + age);
        feeder.sent.add(10, sent);
        feeder.sent.add(20, sent + Duration::from_secs(1));
        wait(30);
        assert!(!feeder.is_full(in_time) && feeder.is_full(late));
        wait(21);
        assert!(feeder.is_full(late), "a part of the oldest batch waits");
        feeder.live = false;
        assert!(!feeder.is_full(late), "a recording has no late records");
        feeder.live = true;
        wait(20);
        assert!(!feeder.is_full(late), "the worker has processed the oldest batch");
        wait(100);
        assert!(!feeder.is_full(sent));
        wait(101);
        assert!(feeder.is_full(sent), "too many bytes");

        let found_full = || shared.queue_full.load(Ordering::Relaxed);
        let batch = || SourceMessage::Batch(Box::new(Batch { bytes: vec![0; 10], ..Batch::default() }));
        wait(0);
        assert!(feeder.deliver(batch()));
        assert_eq!((found_full(), delivered.len()), (0, 1));
        // It would wait until the worker has processed the late batch, if the session did not end.
        feeder.sent.ends.iter_mut().for_each(|(_, at)| *at = at.checked_sub(2 * MOST_AGE).expect("since the start"));
        shared.stop.store(true, Ordering::Relaxed);
        feeder.deliver(batch());
        assert_eq!(found_full(), 1);
    }

    #[test]
    fn the_oldest_batch_is_the_first_one_that_waits() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let mut sent = SentBatches::default();
        assert_eq!(sent.oldest(0), None);
        for (second, bytes) in [(1, 10), (2, 0), (3, 20), (4, 5)] {
            sent.add(bytes, at(second));
        }
        assert_eq!(sent.oldest(35), Some(at(1)));
        assert_eq!(sent.oldest(26), Some(at(1)), "a part of it waits");
        assert_eq!(sent.oldest(25), Some(at(3)));
        assert_eq!(sent.oldest(5), Some(at(4)));
        assert_eq!(sent.oldest(0), None);
        sent.add(7, at(9));
        assert_eq!(sent.oldest(7), Some(at(9)));
    }
}
