//! The ring buffer in which the BPF program requests tables of the processes that it walks (`BPF_MAP_TYPE_RINGBUF`,
//! Documentation/bpf/ringbuf.rst): a page with the consumer position, one with the producer position, and the records.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::mm::ProtFlags;

use crate::kernel::shared::Shared;

/// Bytes of the ring's records (walk.bpf.c has the same number), and of a record: a header and the process.
const SIZE: usize = 1 << 16;
const RECORD: usize = 16;
const BUSY: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Asks {
    fd: OwnedFd,
    /// The consumer page, which we write.
    read_up_to: Shared,
    /// The producer page and the records, which the kernel writes.
    written: Shared,
    page: usize,
}

impl Asks {
    pub(super) fn map(fd: OwnedFd) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let read_up_to = Shared::map(fd.as_fd(), page, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        // The kernel maps the records a second time after these; that copy is not needed.
        let written = Shared::map(fd.as_fd(), page + SIZE, ProtFlags::READ, page as u64)?;
        Ok(Self { fd, read_up_to, written, page })
    }

    /// Appends the processes that requested tables since the last call to `out`, by the kernel's numbers.
    pub(crate) fn take(&mut self, out: &mut Vec<u32>) {
        let position = self.read_up_to.word(0);
        let end = self.written.word(0).load(Ordering::Acquire);
        let mut at = position.load(Ordering::Relaxed);
        while at < end {
            let record = self.page + (at as usize & (SIZE - 1) & !(RECORD - 1));
            if self.written.half(record).load(Ordering::Acquire) & BUSY != 0 {
                break;
            }
            out.push(self.written.word(record + 8).load(Ordering::Relaxed) as u32);
            at += RECORD as u64;
        }
        position.store(at, Ordering::Release);
    }
}

impl AsFd for Asks {
    /// Returns the ring's descriptor, which can be read while requests wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
