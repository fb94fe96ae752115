//! The threads that look up names and lines, so that samples and screens do not wait for files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustc_hash::FxHashMap;

use super::Notice;
use super::shares::ThreadMemory;
use crate::kernel::ThreadPriority;
use crate::profile::FrameId;
use crate::query::annotate::AnnotatedFunction;
use crate::session::{Dso, DsoId};
use crate::symbols::SymbolOptions;
use crate::symbols::jit::reuse::CodeChange;
use crate::symbols::lines::{InlinedFrame, Lines};
use crate::symbols::resolver::Findings;
use crate::symbols::{NameForm, Problem, Resolver, Symbolized, code};

/// A frame to look up.
#[derive(Clone, Debug)]
pub struct WantedName {
    /// The frame's id, for the result.
    pub frame: FrameId,
    /// The DSO in which to look.
    pub dso: Arc<Dso>,
    /// The address in the DSO's symbol table; for a caller, that of the call.
    pub at: u64,
    /// How many of the newest samples were in the DSO.
    pub samples: u32,
}

/// Frames to name; `epoch` is that of the profile whose ids they have.
#[derive(Clone, Debug, Default)]
pub struct LookupJob {
    /// The profile's epoch of the ids; results for other epochs are useless.
    pub epoch: u64,
    /// The form of names from now on.
    pub(crate) form: Option<NameForm>,
    /// A file with new data, which is looked up again.
    pub(crate) anew: Option<Arc<Dso>>,
    /// The frames, in any order: those of files that were read already are looked up first.
    pub frames: Vec<WantedName>,
}

/// A function to annotate.
#[derive(Debug)]
pub struct ListJob {
    pub(crate) target: AnnotatedFunction,
    pub(crate) dso: Arc<Dso>,
    pub(crate) at: u64,
    pub(crate) reply: Sender<Notice>,
}

/// Names that were found.
#[derive(Debug, Default)]
pub struct LookedUp {
    /// The epoch of the job.
    pub epoch: u64,
    /// Frame, DSO and address of the request, and the function; `None` if no function contains the address.
    pub frames: Vec<(FrameId, DsoId, u64, Option<Symbolized>)>,
    /// Addresses that have the same function as one of the frames, so that they need no lookup.
    pub(crate) same: Vec<(FrameId, Range<u64>)>,
    /// Facts about files that the lookups found.
    pub found: Findings,
    /// DSOs with more data that has not been read yet.
    pub behind: Vec<DsoId>,
    /// JIT code that replaces other code: later samples belong to it.
    pub(crate) changes: Vec<(DsoId, CodeChange)>,
}

impl LookedUp {
    /// Returns names alone, each with its frame, DSO and address.
    pub fn of(epoch: u64, frames: Vec<(FrameId, DsoId, u64, Option<Symbolized>)>) -> Self {
        Self { epoch, frames, ..Self::default() }
    }
}

/// Functions and lines that were found, innermost first.
#[derive(Debug)]
pub struct FoundLines {
    /// The epoch of the job.
    pub epoch: u64,
    /// Frame and DSO of the request, and the functions at the address; empty without debug information.
    pub frames: Vec<(FrameId, DsoId, Vec<InlinedFrame>)>,
    /// Errors of DSOs.
    pub problems: Vec<(DsoId, Problem)>,
}

/// Both ends of the threads' channels. The threads end when the job senders are dropped.
#[derive(Debug)]
pub struct Symbolizer {
    /// Frames to name.
    pub jobs: Sender<LookupJob>,
    /// Functions to annotate; each job has the channel of its answer.
    pub lists: Sender<ListJob>,
    /// Names that were found, in portions.
    pub names: Receiver<LookedUp>,
    /// Frames whose inlined functions and lines are requested.
    pub line_jobs: Sender<LookupJob>,
    /// Inlined functions and lines that were found, in portions.
    pub lines: Receiver<FoundLines>,
}

/// Results are sent in portions, so that the first names do not wait for the last.
const PORTION: usize = 512;
/// Lines that are looked up between two checks of the thread's priority.
const AT_ONCE: usize = 16;
/// The interval of reading more of files with unread data.
const PATIENCE: Duration = Duration::from_millis(5);
/// The interval of checking for replaced code.
const CODE_PATIENCE: Duration = Duration::from_millis(200);
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
struct Waiting {
    epoch: u64,
    frames: BTreeMap<DsoId, Vec<WantedName>>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds a job. Returns the waiting frames if their ids are of an older epoch, and so useless.
    fn add(&mut self, job: LookupJob) -> Option<(u64, Vec<WantedName>)> {
        let before = std::mem::replace(&mut self.epoch, job.epoch);
        let stale = if before == job.epoch { BTreeMap::new() } else { std::mem::take(&mut self.frames) };
        for wanted in job.frames {
            self.frames.entry(wanted.dso.id).or_default().push(wanted);
        }
        (!stale.is_empty()).then(|| (before, stale.into_values().flatten().collect()))
    }

