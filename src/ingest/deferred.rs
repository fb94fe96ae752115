//! Deferred user call chains: the kernel unwinds them when a thread returns to user code (`defer_callchain`, since
//! 6.19). A sample's chain ends with a cookie; a later record has the cookie and the chain. After the first such
//! sample, records wait in order until the sample is complete.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::kernel::attr::{Flag, sample};
use crate::perfdata::EventDesc;
use crate::record::kinds::{encode, split, types};
use crate::record::sample::{DeferredChain, Layout};
use crate::session::hosts::HostId;

use super::IngestState;

/// The maximum bytes of waiting records: beyond them, the oldest sample is applied without its user chain.
const ROOM: usize = 64 << 20;

/// The machine, the thread and the cookie that identify a chain. Records without a thread have -1.
type Cookie = (HostId, i32, u64);

#[derive(Debug)]
struct Held {
    input: usize,
    time: u64,
    bytes: Vec<u8>,
    lacks: Option<Cookie>,
}

#[derive(Debug)]
pub(crate) struct Deferred {
    is_used: bool,
    held: VecDeque<Held>,
    first: u64,
    /// The numbers of the samples that lack a chain.
    open: FxHashMap<Cookie, Vec<u64>>,
    bytes: usize,
    room: usize,
}

impl Default for Deferred {
    fn default() -> Self {
        let (held, open) = (VecDeque::new(), FxHashMap::default());
        Self { is_used: false, held, first: 0, open, bytes: 0, room: ROOM }
    }
}

impl Deferred {
    pub(crate) fn learn_events(&mut self, events: &[EventDesc]) {
        let defers = |event: &EventDesc| event.attr.has(Flag::DeferCallchain) || event.attr.has(Flag::DeferOutput);
        self.is_used |= events.iter().any(defers);
    }

    /// Takes the next record in order of time, and applies those that are due.
    pub(crate) fn take(&mut self, core: &mut IngestState, input: usize, time: u64, record: &[u8]) {
        if !self.is_used {
            return core.apply(input, time, record);
        }
        let Ok(Some((header, body, _))) = split(record) else { return };
        let machine = core.summary.hosts.of_input(input);
        let lacks = match header.kind {
            types::CALLCHAIN_DEFERRED => {
                if let Some(chain) = DeferredChain::read(body) {
                    let (layout, _) = core.form(input, header, body);
                    let tid = layout.trailer(body).map_or(-1, |id| thread(layout, id.tid));
                    self.join(core, (machine, tid, chain.cookie), chain.words);
                }
                None
            }
            types::SAMPLE => {
                let (layout, _) = core.form(input, header, body);
                let sample = core.decode(input, header, body);
                sample.and_then(|(_, sample)| Some((machine, thread(layout, sample.tid), sample.deferred?)))
            }
            _ => None,
        };
        if self.held.is_empty() && lacks.is_none() {
            return core.apply(input, time, record);
        }
        if let Some(cookie) = lacks {
            self.open.entry(cookie).or_default().push(self.first + self.held.len() as u64);
        }
        self.bytes += usize::from(header.size);
        self.held.push_back(Held { input, time, bytes: record[..usize::from(header.size)].to_vec(), lacks });
        self.release(core, self.room);
    }

    pub(crate) fn finish(&mut self, core: &mut IngestState) {
        self.release(core, 0);
    }

    fn join(&mut self, core: &mut IngestState, cookie: Cookie, user: &[u8]) {
        for number in self.open.remove(&cookie).unwrap_or_default() {
            let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
            let Some(held) = at.and_then(|at| self.held.get_mut(at)) else { continue };
            held.lacks = None;
            if let Some(whole) = joined(core, held, user) {
                self.bytes = self.bytes + whole.len() - held.bytes.len();
                held.bytes = whole;
            }
        }
        self.release(core, self.room);
    }

    /// Applies records from the oldest on, while they are complete or exceed the memory limit.
    fn release(&mut self, core: &mut IngestState, room: usize) {
        while let Some(held) = self.held.pop_front_if(|held| held.lacks.is_none() || self.bytes > room) {
            self.first += 1;
            self.bytes -= held.bytes.len();
            if let Some(numbers) = held.lacks.and_then(|cookie| self.open.get_mut(&cookie)) {
                numbers.retain(|number| *number >= self.first);
            }
            core.apply(held.input, held.time, &held.bytes);
        }
    }
}

/// Returns the thread of a record; -1 if records do not carry it in both forms: in samples, and after other records.
fn thread(layout: Layout, tid: i32) -> i32 {
    if layout.id_all && layout.sample_type & sample::TID != 0 { tid } else { -1 }
}

/// Returns the record of a sample with its user chain in the place of the cookie; `None` if it would be too long.
fn joined(core: &IngestState, held: &Held, user: &[u8]) -> Option<Vec<u8>> {
    let (header, body, _) = split(&held.bytes).ok()??;
    let (_, sample) = core.decode(held.input, header, body)?;
    // The chain is a part of the body, after the number of its words.
    let start = sample.chain.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    let words = body.get(start.checked_sub(8)?..start)?.try_into().map(u64::from_le_bytes).ok()?;
    let behind = start.checked_add(usize::try_from(words).ok()?.checked_mul(8)?)?;
    let kept = sample.chain;
    let count = ((kept.len() + user.len()) / 8) as u64;
    let parts = [body.get(..start - 8)?, &count.to_le_bytes(), kept, user, body.get(behind..)?];
    let mut out = Vec::new();
    encode(&mut out, header.kind, header.misc, |out| parts.iter().for_each(|part| out.extend_from_slice(part)))?;
    Some(out)
}

#[cfg(test)]
mod tests;
