//! Triage: one list of findings about the machine, the worst first.
//!
//! Each rule looks at one resource by the USE method (Brendan Gregg, "Thinking Methodically about Performance", 2013):
//! utilization, saturation, errors. It names the figure, the process responsible, the evidence, and where to look. The
//! figures are those of [`ResourceHistory`], so that a past range is answered like the present. The screen, `digest`, and
//! `--trigger` share the list.

mod changed;
mod cpu_rules;
mod io_rules;
mod memory_rules;
pub mod totals;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::event::{EventState, RunState};
use crate::machine::findings::{CpuFinding, FindingKind};
use crate::machine::resources::ResourceHistory;
use crate::panel::row_order::arrange;
use crate::perfdata::EventUnit;
use crate::query::rows::busiest::ProcessSamples;

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

/// A group of findings, which is a line of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// The CPUs.
    Cpu,
    /// Waits for a CPU.
    Queue,
    /// Waits for locks.
    Locks,
    /// Sleep of the selected processes.
    Waits,
    /// Block devices.
    Disk,
    /// Memory.
    Memory,
    /// Connections.
    Network,
    /// Differences to the time before.
    Changed,
}

impl Area {
    /// All areas.
    pub(crate) const ALL: [Self; 8] =
        [Self::Cpu, Self::Queue, Self::Locks, Self::Waits, Self::Disk, Self::Memory, Self::Network, Self::Changed];

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Queue => "queue",
            Self::Locks => "locks",
            Self::Waits => "waits",
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Changed => "changed",
        }
    }
}

/// Declares the causes with their area and their name in JSON.
macro_rules! causes {
    ($($(#[$about:meta])* $cause:ident $area:ident $word:literal;)+) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Cause {
            $($(#[$about])* $cause,)+
        }

        impl Cause {
            /// Returns whether a finding is about one process or group.
            fn is_of_one(self) -> bool {
                use Cause::{Asleep, Deadlock, Growth, InterruptsOff, Kernel, Limit, Locks, Throttled};
                matches!(self, Asleep | Deadlock | Growth | InterruptsOff | Kernel | Limit | Locks | Throttled)
            }

            /// Returns the area to which it belongs.
            pub fn area(self) -> Area {
                match self {
                    $(Self::$cause => Area::$area,)+
                }
            }

            /// Returns its name in JSON.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$cause => $word,)+
                }
            }
        }
    };
}

causes! {
    /// A CPU with far more softirqs or interrupts than the others.
    Softirq Cpu "softirqs";
    /// Ticks of a CPU are missing.
    MissingTicks Cpu "missing-ticks";
    /// Samples of a CPU are missing.
    MissingSamples Cpu "missing-samples";
    /// A cgroup has used up its quota of CPU time.
    Throttled Cpu "throttled";
    /// The hypervisor runs something else.
    Stolen Cpu "stolen";
    /// CPUs are busy.
    Busy Cpu "busy";
    /// A program disables interrupts for long.
    InterruptsOff Cpu "interrupts-off";
    /// A process is in the kernel nearly all of its time.
    Kernel Cpu "kernel-time";
    /// Many interrupts of a CPU's timer.
    Timers Cpu "timer-interrupts";
    /// Many context switches.
    Switches Cpu "switches";
    /// Many processes are started.
    Forks Cpu "forks";
    /// Threads wait for a CPU.
    Queue Queue "run-queue";
    /// Threads wait for each other's mutexes.
    Deadlock Locks "deadlock";
    /// Threads wait for a contended mutex.
    Locks Locks "locks";
    /// A selected process sleeps most of the time.
    Asleep Waits "asleep";
    /// A disk is busy or slow.
    Disk Disk "disk";
    /// The kernel killed processes for lack of memory.
    Killed Memory "killed";
    /// A cgroup is near its limit of memory.
    Limit Memory "limit";
    /// Processes reclaim memory, or little is left.
    Reclaim Memory "reclaim";
    /// Many page faults.
    Faults Memory "faults";
    /// A process grows steadily.
    Growth Memory "growth";
    /// A peer does not answer connects.
    Unanswered Network "connect-timeouts";
    /// Connections fail.
    Refused Network "connect-failures";
    /// Connections end by a reset.
    Resets Network "connection-resets";
    /// Segments are sent again.
    Retransmits Network "retransmits";
    /// Packets of new connections are dropped, because a listen queue is full.
    Unaccepted Network "listen-drops";
    /// Data stands still, because its receiver does not read.
    ZeroWindows Network "zero-windows";
    /// Datagrams are dropped, because the buffer of their socket is full.
    Datagrams Network "datagram-drops";
    /// A program uses more or less CPU time than before.
    Changed Changed "changed";
}

/// The urgency of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a look.
    Look,
    /// Bad.
    Bad,
}

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Bad => "bad",
        }
    }
}

/// How sure the named cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The kernel counts exactly this.
    Counted,
    /// Figures that usually mean it.
    Likely,
}

impl Confidence {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Likely => "likely",
        }
    }
}

/// Where a finding is examined.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// The functions of the samples that pass a filter, with the label of the zoom.
    Functions {
        /// The label.
        label: String,
        /// The filter.
        filter: String,
    },
    /// A CPU, or all of them.
    Cpus(Option<u32>),
    /// A unit with its options, as typed.
    Unit(String),
    /// The comparison with the time before.
    Compare,
}

impl Look {
    /// Returns the functions of a process, or of a program if there are several processes of it.
    fn at(comm: &str, pid: Option<i32>) -> Self {
        match pid {
            Some(pid) => Self::Functions { label: format!("pid {pid} {comm}"), filter: format!("pid == {pid}") },
            None => Self::Functions { label: format!("comm {comm}"), filter: crate::filter::equals("comm", comm) },
        }
    }

