//! The time that threads sleep, summed by thread and stack inside the kernel: the BPF program at the raw tracepoint of
//! context switches (waits.bpf.c) and its maps. It walks stacks by the tables of the walking program.
//!
//! The sums are in two maps that take turns: one is read and emptied while the program fills the other.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Program, offsets};
use crate::kernel::bpf::btf::Btf;
use crate::kernel::bpf::calls::{self, LoadError, MappedValue, ProgramType, half, word};
use crate::kernel::bpf::object::LoadedObject;
use crate::kernel::perf_event::sys::Errno;
use crate::kernel::process::own_memory;
use crate::kernel::{cpus, monotonic_ns};

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("waits.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
const OBJECT: &[u8] = include_bytes!("waits.aarch64.o");

/// Nanoseconds of the program between two readings, a second apart: those of all CPUs, and at least those of each.
const LIMIT: (u64, u64) = (15_000_000, 1_000_000);
/// The part of it that walks may take at most, and at least.
const WALKS: (u64, u64) = (12_000_000, 2_000_000);

/// Bytes of the structs of waits.bpf.c.
const WAITER: usize = 32;
const KEY: usize = 16;
const SUM: usize = 32;
const BUDGET: usize = 48;

/// The words of `struct wait_settings` in waits.bpf.c.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Active,
    Window,
    Budget,
    Own,
    TidAt,
    /// The first word of the bits of CPUs.
    LeftOut,
}

/// CPUs that can be left out.
const MOST_CPUS: usize = 4096;
const SETTINGS_BYTES: usize = 8 * (Setting::LeftOut as usize + MOST_CPUS / 64);

/// The waits of a thread with one stack that ended between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitSum {
    pub(crate) tid: i32,
    pub(crate) pid: i32,
    /// The id of the stack; 0 if it was not taken.
    pub(crate) stack: u64,
    /// From falling asleep until it ran again, in nanoseconds.
    pub(crate) ns: u64,
    pub(crate) cgroup: u64,
    /// The CPU on which the thread ran again last.
    pub(crate) cpu: u32,
}

/// A thread that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenWait {
    pub(crate) tid: i32,
    pub(crate) pid: i32,
    pub(crate) stack: u64,
    pub(crate) cgroup: u64,
    /// The CPU on which it fell asleep.
    pub(crate) cpu: u32,
    /// Its start in nanoseconds of the session's clock.
    pub(crate) start: u64,
}

/// All sums since the previous reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitTotals {
    /// The time of the reading, in nanoseconds of the session's clock.
    pub(crate) until: u64,
    pub(crate) sums: Vec<WaitSum>,
    pub(crate) open: Vec<OpenWait>,
    /// Waits since the start that were not measured because the maps are full.
    pub(crate) lost: u64,
    pub(crate) cost: ProgramCost,
}

/// The program's runs since the start, and its time in nanoseconds: that of walks, and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramCost {
    pub(crate) runs: u64,
    pub(crate) walk_ns: u64,
    pub(crate) other_ns: u64,
}

impl ProgramCost {
    /// Returns the cost since an earlier one.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            runs: self.runs.saturating_sub(earlier.runs),
            walk_ns: self.walk_ns.saturating_sub(earlier.walk_ns),
            other_ns: self.other_ns.saturating_sub(earlier.other_ns),
        }
    }

    /// Returns the nanoseconds that the program may take in a second on a machine with this number of CPUs.
    pub(crate) fn limit(cpus: usize) -> u64 {
        let (all, each) = LIMIT;
        all.max(each * cpus as u64)
    }
}

fn sum(key: &[u8], value: &[u8]) -> WaitSum {
    WaitSum {
        tid: half(key, 0) as i32,
        stack: word(key, 8),
        ns: word(value, 0),
        cgroup: word(value, 16),
        pid: half(value, 24) as i32,
        cpu: half(value, 28),
    }
}

fn open(key: &[u8], value: &[u8]) -> Option<OpenWait> {
    let (tid, pid, start) = (half(key, 0) as i32, half(value, 24) as i32, word(value, 0));
    (start != 0).then_some(OpenWait {
        tid,
        pid,
        stack: word(value, 8),
        cgroup: word(value, 16),
        cpu: half(value, 28),
        start,
    })
}

