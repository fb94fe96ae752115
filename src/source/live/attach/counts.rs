//! Reading of events' counts, in total and per CPU.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use crate::kernel::monotonic_ns;
use crate::source::live::attr;
use crate::source::{CountReading, Counts, CpuCount};

use super::{Attachment, EventTarget, OpenEvent};

pub(crate) type ByCpu = BTreeMap<(usize, u32), u64>;

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

    /// Returns the counts and losses of each event since the start, and the counts of open events by slot and CPU.
    /// Losses are 0 if the kernel does not count them.
    pub(crate) fn counts(&self) -> (CountReading, ByCpu) {
        let at = monotonic_ns();
        let mut all: Vec<Counts> = self.slots.iter().map(|slot| slot.before).collect();
        let mut by_cpu = ByCpu::new();
        for open in &self.opened {
            let Some(slot) = open.event.map(usize::from) else { continue };
            let counts = self.read(open);
            all[slot].add(&counts);
            *by_cpu.entry((slot, open.cpu)).or_default() += counts.value;
        }
        (CountReading { at, of: all }, by_cpu)
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
