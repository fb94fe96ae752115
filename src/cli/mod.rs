//! The command line: arguments, the driver of the screen, and the commands without a screen. The only folder that
//! prints, and the only one that uses both engine and screen.
//!
//! * [`args`]: all options and commands, their order on the command line, and their help.
//! * `perf_compat`: perf's commands and options that differ from ours.
//! * `credentials`: passwords and tokens of profile stores.
//! * [`config`]: config.toml, the defaults of options, saved filters.
//! * `input`: opens recordings and selects their samples and events.
//! * `sampling`: from arguments to a source of the running machine; retention and snapshots.
//! * `commands`: each command in a file or folder.
//! * `manual`: the pages of the manual, and the schema of JSON output.

pub mod args;
pub(crate) mod commands;
pub mod config;
mod credentials;
mod error;
mod input;
mod manual;
mod output;
mod perf_compat;
mod sampling;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Args, CliCommand, unit_args};
use clap::FromArgMatches;
pub use error::Usage;
use error::code;
pub(crate) use error::usage;
use perf_compat::perf_options;

use crate::kernel::{limits, own_memory, privilege};
use crate::symbols::isolated;

/// The name of the program.
const NAME: &str = "perfprof-tui";

/// Parses the arguments, runs the command and prints errors.
pub fn main() -> ExitCode {
    isolated::end_on_panic();
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
    let error = match parsed(command, &words) {
        Ok(call) => return code(call()),
        Err(error) => error,
    };
    let of_others = unit_args::called(&words).and_then(|spec| unit_args::of_others(spec, &error));
    let unknown = || perf_options::unknown(&error, args::arrange::command_of(&words, &args::called_by(&words)).0);
    if let Some(why) = of_others.or_else(unknown) {
        return code(Err(usage(why)));
    }
    output::print_usage(&error);
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// Returns the call of the command.
fn parsed(command: clap::Command, words: &[OsString]) -> Result<Box<dyn FnOnce() -> anyhow::Result<u8>>, clap::Error> {
    let matches = command.try_get_matches_from(words)?;
    if let Some((spec, own)) = unit_args::find(&matches) {
        let args = unit_args::UnitArgs::of(spec, own)?;
        return Ok(Box::new(move || commands::unit::run(spec, args)));
    }
    let mut args = Args::from_arg_matches(&matches)?;
    match (&mut args.command, matches.subcommand()) {
        (Some(CliCommand::Record(record)), Some((_, own))) => record.sampling.place_filters(own),
        (None, _) => args.live.sampling.place_filters(&matches),
        _ => {}
    }
    Ok(Box::new(move || {
        if !matches!(args.command, Some(CliCommand::Config(_))) {
            config::get().faults.iter().for_each(|fault| output::complain(fault));
        }
        commands::run(args)
    }))
}
