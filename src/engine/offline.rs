//! A whole recording at once, without threads: what reports and exports of a file work on.

use std::sync::Arc;

use crate::query::Data;
use crate::source::{Batch, Source, SourceError, Step};
use crate::symbols::Resolver;
use crate::symbols::resolver::Options;

use super::ingest::Ingest;

/// A recording that was read to its end, every frame named.
#[derive(Debug)]
pub struct Loaded {
    pub ingest: Ingest,
    pub event_names: Vec<String>,
    /// What is wrong with the recording or with its names.
    pub notes: Vec<String>,
}

/// Reads a source to its end.
pub fn load(source: &mut dyn Source, symbols: Options) -> Result<Loaded, SourceError> {
    let info = source.info().clone();
    let mut ingest = Ingest::new(&info, None);
    let mut notes = info.notes.clone();
    let mut batch = Batch::default();
    loop {
        let step = source.next(&mut batch)?;
        notes.append(&mut batch.notes);
        ingest.feed(&mut batch);
        batch.clear();
        batch.bytes = ingest.spare().unwrap_or_default();
        if matches!(step, Step::End(_)) {
            break;
        }
    }
    let malformed = ingest.core().profile.ledger.malformed;
    if malformed > 0 {
        notes.push(format!("{malformed} records could not be decoded and were left out"));
    }
    name_all(&mut ingest, symbols, &mut notes);
    let event_names = info.events.iter().map(|e| e.name.clone()).collect();
    Ok(Loaded { ingest, event_names, notes })
}

fn name_all(ingest: &mut Ingest, symbols: Options, notes: &mut Vec<String>) {
    let mut resolver = Resolver::new(symbols);
    let core = ingest.core_mut();
    let (session, profile) = (&core.session, &mut core.profile);
    let wanted =
        profile.frames.wanted(|map, ip| (session.dsos.of_map(map).clone(), session.dsos.map_of(map).to_dso(ip)));
    for w in wanted {
        let dso = Arc::new(session.dsos.of_map(w.map).clone());
        let at = session.dsos.map_of(w.map).to_dso(w.ip);
        profile.frames.set(w.frame, &dso, at, resolver.resolve(&dso, at));
    }
    notes.extend(
        resolver.take_problems().into_iter().map(|(dso, why)| format!("{}: {why}", session.dsos.get(dso).path)),
    );
}

impl Loaded {
    /// What queries read.
    pub fn data(&self) -> Data<'_> {
        let core = self.ingest.core();
        Data { session: &core.session, profile: &core.profile, events: &self.event_names, start: core.start }
    }
}