/// The loaded program. It measures from [`Self::begin`] until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitCounter {
    object: LoadedObject,
    /// The program whose tables and ring it uses.
    program: Arc<Program>,
    settings: MappedValue,
    barrier: MappedValue,
    code: OwnedFd,
    attached: Option<OwnedFd>,
    /// The number of possible CPUs.
    cpus: usize,
    /// The cost at the previous reading.
    read: Option<ProgramCost>,
}

impl WaitCounter {
    /// Loads the program, which takes up to a second; it ignores the process `own`. [`LoadError`] has the last line of
    /// the verifier's log.
    pub(crate) fn load(program: Arc<Program>, own: u32) -> Result<Self, LoadError> {
        let tid_at = Btf::system().and_then(|types| offsets::thread_number(&types));
        // The kernel's types take some 6 MB and are not needed again.
        own_memory::give_back();
        let tid_at = tid_at.map_err(|error| LoadError { errno: Errno::OPNOTSUPP, log: error.to_string() })?;
        let (object, cpus) = (LoadedObject::load_beside(OBJECT, Some(&program.object))?, cpus::possible());
        let settings = MappedValue::of(object.map("wait_settings")?, SETTINGS_BYTES)?;
        let code = object.program("sched_switch", ProgramType::RawTracepoint)?;
        for (setting, value) in
            [(Setting::Window, 1 << 20), (Setting::Own, own.into()), (Setting::TidAt, tid_at.into())]
        {
            settings.word(setting as usize).store(value, Ordering::Release);
        }
        Ok(Self { object, program, settings, barrier: MappedValue::new(8)?, code, attached: None, cpus, read: None })
    }

    /// Lets only sleeps count that begin on these CPUs, if any are chosen.
    pub(crate) fn count_on(&self, only: Option<&[u32]>) {
        let (words, left_out) = (MOST_CPUS / 64, if only.is_some() { u64::MAX } else { 0 });
        let mut bits = vec![left_out; words];
        for cpu in only.unwrap_or_default().iter().map(|cpu| *cpu as usize % MOST_CPUS) {
            bits[cpu / 64] &= !(1 << (cpu % 64));
        }
        for (at, word) in bits.into_iter().enumerate() {
            self.settings.word(Setting::LeftOut as usize + at).store(word, Ordering::Release);
        }
    }

    /// Attaches the program; `only` is that of [`Self::count_on`].
    pub(crate) fn begin(&mut self, only: Option<&[u32]>) -> Result<(), LoadError> {
        self.count_on(only);
        self.allow(ProgramCost::default());
        self.attached = Some(calls::attach(self.code.as_fd(), c"sched_switch")?);
        // A kernel that cannot read maps in batches has no place for sums.
        self.read().map(drop)
    }

    /// Detaches the program, and forgets the waits under way: it misses their ends.
    pub(crate) fn end(&mut self) -> Result<(), LoadError> {
        self.attached = None;
        self.read()?;
        Ok(calls::read_all(self.object.map("waiters")?, (4, WAITER), true, |_, _| ())?)
    }

    /// Returns the number of possible CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Sets the time for walks until the next reading: what the rest of the program leaves of its limit.
    fn allow(&self, last: ProgramCost) {
        let (most, least) = WALKS;
        let left = ProgramCost::limit(self.cpus).saturating_sub(last.other_ns).clamp(least, most);
        self.set(Setting::Budget, left / self.cpus.max(1) as u64);
    }

