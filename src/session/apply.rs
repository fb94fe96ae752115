//! The session's state after each record: mappings, names, forks and exits.

use crate::record::Record;
use crate::record::interpreted::Language;
use crate::record::kinds::{Mmap, TaskRecord};
use crate::record::sample::{CONTEXT_MAX, CONTEXT_USER, u64s};

use super::dso::NamedFunction;
use super::host::{Host, Thread};
use super::hosts::HostId;
use super::maps::Map;
use super::space::AddressSpace;
use super::{DsoKind, Origin, Session, SideBandEvent, is_unnamed, unnamed};

impl Session {
    /// Applies a side-band record.
    pub fn apply(&mut self, record: &Record<'_>, time: u64) {
        match record {
            Record::Mmap(map) => self.mmap(map, time),
            Record::Comm { pid, tid, exec, name } => self.comm(*pid, *tid, *exec, name, time),
            Record::Fork(task) => self.fork(task, time),
            Record::Exit(task) => self.exit(task, time),
            Record::Cgroup { id, path } => {
                let path = self.intern(path);
                self.note(time, SideBandEvent::Cgroup { id: *id, path: path.clone() });
                self.here_mut().groups.insert(*id, path);
            }
            Record::Ksymbol { addr, len, unregister: false, name, source } => {
                if let Some(language) = Language::of_address(*addr) {
                    return self.dsos.learn_function(language, *addr, NamedFunction::of_record(name, source));
                }
                let (start, len) = (*addr, u64::from(*len));
                self.mmap(&Mmap { pid: -1, start, len, pgoff: start, prot: 4, name, ..Mmap::default() }, time);
            }
            _ => {}
        }
    }

    fn mmap(&mut self, map: &Mmap<'_>, time: u64) {
        if map.prot & 4 == 0 || map.len == 0 {
            return self.data_mmap(map);
        }
        self.dsos.now = time;
        let id = self.dsos.map(map, self.hosts[self.at].spaces.get(&map.pid));
        let at = self.dsos.placed(id);
        self.note(time, SideBandEvent::Map { pid: map.pid, tid: map.tid, at, prot: map.prot, flags: map.flags });
        self.generation += 1;
        let space = if map.pid == -1 {
            &mut self.hosts[self.at].kernel
        } else {
            self.thread(map.tid, map.pid);
            self.hosts[self.at].spaces.entry(map.pid).or_default()
        };
        let end = map.start.saturating_add(map.len);
        space.insert(map.start, end, id, self.generation);
        let Host { spaces, recoded, .. } = &mut self.hosts[self.at];
        if let (Some(recoded), Some(space)) = (recoded.get_mut(&map.pid), spaces.get_mut(&map.pid)) {
            // More memory for a JIT leaves its code unchanged; a file's memory is not JIT code.
            let anonymous = self.dsos.of_map(id).kind == DsoKind::Anon;
            recoded.retain(|start, (to, _)| anonymous || *to <= map.start || *start >= end);
            for (start, (to, map)) in recoded.range(map.start..end) {
                space.insert(*start, *to, *map, self.generation);
            }
        }
    }

    /// Marks addresses of a JIT as containing newer code, or none. `at` is the first of them in its DSO. A JIT may
    /// report code before the recording has its memory.
    pub(crate) fn recode(&mut self, host: HostId, pid: i32, (start, end): (u64, u64), at: u64) {
        let Host { spaces, recoded, .. } = &mut self.hosts[host];
        let Some(space) = spaces.get_mut(&pid) else { return };
        let dso = match space.find(start) {
            Some(map) => Some(self.dsos.map_of(map).dso).filter(|dso| self.dsos.get(*dso).kind == DsoKind::Anon),
            None => self.dsos.anonymous_of(host, pid).map(|dso| dso.id),
        };
        let Some(dso) = dso.filter(|_| start < end) else { return };
        let id = self.dsos.maps.id(Map { start, len: end - start, pgoff: at, dso }, |_, _| true);
        self.generation += 1;
        space.insert(start, end, id, self.generation);
        recoded.entry(pid).or_default().insert(start, (end, id));
    }

