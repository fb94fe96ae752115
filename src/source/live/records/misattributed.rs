//! Correction of samples of software events that have the id and the time of another session's event. If several events
//! count the same fault or switch, kernels since 6.2 build all their samples from the data prepared for the first
//! event, which may belong to another session (`___perf_sw_event`, `perf_prepare_sample`).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::kernel::attr::{Attr, SwKind, sample};
use crate::perfdata::layout;
use crate::record::Layout;
use crate::record::in_place::{put, u64_at};
use crate::record::kinds::{HEADER, Header, misc};

use super::output::TIME_AT;

/// The maximum number of cached foreign ids; beyond it, all are determined again.
const MAX: usize = 1 << 12;
/// The offset of a sample's id.
const ID_AT: usize = HEADER;

#[derive(Debug, Default)]
pub(crate) struct MisattributedSamples {
    /// Our ids; `None` for events that do not share samples.
    ours: FxHashMap<u64, Option<Shared>>,
    /// One id of each slot that may share its samples, with its layout.
    shared: BTreeMap<usize, (u64, Shared)>,
    theirs: FxHashMap<u64, u64>,
    latest: FxHashMap<u32, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Shared {
    kind: SwKind,
    layout: Layout,
}

impl MisattributedSamples {
    pub(crate) fn learn(&mut self, slot: usize, id: u64, attr: &Attr) {
        let shared = attr.shared().map(|kind| Shared { kind, layout: layout(attr) });
        self.ours.insert(id, shared);
        match shared {
            Some(shared) => self.shared.insert(slot, (id, shared)),
            None => self.shared.remove(&slot),
        };
    }

