//! A short tour through an incident: descriptions, and the keys that continue.

use crate::ui::command::Command;
use crate::ui::commands::{general, program};
use crate::ui::tab::Tab;
use crate::ui::view::{cpus, time, top};

/// A step: its text, and the command that it waits for.
pub(crate) struct TourStep {
    /// The command whose key is shown.
    pub(crate) row: &'static Command,
    pub(crate) text: &'static str,
    /// Commands that complete it as well.
    also: &'static [&'static Command],
    /// The screen on which its command must have ended.
    screen: Option<Tab>,
}

const fn until(row: &'static Command, text: &'static str) -> TourStep {
    TourStep { row, text, also: &[], screen: None }
}

impl TourStep {
    const fn or(self, also: &'static [&'static Command]) -> Self {
        Self { also, ..self }
    }

    fn is_done(&self, row: &Command, tab: Tab) -> bool {
        let is_its = self.row.is(row) || self.also.iter().any(|other| other.is(row));
        is_its && self.screen.is_none_or(|screen| screen == tab)
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
        // Before the first findings, the command has no target.
        screen: Some(Tab::Cpus),
        ..until(
            &program::FINDING,
            "A machine with 34 CPUs, sampled during an incident: users report that CPU 32 is slow. After a few seconds \
             the third line names the anomaly. This key goes there:",
        )
    },
    until(
        &cpus::commands::ENTER,
        "The CPUs, anomalies first, with their softirqs. CPU 32 spends its time in TIMER; the other CPUs do \
         not. The functions behind that cell:",
    ),
    until(
        &top::commands::TOGGLE,
        "Every screen now shows only the TIMER softirqs of CPU 32; ⌫ undoes that. The hottest function is under \
         the cursor. Unfold its callers:",
    )
    .or(&[&top::commands::EXPAND, &top::commands::EXPAND_ALL]),
    until(
        &program::FLAME,
        "run_timer_softirq → call_timer_fn → estimation_timer, and _find_next_bit below it: IPVS updates all \
         its statistics in a single timer on one CPU. The same as a flame graph:",
    ),
    until(
        &program::TIME,
        "The width of a frame is its share, callees are below callers; the letter marks kernel, softirq or user \
         code. Enter would zoom. When did it happen?",
    ),
    until(
        &time::commands::COLUMNS,
        "A column is a second, its rows are the time inside it: blocks that repeat are bursts. What changed between \
         two of them? Go to a burst with ← and →, and select its column:",
    ),
    until(&time::commands::BASELINE, "→ would add more columns. Make this time the baseline:"),
    until(&time::commands::COLUMNS, "Now go to another burst with ← and →, and select it, too:"),
    until(&time::commands::ENTER, "Show only that time on every screen, compared with the first one:"),
    until(
        &general::UNDO,
        "The largest changes come first: Δ in percentage points, Old the previous share; ~ marks possible chance. Nothing \
         is lost by looking: one key undoes every step, on every screen:",
    )
    .or(&[&program::TOP]),
    until(
        &general::STOP,
        "That is all. ? explains each screen, : finds every command, f filters, also past samples; S saves a \
         perf.data file as evidence. On your own machine: sudo perfprof-tui. This key ends the tour:",
    ),
];

/// Returns a step by its index.
pub(crate) fn step(at: usize) -> Option<&'static TourStep> {
    STEPS.get(at)
}

/// Returns the step after a command was run that led to this screen.
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
