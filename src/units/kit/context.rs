//! The state that a unit can access: names, threads of the target, selected CPUs.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::options::inputs::Finding;
use super::options::target::ThreadChoice;
use super::{Points, RowKey, ThreadKey, ThreadNames};
use crate::profile::RetainedStack;
use crate::session::Session;

/// The state that a unit can access while it processes records.
#[derive(Debug)]
pub struct Context<'a> {
    /// Threads, processes and mappings at the time of the record.
    pub session: &'a Session,
    /// Thread names, which the unit may read and extend.
    pub names: &'a mut ThreadNames,
    /// Threads of the recording program, which are excluded from the figures.
    pub own: &'a FxHashSet<i32>,
    /// Process and thread of the record, if known.
    pub task: Option<(i32, i32)>,
    /// The threads that the unit's settings select; `None` outside of a unit.
    pub choice: Option<&'a mut ThreadChoice>,
    /// The selected CPUs, if records of all CPUs arrive.
    pub cpus: Option<&'a [u32]>,
    /// Collects points of time and latency, if requested.
    pub points: Option<&'a mut Points>,
    /// Collects the unit's findings, if the record is an event of another unit.
    pub found: Option<&'a mut Vec<Finding>>,
}

impl<'a> Context<'a> {
    /// A context that selects all CPUs and collects neither points nor findings.
    pub fn new(session: &'a Session, names: &'a mut ThreadNames, own: &'a FxHashSet<i32>) -> Self {
        Self { session, names, own, task: None, choice: None, cpus: None, points: None, found: None }
    }

    /// Returns whether figures of a CPU count, for a unit that relates records of several CPUs.
    pub(crate) fn counts(&self, cpu: u32) -> bool {
        self.cpus.is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
    }

    fn of_choice(&mut self, ask: impl FnOnce(&mut ThreadChoice, &mut Self) -> bool) -> bool {
        let Some(choice) = self.choice.take() else { return false };
        let answer = ask(choice, self);
        self.choice = Some(choice);
        answer
    }

    /// Whether a thread belongs to the target.
    pub(crate) fn has(&mut self, tid: i32) -> bool {
        self.of_choice(|choice, cx| choice.has(tid, cx))
    }

    /// Whether a thread belongs to the target and has a unique id.
    pub(crate) fn follows(&mut self, tid: i32) -> bool {
        tid > 0 && self.has(tid)
    }

    /// Whether a thread is one of this program's that was not named.
    pub(crate) fn is_unasked(&mut self, tid: i32) -> bool {
        self.of_choice(|choice, cx| choice.is_unasked(tid, cx))
    }

    /// Whether the settings select threads.
    pub(crate) fn is_narrow(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.is_narrow())
    }

    /// Collects a point: the time between two events took `ns` and ended at `time`.
    pub(crate) fn point(&mut self, between: [&str; 2], time: u64, ns: u64) {
        if let Some(points) = &mut self.points {
            points.add(between, time, ns);
        }
    }

    /// Reports a finding about a thread to the unit that this one serves, if any.
    pub(crate) fn find(&mut self, tid: i32, stack: RetainedStack, text: impl FnOnce() -> String) {
        if let Some(found) = &mut self.found {
            found.push(Finding { tid, stack, text: text() });
        }
    }

    /// Returns the key of a row: a number that names a thread stands for the last thread with it.
    pub(crate) fn row_key(&self, expression: &str, key: RowKey) -> RowKey {
        key.thread(expression).filter(|tid| *tid > 0).map_or(key, |tid| RowKey::Thread(self.thread(tid)))
    }

    pub(crate) fn process_of(&self, tid: i32) -> Option<i32> {
        let own = self.task.filter(|(pid, of)| *of == tid && *pid > 0);
        own.map(|(pid, _)| pid).or_else(|| self.session.process_of(tid))
    }

    /// Whether a key is one of our threads, if its expression names a thread.
    pub(crate) fn is_own_key(&self, expression: &str, key: &RowKey) -> bool {
        key.thread(expression).is_some_and(|tid| self.own.contains(&tid))
    }

    /// Returns the key of a thread's rows.
    pub(crate) fn thread(&self, tid: i32) -> ThreadKey {
        self.names.key(tid)
    }

    /// Returns the current name of a thread.
    pub fn comm(&mut self, tid: i32) -> Arc<str> {
        self.names.comm(self.session, tid)
    }
}
