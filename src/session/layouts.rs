//! The address spaces of processes over time, reconstructed from a session's history: they convert the frames that
//! processes share back to the addresses of each process.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::dso::Dsos;
use super::host::LINGER_NS;
use super::maps::Placed;
use super::members::Members;
use super::space::AddressSpace;
use super::{MapId, SideBandEvent};

/// The generation of these spaces, which no cache depends on.
const GENERATION: u32 = 0;

/// The address spaces of a history, up to the current point.
#[derive(Debug)]
pub struct Layouts<'a> {
    dsos: &'a Dsos,
    spaces: FxHashMap<i32, AddressSpace<Placed>>,
    /// For each process: the offset from a representative mapping to its own.
    moved: FxHashMap<i32, FxHashMap<MapId, u64>>,
    /// The exit times of processes whose number is not reused yet: samples may arrive after their process's exit.
    ended: FxHashMap<i32, u64>,
    leaving: VecDeque<(u64, i32)>,
    members: Members,
}

impl<'a> Layouts<'a> {
    pub(crate) fn new(dsos: &'a Dsos) -> Self {
        let (spaces, moved, ended) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { dsos, spaces, moved, ended, leaving: VecDeque::new(), members: Members::default() }
    }

    /// Applies a fact, like [`super::Session::apply`] did.
    pub(crate) fn follow(&mut self, time: u64, side: &SideBandEvent) {
        while let Some((_, pid)) = self.leaving.pop_front_if(|(at, _)| at.saturating_add(LINGER_NS) < time) {
            if self.ended.get(&pid).is_some_and(|at| at.saturating_add(LINGER_NS) < time) {
                self.ended.remove(&pid);
                self.spaces.remove(&pid);
                self.moved.remove(&pid);
            }
        }
        match side {
            SideBandEvent::Exit(task) if self.members.leave(task.pid, task.tid) => {
                self.ended.insert(task.pid, time);
                return self.leaving.push_back((time, task.pid));
            }
            SideBandEvent::Fork(fork) if fork.task.pid == fork.task.ppid => {
                self.members.join(fork.task.pid, fork.task.tid)
            }
            SideBandEvent::Comm { pid, exec: true, .. } => self.members.begin(*pid),
            _ => {}
        }
        match side {
            SideBandEvent::Exit(_) => return,
            _ => _ = self.ended.remove(&side.pid()),
        }
        match side {
            SideBandEvent::Map { pid, at, .. } => {
                let end = at.start.saturating_add(self.dsos.map_of(at.map).len);
                let space = self.spaces.entry(*pid).or_default();
                space.insert(at.start, end, *at, GENERATION);
            }
            SideBandEvent::Comm { pid, exec: true, .. } => {
                let space = AddressSpace::after_exec(self.spaces.get(pid), GENERATION);
                self.spaces.insert(*pid, space);
            }
            SideBandEvent::Fork(fork) if fork.task.pid != fork.task.ppid => {
                self.members.begin(fork.task.pid);
                self.spaces.insert(fork.task.pid, fork.inherited.clone());
            }
            SideBandEvent::Ran { pid } => {
                let Some(space) = self.spaces.get_mut(pid) else { return };
                space.settle(GENERATION);
            }
            _ => return,
        }
        self.moved.remove(&side.pid());
    }

    /// Returns a process's own address for that of a frame; the frame's address if there is no difference.
    pub(crate) fn address(&mut self, pid: i32, map: MapId, ip: u64) -> u64 {
        let Some(space) = self.spaces.get(&pid) else { return ip };
        let dsos = self.dsos;
        let moved = self.moved.entry(pid).or_insert_with(|| {
            let of = |own: Placed| (own.map, own.start.wrapping_sub(dsos.map_of(own.map).start));
            // Until an exec is over, the old program still runs.
            space.maps().chain(space.before()).map(of).collect()
        });
        ip.wrapping_add(moved.get(&map).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::{FileId, Mmap, TaskRecord};

    #[test]
    fn what_has_ended_is_forgotten_after_a_while() {
        let mut dsos = Dsos::default();
        dsos.share = true;
        let mut mapped = |pid: i32, start: u64| {
            let (file, prot, flags) = (FileId::None, 5, 2);
            let map = Mmap { pid, tid: pid, start, len: 0x1000, pgoff: 0, file, prot, flags, name: b"/a" };
            (dsos.map(&map, None), start)
        };
        let maps = [mapped(1, 0x1000), mapped(2, 0x5000)];
        let mut layouts = Layouts::new(&dsos);
        let tell = |pid: i32, start: u64| SideBandEvent::Map {
            pid,
            tid: pid,
            at: Placed { map: maps[0].0, start },
            prot: 5,
            flags: 2,
        };
        layouts.follow(0, &tell(1, 0x1000));
        layouts.follow(0, &tell(2, 0x5000));
        let ended = |pid| SideBandEvent::Exit(TaskRecord { pid, ppid: 0, tid: pid, ptid: 0, time: 1 });
        layouts.follow(1, &ended(2));
        let at = |layouts: &mut Layouts<'_>, time| {
            layouts.follow(time, &SideBandEvent::Ran { pid: 1 });
            layouts.address(2, maps[0].0, 0x1010)
        };
        assert_eq!(at(&mut layouts, 1 + LINGER_NS), 0x5010, "samples may come late");
        assert_eq!((at(&mut layouts, 2 + LINGER_NS), layouts.spaces.len()), (0x1010, 1));
        // It is not confused with another process of its number.
        layouts.follow(2 + LINGER_NS, &ended(2));
        layouts.follow(3 + LINGER_NS, &tell(2, 0x7000));
        assert_eq!(at(&mut layouts, 9 * LINGER_NS), 0x7010);
    }
}
