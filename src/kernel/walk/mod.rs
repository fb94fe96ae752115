//! Stack unwinding inside the kernel by tables generated here, without frame pointers: the BPF program (walk.bpf.c,
//! compiled by the `build` next to it) and the data that it reads.

mod asks;
pub(crate) mod code_cache;
mod offsets;
mod pool;
pub(crate) mod rule;
pub(crate) mod runtime;
pub(crate) mod script_engine;
mod store;
pub(crate) mod waits;

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::bpf::btf::Btf;
use super::bpf::calls::LoadError;
use super::bpf::calls::{self, MapKind, PROG_ARRAY, ProgramType};
use super::bpf::object::LoadedObject;
use super::perf_event::sys::Errno;
use super::process::own_memory;
use super::procfs;
pub(crate) use asks::Asks;
use pool::{Pool, Range};
pub(crate) use runtime::LanguageRuntime;
use runtime::SEEN_BYTES;
pub(crate) use store::Store;

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("walk.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
const OBJECT: &[u8] = include_bytes!("walk.aarch64.o");

/// Rows in a chunk, and rows per entry of its index, which has each block's first pc (walk.bpf.c: the same numbers).
const ROWS: usize = 1 << 20;
const BLOCK: usize = 64;
const BLOCKS: u32 = (ROWS / BLOCK) as u32;
const CHUNK_BYTES: usize = 8 * ROWS + 4 * BLOCKS as usize;
/// Mappings in a piece, each of seven words, and of one process.
const MAPPINGS: u32 = 1 << 15;
const MAPPING_WORDS: usize = 7;
const PIECE_BYTES: usize = MAPPINGS as usize * MAPPING_WORDS * 8;
pub(crate) const MAX_MAPPINGS: usize = 8192;
const SLOTS: usize = 64;

pub(crate) const FRAMES: usize = 127;
/// Words of a record at most: addresses, and groups for the frames of interpreters.
pub(crate) const WORDS: usize = 1024;
/// The maximum frames of a chain, kernel and user together, with the default value of `kernel.perf_event_max_stack`.
pub(crate) const CHAIN_LIMIT: usize = 127;
/// The maximum number of frames of a chain whose user part is walked by tables: each part has its own limit.
pub(crate) const CHAIN_LIMIT_BY_TABLES: usize = CHAIN_LIMIT + FRAMES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowRange {
    pub(crate) chunk: u32,
    pub(crate) first: u32,
    pub(crate) n: u32,
    /// The pc of its first row.
    pub(crate) pc: u32,
}

/// The maximum number of mappings of one place that a walk tries (walk.bpf.c has the same number).
pub(crate) const TURNS: usize = 8;

/// A mapping of code: a row's pc is an address in it minus the bias. Without rows, frame pointers are walked. Files
/// that take turns at one place have a mapping each, with equal bounds; a walk takes the last whose mark is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bias: u64,
    pub(crate) span: Option<RowRange>,
    pub(crate) mark: Option<Mark>,
}

impl Mapping {
    pub(crate) fn without_rows(start: u64, end: u64) -> Self {
        Self { start, end, bias: 0, span: None, mark: None }
    }
}

/// Eight bytes of memory that identify the mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) address: u64,
    pub(crate) word: u64,
    /// Whether a mark that cannot be read counts as another file's.
    pub(crate) is_strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRoom {
    #[error("the unwind tables have reached their memory limit")]
    Limit,
    #[error("the kernel has no memory for unwind tables: {0}")]
    Kernel(#[from] Errno),
}

/// The reason why a walk ended, as the program reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum WalkEnd {
    /// The table marks the outermost frame.
    Complete = 1,
    /// The walk reached the maximum number of frames.
    Full = 2,
    /// The stack could not be read.
    Fault = 3,
    /// The return address is not in code.
    Nowhere = 4,
    /// The frame pointer is not valid.
    NoFrame = 5,
    /// The caller's frame would be inside the callee's.
    Backwards = 6,
    /// The rule is not supported.
    Unsupported = 7,
    /// The chain of frame pointers ends.
    LastFrame = 8,
}