    /// Returns the frames to look up next: all whose file has been read, or else those of a file to read: the kernel's
    /// first, then the file with the most samples for its size, and the one with the most waiting frames. With that
    /// order, samples wait the shortest time for names (W. E. Smith, Various optimizers for single-stage production,
    /// 1956): a program with hundreds of megabytes of symbols does not delay the names of libc.
    fn portion(&mut self, has_read: impl Fn(&Dso) -> bool) -> Vec<WantedName> {
        let mut portion = Vec::new();
        let rank = |list: &[WantedName]| {
            let dso = &list[0].dso;
            // Later requests count newer samples.
            let samples = list.last().map_or(0, |newest| u64::from(newest.samples));
            let for_size = samples * 1024 / (1 + code_mib(dso));
            (has_read(dso), dso.kind.is_kernel(), for_size, list.len(), std::cmp::Reverse(dso.id))
        };
        while portion.len() < PORTION {
            let Some((id, ready)) =
                self.frames.iter().map(|(id, list)| (rank(list), *id)).max().map(|(rank, id)| (id, rank.0))
            else {
                break;
            };
            if !(ready || portion.is_empty()) {
                break;
            }
            if let Some(list) = self.frames.get_mut(&id) {
                let some = list.len().min(PORTION - portion.len());
                portion.extend(list.drain(..some));
                if list.is_empty() {
                    self.frames.remove(&id);
                }
            }
            if !ready {
                break;
            }
        }
        portion
    }
}

/// Returns the size of a DSO's code in MiB as a process has mapped it: reading its names takes about in proportion.
fn code_mib(dso: &Dso) -> u64 {
    dso.via.map_or(0, |(_, start, end)| end.saturating_sub(start) >> 20)
}

fn named(resolver: &mut Resolver, epoch: u64, portion: &[WantedName]) -> LookedUp {
    resolver.prepare(portion.iter().map(|w| (&*w.dso, w.at)));
    let frames = portion.iter().map(|w| (w.frame, w.dso.id, w.at, resolver.resolve(&w.dso, w.at))).collect();
    let mut same: Vec<(FrameId, Range<u64>)> = Vec::new();
    let mut known: FxHashMap<DsoId, Range<u64>> = FxHashMap::default();
    for w in portion {
        if known.get(&w.dso.id).is_some_and(|range| range.contains(&w.at)) {
            continue;
        }
        if let Some(range) = resolver.same(&w.dso, w.at) {
            known.insert(w.dso.id, range.clone());
            same.push((w.frame, range));
        }
    }
    let found = std::mem::take(&mut resolver.found);
    let mut behind: Vec<DsoId> = portion.iter().filter(|w| resolver.is_behind(&w.dso)).map(|w| w.dso.id).collect();
    behind.dedup();
    LookedUp { epoch, frames, same, found, behind, changes: resolver.jits.take_changes() }
}

