//! Context switches and wake-ups that a BPF program wrote in batches. This module turns each event of a batch into the
//! sample that the kernel would have written at its tracepoint, so that readers of records need not know of batches.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::event::format::{Field, Format};
use crate::kernel::attr::sample;
use crate::kernel::switch_batches::{EVENT, EVENTS, PartialBatch, SchedEventKind, SwitchEvent};
use crate::record::in_place::{put, u64_at};
use crate::record::kinds::{HEADER, Header, encode, misc, types};
use crate::record::{Layout, SampleId};
use crate::source::Batch;

/// The offset of a batch in its record: after the header, the id, the task and the size. The number of its first event
/// is before the events.
const BATCH_AT: usize = HEADER + 20;
const EVENTS_AT: usize = BATCH_AT + 8;

/// The fields of samples that can be written.
const FIELDS: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::CPU
    | sample::PERIOD
    | sample::CALLCHAIN
    | sample::RAW
    | sample::CGROUP;

/// The content of a field of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    CurrentTid,
    CurrentPrio,
    CurrentComm,
    OtherTid,
    OtherPrio,
    OtherComm,
    State,
    One,
}

const OF_SWITCH: [(&str, Content); 7] = [
    ("prev_comm", Content::CurrentComm),
    ("prev_pid", Content::CurrentTid),
    ("prev_prio", Content::CurrentPrio),
    ("prev_state", Content::State),
    ("next_comm", Content::OtherComm),
    ("next_pid", Content::OtherTid),
    ("next_prio", Content::OtherPrio),
];
const OF_WAKEUP: [(&str, Content); 5] = [
    ("comm", Content::OtherComm),
    ("pid", Content::OtherTid),
    ("prio", Content::OtherPrio),
    ("target_cpu", Content::State),
    // Until Linux 6.0.
    ("success", Content::One),
];

/// The samples of a kind of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchedSample {
    /// The slot of the event.
    pub(crate) slot: usize,
    /// The id of its samples.
    pub(crate) id: u64,
    sample_type: u64,
    /// The raw data, with the tracepoint's number; the place, the size and the content of its fields.
    raw: Vec<u8>,
    fields: Vec<(usize, usize, Content)>,
}

impl BatchedSample {
    /// Returns `None` if samples need fields that batches lack.
    pub(crate) fn of(
        kind: SchedEventKind,
        (slot, id): (usize, u64),
        sample_type: u64,
        format: &Format,
    ) -> Option<Self> {
        let known: &[(&str, Content)] = if kind == SchedEventKind::Switch { &OF_SWITCH } else { &OF_WAKEUP };
        let content = |field: &Field| known.iter().find(|(name, _)| *name == field.name).map(|(_, content)| *content);
        let place = |field: &Field| Some((field.offset, field.size, content(field)?));
        let mut fields: Vec<(usize, usize, Content)> = format.own_fields().map(place).collect::<Option<_>>()?;
        let pid = format.field("common_pid").map(|field| (field.offset, field.size, Content::CurrentTid));
        fields.extend(pid);
        let end = fields.iter().map(|(offset, size, _)| offset.saturating_add(*size)).max()?;
        if sample_type & !FIELDS != 0 || end > usize::from(u16::MAX) / 2 {
            return None;
        }
        // The size has four bytes, and the total consists of 64-bit words.
        let mut raw = vec![0; (end + 4).next_multiple_of(8) - 4];
        let number = format.field("common_type").map_or(0, |field| field.offset);
        put(&mut raw, number, &(format.id as u16).to_le_bytes());
        Some(Self { slot, id, sample_type, raw, fields })
    }

    /// Appends the sample of an event.
    fn write(&self, event: &SwitchEvent, cpu: u32, out: &mut Vec<u8>) {
        // It is never too long.
        let _ = encode(out, types::SAMPLE, misc::KERNEL, |out| {
            let SwitchEvent { current, .. } = event;
            let words = [
                (sample::IDENTIFIER, self.id),
                (sample::IP, 0),
                (sample::TID, u64::from(event.pid as u32) | u64::from(current.tid as u32) << 32),
                (sample::TIME, event.time),
                (sample::CPU, cpu.into()),
                (sample::PERIOD, 1),
                (sample::CALLCHAIN, 0),
            ];
            let is_wanted = |field: u64| self.sample_type & field != 0;
            words.iter().filter(|(field, _)| is_wanted(*field)).for_each(|(_, word)| out.extend(word.to_le_bytes()));
            if is_wanted(sample::RAW) {
                out.extend((self.raw.len() as u32).to_le_bytes());
                let at = out.len();
                out.extend_from_slice(&self.raw);
                self.fill(event, &mut out[at..]);
            }
            if is_wanted(sample::CGROUP) {
                out.extend(event.cgroup.to_le_bytes());
            }
        });
    }

    fn fill(&self, event: &SwitchEvent, raw: &mut [u8]) {
        let SwitchEvent { current, other, state, .. } = event;
        for (at, size, content) in &self.fields {
            let number = match content {
                Content::CurrentTid => current.tid,
                Content::CurrentPrio => current.prio,
                Content::OtherTid => other.tid,
                Content::OtherPrio => other.prio,
                Content::State => *state as i32,
                Content::One => 1,
                Content::CurrentComm | Content::OtherComm => {
                    let task = if *content == Content::CurrentComm { current } else { other };
                    put(raw, *at, &task.comm[..task.comm.len().min(*size)]);
                    continue;
                }
            };
            let number = i64::from(number).to_le_bytes();
            put(raw, *at, &number[..number.len().min(*size)]);
        }
    }
}

