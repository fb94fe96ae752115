//! Sources of records behind one trait. Users of [`Source::next`] do not depend on the kind of source.

mod batch;
pub mod containers;
pub mod hosts;
pub mod imported;
pub mod live;
pub mod recording;
pub mod text;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::event::format::Format;
use crate::kernel::attr::{Flag, sample};
use crate::perfdata::EventDesc;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::perfdata::read::Recording;
use crate::session::hosts::PerHost;
use crate::session::{EndReason, Origin};
use crate::symbols::SymbolOptions;
use crate::symbols::door::TrustedUids;
use crate::symbols::shipped::ShippedTables;

use crate::event::{CallGraph, Event, Interpreters};
pub use crate::event::{EventState, Rate, RunState, Summing};
pub(crate) use crate::kernel::call_sums::call as decoded_call;
pub use crate::kernel::call_sums::{CallSum, OpenCall, SumPolicy};
pub use crate::kernel::hit_sums::HitSum;
pub use crate::kernel::sys::Counts;
pub use batch::*;
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
    /// The groups of events of a live source, the leader first.
    pub groups: Vec<std::ops::Range<usize>>,
    /// The settings of each event and notes about it, for a live source.
    pub states: Vec<EventState>,
    /// Whether call chains are recorded.
    pub chains: bool,
    /// Whether frames have names instead of addresses: a text or another tool's profile, which does not tell how its
    /// call chains were recorded.
    pub is_named: bool,
    /// The start of the session in its clock; 0 to use the first record's.
    pub start: u64,
    /// The time for which a recording was measured, on the clock of its samples, if it says so. Samples of most other
    /// tools have no times.
    pub measured: Option<(u64, u64)>,
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
    /// The labels of another tool's profile, as the fields of each of its events.
    pub labels: Option<Arc<Format>>,
    /// Files whose build ids are in a recording's header.
    pub build_ids: Vec<IdentifiedFile>,
    /// For each input its events, as indices into `events`; empty for a single input with just `events`.
    pub inputs: Vec<(Vec<u16>, Vec<EventDesc>)>,
    /// The machines of its records.
    pub hosts: Hosts,
    /// Whether it is a pipe from a recorder that is still running.
    pub flows: bool,
    /// The users who may have written the data, and so choose file names in it. Excludes root and, live, the kernel.
    pub authors: TrustedUids,
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

/// Events for analysis units, which may be measured already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedEvents {
    pub(crate) machine_wide: bool,
    pub(crate) events: Vec<Event>,
    /// Events that this machine may lack.
    pub(crate) optional: Vec<Event>,
    pub(crate) probes: Vec<SharedProbe>,
}

/// A probe to create for analysis units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProbe {
    /// Its definition, in the syntax of `probe --add`.
    pub(crate) definition: String,
    pub(crate) chains: bool,
    /// Whether the units work without it.
    pub(crate) optional: bool,
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
    /// Chooses the frames of interpreted languages.
    Interpreters(Interpreters),
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

    /// Learns where functions are found, before the first batch: profiles without functions name their addresses.
    fn name_addresses(&mut self, _options: &SymbolOptions) {}

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
