//! The calls of bpf(2): maps, mapped arrays, BTF and programs.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use rustix::io::Errno;
use rustix::mm::ProtFlags;

use crate::kernel::shared::Shared;

const MAP_CREATE: i64 = 0;
const MAP_LOOKUP_ELEM: i64 = 1;
const MAP_UPDATE_ELEM: i64 = 2;
const MAP_DELETE_ELEM: i64 = 3;
const PROG_LOAD: i64 = 5;
const OBJ_GET_INFO_BY_FD: i64 = 15;
const RAW_TRACEPOINT_OPEN: i64 = 17;
const BTF_LOAD: i64 = 18;
const LINK_CREATE: i64 = 28;
const ITER_CREATE: i64 = 33;
const MAP_LOOKUP_BATCH: i64 = 24;
const MAP_LOOKUP_AND_DELETE_BATCH: i64 = 25;
/// `BPF_TRACE_ITER` of `enum bpf_attach_type`.
const TRACE_ITER: u32 = 28;
const F_MMAPABLE: u32 = 1 << 10;
/// A load takes up to a second on a busy machine; signals that come more often than that are not waited out.
const MAX_INTERRUPTIONS: u32 = 10;

pub(crate) const ARRAY: u32 = 2;
pub(crate) const PROG_ARRAY: u32 = 3;
pub(crate) const PERF_EVENT_ARRAY: u32 = 4;
pub(crate) const PERCPU_ARRAY: u32 = 6;
pub(crate) const ARRAY_OF_MAPS: u32 = 12;

// Instructions that several kinds of program use (Documentation/bpf/standardization/instruction-set.rst).
pub(crate) const LDX_DW: u64 = 0x79;
pub(crate) const ADD_K: u64 = 0x07;
pub(crate) const MOV_K: u64 = 0xb7;
pub(crate) const MOV_X: u64 = 0xbf;
pub(crate) const LD_MAP: u64 = 0x18 | 1 << 12;
pub(crate) const CALL: u64 = 0x85;
pub(crate) const EXIT: u64 = 0x95;

/// Encodes an instruction from its opcode, destination and source register, offset and immediate.
pub(crate) const fn op(code: u64, to: u64, from: u64, offset: i32, value: i32) -> u64 {
    code | to << 8 | from << 12 | (offset as u16 as u64) << 16 | (value as u32 as u64) << 32
}

/// `union bpf_attr` as 32-bit words.
#[derive(Default)]
struct Attr([u32; 32]);

impl Attr {
    fn of(words: &[u32]) -> Self {
        let mut attr = Self::default();
        attr.0[..words.len()].copy_from_slice(words);
        attr
    }

    fn point<T>(mut self, at: usize, to: *const T) -> Self {
        let to = to as u64;
        (self.0[at], self.0[at + 1]) = (to as u32, (to >> 32) as u32);
        self
    }

    fn with(mut self, at: usize, word: u32) -> Self {
        self.0[at] = word;
        self
    }

