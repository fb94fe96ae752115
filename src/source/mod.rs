//! Sources of records behind one trait. Users of [`Source::next`] do not depend on the kind of source.

pub mod containers;
pub mod hosts;
pub mod live;
pub mod recording;
pub mod text;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::kernel::attr::{Flag, sample};
use crate::perfdata::EventDesc;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::perfdata::read::Recording;
use crate::record::Layout;
use crate::session::containers::NamedContainer;
use crate::session::hosts::PerHost;
use crate::session::{DsoKind, EndReason, Origin};
use crate::symbols::door::Namers;
use crate::symbols::shipped::ShippedTables;
use crate::symbols::spaces::WalkFigures;

use crate::event::{CallGraph, Event};
pub use crate::event::{EventState, Rate, RunState};
pub use crate::kernel::sys::Counts;
use hosts::Hosts;

/// The description of a source before the first record.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// The running machine or a recording.
    pub origin: Origin,
    /// The recorded machine's architecture as in uname; empty when unknown.
    pub arch: String,
    /// The events known before the first record; batches may add others.
    pub events: Vec<EventDesc>,
    /// The settings of each event and notes about it, for a live source.
    pub states: Vec<EventState>,
    /// Whether call chains are recorded.
    pub chains: bool,
    /// The start of the session in its clock; 0 to use the first record's.
    pub start: u64,
    /// The number of sampled CPUs, for the expected number of samples.
    pub n_cpus: usize,
    /// The list of CPUs if they were selected.
    pub cpus: String,
    /// The command or target as text, for the header.
    pub target: String,
    /// The target, of a live source.
    pub whom: live::Target,
    /// Whether children of its processes are excluded.
    pub alone: bool,
    /// Notes for the user about opening it, a sentence each.
    pub notes: Vec<String>,
    /// Facts of a recording's header, for the Info screen.
    pub facts: Vec<(String, String)>,
    /// The header of a recording's first file, without its tracing data.
    pub head: Option<Arc<Recording>>,
    /// The tracing data of a recording: the formats of its tracepoints.
    pub tracing: Vec<u8>,
    /// Files whose build ids are in a recording's header.
    pub build_ids: Vec<IdentifiedFile>,
    /// For each input its events, as indices into `events`; empty for a single input with just `events`.
    pub inputs: Vec<(Vec<u16>, Vec<EventDesc>)>,
    /// The machines of its records.
    pub hosts: Hosts,
    /// Whether it is a pipe from a recorder that is still running.
    pub flows: bool,
    /// The users who may have written the data, and so choose file names in it. Excludes root and, live, the kernel.
    pub authors: Namers,
}

impl Info {
    /// Returns the description of an unknown source.
    pub fn new(origin: Origin) -> Self {
        Self { origin, chains: true, ..Self::default() }
    }

    pub(crate) fn has_cpus(&self) -> bool {
        self.events.iter().any(|e| e.attr.sample_type & sample::CPU != 0)
    }

    /// Returns whether samples have timestamps; true for inputs without attributes, which must be read first.
    pub(crate) fn has_times(&self) -> bool {
        self.inputs.is_empty() || self.events.iter().any(|e| e.attr.sample_type & sample::TIME != 0)
    }

    /// Returns the first event whose samples represent time.
    pub fn clock(&self) -> Option<usize> {
        self.events.iter().position(EventDesc::is_clock)
    }

    /// Returns the clock's rate in Hz, which is the number of samples of a busy CPU per second. 0 for a fixed period,
    /// when the clock is paused or filtered, and for several machines.
    pub(crate) fn clock_rate(&self) -> u64 {
        let Some(at) = self.clock().filter(|_| !self.hosts.are_many()) else { return 0 };
        match self.states.get(at) {
            Some(state) if state.is_whole() => state.rate.hz(),
            Some(_) => 0,
            None => Rate::of(&self.events[at].attr).hz(),
        }
    }

