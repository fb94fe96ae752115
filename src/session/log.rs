//! The history of side-band facts, kept compactly, so that any moment can be written as a
//! recording that a reader follows just as we did.
//!
//! It is kept by lives, each of which is of one process from its beginning to its end: numbers come again, and in a
//! storm of short processes soon. A life that has ended costs some hundred bytes, and is forgotten as a whole.

mod packed;

use std::collections::VecDeque;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::kinds::Task;

use super::maps::Placed;
use super::space::Space;
use super::{MapId, OUTSIDE};

/// One fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// New memory that holds code.
    Map {
        /// The process; -1 for the kernel's own code.
        pid: i32,
        /// The thread that mapped it.
        tid: i32,
        /// The part of a file that is mapped, and where.
        at: Placed,
        /// `PROT_*` bits, as the record had them.
        prot: u32,
        /// `MAP_*` bits, as the record had them.
        flags: u32,
    },
    /// A new name of a thread.
    Comm {
        /// The process that it is a thread of.
        pid: i32,
        /// The thread that has the name.
        tid: i32,
        /// Whether an exec gave it.
        exec: bool,
        /// The name, bytes that are no UTF-8 replaced.
        comm: Arc<str>,
    },
    /// Apart, as it is large and seldom.
    Fork(Box<Fork>),
    /// The end of a thread.
    Exit(Task),
    /// The path of a cgroup's id.
    Cgroup {
        /// The id that samples carry of it.
        id: u64,
        /// The path from the root of its hierarchy on.
        path: Arc<str>,
    },
    /// An exec of the process is over: the new program was seen.
    Ran {
        /// The process whose mappings before the exec are void.
        pid: i32,
    },
}

/// A new thread; for a new process, with the mappings that it took over.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    pub(crate) task: Task,
    pub(crate) inherited: Space<Placed>,
}

impl Side {
    /// The beginning of a thread of a process that is there.
    pub(super) fn thread(task: Task) -> Self {
        Self::Fork(Box::new(Fork { task, inherited: Space::default() }))
    }

    /// The process that this is about.
    pub(crate) fn pid(&self) -> i32 {
        match self {
            Self::Map { pid, .. } | Self::Comm { pid, .. } | Self::Ran { pid } => *pid,
            Self::Fork(fork) => fork.task.pid,
            Self::Exit(task) => task.pid,
            Self::Cgroup { .. } => 0,
        }
    }
}

/// What is told of a life beside its facts.
#[derive(Clone, Debug)]
struct Life {
    pid: i32,
    /// It is told of as long as samples are kept that are as old as its end: it was sampled.
    wanted: bool,
    /// Its place among all lives.
    born: u64,
    /// The time that those of its facts are counted from.
    base: u64,
    /// The time of its last fact.
    last: u64,
    /// The mappings that it took over at its beginning.
    inherited: Option<Arc<[u8]>>,
}

/// A process that is there, or that has ended just now.
#[derive(Clone, Debug)]
struct Live {
    life: Life,
    facts: Vec<u8>,
    /// What its children take over, and the generation of the space that this is of.
    heritage: Option<(u32, Arc<[u8]>)>,
}

/// The facts of each process in the order in which they came; those of time 0 were there before the session.
#[derive(Clone, Debug, Default)]
pub struct SideLog {
    live: FxHashMap<i32, Live>,
    /// In the order of their ends.
    ended: VecDeque<(Life, Arc<[u8]>)>,
    /// So many of these, from the first on, are wanted.
    looked: usize,
    /// Bytes of what has ended.
    ended_bytes: usize,
    born: u64,
}

impl SideLog {
    fn life(&mut self, pid: i32, base: u64) -> &mut Live {
        self.live.entry(pid).or_insert_with(|| {
            self.born += 1;
            // The kernel's, and what is of no process, never ends.
            let wanted = pid <= 0;
            let life = Life { pid, wanted, born: self.born, base, last: base, inherited: None };
            Live { life, facts: Vec::new(), heritage: None }
        })
    }

    pub(super) fn push(&mut self, time: u64, side: Side) {
        let live = self.life(side.pid(), time);
        live.life.last = live.life.last.max(time);
        packed::put(&mut live.facts, time, live.life.base, live.life.pid, &side);
    }

    /// A process begins, with the mappings of its parent; the one of its number that was there before has ended.
    pub(super) fn fork(&mut self, time: u64, task: &Task, inherited: &Space, placed: impl Fn(MapId) -> Placed) {
        let pack = || Arc::from(packed::space(inherited, placed));
        let heritage = match self.live.get_mut(&task.ppid).map(|parent| &mut parent.heritage) {
            _ if inherited.is_empty() => None,
            Some(Some((generation, heritage))) if *generation == inherited.generation() => Some(heritage.clone()),
            Some(known) => Some(known.insert((inherited.generation(), pack())).1.clone()),
            None => Some(pack()),
        };
        self.end(task.pid);
        self.life(task.pid, time).life.inherited = heritage;
        self.push(time, Side::thread(*task));
    }

