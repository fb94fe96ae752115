//! Files of /proc and /sys that are read repeatedly into the same buffers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The root directories of the files; tests use others.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The procfs root: `/proc` on the machine itself.
    pub proc: PathBuf,
    /// The sysfs root: `/sys` on the machine itself.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// A file of /proc or /sys that stays open and is read from its start each time.
#[derive(Debug)]
pub(crate) struct ProcFile {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl ProcFile {
    /// Returns a file of about `size` bytes; larger ones are read whole as well.
    pub(crate) fn new(path: PathBuf, size: usize) -> Self {
        Self { path, file: None, buffer: vec![0; size.max(64)] }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the current content. After a failed read, the next call opens the file again.
    pub(crate) fn read(&mut self) -> io::Result<&[u8]> {
        match self.try_read() {
            Ok(used) => Ok(&self.buffer[..used]),
            Err(error) => {
                self.file = None;
                Err(error)
            }
        }
    }

    fn try_read(&mut self) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        let mut used = 0;
        loop {
            match file.read_at(&mut self.buffer[used..], used as u64)? {
                0 => return Ok(used),
                n => used += n,
            }
            if used == self.buffer.len() {
                self.buffer.resize(2 * used, 0);
            }
        }
    }
}

/// Returns the clock ticks per second of /proc/stat (sysconf(3), `_SC_CLK_TCK`).
pub(crate) fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_each_time_whatever_its_size() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("f");
        let mut file = ProcFile::new(path.clone(), 0);
        assert!(file.read().is_err(), "it is not there");
        for text in ["a".repeat(1000), "b".to_owned(), String::new()] {
            std::fs::write(&path, &text).expect("write");
            assert_eq!(file.read().expect("reads"), text.as_bytes());
        }
    }
}
