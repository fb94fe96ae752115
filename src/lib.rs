//! perfprof-tui samples a Linux machine and shows, live and in a terminal, what its CPUs do.
//!
//! This page is the map of the program. The modules are listed in the order in which a sample passes through them. Each
//! may use only those above it in this list, which `tests/tidy` enforces:
//!
//! ```text
//!   kernel ring ─┐
//!   perf.data  ──┴→ record ─→ session ─→ symbols ─→ ingest ─→ profile ─→ query ─→ panel ─→ ui | report | export
//!                   decode,   who/where  ip→frame   chains,   columns +  filter,  table
//!                   order     at time t             derived   stack trie  rows
//! ```
//!
//! * [`perf_abi`]: bits that requests to the kernel and its records share.
//! * [`kernel`]: perf_event_open, rings, /proc, /sys. Contains all `unsafe` code.
//! * [`record`]: the record types, decoded and sorted by time.
//! * [`lang`]: the common parts of all small languages: quantities, errors with their position.
//! * [`perfdata`]: the perf.data container, read and written.
//! * [`event`]: event names and their kernel configurations; probes.
//! * [`filter`]: the filter language, and which of its clauses can run in the kernel.
//! * [`session`]: threads, processes, containers and mappings over time; the machine's CPUs.
//! * [`symbols`]: addresses to functions, inlined functions and lines; unwinding; the code of functions.
//! * [`source`]: the sources of records behind one trait: the running machine, recordings in all forms, text.
//! * [`profile`]: sample columns, the trie of stacks, names, losses. One thread owns it.
//! * [`panel`]: the elements in which answers are shown.
//! * [`query`]: questions to the profile and their answers: tables, call chains, flame graphs, differences, CPUs.
//! * [`units`]: analysis units, one file each, in folders by topic; their shared kit.
//! * [`ingest`]: from batches to session and profile: decode, order, call chains, clocks, and derived events.
//! * [`machine`]: the running machine: figures from /proc, CPUs, resources, findings, time in softirqs; triggers.
//! * [`engine`]: the threads between source and screen.
//! * [`ui`]: the screen. Does not depend on the kernel.
//! * [`report`] and [`export`]: answers and profiles without a screen.
//! * [`cli`]: arguments; the only module that prints.
//!
//! # Threads
//!
//! * `source` waits for rings and copies bytes. `waits` loads the program that sums the time off the CPUs.
//! * `profile` owns session and profile, processes batches, and publishes answers by an atomic swap.
//! * `symbols` looks up names and annotates functions; `lines` looks up inlined functions and lines; `fetch` downloads
//!   debug files if servers are configured.
//! * In a live session, `host` reads /proc ten times a second, `locks` and `deadlocks` read the waits of threads,
//!   `containers` finds containers and their names. `culprits` and `softirqs` read their own tracepoints: the first for a
//!   moment if connections fail, the other one on request.
//! * The main thread runs the interface, for which `input` reads the terminal.
//!
//! The interface and sampling never wait for each other. A thread that reads foreign files does so in a second thread
//! of the same name (`symbols::trust::isolated`), which may fail. Questions go down, answers come up, and only immutable values
//! are shared.
//!
//! # Invariants
//!
//! * A parent stack's id is lower than its children's, so that inclusive values are computed in one reverse pass.
//! * A sample is 24 bytes and is never modified; decisions that depend on its task and stack are made once for each
//!   distinct pair of them (a site).
//! * Frames keep raw addresses with their mapping, so that a snapshot contains exactly what was sampled.
//! * Ties are always broken: the same input gives the same output, byte for byte.
//! * Names from outside are sanitized where they are drawn or printed, and nowhere else.

/// Declares the modules of a list and collects a value from each. A file that is not in the list is not part of the
/// program; a name in the list without its file, or without the value in it, does not compile. `cargo fmt` does not
/// follow the macro; run `rustfmt` on such files by name.
macro_rules! listed {
    ($(#[$about:meta])* $list_vis:vis const $LIST:ident: $Type:ty = $ITEM:ident of $($module:ident),+;) => {
        $(pub mod $module;)+

        $(#[$about])*
        $list_vis const $LIST: &[&$Type] = &[$(&$module::$ITEM),+];
    };
}

pub mod perf_abi;

pub mod kernel;
pub mod record;

pub mod lang;

pub mod perfdata;

pub mod event;
pub mod filter;
pub mod session;
pub mod symbols;

pub mod source;

pub mod panel;
pub mod profile;

pub mod query;
pub mod units;

pub mod ingest;
pub mod machine;

pub mod engine;

pub mod ui;

pub mod export;
pub mod report;

pub mod cli;

#[cfg(test)]
mod damage;
