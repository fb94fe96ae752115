//! Options of the commands that read the machine without a screen: `stat`, `probe`, `list`, `cpus`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use super::{OutputFormat, PERF};
use crate::lang::quantity;

#[derive(Debug, ClapArgs)]
pub(crate) struct StatArgs {
    /// Events to count, e.g. cycles:u,page-faults,{branches,branch-misses}
    #[arg(short = 'e', long = "event", value_name = "EVENTS", action = ArgAction::Append)]
    pub(crate) events: Vec<String>,
    /// Add cache events; repeat for more
    #[arg(short = 'd', long, action = ArgAction::Count)]
    pub(crate) detailed: u8,
    /// The whole machine; a command only sets the duration
    #[arg(short = 'a', long = "all-cpus")]
    pub(crate) all: bool,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// These processes and their descendants
    ///
    /// perf's -p excludes children that already run; -i excludes all descendants
    #[arg(short = 'p', long = "pid", value_name = "PIDS", conflicts_with_all = ["all", "cpus", "tids"])]
    pub(crate) pids: Option<String>,
    /// Only these threads
    #[arg(short = 't', long = "tid", value_name = "TIDS", conflicts_with_all = ["all", "cpus"])]
    pub(crate) tids: Option<String>,
    /// Print counts every MS milliseconds
    #[arg(short = 'I', long = "interval-print", value_name = "MS", value_parser = quantity::milliseconds)]
    pub(crate) interval: Option<Duration>,
    /// End after N intervals
    #[arg(long = "interval-count", value_name = "N", requires = "interval", value_parser = quantity::count::<u32>)]
    pub(crate) count: Option<u32>,
    /// Run the command N times and print the variation; 0: until Ctrl-C, with the figures of each run
    #[arg(short = 'r', long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = quantity::count::<u32>)]
    pub(crate) repeat: u32,
    /// One count per CPU
    #[arg(long, short = 'A', visible_alias = "no-aggr")]
    pub(crate) per_cpu: bool,
    /// One count per thread
    #[arg(long)]
    pub(crate) per_thread: bool,
    /// Exclude kernel code
    #[arg(long, visible_alias = "all-user")]
    pub(crate) exclude_kernel: bool,
    /// Exclude user code
    #[arg(long, visible_alias = "all-kernel", conflicts_with = "exclude_kernel")]
    pub(crate) exclude_user: bool,
    /// Exclude descendants of the target, and threads that it starts
    #[arg(short = 'i', long = "no-inherit")]
    pub(crate) no_inherit: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
    /// Write the table to FILE instead of standard error
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "log_fd")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) more: MoreOfStat,
    /// Command to run and count
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

/// Less common options of perf stat.
#[derive(Debug, ClapArgs)]
pub(crate) struct MoreOfStat {
    /// Print values separated by SEPARATOR, in perf's format for scripts
    #[arg(short = 'x', long = "field-separator", value_name = "SEPARATOR", conflicts_with = "format")]
    pub(crate) separator: Option<String>,
    /// Print one JSON object per counter, in perf's format
    #[arg(short = 'j', long = "json-output", conflicts_with_all = ["format", "separator"])]
    pub(crate) json: bool,
    /// Append to the file of -o
    #[arg(long, requires = "output")]
    pub(crate) append: bool,
    /// Print numbers without thousands separators
    #[arg(long)]
    pub(crate) no_big_num: bool,
    /// Write the table to this file descriptor
    #[arg(long = "log-fd", value_name = "FD")]
    pub(crate) log_fd: Option<i32>,
    /// Print nothing
    #[arg(long)]
    pub(crate) quiet: bool,
    /// One count per core
    #[arg(long, conflicts_with_all = ["per_cpu", "per_thread"])]
    pub(crate) per_core: bool,
    /// One count per die
    #[arg(long, conflicts_with_all = ["per_cpu", "per_thread", "per_core"])]
    pub(crate) per_die: bool,
    /// One count per socket
    #[arg(long, conflicts_with_all = ["per_cpu", "per_thread", "per_core", "per_die"])]
    pub(crate) per_socket: bool,
    /// One count per NUMA node
    #[arg(long, conflicts_with_all = ["per_cpu", "per_thread", "per_core", "per_die", "per_socket"])]
    pub(crate) per_node: bool,
    /// Count only this cgroup, by its path or a glob
    #[arg(short = 'G', long, value_name = "NAME", conflicts_with_all = ["pids", "tids"])]
    pub(crate) cgroup: Option<String>,
    /// One count per cgroup: paths or globs, separated by commas
    #[arg(
        long = "for-each-cgroup",
        value_name = "NAMES",
        conflicts_with_all = ["pids", "tids", "cgroup", "per_cpu", "per_thread", "per_core", "per_die", "per_socket", "per_node"]
    )]
    pub(crate) each_cgroup: Option<String>,
    /// Count all events as one group
    #[arg(short = 'g', long = "group")]
    pub(crate) group: bool,
    /// Filter for the tracepoints
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Start to count MS milliseconds after the command starts
    #[arg(short = 'D', long, value_name = "MS", value_parser = quantity::milliseconds)]
    pub(crate) delay: Option<Duration>,
    /// End the measurement and the command after MS milliseconds
    #[arg(long, value_name = "MS", value_parser = quantity::milliseconds)]
    pub(crate) timeout: Option<Duration>,
    /// Measure only the duration, count no events
    #[arg(short = 'n', long)]
    pub(crate) null: bool,
    /// Sync disks before each run
    #[arg(short = 'S', long)]
    pub(crate) sync: bool,
    /// Shell command to run before each run
    #[arg(long, value_name = "COMMAND")]
    pub(crate) pre: Option<String>,
    /// Shell command to run after each run
    #[arg(long, value_name = "COMMAND")]
    pub(crate) post: Option<String>,
    /// Print the totals after the intervals
    #[arg(long, requires = "interval")]
    pub(crate) summary: bool,
}

