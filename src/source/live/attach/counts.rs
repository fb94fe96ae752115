//! Reading of events' counts, in total and per CPU, and of the losses of rings.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::monotonic_ns;
use crate::perfdata::layout;
use crate::source::live::attr;
use crate::source::live::records::losses::CountedLosses;
use crate::source::{Batch, CountReading, Counts, CpuCount, SourceEvent};

use super::{Attachment, CpuRing, EventTarget, OpenEvent};

pub(crate) type ByCpu = BTreeMap<(usize, u32), u64>;

/// The counters of all events at a moment.
#[derive(Debug)]
pub(crate) struct CounterReadings {
    /// The counts and losses of each event since the start. Losses are 0 if the kernel does not count them.
    pub(crate) counts: CountReading,
    /// The counts of open events by slot and CPU.
    pub(crate) by_cpu: ByCpu,
    /// The losses of open events by CPU, also those of events that only carry other records.
    pub(crate) losses: BTreeMap<u32, CountedLosses>,
}

impl Attachment {
    pub(super) fn read(&self, open: &OpenEvent) -> Counts {
        let group = open.event.map_or(0, |i| attr::group_format(&self.slots[usize::from(i)].event));
        let format = self.owner_attr().read_format | group;
        let mut counts = self.sys.counts(open.fd.as_fd(), format, open.id).unwrap_or_default();
        if self.common.tasks && open.who != EventTarget::ALL {
            // A task's event is enabled on every CPU, but scheduled only on the task's.
            counts.enabled_ns /= self.rings.len().max(1) as u64;
        }
        counts
    }

    pub(crate) fn counts(&self) -> CounterReadings {
        let at = monotonic_ns();
        let mut all: Vec<Counts> = self.slots.iter().map(|slot| slot.before).collect();
        let (mut by_cpu, mut losses) = (ByCpu::new(), BTreeMap::<u32, CountedLosses>::new());
        for open in &self.opened {
            let counts = self.read(open);
            losses.entry(open.cpu).or_default().add(counts.lost, open.id);
            let Some(slot) = open.event.map(usize::from) else { continue };
            all[slot].add(&counts);
            *by_cpu.entry((slot, open.cpu)).or_default() += counts.value;
        }
        for (cpu, ring) in &self.rings {
            let of_ring = losses.entry(*cpu).or_default();
            self.writers(*cpu).chain([&ring.owner]).for_each(|fd| of_ring.add(self.lost_by(fd), ring.id));
        }
        CounterReadings { counts: CountReading { at, of: all }, by_cpu, losses }
    }

    /// Returns the other events that write to a CPU's ring, except those of system calls and of batches, whose losses are
    /// excused.
    pub(super) fn writers(&self, cpu: u32) -> impl Iterator<Item = &OwnedFd> {
        let walks = self.walks.as_ref().and_then(|walks| walks.writer(cpu));
        let switches = self.switches.as_ref().and_then(|feed| feed.records.as_ref()?.get(&cpu));
        walks.into_iter().chain(self.strings.writer(cpu)).chain(switches)
    }

    /// Returns the lost records of an event that only carries records.
    pub(super) fn lost_by(&self, fd: &OwnedFd) -> u64 {
        let format = self.owner_attr().read_format;
        self.sys.counts(fd.as_fd(), format, 0).map_or(0, |counts| counts.lost)
    }

    /// Adds records of the losses that the kernel has not reported to a batch.
    pub(crate) fn report_losses(&mut self, losses: &BTreeMap<u32, CountedLosses>, batch: &mut Batch) {
        let (layout, now) = (layout(&self.attr(0)), monotonic_ns());
        for (cpu, ring) in &mut self.rings {
            if let Some(counted) = losses.get(cpu) {
                ring.losses.report(*counted, (*cpu, now), &layout, batch);
            }
        }
    }

    /// Does the same for a ring whose events are closed except its owner.
    pub(crate) fn report_closed(&self, cpu: u32, ring: &mut CpuRing, batch: &mut Batch) {
        let mut counted = CountedLosses::default();
        counted.add(self.lost_by(&ring.owner), ring.id);
        ring.losses.report(counted, (cpu, monotonic_ns()), &layout(&self.attr(0)), batch);
        batch.events.extend(self.may_lack(ring).then_some(SourceEvent::UnknownLosses));
    }

    /// Returns whether records may be lost that nothing reports: kernels before 6.0 do not count them, and report them
    /// with a later record, which did not come.
    pub(crate) fn may_lack_records(&self) -> bool {
        self.rings.values().any(|ring| self.may_lack(ring))
    }

    fn may_lack(&self, ring: &CpuRing) -> bool {
        !self.have.lost && ring.losses.are_uncertain()
    }

    pub(crate) fn cpu_counts(&self) -> Vec<CpuCount> {
        let mut sums: BTreeMap<(u16, u32), Counts> = BTreeMap::new();
        for open in &self.opened {
            if let Some(slot) = open.event.filter(|slot| self.slots[usize::from(*slot)].is_counted()) {
                sums.entry((slot, open.cpu)).or_default().add(&self.read(open));
            }
        }
        let time = monotonic_ns();
        let one = |((event, cpu), counts): ((u16, u32), Counts)| {
            let (enabled, running) = (counts.enabled_ns.max(1), counts.running_ns);
            // A target that has not run yet has no missing counts.
            let share = if counts.enabled_ns == 0 { 1.0 } else { (running as f64 / enabled as f64).min(1.0) };
            let value = if running == 0 { 0 } else { (counts.value as f64 / share) as u64 };
            let value = if running >= enabled { counts.value } else { value };
            CpuCount { event, cpu, time, value, running_percent: 100.0 * share }
        };
        sums.into_iter().map(one).collect()
    }
}
