//! Profiles of other tools: pprof, V8, Firefox and samply, speedscope, JDK Flight Recorder; answers of profile stores.
//! Their frames have names instead of addresses. A file is read as a whole when it is opened, because its names may be
//! anywhere in it.

mod addresses;
mod document;
mod few;
mod firefox;
mod heapprofile;
mod jfr;
mod labels;
pub mod messages;
mod pprof;
mod profile;
mod pruning;
mod refused;
mod speedscope;
pub mod store;
mod v8;

use std::io::{self, Read};
use std::sync::Arc;

use thiserror::Error;

use crate::event::format::Format;
use crate::kernel::attr::sample;
use crate::kernel::identity::Identity;
use crate::lang::counted;
use crate::perfdata::features::bit;
use crate::session::{EndReason, Origin};
use crate::symbols::SymbolOptions;

use super::hosts::SourceHost;
use super::{Batch, Info, Progress, Source, SourceError, SourceEvent};
pub use pprof::ProfilePart;
use profile::ImportedProfile;
pub use refused::refused;

/// A family of formats that the start of a file distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// pprof's protocol buffer, without its compression.
    Pprof,
    /// Recordings of the JDK Flight Recorder.
    Jfr,
    /// JSON: the profiles of V8, Firefox, samply and speedscope.
    Json,
}

/// The reason why another tool's profile cannot be read.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file could not be read, or its compressed data is damaged.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is larger than what is held in memory.
    #[error("the profile has more than {} MiB when uncompressed; record a shorter time", MOST_BYTES >> 20)]
    TooLarge,
    /// The file has more frames or stacks than are held in memory.
    #[error("the profile has too many functions or stacks; record a shorter time")]
    TooComplex,
    /// Damaged JSON, or values of other types than the format's.
    #[error("this JSON profile cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of another kind than the known profiles, with the names of its members.
    #[error(
        "this JSON is not a profile of V8 (.cpuprofile, .heapprofile), Firefox, samply or speedscope; its members: {0}"
    )]
    OtherJson(String),
    /// A file of speedscope whose profiles are all of unknown types, with their names.
    #[error("speedscope's profiles of type {0} are not supported; the types sampled and evented are")]
    UnknownTypes(String),
    /// A profile of a known tool in a form that is not supported, with the remedy.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A binary profile that contradicts its encoding.
    #[error("damaged profile: {what} at byte {at}")]
    Damaged {
        /// A description of the fault.
        what: &'static str,
        /// The byte offset in the uncompressed file.
        at: usize,
    },
    /// A profile without samples or events.
    #[error("the profile has no {0}")]
    Lacks(&'static str),
}

/// Why a trace of Chrome is not read.
const CHROME_TRACE: &str = "a trace of Chrome is not supported; record a CPU profile instead (`node --cpu-prof`)";
/// The maximum size of an uncompressed file: it is held in memory while it is read.
const MOST_BYTES: u64 = 256 << 20;
/// The frames of one batch.
const BATCH_FRAMES: usize = 1 << 16;

/// Detects the format from the start of a file; returns `None` if it is not another tool's profile.
pub fn sniff(head: &[u8]) -> Option<ImportFormat> {
    if document::is_object(head) {
        return Some(ImportFormat::Json);
    }
    if jfr::is_jfr(head) {
        return Some(ImportFormat::Jfr);
    }
    pprof::is_pprof(head).then_some(ImportFormat::Pprof)
}

/// A profile of another tool.
#[derive(Debug)]
pub struct ImportedSource {
    name: String,
    pub(super) info: Info,
    profile: ImportedProfile,
    format: Option<Format>,
    at: usize,
    stopped: bool,
}