    /// Returns whether the clock samples all of a CPU's time, so that shares of samples are shares of time.
    pub fn has_whole_cpus(&self) -> bool {
        let Some(at) = self.clock().filter(|_| !self.hosts.are_many()) else { return false };
        let left_out = [Flag::ExcludeUser, Flag::ExcludeKernel, Flag::ExcludeIdle];
        let attr = &self.events[at].attr;
        let chosen = self.origin == Origin::Live && !self.target.is_empty();
        let whole = self.states.get(at).is_none_or(EventState::is_whole);
        self.has_cpus() && !chosen && whole && !left_out.iter().any(|flag| attr.has(*flag))
    }
}

/// A filter for the view, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewFilter {
    pub(crate) filter: String,
    pub(crate) words: String,
}

/// Records and other events since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Whole records, ring after ring.
    pub bytes: Vec<u8>,
    /// The source's input that they are from.
    pub input: u16,
    /// Their position in the file, of a recording.
    pub place: Place,
    /// Inputs that have been idle for a while: the session does not wait for their records.
    pub quiet: Vec<u16>,
    /// Whether that input has ended.
    pub input_done: bool,
    /// Samples with names, for sources without addresses.
    pub stacks: Vec<NamedSample>,
    /// Ids of the frames of all of them, one sample's after another's.
    pub stack_frames: Vec<u32>,
    /// Frames of these samples; their ids continue from batch to batch.
    pub names: Vec<NamedFrame>,
    /// Added events, after those in [`Info::events`].
    pub events: Vec<EventDesc>,
    /// Files with new build ids.
    pub build_ids: Vec<IdentifiedFile>,
    /// Containers with new names.
    pub containers: Vec<NamedContainer>,
    /// The time up to which all records have been delivered.
    pub complete_until: Option<u64>,
    /// Ids that are used from now on.
    pub ids: Vec<FreshId>,
    /// Events that replaced others.
    pub handovers: Vec<Handover>,
    /// The counts and losses of each event since its start.
    pub counts: Option<CountReading>,
    /// Counts on each CPU of events that are only counted.
    pub cpu_counts: Vec<CpuCount>,
    /// Lines of a text that were not understood.
    pub unread: u64,
    /// The time since which all existing events are measured, if one was added.
    pub measured_since: Option<u64>,
    /// Figures of stack walks since the start, if they have changed.
    pub walked: Option<WalkFigures>,
    /// New notes for the user, a sentence each.
    pub notes: Vec<String>,
    /// A filter for the view, if the target cannot be sampled alone.
    pub view: Option<ViewFilter>,
    /// The new state if the rate or the CPUs have changed.
    pub changed: Option<SamplingState>,
    /// Bytes of a file: (read, total).
    pub progress: Option<(u64, u64)>,
    /// Replies to controls.
    pub replies: Vec<Result<String, String>>,
}

/// The counts of all events at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountReading {
    /// The time of the reading, in nanoseconds of the session's clock; readings are processed with varying delays.
    pub at: u64,
    /// By event.
    pub of: Vec<Counts>,
}

impl CountReading {
    pub(crate) fn lost(&self) -> u64 {
        self.of.iter().map(|counts| counts.lost).sum()
    }
}

/// A frame that is known by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFrame {
    pub(crate) name: Arc<str>,
    /// Path of the DSO, or its bracketed name.
    pub(crate) dso: Arc<str>,
    pub(crate) kind: DsoKind,
    /// The address in the text; 0 for none.
    pub(crate) ip: u64,
    /// Its offset from the function's start, if the text has it.
    pub(crate) offset: Option<u64>,
    /// Whether the text has no function for the address.
    pub(crate) is_unknown: bool,
}

impl NamedFrame {
    pub(crate) fn named(name: &str, dso: &str, kind: DsoKind) -> Self {
        Self { name: name.into(), dso: dso.into(), kind, ip: 0, offset: None, is_unknown: false }
    }
}

