//! The command line: arguments, the driver of the screen, and the commands without a screen. The only folder that
//! prints, and the only one that uses both engine and screen.
//!
//! * [`args`]: all options and commands, their order on the command line, and their help.
//! * `perf_compat`: perf's commands and options that differ from ours.
//! * [`config`]: config.toml, the defaults of options, saved filters.
//! * `input`: opens recordings and selects their samples and events.
//! * `sampling`: from arguments to a source of the running machine; retention and snapshots.
//! * `commands`: each command in a file or folder.
//! * `manual`: the pages of the manual, and the schema of JSON output.

pub mod args;
pub(crate) mod commands;
pub mod config;
mod error;
mod input;
mod manual;
mod output;
mod perf_compat;
mod sampling;
mod signals;

use std::process::ExitCode;

use args::{Args, CliCommand};
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
    let command = args::help::of(&words, config::apply(args::called_by(&words), &config.options));
    let words = match args::arrange::arranged(words, &command) {
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
            (Some(CliCommand::Record(record)), Some((_, own))) => record.sampling.place_filters(own),
            (None, _) => args.live.sampling.place_filters(&matches),
            _ => {}
        }
        Ok(Parsed::Other(Box::new(args)))
    });
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let of_others = unit.and_then(|spec| args::unit_args::of_others(spec, &error));
            let unknown = || {
                perf_compat::perf_options::unknown(
                    &error,
                    args::arrange::command_of(&words, &args::called_by(&words)).0,
                )
            };
            if let Some(why) = of_others.or_else(unknown) {
                return code(Err(usage(why)));
            }
            output::print_usage(&error);
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let args = match parsed {
        Parsed::Unit(spec, args) => return code(commands::unit::run(spec, *args)),
        Parsed::Other(args) => args,
    };
    if !matches!(args.command, Some(CliCommand::Config(_))) {
        config.faults.iter().for_each(|fault| output::complain(fault));
    }
    code(commands::run(*args))
}

enum Parsed {
    Unit(&'static crate::units::kit::Spec, Box<args::unit_args::UnitArgs>),
    Other(Box<Args>),
}
