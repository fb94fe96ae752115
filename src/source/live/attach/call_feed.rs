//! The programs that sum system calls in a session, in place of the tracepoints at the start and the end of all calls.
//! They write single calls into the rings, as records of the second tracepoint.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::kernel::attr::Attr;
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::call_sums::{CallCounter, CallSettings, SumPolicy};
use crate::kernel::monotonic_ns;
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::source::CallReading;

use crate::source::live::Target;

pub(in crate::source::live) const ENTER: &str = "raw_syscalls:sys_enter";
pub(in crate::source::live) const EXIT: &str = "raw_syscalls:sys_exit";

/// The events that the programs replace, and the tasks that they measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummedTarget {
    /// The slots of the two tracepoints.
    pub(crate) enter: usize,
    pub(crate) exit: usize,
    pub(crate) policy: Arc<SumPolicy>,
    /// Whether children of the target are measured, too.
    pub(crate) inherit: bool,
    pub(crate) target: Target,
}

/// The attached programs.
#[derive(Debug)]
pub(crate) struct CallFeed {
    counter: CallCounter,
    pub(crate) wanted: SummedTarget,
    /// The events through which the programs write into each CPU's ring.
    writers: BTreeMap<u32, OwnedFd>,
    is_on: bool,
    read_at: u64,
    lost: u64,
}

impl CallFeed {
    pub(in crate::source::live) fn load(wanted: SummedTarget, tracepoint: u64) -> Result<Self, LoadError> {
        let settings = CallSettings {
            narrow: wanted.target != Target::System,
            inherit: wanted.inherit,
            tracepoint,
            policy: wanted.policy.clone(),
        };
        let counter = CallCounter::load(settings, std::process::id())?;
        Ok(Self { counter, wanted, writers: BTreeMap::new(), is_on: false, read_at: monotonic_ns(), lost: 0 })
    }

    /// Programs that are not loaded.
    #[cfg(test)]
    pub(in crate::source::live) fn staged(wanted: SummedTarget) -> Self {
        let counter = CallCounter::staged();
        Self { counter, wanted, writers: BTreeMap::new(), is_on: false, read_at: 0, lost: 0 }
    }

    /// Whether a slot's event is replaced by the programs.
    pub(in crate::source::live) fn replaces(&self, slot: usize) -> bool {
        slot == self.wanted.enter || slot == self.wanted.exit
    }

    pub(in crate::source::live) fn add_thread(&self, tid: i32, pid: i32) -> Result<(), LoadError> {
        self.counter.add_thread(tid, pid)
    }

    /// Directs the records of a CPU to the ring that an event owns; returns the id of their writer.
    pub(in crate::source::live) fn open(
        &mut self,
        sys: &dyn Sys,
        cpu: u32,
        owner: &OwnedFd,
        attr: &Attr,
    ) -> Result<u64, Errno> {
        let writer = sys.open(attr, -1, cpu as i32, None, None)?;
        sys.ioctl(writer.as_fd(), Ioctl::SetOutput(owner.as_fd()))?;
        let id = sys.ioctl(writer.as_fd(), Ioctl::Id)?;
        self.counter.write_by(cpu, writer.as_fd())?;
        sys.ioctl(writer.as_fd(), Ioctl::Enable)?;
        self.writers.insert(cpu, writer);
        Ok(id)
    }

    /// Returns the event by which the programs write to a CPU's ring.
    pub(in crate::source::live) fn writer(&self, cpu: u32) -> Option<&OwnedFd> {
        self.writers.get(&cpu)
    }

    /// Returns whether a measured thread still runs.
    pub(in crate::source::live) fn has_threads(&self) -> bool {
        self.counter.has_threads()
    }

    pub(in crate::source::live) fn close(&mut self, cpu: u32) {
        if self.writers.remove(&cpu).is_some() {
            self.counter.write_no_more(cpu);
        }
    }

    /// Begins to measure if it does not yet, at once or with the next exec of the target.
    pub(in crate::source::live) fn begin(&mut self, at_exec: bool) {
        if !std::mem::replace(&mut self.is_on, true) {
            self.read_at = monotonic_ns();
            self.counter.begin(at_exec);
        }
    }

    /// Stops measuring; calls that return meanwhile do not count.
    pub(in crate::source::live) fn stop(&mut self) -> Result<(), LoadError> {
        if std::mem::take(&mut self.is_on) { self.counter.stop() } else { Ok(()) }
    }

    pub(in crate::source::live) fn pause(&mut self, slot: usize, on: bool) {
        match on {
            _ if slot != self.wanted.exit => {}
            // It fails only if the program's map does not exist.
            true => drop(self.stop()),
            false => self.begin(false),
        }
    }

    pub(in crate::source::live) fn read(&mut self, is_last: bool) -> Result<CallReading, LoadError> {
        let from = self.read_at;
        let mut sums = self.counter.read()?;
        self.read_at = sums.until;
        let lost = sums.lost.saturating_sub(std::mem::replace(&mut self.lost, sums.lost));
        if is_last {
            sums.open.clear();
        }
        let is_narrow = self.counter.settings().narrow;
        Ok(CallReading { event: self.wanted.exit as u16, from, is_narrow, lost, sums })
    }
}
