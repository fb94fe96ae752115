//! The reader: a thread that reads a source while earlier records are processed, named and reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::kernel::{EndRequests, ThreadPriority};
use crate::session::Origin;
use crate::source::{Batch, Control, Progress, Source, SourceError, Waker};

/// The maximum bytes of waiting records; further ones stay in the file, or in the kernel's rings.
const MOST_WAITING: usize = 64 << 20;
/// The maximum number of empty buffers. A delay of the work leaves one for each batch that waited, and reading by turns
/// into all of them grows each to the size of the largest batch.
const MOST_EMPTY: usize = 8;
/// The time that a live source has to deliver its remaining records after a stop.
const FAREWELL: Duration = Duration::from_secs(1);

type Read = Result<(Batch, Progress), SourceError>;

pub(crate) struct ReadAhead {
    coming: Receiver<Read>,
    used: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl ReadAhead {
    /// Returns the next batch; `None` after the reader was stopped and all its batches were taken.
    pub(crate) fn next(&self) -> Option<Read> {
        let read = self.coming.recv().ok()?;
        if let Ok((batch, _)) = &read {
            self.waiting.fetch_sub(batch.bytes.len(), Ordering::Relaxed);
        }
        Some(read)
    }

    pub(crate) fn recycle(&self, buffer: Vec<u8>) {
        // Fails if there are enough buffers, and after the reader has ended.
        let _ = self.used.try_send(buffer);
    }
}

/// Runs `work` in parallel with a thread that reads a source, until its end, a request to end, or the end of the work. A
/// live source that is stopped still delivers its remaining records, and the reason of its end.
pub(crate) fn beside<T>(
    source: &mut dyn Source,
    ends: &EndRequests,
    work: impl FnOnce(ReadAhead) -> T,
) -> std::io::Result<T> {
    let waker = source.waker();
    let waiting = Arc::new(AtomicUsize::new(0));
    let done = AtomicBool::new(false);
    let (ready, coming) = unbounded();
    let (used, empty) = bounded(MOST_EMPTY);
    let reader = Reader { source, ready, empty, waiting: waiting.clone(), ends, done: &done };
    std::thread::scope(|scope| {
        std::thread::Builder::new().name("reader".to_owned()).spawn_scoped(scope, || reader.run())?;
        let _end = End { done: &done, waker };
        Ok(work(ReadAhead { coming, used, waiting }))
    })
}

/// Stops the reader when the work ends in any way; the reader is waited for before a panic continues.
struct End<'a> {
    done: &'a AtomicBool,
    waker: Waker,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

struct Reader<'a> {
    source: &'a mut dyn Source,
    ready: Sender<Read>,
    empty: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    ends: &'a EndRequests,
    done: &'a AtomicBool,
}

