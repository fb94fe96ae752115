//! The layouts of processes: where each had what it ran, worked out again from the history of a session: the way back
//! from frames that processes share to the addresses that each of them had.

use rustc_hash::FxHashMap;

use super::dso::Dsos;
use super::maps::Placed;
use super::space::Space;
use super::{MapId, Side};

/// Nobody remembers anything by the generation of these spaces.
const GENERATION: u32 = 0;

/// The address spaces of a history, as far as it has been followed.
#[derive(Debug)]
pub struct Layouts<'a> {
    dsos: &'a Dsos,
    spaces: FxHashMap<i32, Space<Placed>>,
    /// By process: what is to be added to addresses of a mapping that stands for its own.
    moved: FxHashMap<i32, FxHashMap<MapId, u64>>,
}

impl<'a> Layouts<'a> {
    pub(crate) fn new(dsos: &'a Dsos) -> Self {
        Self { dsos, spaces: FxHashMap::default(), moved: FxHashMap::default() }
    }

    /// Follows one fact, as [`super::Session::apply`] did.
    pub(crate) fn follow(&mut self, side: &Side) {
        match side {
            Side::Map { pid, at, .. } => {
                let end = at.start.saturating_add(self.dsos.map_of(at.map).len);
                let space = self.spaces.entry(*pid).or_default();
                space.insert(at.start, end, *at, GENERATION);
            }
            Side::Comm { pid, exec: true, .. } => {
                let space = Space::after_exec(self.spaces.get(pid), GENERATION);
                self.spaces.insert(*pid, space);
            }
            Side::Fork(fork) if fork.task.pid != fork.task.ppid => {
                self.spaces.insert(fork.task.pid, fork.inherited.clone());
            }
            Side::Ran { pid } => {
                let Some(space) = self.spaces.get_mut(pid) else { return };
                space.settle(GENERATION);
            }
            _ => return,
        }
        self.moved.remove(&side.pid());
    }

    /// The address that a process had for one of a frame; the frame's own where nothing tells.
    pub(crate) fn address(&mut self, pid: i32, map: MapId, ip: u64) -> u64 {
        let Some(space) = self.spaces.get(&pid) else { return ip };
        let dsos = self.dsos;
        let moved = self.moved.entry(pid).or_insert_with(|| {
            let of = |own: Placed| (own.map, own.start.wrapping_sub(dsos.map_of(own.map).start));
            // Until an exec is over what runs is what it replaces.
            space.maps().chain(space.before()).map(of).collect()
        });
        ip.wrapping_add(moved.get(&map).copied().unwrap_or(0))
    }
}
