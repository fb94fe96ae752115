//! System calls, summed by thread and call inside the kernel: the BPF programs at the raw tracepoints of all calls
//! (call_sums.bpf.c, compiled by the `build` next to it) and their maps.
//!
//! Each call is either in the sums or recorded in a ring, exactly once. The sums are in two maps that take turns: one is
//! read and emptied while the programs fill the other.

mod offsets;
mod read;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bpf::alternating_maps::AlternatingMaps;
use super::bpf::btf::Btf;
use super::bpf::calls::{self, LoadError, MappedValue, ProgramType};
use super::bpf::object::LoadedObject;
use super::cpus;
use super::perf_event::sys::Errno;
use super::process::own_memory;

pub(crate) use read::call;
pub use read::{CallSum, CallSums, OpenCall};

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("call_sums.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
const OBJECT: &[u8] = include_bytes!("call_sums.aarch64.o");

/// The tracepoints of the programs, which are named like their sections.
const TRACEPOINTS: [&CStr; 5] =
    [c"sched_process_fork", c"sched_process_exec", c"sched_process_exit", c"sys_exit", c"sys_enter"];
/// Single calls of a CPU between two readings, in addition to those above the limit of time.
const BUDGET: u64 = 200;
/// In addition, those with a descriptor: the limit of a CPU, and that of all CPUs.
const DESCRIPTOR_BUDGET: u64 = 1_000;
const DESCRIPTOR_BUDGET_OF_ALL: u64 = 4_000;

/// The bits of a call in map `kinds`, and the calls that it has of an ABI.
const ON_DESCRIPTOR: u32 = 1;
const CHANGES: u32 = 2;
const KINDS: u32 = 1024;

/// How calls are summed. Calls are their number and whether they are made by the 32-bit ABI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SumPolicy {
    /// Calls that take longer are recorded singly, in nanoseconds.
    pub(crate) slow_ns: u64,
    /// The calls that use a descriptor: more of them are recorded singly.
    pub(crate) on_descriptor: BTreeSet<(i64, bool)>,
    /// The calls that change what descriptors refer to: records tell whether such calls were summed.
    pub(crate) changing: BTreeSet<(i64, bool)>,
}

impl SumPolicy {
    /// Returns the elements of map `kinds`.
    fn kinds(&self) -> impl Iterator<Item = (u32, u32)> {
        let all: BTreeSet<(i64, bool)> = self.on_descriptor.union(&self.changing).copied().collect();
        all.into_iter().filter_map(|(number, is_32_bit)| {
            let call = (number, is_32_bit);
            let bit = |set: &BTreeSet<(i64, bool)>, bit: u32| if set.contains(&call) { bit } else { 0 };
            let kind = bit(&self.on_descriptor, ON_DESCRIPTOR) | bit(&self.changing, CHANGES);
            let number = u32::try_from(number).ok().filter(|number| *number < KINDS)?;
            Some((number + if is_32_bit { KINDS } else { 0 }, kind))
        })
    }
}

/// The settings of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallSettings {
    /// Whether only the threads of [`CallCounter::add_thread`] are measured.
    pub(crate) narrow: bool,
    /// Whether their new threads and children are measured, too.
    pub(crate) inherit: bool,
    /// The number of the tracepoint `raw_syscalls:sys_exit`, which records have.
    pub(crate) tracepoint: u64,
    pub(crate) policy: Arc<SumPolicy>,
}

/// The words of `struct settings` in call_sums.bpf.c.
#[derive(Clone, Copy, Debug)]
enum Setting {
    On,
    AwaitExec,
    Active,
    Window,
    Budget,
    Slow,
    Narrow,
    Inherit,
    Own,
    Kind,
    TidAt,
    PidAt,
    DescriptorBudget,
    /// Written by the programs.
    Changed,
}

const SETTINGS_BYTES: usize = 8 * (Setting::Changed as usize + 1);

fn descriptor_budget(cpus: usize) -> u64 {
    (DESCRIPTOR_BUDGET_OF_ALL / cpus.max(1) as u64).clamp(BUDGET, DESCRIPTOR_BUDGET)
}

/// The attached programs. They measure from [`Self::begin`] until they are dropped.
#[derive(Debug)]
pub(crate) struct CallCounter {
    object: LoadedObject,
    of: CallSettings,
    settings: MappedValue,
    turns: AlternatingMaps,
    attached: Vec<OwnedFd>,
    /// The number of possible CPUs.
    cpus: usize,
}

