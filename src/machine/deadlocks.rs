//! Deadlocks: threads that wait for each other's mutexes in a circle, as /proc and the mutexes themselves show them.
//!
//! Each reading examines some threads of the machine in turn. A circle is a deadlock if its threads still wait for the
//! same mutexes a second later and did not run meanwhile: an owner in a mutex may be outdated for a moment.
//! A thread of its own reads the mutexes, because a process can delay the reader of its memory for ever
//! (userfaultfd(2)). No thread waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustc_hash::FxHashSet;

use crate::kernel::{blocked, procfs, thread_cpu_ns};
use crate::session::machine::resources::schedstat;

/// The limits of threads and of processes examined in a reading.
const MOST_THREADS: usize = 128;
const MOST_PROCESSES: usize = 256;
/// The limits of threads in a circle, of circles, and of circles of a process.
const LONGEST: usize = 64;
const MOST_CIRCLES: usize = 16;
const MOST_OF_ONE: usize = 4;
/// The limit of threads among which an owner in a PID namespace is searched.
const MOST_NAMED: usize = 256;
/// The time after which a circle is sure, in nanoseconds.
const SURE_NS: u64 = 1_000_000_000;
/// The inverse of the share of a CPU for readings.
const DUTY: u64 = 500;
/// The time after which a reading counts as delayed, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Threads of a process that wait for each other: each for a mutex of the next, the last for one of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlock {
    /// The process.
    pub(crate) pid: i32,
    /// Its name.
    pub(crate) comm: Arc<str>,
    /// The threads with their names, from the lowest number on.
    pub(crate) threads: Vec<(i32, Arc<str>)>,
}

impl Deadlock {
    /// Returns its threads in words, the first ones of many.
    pub(crate) fn text(&self) -> String {
        const NAMED: usize = 4;
        let names =
            |most| self.threads.iter().take(most).map(|(tid, comm)| format!("{comm}-{tid}")).collect::<Vec<_>>();
        match self.threads.len() {
            1 => format!("{} waits for a mutex that it holds itself", names(1).concat()),
            n if n > NAMED => format!("{} and {} more threads", names(NAMED).join(" ⇄ "), n - NAMED),
            _ => names(NAMED).join(" ⇄ "),
        }
    }
}

/// Waiting threads, each with the mutex that it waits for and that the next one holds.
type Circle = Vec<(i32, u64)>;

/// A circle of a process, and how often each thread ran.
type SeenCircle = (i32, Circle, Vec<Option<u64>>);

/// The newest deadlocks, from the thread that looks for them.
#[derive(Debug, Default)]
pub(crate) struct DeadlockWatch {
    thread: Option<(Sender<u64>, Receiver<Vec<Deadlock>>)>,
    /// When the reading under way was started.
    asked: Option<u64>,
    newest: Vec<Deadlock>,
}

impl DeadlockWatch {
    /// Returns the deadlocks that the last reading found, and starts the next reading at a time of CLOCK_MONOTONIC. None
    /// are known while a process delays the reader.
    pub(crate) fn read(&mut self, at: u64) -> Vec<Deadlock> {
        if self.thread.is_none() {
            self.thread = start();
        }
        let Some((ask, found)) = &self.thread else { return Vec::new() };
        match (found.try_recv(), self.asked) {
            (Ok(list), _) => (self.newest, self.asked) = (list, None),
            (Err(_), Some(asked)) if at.saturating_sub(asked) > PATIENCE_NS => self.newest.clear(),
            (Err(_), _) => {}
        }
        if self.asked.is_none() && ask.try_send(at).is_ok() {
            self.asked = Some(at);
        }
        self.newest.clone()
    }
}

/// Starts the thread, which ends when its sender is dropped.
fn start() -> Option<(Sender<u64>, Receiver<Vec<Deadlock>>)> {
    let (ask, asked) = bounded::<u64>(1);
    let (tell, found) = bounded(1);
    let work = move || {
        let (mut search, mut due, mut newest) = (DeadlockSearch::default(), 0, Vec::new());
        for at in asked {
            if at >= due {
                let before = thread_cpu_ns();
                newest = search.read(at);
                due = at + thread_cpu_ns().saturating_sub(before) * DUTY;
            }
            if tell.send(newest.clone()).is_err() {
                return;
            }
        }
    };
    crate::kernel::thread("deadlocks", work).ok()?;
    Some((ask, found))
}

/// The state of the search.
#[derive(Debug, Default)]
struct DeadlockSearch {
    /// The processes and the threads of one of them that are examined next, the next one last.
    processes: Vec<i32>,
    threads: (i32, Vec<i32>),
    /// The circles, and when each was found.
    circles: BTreeMap<SeenCircle, u64>,
}

impl DeadlockSearch {
    /// Examines the next threads; returns the deadlocks at a time of CLOCK_MONOTONIC.
    fn read(&mut self, at: u64) -> Vec<Deadlock> {
        let still = |seen: &SeenCircle| {
            let first = seen.1.first().map(|(tid, _)| *tid);
            first.and_then(|tid| circle_of(seen.0, tid, &mut FxHashSet::default())).as_ref() == Some(seen)
        };
        self.circles.retain(|seen, _| still(seen));
        let (mut processes, mut examined) = (MOST_PROCESSES, FxHashSet::default());
        for _ in 0..MOST_THREADS {
            if self.circles.len() == MOST_CIRCLES || examined.len() >= MOST_THREADS {
                break;
            }
            let Some((pid, tid)) = self.next(&mut processes) else { break };
            let Some(seen) = circle_of(pid, tid, &mut examined) else { continue };
            if self.circles.keys().filter(|other| other.0 == pid).count() < MOST_OF_ONE {
                self.circles.entry(seen).or_insert(at);
            }
        }
        let sure = self.circles.iter().filter(|(_, since)| at.saturating_sub(**since) >= SURE_NS);
        sure.map(|((pid, circle, _), _)| named(*pid, circle)).collect()
    }

