//! Deadlocks: threads that wait for each other's mutexes in a circle, as /proc and the mutexes themselves show them.
//!
//! Each reading examines some threads of the machine in turn. A circle is a deadlock if its threads still wait for the
//! same mutexes a second later: an owner in a mutex may be outdated for a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kernel::{blocked, procfs};

/// The limits of threads and of processes examined in a reading.
const MOST_THREADS: usize = 128;
const MOST_PROCESSES: usize = 256;
/// The limits of threads in a circle, and of circles.
const LONGEST: usize = 64;
const MOST_CIRCLES: usize = 16;
/// The time after which a circle is sure, in nanoseconds.
const SURE_NS: u64 = 1_000_000_000;

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

/// The state of the search.
#[derive(Debug, Default)]
pub(crate) struct DeadlockWatch {
    /// The processes and the threads of one of them that are examined next, the next one last.
    processes: Vec<i32>,
    threads: (i32, Vec<i32>),
    /// The circles by process, and when each was found.
    circles: BTreeMap<(i32, Circle), u64>,
}

impl DeadlockWatch {
    /// Examines the next threads; returns the deadlocks at a time of CLOCK_MONOTONIC.
    pub(crate) fn read(&mut self, at: u64) -> Vec<Deadlock> {
        let still = |(pid, circle): &(i32, Circle)| Self::circle_of(*pid, circle[0].0).as_ref() == Some(circle);
        self.circles.retain(|key, _| still(key));
        let mut processes = MOST_PROCESSES;
        for _ in 0..MOST_THREADS {
            let Some((pid, tid)) = self.next(&mut processes) else { break };
            if let Some(circle) = Self::circle_of(pid, tid).filter(|_| self.circles.len() < MOST_CIRCLES) {
                self.circles.entry((pid, circle)).or_insert(at);
            }
        }
        let sure = self.circles.iter().filter(|(_, since)| at.saturating_sub(**since) >= SURE_NS);
        sure.map(|((pid, circle), _)| Self::named(*pid, circle)).collect()
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
            let mut tids = procfs::threads(pid);
            if tids.len() > 1 {
                let first = tids.pop();
                self.threads = (pid, tids);
                return first.map(|tid| (pid, tid));
            }
        }
        None
    }

    fn circle_of(pid: i32, tid: i32) -> Option<Circle> {
        circle(tid, |tid| {
            // The system call of a thread of another process is not below this directory.
            let wait = blocked::mutex_wait(pid, tid)?;
            Some((wait.address, wait.owner(pid)?))
        })
    }

    fn named(pid: i32, circle: &Circle) -> Deadlock {
        let name = |tid: i32| -> Arc<str> {
            let comm = procfs::comm(pid, tid).unwrap_or_default();
            String::from_utf8_lossy(&comm).into()
        };
        Deadlock { pid, comm: name(pid), threads: circle.iter().map(|(tid, _)| (*tid, name(*tid))).collect() }
    }
}

/// Follows waits from a thread on; returns the circle that they reach, from its lowest number on. `wait` returns the
/// mutex that a thread waits for, and its owner.
fn circle(first: i32, wait: impl Fn(i32) -> Option<(u64, i32)>) -> Option<Circle> {
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
