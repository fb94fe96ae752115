//! Options of the commands that read recordings: input files, sources of names, selection of samples.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::filter::{equals, is_function};
use crate::lang::quantity;
use crate::query::diff::NormalizeBy;
use crate::report::diff::Compute;
use crate::report::rows::options::{ReportOptions, ShareOf, separator};

use super::{OutputFormat, PERF, StoreQueryArgs};

/// Recordings to open, and the sources of their names.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct RecordingArgs {
    /// perf.data, a directory of `perf record --threads`, `perf script` text, folded stacks, or a profile as pprof, JFR,
    /// .cpuprofile, .heapprofile or JSON of Firefox, samply or speedscope; plain, gzip or zstd; also several files of one
    /// recording or of several machines; - for standard input; http://HOST:PORT/PATH for a profile of a service;
    /// ssh://HOST or ssh://USER@HOST:PORT to record another machine now; pyroscope://HOST or parca://HOST for profiles
    /// of a store (--query) [default: perf.data]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Recording, like perf's -i
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "files")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreQueryArgs,
    /// Options of `record` on other machines.
    #[arg(skip)]
    pub(crate) there: Vec<String>,
}

/// Sources of a recording's names.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct NameArgs {
    /// Root directory with the recorded machine's files; DIR,flat has all files in DIR itself
    #[arg(long, value_name = "DIR[,LAYOUT]", value_parser = Symfs::parse)]
    pub(crate) symfs: Option<Symfs>,
    /// The recorded machine's /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,
    /// The recorded kernel's image with symbols
    #[arg(short = 'k', long, value_name = "FILE")]
    pub(crate) vmlinux: Option<PathBuf>,
    /// Directory of files by build id, like perf's cache [default: ~/.debug, unless --symfs is given]
    #[arg(long, value_name = "DIR")]
    pub(crate) buildid_dir: Option<PathBuf>,
    /// Tarball of perf archive from the recorded machine
    #[arg(long, value_name = "FILE")]
    pub(crate) archive: Option<PathBuf>,
    /// Names of containers: output of `perfprof-tui list containers --format json` on the recorded machine
    #[arg(long, value_name = "FILE")]
    pub(crate) containers: Option<PathBuf>,
    /// Show an address without a symbol on its own, like perf report, instead of its function by the unwind tables
    #[arg(long)]
    pub(crate) no_bounds: bool,
}

/// A directory with the recorded machine's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symfs {
    pub(crate) dir: PathBuf,
    /// Whether it contains the files themselves, without their directories.
    pub(crate) flat: bool,
}

impl Symfs {
    /// Parses `DIR`, `DIR,flat` or `DIR,hierarchy` (perf-report(1), --symfs).
    #[expect(clippy::unnecessary_wraps, reason = "a parser of clap")]
    fn parse(text: &str) -> Result<Self, std::convert::Infallible> {
        let (dir, flat) = match text.rsplit_once(',') {
            Some((dir, "flat")) => (dir, true),
            Some((dir, "hierarchy")) => (dir, false),
            _ => (text, false),
        };
        Ok(Self { dir: dir.into(), flat })
    }
}

impl RecordingArgs {
    pub(crate) fn from_files(files: Vec<PathBuf>, names: NameArgs) -> Self {
        Self { files, input: None, names, store: StoreQueryArgs::default(), there: Vec::new() }
    }
}

/// Output formats of `diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    Text,
    Json,
    Csv,
    /// Stacks with both weights, like difffolded.pl
    Folded,
    /// A differential flame graph
    Svg,
}

fn compute(text: &str) -> Result<Compute, String> {
    Ok(match text.trim_start_matches('+') {
        "delta-abs" => Compute::DeltaAbs,
        "delta" => Compute::Delta,
        "ratio" => Compute::Ratio,
        "cycles" => return Err("basic blocks of branches are not counted; use perf diff".to_owned()),
        other => {
            let weights = other.strip_prefix("wdiff:").and_then(|list| list.split_once(','));
            let weight = |text: &str| text.trim().parse::<i32>().ok();
            let both = weights.and_then(|(old, new)| Some((weight(old)?, weight(new)?)));
            let (old, new) = both.ok_or("expected delta-abs, delta, ratio or wdiff:W1,W2 with two integers")?;
            Compute::Weighted(old, new)
        }
    })
}

/// Recording by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderSide {
    Old,
    Computed,
}

