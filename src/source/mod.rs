//! Sources of records: one trait and its kinds. After [`Source::next`] nothing knows which.

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
use crate::session::{DsoKind, Origin};
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
    /// The recorded machine's architecture as uname says it; empty when unknown.
    pub arch: String,
    /// The events that are known before the first record; others may come with batches.
    pub events: Vec<EventDesc>,
    /// How each event is measured and what the user should know of it; of a running source.
    pub states: Vec<EventState>,
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
    /// The target, of a running source.
    pub whom: live::Target,
    /// Whether what its processes start does not belong to it.
    pub alone: bool,
    /// What the user should know of how it was opened, a sentence each.
    pub notes: Vec<String>,
    /// What the head of a recording says, for the Info screen.
    pub facts: Vec<(String, String)>,
    /// The head of a recording's first file, without its tracing data.
    pub head: Option<Arc<Recording>>,
    /// The tracing data of a recording: the formats of its tracepoints.
    pub tracing: Vec<u8>,
    /// Files whose build ids a recording's head has.
    pub build_ids: Vec<IdentifiedFile>,
    /// For each input its events, and which of `events` each is; empty for a single input with
    /// just `events`.
    pub inputs: Vec<(Vec<u16>, Vec<EventDesc>)>,
    /// The machines that its records are of.
    pub hosts: Hosts,
    /// Whether it comes while it is recorded, by a pipe.
    pub flows: bool,
    /// Who may have written what is read, and so names files; root and, live, the kernel are not mentioned.
    pub authors: Namers,
}

impl Info {
    /// A source of which nothing is known.
    pub fn new(origin: Origin) -> Self {
        Self { origin, chains: true, ..Self::default() }
    }

    /// True if samples say which CPU they are of.
    pub(crate) fn has_cpus(&self) -> bool {
        self.events.iter().any(|e| e.attr.sample_type & sample::CPU != 0)
    }

    /// True if samples say when they were taken. Of an input without attributes nothing is known before it is
    /// read.
    pub(crate) fn has_times(&self) -> bool {
        self.inputs.is_empty() || self.events.iter().any(|e| e.attr.sample_type & sample::TIME != 0)
    }

    /// The first event whose samples stand for time.
    pub fn clock(&self) -> Option<usize> {
        self.events.iter().position(EventDesc::is_clock)
    }

    /// The clock's rate in Hz, which is how many samples a busy CPU gives a second; 0 for a fixed period,
    /// when the clock rests or is only let through in part, and of several machines.
    pub(crate) fn clock_rate(&self) -> u64 {
        let Some(at) = self.clock().filter(|_| !self.hosts.are_many()) else { return 0 };
        match self.states.get(at) {
            Some(state) if state.is_whole() => state.rate.hz(),
            Some(_) => 0,
            None => Rate::of(&self.events[at].attr).hz(),
        }
    }

    /// True if the clock's samples are of all that a CPU does, so that their shares are shares of its time.
    pub fn has_whole_cpus(&self) -> bool {
        let Some(at) = self.clock().filter(|_| !self.hosts.are_many()) else { return false };
        let left_out = [Flag::ExcludeUser, Flag::ExcludeKernel, Flag::ExcludeIdle];
        let attr = &self.events[at].attr;
        let chosen = self.origin == Origin::Live && !self.target.is_empty();
        let whole = self.states.get(at).is_none_or(EventState::is_whole);
        self.has_cpus() && !chosen && whole && !left_out.iter().any(|flag| attr.has(*flag))
    }
}

/// A filter that the view is to have, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewFilter {
    pub(crate) filter: String,
    pub(crate) words: String,
}

