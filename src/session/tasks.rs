//! The table of tasks, to which samples belong.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::hosts::HostId;

/// The pid of all processes without a number in our own PID namespace, and their name.
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
    /// The name of its process's first thread when this task was first seen; its own name if that is unknown.
    pub(crate) program: Arc<str>,
    /// The command line of its process, with words separated by blanks; empty if unknown.
    pub(crate) cmdline: Arc<str>,
    /// The id of its cgroup; 0 if unknown.
    pub(crate) cgroup: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tasks {
    list: Vec<Task>,
    ids: HashTable<TaskId>,
}

impl Tasks {
    pub(crate) fn all(&self) -> &[Task] {
        &self.list
    }

    pub(crate) fn id(&mut self, task: Task) -> TaskId {
        let next = TaskId(self.list.len() as u32);
        let list = &self.list;
        let same = |id: &TaskId| list[id.0 as usize] == task;
        let hash = |id: &TaskId| FxBuildHasher.hash_one(&list[id.0 as usize]);
        let id = *self.ids.entry(FxBuildHasher.hash_one(&task), same, hash).or_insert(next).get();
        if id == next {
            self.list.push(task);
        }
        id
    }

    /// Returns an estimate of the bytes in use, for the memory budget.
    pub(crate) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Task>() + self.ids.capacity() * 8 / 7 * (size_of::<TaskId>() + 1)
    }

    pub(crate) fn renew(&mut self) -> Vec<Task> {
        self.ids = HashTable::new();
        std::mem::take(&mut self.list)
    }
}
