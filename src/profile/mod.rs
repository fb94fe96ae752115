//! The shared aggregation: sample columns, a trie of stacks, names, and the ledger of losses.
//!
//! ```text
//!   columns   time │ site │ weight │ cpu │ event        one row per sample, 24 bytes, in chunks
//!                      │
//!   sites           task, stack                         each distinct pair once
//!                            │
//!   trie                  parent, frame                 parent id < child id
//!                                   │
//!   frames                     mapping, ip → symbol     the symbol arrives later
//! ```
//!
//! One thread owns it. Frames have the raw address and its mapping in a form that processes with other addresses share.
//! The session can convert them back, so that snapshots are exact. Only queries merge frames by function.

mod chain;
pub mod columns;
mod compact;
pub mod frames;
mod index;
mod last_chains;
pub mod ledger;
pub mod losses;
mod marks;
pub(crate) mod odd_periods;
mod renames;
mod retained_stacks;
mod segments;
pub mod sites;
mod stack_cache;
mod stack_columns;
pub mod timeline;
pub mod trie;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use chain::{BROKEN, Chain, Fingerprint, MapGenerations, SharedWords};
use last_chains::LastChains;
use stack_cache::StackCache;

use crate::event::format::Format;
use crate::kernel::attr::sample;
use crate::perfdata::{EventDesc, EventUnit, PeriodMeaning};
use crate::record::Sample;
use crate::session::dso::Dsos;
use crate::session::{Session, TaskId};
use crate::symbols::objects::data_address;

pub use columns::{Acc, CHUNK, Chunk};
pub use frames::{Frame, FrameId, Frames, Sym, SymId};
pub use index::HashIndex;
pub(crate) use ledger::or_more;
pub use ledger::{Ledger, Lost};
pub use losses::{Gaps, Loss, Losses};
pub(crate) use renames::{FormerNames, RenamedFrames};
pub use retained_stacks::{RetainedStack, RetainedStacks};
pub use segments::{Segments, SharedSegments};
pub use sites::{Site, SiteId, Sites, TraceId};
pub use stack_columns::StackColumns;
pub use timeline::Timeline;
pub use trie::{NodeId, Trie};

/// An odd number whose multiples differ in their low bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The binary digits by which the unit of weights grows.
const SCALE_STEP: u32 = 8;

/// Divides a weight by a power of two, and rounds it.
fn divided(weight: u64, digits: u32) -> u64 {
    let up = digits.checked_sub(1).map_or(0, |last| weight.checked_shr(last).unwrap_or(0) & 1);
    weight.checked_shr(digits).unwrap_or(0) + up
}

/// Samples, stacks and names of a session.
#[derive(Debug, Default)]
pub struct Profile {
    sealed: VecDeque<Arc<Chunk>>,
    current: Chunk,
    /// Samples that were dropped with old chunks, so that positions stay absolute.
    evicted: u64,
    /// All stacks: each is its parent and a frame.
    pub trie: Trie,
    /// The addresses in stacks, and their names.
    pub frames: Frames,
    /// The distinct pairs of a task and a stack.
    pub sites: Sites,
    /// Totals of received, lost and evicted samples.
    pub ledger: Ledger,
    /// Losses with their times.
    pub losses: Losses,
    pub(crate) gaps: Gaps,
    /// Stacks that are kept independently of samples.
    pub pins: RetainedStacks,
    memory: StackCache<NodeId>,
    /// The same for samples without a chain.
    leaves: StackCache<SiteId>,
    last: LastChains,
    chain: Chain,
    /// The stacks of a sample's own words, and the fingerprints of the chain up to each of them, root first.
    nodes: Vec<NodeId>,
    prints: Vec<Fingerprint>,
    births: renames::FirstSeenLog,
    renamed_sites: Mutex<renames::RenamedSites>,
    /// Changes when ids are renumbered, which invalidates all derived data.
    epoch: u64,
    /// For each event the unit of its periods, whether they are durations, and what a sample stands for.
    periods: FxHashMap<u16, PeriodMeaning>,
    formats: FxHashMap<u16, Arc<Format>>,
    /// Bytes of sealed chunks in addition to their rows.
    raw_bytes: usize,
    weights: u64,
}

