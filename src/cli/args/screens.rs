//! Options of the screens: live, and of a recording.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use crate::lang::quantity;

use super::{PERF, Recording, RetentionArgs, Sampling};

/// The first view of a screen, and the sources of names.
#[derive(Debug, ClapArgs)]
pub(crate) struct View {
    /// Columns that tell rows apart: cpu, comm, pid, tid, container, pod, dso, sym, and EVENT.FIELD of a tracepoint
    /// [default: dso,sym]
    #[arg(short = 's', long = "sort", value_name = "KEYS")]
    pub(crate) sort: Option<String>,
    /// Show only samples that match, e.g. 'comm == nginx && !idle'
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Count only the functions themselves, not what they call
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Hide rows below this share
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) percent_limit: f64,
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Do not look inlined functions up
    #[arg(long)]
    pub(crate) no_inline: bool,
    /// A recording to compare with
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// How many points a CPU's share of softirqs must be above the others' to be an anomaly
    #[arg(long, value_name = "POINTS", default_value_t = 10.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) threshold: f64,
    /// Commands to run at the start, as typed after ':'; may be repeated
    #[arg(long = "exec", value_name = "COMMAND", action = ArgAction::Append)]
    pub(crate) exec: Vec<String>,
    /// Begin with this part of the time: FROM,UNTIL in seconds of the recording's clock, -30s,-20s before its end,
    /// 14:03,14:05 in local time, ISO dates and times, or 10%-20%
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
    /// Where S saves snapshots [default: perfprof-DATE-TIME.data]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Colours: true, 256, 16, none, or auto: from the terminal
    #[arg(long, value_name = "DEPTH")]
    pub(crate) color: Option<String>,
    /// Draw with plain ASCII characters [default: where the locale has no UTF-8]
    #[arg(long)]
    pub(crate) ascii: bool,
    /// For slow links: two frames a second at most (found by itself when the terminal lags)
    #[arg(long)]
    pub(crate) slow: bool,
    /// The theme, by name; auto: dark or light, as the terminal's background is
    #[arg(long, value_name = "NAME")]
    pub(crate) theme: Option<String>,
}

/// Options of the live screen.
#[derive(Debug, ClapArgs)]
pub(crate) struct Live {
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    #[command(flatten)]
    pub(crate) view: View,
    #[command(flatten)]
    pub(crate) keeping: RetentionArgs,
    /// Seconds between two updates of the screen
    #[arg(short = 'd', long = "refresh", value_name = "SECONDS", default_value = "1", hide_default_value = true, value_parser = quantity::duration)]
    pub(crate) refresh: Duration,
    /// Measure the time in softirqs and interrupts from the start
    #[arg(long)]
    pub(crate) softirq_time: bool,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) first: First,
    /// A command to run and sample
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

/// What perf top's options have the screen begin with.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct First {
    /// Only these commands
    #[arg(long, value_name = "NAMES", hide_short_help = true)]
    pub(crate) comms: Option<String>,
    /// Only samples in these DSOs
    #[arg(long, value_name = "NAMES", hide_short_help = true)]
    pub(crate) dsos: Option<String>,
    /// Only samples in these functions
    #[arg(long, value_name = "NAMES", hide_short_help = true)]
    pub(crate) symbols: Option<String>,
    /// Without functions of the kernel
    #[arg(short = 'K', long = "hide_kernel_symbols", hide_short_help = true, conflicts_with = "hide_user")]
    pub(crate) hide_kernel: bool,
    /// Without functions of programs
    #[arg(short = 'U', long = "hide_user_symbols", hide_short_help = true)]
    pub(crate) hide_user: bool,
    /// Only what was sampled in the last 30 seconds, as the window of time has it
    #[arg(short = 'z', long, hide_short_help = true)]
    pub(crate) zero: bool,
}

impl First {
    /// The options as clauses of a filter.
    pub(crate) fn clauses(&self) -> Vec<String> {
        let lists = super::clauses_of_lists([&self.comms, &self.dsos, &self.symbols]);
        let hidden = [(self.hide_kernel, "!kernel"), (self.hide_user, "kernel")];
        lists.chain(hidden.into_iter().filter(|(on, _)| *on).map(|(_, clause)| clause.to_owned())).collect()
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Open {
    #[command(flatten)]
    pub(crate) recording: Recording,
    /// Begin with the samples of these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpus: Option<String>,
    /// Two files are pieces of one recording or of two machines, not an old one and a new one to compare
    #[arg(long)]
    pub(crate) together: bool,
    #[command(flatten)]
    pub(crate) view: View,
    /// Of ssh://HOST: options of `record` there, after --
    #[arg(last = true, value_name = "OPTIONS")]
    pub(crate) there: Vec<String>,
}

impl Open {
    /// Of two files that are no pieces of one recording, takes the first away: what to compare with.
    pub(crate) fn old(&mut self) -> Option<PathBuf> {
        let [old, new] = self.recording.files.as_slice() else { return None };
        // What is recorded now is no older than anything.
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

/// The name before the time that `perf record --switch-output` puts behind it.
fn stem(path: &Path) -> Option<&str> {
    let (stem, time) = path.file_name()?.to_str()?.rsplit_once('.')?;
    (time.len() >= 14 && time.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}
