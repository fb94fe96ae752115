//! Unwind tables with which the kernel walks stacks of live processes. They are built from the files that a sampled
//! process has mapped, on a background thread, and updated as processes change and exit.

mod built_table;
mod cpu_budget;
mod files;
mod interpreters;
mod jit;
mod moved_code;
mod placement;
pub(crate) mod process_events;
mod startup;
mod turns;

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, bounded, unbounded};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::Interpreters;
use crate::kernel::wakeup::WakeSignal;
use crate::kernel::walk::{Asks, Mapping, ProcessEvent, Store, WalkEnds, Walker, lack};
use crate::kernel::{self, ThreadPriority, procfs};
use crate::record::interpreted::Language;
use crate::symbols::languages::NotWalked;
use crate::symbols::languages::names::KnownRuntimes;
use crate::symbols::languages::prober::Prober;
use crate::symbols::languages::runtime_file::LanguageVersion;
use built_table::{ContentHasher, Done, Id};
use cpu_budget::CpuBudget;
use files::Files;
pub(crate) use files::{FileTable, TableOutcome};
use interpreters::Interpreter;
use jit::{JitCode, JitSpans};
use placement::{PlacedProcess, hold};
use process_events::{ProcessEventSender, ProcessEvents, WakingSender};
use startup::Starting;
use turns::Turns;

/// The delay until a process's mappings are read again. It doubles each time that nothing changed.
const PAUSE: Duration = Duration::from_millis(1);
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// The same for a process whose JIT creates code, which is not reported by events.
const JIT_PAUSE: Duration = Duration::from_millis(500);
/// The interval at which changed figures are published.
const TOLD: Duration = Duration::from_millis(500);
/// The interval of checking for exited processes. Their exit events may have been lost.
const SWEEP: Duration = Duration::from_secs(60);

/// The thread that follows processes and builds their tables.
#[derive(Debug)]
pub(crate) struct UnwindTableService {
    /// It runs until all senders are dropped.
    pub(crate) news: ProcessEventSender,
    pub(crate) tables: Arc<ArcSwap<Tables>>,
    pub(crate) starts: Starts,
    pub(crate) machines: KnownRuntimes,
}

/// Announces programs that are about to start.
#[derive(Clone, Debug)]
pub(crate) struct Starts(WakingSender<Starting>);

impl Starts {
    /// Waits until the tables of a program exist that a process will execute, for a limited time.
    pub(crate) fn prepare(&self, pid: i32, program: PathBuf, patience: Duration) {
        let (done, is_done) = bounded(0);
        if self.0.send(Starting::new(pid, program, done)) {
            // The other end is dropped when the tables exist. Later ones are used as soon as they do.
            let _ = is_done.recv_timeout(patience);
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Sorted by the number of processes, highest first.
    pub(crate) files: Vec<FileTable>,
    pub(crate) processes: usize,
    /// The interpreters of these processes; empty if their languages are not walked.
    pub(crate) interpreters: Vec<InterpreterFigures>,
    /// Bytes of kernel memory in use, and the limit.
    pub(crate) held: usize,
    pub(crate) limit: usize,
}

/// Processes with the same version of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterpreterFigures {
    pub(crate) version: LanguageVersion,
    pub(crate) walked: Result<(), NotWalked>,
    pub(crate) processes: usize,
}

/// Frames of interpreted functions since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterpretedFigures {
    pub(crate) frames: u64,
    /// Frames whose names were not read.
    pub(crate) unnamed: u64,
    pub(crate) functions: usize,
    /// The languages of these frames, as bits.
    pub(crate) languages: u8,
    /// How frames are shown now.
    pub(crate) shown: Interpreters,
}

impl InterpretedFigures {
    pub(crate) fn count(&mut self, language: Language, is_named: bool) {
        self.frames += 1;
        self.unnamed += u64::from(!is_named);
        self.languages |= 1 << language as u8;
    }

    pub(crate) fn languages(&self) -> impl Iterator<Item = Language> {
        Language::ALL.into_iter().filter(|language| self.languages & 1 << *language as u8 != 0)
    }
}

/// User stacks that the kernel walked with tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkFigures {
    pub(crate) tables: Arc<Tables>,
    pub(crate) ends: WalkEnds,
    pub(crate) interpreted: InterpretedFigures,
}

