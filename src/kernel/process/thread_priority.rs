//! The priority of a thread that others wait for. For a part of each second it is above other threads, so that it does
//! not starve. Beyond that part it has its original priority, so that others do not starve.

use std::thread::ScopedJoinHandle;

use rustix::process::{getpriority_process, setpriority_process};

use crate::kernel::{monotonic_ns, sched, scoped_thread, thread_cpu_ns, thread_run_delay_ns};

const SECOND: u64 = 1_000_000_000;
/// The difference in niceness of an urgent thread: about nine times the weight of an ordinary one
/// (`sched_prio_to_weight` in kernel/sched/core.c).
const AHEAD: i32 = 10;
/// The highest niceness.
const LAST: i32 = 19;
/// CPU time of each second for which a thread may be urgent, in nanoseconds.
const PART: u64 = 300_000_000;
/// The same for a real-time priority.
const REALTIME_PART: u64 = 200_000_000;

/// Returns the time that the calling thread ran on a CPU or waited for one, in nanoseconds.
pub(crate) fn thread_wanted_cpu_ns() -> u64 {
    thread_cpu_ns() + thread_run_delay_ns()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Nice(i32),
    Realtime(i32),
}

/// The priority of the calling thread, and how much of its part of the second is used.
#[derive(Debug)]
pub struct ThreadPriority {
    /// The ranks within its part of a second and beyond; `None` if it may not change them.
    ranks: Option<(Rank, Rank)>,
    urgent: bool,
    /// CPU time of each second for which it is urgent.
    part: u64,
    /// The start of the second, and the thread's CPU time then.
    second: (u64, u64),
}

impl ThreadPriority {
    /// Returns the priority of a thread that others wait for: urgent for 0.3 s of each second, ordinary beyond.
    pub(crate) fn ahead() -> Self {
        let own = own();
        Self::new(Rank::Nice((own - AHEAD).max(-20)), Rank::Nice(own), PART)
    }

    /// Returns the priority of a thread that delays a live session; with a priority, real-time for 0.2 s per second.
    pub(crate) fn of_live(realtime: Option<i32>) -> Self {
        match realtime {
            Some(priority) => Self::new(Rank::Realtime(priority), Rank::Nice(own()), REALTIME_PART),
            None => Self::ahead(),
        }
    }

    /// Returns the priority of a background thread: ordinary for 0.1 s of each second, with the highest niceness beyond.
    pub(crate) fn last() -> Self {
        Self::new(Rank::Nice(own()), Rank::Nice(LAST), 100_000_000)
    }

    pub(crate) fn usual() -> Self {
        Self { ranks: None, urgent: false, part: 0, second: (0, 0) }
    }

    fn new(within: Rank, beyond: Rank, part: u64) -> Self {
        let urgent = set(beyond) && set(within);
        let ranks = urgent.then_some((within, beyond));
        Self { ranks, urgent, part, second: (monotonic_ns(), thread_cpu_ns()) }
    }

    /// Updates the thread's priority; to be called between pieces of work.
    pub(crate) fn keep(&mut self) {
        let Some((within, beyond)) = self.ranks else { return };
        let urgent = self.has_left(monotonic_ns(), thread_cpu_ns());
        if urgent != self.urgent && set(if urgent { within } else { beyond }) {
            self.urgent = urgent;
        }
    }

    fn has_left(&mut self, now: u64, spent: u64) -> bool {
        if now.saturating_sub(self.second.0) >= SECOND {
            self.second = (now, spent);
        }
        spent.saturating_sub(self.second.1) < self.part
    }
}

/// Checks whether a thread of this process may have a real-time priority; the error has the reason.
pub fn may_be_realtime(priority: i32) -> std::io::Result<()> {
    let attempt = || sched::set_realtime(Some(priority));
    let tried = std::thread::scope(|scope| scoped_thread(scope, "priority", attempt).map(ScopedJoinHandle::join));
    tried?.unwrap_or_else(|_| Err(std::io::Error::other("the test thread panicked")))
}

fn own() -> i32 {
    getpriority_process(None).unwrap_or(0)
}

fn set(rank: Rank) -> bool {
    match rank {
        Rank::Realtime(priority) => sched::set_realtime(Some(priority)).is_ok(),
        // Threads and processes that it starts must not be urgent.
        Rank::Nice(nice) => sched::set_realtime(None).is_ok() && setpriority_process(None, nice).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_each_second_and_no_more() {
        const PART: u64 = 300_000_000;
        let mut one = ThreadPriority { ranks: None, urgent: false, part: PART, second: (5, 7) };
        assert!(one.has_left(6, 7 + PART - 1) && !one.has_left(7, 7 + PART));
        assert!(!one.has_left(5 + SECOND - 1, 7 + 3 * PART));
        assert!(one.has_left(5 + SECOND, 7 + 3 * PART) && !one.has_left(6 + SECOND, 7 + 4 * PART));
    }

    fn rank() -> Rank {
        // The exact priority is known to the kernel only.
        if sched::is_realtime() { Rank::Realtime(1) } else { Rank::Nice(own()) }
    }

    fn on_its_own<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join()).expect("passes")
    }

    /// If the user has the right, the thread is urgent; else it stays ordinary.
    #[test]
    fn a_thread_is_ahead_while_some_of_its_part_is_left() {
        let work = |of: fn() -> ThreadPriority| {
            let before = own();
            let mut one = of();
            let Some((within, beyond)) = one.ranks else { return assert!(own() >= before) };
            assert_ne!(within, beyond);
            assert_eq!(rank(), within);
            while thread_cpu_ns() < one.second.1 + one.part + 1_000_000 {
                one.second.0 = monotonic_ns();
            }
            one.keep();
            assert_eq!(rank(), beyond);
            one.second.0 = 0;
            one.keep();
            assert_eq!(rank(), within);
        };
        for of in [
            ThreadPriority::ahead,
            ThreadPriority::last,
            || ThreadPriority::of_live(None),
            || ThreadPriority::of_live(Some(1)),
        ] {
            on_its_own(|| work(of));
        }
    }

    #[test]
    fn what_an_urgent_thread_starts_is_not_urgent() {
        for of in [ThreadPriority::ahead, || ThreadPriority::of_live(Some(1))] {
            let (ahead, started) = on_its_own(|| (of().ranks.is_some(), on_its_own(rank)));
            assert!(!ahead || started == Rank::Nice(0), "{started:?}");
        }
    }

    #[test]
    fn a_priority_that_there_is_not_is_refused() {
        assert!(may_be_realtime(100).is_err());
        assert!(!sched::is_realtime(), "only the thread that tried it");
    }
}
