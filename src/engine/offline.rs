//! A whole recording in memory, for reports and exports of a file. Reading and decoding run in parallel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::filter::TraceField;
use crate::kernel::{own_memory, scoped_thread};
use crate::perfdata::apart;
use crate::profile::{FrameId, odd_periods};
use crate::query::{Data, parallel};
use crate::session::{Dso, DsoId, DsoKind};
use crate::source::{Batch, Progress, Source, SourceError};
use crate::symbols::lines::Lines;
use crate::symbols::{Problem, Resolver, SymbolOptions};
use crate::units::kit::FilteredUnit;

use crate::ingest::unit_feed::BlockedBy;
use crate::ingest::{Ingest, IngestState, IntakeOptions};

use super::missing_files::{self, Sought};

/// A recording that was read to its end, with names for all frames.
#[derive(Debug)]
pub struct Offline {
    /// The result of its records.
    pub ingest: Ingest,
    /// The unique names of its events by index.
    pub event_names: Vec<String>,
    /// Faults of the recording or of its names.
    pub notes: Vec<String>,
    /// Whether the recording itself, not just its names, has faults.
    damaged: bool,
    /// Lines of a text that were not understood.
    unread: u64,
}

const QUEUE: usize = 8;

/// Reads a source to its end.
pub fn load(source: &mut dyn Source, symbols: SymbolOptions, wants: IntakeOptions) -> Result<Offline, SourceError> {
    let ingest = Ingest::new(source.info(), None, wants);
    load_into(ingest, source, symbols, wants)
}

/// Does the same for the running machine, without the samples of process `own_pid`.
pub(crate) fn load_live(source: &mut dyn Source, symbols: SymbolOptions, own_pid: i32) -> Result<Offline, SourceError> {
    let wants = IntakeOptions::default();
    let ingest = Ingest::new(source.info(), Some(own_pid), wants);
    load_into(ingest, source, symbols, wants)
}

/// Reads a source to its end for a unit alone; the error says what the recording lacks.
pub fn load_unit(source: &mut dyn Source, symbols: SymbolOptions, unit: FilteredUnit) -> Result<Offline, String> {
    let wants = IntakeOptions { units_only: true, ..IntakeOptions::default() };
    let mut ingest = Ingest::new(source.info(), None, wants);
    let core = ingest.core_mut();
    core.start_unit(unit, 0)?;
    core.bind_all_units();
    if let Some(unit) = core.units.blocked().first() {
        return Err(match unit.by {
            BlockedBy::Missing(_) => format!("{unit}, which this recording lacks"),
            BlockedBy::Unusable(_) => unit.to_string(),
        });
    }
    load_into(ingest, source, symbols, wants).map_err(|error| error.to_string())
}