    fn container(name: &str) -> Self {
        Self::Functions { label: format!("container {name}"), filter: crate::filter::equals("container", name) }
    }

    /// Returns a unit, limited to a process.
    pub(crate) fn unit(name: &str, pid: Option<i32>) -> Self {
        Self::Unit(pid.map_or_else(|| name.to_owned(), |pid| format!("{name} -p {pid}")))
    }

    /// Returns the command line that shows it on this machine.
    pub(crate) fn command(&self) -> String {
        let quoted = |text: &str| shlex::try_quote(text).map_or_else(|_| text.to_owned(), |text| text.into_owned());
        match self {
            Self::Functions { filter, .. } => format!("perfprof-tui --where {}", quoted(filter)),
            Self::Cpus(Some(cpu)) => format!("perfprof-tui -C {cpu}"),
            Self::Cpus(None) => "perfprof-tui --exec cpu-screen".to_owned(),
            Self::Unit(unit) => format!("perfprof-tui {unit}"),
            Self::Compare => "perfprof-tui --exec baseline".to_owned(),
        }
    }

    /// Returns the key of the screen or command, and its subject.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Functions { .. } => "1 top".to_owned(),
            Self::Cpus(_) => "4 CPUs".to_owned(),
            Self::Unit(unit) => format!("M {}", unit.split(' ').next().unwrap_or_default()),
            Self::Compare => "b compare".to_owned(),
        }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFinding {
    /// The kind of its cause.
    pub cause: Cause,
    /// Its urgency.
    pub severity: Severity,
    /// The order among equally urgent ones, from 0 to 1.
    pub(crate) weight: f64,
    /// The main figure, with its unit.
    pub figure: String,
    /// The processes, groups or devices responsible, with their parts.
    pub culprit: String,
    /// The figures that support it.
    pub evidence: String,
    /// When it began, in nanoseconds of CLOCK_MONOTONIC, as far as known.
    pub since: u64,
    /// How sure it is.
    pub confidence: Confidence,
    /// Where it is examined.
    pub look: Look,
}

impl MachineFinding {
    /// Returns the urgency by which it is ordered. A shortage of CPUs delays all programs, and is often only the result of
    /// another finding: the faults of a single service come first.
    fn rank(&self) -> Severity {
        if self.cause == Cause::Queue { Severity::Look } else { self.severity }
    }

    /// Returns its identity in the list: its cause, and its CPU.
    pub(crate) fn id(&self) -> (Cause, Option<u32>) {
        (self.cause, if let Look::Cpus(cpu) = self.look { cpu } else { None })
    }

    /// Returns whether it is the same finding as an earlier one, about the same process or group.
    fn continues(&self, earlier: &Self) -> bool {
        self.id() == earlier.id() && (!self.cause.is_of_one() || self.look == earlier.look)
    }

    fn new(cause: Cause, severity: Severity, weight: f64, figure: String, look: Look) -> Self {
        let (culprit, evidence) = (String::new(), String::new());
        let confidence = Confidence::Counted;
        Self { cause, severity, weight: weight.clamp(0.0, 1.0), figure, culprit, evidence, since: 0, confidence, look }
    }

    /// Creates a finding of a CPU.
    #[cfg(test)]
    pub(crate) fn staged(figure: &str, look: Look) -> Self {
        Self::new(Cause::Softirq, Severity::Bad, 1.0, figure.to_owned(), look)
    }

    fn by(self, culprit: String) -> Self {
        Self { culprit, ..self }
    }

    fn shown_by(self, evidence: String) -> Self {
        Self { evidence, ..self }
    }

    /// Returns it in one sentence.
    pub fn text(&self) -> String {
        let parts = [&self.figure, &self.culprit, &self.evidence];
        let parts: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        format!("{}: {}", self.cause.area().word(), parts.join("; "))
    }

    /// Returns it in the form that all JSON outputs share; `start` is the beginning of the session.
    pub(crate) fn json(&self, start: u64) -> Value {
        json!({
            "text": self.text(), "advice": self.look.command(),
            "cause": self.cause.word(), "area": self.cause.area().word(), "severity": self.severity.word(),
            "figure": self.figure, "culprit": self.culprit, "evidence": self.evidence,
            "since_s": self.since.saturating_sub(start) as f64 / 1e9,
            "confidence": self.confidence.word(),
        })
    }
}

impl From<&CpuFinding> for MachineFinding {
    fn from(found: &CpuFinding) -> Self {
        let cause = match found.kind {
            FindingKind::Soft => Cause::Softirq,
            FindingKind::MissingTicks => Cause::MissingTicks,
            FindingKind::MissingSamples => Cause::MissingSamples,
            FindingKind::Quota => Cause::Throttled,
        };
        let (figure, rest) = found.text.split_once("; ").unwrap_or((&found.text, ""));
        let finding = Self::new(cause, Severity::Bad, found.share / 100.0, figure.to_owned(), Look::Cpus(found.cpu));
        finding.by(rest.to_owned()).shown_by(match cause {
            Cause::Softirq => String::new(),
            _ => found.advice(true),
        })
    }
}

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

/// Describes a healthy machine or the selected processes, in short parts.
pub fn calm(input: &TriageInput<'_>) -> Vec<String> {
    input.totals(input.range).calm()
}

/// Describes what moves through the files and connections of the selected processes, a line each.
pub fn traffic(input: &TriageInput<'_>) -> Vec<String> {
    if input.is_narrowed { input.totals(input.range).traffic() } else { Vec::new() }
}

#[cfg(test)]
mod tests;
