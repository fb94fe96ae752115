//! The state of an event in a session: what is asked of the kernel, and what became of it.

use super::{CallGraph, Rate};

/// The run state of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    #[default]
    Running,
    Paused,
    Stopped,
    /// The kernel would not have it; why.
    Refused(String),
}

/// The state of an event: how it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventState {
    /// It may have another one than it was asked for by.
    pub name: String,
    pub run: RunState,
    /// What was done instead, or what to know.
    pub note: Option<String>,
    /// What the kernel lets through.
    pub filter: Option<String>,
    pub rate: Rate,
    pub chains: CallGraph,
    /// The CPUs that it is restricted to; empty for all.
    pub cpus: String,
    /// Whether analysis units alone want it: its samples are not kept.
    pub for_units: bool,
    /// Whether the kernel's code is left out of it.
    pub user_only: bool,
}

impl EventState {
    /// True if all that it stands for comes: it runs, on all CPUs that are sampled, and nothing is filtered.
    pub(crate) fn is_whole(&self) -> bool {
        self.run == RunState::Running && self.filter.is_none() && self.cpus.is_empty()
    }
}
