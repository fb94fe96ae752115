//! Tables of files. Each is built once, for all processes, paths and containers with the same content.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::procfs;
use crate::kernel::walk::{Mapping, Mark, RowRange, Store};
use crate::session::dso::is_anonymous;
use crate::symbols::bytes::Bytes;
use crate::symbols::languages::NotWalked;
use crate::symbols::languages::runtime_file::{LanguageVersion, RuntimeFile};
use crate::symbols::trust::find_file;
use crate::symbols::unwind::rows;

use super::InterpreterFigures;
use super::built_table::{BuildRequest, BuiltTable, ContentHasher, Id};

/// The limits of files with tables, and of known paths to them.
const FILES: usize = 4096;
const PATHS: usize = 4 * FILES;
/// The limit of queued builds. Further large tables are built at once, so that their user waits.
const MAX_COMING: usize = 256;
/// How long freed rows stay reserved, because a BPF program may still read them.
const RESTED: Duration = Duration::from_millis(1100);

/// The identity of a file. It consists of device, inode, change time (seconds and nanoseconds) and size.
type Identity = (u64, u64, i64, i64, u64);

/// The code that a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    File(Identity),
    /// The vDSO of 64-bit processes.
    Vdso,
    /// The vDSO of a 32-bit process, which could have changed its copy.
    NarrowVdso(i32),
}

/// 32-bit code is below this address.
const NARROW: u64 = 1 << 32;

