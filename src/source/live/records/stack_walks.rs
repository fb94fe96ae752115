//! User stacks walked by a BPF program in the kernel: it writes each stack as a separate record before the sample, or
//! next to it at tracepoints. This module joins both into a sample with the whole chain, as if walked by the kernel.

mod generated;
mod interpreted;
mod traced;
mod wait_stacks;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::{CallGraph, Event, Interpreters};
use crate::kernel::attr::{Attr, sample};
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::spawn::HeldCommand;
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::kernel::wakeup::WakeSignal;
use crate::kernel::walk::{
    AT_TRACEPOINT, Hook, MIXED, NARROW, OF_WAIT, ProcessEvent, Program, RETURNS, WORDS, WalkEnd, WalkEnds, Walker, lack,
};
use crate::kernel::{kernel_symbols, procfs};
use crate::perfdata::layout;
use crate::record::in_place::i32_at;
use crate::record::kinds::{HEADER, Header, misc, types};
use crate::record::sample::{CONTEXT_USER, ChainPlace, NO_CODE, u64s};
use crate::record::{Layout, SampleId};
use crate::symbols::spaces::process_events::{self, ProcessEventSender};
use crate::symbols::spaces::{self, Starts, Tables, UnwindTableService, WalkFigures};

use super::output::{RecordOutput, time_of};
use crate::source::live::LiveConfig;
use crate::source::live::attr;
use crate::source::live::capture::refused_program;
use crate::source::live::error::OpenError;
use interpreted::InterpretedFrames;
use traced::TracedWalk;
pub(crate) use wait_stacks::{WaitStack, WaitStacks};