fn load_into(
    mut ingest: Ingest,
    source: &mut dyn Source,
    symbols: SymbolOptions,
    wants: IntakeOptions,
) -> Result<Offline, SourceError> {
    own_memory::take_small_pages();
    let info = source.info().clone();
    ingest.complete_chains(symbols.clone());
    ingest.core_mut().profile.frames.show_unknown_as_sampled(!symbols.bounds);
    // Tables and exports do not report broken stacks.
    ingest.core_mut().chains.iter_mut().for_each(|chains| chains.judges = wants.units_only);
    let mut notes = info.notes.clone();
    let mut unread = 0;
    let (full_tx, full) = bounded::<Batch>(QUEUE);
    let (empty_tx, empty) = bounded::<Vec<u8>>(QUEUE);
    let (want_tx, wanted) = crossbeam_channel::unbounded::<Vec<(Arc<Dso>, u64)>>();
    let mut ahead = Ahead::default();
    let mut resolver = Resolver::new(symbols.clone());
    std::thread::scope(|scope| {
        // Tables are read and names demangled while samples are still read; the resolver keeps them.
        let resolver = &mut resolver;
        scoped_thread(scope, "names", move || {
            for some in wanted {
                resolver.prepare(some.iter().map(|(dso, at)| (&**dso, *at)));
                for (dso, at) in some.iter().filter(|(dso, _)| dso.kind != DsoKind::File) {
                    resolver.resolve(dso, *at);
                }
            }
        })?;
        let reader = scoped_thread(scope, "reader", move || -> Result<(), SourceError> {
            loop {
                let mut batch = Batch::reusing(empty.try_recv().unwrap_or_default());
                let step = source.next(&mut batch)?;
                if full_tx.send(batch).is_err() || matches!(step, Progress::End(_)) {
                    return Ok(());
                }
            }
        })?;
        for mut batch in full {
            if symbols.ends.given_up().is_some() {
                break;
            }
            notes.extend(batch.notes().map(str::to_owned));
            unread += batch.unread();
            ingest.feed(&mut batch);
            let _ = want_tx.send(ahead.fresh(&ingest));
            if let Some(buffer) = ingest.spare() {
                let _ = empty_tx.try_send(buffer);
            }
        }
        drop(want_tx);
        reader.join().unwrap_or(Ok(()))
    })?;
    // A source that failed has not marked its end.
    ingest.feed(&mut Batch { complete_until: Some(u64::MAX), ..Batch::default() });
    notes.extend(ingest.core().summary.complaints(&ingest.core().profile.ledger));
    let damaged = !notes.is_empty();
    notes.extend(odd_periods::notes(&ingest.core().events, &ingest.core().profile));
    ahead.outdated(&ingest).for_each(|dso| resolver.forget(dso));
    name_prepared(ingest.core_mut(), &mut resolver, &mut notes, true);
    if wants.inline || wants.lines {
        find_lines(&mut ingest, symbols, &mut notes);
        ingest.core_mut().profile.frames.show_inlined(wants.inline);
    }
    let core = ingest.core();
    let mut event_names = Vec::new();
    core.events.iter().for_each(|event| event_names.push(apart(&event_names, &event.name)));
    Ok(Offline { ingest, event_names, notes: once(notes), damaged, unread })
}

#[derive(Default)]
struct Ahead {
    upto: usize,
    dsos: FxHashMap<DsoId, Arc<Dso>>,
}

impl Ahead {
    /// Returns the DSOs and addresses of the frames since the last call.
    fn fresh(&mut self, ingest: &Ingest) -> Vec<(Arc<Dso>, u64)> {
        let core = ingest.core();
        let from = std::mem::replace(&mut self.upto, core.profile.frames.len());
        let one = |i: usize| {
            let (id, at) = core.profile.frames.get(FrameId(i as u32)).place(&core.session.dsos);
            let dso = self.dsos.entry(id).or_insert_with(|| Arc::new(core.session.dsos.get(id).clone()));
            (dso.clone(), at)
        };
        let mut places: Vec<_> = (from..self.upto).map(one).collect();
        places.sort_unstable_by_key(|(dso, at)| (dso.id, *at));
        places
    }

    /// Returns DSOs with more information than when their names were looked up.
    fn outdated<'a>(&self, ingest: &'a Ingest) -> impl Iterator<Item = &'a Dso> {
        let now = |id: &DsoId| ingest.core().session.dsos.get(*id);
        let differs =
            |old: &Dso, now: &Dso| old.build_id != now.build_id || old.text != now.text || old.dump != now.dump;
        let mut list: Vec<&Dso> = self
            .dsos
            .iter()
            .map(|(id, old)| (old, now(id)))
            .filter(|(old, now)| differs(old, now))
            .map(|p| p.1)
            .collect();
        list.sort_unstable_by_key(|dso| dso.id);
        list.into_iter()
    }
}

pub(super) fn name_all(core: &mut IngestState, resolver: &mut Resolver, notes: &mut Vec<String>) {
    name_prepared(core, resolver, notes, false);
}