impl Profile {
    /// Adds a sample of the event with index `event`, with a tracepoint's text, in CPU mode `mode`. Returns its site.
    pub fn add(&mut self, session: &mut Session, sample: &Sample<'_>, mode: u16, event: u16, trace: TraceId) -> SiteId {
        let task = session.task_in(sample.pid, sample.tid, sample.cgroup);
        let site = self.site(session, sample, mode, task, trace);
        let (weight, cpu) = (sample.period, sample.cpu as u16);
        if sample.raw.is_empty() || !self.formats.contains_key(&event) {
            self.push(sample.time, site, weight, cpu, event);
        } else {
            self.push_raw(sample.time, site, weight, cpu, event, sample.raw);
        }
        site
    }

    /// Adds a sample with a known site, for sources that have names instead of addresses.
    pub fn push(&mut self, time: u64, site: SiteId, weight: u64, cpu: u16, event: u16) {
        let weight = self.scaled(weight);
        self.current.push(time, site, weight, cpu, event);
        if self.current.len() == CHUNK {
            self.seal();
        }
    }

    /// Adds a sample with a tracepoint's raw data; [`Self::set_format`] must have set its fields before.
    pub(crate) fn push_raw(&mut self, time: u64, site: SiteId, weight: u64, cpu: u16, event: u16, raw: &[u8]) {
        let weight = self.scaled(weight);
        self.current.push(time, site, weight, cpu, event);
        self.current.push_raw(raw);
        if self.current.len() == CHUNK {
            self.seal();
        }
    }

    /// Returns a weight in the unit of all weights. If their sum would exceed 64 bits, makes the unit larger.
    fn scaled(&mut self, weight: u64) -> u64 {
        loop {
            let scaled = divided(weight, self.ledger.scale);
            match self.weights.checked_add(scaled) {
                Some(sum) => {
                    self.weights = sum;
                    return scaled;
                }
                None => self.enlarge_unit(),
            }
        }
    }

    /// Divides all weights, so that shares stay right.
    fn enlarge_unit(&mut self) {
        self.ledger.scale += SCALE_STEP;
        self.weights = 0;
        let sealed = self.sealed.iter_mut().map(Arc::make_mut);
        for weight in sealed.chain([&mut self.current]).flat_map(|chunk| &mut chunk.weight) {
            *weight = divided(*weight, SCALE_STEP);
            self.weights = self.weights.saturating_add(*weight);
        }
    }

    /// Returns a counter of changes that invalidate all sums: of ids, and of the unit of weights.
    pub(crate) fn sums_epoch(&self) -> (u64, u32) {
        (self.epoch, self.ledger.scale)
    }

    fn seal(&mut self) {
        let mut chunk = std::mem::take(&mut self.current);
        chunk.seal();
        self.raw_bytes += chunk.raw_memory();
        self.sealed.push_back(Arc::new(chunk));
    }

    /// Sets the unit and meaning of an event's periods.
    pub fn learn_event(&mut self, event: u16, desc: &EventDesc) {
        self.periods.insert(event, desc.meaning());
    }

    /// Returns whether each period of an event is a duration.
    pub fn has_durations(&self, event: u16) -> bool {
        self.meaning(event).durations
    }

    /// Returns the unit of an event's periods.
    pub fn unit(&self, event: u16) -> EventUnit {
        self.meaning(event).unit
    }

    /// Returns how the periods of an event are read.
    pub fn meaning(&self, event: u16) -> PeriodMeaning {
        self.periods.get(&event).copied().unwrap_or_default()
    }

    pub(crate) fn set_format(&mut self, event: u16, format: Arc<Format>) {
        self.formats.insert(event, format);
    }

    /// Returns whether an event's samples have the raw data of their records, not values that were added to them.
    pub(crate) fn has_recorded_raw(&self, event: u16, desc: &EventDesc) -> bool {
        desc.attr.sample_type & sample::RAW != 0 && self.formats.contains_key(&event)
    }

    /// Returns the fields of a tracepoint; `None` for other events.
    pub fn format(&self, event: u16) -> Option<&Arc<Format>> {
        self.formats.get(&event)
    }

