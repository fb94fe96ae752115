//! Counts by event and CPU: of events that are only counted, and of samples alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::panel::Cell;

use super::{CountedEvents, Grid, Sample, Sheet};

/// Counts by key.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// In this interval.
    pub(crate) sums: BTreeMap<(usize, u32), u64>,
    /// By event, and by CPU of one event.
    pub(crate) course: Grid<usize>,
    pub(crate) by_cpu: Grid<(usize, u32)>,
    /// Counters that were on the hardware for a part of the time only: the least share.
    pub(crate) partly: Option<f64>,
}

impl Counts {
    /// With columns of a course at least so long, in nanoseconds.
    pub(crate) fn new(step: u64) -> Self {
        Self { sums: BTreeMap::new(), course: Grid::with_step(step), by_cpu: Grid::with_step(step), partly: None }
    }

    /// A counter was read.
    pub(crate) fn read(&mut self, counted: &CountedEvents) {
        let CountedEvents { role, cpu, from, until, n, running_percent } = *counted;
        *self.sums.entry((role, cpu)).or_default() += n;
        // It happened at some time since the last reading.
        self.course.spread_value(&role, from, until, n as f64);
        self.by_cpu.spread_value(&(role, cpu), from, until, n as f64);
        if running_percent < 99.5 {
            self.partly = Some(self.partly.map_or(running_percent, |least| least.min(running_percent)));
        }
    }

    /// A sample stands for a hit, or for its period.
    pub(crate) fn hit(&mut self, hit: &Sample<'_>, weight: u64) {
        *self.sums.entry((hit.role, hit.cpu)).or_default() += weight;
        self.course.add(&hit.role, hit.time, weight as f64);
        self.by_cpu.add(&(hit.role, hit.cpu), hit.time, weight as f64);
    }

    /// All CPUs that were counted.
    pub(crate) fn cpus(&self) -> BTreeSet<u32> {
        self.sums.keys().map(|(_, cpu)| *cpu).collect()
    }

    pub(crate) fn of(&self, role: usize, cpu: u32) -> u64 {
        self.sums.get(&(role, cpu)).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self, role: usize) -> u64 {
        self.sums.range((role, 0)..=(role, u32::MAX)).map(|(_, n)| n).sum()
    }

    /// Of a CPU, or of all.
    pub(crate) fn on(&self, role: usize, cpu: Option<u32>) -> u64 {
        cpu.map_or_else(|| self.total(role), |cpu| self.of(role, cpu))
    }

    /// A table by CPU whose last row is of all.
    pub(crate) fn sheet<'a>(&self, width: u16) -> Sheet<'a, Option<u32>> {
        let cpus = self.cpus().into_iter().map(Some).chain([None]);
        Sheet::of(cpus, |cpu| cpu.map_or(u64::MAX, u64::from))
            .right("cpu", "CPU", width, |cpu| cpu.map_or(Cell::All, |cpu| Cell::Id(cpu.into())))
    }

    /// What to know of counts that are scaled.
    pub(crate) fn note(&self) -> String {
        let note = self.partly.map(|least| {
            format!("counters shared the hardware: the least was on it {least:.0} % of the time, and is scaled")
        });
        note.unwrap_or_default()
    }

    /// Forgets the interval; courses go on.
    pub(crate) fn reset(&mut self) {
        self.sums.values_mut().for_each(|n| *n = 0);
    }
}
