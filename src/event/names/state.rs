//! The state of an event in a session: the request to the kernel, and its outcome.

use super::callgraph::CallGraph;
use super::spec::Rate;

/// The run state of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Open and enabled.
    #[default]
    Running,
    /// Open and disabled; counting continues from the current count.
    Paused,
    /// Closed by the user; its samples remain.
    Stopped,
    /// Rejected by the kernel; with the reason.
    Refused(String),
}

/// The state of an event: how it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventState {
    /// Its current name.
    pub name: String,
    /// The name of the requested event, if another one replaces it.
    pub replaces: Option<String>,
    /// Whether it is measured now, and if not, why.
    pub run: RunState,
    /// A fallback that was applied, or another remark.
    pub note: Option<String>,
    /// The kernel's filter.
    pub filter: Option<String>,
    /// The sampling rate; a period of 0 if it is only counted.
    pub rate: Rate,
    /// The method of its call chains.
    pub chains: CallGraph,
    /// The CPUs that it is restricted to; empty for all.
    pub cpus: String,
    /// Whether it is only for analysis units: its samples are not stored.
    pub for_units: bool,
}

impl EventState {
    /// Returns whether its data is complete. That is, it runs on all sampled CPUs without a filter.
    pub(crate) fn is_whole(&self) -> bool {
        self.run == RunState::Running && self.filter.is_none() && self.cpus.is_empty()
    }
}
