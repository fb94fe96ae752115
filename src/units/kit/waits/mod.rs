//! Waits of tasks: scheduler events, classes of waits, wakers and the places where tasks sleep.

pub(crate) mod classes;
pub(crate) mod cpu_runs;
pub(crate) mod disks;
pub(crate) mod endings;
pub(crate) mod idle_filter;
pub(crate) mod initially_blocked;
pub(crate) mod programs;
pub(crate) mod sched;
pub(crate) mod sleep;
pub(crate) mod wakers;
