//! The writer of recordings as a stream, which can be read while it is written: perf's pipe mode
//! (tools/perf/Documentation/perf.data-file-format.txt).

use std::io::{self, Write};

use crate::record::kinds::{HEADER, encode, types};

use super::features::{FeatureSection, bit};
use super::read::PIPE_HEADER;
use super::{EventDesc, MAGIC};

/// A stream being written.
pub struct StreamWriter {
    out: Box<dyn Write + Send>,
    written: u64,
}

impl StreamWriter {
    /// Starts a stream of these events, with sections that describe their machine.
    pub fn start(
        mut out: Box<dyn Write + Send>,
        events: &[EventDesc],
        sections: &[FeatureSection],
    ) -> io::Result<Self> {
        let mut head = Vec::new();
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&PIPE_HEADER.to_le_bytes());
        for event in events {
            let mut body = event.attr.encode().to_vec();
            event.ids.iter().for_each(|id| body.extend_from_slice(&id.to_le_bytes()));
            record(&mut head, types::HEADER_ATTR, &body);
        }
        for (section, bytes) in sections.iter().filter(|(section, _)| *section != bit::TRACING_DATA) {
            feature(&mut head, *section, bytes);
        }
        for (_, bytes) in sections.iter().filter(|(section, _)| *section == bit::TRACING_DATA) {
            // The payload follows its record.
            let padded = bytes.len().next_multiple_of(8);
            let mut announced = Vec::new();
            announced.extend_from_slice(&types::HEADER_TRACING_DATA.to_le_bytes());
            announced.extend_from_slice(&0u16.to_le_bytes());
            announced.extend_from_slice(&12u16.to_le_bytes());
            announced.extend_from_slice(&(padded as u32).to_le_bytes());
            head.extend_from_slice(&announced);
            head.extend_from_slice(bytes);
            head.resize(head.len() + padded - bytes.len(), 0);
        }
        out.write_all(&head)?;
        out.flush()?;
        Ok(Self { out, written: head.len() as u64 })
    }

    /// Appends a section that replaces an earlier, less precise one.
    pub fn section(&mut self, (section, bytes): &FeatureSection) -> io::Result<()> {
        let mut out = Vec::new();
        feature(&mut out, *section, bytes);
        self.records(&out)
    }

    /// Appends whole records.
    pub fn records(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Marks the end of a round, and flushes the output.
    pub fn finish_round(&mut self) -> io::Result<()> {
        let mut mark = Vec::with_capacity(HEADER);
        record(&mut mark, types::FINISHED_ROUND, &[]);
        self.records(&mark)?;
        self.out.flush()
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }
}

fn feature(out: &mut Vec<u8>, section: u8, bytes: &[u8]) {
    if section < bit::MARKS {
        return record(out, types::HEADER_FEATURE, &[&u64::from(section).to_le_bytes(), bytes].concat());
    }
    // An update needs an event's id; 0 matches the first one.
    let (kind, id) = (bit::UPDATE | u64::from(section), 0u64);
    record(out, types::EVENT_UPDATE, &[&kind.to_le_bytes(), &id.to_le_bytes(), bytes].concat());
}

/// Appends a record, unless it exceeds the maximum record size.
fn record(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let _ = encode(out, kind, 0, |out| out.extend_from_slice(body));
}
