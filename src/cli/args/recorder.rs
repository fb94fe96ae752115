//! Options of `record`, and those of retention and triggers, which the live screen has, too.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs, ValueEnum};

use crate::event::{branches, registers};
use crate::kernel::attr::sample;
use crate::kernel::files::stdout_is_pipe;
use crate::lang::quantity;
use crate::source::live::attr::Extras;

use super::listed::PERF_DATA;
use super::{PERF, Sampling};

/// The flight recorder.
#[derive(Debug, ClapArgs)]
pub(crate) struct RetentionArgs {
    /// Memory that the program may use in all before the oldest samples are dropped; 256M, or less on a machine below 4
    /// GB and where a cgroup limits memory
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// How long samples are kept (30s, 10m, 2h, or all)
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) keep: String,
    /// Save the samples around a moment by itself, e.g. 'softirq% > 30 on any cpu for 2s',
    /// 'runqueue > 2*cpus', 'psi.cpu > 20', 'lost > 0', 'sched:sched_switch > 50k'; may be repeated
    #[arg(long = "trigger", value_name = "CONDITION", action = ArgAction::Append)]
    pub(crate) triggers: Vec<String>,
    /// Where triggers save
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub(crate) trigger_dir: PathBuf,
    /// At most so many snapshots of triggers, and so much of the disk, in that directory
    #[arg(long, value_name = "N[,SIZE]", default_value = "10,1G")]
    pub(crate) trigger_max: String,
    /// How much of what came before and after a trigger is saved
    #[arg(long, value_name = "BEFORE[,AFTER]", default_value = "60s,5s")]
    pub(crate) trigger_span: String,
    /// How long no trigger fires after one has
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) trigger_pause: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Record {
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    #[command(flatten)]
    pub(crate) keeping: RetentionArgs,
    /// The file to write; one that is there becomes FILE.old. - for a stream to standard output, which
    /// `perfprof-tui open -` and `perf report -i -` read while it is written [default: perf.data; - where standard
    /// output is a pipe]
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Put the names of functions into the stream, for a reader on another machine (perf cannot read it then)
    #[arg(long)]
    pub(crate) names: bool,
    /// Send profiles of each interval to a store of continuous profiles instead of writing a file: http:// or
    /// https://HOST:PORT, or otlp://HOST:PORT for whatever takes OTLP by gRPC (otlps:// with TLS)
    #[arg(long, value_name = "URL", conflicts_with_all = ["triggers", "names"])]
    pub(crate) push: Option<String>,
    /// A file with USER:PASSWORD or Bearer TOKEN for the store; or put that into PERFPROF_PUSH_AUTH
    #[arg(long, value_name = "FILE", requires = "push")]
    pub(crate) push_auth_file: Option<PathBuf>,
    /// What a store at http:// or https:// is [default: pyroscope]
    #[arg(long, value_enum, requires = "push")]
    pub(crate) push_to: Option<StoreArg>,
    /// The name of the application there
    #[arg(long, value_name = "NAME", default_value = "perfprof", requires = "push")]
    pub(crate) push_name: String,
    /// A label, NAME=VALUE; may be repeated. The host's name is one
    #[arg(long = "push-label", value_name = "LABEL", action = ArgAction::Append, requires = "push")]
    pub(crate) push_labels: Vec<String>,
    /// Seconds that a profile is of
    #[arg(long, value_name = "SECONDS", default_value = "10", requires = "push", value_parser = quantity::duration)]
    pub(crate) push_interval: Duration,
    /// Say nothing at the end
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) more: More,
    /// A command to run and record; without one recording ends with Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

impl Record {
    /// The file to write, - for a stream: whom a pipe leads to wants the recording, where nothing else was said.
    pub(crate) fn target(&self) -> &Path {
        let more = &self.more;
        let has_name = more.switch_output.is_some() || more.timestamp_filename || more.overwrite;
        let usual = || if stdout_is_pipe() && !has_name { "-" } else { PERF_DATA };
        self.output.as_deref().unwrap_or_else(|| Path::new(usual()))
    }

    /// Whether it is written to standard output.
    pub(crate) fn is_streamed(&self) -> bool {
        self.target().as_os_str() == "-"
    }
}