/// Options of `probe`. Without any, it lists the existing probes.
#[derive(Debug, ClapArgs)]
pub(crate) struct ProbeArgs {
    /// Add a probe: `[GROUP:][NAME=]FUNCTION[+BYTES|:LINE|%return]`, or PROVIDER:NAME of a static probe
    #[arg(short = 'a', long, value_name = "PROBE", action = ArgAction::Append, conflicts_with_all = ["del", "funcs", "vars", "clean"])]
    pub(crate) add: Vec<String>,
    /// A probe without -a, and the values to record: arg1, $retval, %di, +8(%si):u32, arg1:string; parameters and their
    /// members by name, for kernel functions and programs with debug information
    #[arg(value_name = "PROBE] [ARG", conflicts_with_all = ["del", "funcs", "vars", "clean", "list"])]
    pub(crate) args: Vec<String>,
    /// Print the kernel's definition of a probe, without adding it
    #[arg(short = 'D', long, value_name = "PROBE", hide_short_help = true)]
    pub(crate) definition: Option<String>,
    /// Program or library [default: the kernel]
    #[arg(short = 'x', long = "exec", value_name = "FILE")]
    pub(crate) exec: Option<PathBuf>,
    /// Remove the probes whose NAME or GROUP:NAME matches
    #[arg(short = 'd', long, value_name = "GLOB")]
    pub(crate) del: Option<String>,
    /// List existing probes; with -x, the static probes of the program
    #[arg(short = 'l', long)]
    pub(crate) list: bool,
    /// List functions and static probes of the program, or without -x the kernel's functions
    #[arg(short = 'F', long, value_name = "GLOB", num_args = 0..=1, default_missing_value = "*")]
    pub(crate) funcs: Option<String>,
    /// Restrict -F to matching names, or with ! to names that do not match
    #[arg(long, value_name = "[!]GLOB", requires = "funcs", hide_short_help = true)]
    pub(crate) filter: Option<String>,
    /// List the parameters of a function
    #[arg(short = 'V', long, value_name = "FUNCTION")]
    pub(crate) vars: Option<String>,
    /// List the lines of a function that can be probed, counted from its first line; for a part, FUNCTION:FROM-TO or
    /// :FROM+COUNT
    #[arg(short = 'L', long, value_name = "FUNCTION", conflicts_with_all = ["add", "del", "funcs", "vars"])]
    pub(crate) line: Option<String>,
    /// Remove the probes and tracefs instances of killed sessions
    #[arg(long)]
    pub(crate) clean: bool,
    /// Print the kernel's definitions, change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Names, parts of names or globs; hardware, software, cache, pmu, tracepoint or a subsystem; or containers, for
    /// running containers
    #[arg(value_name = "GLOB")]
    pub(crate) globs: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
    /// Print only names and types
    #[arg(long)]
    pub(crate) no_desc: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CpusArgs {
    /// Seconds between two tables
    #[arg(short = 'i', long, value_name = "SECONDS", default_value = "1", value_parser = quantity::duration)]
    pub(crate) interval: Duration,
    /// End after COUNT tables [default: until Ctrl-C]
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = quantity::count::<u64>)]
    pub(crate) count: Option<u64>,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// Measure the time in each softirq vector by its tracepoints
    #[arg(long)]
    pub(crate) softirq_time: bool,
    /// Percentage points of softirq time above the other CPUs from which a CPU is an anomaly [default: 10]
    #[arg(long, value_name = "POINTS", default_value_t = 10.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) threshold: f64,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}
