//! Reads the memory of processes on a separate thread: a process can delay its reader for ever (userfaultfd(2)).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::VecDeque;

use super::ProcessMemory;
use super::cpython::{CpythonFile, ThreadSlot};
use crate::kernel::procfs;

/// The longest time that a process may take, and how many threads may wait for longer ones.
const PATIENCE: Duration = Duration::from_millis(100);
const MOST_LOST: usize = 4;
/// Processes that wait to be read.
const MOST_WAITING: usize = 1 << 12;

/// A process to look at, and the difference of its file's addresses from the linked ones.
#[derive(Clone, Debug)]
pub(crate) struct ProbeJob {
    pub(crate) pid: i32,
    pub(crate) file: Arc<CpythonFile>,
    pub(crate) bias: u64,
}

/// A process that was read; `None` if the state of its threads was not found.
pub(crate) type ProbeAnswer = (u64, ProbeJob, Option<ThreadSlot>);

#[derive(Debug)]
pub(crate) struct Prober {
    worker: Option<Sender<(u64, ProbeJob)>>,
    done: Sender<ProbeAnswer>,
    pub(crate) answers: Receiver<ProbeAnswer>,
    waiting: VecDeque<ProbeJob>,
    /// The number of the process that is being read, and since when.
    reading: Option<(u64, Instant)>,
    next: u64,
    lost: usize,
}

impl Prober {
    pub(crate) fn new() -> Self {
        let (done, answers) = unbounded();
        Self { worker: None, done, answers, waiting: VecDeque::new(), reading: None, next: 0, lost: 0 }
    }

    pub(crate) fn ask(&mut self, job: ProbeJob) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(job);
        }
        self.go_on(Instant::now());
    }

    /// Takes an answer; `None` if its process took too long.
    pub(crate) fn take(&mut self, (number, job, slot): ProbeAnswer) -> Option<(ProbeJob, Option<ThreadSlot>)> {
        self.reading.take_if(|(reading, _)| *reading == number)?;
        self.go_on(Instant::now());
        Some((job, slot))
    }

    /// Returns when to call [`Self::go_on`] again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.reading.map(|(_, since)| since + PATIENCE)
    }

    /// Leaves a thread that takes too long to itself, and begins with the next process.
    pub(crate) fn go_on(&mut self, now: Instant) {
        if self.reading.is_some_and(|(_, since)| now.duration_since(since) >= PATIENCE) {
            (self.reading, self.worker) = (None, None);
            self.lost += 1;
        }
        if self.reading.is_some() || self.lost >= MOST_LOST {
            return;
        }
        let Some(job) = self.waiting.pop_front() else { return };
        if self.worker.is_none() {
            self.worker = start(self.done.clone());
        }
        self.next += 1;
        if self.worker.as_ref().is_some_and(|worker| worker.send((self.next, job)).is_ok()) {
            self.reading = Some((self.next, now));
        }
    }
}

/// Starts a thread that reads one process after the other, until its sender is dropped.
fn start(done: Sender<ProbeAnswer>) -> Option<Sender<(u64, ProbeJob)>> {
    let (jobs, wanted) = unbounded::<(u64, ProbeJob)>();
    let work = move || {
        for (number, job) in wanted {
            let slot = job.file.slot(job.bias, &Process(job.pid));
            if done.send((number, job, slot)).is_err() {
                return;
            }
        }
    };
    crate::kernel::thread("languages", work).ok()?;
    Some(jobs)
}

struct Process(i32);

impl ProcessMemory for Process {
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
        to.copy_from_slice(&procfs::memory(self.0, at, to.len()).ok()?);
        Some(())
    }
}
