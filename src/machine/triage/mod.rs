//! Triage: one list of findings about the machine, the worst first.
//!
//! Each rule looks at one resource by the USE method (Brendan Gregg, "Thinking Methodically about Performance", 2013):
//! utilization, saturation, errors. It names the figure, the process responsible, the evidence, and where to look. The
//! figures are those of [`ResourceHistory`], so that a past range is answered like the present. The screen, `digest`, and
//! `--trigger` share the list.

mod changed;
mod cpu_rules;
pub mod finding;
mod io_rules;
mod memory_rules;
pub mod normal;
pub mod totals;

use std::collections::BTreeSet;

use crate::event::{EventState, RunState};
use crate::machine::findings::{CpuFinding, FindingKind};
use crate::machine::resources::ResourceHistory;
use crate::panel::row_order::arrange;
use crate::perfdata::EventUnit;
use crate::query::rows::busiest::ProcessSamples;

pub(crate) use cpu_rules::THROTTLED;
pub use finding::{Area, Cause, Confidence, Look, MachineFinding, Severity};
use totals::Totals;

/// The length of the present, in nanoseconds: longer than the pauses between typical bursts.
pub(crate) const WINDOW_NS: u64 = 10_000_000_000;
/// The steps in which the start of a finding is searched, and their number.
const STEP_NS: u64 = WINDOW_NS;
const STEPS: u64 = 12;
/// A finding ends when its figures fall below this fraction of the limits at which it began.
const STAYS: f64 = 0.6;

/// The least weight of a fault of a service or device: it is above a shortage of CPUs, and above a process that keeps one
/// busy.
const SPECIFIC: f64 = 0.55;

/// The facts that are examined.
pub struct TriageInput<'a> {
    /// The figures of /proc.
    pub history: &'a ResourceHistory,
    /// The range to examine, in nanoseconds of CLOCK_MONOTONIC.
    pub range: (u64, u64),
    /// CPUs that stand out in this range.
    pub cpus: &'a [CpuFinding],
    /// The processes with samples in this range, the busiest first.
    pub processes: &'a [ProcessSamples],
    /// Whether only these processes and the target's count.
    pub is_narrowed: bool,
    /// The processes of the session's target, with or without samples.
    pub target: &'a [i32],
    /// The cgroups of the session's target, if it is groups or containers.
    pub target_groups: &'a [String],
    /// The time that changes are against, on the same clock: without it, the same length before.
    pub baseline: Option<(u64, u64)>,
    /// The interrupts of each CPU's timer per second by this program's sampling clocks, for which others are not named.
    pub own_timer_hz: f64,
    /// The previous findings about the present: they end only well below the limits at which they began.
    pub before: &'a [MachineFinding],
}

impl<'a> TriageInput<'a> {
    /// Returns the input about the whole machine in a range, without facts from samples.
    pub(crate) fn new(history: &'a ResourceHistory, range: (u64, u64)) -> Self {
        Self {
            history,
            range,
            cpus: &[],
            processes: &[],
            is_narrowed: false,
            target: &[],
            target_groups: &[],
            baseline: None,
            own_timer_hz: 0.0,
            before: &[],
        }
    }

    /// Returns the time that changes are against, and its name: the baseline if it ends before the range, or the same
    /// length before if there are figures of it.
    fn earlier(&self) -> Option<((u64, u64), &'static str)> {
        let length = self.range.1.saturating_sub(self.range.0);
        let before = (self.range.0.saturating_sub(length), self.range.0);
        let baseline = self.baseline.filter(|(_, until)| *until <= self.range.0);
        let is_kept = self.history.start().is_some_and(|start| start <= before.0);
        baseline.map(|range| (range, "of the baseline")).or_else(|| is_kept.then_some((before, "before")))
    }

    /// Returns the figures of a range, of the selected processes.
    fn totals(&self, range: (u64, u64)) -> Totals<'a> {
        let pids: Option<BTreeSet<i32>> = self
            .is_narrowed
            .then(|| self.processes.iter().map(|one| one.pid).chain(self.target.iter().copied()).collect());
        let (own_timer_hz, target_groups) = (self.own_timer_hz, self.target_groups);
        Totals {
            own_timer_hz,
            target_groups,
            ..Totals::of(&self.history.between(range), pids.as_ref(), self.processes)
        }
    }
}

