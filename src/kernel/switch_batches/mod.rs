//! Context switches and wake-ups in batches: the BPF programs at their raw tracepoints (switch_batches.bpf.c, compiled
//! by the `build` next to it) and their maps.
//!
//! Each event is stored once, in a buffer of its CPU, with a number. The programs write full buffers into the CPU's
//! ring; what the current buffer has is read here. A program that interrupts another one on the same CPU, which is
//! possible where a thread wakes itself, loses its event.

mod event;
mod offsets;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use super::bpf::btf::Btf;
use super::bpf::calls::{self, LoadError, MappedValue, ProgramType};
use super::bpf::object::LoadedObject;
use super::cpus;
use super::perf_event::sys::Errno;
use super::process::own_memory;

#[cfg(test)]
pub(crate) use event::tests::stored;
pub(crate) use event::{EVENT, EVENTS, SwitchEvent};

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("switch_batches.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
const OBJECT: &[u8] = include_bytes!("switch_batches.aarch64.o");

/// Words of `struct buffer` in switch_batches.bpf.c.
const COUNT: usize = 0;
const LOST: usize = 2;
const EVENTS_AT: usize = 8;
const WORDS: usize = EVENTS_AT + EVENT / 8 * EVENTS as usize;

/// The words of `struct settings` in switch_batches.bpf.c.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Kinds,
    /// The first of the offsets.
    Offsets,
}

const SETTINGS_BYTES: usize = 8 * (Setting::Offsets as usize + 5);

/// The kinds of events, in the order of switch_batches.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SchedEventKind {
    Switch,
    Wakeup,
    Waking,
    WakeupNew,
}

impl SchedEventKind {
    pub(crate) const ALL: [Self; 4] = [Self::Switch, Self::Wakeup, Self::Waking, Self::WakeupNew];

    /// Returns the name of its tracepoint in the system `sched`, which is also that of its program.
    pub(crate) fn tracepoint(self) -> &'static CStr {
        match self {
            Self::Switch => c"sched_switch",
            Self::Wakeup => c"sched_wakeup",
            Self::Waking => c"sched_waking",
            Self::WakeupNew => c"sched_wakeup_new",
        }
    }
}

/// The events of a CPU that are not in a record yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialBatch {
    /// The number of the first event.
    pub(crate) first: u64,
    /// The bytes of the events.
    pub(crate) events: Vec<u8>,
    /// The events since the start that the CPU lost because one program interrupted another.
    pub(crate) lost: u64,
}

/// The loaded programs. They store the events of attached kinds while these are selected.
#[derive(Debug)]
pub(crate) struct SwitchRecorder {
    object: LoadedObject,
    settings: MappedValue,
    buffers: MappedValue,
    attached: BTreeMap<SchedEventKind, OwnedFd>,
    /// The number of possible CPUs.
    cpus: usize,
}

impl SwitchRecorder {
    /// Loads the maps of the programs (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN).
    pub(crate) fn load() -> Result<Self, LoadError> {
        let types = Btf::system().and_then(|types| offsets::of_task(&types));
        // The kernel's types take some 6 MB and are not needed again.
        own_memory::give_back();
        let offsets = types.map_err(|error| LoadError { errno: Errno::OPNOTSUPP, log: error.to_string() })?;
        let (object, cpus) = (LoadedObject::load(OBJECT)?, cpus::possible());
        let settings = MappedValue::of(object.map("settings")?, SETTINGS_BYTES)?;
        let buffers = MappedValue::of(object.map("buffers")?, 8 * WORDS * cpus)?;
        for (at, offset) in offsets.into_iter().enumerate() {
            settings.word(Setting::Offsets as usize + at).store(offset.into(), Ordering::Release);
        }
        Ok(Self { object, settings, buffers, attached: BTreeMap::new(), cpus })
    }

    /// Programs that are not loaded, on one CPU.
    #[cfg(test)]
    pub(crate) fn staged() -> Self {
        let object = LoadedObject::staged(std::fs::File::open("/dev/null").expect("there").into());
        let (settings, buffers) = (MappedValue::staged(SETTINGS_BYTES), MappedValue::staged(8 * WORDS));
        Self { object, settings, buffers, attached: BTreeMap::new(), cpus: 1 }
    }

    /// Attaches the program of a kind, which stores no event before [`Self::select`]. [`LoadError`] has the last line of
    /// the verifier's log.
    pub(crate) fn attach(&mut self, kind: SchedEventKind) -> Result<(), LoadError> {
        let tracepoint = kind.tracepoint();
        let program = self.object.program(tracepoint.to_str().unwrap_or_default(), ProgramType::RawTracepoint)?;
        self.attached.insert(kind, calls::attach(program.as_fd(), tracepoint)?);
        Ok(())
    }

    pub(crate) fn detach(&mut self, kind: SchedEventKind) {
        self.attached.remove(&kind);
    }

    /// Selects the kinds of events that are stored.
    pub(crate) fn select(&self, kinds: impl IntoIterator<Item = SchedEventKind>) {
        let bits = kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u64);
        self.settings.word(Setting::Kinds as usize).store(bits, Ordering::Release);
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        let events = self.object.map("events").map_err(|error| error.errno)?;
        calls::put(events, cpu, [event.as_raw_fd() as u32, 0, 0, 0])
    }

    /// Ends the records of a CPU. The map would keep its event open.
    pub(crate) fn write_no_more(&self, cpu: u32) {
        // It fails only if the CPU has no event.
        let _ = self.object.map("events").map(|events| calls::take(events, cpu));
    }

    fn word(&self, cpu: u32, word: usize) -> u64 {
        let cpu = cpu as usize;
        if cpu >= self.cpus {
            return 0;
        }
        self.buffers.word(cpu * WORDS + word).load(Ordering::Acquire)
    }

    /// Returns the number of a CPU's next event.
    pub(crate) fn count(&self, cpu: u32) -> u64 {
        self.word(cpu, COUNT)
    }

    /// Returns the events of a CPU that are not in a record yet. Programs may run meanwhile: if they finish the buffer,
    /// its events are in a record, and those of the next buffer are left for the next reading.
    pub(crate) fn partial(&self, cpu: u32) -> PartialBatch {
        let (count, lost) = (self.count(cpu), self.word(cpu, LOST));
        let first = count - count % EVENTS;
        let words = EVENT / 8 * (count - first) as usize;
        let mut events: Vec<u8> = (0..words).flat_map(|at| self.word(cpu, EVENTS_AT + at).to_ne_bytes()).collect();
        fence(Ordering::Acquire);
        let is_same = self.count(cpu) / EVENTS == count / EVENTS;
        if !is_same {
            events.clear();
        }
        PartialBatch { first, events, lost }
    }
}

#[cfg(test)]
mod tests;
