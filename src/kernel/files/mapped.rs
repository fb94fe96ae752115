//! Files as bytes. A file that only root and we can change is mapped: it does not use our memory, and a part that is
//! truncated meanwhile reads as zeroes instead of ending the program. A file that others can change is copied, part by
//! part on first access, because Rust forbids bytes that change under a shared reference.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rustix::fs::fstatfs;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::read_file::{FileCopy, zeroes};
pub(crate) use super::read_file::{held as copied, set_room};

/// A file's bytes.
#[derive(Debug)]
pub struct Mapped {
    base: *const u8,
    len: usize,
    slot: &'static Slot,
    /// The copy that `base` belongs to; `None` where the file is mapped.
    copy: Option<Box<FileCopy>>,
}

// SAFETY: the mapping is only read, through shared references, and unmapped by its only owner.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing in it changes after it is made.
unsafe impl Sync for Mapped {}

/// An address range for the signal handler. A length of 0 is a free slot.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    copy: AtomicPtr<FileCopy>,
}

impl Slot {
    const fn free() -> Self {
        Self { start: AtomicUsize::new(0), len: AtomicUsize::new(0), copy: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

/// The maximum number of files at a time; the kernel allows a process some 65,000 mappings.
const MAX: usize = 16_384;

static SLOTS: [Slot; MAX] = [const { Slot::free() }; MAX];
/// FUSE: its server decides what a file contains, regardless of the owner that it shows (fuse(4)).
const FUSE: u32 = 0x6573_5546;

impl Mapped {
    /// Maps or copies a whole file. Fails also if too many files are mapped.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        guard();
        let meta = file.metadata()?;
        let len = usize::try_from(meta.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty"));
        }
        let slot = SLOTS
            .iter()
            .find(|s| s.len.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok())
            .ok_or_else(|| io::Error::other("too many files are open for symbols"))?;
        let made = if is_ours(file)? { map(file, len).map(|base| (base, None)) } else { copy(file, len) };
        let (base, copy) = made.inspect_err(|_| slot.len.store(0, Ordering::Release))?;
        let maker = copy.as_deref().map_or(std::ptr::null_mut(), |copy| std::ptr::from_ref(copy).cast_mut());
        slot.copy.store(maker, Ordering::Release);
        slot.start.store(base as usize, Ordering::Release);
        slot.len.store(len, Ordering::Release);
        Ok(Self { base, len, slot, copy })
    }

    /// Releases the pages that were read to the kernel's page cache, which serves them again on the next access. Pages
    /// of a copy stay, because they exist nowhere else.
    pub(crate) fn rest(&self) {
        // SAFETY: the range is this mapping, which is shared: only our view of its pages is dropped.
        let _ = unsafe { madvise(self.base.cast_mut().cast(), self.len, Advice::LinuxDontNeed) };
    }

    /// Returns whether parts were left out because the copies' memory limit was reached.
    pub(crate) fn is_cut(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| copy.is_cut())
    }
}

/// Returns whether only root and we can write a file. A user who opened it for writing before it was given to root is
/// not detected; that is root's responsibility.
fn is_ours(file: &File) -> io::Result<bool> {
    let meta = file.metadata()?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    // An access list that lets others write shows in the group's bits (acl(5)).
    Ok(owners.contains(&meta.uid()) && meta.mode() & 0o022 == 0 && fstatfs(file)?.f_type as u32 != FUSE)
}

/// Maps a file. Even root's files can be truncated, e.g. by an upgrade in place; `on_fault` handles that.
fn map(file: &File, len: usize) -> io::Result<*const u8> {
    // Shared, because the kernel puts uprobes into every private mapping of a file, this one too, and then counts the
    // semaphores of its static probes twice (valid_vma in kernel/events/uprobes.c).
    // SAFETY: a new mapping at an address of the kernel's choice; it aliases no memory of ours. Its bytes change only
    // if root or we change a file in place meanwhile, which gives no privileges to an attacker.
    let base = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
    Ok(base.cast())
}

fn copy(file: &File, len: usize) -> io::Result<(*const u8, Option<Box<FileCopy>>)> {
    let copied = Box::new(FileCopy::new(file, len)?);
    Ok((copied.base(), Some(copied)))
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: base and len are those of a mapping that lives as long as self and is never written through them. A
        // mapped file reads as zeroes past its end. Each part of a copy is complete before the first read of it
        // returns, and does not change afterwards.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.slot.start.store(0, Ordering::Release);
        self.slot.copy.store(std::ptr::null_mut(), Ordering::Release);
        if self.copy.is_none() {
            // SAFETY: the mapping is ours, and no reference to it outlives self.
            let _ = unsafe { munmap(self.base.cast_mut().cast(), self.len) };
        }
        self.slot.len.store(0, Ordering::Release);
    }
}

