//! Arguments of the command line. Where perf has an option, ours has its spelling and meaning.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

mod machine;
pub mod names;
mod recorder;
mod sampling;
pub mod unit_args;

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::lang::quantity;

pub use machine::{Cpus, List, Probe, Stat};
pub use recorder::Keeping;
pub use sampling::Sampling;

/// Samples the running machine and shows, live, what its CPUs do.
#[derive(Debug, Parser)]
#[command(
    name = "perfprof-tui",
    version,
    about,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    max_term_width = 100
)]
#[command(after_help = "Without a command: the live screen. `perfprof-tui doctor` says what this machine can measure.")]
pub struct Args {
    #[command(flatten)]
    pub live: Live,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a recording with the same screens as live
    Open(Open),
    /// Record to a file, without a terminal, at the lowest cost
    Record(Box<Record>),
    /// Print a recording's table as text, JSON or CSV
    Report(Report),
    /// Print a recording's samples, one block each, as perf script does
    Script(Script),
    /// Write a recording in another tool's format
    Export(Export),
    /// Print a function of a recording, instruction by instruction, with its source lines
    Annotate(names::Annotate),
    /// Name the addresses on standard input, as pprof --symbols does
    Symbols(names::Symbols),
    /// Say what changed between two recordings
    Diff(Diff),
    /// Print each CPU's shares, missing ticks and softirqs, interval after interval
    Cpus(Cpus),
    /// Count events over a command, a target or intervals, as perf stat does
    Stat(Stat),
    /// Make, list and remove probes of functions and static probes
    Probe(Probe),
    /// List the events of this machine
    List(List),
    /// Say what this machine and this user can and cannot measure, and what changes it
    Doctor(Doctor),
    /// Play a real incident, recorded once, with a short tour: no rights are needed
    Demo(Demo),
    /// Print the effective configuration, or check it
    Config(ConfigArgs),
    /// Print the completions of a shell
    Completions(Completions),
    /// Print a manual page, or write them all
    Man(Man),
}

/// All that can be typed, units included.
pub fn whole() -> clap::Command {
    unit_args::add(<Args as clap::CommandFactory>::command())
}

/// The live screen's arguments as they are without any, but for the configured ones.
pub fn live() -> Live {
    let command = super::config::apply(whole(), &super::config::get().options);
    let matches = command.try_get_matches_from(["perfprof-tui"]);
    let args = matches.and_then(|matches| <Args as clap::FromArgMatches>::from_arg_matches(&matches));
    args.unwrap_or_else(|_| Args::parse_from(["perfprof-tui"])).live
}

/// Options of `demo`.
#[derive(Debug, ClapArgs)]
pub struct Demo {
    #[command(flatten)]
    pub view: View,
    /// How many times as fast as it was
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = quantity::number)]
    pub speed: f64,
    /// Without the tour
    #[arg(long)]
    pub no_tour: bool,
}

/// Options of `completions`.
#[derive(Debug, ClapArgs)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, ClapArgs)]
pub struct Man {
    /// The command or topic whose page is printed: screens, filter, names, units, json, config [default: the program]
    pub topic: Option<String>,
    /// Write all pages into this folder instead, each below its section: man1, man5, man7
    #[arg(long, value_name = "DIR", conflicts_with = "topic")]
    pub folder: Option<PathBuf>,
}

/// Options of `config`.
#[derive(Debug, ClapArgs)]
pub struct ConfigArgs {
    /// Only say what is wrong with it
    #[arg(long)]
    pub check: bool,
    /// Print where it is looked for
    #[arg(long, conflicts_with = "check")]
    pub path: bool,
    /// Print the scopes that a theme can style
    #[arg(long, conflicts_with_all = ["check", "path"])]
    pub scopes: bool,
}

