//! The input of all queries: a session, its profile, and the names of its events.

use std::sync::Arc;

use crate::perfdata::{EventUnit, PeriodMeaning};
use crate::profile::{NodeId, Profile};
use crate::session::Session;

use super::tree::stack_marks::StackMarks;

/// The input of all queries.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// The tasks, mappings and machines of the samples.
    pub session: &'a Session,
    /// The samples, their stacks and the names in them.
    pub profile: &'a Profile,
    /// Names of the events, by index.
    pub events: &'a [String],
    /// The start of the session's time, for the filter field `time`.
    pub start: u64,
    /// The time for which events have been measured, in nanoseconds of the session's clock: an idle machine has its first
    /// sample later, and its last one earlier, and samples of a profile may have no times. `None` if only the samples are
    /// known.
    pub measured: Option<(u64, u64)>,
    /// For each stack the one that tables use instead.
    pub origins: Option<&'a [u32]>,
    /// A report's rules for stacks, evaluated on their names.
    pub marks: Option<&'a StackMarks>,
}

impl<'a> Data<'a> {
    /// Wraps a session and its profile without event names or replacement stacks.
    pub fn new(session: &'a Session, profile: &'a Profile) -> Self {
        Self { session, profile, events: &[], start: 0, measured: None, origins: None, marks: None }
    }
}

impl Data<'_> {
    /// Returns the time that the stored samples stand for, seen from a position: `u64::MAX` for now.
    pub(crate) fn covered(&self, position: u64) -> Option<(u64, u64)> {
        let (first, last) = self.profile.span()?;
        let has_all = self.profile.ledger.evicted == 0;
        let (since, until) = self.measured.unwrap_or((first, last));
        let from = if has_all { since.min(first) } else { first };
        let is_now = position == u64::MAX;
        Some((from, if is_now { until.max(last) } else { self.profile.time_before(position).max(from) }))
    }

    pub(crate) fn unit(&self, event: usize) -> EventUnit {
        self.profile.unit(event as u16)
    }

    pub(crate) fn meaning(&self, event: usize) -> PeriodMeaning {
        self.profile.meaning(event as u16)
    }

    pub(crate) fn trace(&self, id: u32) -> Arc<str> {
        self.profile.sites.traces().get(id as usize).cloned().unwrap_or_default()
    }

    /// Returns the stack that a table uses for a sample's.
    pub(crate) fn stack(&self, stack: NodeId) -> NodeId {
        self.origins.and_then(|origins| origins.get(stack.0 as usize)).map_or(stack, |node| NodeId(*node))
    }

    pub(crate) fn counts(&self, stack: NodeId) -> bool {
        self.marks.is_none_or(|marks| marks.counts(stack))
    }

    /// Returns the parent caller by which a stack is grouped.
    pub(crate) fn parent(&self, stack: NodeId) -> Arc<str> {
        self.marks.map(|marks| marks.parent_name(self.profile, stack)).unwrap_or_default()
    }
}
