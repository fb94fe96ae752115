//! What needs no running kernel: recordings and stories of our own making, their screens, reports and exports, each
//! against what perf or another reader says of the same.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod corpus;
mod cpus;
mod damaged;
mod demo;
mod exports;
mod forms;
mod golden;
mod hands;
mod hardware;
mod identity;
mod json;
mod judges;
mod listed;
mod names;
mod pairing;
mod perf_options;
mod perf_prof;
mod printable;
mod prompts;
mod reports;
mod roundtrip;
mod screens;
mod screenshots;
mod script;
mod sharing;
mod steps;
mod texts;
mod time;
mod unit_screens;
mod units;
mod waits;
mod ways;