/// What a screen shows first, and where names come from.
#[derive(Debug, ClapArgs)]
pub struct View {
    /// Columns that tell rows apart: cpu, comm, pid, tid, container, pod, dso, sym, and EVENT.FIELD of a tracepoint [default: dso,sym]
    #[arg(short = 's', long = "sort", value_name = "KEYS")]
    pub sort: Option<String>,
    /// Show only samples that match, e.g. 'comm == nginx && !idle'
    #[arg(long = "where", value_name = "FILTER")]
    pub filter: Option<String>,
    /// Count only the functions themselves, not what they call
    #[arg(long)]
    pub no_children: bool,
    /// Hide rows below this share
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub percent_limit: f64,
    /// Show names as they are in the files
    #[arg(long)]
    pub no_demangle: bool,
    /// Do not look inlined functions up
    #[arg(long)]
    pub no_inline: bool,
    /// A recording to compare with
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// How many points a CPU's share of softirqs must be above the others' to be an anomaly
    #[arg(long, value_name = "POINTS", default_value_t = 10.0, hide_default_value = true, value_parser = quantity::share)]
    pub threshold: f64,
    /// Commands to run at the start, as typed after ':'; may be repeated
    #[arg(long = "exec", value_name = "COMMAND", action = ArgAction::Append)]
    pub exec: Vec<String>,
    /// Begin with this part of the time: FROM,UNTIL in seconds of the recording's clock, or 10%-20%
    #[arg(long, value_name = "RANGE")]
    pub time: Option<String>,
    /// Where S saves snapshots [default: perfprof-DATE-TIME.data]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Colours: true, 256, 16, none, or auto: from the terminal
    #[arg(long, value_name = "DEPTH")]
    pub color: Option<String>,
    /// For slow links: two frames a second at most (found by itself when the terminal lags)
    #[arg(long)]
    pub slow: bool,
    /// The theme, by name; auto: dark or light, as the terminal's background is
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
}

/// Options of the live screen.
#[derive(Debug, ClapArgs)]
pub struct Live {
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub view: View,
    #[command(flatten)]
    pub keeping: Keeping,
    /// Seconds between two updates of the screen
    #[arg(short = 'd', long = "refresh", value_name = "SECONDS", default_value = "1", hide_default_value = true, value_parser = quantity::duration)]
    pub refresh: Duration,
    /// Measure the time in softirqs and interrupts from the start
    #[arg(long)]
    pub softirq_time: bool,
    /// A command to run and sample
    #[arg(last = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub struct Open {
    #[command(flatten)]
    pub recording: Recording,
    /// Begin with the samples of these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub cpus: Option<String>,
    /// Two files are pieces of one recording or of two machines, not an old one and a new one to compare
    #[arg(long)]
    pub together: bool,
    #[command(flatten)]
    pub view: View,
    /// Of ssh://HOST: options of `record` there, after --
    #[arg(last = true, value_name = "OPTIONS")]
    pub there: Vec<String>,
}

impl Open {
    /// Of two files that are no pieces of one recording, takes the first away: what to compare with.
    pub fn old(&mut self) -> Option<PathBuf> {
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
fn stem(path: &std::path::Path) -> Option<&str> {
    let (stem, time) = path.file_name()?.to_str()?.rsplit_once('.')?;
    (time.len() >= 14 && time.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}

#[derive(Debug, ClapArgs)]
pub struct Record {
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub keeping: Keeping,
    /// The file to write; one that is there becomes FILE.old. - for a stream to standard output, which
    /// `perfprof-tui open -` and `perf report -i -` read while it is written
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "perf.data")]
    pub output: PathBuf,
    /// Put the names of functions into the stream, for a reader on another machine (perf cannot read it then)
    #[arg(long)]
    pub names: bool,
    /// Send profiles of each interval to a store of continuous profiles instead of writing a file: http:// or
    /// https://HOST:PORT, or otlp://HOST:PORT for whatever takes OTLP by gRPC (otlps:// with TLS)
    #[arg(long, value_name = "URL", conflicts_with_all = ["triggers", "names"])]
    pub push: Option<String>,
    /// A file with USER:PASSWORD or Bearer TOKEN for the store; or put that into PERFPROF_PUSH_AUTH
    #[arg(long, value_name = "FILE", requires = "push")]
    pub push_auth_file: Option<PathBuf>,
    /// What a store at http:// or https:// is [default: pyroscope]
    #[arg(long, value_enum, requires = "push")]
    pub push_to: Option<StoreArg>,
    /// The name of the application there
    #[arg(long, value_name = "NAME", default_value = "perfprof", requires = "push")]
    pub push_name: String,
    /// A label, NAME=VALUE; may be repeated. The host's name is one
    #[arg(long = "push-label", value_name = "LABEL", action = ArgAction::Append, requires = "push")]
    pub push_labels: Vec<String>,
    /// Seconds that a profile is of
    #[arg(long, value_name = "SECONDS", default_value = "10", requires = "push", value_parser = quantity::duration)]
    pub push_interval: Duration,
    /// Say nothing at the end
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// A command to run and record; without one recording ends with Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    pub cmd: Vec<OsString>,
}

/// Stores of continuous profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreArg {
    /// Grafana Pyroscope
    Pyroscope,
    /// Parca
    Parca,
}

