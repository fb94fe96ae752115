//! Counts by event and CPU, of counted events and of samples.

use std::collections::{BTreeMap, BTreeSet};

use crate::panel::Cell;

use crate::units::kit::{CountedEvents, Grid, Sheet, UnitSample};

#[derive(Clone, Debug)]
pub(crate) struct EventCounts {
    /// Counts of this interval.
    pub(crate) sums: BTreeMap<(usize, u32), u64>,
    /// Over time, by event, and by event and CPU.
    pub(crate) course: Grid<usize>,
    pub(crate) by_cpu: Grid<(usize, u32)>,
    /// The smallest share of time for which a multiplexed counter was scheduled.
    pub(crate) partly: Option<f64>,
}

impl EventCounts {
    /// Creates counts with time columns of at least this many nanoseconds.
    pub(crate) fn new(step: u64) -> Self {
        Self { sums: BTreeMap::new(), course: Grid::with_step(step), by_cpu: Grid::with_step(step), partly: None }
    }

    pub(crate) fn read(&mut self, counted: &CountedEvents) {
        let CountedEvents { role, cpu, from, until, n, running_percent } = *counted;
        *self.sums.entry((role, cpu)).or_default() += n;
        // Spread over the time since the last read.
        self.course.spread_value(&role, from, until, n as f64);
        self.by_cpu.spread_value(&(role, cpu), from, until, n as f64);
        if running_percent < 99.5 {
            self.partly = Some(self.partly.map_or(running_percent, |least| least.min(running_percent)));
        }
    }

    /// Adds a sample with weight 1 or its period.
    pub(crate) fn hit(&mut self, hit: &UnitSample<'_>, weight: u64) {
        *self.sums.entry((hit.role, hit.cpu)).or_default() += weight;
        self.course.add(&hit.role, hit.time, weight as f64);
        self.by_cpu.add(&(hit.role, hit.cpu), hit.time, weight as f64);
    }

    pub(crate) fn cpus(&self) -> BTreeSet<u32> {
        self.sums.keys().map(|(_, cpu)| *cpu).collect()
    }

    pub(crate) fn of(&self, role: usize, cpu: u32) -> u64 {
        self.sums.get(&(role, cpu)).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self, role: usize) -> u64 {
        self.sums.range((role, 0)..=(role, u32::MAX)).map(|(_, n)| n).sum()
    }

    /// The count of a CPU, or of all CPUs.
    pub(crate) fn on(&self, role: usize, cpu: Option<u32>) -> u64 {
        cpu.map_or_else(|| self.total(role), |cpu| self.of(role, cpu))
    }

    /// A table by CPU with the total in the last row.
    pub(crate) fn sheet<'a>(&self, width: u16) -> Sheet<'a, Option<u32>> {
        let cpus = self.cpus().into_iter().map(Some).chain([None]);
        Sheet::of(cpus, |cpu| cpu.map_or(u64::MAX, u64::from))
            .right("cpu", "CPU", width, |cpu| cpu.map_or(Cell::All, |cpu| Cell::Id(cpu.into())))
    }

    /// A note about scaled counts.
    pub(crate) fn note(&self) -> String {
        let note = self.partly.map(|least| {
            format!("counters were multiplexed: the least was counted {least:.0} % of the time; counts are scaled")
        });
        note.unwrap_or_default()
    }

    /// Resets the interval; the time series stay.
    pub(crate) fn reset(&mut self) {
        self.sums.values_mut().for_each(|n| *n = 0);
    }
}
