//! An event of the session and its state; it keeps its index whether it runs or not.

use std::sync::Arc;

use crate::event::Event;
use crate::kernel::bpf::LoadedProgram;
use crate::kernel::cpus;
use crate::kernel::sys::Counts;
use crate::source::{EventState, RunState};

use super::attr::{self, CommonAttrs};

#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) event: Event,
    pub(crate) run: RunState,
    /// A note on a fallback that replaced the request.
    pub(crate) note: Option<String>,
    /// The counts of closed events, less what their successors counted during the overlap.
    pub(crate) before: Counts,
    /// Its filter's program in the kernel, and whether that jumps to the stack-walking one.
    pub(crate) program: Option<(Arc<LoadedProgram>, bool)>,
}

impl Slot {
    pub(crate) fn new(event: Event) -> Self {
        Self { event, run: RunState::Running, note: None, before: Counts::default(), program: None }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.run, RunState::Running | RunState::Paused)
    }

    pub(crate) fn runs(&self) -> bool {
        self.run == RunState::Running
    }

    /// Returns whether it is only counted, so that its counts must be read.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_open() && self.event.no_samples && !self.event.attr.is_dummy()
    }

    /// Returns whether its stacks are walked at its tracepoint.
    pub(crate) fn is_walked_at_tracepoint(&self) -> bool {
        self.event.is_walked && attr::traced_at(&self.event).is_some_and(|hook| hook.tracepoint().is_some())
    }

    pub(crate) fn wants(&self, cpu: u32) -> bool {
        self.is_open() && self.event.wants(cpu)
    }

    /// Returns its name, which shows if the session excludes kernel code.
    pub(super) fn name(&self, common: &CommonAttrs) -> String {
        match common.exclude.kernel && !common.exclude.user {
            true => self.event.user_only(),
            false => self.event.name.clone(),
        }
    }

    pub(crate) fn state(&self, common: &CommonAttrs) -> EventState {
        EventState {
            name: self.name(common),
            replaces: self.event.replaces.clone(),
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
