//! Ids of events that are opened while `record` writes: for CPUs that come online, and for new processes and
//! containers. Readers identify events by the ids that a recording lists; perf refuses records with other ids.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::perfdata::EventDesc;
use crate::record::Layout;
use crate::record::in_place::put;
use crate::record::kinds::{HEADER, Header, types};
use crate::source::FreshId;

/// Maximum number of ids in the header of a stream, so that they fit into a record.
const STREAMED: usize = 7000;

/// Listed ids, and the treatment of others.
pub(crate) struct RecordedIds {
    listed: FxHashSet<u64>,
    /// The header of a stream is already written: records with an unlisted id get a listed id of the same event.
    instead: Option<FxHashMap<u64, u64>>,
}

impl RecordedIds {
    /// Reduces the ids of events to those that are listed.
    pub(crate) fn new(events: &mut [EventDesc], is_streamed: bool) -> Self {
        if is_streamed {
            let most = (STREAMED / events.len().max(1)).max(1);
            events.iter_mut().for_each(|event| event.ids.truncate(most));
        }
        let listed = events.iter().flat_map(|event| &event.ids).copied().collect();
        Self { listed, instead: is_streamed.then(FxHashMap::default) }
    }

    pub(crate) fn learn(&mut self, events: &mut [EventDesc], ids: &[FreshId]) {
        for fresh in ids {
            let Some(event) = events.get_mut(usize::from(fresh.event)) else { continue };
            if !self.listed.insert(fresh.id) {
                continue;
            }
            match (&mut self.instead, event.ids.first()) {
                (Some(instead), Some(first)) => _ = instead.insert(fresh.id, *first),
                _ => event.ids.push(fresh.id),
            }
        }
    }

    /// Replaces unlisted ids in complete records of a stream.
    pub(crate) fn stand_in(&self, bytes: &mut [u8]) {
        let Some(instead) = self.instead.as_ref().filter(|instead| !instead.is_empty()) else { return };
        let mut at = 0;
        while let Some(header) = bytes.get(at..).and_then(Header::read) {
            let size = usize::from(header.size).max(HEADER);
            let Some(record) = bytes.get_mut(at..at + size) else { break };
            at += size;
            if header.kind >= types::USER_START {
                continue;
            }
            let id = Layout::identifier(header.kind, &record[HEADER..]);
            if let Some(listed) = id.and_then(|id| instead.get(&id)) {
                let place = if header.kind == types::SAMPLE { HEADER } else { size - 8 };
                put(record, place, &listed.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::Attr;
    use crate::record::kinds::tests;

    fn events() -> Vec<EventDesc> {
        let event = |name: &str, ids: &[u64]| EventDesc { name: name.into(), attr: Attr::default(), ids: ids.to_vec() };
        vec![event("one", &[11, 12]), event("two", &[21, 22])]
    }

    fn fresh(id: u64, event: u16) -> FreshId {
        FreshId { id, event, layout: Layout::default(), period: 0 }
    }

    fn ids(events: &[EventDesc]) -> Vec<&[u64]> {
        events.iter().map(|event| &event.ids[..]).collect()
    }

    #[test]
    fn a_file_lists_all_at_its_end() {
        let mut events = events();
        let mut ours = RecordedIds::new(&mut events, false);
        ours.learn(&mut events, &[fresh(11, 0), fresh(21, 1), fresh(23, 1), fresh(23, 1), fresh(7, 2)]);
        assert_eq!(ids(&events), [&[11, 12][..], &[21, 22, 23]]);
        let record = tests::record(types::SAMPLE, 0, &tests::bytes(&[23, 1]));
        let mut same = record.clone();
        ours.stand_in(&mut same);
        assert_eq!(same, record);
    }

    #[test]
    fn in_a_stream_a_listed_one_stands_for_each_that_came_later() {
        let mut events = events();
        let mut ours = RecordedIds::new(&mut events, true);
        ours.learn(&mut events, &[fresh(12, 0), fresh(13, 0), fresh(23, 1)]);
        assert_eq!(ids(&events), [&[11, 12][..], &[21, 22]]);
        let records = |sample: u64, trailer: u64, own: u64| {
            let of = |kind, words: &[u64]| tests::record(kind, 0, &tests::bytes(words));
            // Ids at other positions, and records not from the kernel, stay unchanged.
            [
                of(types::SAMPLE, &[sample, 13, 13]),
                of(types::COMM, &[13, 23, trailer]),
                of(types::FINISHED_ROUND, &[own]),
                of(types::SAMPLE, &[12, 23]),
                of(types::COMM, &[]),
            ]
            .concat()
        };
        let mut bytes = records(13, 23, 13);
        ours.stand_in(&mut bytes);
        assert_eq!(bytes, records(11, 21, 13));
        for mut odd in crate::damage::each_byte(&records(13, 23, 13)) {
            ours.stand_in(&mut odd);
        }
    }

    /// On many CPUs and threads; perf's own streams do not support that many.
    #[test]
    fn a_stream_lists_no_more_than_a_record_holds() {
        let mut events = events();
        events[0].ids = (100..100 + 2 * STREAMED as u64).collect();
        let all: Vec<FreshId> = events[0].ids.iter().map(|id| fresh(*id, 0)).collect();
        let mut ours = RecordedIds::new(&mut events, true);
        assert_eq!((events[0].ids.len(), events[1].ids.len()), (STREAMED / 2, 2));
        ours.learn(&mut events, &all);
        let last = all.last().map_or(0, |fresh| fresh.id);
        let mut bytes = tests::record(types::SAMPLE, 0, &tests::bytes(&[last]));
        ours.stand_in(&mut bytes);
        assert_eq!(bytes, tests::record(types::SAMPLE, 0, &tests::bytes(&[100])));
    }
}
