//! Walks at tracepoints. A tracepoint calls its programs in the order in which they came: the walk is before its sample
//! unless another perf user sampled the tracepoint first.

use std::ops::Range;

use crate::record::kinds::Header;
use crate::record::sample::{CONTEXT_KERNEL, CONTEXT_MAX, ChainPlace};

use super::super::output::RecordOutput;
use super::{ID_AT, TASK_AT, join};

/// A sample of a traced event, in the bytes that were read.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    pub(super) id: u64,
    pub(super) header: Header,
    pub(super) range: Range<usize>,
    pub(super) chain: ChainPlace,
}

impl Hit {
    fn is_of(&self, read: &[u8], walk: &[u8]) -> bool {
        self.task(read) == walk.get(TASK_AT..TASK_AT + 8)
    }

    fn task<'a>(&self, read: &'a [u8]) -> Option<&'a [u8]> {
        read[self.range.clone()].get(ID_AT + 16..ID_AT + 24)
    }

    fn write(&self, read: &[u8], walk: &[u8], callers: &[Range<u64>], out: &mut RecordOutput<'_, '_>) {
        let record = &read[self.range.clone()];
        out.write(|out| {
            let from = out.len();
            if join(record, self.header, &self.chain, walk, out).is_none() {
                out.extend_from_slice(record);
            }
            // Otherwise the sample is not from a tracepoint with several programs.
            let _ = self.leave_out_caller(callers, out, from);
            true
        });
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
    /// Samples of the ring that is being read, whose walk may be the next record.
    held: Vec<Hit>,
}

impl TracedWalk {
    pub(super) fn walked(
        &mut self,
        read: &[u8],
        record: &[u8],
        callers: &[Range<u64>],
        out: &mut RecordOutput<'_, '_>,
    ) {
        let task = record.get(TASK_AT..TASK_AT + 8);
        let is_new = self.record.get(TASK_AT..TASK_AT + 8) != task;
        self.clear();
        self.record.extend_from_slice(record);
        let is_its = self.held.last().is_some_and(|hit| hit.is_of(read, record));
        self.is_first = is_new && !is_its;
        // A task's first walk after its sample.
        self.follows |= is_new && is_its;
        if is_its {
            self.used.extend(self.held.iter().map(|hit| hit.id));
        }
        self.held.drain(..).for_each(|hit| hit.write(read, record, callers, out));
    }

    pub(super) fn sampled(&mut self, read: &[u8], hit: Hit, callers: &[Range<u64>], out: &mut RecordOutput<'_, '_>) {
        if hit.is_of(read, &self.record) && !self.used.contains(&hit.id) {
            // A task's first walk before its sample.
            self.follows &= !self.is_first;
            if !self.follows {
                self.used.push(hit.id);
                self.release(read, callers, out);
                return hit.write(read, &self.record, callers, out);
            }
        }
        if self.held.last().is_some_and(|held| held.task(read) != hit.task(read) || held.id == hit.id) {
            self.release(read, callers, out);
        }
        self.held.push(hit);
    }

    /// Forgets the walk: records are missing.
    pub(super) fn lose(&mut self, read: &[u8], callers: &[Range<u64>], out: &mut RecordOutput<'_, '_>) {
        self.release(read, callers, out);
        self.clear();
    }

    /// Writes the held samples without a walk.
    pub(super) fn release(&mut self, read: &[u8], callers: &[Range<u64>], out: &mut RecordOutput<'_, '_>) {
        self.held.drain(..).for_each(|hit| hit.write(read, &[], callers, out));
    }

    fn clear(&mut self) {
        self.record.clear();
        self.used.clear();
        self.is_first = false;
    }
}
