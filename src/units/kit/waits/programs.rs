//! Programs: a process with the processes that it forked without an exec, such as a server and its workers.

use rustc_hash::FxHashMap;

use crate::record::open_spans::ThreadChange;
use crate::session::Session;

/// Limit of cached processes; the cache is cleared when it is full.
const MAX: usize = 1 << 17;
/// The maximum number of parents that are followed.
const DEEPEST: usize = 64;

/// The first process of each process's program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    roots: FxHashMap<i32, i32>,
    parents: FxHashMap<i32, Option<i32>>,
}

impl Programs {
    pub(crate) fn follow(&mut self, change: &ThreadChange) {
        match change {
            ThreadChange::Born { pid, tid } if pid == tid => {
                self.roots.remove(pid);
                self.parents.remove(pid);
            }
            ThreadChange::Exec { pid, .. } => _ = self.roots.remove(pid),
            ThreadChange::Born { .. } | ThreadChange::Ended { .. } => {}
        }
    }

    /// Returns the process that started a process.
    pub(crate) fn parent(&mut self, pid: i32, session: &Session) -> Option<i32> {
        if self.parents.len() >= MAX {
            self.parents.clear();
        }
        *self.parents.entry(pid).or_insert_with(|| session.parent_of(pid))
    }

    /// Returns the first process of a process's program. `None` if the record has no process.
    pub(crate) fn root(&mut self, pid: i32, session: &Session) -> Option<i32> {
        if pid <= 0 {
            return None;
        }
        if let Some(root) = self.roots.get(&pid) {
            return Some(*root);
        }
        let mut root = pid;
        for _ in 0..DEEPEST {
            match session.parent_of(root).filter(|parent| session.run_one_program(root, *parent)) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        if self.roots.len() >= MAX {
            self.roots.clear();
        }
        self.roots.insert(pid, root);
        Some(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::kinds::TaskRecord;
    use crate::session::Origin;

    #[test]
    fn a_server_and_its_workers_are_one_program() {
        let mut session = Session::new(Origin::Recorded);
        let mut programs = Programs::default();
        let comm = |pid, exec, name: &'static [u8]| Record::Comm { pid, tid: pid, exec, name };
        let fork = |pid, ppid| Record::Fork(TaskRecord { pid, ppid, tid: pid, ptid: ppid, time: 0 });
        // As perf records existing processes: names and parents.
        let records = [
            comm(1, false, b"systemd"),
            comm(10, false, b"postgres"),
            fork(10, 1),
            comm(10, false, b"postgres"),
            fork(11, 10),
            comm(11, false, b"postgres"),
            fork(12, 11),
            fork(13, 10),
            comm(13, true, b"sh"),
        ];
        for record in &records {
            session.apply(record, 1);
        }
        assert_eq!([1, 10, 11, 12, 13].map(|pid| programs.root(pid, &session)), [1, 10, 10, 10, 13].map(Some));
        assert_eq!([0, -1].map(|pid| programs.root(pid, &session)), [None, None]);
        assert_eq!([12, 13].map(|pid| programs.parent(pid, &session)), [Some(11), Some(10)]);
        // A reused id is another process.
        for record in [fork(12, 13), comm(12, true, b"postgres")] {
            session.thread_change(&record).iter().for_each(|change| programs.follow(change));
            session.apply(&record, 2);
        }
        assert_eq!((programs.root(12, &session), programs.parent(12, &session)), (Some(12), Some(13)));
    }
}