impl ImportedSource {
    /// Reads a profile to its end.
    pub fn read(name: String, format: ImportFormat, reader: impl Read) -> Result<Self, ImportError> {
        let mut bytes = Vec::new();
        reader.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(ImportError::TooLarge);
        }
        let profile = match format {
            ImportFormat::Pprof => pprof::read(std::iter::once((bytes.as_slice(), None)), true)?,
            ImportFormat::Jfr => jfr::read(&bytes)?,
            ImportFormat::Json => document::read(&bytes)?,
        };
        drop(bytes);
        Self::new(name, profile)
    }

    /// Reads pprof profiles of one kind as one, each with its own time. `has_period` is whether the period in them is that
    /// of their samples.
    pub fn of_series(name: String, parts: &[ProfilePart], has_period: bool) -> Result<Self, ImportError> {
        let profile = pprof::read(parts.iter().map(|part| (part.bytes.as_slice(), part.time)), has_period)?;
        let mut source = Self::new(name, profile)?;
        // Writers of the store may name files.
        source.info.authors.add(Identity::nobody());
        if let Some(first) = parts.iter().find_map(|part| part.time) {
            // Their clock is the wall clock.
            let clock = [0, first, first].map(u64::to_le_bytes).concat();
            let machine = vec![(bit::CLOCK_DATA, clock)];
            source.info.hosts = SourceHost { machine, ..SourceHost::default() }.into();
        }
        Ok(source)
    }

    /// Returns the sum of all periods.
    pub fn weight(&self) -> u128 {
        self.profile.weight()
    }

    /// Sets the time for which it was measured, in nanoseconds since 1970.
    pub fn set_measured(&mut self, from: u64, until: u64) {
        // The times of samples that lack them are 0.
        let has_times = self.info.events.iter().any(|event| event.attr.sample_type & sample::TIME != 0);
        self.info.measured = Some(if has_times { (from, until) } else { (0, until.saturating_sub(from)) });
    }

    /// Adds a note for the user about opening it.
    pub fn note(&mut self, text: String) {
        self.info.notes.push(text);
    }

    fn new(name: String, mut profile: ImportedProfile) -> Result<Self, ImportError> {
        profile.check()?;
        profile.finish();
        let format = profile.labels.finish();
        let info = Info {
            is_named: true,
            target: name.clone(),
            events: profile.events.clone(),
            labels: format.clone().map(Arc::new),
            facts: std::mem::take(&mut profile.facts),
            notes: std::mem::take(&mut profile.notes),
            measured: (profile.duration > 0).then_some((0, profile.duration)),
            ..Info::new(Origin::Recorded)
        };
        Ok(Self { name, info, profile, format, at: 0, stopped: false })
    }

    /// Adds the fields of the labels to a batch, for each event.
    fn describe_labels(&mut self, batch: &mut Batch) {
        let Some(format) = self.format.take() else { return };
        for (event, desc) in (0..).zip(&self.info.events) {
            let own = Format { name: desc.name.clone(), ..format.clone() };
            batch.events.push(SourceEvent::Fields(event, Arc::new(own)));
        }
    }
}

impl Source for ImportedSource {
    fn info(&self) -> &Info {
        &self.info
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn name_addresses(&mut self, options: &SymbolOptions) {
        self.info.notes.extend(self.profile.name_addresses(options));
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        let all = self.profile.len();
        if self.stopped {
            let words = format!("at sample {} of {all} of {}", self.at, self.name);
            return Ok(batch.end(EndReason::Stopped(words)));
        }
        self.describe_labels(batch);
        batch.named.names = self.profile.take_frames();
        self.at = self.profile.fill(self.at, BATCH_FRAMES, &mut batch.named);
        batch.events.push(SourceEvent::Progress(self.at as u64, all as u64));
        if self.at < all {
            return Ok(Progress::More);
        }
        if self.profile.cut > 0 {
            batch.note(format!("{} too many frames: their outer callers are missing", has(self.profile.cut, "stack")));
        }
        if self.profile.labels.left_out > 0 {
            batch.note(format!("{} left out: the profile has too many", were(self.profile.labels.left_out, "label")));
        }
        Ok(batch.end(EndReason::Complete(self.name.clone())))
    }
}

fn has(n: u64, what: &str) -> String {
    format!("{} {}", counted(n, what), if n == 1 { "has" } else { "have" })
}

fn were(n: u64, what: &str) -> String {
    format!("{} {}", counted(n, what), if n == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests;