/// Follows processes; with `languages`, also the frames of interpreters.
pub(crate) fn follow(mut walker: Walker, languages: bool) -> io::Result<UnwindTableService> {
    let wakeup = Arc::new(WakeSignal::new()?);
    let (sender, news) = process_events::channel(&wakeup);
    let tables = Arc::new(ArcSwap::default());
    let asks = walker.asks();
    let hasher = ContentHasher::default();
    let (elsewhere, made) = built_table::start(hasher.clone(), &wakeup)?;
    let (starts, starting) = unbounded();
    let starts = Starts(WakingSender::new(starts, &wakeup));
    let mut spaces = AddressSpaceTracker::new(walker, Files::new(hasher, elsewhere), tables.clone());
    spaces.prober = languages.then(|| Prober::new().waking(&wakeup));
    let from = Inputs { wakeup, asks, news, made, starting };
    let machines = spaces.machines.clone();
    crate::kernel::thread("tables", move || spaces.run(from))?;
    Ok(UnwindTableService { news: sender, tables, starts, machines })
}

struct Inputs {
    /// Signaled by the senders of all channels.
    wakeup: Arc<WakeSignal>,
    /// The ring of processes that request tables.
    asks: Option<Asks>,
    news: ProcessEvents,
    /// Tables of large files.
    made: Receiver<Done>,
    starting: Receiver<Starting>,
}

#[derive(Debug)]
struct Process {
    /// Shared with forked children.
    maps: Arc<[procfs::ProcMapping]>,
    /// Those by which it is walked.
    mappings: Arc<[Mapping]>,
    turns: Turns,
    files: Vec<Id>,
    read: Instant,
    /// When reading its mappings began, in nanoseconds of the events' clock.
    known_at: u64,
    pause: Duration,
    /// Whether its own mappings were read; otherwise they are its parent's.
    is_own: bool,
    /// Whether to rebuild it even if its mappings did not change.
    stale: bool,
    /// Its JIT's code and the places of its rows.
    jit: Option<JitCode>,
    jit_spans: JitSpans,
    interpreter: Option<Interpreter>,
}

struct AddressSpaceTracker<S> {
    store: S,
    files: Files,
    /// Programs that are about to start, whose tables are being built.
    starting: Vec<Starting>,
    processes: FxHashMap<i32, Process>,
    /// When to read which process again.
    due: FxHashMap<i32, Instant>,
    /// Processes to read when no process waits for its tables, the next one last.
    early: Vec<i32>,
    tables: Arc<ArcSwap<Tables>>,
    /// When the published figures became outdated.
    changed: Option<Instant>,
    swept: Instant,
    /// Reads the memory of processes with an interpreter; `None` if their languages are not walked.
    prober: Option<Prober>,
    /// When to read which of these processes again.
    probes: FxHashMap<i32, Instant>,
    /// Those of Java.
    machines: KnownRuntimes,
    /// Interpreters so far.
    next_interpreter: u32,
}

impl<S: Store> AddressSpaceTracker<S> {
    fn new(store: S, files: Files, tables: Arc<ArcSwap<Tables>>) -> Self {
        Self {
            store,
            files,
            starting: Vec::new(),
            processes: FxHashMap::default(),
            due: FxHashMap::default(),
            early: Vec::new(),
            tables,
            changed: Some(Instant::now()),
            swept: Instant::now(),
            prober: None,
            probes: FxHashMap::default(),
            machines: KnownRuntimes::default(),
            next_interpreter: 0,
        }
    }

    fn run(mut self, from: Inputs) {
        let Inputs { wakeup, mut asks, news, made, starting } = from;
        // Until a process has its tables, its stacks end early.
        let (mut budget, mut priority) = (CpuBudget::new(), ThreadPriority::ahead());
        let probed = self.prober.as_ref().map(|prober| prober.answers.clone());
        let mut requests = Vec::new();
        loop {
            let is_answered = probed.as_ref().is_some_and(|probed| !probed.is_empty());
            let time = if is_answered { Duration::ZERO } else { self.rest(Instant::now()) };
            wakeup.wait(asks.as_ref().map(AsFd::as_fd), time);
            let Some(all) = news.take() else { return };
            process_events::lasting(all).into_iter().for_each(|one| self.take(one));
            asks.iter_mut().for_each(|asks| asks.take(&mut requests));
            requests.drain(..).for_each(|number| self.ask(number));
            made.try_iter().for_each(|one| self.take_made(one));
            probed.iter().flat_map(Receiver::try_iter).for_each(|answer| self.take_probed(answer));
            // Commands wait for their tables.
            starting.try_iter().for_each(|one| self.prepare(one));
            if news.have_missed() {
                self.look_anew();
            }
            self.step(Instant::now());
            self.read_early();
            budget.pause();
            priority.keep();
        }
    }

