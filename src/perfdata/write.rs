//! Writes perf.data files that every perf opens: attrs of 112 bytes, features last.
//!
//! ```text
//!   header │ ids │ attrs │ records … │ feature table │ features
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::kernel::attr::FILE_SIZE;
use crate::record::kinds::{HEADER, types};

use super::features::Section;
use super::{EventDesc, HEADER_SIZE, MAGIC};

/// A recording under way.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
    attrs_at: u64,
    n_events: usize,
    data_at: u64,
    written: u64,
}

impl Writer {
    /// Starts a file for these events and their ids.
    pub fn start(file: File, events: &[EventDesc]) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        out.write_all(&[0; HEADER_SIZE as usize])?;
        let n_ids: usize = events.iter().map(|e| e.ids.len()).sum();
        let attrs_at = HEADER_SIZE + 8 * n_ids as u64;
        let mut ids_at = HEADER_SIZE;
        for event in events {
            for id in &event.ids {
                out.write_all(&id.to_le_bytes())?;
            }
        }
        for event in events {
            out.write_all(&event.attr.encode())?;
            out.write_all(&ids_at.to_le_bytes())?;
            out.write_all(&(8 * event.ids.len() as u64).to_le_bytes())?;
            ids_at += 8 * event.ids.len() as u64;
        }
        let data_at = attrs_at + ((FILE_SIZE + 16) * events.len()) as u64;
        let mut writer = Self { out, attrs_at, n_events: events.len(), data_at, written: 0 };
        // A header with an empty data section: what a killed recorder leaves can be salvaged.
        writer.header(&[])?;
        Ok(writer)
    }

    /// Appends whole records.
    pub fn records(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Marks the end of a round: whatever is older than the round before has been written.
    pub fn finish_round(&mut self) -> io::Result<()> {
        let mut record = [0u8; HEADER];
        record[..4].copy_from_slice(&types::FINISHED_ROUND.to_le_bytes());
        record[6..].copy_from_slice(&(HEADER as u16).to_le_bytes());
        self.records(&record)
    }

    /// Bytes of records so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes the features and the final header. Returns the size of the file.
    pub fn finish(mut self, mut sections: Vec<Section>) -> io::Result<u64> {
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

    fn header(&mut self, features: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(HEADER_SIZE as usize);
        head.extend_from_slice(MAGIC);
        let attrs_size = ((FILE_SIZE + 16) * self.n_events) as u64;
        for word in [HEADER_SIZE, (FILE_SIZE + 16) as u64, self.attrs_at, attrs_size, self.data_at, self.written, 0, 0]
        {
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

/// A file that appears under its name only when it is complete. Dropped unfinished, it leaves
/// nothing behind.
#[derive(Debug)]
pub struct Atomic {
    temporary: PathBuf,
    target: PathBuf,
    done: bool,
}

impl Atomic {
    /// Creates the temporary file beside the target, readable by its owner only: recordings hold
    /// what the profiled processes do.
    pub fn create(target: &Path) -> io::Result<(Self, File)> {
        use std::os::unix::fs::OpenOptionsExt;
        let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let temporary = target.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
        Ok((Self { temporary, target: target.to_owned(), done: false }, file))
    }

    /// Puts the file in its place.
    pub fn commit(mut self) -> io::Result<()> {
        File::open(&self.temporary)?.sync_all()?;
        std::fs::rename(&self.temporary, &self.target)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Atomic {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}
