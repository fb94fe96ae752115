//! Options of `record`, and of retention and triggers, which the live screen shares.

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

/// Retention and triggers.
#[derive(Debug, ClapArgs)]
pub(crate) struct RetentionArgs {
    /// Memory limit of the program; the oldest samples are dropped first [default: 256M, less on machines below 4 GB
    /// and in cgroups with a limit]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// How long to keep samples (30s, 10m, 2h, or all)
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) keep: String,
    /// Save the samples around the moment a condition becomes true, e.g. 'softirq% > 30 on any cpu for 2s', 'runqueue >
    /// 2*cpus', 'psi.cpu > 20', 'lost > 0', 'sched:sched_switch > 50k'; may be repeated
    #[arg(long = "trigger", value_name = "CONDITION", action = ArgAction::Append)]
    pub(crate) triggers: Vec<String>,
    /// Directory for snapshots of triggers [default: .]
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub(crate) trigger_dir: PathBuf,
    /// Maximum number and total size of snapshots in that directory
    #[arg(long, value_name = "N[,SIZE]", default_value = "10,1G")]
    pub(crate) trigger_max: String,
    /// Time to save before and after a trigger
    #[arg(long, value_name = "BEFORE[,AFTER]", default_value = "60s,5s")]
    pub(crate) trigger_span: String,
    /// Pause after a trigger before the next can fire
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) trigger_pause: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    #[command(flatten)]
    pub(crate) keeping: RetentionArgs,
    /// Output file [default: perf.data, or - if standard output is a pipe]; an existing file becomes FILE.old; -
    /// streams to standard output, for `perfprof-tui open -` and `perf report -i -`
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Include function names in the recording, for a reader on another machine or after a deleted program has exited;
    /// perf cannot read it
    #[arg(long)]
    pub(crate) names: bool,
    /// Send a profile per interval to a profile store instead of writing a file: http:// or https://HOST:PORT, or
    /// otlp://HOST:PORT for OTLP over gRPC (otlps:// with TLS)
    #[arg(long, value_name = "URL", conflicts_with_all = ["triggers", "names"])]
    pub(crate) push: Option<String>,
    /// File with USER:PASSWORD or Bearer TOKEN for the store; the variable PERFPROF_PUSH_AUTH works, too
    #[arg(long, value_name = "FILE", requires = "push")]
    pub(crate) push_auth_file: Option<PathBuf>,
    /// Type of a store at http:// or https:// [default: pyroscope]
    #[arg(long, value_enum, requires = "push")]
    pub(crate) push_to: Option<StoreArg>,
    /// Application name in the store
    #[arg(long, value_name = "NAME", default_value = "perfprof", requires = "push")]
    pub(crate) push_name: String,
    /// Label NAME=VALUE; may be repeated. The host name is always a label
    #[arg(long = "push-label", value_name = "LABEL", action = ArgAction::Append, requires = "push")]
    pub(crate) push_labels: Vec<String>,
    /// Duration of each profile in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", requires = "push", value_parser = quantity::duration)]
    pub(crate) push_interval: Duration,
    /// Print no summary at the end
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) more: More,
    /// Command to run and record; without it, Ctrl-C ends the recording
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

impl RecordArgs {
    /// Returns the output file, or - for a stream: the default for a pipe on standard output.
    pub(crate) fn target(&self) -> &Path {
        let more = &self.more;
        let has_name = more.switch_output.is_some() || more.timestamp_filename || more.overwrite;
        let usual = || if stdout_is_pipe() && !has_name { "-" } else { PERF_DATA };
        self.output.as_deref().unwrap_or_else(|| Path::new(usual()))
    }

    pub(crate) fn is_streamed(&self) -> bool {
        self.target().as_os_str() == "-"
    }
}

