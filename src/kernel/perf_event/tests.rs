//! A scripted kernel for unit tests: it can fail any open with any errno.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::attr::{Attr, read_format};
use super::ring::Ring;
use super::sys::{Counts, Errno, Ioctl, Sys};
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::bpf::{FilterProgram, LoadedProgram};

/// Decides an open from (attr, pid, cpu).
pub(crate) type Script = Box<dyn Fn(&Attr, i32, i32) -> Result<(), Errno> + Send>;

pub(crate) struct FakeSys {
    script: Script,
    max_pages: usize,
    budget: Mutex<usize>,
    filters: Result<(), Errno>,
    programs: LoadError,
    hits: Option<AtomicU64>,
    lost: u64,
    pub(crate) log: std::sync::Arc<Mutex<Vec<String>>>,
}

impl FakeSys {
    pub(crate) fn new(script: impl Fn(&Attr, i32, i32) -> Result<(), Errno> + Send + 'static) -> Self {
        Self {
            script: Box::new(script),
            max_pages: usize::MAX,
            budget: Mutex::new(usize::MAX),
            filters: Ok(()),
            programs: Errno::PERM.into(),
            hits: None,
            lost: 0,
            log: Default::default(),
        }
    }

    /// Refuses rings of more data pages than this with EPERM, like the mlock limit.
    pub(crate) fn max_pages(mut self, pages: usize) -> Self {
        self.max_pages = pages;
        self
    }

    /// Limits the pages of all rings together, like the kernel's limit for a user.
    pub(crate) fn budget(mut self, pages: usize) -> Self {
        self.budget = Mutex::new(pages);
        self
    }

    pub(crate) fn refuse_filters(mut self, errno: Errno) -> Self {
        self.filters = Err(errno);
        self
    }

    pub(crate) fn refuse_programs(mut self, error: LoadError) -> Self {
        self.programs = error;
        self
    }

    /// Makes every event hit a billion times between two reads.
    pub(crate) fn flooded(mut self) -> Self {
        self.hits = Some(AtomicU64::new(0));
        self
    }

    /// Makes every event report this number of lost records, if its read format has them.
    pub(crate) fn losing(mut self, lost: u64) -> Self {
        self.lost = lost;
        self
    }

    fn note(&self, line: String) {
        self.log.lock().push(line);
    }
}

impl Sys for FakeSys {
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        _group: Option<BorrowedFd<'_>>,
        _cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        let verdict = (self.script)(attr, pid, cpu);
        self.note(format!("open {}:{} pid {pid} cpu {cpu} {verdict:?}", attr.kind, attr.config));
        verdict?;
        rustix::fs::memfd_create("event", rustix::fs::MemfdFlags::CLOEXEC)
    }

    fn ioctl(&self, fd: BorrowedFd<'_>, request: Ioctl<'_>) -> Result<u64, Errno> {
        match request {
            Ioctl::Id => Ok(1000 + fd.as_raw_fd() as u64),
            Ioctl::SetFilter(text) if self.filters.is_err() => {
                self.note(format!("filter {} is refused", text.to_string_lossy()));
                self.filters.map(|()| 0)
            }
            other => {
                self.note(match other {
                    Ioctl::Enable => "enable".to_owned(),
                    Ioctl::Disable => "disable".to_owned(),
                    Ioctl::SetFilter(text) => format!("filter {}", text.to_string_lossy()),
                    _ => "set_output".to_owned(),
                });
                Ok(0)
            }
        }
    }

    fn map(&self, fd: BorrowedFd<'_>, pages: usize) -> Result<Ring, Errno> {
        self.note(format!("map {pages}"));
        if pages > self.max_pages {
            return Err(Errno::PERM);
        }
        let mut budget = self.budget.lock();
        *budget = budget.checked_sub(pages + 1).ok_or(Errno::PERM)?;
        rustix::fs::ftruncate(fd, ((pages + 1) * rustix::param::page_size()) as u64)?;
        Ring::map(fd.as_fd(), pages)
    }

    fn load(&self, _program: &FilterProgram, _next: Option<BorrowedFd<'_>>) -> Result<LoadedProgram, LoadError> {
        self.note("load".to_owned());
        Err(self.programs.clone())
    }

    fn counts(&self, _fd: BorrowedFd<'_>, format: u64, _id: u64) -> Result<Counts, Errno> {
        let lost = if format & read_format::LOST != 0 { self.lost } else { 0 };
        let Some(hits) = &self.hits else { return Ok(Counts { lost, ..Counts::default() }) };
        self.note("counts".to_owned());
        Ok(Counts { value: hits.fetch_add(1_000_000_000, Ordering::Relaxed), lost, ..Counts::default() })
    }
}
