//! Arguments of the command line. Where perf has an option, ours has its spelling and meaning.

pub mod arrange;
pub(crate) mod digest;
pub(crate) mod help;
pub(crate) mod listed;
mod machine;
pub(crate) mod names;
mod recorder;
mod recording;
mod sampling;
mod screens;
mod script;
pub(crate) mod store_query;
pub(crate) mod unit_args;
mod unknown_word;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::cli::perf_compat::perf_options;
use crate::export;
use crate::lang::quantity;

pub(crate) use machine::{CpusArgs, ListArgs, ProbeArgs, StatArgs};
pub(crate) use recorder::{RecordArgs, RetentionArgs, StoreArg};
pub(crate) use recording::{
    DiffArgs, DiffFormat, FrameArgs, NameArgs, OrderSide, RecordingArgs, ReportArgs, SelectionArgs, clause_of_name,
    clauses_of_lists,
};
pub(crate) use sampling::Sampling;
pub(crate) use screens::{LiveArgs, OpenArgs, ViewArgs};
pub(crate) use script::{RareScript, ScriptArgs};
pub(crate) use store_query::StoreQueryArgs;

/// Heading of the less common perf options.
const PERF: &str = "Rarer options of perf";

/// Live profiler: shows which functions the CPUs run, who calls them and what changed.
#[derive(Debug, Parser)]
#[command(
    name = "perfprof-tui",
    version,
    about,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    max_term_width = 100
)]
#[command(after_help = "Without a command: the live screen. `perfprof-tui doctor` lists what you can measure.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show a recording with the same screens as live
    Open(OpenArgs),
    /// Record to a file, without a terminal, at the lowest cost
    Record(Box<RecordArgs>),
    /// Print a recording's table as text, JSON or CSV
    Report(Box<ReportArgs>),
    /// Print each sample of a recording as text, like perf script
    Script(Box<ScriptArgs>),
    /// List the events of a recording, like perf evlist
    Evlist(listed::EvlistArgs),
    /// List the build ids of a recording, the kernel or a program
    BuildidList(listed::BuildidListArgs),
    /// Add sleep times or build ids to a recording, like perf inject
    Inject(listed::InjectArgs),
    /// Write a recording in another tool's format
    Export(ExportArgs),
    /// Print a function's instructions with shares and source lines
    Annotate(names::AnnotateArgs),
    /// Name the addresses on standard input, like pprof --symbols (for gperftools: PPROF_PATH=perfprof-tui)
    Symbols(names::SymbolsArgs),
    /// Print what changed between two recordings
    Diff(DiffArgs),
    /// Print one page about a recording, or about the next seconds: findings, processes, heaviest paths
    Digest(digest::DigestArgs),
    /// Serve profiles to an assistant (Model Context Protocol)
    Mcp,
    /// Print each CPU's shares, missing ticks and softirqs
    Cpus(CpusArgs),
    /// Count events of a command or target, like perf stat
    Stat(StatArgs),
    /// Create, list and remove probes on functions and static probes
    Probe(ProbeArgs),
    /// List the events of this machine
    List(ListArgs),
    /// List what you can measure here, and how to enable the rest
    Doctor(DoctorArgs),
    /// Replay a recorded incident with a tour; needs no rights
    Demo(DemoArgs),
    /// Print the effective configuration, or check it
    Config(ConfigArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them
    Man(ManArgs),
}

/// Returns the whole command tree, units included.
pub fn whole() -> clap::Command {
    tree(&|_| true)
}

/// Returns the command tree for these words: all commands by name, but arguments only for commands that a word names.
/// This takes a tenth of the time and memory of the whole tree.
pub fn called_by(words: &[OsString]) -> clap::Command {
    // Commands that can run without being named.
    const UNSAID: [&str; 3] = ["open", "man", "symbols"];
    tree(&|name| UNSAID.contains(&name) || words.iter().any(|word| word == name))
}

/// Returns the command tree, with arguments for the commands that `is_asked` accepts.
fn tree(is_asked: &dyn Fn(&str) -> bool) -> clap::Command {
    let command = <Args as clap::CommandFactory>::command().mut_subcommands(|own| match is_asked(own.get_name()) {
        true => with_perfs(own),
        false => without_arguments(&own),
    });
    help::with_flags(unit_args::add(perf_options::add("top", command), is_asked)).infer_long_args(true)
}

fn without_arguments(command: &clap::Command) -> clap::Command {
    let own = clap::Command::new(command.get_name().to_owned()).hide(command.is_hide_set());
    command.get_about().into_iter().fold(own, |own, about| own.about(about.clone()))
}

