//! Profiles in the formats of other tools: each file here defines its `FORMAT`.
//! The current data is saved by [`perfdata`] from a [`crate::engine::Snapshot`], so a live session continues meanwhile.

pub(crate) mod functions;
pub mod ids;
pub mod perfdata;
pub mod side;
pub(crate) mod sleeps;
pub(crate) mod stream;
pub mod tables;

use std::io::{self, Write};
use std::sync::Arc;

use crate::filter::Filter;
use crate::panel::printable::EscapeForm;
use crate::query::Data;

listed! {
    /// All formats, in the order of the help.
    pub const FORMATS: ExportFormat = FORMAT of folded, svg, pprof, firefox, speedscope, perfetto, otlp, copy;
}

/// A format of `export`. Defines the command line, its help and its completion.
#[derive(Debug)]
pub struct ExportFormat {
    pub(crate) name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    pub(crate) writer: FormatWriter,
}

/// The writer of a format, by its input.
#[derive(Clone, Copy, Debug)]
pub enum FormatWriter {
    /// The samples of one event; with the escape form of a text format.
    Profile(Option<EscapeForm>, fn(&ExportInput<'_>, &mut dyn Write) -> io::Result<()>),
    /// All records of a recording; see [`copy::copy`].
    Records,
}

/// The samples of one event, and metadata of their recording.
#[derive(Clone)]
pub struct ExportInput<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) event: usize,
    /// The filter of its samples.
    pub filter: Option<Arc<Filter>>,
    pub(crate) title: &'a str,
    /// Whether function names are annotated with the kind of their code.
    pub annotate: bool,
    /// Wall-clock time of the first sample in nanoseconds since 1970; 0 if unknown.
    pub wall_ns: u64,
    /// The period of each sample in the event's unit; 0 if periods differ.
    pub period: u64,
    /// Samples per second; 0 for a fixed period.
    pub frequency: u64,
    /// Attributes of the machine or the service, by name.
    pub resource: Vec<(String, String)>,
}