/// Offsets before a walk's frames in its record: header, id, task, size of the program's data, why the walk ended.
const ID_AT: usize = HEADER;
const TASK_AT: usize = HEADER + 8;
const WHY_AT: usize = HEADER + 20;
const FLAGS_AT: usize = WHY_AT + 1;
const FRAMES_AT: usize = HEADER + 24;
/// The number of the stack pointer among the registers of a sample.
const SP: u32 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };

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
        let otherwise = "Use --call-graph fp for frame pointers.";
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
                let remedy = remedy.split(';').next().unwrap_or_default();
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

    /// Prepares the walks of an event at its hook. If the kernel refuses it, the first error has a note.
    pub(crate) fn trace(&mut self, sys: &dyn Sys, hook: &Hook) -> Result<(), Option<String>> {
        if !self.by_tables {
            return Err(None);
        }
        let place = hook.place();
        let (mut note, mut is_ready) = (None, self.traced.get(&place).is_some_and(Option::is_some));
        if !self.traced.contains_key(&place) {
            let attached = self.attach(sys, hook);
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

    fn attach(&self, sys: &dyn Sys, hook: &Hook) -> Result<OwnedFd, LoadError> {
        let config = match hook {
            Hook::Tracepoint(name) => return self.program.attach(hook, name),
            Hook::Call(name, _) => return self.program.attach(hook, name),
            Hook::Probe(config) => *config,
        };
        // Any CPU will do.
        let cpu = self.writers.keys().next().map_or(0, |cpu| *cpu as i32);
        let holder = sys.open(&attr::holder(config), -1, cpu, None, None)?;
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
        let fresh = now.ends != self.told.ends || self.by_tables && !Arc::ptr_eq(&now.tables, &self.told.tables);
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

/// How to join the samples of an id.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    chain: ChainPlace,
    is_traced: bool,
}

#[derive(Debug)]
pub(crate) struct WalkJoiner {
    news: ProcessEventSender,
    pub(crate) writers: FxHashSet<u64>,
    /// The layout of each id's samples with copied stacks.
    copies: FxHashMap<u64, Layout>,
    samples: FxHashMap<u64, Sampled>,
    rings: BTreeMap<u32, RingWalks>,
    /// The functions that call several programs of a tracepoint, sorted by their addresses.
    callers: Vec<Range<u64>>,
    interpreted: InterpretedFrames,
    /// A walk whose groups are replaced.
    plain: Vec<u8>,
    told: FxHashSet<ProcessEvent>,
    /// Processes whose tables were requested, and whether a new one was among them.
    asked: FxHashSet<i32>,
    asked_anew: bool,
    /// The layout of records without samples, and the earliest possible time of those that are being read.
    layout: Layout,
    since: u64,
    pub(crate) ends: WalkEnds,
    /// The stacks of waits by their ids.
    pub(crate) waits: WaitStacks,
}

/// The walks of a ring whose samples have not been read yet.
#[derive(Debug, Default)]
pub(super) struct RingWalks {
    waiting: Vec<u8>,
    traced: TracedWalk,
}

impl WalkJoiner {
    fn new(news: ProcessEventSender) -> Self {
        Self {
            news,
            writers: FxHashSet::default(),
            copies: FxHashMap::default(),
            samples: FxHashMap::default(),
            rings: BTreeMap::new(),
            callers: Vec::new(),
            interpreted: InterpretedFrames::default(),
            plain: Vec::new(),
            told: FxHashSet::default(),
            asked: FxHashSet::default(),
            asked_anew: false,
            layout: Layout::default(),
            since: 0,
            ends: WalkEnds::default(),
            waits: WaitStacks::default(),
        }
    }

    pub(crate) fn is_writer(&self, id: u64) -> bool {
        self.writers.contains(&id)
    }

    /// Begins to read a CPU's ring; `layout` and `id` are of records that have no sample.
    pub(super) fn begin(&mut self, cpu: u32, layout: Layout, id: SampleId) -> RingWalks {
        (self.layout, self.since) = (layout, id.time);
        self.interpreted.begin(layout, id);
        self.rings.remove(&cpu).unwrap_or_default()
    }

    /// Takes the record at an offset of `read`: keeps a walk for its sample, and joins samples with their walks. Returns
    /// `false` for a record that stays as it is.
    pub(super) fn take(
        &mut self,
        ring: &mut RingWalks,
        read: &[u8],
        at: usize,
        header: Header,
        out: &mut RecordOutput<'_, '_>,
    ) -> bool {
        let range = at..at + usize::from(header.size).max(HEADER);
        let record = &read[range.clone()];
        let id = (header.kind == types::SAMPLE).then(|| Layout::identifier(header.kind, &record[HEADER..]));
        let Some(id) = id.flatten() else {
            if header.kind == types::LOST {
                ring.waiting.clear();
                ring.traced.lose(read, &self.callers, out);
                self.interpreted.lost();
            }
            self.tell(header, record);
            return false;
        };
        if self.writers.contains(&id) {
            if record.get(FLAGS_AT).is_some_and(|flags| flags & OF_WAIT != 0) {
                self.take_wait(record, out);
                return true;
            }
            if let Some(end) = split(record).and_then(|(frames, _)| end_of(record, frames.len() / 8)) {
                self.ends.count(end);
            }
            self.look(record);
            let mut plain = std::mem::take(&mut self.plain);
            let record = self.interpreted.read(record, out, &mut plain);
            if record.get(FLAGS_AT).is_some_and(|flags| flags & AT_TRACEPOINT != 0) {
                ring.traced.walked(read, record, &self.callers, out);
            } else {
                ring.waiting.clear();
                ring.waiting.extend_from_slice(record);
            }
            self.plain = plain;
            return true;
        }
        self.interpreted.map(record, out);
        let walk = &ring.waiting;
        let is_joined = match (self.samples.get(&id), self.copies.get(&id)) {
            (Some(Sampled { chain, is_traced: true }), _) => {
                let hit = traced::Hit { id, header, range, chain: *chain };
                ring.traced.sampled(read, hit, &self.callers, out);
                return true;
            }
            (Some(Sampled { chain, .. }), _) => out.write(|bytes| join(record, header, chain, walk, bytes).is_some()),
            (None, Some(layout)) => out.write(|bytes| mend(record, header, *layout, walk, bytes).is_some()),
            (None, None) => return false,
        };
        ring.waiting.clear();
        is_joined
    }

    /// Ends reading a CPU's ring.
    pub(super) fn end(&mut self, cpu: u32, mut ring: RingWalks, read: &[u8], out: &mut RecordOutput<'_, '_>) {
        ring.traced.release(read, &self.callers, out);
        self.rings.insert(cpu, ring);
        if !self.told.is_empty() {
            self.news.wake();
        }
        self.told.clear();
    }

    /// Requests the data that a walk lacked.
    fn look(&mut self, record: &[u8]) {
        let Some([_, lacked, ..]) = record.get(WHY_AT..FRAMES_AT) else { return };
        let what = lacked & lack::ANY;
        let pid = i32_at(record, TASK_AT).unwrap_or(-1);
        // Mappings of processes without a number here cannot be looked up.
        if what != 0 && pid > 0 {
            self.asked_anew |= what != lack::ROW && self.asked.insert(pid);
            let number = split(record).and_then(|(_, number)| number);
            self.send(ProcessEvent::Lacks { pid, what, number });
        }
    }

    /// Returns whether tables of a new process were requested since the last call.
    pub(crate) fn has_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked_anew)
    }

    fn tell(&mut self, header: Header, record: &[u8]) {
        let [pid, second, tid] = [0, 4, 8].map(|at| i32_at(record, HEADER + at).unwrap_or(-1));
        let (layout, since) = (self.layout, self.since);
        if header.kind == types::FORK {
            self.waits.learn_started(tid);
        }
        let at = || time_of(header, record, &layout).filter(|time| *time > since).unwrap_or(u64::MAX);
        let news = match header.kind {
            types::FORK if pid != second => {
                self.interpreted.forked(pid);
                ProcessEvent::Forked { parent: second, child: pid, at: at() }
            }
            types::EXIT if pid == tid => {
                self.asked.remove(&pid);
                self.interpreted.exited(pid);
                ProcessEvent::Exited { pid }
            }
            types::COMM if header.misc & misc::COMM_EXEC != 0 => {
                self.asked.remove(&pid);
                self.interpreted.executed(pid);
                ProcessEvent::Executed { pid, at: at() }
            }
            types::MMAP | types::MMAP2 if pid > 0 && header.misc & misc::MMAP_DATA == 0 => {
                ProcessEvent::Mapped { pid, at: at() }
            }
            _ => return,
        };
        self.send(news);
    }

    /// Reports each change at most once per read of a ring.
    fn send(&mut self, news: ProcessEvent) {
        if self.told.insert(news) {
            self.news.add(news);
        }
    }
}