    /// Returns the next thread of a process with several; `None` at the end of a round, or after so many processes. New
    /// processes come first.
    fn next(&mut self, most: &mut usize) -> Option<(i32, i32)> {
        if let Some(tid) = self.threads.1.pop() {
            return Some((self.threads.0, tid));
        }
        if self.processes.is_empty() {
            let own = std::process::id() as i32;
            self.processes = procfs::processes_as_listed().filter(|pid| *pid != own).collect();
        }
        while *most > 0 {
            *most -= 1;
            let pid = self.processes.pop()?;
            // Reading the list of threads takes much longer.
            if !procfs::has_other_threads(pid) {
                continue;
            }
            let mut tids = procfs::threads(pid);
            if tids.len() > 1 {
                let first = tids.pop();
                self.threads = (pid, tids);
                return first.map(|tid| (pid, tid));
            }
        }
        None
    }
}

/// Returns the circle that a thread's waits lead to. Threads that were examined before are not followed again.
fn circle_of(pid: i32, tid: i32, examined: &mut FxHashSet<i32>) -> Option<SeenCircle> {
    let found = circle(tid, |tid| {
        if !examined.insert(tid) {
            return None;
        }
        // The system call of a thread of another process is not below this directory.
        let wait = blocked::mutex_wait(pid, tid)?;
        Some((wait.address, procfs::thread_by_own_number(pid, wait.owner(pid)?, MOST_NAMED)?))
    })?;
    let ran = |tid: i32| Some(schedstat(&procfs::read_short(&format!("/proc/{pid}/task/{tid}/schedstat")).ok()?)?[2]);
    let runs = found.iter().map(|(tid, _)| ran(*tid)).collect();
    Some((pid, found, runs))
}

fn named(pid: i32, circle: &Circle) -> Deadlock {
    let name = |tid: i32| -> Arc<str> {
        let comm = procfs::comm(pid, tid).unwrap_or_default();
        String::from_utf8_lossy(&comm).into()
    };
    Deadlock { pid, comm: name(pid), threads: circle.iter().map(|(tid, _)| (*tid, name(*tid))).collect() }
}

/// Follows waits from a thread on; returns the circle that they reach, from its lowest number on. `wait` returns the
/// mutex that a thread waits for, and its owner.
fn circle(first: i32, mut wait: impl FnMut(i32) -> Option<(u64, i32)>) -> Option<Circle> {
    let (mut path, mut at): (Circle, i32) = (Vec::new(), first);
    while path.len() <= LONGEST {
        if let Some(from) = path.iter().position(|(tid, _)| *tid == at) {
            let mut circle = path.split_off(from);
            let lowest = (0..circle.len()).min_by_key(|i| circle[*i].0)?;
            circle.rotate_left(lowest);
            return Some(circle);
        }
        let (mutex, owner) = wait(at)?;
        path.push((at, mutex));
        at = owner;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_lead_back_are_a_circle() {
        let of = |edges: &[(i32, u64, i32)], first| {
            let edges = edges.to_vec();
            circle(first, move |tid| edges.iter().find(|edge| edge.0 == tid).map(|edge| (edge.1, edge.2)))
        };
        let two = [(7, 0xa, 5), (5, 0xb, 7), (9, 0xa, 5)];
        for first in [5, 7, 9] {
            assert_eq!(of(&two, first), Some(vec![(5, 0xb), (7, 0xa)]));
        }
        assert_eq!(of(&two[..1], 7), None, "the owner runs");
        assert_eq!(of(&[(4, 0xc, 4)], 4), Some(vec![(4, 0xc)]));
        let many: Vec<(i32, u64, i32)> = (1..=100).map(|tid| (tid, tid as u64, tid % 100 + 1)).collect();
        assert_eq!(of(&many, 1), None, "longer than the limit");
    }

    /// Deadlocks are no longer known if a reading does not end, and no further one is started.
    #[test]
    fn a_delayed_reading_delays_nobody() {
        let ((ask, asked), (tell, found)) = (bounded(1), bounded(1));
        let one = vec![Deadlock { pid: 7, ..Deadlock::default() }];
        let mut watch = DeadlockWatch { thread: Some((ask, found)), newest: one.clone(), asked: None };
        assert_eq!([watch.read(1), watch.read(PATIENCE_NS)], [one.clone(), one.clone()]);
        assert_eq!(watch.read(PATIENCE_NS + 2), Vec::new());
        assert_eq!(asked.try_iter().collect::<Vec<u64>>(), [1]);
        tell.send(one.clone()).expect("room");
        assert_eq!(watch.read(PATIENCE_NS + 3), one);
        assert_eq!(asked.try_iter().collect::<Vec<u64>>(), [PATIENCE_NS + 3]);
    }

    #[test]
    fn a_deadlock_is_described_by_its_threads() {
        let text = |tids: std::ops::Range<i32>| {
            let threads = tids.map(|tid| (tid, Arc::from("worker"))).collect();
            Deadlock { threads, ..Deadlock::default() }.text()
        };
        assert_eq!(text(3..4), "worker-3 waits for a mutex that it holds itself");
        assert_eq!(text(3..5), "worker-3 ⇄ worker-4");
        assert_eq!(text(1..10), "worker-1 ⇄ worker-2 ⇄ worker-3 ⇄ worker-4 and 5 more threads");
    }
}
