//! Options of recordings: which one is read, where its names come from, which samples count; of the commands that read
//! them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use crate::filter::equals;
use crate::lang::quantity;

use super::{Format, PERF};

/// The recordings to open, and the sources of their names.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Recording {
    /// perf.data, a directory of `perf record --threads`, `perf script` text or folded stacks, plain,
    /// gzip or zstd; several files of one recording or of several machines together; - for standard input; ssh://HOST
    /// or ssh://USER@HOST:PORT for a machine that is recorded now, over the wire [default: perf.data]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The recording, in perf's spelling
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "files")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// Options of `record` on other machines.
    #[arg(skip)]
    pub(crate) there: Vec<String>,
}

/// The sources of a recording's names.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct NameArgs {
    /// A directory with the recorded machine's files under their paths
    #[arg(long, value_name = "DIR")]
    pub(crate) symfs: Option<PathBuf>,
    /// The recorded machine's /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,
    /// The recorded kernel's image with its symbols
    #[arg(short = 'k', long, value_name = "FILE")]
    pub(crate) vmlinux: Option<PathBuf>,
    /// Files by build id, laid out as perf's cache [default: ~/.debug, unless --symfs is given]
    #[arg(long, value_name = "DIR")]
    pub(crate) buildid_dir: Option<PathBuf>,
    /// The tarball that perf archive made of the recorded machine's files
    #[arg(long, value_name = "FILE")]
    pub(crate) archive: Option<PathBuf>,
    /// What containers were called, as `perfprof-tui list containers --format json` says it on the recorded machine
    #[arg(long, value_name = "FILE")]
    pub(crate) containers: Option<PathBuf>,
    /// Take each address that no symbol covers by itself, as perf report does, instead of the function that unwind
    /// tables say it is in
    #[arg(long)]
    pub(crate) no_bounds: bool,
}

impl Recording {
    /// Some files.
    pub(crate) fn from_files(files: Vec<PathBuf>, names: NameArgs) -> Self {
        Self { files, input: None, names, there: Vec::new() }
    }
}

/// Forms of `diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    Text,
    Json,
    Csv,
    /// Stacks with both weights, as difffolded.pl writes them
    Folded,
    /// A differential flame graph
    Svg,
}

/// The divisor of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PerArg {
    /// The whole of each recording: shares
    Total,
    /// The seconds that each lasted
    Second,
    /// Nothing
    Nothing,
}

/// How differences are told, and rows ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compute {
    /// What changed most comes first, whichever way
    DeltaAbs,
    /// What grew most comes first
    Delta,
    /// New in parts of old, the largest first
    Ratio,
    /// The new period times the second weight less the old one times the first, the largest first
    Weighted(i32, i32),
}

fn compute(text: &str) -> Result<Compute, String> {
    Ok(match text.trim_start_matches('+') {
        "delta-abs" => Compute::DeltaAbs,
        "delta" => Compute::Delta,
        "ratio" => Compute::Ratio,
        "cycles" => return Err("blocks of branches are not counted: perf diff does".to_owned()),
        other => {
            let weights = other.strip_prefix("wdiff:").and_then(|list| list.split_once(','));
            let weight = |text: &str| text.trim().parse::<i32>().ok();
            let both = weights.and_then(|(old, new)| Some((weight(old)?, weight(new)?)));
            let (old, new) = both.ok_or("there are delta-abs, delta, ratio and wdiff:W1,W2 with two whole numbers")?;
            Compute::Weighted(old, new)
        }
    })
}

/// Which recording rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderSide {
    Old,
    Computed,
}

