//! Reading of a recording's bytes, from a file at any offset or from a stream that may still be written.

use rustix::buffer::spare_capacity;
use std::fs::File;
use std::io::{self, Read};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

pub(crate) const PIECE: usize = 1 << 20;
const WAIT_NS: i64 = 100_000_000;

pub(crate) enum ByteSource {
    /// A part of a file.
    File { file: File, at: u64, end: u64 },
    /// Bytes in order, until their end or until `failed`.
    Stream { stream: Box<dyn Read + Send>, at: u64, failed: Option<io::Error> },
    /// A pipe whose writer may still be running. `ahead` was read before.
    Pipe { pipe: File, ahead: Vec<u8>, at: u64 },
}

/// The outcome of reading bytes, or records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillOutcome {
    Some,
    /// No data yet; more may come.
    NotYet,
    End,
}

impl ByteSource {
    /// Appends up to [`PIECE`] bytes to `out`.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>) -> io::Result<FillOutcome> {
        if self.empty_pipe().is_some() && wait(&[Some(self)])? == [false] {
            return Ok(FillOutcome::NotYet);
        }
        match self {
            Self::File { file, at, end } => {
                let want = (*end - *at).min(PIECE as u64) as usize;
                if want == 0 {
                    return Ok(FillOutcome::End);
                }
                let before = out.len();
                out.reserve(want);
                let n = rustix::io::retry_on_intr(|| rustix::io::pread(&*file, spare_capacity(out), *at))?.min(want);
                out.truncate(before + n);
                *at += n as u64;
                Ok(if n == 0 { FillOutcome::End } else { FillOutcome::Some })
            }
            Self::Stream { stream, at, failed } => {
                let (n, error) = read_some(stream, PIECE, out);
                *at += n as u64;
                *failed = failed.take().or(error);
                match (n, failed.take_if(|_| n == 0)) {
                    (0, Some(error)) => Err(error),
                    (0, None) => Ok(FillOutcome::End),
                    _ => Ok(FillOutcome::Some),
                }
            }
            Self::Pipe { pipe, ahead, at } => {
                if !ahead.is_empty() {
                    *at += ahead.len() as u64;
                    out.append(ahead);
                    return Ok(FillOutcome::Some);
                }
                let before = out.len();
                out.resize(before + (PIECE >> 4), 0);
                let n = pipe.read(&mut out[before..])?;
                out.truncate(before + n);
                *at += n as u64;
                Ok(if n == 0 { FillOutcome::End } else { FillOutcome::Some })
            }
        }
    }

    fn empty_pipe(&self) -> Option<&File> {
        match self {
            Self::Pipe { pipe, ahead, .. } if ahead.is_empty() => Some(pipe),
            _ => None,
        }
    }

    pub(crate) fn at(&self) -> u64 {
        match self {
            Self::File { at, .. } | Self::Stream { at, .. } | Self::Pipe { at, .. } => *at,
        }
    }

    /// Returns the end offset of a file's records; 0 when unknown.
    pub(crate) fn end(&self) -> u64 {
        match self {
            Self::File { end, .. } => *end,
            _ => 0,
        }
    }
}

/// Appends up to `most` bytes; bytes before an error are kept.
pub(crate) fn read_some(stream: &mut dyn Read, most: usize, out: &mut Vec<u8>) -> (usize, Option<io::Error>) {
    let before = out.len();
    let error = stream.take(most as u64).read_to_end(out).err();
    (out.len() - before, error)
}

/// Returns which readers have data or have ended; `None` stands for one with data. If none has, waits for all.
pub(crate) fn wait(readers: &[Option<&ByteSource>]) -> io::Result<Vec<bool>> {
    let pipes: Vec<Option<&File>> = readers.iter().map(|reader| (*reader)?.empty_pipe()).collect();
    let mut fds: Vec<PollFd<'_>> = pipes.iter().flatten().map(|pipe| PollFd::new(*pipe, PollFlags::IN)).collect();
    let patience = if fds.len() < readers.len() { 0 } else { WAIT_NS };
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: patience })) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    let mut polled = fds.iter().map(|fd| !fd.revents().is_empty());
    Ok(pipes.iter().map(|pipe| pipe.is_none() || polled.next().unwrap_or(true)).collect())
}