impl WalkEnd {
    const ALL: [Self; 8] = [
        Self::Complete,
        Self::Full,
        Self::Fault,
        Self::Nowhere,
        Self::NoFrame,
        Self::Backwards,
        Self::Unsupported,
        Self::LastFrame,
    ];

    pub(crate) fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u8 == code)
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Complete => "whole, by tables",
            Self::LastFrame => "to the last frame pointer",
            Self::Full => "cut at 127 frames",
            Self::Fault => "broken: the stack cannot be read",
            Self::Nowhere => "broken: return address outside code",
            Self::NoFrame => "broken: no table, no frame pointer",
            Self::Backwards => "broken: the caller's frame is inside the callee's",
            Self::Unsupported => "broken: unsupported unwind rule",
        }
    }

    pub(crate) fn is_broken(self) -> bool {
        !matches!(self, Self::Complete | Self::LastFrame | Self::Full)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkEnds([u64; WalkEnd::ALL.len()]);

impl WalkEnds {
    pub(crate) fn count(&mut self, why: WalkEnd) {
        self.0[why as usize - 1] += 1;
    }

    pub(crate) fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn of(&self, why: WalkEnd) -> u64 {
        self.0[why as usize - 1]
    }

    pub(crate) fn percents(&self) -> impl Iterator<Item = (WalkEnd, f64)> {
        let all = self.all().max(1) as f64;
        WalkEnd::ALL
            .into_iter()
            .map(move |why| (why, 100.0 * self.of(why) as f64 / all))
            .filter(|(_, share)| *share > 0.0)
    }

    pub(crate) fn broken_percent(&self) -> f64 {
        self.percents().filter(|(why, _)| why.is_broken()).map(|(_, share)| share).sum()
    }
}

/// In place of a [`WalkEnd`]: the record lists return addresses that probes replaced. Its words are the replacement,
/// then for each function, the innermost first, the return address's position on the stack and its value.
pub(crate) const RETURNS: u8 = 9;

/// Data that a walk lacked, as bits of its record.
pub(crate) mod lack {
    /// The process is unknown.
    pub(crate) const PROCESS: u8 = 1;
    /// An address was in none of its mappings.
    pub(crate) const MAPPING: u8 = 2;
    /// An address had no row in its mapping.
    pub(crate) const ROW: u8 = 4;
    pub(crate) const ANY: u8 = PROCESS | MAPPING | ROW;
}

/// In the same byte: the walk was made at a tracepoint, for the sample before or after it.
pub(crate) const AT_TRACEPOINT: u8 = 8;
/// In the same byte: the code is 32-bit.
pub(crate) const NARROW: u8 = 16;
/// In the same byte: the process has an interpreter, so that the words are [`runtime::WalkParts`].
pub(crate) const MIXED: u8 = 32;
/// In the same byte: it is the stack of a wait, and the kernel's part and an id follow ([`waits`]).
pub(crate) const OF_WAIT: u8 = 64;

/// Changes of processes from the rings, which their tables must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProcessEvent {
    /// A walk lacked data, by the bits of [`lack`]. `number` is the kernel's number of an unknown process.
    Lacks {
        pid: i32,
        what: u8,
        number: Option<u32>,
    },
    /// A process may be walked for the first time soon.
    Runs {
        pid: i32,
    },
    /// A child with a copy of its parent's mappings. `at` is the event's time here and below: nanoseconds of
    /// `CLOCK_MONOTONIC`, or the highest value if it is unknown.
    Forked {
        parent: i32,
        child: i32,
        at: u64,
    },
    /// All mappings of the process are gone.
    Executed {
        pid: i32,
        at: u64,
    },
    /// More code is mapped.
    Mapped {
        pid: i32,
        at: u64,
    },
    Exited {
        pid: i32,
    },
}

