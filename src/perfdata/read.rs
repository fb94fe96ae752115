//! Reads perf.data files. Sizes and offsets in the file are checked against the file before they
//! are used; what is wrong is said with its byte offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::kernel::attr::{Attr, MIN_SIZE};

use super::features::{bit, read_string};
use super::{EventDesc, HEADER_SIZE, MAGIC};

/// Why a file is no recording that we read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("is not a perf.data file (it starts with {0:?})")]
    Magic(String),
    #[error("is empty")]
    Empty,
    #[error("was recorded on a machine of the other byte order, which is not supported")]
    ByteOrder,
    #[error("has a damaged header: {what} at byte {at}")]
    Header { what: &'static str, at: u64 },
}

/// More events than this are damage, not a recording.
const MAX_EVENTS: u64 = 4096;
/// More ids of one event than this are damage.
const MAX_IDS: u64 = 1 << 20;
/// A feature larger than this is not read.
const MAX_FEATURE: u64 = 64 << 20;

/// An opened recording.
#[derive(Debug)]
pub struct Recording {
    pub file: File,
    pub len: u64,
    pub events: Vec<EventDesc>,
    /// Where records begin, and where they end.
    pub data: std::ops::Range<u64>,
    pub features: Vec<(u8, u64, u64)>,
    /// What is wrong but can be lived with, in words.
    pub warnings: Vec<String>,
}

impl Recording {
    pub fn open(file: File) -> Result<Self, ReadError> {
        let len = file.metadata()?.len();
        if len == 0 {
            return Err(ReadError::Empty);
        }
        let mut head = vec![0; len.min(HEADER_SIZE) as usize];
        file.read_exact_at(&mut head, 0)?;
        let magic = head.get(..8).unwrap_or(&head);
        if magic != MAGIC {
            let swapped: Vec<u8> = MAGIC.iter().rev().copied().collect();
            return Err(if magic == swapped {
                ReadError::ByteOrder
            } else {
                ReadError::Magic(String::from_utf8_lossy(magic).into_owned())
            });
        }
        head.resize(HEADER_SIZE as usize, 0);
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let mut rec = Self { file, len, events: Vec::new(), data: 0..0, features: Vec::new(), warnings: Vec::new() };
        rec.read_events(word(16), word(24), word(32))?;
        let (data_at, data_size) = (word(40), word(48));
        if data_at > len {
            return Err(ReadError::Header { what: "the data section begins after the end of the file", at: 40 });
        }
        let mut end = data_at.saturating_add(data_size);
        if data_size == 0 {
            rec.warnings.push(format!("the recording was interrupted: its header was never finished; reading records from byte {data_at} to the end"));
            end = len;
        } else if end > len {
            rec.warnings
                .push(format!("the file is cut short: {} bytes of records are missing after byte {len}", end - len));
            end = len;
        } else {
            rec.read_features(end, &head[72..104]);
        }
        rec.data = data_at..end;
        rec.read_names();
        Ok(rec)
    }

    fn bytes(&self, at: u64, size: u64) -> Option<Vec<u8>> {
        if at.checked_add(size)? > self.len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    fn read_events(&mut self, entry: u64, at: u64, size: u64) -> Result<(), ReadError> {
        let fault = |what| ReadError::Header { what, at: 16 };
        if entry < MIN_SIZE as u64 + 16 || entry > 4096 {
            return Err(fault("the size of an event's description is impossible"));
        }
        let n = size / entry;
        if n == 0 || n > MAX_EVENTS {
            return Err(fault("the number of events is impossible"));
        }
        let bytes = self.bytes(at, n * entry).ok_or_else(|| fault("the events' descriptions lie outside the file"))?;
        for one in bytes.chunks_exact(entry as usize) {
            let (attr, ids) = one.split_at(entry as usize - 16);
            let attr = Attr::decode(attr).ok_or_else(|| fault("an event's description is too short"))?;
            let word = |at: usize| u64::from_le_bytes(ids[at..at + 8].try_into().unwrap_or_default());
            let (ids_at, ids_size) = (word(0), word(8).min(MAX_IDS * 8));
            let ids = self.bytes(ids_at, ids_size).unwrap_or_default();
            let ids = crate::record::sample::words(&ids).collect();
            self.events.push(EventDesc { name: String::new(), attr, ids });
        }
        Ok(())
    }

    fn read_features(&mut self, table: u64, bits: &[u8]) {
        let set: Vec<u8> = (0..=255u8).filter(|b| bits[usize::from(b / 8)] >> (b % 8) & 1 == 1).collect();
        let Some(bytes) = self.bytes(table, 16 * set.len() as u64) else {
            self.warnings.push(format!(
                "the table of features after byte {table} is cut short: facts about the machine are missing"
            ));
            return;
        };
        let words: Vec<u64> = crate::record::sample::words(&bytes).collect();
        self.features = set.into_iter().zip(words.chunks(2)).map(|(bit, w)| (bit, w[0], w[1])).collect();
    }

    /// The bytes of a feature.
    pub fn feature(&self, bit: u8) -> Option<Vec<u8>> {
        let (_, at, size) = self.features.iter().find(|(b, _, _)| *b == bit)?;
        (*size <= MAX_FEATURE).then(|| self.bytes(*at, *size))?
    }

    /// A feature that is one string.
    pub fn text(&self, bit: u8) -> Option<String> {
        Some(read_string(&self.feature(bit)?)?.0)
    }

    /// Takes the events' names, and ids that the header lacks, from EVENT_DESC.
    fn read_names(&mut self) {
        let Some(bytes) = self.feature(bit::EVENT_DESC) else { return };
        let word =
            |b: &[u8], at: usize| b.get(at..at + 4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]) as usize);
        let (Some(n), Some(attr_size)) = (word(&bytes, 0), word(&bytes, 4)) else { return };
        let mut rest = &bytes[8..];
        for i in 0..n.min(self.events.len()) {
            let Some(n_ids) = rest.get(attr_size..).and_then(|r| word(r, 0)) else { return };
            let Some((name, after)) = read_string(&rest[attr_size + 4..]) else { return };
            let Some(ids) = n_ids.checked_mul(8).and_then(|n| after.get(..n)) else { return };
            self.events[i].name = name;
            if self.events[i].ids.is_empty() {
                self.events[i].ids = crate::record::sample::words(ids).collect();
            }
            rest = &after[n_ids * 8..];
        }
    }
}