/// What is opened, and where its names come from.
#[derive(Clone, Debug, ClapArgs)]
pub struct Recording {
    /// perf.data, a directory of `perf record --threads`, `perf script` text or folded stacks, plain,
    /// gzip or zstd; several files of one recording or of several machines together; - for standard input; ssh://HOST
    /// or ssh://USER@HOST:PORT for a machine that is recorded now, over the wire [default: perf.data]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The recording, in perf's spelling
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "files")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub names: NameArgs,
    /// Options of `record` on other machines.
    #[arg(skip)]
    pub there: Vec<String>,
}

/// Where the names of a recording come from.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct NameArgs {
    /// A directory with the recorded machine's files under their paths
    #[arg(long, value_name = "DIR")]
    pub symfs: Option<PathBuf>,
    /// The recorded machine's /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    pub kallsyms: Option<PathBuf>,
    /// The recorded kernel's image with its symbols
    #[arg(short = 'k', long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
    /// Files by build id, laid out as perf's cache [default: ~/.debug, unless --symfs is given]
    #[arg(long, value_name = "DIR")]
    pub buildid_dir: Option<PathBuf>,
    /// The tarball that perf archive made of the recorded machine's files
    #[arg(long, value_name = "FILE")]
    pub archive: Option<PathBuf>,
    /// Take each address that no symbol covers by itself, as perf report does, instead of the function that unwind
    /// tables say it is in
    #[arg(long)]
    pub no_bounds: bool,
}

impl From<NameArgs> for Recording {
    fn from(names: NameArgs) -> Self {
        Self { files: Vec::new(), input: None, names, there: Vec::new() }
    }
}

impl Recording {
    /// Some files.
    pub fn from_files(files: Vec<PathBuf>, names: NameArgs) -> Self {
        Self { files, input: None, names, there: Vec::new() }
    }
}

/// Forms of `diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    Text,
    Json,
    Csv,
    /// Stacks with both weights, as difffolded.pl writes them
    Folded,
    /// A differential flame graph
    Svg,
}

/// What weights are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PerArg {
    /// The whole of each recording: shares
    Total,
    /// The seconds that each lasted
    Second,
    /// Nothing
    Nothing,
}

/// Options of `diff`.
#[derive(Debug, ClapArgs)]
pub struct Diff {
    /// The recording before
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The recording after
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub which: Which,
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormat,
    /// What weights are divided by before they are compared
    #[arg(long, value_enum, default_value = "total")]
    pub per: PerArg,
    /// Columns that tell rows apart: cpu, comm, pid, tid, container, pod, trace, dso, sym
    #[arg(short = 's', long = "sort", value_name = "KEYS", default_value = "dso,sym")]
    pub sort: String,
    /// Compare functions with what they call
    #[arg(long)]
    pub children: bool,
    /// Only this many rows
    #[arg(long, value_name = "ROWS", value_parser = quantity::count::<usize>)]
    pub limit: Option<usize>,
    /// The file to write, for folded and svg
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Show names as they are in the files
    #[arg(long)]
    pub no_demangle: bool,
}

/// Which samples count. Each option is a clause; all must hold.
#[derive(Debug, Default, ClapArgs)]
pub struct Which {
    /// Only samples that match, e.g. 'comm == nginx && !idle'
    #[arg(long = "where", value_name = "FILTER")]
    pub filter: Option<String>,
    /// Only these commands
    #[arg(short = 'c', long = "comms", alias = "comm", value_name = "NAMES")]
    pub comms: Option<String>,
    /// Only samples in these DSOs
    #[arg(long = "dsos", alias = "dso", value_name = "NAMES")]
    pub dsos: Option<String>,
    /// Only samples in these functions
    #[arg(short = 'S', long = "symbols", alias = "symbol", value_name = "NAMES")]
    pub symbols: Option<String>,
    /// Only these processes
    #[arg(long, value_name = "PIDS")]
    pub pid: Option<String>,
    /// Only these threads
    #[arg(long, value_name = "TIDS")]
    pub tid: Option<String>,
    /// Only these CPUs, e.g. 0-3,32
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Only this part of the recording: FROM,UNTIL in seconds of its clock (either may be left out),
    /// 10%-20%, or 3%/2 as perf has it
    #[arg(long, value_name = "RANGE")]
    pub time: Option<String>,
    /// Only this event, by its name or its beginning; NAME#2 is the second one of a name
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Csv,
}