fn order_side(text: &str) -> Result<OrderSide, &'static str> {
    match text {
        "0" => Ok(OrderSide::Old),
        "1" => Ok(OrderSide::Computed),
        _ => Err("expected 0 (old value) or 1 (computed value); to write a file use --output"),
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DiffArgs {
    /// Earlier recording [default: perf.data.old]
    #[arg(value_name = "OLD", default_value = "perf.data.old", hide_default_value = true)]
    pub(crate) old: PathBuf,
    /// Later recording [default: perf.data]
    #[arg(value_name = "NEW", default_value = "perf.data", hide_default_value = true)]
    pub(crate) new: PathBuf,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreQueryArgs,
    #[command(flatten)]
    pub(crate) which: SelectionArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DiffFormat,
    /// Divisor of weights before they are compared
    #[arg(long, value_enum, default_value = "total")]
    pub(crate) per: NormalizeBy,
    /// Add columns of periods
    #[arg(short = 'p', long = "period", hide_short_help = true)]
    pub(crate) period: bool,
    /// Sort rows by delta-abs, delta, ratio or wdiff:W1,W2
    #[arg(long, value_parser = compute, default_value = "delta-abs")]
    pub(crate) compute: Compute,
    /// Sort rows by the old value (0) or the computed one (1)
    #[arg(short = 'o', long, value_name = "0|1", value_parser = order_side, hide_short_help = true)]
    pub(crate) order: Option<OrderSide>,
    /// Add a column with the formula of each value
    #[arg(short = 'F', long, hide_short_help = true)]
    pub(crate) formula: bool,
    /// Print lines for programs, with values separated by SEPARATOR
    #[arg(short = 't', long = "field-separator", value_name = "SEPARATOR", hide_short_help = true, value_parser = separator)]
    pub(crate) separator: Option<String>,
    /// Only rows that are in the earlier recording
    #[arg(short = 'b', long, hide_short_help = true)]
    pub(crate) baseline_only: bool,
    /// Columns that identify rows: cpu, comm, pid, tid, container, pod, trace, dso, sym
    #[arg(short = 's', long = "sort", value_name = "KEYS", default_value = "dso,sym")]
    pub(crate) sort: String,
    /// Include callees when comparing functions
    #[arg(long)]
    pub(crate) children: bool,
    /// Base of percentages when samples are filtered [default: absolute with -c, -d and -S, else relative]
    #[arg(long, value_name = "WHOLE", value_enum, hide_short_help = true)]
    pub(crate) percentage: Option<ShareOf>,
    /// Print only rows: no headings, no notes
    #[arg(short = 'q', long, hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Print at most ROWS rows
    #[arg(long, value_name = "ROWS", value_parser = quantity::count::<usize>)]
    pub(crate) limit: Option<usize>,
    /// Output file for folded and svg
    #[arg(long = "output", value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
}

/// Selection of samples. Each option is a condition; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, ClapArgs)]
pub(crate) struct SelectionArgs {
    /// Only samples that match, e.g. 'comm == nginx && !idle'
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Only these comms
    #[arg(short = 'c', long = "comms", alias = "comm", value_name = "NAMES")]
    pub(crate) comms: Option<String>,
    /// Only samples in these DSOs
    #[arg(short = 'd', long = "dsos", alias = "dso", value_name = "NAMES")]
    pub(crate) dsos: Option<String>,
    /// Only samples in these functions, by name (the file may be omitted) or glob
    #[arg(short = 'S', long = "symbols", alias = "symbol", value_name = "NAMES")]
    pub(crate) symbols: Option<String>,
    /// Only these processes
    #[arg(long, value_name = "PIDS")]
    pub(crate) pid: Option<String>,
    /// Only these threads
    #[arg(long, value_name = "TIDS")]
    pub(crate) tid: Option<String>,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpu: Option<String>,
    /// Only samples at which so many threads of their process ran, e.g. 1 or 1,4-8; needs context switches (record
    /// --latency)
    #[arg(long, value_name = "THREADS", hide_short_help = true)]
    pub(crate) parallelism: Option<String>,
    /// Only this range of time, such as -30s,-20s or 14:03,14:05: FROM,UNTIL in seconds of the recording's clock
    /// (either may be omitted), -30s,-20s before its end, 14:03,14:05 in local time, ISO dates and times, 10%-20%, or
    /// 3%/2 like perf
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
    /// Only this event, by its name or a prefix; NAME#2 is the second event of that name. Derived events such as
    /// off-cpu work, too
    #[arg(short = 'e', long, value_name = "NAME")]
    pub(crate) event: Option<String>,
}

impl SelectionArgs {
    /// Returns the usual base of percentages. The options of perf that hide rows leave the shares of others unchanged; a
    /// filter of --where asks about a part, whose shares sum up to 100 %.
    pub(crate) fn usual_shares(&self) -> ShareOf {
        let lists = [&self.comms, &self.dsos, &self.symbols, &self.parallelism];
        let hides_rows = lists.iter().any(|list| list.is_some());
        if hides_rows { ShareOf::Absolute } else { ShareOf::Relative }
    }
}

/// Returns a condition for one name of a list of comms, DSOs or functions.
pub(crate) fn clause_of_name(field: &str, name: &str) -> String {
    if field == "sym" { is_function(name.trim()) } else { equals(field, name.trim()) }
}

/// Returns lists of comms, DSOs and functions as filter conditions.
pub(crate) fn clauses_of_lists(lists: [&Option<String>; 3]) -> impl Iterator<Item = String> {
    let one_of = |(field, list): (&str, &Option<String>)| {
        let one = |name: &str| clause_of_name(field, name);
        let list = list.as_ref()?;
        Some(format!("({})", list.split(',').map(one).collect::<Vec<_>>().join(" || ")))
    };
    ["comm", "dso", "sym"].into_iter().zip(lists).filter_map(one_of).collect::<Vec<_>>().into_iter()
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: OutputFormat,
    /// Columns that identify rows, such as comm,dso,sym: cpu, comm, pid, tid, container, pod, trace, dso, sym, and
    /// EVENT.FIELD of a tracepoint [default: comm,dso,sym; for tracepoints comm,trace; plus host for several machines]
    ///
    /// Also program, namespace, image, host, cgroup, socket; time (--time-quantum); srcline, srcfile, symbol_size and
    /// dso_size of the sampled code; parent (-p); trace_fields for all fields of a tracepoint. ipc (instructions per
    /// cycle, if both events are recorded) and the figures of -F sort rows; +KEYS adds to the default. With --stdio, pid
    /// separates threads, like perf
    #[arg(short = 's', long = "sort", value_name = "KEYS")]
    pub(crate) sort: Option<String>,
    #[command(flatten)]
    pub(crate) which: SelectionArgs,
    /// Print the samples of each CPU and the number expected from a busy CPU instead
    #[arg(long, conflicts_with = "filter")]
    pub(crate) coverage: bool,
    /// Print the header of the recording before the table
    #[arg(long)]
    pub(crate) header: bool,
    /// Print every record instead: its offset, bytes and contents
    #[arg(short = 'D', long = "dump-raw-trace", hide_short_help = true)]
    pub(crate) dump: bool,
    /// Print at most ROWS rows per event
    #[arg(long, value_name = "ROWS", value_parser = quantity::count::<usize>)]
    pub(crate) limit: Option<usize>,
    /// Omit rows below this share in percent
    #[arg(long, value_name = "%", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) percent_limit: f64,
    /// Print text in perf's layout: its columns, rows sorted by Children if these are counted, call chains below them
    /// (without it, a table sorted by Self)
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Count callees, too (the default with call chains), and sort rows by the result
    #[arg(long, overrides_with = "no_children")]
    pub(crate) children: bool,
    /// Count only the functions themselves, not their callees
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Print call chains below each row: caller, callee or none; without a value, callees if children are counted, else
    /// callers
    ///
    /// Like perf, also graph, fractal, flat or folded; the minimum share in percent; the maximum number of entries
    /// below one; and percent, period or count: graph,0.5,callee. address separates addresses of a function, srcline
    /// its lines
    #[arg(short = 'g', long = "call-graph", value_name = "WAY", num_args = 0..=1, default_missing_value = "graph")]
    pub(crate) call_graph: Option<String>,
    /// Print no call chains with --stdio
    #[arg(long, overrides_with = "call_graph", hide_short_help = true)]
    pub(crate) no_call_graph: bool,
    /// Print a column of sample counts (always on, except for -g folded)
    #[arg(short = 'n', long = "show-nr-samples")]
    pub(crate) samples: bool,
    /// Print a table of branches by source and target instead (default for recordings of branches); further keys:
    /// mispredict, in_tx, abort, addr_from, addr_to, srcline_from, srcline_to
    #[arg(short = 'b', long, overrides_with = "no_branch_stack")]
    pub(crate) branch_stack: bool,
    /// Print a table of functions also for a recording of branches
    #[arg(long, overrides_with = "branch_stack", hide_short_help = true)]
    pub(crate) no_branch_stack: bool,
    /// Begin call chains with the branches before the sample
    #[arg(long, conflicts_with_all = ["branch_stack", "mem_mode"], hide_short_help = true)]
    pub(crate) branch_history: bool,
    /// Print a table of memory accesses by cost, object and source instead; further keys: dcacheline, phys_daddr,
    /// data_page_size
    #[arg(long, hide_short_help = true)]
    pub(crate) mem_mode: bool,
    /// Print the keys as levels of a tree
    #[arg(long, conflicts_with = "call_graph")]
    pub(crate) hierarchy: bool,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) more: ReportOptions,
}

/// Display of functions.
#[derive(Debug, ClapArgs)]
pub(crate) struct FrameArgs {
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Show inlined functions as separate frames, from debug information
    #[arg(long, overrides_with = "no_inline")]
    pub(crate) inline: bool,
    /// Do not show inlined functions as frames (the default)
    #[arg(long, hide_short_help = true)]
    pub(crate) no_inline: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_may_be_flat() {
        for (text, dir, flat) in [
            ("/r", "/r", false),
            ("/r,flat", "/r", true),
            ("/r,hierarchy", "/r", false),
            ("/a,b", "/a,b", false),
            ("/a,b,flat", "/a,b", true),
        ] {
            assert_eq!(Symfs::parse(text), Ok(Symfs { dir: dir.into(), flat }), "{text}");
        }
    }
}