    fn data_mmap(&mut self, map: &Mmap<'_>) {
        let Some(data) = self.data.as_mut().filter(|_| map.len > 0) else { return };
        let space = data.entry(map.pid).or_default();
        let id = self.dsos.map(map, Some(space));
        space.insert(map.start, map.start.saturating_add(map.len), id, 0);
    }

    fn comm(&mut self, pid: i32, tid: i32, exec: bool, name: &[u8], time: u64) {
        let comm = self.intern(name);
        if exec {
            self.data.iter_mut().for_each(|data| drop(data.remove(&pid)));
            // A container runtime moves a process to its group before it executes the container's program.
            self.here_mut().groups.moved(pid);
            self.here_mut().exec(pid, time);
            self.here_mut().members.begin(pid);
            self.here_mut().recoded.remove(&pid);
            self.here_mut().cmdlines.remove(&pid);
            self.generation += 1;
            let space = AddressSpace::after_exec(self.here().spaces.get(&pid), self.generation);
            self.here_mut().in_exec += usize::from(space.is_in_exec());
            self.here_mut().spaces.insert(pid, space);
        }
        self.note(time, SideBandEvent::Comm { pid, tid, exec, comm: comm.clone() });
        self.here_mut().meet(pid, tid);
        self.here_mut().threads.insert(tid, Thread::new(comm, pid));
    }

    fn fork(&mut self, task: &TaskRecord, time: u64) {
        let parent = if task.ptid == 0 {
            // The idle task, which records do not name.
            Some(self.intern(b"swapper"))
        } else if self.here().threads.contains_key(&task.ptid) || self.origin == Origin::Recorded {
            self.here().threads.get(&task.ptid).map(|t| t.comm.clone())
        } else {
            self.adopt(task.ptid, task.ppid);
            self.here().threads.get(&task.ptid).map(|t| t.comm.clone())
        };
        // As in perf, a name is inherited, but a placeholder is not.
        let comm = parent.filter(|comm| !is_unnamed(task.ptid, comm)).unwrap_or_else(|| unnamed(task.tid));
        if task.pid == task.ppid {
            self.here_mut().members.join(task.pid, task.tid);
            self.note(time, SideBandEvent::thread(*task));
        } else {
            // The number belonged to another process before.
            self.earlier.take(task.pid);
            self.here_mut().members.begin(task.pid);
            self.here_mut().parents.insert(task.pid, task.ppid);
            let inherited = self.here().spaces.get(&task.ppid).cloned().unwrap_or_default();
            let dsos = &self.dsos;
            self.hosts[self.at].log.fork(time, task, &inherited, |map| dsos.placed(map));
            self.here_mut().spaces.insert(task.pid, inherited);
            if let Some(data) = &mut self.data
                && let Some(own) = data.get(&task.ppid).cloned()
            {
                data.insert(task.pid, own);
            }
        }
        self.here_mut().meet(task.pid, task.tid);
        self.here_mut().threads.insert(task.tid, Thread::new(comm, task.pid));
    }

    fn exit(&mut self, task: &TaskRecord, time: u64) {
        let here = &mut self.hosts[self.at];
        here.log.push(time, SideBandEvent::Exit(*task));
        here.leave(task, time);
    }

    /// Handles a sample of a process in user mode, or in a system call with a call chain. Running code of the new
    /// program proves that an exec is over.
    pub(crate) fn seen(&mut self, pid: i32, time: u64, user_mode: bool, chain: &[u8]) {
        let here = &mut self.hosts[self.at];
        if here.in_exec == 0 {
            return;
        }
        let proves = |space: &AddressSpace| user_mode || user_address(chain).is_some_and(|ip| space.is_new(ip));
        if let Some(space) = here.spaces.get_mut(&pid).filter(|s| s.is_in_exec() && proves(s)) {
            self.generation += 1;
            space.settle(self.generation);
            here.in_exec -= 1;
            here.log.push(time, SideBandEvent::Ran { pid });
        }
    }
}

/// Returns the first user address of a raw call chain.
pub(super) fn user_address(chain: &[u8]) -> Option<u64> {
    let mut words = u64s(chain).skip_while(|word| *word != CONTEXT_USER);
    words.nth(1).filter(|ip| *ip < CONTEXT_MAX)
}