/// The place where tasks are walked for a tracepoint or probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    /// A tracepoint, by its name without its system.
    Tracepoint(String),
    /// The tracepoint of all system calls at their start or end, and the number of the only call to walk.
    Call(&'static str, u32),
    /// A probe that belongs to the session, by the number of its event.
    Probe(u64),
}

impl Hook {
    /// Returns the name of its tracepoint.
    pub(crate) fn tracepoint(&self) -> Option<&str> {
        match self {
            Self::Tracepoint(name) => Some(name),
            Self::Call(name, _) => Some(name),
            Self::Probe(_) => None,
        }
    }

    pub(crate) fn call(&self) -> Option<u32> {
        match self {
            Self::Call(_, number) => Some(*number),
            Self::Tracepoint(_) | Self::Probe(_) => None,
        }
    }

    /// Returns the hook of all events that one attachment of the program serves.
    pub(crate) fn place(&self) -> Self {
        match self {
            Self::Call(name, _) => Self::Call(name, 0),
            other => other.clone(),
        }
    }
}

/// The program in the kernel, as events need it.
#[derive(Debug)]
pub struct Program {
    object: LoadedObject,
    program: OwnedFd,
    /// The same for each kind of hook, loaded when first needed.
    at_hooks: [OnceLock<OwnedFd>; 3],
    /// A program array with this program, for filter programs that end with a jump to it.
    next: OwnedFd,
    settings: Settings,
    thread_pointer: Option<u32>,
}

/// `struct settings` of walk.bpf.c.
#[derive(Clone, Copy, Debug)]
struct Settings {
    address: u64,
    copies: bool,
    /// The offset of a task's own perf events; 0 if it is unknown.
    task_events: u32,
}

impl Settings {
    fn words(&self, only_measured_tasks: bool) -> [u32; 4] {
        let events = if only_measured_tasks { self.task_events } else { 0 };
        [self.address as u32, (self.address >> 32) as u32, self.copies.into(), events]
    }
}

impl Program {
    /// Loads the program that writes, before each sample with a copied stack, the return addresses that the copy lacks
    /// (`RETURNS`). [`LoadError`] has the end of the verifier's log.
    pub fn for_copies() -> Result<Arc<Self>, LoadError> {
        Ok(Arc::new(Self::load(true)?))
    }

    fn load(copies: bool) -> Result<Self, LoadError> {
        let object = LoadedObject::load(OBJECT)?;
        let program = object.program("perf_event", ProgramType::Sample)?;
        let array = MapKind { kind: PROG_ARRAY, key: 4, value: 4, entries: 1, flags: 0 };
        let next = calls::map(&array, None)?;
        calls::put(next.as_fd(), 0, [program.as_raw_fd() as u32, 0, 0, 0])?;
        let mut settings = Settings { address: address_bits(), copies, task_events: 0 };
        let mut thread_pointer = None;
        // Without the offsets, a return address that a probe has replaced stays unknown.
        if let Ok(types) = Btf::system() {
            if let Ok(found) = offsets::pending(&types) {
                calls::put(object.map("pendings")?, 0, found)?;
            }
            settings.task_events = offsets::task_events(&types).unwrap_or(0);
            if let Ok(found) = offsets::family(&types) {
                calls::put(object.map("families")?, 0, found)?;
            }
            thread_pointer = offsets::thread_pointer(&types).ok();
        }
        // The kernel's types take some 6 MB and are not needed again.
        own_memory::give_back();
        calls::put(object.map("settings")?, 0, settings.words(false))?;
        Ok(Self { object, program, at_hooks: [const { OnceLock::new() }; 3], next, settings, thread_pointer })
    }