/// The rules of all areas.
const RULES: &[fn(&Totals<'_>) -> Option<MachineFinding>] = &[
    cpu_rules::throttled,
    cpu_rules::stolen,
    cpu_rules::busy,
    cpu_rules::interrupts_off,
    cpu_rules::kernel,
    cpu_rules::timers,
    cpu_rules::switches,
    cpu_rules::forks,
    cpu_rules::queue,
    cpu_rules::deadlock,
    cpu_rules::locks,
    cpu_rules::asleep,
    io_rules::disk,
    io_rules::unanswered,
    io_rules::refused,
    io_rules::resets,
    io_rules::retransmits,
    io_rules::unaccepted,
    io_rules::zero_windows,
    io_rules::datagrams,
    memory_rules::killed,
    memory_rules::limit,
    memory_rules::reclaim,
    memory_rules::faults,
    memory_rules::growth,
];

/// Returns the interrupts of each CPU's timer per second that events of this program cause, from their units and
/// states: a clock that runs causes one for each sample.
pub(crate) fn own_timer_hz<'a>(events: impl Iterator<Item = (EventUnit, &'a EventState)>) -> f64 {
    let is_clock =
        |(unit, state): &(EventUnit, &EventState)| *unit == EventUnit::Nanoseconds && state.run == RunState::Running;
    events.filter(is_clock).map(|(_, state)| state.rate.hz() as f64).sum()
}

/// Returns the range of the present: the newest intervals.
pub(crate) fn present(history: &ResourceHistory) -> (u64, u64) {
    let end = history.end().unwrap_or(0);
    (end.saturating_sub(WINDOW_NS), end)
}

/// Returns the findings, the worst first.
pub fn findings(input: &TriageInput<'_>) -> Vec<MachineFinding> {
    let now = input.totals(input.range);
    let eased = Totals { ease: STAYS, ..now.clone() };
    // By a lower limit a finding only stays; it becomes no worse.
    let is_known = |found: &MachineFinding| {
        input.before.iter().any(|known| found.continues(known) && found.severity <= known.severity)
    };
    let found =
        |rule: &dyn Fn(&Totals<'_>) -> Option<MachineFinding>| rule(&now).or_else(|| rule(&eased).filter(is_known));
    let mut list: Vec<(Option<usize>, MachineFinding)> = Vec::new();
    for (at, rule) in RULES.iter().enumerate() {
        list.extend(found(rule).map(|found| (Some(at), found)));
    }
    begin(&mut list, input);
    let is_cpu = |found: &&CpuFinding| found.kind != FindingKind::Quota && !input.is_narrowed;
    list.extend(
        input.cpus.iter().filter(is_cpu).map(|found| (None, MachineFinding { since: input.range.0, ..found.into() })),
    );
    if let Some((earlier, words)) = input.earlier() {
        let before = input.totals(earlier);
        list.extend(
            found(&|now: &Totals<'_>| changed::changed(&before, now, words))
                .map(|found| (None, MachineFinding { since: input.range.0, ..found })),
        );
    }
    let mut list: Vec<MachineFinding> = list.into_iter().map(|(_, found)| found).collect();
    for found in list.iter_mut().filter(|found| found.cause != Cause::Changed) {
        let known = input.before.iter().find(|known| found.continues(known));
        found.since = known.map_or(found.since, |known| known.since.min(found.since));
    }
    arrange(&mut list, |a, b| b.rank().cmp(&a.rank()).then(b.weight.total_cmp(&a.weight)).then(a.cause.cmp(&b.cause)));
    list
}

/// Sets the beginning of each finding: the earliest step since which its rule holds.
fn begin(list: &mut [(Option<usize>, MachineFinding)], input: &TriageInput<'_>) {
    list.iter_mut().for_each(|(_, found)| found.since = input.range.0);
    let mut holding: Vec<bool> = vec![true; list.len()];
    let oldest = input.history.start().unwrap_or(input.range.0);
    for step in 0..STEPS {
        let until = input.range.0.saturating_sub(step * STEP_NS);
        let from = until.saturating_sub(STEP_NS);
        if until <= oldest || !holding.contains(&true) {
            break;
        }
        let then = Totals { ease: STAYS, ..input.totals((from, until)) };
        for (holds, (rule, found)) in holding.iter_mut().zip(list.iter_mut()) {
            let held = rule.and_then(|rule| RULES[rule](&then));
            *holds &= held.is_some_and(|held| found.continues(&held));
            if *holds {
                found.since = from.max(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
