//! The programs that record context switches and wake-ups in batches in a session, in place of their tracepoints.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::attr::Attr;
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::switch_batches::{SchedEventKind, SwitchRecorder};
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::source::live::records::switch_batches::{BatchedEvents, BatchedSample};

/// Ids of samples by kind, from this one downwards; the kernel counts ids from 1.
const FIRST_ID: u64 = u64::MAX - 16;
/// Events a second on a CPU from which on the kernel's own records of context switches are stopped on all CPUs, and
/// below which they go on after a while: they cost more than the batches. They report switches that the tracepoint omits,
/// on some kernels one in hundreds.
const MANY: u64 = 20_000;
const FEW: u64 = 10_000;
const INTERVAL_NS: u64 = 50_000_000;
const AFTER_NS: u64 = 2_000_000_000;

/// The loaded programs.
#[derive(Debug)]
pub(crate) struct SwitchFeed {
    pub(in crate::source::live) recorder: SwitchRecorder,
    pub(in crate::source::live) batches: BatchedEvents,
    /// The slots whose events the programs replace. Samples of other kinds may still be in the rings.
    pub(in crate::source::live) wanted: BTreeMap<SchedEventKind, usize>,
    /// The events through which the programs write into each CPU's ring.
    writers: BTreeMap<u32, OwnedFd>,
    /// The events with the kernel's own records of context switches, while these are wanted.
    pub(super) records: Option<BTreeMap<u32, OwnedFd>>,
    /// When the rates were last determined, the numbers of the CPUs' next events then, and since when they are low.
    rated_at: u64,
    rated: BTreeMap<u32, u64>,
    low_since: Option<u64>,
    next_id: u64,
}

impl SwitchFeed {
    pub(super) fn load() -> Result<Self, LoadError> {
        Ok(Self::of(SwitchRecorder::load()?))
    }

    pub(super) fn of(recorder: SwitchRecorder) -> Self {
        Self {
            recorder,
            batches: BatchedEvents::default(),
            wanted: BTreeMap::new(),
            writers: BTreeMap::new(),
            records: None,
            rated_at: 0,
            rated: BTreeMap::new(),
            low_since: None,
            next_id: FIRST_ID,
        }
    }

    /// Whether a slot's event is replaced by the programs.
    pub(super) fn replaces(&self, slot: usize) -> bool {
        self.wanted.values().any(|at| *at == slot)
    }

    /// Returns an id for samples.
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id -= 1;
        self.next_id
    }

    /// Attaches the program of a kind, which records nothing before [`SwitchRecorder::select`].
    pub(super) fn add(&mut self, kind: SchedEventKind, sample: BatchedSample) -> Result<(), LoadError> {
        self.recorder.attach(kind)?;
        self.batches.samples.insert(kind, sample);
        Ok(())
    }

    pub(super) fn remove(&mut self, kind: SchedEventKind) {
        self.recorder.detach(kind);
        self.batches.samples.remove(&kind);
    }

    /// Returns the kinds whose samples are read, but whose slots the programs do not replace, or no longer.
    pub(in crate::source::live) fn left(&self) -> Vec<SchedEventKind> {
        let slot = |kind: &SchedEventKind| self.batches.samples.get(kind).map(|sample| sample.slot);
        let kinds = self.batches.samples.keys();
        kinds.filter(|kind| self.wanted.get(kind).copied() != slot(kind)).copied().collect()
    }

    /// Returns the ids of samples of these kinds.
    pub(super) fn ids(&self, kinds: &[SchedEventKind]) -> Vec<u64> {
        kinds.iter().filter_map(|kind| self.batches.samples.get(kind)).map(|sample| sample.id).collect()
    }

    /// Directs the records of a CPU to the ring that an event owns.
    pub(super) fn open(&mut self, sys: &dyn Sys, cpu: u32, owner: &OwnedFd, attr: &Attr) -> Result<(), Errno> {
        let (writer, id) = opened(sys, cpu, owner, attr)?;
        let partial = self.recorder.partial(cpu);
        self.batches.begin(cpu, self.recorder.count(cpu), partial.lost);
        self.batches.writers.insert(id);
        self.recorder.write_by(cpu, writer.as_fd())?;
        sys.ioctl(writer.as_fd(), Ioctl::Enable)?;
        self.writers.insert(cpu, writer);
        Ok(())
    }

    /// Opens the kernel's own records of a CPU if they are wanted; returns their id. They are only an addition, so that
    /// failures do not matter.
    pub(super) fn open_records(&mut self, sys: &dyn Sys, cpu: u32, owner: &OwnedFd, attr: &Attr) -> Option<u64> {
        let records = self.records.as_mut()?;
        let (fd, id) = opened(sys, cpu, owner, attr).ok()?;
        records.insert(cpu, fd);
        Some(id)
    }

    /// Returns the event by which the programs write to a CPU's ring.
    pub(super) fn writer(&self, cpu: u32) -> Option<&OwnedFd> {
        self.writers.get(&cpu)
    }

    pub(super) fn close(&mut self, cpu: u32) {
        if self.writers.remove(&cpu).is_some() {
            self.recorder.write_no_more(cpu);
        }
        self.records.iter_mut().for_each(|records| drop(records.remove(&cpu)));
    }

    /// Returns whether the kernel's own records are wanted, as the CPU with most events has few or many.
    pub(super) fn wants_records(&mut self, now: u64) -> bool {
        let (is_on, ns) = (self.records.is_some(), now.saturating_sub(self.rated_at));
        if ns < INTERVAL_NS {
            return is_on;
        }
        let Self { rated, batches, writers, .. } = self;
        let since = |cpu: &u32| {
            let next = batches.next(*cpu);
            next.saturating_sub(rated.insert(*cpu, next).unwrap_or(next))
        };
        let most = writers.keys().map(since).max().unwrap_or(0);
        self.rated_at = now;
        if most.saturating_mul(1_000_000_000) / ns < FEW {
            let low_since = *self.low_since.get_or_insert(now);
            return is_on || now.saturating_sub(low_since) >= AFTER_NS;
        }
        self.low_since = None;
        is_on && most.saturating_mul(1_000_000_000) / ns < MANY
    }
}

/// Opens an event on a CPU that writes to the ring of an owner; returns it with its id.
fn opened(sys: &dyn Sys, cpu: u32, owner: &OwnedFd, attr: &Attr) -> Result<(OwnedFd, u64), Errno> {
    let fd = sys.open(attr, -1, cpu as i32, None, None)?;
    sys.ioctl(fd.as_fd(), Ioctl::SetOutput(owner.as_fd()))?;
    let id = sys.ioctl(fd.as_fd(), Ioctl::Id)?;
    Ok((fd, id))
}
