//! Names of threads, kept after the threads end, and after other threads have their numbers.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::Record;
use crate::session::{self, OUTSIDE, OUTSIDE_NAME, Session};

/// Limit of cached threads; the cache is cleared when it is full.
const MAX: usize = 1 << 18;
/// Limit of threads whose numbers other threads have; the older half is dropped when it is reached.
const MAX_EARLIER: usize = 1 << 16;

/// A thread: its number, and which one of the threads that had the number. The key of rows by thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    pub(crate) tid: i32,
    /// 0 for the first thread with the number. Later ones have increasing generations.
    generation: u32,
}

impl ThreadKey {
    /// Returns the id of the thread's row in a table.
    pub(crate) fn row(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.tid as u32)
    }

    /// Returns the thread of a row with this id.
    pub(crate) const fn of_row(row: u64) -> Self {
        Self { tid: row as u32 as i32, generation: (row >> 32) as u32 }
    }
}

/// A thread to be named: a certain one, or the last one with a number.
#[derive(Clone, Copy, Debug)]
pub enum ThreadRef {
    /// The last thread with this number.
    Last(i32),
    /// This thread, also if another one has its number now.
    One(ThreadKey),
}

impl ThreadRef {
    pub(crate) fn tid(self) -> i32 {
        match self {
            Self::Last(tid) | Self::One(ThreadKey { tid, .. }) => tid,
        }
    }
}

impl From<i32> for ThreadRef {
    fn from(tid: i32) -> Self {
        Self::Last(tid)
    }
}

impl From<ThreadKey> for ThreadRef {
    fn from(key: ThreadKey) -> Self {
        Self::One(key)
    }
}

/// The generation of a thread whose number other threads had before.
#[derive(Clone, Copy, Debug)]
struct Reused {
    generation: u32,
    /// The generation of the last thread before.
    before: u32,
    has_ended: bool,
}

/// The names of a thread whose number another thread has now.
#[derive(Clone, Debug)]
struct EarlierThread {
    comm: Arc<str>,
    program: Arc<str>,
    /// The last generation of any thread when its number was used again.
    until: u32,
}

/// The last known name of each thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadNames {
    map: FxHashMap<i32, Arc<str>>,
    /// Threads whose numbers other threads had before. The generation of all others is 0.
    reused: FxHashMap<i32, Reused>,
    /// The last generation of any thread.
    generation: u32,
    earlier: FxHashMap<ThreadKey, EarlierThread>,
}

impl ThreadNames {
    /// Follows a side-band record; must be called before the session applies it.
    pub fn follow(&mut self, record: &Record<'_>, time: u64, session: &Session) {
        match record {
            Record::Comm { tid, name, exec, .. } => {
                // Another thread may exec after the first one has ended; it gets the first one's number.
                if *exec && let Some(reused) = self.reused.get_mut(tid) {
                    reused.has_ended = false;
                }
                self.learn(*tid, name);
            }
            Record::Fork(task) => {
                // Records of existing threads, at the start of a recording, have no time.
                if time > 0 {
                    self.begin(task.tid, session);
                }
                let parent = self.comm(session, task.ptid);
                self.learn(task.tid, parent.as_bytes());
            }
            Record::Exit(task) => {
                if let Some(reused) = self.reused.get_mut(&task.tid) {
                    reused.has_ended = true;
                }
            }
            _ => {}
        }
    }

    /// Begins a thread. If its number is known, it is that of an earlier thread.
    fn begin(&mut self, tid: i32, session: &Session) {
        if !self.map.contains_key(&tid) && session.recorded_process_of(tid).is_none() {
            return;
        }
        let before = self.key(tid).generation;
        self.generation = self.generation.saturating_add(1);
        self.keep_earlier(tid, session);
        if self.reused.len() >= MAX {
            self.reused.retain(|_, reused| !reused.has_ended);
            if self.reused.len() >= MAX {
                self.reused.clear();
            }
        }
        self.reused.insert(tid, Reused { generation: self.generation, before, has_ended: false });
    }

