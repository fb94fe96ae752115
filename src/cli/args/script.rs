//! Options of `script`.

use clap::Args as ClapArgs;

use crate::report::script::ScriptOptions;

use super::{FrameArgs, PERF, RecordingArgs, SelectionArgs};

#[derive(Debug, ClapArgs)]
pub(crate) struct ScriptArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    #[command(flatten)]
    pub(crate) which: SelectionArgs,
    /// Fields to print: comm, pid, tid, cpu, time, period, event, trace, ip, sym, symoff, dso, srcline, addr, misc…;
    /// +FIELD and -FIELD change the default, hw:, sw: or trace: before the list chooses a type of event
    #[arg(short = 'F', long = "fields", value_name = "FIELDS", allow_hyphen_values = true)]
    pub(crate) fields: Vec<String>,
    /// Print times with nine digits
    #[arg(long)]
    pub(crate) ns: bool,
    /// Print every record: its offset, bytes and contents
    #[arg(short = 'D', long = "dump-raw-trace")]
    pub(crate) dump: bool,
    /// Also print the header of the recording
    #[arg(long, hide_short_help = true)]
    pub(crate) header: bool,
    /// Print only the header of the recording (--header: in addition)
    #[arg(long)]
    pub(crate) header_only: bool,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) rare: RareScript,
}

/// Less common options of perf script.
#[derive(Debug, ClapArgs)]
pub(crate) struct RareScript {
    /// Print the header with the machine's CPUs, caches and memory
    #[arg(short = 'I', long = "show-info")]
    pub(crate) info: bool,
    /// Like -D, in the order of the file, without decoded samples
    #[arg(long = "dump-unsorted-raw-trace")]
    pub(crate) dump_unsorted: bool,
    #[command(flatten)]
    pub(crate) lines: ScriptOptions,
    /// Also print comms, starts and exits of threads
    #[arg(long = "show-task-events")]
    pub(crate) tasks: bool,
    /// Also print mappings
    #[arg(long = "show-mmap-events")]
    pub(crate) mmaps: bool,
    /// Also print context switches
    #[arg(long = "show-switch-events")]
    pub(crate) switches: bool,
    /// Also print namespaces
    #[arg(long = "show-namespace-events")]
    pub(crate) namespaces: bool,
    /// Also print lost records
    #[arg(long = "show-lost-events")]
    pub(crate) losses: bool,
    /// Also print cgroups
    #[arg(long = "show-cgroup-events")]
    pub(crate) cgroups: bool,
    /// Also print BPF programs that were loaded and unloaded
    #[arg(long = "show-bpf-events")]
    pub(crate) bpf: bool,
    /// Also print the points at which the recorder had read all ring buffers
    #[arg(long = "show-round-events")]
    pub(crate) rounds: bool,
    /// Also print changes of kernel code
    #[arg(long = "show-text-poke-events")]
    pub(crate) text_pokes: bool,
}
