//! The running kernel and the program in a terminal, compared with perf and with known loads. Without the privileges
//! to measure the machine, a test reports that it is skipped.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod against_perf;
mod callers;
mod changes;
mod command_lines;
mod compiled;
mod containers;
mod counts;
mod cpus;
mod digest;
mod dns;
mod door;
mod ends;
mod files;
mod hosts;
mod identity;
mod interpreters;
mod java;
mod json;
mod latency;
mod locks;
mod losses;
mod neighbours;
mod node;
mod off_cpu;
mod older_waits;
mod pty;
mod push;
mod record_options;
mod recorder;
mod requests;
mod running;
mod targets;
mod tcp;
mod tracepoints;
mod units;
mod walks;
mod wall_time;
