//! Commands of analysis units, generated from their specs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, ArgMatches, Args as ClapArgs, Command, FromArgMatches, ValueHint};

use crate::cli::perf_compat::perf_options;
use crate::event::CallGraph;
use crate::lang::quantity;
use crate::units::kit::options::settings::{self, OPTIONS, Opt, SHARED, address_event};
use crate::units::kit::{Settings, Spec};
use crate::units::{self, UNITS};

use super::{NameArgs, OutputFormat, help};

/// Units whose name is also a command; they are run by `unit NAME`.
const TAKEN: &[&str] = &["stat"];

/// Options that repeat another option in perf-prof's words; the short help omits them.
const RARE: &[&str] = &["only-than", "lower"];

/// The unit that takes addresses as arguments.
const BREAKPOINT: &str = "breakpoint";

/// Adds a command for each unit, and `unit` for all of them, with arguments if `is_asked` accepts the name.
pub(crate) fn add(mut command: Command, is_asked: &dyn Fn(&str) -> bool) -> Command {
    let mut all = Command::new("unit").about("Run an analysis unit by its name").subcommand_required(true);
    for spec in UNITS {
        let own = if is_asked(spec.name) { of(spec) } else { Command::new(spec.name).about(capital(spec.about)) };
        if !TAKEN.contains(&spec.name) {
            command = command.subcommand(own.clone());
        }
        all = all.subcommand(own);
    }
    command.subcommand(all)
}

/// Returns the unit that the command line names.
pub(crate) fn find(matches: &ArgMatches) -> Option<(&'static Spec, &ArgMatches)> {
    let (name, own) = match matches.subcommand()? {
        ("unit", inner) => inner.subcommand()?,
        (name, own) if !TAKEN.contains(&name) => (name, own),
        _ => return None,
    };
    units::find(name).map(|spec| (spec, own))
}

pub(crate) fn of(spec: &'static Spec) -> Command {
    let about = capital(spec.about);
    let output = if spec.output.is_empty() { String::new() } else { format!("\n\n{}", spec.output) };
    let long = format!("{about}.\n\n{}\n\nExample: {}{output}", spec.story(), spec.example);
    let interval = match spec.interval {
        Some(seconds) => format!("{seconds}; with --duration or a command, one report at the end"),
        None => "one report at the end".to_owned(),
    };
    let interval = format!(
        "Seconds between reports, which reset the figures (from 100 on: milliseconds; or 500ms) [default: {interval}]; \
         a value that is not a time is a recording, like -i of other commands"
    );
    let mut command = UnitArgs::augment_args(Command::new(spec.name).max_term_width(100)).mut_args(|arg| {
        let is_interval = arg.get_id() == "intervals";
        if is_interval { arg.help(interval.clone()) } else { arg }
    });
    let heading = |opt: &Opt| match opt.name {
        _ if opt.is_shared() => "Options of all units",
        name if RARE.contains(&name) => "More options of this unit",
        _ => help::OWN,
    };
    command = command.args(options_of(spec).map(|opt| opt.arg().help_heading(heading(opt))));
    let command = NameArgs::augment_args(command.next_help_heading("Names of a recording"));
    // Units use -k for the key. Adding a group of arguments overwrites the description, so the unit's own is set after
    // it.
    let command = command.mut_arg("vmlinux", |arg| arg.short(None)).about(about).long_about(long);
    perf_options::add_to_unit(spec, command)
}

/// Returns the options of a unit on the command line, then those of all units.
pub(crate) fn options_of(spec: &Spec) -> impl Iterator<Item = &'static Opt> + use<'_> {
    settings::options_of(spec).filter(|opt| !matches!(opt.name, "pids" | "tids"))
}

/// Returns the error for an option that only other units have, with their names.
pub(crate) fn of_others(spec: &Spec, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = spec.name;
    if typed.split('=').next() == Some("--filter") && spec.options.contains(&"event") {
        return Some(format!("{name}: unknown option --filter; write the filter of an event as -e 'EVENT/FILTER/'"));
    }
    let is_typed = |opt: &&Opt| match typed.strip_prefix("--") {
        Some(long) => opt.name == long.split('=').next().unwrap_or(long),
        None => opt.short.is_some_and(|short| typed.strip_prefix('-').is_some_and(|rest| rest.starts_with(short))),
    };
    let opt = OPTIONS.iter().chain(SHARED).find(is_typed)?;
    let having: Vec<&str> =
        UNITS.iter().filter(|other| other.options.contains(&opt.name)).map(|other| other.name).collect();
    Some(format!("{name}: {typed} cannot apply to it; it is an option of {}", having.join(", ")))
}

pub(crate) fn called(words: &[OsString]) -> Option<&'static Spec> {
    let mut names = words.iter().skip(1).filter_map(|word| word.to_str()).skip_while(|word| *word == "unit");
    names.next().and_then(units::find)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