    /// A process was sampled.
    pub(super) fn want(&mut self, pid: i32) {
        if pid != OUTSIDE {
            self.life(pid, 0).life.wanted = true;
        }
    }

    /// A process has ended.
    pub(super) fn end(&mut self, pid: i32) {
        if let Some(Live { life, facts, .. }) = self.live.remove(&pid) {
            let ended = (life, Arc::from(facts));
            self.ended_bytes += bytes(&ended);
            self.ended.push_back(ended);
        }
    }

    /// Forgets the processes that have ended and were not sampled, or ended before a time. It costs what ended since
    /// it was last called, and what is forgotten.
    pub(super) fn trim(&mut self, oldest: u64) {
        let new = self.ended.split_off(self.looked.min(self.ended.len()));
        for ended in new {
            if ended.0.wanted {
                self.ended.push_back(ended);
            } else {
                self.ended_bytes -= bytes(&ended);
            }
        }
        while let Some(old) = self.ended.pop_front_if(|(life, _)| life.last < oldest) {
            self.ended_bytes -= bytes(&old);
        }
        self.looked = self.ended.len();
        // What it grew to in a storm is given back after it.
        if self.ended.capacity() > 4 * self.looked.max(1000) {
            self.ended.shrink_to(2 * self.looked);
        }
        if self.live.capacity() > 4 * self.live.len().max(1000) {
            self.live.shrink_to(2 * self.live.len());
        }
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> usize {
        let live: usize = self.live.values().map(|live| live.facts.capacity()).sum();
        let spare = (self.ended.capacity() - self.ended.len()) * size_of::<(Life, Arc<[u8]>)>();
        self.live.capacity() * size_of::<(i32, Live)>() + live + self.ended_bytes + spare
    }

    fn lives(&self) -> impl Iterator<Item = (&Life, &[u8])> {
        let live = self.live.values().map(|live| (&live.life, &live.facts[..]));
        self.ended.iter().map(|(life, facts)| (life, &facts[..])).chain(live)
    }

    /// Calls `each` for the mappings that it tells of.
    pub(super) fn each_map(&self, mut each: impl FnMut(MapId)) {
        let mut last = None;
        for (life, facts) in self.lives() {
            packed::Facts::of(facts, life).each_map(&mut each);
            // Children of one parent have the same.
            let heritage = life.inherited.as_ref().map(Arc::as_ptr);
            if heritage.is_some() && heritage != last {
                let inherited = life.inherited.as_deref().map(packed::space_of).unwrap_or_default();
                inherited.maps().chain(inherited.before()).for_each(|at| each(at.map));
            }
            last = heritage.or(last);
        }
    }

    /// All facts in order of time.
    pub(crate) fn in_order(&self) -> History<'_> {
        let mut lives: Vec<(&Life, &[u8])> = self.lives().collect();
        lives.sort_unstable_by_key(|(life, _)| life.born);
        let mut places = Vec::new();
        for (i, (life, facts)) in lives.iter().enumerate() {
            places.extend(packed::Facts::of(facts, life).map(|(at, time, _)| (time, i as u32, at as u32)));
        }
        places.sort_unstable();
        History { lives, places: places.into_iter() }
    }
}

/// Bytes of a life that has ended.
fn bytes((_, facts): &(Life, Arc<[u8]>)) -> usize {
    /// The two counts of an Arc.
    const COUNTS: usize = 16;
    size_of::<(Life, Arc<[u8]>)>() + COUNTS + facts.len()
}

/// The facts of a history in order of time, one after the other.
#[derive(Debug)]
pub(crate) struct History<'a> {
    lives: Vec<(&'a Life, &'a [u8])>,
    /// Of each fact its time, its life and its place there.
    places: std::vec::IntoIter<(u64, u32, u32)>,
}

impl History<'_> {
    /// The time of the next one.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.places.as_slice().first().map(|(time, ..)| *time)
    }
}

impl Iterator for History<'_> {
    type Item = (u64, Side);

    fn next(&mut self) -> Option<(u64, Side)> {
        let (_, life, at) = self.places.next()?;
        let (life, facts) = self.lives[life as usize];
        packed::Facts::of(&facts[at as usize..], life).next().map(|(_, time, side)| (time, side))
    }
}

#[cfg(test)]
mod tests;
