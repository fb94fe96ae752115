//! The losses of a ring. The kernel reports what a full ring lost with the next record that fits; if none follows, as at
//! the end of a command, it reports nothing. The counters of the events know these losses (`PERF_FORMAT_LOST`, since
//! Linux 6.0). This module adds the records that the kernel does not write, so that all readers of records see all
//! losses, each once.

use crate::record::in_place::{put, u64_at};
use crate::record::kinds::{HEADER, encode, types};
use crate::record::{Layout, SampleId};
use crate::source::Batch;

/// More than the size of any record, whose header has 16 bits for it, and of the report of losses before it.
const LARGEST: usize = (1 << 16) + 256;
/// The offset of the number of lost records, after the event's id.
const NUMBER_AT: usize = HEADER + 8;

/// The losses of a ring, in records of any type.
#[derive(Debug, Default)]
pub(crate) struct RingLosses {
    /// All that readers of the ring's records know.
    reported: u64,
    /// The part of them that was reported before the kernel does.
    early: u64,
    /// The counters of events that are closed.
    closed: u64,
    /// The lost records of a program that sums what it cannot write.
    excused: u64,
    /// Whether the kernel may have lost records after the last one that was read.
    is_uncertain: bool,
}

impl RingLosses {
    /// Takes the kernel's report, and removes the losses that were reported before from it.
    pub(super) fn take(&mut self, record: &mut [u8]) {
        let Some(lost) = u64_at(record, NUMBER_AT) else { return };
        let known = lost.min(self.early);
        self.early -= known;
        self.reported = self.reported.saturating_add(lost - known);
        put(record, NUMBER_AT, &(lost - known).to_le_bytes());
    }

    /// Called after a drain of `bytes`, before which the ring had `room` of its `capacity`. The first record after a loss
    /// reports it.
    pub(super) fn drained(&mut self, bytes: usize, room: usize, capacity: usize) {
        // Copied stacks, the only large records, have larger rings than that unless locked memory is short.
        let largest = LARGEST.min(capacity / 2);
        self.is_uncertain = (self.is_uncertain && bytes == 0) || room < largest;
    }

    /// Takes the counter of a program that sums what it cannot write: its lost records are in the sums.
    pub(crate) fn excuse(&mut self, total: u64) {
        self.early = self.early.saturating_add(total.saturating_sub(self.excused));
        self.excused = total;
    }

    /// Adds the counter of an event that is closed.
    pub(crate) fn close(&mut self, lost: u64) {
        self.closed = self.closed.saturating_add(lost);
    }

    /// Returns whether losses may exist that only the events' counters know.
    pub(crate) fn are_uncertain(&self) -> bool {
        self.is_uncertain
    }

    /// Adds a record of the losses that the events' counters know, but that were not reported.
    pub(crate) fn report(&mut self, counted: CountedLosses, at: (u32, u64), layout: &Layout, batch: &mut Batch) {
        let missing = counted.lost.saturating_add(self.closed).saturating_sub(self.reported);
        if missing == 0 {
            return;
        }
        let (cpu, time) = at;
        let trailer = layout.encode_trailer(&SampleId { pid: -1, tid: -1, time, id: counted.id, cpu });
        let place = batch.bytes.len();
        let written = encode(&mut batch.bytes, types::LOST, 0, |out| {
            out.extend_from_slice(&counted.id.to_le_bytes());
            out.extend_from_slice(&missing.to_le_bytes());
            out.extend_from_slice(&trailer);
        });
        if written.is_some() {
            batch.index.push((time, place));
            self.reported = self.reported.saturating_add(missing);
            self.early = self.early.saturating_add(missing);
        }
    }
}

/// The counters of lost records of the events that write to a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountedLosses {
    lost: u64,
    /// The event that lost most of them, and their number.
    id: u64,
    most: u64,
}

