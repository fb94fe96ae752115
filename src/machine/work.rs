//! Cycles and instructions of each CPU, counted by its PMU only on the screen: other programs need its few counters.

use std::collections::BTreeMap;
use std::path::Path;

use crate::event::{Event, pmu};
use crate::kernel::attr::TYPE_HARDWARE;
use crate::kernel::limits::Rights;
use crate::kernel::sys::{Counts, RealSys, Sys};
use crate::machine::sampler::WorkDone;
use crate::source::live::Target;
use crate::source::live::attr::Exclude;
use crate::source::live::counters::{CountConfig, CountedOn, Counters};

const INSTRUCTIONS: u64 = 1;

#[derive(Default)]
pub(crate) struct WorkWatch {
    counters: Option<Counters>,
    cpus: Vec<u32>,
    before: BTreeMap<(usize, CountedOn), Counts>,
    /// Whether counting is not possible here, so that it is not tried again.
    is_lacking: bool,
}

impl WorkWatch {
    /// Returns the work of each CPU since the last reading; empty for the first.
    pub(crate) fn read(&mut self, online: &[u32]) -> Vec<(u32, WorkDone)> {
        if self.is_lacking {
            return Vec::new();
        }
        // After a CPU was offline, its counters no longer count.
        if self.counters.is_none() || self.cpus != online {
            let has = pmu::has_hardware(Path::new(pmu::SYSFS));
            self.open(online, has.then(|| Box::new(RealSys) as Box<dyn Sys>));
            return Vec::new();
        }
        let Some(counters) = &self.counters else { return Vec::new() };
        let now = counters.read();
        let since = |event: usize, cpu: u32| {
            let at = (event, CountedOn::Cpu(cpu));
            let then = self.before.get(&at).copied().unwrap_or_default();
            let now = now.get(&at).copied().unwrap_or_default();
            scaled(&then, &now)
        };
        let done = self
            .cpus
            .iter()
            .filter_map(|cpu| Some((*cpu, WorkDone { cycles: since(0, *cpu)?, instructions: since(1, *cpu) })));
        let done = done.collect();
        self.before = now;
        done
    }

    pub(crate) fn end(&mut self) {
        (self.counters, self.before) = (None, BTreeMap::new());
    }

    fn open(&mut self, online: &[u32], sys: Option<Box<dyn Sys>>) {
        self.end();
        self.cpus = online.to_vec();
        let event = |config, name: &str| {
            let mut event = Event::cycles();
            (event.attr.kind, event.attr.config, event.name) = (TYPE_HARDWARE, config, name.to_owned());
            // Measured in one group, so that both are scheduled together when counters are multiplexed.
            event.group = Some(1);
            event
        };
        let config = CountConfig {
            events: vec![event(0, "cycles"), event(INSTRUCTIONS, "instructions")],
            target: Target::System,
            cpus: online.to_vec(),
            exclude: Exclude::default(),
            inherit: false,
            on_exec: false,
            by_cgroup: false,
        };
        let counters = sys.and_then(|sys| Counters::open(config, sys, Rights::read()).ok());
        self.is_lacking = counters.as_ref().is_none_or(|counters| counters.refused[0].is_some());
        self.counters = counters.filter(|_| !self.is_lacking);
        if let Some(counters) = &self.counters {
            counters.enable();
            self.before = counters.read();
        }
    }
}

/// Returns the count between two readings, scaled to the whole time; `None` if the counter did not run.
fn scaled(then: &Counts, now: &Counts) -> Option<u64> {
    let value = now.value.checked_sub(then.value)?;
    let enabled = now.enabled_ns.checked_sub(then.enabled_ns)?;
    let running = now.running_ns.checked_sub(then.running_ns).filter(|ns| *ns > 0)?;
    Some((u128::from(value) * u128::from(enabled) / u128::from(running)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeSys;
    use crate::kernel::sys::Errno;

    #[test]
    fn what_took_turns_is_scaled_and_what_stood_still_is_nothing() {
        let counts = |value, enabled_ns, running_ns| Counts { value, enabled_ns, running_ns, ..Counts::default() };
        let then = counts(10, 100, 100);
        assert_eq!(scaled(&then, &counts(30, 140, 110)), Some(80));
        assert_eq!(scaled(&then, &counts(30, 140, 140)), Some(20));
        assert_eq!(scaled(&then, &counts(10, 140, 100)), None, "it had no turn");
        assert_eq!(scaled(&then, &Counts::default()), None, "another counter");
    }

    #[test]
    fn what_cannot_be_counted_is_not_tried_again() {
        let mut watch = WorkWatch::default();
        watch.open(&[0, 1], Some(Box::new(FakeSys::new(|_, _, _| Err(Errno::NOENT)))));
        assert!(watch.is_lacking && watch.counters.is_none() && watch.read(&[0, 1]).is_empty());
        let mut watch = WorkWatch::default();
        watch.open(&[0, 1], None);
        assert!(watch.is_lacking, "there is no PMU");
        let mut watch = WorkWatch::default();
        watch.open(&[0, 1], Some(Box::new(FakeSys::new(|_, _, _| Ok(())))));
        assert!(!watch.is_lacking && watch.counters.is_some());
        watch.end();
        assert!(watch.counters.is_none() && watch.before.is_empty());
    }
}