/// A file's table, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileTable {
    /// The path at which the file was first found.
    pub(crate) name: Arc<str>,
    pub(crate) made: TableOutcome,
    pub(crate) processes: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum TableOutcome {
    /// The section, and its number of rows.
    Of(&'static str, usize),
    /// Why there are no rows.
    Without(String),
    /// There was no room for this many rows.
    Full(usize),
    /// The table is being built, which takes a while for a large file.
    #[default]
    Coming,
}

#[derive(Debug, Default)]
struct Table {
    told: FileTable,
    /// Sorted by address; empty if the file does not have rows.
    spans: Vec<RowRange>,
    /// Segments with code. Offset and size in the file, and the difference from an offset to the addresses in rows.
    segments: Vec<(u64, u64, u64)>,
    /// A word that identifies the file in memory: its address, counted like those in rows, and its value.
    mark: Option<(u64, u64)>,
    /// The interpreter in the file, known before its rows.
    interpreter: Option<(LanguageVersion, Result<Arc<RuntimeFile>, NotWalked>)>,
    /// Hash of the content that rows depend on, and of the mark.
    digest: Option<u64>,
    /// The value of [`Files::turn`] when its last process ended.
    idle_since: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    known: FxHashMap<Key, Id>,
    recent: RecentFiles,
    /// Tables by digest: files of different containers are mostly the same.
    same: FxHashMap<u64, Id>,
    tables: FxHashMap<Id, Table>,
    hasher: ContentHasher,
    /// The thread that builds tables of large files; without it, they are built here.
    elsewhere: Option<Sender<BuildRequest>>,
    /// Whether it builds all tables: something does not wait for rows.
    pub(crate) is_urgent: bool,
    /// How many tables it is building.
    coming: usize,
    turn: u64,
    next: Id,
    /// Tables that wait for room, and since when rows were freed.
    waiting: FxHashSet<Id>,
    room_since: Option<Instant>,
}

impl Files {
    pub(crate) fn new(hasher: ContentHasher, elsewhere: Sender<BuildRequest>) -> Self {
        Self { hasher, elsewhere: Some(elsewhere), ..Self::default() }
    }

    /// Returns the table of a mapping's file. `None` if it is not a file or cannot be opened.
    pub(crate) fn of(&mut self, pid: i32, map: &procfs::ProcMapping, store: &mut impl Store) -> Option<Id> {
        let name = || String::from_utf8_lossy(&map.name).into_owned();
        if map.name == b"[vdso]" {
            let is_narrow = map.end <= NARROW && size_of::<usize>() == 8;
            let key = if is_narrow { Key::NarrowVdso(pid) } else { Key::Vdso };
            if let Some(id) = self.known.get(&key) {
                return Some(*id);
            }
            // The 64-bit vDSO is read from this process, so that others cannot influence it.
            let image = if is_narrow { procfs::memory_of(pid, map) } else { procfs::vdso() };
            let bytes = Bytes::from(image.unwrap_or_default());
            let id = self.begin(key, name(), &bytes, store);
            return Some(self.make(id, &bytes, store));
        }
        if map.inode == 0 || is_anonymous(&map.name) {
            return None;
        }
        let recent = self.recent.get(map).and_then(|identity| self.known.get(&Key::File(identity)));
        if let Some(id) = recent {
            return Some(*id);
        }
        let file = find_file::of_mapping(pid, map).ok()?;
        let id = self.of_file(&name(), &file, store);
        self.recent.add(map, file);
        id
    }

    /// Returns the table of a file; `None` if it cannot be read.
    pub(crate) fn of_file(&mut self, name: &str, file: &std::fs::File, store: &mut impl Store) -> Option<Id> {
        let key = Key::File(key_of(file).ok()?);
        if let Some(id) = self.known.get(&key) {
            return Some(*id);
        }
        let bytes = Bytes::of(file).ok()?;
        let id = self.begin(key, name.to_owned(), &bytes, store);
        // Frames of an interpreter's language do not wait for rows.
        let is_slow = self.is_urgent || self.tables[&id].interpreter.is_some() || rows::is_slow(&bytes);
        if is_slow && self.elsewhere.is_some() && self.coming < MAX_COMING {
            self.order(BuildRequest { id, bytes, anew: false });
            return Some(id);
        }
        let id = self.make(id, &bytes, store);
        bytes.rest();
        Some(id)
    }

    /// Closes files that were mapped a while ago.
    pub(crate) fn close_old(&mut self) {
        self.recent.close_old();
    }

    /// Returns whether a table is being built on the other thread.
    pub(crate) fn is_coming(&self, id: Id) -> bool {
        self.tables.get(&id).is_some_and(|table| table.told.made == TableOutcome::Coming)
    }

    fn order(&mut self, job: BuildRequest) {
        self.coming += 1;
        // The receiver is dropped only at the end.
        let _ = self.elsewhere.as_ref().map(|elsewhere| elsewhere.send(job));
    }

    /// Builds a file's table, unless there is one with the same content.
    fn make(&mut self, id: Id, bytes: &Bytes, store: &mut impl Store) -> Id {
        let made = BuiltTable::of(bytes, &self.hasher, |digest| self.same.contains_key(&digest));
        self.finish(id, made, store).unwrap_or(id)
    }

    /// Stores a table built elsewhere. The caller updates the mappings of its processes.
    pub(crate) fn take_made(&mut self, job: BuildRequest, made: BuiltTable, store: &mut impl Store) {
        self.coming -= 1;
        if self.finish(job.id, made, store).is_none() {
            return self.order(BuildRequest { anew: true, ..job });
        }
        let is_vain = |table: &Table| table.told.processes == 0 && matches!(table.told.made, TableOutcome::Full(_));
        if self.tables.get(&job.id).is_some_and(is_vain) {
            self.forget(job.id);
        }
    }

    fn begin(&mut self, key: Key, name: String, bytes: &Bytes, store: &mut impl Store) -> Id {
        if self.known.len() >= PATHS {
            self.known.clear();
        }
        if self.tables.len() >= FILES {
            self.drop_idle(FILES / 4, usize::MAX, store);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let told = FileTable { name: name.into(), ..FileTable::default() };
        let interpreter = RuntimeFile::of(bytes).map(|(version, file)| (version, file.map(Arc::new)));
        self.tables.insert(id, Table { told, interpreter, idle_since: self.turn, ..Table::default() });
        self.known.insert(key, id);
        id
    }

    /// Stores a finished table's rows; returns its new ID: that of an existing table with equal content, or `None` if
    /// that was dropped meanwhile and this one must be built. Without room, drops the tables unused for longest.
    fn finish(&mut self, id: Id, made: BuiltTable, store: &mut impl Store) -> Option<Id> {
        let same = made.digest.and_then(|digest| self.same.get(&digest)).copied();
        if let Some(same) = same {
            self.known.values_mut().filter(|own| **own == id).for_each(|own| *own = same);
            self.tables.remove(&id);
            return Some(same);
        }
        let rows = made.rows?;
        // It was dropped meanwhile to make room.
        let Some(table) = self.tables.get_mut(&id) else { return Some(id) };
        (table.segments, table.mark, table.digest) = (made.segments, made.mark, made.digest);
        let (spans, made) = match rows {
            Ok(rows) => match store.add(&rows.rows) {
                Ok(spans) => (spans, TableOutcome::Of(rows.section, rows.rows.len())),
                Err(_) => {
                    self.waiting.insert(id);
                    (Vec::new(), TableOutcome::Full(rows.rows.len()))
                }
            },
            Err(why) => (Vec::new(), TableOutcome::Without(why.to_string())),
        };
        self.same.extend(table.digest.map(|digest| (digest, id)));
        (table.spans, table.told.made) = (spans, made.clone());
        if let TableOutcome::Full(rows) = made {
            self.drop_idle(usize::MAX, rows, store);
        }
        Some(id)
    }

    /// Drops unused tables, least recently used first: at most `most`, and no more than needed for this many rows.
    fn drop_idle(&mut self, most: usize, rows: usize, store: &mut impl Store) {
        let is_idle = |table: &Table| table.told.processes == 0 && !table.is_to_come();
        let idle = self.tables.iter().filter(|(_, table)| is_idle(table));
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

    /// Returns when tables that wait for room should be rebuilt.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.room_since.filter(|_| !self.waiting.is_empty()).map(|since| since + RESTED)
    }

    /// Takes the tables that wait for room; they are rebuilt on the next request.
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

    /// Adds a process to the users of these tables.
    pub(crate) fn take(&mut self, ids: &[Id]) {
        for id in ids {
            self.tables.entry(*id).and_modify(|table| table.told.processes += 1);
        }
    }

    /// Removes a process from the users of these tables.
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
                // It can be dropped now, so that waiting tables can get its room.
                self.room_since.get_or_insert_with(Instant::now);
            }
            if matches!(table.told.made, TableOutcome::Full(_)) {
                self.forget(*id);
            }
        }
    }

    /// Adds the mappings of one mapped file. There are several parts if its rows are in several places.
    pub(crate) fn place(&self, id: Id, map: &procfs::ProcMapping, out: &mut Vec<Mapping>) {
        match self.tables.get(&id) {
            Some(table) => table.place(map, out),
            None => out.push(Mapping::without_rows(map.start, map.end)),
        }
    }

    /// Returns the interpreter in a mapped file, and the difference of its addresses from the linked ones.
    pub(crate) fn interpreter(&self, id: Id, map: &procfs::ProcMapping) -> Option<(Arc<RuntimeFile>, u64)> {
        let file = self.tables.get(&id)?.interpreter.clone()?.1.ok()?;
        let bias = file.bias(map)?;
        Some((file, bias))
    }

    /// Returns the processes whose interpreters are not supported.
    pub(crate) fn unknown_interpreters(&self) -> impl Iterator<Item = InterpreterFigures> {
        self.tables.values().filter(|table| table.told.processes > 0).filter_map(|table| {
            let (version, found) = table.interpreter.as_ref()?;
            let why = found.as_ref().err()?;
            Some(InterpreterFigures { version: *version, walked: Err(*why), processes: table.told.processes })
        })
    }

    /// Returns the figures of the tables in use.
    pub(crate) fn told(&self) -> Vec<FileTable> {
        let used = self.tables.values().filter(|table| table.told.processes > 0);
        let mut told: Vec<FileTable> = used.map(|table| table.told.clone()).collect();
        told.sort_by(|a, b| b.processes.cmp(&a.processes).then_with(|| a.name.cmp(&b.name)));
        told
    }
}

