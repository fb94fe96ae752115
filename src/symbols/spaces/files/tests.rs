//! Tables of files, in a store that only counts.

use std::collections::BTreeMap;

use crate::symbols::trust::door;

use super::*;
use crate::kernel::walk::code_cache::CodeCache;
use crate::kernel::walk::script_engine::ScriptEngine;
use crate::kernel::walk::{LanguageRuntime, NoRoom};

/// A store with room for some rows; released rows are free at once.
#[derive(Debug, Default)]
pub(crate) struct BuildCounter {
    pub(crate) room: usize,
    pub(crate) used: BTreeMap<u32, usize>,
    pub(crate) processes: BTreeMap<i32, Vec<Mapping>>,
    pub(crate) next: u32,
}

impl Store for BuildCounter {
    fn add(&mut self, rows: &[u64]) -> Result<Vec<RowRange>, NoRoom> {
        if self.used.values().sum::<usize>() + rows.len() > self.room {
            return Err(NoRoom::Limit);
        }
        self.next += 1;
        self.used.insert(self.next, rows.len());
        Ok(vec![RowRange { chunk: self.next, first: 0, n: rows.len() as u32, pc: rows[0] as u32 }])
    }

    fn release(&mut self, spans: &[RowRange]) {
        spans.iter().for_each(|span| assert!(self.used.remove(&span.chunk).is_some(), "released twice"));
    }

    fn set_process(&mut self, pid: i32, mappings: &[Mapping]) -> Result<(), NoRoom> {
        self.processes.insert(pid, mappings.to_vec());
        Ok(())
    }

    fn learn(&mut self, _: i32, _: u32) -> Result<(), NoRoom> {
        Ok(())
    }