    /// Keeps the names of the last thread with a number.
    fn keep_earlier(&mut self, tid: i32, session: &Session) {
        let Some(comm) = self.map.get(&tid).cloned() else { return };
        if self.earlier.len() >= MAX_EARLIER {
            let oldest = self.generation.saturating_sub(MAX_EARLIER as u32 / 2);
            self.earlier.retain(|_, earlier| earlier.until > oldest);
        }
        // A running process with the number is already the next one.
        let program = self.program_in(session, tid, session.recorded_process_of(tid));
        self.earlier.insert(self.key(tid), EarlierThread { comm, program, until: self.generation });
    }

    /// Returns the key of the last thread with a number.
    pub fn key(&self, tid: i32) -> ThreadKey {
        ThreadKey { tid, generation: self.reused.get(&tid).map_or(0, |of| of.generation) }
    }

    /// Returns the key of the thread that had the number of the last one before.
    pub(crate) fn earlier(&self, tid: i32) -> Option<ThreadKey> {
        self.reused.get(&tid).map(|reused| ThreadKey { tid, generation: reused.before })
    }

    /// Returns the key of a thread.
    pub(crate) fn key_of(&self, thread: impl Into<ThreadRef>) -> ThreadKey {
        match thread.into() {
            ThreadRef::Last(tid) => self.key(tid),
            ThreadRef::One(key) => key,
        }
    }

    /// Returns the number of a thread, unless another thread has it now.
    pub(crate) fn current(&self, thread: impl Into<ThreadRef>) -> Option<i32> {
        let key = self.key_of(thread);
        let is_current = match self.reused.get(&key.tid) {
            Some(reused) => reused.generation == key.generation,
            // Generations of ended threads are forgotten at some time.
            None => !self.earlier.contains_key(&key),
        };
        is_current.then_some(key.tid)
    }

    /// Stores a thread's name from a record.
    pub fn learn(&mut self, tid: i32, comm: &[u8]) {
        match self.map.get_mut(&tid) {
            Some(known) if known.as_bytes() == comm || common(tid).is_some() => {}
            Some(known) => *known = String::from_utf8_lossy(comm).into(),
            None => {
                if self.map.len() >= MAX {
                    self.map.clear();
                }
                let name = common(tid).map_or_else(|| String::from_utf8_lossy(comm).into(), Arc::from);
                self.map.insert(tid, name);
            }
        }
    }

    /// Stores the name of an unknown thread. Renames have their own records: other names need no comparison.
    pub fn meet(&mut self, tid: i32, comm: &[u8]) {
        if !self.map.contains_key(&tid) {
            self.learn(tid, comm);
        }
    }

    /// Returns a stored name without a lookup.
    pub fn get(&self, tid: i32) -> Option<&str> {
        self.map.get(&tid).map(|name| &**name)
    }

    /// Returns the current name of a thread, and stores it.
    pub fn comm(&mut self, session: &Session, tid: i32) -> Arc<str> {
        if let Some(known) = self.map.get(&tid) {
            return known.clone();
        }
        // Do not store an unknown name: a later record may contain it.
        let Some(found) = session.comm_of(tid) else { return unknown(tid) };
        self.learn(tid, found.as_bytes());
        found
    }

    /// Returns the last name of a thread, if known.
    pub fn known(&self, session: &Session, thread: impl Into<ThreadRef>) -> Arc<str> {
        let thread = thread.into();
        let name = match self.current(thread) {
            Some(tid) => self.map.get(&tid).cloned().or_else(|| session.comm_of(tid)),
            None => self.earlier.get(&self.key_of(thread)).map(|of| of.comm.clone()),
        };
        name.unwrap_or_else(|| unknown(thread.tid()))
    }

    /// Returns the name of a thread's process, which is that of its main thread; the thread's own if it is unknown.
    pub(crate) fn program(&self, session: &Session, thread: impl Into<ThreadRef>) -> Arc<str> {
        let thread = thread.into();
        let Some(tid) = self.current(thread) else {
            let program = self.earlier.get(&self.key_of(thread)).map(|of| of.program.clone());
            return program.unwrap_or_else(|| unknown(thread.tid()));
        };
        self.program_in(session, tid, session.process_of(tid))
    }

    fn program_in(&self, session: &Session, tid: i32, pid: Option<i32>) -> Arc<str> {
        let first = pid.filter(|pid| *pid != tid);
        let name = first.map(|pid| (pid, self.known(session, pid)));
        let name = name.filter(|(pid, name)| !session::is_unnamed(*pid, name));
        name.map_or_else(|| self.known(session, tid), |(_, name)| name)
    }
}