/// Less common options of perf record: more fields and records, and how a recording ends or is split.
#[derive(Debug, ClapArgs)]
pub(crate) struct More {
    /// Sample the addresses of accessed data
    #[arg(short = 'd', long = "data")]
    pub(crate) data: bool,
    /// Sample the physical addresses of accessed data
    #[arg(long = "phys-data")]
    pub(crate) phys_data: bool,
    /// Sample the page size of accessed data
    #[arg(long = "data-page-size")]
    pub(crate) data_page_size: bool,
    /// Sample the page size of the code
    #[arg(long = "code-page-size")]
    pub(crate) code_page_size: bool,
    /// Sample the weight of memory events
    #[arg(short = 'W', long = "weight")]
    pub(crate) weight: bool,
    /// Sample the state of memory transactions
    #[arg(long = "transaction")]
    pub(crate) transaction: bool,
    /// Sample the branches before each sample, of any type, if the CPU records them
    #[arg(short = 'b', long = "branch-any")]
    pub(crate) branch_any: bool,
    /// Sample branches of these types: any, any_call, any_ret, ind_call, cond, call…, and u, k, hv, like perf record
    #[arg(short = 'j', long = "branch-filter", value_name = "SORTS", value_parser = branches::parse)]
    pub(crate) branch_filter: Option<u64>,
    /// Sample registers at the interrupt: --intr-regs=ax,ip,sp; without a list, all; ? lists them
    #[arg(short = 'I', long = "intr-regs", value_name = "REGISTERS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = registers::parse)]
    pub(crate) intr_regs: Option<u64>,
    /// Sample the user registers of the task, in the same form
    #[arg(long = "user-regs", value_name = "REGISTERS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = registers::parse)]
    pub(crate) user_regs: Option<u64>,
    /// Record no samples, only tasks, mappings and switches
    #[arg(short = 'n', long = "no-samples")]
    pub(crate) no_samples: bool,
    /// Keep only the newest samples (--keep, --memory) and write them at the end; with --switch-output[=TIME], also at
    /// each SIGUSR2 or after each TIME
    #[arg(long, conflicts_with_all = ["max_size", "push", "triggers", "compression"])]
    pub(crate) overwrite: bool,
    /// Record the counts of each followed thread at its end
    #[arg(short = 's', long = "stat")]
    pub(crate) thread_counts: bool,
    /// Record only kernel call chains
    #[arg(long = "kernel-callchains")]
    pub(crate) kernel_callchains: bool,
    /// Record only user call chains
    #[arg(long = "user-callchains")]
    pub(crate) user_callchains: bool,
    /// Record each context switch
    #[arg(long = "switch-events")]
    pub(crate) switch_events: bool,
    /// Record the namespaces of tasks
    #[arg(long = "namespaces")]
    pub(crate) namespaces: bool,
    /// Do not record BPF programs that are loaded
    #[arg(long = "no-bpf-event")]
    pub(crate) no_bpf_event: bool,
    /// Do not record build ids
    #[arg(short = 'B', long = "no-buildid")]
    pub(crate) no_buildid: bool,
    /// Count all events as one group
    #[arg(long = "group")]
    pub(crate) group: bool,
    /// Also record time off the CPUs: adds sched:sched_switch, from which `report` computes it
    #[arg(long = "off-cpu")]
    pub(crate) off_cpu: bool,
    /// Clock of timestamps; only monotonic is supported
    #[arg(short = 'k', long = "clockid", value_name = "CLOCK")]
    pub(crate) clockid: Option<String>,
    /// Compress records, level 1 to 22; levels above 4 equal 4
    #[arg(short = 'z', long = "compression-level", value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub(crate) compression: Option<i32>,
    /// Check the arguments, record nothing
    #[arg(long = "dry-run")]
    pub(crate) dry_run: bool,
    /// End when the file reaches SIZE
    #[arg(long = "max-size", value_name = "SIZE", value_parser = quantity::size::<u64>)]
    pub(crate) max_size: Option<u64>,
    /// Begin a new file FILE.TIME at each SIGUSR2 (signal), or after a size or time
    #[arg(long = "switch-output", value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true, default_missing_value = "signal")]
    pub(crate) switch_output: Option<String>,
    /// Keep only the newest N of these files
    #[arg(long = "switch-max-files", value_name = "N", requires = "switch_output", value_parser = quantity::count::<usize>)]
    pub(crate) switch_max_files: Option<usize>,
    /// Name the file FILE.TIME
    #[arg(long = "timestamp-filename")]
    pub(crate) timestamp_filename: bool,
}

impl More {
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
            deferred: false,
            defers_fp: false,
            switches: self.switch_events,
            namespaces: self.namespaces,
            no_bpf: self.no_bpf_event,
            thread_counts: self.thread_counts,
            branches: self.branch_filter.unwrap_or(if self.branch_any { branches::ANY } else { 0 }),
            intr_regs: self.intr_regs.unwrap_or(0),
            user_regs: self.user_regs.unwrap_or(0),
            call_regs: 0,
        }
    }
}

/// Types of profile stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreArg {
    /// Grafana Pyroscope
    Pyroscope,
    /// Parca
    Parca,
}
