//! The mappings of processes: /proc/PID/maps, and the files behind them.

use std::fs;
use std::io;
use std::sync::OnceLock;

use super::{content, has_other_threads, of_living};
use crate::kernel::procmap;

/// An executable mapping from a line of /proc/PID/maps (proc_pid_maps(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcMapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
    /// `PROT_*` bits.
    pub(crate) prot: u32,
    pub(crate) flags: u32,
    /// The file's path as the process named it, `[vdso]` and the like, or `//anon` for anonymous memory.
    pub(crate) name: Vec<u8>,
}

impl ProcMapping {
    fn of(query: &procmap::Query, name: &[u8]) -> Self {
        let &procmap::Query { start, end, kind, offset, inode, major, minor, .. } = query;
        let (prot, flags) = ((kind & 7) as u32, if kind & 8 != 0 { 1 } else { 2 });
        let name = if name.is_empty() { b"//anon".to_vec() } else { name.to_vec() };
        Self { start, end, offset, major, minor, inode, prot, flags, name }
    }
}

/// Returns the executable mappings of a process, in address order; empty when it has gone.
pub(crate) fn exec_maps(pid: i32) -> Vec<ProcMapping> {
    static VSYSCALL: OnceLock<Option<ProcMapping>> = OnceLock::new();
    let read = |tid| {
        let (file, mut maps) = (fs::File::open(format!("/proc/{tid}/maps"))?, Vec::new());
        procmap::each_executable(&file, |query, name| maps.push(ProcMapping::of(query, name)))?;
        Ok::<_, io::Error>(maps)
    };
    let mut maps = match read(pid) {
        Ok(maps) if !maps.is_empty() => maps,
        Err(error) if is_gone(&error) && !has_other_threads(pid) => return Vec::new(),
        // Without queries, or through another thread, by the text.
        _ => return exec_maps_by_text(pid),
    };
    // Queries leave out the page that the kernel has in all 64-bit processes.
    let vsyscall = VSYSCALL
        .get_or_init(|| exec_maps_by_text(std::process::id() as i32).pop_if(|map| map.end == 0xffff_ffff_ff60_1000));
    maps.extend(vsyscall.clone().filter(|_| maps.last().is_some_and(|last| last.end > 1 << 32)));
    maps
}

/// Returns whether a file of /proc/PID cannot be read because the thread has ended or has lost its memory.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

pub(super) fn exec_maps_by_text(pid: i32) -> Vec<ProcMapping> {
    let text = content(pid, "maps").unwrap_or_default();
    let has_code = |line: &&[u8]| memchr::memchr(b' ', line).is_some_and(|at| line.get(at + 3) == Some(&b'x'));
    text.split(|&b| b == b'\n').filter(has_code).filter_map(parse_maps_line).collect()
}

/// Returns all mappings of a process, in address order; empty when it has gone.
pub(crate) fn maps(pid: i32) -> Vec<ProcMapping> {
    let text = content(pid, "maps").unwrap_or_default();
    text.split(|&b| b == b'\n').filter_map(parse_maps_line).collect()
}

/// Parses a line of /proc/PID/maps; returns `None` if it is malformed.
pub fn parse_maps_line(line: &[u8]) -> Option<ProcMapping> {
    let mut rest = line;
    let mut field = || {
        let skip = rest.iter().take_while(|b| **b == b' ').count();
        let len = rest[skip..].iter().take_while(|b| **b != b' ').count();
        let (word, tail) = rest[skip..].split_at(len);
        rest = tail;
        std::str::from_utf8(word).ok().filter(|w| !w.is_empty())
    };
    let hex = |t: &str| u64::from_str_radix(t, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let perms = field()?.as_bytes();
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let (major, minor) = (hex(major)? as u32, hex(minor)? as u32);
    let inode = field()?.parse().ok()?;
    let name = rest.trim_ascii_start();
    let bit = |at: usize, ch: u8, bit: u32| if perms.get(at) == Some(&ch) { bit } else { 0 };
    Some(ProcMapping {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        major,
        minor,
        inode,
        prot: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
        flags: bit(3, b's', 1) | bit(3, b'p', 2),
        name: if name.is_empty() { b"//anon".to_vec() } else { name.to_vec() },
    })
}

/// Opens the file that a process has mapped at these addresses, even if its name has been deleted or reused.
pub(crate) fn map_file(pid: i32, start: u64, end: u64) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let open = |tid: i32| {
        let path = format!("/proc/{tid}/map_files/{start:x}-{end:x}");
        fs::File::options().read(true).custom_flags(libc::O_PATH).open(path)
    };
    of_living(pid, open)
}
