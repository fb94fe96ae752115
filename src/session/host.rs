//! A machine of a session: its threads, address spaces, kernel and cgroups, and their history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::Record;
use crate::record::kinds::TaskRecord;
use crate::record::open_spans::ThreadChange;

use super::containers::NamedContainer;
use super::groups::Groups;
use super::members::Members;
use super::space::AddressSpace;
use super::{MapId, SideLog, TaskId};

#[derive(Debug)]
pub(super) struct Thread {
    pub(crate) comm: Arc<str>,
    /// Its process; 0 if unknown.
    pub(crate) pid: i32,
    /// Its current task, with the cgroup.
    pub(crate) task: Option<(u64, TaskId)>,
    pub(crate) exited: bool,
}

impl Thread {
    pub(crate) fn new(comm: Arc<str>, pid: i32) -> Self {
        Self { comm, pid, task: None, exited: false }
    }
}

/// The time for which an exited thread is kept.
pub(super) const LINGER_NS: u64 = 2_000_000_000;

/// A machine. Process ids, addresses and cgroup ids are local to it.
#[derive(Debug)]
pub struct Host {
    /// The name given by the user, or the host name; empty if unknown.
    pub name: Arc<str>,
    pub(super) threads: FxHashMap<i32, Thread>,
    /// The threads of each process except its first, and whether each still runs: samples may arrive after an exit.
    siblings: FxHashMap<i32, FxHashMap<i32, bool>>,
    pub(super) parents: FxHashMap<i32, i32>,
    pub(super) spaces: FxHashMap<i32, AddressSpace>,
    pub(super) kernel: AddressSpace,
    /// The mapping of kernel addresses outside modules.
    pub(super) kernel_text: MapId,
    /// The number of spaces that may still be inside an exec; avoids a search if it is 0.
    pub(super) in_exec: usize,
    pub(super) members: Members,
    /// For each process, the mappings of newer code at reused addresses.
    pub(super) recoded: FxHashMap<i32, BTreeMap<u64, (u64, MapId)>>,
    /// Exited threads, oldest first, and whether their processes ended with them.
    leaving: VecDeque<(u64, TaskRecord, bool)>,
    pub(super) groups: Groups,
    pub(super) cmdlines: FxHashMap<i32, Option<Arc<str>>>,
    pub(crate) log: SideLog,
}

impl Host {
    /// Returns a machine without state; `generation` distinguishes its kernel from those of others.
    pub(super) fn new(name: Arc<str>, kernel_text: MapId, generation: u32) -> Self {
        Self {
            name,
            threads: FxHashMap::default(),
            siblings: FxHashMap::default(),
            parents: FxHashMap::default(),
            spaces: FxHashMap::default(),
            kernel: AddressSpace::empty(generation),
            kernel_text,
            in_exec: 0,
            members: Members::default(),
            recoded: FxHashMap::default(),
            leaving: VecDeque::new(),
            groups: Groups::default(),
            cmdlines: FxHashMap::default(),
            log: SideLog::default(),
        }
    }

    pub(crate) fn named_containers(&self) -> impl Iterator<Item = &NamedContainer> {
        self.groups.named()
    }

    pub(super) fn meet(&mut self, pid: i32, tid: i32) {
        if pid != tid && pid > 0 && tid > 0 {
            self.siblings.entry(pid).or_default().insert(tid, true);
        }
    }

    /// Registers the thread of a sample, which may be its first occurrence.
    pub(super) fn met(&mut self, pid: i32, tid: i32) {
        if pid != tid && pid > 0 && tid > 0 {
            self.siblings.entry(pid).or_default().entry(tid).or_insert(true);
        }
    }

    /// Removes a thread that exited a while ago.
    fn part(&mut self, pid: i32, tid: i32) {
        if let Some(siblings) = self.siblings.get_mut(&pid) {
            siblings.retain(|sibling, runs| *runs || *sibling != tid);
            if siblings.is_empty() {
                self.siblings.remove(&pid);
            }
        }
    }

    /// Returns the change of threads that a record reports; must be called before the record is applied.
    pub(super) fn thread_change(&self, record: &Record<'_>) -> Option<ThreadChange> {
        Some(match record {
            Record::Fork(TaskRecord { pid, tid, .. }) => ThreadChange::Born { pid: *pid, tid: *tid },
            Record::Exit(TaskRecord { pid, tid, .. }) => ThreadChange::Ended { pid: *pid, tid: *tid },
            Record::Comm { pid, exec: true, .. } => {
                // On exec, the kernel ends other threads; the caller takes the first's number (de_thread, fs/exec.c).
                let siblings = self.siblings.get(pid).into_iter().flatten();
                let mut gone: Vec<i32> = siblings.filter(|(_, runs)| **runs).map(|(tid, _)| *tid).collect();
                gone.sort_unstable();
                let from = if let [one] = gone[..] { Some(one) } else { None };
                ThreadChange::Exec { pid: *pid, from, gone: if from.is_some() { Vec::new() } else { gone } }
            }
            _ => return None,
        })
    }

    pub(super) fn exec(&mut self, pid: i32, time: u64) {
        for (tid, _) in self.siblings.remove(&pid).into_iter().flatten() {
            self.leave(&TaskRecord { pid, ppid: pid, tid, ptid: pid, time }, time);
        }
    }

    /// Handles the exit of a thread, and removes threads that exited long before.
    pub(super) fn leave(&mut self, task: &TaskRecord, time: u64) {
        if task.pid != task.tid {
            self.siblings.entry(task.pid).or_default().insert(task.tid, false);
        }
        // The kernel frees a thread's memory after this record, and that is sampled, too.
        let ends = self.members.leave(task.pid, task.tid);
        self.leaving.push_back((time, *task, ends));
        while self.leaving.front().is_some_and(|(at, ..)| at.saturating_add(LINGER_NS) < time) {
            let Some((_, gone, ends)) = self.leaving.pop_front() else { break };
            self.part(gone.pid, gone.tid);
            if self.threads.get(&gone.tid).is_some_and(|t| t.exited) {
                self.threads.remove(&gone.tid);
            }
            if ends && !self.threads.contains_key(&gone.pid) {
                self.spaces.remove(&gone.pid);
                self.recoded.remove(&gone.pid);
                self.parents.remove(&gone.pid);
                self.groups.moved(gone.pid);
                self.cmdlines.remove(&gone.pid);
            }
            if !self.threads.contains_key(&gone.pid) && !self.spaces.contains_key(&gone.pid) {
                self.log.end(gone.pid);
            }
        }
        if let Some(thread) = self.threads.get_mut(&task.tid) {
            thread.exited = true;
        }
    }

    pub(super) fn each_map(&self, mut each: impl FnMut(MapId)) {
        each(self.kernel_text);
        for space in self.spaces.values().chain([&self.kernel]) {
            space.maps().chain(space.before()).for_each(&mut each);
        }
        self.recoded.values().flat_map(BTreeMap::values).for_each(|(_, map)| each(*map));
    }
}