/// The events of a CPU that were read.
#[derive(Clone, Copy, Debug, Default)]
struct ReadEvents {
    /// The number of the next event.
    next: u64,
    /// Whether events before the current buffer were missing in the previous reading: their record may still come.
    has_gap: bool,
    /// The events that one program lost because it interrupted another.
    lost: u64,
}

/// The decoder of batches.
#[derive(Debug, Default)]
pub(crate) struct BatchedEvents {
    /// The ids of the events through which programs write batches, also of closed ones.
    pub(crate) writers: FxHashSet<u64>,
    pub(crate) samples: BTreeMap<SchedEventKind, BatchedSample>,
    read: BTreeMap<u32, ReadEvents>,
    /// The events of each slot, and the lost ones, since they were last taken.
    counts: BTreeMap<usize, u64>,
    lost: u64,
}

impl BatchedEvents {
    /// Begins with an event of a CPU, by its number.
    pub(crate) fn begin(&mut self, cpu: u32, next: u64, lost: u64) {
        self.read.insert(cpu, ReadEvents { next, has_gap: false, lost });
    }

    /// Returns the number of a CPU's next event.
    pub(crate) fn next(&self, cpu: u32) -> u64 {
        self.read.get(&cpu).map_or(0, |read| read.next)
    }

    /// Returns the events of each slot since the last call, and the lost events.
    pub(crate) fn take_counts(&mut self) -> (BTreeMap<usize, u64>, u64) {
        (std::mem::take(&mut self.counts), std::mem::take(&mut self.lost))
    }

    /// Returns whether a record is a batch.
    pub(super) fn is_batch(&self, header: Header, record: &[u8]) -> bool {
        header.kind == types::SAMPLE && u64_at(record, HEADER).is_some_and(|id| self.writers.contains(&id))
    }

    /// Adds the samples of a CPU's batch. Events of a damaged one are lost, which the next one shows.
    pub(super) fn expand(&mut self, cpu: u32, record: &[u8], layout: &Layout, batch: &mut Batch) {
        let events = record.get(EVENTS_AT..).and_then(|events| events.get(..EVENT * EVENTS as usize));
        let Some((first, events)) = u64_at(record, BATCH_AT).zip(events) else { return };
        let Some(read) = self.read.get_mut(&cpu) else { return };
        read.has_gap = false;
        self.add(cpu, first, events, layout, batch);
    }

    /// Adds the samples of the events that are in no batch yet, after the ring was read.
    pub(super) fn add_partial(&mut self, cpu: u32, partial: &PartialBatch, layout: &Layout, batch: &mut Batch) {
        let Some(read) = self.read.get_mut(&cpu) else { return };
        let interrupted = partial.lost.saturating_sub(std::mem::replace(&mut read.lost, partial.lost));
        // Without the record of the previous buffer, it may have been written after the ring was read.
        let has_gap = partial.first > read.next;
        if !has_gap || std::mem::replace(&mut read.has_gap, true) {
            read.has_gap = false;
            self.add(cpu, partial.first, &partial.events, layout, batch);
        }
        if interrupted > 0 {
            self.lose(cpu, interrupted, crate::kernel::monotonic_ns(), layout, batch);
        }
    }

    /// Adds events from the number `first` on, without those that are known.
    fn add(&mut self, cpu: u32, first: u64, events: &[u8], layout: &Layout, batch: &mut Batch) {
        let (events, _) = events.as_chunks::<EVENT>();
        let next = self.next(cpu);
        let known = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        let fresh = events.get(known..).unwrap_or_default();
        let times = fresh.first().and_then(|event| u64_at(event, 0));
        let until = times.unwrap_or_else(crate::kernel::monotonic_ns);
        self.lose(cpu, first.saturating_sub(next), until, layout, batch);
        for event in fresh {
            let event = SwitchEvent::parse(event);
            let Some((event, of)) = event.and_then(|event| Some((event, self.samples.get(&event.kind)?))) else {
                continue;
            };
            batch.index.push((event.time, batch.bytes.len()));
            of.write(&event, cpu, &mut batch.bytes);
            *self.counts.entry(of.slot).or_default() += 1;
        }
        if let Some(read) = self.read.get_mut(&cpu) {
            read.next = next.max(first.saturating_add(events.len() as u64));
        }
    }

    /// Adds a record of lost events.
    fn lose(&mut self, cpu: u32, lost: u64, time: u64, layout: &Layout, batch: &mut Batch) {
        let Some(of) = self.samples.values().next().filter(|_| lost > 0) else { return };
        let trailer = layout.encode_trailer(&SampleId { pid: -1, tid: -1, time, id: of.id, cpu });
        let place = batch.bytes.len();
        let written = encode(&mut batch.bytes, types::LOST, 0, |out| {
            out.extend_from_slice(&of.id.to_le_bytes());
            out.extend_from_slice(&lost.to_le_bytes());
            out.extend_from_slice(&trailer);
        });
        if written.is_some() {
            batch.index.push((time, place));
        }
        self.lost = self.lost.saturating_add(lost);
    }
}

#[cfg(test)]
mod tests;
