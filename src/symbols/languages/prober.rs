//! Reads the memory of processes on a separate thread: a process can delay its reader for ever (userfaultfd(2)).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::VecDeque;

use super::runtime_file::{FoundRuntime, RuntimeFile};
use super::{NotWalked, ProcessMemory};
use crate::kernel::ThreadPriority;
use crate::kernel::procfs::{self, ProcMapping};
use crate::kernel::wakeup::WakeSignal;

/// The time after which a process no longer delays the next one, and how many threads may wait for longer ones. A busy
/// machine can let a reader wait as long as a process that blocks it; its answer counts when it comes.
const PATIENCE: Duration = Duration::from_millis(100);
const MOST_LOST: usize = 4;
/// Processes that wait to be read.
const MOST_WAITING: usize = 1 << 12;

/// A process to look at, and the difference of its file's addresses from the linked ones.
#[derive(Clone, Debug)]
pub(crate) struct ProbeJob {
    pub(crate) pid: i32,
    pub(crate) file: Arc<RuntimeFile>,
    pub(crate) bias: u64,
}

pub(crate) type Found = Result<FoundRuntime, NotWalked>;

/// A process that was read, and its runtime.
pub(crate) type ProbeAnswer = (u64, ProbeJob, Found);

#[derive(Debug)]
pub(crate) struct Prober {
    read: fn(&ProbeJob) -> Found,
    worker: Option<Sender<(u64, ProbeJob)>>,
    done: Sender<ProbeAnswer>,
    /// Signaled with each answer, if there is one.
    wakeup: Option<Arc<WakeSignal>>,
    pub(crate) answers: Receiver<ProbeAnswer>,
    waiting: VecDeque<ProbeJob>,
    /// The number and the process of what is being read, and since when.
    reading: Option<(u64, i32, Instant)>,
    next: u64,
    /// Threads that are left to their processes: the number and the process of what each reads.
    lost: Vec<(u64, i32)>,
}

impl Prober {
    pub(crate) fn new() -> Self {
        Self::with(|job| job.file.find(job.bias, &Process(job.pid)))
    }

    fn with(read: fn(&ProbeJob) -> Found) -> Self {
        let (done, answers) = unbounded();
        Self {
            read,
            worker: None,
            done,
            wakeup: None,
            answers,
            waiting: VecDeque::new(),
            reading: None,
            next: 0,
            lost: Vec::new(),
        }
    }

    /// Signals each answer to the thread that takes it.
    pub(crate) fn waking(self, wakeup: &Arc<WakeSignal>) -> Self {
        Self { wakeup: Some(wakeup.clone()), ..self }
    }

    /// Reads a process now.
    pub(crate) fn read_now(&mut self, job: ProbeJob) -> Found {
        self.waiting.clear();
        while let Ok(late) = self.answers.try_recv() {
            drop(self.take(late));
        }
        let found = self.read_within(job, PATIENCE);
        self.go_on(Instant::now());
        found.unwrap_or(Err(NotWalked::Delayed))
    }

    /// Reads a process and waits for the answer for a limited time, unless others wait before it. A later answer comes
    /// like those of [`Self::ask`].
    pub(crate) fn read_within(&mut self, job: ProbeJob, patience: Duration) -> Option<Found> {
        let is_idle = self.reading.is_none() && self.first_waiting().is_none();
        self.ask(job);
        if !is_idle || self.reading.is_none() {
            return None;
        }
        let (own, until, mut others) = (self.next, Instant::now() + patience, Vec::new());
        let found = loop {
            match self.answers.recv_deadline(until) {
                Ok(answer) if answer.0 == own => break Some(self.take(answer).1),
                Ok(answer) => others.push(answer),
                Err(_) => break None,
            }
        };
        // Late answers of other processes are for the caller of `take`.
        others.into_iter().for_each(|answer| drop(self.done.send(answer)));
        found
    }

    /// Returns the position of the next process to read: one process blocks one thread at most.
    fn first_waiting(&self) -> Option<usize> {
        self.waiting.iter().position(|job| self.lost.iter().all(|(_, pid)| *pid != job.pid))
    }