/// A load of records and what happened beside them.
#[derive(Debug, Default)]
pub struct Batch {
    /// Whole records, ring after ring.
    pub bytes: Vec<u8>,
    /// Which of the source's inputs they are from.
    pub input: u16,
    /// Where they stand there, of a recording.
    pub place: Place,
    /// Inputs that have brought nothing for a while: nothing is held back for what they may still bring.
    pub quiet: Vec<u16>,
    /// That input has nothing more.
    pub input_done: bool,
    /// Samples that carry names, for sources without addresses.
    pub stacks: Vec<NamedSample>,
    /// Ids of the frames of all of them, one sample's after another's.
    pub stack_frames: Vec<u32>,
    /// Frames that they use; their ids count on from batch to batch.
    pub names: Vec<NamedFrame>,
    /// Events that came up, after those in [`Info::events`].
    pub events: Vec<EventDesc>,
    /// Files whose build ids came up.
    pub build_ids: Vec<IdentifiedFile>,
    /// Containers whose names came up.
    pub containers: Vec<NamedContainer>,
    /// Everything up to this time has now been delivered.
    pub complete_until: Option<u64>,
    /// Ids that began to be used.
    pub ids: Vec<FreshId>,
    /// Events that took over from others while they ran.
    pub handovers: Vec<Handover>,
    /// What each event has counted and lost since its start.
    pub counts: Option<CountReading>,
    /// What events that are only counted have come to on each CPU.
    pub cpu_counts: Vec<CpuCount>,
    /// Lines of a text that were not understood.
    pub unread: u64,
    /// Since when all events that there are by now are measured, where one began to be.
    pub measured_since: Option<u64>,
    /// How stacks were walked since it began, where that has changed.
    pub walked: Option<WalkFigures>,
    /// What the user should know from now on, a sentence each.
    pub notes: Vec<String>,
    /// What the view is to be filtered by, where what was asked for cannot be sampled alone.
    pub view: Option<ViewFilter>,
    /// The rate or the CPUs have changed.
    pub changed: Option<SamplingState>,
    /// (done, all) bytes of a file.
    pub progress: Option<(u64, u64)>,
    /// Replies to controls.
    pub replies: Vec<Result<String, String>>,
}

/// What each event has come to by some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountReading {
    /// When it was read, in nanoseconds of the session's clock: who takes it in does so later, and not always as late.
    pub at: u64,
    /// By event.
    pub of: Vec<Counts>,
}

impl CountReading {
    /// Samples that all of them lost.
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
    /// The address as the text has it; 0 where it has none.
    pub(crate) ip: u64,
    /// How far behind the function's start that is, where the text says so.
    pub(crate) offset: Option<u64>,
    /// Whether the text has no function for the address.
    pub(crate) is_unknown: bool,
}

impl NamedFrame {
    /// A frame of which nothing but its name and DSO is known.
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
    /// Nothing more belongs to it.
    pub(crate) closed: bool,
    /// The words of a tracepoint's fields.
    pub(crate) trace: Option<Arc<str>>,
}

impl Batch {
    /// True if it holds nothing but less than so many bytes of live records, which a later call of
    /// [`Source::next`] may add to.
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

/// Where the records of a batch stand in their file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The offset of the first.
    pub(crate) at: u64,
    /// All came out of one compressed record, which stands there.
    pub(crate) packed: bool,
}

impl Place {
    /// The offset of the record that begins so many bytes behind the first.
    pub(crate) fn of(self, behind: usize) -> u64 {
        if self.packed { self.at } else { self.at + behind as u64 }
    }
}

/// The count of an event on a CPU since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCount {
    /// Which of the source's events it is.
    pub event: u16,
    /// The CPU that it was counted on.
    pub cpu: u32,
    /// The moment of the reading, in nanoseconds of the session's clock.
    pub time: u64,
    /// Scaled to all of the time, where it was counted for a part of it.
    pub value: u64,
    /// The part, in percent.
    pub running_percent: f64,
}

/// Events for analysis units, which others may measure already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedEvents {
    /// Whether they are measured on the whole machine also where a target was chosen.
    pub(crate) machine_wide: bool,
    pub(crate) events: Vec<Event>,
    /// Those that may not be there on this machine.
    pub(crate) optional: Vec<Event>,
    /// Probes to be made, as `probe --add` takes them; whether with call chains, and whether they may fail.
    pub(crate) probes: Vec<(String, bool, bool)>,
}

/// The choice of what is sampled now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingState {
    /// As [`Info::clock_rate`].
    pub frequency: u64,
    /// As [`Info::has_whole_cpus`].
    pub whole_cpus: bool,
    /// As [`Info::n_cpus`].
    pub n_cpus: usize,
    /// As [`Info::cpus`].
    pub cpus: String,
    /// The command or target in words.
    pub target: String,
    /// As [`Info::whom`].
    pub whom: live::Target,
    /// As [`Info::alone`].
    pub alone: bool,
    /// As [`Info::states`].
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

