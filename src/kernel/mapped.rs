//! Files mapped for reading. Nothing of a large file is held in memory of our own; a file that is
//! cut short meanwhile reads as zeroes instead of ending the program.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A file's bytes as they were mapped.
#[derive(Debug)]
pub struct Mapped {
    base: *const u8,
    len: usize,
    slot: &'static Slot,
}

// SAFETY: the mapping is only read, through shared references, and unmapped by the only owner.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing in it changes after it is made.
unsafe impl Sync for Mapped {}

/// Where a mapping is, for the signal handler. A length of 0 is a free slot.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
}

/// More files at a time than this are refused; the kernel allows a process some 65,000 mappings.
const MAX: usize = 16_384;

static SLOTS: [Slot; MAX] = [const { Slot { start: AtomicUsize::new(0), len: AtomicUsize::new(0) } }; MAX];
/// What was there before us for SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

impl Mapped {
    /// Maps a whole file.
    ///
    /// # Errors
    /// Those of mmap(2), and when too many files are mapped.
    pub fn new(file: &File) -> io::Result<Self> {
        guard();
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty"));
        }
        let slot = SLOTS
            .iter()
            .find(|s| s.len.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok())
            .ok_or_else(|| io::Error::other("too many files are open for their symbols"))?;
        // Shared, since the kernel puts uprobes into every private mapping of a file, this one too, and
        // counts the semaphores of its static probes twice then (valid_vma in kernel/events/uprobes.c).
        // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing of ours.
        let base = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let base = base.inspect_err(|_| slot.len.store(0, Ordering::Release))?;
        slot.start.store(base as usize, Ordering::Release);
        slot.len.store(len, Ordering::Release);
        Ok(Self { base: base.cast(), len, slot })
    }

    /// Gives the pages that were read back to the kernel's cache; they come again when they are needed.
    pub fn rest(&self) {
        // SAFETY: the range is this mapping; pages that are dropped are read from the file again.
        let _ = unsafe { madvise(self.base.cast_mut().cast(), self.len, Advice::LinuxDontNeed) };
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: base and len are those of a readable mapping that lives as long as self; what lies
        // behind the file's end is given zeroes by the handler.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.slot.start.store(0, Ordering::Release);
        // SAFETY: the mapping is ours, and no reference to it outlives self.
        let _ = unsafe { munmap(self.base.cast_mut().cast(), self.len) };
        self.slot.len.store(0, Ordering::Release);
    }
}

/// Has SIGBUS in our mappings answered with zeroes, once for the process.
fn guard() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: sigaction reads and fills structures of ours; the handler does only what is allowed
        // in one: it reads atomics and calls mmap.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut old);
            let _ = BEFORE.set(old);
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_bus as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(libc::SIGBUS, &raw const new, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_bus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() } as usize;
    let page = rustix::param::page_size();
    let ours = SLOTS.iter().any(|s| {
        let (start, len) = (s.start.load(Ordering::Acquire), s.len.load(Ordering::Acquire));
        start != 0 && at.wrapping_sub(start) < len
    });
    if ours {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let addr = (at & !(page - 1)) as *mut c_void;
        // SAFETY: the page lies in a mapping of ours that is only read; zeroes take its place.
        if unsafe { rustix::mm::mmap_anonymous(addr, page, ProtFlags::READ, flags) }.is_ok() {
            return;
        }
    }
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: the handler that was there is called as the kernel would have; without one the default
    // is restored, and the fault comes again and ends the program.
    unsafe {
        if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        } else if before.sa_flags & libc::SA_SIGINFO != 0 {
            let call: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(before.sa_sigaction);
            call(signal, info, context);
        } else {
            let call: extern "C" fn(libc::c_int) = std::mem::transmute(before.sa_sigaction);
            call(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_is_cut_short_reads_as_zeroes() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&[7; 20_000]).expect("write");
        let mapped = Mapped::new(&file).expect("map");
        assert_eq!((mapped.len(), mapped[19_999]), (20_000, 7));
        mapped.rest();
        assert_eq!(mapped[5], 7);
        file.set_len(0).expect("cut");
        assert!(mapped.iter().all(|b| *b == 0));
        assert!(Mapped::new(&file).is_err());
    }
}