fn order_side(text: &str) -> Result<OrderSide, &'static str> {
    match text {
        "0" => Ok(OrderSide::Old),
        "1" => Ok(OrderSide::Computed),
        _ => Err("0 is the recording before, 1 what is computed; --output writes a file"),
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Diff {
    /// The recording before [default: perf.data.old]
    #[arg(value_name = "OLD", default_value = "perf.data.old", hide_default_value = true)]
    pub(crate) old: PathBuf,
    /// The recording after [default: perf.data]
    #[arg(value_name = "NEW", default_value = "perf.data", hide_default_value = true)]
    pub(crate) new: PathBuf,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) which: SampleSelection,
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DiffFormat,
    /// What weights are divided by before they are compared
    #[arg(long, value_enum, default_value = "total")]
    pub(crate) per: PerArg,
    /// Compare periods: --per nothing, in perf's spelling
    #[arg(short = 'p', long = "period", hide_short_help = true)]
    pub(crate) period: bool,
    /// What rows are ordered by: delta-abs, delta, ratio or wdiff:W1,W2
    #[arg(long, value_parser = compute, default_value = "delta-abs")]
    pub(crate) compute: Compute,
    /// Order rows by what they had before (0) or by what is computed (1)
    #[arg(short = 'o', long, value_name = "0|1", value_parser = order_side, hide_short_help = true)]
    pub(crate) order: Option<OrderSide>,
    /// A column of how each value was computed
    #[arg(short = 'F', long, hide_short_help = true)]
    pub(crate) formula: bool,
    /// Lines for programs, with SEPARATOR between their values
    #[arg(short = 't', long = "field-separator", value_name = "SEPARATOR", hide_short_help = true, value_parser = separator)]
    pub(crate) separator: Option<String>,
    /// Only rows that the recording before has
    #[arg(short = 'b', long, hide_short_help = true)]
    pub(crate) baseline_only: bool,
    /// Columns that tell rows apart: cpu, comm, pid, tid, container, pod, trace, dso, sym
    #[arg(short = 's', long = "sort", value_name = "KEYS", default_value = "dso,sym")]
    pub(crate) sort: String,
    /// Compare functions with what they call
    #[arg(long)]
    pub(crate) children: bool,
    /// Only this many rows
    #[arg(long, value_name = "ROWS", value_parser = quantity::count::<usize>)]
    pub(crate) limit: Option<usize>,
    /// The file to write, for folded and svg
    #[arg(long = "output", value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
}

/// The choice of samples that count. Each option is a clause; all must hold.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct SampleSelection {
    /// Only samples that match, e.g. 'comm == nginx && !idle'
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Only these commands
    #[arg(short = 'c', long = "comms", alias = "comm", value_name = "NAMES")]
    pub(crate) comms: Option<String>,
    /// Only samples in these DSOs
    #[arg(short = 'd', long = "dsos", alias = "dso", value_name = "NAMES")]
    pub(crate) dsos: Option<String>,
    /// Only samples in these functions
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
    /// Only this part of the recording: FROM,UNTIL in seconds of its clock (either may be omitted), -30s,-20s before its
    /// end, 14:03,14:05 in local time, ISO dates and times, 10%-20%, or 3%/2 like perf
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
    /// Only this event, by its name or its beginning; NAME#2 is the second one of a name. Also one that is derived from
    /// samples, such as off-cpu
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
}

