//! The command line: arguments, the driver of the screen, and the commands without a screen. The only folder that
//! prints, and the only one that uses both engine and screen.

pub(crate) mod annotate;
mod answers;
mod appearance;
mod archive;
pub mod args;
pub(crate) mod buildid_list;
mod chosen;
mod completions;
pub mod config;
pub(crate) mod cpus;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod driver;
mod dump;
pub mod entry;
mod error;
pub(crate) mod evlist;
pub(crate) mod export;
mod filters;
mod flight_recorder;
mod help;
pub(crate) mod inject;
pub(crate) mod list;
mod list_containers;
pub(crate) mod live;
mod manual;
pub(crate) mod open;
mod output;
mod perf_commands;
mod perf_options;
pub(crate) mod probe;
mod probe_places;
mod push;
pub(crate) mod record;
mod record_file;
mod record_ids;
mod remote;
pub(crate) mod report;
mod report_hardware;
mod retained;
pub(crate) mod run_unit;
pub(crate) mod schema;
mod script;
mod signals;
mod snapshot;
pub(crate) mod source_config;
mod spelling;
pub(crate) mod stat;
mod stat_output;
mod store;
pub(crate) mod symbols;
mod unit_source;
mod usdt;
mod welcome;

use std::process::ExitCode;

use args::{Args, Command};
use clap::FromArgMatches;
pub use error::Usage;
use error::code;
pub(crate) use error::usage;

use crate::kernel::{limits, own_memory, privilege};
use crate::symbols::guard;

/// The name of the program.
const NAME: &str = "perfprof-tui";

/// Parses the arguments, runs the command and prints errors.
pub fn main() -> ExitCode {
    guard::end_on_panic();
    own_memory::take_small_pages();
    if let Err(error) = privilege::shed() {
        output::complain(&error.to_string());
        return ExitCode::FAILURE;
    }
    limits::with_usual_stack(run)
}

fn run() -> ExitCode {
    let config = config::get();
    output::choose_charset(config.ascii);
    let words: Vec<_> = std::env::args_os().collect();
    let command = help::of(&words, config::apply(args::called_by(&words), &config.options));
    let words = match entry::arranged(words, &command) {
        Ok(words) => words,
        Err(error) => return code(Err(error)),
    };
    let unit = args::unit_args::called(&words);
    let parsed = command.try_get_matches_from(&words).and_then(|matches| {
        if let Some((spec, own)) = args::unit_args::find(&matches) {
            return Ok(Parsed::Unit(spec, Box::new(args::unit_args::UnitArgs::of(spec, own)?)));
        }
        let mut args = Args::from_arg_matches(&matches)?;
        match (&mut args.command, matches.subcommand()) {
            (Some(Command::Record(record)), Some((_, own))) => record.sampling.place_filters(own),
            (None, _) => args.live.sampling.place_filters(&matches),
            _ => {}
        }
        Ok(Parsed::Other(Box::new(args)))
    });
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let of_others = unit.and_then(|spec| args::unit_args::of_others(spec, &error));
            let unknown = || perf_options::unknown(&error, entry::command_of(&words, &args::called_by(&words)).0);
            if let Some(why) = of_others.or_else(unknown) {
                return code(Err(usage(why)));
            }
            output::print_usage(&error);
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let args = match parsed {
        Parsed::Unit(spec, args) => return code(run_unit::run(spec, *args)),
        Parsed::Other(args) => args,
    };
    if !matches!(args.command, Some(Command::Config(_))) {
        config.faults.iter().for_each(|fault| output::complain(fault));
    }
    code(match args.command {
        None => live::run(args.live),
        Some(Command::Open(open)) => live::open(open),
        Some(Command::Record(record)) => record::run(*record),
        Some(Command::Report(options)) => report::run(*options),
        Some(Command::Script(options)) => script::run(*options),
        Some(Command::Evlist(options)) => evlist::run(options),
        Some(Command::BuildidList(options)) => buildid_list::run(options),
        Some(Command::Inject(options)) => inject::run(options),
        Some(Command::Export(options)) => export::run(options),
        Some(Command::Annotate(options)) => annotate::run(options),
        Some(Command::Symbols(options)) => symbols::run(options),
        Some(Command::Diff(options)) => diff::run(options),
        Some(Command::Cpus(options)) => cpus::run(options),
        Some(Command::List(options)) => list::run(options),
        Some(Command::Probe(options)) => probe::run(options),
        Some(Command::Stat(options)) => stat::run(options),
        Some(Command::Doctor(doctor)) => report::doctor(doctor),
        Some(Command::Demo(options)) => demo::run(options),
        Some(Command::Config(options)) => config::run(options),
        Some(Command::Completions(options)) => completions::completions(options),
        Some(Command::Man(options)) => completions::man(options),
    })
}

enum Parsed {
    Unit(&'static crate::units::kit::Spec, Box<args::unit_args::UnitArgs>),
    Other(Box<Args>),
}