    /// Returns how long to wait for events.
    fn rest(&self, now: Instant) -> Duration {
        if !self.early.is_empty() {
            return Duration::ZERO;
        }
        let told = self.changed.map(|since| since + TOLD);
        let probes = self.probes.values().copied().chain(self.prober.as_ref().and_then(Prober::next));
        let next = self.due.values().copied().chain(told).chain(self.files.next()).chain(probes).min();
        next.map_or(LONG_PAUSE, |next| next.saturating_duration_since(now))
    }

    /// Reads one of the processes that have not been walked yet.
    fn read_early(&mut self) {
        while let Some(pid) = self.early.pop() {
            if !self.processes.contains_key(&pid) {
                return self.read(pid);
            }
        }
    }

    /// Schedules all processes for reading, because events were lost.
    fn look_anew(&mut self) {
        let now = Instant::now();
        self.due.extend(self.processes.keys().map(|pid| (*pid, now)));
    }

    fn take_made(&mut self, (job, made): Done) {
        self.changed.get_or_insert_with(Instant::now);
        let id = job.id;
        self.files.take_made(job, made, &mut self.store);
        self.place_anew(&FxHashSet::from_iter([id]), Instant::now());
        self.end_starts();
    }

    fn prepare(&mut self, mut starting: Starting) {
        for (name, file) in starting.files() {
            starting.tables.extend(self.files.of_file(&name, &file, &mut self.store));
        }
        self.starting.push(starting);
        self.end_starts();
    }

    /// Reports which starting programs have all their tables.
    fn end_starts(&mut self) {
        let Self { starting, files, .. } = self;
        starting.retain(|one| one.tables.iter().any(|id| files.is_coming(*id)));
    }

    /// Reschedules processes that use one of these tables.
    fn place_anew(&mut self, ids: &FxHashSet<Id>, now: Instant) {
        for (pid, process) in &mut self.processes {
            if process.files.iter().any(|id| ids.contains(id)) {
                process.stale = true;
                self.due.insert(*pid, now);
            }
        }
    }

