//! The reader of perf.data headers: events and features. Sizes and offsets are checked against the file before they are
//! used; errors name the byte offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::kernel::attr::{Attr, MIN_SIZE};
use crate::lang::counted;

use super::bytes::ByteReader;
use super::features::{Features, bit};
use super::{EventDesc, HEADER_SIZE, MAGIC, MAX_EVENTS, swap};

/// The reason why a file cannot be read as a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not exist.
    #[error("there is no such file; `perfprof-tui record` writes perf.data")]
    Missing,
    /// An unknown format, with its first eight bytes as text.
    #[error(
        "not a recording: expected perf.data, `perf script` text, folded stacks, pprof, JFR, or a profile of V8, \
         Firefox, samply or speedscope (it starts with {0:?})"
    )]
    Magic(String),
    /// An empty file.
    #[error("the file is empty")]
    Empty,
    /// The magic of version 1, `PERFFILE`.
    #[error("perf.data version 1 is not supported; perf wrote it before 2010")]
    Version1,
    /// A header field that contradicts the rest, or points outside the file.
    #[error("damaged header: {what} at byte {at}")]
    Header {
        /// A description of the fault.
        what: &'static str,
        /// The byte offset of the field in the file.
        at: u64,
    },
    /// More recordings to combine, or more events of theirs, than 16-bit numbers identify.
    #[error("more than {most} {what}: open fewer recordings together")]
    TooMany {
        /// The kind of what there is too much of.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// Another tool's profile that cannot be read, with the reason.
    #[error(transparent)]
    Imported(Box<dyn std::error::Error + Send + Sync>),
    /// A file of a known kind that lacks the named data.
    #[error("the file has no {0}")]
    Holds(&'static str),
}

/// An event with more ids is damaged.
pub(crate) const MAX_IDS: u64 = 1 << 20;
/// A larger feature is not read.
pub(crate) const MAX_FEATURE: u64 = 64 << 20;
/// `size` in the header of a stream; that of a file is 104.
pub(crate) const PIPE_HEADER: u64 = 16;

/// The header of a recording: everything before its records.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The events in the order of their attrs, which defines event indices everywhere.
    pub events: Vec<EventDesc>,
    /// The byte range of the records; it ends at `u64::MAX` for a stream.
    pub data: std::ops::Range<u64>,
    pub(crate) big: bool,
    /// The feature sections: the recorder, the machine, the command and the options.
    pub features: Features,
    pub(crate) attr_sizes: Vec<u32>,
    pub(crate) warnings: Vec<String>,
}

/// Returns whether these first bytes are those of a stream (`perf record -o -`), not of a file.
pub(crate) fn is_stream(head: &[u8]) -> bool {
    let big = swap::is_foreign(head.get(..8).unwrap_or_default());
    is_perf(head) && ByteReader::new(head.get(8..).unwrap_or_default(), big).u64() == Some(PIPE_HEADER)
}

pub(crate) fn is_perf(head: &[u8]) -> bool {
    head.get(..8).is_some_and(|magic| magic == MAGIC || swap::is_foreign(magic))
}

impl Recording {
    /// Reads the header of a file.
    pub fn open(file: &File) -> Result<Self, ReadError> {
        let len = file.metadata()?.len();
        if len == 0 {
            return Err(ReadError::Empty);
        }
        let mut head = vec![0; len.min(HEADER_SIZE) as usize];
        file.read_exact_at(&mut head, 0)?;
        let magic = head.get(..8).unwrap_or(&head);
        if !is_perf(magic) {
            return Err(if magic == b"PERFFILE" {
                ReadError::Version1
            } else {
                ReadError::Magic(String::from_utf8_lossy(magic).into_owned())
            });
        }
        let big = swap::is_foreign(magic);
        if is_stream(&head) {
            return Ok(Self { data: PIPE_HEADER..u64::MAX, big, ..Self::default() });
        }
        head.resize(HEADER_SIZE as usize, 0);
        let word = |at: usize| ByteReader::new(&head[at..], big).u64().unwrap_or_default();
        let mut rec = Self { big, ..Self::default() };
        let input = Input { file, len };
        rec.read_events(&input, word(16), word(24), word(32))?;
        let (data_at, data_size) = (word(40), word(48));
        if data_at > len {
            return Err(ReadError::Header { what: "the data section begins after the end of the file", at: 40 });
        }
        let mut end = data_at.saturating_add(data_size);
        if data_size == 0 {
            rec.warnings.push(format!("the recording was interrupted: its header is incomplete; reading records from byte {data_at} to the end"));
            end = len;
        } else if end > len {
            rec.warnings.push(format!(
                "the file is cut short: {} of records missing after byte {len}",
                counted(end - len, "byte")
            ));
            end = len;
        } else {
            let bits: Vec<u8> = (0..4).flat_map(|i| word(72 + 8 * i).to_le_bytes()).collect();
            rec.read_features(&input, end, &bits);
        }
        rec.data = data_at..end;
        rec.name_events();
        Ok(rec)
    }

