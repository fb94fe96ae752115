//! `perf_event_open` and its ioctls behind a small trait, so that tests can script every errno.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) use rustix::io::Errno;

use super::attr::{Attr, Flag, SW_DUMMY, TYPE_SOFTWARE};
use super::ring::Ring;
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::bpf::{FilterProgram, LoadedProgram};

pub(crate) const FLAG_CLOEXEC: u64 = perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC as u64;
/// `PERF_FLAG_PID_CGROUP`: the pid argument is a cgroup directory's descriptor.
pub(crate) const FLAG_CGROUP: u64 = perf_event_open_sys::bindings::PERF_FLAG_PID_CGROUP as u64;

/// A request to an open event, perf_event_open(2) "perf_event ioctl calls".
#[derive(Debug)]
pub enum Ioctl<'a> {
    /// Starts or resumes counting and sampling.
    Enable,
    /// Pauses; the count is kept.
    Disable,
    /// Sends this event's records to the other event's ring.
    SetOutput(BorrowedFd<'a>),
    /// Returns the event's unique id, as in samples.
    Id,
    /// Sets the filter expression of a tracepoint; possible once.
    SetFilter(&'a CStr),
    /// Sets a BPF program that decides whether a sample is taken; possible once.
    SetBpf(BorrowedFd<'a>),
}

/// Totals of one event, from `read(2)` with `TOTAL_TIME_*` and `LOST` in its read format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The count; it covers only [`Counts::running_ns`] if events shared the hardware's counters.
    pub value: u64,
    /// Time for which it was enabled, scheduled on the hardware or not.
    pub enabled_ns: u64,
    /// Time for which it was scheduled on the hardware.
    pub running_ns: u64,
    /// Samples lost since the event was opened; 0 on kernels before 6.0.
    pub lost: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.value = self.value.wrapping_add(other.value);
        self.enabled_ns += other.enabled_ns;
        self.running_ns += other.running_ns;
        self.lost += other.lost;
    }
}

