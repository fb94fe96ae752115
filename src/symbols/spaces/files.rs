//! Tables of files, each made and kept once, however many processes, paths and containers have what it is of.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object::{Object, ObjectSegment, SegmentFlags};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::procfs;
use crate::kernel::walk::{Mapping, RowRange, Store};
use crate::symbols::bytes::Bytes;
use crate::symbols::{door, elf, unwind_rows};

/// Files whose tables are kept, and paths to them that are known.
const FILES: usize = 4096;
const PATHS: usize = 4 * FILES;
/// The time after which room that was given up is to be had again; a program in the kernel may read it for a moment.
const RESTED: Duration = Duration::from_millis(1100);

/// A table, as processes hold on to it.
pub(crate) type Id = u32;

/// The identity of a file: device, inode, its change time and size; none for the vDSO.
type Key = Option<(u64, u64, i64, i64, u64)>;

/// A file's tables, as there is to say of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileTable {
    /// The path by which it was first met.
    pub(crate) name: Arc<str>,
    pub(crate) made: TableOutcome,
    /// Processes that have it mapped.
    pub(crate) processes: usize,
}

/// The outcome of making a file's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableOutcome {
    /// So many rows of a section.
    Of(&'static str, usize),
    /// Why there are none.
    Without(String),
    /// There was no room for so many rows.
    Full(usize),
}

#[derive(Debug)]
struct Table {
    told: FileTable,
    /// In order of their addresses; none where the file has no table.
    spans: Vec<RowRange>,
    /// Of the segments with code: offset and size in the file, and what is to be added to an offset to come to what
    /// rows count.
    segments: Vec<(u64, u64, u64)>,
    /// What it is of, in a number.
    digest: Option<u64>,
    /// When, as [`Files::turn`] counts, nobody had it any more.
    idle_since: u64,
}

/// All tables.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: FxHashMap<Key, Id>,
    /// Those of equal contents, by digest: files of several containers are mostly the same.
    same: FxHashMap<u64, Id>,
    tables: FxHashMap<Id, Table>,
    /// Nobody outside knows what it makes of a file, and so cannot make one that is taken for another.
    hasher: RandomState,
    turn: u64,
    next: Id,
    /// Tables that wait for room, and since when some was made.
    waiting: FxHashSet<Id>,
    room_since: Option<Instant>,
}

impl Files {
    /// The table of a mapping's file; `None` where it is none of a file, or of one that is not opened.
    pub(crate) fn of(&mut self, pid: i32, map: &procfs::ProcMapping, store: &mut impl Store) -> Option<Id> {
        let name = || String::from_utf8_lossy(&map.name).into_owned();
        if map.name == b"[vdso]" {
            return Some(self.known.get(&None).copied().unwrap_or_else(|| {
                let bytes = Bytes::from(procfs::vdso().unwrap_or_default());
                self.make(None, name(), &bytes, store)
            }));
        }
        if map.inode == 0 {
            return None;
        }
        let file = door::mapped(pid, map.start, map.end).ok()?;
        let key = Some(key_of(&file).ok()?);
        if let Some(id) = self.known.get(&key) {
            return Some(*id);
        }
        let bytes = Bytes::of(&file).ok()?;
        let id = self.make(key, name(), &bytes, store);
        bytes.rest();
        Some(id)
    }

    /// Makes a file's table, unless there is one of the same contents. Where there is no more room, those go that
    /// nobody had for longest.
    fn make(&mut self, key: Key, name: String, bytes: &Bytes, store: &mut impl Store) -> Id {
        if self.known.len() >= PATHS {
            self.known.clear();
        }
        let digest = unwind_rows::contents(bytes).map(|parts| self.hasher.hash_one(parts));
        if let Some(id) = digest.and_then(|digest| self.same.get(&digest)) {
            self.known.insert(key, *id);
            return *id;
        }
        if self.tables.len() >= FILES {
            self.drop_idle(FILES / 4, usize::MAX, store);
        }
        let (id, mut spans, mut segments) = (self.next, Vec::new(), Vec::new());
        self.next = self.next.wrapping_add(1);
        let made = match unwind_rows::of(bytes) {
            Ok(rows) => {
                segments = code(bytes, rows.base);
                match store.add(&rows.rows) {
                    Ok(found) => {
                        spans = found;
                        TableOutcome::Of(rows.section, rows.rows.len())
                    }
                    Err(_) => {
                        self.drop_idle(usize::MAX, rows.rows.len(), store);
                        self.waiting.insert(id);
                        TableOutcome::Full(rows.rows.len())
                    }
                }
            }
            Err(why) => TableOutcome::Without(why.to_string()),
        };
        let told = FileTable { name: name.into(), made, processes: 0 };
        self.tables.insert(id, Table { told, spans, segments, digest, idle_since: self.turn });
        self.known.insert(key, id);
        self.same.extend(digest.map(|digest| (digest, id)));
        id
    }

