//! Where records come from: one trait and its kinds. After [`Source::next`] nothing knows which.

pub mod file;
pub mod live;

use crate::perfdata::EventDesc;
use crate::session::Origin;

/// What a source says of itself before the first record.
#[derive(Clone, Debug)]
pub struct Info {
    pub origin: Origin,
    pub host: String,
    pub kernel: String,
    pub events: Vec<EventDesc>,
    /// For each event, what the user should know: a fallback, a refusal.
    pub event_notes: Vec<Option<String>>,
    /// In Hz; 0 when a fixed period is used.
    pub frequency: u64,
    /// Whether call chains are recorded.
    pub chains: bool,
    /// Start of the session in its clock; 0 when the first record decides.
    pub start: u64,
    /// CPUs that are sampled, for the ratio of samples to what could be expected.
    pub n_cpus: usize,
    /// The CPUs as a list when they were chosen.
    pub cpus: String,
    /// The command or target in words, for the header.
    pub target: String,
    pub notes: Vec<String>,
    /// Header features of a recording that describe its machine, as (bit, bytes); none when live.
    pub machine: Vec<(u8, Vec<u8>)>,
}

/// A load of records and what happened beside them.
#[derive(Debug, Default)]
pub struct Batch {
    /// Whole records, ring after ring.
    pub bytes: Vec<u8>,
    /// Everything up to this time has now been delivered.
    pub complete_until: Option<u64>,
    /// Ids that began to be used, with the index of their event.
    pub ids: Vec<(u64, u16)>,
    /// Lost samples of each event since its start, where the kernel counts them.
    pub lost: Option<Vec<u64>>,
    pub notes: Vec<String>,
    /// The rate or the CPUs have changed.
    pub changed: Option<Changed>,
    /// (done, all) bytes of a file.
    pub progress: Option<(u64, u64)>,
    /// Replies to controls.
    pub replies: Vec<Result<String, String>>,
}

impl Batch {
    /// Whether it holds nothing but less than so many bytes of live records, which a later call of
    /// [`Source::next`] may add to.
    pub fn may_wait(&self, bytes: usize) -> bool {
        let quiet = self.ids.is_empty() && self.notes.is_empty() && self.replies.is_empty();
        quiet && self.changed.is_none() && self.progress.is_none() && self.bytes.len() < bytes
    }

    /// Empties it, keeping its buffer.
    pub fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Self { bytes, ..Self::default() };
    }
}

/// New facts after a control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub frequency: u64,
    pub n_cpus: usize,
    pub cpus: String,
}

/// What [`Source::next`] ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There may be more.
    More,
    /// That was all; why, in words.
    End(String),
}

/// A change to a running source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Samples a second, for all events that have a frequency.
    Frequency(u64),
    Cpus(Vec<u32>),
    Stop,
}

/// What went wrong with a source, with the remedy in its words.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Open(#[from] live::OpenError),
    #[error("{path}: {error}")]
    File { path: String, error: crate::perfdata::read::ReadError },
    #[error("the command cannot be started: {0}")]
    Command(std::io::Error),
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Somewhere records come from.
pub trait Source: Send {
    fn info(&self) -> &Info;

    /// Waits for records, a tenth of a second at most, and adds them to the batch.
    fn next(&mut self, batch: &mut Batch) -> Result<Step, SourceError>;

    /// What is sampled now, where controls can change it.
    fn facts(&self) -> Option<Changed> {
        None
    }

    /// Changes the source; the words say what was done, or why it cannot be.
    fn control(&mut self, control: &Control) -> Result<String, String> {
        match control {
            Control::Stop => Ok(String::new()),
            _ => Err("this is a recording: what was measured cannot be changed".to_owned()),
        }
    }
}