/// Starts the threads, which report their memory in `held`.
pub fn spawn(options: SymbolOptions, held: Arc<ThreadMemory>) -> std::io::Result<Symbolizer> {
    let (jobs, job_rx) = unbounded::<LookupJob>();
    let (name_tx, names) = unbounded();
    let of_lines = (options.clone(), held.clone());
    let (lists, list_rx) = unbounded::<ListJob>();
    let work = move || {
        let mut resolver = Resolver::new(options.clone());
        // Lines for stacks get the larger part of the budget, because they are always needed.
        let mut lines = Lines::new(SymbolOptions { budget: options.budget / 2, ..options.clone() });
        let (mut waiting, mut priority) = (Waiting::default(), ThreadPriority::ahead());
        loop {
            priority.keep();
            held.tables.store(resolver.memory(), Ordering::Relaxed);
            held.listings.store(lines.memory(), Ordering::Relaxed);
            // Files with unread data are read while there are no requests, and between portions.
            let patience = match waiting.is_empty() {
                false => Duration::ZERO,
                true if resolver.are_behind() => PATIENCE,
                true if resolver.jits.follow_code() => CODE_PATIENCE,
                true => IDLE,
            };
            let job = crossbeam_channel::select! {
                default(patience) => {
                    let (epoch, portion) = (waiting.epoch, waiting.portion(|dso| resolver.has_read(dso)));
                    if !portion.is_empty() && name_tx.send(named(&mut resolver, epoch, &portion)).is_err() {
                        return;
                    }
                    resolver.read_on();
                    let changes = resolver.jits.take_changes();
                    let told = LookedUp { epoch: waiting.epoch, changes, ..LookedUp::default() };
                    if !told.changes.is_empty() && name_tx.send(told).is_err() {
                        return;
                    }
                    continue;
                }
                recv(job_rx) -> job => match job {
                    Ok(job) => job,
                    Err(_) => return,
                },
                recv(list_rx) -> job => match job {
                    Ok(ListJob { target, dso, at, reply }) => {
                        let listing = code::list(&dso, at, &mut resolver, &mut lines, &options).map(Arc::new);
                        let _ = reply.send(Notice::Listing(target, listing));
                        continue;
                    }
                    Err(_) => return,
                },
            };
            if let Some(form) = job.form {
                resolver.set_form(form);
            }
            if let Some(dso) = &job.anew {
                resolver.forget(dso);
                lines.forget(dso.id);
            }
            if let Some((epoch, stale)) = waiting.add(job) {
                // Their names are useless, but the requester waits for a result.
                let frames = stale.into_iter().map(|w| (w.frame, w.dso.id, w.at, None)).collect();
                if name_tx.send(LookedUp::of(epoch, frames)).is_err() {
                    return;
                }
            }
        }
    };
    crate::kernel::thread("symbols", work)?;
    let (line_jobs, line_rx) = unbounded::<LookupJob>();
    let (line_tx, lines) = unbounded();
    let work = move || {
        // Names and samples have priority.
        let mut priority = ThreadPriority::last();
        let (options, held) = of_lines;
        let mut lines = Lines::new(options);
        for job in line_rx {
            if let Some(form) = job.form {
                lines.set_form(form);
                continue;
            }
            if let Some(dso) = &job.anew {
                lines.forget(dso.id);
                continue;
            }
            let mut of = |some: &[WantedName]| {
                priority.keep();
                let places = lines.all_places(&some[0].dso, some.iter().map(|w| w.at).collect());
                some.iter().zip(places).map(|(w, places)| (w.frame, w.dso.id, places)).collect::<Vec<_>>()
            };
            let files = job.frames.chunk_by(|a, b| a.dso.id == b.dso.id);
            let frames = files.flat_map(|of_file| of_file.chunks(AT_ONCE)).flat_map(&mut of).collect();
            let problems = lines.take_problems();
            held.lines.store(lines.memory(), Ordering::Relaxed);
            if line_tx.send(FoundLines { epoch: job.epoch, frames, problems }).is_err() {
                return;
            }
        }
    };
    crate::kernel::thread("lines", work)?;
    Ok(Symbolizer { jobs, lists, names, line_jobs, lines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{DsoKind, MapId, Origin, Session};

    #[test]
    fn what_needs_no_file_goes_before_what_needs_one() {
        let mut session = Session::new(Origin::Live);
        let [large, small, known] = ["/large", "/small", "/known"].map(|path| session.dsos.named(path, DsoKind::File));
        let kernel = session.dsos.of_map(MapId::KERNEL).clone();
        let many = |dso: &Dso, count: u32| {
            let dso = Arc::new(dso.clone());
            (0..count)
                .map(move |at| WantedName { frame: FrameId(at), dso: dso.clone(), at: at.into(), samples: 0 })
                .collect::<Vec<_>>()
        };
        let job = |epoch, frames| LookupJob { epoch, frames, ..LookupJob::default() };
        let mut waiting = Waiting::default();
        let all = [many(&large, 600), many(&small, 3), many(&known, 2), many(&kernel, 2)];
        assert!(waiting.add(job(0, all.concat())).is_none());
        let mut read = vec![known.id];
        let mut next = || {
            let portion = waiting.portion(|dso| read.contains(&dso.id));
            read.extend(portion.first().map(|wanted| wanted.dso.id));
            let of = |dso: &Dso| portion.iter().filter(|wanted| wanted.dso.id == dso.id).count();
            [&known, &kernel, &large, &small].map(of)
        };
        let order: Vec<[usize; 4]> = (0..6).map(|_| next()).collect();
        let expected = [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 512, 0], [0, 0, 88, 0], [0, 0, 0, 3], [0; 4]];
        assert_eq!(order, expected);
        assert!(waiting.is_empty());
        // A hot file with few addresses goes before a cold one with many.
        let hot = |count| many(&small, count).into_iter().map(|wanted| WantedName { samples: 9, ..wanted });
        waiting.add(job(0, many(&large, 40).into_iter().chain(hot(2)).collect()));
        let next = [(); 2].map(|()| waiting.portion(|_| false).first().map(|wanted| wanted.dso.id));
        assert_eq!(next, [Some(small.id), Some(large.id)]);
        // Of two hot files, the one that takes less time for its samples goes first.
        let sized = |dso: &Dso, mib: u64, samples| {
            let dso = Arc::new(Dso { via: Some((1, 0, mib << 20)), ..dso.clone() });
            many(&dso, 2).into_iter().map(move |wanted| WantedName { samples, ..wanted })
        };
        waiting.add(job(0, sized(&large, 60, 400).chain(sized(&small, 1, 70)).collect()));
        let next = [(); 2].map(|()| waiting.portion(|_| false).first().map(|wanted| wanted.dso.id));
        assert_eq!(next, [Some(small.id), Some(large.id)]);
        waiting.add(job(0, sized(&large, 3, 400).chain(sized(&small, 1, 70)).collect()));
        let next = [(); 2].map(|()| waiting.portion(|_| false).first().map(|wanted| wanted.dso.id));
        assert_eq!(next, [Some(large.id), Some(small.id)]);
        waiting.add(job(0, many(&large, 4)));
        let stale = waiting.add(job(1, many(&small, 1))).map(|(epoch, frames)| (epoch, frames.len()));
        assert_eq!((stale, waiting.portion(|_| true).len(), waiting.epoch), (Some((0, 4)), 1, 1));
    }
}
