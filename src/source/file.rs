//! A recording as a source: records in the order of the file, in pieces of bounded size.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::event::names;
use crate::kernel::attr::Flag;
use crate::perfdata::features::bit;
use crate::perfdata::read::{ReadError, Recording};
use crate::record::kinds::{HEADER, Header};
use crate::session::Origin;

use super::{Batch, Info, Source, SourceError, Step};

const PIECE: usize = 1 << 20;
/// Records whose payload follows them, outside their size.
const TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;

/// Features that stay true when samples are saved again.
const MACHINE: &[u8] = &[
    bit::TRACING_DATA,
    bit::BUILD_ID,
    bit::HOSTNAME,
    bit::OSRELEASE,
    bit::VERSION,
    bit::ARCH,
    bit::NRCPUS,
    bit::CPUDESC,
    bit::CPUID,
    bit::TOTAL_MEM,
    bit::CMDLINE,
    bit::CLOCKID,
    bit::CLOCK_DATA,
];

/// A perf.data file being read.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    recording: Recording,
    info: Info,
    at: u64,
    first: bool,
}

impl FileSource {
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let wrap = |error: ReadError| SourceError::File { path: path.display().to_string(), error };
        let mut recording = Recording::open(File::open(path).map_err(|e| wrap(e.into()))?).map_err(wrap)?;
        for event in recording.events.iter_mut().filter(|e| e.name.is_empty()) {
            let (kind, config) = (event.attr.kind, event.attr.config);
            event.name = names::name_of(kind, config).unwrap_or_else(|| format!("event {kind}:{config:#x}"));
        }
        let first = recording.events.iter().find(|e| {
            e.attr.config != crate::kernel::attr::SW_DUMMY || e.attr.kind != crate::kernel::attr::TYPE_SOFTWARE
        });
        let info = Info {
            origin: Origin::Recorded,
            host: recording.text(bit::HOSTNAME).unwrap_or_default(),
            kernel: recording.text(bit::OSRELEASE).unwrap_or_default(),
            event_notes: vec![None; recording.events.len()],
            frequency: first.filter(|e| e.attr.has(Flag::Freq)).map_or(0, |e| e.attr.period_or_freq),
            chains: recording.events.iter().any(|e| e.attr.sample_type & crate::kernel::attr::sample::CALLCHAIN != 0),
            events: recording.events.clone(),
            start: 0,
            n_cpus: 0,
            cpus: String::new(),
            target: path.display().to_string(),
            notes: recording.warnings.clone(),
            machine: MACHINE.iter().filter_map(|b| Some((*b, recording.feature(*b)?))).collect(),
        };
        Ok(Self { path: path.to_owned(), at: recording.data.start, recording, info, first: true })
    }

    /// The facts in the header, for those who print them.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The end of the file is reached, or damage that cannot be stepped over.
    fn end(&mut self, batch: &mut Batch, why: Option<String>) -> Step {
        batch.complete_until = Some(u64::MAX);
        self.at = self.recording.data.end;
        batch.notes.extend(why);
        Step::End(format!("end of {}", self.path.display()))
    }
}

impl Source for FileSource {
    fn info(&self) -> &Info {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Step, SourceError> {
        if std::mem::take(&mut self.first) {
            for (i, event) in self.recording.events.iter().enumerate() {
                batch.ids.extend(event.ids.iter().map(|id| (*id, i as u16)));
            }
        }
        let left = self.recording.data.end - self.at;
        let piece = (left as usize).min(PIECE);
        batch.bytes.resize(piece, 0);
        self.recording.file.read_exact_at(&mut batch.bytes, self.at)?;
        let mut used = 0;
        let mut skip = 0u64;
        let mut damage = None;
        while let Some(header) = Header::read(&batch.bytes[used..]) {
            let size = usize::from(header.size);
            if size < HEADER {
                damage = Some(format!(
                    "damaged at byte {}: a record of type {} claims {size} bytes; what follows is not read",
                    self.at + used as u64,
                    header.kind
                ));
                break;
            }
            if used + size > piece {
                break;
            }
            if matches!(header.kind, TRACING_DATA | AUXTRACE) {
                let body = &batch.bytes[used + HEADER..used + size];
                skip = if header.kind == TRACING_DATA {
                    body.first_chunk::<4>().map_or(0, |b| u64::from(u32::from_le_bytes(*b)).next_multiple_of(8))
                } else {
                    body.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b))
                };
                used += size;
                break;
            }
            used += size;
        }
        batch.bytes.truncate(used);
        self.at = self.at.saturating_add(used as u64).saturating_add(skip).min(self.recording.data.end);
        let all = self.recording.data.end - self.recording.data.start;
        batch.progress = Some((self.at - self.recording.data.start, all));
        if damage.is_some() || self.at == self.recording.data.end {
            return Ok(self.end(batch, damage));
        }
        if used == 0 {
            let why = format!("cut short at byte {}: the last record is incomplete", self.at);
            return Ok(self.end(batch, Some(why)));
        }
        Ok(Step::More)
    }
}