    /// Keeps a sample's stack for callers that count it themselves; the sample is not added.
    pub(crate) fn pin(&mut self, session: &Session, sample: &Sample<'_>, mode: u16) -> RetainedStack {
        let node = self.stack(session, sample, mode);
        self.pins.hold(node)
    }

    /// Keeps an address of a process's data as a stack of one frame, which gets the name of the variable there; an
    /// address of the kernel gets that of the function. Returns the empty stack if no file can have it.
    pub(crate) fn pin_data(&mut self, session: &Session, pid: i32, addr: u64) -> RetainedStack {
        // The kernel is in the upper half of all addresses.
        let (map, ip) = match (addr as i64) < 0 {
            true => session.places(pid).kernel(addr),
            false => match session.places(pid).data(addr) {
                Some((map, at)) => (map, data_address(at)),
                None => return RetainedStack::NONE,
            },
        };
        let frame = self.frames.intern(Frame { map, caller: false, ip });
        self.pins.hold(self.trie.child(NodeId::ROOT, frame))
    }

    /// Keeps addresses outside all mappings as frames, for output of chains as recorded.
    pub(crate) fn keep_unmapped_words(&mut self, keep: bool) {
        self.chain.keeps_words = keep;
    }

    pub(crate) fn cut_stacks(&mut self, most: Option<usize>) {
        self.chain.most = most;
    }

    fn site(&mut self, session: &Session, sample: &Sample<'_>, mode: u16, task: TaskId, trace: TraceId) -> SiteId {
        if !sample.chain.is_empty() {
            let stack = self.stack(session, sample, mode);
            return self.sites.intern(Site { task, stack, trace });
        }
        // A site with a bare address is often in this cache; otherwise its frame is looked up.
        self.chain.decode(sample, mode, SharedWords::default());
        let place = Fingerprint::new(MapGenerations::of(session, sample.pid));
        let Fingerprint(one, two) = self.chain.words().iter().fold(place, Fingerprint::with);
        let key = Fingerprint(one ^ u64::from(trace.0) << 32, two ^ u64::from(task.0).wrapping_mul(SPREAD));
        if let Some(known) = self.leaves.get(key) {
            return known;
        }
        let frames = self.chain.frames(session.places(sample.pid), usize::MAX);
        let stack = frames.iter().fold(NodeId::ROOT, |node, frame| self.trie.child(node, self.frames.intern(*frame)));
        let site = self.sites.intern(Site { task, stack, trace });
        self.leaves.insert(key, site);
        site
    }

    /// Returns the stack of a sample's chain. Callers that its thread's last chain had, too, are not looked up, nor those
    /// that a recent chain of the same program began with.
    fn stack(&mut self, session: &Session, sample: &Sample<'_>, mode: u16) -> NodeId {
        let maps = MapGenerations::of(session, sample.pid);
        let last = self.last.of(sample.tid);
        let shared = self.chain.decode(sample, mode, last.shared_with(maps, sample.chain));
        let own = self.chain.words().len();
        let base = last.replace(shared, maps, self.chain.words(), &mut self.prints);
        let (known, stack) = self.memory.longest(&self.prints).unwrap_or((0, base));
        self.nodes.clear();
        let mut node = stack;
        while node != NodeId::ROOT && self.nodes.len() < known {
            self.nodes.push(node);
            node = self.trie.parent(node);
        }
        self.nodes.reverse();
        let mut is_broken = self.nodes.len() < known || node != base;
        let mut node = stack;
        let frames = self.chain.frames(session.places(sample.pid), own - known);
        if frames.last() == Some(&BROKEN) {
            (node, is_broken) = (NodeId::ROOT, true);
            self.nodes.clear();
        }
        for (frame, print) in frames.iter().rev().zip(&self.prints[own - frames.len()..]) {
            node = self.trie.child(node, self.frames.intern(*frame));
            self.nodes.push(node);
            self.memory.insert(*print, node);
        }
        last.set_nodes(&self.nodes, is_broken);
        node
    }

    /// Returns the frames since the last call that need a name; each gets a provisional one.
    pub fn wanted(&mut self, dsos: &Dsos) -> Vec<FrameId> {
        self.note_birth();
        self.frames.wanted(dsos)
    }

