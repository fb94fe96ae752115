//! Interpreters of processes: from a file with an interpreter to the kernel's walk of its frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kernel::procfs;
use crate::kernel::walk::Store;
use crate::symbols::languages::cpython::CpythonFile;
use crate::symbols::languages::prober::{ProbeAnswer, ProbeJob};

use super::AddressSpaceTracker;

/// The delay until a process is read again whose interpreter has not begun. It doubles each time, for this many times;
/// later the process is read when its mappings change.
const AGAIN: Duration = Duration::from_millis(2);
const TRIES: u32 = 12;

/// The interpreter of a process, which it shares with its forked children.
#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    file: Arc<CpythonFile>,
    bias: u64,
    /// Its number in the kernel, once the state of its threads was found.
    number: Option<Arc<u32>>,
    tries: u32,
}

impl Interpreter {
    pub(super) fn number(&self) -> u32 {
        self.number.as_deref().copied().unwrap_or(0)
    }

    /// Frees its number if no other process uses it.
    pub(super) fn release(self, store: &mut impl Store) {
        if let Some(number) = self.number.and_then(Arc::into_inner) {
            store.drop_runtime(number);
        }
    }
}

impl<S: Store> AddressSpaceTracker<S> {
    /// Returns the interpreter of a process whose mappings were read: the known one if it is the same.
    pub(super) fn interpreter(&mut self, pid: i32, found: Option<(Arc<CpythonFile>, u64)>) -> Option<Interpreter> {
        self.prober.as_ref()?;
        let before = self.processes.get(&pid).and_then(|process| process.interpreter.clone());
        let Some((file, bias)) = found else {
            self.store.set_runtime(pid, 0);
            return None;
        };
        let is_it = |known: &Interpreter| known.file == file && known.bias == bias;
        let own = match before.filter(is_it).or_else(|| self.inherited(pid).filter(is_it)) {
            Some(known) => known,
            None => Interpreter { file, bias, number: None, tries: 0 },
        };
        self.store.set_runtime(pid, own.number());
        if own.number.is_none() {
            self.probes.entry(pid).or_insert_with(Instant::now);
        }
        Some(own)
    }

    /// Returns the interpreter of a process's parent. If that is unknown, it is read: the next children inherit from it,
    /// even if it only waits for them.
    fn inherited(&mut self, pid: i32) -> Option<Interpreter> {
        let parent = procfs::parent(pid)?;
        let Some(process) = self.processes.get(&parent) else {
            self.due.entry(parent).or_insert_with(Instant::now);
            return None;
        };
        process.interpreter.clone().filter(|own| own.number.is_some())
    }

    /// Leaves the interpreter of a process that executes another program.
    pub(super) fn forget_interpreter(&mut self, pid: i32) {
        let Some(own) = self.processes.get_mut(&pid).and_then(|process| process.interpreter.take()) else { return };
        self.store.set_runtime(pid, 0);
        self.probes.remove(&pid);
        self.processes.entry(pid).and_modify(|process| process.stale = true);
        own.release(&mut self.store);
    }

    /// Requests to read the processes that are due.
    pub(super) fn probe(&mut self, now: Instant) {
        let Some(prober) = &mut self.prober else { return };
        prober.go_on(now);
        let due: Vec<i32> = self.probes.extract_if(|_, at| *at <= now).map(|(pid, _)| pid).collect();
        for pid in due {
            let Some(own) = self.processes.get(&pid).and_then(|process| process.interpreter.as_ref()) else { continue };
            prober.ask(ProbeJob { pid, file: own.file.clone(), bias: own.bias });
        }
    }

    pub(super) fn take_probed(&mut self, answer: ProbeAnswer) {
        let Some((job, slot)) = self.prober.as_mut().and_then(|prober| prober.take(answer)) else { return };
        let process = self.processes.get_mut(&job.pid).and_then(|process| process.interpreter.as_mut());
        let is_it = |own: &&mut Interpreter| own.file == job.file && own.bias == job.bias && own.number.is_none();
        let Some(own) = process.filter(is_it) else { return };
        let Some(slot) = slot else {
            if own.tries < TRIES {
                self.probes.insert(job.pid, Instant::now() + AGAIN * (1 << own.tries));
                own.tries += 1;
            }
            return;
        };
        self.next_interpreter = self.next_interpreter.wrapping_add(1).max(1);
        let runtime = job.file.runtime(job.bias, slot, self.next_interpreter);
        if let Some(number) = self.store.add_runtime(&runtime) {
            own.number = Some(Arc::new(number));
            self.store.set_runtime(job.pid, number);
        }
    }
}
