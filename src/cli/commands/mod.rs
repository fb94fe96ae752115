//! The commands: each in a file or folder that carries it out and prints its result.

pub(crate) mod annotate;
pub(crate) mod buildid_list;
mod completions;
mod cpus;
mod demo;
mod diff;
mod doctor;
mod evlist;
pub(crate) mod export;
mod inject;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod probe;
mod record;
pub(crate) mod report;
mod script;
mod stat;
mod symbols;
pub(crate) mod unit;

use super::args::{Args, Command};
use super::config;

/// Runs the command of the arguments, or the live screen if there is none. Returns the exit code.
pub(crate) fn run(args: Args) -> anyhow::Result<u8> {
    match args.command {
        None => live::run(args.live),
        Some(Command::Open(options)) => live::open(options),
        Some(Command::Record(options)) => record::run(*options),
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
        Some(Command::Doctor(options)) => doctor::run(options),
        Some(Command::Demo(options)) => demo::run(options),
        Some(Command::Config(options)) => config::run(options),
        Some(Command::Completions(options)) => completions::completions(options),
        Some(Command::Man(options)) => completions::man(options),
    }
}