    /// A program that was not loaded.
    #[cfg(test)]
    pub(crate) fn staged() -> Arc<Self> {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("there"));
        let settings = Settings { address: 0, copies: false, task_events: 0 };
        let at_hooks = Default::default();
        let object = LoadedObject::staged(file());
        Arc::new(Self { object, program: file(), at_hooks, next: file(), settings, thread_pointer: None })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    pub(crate) fn next(&self) -> BorrowedFd<'_> {
        self.next.as_fd()
    }

    /// Returns the program for a hook.
    pub(crate) fn at(&self, hook: &Hook) -> Result<BorrowedFd<'_>, LoadError> {
        let (cell, section, runs) = match hook {
            Hook::Tracepoint(_) => (0, "raw_tp", ProgramType::RawTracepoint),
            Hook::Call(..) => (1, "raw_tp_call", ProgramType::RawTracepoint),
            Hook::Probe(_) => (2, "probe", ProgramType::Probe),
        };
        let cell = &self.at_hooks[cell];
        if cell.get().is_none() {
            let program = self.object.program(section, runs)?;
            cell.get_or_init(|| program);
        }
        cell.get().map(AsFd::as_fd).ok_or(LoadError::from(Errno::NOENT))
    }

    /// Walks the stack of each task that passes a tracepoint, as long as the returned descriptor is open. Fails with
    /// [`Errno::NOENT`] if the kernel has no such tracepoint.
    pub(crate) fn attach(&self, hook: &Hook, tracepoint: &str) -> Result<OwnedFd, LoadError> {
        let name = CString::new(tracepoint).map_err(|_| Errno::INVAL)?;
        Ok(calls::attach(self.at(hook)?, &name)?)
    }

    /// Walks at the tracepoints of this system call, or no more.
    pub(crate) fn trace_call(&self, number: u32, on: bool) -> Result<(), LoadError> {
        Ok(calls::put(self.object.map("calls")?, number, [on.into(), 0, 0, 0])?)
    }

    /// Lets the programs at tracepoints walk only tasks with perf events of their own, or all tasks.
    pub(crate) fn walk_measured_tasks_only(&self, only: bool) -> Result<(), LoadError> {
        Ok(calls::put(self.object.map("settings")?, 0, self.settings.words(only))?)
    }

    /// Returns whether the program can find out which tasks have perf events of their own.
    pub(crate) fn knows_measured_tasks(&self) -> bool {
        self.settings.task_events != 0
    }

    /// Returns whether the program has the tables of a process, by its kernel number.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.object.map("spaces").is_ok_and(|spaces| calls::get(spaces, number).is_ok())
    }

    /// Lets the program write the names of all functions again.
    pub(crate) fn forget_names(&self) {
        // It fails only if the map does not exist.
        let _ = self.object.map("seen").map(|seen| calls::put_bytes(seen, 0, &vec![0; SEEN_BYTES]));
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        let events = self.object.map("events").map_err(|error| error.errno)?;
        calls::put(events, cpu, [event.as_raw_fd() as u32, 0, 0, 0])
    }

    /// Returns the number of the program's instructions that the verifier processed; 0 before Linux 5.16.
    pub fn verified(&self) -> Result<u32, Errno> {
        calls::verified(self.fd())
    }
}

/// The program and its tables.
#[derive(Debug)]
pub struct Walker {
    program: Arc<Program>,
    spaces: OwnedFd,
    pieces: OwnedFd,
    chunks: OwnedFd,
    rows: Pool,
    mappings: Pool,
    known: FxHashMap<i32, Range>,
    runtimes: Vec<bool>,
    /// The numbers of the interpreters of processes.
    interpreted: FxHashMap<i32, u32>,
    /// The offset of the thread pointer in a task; without it, interpreters are not walked.
    thread_pointer: Option<u32>,
    numbers: Numbers,
    asks: Option<Asks>,
    limit: usize,
}

/// The kernel's numbers of processes, as far as known; `None` if they are the same as here.
#[derive(Debug)]
struct Numbers(Option<FxHashMap<i32, u32>>);

impl Numbers {
    fn here() -> Self {
        Self((!procfs::sees_all_processes()).then(FxHashMap::default))
    }

    fn of(&self, pid: i32) -> Option<u32> {
        self.0.as_ref().map_or(Some(pid as u32), |known| known.get(&pid).copied())
    }
}

