//! Processes in /proc: threads, names, owners, executable mappings. A process may end between any two reads, so its
//! absence is a normal result here.

mod mappings;
mod memory;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};

use super::file_error::at;
use super::machine::host::{ProcFile, ticks_per_second};
use super::thread_cpu_ns;
pub use mappings::{ProcMapping, parse_maps_line};
pub(crate) use mappings::{exec_maps, map_file, maps};
pub(crate) use memory::{memory, memory_in_time, memory_of, open_memory, peek, stack_in_time, vdso};

/// Reads a process through one of its threads: the first thread, or another one if the first has ended
/// (pthread_exit(3)) and its entry in /proc no longer shows memory and files.
fn of_living<T>(pid: i32, read: impl Fn(i32) -> io::Result<T>) -> io::Result<T> {
    read(pid).or_else(|error| {
        let others = threads(pid).into_iter().filter(|tid| *tid != pid);
        others.into_iter().find_map(|tid| read(tid).ok()).ok_or(error)
    })
}

/// Reads a file of /proc of usually less than a KiB, which the kernel returns as a whole in one call: half the calls of
/// [`fs::read`], for files that are read for each process or thread again and again.
pub(crate) fn read_short(path: &str) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = vec![0; 1 << 10];
    let used = rustix::io::read(&file, &mut text)?;
    let is_whole = used < text.len();
    text.truncate(used);
    if !is_whole {
        fs::File::from(file).read_to_end(&mut text)?;
    }
    Ok(text)
}

/// Reads a file of /proc/PID that is empty only after the process has lost its memory.
fn content(pid: i32, file: &str) -> io::Result<Vec<u8>> {
    of_living(pid, |tid| {
        let text = fs::read(format!("/proc/{tid}/{file}"))?;
        if text.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(text) }
    })
}

/// Returns the control groups of a process (proc_pid_cgroup(5)); empty when it has gone.
pub(crate) fn cgroups(pid: i32) -> Vec<u8> {
    content(pid, "cgroup").unwrap_or_default()
}

/// Returns when a process was started, in nanoseconds since 1970, with a resolution of 10 ms.
pub(crate) fn started(pid: i32) -> Option<u64> {
    let since_boot = stat(pid)?.start.checked_mul(1_000_000_000 / ticks_per_second())?;
    super::boot_wall_ns().checked_add(since_boot)
}

/// Returns whether a process exists that may have threads in addition to the first.
pub(crate) fn has_other_threads(pid: i32) -> bool {
    has_threads(CWD, &format!("/proc/{pid}/task"))
}

/// The same by the process's directory of threads, which has two links, and one for each thread (proc_task_getattr in
/// fs/proc/base.c).
fn has_threads(at: impl AsFd, path: &str) -> bool {
    statat(at, path, AtFlags::empty()).is_ok_and(|tasks| tasks.st_nlink != 3)
}

pub(crate) fn comm(pid: i32, tid: i32) -> Option<Vec<u8>> {
    name(CWD, &format!("/proc/{pid}/task/{tid}/comm"), &mut [0; MAX_COMM]).map(<[u8]>::to_vec)
}

/// Returns the first bytes of a process's command line. Its words end with NULs, unless the process overwrote it.
pub(crate) fn cmdline(pid: i32) -> Option<Vec<u8>> {
    let file = openat(CWD, format!("/proc/{pid}/cmdline"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; MAX_CMDLINE];
    let len = rustix::io::read(&file, &mut bytes[..]).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

/// Bytes of a command line that suffice to distinguish processes of one name.
const MAX_CMDLINE: usize = 1024;

const MAX_COMM: usize = 256;

/// Reads a thread's name from its file with a single read.
fn name<'a>(at: impl AsFd, path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let len = rustix::io::read(&file, &mut *buffer).ok()?;
    let name = buffer.get(..len)?;
    Some(name.strip_suffix(b"\n").unwrap_or(name))
}

/// Passes the names of all processes to `tell`, then those of their other threads, until `patience` is over. Thousands
/// of sleeping processes cost little: each name is one file, read once, and only processes with several threads have
/// their thread list read.
pub(crate) fn comms(patience: Duration, mut tell: impl FnMut(i32, &[u8])) {
    let until = Instant::now() + patience;
    let Ok(proc) = directory("/proc") else { return };
    let buffer = &mut [0; MAX_COMM];
    let mut several = Vec::new();
    for pid in processes() {
        if Instant::now() > until {
            return;
        }
        if let Some(name) = name(&proc, &format!("{pid}/comm"), buffer) {
            tell(pid, name);
        }
        several.extend(has_threads(&proc, &format!("{pid}/task")).then_some(pid));
    }
    let others = several.iter().flat_map(|pid| threads(*pid).into_iter().map(|tid| (*pid, tid)));
    for (pid, tid) in others.filter(|(pid, tid)| tid != pid).take_while(|_| Instant::now() < until) {
        if let Some(name) = name(&proc, &format!("{pid}/task/{tid}/comm"), buffer) {
            tell(tid, name);
        }
    }
}

/// Returns the threads of a process, in order of tid. Without procfs only its first thread is known.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let mut found: Vec<i32> = numbers(&format!("/proc/{pid}/task")).collect();
    if found.is_empty() && !is_mounted() && exists(pid) {
        found.push(pid);
    }
    found.sort_unstable();
    found
}

