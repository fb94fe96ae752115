//! Options of the commands that ask the machine and draw no screen: its events, counters, probes, CPUs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use super::{Format, PERF};
use crate::lang::quantity;

#[derive(Debug, ClapArgs)]
pub(crate) struct Stat {
    /// Events to count, e.g. cycles:u,page-faults,{branches,branch-misses}
    #[arg(short = 'e', long = "event", value_name = "EVENTS", action = ArgAction::Append)]
    pub(crate) events: Vec<String>,
    /// More of the caches; again for more yet
    #[arg(short = 'd', long, action = ArgAction::Count)]
    pub(crate) detailed: u8,
    /// The whole machine; a command then only says for how long
    #[arg(short = 'a', long = "all-cpus")]
    pub(crate) all: bool,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// These processes and their descendants
    ///
    /// perf's -p leaves out the children that run already, -i all descendants
    #[arg(short = 'p', long = "pid", value_name = "PIDS", conflicts_with_all = ["all", "cpus", "tids"])]
    pub(crate) pids: Option<String>,
    /// Only these threads
    #[arg(short = 't', long = "tid", value_name = "TIDS", conflicts_with_all = ["all", "cpus"])]
    pub(crate) tids: Option<String>,
    /// Print what came in each MS milliseconds
    #[arg(short = 'I', long = "interval-print", value_name = "MS", value_parser = quantity::milliseconds)]
    pub(crate) interval: Option<Duration>,
    /// End after so many intervals
    #[arg(long = "interval-count", value_name = "N", requires = "interval", value_parser = quantity::count::<u32>)]
    pub(crate) count: Option<u32>,
    /// Run the command so many times and say how much the figures vary; 0: until Ctrl-C, with each run's figures
    #[arg(short = 'r', long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = quantity::count::<u32>)]
    pub(crate) repeat: u32,
    /// Each CPU by itself
    #[arg(long, short = 'A', visible_alias = "no-aggr")]
    pub(crate) per_cpu: bool,
    /// Each thread by itself
    #[arg(long)]
    pub(crate) per_thread: bool,
    /// Leave kernel code out
    #[arg(long, visible_alias = "all-user")]
    pub(crate) exclude_kernel: bool,
    /// Leave user code out
    #[arg(long, visible_alias = "all-kernel", conflicts_with = "exclude_kernel")]
    pub(crate) exclude_user: bool,
    /// Without processes that descend from the target, and threads that it starts
    #[arg(short = 'i', long = "no-inherit")]
    pub(crate) no_inherit: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Write the table into this file, not to standard error
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "log_fd")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) more: MoreOfStat,
    /// A command to run and count
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

/// What perf stat can do besides.
#[derive(Debug, ClapArgs)]
pub(crate) struct MoreOfStat {
    /// As values between SEPARATOR, as perf prints them for scripts
    #[arg(
        short = 'x',
        long = "field-separator",
        value_name = "SEPARATOR",
        hide_short_help = true,
        conflicts_with = "format"
    )]
    pub(crate) separator: Option<String>,
    /// As an object of JSON for each counter, as perf prints them
    #[arg(short = 'j', long = "json-output", hide_short_help = true, conflicts_with_all = ["format", "separator"])]
    pub(crate) json: bool,
    /// Add to the file of -o
    #[arg(long, requires = "output", hide_short_help = true)]
    pub(crate) append: bool,
    /// Numbers without separators of thousands
    #[arg(long, hide_short_help = true)]
    pub(crate) no_big_num: bool,
    /// Write the table to this open file
    #[arg(long = "log-fd", value_name = "FD", hide_short_help = true)]
    pub(crate) log_fd: Option<i32>,
    /// Print nothing
    #[arg(long, hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Each core by itself
    #[arg(long, hide_short_help = true, conflicts_with_all = ["per_cpu", "per_thread"])]
    pub(crate) per_core: bool,
    /// Each die by itself
    #[arg(long, hide_short_help = true, conflicts_with_all = ["per_cpu", "per_thread", "per_core"])]
    pub(crate) per_die: bool,
    /// Each socket by itself
    #[arg(long, hide_short_help = true, conflicts_with_all = ["per_cpu", "per_thread", "per_core", "per_die"])]
    pub(crate) per_socket: bool,
    /// Each NUMA node by itself
    #[arg(long, hide_short_help = true, conflicts_with_all = ["per_cpu", "per_thread", "per_core", "per_die", "per_socket"])]
    pub(crate) per_node: bool,
    /// Count this cgroup alone, by its path or a glob
    #[arg(short = 'G', long, value_name = "NAME", hide_short_help = true, conflicts_with_all = ["pids", "tids"])]
    pub(crate) cgroup: Option<String>,
    /// Count each of these cgroups by itself: paths or globs, with commas between
    #[arg(
        long = "for-each-cgroup",
        value_name = "NAMES",
        hide_short_help = true,
        conflicts_with_all = ["pids", "tids", "cgroup", "per_cpu", "per_thread", "per_core", "per_die", "per_socket", "per_node"]
    )]
    pub(crate) each_cgroup: Option<String>,
    /// Count all events as one group
    #[arg(short = 'g', long = "group", hide_short_help = true)]
    pub(crate) group: bool,
    /// Count only what matches, of the tracepoints
    #[arg(long, value_name = "FILTER", hide_short_help = true)]
    pub(crate) filter: Option<String>,
    /// Begin to count MS milliseconds after the command has begun
    #[arg(short = 'D', long, value_name = "MS", value_parser = quantity::milliseconds, hide_short_help = true)]
    pub(crate) delay: Option<Duration>,
    /// End after MS milliseconds, and the command with it
    #[arg(long, value_name = "MS", value_parser = quantity::milliseconds, hide_short_help = true)]
    pub(crate) timeout: Option<Duration>,
    /// Only measure how long it takes
    #[arg(short = 'n', long, hide_short_help = true)]
    pub(crate) null: bool,
    /// Have disks written before each run
    #[arg(short = 'S', long, hide_short_help = true)]
    pub(crate) sync: bool,
    /// Have a shell run this before each run of the command
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    pub(crate) pre: Option<String>,
    /// Have a shell run this after each run of the command
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    pub(crate) post: Option<String>,
    /// After intervals, print what all came to
    #[arg(long, requires = "interval", hide_short_help = true)]
    pub(crate) summary: bool,
}

