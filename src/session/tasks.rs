//! The table of tasks: who samples belong to.

use std::sync::Arc;

use hashbrown::HashMap;

use super::hosts::HostId;

/// The number of all those together that have none in our own PID namespace, and their name.
pub(crate) const OUTSIDE: i32 = -2;
pub(crate) const OUTSIDE_NAME: &str = "[outside]";

/// A thread under one name; a thread that renames itself is two tasks. Index into [`super::Session::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u32);

/// A task: the thread that a sample belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub(crate) host: HostId,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) comm: Arc<str>,
    /// The comm of its process' first thread, as it was when this one was first seen; its own where nobody knows.
    pub(crate) program: Arc<str>,
    /// The id of its cgroup; 0 when it is not known.
    pub(crate) cgroup: u64,
}

/// Distinct tasks, each once.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    list: Vec<Task>,
    ids: HashMap<Task, TaskId>,
}

impl Tasks {
    pub(crate) fn all(&self) -> &[Task] {
        &self.list
    }

    pub(crate) fn id(&mut self, task: Task) -> TaskId {
        let next = TaskId(self.list.len() as u32);
        let id = *self.ids.entry(task.clone()).or_insert(next);
        if id == next {
            self.list.push(task);
        }
        id
    }

    /// Begins anew, and gives those that there were.
    pub(crate) fn renew(&mut self) -> Vec<Task> {
        self.ids.clear();
        std::mem::take(&mut self.list)
    }
}