#[derive(Debug, ClapArgs)]
pub struct Report {
    #[command(flatten)]
    pub recording: Recording,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Columns that tell rows apart: cpu, comm, pid, tid, container, pod, trace, dso, sym, and EVENT.FIELD of a tracepoint [default:
    /// comm,dso,sym; of tracepoints comm,trace; with host, of several machines]
    #[arg(short = 's', long = "sort", value_name = "KEYS")]
    pub sort: Option<String>,
    #[command(flatten)]
    pub which: Which,
    /// Print instead how many samples each CPU gave, and how many it would have given when busy
    #[arg(long, conflicts_with = "filter")]
    pub coverage: bool,
    /// Print only what the head of the recording says
    #[arg(long, visible_alias = "header-only")]
    pub header: bool,
    /// Only this many rows of each event
    #[arg(long, value_name = "ROWS", value_parser = quantity::count::<usize>)]
    pub limit: Option<usize>,
    /// Leave rows below this share out
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub percent_limit: f64,
    /// Plain text, as perf spells it (the default here)
    #[arg(long)]
    pub stdio: bool,
    /// Count what functions called, too (the default where there are call chains)
    #[arg(long, overrides_with = "no_children")]
    pub children: bool,
    /// Count only the functions themselves, not what they call
    #[arg(long)]
    pub no_children: bool,
    /// Print call chains below each row: caller, callee or none; alone, what a row called when children
    /// are counted, else who called it
    #[arg(short = 'g', long = "call-graph", value_name = "WAY", num_args = 0..=1, default_missing_value = "graph")]
    pub call_graph: Option<String>,
    /// Print a column of sample counts (always here)
    #[arg(short = 'n', long = "show-nr-samples")]
    pub samples: bool,
    /// Print the keys as levels of a tree
    #[arg(long, conflicts_with = "call_graph")]
    pub hierarchy: bool,
    /// Show names as they are in the files
    #[arg(long)]
    pub no_demangle: bool,
    /// Show inlined functions as frames of their own, from the files' debug information
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Do not (the default)
    #[arg(long, hide_short_help = true)]
    pub no_inline: bool,
}

/// Options of `script`.
#[derive(Debug, ClapArgs)]
pub struct Script {
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub which: Which,
    /// Fields to print: comm, pid, tid, cpu, time, period, event, trace, ip, sym, symoff, dso, addr;
    /// +FIELD and -FIELD change the default
    #[arg(short = 'F', long = "fields", value_name = "FIELDS")]
    pub fields: Option<String>,
    /// Times with nine digits
    #[arg(long)]
    pub ns: bool,
    /// Show names as they are in the files
    #[arg(long)]
    pub no_demangle: bool,
    /// Show inlined functions as frames of their own, from the files' debug information
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Do not (the default)
    #[arg(long, hide_short_help = true)]
    pub no_inline: bool,
}

/// Formats of `export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Folded stacks, for FlameGraph and its kin
    Folded,
    /// A flame graph for browsers
    Svg,
    /// pprof (Go tool pprof), gzip
    Pprof,
    /// profiler.firefox.com
    Firefox,
    /// speedscope.app
    Speedscope,
    /// OTLP profiles, one message ProfilesData
    Otlp,
    /// perf.data
    Perfdata,
}

/// Options of `export`.
#[derive(Debug, ClapArgs)]
pub struct Export {
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub which: Which,
    #[arg(long, value_enum)]
    pub to: ExportFormat,
    /// The file to write; - for standard output
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    pub output: PathBuf,
    /// Mark kernel, JIT and inlined frames in folded stacks: `_[k]` `_[j]` `_[i]`
    #[arg(long)]
    pub annotate: bool,
    /// Show names as they are in the files
    #[arg(long)]
    pub no_demangle: bool,
    /// Show inlined functions as frames of their own, from the files' debug information
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Do not (the default)
    #[arg(long, hide_short_help = true)]
    pub no_inline: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Doctor {
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_options_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn perf_spellings_are_understood() {
        for line in [
            "perfprof-tui -a -g -F 99 -- sleep 1",
            "perfprof-tui -C 32",
            "perfprof-tui -p 1,2 --no-inherit -m 128 -D 100",
            "perfprof-tui record -a -g -F 99 -o x.data -- sleep 1",
            "perfprof-tui report -i x.data -s comm,dso,sym --format json --no-demangle",
            "perfprof-tui open x.data --where idle",
        ] {
            Args::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        assert!(Args::try_parse_from(["perfprof-tui", "-p", "1", "-a"]).is_err());
    }
}
