//! The end of the record pipeline: single records on their way into a batch, with their time and place.

use crate::record::Layout;
use crate::record::in_place::u64_at;
use crate::record::kinds::{HEADER, Header, WholeRecords, types};
use crate::source::Batch;

use super::outer_namespace::OuterNamespaceTasks;
use super::strings::RingStrings;

/// The offset of the time in all our samples: after id, address and task.
pub(super) const TIME_AT: usize = HEADER + 24;

/// Returns the time and the offset of each of our own records.
pub(crate) fn index(bytes: &[u8], layout: &Layout) -> Vec<(u64, usize)> {
    let begin = bytes.as_ptr().addr();
    let place = |(header, record): (Header, &[u8])| {
        (time_of(header, record, layout).unwrap_or(0), record.as_ptr().addr() - begin)
    };
    WholeRecords { rest: bytes }.map(place).collect()
}

/// Returns the time of a record in a layout of ours.
pub(super) fn time_of(header: Header, record: &[u8], layout: &Layout) -> Option<u64> {
    match header.kind {
        types::SAMPLE => u64_at(record, TIME_AT),
        _ => layout.trailer(&record[HEADER..]).map(|id| id.time),
    }
}

/// The end of the pipeline: strings and task numbers of single records, and their place in the batch.
pub(super) struct RecordOutput<'a, 's> {
    pub(super) batch: &'a mut Batch,
    pub(super) strings: Option<&'a mut RingStrings<'s>>,
    pub(super) outer: Option<&'a mut OuterNamespaceTasks>,
    pub(super) layout: &'a Layout,
}

impl RecordOutput<'_, '_> {
    pub(super) fn push(&mut self, record: &[u8]) {
        self.write(|bytes| {
            bytes.extend_from_slice(record);
            true
        });
    }

    /// Adds the record that `write` appends to the bytes, unless it returns `false`. Returns the same.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let bytes = &mut self.batch.bytes;
        let from = bytes.len();
        if !write(bytes) {
            return false;
        }
        let Some(header) = Header::read(&bytes[from..]) else { return true };
        let is_kept = self.strings.as_mut().is_none_or(|strings| strings.join(header, bytes, from))
            && self.outer.as_mut().is_none_or(|outer| outer.translate(header, &mut bytes[from..]));
        if is_kept {
            let time = time_of(header, &bytes[from..], self.layout).unwrap_or(0);
            self.batch.index.push((time, from));
        } else {
            bytes.truncate(from);
        }
        true
    }
}
