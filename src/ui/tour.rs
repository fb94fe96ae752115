//! A short tour through an incident: what is to be seen, and the key that goes on.

use crate::ui::command::Command;
use crate::ui::commands::{general, program};
use crate::ui::tab::Tab;
use crate::ui::view::{cpus, time, top};

/// A step: what it says, and the command that it waits for.
pub(crate) struct TourStep {
    pub(crate) text: &'static str,
    /// The command whose key is shown.
    pub(crate) row: &'static Command,
    also: Also,
}

/// An end of a step beside its command.
enum Also {
    /// These commands as well.
    Rows(&'static [&'static Command]),
    /// Its command only where it has led to a screen.
    On(Tab),
    /// Nothing, not even its command.
    Never,
}

impl TourStep {
    fn is_done(&self, row: &Command, tab: Tab) -> bool {
        match self.also {
            Also::Rows(others) => self.row.is(row) || others.iter().any(|other| other.is(row)),
            Also::On(screen) => self.row.is(row) && tab == screen,
            Also::Never => false,
        }
    }
}

impl std::fmt::Debug for TourStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.row.name)
    }
}

/// The tour of the demo's incident.
pub(crate) static STEPS: &[TourStep] = &[
    TourStep {
        text: "A machine with 34 CPUs, as it was sampled during an incident: somebody says that CPU 32 is slow. After \
               some seconds the third line names the anomaly. Its key goes there:",
        row: &program::FINDING,
        // Before the first findings nothing is there to go to.
        also: Also::On(Tab::Cpus),
    },
    TourStep {
        text: "The CPUs, anomalies first, with their softirqs. CPU 32 spends its time in TIMER; its peers do not. \
               The functions behind that cell:",
        row: &cpus::commands::ENTER,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "Only the TIMER softirqs of CPU 32 count now, on every screen; ⌫ takes it back. The hottest function is \
               under the cursor. Unfold it:",
        row: &top::commands::TOGGLE,
        also: Also::Rows(&[&top::commands::EXPAND, &top::commands::EXPAND_ALL]),
    },
    TourStep {
        text: "run_timer_softirq → call_timer_fn → estimation_timer, and _find_next_bit below it: IPVS sums up its \
               statistics, all of them in one timer, on one CPU. The same as a picture:",
        row: &program::FLAME,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "As wide as their share, callees below callers; the letter tells kernel, softirq, user. Enter would zoom. And \
               when did it happen?",
        row: &program::TIME,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "A column is a second, its rows the time inside it: blocks that come again are bursts. What changed between \
               two of them? Go to a burst with ← and →, and select its column:",
        row: &time::commands::COLUMNS,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "→ would take more columns in. This time is what another one is compared with:",
        row: &time::commands::BASELINE,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "Now to another burst with ← and →, and select that, too:",
        row: &time::commands::COLUMNS,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "Only that time, on every screen, against the first one:",
        row: &time::commands::ENTER,
        also: Also::Rows(&[]),
    },
    TourStep {
        text: "What changed most comes first: Δ in points of share, Old what it was; ~ marks what may be chance. Nothing \
               is lost by looking: one key undoes every step, on every screen:",
        row: &general::UNDO,
        also: Also::Rows(&[&program::TOP]),
    },
    TourStep {
        text: "That is all it takes. ? explains each screen, : finds every command, f filters, the past too; S saves a \
               perf.data file as the proof. On a machine of yours: sudo perfprof-tui. This leaves the tour:",
        row: &general::STOP,
        also: Also::Never,
    },
];

/// The step of a number, counted from 0.
pub(crate) fn step(at: usize) -> Option<&'static TourStep> {
    STEPS.get(at)
}

/// The step after a command was run there that led to this screen.
pub(crate) fn after(at: usize, row: &Command, tab: Tab) -> usize {
    at + usize::from(step(at).is_some_and(|step| step.is_done(row, tab)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_done_when_it_led_somewhere() {
        assert_eq!(after(0, &program::FINDING, Tab::Top), 0, "nothing was found yet");
        assert_eq!(after(0, &program::FINDING, Tab::Cpus), 1);
        assert_eq!(after(1, &top::commands::TOGGLE, Tab::Cpus), 1);
    }
}