    fn call(&mut self, command: i64) -> Result<i32, Errno> {
        // SAFETY: the kernel reads `size` bytes of the attr, which is the array's length. The callers in this file keep
        // the targets of its pointers alive until the call returns.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size_of_val(&self.0)) };
        match i32::try_from(result) {
            Ok(result) if result >= 0 => Ok(result),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }

    fn make(&mut self, command: i64) -> Result<OwnedFd, Errno> {
        let fd = self.call(command)?;
        // SAFETY: the commands that this function serves return a new descriptor, which has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The description of a map; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapKind {
    pub(crate) kind: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
}

/// Creates a map. A map of maps takes its inner maps' layout from `inner`.
pub(crate) fn map(of: &MapKind, inner: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
    let inner = inner.map_or(0, |fd| fd.as_raw_fd() as u32);
    Attr::of(&[of.kind, of.key, of.value, of.entries, of.flags, inner]).make(MAP_CREATE)
}

/// Stores an element in a map with keys of 4 bytes and values of at most 16 bytes.
pub(crate) fn put(map: BorrowedFd<'_>, key: u32, value: [u32; 4]) -> Result<(), Errno> {
    let attr = Attr::of(&[map.as_raw_fd() as u32]).point(2, &raw const key);
    attr.point(4, value.as_ptr()).call(MAP_UPDATE_ELEM).map(drop)
}

/// Stores an element in a map with keys of 4 bytes; the value must have the size of the map's.
pub(crate) fn put_bytes(map: BorrowedFd<'_>, key: u32, value: &[u8]) -> Result<(), Errno> {
    let attr = Attr::of(&[map.as_raw_fd() as u32]).point(2, &raw const key);
    attr.point(4, value.as_ptr()).call(MAP_UPDATE_ELEM).map(drop)
}

/// Returns an element of a map with keys of 4 bytes and values of 16 bytes.
pub(crate) fn get(map: BorrowedFd<'_>, key: u32) -> Result<[u32; 4], Errno> {
    let mut value = [0; 4];
    let attr = Attr::of(&[map.as_raw_fd() as u32]).point(2, &raw const key);
    attr.point(4, value.as_mut_ptr()).call(MAP_LOOKUP_ELEM)?;
    Ok(value)
}

/// Returns a number of four bytes in a key or a value; 0 past its end.
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Returns a number of eight bytes in a key or a value; 0 past its end.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

pub(crate) fn take(map: BorrowedFd<'_>, key: u32) -> Result<(), Errno> {
    Attr::of(&[map.as_raw_fd() as u32]).point(2, &raw const key).call(MAP_DELETE_ELEM).map(drop)
}

/// Reads all elements of a hash map, in one call for many elements (Linux 5.6), and deletes them if `delete`. `each`
/// receives their keys and values, of `sizes` bytes; sizes of values are multiples of 8.
pub(crate) fn read_all(
    map: BorrowedFd<'_>,
    sizes: (usize, usize),
    delete: bool,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), Errno> {
    let (mut count, mut place, mut is_first) = (64usize, 0u64, true);
    let command = if delete { MAP_LOOKUP_AND_DELETE_BATCH } else { MAP_LOOKUP_BATCH };
    loop {
        let (mut keys, mut values) = (vec![0u8; count * sizes.0], vec![0u8; count * sizes.1]);
        let mut next = 0u64;
        let mut attr = Attr::default()
            .point(2, &raw mut next)
            .point(4, keys.as_mut_ptr())
            .point(6, values.as_mut_ptr())
            .with(8, count as u32)
            .with(9, map.as_raw_fd() as u32);
        if !is_first {
            attr = attr.point(0, &raw const place);
        }
        let read = attr.call(command);
        match read {
            // A bucket has more elements than fit.
            Err(Errno::NOSPC) if count < 1 << 16 => {
                count *= 2;
                continue;
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let n = (attr.0[8] as usize).min(count);
        for (key, value) in keys.chunks_exact(sizes.0).zip(values.chunks_exact(sizes.1)).take(n) {
            each(key, value);
        }
        if read.is_err() {
            return Ok(());
        }
        (place, is_first) = (next, false);
    }
}

/// Returns the values of an element on all possible CPUs, of a map by CPU with keys of 4 bytes and values of `size`
/// bytes, a multiple of 8.
pub(crate) fn get_by_cpu(map: BorrowedFd<'_>, key: u32, size: usize, cpus: usize) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0u8; size * cpus];
    let attr = Attr::of(&[map.as_raw_fd() as u32]).point(2, &raw const key);
    attr.point(4, value.as_mut_ptr()).call(MAP_LOOKUP_ELEM)?;
    Ok(value)
}

/// A memory-mapped array with a single value, through which programs read what we store.
#[derive(Debug)]
pub(crate) struct MappedValue {
    fd: OwnedFd,
    value: Shared,
}

impl MappedValue {
    pub(crate) fn new(size: usize) -> Result<Self, Errno> {
        let fd = map(&MapKind { kind: ARRAY, key: 4, value: size as u32, entries: 1, flags: F_MMAPABLE }, None)?;
        // The kernel rounds the array's only value up to whole pages.
        let len = size.next_multiple_of(rustix::param::page_size());
        let value = Shared::map(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        Ok(Self { fd, value })
    }

    /// A value that no map has.
    #[cfg(test)]
    pub(crate) fn staged(size: usize) -> Self {
        let len = size.next_multiple_of(rustix::param::page_size());
        let fd = rustix::fs::memfd_create("value", rustix::fs::MemfdFlags::CLOEXEC).expect("made");
        rustix::fs::ftruncate(&fd, len as u64).expect("sized");
        let value = Shared::map(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE, 0).expect("mapped");
        Self { fd, value }
    }

    /// Maps the value of an existing map of this kind, of `size` bytes.
    pub(crate) fn of(map: BorrowedFd<'_>, size: usize) -> Result<Self, Errno> {
        let fd = map.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        let len = size.next_multiple_of(rustix::param::page_size());
        let value = Shared::map(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        Ok(Self { fd, value })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn word(&self, i: usize) -> &AtomicU64 {
        self.value.word(8 * i)
    }
}

/// The reason why a program was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    pub errno: Errno,
    /// The last line of the verifier's log.
    pub log: String,
}

impl From<Errno> for LoadError {
    fn from(errno: Errno) -> Self {
        Self { errno, log: String::new() }
    }
}

/// The hook that a program runs at (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ProgramType {
    Probe = 2,
    Tracepoint = 5,
    Sample = 7,
    RawTracepoint = 17,
    Iterator = 26,
}

/// A program's instructions, and the types of its functions where it has callbacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BpfCode<'a> {
    pub(crate) runs: ProgramType,
    pub(crate) instructions: &'a [u64],
    pub(crate) licence: &'a CStr,
    pub(crate) types: Option<Types<'a>>,
    /// The BTF number of the function of the kernel that calls it, for an iterator.
    pub(crate) caller: Option<u32>,
}

/// BTF, and the start and type of each function (`struct bpf_func_info`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types<'a> {
    pub(crate) btf: BorrowedFd<'a>,
    pub(crate) functions: &'a [[u32; 2]],
}

pub(crate) fn btf(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    Attr::default().point(0, bytes.as_ptr()).with(4, bytes.len() as u32).make(BTF_LOAD)
}

/// Loads a program for events. The error has the last line of the verifier's log.
///
/// A signal interrupts the verifier with EAGAIN, and it begins again.
pub(crate) fn load(code: &BpfCode<'_>) -> Result<OwnedFd, LoadError> {
    let attr = || {
        let mut attr = Attr::of(&[code.runs as u32, code.instructions.len() as u32])
            .point(2, code.instructions.as_ptr())
            .point(4, code.licence.as_ptr());
        if let Some(types) = &code.types {
            attr = attr.with(18, types.btf.as_raw_fd() as u32).with(19, size_of::<[u32; 2]>() as u32);
            attr = attr.point(20, types.functions.as_ptr()).with(22, types.functions.len() as u32);
        }
        match code.caller {
            Some(caller) => attr.with(17, TRACE_ITER).with(27, caller),
            None => attr,
        }
    };
    until_uninterrupted(|| attr().make(PROG_LOAD)).map_err(|errno| {
        let mut log = vec![0u8; 256 << 10];
        // A late rejection writes a longer log. Newer kernels truncate it; the call fails either way.
        let _ = attr().with(6, 1).with(7, log.len() as u32).point(8, log.as_mut_ptr()).make(PROG_LOAD);
        let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]).into_owned();
        let last = text.lines().rev().find(|line| !line.starts_with("processed") && !line.is_empty());
        LoadError { errno, log: last.unwrap_or_default().to_owned() }
    })
}

/// Repeats a call that signals interrupt with EAGAIN, at most [`MAX_INTERRUPTIONS`] times.
fn until_uninterrupted<T>(call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let interrupted = (0..MAX_INTERRUPTIONS).map(|_| call()).find(|result| !matches!(result, Err(Errno::AGAIN)));
    interrupted.unwrap_or_else(call)
}

/// Attaches a program of type `RawTracepoint` to a tracepoint until the descriptor is closed.
pub(crate) fn attach(program: BorrowedFd<'_>, tracepoint: &CStr) -> Result<OwnedFd, Errno> {
    Attr::default().point(0, tracepoint.as_ptr()).with(2, program.as_raw_fd() as u32).make(RAW_TRACEPOINT_OPEN)
}

/// Returns a file from which the output of a program of type `Iterator` is read.
pub(crate) fn iterate(program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let link = Attr::of(&[program.as_raw_fd() as u32, 0, TRACE_ITER]).make(LINK_CREATE)?;
    // The file keeps the link.
    Attr::of(&[link.as_raw_fd() as u32]).make(ITER_CREATE)
}

/// Returns the number of instructions that the verifier processed; 0 before Linux 5.16.
pub(crate) fn verified(program: BorrowedFd<'_>) -> Result<u32, Errno> {
    // `struct bpf_prog_info` as 32-bit words.
    let mut info = [0u32; 64];
    let words = [program.as_raw_fd() as u32, size_of_val(&info) as u32];
    Attr::of(&words).point(2, info.as_mut_ptr()).call(OBJ_GET_INFO_BY_FD)?;
    Ok(info[54])
}

#[cfg(test)]
pub(crate) use tests::or_skipped;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;

