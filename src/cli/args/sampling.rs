//! Options of sampling: those that the live screen and `record` share.

use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use crate::lang::quantity;
use crate::source::live::attr::Extras;

/// The target and rate of sampling, and its other options: common to the live screen and `record`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sampling {
    /// Events, e.g. cycles:u, cpu-clock, sched:sched_switch, cpu/event=0x3c/, mem:ADDR:w, {a,b}
    #[arg(short = 'e', long = "event", value_name = "EVENTS", action = ArgAction::Append)]
    pub(crate) events: Vec<String>,
    /// Record only what matches, of the tracepoints of the -e before it, e.g. 'prev_pid == 1'
    #[arg(long = "filter", value_name = "FILTER", action = ArgAction::Append)]
    pub(crate) filters: Vec<String>,
    /// Only samples while interrupts are off (1) or on (0)
    #[arg(long = "irqs_disabled", value_name = "0|1", num_args = 0..=1, default_missing_value = "1", require_equals = true, hide_short_help = true)]
    pub(crate) irqs_disabled: Option<u8>,
    /// Only samples while another task is to run soon (1) or none is (0)
    #[arg(long = "tif_need_resched", value_name = "0|1", num_args = 0..=1, default_missing_value = "1", require_equals = true, hide_short_help = true)]
    pub(crate) tif_need_resched: Option<u8>,
    /// Only samples on CPUs with so many runnable tasks or more
    #[arg(long = "nr_running_min", value_name = "N", hide_short_help = true)]
    pub(crate) nr_running_min: Option<u32>,
    /// Only samples on CPUs with so many runnable tasks or fewer
    #[arg(long = "nr_running_max", value_name = "N", hide_short_help = true)]
    pub(crate) nr_running_max: Option<u32>,
    /// No samples of this process
    #[arg(long = "exclude_pid", value_name = "PID", hide_short_help = true)]
    pub(crate) exclude_pid: Option<u32>,
    /// Events that are only counted, for triggers
    #[arg(skip)]
    pub(crate) counted: Vec<String>,
    /// Bytes that the program may use, where that is limited
    #[arg(skip)]
    pub(crate) memory: Option<usize>,
    /// What samples have besides, for `record`
    #[arg(skip)]
    pub(crate) extras: Extras,
    /// All events together in one group
    #[arg(skip)]
    pub(crate) grouped: bool,
    /// Nothing is sampled of them
    #[arg(skip)]
    pub(crate) no_samples: bool,
    /// After how many -e each filter stands
    #[arg(skip)]
    pub(crate) filter_after: Vec<usize>,
    /// Samples a second, or max
    #[arg(short = 'F', long = "freq", value_name = "HZ", default_value = "999", conflicts_with = "period")]
    pub(crate) freq: String,
    /// One sample each PERIOD events instead
    #[arg(short = 'c', long = "count", value_name = "PERIOD", value_parser = quantity::count::<u64>)]
    pub(crate) period: Option<u64>,
    /// Record call chains (on by default)
    #[arg(short = 'g')]
    pub(crate) chains: bool,
    /// Record each sample's cgroup (the default where there are any but the root; the live screen always does)
    #[arg(long)]
    pub(crate) all_cgroups: bool,
    /// How user call chains are taken: tables (the unwind tables of the files, in the kernel by a BPF program, and
    /// frame pointers where there are none), fp (frame pointers alone), auto (tables where the kernel allows it, else
    /// fp), dwarf or dwarf,SIZE (the tables, from a copy of SIZE bytes of the stack), lbr (the CPU's memory of
    /// branches) or none. A stack whose next caller would be where no code is ends in `[broken]`
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) call_graph: String,
    /// The whole machine (the default without a target); -u, -G, --container and --pod narrow it
    #[arg(short = 'a', long = "all-cpus")]
    pub(crate) all: bool,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// These processes and their descendants
    ///
    /// perf's -p leaves out the children that run already, -i all descendants
    #[arg(short = 'p', long = "pid", value_name = "PIDS", conflicts_with_all = ["tids", "user", "cgroup", "container", "pod"])]
    pub(crate) pids: Option<String>,
    /// Only these threads
    #[arg(short = 't', long = "tid", value_name = "TIDS", conflicts_with_all = ["user", "cgroup", "container", "pod"])]
    pub(crate) tids: Option<String>,
    /// All processes of a user
    #[arg(short = 'u', long = "uid", value_name = "USER", conflicts_with_all = ["cgroup", "container", "pod"])]
    pub(crate) user: Option<String>,
    /// A cgroup by its path below the tree's root, or a glob of several
    #[arg(short = 'G', long, value_name = "NAME")]
    pub(crate) cgroup: Option<String>,
    /// A container by its name, the beginning of its id, or a glob; those that start later are sampled, too
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cgroup", "pod"])]
    pub(crate) container: Option<String>,
    /// A pod, as [NAMESPACE/]NAME, or globs of them
    #[arg(long, value_name = "POD", conflicts_with = "cgroup")]
    pub(crate) pod: Option<String>,
    /// Leave kernel code out
    #[arg(long, visible_alias = "all-user")]
    pub(crate) exclude_kernel: bool,
    /// Leave user code out
    #[arg(long, visible_alias = "all-kernel", conflicts_with = "exclude_kernel")]
    pub(crate) exclude_user: bool,
    /// Leave guests out
    #[arg(long)]
    pub(crate) exclude_guest: bool,
    /// Leave the idle task out, with the softirqs and interrupts on top of it
    #[arg(long)]
    pub(crate) exclude_idle: bool,
    /// Without processes that descend from the target, and threads that it starts
    #[arg(short = 'i', long = "no-inherit")]
    pub(crate) no_inherit: bool,
    /// Data pages of each CPU's ring buffer, a power of two (or 512K, 4M)
    #[arg(short = 'm', long = "mmap-pages", value_name = "PAGES")]
    pub(crate) pages: Option<String>,
    /// Serve what reads and shows samples before all ordinary threads (SCHED_FIFO with this priority, 1 to 99),
    /// for a fifth of each second
    #[arg(short = 'r', long, value_name = "PRIO", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub(crate) realtime: Option<i32>,
    /// Wait MS milliseconds before sampling begins
    #[arg(short = 'D', long = "delay", value_name = "MS", default_value = "0", hide_default_value = true, value_parser = quantity::milliseconds)]
    pub(crate) delay: Duration,
    /// Keep the profiler's own samples
    #[arg(long)]
    pub(crate) include_self: bool,
    /// Sample even where that costs more than half a CPU
    #[arg(long)]
    pub(crate) force: bool,
}

impl Sampling {
    /// The filter that perf-prof's options stand for.
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

    /// Takes from the matches of the command line where each filter stands.
    pub(crate) fn place_filters(&mut self, matches: &clap::ArgMatches) {
        let places = |id: &str| matches.indices_of(id).map(|i| i.collect::<Vec<usize>>()).unwrap_or_default();
        let events = places("events");
        let before = |at: usize| events.iter().filter(|event| **event < at).count();
        self.filter_after = places("filters").into_iter().map(before).collect();
    }
}