    pub(crate) fn ask(&mut self, job: ProbeJob) {
        // The newest file of a process counts.
        self.waiting.retain(|other| (other.pid, other.bias) != (job.pid, job.bias));
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(job);
        }
        self.go_on(Instant::now());
    }

    /// Takes an answer, and begins with the next process.
    pub(crate) fn take(&mut self, (number, job, found): ProbeAnswer) -> (ProbeJob, Found) {
        if self.reading.take_if(|(reading, ..)| *reading == number).is_none() {
            // The thread of a late answer ends.
            self.lost.retain(|(lost, _)| *lost != number);
        }
        self.go_on(Instant::now());
        (job, found)
    }

    /// Returns when to call [`Self::go_on`] again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.reading.map(|(.., since)| since + PATIENCE)
    }

    /// Leaves a thread that takes too long to its process, and begins with the next one. Returns the process that takes
    /// too long.
    pub(crate) fn go_on(&mut self, now: Instant) -> Option<i32> {
        let delayed = self.reading.take_if(|(.., since)| now.duration_since(*since) >= PATIENCE);
        if let Some((number, pid, _)) = delayed {
            self.worker = None;
            self.lost.push((number, pid));
        }
        if self.reading.is_none() && self.lost.len() < MOST_LOST {
            self.begin(now);
        }
        delayed.map(|(_, pid, _)| pid)
    }

    fn begin(&mut self, now: Instant) {
        let Some(job) = self.first_waiting().and_then(|at| self.waiting.remove(at)) else { return };
        if self.worker.is_none() {
            self.worker = start(self.read, self.done.clone(), self.wakeup.clone());
        }
        self.next += 1;
        let pid = job.pid;
        if self.worker.as_ref().is_some_and(|worker| worker.send((self.next, job)).is_ok()) {
            self.reading = Some((self.next, pid, now));
        }
    }
}

