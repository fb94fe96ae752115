//! Options of the live screen and of `open`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use crate::lang::quantity;

use super::{PERF, RecordingArgs, RetentionArgs, Sampling};

/// Initial view of a screen.
#[derive(Debug, ClapArgs)]
pub(crate) struct ViewArgs {
    /// Columns that identify rows: cpu, comm, pid, tid, container, pod, dso, sym, and EVENT.FIELD of a tracepoint
    /// [default: dso,sym]
    #[arg(short = 's', long = "sort", value_name = "KEYS")]
    pub(crate) sort: Option<String>,
    /// Show only samples that match, e.g. 'comm == nginx && !idle'
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Count only the functions themselves, not their callees
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Hide rows below this share in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) percent_limit: f64,
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Do not look up inlined functions
    #[arg(long)]
    pub(crate) no_inline: bool,
    /// A recording to compare with
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Percentage points of softirq time above the other CPUs from which a CPU is an anomaly [default: 10]
    #[arg(long, value_name = "POINTS", default_value_t = 10.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) threshold: f64,
    /// Commands to run at the start, as typed after ':'; may be repeated
    #[arg(long = "exec", value_name = "COMMAND", action = ArgAction::Append)]
    pub(crate) exec: Vec<String>,
    /// Begin with this range of time, such as -30s,-20s or 14:03,14:05: FROM,UNTIL in seconds of the recording's clock,
    /// -30s,-20s before its end, 14:03,14:05 in local time, ISO dates and times, or 10%-20%
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
    /// File for snapshots saved by S [default: perfprof-DATE-TIME.data]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Colours: true, 256, 16, none, or auto (from the terminal)
    #[arg(long, value_name = "DEPTH")]
    pub(crate) color: Option<String>,
    /// Draw with plain ASCII characters [default: in locales without UTF-8]
    #[arg(long)]
    pub(crate) ascii: bool,
    /// For slow links: at most two frames per second (automatic if the terminal lags)
    #[arg(long)]
    pub(crate) slow: bool,
    /// Theme by name, or auto: dark or light like the terminal's background
    #[arg(long, value_name = "NAME")]
    pub(crate) theme: Option<String>,
}

/// Options of the live screen.
#[derive(Debug, ClapArgs)]
pub(crate) struct LiveArgs {
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    #[command(flatten)]
    pub(crate) keeping: RetentionArgs,
    /// Seconds between updates of the screen [default: 1]
    #[arg(short = 'd', long = "refresh", value_name = "SECONDS", default_value = "1", hide_default_value = true, value_parser = quantity::duration)]
    pub(crate) refresh: Duration,
    /// Measure the time in softirqs and interrupts from the start
    #[arg(long)]
    pub(crate) softirq_time: bool,
    /// Do not keep the time that threads sleep (event off-cpu-time)
    #[arg(long)]
    pub(crate) no_off_cpu: bool,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) first: First,
    /// Command to run and sample
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

/// perf top's options for the initial view.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct First {
    /// Only these comms
    #[arg(long, value_name = "NAMES")]
    pub(crate) comms: Option<String>,
    /// Only samples in these DSOs
    #[arg(long, value_name = "NAMES")]
    pub(crate) dsos: Option<String>,
    /// Only samples in these functions, by name or glob
    #[arg(long, value_name = "NAMES")]
    pub(crate) symbols: Option<String>,
    /// Hide kernel functions
    #[arg(short = 'K', long = "hide_kernel_symbols", conflicts_with = "hide_user")]
    pub(crate) hide_kernel: bool,
    /// Hide user functions
    #[arg(short = 'U', long = "hide_user_symbols")]
    pub(crate) hide_user: bool,
    /// Only samples of the last 30 seconds (default)
    #[arg(short = 'z', long)]
    pub(crate) zero: bool,
}

impl First {
    pub(crate) fn clauses(&self) -> Vec<String> {
        let lists = super::clauses_of_lists([&self.comms, &self.dsos, &self.symbols]);
        let hidden = [(self.hide_kernel, "!kernel"), (self.hide_user, "kernel")];
        lists.chain(hidden.into_iter().filter(|(on, _)| *on).map(|(_, clause)| clause.to_owned())).collect()
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    /// Begin with only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// Merge two files, as parts of one recording or of two machines, instead of comparing them
    #[arg(long)]
    pub(crate) together: bool,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    /// After --: options of `record` on ssh://HOST
    #[arg(last = true, value_name = "OPTIONS")]
    pub(crate) there: Vec<String>,
}

impl OpenArgs {
    /// Removes and returns the first of two files as the baseline, unless they are parts of one recording.
    pub(crate) fn old(&mut self) -> Option<PathBuf> {
        let [old, new] = self.recording.files.as_slice() else { return None };
        // A live stream cannot be the older recording.
        let runs = |path: &PathBuf| path.to_str().is_some_and(|text| text.starts_with("ssh://") || text == "-");
        if self.together
            || runs(old)
            || runs(new)
            || self.view.baseline.is_some()
            || (stem(old).is_some() && stem(old) == stem(new))
        {
            return None;
        }
        Some(self.recording.files.remove(0))
    }
}

/// Returns the file name without the time that `perf record --switch-output` appends.
fn stem(path: &Path) -> Option<&str> {
    let (stem, time) = path.file_name()?.to_str()?.rsplit_once('.')?;
    (time.len() >= 14 && time.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}
