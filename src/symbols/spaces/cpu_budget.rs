//! A limit on the CPU time that a thread uses.

use std::time::{Duration, Instant};

use crate::kernel::thread_cpu_ns;

/// The divisor of the CPU share for sustained work. `SAVED_NS` is the CPU time that may be saved up.
const SHARE: i64 = 5;
const SAVED_NS: i64 = 2_000_000_000;
const LONGEST: Duration = Duration::from_secs(1);

/// The CPU time that the creating thread may use now.
#[derive(Debug)]
pub(super) struct CpuBudget {
    left: i64,
    since: Instant,
    used: u64,
}

impl CpuBudget {
    pub(super) fn new() -> Self {
        Self { left: SAVED_NS, since: Instant::now(), used: thread_cpu_ns() }
    }

    /// Sleeps to compensate for excess use, for a limited time: the rest follows later.
    pub(super) fn pause(&mut self) {
        let (now, used) = (Instant::now(), thread_cpu_ns());
        let passed = now.duration_since(std::mem::replace(&mut self.since, now)).as_nanos() as i64;
        let spent = used.saturating_sub(std::mem::replace(&mut self.used, used)) as i64;
        self.left = (self.left + passed / SHARE - spent).min(SAVED_NS);
        if self.left < 0 {
            std::thread::sleep(Duration::from_nanos((-self.left * SHARE) as u64).min(LONGEST));
        }
    }
}
