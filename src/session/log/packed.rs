//! The encoding of facts. Each is self-contained, so that decoding can start at any fact.

use std::sync::Arc;

use crate::record::kinds::TaskRecord;
use crate::session::MapId;
use crate::session::maps::Placed;
use crate::session::space::{AddressSpace, SpaceEntry};

use super::{Fork, Lifetime, SideBandEvent};

/// The kind of a fact, in the low bits of its first byte.
const MAP: u8 = 0;
const COMM: u8 = 1;
const EXEC: u8 = 2;
const FORK: u8 = 3;
const EXIT: u8 = 4;
const CGROUP: u8 = 5;
const RAN: u8 = 6;
const KIND: u8 = 7;
/// The fact precedes the session.
const BEFORE: u8 = 8;
/// The fact is about the first thread of its process.
const FIRST: u8 = 16;

/// Appends a number with seven bits per byte, the lowest first.
fn number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn beside(out: &mut Vec<u8>, n: i32, other: i32) {
    let by = n.wrapping_sub(other);
    number(out, u64::from(((by << 1) ^ (by >> 31)) as u32));
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    number(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn task(out: &mut Vec<u8>, task: &TaskRecord, time: u64) {
    beside(out, task.ppid, task.pid);
    beside(out, task.ptid, task.tid);
    number(out, time.wrapping_sub(task.time));
}

/// Appends a fact of process `pid`, with its time relative to `base`.
pub(super) fn put(out: &mut Vec<u8>, time: u64, base: u64, pid: i32, side: &SideBandEvent) {
    let (kind, tid) = match side {
        SideBandEvent::Map { tid, .. } => (MAP, *tid),
        SideBandEvent::Comm { tid, exec, .. } => (if *exec { EXEC } else { COMM }, *tid),
        SideBandEvent::Fork(fork) => (FORK, fork.task.tid),
        SideBandEvent::Exit(task) => (EXIT, task.tid),
        SideBandEvent::Cgroup { .. } => (CGROUP, pid),
        SideBandEvent::Ran { .. } => (RAN, pid),
    };
    let is_before = time == 0;
    let is_first = tid == pid;
    out.push(kind | if is_before { BEFORE } else { 0 } | if is_first { FIRST } else { 0 });
    if !is_before {
        number(out, time.wrapping_sub(base));
    }
    if !is_first {
        beside(out, tid, pid);
    }
    match side {
        SideBandEvent::Map { at, prot, flags, .. } => {
            number(out, u64::from(at.map.0));
            number(out, at.start);
            number(out, u64::from(*prot));
            number(out, u64::from(*flags));
        }
        SideBandEvent::Comm { comm, .. } => text(out, comm.as_bytes()),
        SideBandEvent::Fork(fork) => task(out, &fork.task, time),
        SideBandEvent::Exit(ended) => task(out, ended, time),
        SideBandEvent::Cgroup { id, path } => {
            number(out, *id);
            text(out, path.as_bytes());
        }
        SideBandEvent::Ran { .. } => {}
    }
}

pub(super) struct Facts<'a> {
    all: usize,
    left: &'a [u8],
    life: &'a Lifetime,
}

impl<'a> Facts<'a> {
    pub(super) fn of(bytes: &'a [u8], life: &'a Lifetime) -> Self {
        Self { all: bytes.len(), left: bytes, life }
    }

    fn head(&mut self) -> Option<(u8, u64, i32)> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        let Lifetime { pid, base, .. } = *self.life;
        let time = if first & BEFORE == 0 { base.wrapping_add(number_of(&mut self.left)) } else { 0 };
        let tid = if first & FIRST == 0 { beside_of(&mut self.left, pid) } else { pid };
        Some((first & KIND, time, tid))
    }

    /// Calls `each` for the mappings, without decoding other facts.
    pub(super) fn each_map(mut self, mut each: impl FnMut(MapId)) {
        while let Some((kind, ..)) = self.head() {
            let numbers = match kind {
                MAP => {
                    each(placed_of(&mut self.left).map);
                    2
                }
                FORK | EXIT => 3,
                CGROUP => 1,
                _ => 0,
            };
            (0..numbers).for_each(|_| _ = number_of(&mut self.left));
            if matches!(kind, COMM | EXEC | CGROUP) {
                bytes_of(&mut self.left);
            }
        }
    }

    fn task(&mut self, tid: i32, time: u64) -> TaskRecord {
        let pid = self.life.pid;
        let (ppid, ptid) = (beside_of(&mut self.left, pid), beside_of(&mut self.left, tid));
        TaskRecord { pid, ppid, tid, ptid, time: time.wrapping_sub(number_of(&mut self.left)) }
    }
}

