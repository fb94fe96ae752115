//! The threads of a recording, their parents and their mappings, as text in perf's layout or as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::panel::text::clean;
use crate::panel::{Align, Cell, Column, Table};
use crate::record::kinds::FileId;
use crate::session::{Placed, Session, SideBandEvent};

use super::records::map_rights;

#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadEntry {
    pid: i32,
    tid: i32,
    /// Its parent; -1 if unknown.
    ppid: i32,
    comm: Arc<str>,
}

#[derive(Clone, Copy, Debug)]
struct MapEntry {
    at: Placed,
    prot: u32,
    flags: u32,
}

/// The threads of a recording in their last state, with their code mappings.
#[derive(Debug)]
pub(crate) struct TaskList<'a> {
    session: &'a Session,
    threads: BTreeMap<i32, ThreadEntry>,
    maps: BTreeMap<i32, BTreeMap<u64, MapEntry>>,
}

impl<'a> TaskList<'a> {
    pub(crate) fn of(session: &'a Session) -> Self {
        let mut out = Self { session, threads: BTreeMap::new(), maps: BTreeMap::new() };
        out.threads.insert(0, ThreadEntry { pid: 0, tid: 0, ppid: -1, comm: "swapper".into() });
        session.log().in_order().for_each(|(_, side)| out.follow(&side));
        out
    }

    fn follow(&mut self, side: &SideBandEvent) {
        match side {
            SideBandEvent::Fork(fork) => {
                let task = &fork.task;
                let parent = self.threads.get(&task.ptid).map(|parent| parent.comm.clone());
                let comm = parent.unwrap_or_else(|| format!(":{}", task.tid).into());
                let entry = ThreadEntry { pid: task.pid, tid: task.tid, ppid: task.ptid, comm };
                self.threads.insert(task.tid, entry);
                if task.pid != task.ppid {
                    let inherited = self.maps.get(&task.ppid).cloned().unwrap_or_default();
                    self.maps.insert(task.pid, inherited);
                }
            }
            SideBandEvent::Comm { pid, tid, exec, comm } => {
                let ppid = self.threads.get(tid).map_or(-1, |known| known.ppid);
                self.threads.insert(*tid, ThreadEntry { pid: *pid, tid: *tid, ppid, comm: comm.clone() });
                if *exec {
                    self.maps.remove(pid);
                }
            }
            SideBandEvent::Map { pid, at, prot, flags, .. } if *pid >= 0 => self.map(*pid, *at, *prot, *flags),
            SideBandEvent::Map { .. }
            | SideBandEvent::Exit(_)
            | SideBandEvent::Cgroup { .. }
            | SideBandEvent::Ran { .. } => {}
        }
    }

    /// Adds a mapping, which replaces those it overlaps.
    fn map(&mut self, pid: i32, new: Placed, prot: u32, flags: u32) {
        let end = |at: Placed| at.start.saturating_add(self.session.dsos.map_of(at.map).len);
        let maps = self.maps.entry(pid).or_default();
        maps.retain(|at, entry| end(entry.at) <= new.start || end(new) <= *at);
        maps.insert(new.start, MapEntry { at: new, prot, flags });
    }

    fn tree(&self) -> Vec<(usize, &ThreadEntry)> {
        let mut below: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for thread in self.threads.values().filter(|thread| thread.ppid != thread.tid) {
            let parent = if self.threads.contains_key(&thread.ppid) { thread.ppid } else { -1 };
            below.entry(parent).or_default().push(thread.tid);
        }
        let (mut out, mut met) = (Vec::new(), std::collections::BTreeSet::new());
        let mut open: Vec<(i32, usize)> = Vec::new();
        let first = below.get(&-1).into_iter().flatten().copied();
        // Thread IDs are reused: threads that appear to be each other's parents become roots.
        for root in first.chain(self.threads.keys().copied()) {
            open.push((root, 0));
            while let Some((tid, depth)) = open.pop() {
                let Some(thread) = self.threads.get(&tid).filter(|_| met.insert(tid)) else { continue };
                out.push((depth, thread));
                open.extend(below.get(&tid).into_iter().flatten().rev().map(|tid| (*tid, depth + 1)));
            }
        }
        out
    }

    /// Formats as text, optionally with mappings. Those of a process are below its first thread.
    pub(crate) fn text(&self, with_maps: bool) -> String {
        let mut out = format!("# {:>8} {:>8} {:>8}  comm\n", "pid", "tid", "ppid");
        for (depth, thread) in self.tree() {
            let ThreadEntry { pid, tid, ppid, comm } = thread;
            let _ = writeln!(out, "{pid:>10} {tid:>8} {ppid:>8} |{:depth$}{}", "", clean(comm));
            if with_maps && pid == tid {
                self.maps_of(*pid).for_each(|line| _ = writeln!(out, "{:32}{:depth$}{line}", "", ""));
            }
        }
        out
    }