impl CallCounter {
    /// Loads and attaches the programs (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN); they ignore the process `own`.
    /// [`LoadError`] has the last line of the verifier's log.
    pub(crate) fn load(of: CallSettings, own: u32) -> Result<Self, LoadError> {
        let types = Btf::system().and_then(|types| offsets::of_task(&types));
        // The kernel's types take some 6 MB and are not needed again.
        own_memory::give_back();
        let (tid_at, pid_at) = types.map_err(|error| LoadError { errno: Errno::OPNOTSUPP, log: error.to_string() })?;
        let (object, cpus) = (LoadedObject::load(OBJECT)?, cpus::possible());
        let settings = MappedValue::of(object.map("settings")?, SETTINGS_BYTES)?;
        let mut counter = Self { object, of, settings, turns: AlternatingMaps::new()?, attached: Vec::new(), cpus };
        for (setting, value) in [
            (Setting::Budget, BUDGET),
            (Setting::Slow, counter.of.policy.slow_ns),
            (Setting::Narrow, counter.of.narrow.into()),
            (Setting::Inherit, counter.of.inherit.into()),
            (Setting::Own, own.into()),
            (Setting::Kind, counter.of.tracepoint),
            (Setting::TidAt, tid_at.into()),
            (Setting::PidAt, pid_at.into()),
            (Setting::DescriptorBudget, descriptor_budget(cpus)),
        ] {
            counter.set(setting, value);
        }
        for (at, kind) in counter.of.policy.kinds() {
            calls::put(counter.object.map("kinds")?, at, [kind, 0, 0, 0])?;
        }
        for tracepoint in TRACEPOINTS {
            let section = tracepoint.to_str().unwrap_or_default();
            let program = counter.object.program(section, ProgramType::RawTracepoint)?;
            counter.attached.push(calls::attach(program.as_fd(), tracepoint)?);
        }
        // A kernel that cannot read maps in batches has no place for sums.
        counter.read()?;
        Ok(counter)
    }

    /// Programs that are not loaded: they have settings, but no maps.
    #[cfg(test)]
    pub(crate) fn staged() -> Self {
        let (settings, turns) = (MappedValue::staged(SETTINGS_BYTES), AlternatingMaps::staged());
        let of = CallSettings { narrow: false, inherit: false, tracepoint: 0, policy: Arc::default() };
        let object = LoadedObject::staged(std::fs::File::open("/dev/null").expect("there").into());
        Self { object, of, settings, turns, attached: Vec::new(), cpus: 1 }
    }

    pub(crate) fn settings(&self) -> &CallSettings {
        &self.of
    }

    fn set(&self, setting: Setting, value: u64) {
        self.settings.word(setting as usize).store(value, Ordering::Release);
    }

    fn get(&self, setting: Setting) -> u64 {
        self.settings.word(setting as usize).load(Ordering::Acquire)
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        self.object.write_by(cpu, event)
    }

    /// Ends the records of a CPU: its calls are summed. The map would keep its event open.
    pub(crate) fn write_no_more(&self, cpu: u32) {
        // It fails only if the CPU has no event.
        let _ = self.object.map("events").map(|events| calls::take(events, cpu));
    }

    /// Adds a thread to those that are measured.
    pub(crate) fn add_thread(&self, tid: i32, pid: i32) -> Result<(), LoadError> {
        let mut thread = [0u8; read::THREAD];
        thread[read::PID_AT..read::PID_AT + 4].copy_from_slice(&pid.to_ne_bytes());
        Ok(calls::put_bytes(self.object.map("threads")?, tid as u32, &thread)?)
    }

    /// Begins to measure, at once or with the next exec of a measured thread.
    pub(crate) fn begin(&self, at_exec: bool) {
        self.set(if at_exec { Setting::AwaitExec } else { Setting::On }, 1);
    }

    /// Stops measuring until [`Self::begin`]; calls that return meanwhile do not count. Returns when the running programs
    /// have ended.
    pub(crate) fn stop(&self) -> Result<(), LoadError> {
        self.set(Setting::AwaitExec, 0);
        self.set(Setting::On, 0);
        self.turns.wait(&self.object)
    }
}

#[cfg(test)]
mod tests;
