//! Options of the rows that a report prints.

use std::time::Duration;

use crate::lang::quantity;

/// Base of the percentages in a filtered report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ShareOf {
    /// Samples that pass the filters
    Relative,
    /// All samples of the event, or of those that --time and --cpu select
    Absolute,
}

/// Less common options of perf report.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportOptions {
    /// Columns in this order: overhead, overhead_children, overhead_sys, overhead_us, overhead_guest_sys,
    /// overhead_guest_us, latency, sample, period, and keys; +COLUMNS adds to the default
    #[arg(short = 'F', long, value_name = "COLUMNS")]
    pub(crate) fields: Option<String>,
    /// Print a column of periods (always on, except for -g folded)
    #[arg(long)]
    pub(crate) show_total_period: bool,
    /// Print columns for the kernel and for user code
    #[arg(long, alias = "showcpuutilization")]
    pub(crate) show_cpu_utilization: bool,
    /// Print shares of the time that processes take, not only of CPU time, and sort by them (record --latency)
    #[arg(long)]
    pub(crate) latency: bool,
    /// Base of percentages when samples are filtered [default: absolute with -c, -d, -S and --stdio]
    #[arg(long, value_name = "WHOLE", value_enum)]
    pub(crate) percentage: Option<ShareOf>,
    /// Print lines for programs, with values separated by SEPARATOR
    #[arg(short = 't', long = "field-separator", value_name = "SEPARATOR", value_parser = separator)]
    pub(crate) separator: Option<String>,
    /// Length of the intervals of -s time [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) time_quantum: Option<Duration>,
    /// Widths of the columns in order; 0 for the width of their values
    #[arg(short = 'w', long, value_name = "CELLS", value_delimiter = ',')]
    pub(crate) column_widths: Vec<usize>,
    /// Print call chains from their start, like -g caller
    #[arg(short = 'G', long)]
    pub(crate) inverted: bool,
    /// Maximum frames per stack, counted from the sampled function
    #[arg(long, value_name = "FRAMES", value_parser = quantity::count::<usize>)]
    pub(crate) max_stack: Option<usize>,
    /// Print a column of the innermost caller that matches [default of -s parent: ^sys_|^do_page_fault]
    #[arg(short = 'p', long, value_name = "REGEX")]
    pub(crate) parent: Option<String>,
    /// Only samples with a caller that matches --parent
    #[arg(short = 'x', long)]
    pub(crate) exclude_other: bool,
    /// Count the callees of matching functions for these functions
    #[arg(long, value_name = "REGEX")]
    pub(crate) ignore_callees: Option<String>,
    /// Only rows of functions whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub(crate) symbol_filter: Option<String>,
    /// Only samples in functions that have a name
    #[arg(short = 'U', long)]
    pub(crate) hide_unresolved: bool,
    /// Print the events of a group side by side, or all events if the recording has no groups
    #[arg(long)]
    pub(crate) group: bool,
    /// With --stdio, print the events of a group one after another
    #[arg(long)]
    pub(crate) no_group: bool,
    /// Print only rows: no headings, no notes
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// Print the times of -s time with nine digits
    #[arg(long)]
    pub(crate) ns: bool,
    /// Same as --header
    #[arg(short = 'I', long)]
    pub(crate) show_info: bool,
    /// Print only the header of the recording
    #[arg(long)]
    pub(crate) header_only: bool,
    /// Print the threads and their parents
    #[arg(long)]
    pub(crate) tasks: bool,
    /// Print the threads and the mappings of their processes
    #[arg(long)]
    pub(crate) mmaps: bool,
    /// Also print the counts of each thread and event, if recorded by record -s (CSV and JSON: only these)
    #[arg(short = 'T', long)]
    pub(crate) threads: bool,
    /// Print the number of records of each type, without those that describe the file
    #[arg(long)]
    pub(crate) stats: bool,
}

/// Parses a separator. A dot is not allowed, because it replaces the separator within values.
pub(crate) fn separator(text: &str) -> Result<String, &'static str> {
    match text {
        "" | "." => Err("a dot replaces the separator within values; choose another separator"),
        "\\t" => Ok("\t".to_owned()),
        other => Ok(other.to_owned()),
    }
}
