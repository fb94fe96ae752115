//! The walk program of a session: how it is loaded, the hooks and rings that it serves, and the tables that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::interpreted::InterpretedFrames;
use super::{Sampled, WalkJoiner};
use crate::event::{CallGraph, Event, Interpreters};
use crate::kernel::attr::{Attr, sample};
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::spawn::HeldCommand;
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::kernel::wakeup::WakeSignal;
use crate::kernel::walk::{Hook, ProcessEvent, Program, Walker};
use crate::kernel::{kernel_symbols, procfs};
use crate::perfdata::layout;
use crate::record::sample::ChainPlace;
use crate::source::live::LiveConfig;
use crate::source::live::attr;
use crate::source::live::capture::refused_program;
use crate::source::live::error::OpenError;
use crate::symbols::spaces::process_events;
use crate::symbols::spaces::{self, Starts, Tables, UnwindTableService, WalkFigures};

/// The number for all tasks instead of one, as perf_event_open takes it.
pub(crate) const ALL_TASKS: i32 = -1;

/// The maximum time that measuring is delayed for the tables of running processes.
const TABLES: Duration = Duration::from_millis(300);

/// Returns the limit of kernel memory for tables in bytes, given the program's memory limit.
pub fn tables_of(memory: usize) -> usize {
    const LEAST: usize = 16 << 20;
    const MOST: usize = 256 << 20;
    (memory / 2).clamp(LEAST, MOST)
}

/// Calls [`wanted`] for the events of a session, which may request their own modes.
pub(crate) fn for_events(config: &LiveConfig) -> Result<(CallGraph, Option<StackWalks>, Option<String>), OpenError> {
    let (session, limit) = (config.chains, config.tables);
    let may_be_walked = |e: &&Event| attr::may_be_walked(e) || attr::traced_at(e).is_some() && !e.no_samples;
    let later = config.walks_later.then_some(session);
    let ways: Vec<CallGraph> =
        config.events.iter().filter(may_be_walked).map(|e| e.way(session)).chain(later).collect();
    let by_tables = [CallGraph::Tables, CallGraph::Auto].into_iter().find(|way| ways.contains(way));
    let Some(way) = by_tables else {
        let copies = ways.iter().any(|way| matches!(way, CallGraph::Dwarf(_)));
        let walks = copies.then(StackWalks::for_copies).flatten();
        return Ok((session.without_tables(), walks, None));
    };
    let (found, walks, note) = wanted(way, limit, config.interpreters)?;
    let session = if matches!(session, CallGraph::Tables | CallGraph::Auto) { found } else { session };
    Ok((session, walks, note))
}

/// Returns the call graph mode for a request, its program and a note. `limit`: kernel memory for tables, in bytes.
pub(crate) fn wanted(
    way: CallGraph,
    limit: usize,
    interpreters: Interpreters,
) -> Result<(CallGraph, Option<StackWalks>, Option<String>), OpenError> {
    let start = || {
        // `auto` takes frame pointers without a request.
        let otherwise = if way == CallGraph::Auto { "" } else { "Use --call-graph fp for frame pointers." };
        let walker = Walker::load(limit).map_err(|error| refused_program(&error, otherwise))?;
        let program = walker.program();
        let following = spaces::follow(walker, interpreters != Interpreters::Off)
            .map_err(|error| (error.to_string(), String::new()))?;
        let machines = following.machines.clone();
        let mut walks = StackWalks::new(program.clone(), following);
        walks.pairs.interpreted = InterpretedFrames::new(interpreters, program, machines);
        Ok(walks)
    };
    match way {
        CallGraph::Tables | CallGraph::Auto => match start() {
            Ok(walks) => Ok((CallGraph::Tables, Some(walks), None)),
            Err((reason, remedy)) if way == CallGraph::Auto => {
                let words = format!("stacks are taken by frame pointers, not by tables: {reason}. {remedy}");
                Ok((CallGraph::Fp, None, Some(words.trim_end().to_owned())))
            }
            Err((reason, remedy)) => {
                Err(OpenError::new("the program that walks stacks by tables", "loaded", reason, remedy))
            }
        },
        CallGraph::Dwarf(_) => Ok((way, StackWalks::for_copies(), None)),
        other => Ok((other, None, None)),
    }
}