impl Reader<'_> {
    fn run(self) {
        let (live, ends) = (self.source.info().origin == Origin::Live, self.ends);
        if live {
            ends.begin_measuring();
        }
        self.read(live);
        ends.end_measuring();
    }

    fn read(self, live: bool) {
        // Rings that are not emptied in time lose records, so this is the most urgent thread of the program.
        let mut priority = if live { ThreadPriority::of_live(None) } else { ThreadPriority::usual() };
        let mut stopped: Option<Instant> = None;
        loop {
            priority.keep();
            if live && stopped.is_none() && self.ends.is_stopped() {
                // A source that cannot be stopped is abandoned.
                if self.source.control(&Control::Stop).is_err() {
                    return;
                }
                stopped = Some(Instant::now());
            }
            let mut batch = Batch::reusing(self.empty.try_recv().unwrap_or_default());
            let read = self.source.next(&mut batch).map(|step| (batch, step));
            let is_last = !matches!(read, Ok((_, Progress::More)));
            let bytes = read.as_ref().map_or(0, |(batch, _)| batch.bytes.len());
            self.waiting.fetch_add(bytes, Ordering::Relaxed);
            let is_left = self.done.load(Ordering::Relaxed)
                || if live { stopped.is_some_and(|at| at.elapsed() > FAREWELL) } else { self.is_stopped() };
            if self.ready.send(read).is_err() || is_last || is_left {
                return;
            }
            while self.waiting.load(Ordering::Relaxed) > MOST_WAITING && !self.is_stopped() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.ends.is_stopped() || self.done.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::session::EndReason;
    use crate::source::Info;

    const MEGABYTE: usize = 1 << 20;

    /// A source of batches of a megabyte, each starting with its number, that reports how many were read.
    struct Counting {
        info: Info,
        number: u8,
        last: u8,
        read: Arc<AtomicUsize>,
    }

    impl Source for Counting {
        fn info(&self) -> &Info {
            &self.info
        }

        fn stop(&mut self) {
            self.last = self.number + 3;
        }

        fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
            batch.bytes.clear();
            batch.bytes.resize(MEGABYTE, self.number);
            self.number += 1;
            self.read.fetch_add(1, Ordering::SeqCst);
            Ok(if self.number == self.last { Progress::End(EndReason::Complete("all".into())) } else { Progress::More })
        }
    }

    fn counting(last: u8) -> (Counting, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        (Counting { info: Info::new(Origin::Recorded), number: 0, last, read: read.clone() }, read)
    }

    /// The remaining records of a stopped live source are read, and the reason of its end is known.
    #[test]
    fn a_live_source_that_is_stopped_tells_what_it_holds() {
        let (stop, (mut source, read)) = (Arc::new(AtomicBool::new(false)), counting(255));
        source.info.origin = Origin::Live;
        let numbers = beside(&mut source, &EndRequests::by_flag(stop.clone()), |coming| {
            until("something is read", || read.load(Ordering::SeqCst) > 4);
            stop.store(true, Ordering::Relaxed);
            let mut last = None;
            while let Some(read) = coming.next() {
                last = Some(read.expect("reads"));
            }
            let (batch, progress) = last.expect("batches");
            (usize::from(batch.bytes[0]) + 1, progress)
        });
        let (numbers, progress) = numbers.expect("a thread");
        assert_eq!(progress, Progress::End(EndReason::Complete("all".into())));
        assert_eq!(numbers, read.load(Ordering::SeqCst));
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn numbers(coming: &ReadAhead) -> Vec<u8> {
        let mut numbers = Vec::new();
        while let Some(read) = coming.next() {
            let (batch, _) = read.expect("reads");
            numbers.push(batch.bytes[0]);
            coming.recycle(batch.bytes);
        }
        numbers
    }

    /// During the processing of a batch, others are read in order, up to the limit.
    #[test]
    fn reading_goes_on_while_nothing_is_taken() {
        let (mut source, read) = counting(200);
        let most = MOST_WAITING / MEGABYTE + 1;
        let numbers = beside(&mut source, &EndRequests::default(), |coming| {
            until("as much as may wait is read", || read.load(Ordering::SeqCst) == most);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(read.load(Ordering::SeqCst), most, "and no more");
            numbers(&coming)
        });
        assert_eq!(numbers.expect("a thread"), (0..200).collect::<Vec<u8>>());
    }

    /// The buffers of batches that waited are freed, but for some.
    #[test]
    fn a_delay_leaves_few_buffers() {
        let (mut source, read) = counting(200);
        let most = MOST_WAITING / MEGABYTE + 1;
        let empty = beside(&mut source, &EndRequests::default(), |coming| {
            until("as much as may wait is read", || read.load(Ordering::SeqCst) == most);
            // The reader waits until the first batch is taken.
            (0..most).for_each(|_| coming.recycle(Vec::with_capacity(MEGABYTE)));
            coming.used.len()
        });
        assert_eq!(empty.expect("a thread"), MOST_EMPTY);
    }

    #[test]
    fn it_ends_when_it_is_stopped_and_when_nobody_takes_more() {
        let (stop, (mut source, read)) = (Arc::new(AtomicBool::new(false)), counting(255));
        let seen = beside(&mut source, &EndRequests::by_flag(stop.clone()), |coming| {
            until("something is read", || read.load(Ordering::SeqCst) > 0);
            stop.store(true, Ordering::Relaxed);
            numbers(&coming)
        });
        // All batches read by then were taken.
        assert_eq!(seen.expect("a thread").len(), read.load(Ordering::SeqCst));
        assert!(read.load(Ordering::SeqCst) < 255);
        let (mut source, read) = counting(255);
        let first =
            beside(&mut source, &EndRequests::default(), |coming| coming.next().expect("one").expect("reads").1);
        assert_eq!(first.expect("a thread"), Progress::More);
        assert!(read.load(Ordering::SeqCst) <= MOST_WAITING / MEGABYTE + 2);
    }
    #[test]
    fn a_panic_of_the_work_ends_the_reader() {
        let (mut source, read) = counting(255);
        let most = MOST_WAITING / MEGABYTE + 1;
        let (over, is_over) = unbounded();
        std::thread::spawn(move || {
            let panics = std::panic::AssertUnwindSafe(|| {
                beside(&mut source, &EndRequests::default(), |_coming| {
                    until("as much as may wait is read", || read.load(Ordering::SeqCst) == most);
                    panic!("meant");
                })
            });
            over.send(std::panic::catch_unwind(panics).is_err())
        });
        assert_eq!(is_over.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