impl CountedLosses {
    pub(crate) fn add(&mut self, lost: u64, id: u64) {
        self.lost = self.lost.saturating_add(lost);
        if self.id == 0 || lost > self.most {
            (self.id, self.most) = (id, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::{Attr, Flag, sample};
    use crate::perfdata::layout;
    use crate::record::kinds::WholeRecords;

    fn usual() -> Layout {
        let mut attr = Attr { sample_type: sample::IDENTIFIER | sample::TIME | sample::CPU, ..Attr::default() };
        attr.set(Flag::SampleIdAll, true);
        layout(&attr)
    }

    fn numbers(bytes: &[u8]) -> Vec<u64> {
        WholeRecords { rest: bytes }.filter_map(|(_, record)| u64_at(record, NUMBER_AT)).collect()
    }

    fn counted(lost: &[(u64, u64)]) -> CountedLosses {
        let mut sum = CountedLosses::default();
        lost.iter().for_each(|(id, lost)| sum.add(*lost, *id));
        sum
    }

    #[test]
    fn each_loss_is_reported_once() {
        let (mut losses, mut batch) = (RingLosses::default(), Batch::default());
        let kernel = |losses: &mut RingLosses, lost: u64| {
            let mut record =
                crate::record::kinds::tests::record(types::LOST, 0, &[7, lost].map(u64::to_le_bytes).concat());
            losses.take(&mut record);
            numbers(&record)[0]
        };
        assert_eq!(kernel(&mut losses, 10), 10);
        let report = |losses: &mut RingLosses, batch: &mut Batch, list: &[(u64, u64)]| {
            batch.clear();
            losses.report(counted(list), (3, 500), &usual(), batch);
            numbers(&batch.bytes)
        };
        assert_eq!(report(&mut losses, &mut batch, &[(7, 10), (8, 0)]), [0; 0], "the kernel has reported them");
        assert_eq!(report(&mut losses, &mut batch, &[(7, 12), (8, 30)]), [32]);
        assert_eq!(batch.index, [(500, 0)]);
        let header = WholeRecords { rest: &batch.bytes }.next().expect("a record").0;
        let id = usual().trailer(&batch.bytes[HEADER..]).expect("a sample id");
        assert_eq!((header.kind, id.time, id.cpu, id.id), (types::LOST, 500, 3, 8), "event 8 lost most");
        assert_eq!(report(&mut losses, &mut batch, &[(7, 12), (8, 30)]), [0; 0]);
        // The kernel reports the same losses when a record fits again, and 5 more.
        assert_eq!(kernel(&mut losses, 20), 0);
        assert_eq!(kernel(&mut losses, 17), 5);
        assert_eq!(report(&mut losses, &mut batch, &[(7, 12), (8, 35)]), [0; 0]);
        // A closed event keeps its counter.
        losses.close(12);
        assert_eq!(report(&mut losses, &mut batch, &[(8, 36)]), [1]);
    }

    /// Before Linux 6.0, only the fill level shows that the last records may be missing.
    #[test]
    fn a_ring_that_was_full_at_its_last_record_may_lack_others() {
        let mut losses = RingLosses::default();
        let mut after = |bytes, room| {
            losses.drained(bytes, room, 1 << 21);
            losses.are_uncertain()
        };
        assert_eq!([(0, LARGEST), (900, LARGEST)].map(|(bytes, room)| after(bytes, room)), [false, false]);
        assert_eq!([(900, 40), (0, 1 << 20), (0, 1 << 20)].map(|(bytes, room)| after(bytes, room)), [true; 3]);
        assert!(!after(64, 1 << 20), "the next record reports the loss");
    }

    /// A ring of 64 KiB has less room than the largest record needs, even while it is empty.
    #[test]
    fn a_small_ring_may_lack_records_only_if_it_was_more_than_half_full() {
        let is_uncertain = |filled: usize, capacity: usize| {
            let mut losses = RingLosses::default();
            losses.drained(filled, capacity - filled, capacity);
            losses.are_uncertain()
        };
        for capacity in [1 << 13, 1 << 15, 1 << 16] {
            let found = [0, 900, capacity / 2, capacity / 2 + 8, capacity - 8].map(|n| is_uncertain(n, capacity));
            assert_eq!(found, [false, false, false, true, true], "{capacity}");
        }
    }

    #[test]
    fn what_is_summed_instead_is_not_lost() {
        let mut losses = RingLosses::default();
        let kernel = |losses: &mut RingLosses, lost: u64| {
            let mut record = [0; NUMBER_AT + 8];
            put(&mut record, NUMBER_AT, &lost.to_le_bytes());
            losses.take(&mut record);
            u64_at(&record, NUMBER_AT)
        };
        losses.excuse(3);
        assert_eq!(kernel(&mut losses, 5), Some(2));
        losses.excuse(7);
        assert_eq!((kernel(&mut losses, 4), kernel(&mut losses, 1), losses.reported), (Some(0), Some(1), 3));
        // Another program begins.
        losses.excuse(0);
        losses.excuse(1);
        assert_eq!(kernel(&mut losses, 1), Some(0));
    }
}
