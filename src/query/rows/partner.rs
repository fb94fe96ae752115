//! Pairs of events whose weights together give a figure of each row: instructions per cycle, or the share of the latency
//! profile next to that of CPU time.

use crate::perfdata::LATENCY;
use crate::profile::Acc;

/// The minimum number of samples of each event. The ratio of ten to ten samples is already off by half easily.
pub const LEAST: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Cycles,
    Instructions,
    Latency,
}

/// A kind of figure from the weights of two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairKind {
    /// Instructions per cycle.
    Ipc,
    /// The latency profile next to CPU time.
    Latency,
}

/// A row's figure from the weights of two events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PairFigure {
    /// Instructions per cycle.
    Ipc(f64),
    /// The percentage of the latency profile.
    Latency(f64),
}

/// The names of both events, in the kernel and in PMUs.
const CYCLES: &[&str] = &["cycles", "cpu-cycles", "cpu_cycles", "cpu_clk_unhalted.thread"];
const INSTRUCTIONS: &[&str] = &["instructions", "inst_retired", "inst_retired.any"];

/// Events that sample time, besides cycles.
const CLOCKS: &[&str] = &["cpu-clock", "task-clock"];

/// Where an event counts: its PMU and modes (`u`, `k`, `h`).
type Place<'a> = (&'a str, [bool; 3]);

/// The event that yields a figure together with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partner {
    /// Its index.
    pub event: usize,
    counts: Counts,
}

impl Partner {
    /// Returns the partner of an event: for instructions per cycle the other event with the same PMU and modes, for the
    /// first clock its latency profile.
    pub fn of<'a>(kind: PairKind, names: impl Iterator<Item = &'a str> + Clone, event: usize) -> Option<Self> {
        if kind == PairKind::Latency {
            let (clock, latency) = latency_pair(names)?;
            return (clock == event).then_some(Self { event: latency, counts: Counts::Latency });
        }
        let (counts, place) = counts_and_place(names.clone().nth(event)?)?;
        let other = if counts == Counts::Cycles { Counts::Instructions } else { Counts::Cycles };
        let at = names.clone().position(|name| counts_and_place(name) == Some((other, place)))?;
        Some(Self { event: at, counts: other })
    }

    /// Returns instructions per cycle from the weights of both events. `None` if either has too few samples.
    pub fn ipc(self, own: Acc, partner: Acc) -> Option<f64> {
        let (cycles, instructions) = match self.counts {
            Counts::Instructions => (own, partner),
            Counts::Cycles => (partner, own),
            Counts::Latency => return None,
        };
        let tells = cycles.samples >= LEAST && instructions.samples >= LEAST && cycles.period > 0;
        tells.then(|| instructions.period as f64 / cycles.period as f64)
    }

    /// Returns the figure of a row; `whole` is the partner's weight in all rows.
    pub(crate) fn figure(self, own: Acc, partner: Acc, whole: Acc) -> Option<PairFigure> {
        match self.counts {
            Counts::Latency => Some(PairFigure::Latency(partner.percent_of(&whole))),
            Counts::Cycles | Counts::Instructions => self.ipc(own, partner).map(PairFigure::Ipc),
        }
    }
}

/// Returns the event of CPU time and that of its latency profile, if running threads were recorded.
pub(crate) fn latency_pair<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> Option<(usize, usize)> {
    let latency = names.clone().position(|name| name == LATENCY)?;
    Some((names.position(samples_time)?, latency))
}

/// Returns whether the samples of an event of this name are of time.
pub(crate) fn samples_time(name: &str) -> bool {
    let base = name.split_once(':').map_or(name, |(base, _)| base);
    CLOCKS.contains(&base) || counts_and_place(name).is_some_and(|(counts, _)| counts == Counts::Cycles)
}

/// Parses the kind and place of an event from its name. Examples are `cycles:u` and `cpu_core/instructions/k`.
fn counts_and_place(name: &str) -> Option<(Counts, Place<'_>)> {
    let (pmu, event, modifiers) = match name.split_once('/') {
        Some((pmu, rest)) => {
            let (event, modifiers) = rest.rsplit_once('/')?;
            (pmu, event, modifiers.trim_start_matches(':'))
        }
        None => {
            let (event, modifiers) = name.split_once(':').unwrap_or((name, ""));
            ("", event, modifiers)
        }
    };
    let counts = match event {
        event if CYCLES.contains(&event) => Counts::Cycles,
        event if INSTRUCTIONS.contains(&event) => Counts::Instructions,
        _ => return None,
    };
    Some((counts, (pmu, ['u', 'k', 'h'].map(|mode| modifiers.contains(mode)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partner(names: &[&str], event: usize) -> Option<usize> {
        Partner::of(PairKind::Ipc, names.iter().copied(), event).map(|found| found.event)
    }

    #[test]
    fn partners_count_in_the_same_place() {
        let names = ["cpu-clock", "cycles:u", "instructions", "instructions:upp", "cpu-cycles"];
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|event| partner(&names, event)),
            [None, Some(3), Some(4), Some(1), Some(2), None]
        );
        let hybrid = ["cpu_core/cycles/", "cpu_atom/instructions/", "cpu_core/instructions/P", "cpu_atom/cycles/k"];
        assert_eq!([0, 1, 2, 3].map(|event| partner(&hybrid, event)), [Some(2), None, Some(0), None]);
        assert_eq!(partner(&["armv8_pmuv3/cpu_cycles/", "armv8_pmuv3/inst_retired/"], 0), Some(1));
        assert_eq!(partner(&["sched:cycles", "instructions", "cycles/"], 1), None);
    }

    #[test]
    fn the_first_clock_has_the_latency_profile() {
        let names = ["sched:sched_switch", "cpu-clock:u", "cycles", "instructions", LATENCY];
        let latency = |event| Partner::of(PairKind::Latency, names.into_iter(), event).map(|found| found.event);
        assert_eq!([0, 1, 2, 3, 4].map(latency), [None, Some(4), None, None, None]);
        assert_eq!([1, 2, 3].map(|event| partner(&names, event)), [None, Some(3), Some(2)]);
        let of = Partner::of(PairKind::Latency, ["cycles", "instructions", LATENCY].into_iter(), 0).expect("a partner");
        let acc = |period| Acc { samples: 20, period };
        assert_eq!((of.event, of.ipc(acc(10), acc(5))), (2, None));
        assert_eq!(of.figure(acc(10), acc(5), acc(50)), Some(PairFigure::Latency(10.0)));
        assert_eq!(of.figure(acc(10), Acc::default(), Acc::default()), Some(PairFigure::Latency(0.0)));
    }

    #[test]
    fn the_ratio_is_of_instructions_to_cycles_whichever_is_shown() {
        let names = ["cycles", "instructions"];
        let of = |event: usize| Partner::of(PairKind::Ipc, names.iter().copied(), event).expect("a partner");
        let (cycles, instructions) = (Acc { samples: 20, period: 2000 }, Acc { samples: 10, period: 500 });
        assert_eq!((of(0).ipc(cycles, instructions), of(1).ipc(instructions, cycles)), (Some(0.25), Some(0.25)));
        let few = Acc { samples: LEAST - 1, period: 500 };
        assert_eq!((of(0).ipc(cycles, few), of(0).ipc(few, instructions)), (None, None));
        assert_eq!(of(0).ipc(Acc { period: 0, ..cycles }, instructions), None);
    }
}
