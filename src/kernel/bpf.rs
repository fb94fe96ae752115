//! BPF programs that decide whether an event's sample is taken: loaded from instructions made in this
//! process, their parameters in a mapped array, so that changing them is a store (bpf(2)).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const MAP_CREATE: i64 = 0;
const PROG_LOAD: i64 = 5;
const MAP_TYPE_ARRAY: u32 = 2;
const F_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_PERF_EVENT: u32 = 7;

/// Parameters that one program may have.
pub const MAX_CONSTANTS: usize = 255;
/// Bytes of a bank: programs read one of two, so that a change is seen whole or not at all.
pub const BANK: usize = 8 * (MAX_CONSTANTS + 1);
/// Which bank is read stands before both.
pub const BANKS_AT: usize = 8;
const VALUE_SIZE: usize = 4096 * 2;

/// A program that is not loaded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// As the kernel takes them: opcode, registers, offset, immediate.
    pub instructions: Vec<u64>,
    /// Where the two halves of the parameters' address begin.
    pub map_at: usize,
    pub constants: Vec<u64>,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Loaded {
    fd: OwnedFd,
    parameters: Parameters,
}

/// Why a program was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    pub errno: Errno,
    /// The verifier's last words.
    pub log: String,
}

impl From<Errno> for LoadError {
    fn from(errno: Errno) -> Self {
        Self { errno, log: String::new() }
    }
}

impl Loaded {
    /// Loads a program (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN).
    pub fn new(program: &Program) -> Result<Self, LoadError> {
        let parameters = Parameters::new()?;
        parameters.store(&program.constants);
        let mut code = program.instructions.clone();
        let fd = parameters.fd.as_raw_fd() as u64;
        match code.get_mut(program.map_at) {
            Some(half) => *half = *half & 0xffff_ffff | fd << 32,
            None => return Err(Errno::INVAL.into()),
        }
        match load(&code, None) {
            Ok(fd) => Ok(Self { fd, parameters }),
            Err(errno) => {
                let mut log = vec![0; 64 << 10];
                let _ = load(&code, Some(&mut log));
                let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
                let text = String::from_utf8_lossy(&log[..end]).into_owned();
                let last = text.lines().rev().find(|l| !l.starts_with("processed") && !l.is_empty());
                Err(LoadError { errno, log: last.unwrap_or_default().to_owned() })
            }
        }
    }

    /// Gives it other parameters, from the next sample on.
    pub fn store(&self, constants: &[u64]) {
        self.parameters.store(constants);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The mapped array.
#[derive(Debug)]
struct Parameters {
    fd: OwnedFd,
    base: *mut u8,
}

// SAFETY: the mapping belongs to this value alone and is reached through atomics only.
unsafe impl Send for Parameters {}
// SAFETY: as above; stores from two threads could mix, but never leave the mapping.
unsafe impl Sync for Parameters {}

impl Parameters {
    fn new() -> Result<Self, Errno> {
        let mut attr = [0u32; 32];
        (attr[0], attr[1], attr[2], attr[3], attr[4]) = (MAP_TYPE_ARRAY, 4, VALUE_SIZE as u32, 1, F_MMAPABLE);
        let fd = bpf(MAP_CREATE, &mut attr)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh shared mapping of the array's only value, whose size is whole pages, at an
        // address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), VALUE_SIZE, prot, flags, &fd, 0)? };
        Ok(Self { fd, base: base.cast() })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= VALUE_SIZE);
        // SAFETY: all callers stay below two banks and one word, which fit into the mapping, and the
        // offset is a multiple of 8.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Fills the bank that is not read, then has it read.
    fn store(&self, constants: &[u64]) {
        let next = self.word(0).load(Ordering::Relaxed) & 1 ^ 1;
        let bank = BANKS_AT + next as usize * BANK;
        for (i, constant) in constants.iter().take(MAX_CONSTANTS).enumerate() {
            self.word(bank + 8 * i).store(*constant, Ordering::Relaxed);
        }
        self.word(0).store(next, Ordering::Release);
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`; no reference into it outlives a call.
        unsafe {
            let _ = munmap(self.base.cast(), VALUE_SIZE);
        }
    }
}

fn load(code: &[u64], log: Option<&mut Vec<u8>>) -> Result<OwnedFd, Errno> {
    let mut attr = [0u32; 32];
    let mut pointer = |at: usize, to: u64| (attr[at], attr[at + 1]) = (to as u32, (to >> 32) as u32);
    pointer(2, code.as_ptr() as u64);
    pointer(4, c"GPL".as_ptr() as u64);
    if let Some(log) = log {
        pointer(8, log.as_mut_ptr() as u64);
        (attr[6], attr[7]) = (1, log.len() as u32);
    }
    (attr[0], attr[1]) = (PROG_TYPE_PERF_EVENT, code.len() as u32);
    bpf(PROG_LOAD, &mut attr)
}

fn bpf(command: i64, attr: &mut [u32; 32]) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads `size` bytes of the attr, which is the array's length; what its
    // pointers lead to (instructions, licence, log) lives until the call is over.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    if fd < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    // SAFETY: the call succeeded, so this descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
