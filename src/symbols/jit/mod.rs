//! The functions of a JIT, from the files that it writes. They are `/tmp/perf-PID.map`, with lines of `START SIZE name`
//! in hexadecimal (tools/perf/Documentation/jit-interface.txt), and jitdump files (jitdump-specification.txt there).
//! Both are read incrementally as they grow.
//!
//! Everyone can create files in /tmp, so only files of certain owners are used ([`super::trust::door`]).

pub mod functions;
pub mod jitdump;
pub(crate) mod jits;
pub(crate) mod reuse;
pub mod slice;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::names::table::Symbol;
use super::options::SymbolOptions;
use super::trust::door;
use super::trust::find_file::FileSearch;
use super::trust::isolated::run_isolated;
use crate::kernel::machine::identity::Identity;
use crate::session::Dso;
use crate::symbols::jit::functions::{Collected, JitFunctions};
use crate::symbols::jit::reuse::CodeChange;
use crate::symbols::jit::slice::{PIECE, VisitBudget, VisitEnd};

/// The minimum interval between visits of a file.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes read in total per byte that may be kept. This ends files that repeat the same entries.
const READ_FOR_KEPT: u64 = 8;

#[derive(Debug)]
struct Growing {
    file: File,
    path: PathBuf,
    /// Bytes that were processed.
    upto: u64,
    dump: bool,
    /// Its size at two earlier visits: the last one, and the one that took an unterminated last line.
    seen: u64,
    tail: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// All was read; visit again later.
    Until(Instant),
    Done,
}

#[derive(Debug)]
pub(crate) struct Jit {
    files: Vec<Growing>,
    told: JitFunctions,
    state: State,
    read: u64,
    /// Missing files are looked for again; refused ones are not.
    wanted: Vec<(PathBuf, bool)>,
    /// Why an earlier process's file is not used, and whether that was reported.
    older: Option<(String, bool)>,
    live: bool,
    /// Whether samples and jitdump files use the same clock. Then reused addresses can be resolved by time.
    has_times: bool,
    most: usize,
    told_left_out: bool,
    /// The owner of the files.
    user: Option<u32>,
}

impl Jit {
    /// Creates the JIT of an anonymous DSO's process, limited to `most` bytes.
    pub(crate) fn new(dso: &Dso, options: &SymbolOptions, most: usize) -> Self {
        let (live, has_times) = (options.live, options.times.monotonic);
        let mut wanted = vec![(PathBuf::from(&*dso.path), false)];
        if let Some(dump) = &dso.dump {
            wanted.push((PathBuf::from(OsStr::from_bytes(dump)), true));
        }
        // The owner of a process is determined before its files are opened.
        let via = dso.via.filter(|_| live).and_then(|(pid, ..)| Identity::of_process(pid).ok());
        let (user, state) = (via.map(|who| who.uid), State::Reading);
        let collected = if live { Collected::Reused } else { Collected::Nothing };
        let told = JitFunctions::with_changes(most, collected);
        let (files, older, told_left_out) = (Vec::new(), None, false);
        Self { files, told, state, read: 0, wanted, older, live, has_times, most, told_left_out, user }
    }

    /// Adds a jitdump file that appeared later.
    pub(crate) fn follow(&mut self, dso: &Dso) {
        if let Some(dump) = &dso.dump {
            let path = PathBuf::from(OsStr::from_bytes(dump));
            let known = self.files.iter().any(|f| f.dump) || self.wanted.iter().any(|(_, dump)| *dump);
            if !known && self.state != State::Done {
                self.wanted.push((path, true));
                self.state = State::Reading;
            }
        }
    }

    pub(crate) fn user(&self) -> u32 {
        self.user.unwrap_or(0)
    }

    /// Reports, once, how many entries were left out.
    pub(crate) fn take_left_out(&mut self) -> Option<String> {
        let left_out = &self.told.left_out;
        let is_due = !self.told_left_out && !self.is_behind() && left_out.entries > 0;
        self.told_left_out |= is_due;
        is_due.then(|| self.told.left_out.to_string())
    }

    /// Returns the function at an address, which carries the generation of its code if records were ordered by time.
    pub(crate) fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        match self.live {
            true => self.told.find_newest(addr),
            false if self.has_times && !self.told.is_foreign_clock => self.told.find(addr),
            false => self.told.find_only(addr),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.told.memory()
    }

    pub(crate) fn is_due(&self) -> bool {
        match self.state {
            State::Reading => true,
            State::Until(at) => self.live && Instant::now() >= at,
            State::Done => false,
        }
    }

    /// Returns whether the process writes a jitdump file. Such a file reports code at reused addresses.
    pub(crate) fn follows_code(&self) -> bool {
        self.live && self.state != State::Done && self.files.iter().any(|file| file.dump)
    }

    /// Returns whether the last visit ended before the end of the files.
    pub(crate) fn is_behind(&self) -> bool {
        self.state == State::Reading
    }

