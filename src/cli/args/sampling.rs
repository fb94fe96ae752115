//! Sampling options, shared by the live screen and `record`.

use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use crate::lang::quantity;
use crate::source::live::attr::{Exclude, Extras};

/// Target, rate and other options of sampling.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sampling {
    /// Events, e.g. cycles:u, cpu-clock, sched:sched_switch, cpu/event=0x3c/, mem:ADDR:w, {a,b}
    #[arg(short = 'e', long = "event", value_name = "EVENTS", action = ArgAction::Append)]
    pub(crate) events: Vec<String>,
    /// Capture filter for the tracepoints of the preceding -e, e.g. 'prev_pid == 1'
    #[arg(long = "filter", value_name = "FILTER", action = ArgAction::Append)]
    pub(crate) filters: Vec<String>,
    /// Only samples while interrupts are off (1) or on (0)
    #[arg(long = "irqs_disabled", value_name = "0|1", num_args = 0..=1, default_missing_value = "1", require_equals = true, hide_short_help = true)]
    pub(crate) irqs_disabled: Option<u8>,
    /// Only samples with (1) or without (0) a pending reschedule
    #[arg(long = "tif_need_resched", value_name = "0|1", num_args = 0..=1, default_missing_value = "1", require_equals = true, hide_short_help = true)]
    pub(crate) tif_need_resched: Option<u8>,
    /// Only samples on CPUs with at least N runnable tasks
    #[arg(long = "nr_running_min", value_name = "N", hide_short_help = true)]
    pub(crate) nr_running_min: Option<u32>,
    /// Only samples on CPUs with at most N runnable tasks
    #[arg(long = "nr_running_max", value_name = "N", hide_short_help = true)]
    pub(crate) nr_running_max: Option<u32>,
    /// Exclude this process
    #[arg(long = "exclude_pid", value_name = "PID", hide_short_help = true)]
    pub(crate) exclude_pid: Option<u32>,
    /// Events that are only counted, for triggers.
    #[arg(skip)]
    pub(crate) counted: Vec<String>,
    /// Memory limit in bytes.
    #[arg(skip)]
    pub(crate) memory: Option<usize>,
    /// Additional sample fields, for `record`.
    #[arg(skip)]
    pub(crate) extras: Extras,
    /// Whether the time off the CPUs is measured, too, unless events are chosen.
    #[arg(skip)]
    pub(crate) off_cpu_time: bool,
    /// All events form one group.
    #[arg(skip)]
    pub(crate) grouped: bool,
    /// Events take no samples.
    #[arg(skip)]
    pub(crate) no_samples: bool,
    /// Number of -e options before each filter.
    #[arg(skip)]
    pub(crate) filter_after: Vec<usize>,
    /// Samples per second, or max
    #[arg(short = 'F', long = "freq", value_name = "HZ", default_value = "999", conflicts_with = "period")]
    pub(crate) freq: String,
    /// Take one sample every PERIOD events instead
    #[arg(short = 'c', long = "count", value_name = "PERIOD", value_parser = quantity::count::<u64>)]
    pub(crate) period: Option<u64>,
    /// Record call chains (on by default)
    #[arg(short = 'g')]
    pub(crate) chains: bool,
    /// Record the cgroup of each sample (default if the machine has cgroups; always on the live screen)
    #[arg(long)]
    pub(crate) all_cgroups: bool,
    /// How to unwind user stacks, by auto, tables, fp, dwarf, lbr or none: tables (in the kernel by a BPF program
    /// with the files' unwind tables, frame pointers for files without tables), fp (frame pointers only), auto
    /// (tables if the kernel allows it, else fp), dwarf or dwarf,SIZE (later, from a copy of SIZE bytes of the
    /// stack), lbr (the CPU's branch records); record takes fp,defer (Linux 6.19: when the thread returns to user
    /// code). A stack that leads outside code ends in `[broken]`
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) call_graph: String,
    /// Frames of Python, PHP, Ruby, Perl, Java and Node programs: their functions in place of the interpreter's frames (auto),
    /// both, their functions only, or native frames only (off)
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) interp: String,
    /// Measure the latency profile: record context switches, and divide each sample's weight by the number of threads of
    /// its process that run at that moment
    #[arg(long)]
    pub(crate) latency: bool,
    /// The whole machine (default without a target); -u, -G, --container and --pod restrict it
    #[arg(short = 'a', long = "all-cpus")]
    pub(crate) all: bool,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// These processes and their descendants
    ///
    /// perf's -p excludes children that already run; -i excludes all descendants
    #[arg(short = 'p', long = "pid", value_name = "PIDS", conflicts_with_all = ["tids", "user", "cgroup", "container", "pod"])]
    pub(crate) pids: Option<String>,
    /// Only these threads
    #[arg(short = 't', long = "tid", value_name = "TIDS", conflicts_with_all = ["user", "cgroup", "container", "pod"])]
    pub(crate) tids: Option<String>,
    /// All processes of a user
    #[arg(short = 'u', long = "uid", value_name = "USER", conflicts_with_all = ["cgroup", "container", "pod"])]
    pub(crate) user: Option<String>,
    /// A cgroup by its path below the root, or a glob
    #[arg(short = 'G', long, value_name = "NAME")]
    pub(crate) cgroup: Option<String>,
    /// A container by name, beginning of its id, or a glob; containers that start later are included
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cgroup", "pod"])]
    pub(crate) container: Option<String>,
    /// A pod, as [NAMESPACE/]NAME, or globs
    #[arg(long, value_name = "POD", conflicts_with = "cgroup")]
    pub(crate) pod: Option<String>,
    #[command(flatten)]
    pub(crate) exclude: Exclude,
    /// Exclude descendants of the target, and threads that it starts
    #[arg(short = 'i', long = "no-inherit")]
    pub(crate) no_inherit: bool,
    /// Data pages of each CPU's ring buffer, a power of two (or 512K, 4M)
    #[arg(short = 'm', long = "mmap-pages", value_name = "PAGES")]
    pub(crate) pages: Option<String>,
    /// Run the profiler's own threads before all ordinary threads (SCHED_FIFO priority 1 to 99), for at most a fifth of
    /// each second
    #[arg(short = 'r', long, value_name = "PRIO", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub(crate) realtime: Option<i32>,
    /// Start sampling after MS milliseconds
    #[arg(short = 'D', long = "delay", value_name = "MS", default_value = "0", hide_default_value = true, value_parser = quantity::milliseconds)]
    pub(crate) delay: Duration,
    /// Keep the profiler's own samples
    #[arg(long)]
    pub(crate) include_self: bool,
    /// Sample even if it costs more than half a CPU
    #[arg(long)]
    pub(crate) force: bool,
}

impl Sampling {
    /// Returns the filter equivalent to perf-prof's options.
    pub(crate) fn aliases(&self) -> Option<String> {
        let flag = |name: &str, on: Option<u8>| on.map(|on| if on == 0 { format!("!{name}") } else { name.to_owned() });
        let clauses = [
            flag("irqs_off", self.irqs_disabled),
            flag("need_resched", self.tif_need_resched),
            self.nr_running_min.map(|n| format!("nr_running >= {n}")),
            self.nr_running_max.map(|n| format!("nr_running <= {n}")),
            self.exclude_pid.map(|pid| format!("pid != {pid}")),
        ];
        let list: Vec<String> = clauses.into_iter().flatten().collect();
        (!list.is_empty()).then(|| list.join(" && "))
    }

    /// Reads the position of each filter from the command line.
    pub(crate) fn place_filters(&mut self, matches: &clap::ArgMatches) {
        let places = |id: &str| matches.indices_of(id).map(|i| i.collect::<Vec<usize>>()).unwrap_or_default();
        let events = places("events");
        let before = |at: usize| events.iter().filter(|event| **event < at).count();
        self.filter_after = places("filters").into_iter().map(before).collect();
    }
}
