//! The priority of a thread that others wait for: above what runs beside it for a part of each second, so that it does
//! not starve; and as it came beyond that, so that nothing starves beside it.

use rustix::process::{getpriority_process, setpriority_process};

use crate::kernel::{monotonic_ns, thread_cpu_ns};

const SECOND: u64 = 1_000_000_000;
/// How much nicer others have to be than who looks names up: about nine times the weight of an ordinary thread
/// (`sched_prio_to_weight` in kernel/sched/core.c).
const AHEAD: i32 = 10;
/// As nice as it gets.
const LAST: i32 = 19;

/// What the calling thread spent of its part.
#[derive(Debug)]
pub struct Urgency {
    /// The nice values within its part of a second and beyond; `None` where it may not change them.
    nice: Option<(i32, i32)>,
    urgent: bool,
    /// CPU time of each second that is its part.
    part: u64,
    /// When the second began, and the CPU time that had been spent by then.
    second: (u64, u64),
}

impl Urgency {
    /// Of a thread that others wait for: ahead of all for 0.3 s of each second, one of them beyond.
    pub fn ahead() -> Self {
        let own = getpriority_process(None).unwrap_or(0);
        Self::new(own - AHEAD, own, 300_000_000)
    }

    /// Of a thread that takes what others leave, but for 0.1 s of each second.
    pub fn last() -> Self {
        let own = getpriority_process(None).unwrap_or(0);
        Self::new(own, LAST, 100_000_000)
    }

    fn new(within: i32, beyond: i32, part: u64) -> Self {
        let urgent = set(beyond) && set(within);
        let nice = urgent.then_some((within, beyond));
        Self { nice, urgent, part, second: (monotonic_ns(), thread_cpu_ns()) }
    }

    /// To be called between pieces of work.
    pub fn keep(&mut self) {
        let Some((within, beyond)) = self.nice else { return };
        let urgent = self.has_left(monotonic_ns(), thread_cpu_ns());
        if urgent != self.urgent && set(if urgent { within } else { beyond }) {
            self.urgent = urgent;
        }
    }

    /// Whether something is left of the second's part.
    fn has_left(&mut self, now: u64, spent: u64) -> bool {
        if now.saturating_sub(self.second.0) >= SECOND {
            self.second = (now, spent);
        }
        spent.saturating_sub(self.second.1) < self.part
    }
}

fn set(nice: i32) -> bool {
    setpriority_process(None, nice.max(-20)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_each_second_and_no_more() {
        const PART: u64 = 300_000_000;
        let mut one = Urgency { nice: None, urgent: false, part: PART, second: (5, 7) };
        assert!(one.has_left(6, 7 + PART - 1) && !one.has_left(7, 7 + PART));
        assert!(!one.has_left(5 + SECOND - 1, 7 + 3 * PART));
        assert!(one.has_left(5 + SECOND, 7 + 3 * PART) && !one.has_left(6 + SECOND, 7 + 4 * PART));
    }

    /// As the user may: the thread is ahead, or it stays behind.
    #[test]
    fn a_thread_is_ahead_while_some_of_its_part_is_left() {
        let at = || getpriority_process(None).expect("a value");
        let work = |of: fn() -> Urgency| {
            let before = at();
            let mut one = of();
            let Some((within, beyond)) = one.nice else { return assert!(at() >= before) };
            assert_eq!((within < beyond, at()), (true, within.max(-20)));
            while thread_cpu_ns() < one.second.1 + one.part + 1_000_000 {
                one.second.0 = monotonic_ns();
            }
            one.keep();
            assert_eq!(at(), beyond);
            one.second.0 = 0;
            one.keep();
            assert_eq!(at(), within.max(-20));
        };
        for of in [Urgency::ahead, Urgency::last] {
            std::thread::scope(|scope| scope.spawn(|| work(of)).join()).expect("passes");
        }
    }
}