/// Lists of commands, DSOs and functions as clauses of a filter.
pub(crate) fn clauses_of_lists(lists: [&Option<String>; 3]) -> impl Iterator<Item = String> {
    let one_of = |(field, list): (&str, &Option<String>)| {
        let one = |name: &str| equals(field, name.trim());
        let list = list.as_ref()?;
        Some(format!("({})", list.split(',').map(one).collect::<Vec<_>>().join(" || ")))
    };
    ["comm", "dso", "sym"].into_iter().zip(lists).filter_map(one_of).collect::<Vec<_>>().into_iter()
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) recording: Recording,
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    /// Columns that tell rows apart: cpu, comm, pid, tid, container, pod, trace, dso, sym, and EVENT.FIELD of a
    /// tracepoint [default: comm,dso,sym; of tracepoints comm,trace; with host, of several machines]
    ///
    /// Also program, namespace, image, host, cgroup, socket; time (--time-quantum); srcline, srcfile, symbol_size and
    /// dso_size, of what was sampled; parent (-p); trace_fields for all fields of a tracepoint. ipc (instructions
    /// a cycle, where both events are recorded) and the figures of -F order rows; +KEYS adds to the default
    #[arg(short = 's', long = "sort", value_name = "KEYS")]
    pub(crate) sort: Option<String>,
    #[command(flatten)]
    pub(crate) which: SampleSelection,
    /// Print instead how many samples each CPU gave, and how many it would have given when busy
    #[arg(long, conflicts_with = "filter")]
    pub(crate) coverage: bool,
    /// Print what the head of the recording says before the table
    #[arg(long)]
    pub(crate) header: bool,
    /// Print instead every record: where it stands, its bytes, what it says
    #[arg(short = 'D', long = "dump-raw-trace", hide_short_help = true)]
    pub(crate) dump: bool,
    /// Only this many rows of each event
    #[arg(long, value_name = "ROWS", value_parser = quantity::count::<usize>)]
    pub(crate) limit: Option<usize>,
    /// Leave rows below this share out
    #[arg(long, value_name = "%", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) percent_limit: f64,
    /// Text in perf's own layout: its columns, rows ordered by Children where these are counted, call chains drawn
    /// below them where there are some (without it a table alone, ordered by Self)
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Count what functions called, too (the default where there are call chains), and order rows by it
    #[arg(long, overrides_with = "no_children")]
    pub(crate) children: bool,
    /// Count only the functions themselves, not what they call
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Print call chains below each row: caller, callee or none; alone, what a row called when children
    /// are counted, else who called it
    ///
    /// As perf has it also graph, fractal, flat or folded, the least share in percent, the most entries below one, and
    /// percent, period or count: graph,0.5,callee; address tells places of a function apart, srcline its lines
    #[arg(short = 'g', long = "call-graph", value_name = "WAY", num_args = 0..=1, default_missing_value = "graph")]
    pub(crate) call_graph: Option<String>,
    /// Print none, with --stdio
    #[arg(long, overrides_with = "call_graph", hide_short_help = true)]
    pub(crate) no_call_graph: bool,
    /// Print a column of sample counts (always here, but for -g folded)
    #[arg(short = 'n', long = "show-nr-samples")]
    pub(crate) samples: bool,
    /// A table of the branches of samples instead, by where they came from and went (the default of a recording of
    /// them): also by mispredict, in_tx, abort, addr_from, addr_to, srcline_from, srcline_to
    #[arg(short = 'b', long, overrides_with = "no_branch_stack")]
    pub(crate) branch_stack: bool,
    /// A table of functions, of a recording of branches too
    #[arg(long, overrides_with = "branch_stack", hide_short_help = true)]
    pub(crate) no_branch_stack: bool,
    /// Begin call chains with the branches that led to a sample
    #[arg(long, conflicts_with_all = ["branch_stack", "mem_mode"], hide_short_help = true)]
    pub(crate) branch_history: bool,
    /// A table of accesses to memory instead, by what they cost and where data lay and came from: also by dcacheline,
    /// phys_daddr, data_page_size
    #[arg(long, hide_short_help = true)]
    pub(crate) mem_mode: bool,
    /// Print the keys as levels of a tree
    #[arg(long, conflicts_with = "call_graph")]
    pub(crate) hierarchy: bool,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
    #[command(flatten, next_help_heading = PERF)]
    pub(crate) more: MoreOfReport,
}

/// What percentages of a filtered report are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShareOf {
    /// What the filters leave
    Relative,
    /// All samples of the event
    Absolute,
}

