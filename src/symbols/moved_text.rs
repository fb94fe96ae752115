//! Program text that was moved to anonymous memory. Some programs move themselves into huge pages. The original file is
//! the one mapped next to the memory; comparing the content of both proves it.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::bytes::Bytes;
use super::elf::program::{ElfProgram, Segment};
use super::names::demangle::NameForm;
use super::names::loaded::{LoadedFiles, Symbolized};
use super::options::SymbolOptions;
use super::trust::door;
use super::trust::find_file::FileSearch;
use super::trust::same_file;
use crate::kernel::procfs::{self, ProcMapping};
use crate::record::kinds::FileId;
use crate::session::dso::is_anonymous;
use crate::session::{Dso, DsoKind};

/// The longest piece of a function that is compared.
const COMPARED: u64 = 64 << 10;
/// The interval of rereading maps where memory is not a program's text.
const PATIENCE: Duration = Duration::from_secs(10);
/// The limit of files with moved text per process.
const MAX_FILES: usize = 16;

#[derive(Debug, Default)]
pub(super) struct MovedText {
    files: Vec<(FileId, LoadedFiles, u32)>,
    asked: Option<Instant>,
}

/// A mapped file, extended over the anonymous memory next to it.
struct Neighbour {
    dso: Dso,
    map: ProcMapping,
}

impl MovedText {
    pub(super) fn user(&self) -> u32 {
        self.files.first().map_or(0, |(.., user)| *user)
    }

    pub(super) fn memory(&self) -> usize {
        self.files.iter().map(|(_, loaded, _)| loaded.memory()).sum()
    }

    /// Returns the function at an address of memory, from the file next to it. `read` reads a file's functions.
    pub(super) fn find(
        &mut self,
        dso: &Dso,
        addr: u64,
        options: &SymbolOptions,
        read: impl FnOnce(&Dso, &SymbolOptions) -> Option<(LoadedFiles, u32)>,
        form: NameForm,
    ) -> Option<Symbolized> {
        if self.files.is_empty() && self.asked.is_some_and(|at| at.elapsed() < PATIENCE) {
            return None;
        }
        self.asked = Some(Instant::now());
        // In a recording, the running process must be the recorded one.
        let (pid, ..) = dso.via.filter(|_| options.live || FileSearch::of_survivor(dso, options).is_some())?;
        let Neighbour { dso: of, map } = neighbour(pid, addr, dso)?;
        let file = door::mapped(pid, map.start, map.end).ok().and_then(|file| Bytes::of(&file).ok())?;
        let bias = addr.wrapping_sub(text_offset(&file, &map, addr)?);
        let known = self.files.iter().position(|(file, ..)| *file == of.file);
        let at = match known {
            Some(at) => at,
            None if self.files.len() < MAX_FILES => {
                let (loaded, user) = read(&of, options)?;
                self.files.push((of.file, loaded, user));
                self.files.len() - 1
            }
            None => return None,
        };
        let found = self.files.get_mut(at)?.1.find(addr.wrapping_sub(bias), form).ok().flatten()?;
        is_equal(pid, &map, &of.file, (found.start, found.end), bias).then(|| Symbolized {
            start: found.start.wrapping_add(bias),
            end: found.end.wrapping_add(bias),
            ..found
        })
    }
}

/// Returns the offset in a file of an address in its text, given a mapping of another part: parts may have other
/// distances in memory than in the file. `None` if the file has no text there.
pub(super) fn text_offset(file: &[u8], neighbour: &ProcMapping, addr: u64) -> Option<u64> {
    const PAGE: u64 = 4096;
    let program = ElfProgram::of(file).ok()?;
    let has = |bit: i32| neighbour.prot & bit as u32 != 0;
    let is_mapped = |part: &&Segment| {
        part.is_code == has(libc::PROT_EXEC)
            && part.offset & !(PAGE - 1) <= neighbour.offset
            && neighbour.offset < part.offset.saturating_add(part.size)
    };
    // A part that becomes read-only after relocation is in one that can be written.
    let parts = program.segments.iter().filter(is_mapped);
    let part = parts.max_by_key(|part| part.is_writable == has(libc::PROT_WRITE))?;
    let base = neighbour.start.wrapping_sub(neighbour.offset).wrapping_sub(part.address.wrapping_sub(part.offset));
    let linked = addr.wrapping_sub(base);
    let is_text = |part: &&Segment| part.is_code && linked.wrapping_sub(part.address) < part.size;
    let text = program.segments.iter().find(is_text)?;
    Some(linked.wrapping_sub(text.address).wrapping_add(text.offset))
}

