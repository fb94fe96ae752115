//! A profile under construction: interned frames and stacks, and the samples that refer to them.

use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

use crate::kernel::attr::sample;
use crate::perfdata::{EventDesc, EventUnit};
use crate::session::DsoKind;
use crate::source::{NamedFrame, NamedSample, NamedSamples};
use crate::symbols::SymbolOptions;

use super::ImportError;
use super::addresses::UnnamedFrames;
use super::labels::Labels;

/// The stack without frames.
pub(super) const ROOT: u32 = 0;
/// The frames of a stack that are kept, from its leaf on; files may have longer ones by mistake or malice.
pub(super) const MOST_FRAMES: usize = 4096;
/// The stacks whose innermost frames are kept; of further ones that are too long, only a few: they share no callers.
const MOST_CUT: u64 = 1024;
const FEW_FRAMES: usize = 16;
/// The bytes of a name or path that are kept.
pub(super) const MOST_TEXT: usize = 4096;
/// The bytes of distinct frames, stacks, threads and samples, and the frames of all stacks together.
const MOST_HELD: usize = 1 << 30;
const MOST_STEPS: u64 = 1 << 29;
/// A process or thread number that the file lacks.
pub(super) const NO_ID: i32 = -1;

/// A stack: its caller's stack and its last frame.
#[derive(Clone, Copy, Debug)]
struct StackNode {
    parent: u32,
    frame: u32,
}

/// The thread of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadName {
    pub(super) comm: Arc<str>,
    pub(super) pid: i32,
    pub(super) tid: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImportedSample {
    pub(super) time: u64,
    pub(super) period: u64,
    pub(super) stack: u32,
    pub(super) thread: u32,
    pub(super) event: u16,
    /// The number of its labels; see [`Labels`].
    pub(super) labels: u32,
}

#[derive(Debug)]
pub(super) struct ImportedProfile {
    pub(super) events: Vec<EventDesc>,
    frames: Vec<NamedFrame>,
    frame_ids: HashMap<(Arc<str>, Arc<str>), u32>,
    stacks: Vec<StackNode>,
    stack_ids: FxHashMap<(u32, u32), u32>,
    threads: Vec<ThreadName>,
    thread_ids: HashMap<ThreadName, u32>,
    samples: Vec<ImportedSample>,
    pub(super) labels: Labels,
    /// Frames that have only addresses.
    pub(super) unnamed: UnnamedFrames,
    pub(super) facts: Vec<(String, String)>,
    /// Nanoseconds that samples without times were taken in; 0 if unknown.
    pub(super) duration: u64,
    pub(super) notes: Vec<String>,
    /// Samples with more frames than are kept.
    pub(super) cut: u64,
    /// The bytes of frames, stacks, threads and samples, and the frames of all stacks so far.
    held: usize,
    steps: u64,
}

impl ImportedProfile {
    /// Returns an empty profile with a fact that names its format.
    pub(super) fn new(format: &str) -> Self {
        Self {
            events: Vec::new(),
            frames: Vec::new(),
            frame_ids: HashMap::new(),
            stacks: vec![StackNode { parent: ROOT, frame: 0 }],
            stack_ids: FxHashMap::default(),
            threads: Vec::new(),
            thread_ids: HashMap::new(),
            samples: Vec::new(),
            labels: Labels::default(),
            unnamed: UnnamedFrames::default(),
            facts: vec![("format".to_owned(), format.to_owned())],
            duration: 0,
            notes: Vec::new(),
            cut: 0,
            held: 0,
            steps: 0,
        }
    }

    /// Fails if the file has more frames or stacks than are held; what exceeds the limit is not added.
    pub(super) fn check(&self) -> Result<(), ImportError> {
        if self.is_full() { Err(ImportError::TooComplex) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.held > MOST_HELD || self.steps > MOST_STEPS
    }

    pub(super) fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push((name.to_owned(), value.into()));
    }

    /// Adds an event and returns its index.
    pub(super) fn event(&mut self, name: &str, unit: EventUnit, has_times: bool) -> u16 {
        let name = crate::perfdata::apart(&self.names(), name);
        let mut event = EventDesc::imported(&name, unit);
        event.attr.sample_type = sample::CALLCHAIN | if has_times { sample::TIME } else { 0 };
        self.events.push(event);
        (self.events.len() - 1) as u16
    }

    /// Marks an event whose samples are sums of samples with this period; 0 if it is unknown.
    pub(super) fn are_sums(&mut self, event: u16, period: u64) {
        if let Some(event) = self.events.get_mut(usize::from(event)) {
            *event = event.clone().of_sums(period);
        }
    }

    fn names(&self) -> Vec<String> {
        self.events.iter().map(|event| event.name.clone()).collect()
    }

    /// Returns the frame of a function in a file; `dso` may be empty.
    pub(super) fn frame(&mut self, name: &str, dso: &str, kind: DsoKind) -> u32 {
        let (name, dso) =
            (if name.is_empty() { "(anonymous)" } else { name }, if dso.is_empty() { UNKNOWN } else { dso });
        if self.is_full() && !self.frames.is_empty() {
            return 0;
        }
        let key = (Arc::from(limited(name)), Arc::from(limited(dso)));
        *self.frame_ids.entry(key).or_insert_with_key(|(name, dso)| {
            let kind = if &**dso == UNKNOWN { DsoKind::Unknown } else { kind };
            let (name, dso) = (name.clone(), dso.clone());
            self.held += size_of::<NamedFrame>() + name.len() + dso.len();
            self.frames.push(NamedFrame { name, dso, kind, ip: 0, offset: None, is_unknown: false });
            (self.frames.len() - 1) as u32
        })
    }