/// Fields of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) state: u8,
    /// The process that started it, or that adopted it.
    pub(crate) parent: i32,
    /// The start in clock ticks since boot, which distinguishes processes that reuse a number.
    pub(crate) start: u64,
}

pub(crate) fn stat(tid: i32) -> Option<ProcessStat> {
    parse_stat(&read_short(&format!("/proc/{tid}/stat")).ok()?)
}

fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    // The name before it may contain spaces and parentheses.
    let rest = text.get(memchr::memrchr(b')', text)? + 1..)?;
    let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    // Fields 3 and 4 are read; the start is field 22.
    let start = fields.nth(17)?.parse().ok()?;
    Some(ProcessStat { state, parent, start })
}

/// Returns whether the kernel has a task with this number, of any user.
fn exists(tid: i32) -> bool {
    let task = rustix::process::Pid::from_raw(tid).filter(|_| tid > 0);
    let asked = task.map(rustix::process::test_kill_process);
    matches!(asked, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

/// Returns whether a thread still runs: it exists and is not a zombie.
pub(crate) fn is_running(tid: i32) -> bool {
    if !is_mounted() {
        return exists(tid);
    }
    stat(tid).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X' | b'x'))
}

/// Returns the base name of the executable of a process; `None` for kernel threads and where access is denied.
pub(crate) fn exe_name(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

pub(crate) fn processes() -> Vec<i32> {
    let mut found: Vec<i32> = processes_as_listed().collect();
    found.sort_unstable();
    found
}

/// Returns the processes in the order of the directory listing, which is by pid, without reading it whole first.
pub(crate) fn processes_as_listed() -> impl Iterator<Item = i32> {
    numbers("/proc")
}

fn numbers(dir: &str) -> impl Iterator<Item = i32> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok())
}

pub(crate) const NOT_MOUNTED: &str = "/proc is not mounted: processes, their files and the kernel's functions have no \
    names; mount -t proc proc /proc";

pub(crate) fn is_mounted() -> bool {
    fs::symlink_metadata("/proc/self").is_ok()
}

/// Returns whether PIDs here are those of the outermost PID namespace. Without /proc, assumes that they are.
pub(crate) fn sees_all_processes() -> bool {
    // PROC_PID_INIT_INO (include/linux/proc_ns.h).
    const OUTERMOST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").map_or_else(|_| !is_mounted(), |name| name.as_os_str() == OUTERMOST)
}

/// Returns our PID namespace by device and inode, for BPF programs; `None` if it is the outermost or unknown.
pub(crate) fn pid_namespace() -> Option<(u64, u64)> {
    if sees_all_processes() {
        return None;
    }
    let of = rustix::fs::stat("/proc/self/ns/pid").ok()?;
    // The kernel's encoding of a device number (include/linux/kdev_t.h).
    let device = u64::from(rustix::fs::major(of.st_dev)) << 20 | u64::from(rustix::fs::minor(of.st_dev));
    Some((device, of.st_ino))
}

pub(crate) fn is_there(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Reads /proc/PID/status (proc_pid_status(5)).
pub(crate) fn status(pid: i32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/status"))
}

/// Returns the number of a process or thread in its innermost PID namespace.
pub(crate) fn own_number(pid: i32) -> i32 {
    let status = status(pid).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
    line.and_then(|l| l.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

/// Returns the thread of a process with a number in the process's innermost PID namespace, looking at no more than
/// `most` threads.
pub(crate) fn thread_by_own_number(pid: i32, number: i32, most: usize) -> Option<i32> {
    if own_number(pid) == pid {
        return Some(number);
    }
    threads(pid).into_iter().take(most).find(|tid| own_number(*tid) == number)
}

pub(crate) fn root(pid: i32) -> io::Result<fs::File> {
    of_living(pid, |tid| directory(format!("/proc/{tid}/root")))
}

/// Opens a directory for relative lookups.
pub fn directory(path: impl AsRef<std::path::Path>) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(path)
}

pub(crate) fn link(path: &str) -> Option<String> {
    Some(fs::read_link(path).ok()?.to_string_lossy().into_owned())
}

/// Returns the open files of all processes, for a limited CPU time: a busy machine takes longer.
pub(crate) fn open_files(patience: Duration) -> Vec<(i32, i32, String)> {
    let begun = thread_cpu_ns();
    let has_time = || u128::from(thread_cpu_ns().saturating_sub(begun)) < patience.as_nanos();
    let mut found = Vec::new();
    // The newest ones may end first.
    for pid in processes().into_iter().rev().take_while(|_| has_time()) {
        found.extend(descriptor_links(pid).take_while(|_| has_time()).map(|(fd, link)| (pid, fd, link)));
    }
    found
}

/// Iterates over the descriptors of a process's open files, and their links.
pub(crate) fn descriptor_links(pid: i32) -> impl Iterator<Item = (i32, String)> {
    numbers(&format!("/proc/{pid}/fd")).filter_map(move |fd| Some((fd, link(&format!("/proc/{pid}/fd/{fd}"))?)))
}

/// The running kernel's memory, an ELF file (Documentation/filesystems/proc.rst).
pub(crate) fn kcore() -> io::Result<fs::File> {
    fs::File::open("/proc/kcore")
}

/// Returns the loaded modules, one per line; empty for a kernel without modules.
pub(crate) fn modules() -> String {
    fs::read_to_string("/proc/modules").unwrap_or_default()
}

/// Returns the number of reads of this thread; `None` if the kernel does not count them.
#[cfg(test)]
pub(crate) fn own_reads() -> Option<usize> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse().ok())
}

fn status_number(pid: &str, key: &str, radix: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    u64::from_str_radix(line.split_whitespace().next()?, radix).ok()
}

/// Returns the real user id of a process.
pub(crate) fn uid(pid: i32) -> Option<u32> {
    status_number(&pid.to_string(), "Uid", 10).and_then(|v| u32::try_from(v).ok())
}

pub(crate) fn parent(pid: i32) -> Option<i32> {
    status_number(&pid.to_string(), "PPid", 10).and_then(|v| i32::try_from(v).ok())
}

/// Returns the open descriptors of a process.
pub(crate) fn descriptors(pid: i32) -> impl Iterator<Item = i32> + use<> {
    numbers(&format!("/proc/{pid}/fd"))
}

/// Returns the size of a process's table of descriptors, which is at least the number of open ones.
pub(crate) fn descriptor_slots(pid: i32) -> Option<u64> {
    status_number(&pid.to_string(), "FDSize", 10)
}

/// Returns the device and inode of a process's executable.
pub(crate) fn executable(pid: i32) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((file.dev(), file.ino()))
}