impl Walker {
    /// Loads the program; its tables may take `limit` bytes of kernel memory. [`LoadError`] has the verifier log's end.
    pub fn load(limit: usize) -> Result<Self, LoadError> {
        let program = Arc::new(Program::load(false)?);
        let map = |name: &str| {
            let copy = program.object.map(name)?.try_clone_to_owned();
            copy.map_err(|error| LoadError::from(Errno::from_io_error(&error).unwrap_or(Errno::MFILE)))
        };
        let numbers = Numbers::here();
        // In a nested PID namespace, only the records of walks reveal the kernel's numbers.
        let asks = numbers.0.is_none().then(|| map("asks").ok().and_then(|ring| Asks::map(ring).ok())).flatten();
        let [spaces, pieces, chunks] = [map("spaces")?, map("pieces")?, map("chunks")?];
        Ok(Self {
            spaces,
            pieces,
            chunks,
            rows: Pool::new(BLOCKS, BLOCK, CHUNK_BYTES, limit - limit / 4, SLOTS),
            mappings: Pool::new(MAPPINGS, MAPPING_WORDS, PIECE_BYTES, limit / 4, SLOTS),
            known: FxHashMap::default(),
            // The first number stands for none.
            runtimes: vec![true],
            interpreted: FxHashMap::default(),
            thread_pointer: program.thread_pointer,
            program,
            numbers,
            asks,
            limit,
        })
    }

    /// Returns the loaded program, which lives as long as a reference to it.
    pub fn program(&self) -> Arc<Program> {
        self.program.clone()
    }

    /// Returns the ring in which the program requests tables of processes, where numbers are the kernel's; once.
    pub(crate) fn asks(&mut self) -> Option<Asks> {
        self.asks.take()
    }

    /// Places the longest possible prefix of rows in one range.
    fn place(&mut self, rows: &[u64]) -> Result<RowRange, NoRoom> {
        let blocks = u32::try_from(rows.len().div_ceil(BLOCK)).unwrap_or(u32::MAX).min(BLOCKS);
        let range = match self.rows.get(blocks, self.chunks.as_fd())? {
            Some(range) => range,
            // No free range and no new chunk holds all rows: take the longest free range.
            None => {
                let longest = self.rows.longest();
                let range = if longest > 0 { self.rows.get(longest, self.chunks.as_fd())? } else { None };
                range.ok_or(NoRoom::Limit)?
            }
        };
        let rows = &rows[..rows.len().min(range.n as usize * BLOCK)];
        self.rows.store(range.array, self.rows.at(range), rows.iter().copied());
        // The index has half a word for each block; the other half of a word may belong to another range.
        self.rows.index(range.array, ROWS, range.first, rows.chunks(BLOCK).map(|block| block[0] as u32));
        let first = range.first * BLOCK as u32;
        Ok(RowRange { chunk: range.array, first, n: rows.len() as u32, pc: rows[0] as u32 })
    }

    /// Tells the program where a process has its mappings, if the kernel's number of the process is known.
    fn tell(&self, tgid: i32, range: Range) -> Result<(), Errno> {
        let Some(number) = self.numbers.of(tgid) else { return Ok(()) };
        let runtime = self.interpreted.get(&tgid).copied().unwrap_or(0);
        // The call is a barrier: a program that sees the range also sees its content.
        calls::put(self.spaces.as_fd(), number, [range.array, range.first, range.n, runtime])
    }
}

/// Returns a mask of the address bits of user code. Kernels for AArch64 are built for 36 to 48 bits, and the bits above
/// may hold a signature. A kernel for 52 bits maps such addresses only on explicit request
/// (Documentation/arm64/memory.rst). A program's arguments are at the end of its memory.
fn address_bits() -> u64 {
    let last = rustix::param::linux_execfn().as_ptr() as u64;
    u64::MAX >> last.leading_zeros().clamp(12, 28)
}

#[cfg(test)]
mod tests;