    /// Returns a counter that changes whenever site, stack and frame ids are renumbered.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the absolute position of the oldest kept sample.
    pub(crate) fn first(&self) -> u64 {
        self.evicted
    }

    /// Returns the absolute position after the newest sample.
    pub(crate) fn end(&self) -> u64 {
        self.evicted + (self.sealed.len() * CHUNK + self.current.len()) as u64
    }

    /// Returns the number of kept samples.
    pub fn len(&self) -> usize {
        (self.end() - self.first()) as usize
    }

    /// Returns the parts of chunks between two absolute positions.
    pub fn between(&self, from: u64, until: u64) -> impl Iterator<Item = (&Chunk, std::ops::Range<usize>)> {
        let clip = |position: u64| position.saturating_sub(self.evicted) as usize;
        let (skip, stop) = (clip(from), clip(until));
        let passed = (skip / CHUNK).min(self.sealed.len());
        let rest = self.sealed.range(passed..).map(|c| &**c).chain(std::iter::once(&self.current));
        (passed..).zip(rest).filter_map(move |(i, chunk)| {
            let base = i * CHUNK;
            let range = skip.saturating_sub(base)..chunk.len().min(stop.saturating_sub(base));
            (range.start < range.end).then_some((chunk, range))
        })
    }

    /// Returns cheap copies of all chunks: the sealed ones are shared.
    pub(crate) fn share_chunks(&self) -> Vec<Arc<Chunk>> {
        let mut chunks: Vec<Arc<Chunk>> = self.sealed.iter().cloned().collect();
        chunks.push(Arc::new(self.current.clone()));
        chunks
    }

    /// Returns the lowest and the highest timestamp of a sample; those of different rings may be out of order.
    pub fn span(&self) -> Option<(u64, u64)> {
        let all = self.sealed.iter().map(|chunk| &**chunk).chain(std::iter::once(&self.current));
        all.filter_map(Chunk::times).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the time of the last sample before an absolute position; 0 if there is none.
    pub(crate) fn time_before(&self, position: u64) -> u64 {
        let last = self.between(position.saturating_sub(1), position).next();
        last.map_or(0, |(chunk, range)| chunk.time[range.start])
    }

    /// Returns the absolute position of the first sample at or after a time.
    pub(crate) fn position_at(&self, time: u64) -> u64 {
        let mut at = self.evicted;
        for chunk in self.sealed.iter().map(|c| &**c).chain(std::iter::once(&self.current)) {
            if chunk.time.last().is_some_and(|last| *last >= time) {
                return at + chunk.time.partition_point(|t| *t < time) as u64;
            }
            at += chunk.len() as u64;
        }
        at
    }

    /// Returns an estimate of the bytes in use, for the memory budget.
    pub fn memory(&self) -> usize {
        let (samples, stacks, names) = self.parts();
        samples + stacks + names
    }

    pub(crate) fn parts(&self) -> (usize, usize, usize) {
        let samples = self.sealed.len() * CHUNK * Chunk::ROW + self.raw_bytes + self.current.memory();
        let stacks = self.trie.memory()
            + self.sites.memory()
            + self.pins.memory()
            + self.memory.bytes()
            + self.leaves.bytes()
            + self.last.memory();
        (samples, stacks, self.frames.memory())
    }

    /// Returns the time of the newest sample in the oldest full chunk.
    pub(crate) fn oldest_until(&self) -> Option<u64> {
        self.sealed.front()?.times().map(|(_, newest)| newest)
    }

    /// Removes and returns the oldest chunk, so that callers can subtract it. `None` if only the current one is left.
    pub(crate) fn evict(&mut self) -> Option<Arc<Chunk>> {
        let chunk = self.sealed.pop_front()?;
        self.evicted += chunk.len() as u64;
        if let Some((_, newest)) = chunk.times() {
            self.losses.forget(newest);
        }
        self.raw_bytes -= chunk.raw_memory();
        self.weights = chunk.weight.iter().fold(self.weights, |left, weight| left.saturating_sub(*weight));
        self.ledger.evicted += chunk.len() as u64;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests;