fn unknown(tid: i32) -> Arc<str> {
    common(tid).map_or_else(|| format!(":{tid}").into(), Arc::from)
}

/// The common name of tasks that share a number.
fn common(tid: i32) -> Option<&'static str> {
    match tid {
        0 => Some("swapper"),
        OUTSIDE => Some(OUTSIDE_NAME),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::TaskRecord;
    use crate::session::Origin;

    /// The records of a source, as the session and the names receive them.
    struct Records(ThreadNames, Session);

    impl Records {
        fn new() -> Self {
            Self(ThreadNames::default(), Session::new(Origin::Recorded))
        }

        fn add(&mut self, record: &Record<'_>, time: u64) -> &mut Self {
            self.0.follow(record, time, &self.1);
            self.1.apply(record, time);
            self
        }

        fn named(&self, key: ThreadKey) -> String {
            format!("{} of {}", self.0.known(&self.1, key), self.0.program(&self.1, key))
        }
    }

    fn comm(pid: i32, tid: i32, exec: bool, name: &'static [u8]) -> Record<'static> {
        Record::Comm { pid, tid, exec, name }
    }

    fn task(pid: i32, tid: i32) -> TaskRecord {
        TaskRecord { pid, ppid: 1, tid, ptid: 1, time: 0 }
    }

    #[test]
    fn threads_that_share_a_number_keep_their_names() {
        let mut records = Records::new();
        records.add(&comm(1, 1, true, b"init"), 0).add(&comm(10, 10, true, b"first"), 0);
        records.add(&comm(10, 11, false, b"worker"), 0);
        // Records of existing threads begin no other threads.
        records.add(&Record::Fork(task(10, 11)), 0).add(&comm(10, 11, false, b"worker"), 0);
        let of = |records: &Records| records.0.key(11);
        let first = of(&records);
        assert_eq!((first, records.named(first).as_str()), (ThreadKey::of_row(11), "worker of first"));
        records.add(&Record::Exit(task(10, 11)), 20);
        assert_eq!(of(&records), first, "the thread runs for a moment after the record");
        records.add(&Record::Fork(task(11, 11)), 30).add(&comm(11, 11, true, b"second"), 31);
        let second = of(&records);
        // The end of the second one was lost.
        records.add(&Record::Fork(task(11, 11)), 40);
        let third = of(&records);
        let names = [first, second, third].map(|key| records.named(key));
        assert_eq!(names, ["worker of first", "second of second", "init of init"]);
        assert_eq!([first, second, third].map(|key| records.0.current(key)), [None, None, Some(11)]);
        assert_eq!(&*records.0.known(&records.1, 11), "init", "a number is that of the last thread");
        assert_eq!([first, second, third].map(|key| ThreadKey::of_row(key.row())), [first, second, third]);
    }

    #[test]
    fn an_exec_begins_no_other_thread() {
        let mut records = Records::new();
        records.add(&comm(10, 10, true, b"first"), 0).add(&comm(10, 11, false, b"worker"), 0);
        let before = records.0.key(10);
        // The first thread has ended; the worker executes a program, and gets its number.
        records.add(&Record::Exit(task(10, 10)), 5).add(&comm(10, 10, true, b"next"), 6);
        assert_eq!((records.0.key(10), records.named(before).as_str()), (before, "next of next"));
    }

    #[test]
    fn generations_and_names_are_limited() {
        let mut records = Records::new();
        let (names, session) = (&mut records.0, &records.1);
        names.learn(7, b"old");
        let old = names.key(7);
        names.begin(7, session);
        names.learn(7, b"alive");
        let alive = names.key(7);
        for tid in 10..MAX as i32 + 20 {
            names.map.insert(tid, "short".into());
            names.begin(tid, session);
            if let Some(reused) = names.reused.get_mut(&tid) {
                reused.has_ended = true;
            }
        }
        assert!(names.reused.len() <= MAX && names.earlier.len() <= MAX_EARLIER);
        assert_eq!((names.key(7), names.current(alive)), (alive, Some(7)), "a running thread keeps its row");
        assert_eq!(&*names.known(session, old), ":7", "its name was dropped");
        let last = names.key(MAX as i32 + 19);
        assert_eq!(&*names.known(session, last), "short");
    }
}
