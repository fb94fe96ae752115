//! The ring in which the program asks for the tables of processes as it walks them (`BPF_MAP_TYPE_RINGBUF`,
//! Documentation/bpf/ringbuf.rst): a page with how far it was read, one with how far it was written, and its records.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use crate::kernel::shared::Shared;

/// Bytes of the ring's records (walk.bpf.c has the same number), and of one: a header, and who asks.
const SIZE: usize = 1 << 16;
const RECORD: usize = 16;
/// The bit of a header whose record is still being written.
const BUSY: u32 = 1 << 31;

/// The mapped ring.
#[derive(Debug)]
pub(crate) struct Asks {
    fd: OwnedFd,
    /// The page that is ours to write.
    read_up_to: Shared,
    /// The page and the records that are the kernel's.
    written: Shared,
    page: usize,
}

impl Asks {
    /// Maps a ring.
    pub(super) fn map(fd: OwnedFd) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let read_up_to = Shared::map(fd.as_fd(), page, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        // Behind it: the kernel shows the records once.
        let written = Shared::map(fd.as_fd(), page + SIZE, ProtFlags::READ, page as u64)?;
        Ok(Self { fd, read_up_to, written, page })
    }

    /// Waits until somebody asks, or for so many seconds.
    pub(crate) fn wait(&self, seconds: i64) {
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        // Where it fails, the next wait or the rings of samples bring what was asked.
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout));
    }

    /// The processes that asked since the last time, by the kernel's numbers, added to `out`.
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