    fn forget_process(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    fn add_engine(&mut self, _: &ScriptEngine) -> Option<u32> {
        None
    }

    fn add_code_cache(&mut self, _: &CodeCache) -> Option<u32> {
        None
    }

    fn add_runtime(&mut self, _: &LanguageRuntime) -> Option<u32> {
        None
    }

    fn drop_runtime(&mut self, _: u32) {}

    fn set_runtime(&mut self, _: i32, _: u32) {}

    fn held(&self) -> (usize, usize) {
        (8 * self.used.values().sum::<usize>(), 8 * self.room)
    }
}

/// Returns whether this user can open the files that a process has mapped.
pub(crate) fn may_look(test: &str) -> bool {
    let pid = std::process::id() as i32;
    let map = procfs::exec_maps(pid).into_iter().find(|map| map.inode != 0).expect("a program");
    let may = door::mapped(pid, map.start, map.end).is_ok();
    if !may {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: this user may not open what is mapped");
    }
    may
}

fn table(spans: Vec<RowRange>, segments: Vec<(u64, u64, u64)>) -> Table {
    let told = FileTable { name: "x".into(), made: TableOutcome::Of(".eh_frame", 9), processes: 0 };
    Table { told, spans, segments, ..Table::default() }
}

/// A program's bytes: a different program of equal size for each number.
fn program(number: u8) -> Bytes {
    let mut bytes = std::fs::read("/bin/sh").expect("a shell");
    // The ABI version, which is ignored.
    bytes[8] = number;
    Bytes::from(bytes)
}

fn key(number: u64) -> Key {
    Key::File((1, number, 0, 0, 0))
}

/// Builds a file's table here.
fn make(files: &mut Files, key: Key, name: String, bytes: &Bytes, store: &mut BuildCounter) -> Id {
    let id = files.begin(key, name, bytes, store);
    files.make(id, bytes, store)
}

fn made_of(files: &Files, id: Id) -> &TableOutcome {
    &files.tables[&id].told.made
}

#[test]
fn what_is_the_same_is_made_once() {
    let (mut files, mut store) = (Files::default(), BuildCounter { room: 1 << 40, ..BuildCounter::default() });
    let one = make(&mut files, key(1), "/bin/sh".to_owned(), &program(0), &mut store);
    let same = make(&mut files, key(2), "/merged/bin/sh".to_owned(), &program(0), &mut store);
    let other = make(&mut files, key(3), "/bin/sh".to_owned(), &program(1), &mut store);
    assert_eq!((one, files.known[&key(2)], store.used.len()), (same, one, 2));
    assert_ne!(one, other);
    files.take(&[one, other]);
    files.take(&[one]);
    let told: Vec<(usize, TableOutcome)> = files.told().into_iter().map(|told| (told.processes, told.made)).collect();
    let rows = store.used[&1];
    assert_eq!(told, [(2, TableOutcome::Of(".eh_frame", rows)), (1, TableOutcome::Of(".eh_frame", rows))]);
    let text = make(&mut files, key(4), "/etc/passwd".to_owned(), &Bytes::from(b"root".to_vec()), &mut store);
    assert!(matches!(made_of(&files, text), TableOutcome::Without(_)));
}

#[test]
fn where_room_ends_those_go_that_nobody_had_for_longest() {
    let (mut files, mut store) = (Files::default(), BuildCounter { room: 1 << 40, ..BuildCounter::default() });
    let make = |files: &mut Files, store: &mut BuildCounter, number: u8| {
        let id = make(files, key(number.into()), format!("/{number}"), &program(number), store);
        files.take(&[id]);
        id
    };
    let ids: Vec<Id> = (0..4).map(|number| make(&mut files, &mut store, number)).collect();
    store.room = store.used.values().sum::<usize>() + 5;
    // The third is released before the first, and the first is released again after it.
    files.give_up(&ids[..1]);
    files.give_up(&ids[2..3]);
    files.take(&ids[..1]);
    files.give_up(&ids[..1]);
    let waits = make(&mut files, &mut store, 4);
    assert!(matches!(made_of(&files, waits), TableOutcome::Full(_)));
    assert!(!files.tables.contains_key(&ids[2]) && files.tables.contains_key(&ids[0]), "dropping one table was enough");
    let at = files.next().expect("freed rows are available after the delay");
    assert!(at > Instant::now());
    assert_eq!(files.take_waiting().into_iter().collect::<Vec<Id>>(), [waits]);
    assert_eq!(files.next(), None);
    let now = make(&mut files, &mut store, 4);
    assert!(matches!(made_of(&files, now), TableOutcome::Of(..)) && now != waits);
    files.give_up(&[waits]);
    assert!(!files.tables.contains_key(&waits));
    // The first one is dropped next; then no table is unused, until a process ends.
    let hungry = make(&mut files, &mut store, 5);
    assert!(matches!(made_of(&files, hungry), TableOutcome::Full(_)) && !files.tables.contains_key(&ids[0]));
    files.take_waiting();
    let (served, last) = (make(&mut files, &mut store, 5), make(&mut files, &mut store, 6));
    assert!(matches!(made_of(&files, served), TableOutcome::Of(..)));
    assert!(matches!(made_of(&files, last), TableOutcome::Full(_)) && files.next().is_none());
    files.give_up(&ids[1..2]);
    assert!(files.next().is_some());
}

/// Starts building a table elsewhere, with key and content from these numbers.
fn ordered(files: &mut Files, store: &mut BuildCounter, key_of: u64, number: u8) -> (BuildRequest, BuiltTable) {
    let bytes = program(number);
    let id = files.begin(key(key_of), "/large".to_owned(), &bytes, store);
    files.coming += 1;
    let made = BuiltTable::of(&bytes, &files.hasher, |_| false);
    (BuildRequest { id, bytes, anew: false }, made)
}

#[test]
fn what_was_made_elsewhere_is_as_if_it_was_made_here() {
    let (sender, jobs) = crossbeam_channel::unbounded();
    let (mut files, mut store) =
        (Files::new(ContentHasher::default(), sender), BuildCounter { room: 1 << 40, ..BuildCounter::default() });
    let (job, made) = ordered(&mut files, &mut store, 1, 0);
    let one = job.id;
    files.take(&[one]);
    files.take_made(job, made, &mut store);
    assert!(matches!(made_of(&files, one), TableOutcome::Of(..)) && store.used.len() == 1);
    // The same content under another name gets the first ID.
    let (job, made) = ordered(&mut files, &mut store, 2, 0);
    let second = job.id;
    files.take_made(job, BuiltTable { rows: None, ..made }, &mut store);
    assert_eq!((files.known[&key(2)], files.tables.contains_key(&second), store.used.len()), (one, false, 1));
    // If the first was dropped meanwhile, it is built after all.
    let (job, made) = ordered(&mut files, &mut store, 3, 1);
    let third = job.id;
    files.take_made(job, BuiltTable { rows: None, ..made }, &mut store);
    let job = jobs.try_recv().expect("ordered again");
    assert!(job.anew && job.id == third && files.coming == 1);
    // Its processes have ended when it is ready, and there is no room: it does not wait for room.
    store.room = 0;
    let made = BuiltTable::of(&job.bytes, &files.hasher, |_| false);
    files.take_made(job, made, &mut store);
    assert!(!files.tables.contains_key(&third) && files.waiting.is_empty() && files.coming == 0);
}

#[test]
fn a_table_that_is_coming_stays_and_the_next_of_too_many_is_made_at_once() {
    if !may_look("a_table_that_is_coming_stays_and_the_next_of_too_many_is_made_at_once") {
        return;
    }
    let pid = std::process::id() as i32;
    let maps = procfs::exec_maps(pid);
    let here = a_table_that_is_coming_stays_and_the_next_of_too_many_is_made_at_once as fn() as usize as u64;
    let own = maps.iter().find(|map| (map.start..map.end).contains(&here)).expect("mapped");
    let (sender, jobs) = crossbeam_channel::unbounded();
    let (mut files, mut store) =
        (Files::new(ContentHasher::default(), sender), BuildCounter { room: 1 << 40, ..BuildCounter::default() });
    files.coming = MAX_COMING - 1;
    let coming = files.of(pid, own, &mut store).expect("opened");
    files.drop_idle(usize::MAX, usize::MAX, &mut store);
    assert_eq!((made_of(&files, coming), jobs.len()), (&TableOutcome::Coming, 1));
    files.known.clear();
    let next = files.of(pid, own, &mut store).expect("opened");
    assert!(matches!(made_of(&files, next), TableOutcome::Of(..)) && jobs.len() == 1);
}

#[test]
fn a_file_that_another_process_has_just_mapped_is_not_opened_again() {
    if !may_look("a_file_that_another_process_has_just_mapped_is_not_opened_again") {
        return;
    }
    let maps = procfs::exec_maps(std::process::id() as i32);
    let libc = maps.iter().find(|map| memchr::memmem::find(&map.name, b"/libc.so").is_some()).expect("mapped");
    let (mut files, mut store) = (Files::default(), BuildCounter { room: 1 << 40, ..BuildCounter::default() });
    let first = files.of(std::process::id() as i32, libc, &mut store).expect("opened");
    // There is no such process, so that its files cannot be opened.
    let is_recent = files.of(i32::MAX, libc, &mut store);
    assert!(is_recent == Some(first) || libc.major == 0, "{is_recent:?}");
    files.recent.since = Instant::now().checked_sub(RecentFiles::LASTS);
    assert_eq!(files.of(i32::MAX, libc, &mut store), None);
    assert!(files.recent.files.is_empty());
}

fn map(start: u64, len: u64, offset: u64) -> procfs::ProcMapping {
    let line = format!("{start:x}-{:x} r-xp {offset:08x} 08:01 7 /usr/bin/x", start + len);
    procfs::parse_maps_line(line.as_bytes()).expect("a line")
}

fn placed(table: &Table, map: &procfs::ProcMapping) -> Vec<(u64, u64, u64, Option<u32>)> {
    let mut out = Vec::new();
    table.place(map, &mut out);
    out.iter().map(|m| (m.start, m.end, m.bias, m.span.map(|span| span.chunk))).collect()
}

#[test]
fn a_mapping_is_walked_by_the_rows_of_its_segment() {
    let span = |chunk, pc| RowRange { chunk, first: 0, n: 9, pc };
    // The second segment is a page further in memory than in the file.
    let segments = vec![(0x1000, 0x2000, 0), (0x3000, 0x2000, 0x1000)];
    let mut table = table(vec![span(0, 0x1000)], segments);
    let base = 0x7000_0000;
    assert_eq!(placed(&table, &map(base + 0x1000, 0x2000, 0x1000)), [(base + 0x1000, base + 0x3000, base, Some(0))]);
    assert_eq!(placed(&table, &map(base + 0x4000, 0x2000, 0x3000)), [(base + 0x4000, base + 0x6000, base, Some(0))]);
    // Addresses outside of segments do not have rows, nor does a file without a table.
    let other = map(base, 0x1000, 0x9000);
    assert_eq!(placed(&table, &other), [(base, base + 0x1000, 0, None)]);
    // Rows in several places become several parts; those in other mappings are left out.
    table.spans = vec![span(0, 0x1000), span(1, 0x2000), span(2, 0x9000)];
    let parts = [(base + 0x1000, base + 0x2000, base, Some(0)), (base + 0x2000, base + 0x3000, base, Some(1))];
    assert_eq!(placed(&table, &map(base + 0x1000, 0x2000, 0x1000)), parts);
    table.spans.clear();
    let whole = map(base + 0x1000, 0x2000, 0x1000);
    assert_eq!(placed(&table, &whole), [(base + 0x1000, base + 0x3000, 0, None)]);
}

#[test]
fn segments_of_this_program_are_where_its_code_is() {
    if !may_look("segments_of_this_program_are_where_its_code_is") {
        return;
    }
    let maps = procfs::exec_maps(std::process::id() as i32);
    let here = segments_of_this_program_are_where_its_code_is as fn() as usize as u64;
    let map = maps.iter().find(|map| (map.start..map.end).contains(&here)).expect("mapped");
    let file = door::mapped(std::process::id() as i32, map.start, map.end);
    let bytes = Bytes::of(&file.expect("opened")).expect("read");
    let made = BuiltTable::of(&bytes, &ContentHasher::default(), |_| false);
    let rows = made.rows.expect("made").expect("rows");
    let span = RowRange { chunk: 0, first: 0, n: rows.rows.len() as u32, pc: rows.rows[0] as u32 };
    let table = table(vec![span], made.segments);
    let mut out = Vec::new();
    table.place(map, &mut out);
    let pc = here.wrapping_sub(out[0].bias);
    assert!(rows.rows.iter().any(|row| u64::from(*row as u32) == pc), "a function begins with a row");
}

/// The interpreter of this machine, if it has one that is known.
#[test]
#[cfg(target_arch = "x86_64")]
fn an_interpreter_is_known_before_its_rows() {
    let Some(bytes) = std::fs::read("/usr/bin/python3").ok().map(Bytes::from) else { return };
    let (sender, jobs) = crossbeam_channel::unbounded();
    let (mut files, mut store) =
        (Files::new(ContentHasher::default(), sender), BuildCounter { room: 1 << 40, ..BuildCounter::default() });
    let file = std::fs::File::open("/usr/bin/python3").expect("it was read");
    let id = files.of_file("/usr/bin/python3", &file, &mut store).expect("a table");
    let all = map(0x40_0000, 1 << 30, 0);
    let Some(before) = files.interpreter(id, &all) else { return };
    let job = jobs.try_recv().expect("its rows are being built");
    let made = BuiltTable::of(&bytes, &files.hasher, |_| false);
    files.take_made(job, made, &mut store);
    assert!(matches!(made_of(&files, id), TableOutcome::Of(..)));
    assert_eq!(files.interpreter(id, &all), Some(before));
}
