//! Tests without a running kernel: recordings and scenarios, their screens, reports and exports, compared with perf or
//! another reader.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod corpus;
mod cpus;
mod damaged;
mod demo;
mod digests;
mod dns;
mod ends;
mod exports;
mod files;
mod first_use;
mod forms;
mod golden;
mod hands;
mod hardware;
mod identity;
mod imported;
mod json;
mod judges;
mod latency;
mod listed;
mod locks;
mod machines;
mod mcp;
mod names;
mod pairing;
mod peers;
mod perf_options;
mod perf_prof;
mod printable;
mod prompts;
mod reports;
mod reused;
mod roundtrip;
mod screens;
mod screenshots;
mod script;
mod sharing;
mod steps;
mod stores;
mod tcp;
mod texts;
mod time;
mod unit_screens;
mod units;
mod waits;
mod wall_time;
mod ways;
