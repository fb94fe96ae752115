//! perfprof-tui samples a Linux machine and shows, live and in a terminal, what its CPUs do.
//!
//! This page is the map. The folders stand in the order of a sample's life, and each may use only
//! those above it in this list (`tests/tidy` holds them to that):
//!
//! ```text
//!   kernel ring ─┐
//!   perf.data  ──┴→ record ─→ session ─→ symbols ─→ ingest ─→ profile ─→ query ─→ panel ─→ ui | report | export
//!                   decode,   who/where  ip→frame   chains,   columns +  filter,  table
//!                   order     at time t             derived   stack trie  rows
//! ```
//!
//! * [`kernel`]: perf_event_open, rings, /proc, /sys. All `unsafe` lives here.
//! * [`record`]: the record types, decoded and put in order of time.
//! * [`lang`]: what all small languages share: quantities, faults with their place.
//! * [`perfdata`]: the perf.data container, read and written.
//! * [`event`]: event names and what they mean to the kernel; probes.
//! * [`filter`]: the filter language, and where in the kernel a clause of it can run.
//! * [`session`]: threads, processes, containers and mappings over time; the machine's CPUs.
//! * [`symbols`]: addresses to functions, inlined functions and lines; unwinding; the code of functions.
//! * [`source`]: where records come from: the running machine, a recording in any form, or text,
//!   behind one trait.
//! * [`profile`]: sample columns, the trie of stacks, names, losses. One thread owns it.
//! * [`query`]: questions to the profile and their answers: tables, call chains, flame graphs,
//!   differences, CPUs.
//! * [`panel`]: the vocabulary in which answers are shown.
//! * [`units`]: analysis units, one file each, and the kit that they share.
//! * [`cpu`]: the machine's CPUs: sampler, table, columns, findings, time in softirqs; triggers.
//! * [`ingest`]: from batches to session and profile: decode, order, call chains, clocks, and what is derived
//!   from samples.
//! * [`engine`]: the threads between source and screen.
//! * [`ui`]: the screen. Knows nothing of the kernel.
//! * [`report`] and [`export`]: answers and profiles without a screen.
//! * [`cli`]: arguments; the only place that prints.
//!
//! # Threads
//!
//! `source` waits for rings and copies bytes; `profile` owns session and profile, takes batches in
//! and publishes answers by an atomic swap; `symbols` looks names up and annotates functions, `lines`
//! looks inlined functions and lines up, `fetch` gets debug files where there are servers; live, `host`
//! reads /proc ten times a second, `containers` finds containers and their names, and `softirqs` reads tracepoints of
//! its own while asked to; the main thread runs the interface, with `input` reading the terminal for it. Neither
//! interface nor sampling ever waits for the other. Whoever reads a foreign file has that done by a thread of the same
//! name (`symbols::guard`), which may fail. Questions go down, answers come up, nothing is shared but immutable
//! values.
//!
//! # Invariants
//!
//! * A parent stack's id is less than its children's: inclusive values are one reverse pass.
//! * A sample is 24 bytes and never touched again; what depends on its task and stack is decided
//!   once for each distinct pair of them (a site).
//! * Frames keep raw addresses with their mapping, so a snapshot holds what was sampled, exactly.
//! * Ties are broken everywhere: the same input gives the same output, byte for byte.
//! * Names from outside are cleaned where they are drawn or printed, and nowhere else.

/// The modules of a list of things, and what each of them has by one name, at once: a file without its name in the list
/// is no part of the program, and a name without its file, or without that in it, does not compile. `cargo fmt` does
/// not follow it: `rustfmt` formats such files by their names.
macro_rules! listed {
    ($(#[$about:meta])* $list_vis:vis const $LIST:ident: $Type:ty = $ITEM:ident of $($module:ident),+;) => {
        $(pub mod $module;)+

        $(#[$about])*
        $list_vis const $LIST: &[&$Type] = &[$(&$module::$ITEM),+];
    };
}

pub mod kernel;
pub mod record;

pub mod lang;

pub mod perfdata;

pub mod event;
pub mod filter;
pub mod session;
pub mod symbols;

pub mod source;

pub mod profile;
pub mod query;

pub mod cpu;
pub mod panel;
pub mod units;

pub mod ingest;

pub mod engine;

pub mod ui;

pub mod export;
pub mod report;

pub mod cli;

#[cfg(test)]
mod damage;