#[derive(Debug)]
pub(crate) struct StackWalks {
    pub(crate) program: Arc<Program>,
    by_tables: bool,
    writers: BTreeMap<u32, OwnedFd>,
    /// The places that the program is attached to; `None` where attaching failed.
    traced: BTreeMap<Hook, Option<OwnedFd>>,
    /// The probes among them that are held on all tasks.
    held_on_all: BTreeSet<Hook>,
    calls: BTreeSet<u32>,
    /// Whether walks of known tasks began or will begin whose tables have not been requested.
    begins: bool,
    pub(crate) pairs: WalkJoiner,
    tables: Arc<ArcSwap<Tables>>,
    /// `None` if the program only completes copies.
    starts: Option<Starts>,
    told: WalkFigures,
}

impl StackWalks {
    fn new(program: Arc<Program>, following: UnwindTableService) -> Self {
        let UnwindTableService { news, tables, starts, .. } = following;
        Self { by_tables: true, starts: Some(starts), ..Self::with(program, WalkJoiner::new(news), tables) }
    }

    fn with(program: Arc<Program>, pairs: WalkJoiner, tables: Arc<ArcSwap<Tables>>) -> Self {
        Self {
            program,
            by_tables: false,
            writers: BTreeMap::new(),
            traced: BTreeMap::new(),
            held_on_all: BTreeSet::new(),
            calls: BTreeSet::new(),
            begins: false,
            pairs,
            tables,
            starts: None,
            told: WalkFigures::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn staged(by_tables: bool) -> Self {
        let joiner = WalkJoiner::new(process_events::staged());
        Self { by_tables, ..Self::with(Program::staged(), joiner, Arc::default()) }
    }

    #[cfg(test)]
    pub(crate) fn with_writer(mut self, cpu: u32, writer: OwnedFd) -> Self {
        self.writers.insert(cpu, writer);
        self
    }

    /// Waits until the tables of a command's program exist, so that its first stacks are whole. The wait is limited.
    pub(crate) fn prepare(&self, command: &HeldCommand) {
        const PATIENCE: Duration = Duration::from_secs(2);
        if let (Some(starts), Some(path)) = (&self.starts, command.path()) {
            starts.prepare(command.pid(), path.to_owned(), PATIENCE);
        }
    }

    /// Loads the program that completes copied stacks below probed functions. If refused (`None`), stacks end there.
    fn for_copies() -> Option<Self> {
        let program = Program::for_copies().ok()?;
        // Nothing follows its processes.
        let (news, _) = process_events::channel(&Arc::new(WakeSignal::new().ok()?));
        Some(Self::with(program, WalkJoiner::new(news), Arc::default()))
    }

    /// Returns whether the program walks stacks; else it completes copies of them.
    pub(crate) fn is_by_tables(&self) -> bool {
        self.by_tables
    }

    pub(crate) fn is_for(&self, event: &Event, common: &attr::CommonAttrs) -> bool {
        if self.by_tables { attr::walks(event, common) } else { attr::copies(event, common) }
    }

    /// Chooses the frames of interpreted languages from now on. Returns whether the program looks for interpreters.
    pub(crate) fn show_interpreted(&mut self, shown: Interpreters) -> bool {
        self.pairs.interpreted.show(shown)
    }

    /// Prepares the walks of an event at its hook; the program of a probe is held on the first of `holders` that exists.
    /// If the kernel refuses it, the first error has a note.
    pub(crate) fn trace(&mut self, sys: &dyn Sys, hook: &Hook, holders: &[i32]) -> Result<(), Option<String>> {
        if !self.by_tables {
            return Err(None);
        }
        let place = hook.place();
        let is_on_all = matches!(place, Hook::Probe(_)) && holders.contains(&ALL_TASKS);
        if !is_on_all && self.held_on_all.remove(&place) {
            self.traced.remove(&place);
        }
        let (mut note, mut is_ready) = (None, self.traced.get(&place).is_some_and(Option::is_some));
        if !self.traced.contains_key(&place) {
            let attached = self.attach(sys, hook, holders);
            note = attached.as_ref().err().map(|error| {
                let (reason, _) = match hook {
                    // Only the kernel's own tracepoints have a raw one.
                    Hook::Tracepoint(_) if error.errno == Errno::NOENT => {
                        ("other programs may record this probe, too; use --call-graph dwarf".to_owned(), String::new())
                    }
                    _ => refused_program(error, ""),
                };
                let what = hook.tracepoint().map_or("probes".to_owned(), |name| format!("the tracepoint {name}"));
                format!("user stacks at {what} are taken by frame pointers: {reason}")
            });
            is_ready = attached.is_ok();
            if is_ready && is_on_all {
                self.held_on_all.insert(place.clone());
            }
            self.begins |= is_ready;
            if is_ready && self.pairs.callers.is_empty() {
                self.pairs.callers = kernel_symbols::functions("__traceiter_");
            }
            self.traced.insert(place, attached.ok());
        }
        if let Some(number) = hook.call().filter(|number| is_ready && !self.calls.contains(number)) {
            is_ready = self.program.trace_call(number, true).is_ok();
            self.calls.extend(is_ready.then_some(number));
        }
        if is_ready { Ok(()) } else { Err(note) }
    }

    fn attach(&self, sys: &dyn Sys, hook: &Hook, holders: &[i32]) -> Result<OwnedFd, LoadError> {
        let config = match hook {
            Hook::Tracepoint(name) => return self.program.attach(hook, name),
            Hook::Call(name, _) => return self.program.attach(hook, name),
            Hook::Probe(config) => *config,
        };
        let cpu = self.writers.keys().next().map_or(0, |cpu| *cpu as i32);
        let holder = holder(sys, config, cpu, holders)?;
        sys.ioctl(holder.as_fd(), Ioctl::SetBpf(self.program.at(hook)?))?;
        Ok(holder)
    }

    /// Detaches the program from all other places.
    pub(crate) fn keep_traced(&mut self, used: &[Hook]) {
        let places: BTreeSet<Hook> = used.iter().map(Hook::place).collect();
        self.traced.retain(|place, attached| attached.is_none() || places.contains(place));
        let calls: BTreeSet<u32> = used.iter().filter_map(Hook::call).collect();
        for number in self.calls.difference(&calls) {
            // It fails only if the number is too large, and then it was never set.
            let _ = self.program.trace_call(*number, false);
        }
        self.calls.retain(|number| calls.contains(number));
    }

    /// Walks only tasks with perf events of their own, or all tasks, at tracepoints.
    pub(crate) fn walk_measured_tasks_only(&self, only: bool) {
        // It fails only if the map does not exist. Then all tasks are walked, which costs time.
        let _ = self.program.walk_measured_tasks_only(only);
    }

    /// Lets the next request of tables be for all processes that are walked.
    pub(crate) fn expect_tasks(&mut self) {
        self.begins = self.by_tables;
    }

    /// Requests the tables of processes before their first walk, if walks at a tracepoint have begun: a thread that
    /// blocks for long is walked only once. Returns these processes.
    pub(crate) fn request_tables(&mut self, pids: impl FnOnce() -> Vec<i32>) -> Vec<i32> {
        if !std::mem::take(&mut self.begins) {
            return Vec::new();
        }
        let mut pids = pids();
        // Kernel threads have no executable.
        pids.retain(|pid| procfs::exe_name(*pid).is_some());
        for pid in &pids {
            self.pairs.news.add(ProcessEvent::Runs { pid: *pid });
        }
        self.pairs.news.wake();
        pids
    }

    /// Waits until the tables of these processes are in the kernel, for a limited time.
    pub(crate) fn await_tables(&self, mut pids: Vec<i32>) {
        let end = Instant::now() + TABLES;
        // In a nested PID namespace the kernel's numbers are unknown.
        if !procfs::sees_all_processes() {
            return;
        }
        while Instant::now() < end {
            pids.retain(|pid| !self.program.knows(*pid as u32) && procfs::is_there(*pid));
            if pids.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the figures of walks if they have changed since the last call.
    pub(crate) fn tell(&mut self) -> Option<WalkFigures> {
        let interpreted = self.pairs.interpreted.figures();
        let now = WalkFigures { tables: self.tables.load_full(), ends: self.pairs.ends, interpreted };
        let fresh = now.ends != self.told.ends
            || now.interpreted.shown != self.told.interpreted.shown
            || self.by_tables && !Arc::ptr_eq(&now.tables, &self.told.tables);
        fresh.then(|| self.told.clone_from(&now))?;
        Some(now)
    }

    /// Directs the program's records of a CPU to the ring that an event owns.
    pub(crate) fn open(&mut self, sys: &dyn Sys, cpu: u32, owner: &OwnedFd, attr: &Attr) -> Result<(), Errno> {
        let writer = sys.open(attr, -1, cpu as i32, None, None)?;
        sys.ioctl(writer.as_fd(), Ioctl::SetOutput(owner.as_fd()))?;
        self.pairs.writers.insert(sys.ioctl(writer.as_fd(), Ioctl::Id)?);
        self.program.write_by(cpu, writer.as_fd())?;
        sys.ioctl(writer.as_fd(), Ioctl::Enable)?;
        self.writers.insert(cpu, writer);
        Ok(())
    }

    /// Lets the program write the names of interpreted functions again. Those of walks before the events began are lost.
    pub(crate) fn name_again(&self) {
        self.program.forget_names();
    }

    /// Returns the event by which the program writes to a CPU's ring.
    pub(crate) fn writer(&self, cpu: u32) -> Option<&OwnedFd> {
        self.writers.get(&cpu)
    }

    pub(crate) fn close(&mut self, cpu: u32) {
        self.writers.remove(&cpu);
        self.pairs.rings.remove(&cpu);
    }

    pub(crate) fn learn(&mut self, id: u64, attr: &Attr, is_traced: bool) {
        if !self.by_tables {
            self.pairs.copies.insert(id, layout(attr));
            return;
        }
        let chain = ChainPlace::of(attr.sample_type).filter(|_| attr.sample_type & sample::CALLCHAIN != 0);
        self.pairs.samples.extend(chain.map(|chain| (id, Sampled { chain, is_traced })));
    }
}

/// Opens the event that holds the program of a probe on the first of these tasks that exists. Any CPU will do.
fn holder(sys: &dyn Sys, config: u64, cpu: i32, tasks: &[i32]) -> Result<OwnedFd, Errno> {
    let mut refused = Errno::SRCH;
    for task in tasks {
        match sys.open(&attr::holder(config), *task, cpu, None, None) {
            Ok(fd) => return Ok(fd),
            Err(errno) => refused = errno,
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::kernel::fake::FakeSys;

    /// Returns a kernel in which task 30 has ended, and the tasks that events are opened on.
    fn kernel() -> (FakeSys, Arc<Mutex<Vec<i32>>>) {
        let tried = Arc::new(Mutex::new(Vec::new()));
        let list = tried.clone();
        let sys = FakeSys::new(move |_, task, _| {
            list.lock().expect("a lock").push(task);
            if task == 30 { Err(Errno::SRCH) } else { Ok(()) }
        });
        (sys, tried)
    }

    #[test]
    fn a_probe_is_held_on_the_first_task_that_exists() {
        let (sys, tried) = kernel();
        assert!(holder(&sys, 7, 0, &[30, 31, 0]).is_ok());
        assert_eq!(*tried.lock().expect("a lock"), [30, 31]);
        assert_eq!(holder(&sys, 7, 0, &[30]).map(drop), Err(Errno::SRCH));
    }

    /// Probes are no longer in the code of all processes when only some are measured.
    #[test]
    fn a_probe_on_all_tasks_moves_to_chosen_ones() {
        let (sys, tried) = kernel();
        let mut walks = StackWalks::staged(true);
        let place = Hook::Probe(7);
        walks.traced.insert(place.clone(), Some(std::fs::File::open("/dev/null").expect("there").into()));
        walks.held_on_all.insert(place.clone());
        assert!(walks.trace(&sys, &place, &[ALL_TASKS]).is_ok());
        assert!(tried.lock().expect("a lock").is_empty(), "it is held already");
        // This program is not a real one, which a probe could take.
        assert!(walks.trace(&sys, &place, &[31]).is_err());
        assert_eq!(*tried.lock().expect("a lock"), [31]);
        assert!(walks.held_on_all.is_empty() && walks.traced[&place].is_none());
    }
}