/// Starts a thread that reads one process after the other, until its sender is dropped.
fn start(
    read: fn(&ProbeJob) -> Found,
    done: Sender<ProbeAnswer>,
    wakeup: Option<Arc<WakeSignal>>,
) -> Option<Sender<(u64, ProbeJob)>> {
    let (jobs, wanted) = unbounded::<(u64, ProbeJob)>();
    let work = move || {
        let mut priority = ThreadPriority::ahead();
        for (number, job) in wanted {
            priority.keep();
            let found = read(&job);
            if done.send((number, job, found)).is_err() {
                return;
            }
            wakeup.iter().for_each(|wakeup| wakeup.wake());
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

    fn variables(&self) -> Vec<(u64, u64)> {
        variables(&procfs::maps(self.0))
    }
}

/// Returns the ends of anonymous mappings, in which C libraries have the variables of threads, the shortest first: the
/// kernel joins adjacent ones, and new mappings are below others. A static program has those of its main thread where
/// its heap begins.
fn variables(maps: &[ProcMapping]) -> Vec<(u64, u64)> {
    /// Bytes of each end, and the number of mappings.
    const END: u64 = 64 << 10;
    const MOST: usize = 256;
    let is_one = |map: &&ProcMapping| {
        let is_named = [b"//anon", b"[anon:", b"[heap]"].iter().any(|name| map.name.starts_with(&name[..]));
        map.prot == 3 && map.inode == 0 && is_named
    };
    let ends = |map: &ProcMapping| {
        let len = map.end.saturating_sub(map.start);
        let last = len.saturating_sub(END).min(END);
        [(map.end - last, last), (map.start, len.min(END))]
    };
    let ends = maps.iter().filter(is_one).take(MOST).flat_map(ends);
    let mut ends: Vec<_> = ends.filter(|(_, len)| *len > 0).collect();
    ends.sort_by_key(|(_, len)| *len);
    ends
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::super::cpython::tests::file;
    use super::*;

    /// Reading these processes lasts as long as their locks are held.
    const ENDLESS: std::ops::Range<i32> = 70..74;
    static BLOCKED: Mutex<()> = Mutex::new(());
    const ENDLESS_TOO: i32 = 8;
    static BLOCKED_TOO: Mutex<()> = Mutex::new(());
    const LATE: i32 = 9;
    static BLOCKED_LATE: Mutex<()> = Mutex::new(());

    fn read(job: &ProbeJob) -> Found {
        let _held = ENDLESS.contains(&job.pid).then(|| BLOCKED.lock());
        let _held_too = (job.pid == ENDLESS_TOO).then(|| BLOCKED_TOO.lock());
        if job.pid == LATE {
            let _held = BLOCKED_LATE.lock();
            return Err(NotWalked::Version);
        }
        Err(NotWalked::NotBegun)
    }

    #[test]
    fn variables_are_at_the_ends_of_anonymous_mappings() {
        let maps = [
            "10000-12000 rw-p 00000000 00:00 0                          [heap]",
            "20000-30000 rw-p 00000000 fe:00 7    /usr/lib/libc.so.6",
            "40000-68000 rw-p 00000000 00:00 0",
            "70000-81000 rw-p 00000000 00:00 0",
            "90000-91000 r--p 00000000 00:00 0",
            "a0000-a1000 rw-p 00000000 00:00 0    [stack]",
        ];
        let maps = maps.map(|line| procfs::parse_maps_line(line.as_bytes()).expect("a mapping"));
        let parts = [(0x80000, 0x1000), (0x10000, 0x2000), (0x58000, 0x10000), (0x40000, 0x10000), (0x70000, 0x10000)];
        assert_eq!(variables(&maps), parts);
    }

    #[test]
    fn an_answer_is_awaited_unless_others_wait() {
        const LONG: Duration = Duration::from_secs(60);
        let blocked = BLOCKED_TOO.lock();
        let job = |pid| ProbeJob { pid, file: Arc::new(RuntimeFile::of_python(11, file())), bias: 0 };
        let mut prober = Prober::with(read);
        assert_eq!(prober.read_within(job(1), LONG), Some(Err(NotWalked::NotBegun)));
        assert_eq!(prober.read_within(job(ENDLESS_TOO), Duration::from_millis(1)), None);
        assert_eq!(prober.read_within(job(1), LONG), None);
        drop(blocked);
        for pid in [ENDLESS_TOO, 1] {
            let answer = prober.answers.recv_timeout(LONG).expect("the reader is free");
            assert_eq!(prober.take(answer).0.pid, pid);
        }
    }

    #[test]
    fn a_late_answer_is_not_that_of_another_process() {
        const LONG: Duration = Duration::from_secs(60);
        let blocked = BLOCKED_LATE.lock();
        let job = |pid| ProbeJob { pid, file: Arc::new(RuntimeFile::of_python(11, file())), bias: 0 };
        let mut prober = Prober::with(read);
        assert_eq!(prober.read_within(job(LATE), Duration::from_millis(1)), None);
        let until = prober.next().expect("a process is being read");
        assert_eq!((prober.go_on(until), prober.lost.len()), (Some(LATE), 1));
        drop(blocked);
        while prober.answers.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(prober.read_within(job(1), LONG), Some(Err(NotWalked::NotBegun)));
        let late = prober.answers.recv_timeout(LONG).expect("it was kept");
        let (late, found) = prober.take(late);
        assert_eq!((late.pid, found, prober.lost.len()), (LATE, Err(NotWalked::Version), 0));
    }

    #[test]
    fn a_process_that_blocks_its_reader_delays_no_other() {
        const LONG: Duration = Duration::from_secs(60);
        let blocked = BLOCKED.lock();
        let job = |pid| ProbeJob { pid, file: Arc::new(RuntimeFile::of_python(11, file())), bias: 0 };
        let mut prober = Prober::with(read);
        for (endless, lost) in ENDLESS.zip(1..=MOST_LOST) {
            prober.ask(job(endless));
            prober.ask(job(1));
            let until = prober.next().expect("a process is being read");
            assert_eq!(prober.go_on(until - Duration::from_millis(1)), None);
            assert!(prober.answers.is_empty());
            assert_eq!((prober.go_on(until), prober.lost.len()), (Some(endless), lost));
            if lost < MOST_LOST {
                let answer = prober.answers.recv_timeout(LONG).expect("the other process is read");
                let (job, found) = prober.take(answer);
                assert_eq!((job.pid, found), (1, Err(NotWalked::NotBegun)));
                // A process that blocks a thread gets no other one.
                prober.ask(ProbeJob { pid: endless, ..job });
                assert!(prober.reading.is_none());
            }
        }
        // Too many threads wait: no further process is read.
        prober.ask(job(1));
        assert!(prober.reading.is_none() && prober.answers.is_empty());
        drop(blocked);
        // Late answers count, and the other jobs are read.
        let mut answered: Vec<i32> = (0..2 * MOST_LOST)
            .map(|_| {
                let late = prober.answers.recv_timeout(LONG).expect("the reader is free");
                prober.take(late).0.pid
            })
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, [1, 70, 70, 71, 71, 72, 72, 73]);
        assert_eq!((prober.lost.len(), prober.reading.is_none(), prober.answers.is_empty()), (0, true, true));
    }
}
