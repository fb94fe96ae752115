//! An event of the session and how it fares: it keeps its place whether it runs or not.

use std::sync::Arc;

use crate::event::Event;
use crate::kernel::bpf::LoadedProgram;
use crate::kernel::cpus;
use crate::kernel::sys::Counts;
use crate::source::{EventState, RunState};

use super::attr::{self, CommonAttrs};

/// An event's place in the session.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) event: Event,
    pub(crate) run: RunState,
    /// What was done instead of what was asked for.
    pub(crate) note: Option<String>,
    /// What events counted that are closed by now, less what their followers counted beside them.
    pub(crate) before: Counts,
    /// The program of its filter, in the kernel, and whether it goes on with the one that walks stacks.
    pub(crate) program: Option<(Arc<LoadedProgram>, bool)>,
}

impl Slot {
    pub(crate) fn new(event: Event) -> Self {
        Self { event, run: RunState::Running, note: None, before: Counts::default(), program: None }
    }

    /// True if it is open, counting or not.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.run, RunState::Running | RunState::Paused)
    }

    /// True if it is there for its counts, which are to be read.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_open() && self.event.no_samples && !self.event.attr.is_dummy()
    }

    /// True if it is to be opened on a CPU.
    pub(crate) fn wants(&self, cpu: u32) -> bool {
        self.is_open() && self.event.wants(cpu)
    }

    /// The name that it goes by: where the session leaves the kernel's code out it says so.
    pub(super) fn name(&self, common: &CommonAttrs) -> String {
        match common.exclude.kernel && !common.exclude.user {
            true => self.event.user_only(),
            false => self.event.name.clone(),
        }
    }

    pub(crate) fn state(&self, common: &CommonAttrs) -> EventState {
        EventState {
            name: self.name(common),
            run: self.run.clone(),
            note: self.note.clone(),
            filter: self.event.filter.as_ref().map(|filter| filter.text.clone()),
            rate: attr::rate(&self.event, common),
            chains: attr::way(&self.event, common),
            cpus: self.event.cpus.as_deref().map(cpus::format_list).unwrap_or_default(),
            for_units: self.event.for_units,
        }
    }
}
