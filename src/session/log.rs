//! The compact history of side-band facts, from which any moment can be written as a recording. A reader of the
//! recording reaches the same state as we did.
//!
//! The history consists of lives, each of a process from its start to its exit, because numbers are reused, quickly so
//! in a storm of short processes. An ended life takes some hundred bytes, and is removed as a whole.

mod packed;

use std::collections::VecDeque;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::kinds::TaskRecord;

use super::maps::Placed;
use super::space::AddressSpace;
use super::{MapId, OUTSIDE};

/// A fact.
#[derive(Clone, Debug, PartialEq)]
pub enum SideBandEvent {
    /// New memory that holds code.
    Map {
        /// The process; -1 for the kernel's own code.
        pid: i32,
        /// The thread that mapped it.
        tid: i32,
        /// The mapped part of a file, and its address.
        at: Placed,
        /// `PROT_*` bits of the record.
        prot: u32,
        /// `MAP_*` bits of the record.
        flags: u32,
    },
    /// A new name of a thread.
    Comm {
        /// The process of the thread.
        pid: i32,
        /// The thread with the new name.
        tid: i32,
        /// Whether the name is from an exec.
        exec: bool,
        /// The name, with invalid UTF-8 replaced.
        comm: Arc<str>,
    },
    /// A new thread or process; boxed, because it is large and rare.
    Fork(Box<Fork>),
    /// The exit of a thread.
    Exit(TaskRecord),
    /// The path of a cgroup's id.
    Cgroup {
        /// Its id in samples.
        id: u64,
        /// The path from the root of its hierarchy.
        path: Arc<str>,
    },
    /// The end of an exec of the process: the new program was sampled.
    Ran {
        /// The process whose mappings before the exec are invalid.
        pid: i32,
    },
}

/// A new thread; for a new process, with the inherited mappings.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    pub(crate) task: TaskRecord,
    pub(crate) inherited: AddressSpace<Placed>,
}

impl SideBandEvent {
    pub(super) fn thread(task: TaskRecord) -> Self {
        Self::Fork(Box::new(Fork { task, inherited: AddressSpace::default() }))
    }

    pub(crate) fn pid(&self) -> i32 {
        match self {
            Self::Map { pid, .. } | Self::Comm { pid, .. } | Self::Ran { pid } => *pid,
            Self::Fork(fork) => fork.task.pid,
            Self::Exit(task) => task.pid,
            Self::Cgroup { .. } => 0,
        }
    }
}

#[derive(Clone, Debug)]
struct Lifetime {
    pid: i32,
    /// Whether the process was sampled: then its life is kept as long as samples of its time.
    wanted: bool,
    born: u64,
    /// The base of its facts' relative times.
    base: u64,
    last: u64,
    /// The mappings that it inherited at its start.
    inherited: Option<Arc<[u8]>>,
}

#[derive(Clone, Debug)]
struct Live {
    life: Lifetime,
    facts: Vec<u8>,
    /// The mappings that its children inherit, and the generation of the space that they are from.
    heritage: Option<(u32, Arc<[u8]>)>,
}

/// The facts of each process in order of arrival; those of time 0 precede the session.
#[derive(Clone, Debug, Default)]
pub struct SideLog {
    live: FxHashMap<i32, Live>,
    /// In the order of their ends.
    ended: VecDeque<(Lifetime, Arc<[u8]>)>,
    /// The number of ended lives at the front that have been checked and are kept.
    looked: usize,
    ended_bytes: usize,
    born: u64,
}

impl SideLog {
    fn life(&mut self, pid: i32, base: u64) -> &mut Live {
        self.live.entry(pid).or_insert_with(|| {
            self.born += 1;
            // The life of the kernel, and of facts without a process, never ends.
            let wanted = pid <= 0;
            let life = Lifetime { pid, wanted, born: self.born, base, last: base, inherited: None };
            Live { life, facts: Vec::new(), heritage: None }
        })
    }

    pub(super) fn push(&mut self, time: u64, side: SideBandEvent) {
        let live = self.life(side.pid(), time);
        live.life.last = live.life.last.max(time);
        packed::put(&mut live.facts, time, live.life.base, live.life.pid, &side);
    }

