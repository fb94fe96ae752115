//! Options of `evlist`, `buildid-list` and `inject`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::kernel::files::stdin_is_pipe;

use super::NameArgs;

/// Returns the default input, like perf: standard input if it is a pipe, else perf.data.
pub(crate) fn usual_input() -> PathBuf {
    PathBuf::from(if stdin_is_pipe() { "-" } else { PERF_DATA })
}

/// perf's default file name.
pub(crate) const PERF_DATA: &str = "perf.data";

/// A recording given with or without `-i`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct NamedRecording {
    /// Recording; - for standard input [default: perf.data]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Recording, like perf's -i
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "file")]
    pub(crate) input: Option<PathBuf>,
}

impl NamedRecording {
    pub(crate) fn path(&self) -> PathBuf {
        self.input.clone().or_else(|| self.file.clone()).unwrap_or_else(usual_input)
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EvlistArgs {
    #[command(flatten)]
    pub(crate) recording: NamedRecording,
    /// Print the sampling rate of each event
    #[arg(short = 'F', long)]
    pub(crate) freq: bool,
    /// Print event groups
    #[arg(short = 'g', long, conflicts_with_all = ["freq", "verbose", "trace_fields"])]
    pub(crate) group: bool,
    /// Print the attributes of each event
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Print the fields of tracepoints
    #[arg(long)]
    pub(crate) trace_fields: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BuildidListArgs {
    #[command(flatten)]
    pub(crate) recording: NamedRecording,
    /// Only files with samples
    #[arg(short = 'H', long)]
    pub(crate) with_hits: bool,
    /// Print the build id of the running kernel
    #[arg(short = 'k', long, conflicts_with_all = ["kernel_maps", "with_hits"])]
    pub(crate) kernel: bool,
    /// Print build ids and addresses of the running kernel and its modules
    #[arg(short = 'm', long, conflicts_with = "with_hits")]
    pub(crate) kernel_maps: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InjectArgs {
    #[command(flatten)]
    pub(crate) recording: NamedRecording,
    /// Output file, or - for standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Set the period of each switch to sleep to the length of the sleep, so that samples of sched:sched_switch show
    /// where tasks slept and how long
    #[arg(short = 's', long)]
    pub(crate) sched_stat: bool,
    /// Add missing build ids of files with samples, from the files on this machine
    #[arg(short = 'b', long)]
    pub(crate) build_ids: bool,
    /// Add the build ids of all mapped files
    #[arg(long)]
    pub(crate) buildid_all: bool,
    #[command(flatten)]
    pub(crate) names: NameArgs,
}
