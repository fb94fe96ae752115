//! Options of `script`: what is printed of samples, and of the other records.

use clap::Args as ClapArgs;

use crate::lang::quantity;

use super::{FrameArgs, PERF, Recording, SampleSelection};

#[derive(Debug, ClapArgs)]
pub(crate) struct Script {
    #[command(flatten)]
    pub(crate) recording: Recording,
    #[command(flatten)]
    pub(crate) which: SampleSelection,
    /// Fields to print: comm, pid, tid, cpu, time, period, event, trace, ip, sym, symoff, dso, srcline, addr, misc…;
    /// +FIELD and -FIELD change the default, hw:, sw: or trace: before the list chooses a type of event
    #[arg(short = 'F', long = "fields", value_name = "FIELDS", allow_hyphen_values = true)]
    pub(crate) fields: Vec<String>,
    /// Times with nine digits
    #[arg(long)]
    pub(crate) ns: bool,
    /// Print every record: where it stands, its bytes, what it says
    #[arg(short = 'D', long = "dump-raw-trace")]
    pub(crate) dump: bool,
    /// Print what the head of the recording says, too
    #[arg(long, hide_short_help = true)]
    pub(crate) header: bool,
    /// Print only what the head of the recording says (--header: that, too)
    #[arg(long)]
    pub(crate) header_only: bool,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) rare: RareScript,
}

/// Options of perf script that few know.
#[derive(Debug, ClapArgs)]
pub(crate) struct RareScript {
    /// The head with the machine's CPUs, caches and memory
    #[arg(short = 'I', long = "show-info", hide_short_help = true)]
    pub(crate) info: bool,
    /// As -D, in the order of the file, and without samples in words
    #[arg(long = "dump-unsorted-raw-trace", hide_short_help = true)]
    pub(crate) dump_unsorted: bool,
    /// Print the sampled function only, not the call chain
    #[arg(short = 'G', long = "hide-call-graph", hide_short_help = true)]
    pub(crate) hide_chains: bool,
    /// Print at most so many frames of a call chain
    #[arg(long = "max-stack", value_name = "FRAMES", value_parser = quantity::count::<usize>, hide_short_help = true)]
    pub(crate) max_stack: Option<usize>,
    /// End call chains at these functions
    #[arg(long = "stop-bt", value_name = "SYMBOLS", value_delimiter = ',', hide_short_help = true)]
    pub(crate) stop_at: Vec<String>,
    /// Print times since the first line
    #[arg(long = "reltime", conflicts_with = "deltatime", hide_short_help = true)]
    pub(crate) reltime: bool,
    /// Print times since the line before
    #[arg(long = "deltatime", hide_short_help = true)]
    pub(crate) deltatime: bool,
    /// Narrow columns
    #[arg(short = 'L', long = "Latency", hide_short_help = true)]
    pub(crate) narrow: bool,
    /// Print also names, beginnings and ends of threads
    #[arg(long = "show-task-events", hide_short_help = true)]
    pub(crate) tasks: bool,
    /// Print also mappings
    #[arg(long = "show-mmap-events", hide_short_help = true)]
    pub(crate) mmaps: bool,
    /// Print also context switches
    #[arg(long = "show-switch-events", hide_short_help = true)]
    pub(crate) switches: bool,
    /// Print also namespaces
    #[arg(long = "show-namespace-events", hide_short_help = true)]
    pub(crate) namespaces: bool,
    /// Print also losses
    #[arg(long = "show-lost-events", hide_short_help = true)]
    pub(crate) losses: bool,
    /// Print also cgroups
    #[arg(long = "show-cgroup-events", hide_short_help = true)]
    pub(crate) cgroups: bool,
    /// Print also BPF programs that came and went
    #[arg(long = "show-bpf-events", hide_short_help = true)]
    pub(crate) bpf: bool,
    /// Print also where the recorder had read all rings once
    #[arg(long = "show-round-events", hide_short_help = true)]
    pub(crate) rounds: bool,
    /// Print also changes that the kernel made to its code
    #[arg(long = "show-text-poke-events", hide_short_help = true)]
    pub(crate) text_pokes: bool,
}
