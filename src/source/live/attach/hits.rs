//! The programs that sum hits of units' events while there are many, at the events themselves.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::bpf::calls::LoadError;
use crate::kernel::hit_sums::HitCounter;
use crate::kernel::monotonic_ns;
use crate::kernel::sys::Ioctl;
use crate::kernel::walk::Program as Walk;
use crate::source::live::capture::refused_program;
use crate::source::live::error::OpenError;
use crate::source::{HitReading, Rate, SourceEvent, Summing};

use super::Attachment;

/// The note of the events at which the programs are.
const NOTE: &str = "for units, hits are summed by a BPF program while there are many, and some of them recorded";

/// The programs by slot.
#[derive(Debug, Default)]
pub(crate) struct HitCounters {
    counters: BTreeMap<usize, HitCounter>,
    /// Whether the kernel refused a program.
    is_refused: bool,
    read_at: u64,
}

impl HitCounters {
    pub(crate) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Sums hits, or records each of them: only records have a time, by which a handover between events divides them.
    pub(crate) fn sum_up(&self, on: bool) {
        self.counters.values().for_each(|counter| counter.sum_up(on));
    }

    /// Returns a slot's program, which is loaded once.
    fn at(&mut self, slot: usize) -> Result<&HitCounter, LoadError> {
        if self.counters.is_empty() {
            self.read_at = monotonic_ns();
        }
        match self.counters.entry(slot) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Ok(entry.insert(HitCounter::load(std::process::id())?))
            }
        }
    }
}

impl Attachment {
    /// Returns whether hits of a slot's event are summed where the kernel permits it.
    fn are_hits_summed(&self, slot: usize) -> bool {
        let Some(slot) = self.slots.get(slot).filter(|slot| slot.is_open()) else { return false };
        let event = &slot.event;
        let is_each = Rate::of(&event.attr) == Rate::Period(1) && event.filter.is_none() && event.cpus.is_none();
        let is_known = self.outside.is_none() && self.rights.system_wide() && !self.hits.is_refused;
        event.for_units && event.summed == Some(Summing::Hits) && is_each && is_known
    }

    /// Sets the programs of an event that was just opened: the one that sums its hits, or those of its slot.
    pub(super) fn set_programs(&mut self, slot: usize, fd: &OwnedFd, walk: Option<&Walk>) -> Result<(), OpenError> {
        let note = &mut self.slots[slot].note;
        note.take_if(|note| note == NOTE);
        if self.are_hits_summed(slot) {
            match self.sum_hits(slot, fd, walk) {
                Ok(()) => {
                    self.slots[slot].note.get_or_insert_with(|| NOTE.to_owned());
                    return Ok(());
                }
                Err(error) => {
                    let (name, reason) = (&self.slots[slot].event.name, refused_program(&error, "").0);
                    self.hits.is_refused = true;
                    self.notes.push(format!("{name} are recorded one by one, not summed: {reason}"));
                }
            }
        }
        self.slots[slot].set_programs(&*self.sys, fd, walk)
    }

    fn sum_hits(&mut self, slot: usize, fd: &OwnedFd, walk: Option<&Walk>) -> Result<(), LoadError> {
        let counter = self.hits.at(slot)?;
        counter.go_on_with(walk.map(Walk::fd))?;
        self.sys.ioctl(fd.as_fd(), Ioctl::SetBpf(counter.fd()))?;
        Ok(())
    }

    /// Returns the sums since the last reading, and drops the programs of events that are closed.
    pub(crate) fn read_hits(&mut self) -> Vec<SourceEvent> {
        let mut out = Vec::new();
        let from = self.hits.read_at;
        for (slot, counter) in &self.hits.counters {
            let is_narrow = self.is_narrow && !self.slots[*slot].event.machine_wide;
            match counter.read() {
                Ok(sums) if sums.is_empty() => {}
                Ok(sums) => {
                    let until = monotonic_ns();
                    out.push(SourceEvent::HitSums(HitReading { event: *slot as u16, from, until, is_narrow, sums }));
                }
                Err(error) => {
                    let name = &self.slots[*slot].event.name;
                    let reason = refused_program(&error, "").0;
                    out.push(SourceEvent::Note(format!("sums of {name} cannot be read: {reason}")));
                }
            }
        }
        self.hits.read_at = monotonic_ns();
        let used: Vec<usize> = self.hits.counters.keys().copied().filter(|slot| self.are_hits_summed(*slot)).collect();
        self.hits.counters.retain(|slot, _| used.contains(slot));
        out
    }
}