    /// Returns the program whose tables it uses.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn get(&self, setting: Setting) -> u64 {
        self.settings.word(setting as usize).load(Ordering::Acquire)
    }

    fn set(&self, setting: Setting, value: u64) {
        self.settings.word(setting as usize).store(value, Ordering::Release);
    }

    /// Returns the sums since the previous reading and the waits under way, and begins the next window.
    pub(crate) fn read(&mut self) -> Result<WaitTotals, LoadError> {
        let active = self.get(Setting::Active) & 1;
        self.set(Setting::Active, active ^ 1);
        self.set(Setting::Window, self.get(Setting::Window).wrapping_add(1));
        // An update of a map of maps waits until the running programs have ended (kernel/bpf/syscall.c).
        calls::put(self.object.map("wait_barrier")?, 0, [self.barrier.fd().as_raw_fd() as u32, 0, 0, 0])?;
        let mut out = WaitTotals { until: monotonic_ns(), ..WaitTotals::default() };
        let full = self.object.map(["waits0", "waits1"][active as usize])?;
        calls::read_all(full, (KEY, SUM), true, |key, value| out.sums.push(sum(key, value)))?;
        calls::read_all(self.object.map("waiters")?, (4, WAITER), false, |key, value| {
            out.open.extend(open(key, value))
        })?;
        // Ties are broken the same way each time.
        out.sums.sort_unstable_by_key(|sum| (sum.tid, sum.stack));
        out.open.sort_unstable_by_key(|open| open.tid);
        let budgets = calls::get_by_cpu(self.object.map("wait_budgets")?, 0, BUDGET, self.cpus)?;
        for of_cpu in budgets.chunks_exact(BUDGET) {
            let [lost, runs, spent, walked] = [16, 24, 32, 40].map(|at| word(of_cpu, at));
            out.lost += lost;
            out.cost.runs += runs;
            out.cost.walk_ns += walked;
            out.cost.other_ns += spent.saturating_sub(walked);
        }
        let before = self.read.replace(out.cost).unwrap_or_default();
        self.allow(out.cost.since(before));
        Ok(out)
    }
}

/// The stack of a wait, as its record has it behind the words of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitRecord<'a> {
    pub(crate) id: u64,
    /// The record of the walk alone.
    pub(crate) walk: &'a [u8],
    /// The kernel's frames, from the program to the system call: words of 8 bytes.
    pub(crate) kernel: &'a [u8],
}

impl<'a> WaitRecord<'a> {
    /// Splits a record whose flags have [`super::OF_WAIT`]; `None` if its lengths are wrong. The walk has at least `head` bytes.
    pub(crate) fn of(record: &'a [u8], head: usize) -> Option<Self> {
        let (rest, id) = record.split_at_checked(record.len().checked_sub(8)?)?;
        let (rest, frames) = rest.split_at_checked(rest.len().checked_sub(8)?)?;
        let bytes = usize::try_from(word(frames, 0)).ok()?.checked_mul(8)?;
        let (walk, kernel) = rest.split_at_checked(rest.len().checked_sub(bytes)?)?;
        (walk.len() >= head).then_some(Self { id: word(id, 0), walk, kernel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn elements_of_the_maps_are_waits() {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let key = bytes(&[7, 0xabc]);
        let value = bytes(&[1_000, 3, 55, pair(6, 2)]);
        let expected = WaitSum { tid: 7, pid: 6, stack: 0xabc, ns: 1_000, cgroup: 55, cpu: 2 };
        assert_eq!(sum(&key, &value), expected);
        let waiter = |start| bytes(&[start, 0xabc, 55, pair(6, 2)]);
        let expected = OpenWait { tid: 7, pid: 6, stack: 0xabc, cgroup: 55, cpu: 2, start: 9 };
        assert_eq!(
            (open(&7u32.to_ne_bytes(), &waiter(9)), open(&7u32.to_ne_bytes(), &waiter(0))),
            (Some(expected), None)
        );
        // Nothing panics on elements of other sizes.
        assert_eq!((sum(&[], &[]), open(&[], &[])), (WaitSum::default(), None));
    }

    #[test]
    fn the_parts_of_a_wait_are_behind_its_walk() {
        let record = bytes(&[1, 2, 3, 4, 5, 2, 99]);
        let found = WaitRecord::of(&record, 16).expect("whole");
        assert_eq!((found.id, found.walk, found.kernel), (99, &record[..24], &record[24..40]));
        assert_eq!(WaitRecord::of(&record, 32), None, "the head is cut");
        for cut in 0..16 {
            assert_eq!(WaitRecord::of(&record[..cut], 0), None);
        }
        assert_eq!(WaitRecord::of(&bytes(&[1, u64::MAX, 9]), 0), None);
        assert_eq!(WaitRecord::of(&bytes(&[1, 2, 9]), 0), None);
    }
}
