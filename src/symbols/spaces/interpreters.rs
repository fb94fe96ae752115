//! Interpreters of processes: from a file with an interpreter to the kernel's walk of its frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kernel::procfs::{self, ProcMapping};
use crate::kernel::walk::code_cache::CodeCache;
use crate::kernel::walk::script_engine::ScriptEngine;
use crate::kernel::walk::{LanguageRuntime, Store};
use crate::symbols::languages::NotWalked;
use crate::symbols::languages::names::RuntimeTypes;
use crate::symbols::languages::prober::{Found, ProbeAnswer, ProbeJob};
use crate::symbols::languages::runtime_file::{FoundRuntime, LanguageVersion, RuntimeFile};

use super::{AddressSpaceTracker, InterpreterFigures};

/// The delay until a process is read again whose interpreter has not begun. It grows by a quarter each time, for this
/// many times; later the process is read when its mappings change.
const AGAIN: Duration = Duration::from_millis(2);
const TRIES: u32 = 32;
/// How long the first stacks of a process wait for its interpreter.
const PATIENCE: Duration = Duration::from_millis(10);

/// The interpreter of a process, which it shares with its forked children.
#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    file: Arc<RuntimeFile>,
    bias: u64,
    /// Where all its code is, if a JIT writes some of it: start and length.
    text: Option<(u64, u64)>,
    version: LanguageVersion,
    /// Its number in the kernel, once the state of its threads was found.
    number: Option<Arc<u32>>,
    /// When to try again, and how many tries there were.
    delay: Duration,
    tries: u32,
    /// Why it has no number.
    why: NotWalked,
}

impl Interpreter {
    fn figures(&self) -> InterpreterFigures {
        let walked = if self.number.is_some() { Ok(()) } else { Err(self.why) };
        InterpreterFigures { version: self.version, walked, processes: 1 }
    }

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
    pub(super) fn interpreter(
        &mut self,
        pid: i32,
        found: Option<(Arc<RuntimeFile>, u64)>,
        maps: &[ProcMapping],
    ) -> Option<Interpreter> {
        self.prober.as_ref()?;
        let before = self.processes.get(&pid).and_then(|process| process.interpreter.clone());
        let Some((file, bias)) = found else {
            self.store.set_runtime(pid, 0);
            return None;
        };
        let text = file.text_with_jit(bias, maps);
        // A JIT removes the right to execute its code while it writes.
        let is_same_code = |known: &Interpreter| text.is_none() || known.text == text;
        let is_it = |known: &Interpreter| known.file == file && known.bias == bias && is_same_code(known);
        let own = match before.filter(is_it).or_else(|| self.inherited(pid).filter(is_it)) {
            Some(known) => known,
            None => {
                let own = Interpreter {
                    version: file.version,
                    file,
                    bias,
                    text,
                    number: None,
                    delay: AGAIN,
                    tries: 0,
                    why: NotWalked::NotBegun,
                };
                return Some(self.begin_interpreter(pid, own));
            }
        };
        self.store.set_runtime(pid, own.number());
        if own.number.is_none() {
            self.probes.entry(pid).or_insert_with(Instant::now);
        }
        Some(own)
    }

    /// Reads a process for the first time. Its first stacks have its functions if it answers in time.
    fn begin_interpreter(&mut self, pid: i32, mut own: Interpreter) -> Interpreter {
        self.probes.remove(&pid);
        self.store.set_runtime(pid, 0);
        let job = ProbeJob { pid, file: own.file.clone(), bias: own.bias };
        if let Some(found) = self.prober.as_mut().and_then(|prober| prober.read_within(job, PATIENCE)) {
            self.settle_interpreter(pid, &mut own, found);
        }
        own
    }

    /// Returns the interpreters of all processes by version and result.
    pub(super) fn interpreters(&self) -> Vec<InterpreterFigures> {
        let own = self.processes.values().filter_map(|process| process.interpreter.as_ref()).map(Interpreter::figures);
        let mut all: Vec<InterpreterFigures> = own.chain(self.files.unknown_interpreters()).collect();
        all.sort_unstable_by_key(|one| (one.version, one.walked));
        all.dedup_by(|next, first| {
            let is_same = (next.version, next.walked) == (first.version, first.walked);
            first.processes += if is_same { next.processes } else { 0 };
            is_same
        });
        all
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
        let delayed = prober.go_on(now);
        let due: Vec<i32> = self.probes.extract_if(|_, at| *at <= now).map(|(pid, _)| pid).collect();
        for pid in due {
            let Some(own) = self.processes.get(&pid).and_then(|process| process.interpreter.as_ref()) else { continue };
            prober.ask(ProbeJob { pid, file: own.file.clone(), bias: own.bias });
        }
        let process = delayed.and_then(|pid| self.processes.get_mut(&pid));
        if let Some(own) = process.and_then(|process| process.interpreter.as_mut()) {
            own.why = NotWalked::Delayed;
            self.changed.get_or_insert(now);
        }
    }

    pub(super) fn take_probed(&mut self, answer: ProbeAnswer) {
        let Some((job, found)) = self.prober.as_mut().map(|prober| prober.take(answer)) else { return };
        let process = self.processes.get(&job.pid).and_then(|process| process.interpreter.as_ref());
        let is_it = |own: &&Interpreter| own.file == job.file && own.bias == job.bias && own.number.is_none();
        let Some(mut own) = process.filter(is_it).cloned() else { return };
        self.settle_interpreter(job.pid, &mut own, found);
        self.processes.entry(job.pid).and_modify(|process| process.interpreter = Some(own));
    }

    /// Starts walking an interpreter whose threads were found; else schedules the next try.
    fn settle_interpreter(&mut self, pid: i32, own: &mut Interpreter, found: Found) {
        self.changed.get_or_insert_with(Instant::now);
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                own.why = why;
                if own.tries < TRIES {
                    self.probes.insert(pid, Instant::now() + own.delay);
                    own.delay += own.delay / 4;
                    own.tries += 1;
                }
                return;
            }
        };
        self.next_interpreter = self.next_interpreter.wrapping_add(1).max(1);
        own.why = NotWalked::NoRoom;
        let id = own.file.id(self.next_interpreter);
        let number = match found {
            FoundRuntime::Threads(slot) => {
                if let Some(types) = own.file.lines() {
                    self.machines.add(id, pid, types);
                }
                let runtime = own.file.runtime(own.bias, slot, id);
                let whole =
                    |runtime: LanguageRuntime| LanguageRuntime { text: own.text.unwrap_or(runtime.text), ..runtime };
                runtime.map(whole).and_then(|runtime| self.store.add_runtime(&runtime))
            }
            FoundRuntime::Machine(machine) => {
                own.version.major = machine.layout.major;
                self.machines.add(id, pid, RuntimeTypes::Java(machine.layout));
                self.store.add_code_cache(&CodeCache { id, ..machine.cache })
            }
            FoundRuntime::Engine(layout) => {
                self.machines.add(id, pid, RuntimeTypes::JavaScript(*layout));
                self.store.add_engine(&ScriptEngine { id, ..layout.engine })
            }
        };
        if let Some(number) = number {
            own.number = Some(Arc::new(number));
            self.store.set_runtime(pid, number);
        }
    }
}