    /// Starts a process with the mappings of its parent; an earlier process with its number has ended.
    pub(super) fn fork(
        &mut self,
        time: u64,
        task: &TaskRecord,
        inherited: &AddressSpace,
        placed: impl Fn(MapId) -> Placed,
    ) {
        let pack = || Arc::from(packed::space(inherited, placed));
        let heritage = match self.live.get_mut(&task.ppid).map(|parent| &mut parent.heritage) {
            _ if inherited.is_empty() => None,
            Some(Some((generation, heritage))) if *generation == inherited.generation() => Some(heritage.clone()),
            Some(known) => Some(known.insert((inherited.generation(), pack())).1.clone()),
            None => Some(pack()),
        };
        self.end(task.pid);
        self.life(task.pid, time).life.inherited = heritage;
        self.push(time, SideBandEvent::thread(*task));
    }

    pub(super) fn want(&mut self, pid: i32) {
        if pid != OUTSIDE {
            self.life(pid, 0).life.wanted = true;
        }
    }

    pub(super) fn end(&mut self, pid: i32) {
        if let Some(Live { life, facts, .. }) = self.live.remove(&pid) {
            let ended = (life, Arc::from(facts));
            self.ended_bytes += bytes(&ended);
            self.ended.push_back(ended);
        }
    }

    /// Removes ended processes that were not sampled, or ended before a time. The cost is proportional to the processes
    /// that ended since the last call, and to those removed.
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
        // Capacity from a storm of processes is freed afterwards.
        if self.ended.capacity() > 4 * self.looked.max(1000) {
            self.ended.shrink_to(2 * self.looked);
        }
        if self.live.capacity() > 4 * self.live.len().max(1000) {
            self.live.shrink_to(2 * self.live.len());
        }
    }

    pub(crate) fn memory(&self) -> usize {
        let live: usize = self.live.values().map(|live| live.facts.capacity()).sum();
        let spare = (self.ended.capacity() - self.ended.len()) * size_of::<(Lifetime, Arc<[u8]>)>();
        self.live.capacity() * size_of::<(i32, Live)>() + live + self.ended_bytes + spare
    }

    fn lives(&self) -> impl Iterator<Item = (&Lifetime, &[u8])> {
        let live = self.live.values().map(|live| (&live.life, &live.facts[..]));
        self.ended.iter().map(|(life, facts)| (life, &facts[..])).chain(live)
    }

    pub(super) fn each_map(&self, mut each: impl FnMut(MapId)) {
        let mut last = None;
        for (life, facts) in self.lives() {
            packed::Facts::of(facts, life).each_map(&mut each);
            // Children of one parent share their inherited mappings.
            let heritage = life.inherited.as_ref().map(Arc::as_ptr);
            if heritage.is_some() && heritage != last {
                let inherited = life.inherited.as_deref().map(packed::space_of).unwrap_or_default();
                inherited.maps().chain(inherited.before()).for_each(|at| each(at.map));
            }
            last = heritage.or(last);
        }
    }

    pub(crate) fn in_order(&self) -> History<'_> {
        let mut lives: Vec<(&Lifetime, &[u8])> = self.lives().collect();
        lives.sort_unstable_by_key(|(life, _)| life.born);
        let mut places = Vec::new();
        for (i, (life, facts)) in lives.iter().enumerate() {
            places.extend(packed::Facts::of(facts, life).map(|(at, time, _)| (time, i as u32, at as u32)));
        }
        places.sort_unstable();
        History { lives, places: places.into_iter() }
    }
}

fn bytes((_, facts): &(Lifetime, Arc<[u8]>)) -> usize {
    /// The two counts of an Arc.
    const COUNTS: usize = 16;
    size_of::<(Lifetime, Arc<[u8]>)>() + COUNTS + facts.len()
}

#[derive(Debug)]
pub(crate) struct History<'a> {
    lives: Vec<(&'a Lifetime, &'a [u8])>,
    /// The time of each fact, its life and its offset there.
    places: std::vec::IntoIter<(u64, u32, u32)>,
}

impl History<'_> {
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.places.as_slice().first().map(|(time, ..)| *time)
    }
}

impl Iterator for History<'_> {
    type Item = (u64, SideBandEvent);

    fn next(&mut self) -> Option<(u64, SideBandEvent)> {
        let (_, life, at) = self.places.next()?;
        let (life, facts) = self.lives[life as usize];
        packed::Facts::of(&facts[at as usize..], life).next().map(|(_, time, side)| (time, side))
    }
}

#[cfg(test)]
mod tests;
