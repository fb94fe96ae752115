//! The running kernel and the program in a terminal: what is measured here and now, against perf and against loads
//! whose truth is known. Without the rights to measure the machine a test says so by its name and passes as skipped.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod against_perf;
mod callers;
mod changes;
mod command_lines;
mod containers;
mod counts;
mod cpus;
mod door;
mod hosts;
mod identity;
mod json;
mod neighbours;
mod pty;
mod push;
mod record_options;
mod recorder;
mod running;
mod targets;
mod tracepoints;
mod units;
mod walks;