    fn step(&mut self, now: Instant) {
        let ready: Vec<i32> = self.due.extract_if(|_, at| *at <= now).map(|(pid, _)| pid).collect();
        ready.into_iter().for_each(|pid| self.read(pid));
        self.probe(now);
        self.files.close_old();
        if self.files.next().is_some_and(|at| at <= now) {
            let waiting = self.files.take_waiting();
            self.place_anew(&waiting, now);
        }
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            let gone = |pid: &&i32| !procfs::is_there(**pid);
            let gone: Vec<i32> = self.processes.keys().filter(gone).copied().collect();
            gone.into_iter().for_each(|pid| self.forget(pid));
        }
        if self.changed.is_some_and(|since| now.duration_since(since) >= TOLD) {
            self.changed = None;
            let (held, limit) = self.store.held();
            let files = self.files.told();
            let (processes, interpreters) = (self.processes.len(), self.interpreters());
            self.tables.store(Arc::new(Tables { files, processes, interpreters, held, limit }));
        }
    }

    /// Handles a request of a process during a walk, by its PID here.
    fn ask(&mut self, number: u32) {
        self.take(ProcessEvent::Lacks { pid: number as i32, what: lack::PROCESS, number: None });
    }

    fn take(&mut self, news: ProcessEvent) {
        let is_own = |pid| self.processes.get(&pid).is_some_and(|process| process.is_own);
        let is_known =
            |pid, at| self.processes.get(&pid).is_some_and(|process| process.is_own && process.known_at > at);
        match news {
            // Code without a row belongs to a JIT that reports it later; otherwise it never gets a row.
            ProcessEvent::Lacks { pid, what: lack::ROW, .. } => {
                if self.processes.get(&pid).is_some_and(|process| process.jit.is_some()) {
                    self.want(pid);
                }
            }
            ProcessEvent::Lacks { pid, number, .. } => {
                // If there is no room, the process is requested again.
                let _ = number.map(|number| self.store.learn(pid, number));
                self.want(pid);
            }
            // Requests are faster than events: its mappings were read after this change.
            ProcessEvent::Mapped { pid, at } | ProcessEvent::Forked { child: pid, at, .. } if is_known(pid, at) => {}
            // An interpreter may be that of the program before, with other addresses.
            ProcessEvent::Executed { pid, at } if is_known(pid, at) && self.is_native(pid) => {}
            ProcessEvent::Mapped { pid, .. } if self.processes.contains_key(&pid) => {
                // A new mapping, so the delay starts again.
                self.processes.entry(pid).and_modify(|process| process.pause = PAUSE);
                self.want(pid);
            }
            ProcessEvent::Mapped { .. } => {}
            ProcessEvent::Runs { pid } => self.early.push(pid),
            // The mappings may be newer than these events, so they are read again, not inherited or dropped.
            ProcessEvent::Forked { child: pid, .. } | ProcessEvent::Executed { pid, .. } if is_own(pid) => {
                if matches!(news, ProcessEvent::Executed { .. }) {
                    self.forget_interpreter(pid);
                }
                self.due.insert(pid, Instant::now());
            }
            ProcessEvent::Forked { parent, child, .. } => self.fork(parent, child),
            ProcessEvent::Executed { pid, .. } | ProcessEvent::Exited { pid } => self.forget(pid),
        }
    }

    fn is_native(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_none_or(|process| process.interpreter.is_none())
    }

    fn want(&mut self, pid: i32) {
        let at = self.processes.get(&pid).map_or_else(Instant::now, |process| process.read + process.pause);
        self.due.entry(pid).or_insert(at);
    }

    fn fork(&mut self, parent: i32, child: i32) {
        self.forget(child);
        let Some(process) = self.processes.get(&parent) else { return };
        self.store.set_runtime(child, process.interpreter.as_ref().map_or(0, Interpreter::number));
        if self.store.set_process(child, &process.mappings).is_err() {
            self.store.set_runtime(child, 0);
            return;
        }
        let (maps, mappings, files) = (process.maps.clone(), process.mappings.clone(), process.files.clone());
        let turns = process.turns.clone();
        let jit_spans = process.jit_spans.clone();
        let interpreter = process.interpreter.clone();
        self.files.take(&files);
        let read = Instant::now();
        let pause = PAUSE;
        let (is_own, stale, jit) = (false, false, None);
        let known_at = 0;
        let process =
            Process { maps, mappings, turns, files, read, known_at, pause, is_own, stale, jit, jit_spans, interpreter };
        self.put(child, process);
    }

    /// Replaces a process's tables. Its files are already acquired: most of them are those it had.
    fn put(&mut self, pid: i32, process: Process) {
        self.changed.get_or_insert_with(Instant::now);
        if let Some(before) = self.processes.insert(pid, process) {
            self.give_up(before);
        }
    }

    fn forget(&mut self, pid: i32) {
        self.due.remove(&pid);
        self.probes.remove(&pid);
        self.store.forget_process(pid);
        if let Some(process) = self.processes.remove(&pid) {
            self.changed.get_or_insert_with(Instant::now);
            self.give_up(process);
        }
    }

    fn give_up(&mut self, process: Process) {
        self.files.give_up(&process.files);
        process.jit_spans.release(&mut self.store);
        process.interpreter.into_iter().for_each(|interpreter| interpreter.release(&mut self.store));
    }

    /// Reads what a process has mapped now, and builds its tables.
    fn read(&mut self, pid: i32) {
        let known_at = kernel::monotonic_ns();
        let maps = procfs::exec_maps(pid);
        if maps.is_empty() {
            return self.forget(pid);
        }
        let mut jit = self.processes.get_mut(&pid).and_then(|process| process.jit.take());
        let has_grown = JitCode::follow(&mut jit, pid, &maps);
        if let Some(process) = self.processes.get_mut(&pid)
            && *process.maps == *maps
            && !process.stale
            && !has_grown
        {
            let most = if jit.is_some() { JIT_PAUSE } else { LONG_PAUSE };
            (process.read, process.pause, process.is_own) = (Instant::now(), (process.pause * 2).min(most), true);
            (process.jit, process.known_at) = (jit, known_at);
            return;
        }
        let PlacedProcess { mappings, of_files, mut files, jit_spans, interpreter } =
            self.place(pid, &maps, jit.as_ref());
        let (before, read) = (self.processes.get(&pid), Instant::now());
        let turns = before.map_or_else(Turns::default, |before| before.turns.clone()).update(&of_files, read);
        let mappings = turns.arrange(mappings);
        turns.files().for_each(|file| hold(&mut self.files, file, &mut files));
        let is_same = before.is_some_and(|before| *before.mappings == *mappings);
        let interpreter = self.interpreter(pid, interpreter, &maps);
        if !is_same && self.store.set_process(pid, &mappings).is_err() {
            self.files.give_up(&files);
            jit_spans.release(&mut self.store);
            interpreter.into_iter().for_each(|interpreter| interpreter.release(&mut self.store));
            return self.forget(pid);
        }
        let (pause, is_own, stale) = (PAUSE, true, false);
        let (maps, mappings) = (maps.into(), mappings.into());
        let process =
            Process { maps, mappings, turns, files, read, known_at, pause, is_own, stale, jit, jit_spans, interpreter };
        self.put(pid, process);
    }
}

#[cfg(test)]
mod tests;