/// Returns how a walk ended. A chain of frame pointers may end early where code keeps other values in the frame
/// register: 32-bit code omits frame pointers by default, and a single frame without a table may be a leaf.
fn end_of(walk: &[u8], frames: usize) -> Option<WalkEnd> {
    let (why, flags) = (*walk.get(WHY_AT)?, *walk.get(FLAGS_AT)?);
    let is_uncertain = flags & NARROW != 0 || frames == 1 && flags & lack::ANY != 0;
    WalkEnd::of(why).map(|why| if why == WalkEnd::LastFrame && is_uncertain { WalkEnd::NoFrame } else { why })
}

/// Returns the frames of a walk and, if the process is unknown, its kernel number, which follows them.
fn split(walk: &[u8]) -> Option<(&[u8], Option<u32>)> {
    let words = walk.get(FRAMES_AT..)?;
    let words = &words[..words.len() / 8 * 8];
    if walk[FLAGS_AT] & lack::PROCESS == 0 {
        return Some((words, None));
    }
    let (frames, last) = words.split_at_checked(words.len().checked_sub(8)?)?;
    Some((frames, Some(i32_at(last, 0).unwrap_or(-1) as u32)))
}

/// Writes a sample with its walk; `None` if the walk belongs to another sample, or the record would be too long.
fn join(record: &[u8], header: Header, place: &ChainPlace, walk: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (words, _) = split(walk)?;
    // The sampled address, if the interpreter's frames are replaced.
    let (leaf, frames) = if walk[FLAGS_AT] & MIXED != 0 { words.split_at_checked(8)? } else { (words, words) };
    let n = frames.len() / 8;
    // Both records have the id before the address and the task.
    let (ip, task) = (record.get(ID_AT + 8..ID_AT + 16)?, record.get(ID_AT + 16..ID_AT + 24)?);
    let in_user = header.misc & misc::CPUMODE_MASK == misc::USER;
    let is_its = task == walk.get(TASK_AT..TASK_AT + 8)? && (!in_user || leaf.get(..8) == Some(ip));
    if !is_its || n == 0 || n > WORDS {
        return None;
    }
    let [head, chain, rest] = place.split(record)?;
    let lacks_callers = end_of(walk, n).is_some_and(|end| end.is_broken() || end == WalkEnd::Full);
    let end = lacks_callers.then_some(NO_CODE);
    let added = 1 + n + usize::from(end.is_some());
    let size = u16::try_from(record.len() + 8 * added).ok()?;
    out.extend_from_slice(&record[..6]);
    out.extend_from_slice(&size.to_le_bytes());
    let body = out.len();
    out.extend_from_slice(&head[HEADER..]);
    if in_user {
        // The function of the language that the interpreter executed.
        let at = body + ID_AT + 8 - HEADER;
        out[at..at + 8].copy_from_slice(&frames[..8]);
    }
    out.extend_from_slice(&((chain.len() / 8 + added) as u64).to_le_bytes());
    out.extend_from_slice(chain);
    out.extend_from_slice(&CONTEXT_USER.to_le_bytes());
    out.extend_from_slice(frames);
    out.extend(end.iter().flat_map(|word| word.to_le_bytes()));
    out.extend_from_slice(rest);
    Some(())
}

/// Writes a sample with the return addresses that probes replaced in its copied stack; `None` without any for it.
fn mend(record: &[u8], header: Header, layout: Layout, returns: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let task = record.get(ID_AT + 16..ID_AT + 24)?;
    if *returns.get(WHY_AT)? != RETURNS || returns.get(TASK_AT..TASK_AT + 8)? != task {
        return None;
    }
    let mut words = u64s(returns.get(FRAMES_AT..)?);
    let replaced_by = words.next()?.to_le_bytes();
    let user = layout.sample(header, record.get(HEADER..)?).ok()?.user;
    let sp = user.register(SP)?;
    let from = user.stack.as_ptr().addr().checked_sub(record.as_ptr().addr())?;
    let [head, rest] = [record.get(..from)?, record.get(from.checked_add(user.stack.len())?..)?];
    out.extend_from_slice(head);
    let begin = out.len();
    out.extend_from_slice(user.stack);
    let stack = &mut out[begin..];
    while let (Some(at), Some(address)) = (words.next(), words.next()) {
        let Some(at) = at.checked_sub(sp).and_then(|at| usize::try_from(at).ok()) else { continue };
        let Some(word) = stack.get_mut(at..at.saturating_add(8)) else { continue };
        if *word == replaced_by {
            word.copy_from_slice(&address.to_le_bytes());
        }
    }
    out.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests;
