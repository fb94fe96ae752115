//! The ring buffer that the kernel shares with us: `struct perf_event_mmap_page`, the page before the data, and the
//! barriers that its comments in the header prescribe.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::mm::ProtFlags;

use crate::kernel::shared::Shared;

const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// A mapped ring of records. Only its owner moves the tail.
#[derive(Debug)]
pub struct Ring {
    shared: Shared,
    page: usize,
    /// The bytes that were in the ring when the last drain freed them.
    filled: usize,
}

impl Ring {
    /// Maps one control page and `pages` data pages. EPERM means that the mlock limit is reached, EINVAL that the
    /// number of pages is not a power of two (perf_event_open(2), "MMAP layout").
    pub(crate) fn map(fd: BorrowedFd<'_>, pages: usize) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let shared = Shared::map(fd, page * (pages + 1), ProtFlags::READ | ProtFlags::WRITE, 0)?;
        Ok(Self { shared, page, filled: 0 })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.shared.len - self.page
    }

    /// Appends all pending bytes to `out` and frees their space for the kernel. Returns their number.
    pub(crate) fn drain(&mut self, out: &mut Vec<u8>) -> usize {
        let head = self.shared.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.shared.word(DATA_TAIL).load(Ordering::Relaxed);
        let size = self.capacity();
        let n = (head.wrapping_sub(tail) as usize).min(size);
        self.filled = n;
        if n == 0 {
            return 0;
        }
        let at = tail as usize & (size - 1);
        let first = n.min(size - at);
        // SAFETY: the mapping has `size` data bytes after its first page; `at < size`, and both pieces end inside it.
        // The kernel does not write between tail and head.
        let (a, b) = unsafe {
            let data = self.shared.base.add(self.page);
            (std::slice::from_raw_parts(data.add(at), first), std::slice::from_raw_parts(data, n - first))
        };
        out.extend_from_slice(a);
        out.extend_from_slice(b);
        let written = self.shared.word(DATA_HEAD).load(Ordering::Relaxed);
        self.filled = (written.wrapping_sub(tail) as usize).min(size);
        self.shared.word(DATA_TAIL).store(head, Ordering::Release);
        n
    }

    /// Returns the bytes that were free before the last drain. Records larger than that may be lost.
    pub(crate) fn room(&self) -> usize {
        self.capacity() - self.filled
    }

    #[cfg(test)]
    pub(crate) fn kernel_write(&self, bytes: &[u8]) {
        let head = self.shared.word(DATA_HEAD).load(Ordering::Relaxed);
        for (i, byte) in bytes.iter().enumerate() {
            let at = (head as usize + i) & (self.capacity() - 1);
            // SAFETY: `at` is inside the data area.
            unsafe { *self.shared.base.add(self.page + at) = *byte };
        }
        self.shared.word(DATA_HEAD).store(head + bytes.len() as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_record_across_the_end_comes_out_whole() {
        let fd = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        rustix::fs::ftruncate(&fd, 2 * rustix::param::page_size() as u64).expect("size");
        let mut ring = Ring::map(fd.as_fd(), 1).expect("map");
        let fill = vec![1u8; ring.capacity() - 4];
        let mut out = Vec::new();
        ring.kernel_write(&fill);
        assert_eq!(ring.drain(&mut out), fill.len());
        assert_eq!(ring.room(), 4);
        ring.kernel_write(&[1, 2, 3, 4, 5, 6, 7, 8]);
        out.clear();
        assert_eq!(ring.drain(&mut out), 8);
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(ring.drain(&mut out), 0);
        assert_eq!(ring.room(), ring.capacity());
    }
}