/// An id that records carry from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshId {
    /// The id that samples and LOST records have.
    pub id: u64,
    /// Which of the source's events it is.
    pub event: u16,
    /// How its records are laid out.
    pub layout: Layout,
    /// What a sample stands for that does not say; 0 when each does.
    pub period: u64,
}

/// Samples of old ids count up to a time, those of new ones from it on: while one event takes over
/// from another both run for a moment, and no hit may be missed or counted twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The time, in nanoseconds of the session's clock.
    pub at: u64,
    /// The ids of the events that end, whose samples count before that.
    pub old: Vec<u64>,
    /// The ids of those that take over.
    pub new: Vec<u64>,
}

/// The outcome of [`Source::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
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
    /// Samples these CPUs from now on.
    Cpus(Vec<u32>),
    /// Measures more events, named as `-e` takes them.
    Add(String),
    /// Makes a probe, as `probe --add` takes it, and measures it.
    Probe(String),
    /// Measures events of analysis units; those that are measured already are shared.
    Share(SharedEvents),
    /// Changes an event, by its index.
    Event(usize, Change),
    /// Samples other tasks from now on: `all`, `pid 1,2`, `tid 3`, `comm nginx*`, `user www`,
    /// `cgroup web/*`.
    Target(String),
    /// Lets all events rest, or go on.
    Pause(bool),
    /// Takes user stacks in another way.
    CallGraph(CallGraph),
    /// Ends the source; what it brought stays.
    Stop,
}

/// A change to an event that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Filters it in the kernel; `None` takes the filter away.
    Filter(Option<String>),
    /// Samples it at another rate; a period of 0 only counts it.
    Rate(Rate),
    /// perf's modifier letters, in place of those that it has.
    Modifiers(String),
    /// Takes call chains with its samples, or not.
    Chains(bool),
    /// Restricts it to CPUs; `None` to all that are sampled.
    Cpus(Option<Vec<u32>>),
    /// Lets it rest, or go on; the kernel's count stays.
    Pause(bool),
    /// Measures it again after [`Change::Stop`].
    Start,
    /// Closes it; its samples stay.
    Stop,
}

/// A failure of a source, with the remedy in its words.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// An event, a task or a CPU of this machine that cannot be measured, with the reason.
    #[error(transparent)]
    Open(#[from] live::OpenError),
    /// A file that is no recording, or a damaged one.
    #[error("{path}: {error}")]
    File {
        /// The path by which it was to be opened.
        path: String,
        /// The fault.
        error: crate::perfdata::read::ReadError,
    },
    /// A command that the system would not start.
    #[error("the command cannot be started: {0}")]
    Command(std::io::Error),
    /// A read or a wait that failed midway.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Ends a source's wait from another thread; of a source that waits for nothing it does nothing.
#[derive(Clone, Debug, Default)]
pub struct Waker(Option<Arc<OwnedFd>>);

impl Waker {
    /// From an eventfd that the source waits for.
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

/// Somewhere records come from.
pub trait Source: Send {
    /// The description of the source as it was opened; [`Source::facts`] has what changes.
    fn info(&self) -> &Info;

    /// Waits for records, a tenth of a second at most, and adds them to the batch.
    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError>;

    /// The waker that ends a wait in [`Source::next`] early, for controls that shall not wait for it.
    fn waker(&self) -> Waker {
        Waker::default()
    }

    /// The state of sampling now, where controls can change it.
    fn facts(&self) -> Option<SamplingState> {
        None
    }

    /// Tables of functions that come with the records, by host.
    fn given(&self) -> PerHost<Arc<ShippedTables>> {
        PerHost::default()
    }

    /// Changes the source; the words say what was done, or why it cannot be.
    fn control(&mut self, control: &Control) -> Result<String, String> {
        match control {
            Control::Stop => {
                self.stop();
                Ok("loading stopped: what was read stays".to_owned())
            }
            _ => Err("this is a recording: what was measured cannot be changed".to_owned()),
        }
    }

    /// Has a recording end where it is.
    fn stop(&mut self) {}

    /// Has a recording tell also the records that are no news for a profile, such as those of a stream's head.
    fn tell_all(&mut self) {}
}