/// Options of `probe`. Without any, lists the probes that there are.
#[derive(Debug, ClapArgs)]
pub(crate) struct Probe {
    /// A probe: `[GROUP:][NAME=]FUNCTION[+BYTES|:LINE|%return]`, or PROVIDER:NAME of a static one
    #[arg(short = 'a', long, value_name = "PROBE", action = ArgAction::Append, conflicts_with_all = ["del", "funcs", "vars", "clean"])]
    pub(crate) add: Vec<String>,
    /// A probe as well, without -a, and what is read there: arg1, $retval, %di, +8(%si):u32, arg1:string; parameters
    /// and their members by name, of kernel functions and where there is debug information
    #[arg(value_name = "PROBE> <ARG", conflicts_with_all = ["del", "funcs", "vars", "clean", "list"])]
    pub(crate) args: Vec<String>,
    /// Print what the kernel would be told of a probe
    #[arg(short = 'D', long, value_name = "PROBE", hide_short_help = true)]
    pub(crate) definition: Option<String>,
    /// The program or library; without it the kernel
    #[arg(short = 'x', long = "exec", value_name = "FILE")]
    pub(crate) exec: Option<PathBuf>,
    /// Remove the probes whose GROUP:NAME matches
    #[arg(short = 'd', long, value_name = "GLOB")]
    pub(crate) del: Option<String>,
    /// List the probes that there are; with -x the static probes of the program
    #[arg(short = 'l', long)]
    pub(crate) list: bool,
    /// List a program's functions and static probes, or without -x the kernel's functions
    #[arg(short = 'F', long, value_name = "GLOB", num_args = 0..=1, default_missing_value = "*")]
    pub(crate) funcs: Option<String>,
    /// Of -F only what matches, or with ! before it what does not
    #[arg(long, value_name = "[!]GLOB", requires = "funcs", hide_short_help = true)]
    pub(crate) filter: Option<String>,
    /// List the parameters of a function
    #[arg(short = 'V', long, value_name = "FUNCTION")]
    pub(crate) vars: Option<String>,
    /// List the lines of a program's function that can be probed, counted from its first; some of them:
    /// FUNCTION:FROM-TO or :FROM+COUNT
    #[arg(short = 'L', long, value_name = "FUNCTION", conflicts_with_all = ["add", "del", "funcs", "vars"])]
    pub(crate) line: Option<String>,
    /// Remove what a session left that was killed
    #[arg(long)]
    pub(crate) clean: bool,
    /// Print what the kernel would be told, and do nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Names, parts of names or globs; also hardware, software, cache, pmu, tracepoint, or a subsystem; containers
    /// lists those that run
    #[arg(value_name = "GLOB")]
    pub(crate) globs: Vec<String>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Names and sorts alone
    #[arg(long)]
    pub(crate) no_desc: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Cpus {
    /// Seconds between two tables
    #[arg(short = 'i', long, value_name = "SECONDS", default_value = "1", value_parser = quantity::duration)]
    pub(crate) interval: Duration,
    /// End after so many tables; without it Ctrl-C does
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = quantity::count::<u64>)]
    pub(crate) count: Option<u64>,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// Measure the time in each softirq vector by its tracepoints
    #[arg(long)]
    pub(crate) softirq_time: bool,
    /// How many points a CPU's share of softirqs must stand above the others' to be told of
    #[arg(long, value_name = "POINTS", default_value_t = 10.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) threshold: f64,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