    /// Returns the frame of an address without a function.
    pub(super) fn address(&mut self, ip: u64, dso: &str) -> u32 {
        let frame = self.frame(&format!("{ip:#x}"), dso, DsoKind::File);
        (self.frames[frame as usize].ip, self.frames[frame as usize].is_unknown) = (ip, true);
        frame
    }

    /// Names addresses by the files of this machine; returns notes.
    pub(super) fn name_addresses(&mut self, options: &SymbolOptions) -> Vec<String> {
        self.unnamed.name(&mut self.frames, options)
    }

    /// Returns the stack with a frame called by another stack's last.
    pub(super) fn stack(&mut self, parent: u32, frame: u32) -> u32 {
        self.steps += 1;
        if self.is_full() {
            return parent;
        }
        let next = self.stacks.len() as u32;
        let id = *self.stack_ids.entry((parent, frame)).or_insert(next);
        if id == next {
            self.held += 3 * size_of::<StackNode>();
            self.stacks.push(StackNode { parent, frame });
        }
        id
    }

    pub(super) fn thread(&mut self, comm: &str, pid: i32, tid: i32) -> u32 {
        if self.is_full() && !self.threads.is_empty() {
            return 0;
        }
        let thread = ThreadName { comm: limited(if comm.is_empty() { UNKNOWN } else { comm }).into(), pid, tid };
        *self.thread_ids.entry(thread).or_insert_with_key(|thread| {
            self.held += 2 * size_of::<ThreadName>() + thread.comm.len();
            self.threads.push(thread.clone());
            (self.threads.len() - 1) as u32
        })
    }

    pub(super) fn add(&mut self, sample: ImportedSample) {
        if self.is_full() {
            return;
        }
        self.held += size_of::<ImportedSample>();
        self.samples.push(sample);
    }

    /// Returns the sum of all periods.
    pub(super) fn weight(&self) -> u128 {
        self.samples.iter().map(|sample| u128::from(sample.period)).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Completes it: sorts the samples by time. Samples of one time keep their order.
    pub(super) fn finish(&mut self) {
        self.samples.sort_by_key(|sample| sample.time);
        (self.frame_ids, self.thread_ids) = (HashMap::new(), HashMap::new());
        self.stack_ids = FxHashMap::default();
    }

    /// Moves the frames into a batch, before its first samples.
    pub(super) fn take_frames(&mut self) -> Vec<NamedFrame> {
        std::mem::take(&mut self.frames)
    }

    /// Adds the samples from a number on, to about this many frames; returns the number of the next.
    pub(super) fn fill(&mut self, from: usize, frames: usize, named: &mut NamedSamples) -> usize {
        let mut at = from;
        while let Some(sample) = self.samples.get(at).filter(|_| named.frames.len() + named.samples.len() < frames) {
            let start = named.frames.len();
            let mut stack = sample.stack;
            while stack != ROOT && named.frames.len() - start < MOST_FRAMES {
                let node = self.stacks[stack as usize];
                named.frames.push(node.frame);
                stack = node.parent;
            }
            if stack != ROOT {
                self.cut += 1;
                if self.cut > MOST_CUT {
                    named.frames.truncate(start + FEW_FRAMES);
                }
            }
            let thread = &self.threads[sample.thread as usize];
            named.samples.push(NamedSample {
                comm: thread.comm.clone(),
                pid: thread.pid,
                tid: thread.tid,
                cpu: 0,
                time: sample.time,
                period: sample.period,
                event: sample.event,
                frames: start as u32..named.frames.len() as u32,
                closed: true,
                trace: None,
                raw: self.labels.raw(sample.labels),
            });
            at += 1;
        }
        at
    }
}

const UNKNOWN: &str = "[unknown]";

/// Returns the start of a text, at most [`MOST_TEXT`] bytes.
fn limited(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_TEXT)]
}

/// Returns the kind of a native file by its name.
pub(super) fn kind_of(dso: &str) -> DsoKind {
    let is_kernel = dso.starts_with("[kernel") || dso.ends_with(".ko") || dso.starts_with("[guest.kernel");
    if is_kernel { DsoKind::Kernel } else { DsoKind::File }
}

/// Returns a unit's name as an [`EventUnit`], and the factor from it.
pub(super) fn unit_of(name: &str) -> (EventUnit, u64) {
    match name {
        "nanoseconds" | "nanosecond" | "ns" => (EventUnit::Nanoseconds, 1),
        "microseconds" | "microsecond" | "us" => (EventUnit::Nanoseconds, 1000),
        "milliseconds" | "millisecond" | "ms" => (EventUnit::Nanoseconds, 1_000_000),
        "seconds" | "second" | "s" => (EventUnit::Nanoseconds, 1_000_000_000),
        "bytes" | "byte" | "b" => (EventUnit::Bytes, 1),
        "kilobytes" | "kilobyte" | "kb" => (EventUnit::Bytes, 1 << 10),
        "megabytes" | "megabyte" | "mb" => (EventUnit::Bytes, 1 << 20),
        "gigabytes" | "gigabyte" | "gb" => (EventUnit::Bytes, 1 << 30),
        // As this program exports decimal counts.
        name => {
            let zeros = name.strip_prefix("count/1").filter(|zeros| zeros.bytes().all(|byte| byte == b'0'));
            let decimals = zeros.and_then(|zeros| u8::try_from(zeros.len()).ok());
            let known = decimals.filter(|decimals| *decimals <= EventUnit::MOST_DECIMALS);
            (known.map_or(EventUnit::Count, EventUnit::Decimal), 1)
        }
    }
}

/// Rounds a time or weight; negative ones and NaN become 0.
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}
