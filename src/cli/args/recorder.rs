//! Options of `record`, and those of retention and triggers, which the live screen has, too.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs, ValueEnum};

use crate::lang::quantity;

use super::Sampling;

/// The flight recorder.
#[derive(Debug, ClapArgs)]
pub(crate) struct RetentionArgs {
    /// Memory that the program may use in all before the oldest samples are dropped; 256M, or less on a machine below 4 GB and where a cgroup limits memory
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
    /// `perfprof-tui open -` and `perf report -i -` read while it is written
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "perf.data")]
    pub(crate) output: PathBuf,
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
    /// A command to run and record; without one recording ends with Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

/// Stores of continuous profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreArg {
    /// Grafana Pyroscope
    Pyroscope,
    /// Parca
    Parca,
}