    use super::*;

    /// Returns what was loaded, or `None` after reporting the test as skipped, if the kernel takes no program of this
    /// user. The test's name is that of its thread, which the harness sets.
    ///
    /// # Panics
    /// If the verifier rejects the program, or if every test must run (`PERFPROF_REQUIRE_ALL=1`).
    pub(crate) fn or_skipped<T>(loaded: Result<T, LoadError>) -> Option<T> {
        let error = match loaded {
            Ok(loaded) => return Some(loaded),
            Err(error) => error,
        };
        assert!(error.log.is_empty(), "the verifier rejects the program: {error:?}");
        let requires_all = std::env::var_os("PERFPROF_REQUIRE_ALL").is_some_and(|value| value == "1");
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a thread of a test");
        assert!(!requires_all, "{name} is skipped, and every test must run: {error:?}");
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: the kernel takes no such program: {:?}", error.errno);
        None
    }

    #[test]
    fn a_load_that_a_signal_interrupts_begins_again() {
        let calls = Cell::new(0);
        let load = |interruptions: u32, end: Result<u32, Errno>| {
            calls.set(0);
            until_uninterrupted(|| {
                calls.set(calls.get() + 1);
                if calls.get() <= interruptions { Err(Errno::AGAIN) } else { end }
            })
        };
        assert_eq!((load(0, Ok(7)), calls.get()), (Ok(7), 1));
        assert_eq!((load(3, Ok(7)), calls.get()), (Ok(7), 4));
        assert_eq!((load(3, Err(Errno::PERM)), calls.get()), (Err(Errno::PERM), 4), "other errors are final");
        assert_eq!(load(u32::MAX, Ok(7)), Err(Errno::AGAIN), "it ends");
    }
}