    /// Reads as much as the slice allows. The error is why a file was rejected or is not read further; reported once.
    pub(crate) fn read_on(
        &mut self,
        dso: &Dso,
        options: &SymbolOptions,
        slice: &mut VisitBudget,
    ) -> Result<(), String> {
        let result = self.visit(dso, options, slice);
        self.state = match &result {
            Ok(true) => State::Until(Instant::now() + PATIENCE),
            Ok(false) => State::Reading,
            Err(_) => State::Done,
        };
        result?;
        match &mut self.older {
            Some((why, told @ false)) => {
                *told = true;
                Err(why.clone())
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` once all files are read.
    fn visit(&mut self, dso: &Dso, options: &SymbolOptions, slice: &mut VisitBudget) -> Result<bool, String> {
        for (path, dump) in std::mem::take(&mut self.wanted) {
            match FileSearch::new(dso, options).and_then(|places| places.jit(&path, dump)) {
                Ok(file) => {
                    self.user = self.user.or(file.metadata().map(|meta| meta.uid()).ok());
                    self.files.push(Growing { file, path, upto: 0, dump, seen: 0, tail: 0 });
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => self.wanted.push((path, dump)),
                // The process may still write its own map, and may have a jitdump file.
                Err(e) if door::is_older(&e) => {
                    self.wanted.push((path, dump));
                    self.older.get_or_insert((e.to_string(), false));
                }
                Err(e) => return Err(e.to_string()),
            }
        }
        let limit = READ_FOR_KEPT * self.most as u64;
        for Growing { file, path, upto, dump, seen, tail } in &mut self.files {
            let (before, left) = (*upto, slice.bytes);
            let how = match (*dump, self.live) {
                (true, true) => jitdump::read_on(file, upto, &mut self.told, slice),
                (true, false) => jitdump::read_by_time(file, upto, &mut self.told),
                (false, _) => read_map(file, upto, &mut self.told, slice),
            };
            // The DSO has the name of the map.
            let of_dump = |e: io::Error| format!("its jitdump file {}: {e}", path.display());
            let how = how.map_err(|e| if *dump { of_dump(e) } else { e.to_string() })?;
            self.read += (left - slice.bytes) as u64;
            let size = file.metadata().map_or(0, |meta| meta.len());
            // Live, an unterminated line is still being written, until the file has not grown for a while.
            let is_whole = !self.live || std::mem::replace(seen, size) == size;
            if how == VisitEnd::All && !*dump && size > *upto && size != *tail && is_whole {
                *tail = size;
                take_last_line(file, *upto, &mut self.told).map_err(|e| e.to_string())?;
            }
            if how == VisitEnd::Full || self.read > limit {
                return Err(format!(
                    "its JIT wrote more than {} MB: the rest is ignored; increase --memory",
                    before.max(*upto) >> 20
                ));
            }
            if how == VisitEnd::Part {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the changes of code from a recorded process's jitdump file, in order of time.
/// Empty if the file is rejected or uses another clock. Name lookups read the file again.
pub(crate) fn changes(dso: &Dso, path: &Path, options: &SymbolOptions) -> Vec<CodeChange> {
    let (of, at, options) = (dso.clone(), path.to_owned(), options.clone());
    let read = move || {
        let file = FileSearch::new(&of, &options).and_then(|places| places.jit(&at, true)).ok()?;
        let mut told = JitFunctions::with_changes(options.budget / 4, Collected::All);
        // Read errors are reported by the name lookup.
        let _ = jitdump::read_by_time(&file, &mut 0, &mut told);
        (!told.is_foreign_clock).then(|| told.take_changes())
    };
    run_isolated(read).ok().flatten().unwrap_or_default()
}

/// Reads the new complete lines of a map file. Fails if the file cannot be read or does not consist of lines.
pub fn read_map(file: &File, upto: &mut u64, told: &mut JitFunctions, slice: &mut VisitBudget) -> io::Result<VisitEnd> {
    if file.metadata()?.len() < *upto {
        // The file was truncated and written again.
        *upto = 0;
    }
    let mut piece = vec![0; PIECE];
    loop {
        let n = file.read_at(&mut piece, *upto)?;
        let Some(end) = memchr::memrchr(b'\n', &piece[..n]) else {
            if n < piece.len() {
                // An incomplete line, or no new data.
                return Ok(VisitEnd::All);
            }
            let words = format!("a line of its JIT's map is longer than {} KiB: the rest is ignored", PIECE >> 10);
            return Err(io::Error::other(words));
        };
        if !take_lines(&piece[..end], told) {
            return Ok(VisitEnd::Full);
        }
        *upto += end as u64 + 1;
        if !slice.take(n) {
            return Ok(VisitEnd::Part);
        }
    }
}

fn take_lines(text: &[u8], told: &mut JitFunctions) -> bool {
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.into_iter().all(|line| match entry(line) {
        Some((start, size, name)) => told.put(start, size, name),
        None => {
            told.left_out.add(line);
            true
        }
    })
}

/// Parses the address, size and name of a line. A function of unknown size gets one byte, as in perf.
fn entry(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut parts = line.splitn(3, |b| matches!(b, b' ' | b'\t'));
    let mut hex = || u64::from_str_radix(std::str::from_utf8(parts.next()?).ok()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (hex()?, hex()?);
    let name = parts.next().map(<[u8]>::trim_ascii_end).filter(|name| !name.is_empty())?;
    Some((start, size.max(1), name))
}

/// Parses a map's unterminated last line once it no longer grows.
fn take_last_line(file: &File, from: u64, told: &mut JitFunctions) -> io::Result<()> {
    let mut line = vec![0; PIECE];
    let n = file.read_at(&mut line, from)?;
    take_lines(&line[..n], told);
    Ok(())
}

#[cfg(test)]
mod tests;
