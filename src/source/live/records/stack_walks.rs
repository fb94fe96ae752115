//! User stacks walked by a BPF program in the kernel: it writes each stack as a separate record before the sample, or
//! next to it at tracepoints. This module joins both into a sample with the whole chain, as if walked by the kernel.

mod generated;
mod interpreted;
mod program;
mod traced;
mod wait_stacks;

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::walk::{
    AT_TRACEPOINT, MIXED, NARROW, OF_WAIT, ProcessEvent, RETURNS, WORDS, WalkEnd, WalkEnds, lack,
};
use crate::record::in_place::i32_at;
use crate::record::kinds::{HEADER, Header, misc, types};
use crate::record::sample::{CONTEXT_USER, ChainPlace, NO_CODE, u64s};
use crate::record::{Layout, SampleId};
use crate::symbols::spaces::process_events::ProcessEventSender;

use super::output::{RecordOutput, time_of};
use interpreted::InterpretedFrames;
pub use program::tables_of;
pub(crate) use program::{ALL_TASKS, StackWalks, for_events, wanted};
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
    /// Whether events were sent whose receiver has not been woken.
    has_sent: bool,
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
            has_sent: false,
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
        self.has_sent |= !self.told.is_empty();
        self.told.clear();
    }

    /// Wakes the thread that builds tables if it has new events: once for all rings of a round, because a wake-up costs
    /// as much as reading the mappings of a process.
    pub(crate) fn wake(&mut self) {
        if std::mem::take(&mut self.has_sent) {
            self.news.wake();
        }
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