    fn read_events(&mut self, input: &Input<'_>, entry: u64, at: u64, size: u64) -> Result<(), ReadError> {
        let fault = |what| ReadError::Header { what, at: 16 };
        if entry < MIN_SIZE as u64 + 16 || entry > 4096 {
            return Err(fault("the size of an event's description is impossible"));
        }
        let n = size / entry;
        if n == 0 || n > MAX_EVENTS as u64 {
            return Err(fault("the number of events is impossible"));
        }
        let bytes = input.bytes(at, n * entry).ok_or_else(|| fault("the events' descriptions lie outside the file"))?;
        for one in bytes.chunks_exact(entry as usize) {
            let (attr, ids) = one.split_at(entry as usize - 16);
            self.attr_sizes.push(attr_size(attr, self.big));
            let attr = Attr::decode(attr, self.big).ok_or_else(|| fault("an event's description is too short"))?;
            let mut section = ByteReader::new(ids, self.big);
            let (ids_at, ids_size) = (section.u64().unwrap_or(0), section.u64().unwrap_or(0).min(MAX_IDS * 8));
            let ids = input.bytes(ids_at, ids_size).unwrap_or_default();
            self.events.push(EventDesc { name: String::new(), attr, ids: numbers(&ids, self.big) });
        }
        Ok(())
    }

    fn read_features(&mut self, input: &Input<'_>, table: u64, bits: &[u8]) {
        let set: Vec<u8> = (0..=255u8).filter(|b| bits[usize::from(b / 8)] >> (b % 8) & 1 == 1).collect();
        let Some(bytes) = input.bytes(table, 16 * set.len() as u64) else {
            self.warnings.push(format!(
                "the table of features after byte {table} is cut short: facts about the machine are missing"
            ));
            return;
        };
        let words = numbers(&bytes, self.big);
        let mut missing = 0;
        for (bit, place) in set.into_iter().zip(words.chunks(2)) {
            match input.bytes(place[0], place[1]).filter(|_| place[1] <= MAX_FEATURE) {
                Some(bytes) => self.features.list.push((bit, bytes)),
                None => missing += 1,
            }
        }
        if missing > 0 {
            self.warnings.push(format!(
                "{missing} of the header's features lie outside the file: facts about the machine are missing"
            ));
        }
    }

    /// Takes the events' names, and ids that the header lacks, from EVENT_DESC.
    pub fn name_events(&mut self) {
        let Some(bytes) = self.features.get(bit::EVENT_DESC) else { return };
        let mut rest = ByteReader::new(bytes, self.big);
        let (Some(n), Some(attr_size)) = (rest.u32(), rest.u32()) else { return };
        for event in self.events.iter_mut().take(n as usize) {
            let Some(n_ids) = rest.take(attr_size as usize).and_then(|_| rest.u32()) else { return };
            let Some(name) = rest.string() else { return };
            let Some(ids) = (n_ids as usize).checked_mul(8).and_then(|n| rest.take(n)) else { return };
            event.name = name;
            if event.ids.is_empty() {
                event.ids = numbers(ids, rest.big);
            }
        }
    }
}

pub(crate) fn attr_size(bytes: &[u8], big: bool) -> u32 {
    bytes.get(4..8).and_then(|size| ByteReader::new(size, big).u32()).unwrap_or(0)
}

/// Decodes 64-bit numbers of either byte order.
pub(crate) fn numbers(bytes: &[u8], big: bool) -> Vec<u64> {
    let mut rest = ByteReader::new(bytes, big);
    std::iter::from_fn(|| rest.u64()).collect()
}

struct Input<'a> {
    file: &'a File,
    len: u64,
}

impl Input<'_> {
    fn bytes(&self, at: u64, size: u64) -> Option<Vec<u8>> {
        if at.checked_add(size)? > self.len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
