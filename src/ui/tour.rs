//! A short tour through an incident: what is to be seen, and the key that goes on.

use crate::ui::command::Command;
use crate::ui::frame::Tab;

/// A step: what it says, and whether a command is the one that it waits for.
pub struct Step {
    pub text: &'static str,
    /// The command whose key is shown.
    pub name: &'static str,
    done: fn(&Command, Tab) -> bool,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The tour of the demo's incident.
pub const STEPS: &[Step] = &[
    Step {
        text: "A machine with 34 CPUs, as it was sampled during an incident: somebody says that CPU 32 is slow. After \
               some seconds the third line names the anomaly. Its key goes there:",
        name: "finding",
        // Before the first findings nothing is there to go to.
        done: |command, tab| matches!(command, Command::Finding) && tab == Tab::Cpus,
    },
    Step {
        text: "The CPUs, anomalies first, with their softirqs. CPU 32 spends its time in TIMER; its peers do not. \
               The functions behind that cell:",
        name: "cpu-enter",
        done: |command, _| matches!(command, Command::CpuEnter),
    },
    Step {
        text: "Only the TIMER softirqs of CPU 32 count now, on every screen; ⌫ takes it back. The hottest function is \
               under the cursor. Unfold it:",
        name: "toggle",
        done: |command, _| matches!(command, Command::Toggle | Command::ExpandRow | Command::ExpandAll),
    },
    Step {
        text: "run_timer_softirq → call_timer_fn → estimation_timer, and _find_next_bit below it: IPVS sums up its \
               statistics, all of them in one timer, on one CPU. The same as a picture:",
        name: "flame",
        done: |command, _| matches!(command, Command::TabFlame),
    },
    Step {
        text: "As wide as their share, callees below callers; the letter tells kernel, softirq, user. Enter would zoom. And \
               when did it happen?",
        name: "time",
        done: |command, _| matches!(command, Command::TabTime),
    },
    Step {
        text: "A column is a second, its rows the time inside it: blocks that come again are bursts. What changed between \
               two of them? Go to a burst with ← and →, and select its column:",
        name: "time-columns",
        done: |command, _| matches!(command, Command::TimeColumns),
    },
    Step {
        text: "→ would take more columns in. This time is what another one is compared with:",
        name: "time-baseline",
        done: |command, _| matches!(command, Command::TimeBaseline),
    },
    Step {
        text: "Now to another burst with ← and →, and select that, too:",
        name: "time-columns",
        done: |command, _| matches!(command, Command::TimeColumns),
    },
    Step {
        text: "Only that time, on every screen, against the first one:",
        name: "time-enter",
        done: |command, _| matches!(command, Command::TimeEnter),
    },
    Step {
        text: "What changed most comes first: Δ in points of share, Old what it was; ~ marks what may be chance. Nothing \
               is lost by looking: one key undoes every step, on every screen:",
        name: "undo",
        done: |command, _| matches!(command, Command::Undo | Command::TabTop),
    },
    Step {
        text: "That is all it takes. ? explains each screen, : finds every command, f filters, the past too; S saves a \
               perf.data file as the proof. On a machine of yours: sudo perfprof-tui. This leaves the tour:",
        name: "stop",
        done: |_, _| false,
    },
];

/// Where in the tour one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tour {
    at: usize,
}

impl Tour {
    pub fn step(self) -> Option<&'static Step> {
        STEPS.get(self.at)
    }

    /// Which step of how many, from 1.
    pub fn place(self) -> (usize, usize) {
        (self.at + 1, STEPS.len())
    }

    /// A command was run, and led to this screen.
    pub fn ran(&mut self, command: &Command, tab: Tab) {
        if self.step().is_some_and(|step| (step.done)(command, tab)) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_done_when_it_led_somewhere() {
        let mut tour = Tour::default();
        tour.ran(&Command::Finding, Tab::Top);
        assert_eq!(tour.place().0, 1, "nothing was found yet");
        tour.ran(&Command::Finding, Tab::Cpus);
        tour.ran(&Command::Toggle, Tab::Cpus);
        assert_eq!(tour.place().0, 2);
        assert!(STEPS.iter().all(|step| crate::ui::command::find(step.name).is_some()));
    }
}
