//! The memory of processes. A process can delay the reader of its memory for ever (userfaultfd(2)).

use std::fs;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::{ProcMapping, exec_maps, of_living};
use crate::kernel::in_time::in_time;

/// How long a read waits for a process that delays it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Returns our own vDSO, which all processes of this boot share.
pub(crate) fn vdso() -> io::Result<Vec<u8>> {
    let pid = std::process::id() as i32;
    let map = exec_maps(pid).into_iter().find(|m| m.name == b"[vdso]").ok_or(io::ErrorKind::NotFound)?;
    // It is there at once, and one that a busy machine gave too late would be missing for the whole session.
    memory(pid, map.start, size_of(&map))
}

/// Reads a mapping of a process, or its first part where it is large.
pub(crate) fn memory_of(pid: i32, map: &ProcMapping) -> io::Result<Vec<u8>> {
    memory_in_time(pid, map.start, size_of(map))
}

/// The number of bytes that are read of a mapping.
fn size_of(map: &ProcMapping) -> usize {
    const MOST: u64 = 1 << 20;
    map.end.saturating_sub(map.start).min(MOST) as usize
}

/// Returns up to eight bytes of a process's memory at an address as a number; `None` where it cannot be read.
pub(crate) fn peek(pid: i32, address: u64, len: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    let len = len.min(8);
    bytes.get_mut(..len)?.copy_from_slice(&memory(pid, address, len).ok()?);
    Some(u64::from_ne_bytes(bytes))
}

pub(crate) fn memory(pid: i32, address: u64, len: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    of_living(pid, |tid| {
        let mut bytes = vec![0; len];
        open_memory(tid)?.read_exact_at(&mut bytes, address)?;
        Ok(bytes)
    })
}

/// Returns a part of a process's memory like [`memory`]. Fails if the process delays its reader.
pub(crate) fn memory_in_time(pid: i32, address: u64, len: usize) -> io::Result<Vec<u8>> {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    in_time(&RUNNING, PATIENCE, move || memory(pid, address, len))
}

/// Returns up to `most` bytes of a thread's stack, up to the end of its mapping. Fails if the process delays its reader.
pub(crate) fn stack_in_time(pid: i32, address: u64, most: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    in_time(&RUNNING, PATIENCE, move || {
        of_living(pid, |tid| {
            let mut bytes = vec![0; most];
            let n = open_memory(tid)?.read_at(&mut bytes, address)?;
            bytes.truncate(n);
            Ok(bytes)
        })
    })
}

/// Opens the memory of a process, of the program that it executes now.
pub(crate) fn open_memory(pid: i32) -> io::Result<fs::File> {
    fs::File::open(format!("/proc/{pid}/mem"))
}