/// A sample whose frames are names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSample {
    pub(crate) comm: Arc<str>,
    /// -1 when unknown.
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    pub(crate) time: u64,
    pub(crate) period: u64,
    pub(crate) event: u16,
    /// Its part of [`Batch::stack_frames`], leaf first.
    pub(crate) frames: std::ops::Range<u32>,
    /// Whether the sample is complete.
    pub(crate) closed: bool,
    pub(crate) trace: Option<Arc<str>>,
}

impl Batch {
    /// Returns whether it has only live records of fewer than `bytes` bytes, so that a later call of [`Source::next`]
    /// may add more before it is delivered.
    pub(crate) fn may_wait(&self, bytes: usize) -> bool {
        let quiet = self.ids.is_empty() && self.notes.is_empty() && self.replies.is_empty();
        let quiet = quiet && self.containers.is_empty() && self.events.is_empty() && self.handovers.is_empty();
        quiet
            && self.changed.is_none()
            && self.cpu_counts.is_empty()
            && self.measured_since.is_none()
            && self.progress.is_none()
            && self.bytes.len() < bytes
    }

    /// Empties it, keeping its buffer.
    pub fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Self { bytes, ..Self::default() };
    }
}

/// The position of a batch's records in their file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The offset of the first record.
    pub(crate) at: u64,
    /// Whether all of them are from one compressed record, at that offset.
    pub(crate) packed: bool,
}

impl Place {
    /// Returns the offset of the record that begins `behind` bytes after the first.
    pub(crate) fn of(self, behind: usize) -> u64 {
        if self.packed { self.at } else { self.at + behind as u64 }
    }
}

/// The count of an event on a CPU since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCount {
    /// The source's event.
    pub event: u16,
    /// The CPU of the count.
    pub cpu: u32,
    /// The time of the reading, in nanoseconds of the session's clock.
    pub time: u64,
    /// The count, scaled to the whole time if it was counted for a part of it.
    pub value: u64,
    /// The part of the time, in percent.
    pub running_percent: f64,
}

/// Events for analysis units, which may be measured already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedEvents {
    pub(crate) machine_wide: bool,
    pub(crate) events: Vec<Event>,
    /// Events that this machine may lack.
    pub(crate) optional: Vec<Event>,
    /// Probes to create, in the syntax of `probe --add`; whether with call chains, and whether they are optional.
    pub(crate) probes: Vec<(String, bool, bool)>,
}

/// The current sampling settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingState {
    /// See [`Info::clock_rate`].
    pub frequency: u64,
    /// See [`Info::has_whole_cpus`].
    pub whole_cpus: bool,
    /// See [`Info::n_cpus`].
    pub n_cpus: usize,
    /// See [`Info::cpus`].
    pub cpus: String,
    /// The command or target as text.
    pub target: String,
    /// See [`Info::whom`].
    pub whom: live::Target,
    /// See [`Info::alone`].
    pub alone: bool,
    /// See [`Info::states`].
    pub events: Vec<EventState>,
}

impl From<&Info> for SamplingState {
    fn from(info: &Info) -> Self {
        Self {
            frequency: info.clock_rate(),
            whole_cpus: info.has_whole_cpus(),
            n_cpus: info.n_cpus,
            cpus: info.cpus.clone(),
            target: info.target.clone(),
            whom: info.whom.clone(),
            alone: info.alone,
            events: info.states.clone(),
        }
    }
}

/// An id that records have from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshId {
    /// The id in samples and LOST records.
    pub id: u64,
    /// The source's event.
    pub event: u16,
    /// The layout of its records.
    pub layout: Layout,
    /// The period of samples without one; 0 when each has its own.
    pub period: u64,
}

