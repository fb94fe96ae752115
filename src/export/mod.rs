//! Profiles in the formats of other tools: each is a file with its `FORMAT`, listed here. Saving what is on the screen
//! ([`perfdata`]) works on a [`crate::engine::Snapshot`], so a live session goes on while it is written.

pub mod ids;
pub mod perfdata;
pub mod side;
pub(crate) mod sleeps;
pub mod tables;

use std::io::{self, Write};
use std::sync::Arc;

use crate::filter::Filter;
use crate::panel::printable::EscapeForm;
use crate::query::Data;

listed! {
    /// All formats, in the order of the help.
    pub const FORMATS: Format = FORMAT of folded, svg, pprof, firefox, speedscope, otlp, copy;
}

/// A format of `export`, of which the command line, its help and its completion are made.
#[derive(Debug)]
pub struct Format {
    pub(crate) name: &'static str,
    /// What it is, or what reads it, in one line.
    pub about: &'static str,
    pub(crate) writer: FormatWriter,
}

/// The writer of a format, by what it is given.
#[derive(Clone, Copy, Debug)]
pub enum FormatWriter {
    /// The samples of one event; as text of a form, where it is one.
    Profile(Option<EscapeForm>, fn(&ExportInput<'_>, &mut dyn Write) -> io::Result<()>),
    /// All records of a recording, by [`copy::copy`].
    Records,
}

/// The samples of one event, and what formats say of their recording.
#[derive(Clone)]
pub struct ExportInput<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) event: usize,
    /// Which of its samples.
    pub filter: Option<Arc<Filter>>,
    pub(crate) title: &'a str,
    /// Whether names of functions say what kind of code they are of.
    pub annotate: bool,
    /// Wall-clock time of the first sample in nanoseconds since 1970; 0 when unknown.
    pub wall_ns: u64,
    /// What a sample stands for, in the event's unit; 0 where they differ.
    pub period: u64,
    /// Samples a second; 0 for a fixed period.
    pub frequency: u64,
    /// What is said of the machine or the service, by name.
    pub resource: Vec<(String, String)>,
}
