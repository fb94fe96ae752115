//! Reading the sums: the maps take turns, and the one that was in use is emptied.

use super::{CallCounter, Setting};
use crate::kernel::bpf::calls::{self, LoadError, half, word};
use crate::kernel::{monotonic_ns, procfs};

/// Bytes of `struct thread`, `struct key`, `struct sum` and `struct budget` in call_sums.bpf.c.
pub(super) const THREAD: usize = 24;
pub(super) const PID_AT: usize = 16;
const KEY: usize = 8;
const SUM: usize = BUCKETS_AT + 4 * BUCKETS;
const BUDGET: usize = 24;
const ERRORS_AT: usize = 48;
const ERRORS: usize = 8;
const BUCKETS_AT: usize = ERRORS_AT + 8 * ERRORS + 8;
const BUCKETS: usize = 736;
/// The bit of a call's number that marks the 32-bit ABI.
const NARROW: u32 = 1 << 31;

/// The calls of a thread by one number between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSum {
    pub(crate) tid: i32,
    pub(crate) pid: i32,
    pub(crate) number: i64,
    /// Whether they were made by the 32-bit ABI of a 64-bit kernel.
    pub(crate) is_32_bit: bool,
    /// Calls with a time; their sum and extremes in nanoseconds.
    pub(crate) n: u64,
    pub(crate) ns: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Calls above the limit of time, which should have been recorded.
    pub(crate) slow: u64,
    /// Calls above that limit, and those that failed.
    pub(crate) listed: u64,
    /// Calls without a time, because their start was not seen.
    pub(crate) untimed: u64,
    /// Failures by their number; 0 for unknown ones.
    pub(crate) errors: Vec<(u32, u64)>,
    /// Durations by bucket (`Stats`).
    pub(crate) buckets: Vec<(u16, u64)>,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    pub(crate) tid: i32,
    pub(crate) number: i64,
    pub(crate) is_32_bit: bool,
    /// Its start in nanoseconds of the session's clock.
    pub(crate) start: u64,
}

/// All sums since the previous reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSums {
    /// The time of the reading, in nanoseconds of the session's clock.
    pub(crate) until: u64,
    pub(crate) sums: Vec<CallSum>,
    pub(crate) open: Vec<OpenCall>,
    /// Calls since the start that were neither summed nor recorded.
    pub(crate) lost: u64,
}

/// Returns a call's number and whether it is of the 32-bit ABI.
pub(crate) fn call(call: u32) -> (i64, bool) {
    let number = call & !NARROW;
    // A tracer may set the number to -1.
    (if number == !NARROW { -1 } else { i64::from(number) }, call & NARROW != 0)
}

fn sum(key: &[u8], value: &[u8]) -> CallSum {
    let (number, is_32_bit) = call(half(key, 4));
    let errors = (0..ERRORS).map(|at| (half(value, ERRORS_AT + 8 * at), half(value, ERRORS_AT + 8 * at + 4)));
    let others = (0, word(value, ERRORS_AT + 8 * ERRORS));
    let errors = errors.map(|(number, n)| (number, u64::from(n))).chain([others]).filter(|(_, n)| *n > 0);
    let buckets = (0..BUCKETS).map(|at| (at as u16, u64::from(half(value, BUCKETS_AT + 4 * at))));
    CallSum {
        tid: half(key, 0) as i32,
        pid: half(value, 40) as i32,
        number,
        is_32_bit,
        n: word(value, 0),
        ns: word(value, 8),
        min: word(value, 16),
        max: word(value, 24),
        slow: half(value, 32).into(),
        untimed: half(value, 36).into(),
        listed: half(value, 44).into(),
        errors: errors.collect(),
        buckets: buckets.filter(|(_, n)| *n > 0).collect(),
    }
}

fn open(key: &[u8], value: &[u8]) -> Option<OpenCall> {
    let (number, is_32_bit) = call(half(value, 8));
    let (tid, start) = (half(key, 0) as i32, word(value, 0));
    (start != 0).then_some(OpenCall { tid, number, is_32_bit, start })
}

impl CallCounter {
    /// Returns whether a measured thread still runs.
    pub(crate) fn has_threads(&self) -> bool {
        let mut runs = false;
        let look = |key: &[u8], _: &[u8]| runs = runs || procfs::is_running(half(key, 0) as i32);
        let threads = self.object.map("threads");
        let read = threads.is_ok_and(|threads| calls::read_all(threads, (4, THREAD), false, look).is_ok());
        read && runs
    }

    /// Returns the sums since the previous reading and the calls under way, and begins the next window of single calls.
    pub(crate) fn read(&self) -> Result<CallSums, LoadError> {
        self.set(Setting::Window, self.get(Setting::Window).wrapping_add(1));
        let full = self.turns.turn(&self.object, &self.settings, Setting::Active as usize)?;
        let mut out = CallSums { until: monotonic_ns(), ..CallSums::default() };
        calls::read_all(full, (KEY, SUM), true, |key, value| out.sums.push(sum(key, value)))?;
        let threads = self.object.map("threads")?;
        calls::read_all(threads, (4, THREAD), false, |key, value| out.open.extend(open(key, value)))?;
        out.sums.sort_unstable_by_key(|sum| (sum.tid, sum.number, sum.is_32_bit));
        out.open.sort_unstable_by_key(|open| open.tid);
        let budgets = calls::get_by_cpu(self.object.map("budgets")?, 0, BUDGET, self.cpus)?;
        out.lost = budgets.chunks_exact(BUDGET).map(|cpu| word(cpu, 16)).sum();
        Ok(out)
    }
}
