//! The ring in which the program asks for the tables of processes as it walks them (`BPF_MAP_TYPE_RINGBUF`,
//! Documentation/bpf/ringbuf.rst): a page with how far it was read, one with how far it was written, and its records.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of the ring's records (walk.bpf.c has the same number), and of one: a header, and who asks.
const SIZE: usize = 1 << 16;
const RECORD: usize = 16;
/// The bit of a header whose record is still being written.
const BUSY: u32 = 1 << 31;

/// The mapped ring. Dropping it unmaps it.
#[derive(Debug)]
pub(crate) struct Asks {
    fd: OwnedFd,
    /// The page that is ours to write.
    read_up_to: *mut u8,
    /// The page and the records that are the kernel's.
    written: *mut u8,
    page: usize,
}

// SAFETY: the mappings belong to this value alone and are reached through atomics only.
unsafe impl Send for Asks {}

impl Asks {
    /// Maps a ring.
    pub(super) fn map(fd: OwnedFd) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh shared mapping of the ring's first page, at an address of the kernel's choice.
        let read_up_to = unsafe { mmap(std::ptr::null_mut(), page, both, MapFlags::SHARED, &fd, 0)? };
        // SAFETY: as above, of the page behind it and of the records, which the kernel shows once.
        let written =
            unsafe { mmap(std::ptr::null_mut(), page + SIZE, ProtFlags::READ, MapFlags::SHARED, &fd, page as u64) };
        let written = written.inspect_err(|_| {
            // SAFETY: this is the mapping made above, and nobody else has it.
            unsafe {
                let _ = munmap(read_up_to, page);
            }
        })?;
        Ok(Self { fd, read_up_to: read_up_to.cast(), written: written.cast(), page })
    }

    /// Waits until somebody asks, or for so many seconds.
    pub(crate) fn wait(&self, seconds: i64) {
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        // Where it fails, the next wait or the rings of samples bring what was asked.
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout));
    }

    /// The processes that asked since the last time, by the kernel's numbers, added to `out`.
    pub(crate) fn take(&mut self, out: &mut Vec<u32>) {
        let end = self.written_to().load(Ordering::Acquire);
        let mut at = self.position().load(Ordering::Relaxed);
        while at < end {
            let record = self.page + (at as usize & (SIZE - 1) & !(RECORD - 1));
            // SAFETY: a record of 16 bytes, aligned, that lies in the mapping as a whole.
            let (header, who) = unsafe {
                (
                    AtomicU32::from_ptr(self.written.add(record).cast()),
                    AtomicU64::from_ptr(self.written.add(record + 8).cast()),
                )
            };
            if header.load(Ordering::Acquire) & BUSY != 0 {
                break;
            }
            out.push(who.load(Ordering::Relaxed) as u32);
            at += RECORD as u64;
        }
        self.position().store(at, Ordering::Release);
    }

    fn position(&self) -> &AtomicU64 {
        // SAFETY: the first word of a page that is mapped as long as self lives.
        unsafe { AtomicU64::from_ptr(self.read_up_to.cast()) }
    }

    fn written_to(&self) -> &AtomicU64 {
        // SAFETY: as above; it is only loaded, since the page is the kernel's.
        unsafe { AtomicU64::from_ptr(self.written.cast()) }
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        // SAFETY: these are the mappings made in `map`; no reference into them outlives a borrow of self.
        unsafe {
            let _ = munmap(self.read_up_to.cast(), self.page);
            let _ = munmap(self.written.cast(), self.page + SIZE);
        }
    }
}
