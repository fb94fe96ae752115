//! Memory shared with the kernel, accessed through atomics.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) base: *mut u8,
    pub(super) len: usize,
}

// SAFETY: this value alone owns the mapping, and accesses it through atomics only.
unsafe impl Send for Shared {}
// SAFETY: as above; stores from two threads could mix, but never leave the mapping.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps `len` bytes of a descriptor, from an offset on.
    pub(super) fn map(fd: BorrowedFd<'_>, len: usize, prot: ProtFlags, offset: u64) -> Result<Self, Errno> {
        // SAFETY: a new shared mapping at an address of the kernel's choice; it replaces no mapping of ours.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, offset)? };
        Ok(Self { base: base.cast(), len })
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.len, "there is no word at {at} of {} bytes", self.len);
        // SAFETY: the word lies in the mapping, which is whole pages and is mapped as long as self lives.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Returns the first half of such a word.
    pub(super) fn half(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as above; the alignment for eight bytes also suits an atomic of four.
        unsafe { AtomicU32::from_ptr(self.word(at).as_ptr().cast()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`; no reference into it outlives a borrow of self.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}
