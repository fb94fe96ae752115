//! Builds a file's rows from its bytes. A thread builds those of large files, so that other files do not wait for them.

use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustc_hash::FxHashSet;

use super::cpu_budget::CpuBudget;
use super::process_events::WakingSender;
use crate::kernel::wakeup::WakeSignal;
use crate::symbols::bytes::Bytes;
use crate::symbols::elf::program::{ElfProgram, Segment};
use crate::symbols::unwind::rows::{self, NoRows, UnwindRows};

/// Hashes the content of files: many megabytes each. Randomly seeded, so that others cannot construct hash collisions.
pub(crate) type ContentHasher = hashbrown::DefaultHashBuilder;

/// The ID by which processes refer to a table.
pub(crate) type Id = u32;

#[derive(Debug)]
pub(crate) struct BuiltTable {
    /// Hash of the content that rows depend on. `None` if the file does not have a table.
    pub(crate) digest: Option<u64>,
    /// `None` if rows of the same content exist.
    pub(crate) rows: Option<Result<UnwindRows, NoRows>>,
    /// Segments with code. Offset and size in the file, and the difference from an offset to the addresses in rows.
    pub(crate) segments: Vec<(u64, u64, u64)>,
    /// A word that identifies the file in memory: its address, counted like those in rows, and its value.
    pub(crate) mark: Option<(u64, u64)>,
}

impl BuiltTable {
    /// Builds a file's rows, unless rows of the same content are known.
    pub(crate) fn of(bytes: &Bytes, hasher: &ContentHasher, is_known: impl FnOnce(u64) -> bool) -> Self {
        let program = ElfProgram::of(bytes).ok();
        let mark = program.as_ref().and_then(ElfProgram::mark);
        let digest = rows::contents(bytes).map(|parts| hasher.hash_one((parts, mark)));
        if digest.is_some_and(is_known) {
            return Self { digest, rows: None, segments: Vec::new(), mark: None };
        }
        let rows = rows::of(bytes);
        let base = rows.as_ref().ok().map(|rows| rows.base);
        let segments = program.zip(base).map_or_else(Vec::new, |(program, base)| code(&program, base));
        let mark = mark.zip(base).map(|((address, word), base)| (address.wrapping_sub(base), word));
        Self { digest, rows: Some(rows), segments, mark }
    }
}

#[derive(Debug)]
pub(crate) struct BuildRequest {
    pub(crate) id: Id,
    pub(crate) bytes: Bytes,
    /// Whether to build it even if one of the same content exists.
    pub(crate) anew: bool,
}

pub(crate) type Done = (BuildRequest, BuiltTable);

/// Starts the thread that builds tables of large files. It builds one after the other, the smallest first, until all
/// senders are dropped. Its priority is ordinary, because a file can take a second of CPU time; until its table is ready,
/// stacks are taken by frame pointers.
pub(crate) fn start(
    hasher: ContentHasher,
    wakeup: &Arc<WakeSignal>,
) -> io::Result<(Sender<BuildRequest>, Receiver<Done>)> {
    let ((jobs, wanted), (done, made)) = (unbounded::<BuildRequest>(), unbounded());
    let done = WakingSender::new(done, wakeup);
    let work = move || {
        let (mut budget, mut known) = (CpuBudget::new(), FxHashSet::default());
        let mut waiting: Vec<BuildRequest> = Vec::new();
        while let Some(job) = next(&mut waiting, &wanted) {
            let made = BuiltTable::of(&job.bytes, &hasher, |digest| !known.insert(digest) && !job.anew);
            job.bytes.rest();
            if !done.send((job, made)) {
                return;
            }
            budget.pause();
        }
    };
    crate::kernel::thread("large tables", work)?;
    Ok((jobs, made))
}

/// Waits for requests, and takes the one for the smallest file: it delays the others least. `None` at the end.
fn next(waiting: &mut Vec<BuildRequest>, wanted: &Receiver<BuildRequest>) -> Option<BuildRequest> {
    if waiting.is_empty() {
        waiting.push(wanted.recv().ok()?);
    }
    waiting.extend(wanted.try_iter());
    let smallest = (0..waiting.len()).min_by_key(|at| waiting[*at].bytes.len())?;
    Some(waiting.remove(smallest))
}

/// Returns the segments with code, in the format of [`BuiltTable`].
fn code(program: &ElfProgram<'_>, base: u64) -> Vec<(u64, u64, u64)> {
    let segments = program.segments.iter().filter(|segment| segment.is_code);
    let shift = |segment: &Segment| segment.address.wrapping_sub(segment.offset).wrapping_sub(base);
    segments.map(|segment| (segment.offset, segment.size, shift(segment))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_come_first() {
        let (jobs, wanted) = unbounded();
        for (id, size) in [(1, 30), (2, 10), (3, 20)] {
            jobs.send(BuildRequest { id, bytes: Bytes::from(vec![0; size]), anew: false }).expect("sent");
        }
        drop(jobs);
        let mut waiting = Vec::new();
        let ids: Vec<Id> = std::iter::from_fn(|| next(&mut waiting, &wanted)).map(|job| job.id).collect();
        assert_eq!(ids, [2, 3, 1]);
    }
}
