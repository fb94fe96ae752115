//! Options of `digest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::lang::quantity;

use super::{NameArgs, OutputFormat};

#[derive(Debug, ClapArgs)]
pub(crate) struct DigestArgs {
    /// Recordings, like those of `report` [default: the running machine]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Recording, like perf's -i
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "files")]
    pub(crate) input: Option<PathBuf>,
    /// Time to sample the running machine, e.g. 30s
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = quantity::duration, conflicts_with_all = ["files", "input"])]
    pub(crate) duration: Duration,
    /// Only these processes; on the running machine also their descendants
    #[arg(short = 'p', long = "pid", value_name = "PIDS")]
    pub(crate) pid: Option<String>,
    /// Only these threads
    #[arg(short = 't', long = "tid", value_name = "TIDS", conflicts_with = "pid")]
    pub(crate) tid: Option<String>,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpu: Option<String>,
    /// A container by name, beginning of its id, or a glob
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "tid"])]
    pub(crate) container: Option<String>,
    /// Only samples that match, e.g. 'comm == nginx && user'
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Only this range of a recording's time, like that of `report`
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
    /// The recording's event, by its name or a prefix
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// The maximum number of lines
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) lines: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
    #[command(flatten)]
    pub(crate) names: NameArgs,
}
