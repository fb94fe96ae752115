//! The columns of the CPU table: the name, title and width, how its values are written, and the filter that a cell of
//! it leads to.

use std::borrow::Cow;

use crate::panel::unit::short;
use crate::panel::{Align, Column};
use crate::query::context::VECTORS;
use crate::session::machine::Ticks;

/// A column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuColumn {
    /// The CPU's number.
    #[default]
    Cpu,
    /// A share of /proc/stat's ticks, by the index in [`Ticks`]; of samples where there are none.
    Share(usize),
    /// Percent of the elapsed time for which /proc/stat counted no tick.
    Missing,
    /// The most that softirqs and interrupts had of a tenth of a second, or by samples of a bucket of time, in
    /// percent.
    Peak,
    /// Percent of the CPU that its ksoftirqd thread had.
    Ksoftirqd,
    /// Samples in [`CpuAnswer::window`](crate::query::cpus::CpuAnswer::window).
    Samples,
    /// Samples in percent of those that the CPU gives when it is busy throughout.
    Given,
    /// Samples in a softirq vector, in percent of the CPU's samples.
    Sampled(usize),
    /// Time in a softirq vector by its tracepoints, in percent of time.
    Timed(usize),
    /// Time in interrupt handlers by their tracepoints.
    IrqTimed,
    /// Softirqs a second.
    Rate(usize),
    /// Interrupts a second, by the index in [`HostView::lines`](super::sampler::HostView::lines).
    Line(usize),
    /// Packets a second that were received (/proc/net/softnet_stat).
    NetProcessed,
    /// Packets a second that were dropped, the backlog being full.
    NetDropped,
    /// Times a second that receiving ran out of its budget with packets left.
    NetSqueezed,
    /// Times a second that another CPU woke this one to receive packets (receive packet steering).
    NetRps,
    /// The frequency in MHz, as the kernel tells it.
    Mhz,
    /// Cycles a second, by its PMU.
    Cycles,
    /// Instructions a cycle, by its PMU.
    Ipc,
    /// Cycles of its PMU by the time that it was not idle, in GHz.
    Ghz,
    /// How often it was throttled for heat since boot.
    Throttled,
    /// The NUMA node, by number.
    Node,
    /// The package (`physical_package_id`).
    Package,
    /// The core in its package (`core_id`).
    Core,
    /// The CPUs of its core as a list, itself among them.
    Siblings,
    /// Offline, isolated, nohz_full.
    Marks,
}

/// Vectors in the order in which they are shown: those that are met most often first.
pub const SHOWN: [usize; VECTORS.len()] = [1, 3, 2, 4, 7, 9, 6, 8, 0, 5];

impl CpuColumn {
    /// Name, title and width.
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
        /// Names by vector: of its samples, of its time, and of how often it runs.
        const OF_VECTORS: [[&str; 3]; VECTORS.len()] = [
            ["sampled_hi", "time_hi", "hi_s"],
            ["sampled_timer", "time_timer", "timer_s"],
            ["sampled_net_tx", "time_net_tx", "net_tx_s"],
            ["sampled_net_rx", "time_net_rx", "net_rx_s"],
            ["sampled_block", "time_block", "block_s"],
            ["sampled_irq_poll", "time_irq_poll", "irq_poll_s"],
            ["sampled_tasklet", "time_tasklet", "tasklet_s"],
            ["sampled_sched", "time_sched", "sched_s"],
            ["sampled_hrtimer", "time_hrtimer", "hrtimer_s"],
            ["sampled_rcu", "time_rcu", "rcu_s"],
        ];
        let vector = |v: usize| VECTORS.get(v).copied().unwrap_or("?");
        let named = |of: usize, v: usize| OF_VECTORS.get(v).map_or("more_s", |names| names[of]);
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

    /// The column's contents, in a word or two.
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
            Self::NetProcessed => "packets received a second",
            Self::NetDropped => "packets dropped a second, the backlog being full,",
            Self::NetSqueezed => "times a second that receiving ran out of its budget",
            Self::NetRps => "packets a second steered here by RPS",
            Self::Throttled => "throttled for heat since boot",
            Self::Cycles => "cycles a second",
            Self::Ipc => "instructions a cycle",
            Self::Ghz => "GHz in the time that it was not idle (cycles, by /proc/stat's ticks),",
            other => return other.column().title,
        };
        words.into()
    }

    /// True if values are shares, from 0 to 100.
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

    /// As shown on a narrow screen.
    pub(crate) fn short(self, value: f64) -> String {
        match self {
            Self::Share(_) | Self::Missing | Self::Peak | Self::Ksoftirqd | Self::Given => format!("{value:.0}"),
            Self::Sampled(_) | Self::Timed(_) | Self::IrqTimed => format!("{value:.1}"),
            Self::Ipc | Self::Ghz => format!("{value:.2}"),
            _ if value < 1000.0 => format!("{value:.0}"),
            _ => short(value),
        }
    }

    /// The filter that leaves only the samples of a cell, and its name.
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
