//! The tables by which stacks of live processes are walked in the kernel: made of the files that a process has mapped
//! when one of its samples wants them, on a thread of their own, and kept as processes change and go.

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use object::{Object, ObjectSegment, SegmentFlags};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::walk::{Mapping, News, Span, Walker};
use crate::kernel::{procfs, thread_cpu_ns};

use super::bytes::Bytes;
use super::{door, elf, rows};

/// How soon what a process has mapped is read again; twice as long each time that nothing is new.
const PAUSE: Duration = Duration::from_millis(20);
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// Files whose tables are kept though nobody has them mapped any more.
const FILES: usize = 4096;
/// One in so many parts of a CPU's time is what a storm of processes may take here, beyond what is saved up.
const SHARE: i64 = 5;
const SAVED_NS: i64 = 500_000_000;
/// From here on addresses are the kernel's.
const KERNEL: u64 = 1 << 63;

/// Follows processes by what is sent to it, until nobody can send any more.
///
/// # Errors
/// When there is no thread to be had.
pub fn follow(walker: Walker) -> io::Result<Sender<News>> {
    let (sender, news) = unbounded();
    let spaces =
        Spaces { walker, files: FxHashMap::default(), processes: FxHashMap::default(), due: FxHashMap::default() };
    std::thread::Builder::new().name("tables".to_owned()).spawn(move || spaces.run(&news))?;
    Ok(sender)
}

/// Which file it is: device, inode, its change time and size; none for the vDSO.
type Key = Option<(u64, u64, i64, i64, u64)>;

/// A file's tables.
#[derive(Debug)]
struct Table {
    /// In order of their addresses; none where the file has no table.
    spans: Vec<Span>,
    /// Of the segments with code: offset and size in the file, and what is to be added to an offset to come to what
    /// rows count.
    segments: Vec<(u64, u64, u64)>,
    /// Processes that have it mapped.
    users: usize,
}

/// What a process has mapped.
#[derive(Debug)]
struct Process {
    maps: Vec<procfs::Mapping>,
    mappings: Vec<Mapping>,
    files: Vec<Key>,
    read: Instant,
    pause: Duration,
}

struct Spaces {
    walker: Walker,
    files: FxHashMap<Key, Table>,
    processes: FxHashMap<i32, Process>,
    /// Which processes are to be read again, and when.
    due: FxHashMap<i32, Instant>,
}

