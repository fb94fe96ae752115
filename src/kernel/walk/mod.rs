//! Stack unwinding inside the kernel by tables generated here, without frame pointers: the BPF program (walk.bpf.c,
//! compiled by the `build` next to it) and the data that it reads.

mod asks;
pub(crate) mod code_cache;
mod ends;
mod offsets;
mod pool;
mod program;
pub(crate) mod rule;
pub(crate) mod runtime;
pub(crate) mod script_engine;
mod store;
pub(crate) mod waits;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bpf::calls::{self, LoadError};
use super::perf_event::sys::Errno;
use super::procfs;
pub(crate) use asks::Asks;
pub(crate) use ends::{WalkEnd, WalkEnds};
use pool::{Pool, Range};
pub(crate) use program::Hook;
pub use program::Program;
pub(crate) use runtime::LanguageRuntime;
pub(crate) use store::Store;

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

#[cfg(test)]
mod tests;
