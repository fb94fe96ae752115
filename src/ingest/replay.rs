//! A second pass over a source, record by record.

use crate::perfdata::build_ids::IdentifiedFile;
use crate::record::kinds::{Header, split, types};
use crate::source::{Batch, FilePosition, Progress, Source, SourceError, SourceEvent};

use super::{Ingest, IngestState, IntakeOptions};

/// Reads a source to its end and passes every record, in order of time, to `each` with its input. Keeps no samples.
/// Returns the files whose build ids are in records.
pub(crate) fn replay(
    source: &mut dyn Source,
    mut each: impl FnMut(&mut IngestState, usize, &[u8]),
) -> Result<Vec<IdentifiedFile>, SourceError> {
    let info = source.info().clone();
    let mut ingest = Ingest::new(&info, None, IntakeOptions::default());
    let mut build_ids = info.build_ids;
    let mut batch = Batch::default();
    loop {
        let step = ingest.read(source, &mut batch)?;
        build_ids.extend(batch.events.iter().filter_map(|event| match event {
            SourceEvent::BuildId(file) => Some(file.clone()),
            _ => None,
        }));
        ingest.feed_to(&mut batch, |core, input, _, record| each(core, input, record));
        if matches!(step, Progress::End(_)) {
            return Ok(build_ids);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedRecord<'a> {
    pub(crate) input: usize,
    /// In the session's clock; 0 for a record without a timestamp.
    pub(crate) time: u64,
    pub(crate) at: u64,
    pub(crate) header: Header,
    pub(crate) bytes: &'a [u8],
}

impl<'a> PlacedRecord<'a> {
    pub(crate) fn body(&self) -> &'a [u8] {
        self.bytes.get(crate::record::kinds::HEADER..).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordOrder {
    /// By time, like perf: records without a timestamp immediately, others at the end of a round.
    Time,
    File,
}

struct WaitingRecord {
    time: u64,
    input: usize,
    at: u64,
    bytes: Vec<u8>,
}

/// Reads a source to its end and passes every record to `each`, including perf's own. Does not apply the records. Ends
/// with the first error of `each`.
pub(crate) fn replay_all<E: From<SourceError>>(
    source: &mut dyn Source,
    order: RecordOrder,
    mut each: impl FnMut(&mut IngestState, PlacedRecord<'_>) -> Result<(), E>,
) -> Result<(), E> {
    source.tell_all();
    let mut ingest = Ingest::new(&source.info().clone(), None, IntakeOptions::default());
    let (mut batch, mut waiting) = (Batch::default(), Vec::new());
    loop {
        batch.clear();
        let step = source.next(&mut batch)?;
        let bytes = std::mem::take(&mut batch.bytes);
        ingest.core.learn(&mut batch);
        let input = usize::from(batch.input).min(ingest.rounds.len() - 1);
        ingest.meet(input, &bytes, batch.place, order, &mut waiting, &mut each)?;
        if batch.input_done {
            ingest.rounds[input].complete = u64::MAX;
        }
        let ended = matches!(step, Progress::End(_));
        let until = if ended { Some(u64::MAX) } else { ingest.complete(&batch.quiet).filter(|until| *until > 0) };
        if let Some(until) = until {
            hand_out(&mut ingest.core, &mut waiting, until, &mut each)?;
        }
        if ended {
            return Ok(());
        }
    }
}

fn hand_out<E>(
    core: &mut IngestState,
    waiting: &mut Vec<WaitingRecord>,
    until: u64,
    each: &mut impl FnMut(&mut IngestState, PlacedRecord<'_>) -> Result<(), E>,
) -> Result<(), E> {
    waiting.sort_by_key(|one| one.time);
    let due = waiting.partition_point(|one| one.time <= until);
    for one in waiting.drain(..due) {
        if let Ok(Some((header, ..))) = split(&one.bytes) {
            each(core, PlacedRecord { input: one.input, time: one.time, at: one.at, header, bytes: &one.bytes })?;
        }
    }
    Ok(())
}

impl Ingest {
    /// Passes on the records of a batch that need not wait, and keeps the others.
    fn meet<E>(
        &mut self,
        input: usize,
        bytes: &[u8],
        place: FilePosition,
        order: RecordOrder,
        waiting: &mut Vec<WaitingRecord>,
        each: &mut impl FnMut(&mut IngestState, PlacedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while let Ok(Some((header, body, _))) = split(&bytes[at..]) {
            let size = usize::from(header.size);
            let own = &bytes[at..at + size];
            let is_kernels = header.kind < types::USER_START;
            let time = if is_kernels {
                let time = self.core.inputs.decoder(input).time(header, body);
                self.core.summary.hosts.common_time(input, time)
            } else {
                0
            };
            let round = &mut self.rounds[input];
            round.meet(time);
            let offset = place.of(at);
            if is_kernels && time != 0 && order == RecordOrder::Time {
                waiting.push(WaitingRecord { time, input, at: offset, bytes: own.to_vec() });
            } else {
                each(&mut self.core, PlacedRecord { input, time, at: offset, header, bytes: own })?;
            }
            if header.kind == types::FINISHED_ROUND {
                let round = &mut self.rounds[input];
                round.complete = round.complete.max(round.at_last_round);
                round.at_last_round = round.newest;
                // perf sorts at each round, not at the ends of our batches.
                if let Some(until) = self.complete(&[]).filter(|until| *until > 0) {
                    hand_out(&mut self.core, waiting, until, each)?;
                }
            }
            at += size;
        }
        Ok(())
    }
}

/// Returns the result of processing all of a source.
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