    /// Drops tables that nobody has, those first that nobody had for longest: so many at most, and no more than it
    /// takes to have room for so many rows.
    fn drop_idle(&mut self, most: usize, rows: usize, store: &mut impl Store) {
        let idle = self.tables.iter().filter(|(_, table)| table.told.processes == 0);
        let mut idle: Vec<(u64, Id)> = idle.map(|(id, table)| (table.idle_since, *id)).collect();
        idle.sort_unstable();
        let mut left = rows;
        for (_, id) in idle.into_iter().take(most) {
            if left == 0 {
                break;
            }
            let Some(table) = self.forget(id) else { continue };
            left = left.saturating_sub(table.spans.iter().map(|span| span.n as usize).sum());
            store.release(&table.spans);
            self.room_since = Some(Instant::now());
        }
    }

    fn forget(&mut self, id: Id) -> Option<Table> {
        let table = self.tables.remove(&id)?;
        self.known.retain(|_, own| *own != id);
        table.digest.map(|digest| self.same.remove(&digest));
        self.waiting.remove(&id);
        Some(table)
    }

    /// The time at which tables that wait for room are to be made anew.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.room_since.filter(|_| !self.waiting.is_empty()).map(|since| since + RESTED)
    }

    /// Takes those that wait for room: they are made anew for whoever asks.
    pub(crate) fn take_waiting(&mut self) -> FxHashSet<Id> {
        self.room_since = None;
        let waiting = std::mem::take(&mut self.waiting);
        self.known.retain(|_, id| !waiting.contains(id));
        self.same.retain(|_, id| !waiting.contains(id));
        waiting
    }

    #[cfg(test)]
    pub(crate) fn make_room(&mut self) {
        self.room_since = Some(Instant::now());
    }

    /// One more process has these.
    pub(crate) fn take(&mut self, ids: &[Id]) {
        for id in ids {
            self.tables.entry(*id).and_modify(|table| table.told.processes += 1);
        }
    }

    /// One process less has these.
    pub(crate) fn give_up(&mut self, ids: &[Id]) {
        self.turn += 1;
        for id in ids {
            let Some(table) = self.tables.get_mut(id) else { continue };
            table.told.processes = table.told.processes.saturating_sub(1);
            table.idle_since = self.turn;
            if table.told.processes > 0 {
                continue;
            }
            if !self.waiting.is_empty() && !table.spans.is_empty() {
                // Its room is wanted; whoever waits asks for it, and drops this one.
                self.room_since.get_or_insert_with(Instant::now);
            }
            if matches!(table.told.made, TableOutcome::Full(_)) {
                self.forget(*id);
            }
        }
    }

    /// The mappings by which one of a file is walked: by parts, where its rows lie in several places.
    pub(crate) fn place(&self, id: Id, map: &procfs::ProcMapping, out: &mut Vec<Mapping>) {
        match self.tables.get(&id) {
            Some(table) => table.place(map, out),
            None => out.push(Mapping { start: map.start, end: map.end, bias: 0, span: None }),
        }
    }

    /// The figures of those that are in use.
    pub(crate) fn told(&self) -> Vec<FileTable> {
        let used = self.tables.values().filter(|table| table.told.processes > 0);
        let mut told: Vec<FileTable> = used.map(|table| table.told.clone()).collect();
        told.sort_by(|a, b| b.processes.cmp(&a.processes).then_with(|| a.name.cmp(&b.name)));
        told
    }
}

impl Table {
    fn place(&self, map: &procfs::ProcMapping, out: &mut Vec<Mapping>) {
        let within = |(offset, size, _): &&(u64, u64, u64)| {
            map.offset < offset.saturating_add(*size) && offset.saturating_sub(map.offset) < map.end - map.start
        };
        let segment = self.segments.iter().find(within);
        let (Some((_, _, shift)), Some(_)) = (segment, self.spans.first()) else {
            return out.push(Mapping { start: map.start, end: map.end, bias: 0, span: None });
        };
        let bias = map.start.wrapping_sub(map.offset).wrapping_sub(*shift);
        let mut from = map.start;
        for (i, span) in self.spans.iter().enumerate() {
            let next = self.spans.get(i + 1).map(|next| bias.wrapping_add(u64::from(next.pc)));
            let end = next.unwrap_or(map.end).clamp(from, map.end);
            if from < end {
                out.push(Mapping { start: from, end, bias, span: Some(*span) });
            }
            from = end;
        }
    }
}

/// Segments with code, as [`Table`] has them.
fn code(bytes: &Bytes, base: u64) -> Vec<(u64, u64, u64)> {
    let Ok(file) = elf::parse(bytes) else { return Vec::new() };
    let code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
    let segments = file.segments().filter(|segment| code(segment.flags()));
    let one =
        |(offset, size): (u64, u64), address: u64| (offset, size, address.wrapping_sub(offset).wrapping_sub(base));
    segments.map(|segment| one(segment.file_range(), segment.address())).collect()
}

fn key_of(file: &std::fs::File) -> io::Result<(u64, u64, i64, i64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = file.metadata()?;
    Ok((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
}

#[cfg(test)]
pub(crate) mod tests;
