//! The state of an event in a session: what is asked of the kernel, and what became of it.

use super::{CallGraph, Rate};

/// The run state of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Open in the kernel and enabled.
    #[default]
    Running,
    /// Open and disabled: it goes on from the count that it has.
    Paused,
    /// Closed by the user; its samples stay.
    Stopped,
    /// The kernel would not have it; why.
    Refused(String),
}

/// The state of an event: how it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventState {
    /// It may have another one than it was asked for by.
    pub name: String,
    /// Whether it is measured right now, and if not, why.
    pub run: RunState,
    /// What was done instead, or what to know.
    pub note: Option<String>,
    /// What the kernel lets through.
    pub filter: Option<String>,
    /// How often it is sampled; a period of 0 where it is only counted.
    pub rate: Rate,
    /// The way in which its samples' call chains are taken.
    pub chains: CallGraph,
    /// The CPUs that it is restricted to; empty for all.
    pub cpus: String,
    /// Whether analysis units alone want it: its samples are not kept.
    pub for_units: bool,
}

impl EventState {
    /// True if all that it stands for comes: it runs, on all CPUs that are sampled, and nothing is filtered.
    pub(crate) fn is_whole(&self) -> bool {
        self.run == RunState::Running && self.filter.is_none() && self.cpus.is_empty()
    }
}