/// The arguments after a unit's name.
#[derive(Debug, ClapArgs)]
pub(crate) struct UnitArgs {
    #[arg(skip)]
    pub(crate) settings: Settings,
    /// Recording with the unit's events [default: the running machine]
    #[arg(value_name = "FILE", num_args = 0.., value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    #[arg(short = 'i', long = "interval", value_name = "S|FILE", action = ArgAction::Append)]
    intervals: Vec<String>,
    #[arg(skip)]
    pub(crate) interval: Option<Duration>,
    /// Interval that was read as milliseconds.
    #[arg(skip)]
    pub(crate) taken_for_ms: Option<String>,
    /// Print figures instead of a screen (default without a terminal)
    #[arg(long)]
    pub(crate) batch: bool,
    /// Output format
    #[arg(long, value_names = [""; 0], value_enum, default_value = "text")]
    pub(crate) format: OutputFormat,
    /// Print only panels whose title begins with TITLE (CSV: the first one)
    #[arg(long = "panel", value_name = "TITLE", action = ArgAction::Append)]
    pub(crate) panels: Vec<String>,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::count::<u64>)]
    pub(crate) count: Option<u64>,
    /// Print figures to FILE
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) output: Option<PathBuf>,
    /// End after S seconds
    #[arg(long, alias = "for", value_name = "S", value_parser = quantity::duration)]
    pub(crate) duration: Option<Duration>,
    /// Write stacks to NAME.folded, with -i prefixed by DATE;TIME; - for standard output
    #[arg(long = "flame-graph", value_name = "NAME")]
    pub(crate) folded: Option<String>,
    /// Write `TIME LATENCY` in nanoseconds, the input of trace2heatmap, to NAME-EVENT-EVENT.lat; - for standard output
    #[arg(long = "heatmap", value_name = "NAME")]
    pub(crate) points: Option<String>,
    /// The whole machine (default without a target)
    #[arg(short = 'a', long = "all-cpus")]
    pub(crate) all: bool,
    /// These processes and their descendants
    ///
    /// perf's -p excludes children that already run
    #[arg(short = 'p', long = "pid", alias = "pids", value_name = "PIDS")]
    pub(crate) pids: Option<String>,
    /// Only these threads
    #[arg(short = 't', long = "tid", alias = "tids", value_name = "TIDS", conflicts_with = "pids")]
    pub(crate) tids: Option<String>,
    /// How user stacks are unwound: auto, fp (frame pointers), tables, dwarf or dwarf,SIZE, lbr or none
    ///
    /// auto unwinds stacks by the files' tables. Tracepoints and probes that are filtered copy the stacks of a target (-p,
    /// -t, --cgroups, --container or a command) and unwind them by DWARF; on the whole machine they use frame pointers.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    call_graph: String,
    #[arg(skip)]
    pub(crate) chains: CallGraph,
    /// Data pages of each CPU's ring buffer (or 512K, 4M)
    #[arg(short = 'm', long = "mmap-pages", value_name = "PAGES")]
    pub(crate) pages: Option<String>,
    /// No effect: records are always in order of time
    #[arg(long, hide_short_help = true)]
    order: bool,
    /// No effect: records that wait to be sorted use the memory that --memory allows
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    order_mem: Option<String>,
    /// Print these options and the fields of its events; so does the word help in place of a command
    #[arg(long)]
    pub(crate) describe: bool,
    /// Command to start and follow
    #[arg(value_name = "CMD", num_args = 0.., last = true)]
    pub(crate) cmd: Vec<OsString>,
    #[arg(skip)]
    pub(crate) names: NameArgs,
}

/// Plain numbers after `-i` from this value on are milliseconds, like in perf-prof.
const MILLISECONDS_FROM: f64 = 100.0;

impl UnitArgs {
    /// Reads the arguments of a unit's command.
    pub(crate) fn of(spec: &Spec, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::from_arg_matches(matches)?;
        args.names = NameArgs::from_arg_matches(matches)?;
        args.read(spec, matches).map_err(|why| clap::Error::raw(clap::error::ErrorKind::InvalidValue, why))?;
        Ok(args)
    }

    /// Reads arguments whose meaning depends on the unit or on several words.
    fn read(&mut self, spec: &Spec, matches: &ArgMatches) -> Result<(), String> {
        self.settings.take(options_of(spec), matches);
        for file in std::mem::take(&mut self.files) {
            match file.to_str().and_then(address_event).filter(|_| spec.name == BREAKPOINT) {
                Some(event) => self.settings.set("event", &event),
                None => self.files.push(file),
            }
        }
        for word in std::mem::take(&mut self.intervals) {
            match quantity::duration(&word) {
                Ok(_) if word.parse().is_ok_and(|n: f64| n >= MILLISECONDS_FROM) => {
                    self.interval = quantity::milliseconds(&word).ok();
                    self.taken_for_ms = Some(word);
                }
                Ok(time) => self.interval = Some(time),
                Err(_) => self.files.push(word.into()),
            }
        }
        if self.folded.is_some() && spec.options.contains(&"stack") && !self.settings.has("stack") {
            self.settings.set("stack", "");
        }
        self.chains = CallGraph::parse(&self.call_graph)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_of_perf_has_a_place_in_events() {
        let spec = units::find("trace").expect("a unit");
        let error = of(spec).try_get_matches_from(["trace", "-e", "a:b", "--filter", "x > 1"]).expect_err("unknown");
        assert!(of_others(spec, &error).is_some_and(|why| why.ends_with("-e 'EVENT/FILTER/'")));
    }
}
