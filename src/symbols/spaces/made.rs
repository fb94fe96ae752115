//! The making of a file's table: its rows, of its bytes alone, and the thread that makes those of large files, so that
//! nobody waits for them who has none.

use std::hash::{BuildHasher, RandomState};
use std::io;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustc_hash::FxHashSet;

use super::allowance::Allowance;
use crate::symbols::bytes::Bytes;
use crate::symbols::program::{Program, Segment};
use crate::symbols::unwind_rows::{self, NoRows, UnwindRows};

/// A table, as processes hold on to it.
pub(crate) type Id = u32;

/// What is made of a file.
#[derive(Debug)]
pub(crate) struct Made {
    /// What its rows depend on, in a number; `None` where it has no table.
    pub(crate) digest: Option<u64>,
    /// `None` where there are some of the same contents.
    pub(crate) rows: Option<Result<UnwindRows, NoRows>>,
    /// Of the segments with code: offset and size in the file, and what is to be added to an offset to come to what
    /// rows count.
    pub(crate) segments: Vec<(u64, u64, u64)>,
}

impl Made {
    /// Makes a file's rows, unless some of the same contents are known.
    pub(crate) fn of(bytes: &Bytes, hasher: &RandomState, is_known: impl FnOnce(u64) -> bool) -> Self {
        let digest = unwind_rows::contents(bytes).map(|parts| hasher.hash_one(parts));
        if digest.is_some_and(is_known) {
            return Self { digest, rows: None, segments: Vec::new() };
        }
        let rows = unwind_rows::of(bytes);
        let segments = rows.as_ref().map_or_else(|_| Vec::new(), |rows| code(bytes, rows.base));
        Self { digest, rows: Some(rows), segments }
    }
}

/// A table to be made.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: Id,
    pub(crate) bytes: Bytes,
    /// It is made even if one of the same contents was.
    pub(crate) anew: bool,
}

/// A table that was made, and what for.
pub(crate) type Done = (Job, Made);

/// Starts the thread that makes the tables of large files, one after the other, until nobody asks any more.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn start(hasher: RandomState) -> io::Result<(Sender<Job>, Receiver<Done>)> {
    let ((jobs, wanted), (done, made)) = (unbounded::<Job>(), unbounded());
    let work = move || {
        let (mut allowance, mut known) = (Allowance::new(), FxHashSet::default());
        for job in wanted {
            let made = Made::of(&job.bytes, &hasher, |digest| !known.insert(digest) && !job.anew);
            job.bytes.rest();
            if done.send((job, made)).is_err() {
                return;
            }
            allowance.pause();
        }
    };
    crate::kernel::thread("large tables", work)?;
    Ok((jobs, made))
}

/// Segments with code, as [`Made`] has them.
fn code(bytes: &Bytes, base: u64) -> Vec<(u64, u64, u64)> {
    let Ok(program) = Program::of(bytes) else { return Vec::new() };
    let segments = program.segments.iter().filter(|segment| segment.is_code);
    let shift = |segment: &Segment| segment.address.wrapping_sub(segment.offset).wrapping_sub(base);
    segments.map(|segment| (segment.offset, segment.size, shift(segment))).collect()
}