    /// Returns whether an event shares samples, so that they must be corrected.
    pub(crate) fn is_used(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Returns the time of a ring's last sample.
    pub(super) fn latest(&self, ring: u32) -> u64 {
        self.latest.get(&ring).copied().unwrap_or_default()
    }

    pub(super) fn set_latest(&mut self, ring: u32, latest: u64) {
        self.latest.insert(ring, latest);
    }

    /// Corrects a sample: sets the id of our event, and a time between the ring's `latest` and now. Records of our own
    /// programs, recognized by their ids, are not samples.
    pub(super) fn correct(
        &mut self,
        latest: &mut u64,
        now: u64,
        header: Header,
        record: &mut [u8],
        is_written: impl Fn(u64) -> bool,
    ) {
        let (Some(id), Some(time)) = (u64_at(record, ID_AT), u64_at(record, TIME_AT)) else { return };
        match self.ours.get(&id) {
            Some(None) => return *latest = time.max(*latest),
            Some(Some(_)) => {}
            None if is_written(id) => return,
            None => match self.owner(id, header, &record[HEADER..]) {
                Some(owner) => put(record, ID_AT, &owner.to_le_bytes()),
                None => return,
            },
        }
        // Samples are written in order of time.
        *latest = time.clamp(*latest, now.max(*latest));
        put(record, TIME_AT, &latest.to_le_bytes());
    }

    /// Returns our event's id for a sample's foreign id. Both count the same, so a foreign id always has one result.
    fn owner(&mut self, id: u64, header: Header, body: &[u8]) -> Option<u64> {
        if let Some(id) = self.theirs.get(&id) {
            return Some(*id);
        }
        let whole = |(_, shared): &&(u64, Shared)| shared.takes(header, body).is_some();
        let exactly = |(_, shared): &&(u64, Shared)| shared.takes(header, body) == Some(true);
        let (mut all, mut rest) = (self.shared.values(), self.shared.values());
        let found = all.find(exactly).or_else(|| rest.find(whole)).map(|(id, _)| *id);
        if self.theirs.len() >= MAX {
            self.theirs.clear();
        }
        found.inspect(|found| {
            self.theirs.insert(id, *found);
        })
    }
}

impl Shared {
    /// Returns whether a sample may be of this kind and layout; `None` if decoding fails.
    fn takes(&self, header: Header, body: &[u8]) -> Option<bool> {
        let sample = self.layout.sample(header, body).ok()?;
        let behind = sample::PHYS_ADDR | sample::CGROUP | sample::DATA_PAGE_SIZE | sample::CODE_PAGE_SIZE;
        let rest = 8 * (self.layout.sample_type & behind).count_ones() as usize;
        let in_user = header.misc & misc::CPUMODE_MASK == misc::USER;
        let has_address = self.layout.sample_type & sample::ADDR != 0 && sample.addr != 0;
        let is_fault = self.kind == SwKind::Fault;
        Some(sample.tail.len() == rest && if is_fault { in_user || has_address } else { !in_user && !has_address })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipeline::RecordPipeline;
    use super::super::strings::StringJoiner;
    use super::*;
    use crate::kernel::attr::sample::{ADDR, CALLCHAIN, CPU, IDENTIFIER, IP, PERIOD, TID, TIME};
    use crate::kernel::attr::{SW_CPU_CLOCK, TYPE_SOFTWARE};
    use crate::record::kinds::tests;
    use crate::record::kinds::{WholeRecords, types};

    const USUAL: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN;
    const CLOCK: u64 = 1;
    const FAULTS: u64 = 10;
    const SWITCHES: u64 = 11;
    const WRITER: u64 = 20;

    fn borrowed() -> MisattributedSamples {
        let mut borrowed = MisattributedSamples::default();
        let events = [(CLOCK, SW_CPU_CLOCK, USUAL), (FAULTS, 2, USUAL | ADDR), (SWITCHES, 3, USUAL)];
        for (slot, (id, config, sample_type)) in events.into_iter().enumerate() {
            borrowed.learn(slot, id, &Attr { kind: TYPE_SOFTWARE, config, sample_type, ..Attr::default() });
        }
        borrowed
    }

    fn record(mode: u16, words: &[u64]) -> Vec<u8> {
        tests::record(types::SAMPLE, mode, &tests::bytes(words))
    }

    fn fault(id: u64, time: u64) -> Vec<u8> {
        record(misc::USER, &[id, 0x10, 7, time, 0x7000, 0, 1, 2, 0x10, 0x20])
    }

    fn other(id: u64, time: u64) -> Vec<u8> {
        record(misc::KERNEL, &[id, 0x10, 7, time, 0, 1, 2, 0x10, 0x20])
    }

    fn mended(borrowed: &mut MisattributedSamples, records: &[Vec<u8>], now: u64) -> Vec<(u64, u64)> {
        let mut strings = StringJoiner::writing_by(WRITER);
        let strings = Some(&mut strings);
        let bytes = RecordPipeline { misattributed: Some(borrowed), strings, now, ..RecordPipeline::default() }
            .passed(0, &records.concat());
        let field = |record: &[u8], at: usize| u64_at(record, at).expect("a field");
        let read = |(_, record): (Header, &[u8])| (field(record, ID_AT), field(record, TIME_AT));
        WholeRecords { rest: &bytes }.map(read).collect()
    }

    #[test]
    fn samples_are_of_the_event_that_counts_what_they_tell() {
        let mut borrowed = borrowed();
        let read = mended(&mut borrowed, &[fault(90, 5), other(91, 6), other(CLOCK, 7), fault(FAULTS, 8)], 100);
        assert_eq!(read, [(FAULTS, 5), (SWITCHES, 6), (CLOCK, 7), (FAULTS, 8)]);
        // A kernel fault at address 0 looks like a switch; it gets the id of earlier samples.
        let vague = record(misc::KERNEL, &[90, 0x10, 7, 9, 0, 0, 1, 2, 0x10, 0x20]);
        assert_eq!(mended(&mut borrowed, &[vague], 100), [(FAULTS, 9)]);
    }

    #[test]
    fn times_are_between_the_sample_before_and_now() {
        let mut borrowed = borrowed();
        let read = mended(&mut borrowed, &[other(CLOCK, 50), fault(FAULTS, 3), fault(90, 999), other(91, 60)], 100);
        assert_eq!(read, [(CLOCK, 50), (FAULTS, 50), (FAULTS, 100), (SWITCHES, 100)]);
        assert_eq!(mended(&mut borrowed, &[fault(FAULTS, 101)], 200), [(FAULTS, 101)]);
    }

    /// It may look like a sample, but has no time at that offset.
    #[test]
    fn what_programs_wrote_is_no_sample() {
        let read = mended(&mut borrowed(), &[other(WRITER, 90), other(91, 6)], 100);
        assert_eq!(read, [(SWITCHES, 6)]);
    }

    #[test]
    fn others_and_damaged_records_are_left_alone() {
        // No event has this id, and no event shares its samples.
        let mut clock = MisattributedSamples::default();
        let attr = Attr { kind: TYPE_SOFTWARE, config: SW_CPU_CLOCK, sample_type: USUAL, ..Attr::default() };
        clock.learn(0, CLOCK, &attr);
        assert_eq!(mended(&mut clock, &[fault(90, 5)], 1), [(90, 5)]);
        let whole = [fault(90, 5), other(91, 6)].concat();
        for odd in crate::damage::each_byte(&whole) {
            RecordPipeline { misattributed: Some(&mut borrowed()), now: 9, ..RecordPipeline::default() }
                .passed(0, &odd);
        }
    }
}
