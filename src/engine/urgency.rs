//! The priority of a thread that others wait for: above what runs beside it for a part of each second, so that it does
//! not starve; and as it came beyond that, so that nothing starves beside it.

use rustix::process::{getpriority_process, setpriority_process};

use crate::kernel::{monotonic_ns, thread_cpu_ns};

const SECOND: u64 = 1_000_000_000;
/// CPU time of each second that is spent with priority.
const PART: u64 = 300_000_000;
/// How much nicer others have to be: about nine times the weight of an ordinary thread (`sched_prio_to_weight` in
/// kernel/sched/core.c).
const AHEAD: i32 = 10;

/// What the calling thread spent of its part.
#[derive(Debug)]
pub struct Urgency {
    /// The nice value that it came with; `None` where it may not be lowered.
    base: Option<i32>,
    urgent: bool,
    /// When the second began, and the CPU time that had been spent by then.
    second: (u64, u64),
}

impl Urgency {
    /// Puts the calling thread ahead, where that is allowed.
    pub fn of_this_thread() -> Self {
        let base = getpriority_process(None).ok().filter(|nice| set(nice - AHEAD));
        Self { base, urgent: base.is_some(), second: (monotonic_ns(), thread_cpu_ns()) }
    }

    /// To be called between pieces of work.
    pub fn keep(&mut self) {
        let Some(base) = self.base else { return };
        let urgent = self.has_left(monotonic_ns(), thread_cpu_ns());
        if urgent != self.urgent && set(if urgent { base - AHEAD } else { base }) {
            self.urgent = urgent;
        }
    }

    /// Whether something is left of the second's part.
    fn has_left(&mut self, now: u64, spent: u64) -> bool {
        if now.saturating_sub(self.second.0) >= SECOND {
            self.second = (now, spent);
        }
        spent.saturating_sub(self.second.1) < PART
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
        let mut one = Urgency { base: None, urgent: false, second: (5, 7) };
        assert!(one.has_left(6, 7 + PART - 1) && !one.has_left(7, 7 + PART));
        assert!(!one.has_left(5 + SECOND - 1, 7 + 3 * PART));
        assert!(one.has_left(5 + SECOND, 7 + 3 * PART) && !one.has_left(6 + SECOND, 7 + 4 * PART));
    }

    /// As the user may: the thread is ahead, or it stays where it was.
    #[test]
    fn the_thread_is_ahead_while_it_has_some_of_it_left() {
        let work = || {
            let before = getpriority_process(None).expect("a value");
            let mut one = Urgency::of_this_thread();
            let Some(base) = one.base else { return assert_eq!(getpriority_process(None), Ok(before)) };
            let at = || getpriority_process(None).expect("a value");
            assert_eq!((base, at()), (before, (before - AHEAD).max(-20)));
            while thread_cpu_ns() < one.second.1 + PART + 1_000_000 {
                one.second.0 = monotonic_ns();
            }
            one.keep();
            assert_eq!(at(), before);
            one.second.0 = 0;
            one.keep();
            assert_eq!(at(), (before - AHEAD).max(-20));
        };
        std::thread::spawn(work).join().expect("passes");
    }
}