impl Spaces {
    fn run(mut self, news: &Receiver<News>) {
        let (mut left, mut since, mut used) = (SAVED_NS, Instant::now(), thread_cpu_ns());
        loop {
            let next = self.due.values().min().copied();
            let wait = next.map_or(LONG_PAUSE, |next| next.saturating_duration_since(Instant::now()));
            match news.recv_timeout(wait) {
                Ok(first) => std::iter::once(first).chain(news.try_iter()).for_each(|one| self.take(one)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            let ready: Vec<i32> = self.due.extract_if(|_, at| *at <= now).map(|(pid, _)| pid).collect();
            ready.into_iter().for_each(|pid| self.read(pid));
            let passed = std::mem::replace(&mut since, now).elapsed().as_nanos() as i64;
            let before = std::mem::replace(&mut used, thread_cpu_ns());
            left = (left + passed / SHARE).min(SAVED_NS) - used.saturating_sub(before) as i64;
            if left < 0 {
                std::thread::sleep(Duration::from_nanos((-left * SHARE) as u64).min(Duration::from_secs(1)));
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Lacks { pid, .. } => self.want(pid),
            News::Mapped { pid } if self.processes.contains_key(&pid) => {
                // This is new, whatever was read before.
                self.processes.entry(pid).and_modify(|process| process.pause = PAUSE);
                self.want(pid);
            }
            News::Mapped { .. } => {}
            News::Forked { parent, child } => self.fork(parent, child),
            News::Executed { pid } | News::Exited { pid } => self.forget(pid),
        }
    }

    fn want(&mut self, pid: i32) {
        let at = self.processes.get(&pid).map_or_else(Instant::now, |process| process.read + process.pause);
        self.due.entry(pid).or_insert(at);
    }

    fn fork(&mut self, parent: i32, child: i32) {
        self.forget(child);
        let Some(process) = self.processes.get(&parent) else { return };
        if self.walker.set_process(child, &process.mappings).is_err() {
            return;
        }
        let (maps, mappings, files) = (process.maps.clone(), process.mappings.clone(), process.files.clone());
        self.use_files(&files, 1);
        self.processes.insert(child, Process { maps, mappings, files, read: Instant::now(), pause: PAUSE });
    }

    fn forget(&mut self, pid: i32) {
        self.due.remove(&pid);
        if let Some(process) = self.processes.remove(&pid) {
            self.walker.forget_process(pid);
            self.use_files(&process.files, -1);
        }
    }

    fn use_files(&mut self, files: &[Key], by: isize) {
        for key in files {
            self.files.entry(*key).and_modify(|table| table.users = table.users.saturating_add_signed(by));
        }
    }

    /// Reads what a process has mapped now, and has its stacks walked by the tables of that.
    fn read(&mut self, pid: i32) {
        let maps = procfs::exec_maps(pid);
        if maps.is_empty() {
            return self.forget(pid);
        }
        if let Some(process) = self.processes.get_mut(&pid)
            && process.maps == maps
        {
            (process.read, process.pause) = (Instant::now(), (process.pause * 2).min(LONG_PAUSE));
            return;
        }
        let mut mappings = Vec::new();
        let mut files = FxHashSet::default();
        for map in maps.iter().filter(|map| map.start < map.end && map.end < KERNEL) {
            let key = self.table(pid, map);
            match key.and_then(|key| Some((key, self.files.get(&key)?))) {
                Some((key, table)) => {
                    files.insert(key);
                    table.place(map, &mut mappings);
                }
                None => mappings.push(Mapping { start: map.start, end: map.end, bias: 0, span: None }),
            }
        }
        let files: Vec<Key> = files.into_iter().collect();
        // What it has now is taken before what it had is given up: most is the same.
        self.use_files(&files, 1);
        if self.walker.set_process(pid, &mappings).is_err() {
            self.use_files(&files, -1);
            return self.forget(pid);
        }
        let process = Process { maps, mappings, files, read: Instant::now(), pause: PAUSE };
        if let Some(before) = self.processes.insert(pid, process) {
            self.use_files(&before.files, -1);
        }
    }

    /// The file of a mapping, its tables made; `None` where it is none of a file, or of one that is not opened.
    fn table(&mut self, pid: i32, map: &procfs::Mapping) -> Option<Key> {
        if map.name == b"[vdso]" {
            if !self.files.contains_key(&None) {
                let bytes = Bytes::from(procfs::vdso().unwrap_or_default());
                self.make(None, &bytes);
            }
            return Some(None);
        }
        if map.inode == 0 {
            return None;
        }
        let file = door::mapped(pid, map.start, map.end).ok()?;
        let key = key_of(&file).ok()?;
        if !self.files.contains_key(&Some(key)) {
            let bytes = Bytes::of(&file).ok()?;
            self.make(Some(key), &bytes);
            bytes.rest();
        }
        Some(Some(key))
    }

    /// Makes a file's tables. Where there is no more room, those of files that nobody has mapped go.
    fn make(&mut self, key: Key, bytes: &Bytes) {
        if self.files.len() >= FILES {
            self.drop_unused();
        }
        let mut table = Table { spans: Vec::new(), segments: Vec::new(), users: 0 };
        if let Ok(rows) = rows::of(bytes) {
            table.segments = segments(bytes, rows.base);
            let added = self.walker.add(&rows.rows).or_else(|_| {
                self.drop_unused();
                self.walker.add(&rows.rows)
            });
            table.spans = added.unwrap_or_default();
        }
        self.files.insert(key, table);
    }
}

impl Spaces {
    fn drop_unused(&mut self) {
        let unused = self.files.extract_if(|_, table| table.users == 0);
        unused.for_each(|(_, table)| self.walker.release(&table.spans));
    }
}

impl Table {
    /// How a mapping of the file is walked: by parts, where its rows lie in several places.
    fn place(&self, map: &procfs::Mapping, out: &mut Vec<Mapping>) {
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
fn segments(bytes: &Bytes, base: u64) -> Vec<(u64, u64, u64)> {
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
mod tests {
    use super::*;

    fn map(start: u64, len: u64, offset: u64) -> procfs::Mapping {
        let line = format!("{start:x}-{:x} r-xp {offset:08x} 08:01 7 /usr/bin/x", start + len);
        procfs::parse_maps_line(line.as_bytes()).expect("a line")
    }

    fn placed(table: &Table, map: &procfs::Mapping) -> Vec<(u64, u64, u64, Option<u32>)> {
        let mut out = Vec::new();
        table.place(map, &mut out);
        out.iter().map(|m| (m.start, m.end, m.bias, m.span.map(|span| span.chunk))).collect()
    }

    #[test]
    fn a_mapping_is_walked_by_the_rows_of_its_segment() {
        let span = |chunk, pc| Span { chunk, first: 0, n: 9, pc };
        // The second segment lies a page further on in memory than in the file.
        let segments = vec![(0x1000, 0x2000, 0), (0x3000, 0x2000, 0x1000)];
        let mut table = Table { spans: vec![span(0, 0x1000)], segments, users: 0 };
        let base = 0x7000_0000;
        assert_eq!(
            placed(&table, &map(base + 0x1000, 0x2000, 0x1000)),
            [(base + 0x1000, base + 0x3000, base, Some(0))]
        );
        assert_eq!(
            placed(&table, &map(base + 0x4000, 0x2000, 0x3000)),
            [(base + 0x4000, base + 0x6000, base, Some(0))]
        );
        // What is in no segment has no rows, nor has a file without a table.
        let other = map(base, 0x1000, 0x9000);
        assert_eq!(placed(&table, &other), [(base, base + 0x1000, 0, None)]);
        // Rows that lie in several places are several parts, those that are in other mappings none.
        table.spans = vec![span(0, 0x1000), span(1, 0x2000), span(2, 0x9000)];
        let parts = [(base + 0x1000, base + 0x2000, base, Some(0)), (base + 0x2000, base + 0x3000, base, Some(1))];
        assert_eq!(placed(&table, &map(base + 0x1000, 0x2000, 0x1000)), parts);
        table.spans.clear();
        let whole = map(base + 0x1000, 0x2000, 0x1000);
        assert_eq!(placed(&table, &whole), [(base + 0x1000, base + 0x3000, 0, None)]);
    }

    #[test]
    fn segments_of_this_program_are_where_its_code_is() {
        let maps = procfs::exec_maps(std::process::id() as i32);
        let here = segments_of_this_program_are_where_its_code_is as fn() as usize as u64;
        let map = maps.iter().find(|map| (map.start..map.end).contains(&here)).expect("mapped");
        let file = door::mapped(std::process::id() as i32, map.start, map.end);
        let Ok(file) = file else { return };
        let bytes = Bytes::of(&file).expect("read");
        let rows = rows::of(&bytes).expect("rows");
        let span = Span { chunk: 0, first: 0, n: rows.rows.len() as u32, pc: rows.rows[0] as u32 };
        let table = Table { spans: vec![span], segments: segments(&bytes, rows.base), users: 0 };
        let mut out = Vec::new();
        table.place(map, &mut out);
        let pc = here.wrapping_sub(out[0].bias);
        assert!(rows.rows.iter().any(|row| u64::from(*row as u32) == pc), "a function begins with a row");
    }
}