/// A handover between events: samples of old ids count before a time, those of new ids from it on. Both events run for
/// a moment, and each hit must be counted exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The time, in nanoseconds of the session's clock.
    pub at: u64,
    /// The ids of the old events, whose samples count before that time.
    pub old: Vec<u64>,
    /// The ids of the new events.
    pub new: Vec<u64>,
}

/// The outcome of [`Source::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more.
    More,
    /// The source has ended.
    End(EndReason),
}

/// A change to a running source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Sets the samples per second of all events that have a frequency.
    Frequency(u64),
    /// Sets the sampled CPUs.
    Cpus(Vec<u32>),
    /// Measures more events, in the syntax of `-e`.
    Add(String),
    /// Creates a probe, in the syntax of `probe --add`, and measures it.
    Probe(String),
    /// Measures events of analysis units; existing events are shared.
    Share(SharedEvents),
    /// Changes an event, by its index.
    Event(usize, Change),
    /// Samples other tasks: `all`, `pid 1,2`, `tid 3`, `comm nginx*`, `user www`, `cgroup web/*`.
    Target(String),
    /// Pauses or resumes all events.
    Pause(bool),
    /// Changes the call graph mode.
    CallGraph(CallGraph),
    /// Ends the source; its records stay.
    Stop,
}

/// A change to an event that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Filters it in the kernel; `None` removes the filter.
    Filter(Option<String>),
    /// Samples it at another rate; a period of 0 only counts it.
    Rate(Rate),
    /// Replaces perf's modifier letters.
    Modifiers(String),
    /// Records call chains with its samples, or not.
    Chains(bool),
    /// Restricts it to CPUs; `None` to all that are sampled.
    Cpus(Option<Vec<u32>>),
    /// Pauses or resumes it; the kernel's count is kept.
    Pause(bool),
    /// Measures it again after [`Change::Stop`].
    Start,
    /// Closes it; its samples stay.
    Stop,
}

/// A failure of a source; the message has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// An event, a task or a CPU of this machine that cannot be measured, with the reason.
    #[error(transparent)]
    Open(#[from] live::OpenError),
    /// A file that is not a recording, or is damaged.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: String,
        /// The fault.
        error: crate::perfdata::read::ReadError,
    },
    /// A command that could not be started.
    #[error("the command cannot be started: {0}")]
    Command(std::io::Error),
    /// A read or a wait that failed midway.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Ends a source's wait from another thread; has no effect on a source that does not wait.
#[derive(Clone, Debug, Default)]
pub struct Waker(Option<Arc<OwnedFd>>);

impl Waker {
    pub(crate) fn new(event: Arc<OwnedFd>) -> Self {
        Self(Some(event))
    }

    pub(crate) fn wake(&self) {
        if let Some(event) = &self.0 {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }
}

/// A source of records.
pub trait Source: Send {
    /// Returns the description of the source as it was opened; [`Source::facts`] has the current state.
    fn info(&self) -> &Info;

    /// Waits for records, for at most a quarter of a second, and adds them to the batch.
    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError>;

    /// Returns the waker that ends a wait in [`Source::next`] early, for urgent controls.
    fn waker(&self) -> Waker {
        Waker::default()
    }

    /// Returns the current state of sampling, if controls can change it.
    fn facts(&self) -> Option<SamplingState> {
        None
    }

    /// Returns the symbol tables that are sent with the records, by host.
    fn given(&self) -> PerHost<Arc<ShippedTables>> {
        PerHost::default()
    }

    /// Changes the source; the message says what was done, or why it failed.
    fn control(&mut self, control: &Control) -> Result<String, String> {
        match control {
            Control::Stop => {
                self.stop();
                Ok("loading stopped; the samples so far are kept".to_owned())
            }
            _ => Err("this is a recording: what was measured cannot be changed".to_owned()),
        }
    }

    /// Ends a recording at the current position.
    fn stop(&mut self) {}

    /// Delivers also the records that a profile does not need, such as those of a stream's header.
    fn tell_all(&mut self) {}
}
