//! Instructions per cycle: the two events and the ratio of their weights.

use crate::profile::Acc;

/// The minimum number of samples of each event. The ratio of ten to ten samples is already off by half easily.
pub const LEAST: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Cycles,
    Instructions,
}

/// The names of both events, in the kernel and in PMUs.
const CYCLES: &[&str] = &["cycles", "cpu-cycles", "cpu_cycles", "cpu_clk_unhalted.thread"];
const INSTRUCTIONS: &[&str] = &["instructions", "inst_retired", "inst_retired.any"];

/// Where an event counts: its PMU and modes (`u`, `k`, `h`).
type Place<'a> = (&'a str, [bool; 3]);

/// The event that yields instructions per cycle together with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partner {
    /// Its index.
    pub event: usize,
    counts: Counts,
}

impl Partner {
    /// Returns the partner of an event, which has the same PMU and modes.
    pub fn of<'a>(mut names: impl Iterator<Item = &'a str> + Clone, event: usize) -> Option<Self> {
        let (counts, place) = counts_and_place(names.clone().nth(event)?)?;
        let other = if counts == Counts::Cycles { Counts::Instructions } else { Counts::Cycles };
        let at = names.position(|name| counts_and_place(name) == Some((other, place)))?;
        Some(Self { event: at, counts: other })
    }

    /// Returns instructions per cycle from the weights of both events. `None` if either has too few samples.
    pub fn ipc(self, own: Acc, partner: Acc) -> Option<f64> {
        let (cycles, instructions) = match self.counts {
            Counts::Instructions => (own, partner),
            Counts::Cycles => (partner, own),
        };
        let tells = cycles.samples >= LEAST && instructions.samples >= LEAST && cycles.period > 0;
        tells.then(|| instructions.period as f64 / cycles.period as f64)
    }
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
        Partner::of(names.iter().copied(), event).map(|found| found.event)
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
    fn the_ratio_is_of_instructions_to_cycles_whichever_is_shown() {
        let names = ["cycles", "instructions"];
        let of = |event: usize| Partner::of(names.iter().copied(), event).expect("a partner");
        let (cycles, instructions) = (Acc { samples: 20, period: 2000 }, Acc { samples: 10, period: 500 });
        assert_eq!((of(0).ipc(cycles, instructions), of(1).ipc(instructions, cycles)), (Some(0.25), Some(0.25)));
        let few = Acc { samples: LEAST - 1, period: 500 };
        assert_eq!((of(0).ipc(cycles, few), of(0).ipc(few, instructions)), (None, None));
        assert_eq!(of(0).ipc(Acc { period: 0, ..cycles }, instructions), None);
    }
}