/// Returns the file that is mapped below or above anonymous memory, at the distance of the file's segments.
fn neighbour(pid: i32, addr: u64, memory: &Dso) -> Option<Neighbour> {
    let maps = procfs::maps(pid);
    let at =
        maps.iter().position(|map| (map.start..map.end).contains(&addr)).filter(|at| is_anonymous(&maps[*at].name))?;
    let is_file = |map: &&ProcMapping| map.inode != 0 && !is_anonymous(&map.name);
    let below = maps.get(..at)?.iter().rev().find(is_file);
    let above = maps.get(at + 1..)?.iter().find(is_file);
    let bias = |map: &ProcMapping| map.start.wrapping_sub(map.offset);
    let is_one =
        |a: &ProcMapping, b: &ProcMapping| (a.major, a.minor, a.inode, bias(a)) == (b.major, b.minor, b.inode, bias(b));
    let map = match (below, above) {
        (Some(below), Some(above)) if is_one(below, above) => below,
        (Some(below), _) if addr >= bias(below) => below,
        (_, above) => above?,
    };
    let file = FileId::Inode { major: map.major, minor: map.minor, inode: map.inode, generation: 0 };
    let dso = Dso {
        kind: DsoKind::File,
        path: String::from_utf8_lossy(&map.name).into(),
        raw_path: map.name.as_slice().into(),
        file,
        build_id: None,
        extent: 0,
        via: Some((pid, map.start, map.end)),
        ..memory.clone()
    };
    Some(Neighbour { dso, map: map.clone() })
}

/// Returns whether a process's memory equals a function in a file.
fn is_equal(pid: i32, map: &ProcMapping, id: &FileId, (start, end): (u64, u64), bias: u64) -> bool {
    let len = end.saturating_sub(start).min(COMPARED) as usize;
    let Ok(file) = door::mapped(pid, map.start, map.end) else { return false };
    let mut stored = vec![0; len];
    let is_read = same_file::has_inode(&file, id) && file.read_exact_at(&mut stored, start).is_ok();
    len > 0 && is_read && procfs::memory_in_time(pid, start.wrapping_add(bias), len).is_ok_and(|held| held == stored)
}

#[cfg(test)]
mod tests {
    use super::super::trust::find_file::tests::{SPIN, map};
    use super::*;

    /// A program's text was moved; each of its other parts leads to it.
    #[test]
    fn text_is_found_by_each_part_of_its_file() {
        const BASE: u64 = 0x5500_0000_0000;
        let file = map(SPIN);
        let program = ElfProgram::of(&file).expect("a program");
        let text = program.segments.iter().find(|part| part.is_code).expect("it has code");
        let others = program.segments.iter().filter(|part| !part.is_code);
        let shifts: Vec<u64> = others
            .map(|part| {
                let offset = part.offset & !0xfff;
                let start = BASE + part.address - (part.offset - offset);
                let write = if part.is_writable { 'w' } else { '-' };
                let line = format!("{start:x}-{:x} r{write}-p {offset:x} 08:01 7 /spin", start + part.memory);
                let neighbour = procfs::parse_maps_line(line.as_bytes()).expect("a line");
                let found = |linked: u64| text_offset(&file, &neighbour, BASE + linked);
                assert_eq!(found(text.address + 8), Some(text.offset + 8), "{part:?}");
                assert_eq!(found(text.address + text.size), None);
                assert_eq!(text_offset(&file[..40], &neighbour, BASE + text.address), None);
                part.address - part.offset
            })
            .collect();
        assert!(shifts.iter().any(|shift| *shift != text.address - text.offset), "distances differ: {shifts:x?}");
    }
}
