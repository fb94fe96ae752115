//! A whole recording at once: what reports and exports of a file work on. Reading and decoding run
//! side by side.

use std::sync::Arc;

use crossbeam_channel::bounded;

use crate::filter::TraceField;
use crate::query::Data;
use crate::record::kinds::BuildId;
use crate::source::{Batch, Source, SourceError, Step};
use crate::symbols::Resolver;
use crate::symbols::resolver::Options;

use super::ingest::{Core, Ingest, Wants};

/// A recording that was read to its end, every frame named.
#[derive(Debug)]
pub struct Loaded {
    pub ingest: Ingest,
    pub event_names: Vec<String>,
    /// What is wrong with the recording or with its names.
    pub notes: Vec<String>,
    /// Whether the recording itself, not just its names, has faults.
    damaged: bool,
}

/// Batches between the two threads.
const QUEUE: usize = 8;

/// Reads a source to its end.
pub fn load(source: &mut dyn Source, symbols: Options, wants: Wants) -> Result<Loaded, SourceError> {
    let info = source.info().clone();
    let mut ingest = Ingest::new(&info, None, wants);
    ingest.complete_chains(symbols.clone());
    let mut notes = info.notes.clone();
    let (full_tx, full) = bounded::<Batch>(QUEUE);
    let (empty_tx, empty) = bounded::<Vec<u8>>(QUEUE);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> Result<(), SourceError> {
            loop {
                let mut batch = Batch { bytes: empty.try_recv().unwrap_or_default(), ..Batch::default() };
                let step = source.next(&mut batch)?;
                if full_tx.send(batch).is_err() || matches!(step, Step::End(_)) {
                    return Ok(());
                }
            }
        });
        for mut batch in full {
            notes.append(&mut batch.notes);
            ingest.feed(&mut batch);
            if let Some(buffer) = ingest.spare() {
                let _ = empty_tx.try_send(buffer);
            }
        }
        reader.join().unwrap_or(Ok(()))
    })?;
    // A source that broke off has never said that it is complete.
    ingest.feed(&mut Batch { complete_until: Some(u64::MAX), ..Batch::default() });
    notes.extend(ingest.core().complaints());
    let damaged = !notes.is_empty();
    name_all(&mut ingest, symbols, &mut notes);
    let core = ingest.core();
    let event_names = core.events.iter().map(|e| e.name.clone()).collect();
    Ok(Loaded { ingest, event_names, notes, damaged })
}

/// Reads a source to its end and hands every record, in order of time, to `each` with its input.
/// Nothing is kept. Returns the build ids that came with the records.
pub fn replay(
    source: &mut dyn Source,
    mut each: impl FnMut(&Core, usize, &[u8]),
) -> Result<Vec<(bool, BuildId, String)>, SourceError> {
    let info = source.info().clone();
    let mut ingest = Ingest::new(&info, None, Wants::default());
    let mut build_ids = info.build_ids;
    let mut batch = Batch::default();
    loop {
        let step = source.next(&mut batch)?;
        build_ids.extend(batch.build_ids.iter().cloned());
        ingest.feed_to(&mut batch, |core, input, _, record| each(core, input, record));
        batch.clear();
        batch.bytes = ingest.spare().unwrap_or_default();
        if matches!(step, Step::End(_)) {
            let mut rest = Batch { complete_until: Some(u64::MAX), ..Batch::default() };
            ingest.feed_to(&mut rest, |core, input, _, record| each(core, input, record));
            return Ok(build_ids);
        }
    }
}

fn name_all(ingest: &mut Ingest, symbols: Options, notes: &mut Vec<String>) {
    let mut resolver = Resolver::new(symbols);
    let core = ingest.core_mut();
    let (session, profile) = (&core.session, &mut core.profile);
    // Shared copies, so that naming a frame copies no strings.
    let dsos: Vec<Arc<crate::session::Dso>> = session.dsos.all().iter().cloned().map(Arc::new).collect();
    for frame in profile.frames.unnamed() {
        let one = profile.frames.get(frame);
        let map = session.dsos.map_of(one.map);
        let dso = &dsos[map.dso.0 as usize];
        let at = map.to_dso(one.ip.wrapping_sub(u64::from(one.caller)));
        let found = resolver.resolve(dso, at);
        profile.frames.set(frame, dso, at, found);
    }
    notes.extend(
        resolver.take_problems().into_iter().map(|(dso, why)| format!("{}: {why}", session.dsos.get(dso).path)),
    );
}

impl Loaded {
    /// 1 when something is wrong with the recording and nothing at all could be read, else 0.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.damaged && self.ingest.core().profile.is_empty())
    }

    /// The fields of its tracepoints, for filters.
    pub fn fields(&self) -> Vec<TraceField> {
        let core = self.ingest.core();
        crate::filter::trace_fields(
            (0..core.events.len()).filter_map(|event| core.profile.format(event as u16).map(|f| &**f)),
        )
    }

    /// What queries read.
    pub fn data(&self) -> Data<'_> {
        let core = self.ingest.core();
        Data { session: &core.session, profile: &core.profile, events: &self.event_names, start: core.start }
    }
}