pub(crate) fn tgid(tid: i32) -> Option<i32> {
    status_number(&tid.to_string(), "Tgid", 10).and_then(|v| i32::try_from(v).ok())
}

/// Returns the number of the machine's context switches since its start.
pub(crate) fn context_switches() -> Option<u64> {
    let text = read_at_once(std::path::Path::new("/proc/stat")).ok()?;
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"ctxt "))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Returns our effective capabilities as a bit set (capabilities(7)).
pub(crate) fn effective_caps() -> u64 {
    rustix::thread::capabilities(None).map_or(0, |sets| sets.effective.bits())
}

/// Returns our seccomp mode: 0 none, 2 filter.
pub(crate) fn seccomp_mode() -> u64 {
    status_number("self", "Seccomp", 10).unwrap_or(0)
}

/// Returns our resident memory in bytes.
pub fn own_rss() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|t| t.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Returns a user's id, from a number or a name in /etc/passwd.
pub(crate) fn user_id(name: &str) -> Option<u32> {
    if let Ok(uid) = name.parse() {
        return Some(uid);
    }
    let text = fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

pub(crate) fn user_names() -> Vec<String> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines().filter_map(|l| Some(l.split_once(':')?.0.to_owned())).collect()
}

/// Returns a number under /proc/sys, such as `kernel/perf_event_paranoid`.
pub(crate) fn sysctl(name: &str) -> Option<i64> {
    fs::read_to_string(PathBuf::from("/proc/sys").join(name)).ok()?.trim().parse().ok()
}

/// Reads a small tracefs file. Some of them return all their content to the first read and nothing to the next, so the
/// first read must be large; the standard library's has 32 bytes.
pub(crate) fn read_at_once(path: &std::path::Path) -> io::Result<Vec<u8>> {
    Ok(ProcFile::new(path.to_owned(), 1 << 16).read().map_err(at(path))?.to_vec())
}

pub(crate) fn line(path: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path).map_err(at(path.as_ref()))?.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests;
