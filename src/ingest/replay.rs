//! A source read once more, record by record.

use crate::perfdata::build_ids::IdentifiedFile;
use crate::source::{Batch, Progress, Source, SourceError};

use super::{Core, Ingest, IntakeOptions};

/// Reads a source to its end and hands every record, in order of time, to `each` with its input.
/// Nothing is kept. Returns the files whose build ids came with the records.
pub(crate) fn replay(
    source: &mut dyn Source,
    mut each: impl FnMut(&mut Core, usize, &[u8]),
) -> Result<Vec<IdentifiedFile>, SourceError> {
    let info = source.info().clone();
    let mut ingest = Ingest::new(&info, None, IntakeOptions::default());
    let mut build_ids = info.build_ids;
    let mut batch = Batch::default();
    loop {
        let step = ingest.read(source, &mut batch)?;
        build_ids.extend(batch.build_ids.iter().cloned());
        ingest.feed_to(&mut batch, |core, input, _, record| each(core, input, record));
        if matches!(step, Progress::End(_)) {
            return Ok(build_ids);
        }
    }
}

/// All of a source, taken in.
#[cfg(test)]
pub fn whole(source: &mut dyn Source) -> Ingest {
    let mut ingest = Ingest::new(source.info(), None, IntakeOptions::default());
    loop {
        let mut batch = Batch::default();
        let step = source.next(&mut batch).expect("reads");
        ingest.feed(&mut batch);
        if matches!(step, Progress::End(_)) {
            return ingest;
        }
    }
}