/// Adds the letters and options of perf's command of the same name.
fn with_perfs(command: clap::Command) -> clap::Command {
    let name = command.get_name().to_owned();
    let command = match name.as_str() {
        "diff" => {
            let diff = command.mut_arg("cpu", |arg| arg.short(None::<char>)).mut_arg("comms", |arg| arg.short('C'));
            diff.mut_arg("compute", |arg| arg.short('c'))
        }
        // Commands of perf use this letter for --quiet.
        "open" => command.mut_arg("query", |arg| arg.short('q').hide_short_help(false)),
        // perf script uses this letter for --debug-mode.
        "script" => command.mut_arg("dsos", |arg| arg.short(None::<char>)),
        _ => command,
    };
    perf_options::add(&name, command)
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    /// Speed factor of the replay
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = quantity::number)]
    pub(crate) speed: f64,
    /// Skip the tour
    #[arg(long)]
    pub(crate) no_tour: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
    /// Print the texts that complete a command line at its end; for the scripts
    #[arg(long, value_name = "LINE", allow_hyphen_values = true, hide = true)]
    pub(crate) line: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Command or topic: screens, filter, containers, names, units, json, config.5 [default: the program]
    pub(crate) topic: Option<String>,
    /// Print plain text instead of man(1) source, like `help TOPIC`
    #[arg(long, conflicts_with_all = ["folder", "schema"])]
    pub(crate) text: bool,
    /// Write all pages into DIR, in man1, man5 and man7
    #[arg(long, value_name = "DIR", conflicts_with = "topic")]
    pub(crate) folder: Option<PathBuf>,
    /// Print the JSON Schema of all JSON output, or of one command, like `help json`
    #[arg(long, value_name = "COMMAND", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(conflicts_with = "folder")]
    pub(crate) schema: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Only report errors in the configuration
    #[arg(long)]
    pub(crate) check: bool,
    /// Print the path of the configuration
    #[arg(long, conflicts_with = "check")]
    pub(crate) path: bool,
    /// Print the scopes that a theme can style
    #[arg(long, conflicts_with_all = ["check", "path"])]
    pub(crate) scopes: bool,
}

/// Output format of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    Csv,
}

fn export_format() -> impl TypedValueParser<Value = &'static export::ExportFormat> {
    let values = export::FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(values)
        .try_map(|name| export::FORMATS.iter().find(|format| format.name == name).copied().ok_or("unknown format"))
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    #[command(flatten)]
    pub(crate) which: SelectionArgs,
    #[arg(long, value_parser = export_format())]
    pub(crate) to: &'static export::ExportFormat,
    /// Output file (default: standard output)
    #[arg(short = 'o', long = "output", value_name = "OUT", default_value = "-", hide_default_value = true)]
    pub(crate) output: PathBuf,
    /// Mark kernel, JIT and inlined frames in folded stacks: `_[k]` `_[j]` `_[i]`
    #[arg(long)]
    pub(crate) annotate: bool,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: OutputFormat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_options_are_consistent() {
        Args::command().debug_assert();
    }

    fn arguments(command: &clap::Command) -> Vec<String> {
        command.get_arguments().map(|arg| format!("{arg:?}")).collect()
    }

    #[test]
    fn what_is_called_is_as_of_the_whole_and_the_others_are_names() {
        let whole = whole();
        for own in whole.get_subcommands() {
            let name = own.get_name();
            let called = called_by(&["perfprof-tui".into(), name.into()]);
            assert_eq!(arguments(&called), arguments(&whole));
            assert_eq!(arguments(called.find_subcommand(name).expect("it is there")), arguments(own), "{name}");
            let full = called.get_subcommands().filter(|other| other.get_arguments().count() > 2);
            assert!(full.count() <= 4, "{name}");
            let about = |command: &clap::Command| {
                let list = command.get_subcommands();
                list.map(|own| (own.get_name().to_owned(), own.get_about().cloned())).collect::<Vec<_>>()
            };
            assert_eq!(about(&called), about(&whole));
        }
        let called = called_by(&["perfprof-tui", "unit", "stat"].map(OsString::from));
        let stat = |command: &clap::Command| {
            arguments(command.find_subcommand("unit").and_then(|unit| unit.find_subcommand("stat")).expect("a unit"))
        };
        assert_eq!(stat(&called), stat(&whole));
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
        assert!(Args::try_parse_from(["perfprof-tui", "-p", "1", "-t", "1"]).is_err());
    }
}