/// What perf report can do besides.
#[derive(Debug, ClapArgs)]
pub(crate) struct MoreOfReport {
    /// The columns, in this order: overhead, overhead_children, overhead_sys, overhead_us, overhead_guest_sys,
    /// overhead_guest_us, sample, period, and keys; +COLUMNS adds some
    #[arg(short = 'F', long, value_name = "COLUMNS", hide_short_help = true)]
    pub(crate) fields: Option<String>,
    /// A column of periods (always here, but for -g folded)
    #[arg(long, hide_short_help = true)]
    pub(crate) show_total_period: bool,
    /// Columns of what was in the kernel and in user code
    #[arg(long, alias = "showcpuutilization", hide_short_help = true)]
    pub(crate) show_cpu_utilization: bool,
    /// What percentages are of, where samples are filtered [default: relative]
    #[arg(long, value_name = "WHOLE", value_enum, hide_short_help = true)]
    pub(crate) percentage: Option<ShareOf>,
    /// Lines for programs, with SEPARATOR between their values
    #[arg(short = 't', long = "field-separator", value_name = "SEPARATOR", hide_short_help = true, value_parser = separator)]
    pub(crate) separator: Option<String>,
    /// How long the parts of time are that -s time tells apart [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, hide_short_help = true)]
    pub(crate) time_quantum: Option<Duration>,
    /// Columns as wide as this, in their order; 0 for as wide as their values
    #[arg(short = 'w', long, value_name = "CELLS", value_delimiter = ',', hide_short_help = true)]
    pub(crate) column_widths: Vec<usize>,
    /// Call chains from where they began, as -g caller
    #[arg(short = 'G', long, hide_short_help = true)]
    pub(crate) inverted: bool,
    /// Frames of a stack at most, from where it was sampled
    #[arg(long, value_name = "FRAMES", value_parser = quantity::count::<usize>, hide_short_help = true)]
    pub(crate) max_stack: Option<usize>,
    /// A column of the innermost caller whose name matches [default of -s parent: ^sys_|^do_page_fault]
    #[arg(short = 'p', long, value_name = "REGEX", hide_short_help = true)]
    pub(crate) parent: Option<String>,
    /// Only samples with such a caller
    #[arg(short = 'x', long, hide_short_help = true)]
    pub(crate) exclude_other: bool,
    /// Count what functions called that match as theirs
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    pub(crate) ignore_callees: Option<String>,
    /// Only rows of functions with this in their names
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub(crate) symbol_filter: Option<String>,
    /// Only samples in functions that have a name
    #[arg(short = 'U', long, hide_short_help = true)]
    pub(crate) hide_unresolved: bool,
    /// As --header
    #[arg(short = 'I', long, hide_short_help = true)]
    pub(crate) show_info: bool,
    /// Print only what the head of the recording says
    #[arg(long, hide_short_help = true)]
    pub(crate) header_only: bool,
    /// Print the threads, and who began them
    #[arg(long, hide_short_help = true)]
    pub(crate) tasks: bool,
    /// Print them with what their processes had mapped
    #[arg(long, hide_short_help = true)]
    pub(crate) mmaps: bool,
    /// Print also what each thread had counted of each event, where record -s recorded that (as CSV and JSON that
    /// alone)
    #[arg(short = 'T', long, hide_short_help = true)]
    pub(crate) threads: bool,
    /// Print how many records of each kind there are, but for those that describe the file
    #[arg(long, hide_short_help = true)]
    pub(crate) stats: bool,
}

/// What stands between values: no dot, which stands for it in them.
fn separator(text: &str) -> Result<String, &'static str> {
    match text {
        "" | "." => Err("a dot stands in values for the separator"),
        "\\t" => Ok("\t".to_owned()),
        other => Ok(other.to_owned()),
    }
}

/// How functions are shown.
#[derive(Debug, ClapArgs)]
pub(crate) struct FrameArgs {
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Show inlined functions as frames of their own, from the files' debug information
    #[arg(long, overrides_with = "no_inline")]
    pub(crate) inline: bool,
    /// Do not (the default)
    #[arg(long, hide_short_help = true)]
    pub(crate) no_inline: bool,
}
