//! The writer of perf.data files, readable by every perf: attrs of 112 bytes, features last.
//!
//! ```text
//!   header │ ids │ attrs │ records … │ feature table │ features [ │ ids ]
//! ```
//!
//! Ids of events that were opened during the recording do not fit into the initial list. Then all ids are listed again
//! at the end of the file, and the attrs point there.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::PathBuf;

use crate::kernel::attr::FILE_SIZE;
use crate::kernel::files::NewFile;
use crate::record::kinds::{HEADER, encode, types};

use super::compress::Packer;
use super::features::FeatureSection;
use super::{EventDesc, HEADER_SIZE, MAGIC};

const ENTRY: usize = FILE_SIZE + 16;

/// A recording being written.
pub struct Writer {
    out: BufWriter<NewFile>,
    attrs_at: u64,
    n_events: usize,
    n_ids: usize,
    data_at: u64,
    pub(super) written: u64,
    packer: Option<Packer>,
    packed: Vec<u8>,
}

impl Writer {
    /// Starts a file for these events and their ids.
    pub fn start(file: NewFile, events: &[EventDesc]) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        out.write_all(&[0; HEADER_SIZE as usize])?;
        let n_ids = count(events);
        let attrs_at = HEADER_SIZE + 8 * n_ids as u64;
        write_ids(&mut out, events)?;
        for (event, place) in events.iter().zip(places(events, HEADER_SIZE)) {
            out.write_all(&event.attr.encode())?;
            out.write_all(&place)?;
        }
        let data_at = attrs_at + (ENTRY * events.len()) as u64;
        let mut writer = Self {
            out,
            attrs_at,
            n_events: events.len(),
            n_ids,
            data_at,
            written: 0,
            packer: None,
            packed: Vec::new(),
        };
        // A header with an empty data section: the file of a killed recorder can be salvaged.
        writer.header(&[])?;
        Ok(writer)
    }

    pub(crate) fn call(&mut self, name: &OsStr) {
        self.out.get_mut().call(name);
    }

    pub(crate) fn pack(&mut self, level: i32) -> io::Result<()> {
        self.packer = Some(Packer::new(level)?);
        Ok(())
    }

    /// Appends whole records.
    pub fn records(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(packer) = &mut self.packer else { return self.plain(bytes) };
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        packer.pack(bytes, &mut packed)?;
        let written = self.plain(&packed);
        self.packed = packed;
        written
    }

    fn plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Returns the bytes of records so far, as stored in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Marks the end of a round: all records older than the previous round have been written.
    pub(crate) fn finish_round(&mut self) -> io::Result<()> {
        let mut mark = Vec::with_capacity(HEADER);
        let _ = encode(&mut mark, types::FINISHED_ROUND, 0, |_| {});
        self.plain(&mark)
    }

    /// Keeps what was written so far under its temporary name, and returns that name.
    pub(crate) fn keep(&mut self) -> Option<PathBuf> {
        // If this fails on a full disk, the last records are missing.
        let _ = self.out.flush();
        self.out.get_mut().keep()
    }

    /// Writes the features and the final header, and moves the file to its name. The previous file is kept as NAME.old,
    /// as perf does. Returns the size.
    pub fn finish(&mut self, sections: Vec<FeatureSection>, events: &[EventDesc]) -> io::Result<u64> {
        let mut size = self.complete(sections)?;
        if count(events) != self.n_ids {
            size = self.list_ids(events, size)?;
        }
        self.out.get_mut().commit_beside_old()?;
        Ok(size)
    }

    fn complete(&mut self, mut sections: Vec<FeatureSection>) -> io::Result<u64> {
        // A file without records would be taken for that of a killed recorder.
        if self.written == 0 {
            self.finish_round()?;
        }
        sections.extend(self.packer.as_ref().map(Packer::feature));
        sections.sort_by_key(|(bit, _)| *bit);
        let mut at = self.data_at + self.written + 16 * sections.len() as u64;
        for (_, bytes) in &sections {
            self.out.write_all(&at.to_le_bytes())?;
            self.out.write_all(&(bytes.len() as u64).to_le_bytes())?;
            at += bytes.len() as u64;
        }
        for (_, bytes) in &sections {
            self.out.write_all(bytes)?;
        }
        let bits: Vec<u8> = sections.iter().map(|(bit, _)| *bit).collect();
        self.header(&bits)?;
        self.out.flush()?;
        Ok(at)
    }

    /// Lists the ids at `end` of the file; returns the new end.
    fn list_ids(&mut self, events: &[EventDesc], end: u64) -> io::Result<u64> {
        self.out.seek(SeekFrom::Start(end))?;
        write_ids(&mut self.out, events)?;
        for (i, place) in places(events, end).enumerate() {
            self.out.seek(SeekFrom::Start(self.attrs_at + (i * ENTRY + FILE_SIZE) as u64))?;
            self.out.write_all(&place)?;
        }
        self.out.flush()?;
        Ok(end + 8 * count(events) as u64)
    }

    fn header(&mut self, features: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(HEADER_SIZE as usize);
        head.extend_from_slice(MAGIC);
        let attrs_size = (ENTRY * self.n_events) as u64;
        for word in [HEADER_SIZE, ENTRY as u64, self.attrs_at, attrs_size, self.data_at, self.written, 0, 0] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        let mut bits = [0u8; 32];
        for bit in features {
            bits[usize::from(bit / 8)] |= 1 << (bit % 8);
        }
        head.extend_from_slice(&bits);
        let end = self.out.stream_position()?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&head)?;
        self.out.seek(SeekFrom::Start(end.max(self.data_at)))?;
        Ok(())
    }
}

fn count(events: &[EventDesc]) -> usize {
    events.iter().map(|event| event.ids.len()).sum()
}

fn write_ids(out: &mut impl Write, events: &[EventDesc]) -> io::Result<()> {
    events.iter().flat_map(|event| &event.ids).try_for_each(|id| out.write_all(&id.to_le_bytes()))
}

/// Returns the position and the size of each event's ids in a list that starts at `at`, as stored in its attr.
fn places(events: &[EventDesc], mut at: u64) -> impl Iterator<Item = [u8; 16]> {
    events.iter().map(move |event| {
        let size = 8 * event.ids.len() as u64;
        let place = u128::from(at) | u128::from(size) << 64;
        at += size;
        place.to_le_bytes()
    })
}
