//! The threads of each process except the first: they keep its mappings if the first one exits (pthread_exit(3)).

use rustc_hash::{FxHashMap, FxHashSet};

/// The other threads of processes, as far as records report them.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(FxHashMap<i32, Others>);

#[derive(Clone, Debug, Default)]
struct Others {
    tids: FxHashSet<i32>,
    /// Whether the first thread has exited.
    leaderless: bool,
}

impl Members {
    /// Starts a process or another program, which has only its first thread.
    pub(super) fn begin(&mut self, pid: i32) {
        self.0.remove(&pid);
    }

    pub(super) fn join(&mut self, pid: i32, tid: i32) {
        if pid != tid {
            self.0.entry(pid).or_default().tids.insert(tid);
        }
    }

    /// Removes a thread. Returns whether its process ends with it.
    pub(super) fn leave(&mut self, pid: i32, tid: i32) -> bool {
        let Some(others) = self.0.get_mut(&pid) else { return pid == tid };
        others.tids.remove(&tid);
        others.leaderless |= pid == tid;
        let ends = others.leaderless && others.tids.is_empty();
        if others.tids.is_empty() {
            self.0.remove(&pid);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let mut members = Members::default();
        assert!(members.leave(5, 5), "a process of one thread");
        members.join(5, 6);
        members.join(5, 7);
        assert_eq!([5, 6, 7].map(|tid| members.leave(5, tid)), [false, false, true]);
        members.join(5, 6);
        assert_eq!([6, 5].map(|tid| members.leave(5, tid)), [false, true]);
        // An unknown thread does not end a process.
        assert!(!members.leave(5, 9));
        // A thread that calls exec(3) becomes the first one, whose exit was reported before.
        members.join(5, 6);
        assert!(!members.leave(5, 5));
        members.begin(5);
        assert!(members.leave(5, 5) && members.0.is_empty());
    }
}
