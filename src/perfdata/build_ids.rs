//! Build ids in a recording's header: by path, like perf's, and by file where several files had the same path.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::record::kinds::{BuildId, FileId, misc};

use super::bytes::{ByteReader, lines_of, text};
use super::features::{FeatureSection, Features, bit};

/// The first line of our feature, which distinguishes files of one path.
const HEAD: &str = "perfprof-tui files 1";
/// The maximum number of its lines that are read: a hostile file must not fill our memory.
const MAX: usize = 1 << 16;

/// A file with a known build id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifiedFile {
    pub(crate) kernel: bool,
    pub(crate) path: String,
    /// The identity of the file, to distinguish it from others of that path; unset if the path is enough.
    pub(crate) file: FileId,
    pub(crate) id: BuildId,
}

impl Features {
    /// Returns the files whose build ids the header has: first those by path, then those by file.
    pub(crate) fn identified_files(&self, big: bool) -> Vec<IdentifiedFile> {
        let mut list = Vec::new();
        let mut rest = self.get(bit::BUILD_ID).unwrap_or_default();
        while let Some(head) = rest.first_chunk::<8>() {
            let mut header = ByteReader::new(head, big);
            let (_, mode, size) = (header.u32(), header.u16().unwrap_or(0), header.u16().unwrap_or(0));
            let Some(record) = rest.get(8..usize::from(size)) else { break };
            list.extend(of_record(mode, record));
            rest = &rest[usize::from(size)..];
        }
        list.extend(decode(self.get(bit::FILES).unwrap_or_default()));
        list
    }
}

/// Reads the body of a BUILD_ID record: pid, 24 bytes of id, file name.
pub(crate) fn of_record(mode: u16, body: &[u8]) -> Option<IdentifiedFile> {
    let (id, name) = (body.get(4..28)?, body.get(28..)?);
    let len = if mode & 1 << 15 != 0 { usize::from(id[20]).min(20) } else { 20 };
    let kernel = matches!(mode & misc::CPUMODE_MASK, misc::KERNEL | misc::GUEST_KERNEL);
    Some(IdentifiedFile { kernel, path: text(name), file: FileId::None, id: BuildId::new(&id[..len])? })
}

/// Returns the sections that list files: one id per path, and those of paths with several files.
pub(crate) fn sections(list: &[IdentifiedFile]) -> Vec<FeatureSection> {
    let mut first = HashMap::new();
    let mut several = HashSet::new();
    let mut table = Vec::new();
    for file in list {
        match first.entry((file.kernel, &*file.path)) {
            Entry::Vacant(new) => {
                new.insert(file.id);
                record(&mut table, file);
            }
            Entry::Occupied(known) if *known.get() != file.id => {
                several.insert(&*file.path);
            }
            Entry::Occupied(_) => {}
        }
    }
    let mut sections = Vec::new();
    if !table.is_empty() {
        sections.push((bit::BUILD_ID, table));
    }
    if !several.is_empty() {
        sections.push((bit::FILES, encode(list.iter().filter(|file| several.contains(&*file.path)))));
    }
    sections
}

fn record(out: &mut Vec<u8>, file: &IdentifiedFile) {
    let name_len = (file.path.len() + 1).next_multiple_of(64);
    let Ok(size) = u16::try_from(8 + 4 + 24 + name_len) else { return };
    let mode = if file.kernel { misc::KERNEL } else { misc::USER };
    out.extend(0u32.to_le_bytes());
    out.extend((mode | 1 << 15).to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend((-1i32).to_le_bytes());
    let mut bytes = [0u8; 24];
    bytes[..file.id.bytes().len()].copy_from_slice(file.id.bytes());
    bytes[20] = file.id.bytes().len() as u8;
    out.extend(bytes);
    out.extend(file.path.as_bytes());
    out.resize(out.len() + name_len - file.path.len(), 0);
}

fn encode<'a>(files: impl Iterator<Item = &'a IdentifiedFile>) -> Vec<u8> {
    let mut out = format!("{HEAD}\n");
    for IdentifiedFile { path, file, id, .. } in files.filter(|file| !file.path.contains('\n')).take(MAX) {
        if let FileId::Inode { major, minor, inode, generation } = file {
            out.push_str(&format!("{major}\t{minor}\t{inode}\t{generation}\t{id}\t{path}\n"));
        }
    }
    out.into_bytes()
}

/// Decodes such text; malformed lines are skipped.
fn decode(bytes: &[u8]) -> Vec<IdentifiedFile> {
    let one = |line: &str| {
        let mut fields = line.splitn(6, '\t');
        let file = FileId::Inode {
            major: fields.next()?.parse().ok()?,
            minor: fields.next()?.parse().ok()?,
            inode: fields.next()?.parse().ok()?,
            generation: fields.next()?.parse().ok()?,
        };
        let id = BuildId::of_hex(fields.next()?)?;
        Some(IdentifiedFile { kernel: false, path: fields.next()?.to_owned(), file, id })
    };
    lines_of(bytes, HEAD, MAX, one)
}

pub(crate) fn of_kernel() -> Option<BuildId> {
    of_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

pub(crate) fn of_notes(mut rest: &[u8]) -> Option<BuildId> {
    while let Some(head) = rest.first_chunk::<12>() {
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]) as usize;
        let (name_len, desc_len, kind) = (word(0), word(4), word(8));
        let desc_at = 12usize.checked_add(name_len.checked_next_multiple_of(4)?)?;
        let desc = rest.get(desc_at..desc_at.checked_add(desc_len)?)?;
        if kind == 3 && rest.get(12..15) == Some(b"GNU") {
            return BuildId::new(desc);
        }
        rest = rest.get(desc_at + desc_len.checked_next_multiple_of(4)?..)?;
    }
    None
}

#[cfg(test)]
mod tests;