impl Table {
    /// Returns whether its rows are still missing, but expected.
    fn is_to_come(&self) -> bool {
        matches!(self.told.made, TableOutcome::Coming | TableOutcome::Full(_))
    }

    fn place(&self, map: &procfs::ProcMapping, out: &mut Vec<Mapping>) {
        let within = |(offset, size, _): &&(u64, u64, u64)| {
            map.offset < offset.saturating_add(*size) && offset.saturating_sub(map.offset) < map.end - map.start
        };
        let segment = self.segments.iter().find(within);
        let (Some((_, _, shift)), Some(_)) = (segment, self.spans.first()) else {
            return out.push(Mapping::without_rows(map.start, map.end));
        };
        let bias = map.start.wrapping_sub(map.offset).wrapping_sub(*shift);
        let first = out.len();
        place_rows(&self.spans, bias, map, out);
        let mark = |(at, word)| Mark { address: bias.wrapping_add(at), word, is_strict: false };
        out[first..].iter_mut().for_each(|mapping| mapping.mark = self.mark.map(mark));
    }
}

/// Adds the mappings of rows relative to `bias`. The rows are in these places in order.
pub(super) fn place_rows(spans: &[RowRange], bias: u64, map: &procfs::ProcMapping, out: &mut Vec<Mapping>) {
    let mut from = map.start;
    for (i, span) in spans.iter().enumerate() {
        let next = spans.get(i + 1).map(|next| bias.wrapping_add(u64::from(next.pc)));
        let end = next.unwrap_or(map.end).clamp(from, map.end);
        if from < end {
            out.push(Mapping { start: from, end, bias, span: Some(*span), mark: None });
        }
        from = end;
    }
}

/// Files that processes mapped within the last second, so that several processes that start do not open them each.
/// They stay open: their numbers do not become those of other files.
#[derive(Debug, Default)]
struct RecentFiles {
    files: FxHashMap<(u32, u32, u64), (Identity, std::fs::File)>,
    since: Option<Instant>,
}

impl RecentFiles {
    const LASTS: Duration = Duration::from_secs(1);
    const MOST: usize = 64;

    fn close_old(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= Self::LASTS) {
            self.files.clear();
            self.since = None;
        }
    }

    fn get(&mut self, map: &procfs::ProcMapping) -> Option<Identity> {
        self.close_old();
        self.files.get(&(map.major, map.minor, map.inode)).map(|(identity, _)| *identity)
    }

    /// Adds a mapping's file, unless its file system reports other numbers in maps than in stat.
    fn add(&mut self, map: &procfs::ProcMapping, file: std::fs::File) {
        let Ok(identity) = key_of(&file) else { return };
        let (device, inode, ..) = identity;
        if self.files.len() < Self::MOST
            && (libc::major(device), libc::minor(device), inode) == (map.major, map.minor, map.inode)
        {
            self.since.get_or_insert_with(Instant::now);
            self.files.insert((map.major, map.minor, map.inode), (identity, file));
        }
    }
}

fn key_of(file: &std::fs::File) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let meta = file.metadata()?;
    Ok((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
}

#[cfg(test)]
pub(crate) mod tests;
