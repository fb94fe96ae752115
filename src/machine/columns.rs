//! The columns of the CPU table: names, titles, widths, formats of values, and filters for the samples of a cell.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::panel::unit::short;
use crate::panel::{Align, Column};
use crate::query::cpus::context::VECTORS;
use crate::session::machine::Ticks;

/// A column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuColumn {
    /// The CPU's number.
    #[default]
    Cpu,
    /// A share of /proc/stat's ticks, by the index in [`Ticks`]; without /proc/stat, a share of samples.
    Share(usize),
    /// Percent of the elapsed time for which /proc/stat counted no tick.
    Missing,
    /// The maximum percentage of softirqs and interrupts in a tenth of a second, or of samples in a bucket of time.
    Peak,
    /// Percent of the CPU that its ksoftirqd thread used.
    Ksoftirqd,
    /// Samples in [`CpuAnswer::window`](crate::query::cpus::CpuAnswer::window).
    Samples,
    /// Samples in percent of those of a fully busy CPU.
    Given,
    /// Samples in a softirq vector, in percent of the CPU's samples.
    Sampled(usize),
    /// Time in a softirq vector from its tracepoints, in percent.
    Timed(usize),
    /// Time in interrupt handlers from their tracepoints, in percent.
    IrqTimed,
    /// Softirqs per second.
    Rate(usize),
    /// Interrupts per second, by the index in [`HostView::lines`](crate::machine::sampler::HostView::lines).
    Line(usize),
    /// Packets received per second (/proc/net/softnet_stat).
    NetProcessed,
    /// Packets dropped per second because the backlog was full.
    NetDropped,
    /// How often per second receiving exhausted its budget with packets left.
    NetSqueezed,
    /// How often per second another CPU woke this one to receive packets (receive packet steering).
    NetRps,
    /// The frequency in MHz, as reported by the kernel.
    Mhz,
    /// Cycles per second, from its PMU.
    Cycles,
    /// Instructions per cycle, from its PMU.
    Ipc,
    /// Its PMU's cycles divided by its busy time, in GHz.
    Ghz,
    /// The number of thermal throttling events since boot.
    Throttled,
    /// The NUMA node, by number.
    Node,
    /// The package (`physical_package_id`).
    Package,
    /// The core in its package (`core_id`).
    Core,
    /// The CPUs of its core as a list, including itself.
    Siblings,
    /// Offline, isolated, nohz_full.
    Marks,
}

/// The vectors in display order: the most frequent ones first.
pub const SHOWN: [usize; VECTORS.len()] = [1, 3, 2, 4, 7, 9, 6, 8, 0, 5];

/// Names by vector: of its samples, of its time, and of its frequency.
static OF_VECTORS: LazyLock<[[String; 3]; VECTORS.len()]> = LazyLock::new(|| {
    VECTORS.map(|vector| {
        let vector = vector.to_lowercase();
        [format!("sampled_{vector}"), format!("time_{vector}"), format!("{vector}_s")]
    })
});

impl CpuColumn {
    pub(crate) fn column(self) -> Column {
        const SHARES: [(&str, &str); Ticks::N] = [
            ("user", "usr"),
            ("nice", "nic"),
            ("system", "sys"),
            ("idle", "idle"),
            ("iowait", "iow"),
            ("irq", "irq"),
            ("softirq", "si"),
            ("steal", "st"),
            ("guest", "gst"),
            ("guest_nice", "gni"),
        ];
        let vector = |v: usize| VECTORS.get(v).copied().unwrap_or("?");
        let named = |of: usize, v: usize| OF_VECTORS.get(v).map_or("more_s", |names| names[of].as_str());
        let (name, title, width) = match self {
            Self::Cpu => ("cpu", "CPU", 4),
            Self::Share(i) => (SHARES[i].0, SHARES[i].1, 4),
            Self::Missing => ("missing", "miss", 4),
            Self::Peak => ("peak", "peak", 4),
            Self::Ksoftirqd => ("ksoftirqd", "ksoft", 5),
            Self::Samples => ("samples", "Samples", 8),
            Self::Given => ("sampled", "smp", 4),
            Self::Sampled(v) => (named(0, v), vector(v), 8),
            Self::Timed(v) => (named(1, v), vector(v), 8),
            Self::IrqTimed => ("time_irq", "irqs", 6),
            Self::Rate(v) => (named(2, v), vector(v), 8),
            Self::Line(_) => ("line_s", "line", 9),
            Self::NetProcessed => ("net_processed_s", "packets", 9),
            Self::NetDropped => ("net_dropped_s", "dropped", 9),
            Self::NetSqueezed => ("net_squeezed_s", "squeezed", 9),
            Self::NetRps => ("net_rps_s", "rps", 7),
            Self::Mhz => ("mhz", "MHz", 7),
            Self::Cycles => ("cycles_s", "cycles/s", 9),
            Self::Ipc => ("ipc", "IPC", 5),
            Self::Ghz => ("ghz", "GHz", 5),
            Self::Throttled => ("throttled", "throttled", 10),
            Self::Node => ("node", "node", 5),
            Self::Package => ("package", "pkg", 4),
            Self::Core => ("core", "core", 5),
            Self::Siblings => ("siblings", "siblings", 10),
            Self::Marks => ("marks", "marks", 18),
        };
        let align = if matches!(self, Self::Siblings | Self::Marks) { Align::Left } else { Align::Right };
        Column::new(name, title, align, width)
    }

