//! Copies a recording to a perf.data file, record by record. All data of samples is kept, samples are sorted by time,
//! and every input format (stream, directory, compressed, foreign byte order) becomes a single regular file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::ingest;
use crate::ingest::GroupShare;
use crate::kernel::files::NewFile;
use crate::perfdata::EventDesc;
use crate::perfdata::build_ids::{self, IdentifiedFile};
use crate::perfdata::features::{self, FeatureSection, bit};
use crate::perfdata::write::Writer;
use crate::record::Record;
use crate::record::kinds::{HEADER, split, types};
use crate::session::marks::{self, TimeMark};
use crate::source::{Info, Source, SourceError};

use super::perfdata::WrittenSize;
use super::sleeps::{SleepOutcome, Sleeps};
use super::{ExportFormat, FormatWriter};

/// Records between two FINISHED_ROUND records, up to which readers may sort.
const ROUND: usize = 1 << 16;

pub(super) const FORMAT: ExportFormat =
    ExportFormat { name: "perfdata", about: "perf.data", writer: FormatWriter::Records };

/// The reason why a recording could not be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("it has names instead of addresses, which perf.data cannot store; use --to folded")]
    NoAddresses,
    #[error("its files are from several machines, which a perf.data file cannot store; use --to pprof")]
    Hosts,
    #[error("its files use the same id for different events, so they cannot be merged")]
    Ids,
}

/// Copies all other records, and the samples for which `keep` returns true. `keep` receives their index in time order
/// and their time. `marks` are those of the copy, `more` additional build IDs; `sleeps` are merged into switches. The
/// file appears under its name once it is complete.
pub(crate) fn copy(
    source: &mut dyn Source,
    keep: &dyn Fn(u64, u64) -> bool,
    marks: &[TimeMark],
    more: &[IdentifiedFile],
    mut sleeps: Option<&mut Sleeps>,
    path: &Path,
) -> Result<WrittenSize, CopyError> {
    let info = source.info().clone();
    let events = events(&info)?;
    let writer = Writer::start(NewFile::create(path)?, &events)?;
    let mut out = Output { writer, since_round: 0, result: Ok(()) };
    let (mut place, mut samples) = (0u64, 0usize);
    let mut span: Option<(u64, u64)> = None;
    let mut counted = Counted::default();
    let mut files = ingest::replay(source, |core, input, record| {
        let Ok(Some((header, body, _))) = split(record) else { return };
        let record = &record[..usize::from(header.size)];
        if header.kind == types::SAMPLE {
            let Some((event, sample)) = core.decode(input, header, body) else { return };
            if let Some(SleepOutcome::Taken(instead)) =
                sleeps.as_mut().map(|sleeps| sleeps.meet(event, &sample, record))
            {
                let Some(record) = instead else { return };
                samples += 1;
                span = Some((span.map_or(sample.time, |s| s.0), sample.time));
                return out.record(&record);
            }
            let mut is_kept = || {
                place += 1;
                keep(place - 1, sample.time)
            };
            let shares = core.shares(input, header, body);
            let (kept, record) = match &shares {
                None => (usize::from(is_kept()), Cow::Borrowed(record)),
                Some(shares) => counted.rewrite(record, shares, is_kept),
            };
            if kept > 0 {
                samples += kept;
                span = Some((span.map_or(sample.time, |s| s.0), sample.time));
                out.record(&record);
            }
            return;
        }
        if let (Some(sleeps), types::FORK) = (&mut sleeps, header.kind)
            && let Ok(Record::Fork(task)) = Record::decode(header, body, false)
        {
            sleeps.born(task.pid, task.tid);
        }
        out.record(record);
    })?;
    out.result?;
    files.extend(more.iter().cloned());
    let mut sections = sections(&info, &events, &files, span.unwrap_or_default());
    if !marks.is_empty() {
        sections.push((bit::MARKS, marks::encode(marks)));
    }
    let bytes = out.writer.finish(sections, &events)?;
    Ok(WrittenSize { samples, bytes })
}

fn events(info: &Info) -> Result<Vec<EventDesc>, CopyError> {
    if info.inputs.is_empty() {
        return Err(CopyError::NoAddresses);
    }
    if info.hosts.are_many() {
        return Err(CopyError::Hosts);
    }
    let mut events = info.events.clone();
    events.iter_mut().for_each(|e| e.ids.clear());
    let mut owner = HashMap::new();
    for (places, descs) in &info.inputs {
        for (place, desc) in places.iter().zip(descs) {
            for id in &desc.ids {
                if *owner.entry(*id).or_insert(*place) != *place {
                    return Err(CopyError::Ids);
                }
                if !events[usize::from(*place)].ids.contains(id) {
                    events[usize::from(*place)].ids.push(*id);
                }
            }
        }
    }
    Ok(events)
}

fn sections(info: &Info, events: &[EventDesc], files: &[IdentifiedFile], span: (u64, u64)) -> Vec<FeatureSection> {
    let mut sections = info.hosts.first().machine.clone();
    sections.retain(|(b, _)| ![bit::BUILD_ID, bit::FILES, bit::MARKS].contains(b));
    sections.extend(build_ids::sections(files));
    sections.push(features::event_desc(events));
    sections.push(features::sample_time(span.0, span.1));
    sections
}

/// Counts of group events over kept samples. Readers use the difference of two values as a sample's period.
#[derive(Default)]
struct Counted(HashMap<(u64, i32), u64>);

impl Counted {
    /// Rewrites a record as if only its kept samples had been counted. Also returns the number of kept samples.
    fn rewrite<'a>(
        &mut self,
        record: &'a [u8],
        shares: &[GroupShare],
        mut is_kept: impl FnMut() -> bool,
    ) -> (usize, Cow<'a, [u8]>) {
        let (mut kept, mut own) = (0, record.to_vec());
        for share in shares {
            let value = self.0.entry(share.counter).or_default();
            if share.is_sample() && is_kept() {
                kept += 1;
                *value = value.wrapping_add(share.period);
            }
            let at = HEADER + share.at;
            own[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        (kept, own.into())
    }
}

/// The file, and its first write error.
struct Output {
    writer: Writer,
    since_round: usize,
    result: io::Result<()>,
}

impl Output {
    fn record(&mut self, record: &[u8]) {
        if self.result.is_ok() {
            self.result = self.write(record);
        }
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.writer.records(record)?;
        self.since_round += 1;
        if self.since_round < ROUND {
            return Ok(());
        }
        self.since_round = 0;
        self.writer.finish_round()
    }
}
