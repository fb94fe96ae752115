//! Options of the commands that list what a recording has, `evlist` and `buildid-list`, and of `inject`, which writes
//! it anew.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::kernel::files::stdin_is_pipe;

use super::NameArgs;

/// The recording where none is named, as perf has it: standard input where that is a pipe, else perf.data.
pub(crate) fn usual_input() -> PathBuf {
    PathBuf::from(if stdin_is_pipe() { "-" } else { PERF_DATA })
}

/// The file of perf's commands where none is named.
pub(crate) const PERF_DATA: &str = "perf.data";

/// A recording by its name, with or without `-i`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct NamedRecording {
    /// The recording; - for standard input [default: perf.data]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The recording, in perf's spelling
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "file")]
    pub(crate) input: Option<PathBuf>,
}

impl NamedRecording {
    pub(crate) fn path(&self) -> PathBuf {
        self.input.clone().or_else(|| self.file.clone()).unwrap_or_else(usual_input)
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Evlist {
    #[command(flatten)]
    pub(crate) recording: NamedRecording,
    /// Print how often each is sampled
    #[arg(short = 'F', long)]
    pub(crate) freq: bool,
    /// Print groups as groups
    #[arg(short = 'g', long, conflicts_with_all = ["freq", "verbose", "trace_fields"])]
    pub(crate) group: bool,
    /// Print how each is configured
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Print the fields of tracepoints
    #[arg(long)]
    pub(crate) trace_fields: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BuildidList {
    #[command(flatten)]
    pub(crate) recording: NamedRecording,
    /// Only files in which samples are
    #[arg(short = 'H', long)]
    pub(crate) with_hits: bool,
    /// Print the build id of the kernel that runs here
    #[arg(short = 'k', long, conflicts_with_all = ["kernel_maps", "with_hits"])]
    pub(crate) kernel: bool,
    /// Print those of the kernel and the modules that run here, and where they are
    #[arg(short = 'm', long, conflicts_with = "with_hits")]
    pub(crate) kernel_maps: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inject {
    #[command(flatten)]
    pub(crate) recording: NamedRecording,
    /// The file to write
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Give the switch by which a task went to sleep the length of its sleep as its period: samples of
    /// sched:sched_switch then say where tasks slept and how long
    #[arg(short = 's', long)]
    pub(crate) sched_stat: bool,
    /// Add the build ids of files in which samples are and that have none, from the files that are here
    #[arg(short = 'b', long)]
    pub(crate) build_ids: bool,
    /// Add those of all mapped files
    #[arg(long)]
    pub(crate) buildid_all: bool,
    #[command(flatten)]
    pub(crate) names: NameArgs,
}
