//! A finding about the machine: its cause, figure and culprit, how sure it is, and where to look.

use serde_json::{Value, json};

use crate::machine::findings::{CpuFinding, FindingKind};

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
    pub(super) fn at(comm: &str, pid: Option<i32>) -> Self {
        match pid {
            Some(pid) => Self::Functions { label: format!("pid {pid} {comm}"), filter: format!("pid == {pid}") },
            None => Self::Functions { label: format!("comm {comm}"), filter: crate::filter::equals("comm", comm) },
        }
    }

    pub(super) fn container(name: &str) -> Self {
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
    pub(super) fn rank(&self) -> Severity {
        if self.cause == Cause::Queue { Severity::Look } else { self.severity }
    }

    /// Returns its identity in the list: its cause, and its CPU.
    pub(crate) fn id(&self) -> (Cause, Option<u32>) {
        (self.cause, if let Look::Cpus(cpu) = self.look { cpu } else { None })
    }

    /// Returns whether it is the same finding as an earlier one, about the same process or group.
    pub(super) fn continues(&self, earlier: &Self) -> bool {
        self.id() == earlier.id() && (!self.cause.is_of_one() || self.look == earlier.look)
    }

    pub(super) fn new(cause: Cause, severity: Severity, weight: f64, figure: String, look: Look) -> Self {
        let (culprit, evidence) = (String::new(), String::new());
        let confidence = Confidence::Counted;
        Self { cause, severity, weight: weight.clamp(0.0, 1.0), figure, culprit, evidence, since: 0, confidence, look }
    }

    /// Creates a finding of a CPU.
    #[cfg(test)]
    pub(crate) fn staged(figure: &str, look: Look) -> Self {
        Self::new(Cause::Softirq, Severity::Bad, 1.0, figure.to_owned(), look)
    }

    pub(super) fn by(self, culprit: String) -> Self {
        Self { culprit, ..self }
    }

    pub(super) fn shown_by(self, evidence: String) -> Self {
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
