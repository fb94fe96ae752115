//! Builds a file's rows from its bytes. Two threads build those that no sample waits for: one those of large files, so
//! that other files, such as the C library of an interpreter, do not wait for them.

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

/// Files of this size or more are built on a thread of their own: that of an interpreter takes much longer than its
/// libraries, which have the first frames of its threads.
const LARGE: usize = 4 << 20;

/// Starts the threads that build tables, one for large files. Each builds one after the other, the smallest first, until
/// all senders are dropped. Their priority is ordinary, because a file can take a second of CPU time; until its table is
/// ready, stacks are taken by frame pointers.
pub(crate) fn start(
    hasher: ContentHasher,
    wakeup: &Arc<WakeSignal>,
) -> io::Result<(Sender<BuildRequest>, Receiver<Done>)> {
    let ((jobs, wanted), (done, made)) = (unbounded::<BuildRequest>(), unbounded());
    let (large, large_wanted) = unbounded::<BuildRequest>();
    let mut builder = TableBuilder::new(large_wanted, hasher.clone(), WakingSender::new(done.clone(), wakeup));
    crate::kernel::thread("large tables", move || builder.run(None))?;
    let mut builder = TableBuilder::new(wanted, hasher, WakingSender::new(done, wakeup));
    crate::kernel::thread("small tables", move || builder.run(Some(&large)))?;
    Ok((jobs, made))
}

/// One of the threads that build tables. Files of the same content have the same size, and so the same thread.
struct TableBuilder {
    wanted: Receiver<BuildRequest>,
    waiting: Vec<BuildRequest>,
    hasher: ContentHasher,
    done: WakingSender<Done>,
}

impl TableBuilder {
    fn new(wanted: Receiver<BuildRequest>, hasher: ContentHasher, done: WakingSender<Done>) -> Self {
        Self { wanted, waiting: Vec::new(), hasher, done }
    }

    /// Builds tables, and leaves large files to the thread of this channel.
    fn run(&mut self, large: Option<&Sender<BuildRequest>>) {
        let (mut budget, mut known) = (CpuBudget::new(), FxHashSet::default());
        while let Some(job) = self.next(large) {
            let made = BuiltTable::of(&job.bytes, &self.hasher, |digest| !known.insert(digest) && !job.anew);
            job.bytes.rest();
            if !self.done.send((job, made)) {
                return;
            }
            budget.pause();
        }
    }

    /// Waits for requests, and takes the one for the smallest file: it delays the others least. `None` at the end.
    fn next(&mut self, large: Option<&Sender<BuildRequest>>) -> Option<BuildRequest> {
        loop {
            if self.waiting.is_empty() {
                self.waiting.push(self.wanted.recv().ok()?);
            }
            self.waiting.extend(self.wanted.try_iter());
            if let Some(large) = large {
                // The receiver is dropped only at the end.
                self.waiting.extract_if(.., |job| is_large(&job.bytes)).for_each(|job| _ = large.send(job));
            }
            if let Some(smallest) = (0..self.waiting.len()).min_by_key(|at| self.waiting[*at].bytes.len()) {
                return Some(self.waiting.remove(smallest));
            }
        }
    }
}

fn is_large(bytes: &Bytes) -> bool {
    bytes.len() >= LARGE || rows::is_slow(bytes)
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

    fn builder(wanted: Receiver<BuildRequest>) -> TableBuilder {
        let wakeup = Arc::new(WakeSignal::new().expect("a descriptor"));
        TableBuilder::new(wanted, ContentHasher::default(), WakingSender::new(unbounded().0, &wakeup))
    }

    fn order(jobs: &Sender<BuildRequest>, all: &[(Id, usize)]) {
        for (id, size) in all {
            jobs.send(BuildRequest { id: *id, bytes: Bytes::from(vec![0; *size]), anew: false }).expect("sent");
        }
    }

    #[test]
    fn small_files_come_first() {
        let (jobs, wanted) = unbounded();
        order(&jobs, &[(1, 30), (2, 10), (3, 20)]);
        drop(jobs);
        let mut builder = builder(wanted);
        let ids: Vec<Id> = std::iter::from_fn(|| builder.next(None)).map(|job| job.id).collect();
        assert_eq!(ids, [2, 3, 1]);
    }

    #[test]
    fn a_library_does_not_wait_for_an_interpreter() {
        let ((jobs, wanted), (large, large_wanted)) = (unbounded(), unbounded());
        // The interpreter is requested first, and alone.
        order(&jobs, &[(1, LARGE)]);
        let mut builder = builder(wanted);
        order(&jobs, &[(2, LARGE - 1)]);
        assert_eq!(builder.next(Some(&large)).map(|job| job.id), Some(2));
        order(&jobs, &[(3, LARGE + 1), (4, 20)]);
        drop(jobs);
        let ids: Vec<Id> = std::iter::from_fn(|| builder.next(Some(&large))).map(|job| job.id).collect();
        let left: Vec<Id> = large_wanted.try_iter().map(|job| job.id).collect();
        assert_eq!((ids, left), (vec![4], vec![1, 3]));
    }
}