/// What perf record can have in a recording besides, and how it can end or divide it.
#[derive(Debug, ClapArgs)]
pub(crate) struct More {
    /// Sample the addresses of data that was touched
    #[arg(short = 'd', long = "data", hide_short_help = true)]
    pub(crate) data: bool,
    /// Sample the physical addresses of that data
    #[arg(long = "phys-data", hide_short_help = true)]
    pub(crate) phys_data: bool,
    /// Sample the size of the page that was touched
    #[arg(long = "data-page-size", hide_short_help = true)]
    pub(crate) data_page_size: bool,
    /// Sample the size of the page that the code is in
    #[arg(long = "code-page-size", hide_short_help = true)]
    pub(crate) code_page_size: bool,
    /// Sample the weight of memory events
    #[arg(short = 'W', long = "weight", hide_short_help = true)]
    pub(crate) weight: bool,
    /// Sample the state of memory transactions
    #[arg(long = "transaction", hide_short_help = true)]
    pub(crate) transaction: bool,
    /// Sample the branches that were taken before, of any sort, where the CPU has them
    #[arg(short = 'b', long = "branch-any", hide_short_help = true)]
    pub(crate) branch_any: bool,
    /// The same of some sorts: any, any_call, any_ret, ind_call, cond, call…, and u, k, hv, as perf record has them
    #[arg(short = 'j', long = "branch-filter", value_name = "SORTS", value_parser = branches::parse, hide_short_help = true)]
    pub(crate) branch_filter: Option<u64>,
    /// Sample registers as they were at the interrupt: --intr-regs=ax,ip,sp, all without a list, ? lists them
    #[arg(short = 'I', long = "intr-regs", value_name = "REGISTERS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = registers::parse, hide_short_help = true)]
    pub(crate) intr_regs: Option<u64>,
    /// The same of the task in user code
    #[arg(long = "user-regs", value_name = "REGISTERS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = registers::parse, hide_short_help = true)]
    pub(crate) user_regs: Option<u64>,
    /// Take no samples: only what tells of tasks, mappings and switches is recorded
    #[arg(short = 'n', long = "no-samples", hide_short_help = true)]
    pub(crate) no_samples: bool,
    /// Keep only the newest samples (--keep, --memory) and write them at the end; also at each SIGUSR2 or after each
    /// TIME, with --switch-output[=TIME]
    #[arg(long, conflicts_with_all = ["max_size", "push", "triggers", "compression"], hide_short_help = true)]
    pub(crate) overwrite: bool,
    /// Record what each thread that is followed counted, at its end
    #[arg(short = 's', long = "stat", hide_short_help = true)]
    pub(crate) thread_counts: bool,
    /// Call chains of the kernel alone
    #[arg(long = "kernel-callchains", hide_short_help = true)]
    pub(crate) kernel_callchains: bool,
    /// Call chains of programs alone
    #[arg(long = "user-callchains", hide_short_help = true)]
    pub(crate) user_callchains: bool,
    /// Record each switch of tasks
    #[arg(long = "switch-events", hide_short_help = true)]
    pub(crate) switch_events: bool,
    /// Record namespaces of tasks
    #[arg(long = "namespaces", hide_short_help = true)]
    pub(crate) namespaces: bool,
    /// Do not record BPF programs that are loaded
    #[arg(long = "no-bpf-event", hide_short_help = true)]
    pub(crate) no_bpf_event: bool,
    /// Do not record build ids
    #[arg(short = 'B', long = "no-buildid", hide_short_help = true)]
    pub(crate) no_buildid: bool,
    /// Record build ids of all files that are mapped (always so)
    #[arg(long = "buildid-all", hide = true)]
    pub(crate) buildid_all: bool,
    /// Count all events as one group
    #[arg(long = "group", hide_short_help = true)]
    pub(crate) group: bool,
    /// Sample the time off the CPUs, too: adds sched:sched_switch, of which `report` makes it
    #[arg(long = "off-cpu", hide_short_help = true)]
    pub(crate) off_cpu: bool,
    /// The clock of times: monotonic, which it always is
    #[arg(short = 'k', long = "clockid", value_name = "CLOCK", hide_short_help = true)]
    pub(crate) clockid: Option<String>,
    /// Compress records, at a level from 1 to 22: above 4 as at 4
    #[arg(short = 'z', long = "compression-level", value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22), hide_short_help = true)]
    pub(crate) compression: Option<i32>,
    /// Say what is wrong with the arguments, and record nothing
    #[arg(long = "dry-run", hide_short_help = true)]
    pub(crate) dry_run: bool,
    /// End when the file has this size
    #[arg(long = "max-size", value_name = "SIZE", value_parser = quantity::size::<u64>, hide_short_help = true)]
    pub(crate) max_size: Option<u64>,
    /// Begin a new file at each SIGUSR2 (signal), after a size or a time; files are called FILE.TIME
    #[arg(long = "switch-output", value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true, default_missing_value = "signal", hide_short_help = true)]
    pub(crate) switch_output: Option<String>,
    /// Keep only so many of those files
    #[arg(long = "switch-max-files", value_name = "N", requires = "switch_output", value_parser = quantity::count::<usize>, hide_short_help = true)]
    pub(crate) switch_max_files: Option<usize>,
    /// Call the file FILE.TIME
    #[arg(long = "timestamp-filename", hide_short_help = true)]
    pub(crate) timestamp_filename: bool,
}

impl More {
    /// What samples and side-band have besides.
    pub(crate) fn extras(&self) -> Extras {
        let fields = [
            (self.data || self.phys_data, sample::ADDR),
            (self.phys_data, sample::PHYS_ADDR),
            (self.data_page_size, sample::ADDR | sample::DATA_PAGE_SIZE),
            (self.code_page_size, sample::CODE_PAGE_SIZE),
            (self.weight, sample::WEIGHT),
            (self.transaction, sample::TRANSACTION),
        ];
        Extras {
            fields: fields.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, bits)| all | bits),
            kernel_chains_only: self.kernel_callchains,
            user_chains_only: self.user_callchains,
            switches: self.switch_events,
            namespaces: self.namespaces,
            no_bpf: self.no_bpf_event,
            thread_counts: self.thread_counts,
            branches: self.branch_filter.unwrap_or(if self.branch_any { branches::ANY } else { 0 }),
            intr_regs: self.intr_regs.unwrap_or(0),
            user_regs: self.user_regs.unwrap_or(0),
        }
    }
}

/// Stores of continuous profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreArg {
    /// Grafana Pyroscope
    Pyroscope,
    /// Parca
    Parca,
}