    pub(crate) fn long(self) -> Cow<'static, str> {
        let words = match self {
            Self::Share(_) => {
                let name = self.column().name;
                match &*name {
                    "user" => "user code",
                    "nice" => "niced user code",
                    "system" => "kernel code of tasks",
                    "irq" => "interrupts",
                    "softirq" => "softirqs",
                    "steal" => "time stolen by the host",
                    "guest" => "guests",
                    _ => return name,
                }
            }
            Self::Ksoftirqd => "percent of a CPU in ksoftirqd",
            Self::NetProcessed => "packets received per second",
            Self::NetDropped => "packets dropped per second because the backlog was full,",
            Self::NetSqueezed => "times per second that receiving exhausted its budget",
            Self::NetRps => "packets per second steered here by RPS",
            Self::Throttled => "thermal throttling events since boot",
            Self::Cycles => "cycles per second",
            Self::Ipc => "instructions per cycle",
            Self::Ghz => "GHz while busy (cycles by /proc/stat's ticks),",
            other => return other.column().title,
        };
        words.into()
    }

    /// Returns whether values are shares from 0 to 100.
    pub(crate) fn is_share(self) -> bool {
        matches!(
            self,
            Self::Share(_)
                | Self::Missing
                | Self::Peak
                | Self::Given
                | Self::Ksoftirqd
                | Self::Sampled(_)
                | Self::Timed(_)
                | Self::IrqTimed
        )
    }

    /// Formats a value for a narrow screen.
    pub(crate) fn short(self, value: f64) -> String {
        match self {
            Self::Share(_) | Self::Missing | Self::Peak | Self::Ksoftirqd | Self::Given => format!("{value:.0}"),
            Self::Sampled(_) | Self::Timed(_) | Self::IrqTimed => format!("{value:.1}"),
            Self::Ipc | Self::Ghz => format!("{value:.2}"),
            _ if value < 1000.0 => format!("{value:.0}"),
            _ => short(value),
        }
    }

    /// Returns the filter for the samples of a cell, and its name.
    pub(crate) fn drill(self, cpu: u32) -> (String, String) {
        let vector = |v: usize| (VECTORS[v].to_owned(), format!(" && softirq == {}", VECTORS[v]));
        let (name, clause) = match self {
            Self::Sampled(v) | Self::Timed(v) | Self::Rate(v) if v < VECTORS.len() => vector(v),
            Self::Share(Ticks::SOFTIRQ) | Self::Ksoftirqd => ("softirq".into(), " && context == softirq".to_owned()),
            Self::Share(Ticks::IRQ) | Self::Line(_) | Self::IrqTimed => ("irq".into(), " && context == irq".to_owned()),
            Self::Share(Ticks::USER | Ticks::NICE) => ("user".into(), " && context == task && user".to_owned()),
            Self::Share(Ticks::SYSTEM) => ("kernel".into(), " && context == task && kernel".to_owned()),
            Self::NetProcessed | Self::NetDropped | Self::NetSqueezed | Self::NetRps => vector(3),
            _ => (String::new(), String::new()),
        };
        (format!("CPU {cpu} {name}").trim_end().to_owned(), format!("cpu == {cpu}{clause}"))
    }
}