    fn maps_of(&self, pid: i32) -> impl Iterator<Item = String> + '_ {
        self.maps.get(&pid).into_iter().flatten().map(|(start, entry)| {
            let map = self.session.dsos.map_of(entry.at.map);
            let dso = self.session.dsos.get(map.dso);
            let inode = if let FileId::Inode { inode, .. } = dso.file { inode } else { 0 };
            let end = start.saturating_add(map.len);
            let prot = map_rights(entry.prot, entry.flags);
            format!("{start:x}-{end:x} {prot} {:08x} {inode} {}", map.pgoff, clean(&dso.path))
        })
    }

    pub(crate) fn table(&self) -> Table {
        let number = |name, title| Column::new(name, title, Align::Right, 8);
        let columns =
            vec![number("pid", "PID"), number("tid", "TID"), number("ppid", "PPID"), Column::texts("comm", "Comm")];
        let row = |(_, thread): (usize, &ThreadEntry)| {
            let id = |n: i32| Cell::Id(n.into());
            vec![id(thread.pid), id(thread.tid), id(thread.ppid), Cell::Text(thread.comm.clone())]
        };
        Table { columns, rows: self.tree().into_iter().map(row).collect() }
    }

    pub(crate) fn map_table(&self) -> Table {
        let columns = vec![
            Column::new("pid", "PID", Align::Right, 8),
            Column::new("start", "Start", Align::Right, 18),
            Column::new("end", "End", Align::Right, 18),
            Column::new("offset", "Offset", Align::Right, 18),
            Column::texts("file", "File"),
        ];
        let mut rows = Vec::new();
        for (pid, maps) in &self.maps {
            for (start, entry) in maps {
                let map = self.session.dsos.map_of(entry.at.map);
                let path = Cell::Text(self.session.dsos.get(map.dso).path.clone());
                let end = start.saturating_add(map.len);
                let address = Cell::Address;
                rows.push(vec![Cell::Id((*pid).into()), address(*start), address(end), address(map.pgoff), path]);
            }
        }
        Table { columns, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::kinds::{Mmap, TaskRecord};
    use crate::session::Origin;

    #[test]
    fn threads_stand_below_who_began_them_with_what_they_have_now() {
        let mut session = Session::new(Origin::Recorded);
        let mut tell = |record: Record<'_>| session.apply(&record, 1);
        let comm = |pid, exec, name: &'static str| Record::Comm { pid, tid: pid, exec, name: name.as_bytes() };
        let fork = |pid, tid, by| Record::Fork(TaskRecord { pid, ppid: by, tid, ptid: by, time: 0 });
        let map = |pid, start, name: &'static str| {
            let file = FileId::Inode { major: 8, minor: 1, inode: 77, generation: 0 };
            let name = name.as_bytes();
            Record::Mmap(Mmap { pid, tid: pid, start, len: 0x2000, pgoff: 0x1000, file, prot: 5, flags: 2, name })
        };
        tell(comm(5, false, "shell"));
        tell(map(5, 0x1000, "/bin/sh"));
        tell(map(5, 0x8000, "/lib/a.so"));
        tell(map(5, 0x9000, "/lib/b.so"));
        tell(fork(9, 9, 5));
        tell(comm(9, true, "tool"));
        tell(map(9, 0x4000, "/bin/tool"));
        tell(fork(9, 12, 9));
        tell(fork(7, 7, 5));
        let list = TaskList::of(&session);
        let want = "\
#      pid      tid     ppid  comm
         0        0       -1 |swapper
         5        5       -1 |shell
         7        7        5 | shell
         9        9        5 | tool
         9       12        9 |  tool
";
        assert_eq!(list.text(false), want);
        let maps = list.text(true);
        let of = |pid: &str| {
            let from = maps.lines().skip_while(|line| !line.trim_start().starts_with(pid)).skip(1);
            from.take_while(|line| !line.contains('|')).map(str::trim).collect::<Vec<_>>()
        };
        let shells = ["1000-3000 r-xp 00001000 77 /bin/sh", "9000-b000 r-xp 00001000 77 /lib/b.so"];
        assert_eq!((of("5 "), of("7 ")), (shells.to_vec(), shells.to_vec()));
        assert_eq!(of("9 "), ["4000-6000 r-xp 00001000 77 /bin/tool"]);
        assert_eq!((list.table().rows.len(), list.map_table().rows.len()), (5, 5));
    }

    #[test]
    fn threads_that_began_each_other_are_shown_all_the_same() {
        let mut session = Session::new(Origin::Recorded);
        for (tid, by) in [(3, 4), (4, 3), (6, 6)] {
            session.apply(&Record::Fork(TaskRecord { pid: tid, ppid: by, tid, ptid: by, time: 0 }), 1);
        }
        let text = TaskList::of(&session).text(true);
        assert_eq!(text.lines().count(), 5, "{text}");
    }
}