impl Iterator for Facts<'_> {
    type Item = (usize, u64, SideBandEvent);

    fn next(&mut self) -> Option<(usize, u64, SideBandEvent)> {
        let place = self.all - self.left.len();
        let pid = self.life.pid;
        let (kind, time, tid) = self.head()?;
        let side = match kind {
            MAP => {
                let at = placed_of(&mut self.left);
                let (prot, flags) = (number_of(&mut self.left) as u32, number_of(&mut self.left) as u32);
                SideBandEvent::Map { pid, tid, at, prot, flags }
            }
            FORK => {
                let task = self.task(tid, time);
                let inherited = self.life.inherited.as_deref().filter(|_| task.pid != task.ppid);
                SideBandEvent::Fork(Box::new(Fork { task, inherited: inherited.map(space_of).unwrap_or_default() }))
            }
            EXIT => SideBandEvent::Exit(self.task(tid, time)),
            CGROUP => SideBandEvent::Cgroup { id: number_of(&mut self.left), path: text_of(&mut self.left) },
            RAN => SideBandEvent::Ran { pid },
            kind => SideBandEvent::Comm { pid, tid, exec: kind == EXEC, comm: text_of(&mut self.left) },
        };
        Some((place, time, side))
    }
}

fn number_of(left: &mut &[u8]) -> u64 {
    let (mut n, mut shift) = (0, 0);
    while let Some((byte, rest)) = left.split_first() {
        *left = rest;
        n |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    n
}

fn beside_of(left: &mut &[u8], other: i32) -> i32 {
    let by = number_of(left) as u32;
    other.wrapping_add((by >> 1) as i32 ^ -((by & 1) as i32))
}

fn bytes_of<'a>(left: &mut &'a [u8]) -> &'a [u8] {
    let len = (number_of(left) as usize).min(left.len());
    let (bytes, rest) = left.split_at(len);
    *left = rest;
    bytes
}

fn text_of(left: &mut &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes_of(left)).into()
}

fn placed_of(left: &mut &[u8]) -> Placed {
    Placed { map: MapId(number_of(left) as u32), start: number_of(left) }
}

/// Encodes a space, for a life that begins with it.
pub(super) fn space(space: &AddressSpace, placed: impl Fn(MapId) -> Placed) -> Vec<u8> {
    let mut out = Vec::new();
    let (entries, before) = space.parts();
    for entries in [Some(entries), before].into_iter().flatten() {
        number(&mut out, entries.len() as u64);
        for entry in entries {
            let Placed { map, start } = placed(entry.map);
            number(&mut out, u64::from(map.0));
            number(&mut out, start);
            number(&mut out, entry.start.wrapping_sub(start));
            number(&mut out, entry.end.wrapping_sub(entry.start));
        }
    }
    out
}

pub(super) fn space_of(mut bytes: &[u8]) -> AddressSpace<Placed> {
    let left = &mut bytes;
    let mut entries = || {
        let entry = |left: &mut &[u8]| {
            let map = placed_of(left);
            let start = map.start.wrapping_add(number_of(left));
            SpaceEntry { start, end: start.wrapping_add(number_of(left)), map }
        };
        (!left.is_empty()).then(|| (0..number_of(left)).map(|_| entry(left)).collect::<Vec<_>>())
    };
    AddressSpace::of_parts(entries().unwrap_or_default(), entries())
}