/// Does the same; the resolver may have seen all frames before.
fn name_prepared(core: &mut IngestState, resolver: &mut Resolver, notes: &mut Vec<String>, is_prepared: bool) {
    let frames: Vec<FrameId> = core.profile.frames.unnamed().collect();
    if frames.is_empty() {
        return;
    }
    let (session, profile) = (&core.session, &mut core.profile);
    // Shared copies, so that naming a frame does not copy strings.
    let dsos: Vec<Arc<Dso>> = session.dsos.all().iter().cloned().map(Arc::new).collect();
    let until = Instant::now() + FOR_JITS;
    let mut places = Vec::new();
    for some in frames.chunks(AT_ONCE) {
        places.extend(some.iter().map(|frame| (profile.frames.get(*frame).place(&session.dsos), *frame)));
        // Adjacent addresses often have the same function, or close ones.
        places.sort_unstable();
        if !is_prepared {
            resolver.prepare(places.iter().map(|((id, at), _)| (&*dsos[id.0 as usize], *at)));
        }
        for ((id, at), frame) in places.drain(..) {
            if resolver.is_given_up() {
                return;
            }
            let dso = &dsos[id.0 as usize];
            let mut found = resolver.resolve(dso, at);
            while found.is_none() && resolver.is_behind(dso) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
                resolver.read_on();
                found = resolver.resolve(dso, at);
            }
            profile.frames.set(frame, dso, at, found);
        }
    }
    let is_here = resolver.has_own_kernel() && session.is_of_this_machine();
    notes.extend(missing_files::words(session, resolver.take_problems(), Sought::Names, is_here));
}

/// Removes duplicates: many DSOs, and many probes, may depend on the same missing file.
pub(super) fn once(notes: Vec<String>) -> Vec<String> {
    let mut said = FxHashSet::default();
    notes.into_iter().filter(|note| said.insert(note.clone())).collect()
}

const AT_ONCE: usize = 1 << 16;

/// The total time to wait for JIT data that has been written but not read yet.
const FOR_JITS: Duration = Duration::from_millis(300);

/// Looks up the inlined functions and lines of all frames, once per address.
fn find_lines(ingest: &mut Ingest, symbols: SymbolOptions, notes: &mut Vec<String>) {
    let core = ingest.core_mut();
    let (session, profile) = (&core.session, &mut core.profile);
    let is_here = symbols.same_kernel;
    let all = 0..profile.frames.len() as u32;
    // In the order of files and addresses, so that parsed data is reused.
    let mut wanted: Vec<(DsoId, u64, FrameId)> = profile
        .frames
        .lineless(all, |_| true)
        .into_iter()
        .map(|frame| {
            let (dso, at) = profile.frames.get(frame).place(&session.dsos);
            (dso, at, frame)
        })
        .collect();
    wanted.sort_unstable();
    let same: Vec<&[(DsoId, u64, FrameId)]> = wanted.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
    let options = SymbolOptions { budget: symbols.budget / parallel::threads(), ..symbols };
    let parts = parallel::shared(&same, same.len(), LINES_EACH, |part| {
        let mut lines = Lines::new(options.clone());
        let files = part.chunk_by(|a, b| a[0].0 == b[0].0);
        let found = files.flat_map(|of| {
            let places = of.iter().map(|same| same[0].1).collect();
            lines.all_places(session.dsos.get(of[0][0].0), places)
        });
        (part.iter().copied().zip(found).collect::<Vec<_>>(), lines.take_problems())
    });
    // Two threads may have the same file.
    let mut problems: BTreeMap<DsoId, Problem> = BTreeMap::new();
    for (found, faults) in parts {
        problems.extend(faults);
        for (same, places) in found {
            let dso = session.dsos.get(same[0].0);
            same.iter().for_each(|(.., frame)| profile.frames.set_places(*frame, dso, &places));
        }
    }
    notes.extend(missing_files::words(session, problems, Sought::Lines, is_here));
}

/// The number of lines that justify a thread.
const LINES_EACH: usize = 2000;

impl Offline {
    /// Returns 1 if the recording is faulty and nothing could be read, or more lines of a text were rejected than read.
    pub(crate) fn exit_code(&self) -> u8 {
        let read = self.ingest.core().profile.len() as u64;
        u8::from(self.damaged && (read == 0 || self.unread > read))
    }

    pub(crate) fn fields(&self) -> Vec<TraceField> {
        let core = self.ingest.core();
        crate::filter::trace_fields(
            (0..core.events.len()).filter_map(|event| core.profile.format(event as u16).map(|f| &**f)),
        )
    }

    /// Returns the data for queries.
    pub fn data(&self) -> Data<'_> {
        self.ingest.core().data(&self.event_names)
    }
}