/// The system calls of the live source.
pub trait Sys: Send {
    /// Opens an event; `cgroup`, if given, replaces `pid`.
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno>;
    /// Makes a request; returns the id for [`Ioctl::Id`], and 0 for all others.
    fn ioctl(&self, fd: BorrowedFd<'_>, request: Ioctl<'_>) -> Result<u64, Errno>;
    /// Maps a ring of `pages` data pages (a power of two) onto an event.
    fn map(&self, fd: BorrowedFd<'_>, pages: usize) -> Result<Ring, Errno>;
    /// Reads an event's totals; those that its `read_format` lacks are 0. In a group's read, it is found by its id.
    fn counts(&self, fd: BorrowedFd<'_>, read_format: u64, id: u64) -> Result<Counts, Errno>;
    /// Loads a program for [`Ioctl::SetBpf`]. An accepted sample jumps to the first program of the array `next`.
    fn load(&self, program: &FilterProgram, next: Option<BorrowedFd<'_>>) -> Result<LoadedProgram, LoadError>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealSys;

impl Sys for RealSys {
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        let mut bytes = attr.encode();
        let (pid, flags) = match cgroup {
            Some(dir) => (dir.as_raw_fd(), FLAG_CLOEXEC | FLAG_CGROUP),
            None => (pid, FLAG_CLOEXEC),
        };
        let group = group.map_or(-1, |fd| fd.as_raw_fd());
        // SAFETY: the kernel reads `size` bytes of the attr, which is the array's length, and writes at most its own
        // size back into the same place on E2BIG.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, bytes.as_mut_ptr(), pid, cpu, group, flags) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the call succeeded, so this descriptor is new and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    fn ioctl(&self, fd: BorrowedFd<'_>, request: Ioctl<'_>) -> Result<u64, Errno> {
        use perf_event_open_sys::ioctls;
        let raw = fd.as_raw_fd();
        let mut id = 0u64;
        // SAFETY: `raw` is an open descriptor for the duration of this call, and each argument has the type in
        // perf_event_open(2): a number, a descriptor, a NUL-terminated string, or a pointer to a u64 that lives until
        // the end of this function.
        let status = unsafe {
            match request {
                Ioctl::Enable => ioctls::ENABLE(raw, 0),
                Ioctl::Disable => ioctls::DISABLE(raw, 0),
                Ioctl::SetOutput(owner) => ioctls::SET_OUTPUT(raw, owner.as_raw_fd() as _),
                Ioctl::Id => ioctls::ID(raw, &mut id),
                Ioctl::SetBpf(program) => ioctls::SET_BPF(raw, program.as_raw_fd() as u32),
                Ioctl::SetFilter(text) => ioctls::SET_FILTER(raw, text.as_ptr() as *mut _),
            }
        };
        if status < 0 { Err(last_errno()) } else { Ok(id) }
    }

    fn map(&self, fd: BorrowedFd<'_>, pages: usize) -> Result<Ring, Errno> {
        Ring::map(fd, pages)
    }

    fn load(&self, program: &FilterProgram, next: Option<BorrowedFd<'_>>) -> Result<LoadedProgram, LoadError> {
        LoadedProgram::new(program, next)
    }

    fn counts(&self, fd: BorrowedFd<'_>, read_format: u64, id: u64) -> Result<Counts, Errno> {
        // Room for a group of 84.
        let mut bytes = [0u8; 2048];
        let n = rustix::io::read(fd, &mut bytes)?;
        Ok(decode_counts(&bytes[..n], read_format, id))
    }
}

pub(crate) fn decode_counts(bytes: &[u8], format: u64, id: u64) -> Counts {
    use super::attr::read_format as f;
    let mut words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()));
    if format & f::GROUP != 0 {
        let [_, enabled_ns, running_ns] = [true; 3].map(|_| words.next().unwrap_or(0));
        let words: Vec<u64> = words.collect();
        let member = words.chunks_exact(if format & f::LOST != 0 { 3 } else { 2 }).find(|member| member[1] == id);
        return member.map_or(Counts::default(), |member| Counts {
            value: member[0],
            enabled_ns,
            running_ns,
            lost: member.get(2).copied().unwrap_or(0),
        });
    }
    let mut next = |on: bool| if on { words.next().unwrap_or(0) } else { 0 };
    let value = next(true);
    let enabled_ns = next(format & f::TOTAL_TIME_ENABLED != 0);
    let running_ns = next(format & f::TOTAL_TIME_RUNNING != 0);
    next(format & f::ID != 0);
    let lost = next(format & f::LOST != 0);
    Counts { value, enabled_ns, running_ns, lost }
}

/// Checks whether the system call is reachable: `Ok` when the kernel answers a null attr with EFAULT, else the errno
/// (EPERM or ENOSYS under a container's seccomp profile).
pub(crate) fn probe() -> Result<(), Errno> {
    // SAFETY: the kernel refuses a null attr before it reads or creates anything.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::null::<u8>(), 0, -1, -1, 0u64) };
    match (fd, last_errno()) {
        (0.., _) | (_, Errno::FAULT) => Ok(()),
        (_, errno) => Err(errno),
    }
}

/// Checks whether the kernel grants an event of this process's user code, which needs no rights on unpatched kernels.
pub(crate) fn own_code() -> Result<(), Errno> {
    let mut attr = Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, ..Attr::default() };
    attr.set(Flag::ExcludeKernel, true);
    RealSys.open(&attr, 0, -1, None, None).map(drop)
}

/// Checks whether the kernel grants an event of a whole CPU, including kernel code.
pub(crate) fn whole_cpu() -> Result<(), Errno> {
    let attr = Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, ..Attr::default() };
    RealSys.open(&attr, -1, 0, None, None).map(drop)
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_read_format() {
        let bytes: Vec<u8> = [7u64, 100, 50, 3, 9].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(
            decode_counts(&bytes, 1 | 2 | 4 | 16, 3),
            Counts { value: 7, enabled_ns: 100, running_ns: 50, lost: 9 }
        );
        assert_eq!(decode_counts(&bytes, 4, 3), Counts { value: 7, ..Counts::default() });
        assert_eq!(decode_counts(&[], 31, 3), Counts::default());
        let group: Vec<u8> = [2u64, 100, 50, 7, 3, 9, 8, 4, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
        let of = |id: u64| decode_counts(&group, 1 | 2 | 4 | 8 | 16, id);
        assert_eq!([3, 4, 5].map(|id| (of(id).value, of(id).lost)), [(7, 9), (8, 0), (0, 0)]);
        assert_eq!(of(4).enabled_ns, 100);
    }
}
