//! The commands: each in a file or folder that carries it out and prints its result.

pub(crate) mod annotate;
pub(crate) mod buildid_list;
mod completions;
mod cpus;
mod demo;
mod diff;
pub(crate) mod digest;
mod doctor;
mod evlist;
pub(crate) mod export;
mod inject;
pub(crate) mod list;
pub(crate) mod live;
mod mcp;
pub(crate) mod probe;
mod record;
pub(crate) mod report;
mod script;
mod stat;
mod symbols;
pub(crate) mod unit;

use super::args::{Args, CliCommand};
use super::config;

/// Runs the command of the arguments, or the live screen if there is none. Returns the exit code.
pub(crate) fn run(args: Args) -> anyhow::Result<u8> {
    match args.command {
        None => live::run(args.live),
        Some(CliCommand::Open(options)) => live::open(options),
        Some(CliCommand::Record(options)) => record::run(*options),
        Some(CliCommand::Report(options)) => report::run(*options),
        Some(CliCommand::Script(options)) => script::run(*options),
        Some(CliCommand::Evlist(options)) => evlist::run(options),
        Some(CliCommand::BuildidList(options)) => buildid_list::run(options),
        Some(CliCommand::Inject(options)) => inject::run(options),
        Some(CliCommand::Export(options)) => export::run(options),
        Some(CliCommand::Annotate(options)) => annotate::run(options),
        Some(CliCommand::Symbols(options)) => symbols::run(options),
        Some(CliCommand::Diff(options)) => diff::run(options),
        Some(CliCommand::Digest(options)) => digest::run(options),
        Some(CliCommand::Mcp) => mcp::run(),
        Some(CliCommand::Cpus(options)) => cpus::run(options),
        Some(CliCommand::List(options)) => list::run(options),
        Some(CliCommand::Probe(options)) => probe::run(options),
        Some(CliCommand::Stat(options)) => stat::run(options),
        Some(CliCommand::Doctor(options)) => doctor::run(options),
        Some(CliCommand::Demo(options)) => demo::run(options),
        Some(CliCommand::Config(options)) => config::run(options),
        Some(CliCommand::Completions(options)) => completions::completions(options),
        Some(CliCommand::Man(options)) => completions::man(options),
    }
}
