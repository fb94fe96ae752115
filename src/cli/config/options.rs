//! Defaults of options: the configuration overrides built-in defaults, the command line overrides both.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, FromArgMatches, Parser};

use crate::lang::nearest_hint;

use super::OptionDefault;
use crate::cli::args::{Args, LiveArgs, called_by};

/// Options without a configurable default, because they end the program or belong to one command line.
const REFUSED: &[&str] = &["help", "version", "input", "pid", "tid", "uid"];

fn long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

pub(crate) fn check(option: &OptionDefault) -> Result<(), String> {
    let name = &option.name;
    let own: Vec<OsString> = option.command.iter().map(Into::into).collect();
    let command = called_by(&own);
    let command = match &option.command {
        Some(own) => command.find_subcommand(own).ok_or_else(|| format!("unknown command {own}"))?.clone(),
        None => command,
    };
    let Some(arg) = long(&command, name) else {
        let hint = nearest_hint(name, command.get_arguments().filter_map(Arg::get_long));
        return Err(format!("unknown option --{name}{hint}"));
    };
    if REFUSED.contains(&name.as_str()) {
        return Err(format!("--{name} cannot be configured; use it on the command line"));
    }
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    if is_switch && !matches!(option.values.as_slice(), [one] if one == "true" || one == "false") {
        return Err(format!("--{name}: expected true or false"));
    }
    if option.values.len() > 1 && !matches!(arg.get_action(), ArgAction::Append) {
        return Err(format!("--{name}: expected one value"));
    }
    // The option's own parser checks the value; other missing arguments do not matter here.
    for value in option.values.iter().filter(|_| !is_switch) {
        let words = ["perfprof-tui".to_owned(), format!("--{name}={value}")];
        if let Err(error) = command.clone().no_binary_name(false).try_get_matches_from(words)
            && matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation)
        {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            return Err(line);
        }
    }
    Ok(())
}

/// Sets the configured defaults of a command and its subcommands.
pub(crate) fn apply(mut command: Command, options: &[OptionDefault]) -> Command {
    for option in options {
        command = match &option.command {
            None => everywhere(command, option),
            Some(own) => command.mut_subcommand(own, |below| set(below, option)),
        };
    }
    command
}

pub(crate) fn live_args() -> LiveArgs {
    let command = apply(called_by(&[]), &super::get().options);
    let matches = command.try_get_matches_from(["perfprof-tui"]);
    let args = matches.and_then(|matches| <Args as FromArgMatches>::from_arg_matches(&matches));
    args.unwrap_or_else(|_| Args::parse_from(["perfprof-tui"])).live
}

/// Sets a default in a command and in its subcommands that have the option without a default of their own.
fn everywhere(command: Command, option: &OptionDefault) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|own| own.get_name().to_owned()).collect();
    let below = ["open", "record"];
    let command = set(command, option);
    names
        .iter()
        .filter(|name| below.contains(&name.as_str()))
        .fold(command, |command, name| command.mut_subcommand(name, |below| set(below, option)))
}

fn set(command: Command, option: &OptionDefault) -> Command {
    let Some(id) = long(&command, &option.name).map(|arg| arg.get_id().clone()) else { return command };
    command.mut_arg(id, |arg| arg.default_values(option.values.clone()))
}
