//! Walks at tracepoints. A tracepoint calls its programs in the order in which they came: the walk is before its sample
//! unless another perf user sampled the tracepoint first.

use std::ops::Range;

use crate::record::kinds::Header;
use crate::record::sample::{CONTEXT_KERNEL, CONTEXT_MAX, ChainPlace};

use super::{ID_AT, TASK_AT, join};

/// A sample of a traced event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit<'a> {
    pub(super) id: u64,
    pub(super) header: Header,
    pub(super) record: &'a [u8],
    pub(super) chain: ChainPlace,
}

impl Hit<'_> {
    fn is_of(&self, walk: &[u8]) -> bool {
        self.task() == walk.get(TASK_AT..TASK_AT + 8)
    }

    fn task(&self) -> Option<&[u8]> {
        self.record.get(ID_AT + 16..ID_AT + 24)
    }

    fn write(&self, walk: &[u8], callers: &[Range<u64>], out: &mut Vec<u8>) {
        let from = out.len();
        if join(self.record, self.header, &self.chain, walk, out).is_none() {
            out.extend_from_slice(self.record);
        }
        // Otherwise the sample is not from a tracepoint with several programs.
        let _ = self.leave_out_caller(callers, out, from);
    }

    /// Removes the function that calls the programs of a tracepoint: without our program, the kernel leaves it out.
    fn leave_out_caller(&self, callers: &[Range<u64>], out: &mut Vec<u8>, from: usize) -> Option<()> {
        let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let [head, chain, _] = self.chain.split(&out[from..])?;
        let ip = word(head, ID_AT + 8)?;
        let at = callers.partition_point(|range| range.end <= ip);
        let is_caller = callers.get(at)?.contains(&ip) && word(chain, 0)? == CONTEXT_KERNEL && word(chain, 8)? == ip;
        let (chain_at, frames) = (from + head.len(), chain.len() as u64 / 8);
        let next = word(chain, 16).filter(|next| is_caller && *next < CONTEXT_MAX)?;
        out[from + ID_AT + 8..from + ID_AT + 16].copy_from_slice(&next.to_le_bytes());
        out[chain_at..chain_at + 8].copy_from_slice(&(frames - 1).to_le_bytes());
        out.drain(chain_at + 16..chain_at + 24);
        let size = u16::try_from(out.len() - from).ok()?;
        out[from + 6..from + 8].copy_from_slice(&size.to_le_bytes());
        Some(())
    }
}

/// The last walk at a tracepoint in a ring.
#[derive(Debug, Default)]
pub(super) struct TracedWalk {
    record: Vec<u8>,
    /// The ids whose samples have this walk: each event of the tracepoint has one sample.
    used: Vec<u64>,
    /// Whether the record before it belongs to another task.
    is_first: bool,
    /// Whether walks follow their samples.
    follows: bool,
}

impl TracedWalk {
    pub(super) fn read<'a>(self, callers: &'a [Range<u64>]) -> TracedRing<'a> {
        TracedRing { walk: self, callers, held: Vec::new() }
    }

    fn clear(&mut self) {
        self.record.clear();
        self.used.clear();
        self.is_first = false;
    }
}

/// The walks and samples of traced events while a ring is read.
pub(super) struct TracedRing<'a> {
    walk: TracedWalk,
    callers: &'a [Range<u64>],
    /// Samples whose walk may be the next record.
    held: Vec<Hit<'a>>,
}

impl<'a> TracedRing<'a> {
    pub(super) fn walked(&mut self, record: &[u8], out: &mut Vec<u8>) {
        let walk = &mut self.walk;
        let task = record.get(TASK_AT..TASK_AT + 8);
        let is_new = walk.record.get(TASK_AT..TASK_AT + 8) != task;
        walk.clear();
        walk.record.extend_from_slice(record);
        let is_its = self.held.last().is_some_and(|hit| hit.is_of(record));
        walk.is_first = is_new && !is_its;
        // A task's first walk after its sample.
        walk.follows |= is_new && is_its;
        if is_its {
            walk.used.extend(self.held.iter().map(|hit| hit.id));
        }
        for hit in self.held.drain(..) {
            hit.write(record, self.callers, out);
        }
    }

    pub(super) fn sampled(&mut self, hit: Hit<'a>, out: &mut Vec<u8>) {
        let walk = &mut self.walk;
        if hit.is_of(&walk.record) && !walk.used.contains(&hit.id) {
            // A task's first walk before its sample.
            walk.follows &= !walk.is_first;
            if !walk.follows {
                walk.used.push(hit.id);
                self.release(out);
                return hit.write(&self.walk.record, self.callers, out);
            }
        }
        if self.held.last().is_some_and(|held| held.task() != hit.task() || held.id == hit.id) {
            self.release(out);
        }
        self.held.push(hit);
    }

    /// Forgets the walk: records are missing.
    pub(super) fn lose(&mut self, out: &mut Vec<u8>) {
        self.release(out);
        self.walk.clear();
    }

    pub(super) fn end(mut self, out: &mut Vec<u8>) -> TracedWalk {
        self.release(out);
        self.walk
    }

    /// Writes the held samples without a walk.
    fn release(&mut self, out: &mut Vec<u8>) {
        self.held.drain(..).for_each(|hit| hit.write(&[], self.callers, out));
    }
}
