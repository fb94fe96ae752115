//! A copy of a file that others can change, in private memory, made in parts on first access. Finding names in a large
//! program reads only small parts of it, so copying all of it would be wasteful.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap, munmap};

const PART: usize = 64 << 10;

/// The memory budget of copies in bytes: used and maximum. Parts beyond it read as zeroes.
#[derive(Debug)]
struct Room {
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Room {
    const fn new(most: usize) -> Self {
        Self { held: AtomicUsize::new(0), most: AtomicUsize::new(most) }
    }

    fn take(&self) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let more = |held: usize| Some(held + PART).filter(|held| *held <= most);
        self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }
}

static ROOM: Room = Room::new(256 << 20);

pub(crate) fn held() -> usize {
    ROOM.held.load(Ordering::Relaxed)
}

pub(crate) fn set_room(bytes: usize) {
    ROOM.most.store(bytes, Ordering::Relaxed);
}

// States of a part.
const ABSENT: u8 = 0;
const COMING: u8 = 1;
const THERE: u8 = 2;
const LEFT_OUT: u8 = 3;

/// The copy: one piece of memory, mapped twice.
#[derive(Debug)]
pub(crate) struct FileCopy {
    file: File,
    len: usize,
    /// The mapping for reads. Parts that are not copied yet are inaccessible, so that the first access faults.
    base: *mut u8,
    /// The mapping for writes, which fills a part before it becomes readable.
    inner: *mut u8,
    parts: Box<[AtomicU8]>,
    cut: AtomicBool,
    room: &'static Room,
}

impl FileCopy {
    /// Creates a copy of a file's first bytes; does not read anything yet.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        Self::within(&ROOM, file, len)
    }

    fn within(room: &'static Room, file: &File, len: usize) -> io::Result<Self> {
        let file = file.try_clone()?;
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let inner = unsafe { mmap_anonymous(std::ptr::null_mut(), len, writable, flags) }?;
        // SAFETY: for a shared mapping, an old length of 0 requests a second mapping of the same memory (mremap(2));
        // the first stays where it is.
        let base = unsafe { mremap(inner, 0, len, MremapFlags::MAYMOVE) };
        let parts = (0..len.div_ceil(PART)).map(|_| AtomicU8::new(ABSENT)).collect();
        let (inner, base) = match base {
            Ok(base) => (inner.cast(), base.cast()),
            Err(error) => {
                // SAFETY: it was made above, and has no other references.
                let _ = unsafe { munmap(inner, len) };
                return Err(error.into());
            }
        };
        let copied = Self { file, len, base, inner, parts, cut: AtomicBool::new(false), room };
        // SAFETY: the second mapping is ours, and there is no reference to it yet.
        unsafe { mprotect(base.cast(), len, MprotectFlags::empty()) }?;
        Ok(copied)
    }

    pub(crate) fn base(&self) -> *const u8 {
        self.base
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Copies the part that contains an address. Runs in a signal handler, so it does not allocate or lock; it waits
    /// for another thread that copies the same part. Returns `false` if the access can never succeed.
    pub(crate) fn make(&self, at: usize) -> bool {
        let Some(part) = at.checked_sub(self.base as usize).map(|offset| offset / PART) else { return false };
        let Some(state) = self.parts.get(part) else { return false };
        loop {
            match state.compare_exchange(ABSENT, COMING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(COMING) => rustix::thread::sched_yield(),
                Err(_) => return true,
            }
        }
        let from = part * PART;
        let len = PART.min(self.len - from);
        let room = self.room.take();
        let there = room && self.fill(from, len);
        self.cut.fetch_or(!there, Ordering::Relaxed);
        let shown = there || zeroes(self.base as usize + from, len);
        state.store(if room { THERE } else { LEFT_OUT }, Ordering::Release);
        shown
    }

    /// Reads a part, then makes it readable as a whole. Bytes past the file's end stay zero.
    fn fill(&self, from: usize, len: usize) -> bool {
        // SAFETY: the range is in the mapping for writes. This part's state is COMING, so this thread alone accesses
        // it, and no reader can see it before mprotect.
        let place = unsafe { std::slice::from_raw_parts_mut(self.inner.add(from), len) };
        let mut done = 0;
        while done < len {
            match rustix::io::pread(self.file.as_fd(), &mut place[done..], (from + done) as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        // SAFETY: the pages are ours, and their content is final.
        unsafe { mprotect(self.base.add(from).cast(), len, MprotectFlags::READ) }.is_ok()
    }
}

impl Drop for FileCopy {
    fn drop(&mut self) {
        let held = self.parts.iter().filter(|state| state.load(Ordering::Acquire) == THERE).count();
        self.room.held.fetch_sub(held * PART, Ordering::AcqRel);
        // SAFETY: both mappings are ours, and no reference to them outlives self.
        let _ = unsafe { (munmap(self.base.cast(), self.len), munmap(self.inner.cast(), self.len)) };
    }
}

/// Replaces pages of a mapping of ours by zeroes, which take no memory.
pub(super) fn zeroes(start: usize, len: usize) -> bool {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: the pages are in a mapping of ours that is only read.
    unsafe { rustix::mm::mmap_anonymous(start as *mut _, len, ProtFlags::READ, flags) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_a_share_of_the_memory() {
        static SMALL: Room = Room::new(2 * PART);
        let file = tempfile::tempfile().expect("file");
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; 4 * PART], 0).expect("write");
        for _ in 0..2 {
            let copied = FileCopy::within(&SMALL, &file, 4 * PART).expect("copy");
            let first_of = |part: usize| {
                let at = copied.base() as usize + part * PART;
                assert!(copied.make(at) && copied.make(at + 1));
                // SAFETY: that part was made.
                unsafe { *copied.base().add(part * PART) }
            };
            assert_eq!(([first_of(3), first_of(0)], copied.is_cut()), ([7, 7], false));
            assert_eq!(([first_of(1), first_of(3)], copied.is_cut()), ([0, 7], true));
            assert!(!copied.make(copied.base() as usize + 4 * PART) && !copied.make(0));
        }
    }
}