/// The handlers of SIGBUS and SIGSEGV before ours.
static BEFORE: [OnceLock<libc::sigaction>; 2] = [const { OnceLock::new() }; 2];
const SIGNALS: [libc::c_int; 2] = [libc::SIGBUS, libc::SIGSEGV];

fn guard() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
            // SAFETY: sigaction reads and fills structures of ours. The handler does only what is allowed in one: it
            // reads and writes atomics and makes system calls.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &raw mut old);
                let _ = before.set(old);
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = on_fault as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    });
}

fn serve(signal: libc::c_int, at: usize) -> bool {
    let holds = |slot: &&Slot| {
        let (start, len) = (slot.start.load(Ordering::Acquire), slot.len.load(Ordering::Acquire));
        start != 0 && at.wrapping_sub(start) < len
    };
    let Some(slot) = SLOTS.iter().find(holds) else { return false };
    let copy = slot.copy.load(Ordering::Acquire);
    if !copy.is_null() {
        // SAFETY: the faulting code holds a reference to these bytes, so their owner, which holds the `FileCopy` in a
        // box, lives until this returns.
        return signal == libc::SIGSEGV && unsafe { &*copy }.make(at);
    }
    signal == libc::SIGBUS && zeroes(at & !(rustix::param::page_size() - 1), rustix::param::page_size())
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() } as usize;
    if serve(signal, at) {
        return;
    }
    let before = BEFORE[usize::from(signal != SIGNALS[0])].get();
    let Some(before) = before else { return };
    // SAFETY: the previous handler is called as the kernel would call it. Without one, the default is restored, and the
    // fault occurs again and ends the program.
    unsafe {
        if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
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
    use std::os::unix::fs::{FileExt, PermissionsExt};

    #[test]
    fn a_file_that_is_cut_short_reads_as_zeroes() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&[7; 20_000]).expect("write");
        let mapped = Mapped::new(&file).expect("map");
        assert!(mapped.copy.is_none(), "it is ours");
        assert_eq!((mapped.len(), mapped[19_999]), (20_000, 7));
        mapped.rest();
        assert_eq!(mapped[5], 7);
        file.set_len(0).expect("cut");
        assert!(mapped.iter().all(|b| *b == 0));
        assert!(Mapped::new(&file).is_err());
    }

    fn shared(len: usize) -> File {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&vec![7; len]).expect("write");
        file.set_permissions(std::fs::Permissions::from_mode(0o666)).expect("mode");
        file
    }

    #[test]
    fn what_others_can_change_stays_as_it_was_looked_at() {
        const MB: usize = 1 << 20;
        let file = shared(4 * MB + 5);
        let mapped = Mapped::new(&file).expect("copy");
        assert!(mapped.copy.is_some() && mapped.len() == 4 * MB + 5);
        assert_eq!((mapped[0], mapped[4 * MB + 4]), (7, 7));
        file.write_all_at(&vec![9; 4 * MB + 5], 0).expect("changed");
        mapped.rest();
        assert_eq!((mapped[0], mapped[1], mapped[4 * MB + 4]), (7, 7, 7), "looked at before");
        assert_eq!((mapped[MB], mapped[MB - 1]), (9, 9), "looked at now");
        file.set_len(0).expect("cut");
        assert_eq!((mapped[1], mapped[MB], mapped[2 * MB]), (7, 9, 0));
        file.write_all_at(&vec![5; 4 * MB], 0).expect("again");
        assert_eq!((mapped[1], mapped[MB], mapped[2 * MB]), (7, 9, 0));
    }

    /// Several threads read while another one changes and truncates the file; each sees the same bytes on every read.
    #[test]
    fn all_see_the_same_of_what_changes() {
        let file = shared(2 << 20);
        let mapped = Mapped::new(&file).expect("copy");
        let done = std::sync::atomic::AtomicBool::new(false);
        let sums: Vec<u64> = std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in (0..=u8::MAX).cycle() {
                    let _ = file.write_all_at(&vec![round; 2 << 20], 0).and_then(|()| file.set_len(1 << 19));
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let sum = || mapped.iter().map(|b| u64::from(*b)).sum::<u64>();
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(move || [sum(), sum()])).collect();
            let sums = readers.into_iter().flat_map(|reader| reader.join().expect("read")).collect();
            done.store(true, Ordering::Relaxed);
            sums
        });
        assert_eq!(sums.len(), 8);
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    }
}
